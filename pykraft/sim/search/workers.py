"""Runs many seeds in processes of their own, several at once.

Each process imports the package from a directory: its own, or a copy that a patch has changed. It reads seeds
from its input, one a line, and answers each with a line of JSON. A history that does not end in time ends its process.
"""

import json
import os
import subprocess
import sys
from collections.abc import Generator, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryFile
from threading import Lock, Thread, Timer
from typing import NamedTuple

from pykraft.sim.bugs.rewriting import Rewrite
from pykraft.sim.search.coverage import Row
from pykraft.sim.search.patched import PACKAGE
from pykraft.sim.search.worker import COVERAGE, REWRITE, STEPS

LONGEST_S = 900.0
"""A history takes seconds. One that takes minutes has come into a loop."""
_WORKER = "pykraft.sim.search.worker"


class Outcome(NamedTuple):
    """What came of a seed."""

    seed: int
    law: str
    """The law that was broken; nothing if none was."""
    line: str
    """The report, or what was found."""
    step: int
    rows: tuple[Row, ...] = ()
    """Those of transition tables that its process has taken for the first time."""


class Unusable(RuntimeError):  # noqa: N818 (it tells what is the case)
    """The package in the directory cannot be imported, or has no such bug; the text says why."""


def cores() -> int:
    return os.cpu_count() or 1


def run_seeds(
    seeds: Iterable[int],
    jobs: int = 0,
    bug: str = "",
    root: Path = PACKAGE.parent,
    longest_s: float = LONGEST_S,
    has_coverage: bool = False,
    most_steps: int = 0,
    rewrite: Rewrite | None = None,
) -> Generator[Outcome, None, None]:
    """What comes of the seeds, as they end. `jobs` is how many run at once, 0 for one on each core. `root` is the
    directory that has the package. The processes end when nothing listens any more. With `has_coverage` each outcome
    has the rows that its history has taken. With `most_steps` a longer history ends there. A `rewrite` is put in place
    of its function after the bug was planted."""
    left, lock = iter(seeds), Lock()
    found: SimpleQueue[Outcome | Unusable | None] = SimpleQueue()

    def take() -> int | None:
        with lock:
            return next(left, None)

    def work(worker: _Worker) -> None:
        try:
            while (seed := take()) is not None:
                found.put(worker.run(seed, longest_s))
        except Unusable as reason:
            found.put(reason)
        finally:
            found.put(None)

    words = [bug, *([COVERAGE] if has_coverage else []), *([f"{STEPS}{most_steps}"] if most_steps else [])]
    if rewrite is not None:
        words.append(REWRITE + json.dumps(rewrite))
    workers = [_Worker(root, words) for _ in range(jobs or cores())]
    threads = [Thread(target=work, args=(worker,), daemon=True) for worker in workers]
    for thread in threads:
        thread.start()
    running = len(workers)
    try:
        while running:
            outcome = found.get()
            if isinstance(outcome, Unusable):
                raise outcome
            if outcome is None:
                running -= 1
            else:
                yield outcome
    finally:
        for worker in workers:
            worker.stop()
        for thread, worker in zip(threads, workers, strict=True):
            thread.join()
            worker.close()


class _Worker:
    """One process; a new one when it has ended."""

    def __init__(self, root: Path, words: Sequence[str]) -> None:
        self._root, self._arguments = root, words
        self._process: subprocess.Popen[str] | None = None
        self._is_over = False
        self._errors = TemporaryFile()  # noqa: SIM115 (closed on exit; a pipe that is not read would fill up)

    def stop(self) -> None:
        """From another thread: `run` returns soon, and starts nothing any more."""
        self._is_over = True
        process = self._process
        if process is not None:
            process.kill()

    def close(self) -> None:
        self._end()
        self._errors.close()

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                assert pipe is not None
                with suppress(OSError):
                    pipe.close()

    def run(self, seed: int, longest_s: float) -> Outcome:
        process = self._process or self._start()
        assert process.stdin is not None and process.stdout is not None
        timer = Timer(longest_s, process.kill)
        timer.start()
        try:
            process.stdin.write(f"{seed}\n")
            process.stdin.flush()
            answer = process.stdout.readline()
        except (OSError, ValueError):
            answer = ""
        finally:
            timer.cancel()
        if not answer:
            self._end()
            return Outcome(seed, "no law", f"seed {seed}: its process ended, or was ended after {longest_s:.0f} s", 0)
        fields = json.loads(answer)
        return Outcome(**{**fields, "rows": tuple((table, what) for table, what in fields["rows"])})

    def _start(self) -> "subprocess.Popen[str]":
        if self._is_over:
            raise Unusable("the search is over")
        environment = {**os.environ, "PYTHONPATH": str(self._root), "PYTHONDONTWRITEBYTECODE": "1"}
        process = subprocess.Popen(
            [sys.executable, "-m", _WORKER, *self._arguments],
            cwd=self._root,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            encoding="utf-8",
        )
        self._process = process
        if self._is_over:
            process.kill()
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            self._end()
            self._errors.seek(0)
            said = self._errors.read().decode(errors="replace").strip().splitlines()
            raise Unusable(said[-1] if said else "the process ended at once")
        return process
