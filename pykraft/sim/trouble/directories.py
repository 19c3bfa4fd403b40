"""Trouble with log directories: a broker has two or three, replicas move between them, and one fails at any moment.

Each log directory is a disk of its own. What is asked of a disk that has broken fails. It breaks at once, or at the
next append, read, sync, checkpoint, creation of a file (a roll) or renaming of a folder (the swap that ends a move)
there; where replicas move, often the disk that one comes from or goes to.

*Failing.* The disk keeps its bytes, and after a while it works again. The broker goes on with its other directories. It
may end and begin again meanwhile, with the directory still bad; and once the disk works, it has to begin again to use
it. Any number of brokers may have a bad directory at once, and all other trouble goes on: nothing is lost, so what is
acknowledged stays as long as a replica of the ISR does. Where the metadata log is in the directory, the node ends, and
each new process of it, until the disk works.

*Replacing.* The disk is gone for good. The broker begins again with the directory empty, formatted under another id
(`REPLACED`); or with the id that it had and no logs (`EMPTIED`); or with what was synced (`TORN`). It lacks what it has
acknowledged. So it is as when power is lost without an ELR (`trouble.faults`): a directory is replaced only when each
replica is in sync, and nothing else befalls the brokers until its own are back in their ISRs. Meanwhile all must go as
Kafka promises, within a bound of time: the rest of the broker is served on, and others lead what was there.

The directory of a voter's metadata log is not replaced: that is a matter of voters (`trouble.wiped_disks`).

Follows KIP-112, KIP-113 and KIP-858.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from pykraft.common.settings.topic_config import UNCLEAN_LEADER_ELECTION_ENABLE
from pykraft.sim.trouble.drawn import Drawn
from pykraft.sim.trouble.transaction_members import draw_bank

DIRECTORY_SEEDS = range(8_250, 8_350)
"""In these seeds brokers have several log directories."""
FAILS, IS_REPLACED = "fail_directory", "replace_directory"
REPLACED, EMPTIED, TORN = "replaced", "emptied", "torn"
OUTCOMES = (REPLACED, EMPTIED, TORN)
NOW = "now"
MOMENTS = (NOW, "append", "read", "sync", "write", "create", "rename")
"""When a disk breaks: at once, or at the next of these operations on it."""
METADATA_ALONE = "/metadata"
_PATHS = ("/data", "/data-2", "/data-3")
_BANKS = ("groups", "elections", "elections", "groups", "elections", "bank")
_ALSO = ("crash", "crash_leader", "crash_controller", "crash_within_step", "stop", "partition", "stall", "clog")
_QUIET = {"straggler": 0.0, "breaks": 0.0, "ghost": 0.0, "late_to_clients": 0.0}


@dataclass(frozen=True)
class DirectoryKnobs:
    """The draw of a seed with several log directories. Times are milliseconds."""

    paths: tuple[str, ...]
    metadata_path: str
    """Where the metadata log is; nothing for the first of the paths."""
    move_every_ms: int
    """How often the administrator moves a replica."""
    slice_bytes: int
    """How much of a move is copied in a second."""
    bad_for_ms: tuple[int, int]
    """How long a disk is bad."""
    of_metadata: float
    """How often it is the metadata log's disk that fails."""
    restarts: float
    """How often the broker begins again while the disk is bad."""
    of_a_move: float
    """How often it is a disk that a replica moves from or to."""


def draw_directories(seed: int, draw_of: Callable[[int], Any]) -> Any:
    """The knobs of such a seed; `draw_of` gives those of a seed of a bank."""
    random = Random(f"directories {seed}")
    bank = random.choice(_BANKS)
    base = draw_bank(bank, random, draw_of)
    also = random.sample(_ALSO, random.choice((0, 1, 2, 3)))
    directories = DirectoryKnobs(
        paths=_PATHS[: random.choice((2, 2, 3))],
        metadata_path=random.choice(("", METADATA_ALONE)),
        move_every_ms=random.choice((30, 100, 250)),
        slice_bytes=random.choice((60_000, 1 << 20)),
        bad_for_ms=random.choice(((100, 800), (500, 2_500))),
        of_metadata=random.choice((0.0, 0.15)),
        restarts=random.choice((0.2, 0.7)),
        of_a_move=random.choice((0.3, 0.8)),
    )
    return replace(base, **_changes(base, directories, also, random), swarm=("directories", bank, *sorted(also)))


def _changes(base: Drawn, directories: DirectoryKnobs, also: list[str], random: Random) -> Mapping[str, Any]:
    """What the draw has instead of what it would have otherwise."""
    elections = base.elections
    faults = {FAILS: 3.0, IS_REPLACED: random.choice((0.0, 0.3, 1.0))}
    if "crash_coordinator" in base.faults:
        faults["crash_coordinator"] = 0.3
    return {
        **_QUIET,
        "faults": faults | dict.fromkeys(also, 0.4),
        "properties": {
            **base.properties,
            "log.segment.delete.delay.ms": 300,
            "log.flush.scheduler.interval.ms": 150,
            "log.initial.task.delay.ms": 100,
        },
        "partitions": 2,
        "fault_every_ms": 120,
        "background_us": random.choice((100, 5_000, 20_000)),
        "records_per_s": 20,
        "producers": base.producers[:2],
        "consumers": base.consumers[:1],
        "storm_from_ms": 1_000,
        "storm_until_ms": 7_000,
        "elections": elections and replace(elections, allows_unclean=False, orders_unclean=False),
        "topic": {
            **{name: value for name, value in base.topic.items() if name != UNCLEAN_LEADER_ELECTION_ENABLE.name},
            "internal.segment.bytes": random.choice((1_200, 5_000)),
            "flush.ms": 200,
        },
        "directories": directories,
    }
