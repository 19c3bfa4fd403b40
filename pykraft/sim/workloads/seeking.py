"""A consumer whose application seeks all the time: to an offset, to the start of a log, or to its end.

It seeks where it is awkward, too: twice in a row, while a position is being looked up, and while one is validated after
a change of leaders. After each seek the first record must be the one that was asked for, and the others follow without
a gap: what was fetched for the position before is not shown.
"""

from random import Random

from pykraft.client.config import CONSUMER_CONFIG, client_config
from pykraft.client.consuming.consumer import ConsumerCore
from pykraft.client.consuming.subscription import State
from pykraft.common.core import FOREVER, Poll, merge
from pykraft.common.types import TopicPartition
from pykraft.protocol.messages.data import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from pykraft.sim.laws.invariants import require
from pykraft.sim.laws.watcher import Watcher

_TAKE = 100
_TAKE_EVERY_MS = 5
_AGAIN = 0.3
"""How often it seeks a second time before it polls."""


class Seeker:
    """Such a consumer. It is a RequestManager."""

    def __init__(
        self,
        settings: dict[str, object],
        servers: str,
        places: list[TopicPartition],
        every_ms: int,
        watcher: Watcher,
        random: Random,
    ) -> None:
        """It seeks each `every_ms` on average."""
        said = {**settings, "bootstrap.servers": servers, "auto.offset.reset": "earliest"}
        self._core = ConsumerCore(client_config(CONSUMER_CONFIG, said), random)
        self._core.assign(places)
        self._every_ms = every_ms
        self._watcher = watcher
        self._random = random
        self._expected: dict[TopicPartition, int | None] = dict.fromkeys(places, 0)
        """The next offset of each partition; None after a seek to the end."""
        self._take_at = self._seek_at = 0
        self.is_seeking = True

    def poll(self, now: int) -> Poll:
        if now >= self._take_at:
            self._take_at = now + _TAKE_EVERY_MS
            for fetched in self._core.take(_TAKE):
                self.check_record(fetched.topic_partition, fetched.record.offset, fetched.record.value)
        if self.is_seeking and (now >= self._seek_at or self._is_validating):
            self._seek_at = now + self._random.randint(1, 2 * self._every_ms)
            self._seek()
        poll = self._core.poll(now)
        return merge([poll, Poll(self._take_at if self._core.has_news else FOREVER), Poll(self._next_seek_at(now))])

    def _next_seek_at(self, now: int) -> int:
        return max(now, self._seek_at) if self.is_seeking else FOREVER

    @property
    def _is_validating(self) -> bool:
        return any(state.state is State.AWAITING_VALIDATION for state in self._core.subscription.partitions.values())

    def _seek(self) -> None:
        place = self._random.choice(list(self._expected))
        while True:
            kind = self._random.choice(("offset", "start", "end"))
            if kind == "offset":
                offset = self._random.randint(0, len(self._watcher.history(place).values))
                self._core.seek(place, offset)
                self._expected[place] = offset
            else:
                self._core.seek_to(place, EARLIEST_TIMESTAMP if kind == "start" else LATEST_TIMESTAMP)
                self._expected[place] = 0 if kind == "start" else None
            self._watcher.progress.seeks += 1
            if self._random.random() >= _AGAIN:
                return

    def check_record(self, place: TopicPartition, offset: int, value: bytes | None) -> None:
        """The next record of this partition. A leader that was deposed and does not know may have less than the offset
        that was sought: then the consumer begins at the start."""
        expected = self._expected[place]
        is_next = expected is None or offset in (expected, 0)
        require(is_next, f"{place}: the seeking consumer saw offset {offset}, and is at {expected}")
        self._watcher.history(place).consume(offset, value)
        self._expected[place] = offset + 1

    @property
    def missing(self) -> str | None:
        """Why it has not read all there is; None if it has."""
        for place in self._expected:
            state, end = self._core.subscription.partitions[place], len(self._watcher.history(place).values)
            if state.position is None or state.position.offset < end or not state.has_position:
                return f"{place}: the seeking consumer is at {state.position} of {end}"
        return None
