"""Runs the suites: `python tests/run.py quick`, or `full`, `soak`, `bench`; `--list` shows them.

A suite is a row in SUITES. It runs as a process of its own, under a headline, with a time limit after which its whole
process group is ended, and its verdict is a line in the table at the end. A failed suite does not keep the following
ones from running: one run shows all that is broken. The exit status is 0 only if each suite passed.

`python tests/run.py full style golden` runs only the named suites of a set, the way the set would.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).resolve().parent.parent
SETS = {
    "quick": "for every commit, under 90 s",
    "full": "everything, under 20 minutes on two cores",
    "soak": "long runs with new random choices each time",
    "bench": "measurements",
}


@dataclass(frozen=True)
class Suite:
    """One row: what is run (`python -m MODULE arguments paths`), and in which sets."""

    name: str
    module: str
    paths: tuple[str, ...]
    sets: tuple[str, ...]
    arguments: tuple[str, ...] = ()
    limit_s: int = 600

    def command(self, set_name: str) -> list[str]:
        command = [sys.executable, "-m", self.module, *self.arguments]
        if self.module == "pytest":
            # The harness is named here too because notebooks/ and labs/ lie outside tests/ and its conftest.py.
            command += ["-q", "-p", "tests.harness.skips", "-p", "tests.harness.limits"]
            if set_name in ("quick", "full", "soak") and self.paths[0].startswith("tests/"):
                command.append(f"--hypothesis-profile={set_name}")
        return command + list(self.paths)

    def missing(self) -> list[str]:
        return [path for path in self.paths if not (ROOT / path).exists()]


ALWAYS = ("quick", "full")
BY_FILE = ("-n", "2", "--dist", "loadfile")
"""Two processes, each with files of its own: for suites that need no more than one core at a time."""
NBVAL = (
    "--nbval-lax",
    "--nbval-current-env",
    "--nbval-cell-timeout=120",
)  # the tagged cells are compared, all must run

SUITES = (
    Suite("lint", "ruff", (".",), ALWAYS, ("check",)),
    Suite("format", "ruff", (".",), ALWAYS, ("format", "--check")),
    Suite("types", "mypy", (), ALWAYS),
    Suite("style", "pytest", ("tests/style",), ALWAYS),
    Suite("unit", "pytest", ("tests/unit",), ALWAYS, BY_FILE),
    Suite("viz", "pytest", ("tests/viz",), ALWAYS),
    Suite("property", "pytest", ("tests/property",), (*ALWAYS, "soak"), BY_FILE),
    Suite("datasets", "pytest", ("tests/datasets",), ("full",)),
    Suite("protocol", "pytest", ("tests/protocol",), ("full",), BY_FILE),
    Suite("golden", "pytest", ("tests/golden",), ("full",)),
    Suite("crash", "pytest", ("tests/crash",), ("full",), BY_FILE),
    Suite("wire", "pytest", ("tests/wire",), ("full",)),
    Suite("interop", "pytest", ("tests/interop",), ("full",), BY_FILE),
    Suite("conformance", "pytest", ("tests/conformance",), ("full",)),
    Suite("spark", "pytest", ("tests/spark",), ("full",), BY_FILE),
    Suite("simulation", "pytest", ("tests/sim",), ("full",), limit_s=1200),
    Suite("cluster", "pytest", ("tests/cluster",), ("full",)),
    Suite("notebooks", "pytest", ("tests/notebooks", "notebooks"), ("full",), NBVAL),
    Suite("harness", "pytest", ("tests/harness",), ("full",)),
    Suite("environment", "pytest", ("tests/environment",), ("full",)),
    Suite("histories", "pykraft", (), ("soak",), ("simulate", "--count", "3000"), limit_s=6 * 3600),
    Suite("bench", "tests.bench", (), ("bench",), limit_s=1500),
)


def main(arguments: Sequence[str] | None = None) -> int:
    chosen = parse(arguments)
    suites = [suite for suite in SUITES if chosen.set in suite.sets]
    unknown = [name for name in chosen.suites if name not in {suite.name for suite in suites}]
    if unknown:
        say(f"{chosen.set} has no suite {unknown[0]}: it has {', '.join(suite.name for suite in suites) or 'none'}")
        return 2
    if chosen.list:
        show_list()
        return 0
    if chosen.suites:
        suites = [suite for suite in suites if suite.name in chosen.suites]
    if not suites:
        say(f"The set {chosen.set} is empty: nothing was run")
        return 1
    rows = [(suite.name, *run(suite, chosen.set)) for suite in suites]
    return summarize(chosen.set, rows)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Runs the suites of pykraft.")
    parser.add_argument("set", choices=sorted(SETS), nargs="?", default="quick")
    parser.add_argument("suites", nargs="*", help="only these suites of the set")
    parser.add_argument("--list", action="store_true", help="show the suites and what each runs")
    return parser.parse_args(arguments)


def show_list() -> None:
    for name, meaning in SETS.items():
        say(f"{name}: {meaning}")
        for suite in SUITES:
            if name in suite.sets:
                say(f"    {suite.name:<12} python {' '.join(suite.command(name)[1:])}")


def run(suite: Suite, set_name: str) -> tuple[str, float]:
    """Runs one suite; returns its verdict ("passed" or what went wrong) and its seconds."""
    say(f"\n--- {suite.name} " + "-" * max(0, 100 - len(suite.name)))
    missing = suite.missing()
    if missing:
        say(f"{missing[0]} does not exist")
        return f"failed: no {missing[0]}", 0.0
    started = time.monotonic()
    process = subprocess.Popen(suite.command(set_name), cwd=ROOT, stdin=subprocess.DEVNULL, process_group=0)
    status = wait_for(process, suite.limit_s)
    seconds = time.monotonic() - started
    if status is None:
        return f"failed: ended after its limit of {suite.limit_s} s", seconds
    return ("passed" if status == 0 else f"failed: exit status {status}"), seconds


def wait_for(process: subprocess.Popen[bytes], limit_s: int) -> int | None:
    """The exit status of a process that leads its own group, or None if the limit passed and the group was ended."""
    try:
        return process.wait(limit_s)
    except subprocess.TimeoutExpired:
        return None
    except KeyboardInterrupt:
        signal_group(process, signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(10)
        raise
    finally:
        # A suite leaves nothing behind, however it ended: what is left of its group goes with it.
        signal_group(process, signal.SIGKILL)
        process.wait()


def signal_group(process: subprocess.Popen[bytes], number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def summarize(set_name: str, rows: Sequence[tuple[str, str, float]]) -> int:
    failed = [name for name, verdict, _ in rows if verdict != "passed"]
    say(f"\n--- {set_name} " + "-" * max(0, 100 - len(set_name)))
    for name, verdict, seconds in rows:
        say(f"{name:<14}{seconds:>8.1f} s   {verdict}")
    verdict = "FAILED: " + ", ".join(failed) if failed else "passed"
    say(f"{'total':<14}{sum(row[2] for row in rows):>8.1f} s   {verdict}")
    return 1 if failed else 0


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("\nStopped.")
