"""Runs the suites: `python tests/run.py quick`, or `full`, `soak`, `bench`; `--list` shows them.

A suite is a row in SUITES. It runs as a process of its own, under a headline, with a time limit after which its whole
process group is ended, and its verdict is a line in the table at the end, with its seconds by the clock and by the
processor. A failed suite does not keep the following ones from running: one run shows all that is broken. The exit
status is 0 only if each suite passed.

A suite needs one core, or half of one if it often waits for its nodes, and as many run at once as there are cores for:
what such a suite prints is shown when it has ended. Those that measure time need both cores, are alone, and show what
they print. Suites that yield only compute, and stand in a line of their own: one of them is at hand for the time in
which no other suite wants a core, and two if no other suite is there.

In the full set a few tests that failed are run once more at the end, alone: brokers in a cluster are fenced, and
elections are due, if other suites or another tenant of the machine keep them from the processor for seconds. What is
wrong fails alone, too. The table counts and names the tests that passed only then, and the log has both outputs.

A second try can also hide a race. So a suite that is deterministic gets none: what fails there once is wrong. And each
second try that was needed is kept for the last ten runs of its suite, in build/second_tries.json. After the table come
the tests that needed it twice: they are mended, or leave the full set.

`python tests/run.py full style golden` runs only the named suites of a set, the way the set would.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO, NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent
SETS = {
    "quick": "for every commit, under 90 seconds on two cores",
    "full": "everything, under 25 minutes on two cores",
    "judges": "tests and clients of other hands that take minutes, Apache Kafka's first",
    "soak": "long runs with new random choices each time",
    "bench": "measurements",
}


POLL_S = 0.05
PROGRESS_S = 60.0
"""This often the run shows the last line of each suite whose output is held back."""


class Row(NamedTuple):
    """What became of a suite: "passed" or what went wrong. `failed` are the tests of pytest that did, by their ids;
    `only_alone` are those that failed, and passed in their second try."""

    name: str
    verdict: str
    seconds: float
    cpu_seconds: float
    failed: tuple[str, ...] = ()
    only_alone: tuple[str, ...] = ()


@dataclass(frozen=True)
class Suite:
    """One row: what is run (`python -m MODULE arguments paths`), and in which sets."""

    name: str
    module: str
    paths: tuple[str, ...]
    sets: tuple[str, ...]
    arguments: tuple[str, ...] = ()
    limit_s: int = 600
    cores: float = 1
    yields: bool = False
    """Whether it gives way to whatever else runs, and so delays no other."""
    deterministic: bool = False
    """Whether the same code always gives the same verdict, on a busy machine too: no test gets a second try."""
    variables: tuple[tuple[str, str], ...] = ()
    """What it gets in its environment besides ours."""

    def command(self, set_name: str) -> list[str]:
        command = [sys.executable, "-m", self.module, *self.arguments]
        if self.module == "pytest":
            # The harness is named here too because notebooks/ and labs/ lie outside tests/ and its conftest.py.
            command += ["-q", *HARNESS]
            if not any(argument.startswith("--nbval") for argument in self.arguments):
                command += WITHOUT_NBVAL
            if self.yields:
                command += PATIENT
            if set_name in ("quick", "full", "soak") and self.paths[0].startswith("tests/"):
                command.append(f"--hypothesis-profile={set_name}")
            if set_name == "quick":
                command.append("--quick")
        return command + list(self.paths)

    def missing(self) -> list[str]:
        return [path for path in self.paths if not (ROOT / path.partition("::")[0]).exists()]

    def again(self, failed: Sequence[str]) -> Suite:
        """These tests alone. A notebook is run from its beginning: its cells need each other."""
        whole = (name.partition("::")[0] if ".ipynb" in name else name for name in failed)
        return dataclasses.replace(self, paths=tuple(dict.fromkeys(whole)), cores=CORES, yields=False)


TAIL_BYTES = 100
"""Of what a suite printed: about one line."""
LAST_TURN = 19
"""The priority of a suite that yields."""
PATIENT = ("-o", "time_limit=900", "-o", "faulthandler_timeout=1800")
"""Who waits for others is not to be ended for it."""
MOST_AGAIN = 6
"""If more tests of a run failed, none gets a second try: it is not the machine then."""
SECOND_TRIES = ROOT / "build" / "second_tries.json"
"""The tests that needed a second try, by suite: a list for each of its last runs, the newest last."""
RUNS_KEPT = 10
TOO_OFTEN = 2
"""In this many of those runs the machine is no excuse any more."""
CORES = 2
"""Of the machine that the limits are made for."""

ALWAYS = ("quick", "full")
HARNESS = ("-p", "tests.harness.quick_nbval", "-p", "tests.harness.skips", "-p", "tests.harness.limits")
WITHOUT_NBVAL = ("-p", "no:nbval")
"""Every pytest loads it, and it imports Jupyter's client, which takes half a second."""
NBVAL = (
    "--nbval-lax",
    "--nbval-current-env",
    "--nbval-cell-timeout=120",
)  # the tagged cells are compared, all must run

