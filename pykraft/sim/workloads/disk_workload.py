"""A reader that reads the whole topic again and again, where disks go wrong: the others are at the end of each log, and
would never come by what rots.

It sees what is committed and nothing else. Where a batch fails its checksum the fetch raises an error, and the reader
asks again: until the damage is gone, or another replica leads.
"""

from collections.abc import Callable, Sequence
from random import Random

from pykraft.broker.broker import Broker
from pykraft.client.consuming.fetcher import FetchedRecord
from pykraft.common.types import TopicPartition
from pykraft.metadata.image import MetadataImage
from pykraft.records.record import Record
from pykraft.sim.laws.invariants import require
from pykraft.sim.laws.watcher import Watcher
from pykraft.sim.trouble.disks import DiskKnobs
from pykraft.sim.trouble.knobs import Knobs
from pykraft.sim.workloads.rereading import RereadingConsumer
from pykraft.sim.workloads.settling import end_for_readers
from pykraft.sim.workloads.workload import TOPIC, take_whole

_PAUSE_MS = 10


class Rereader(RereadingConsumer):
    """It reads the topic of the other clients."""

    def __init__(
        self,
        settings: dict[str, object],
        servers: str,
        partitions: int,
        again_ms: int,
        watcher: Watcher,
        random: Random,
    ) -> None:
        places = [TopicPartition(TOPIC, number) for number in range(partitions)]
        super().__init__(settings, servers, places, _PAUSE_MS, again_ms, random)
        self._watcher = watcher

    def _take(self) -> list[FetchedRecord]:
        return take_whole(self._core, self._watcher)

    def _read(self, place: TopicPartition, record: Record) -> None:
        history, expected = self._watcher.history(place), self._expected[place]
        is_next = record.offset == expected or history.is_lost
        require(is_next, f"{place}: a consumer saw offset {record.offset} after {expected - 1}")
        history.consume(record.offset, record.value)
        self._expected[place] = record.offset + 1
        self._watcher.progress.consumed += 1

    def missing(self, brokers: Sequence[tuple[int, Broker]]) -> str | None:
        for place, position in self._expected.items():
            if position < (end := end_for_readers(self._watcher, brokers, place)):
                return f"the reader has read {place} again up to {position} of {end}"
        return None


class DiskWorkload:
    """The room of these seeds."""

    def __init__(
        self, knobs: Knobs, disks: DiskKnobs, servers: str, watcher: Watcher, dice: Callable[[str], Random]
    ) -> None:
        settings = {**knobs.consumers[0], "isolation.level": "read_uncommitted"}
        about = settings, servers, knobs.partitions, disks.read_again_ms, watcher
        self._reader = Rereader(*about, dice("reader from the start"))

    def clients(self) -> list[tuple[str, Rereader]]:
        return [("rereader", self._reader)]

    def end(self) -> None:
        """It reads on."""

    def pause(self) -> None:
        """It reads everything a last time."""
        self._reader.begins_again = False

    def missing(self, brokers: Sequence[tuple[int, Broker]]) -> str | None:
        return self._reader.missing(brokers)

    def check(self, image: MetadataImage) -> None:
        """What it has read was compared when it came."""
