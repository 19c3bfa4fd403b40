"""A lever of notebook 04: the same records in the page cache, and as objects in the memory of a process.

Apache Kafka's documentation (*Design*, "Don't fear the filesystem!") gives reasons against a cache of one's own.
Objects often take twice the memory of their data, or more. The garbage collector becomes slow as the heap grows. After
a restart the heap has to be filled again. Its section on efficiency adds that the bytes in the file are those that a
consumer wants. At each move, records of the reader's size are written to a file as pykraft's own batches, and are kept
as pykraft's own `Record` objects as well. Each reason is an experiment. So is what speaks for objects: one record is
there at once, while the page cache gives bytes, and these have to be decoded up to that record.

The objects are CPython's. A JVM's are smaller, and its collector moves them, while CPython's only looks at each one. So
the factors are not those of a broker in Java. Nor does a lever fill the memory of a machine to see the kernel drop
pages: that is not measured.

Memory is counted by ``tracemalloc``, so it is the same at each run. All else is time of the processor.
"""

import gc
import os
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from itertools import islice
from pathlib import Path

from pykraft.course.experiment import FEWEST_PAIRS, Experiment, Outcome
from pykraft.course.kernel import folder_for_measurements
from pykraft.course.lesson import HOLDS
from pykraft.records.batch import RecordBatch, batches
from pykraft.records.builder import RecordBatchBuilder
from pykraft.records.record import Record
from pykraft.viz import Figure, verdicts

MEMORY = "Objects take twice the memory"
COLLECTOR = "The collector has more to do"
RESTART = "A restart fills the heap again"
FETCH = "Bytes answer a fetch sooner"
LOOK = "Against it: objects give one record faster"
_OBJECTS, _PAGES = "objects", "page cache"
_BATCH_BYTES = 16_384
_READ_BYTES = 1 << 20
_TIMES = 20
_NOW_MS = 1_700_000_000_000


def draw_caches(records: int, record_bytes: int) -> Figure:
    """The reasons for the page cache, and one against it."""
    outcomes = outcomes_of(records, record_bytes)
    held = sum(outcome.verdict == HOLDS for name, outcome in outcomes.items() if name != LOOK)
    size = f"as objects {outcomes[MEMORY].factor:.1f} times as large"
    title = f"Records of {record_bytes:,} bytes: {size}; {held} of {len(outcomes) - 1} reasons for the page cache hold"
    rows = {name: outcome.finding for name, outcome in outcomes.items()}
    return verdicts(rows, title=title, note=f"{records:,} records, a moment old; each sentence needs a factor of 2")


def outcomes_of(records: int, record_bytes: int, seed: int = 0) -> dict[str, Outcome]:
    """What came of each sentence."""
    kept = KeptTwice(records, record_bytes)
    try:
        return {said: _plan(said).run(measure, seed) for said, measure in kept.measures().items()}
    finally:
        kept.close()


class KeptTwice:
    """Records in a file that was written a moment ago, and the same ones as objects; until `close`."""

    def __init__(self, records: int, record_bytes: int) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="caches-", dir=folder_for_measurements())
        self._path = Path(self._folder.name) / "log"
        self._records, self._in_batch = records, max(1, _BATCH_BYTES // record_bytes)
        self._first_batch_bytes = self._write(bytes(record_bytes))
        self._file = os.open(self._path, os.O_RDONLY)
        tracemalloc.start()
        before, _ = tracemalloc.get_traced_memory()
        self._objects = self._decoded()
        after, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        self._object_bytes = after - before

    def _write(self, value: bytes) -> int:
        sizes = []
        with self._path.open("wb") as file:
            for first in range(0, self._records, self._in_batch):
                builder = RecordBatchBuilder()
                for number in range(first, min(self._records, first + self._in_batch)):
                    builder.append(_NOW_MS + number, None, value)
                batch = RecordBatch(memoryview(builder.build()))
                batch.assign(first, 0)
                sizes.append(file.write(batch.buffer))
        return sizes[0]

    def _decoded(self) -> list[Record]:
        """All records of the file, as new objects."""
        data = memoryview(self._path.read_bytes())
        return [record for batch in batches(data) for record in batch.records()]

    def measures(self) -> dict[str, Callable[[str], float]]:
        """What measures one arm of each sentence's experiment."""
        return {
            MEMORY: self.memory,
            COLLECTOR: self.collection,
            RESTART: self.restart,
            FETCH: self.fetch,
            LOOK: self.look,
        }

    def memory(self, arm: str) -> float:
        """Bytes for each record."""
        return (self._object_bytes if arm == _OBJECTS else self._path.stat().st_size) / self._records

    def collection(self, arm: str) -> float:
        """Milliseconds of a pass of the collector that finds as many objects, or none. All others are frozen
        meanwhile: they are not the records'."""
        gc.freeze()
        try:
            new = self._decoded()
            if arm == _PAGES:
                gc.freeze()
            took = _cpu_s(gc.collect)
            del new
        finally:
            gc.unfreeze()
        return took * 1000

    def restart(self, arm: str) -> float:
        """Milliseconds until all records can be served again: the objects are made, or the pages are read once."""
        return _cpu_s(self._decoded if arm == _OBJECTS else self._read_all) * 1000

    def _read_all(self) -> None:
        position = 0
        while data := os.pread(self._file, _READ_BYTES, position):
            position += len(data)

    def fetch(self, arm: str) -> float:
        """Microseconds until the bytes of a batch can be sent."""
        one = self._encode if arm == _OBJECTS else self._read_batch
        return _cpu_s(lambda: [one() for _ in range(_TIMES)]) * 1e6 / _TIMES

    def _encode(self) -> bytearray:
        builder = RecordBatchBuilder()
        for record in islice(self._objects, self._in_batch):
            builder.append(record.timestamp, record.key, record.value)
        return builder.build()

    def _read_batch(self) -> bytes:
        return os.pread(self._file, self._first_batch_bytes, 0)

    def look(self, arm: str) -> float:
        """Microseconds until the record in the middle of a batch is there."""
        one = self._looked_up if arm == _OBJECTS else self._decode_up_to
        return _cpu_s(lambda: [one() for _ in range(_TIMES)]) * 1e6 / _TIMES

    def _looked_up(self) -> Record:
        return self._objects[min(self._in_batch, self._records) // 2]

    def _decode_up_to(self) -> Record:
        batch = RecordBatch(memoryview(self._read_batch()))
        return next(islice(batch.records(), batch.count // 2, None))

    def close(self) -> None:
        os.close(self._file)
        self._folder.cleanup()


def _cpu_s(work: Callable[[], object]) -> float:
    began = time.thread_time()
    work()
    return time.thread_time() - began


_UNITS = {MEMORY: "bytes a record", COLLECTOR: "ms a pass", RESTART: "ms", FETCH: "µs a batch", LOOK: "µs"}


def _plan(said: str) -> Experiment:
    compared = (_OBJECTS, _PAGES) if said != LOOK else (_PAGES, _OBJECTS)
    return Experiment(
        claim=f"{said}: with {compared[0]} it is at least 2 times as much as with {compared[1]}.",
        compared=compared,
        holds_if="at least 2 times",
        prediction=2,
        because="the documentation says so of memory, and its other reasons would be small ones below that",
        unit=_UNITS[said],
        pairs=FEWEST_PAIRS,
    )