STRICT = ("--nbval", *NBVAL[1:])  # of the deterministic ones all outputs are compared, see notebooks/conftest.py

SLOW_READER = ("-p", "tests.harness.slow_reader")
BUDGET = (*SLOW_READER, "-p", "tests.harness.budget")
SMALL, FULL = ((("PYKRAFT_PROFILE", size),) for size in ("small", "full"))
"""How much data a notebook takes: as on Binder, or as on a reader's own machine."""

JUDGES = {
    path.stem.removeprefix("test_"): path.relative_to(ROOT).as_posix()
    for path in sorted(ROOT.glob("tests/judges/test_*.py"))
}
LONG_JUDGES_S = {"kafka_client_tests": 2 * 3600}
KAFKA_IS_ASKED = ("java_", "groups_", "transactions_", "transactional_", "rules_", "clients_meet_")
"""So begin the judges that are, or ask, Apache Kafka, and not a client of it or Spark."""
NEWEST_KAFKA = (("APACHE_KAFKA_VERSION", "4.4.0"),)
"""Apache Kafka is our base where nothing else is said (tests/harness/apache_kafka.py); so it is the newest release."""
OF_THE_BASE = {"java_migrations"}
"""It compares groups that change their protocol with what Kafka 4.2 has answered. Kafka 4.4 answers a classic member
whose group may not change with INCONSISTENT_GROUP_PROTOCOL, and see pykraft/SKIPPED.md on groups of KIP-848."""
NEWEST_JUDGES = {
    f"{name} of 4.4": path
    for name, path in JUDGES.items()
    if name.startswith(KAFKA_IS_ASKED) and name not in OF_THE_BASE
}
JUDGED_TWICE = tuple(
    f"tests/interop/test_{name}.py" for name in ("groups", "java_consumer_groups", "java_assignors", "transactions")
)
"""In `make test` these ask pykraft alone, or few cases; as judges Apache Kafka as well, or many."""

EACH_TEST = ("-vv", "--durations=5")
"""A line for each test, for those that take minutes."""

UNIT_OF_NODES = tuple(f"tests/unit/{name}" for name in ("broker", "controller", "coordinator", "raft"))
UNIT_OF_OTHERS = tuple(
    path.relative_to(ROOT).as_posix()
    for path in sorted(ROOT.glob("tests/unit/*"))
    if ((path.is_dir() and path.name != "__pycache__") or path.name.startswith("test_"))
    and path.relative_to(ROOT).as_posix() not in UNIT_OF_NODES
)
"""Half of the unit tests each: `make quick` has them on both cores."""

ASKED_LONGER = (
    "tests/unit",
    "tests/cluster",
    "tests/spark",
    "tests/interop",
    "tests/conformance",
    "tests/judges",
    "tests/scale",
    "tests/environment",
    "tests/crash",
    "tests/viz",
    "tests/datasets",
)
"""What is marked `long` in these runs in `make soak`. Apache Kafka itself has to pass the judges there."""

