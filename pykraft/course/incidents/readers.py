"""The programs that read: a `Worker` is a member of a consumer group, and its `Reading` knows what the group missed.

A worker manages so many records a second, and commits what it has processed. A record is *missed* when the group's
committed offset is beyond it and no worker has had it: it was deleted before it was read, or an offset was reset.
"""

from collections import defaultdict
from collections.abc import Callable, Generator, Mapping

from pykraft.client.config import consumer_config
from pykraft.client.consuming.consumer import ConsumerCore
from pykraft.client.consuming.fetcher import FetchedRecord
from pykraft.common.core import FOREVER, Poll
from pykraft.common.types import TopicPartition
from pykraft.course.incidents.world import World

_BUSY_MS, _IDLE_MS, _SHORT_MS, _CLOSE_MS = 500, 1_000, 5, 5_000
Seen = Callable[[FetchedRecord], None]


class Reading:
    """What a group has processed, of one topic."""

    def __init__(self, world: World, topic: str, group: str) -> None:
        self._world, self.topic, self.group = world, topic, group
        self._had: dict[int, set[int]] = defaultdict(set)
        self._known: dict[int, int] = {}
        self._from: dict[int, int] = {}

    def note(self, record: FetchedRecord) -> None:
        number, offset = record.topic_partition.partition, record.record.offset
        self._from.setdefault(number, offset)
        self._had[number].add(offset)

    @property
    def processed(self) -> int:
        return sum(map(len, self._had.values()))

    def committed(self) -> dict[int, int]:
        """The group's offsets, as its coordinator knows them; what was known last while there is none."""
        for broker in self._world.brokers_up().values():
            if broker.groups.runtime.active_partitions():
                found = broker.groups.runtime.active(0).offsets.of(self.group)
                self._known = {key.partition: each.offset for key, each in found.items() if key.topic == self.topic}
        return self._known

    def lags(self) -> dict[int, int]:
        """How many records of each partition the group has not committed; of those whose leader runs."""
        committed, found = self.committed(), {}
        for number in sorted(self._from | committed):
            leader = self._world.leader(self.topic, number)
            if leader is not None:
                begin = max(committed.get(number, 0), leader.log.log_start_offset)
                found[number] = max(0, leader.log.high_watermark - begin)
        return found

    @property
    def missed(self) -> int:
        """Records that the group will never process: before its committed offsets, or deleted already."""
        total = 0
        for number, offset in self.committed().items():
            leader = self._world.leader(self.topic, number)
            start = 0 if leader is None else leader.log.log_start_offset
            total += max(0, max(offset, start) - len(self._had[number]) - self._from.get(number, 0))
        return total


class Worker:
    """A consumer and its program. It is a RequestManager."""

    def __init__(
        self, world: World, name: str, reading: Reading, settings: Mapping[str, object], records_per_s: int,
        every_s: int = 0, on_record: Seen | None = None,
    ) -> None:  # fmt: skip
        """With `every_s` it works only so often, until it has caught up. `on_record` is called with each record."""
        given = {
            "bootstrap.servers": world.servers, "group.id": reading.group, "client.id": name,
            "auto.offset.reset": "earliest", "auto.commit.interval.ms": 1_000, "group.protocol": "consumer", **settings,
        }  # fmt: skip
        self.name, self._reading, self._every_ms, self._on_record = name, reading, 1000 * every_s, on_record
        self._core = ConsumerCore(consumer_config(given), world.chance(name))
        self._core.subscribe([reading.topic])
        self._limit, self._ms_per_record = max(1, records_per_s * _BUSY_MS // 1000), 1000 / records_per_s
        self.is_leaving = self.has_left = False
        self._program = self._run()
        self._wait = next(self._program)

    @property
    def partitions(self) -> list[int]:
        """What it owns."""
        found: list[TopicPartition] = list(self._core.subscription.partitions)
        return sorted(key.partition for key in found)

    def poll(self, now: int) -> Poll:
        if now >= self._next_at():
            self._wait = self._program.send(now)
        poll = self._core.poll(now)
        return Poll(min(poll.deadline, self._next_at()), poll.requests)

    def _next_at(self) -> int:
        soonest, latest = self._wait
        return soonest if self._core.has_news or self.is_leaving else latest

    def _run(self) -> Generator[tuple[int, int], int, None]:
        """The program. It yields (a, b): it goes on at `a` if there is news, at `b` at the latest."""
        group = self._core.group
        assert group is not None
        now = yield 0, 0
        while not self.is_leaving:
            while self._core.advance(now) is not None:
                pass
            for on_commit, offsets, error in group.commits.take_completed():
                on_commit(offsets, error)
            taken = self._core.take(self._limit)
            for record in taken:
                self._reading.note(record)
                if self._on_record is not None:
                    self._on_record(record)
            if self._every_ms and not taken:
                now = yield now + self._every_ms, now + self._every_ms
                continue
            busy_ms = round(len(taken) * self._ms_per_record)
            now = yield (now + busy_ms, now + busy_ms) if taken else (now + _SHORT_MS, now + _IDLE_MS)
        for ask in (group.commit_at_end, lambda deadline: group.leave("the consumer is closed", deadline)):
            group.depart()
            promise = ask(now + _CLOSE_MS)
            while not promise.kept:
                now = yield now + _SHORT_MS, now + _SHORT_MS
        self._core.unsubscribe()
        self.has_left = True
        while True:
            yield FOREVER, FOREVER
