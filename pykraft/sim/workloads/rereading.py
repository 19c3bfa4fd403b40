"""A consumer that begins each of its partitions at offset 0 again and again. Others are at the end of a log, and would
not meet what rots in it, or what is deleted from its beginning.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from random import Random

from pykraft.client.config import CONSUMER_CONFIG, client_config
from pykraft.client.consuming.consumer import ConsumerCore
from pykraft.client.consuming.fetcher import FetchedRecord
from pykraft.common.core import FOREVER, Poll, merge
from pykraft.common.types import TopicPartition
from pykraft.records.record import Record

_NO_EPOCH = -1


class RereadingConsumer(ABC):
    """What is common to them. It is a RequestManager."""

    def __init__(
        self,
        settings: dict[str, object],
        servers: str,
        places: list[TopicPartition],
        pause_ms: int,
        again_ms: int,
        random: Random,
    ) -> None:
        """It takes records each `pause_ms`, and reads a partition for `again_ms` on average until it begins again."""
        said = {**settings, "bootstrap.servers": servers, "auto.offset.reset": "earliest"}
        self._core = ConsumerCore(client_config(CONSUMER_CONFIG, said), random)
        self._core.assign(places)
        self._pause_ms, self._again_ms, self._random = pause_ms, again_ms, random
        self._expected = dict.fromkeys(places, 0)
        self._again_at = dict.fromkeys(places, 0)
        self._next_at = 0
        self.begins_again = True

    def poll(self, now: int) -> Poll:
        if now >= self._next_at:
            self._next_at = now + self._pause_ms
            for fetched in self._take():
                self._read(fetched.topic_partition, fetched.record)
            for place in self._expected if self.begins_again else ():
                if now >= self._again_at[place]:
                    self._again_at[place] = now + self._random.randint(1, 2 * self._again_ms)
                    self._begin_again(place)
        poll = self._core.poll(now)
        again_at = min(self._again_at.values()) if self.begins_again else FOREVER
        return merge([poll, Poll(max(self._next_at, now if self._core.has_news else again_at))])

    def _begin_again(self, place: TopicPartition) -> None:
        state = self._core.subscription.partitions[place]
        if state.is_fetchable:
            self._core.go_back(place, 0, _NO_EPOCH)
            self._expected[place] = 0

    @abstractmethod
    def _take(self) -> Iterable[FetchedRecord]:
        """What has come since."""

    @abstractmethod
    def _read(self, place: TopicPartition, record: Record) -> None:
        """Compare a record with the laws, and set the offset that is expected next."""