MEASURED = ("00", "04", "05", "09")
"""The notebooks that measure the machine: alone on both cores."""
WITH_SPARK = ("23", "24")
"""The notebooks whose JVM and workers take a core for themselves."""
NOTEBOOKS = tuple(path.relative_to(ROOT).as_posix() for path in sorted(ROOT.glob("notebooks/*.ipynb")))
MEASURED_NOTEBOOKS = tuple(path for path in NOTEBOOKS if pathlib.Path(path).name.startswith(MEASURED))
SPARK_NOTEBOOKS = tuple(path for path in NOTEBOOKS if pathlib.Path(path).name.startswith(WITH_SPARK))
OTHER_NOTEBOOKS = tuple(path for path in NOTEBOOKS if path not in (*MEASURED_NOTEBOOKS, *SPARK_NOTEBOOKS))
LAB_NOTEBOOKS = tuple(path.relative_to(ROOT).as_posix() for path in sorted(ROOT.glob("labs/*/lab.ipynb")))

# In this order: the two that wait most, which take one core together, as the course and the labs do later; what is
# quick to tell; then the long ones, then shorter ones, so that both cores end together. Beside all of them those that
# yield, the longest first. At last the notebooks that measure.
SUITES = (
    Suite("interop", "pytest", ("tests/interop",), ("full",), limit_s=900, cores=0.5),
    Suite("archive", "tests.spark.archive", (), ("full",)),
    Suite("cluster", "pytest", ("tests/cluster",), ("full",), cores=0.5),
    Suite("lint", "ruff", (".",), ALWAYS, ("check",)),
    Suite("format", "ruff", (".",), ALWAYS, ("format", "--check")),
    Suite("types", "mypy", (), ALWAYS),
    Suite("unit of nodes", "pytest", UNIT_OF_NODES, ALWAYS, deterministic=True),
    Suite("unit", "pytest", UNIT_OF_OTHERS, ALWAYS, deterministic=True),
    Suite("style", "pytest", ("tests/style",), ALWAYS),
    Suite("datadriven", "pytest", ("tests/datadriven",), ALWAYS, deterministic=True),
    Suite("viz", "pytest", ("tests/viz",), ("full",)),
    Suite("spark", "pytest", ("tests/spark",), ("full",), limit_s=900, cores=0.5),
    Suite("conformance", "pytest", ("tests/conformance",), ("full",)),
    Suite("course", "pytest", ("tests/notebooks",), ("full",), limit_s=900, cores=0.5),
    Suite("labs", "pytest", ("tests/labs",), ("full",), SLOW_READER, limit_s=900, cores=0.5),
    Suite("notebooks", "pytest", OTHER_NOTEBOOKS, ("full",), (*NBVAL, *BUDGET), limit_s=900, variables=SMALL),
    Suite("with Spark", "pytest", SPARK_NOTEBOOKS, ("full",), (*NBVAL, *BUDGET), limit_s=900, variables=SMALL),
    Suite("lab pages", "pytest", LAB_NOTEBOOKS, ("full",), (*NBVAL, *SLOW_READER)),
    Suite("harness", "pytest", ("tests/harness",), ("full",)),
    Suite("scale", "pytest", ("tests/scale",), ("full",)),
    Suite("live", "pytest", ("tests/live",), ("full",)),
    Suite("flood", "pytest", ("tests/flood",), ("full",)),
    Suite("datasets", "pytest", ("tests/datasets",), ("full",)),
    Suite("wire", "pytest", ("tests/wire",), ("full",)),
    Suite("environment", "pytest", ("tests/environment",), ("full",)),
    Suite(
        "measured", "pytest", MEASURED_NOTEBOOKS, ("full",), (*NBVAL, *BUDGET), limit_s=900, cores=2, variables=SMALL
    ),
    Suite("simulation", "pytest", ("tests/sim",), ("full",), limit_s=1800, yields=True, deterministic=True),
    Suite("story", "pytest", ("tests/story",), ("full",), yields=True, deterministic=True),
    Suite("story long", "pytest", ("tests/story",), ("soak",), ("--long", "-m", "long"), limit_s=3600),
    Suite("property", "pytest", ("tests/property",), (*ALWAYS, "soak"), limit_s=1800, yields=True, deterministic=True),
    Suite("crash", "pytest", ("tests/crash",), ("full",), limit_s=1800, yields=True, deterministic=True),
    Suite("golden", "pytest", ("tests/golden",), ("full",), limit_s=1800, yields=True, deterministic=True),
    Suite(
        "protocol", "pytest", ("tests/protocol",), ("full", "soak"), limit_s=2 * 3600, yields=True, deterministic=True
    ),
    *(
        Suite(name, "pytest", ("notebooks",), ("soak",), (*NBVAL, *BUDGET), limit_s=1800, cores=2, variables=size)
        for name, size in (("notebooks-1", SMALL), ("notebooks-2", SMALL), ("notebooks-full", FULL))
    ),
    Suite("notebooks-strict", "pytest", ("notebooks",), ("soak",), (*STRICT, *SLOW_READER), cores=2, variables=SMALL),
    Suite(
        "course long",
        "pytest",
        ("tests/notebooks", "tests/labs"),
        ("soak",),
        ("--long", "-m", "long"),
        limit_s=3600,
        cores=2,
    ),
    *(
        Suite(name, "pykraft", (), ("soak",), ("simulate", "--count", "1500"), limit_s=6 * 3600)
        for name in ("histories-1", "histories-2")
    ),
    Suite("swarms", "pykraft", (), ("soak",), ("simulate", "30300", "--count", "1000"), limit_s=6 * 3600),
    Suite("wide swarms", "pykraft", (), ("soak",), ("simulate", "35000", "--count", "1000"), limit_s=6 * 3600),
    Suite("simulation long", "pytest", ("tests/sim",), ("soak",), ("--long",), limit_s=2 * 3600, cores=2),
    *(
        Suite(name, "pytest", (path,), ("judges",), EACH_TEST, LONG_JUDGES_S.get(name, 1800), cores=2)
        for name, path in JUDGES.items()
    ),
    *(
        Suite(name, "pytest", (path,), ("judges",), EACH_TEST, 1800, cores=2, variables=NEWEST_KAFKA)
        for name, path in NEWEST_JUDGES.items()
    ),
    Suite("answers", "pytest", ("tests/conformance",), ("judges",), ("--long",), limit_s=1800, cores=2),
    *(
        Suite(name, "pytest", JUDGED_TWICE, ("judges",), (*EACH_TEST, "--long"), 1800, cores=2, variables=release)
        for name, release in (("beside Kafka", ()), ("beside Kafka 4.4", NEWEST_KAFKA))
    ),
    Suite("long", "pytest", ASKED_LONGER, ("soak",), (*EACH_TEST, "--long", "-m", "long"), limit_s=2 * 3600, cores=2),
    Suite("live long", "pytest", ("tests/live",), ("soak",), ("--long",), limit_s=3 * 3600, cores=2),
    Suite("flood long", "pytest", ("tests/flood",), ("soak",), (*EACH_TEST, "--long"), limit_s=2 * 3600, cores=2),
    Suite("bench", "tests.bench", (), ("bench",), limit_s=2 * 3600, cores=2),
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
    # A shell that starts us in the background lets us ignore it, and each process that we start would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    started = time.monotonic()
    rows = list(run(suites, chosen.set))
    often = []
    if chosen.set == "full":
        rows = tried_again(suites, rows)
        often = keep_second_tries(rows)
    status = summarize(chosen.set, rows, time.monotonic() - started)
    for line in often:
        say(line)
    return status


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


class Running:
    """A suite's process, which leads a group of its own."""

    def __init__(self, suite: Suite, set_name: str, folder: str, output: IO[bytes] | None = None) -> None:
        """`folder` is for its tests' files: two at once must not clear up in each other's."""
        self.suite = suite
        self._cache = pathlib.Path(folder) / "cache"
        self._output = output
        self._started = time.monotonic()
        self._process = subprocess.Popen(
            [*suite.command(set_name), *(("-o", f"cache_dir={self._cache}") if suite.module == "pytest" else ())],
            cwd=ROOT,
            env={**inherited(), "PYTEST_DEBUG_TEMPROOT": folder, **dict(suite.variables)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            process_group=0,
        )
        if suite.yields:
            os.setpriority(os.PRIO_PGRP, self._process.pid, LAST_TURN)

    def row(self) -> Row | None:
        """Its line in the table; None while it runs."""
        seconds = time.monotonic() - self._started
        pid, status, used = os.wait4(self._process.pid, os.WNOHANG)
        is_late = not pid and seconds >= self.suite.limit_s
        if not pid and not is_late:
            return None
        self.end()
        if is_late:
            verdict, cpu = f"failed: ended after its limit of {self.suite.limit_s} s", 0.0
        else:
            code = os.waitstatus_to_exitcode(status)
            verdict, cpu = f"failed: exit status {code}" if code else "passed", used.ru_utime + used.ru_stime
        if self._output is not None:
            headline(self.suite.name)
            self._output.seek(0)
            say(self._output.read().decode(errors="replace").rstrip())
        return Row(self.suite.name, verdict, seconds, cpu, () if is_late else self._failed())

    def _failed(self) -> tuple[str, ...]:
        with contextlib.suppress(FileNotFoundError):
            return tuple(json.loads((self._cache / "v" / "cache" / "lastfailed").read_text()))
        return ()

    def progress(self) -> str:
        """A line while its output is held back, else nothing. The suite writes at the file's own position: it is left
        where it is."""
        if self._output is None:
            return ""
        size = os.fstat(self._output.fileno()).st_size
        end = os.pread(self._output.fileno(), TAIL_BYTES, max(0, size - TAIL_BYTES))
        last = end.decode(errors="replace").strip().rpartition("\n")[2]
        return f"... {self.suite.name}, {time.monotonic() - self._started:.0f} s: {last}"

    def interrupt(self) -> None:
        signal_group(self._process, signal.SIGINT)

    def end(self) -> None:
        """A suite leaves nothing behind, however it ended: what is left of its group goes with it."""
        signal_group(self._process, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self._process.pid, 0)
        self._process.returncode = 0  # it was waited for here


def run(suites: Sequence[Suite], set_name: str) -> Iterator[Row]:
    """Runs the suites, in order, as many at once as there are cores for; their verdicts as they end."""
    waiting = list(suites)
    running: list[Running] = []
    next_progress = time.monotonic() + PROGRESS_S
    with contextlib.ExitStack() as held:

        def folder() -> str:
            directory = tempfile.TemporaryDirectory(prefix="pykraft-tests-", ignore_cleanup_errors=True)
            return held.enter_context(directory)

        try:
            while waiting or running:
                while (suite := next_of(waiting, [one.suite for one in running])) is not None:
                    waiting.remove(suite)
                    missing = suite.missing()
                    if missing:
                        headline(suite.name)
                        say(f"{missing[0]} does not exist")
                        yield Row(suite.name, f"failed: no {missing[0]}", 0.0, 0.0)
                    elif suite.cores < CORES and len(suites) > 1:
                        say(f"\n... {suite.name} begins")
                        output = held.enter_context(tempfile.TemporaryFile())
                        running.append(Running(suite, set_name, folder(), output))
                    else:
                        headline(suite.name)
                        running.append(Running(suite, set_name, folder()))
                if time.monotonic() >= next_progress:
                    next_progress += PROGRESS_S
                    for line in filter(None, (one.progress() for one in running)):
                        say(line)
                time.sleep(POLL_S)
                rows = {one: one.row() for one in running}
                running = [one for one, row in rows.items() if row is None]
                yield from (row for row in rows.values() if row is not None)
        except KeyboardInterrupt:
            for one in running:
                one.interrupt()
            deadline = time.monotonic() + 10
            while time.monotonic() < deadline and any(one.row() is None for one in running):
                time.sleep(POLL_S)
            raise
        finally:
            for one in running:
                one.end()


def tried_again(suites: Sequence[Suite], rows: Sequence[Row]) -> list[Row]:
    """The rows, with another verdict where all that failed passes when it is alone."""
    by_name = {suite.name: suite for suite in suites}
    if not 0 < sum(len(row.failed) for row in rows) <= MOST_AGAIN:
        return list(rows)
    return [
        _tried_again(by_name[row.name], row) if row.failed and not by_name[row.name].deterministic else row
        for row in rows
    ]


def _tried_again(suite: Suite, row: Row) -> Row:
    for name in row.failed:
        say(f"\n... second try of {name}")
    (again,) = run([suite.again(row.failed)], "full")
    if again.verdict == "passed":
        count, only_alone = len(row.failed), row.failed
        verdict = f"passed, {count} in a second {'try' if count == 1 else 'tries'}: {', '.join(only_alone)}"
    else:
        # A run that was ended names no test that failed.
        only_alone = tuple(name for name in row.failed if name not in again.failed) if again.failed else ()
        verdict = row.verdict
    seconds, cpu_seconds = row.seconds + again.seconds, row.cpu_seconds + again.cpu_seconds
    return Row(row.name, verdict, seconds, cpu_seconds, row.failed, only_alone)


def keep_second_tries(rows: Sequence[Row]) -> list[str]:
    """Add this run to the file of second tries; a line for each test of these suites that needs one too often."""
    kept: dict[str, list[list[str]]] = {}
    with contextlib.suppress(FileNotFoundError, json.JSONDecodeError):
        kept = json.loads(SECOND_TRIES.read_text())
    for row in rows:
        kept[row.name] = [*kept.get(row.name, []), list(row.only_alone)][-RUNS_KEPT:]
    SECOND_TRIES.parent.mkdir(exist_ok=True)
    SECOND_TRIES.write_text(json.dumps(kept, indent=1) + "\n")
    lines = []
    for row in rows:
        runs = kept[row.name]
        counts = Counter(name for names in runs for name in set(names))
        lines += [
            f"{name} needed a second try in {count} of the last {len(runs)} runs: mend it, or take it out of this set"
            for name, count in sorted(counts.items())
            if count >= TOO_OFTEN
        ]
    return lines


def next_of(waiting: Sequence[Suite], running: Sequence[Suite]) -> Suite | None:
    """The suite that may begin now: the first that waits, if there are cores for it; or else the first of those that
    yield, if it is their turn. Who needs all cores comes after those, and has them for itself."""
    used = sum(suite.cores for suite in running if not suite.yields)
    yielding = sum(suite.yields for suite in running)
    first = next((suite for suite in waiting if not suite.yields), None)
    patient = next((suite for suite in waiting if suite.yields), None)
    has_to_wait = first and first.cores == CORES and (patient or yielding)
    if first and not has_to_wait and first.cores + used <= CORES:
        return first
    is_measured = any(suite.cores == CORES for suite in running)
    return patient if not is_measured and yielding < (1 if used else CORES) else None


def inherited() -> dict[str, str]:
    """Our environment, but that Python may keep the bytecode of what it imports: containers like to forbid it, and each
    of the hundreds of nodes, kernels and workers would compile the same thousand modules once more."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def signal_group(process: subprocess.Popen[bytes], number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def summarize(set_name: str, rows: Sequence[Row], seconds: float) -> int:
    failed = [row.name for row in rows if not row.verdict.startswith("passed")]
    headline(set_name)
    width = max(len(row.name) for row in rows) + 2
    for row in rows:
        say(f"{row.name:<{width}}{row.seconds:>8.1f} s {row.cpu_seconds:>8.1f} CPU s   {row.verdict}")
    verdict = "FAILED: " + ", ".join(failed) if failed else "passed"
    say(f"{'total':<{width}}{seconds:>8.1f} s {sum(row.cpu_seconds for row in rows):>8.1f} CPU s   {verdict}")
    return 1 if failed else 0


def headline(name: str) -> None:
    say(f"\n--- {name} " + "-" * max(0, 100 - len(name)))


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("\nStopped.")
