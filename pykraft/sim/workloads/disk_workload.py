"""A reader that reads the whole topic again and again, where disks go wrong: the others are at the end of each log, and
would never come by what rots.

It sees what is committed and nothing else. Where a batch fails its checksum it is told so, and asks again: until the
damage is gone, or another replica leads.
"""

from collections.abc import Callable, Sequence
from random import Random

from pykraft.broker.broker import Broker
from pykraft.client.config import CONSUMER_CONFIG, client_config
from pykraft.client.consuming.consumer import ConsumerCore
from pykraft.common.core import FOREVER, Poll, merge
from pykraft.common.types import TopicPartition
from pykraft.metadata.image import MetadataImage
from pykraft.records.record import Record
from pykraft.sim.laws.invariants import require
from pykraft.sim.laws.watcher import Watcher
from pykraft.sim.trouble.disks import DiskKnobs
from pykraft.sim.trouble.knobs import Knobs
from pykraft.sim.workloads.settling import end_for_readers
from pykraft.sim.workloads.workload import TOPIC, take_whole

_PAUSE_MS = 10
_NO_EPOCH = -1


class Rereader:
    """A consumer that begins again at the start. It is a RequestManager."""

    def __init__(
        self,
        settings: dict[str, object],
        servers: str,
        partitions: int,
        again_ms: int,
        watcher: Watcher,
        random: Random,
    ) -> None:
        said = {**settings, "bootstrap.servers": servers, "auto.offset.reset": "earliest"}
        self._core = ConsumerCore(client_config(CONSUMER_CONFIG, said), random)
        places = [TopicPartition(TOPIC, number) for number in range(partitions)]
        self._core.assign(places)
        self._watcher, self._random, self._again_ms = watcher, random, again_ms
        self._expected = dict.fromkeys(places, 0)
        self._again_at = dict.fromkeys(places, 0)
        self._next_at = 0
        self.begins_again = True

    def poll(self, now: int) -> Poll:
        if now >= self._next_at:
            self._next_at = now + _PAUSE_MS
            for fetched in take_whole(self._core, self._watcher):
                self._read(fetched.topic_partition, fetched.record)
            for place in self._expected if self.begins_again else ():
                if now >= self._again_at[place]:
                    self._again_at[place] = now + self._random.randint(1, 2 * self._again_ms)
                    self.begin_again(place)
        poll = self._core.poll(now)
        again_at = min(self._again_at.values()) if self.begins_again else FOREVER
        return merge([poll, Poll(max(self._next_at, now if self._core.has_news else again_at))])

    def _read(self, place: TopicPartition, record: Record) -> None:
        history, expected = self._watcher.history(place), self._expected[place]
        is_next = record.offset == expected or history.is_lost
        require(is_next, f"{place}: a consumer saw offset {record.offset} after {expected - 1}")
        history.consume(record.offset, record.value)
        self._expected[place] = record.offset + 1
        self._watcher.progress.consumed += 1

    def begin_again(self, place: TopicPartition) -> None:
        state = self._core.subscription.partitions[place]
        if state.is_fetchable:
            self._core.go_back(place, 0, _NO_EPOCH)
            self._expected[place] = 0

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
