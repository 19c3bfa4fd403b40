"""The load from C, load/load.c: compiled when a measurement needs it, if there is a C compiler."""

from __future__ import annotations

import contextlib
import functools
import json
import pathlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

SOURCE = pathlib.Path(__file__).parent / "load" / "load.c"
NO_COMPILER = "no C compiler"


@dataclass(frozen=True)
class Answered:
    """What came back in one run. `bytes` are those of requests that were answered without an error; the median and the
    99th percentile are from a request to its answer, microseconds."""

    requests: int
    bytes: float
    errors: int
    first_error: int
    seconds: float
    p50_us: float
    p99_us: float

    @property
    def requests_per_second(self) -> float:
        return (self.requests - self.errors) / self.seconds

    @property
    def megabytes_per_second(self) -> float:
        return self.bytes / self.seconds / 1e6


@functools.cache
def compiler() -> str | None:
    return shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


class LoadGenerator:
    """The compiled program."""

    def __init__(self, program: pathlib.Path) -> None:
        self._program = program

    def versions(self, seconds: float, depth: int, targets: Sequence[str]) -> Answered:
        """ApiVersions, `depth` at a time on a connection to each target (host:port)."""
        return self._run("versions", seconds, depth, *targets)

    def produce(
        self,
        seconds: float,
        depth: int,
        topic: str,
        targets: Sequence[str],
        *,
        acks: int,
        records: int,
        record_bytes: int,
    ) -> Answered:
        """Produce, `depth` batches at a time on a connection to each target (host:port:partition)."""
        return self._run("produce", seconds, depth, topic, acks, records, record_bytes, *targets)

    def _run(self, *words: object) -> Answered:
        done = subprocess.run(
            [self._program, *map(str, words)], check=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=120
        )
        answered = Answered(**json.loads(done.stdout))
        if answered.errors == answered.requests:
            raise RuntimeError(
                f"{answered.errors} of {answered.requests} answers were errors, the first one "
                f"{answered.first_error}: {' '.join(map(str, words))}"
            )
        return answered


@contextlib.contextmanager
def load_generator() -> Iterator[LoadGenerator | None]:
    """The program; None without a C compiler."""
    found = compiler()
    if found is None:
        yield None
        return
    with tempfile.TemporaryDirectory() as directory:
        program = pathlib.Path(directory) / "load"
        subprocess.run([found, "-O2", "-std=c11", "-o", program, SOURCE], check=True)
        yield LoadGenerator(program)
