"""What the metadata of 10,000, 100,000 and 1,000,000 partitions costs a controller: CPU time, turns and memory.

No cluster runs: it is the code of a controller, with a disk in memory (`tests.harness.large_metadata`, which says what
is measured). A turn is what the node's thread does before it answers the next heartbeat.
"""

from __future__ import annotations

from tests.bench.rows import Row, progress
from tests.harness.large_metadata import Figures, figures

COUNTS = (10_000, 100_000, 1_000_000)
TURN_MS = 100.0


def measure() -> list[Row]:
    return [row for partitions in COUNTS for row in _rows(figures(partitions))]


def _rows(found: Figures) -> list[Row]:
    name = f"{found.partitions:,} partitions"
    rows = []
    for phase, took in found.phases.items():
        rows.append(Row(f"{name}, {phase}", "CPU s", took.cpu_s, "", None, "once"))
        is_short, target = took.longest_turn_ms < TURN_MS, f"< {TURN_MS:g} ms"
        if took.longest_turn_ms:
            longest = f"{name}, {phase}: longest turn"
            rows.append(Row(longest, "ms", took.longest_turn_ms, "", None, "once", target, is_short))
    memory_kb = 1000 * found.phases["create"].memory_mb / found.partitions
    rows.append(Row(f"{name}, memory of each after they were made", "KB", memory_kb, "", None, "once"))
    rows.append(Row(f"{name}, snapshot", "MB", found.snapshot_mb, "", None, "once"))
    progress(f"{name}: " + ", ".join(f"{phase} {took.cpu_s:.2f} s" for phase, took in found.phases.items()))
    return rows
