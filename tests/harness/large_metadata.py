"""The metadata of very many partitions in one controller: made, a tenth of them moved, written and loaded, and timed.

The controller is that of a node, with slices of time as on a node; its quorum is itself, its disk is memory, and the
brokers are only names. So what is measured is the code, and no network. Times are CPU time of this process: another
process that keeps the machine busy does not count. A *turn* is one call that the node's thread would be in: while it
lasts, no heartbeat is answered.

::

    create     topics of a hundred partitions on three of ten brokers, as many in a request as Kafka allows
    fail       the session of broker 1 ends: it leads a tenth of all, and is in sync of three tenths
    count      another controller becomes the active one, and counts what each broker has
    write      a snapshot becomes bytes, as on the thread for long work: no turn
    read       a start reads the file and checks it
    load       it decodes the records and makes an image of them
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, TypeVar

import psutil

from pykraft.common.core import Steps
from pykraft.common.time_slice import ClockSlice, take_steps
from pykraft.common.types import OffsetAndEpoch
from pykraft.controller.partitions.brokers_to_isrs import BrokersToIsrs
from pykraft.controller.result import MAX_RECORDS_PER_REQUEST
from pykraft.course.lessons.scale.metadata_cost import without_collector
from pykraft.metadata.image import MetadataImage
from pykraft.metadata.loader import MetadataLoader
from pykraft.metadata.snapshot_generator import snapshot_of_image
from pykraft.raft.log.history import read_snapshot
from pykraft.raft.log.snapshot import snapshot_name, write_snapshot
from pykraft.raft.log.voters import NO_VOTERS
from pykraft.storage.disk.filesystem import OsFileSystem
from tests.harness.controllers import ControllerScript, make, new_topic
from tests.harness.quorum import replica

T = TypeVar("T")

BROKERS, PER_TOPIC, REPLICAS, FAILED = 10, 100, 3, 1
_TOPICS_AT_ONCE = MAX_RECORDS_PER_REQUEST // (PER_TOPIC + 1)
_SNAPSHOT = OffsetAndEpoch(20_000, 3)
_SILENCE_MS = 60_000


class Phase(NamedTuple):
    """What one of the steps took."""

    cpu_s: float
    longest_turn_ms: float
    """0 where there is no turn."""
    memory_mb: float
    """Of the process, more than before."""


class Figures(NamedTuple):
    """Of one count of partitions."""

    partitions: int
    phases: dict[str, Phase]
    records: int
    """Of the decision that broker 1 is fenced."""
    snapshot_mb: float
    image: MetadataImage
    """After that decision."""
    loaded: MetadataImage


class _CpuClock:
    """A stopwatch of this process's CPU time."""

    def time_ms(self) -> int:
        return 0

    def elapsed_us(self) -> int:
        return time.process_time_ns() // 1000


class _Stopwatch:
    """Measures phases, and the turns in them."""

    def __init__(self) -> None:
        self.phases: dict[str, Phase] = {}
        self._longest_s = 0.0

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        memory, began, self._longest_s = _memory_mb(), time.process_time(), 0.0
        yield
        took_s = time.process_time() - began
        self.phases[name] = Phase(took_s, 1000 * self._longest_s, _memory_mb() - memory)

    def turn(self, call: Callable[..., T]) -> Callable[..., T]:
        """The same call, measured."""

        def measured(*arguments: Any, **named: Any) -> T:
            began = time.process_time()
            try:
                return call(*arguments, **named)
            finally:
                self._longest_s = max(self._longest_s, time.process_time() - began)

        return measured

    def in_turns(self, steps: Steps[T]) -> T:
        """Take all steps, a slice in each turn."""
        time_slice, sent, take = ClockSlice(_CpuClock()), None, self.turn(take_steps)
        while True:
            time_slice.begin()
            is_done, value = take(steps, sent, time_slice, 0)
            if is_done:
                found: T = value
                return found
            sent = 0


def figures(partitions: int) -> Figures:
    """Make so many partitions, and measure; a multiple of a hundred."""
    stopwatch = _Stopwatch()
    with without_collector():
        script = _measured_script(stopwatch)
        with stopwatch.phase("create"):
            _create(script, partitions // PER_TOPIC)
        before = script.image.provenance.offset
        with stopwatch.phase("fail"):
            _fail(script)
        records = script.image.provenance.offset - before
        image = script.image
        del script
        index = BrokersToIsrs()
        with stopwatch.phase("count"):
            stopwatch.in_turns(index.turn_to(image))
        del index
        with TemporaryDirectory() as folder:
            path = str(Path(folder) / snapshot_name(_SNAPSHOT))
            with stopwatch.phase("write"):
                write_snapshot(OsFileSystem(), path, snapshot_of_image(image, NO_VOTERS, _SNAPSHOT.epoch, 0, 0))
            loaded = _load(stopwatch, path)
            return Figures(partitions, stopwatch.phases, records, Path(path).stat().st_size / 1e6, image, loaded)


def _measured_script(stopwatch: _Stopwatch) -> ControllerScript:
    """A controller with ten brokers, whose calls are turns. Raft and the controller share a slice, as on a node."""
    time_slice = ClockSlice(_CpuClock())
    script = ControllerScript(time_slice=time_slice, raft=replica(1, voters=[1], time_slice=time_slice))
    for broker_id in range(1, BROKERS + 1):
        script.bring_up(broker_id)
    for part, name in ((script.raft, "poll"), (script.controller, "poll"), (script.controller, "answer")):
        setattr(part, name, stopwatch.turn(getattr(part, name)))
    return script


def _create(script: ControllerScript, topics: int) -> None:
    for first in range(0, topics, _TOPICS_AT_ONCE):
        numbers = range(first, min(topics, first + _TOPICS_AT_ONCE))
        request = make(*(new_topic(f"topic-{number}", PER_TOPIC, REPLICAS) for number in numbers))
        response = script.answered(script.controller.answer(request, script.now))
        assert not any(topic.error_code for topic in response.topics), response.topics[0]
        _all_are_heard_from(script)


def _fail(script: ControllerScript) -> None:
    """Broker 1 is silent until it is fenced; the others are not."""
    script.now += _SILENCE_MS
    while FAILED in script.image.active_brokers:
        _all_are_heard_from(script, but=FAILED)
        script.run()


def _all_are_heard_from(script: ControllerScript, but: int | None = None) -> None:
    for broker_id, contact in script.controller.heartbeats.contacts.items():
        if broker_id != but:
            contact.last_contact = script.now


def _load(stopwatch: _Stopwatch, path: str) -> MetadataImage:
    with stopwatch.phase("read"):
        found = stopwatch.turn(read_snapshot)(OsFileSystem(), path)
    assert found is not None
    loader = MetadataLoader()
    with stopwatch.phase("load"):
        batches = stopwatch.in_turns(found.decoded_in_steps())
        stopwatch.in_turns(loader.handle_load_snapshot(found.id, batches))
    return loader.image


def _memory_mb() -> float:
    memory = psutil.Process().memory_full_info()
    return float(getattr(memory, "uss", memory.rss)) / 1e6
