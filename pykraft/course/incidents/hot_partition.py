"""Incident 3: one partition is hot, and its lag grows, for its consumer has other partitions, too.

READING ON SPOILS THE INCIDENT.

Records of one key go to one partition, and one member reads it. A member manages 25 payments a second. megastore has a
sale: its partition gets 20 a second, each other one 4. With two members for six partitions one of them owns the hot
partition and two more: 28 a second. So its lag grows by 3 a second, in all three. With three members it is 24, which is
enough by a hair. With six the hot partition has a member to itself.

The second blow: when the lag is gone, megastore sells a tenth more.
"""

from collections import defaultdict
from math import ceil
from typing import ClassVar

from pykraft.client.config import PRODUCER_CONFIG, client_config
from pykraft.client.consuming.fetcher import FetchedRecord
from pykraft.client.producing.partitioner import partition_of_key
from pykraft.client.producing.producer import Outgoing, ProducerCore
from pykraft.common.core import Poll, merge
from pykraft.course.incidents.drawing import Card, Row
from pykraft.course.incidents.incident import Counter, Incident, Script, WrongCure
from pykraft.course.incidents.readers import Reading, Worker
from pykraft.course.incidents.terminal import Verb
from pykraft.course.incidents.world import World
from pykraft.sim.world.client_hosts import SimulatedClient
from pykraft.sim.world.scheduler import US_PER_MS

TOPIC, PARTITIONS, GROUP, HOT = "payments", 6, "fraud", "megastore"
_MEMBER_PER_S, _SHOPS_OF_A_PARTITION = 25, 4
_BEFORE_PER_S, _SALE_PER_S, _MORE_PER_S = 6, 16, 18
_LATE_MS, _FULL_LAG, _SMALL_LAG, _RIGHT_S = 10_000, 500, 40, 20
_MOST_MEMBERS = 7
_METADATA_MS = 10_000


def shops() -> list[str]:
    """The small merchants: as many for each partition, by the hash of their names."""
    found: dict[int, list[str]] = defaultdict(list)
    number = 0
    while len(found) < PARTITIONS or min(map(len, found.values())) < _SHOPS_OF_A_PARTITION:
        name, number = f"shop-{number}", number + 1
        found[partition_of_key(name.encode(), PARTITIONS)].append(name)
    return [name for each in found.values() for name in each[:_SHOPS_OF_A_PARTITION]]


class Till:
    """Sends payments, with the merchant as key: each shop's once a second, and those of megastore. It is a
    RequestManager. A payment's value is its number among those of its merchant."""

    def __init__(self, world: World) -> None:
        settings = {"bootstrap.servers": world.servers, "client.id": "till", "linger.ms": 1_000}
        settings["metadata.max.age.ms"] = _METADATA_MS
        self._core = ProducerCore(client_config(PRODUCER_CONFIG, settings), world.chance("till"))
        self._world, self._shops = world, shops()
        self.hot_per_s = float(_BEFORE_PER_S)
        self._next_hot = self._next_shop = float(world.now_ms)
        self._numbers: dict[str, int] = defaultdict(int)

    def poll(self, now: int) -> Poll:
        while now >= self._next_hot:
            self._send(HOT, now)
            self._next_hot += 1000 / self.hot_per_s
        while now >= self._next_shop:
            self._send(self._shops[sum(self._numbers.values()) % len(self._shops)], now)
            self._next_shop += 1000 / len(self._shops)
        return merge([self._core.poll(now), Poll(ceil(min(self._next_hot, self._next_shop)))])

    def _send(self, merchant: str, now: int) -> None:
        value = str(self._numbers[merchant]).encode()
        record = Outgoing(TOPIC, merchant.encode(), value, (), None, self._world.time_ms)
        if self._core.try_append(record, None, now) is None:
            self._numbers[merchant] += 1


class Fraud:
    """What the checks of payments are worth: in time, and in the order of each merchant."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.late = self.out_of_order = 0
        self.last_late_ms = 0
        self._had: dict[bytes, set[int]] = defaultdict(set)
        self._last: dict[bytes, int] = defaultdict(lambda: -1)

    def check(self, fetched: FetchedRecord) -> None:
        merchant, number = fetched.record.key or b"", int(fetched.record.value or b"0")
        if number in self._had[merchant]:
            return  # once more, after a rebalance
        self._had[merchant].add(number)
        self.out_of_order += number < self._last[merchant]
        self._last[merchant] = max(number, self._last[merchant])
        if self._world.time_ms - fetched.record.timestamp > _LATE_MS:
            self.late += 1
            self.last_late_ms = self._world.now_ms


class HotPartition(Incident):
    NUMBER, TITLE = 3, "A lag grows"
    TOPICS = (TOPIC,)
    PAGER = (
        "SEV 2 · fraud: payments are checked later than the 10 s that the contract allows, and later every minute. "
        "Each merchant's payments must be checked in their order. A consumer manages 25 a second."
    )
    CURE: ClassVar[Script] = (
        (10, "kafka-consumer-groups --describe --group fraud"),
        (20, "kafka-consumer-groups --describe --group fraud --members --verbose"),
        *((25.0 + number, "start-consumer") for number in range(4)),
        (60, "kafka-consumer-groups --describe --group fraud"),
    )
    WRONG = (
        WrongCure(
            "twelve partitions",
            ((10, "kafka-topics --alter --topic payments --partitions 12"),),
            "Keys move, and new payments overtake those that wait in the old partition. The big key stays one key.",
        ),
        WrongCure(
            "offsets to the latest",
            (
                (10, "stop-consumer fraud-1"),
                (12, "stop-consumer fraud-2"),
                (15, "kafka-consumer-groups --reset-offsets --to-latest --group fraud --topic payments --execute"),
                (20, "start-consumer"),
                (22, "start-consumer"),
            ),
            "The lag is 0 at once. It was payments, and none of them is ever checked. Then it grows again.",
        ),
    )
    STORY = (
        "megastore has a sale. All of its payments have one key, so they go to one partition, and one member of the "
        "group reads it: 20 a second, where each other partition gets 4.",
        "A member manages 25 a second. The one with the hot partition had two more, 28 a second in all. So its lag "
        "grew by 3 a second, while the other member had 13 a second to spare.",
        "The cure is a member for each partition: `start-consumer`, four times. Then the hot partition has a member to "
        "itself, and 20 (after the second blow 22) is less than 25. A seventh member would own nothing. Above 25 no "
        "number of consumers helps: then the key must change, or the check must be faster.",
    )
    SHOWN_BY = (
        ("kafka-consumer-groups --describe --group fraud", "the lag is with one consumer: its three partitions"),
        ("kafka-consumer-groups --describe --group fraud --members --verbose", "which partitions each member owns"),
        ("kafka-get-offsets --topic payments", "twice in a row: payments-2 gets five times as much as others"),
    )

    def build(self) -> World:
        return World(self.seed, brokers=1, properties={"offsets.topic.replication.factor": 1})

    def prepare(self) -> None:
        world = self.world
        world.run_to(4_000)
        self.terminal.run(f"kafka-topics --create --topic {TOPIC} --partitions {PARTITIONS} --replication-factor 1")
        self.reading, self.fraud = Reading(world, TOPIC, GROUP), Fraud(world)
        self.members: dict[str, tuple[SimulatedClient, Worker]] = {}
        self._made = 0
        self._start_member()
        self._start_member()
        self.till = Till(world)
        world.start("till", self.till)
        world.run_to(world.now_ms + 20_000)
        self.till.hot_per_s = _SALE_PER_S
        limit_ms = world.now_ms + 200_000
        while max(self.reading.lags().values()) < 240 and world.now_ms < limit_ms:
            world.run_to(world.now_ms + 1_000)
        self._right_s = 0
        self._has_more = False

    # --- its consumers ------------------------------------------------------------------------------------------------

    def own_verbs(self) -> list[Verb]:
        def start(words: list[str]) -> str:
            if words:
                raise ValueError("start-consumer takes no words: it names the consumer itself")
            if len(self.members) >= _MOST_MEMBERS:
                raise ValueError(f"there are {_MOST_MEMBERS} consumers, and no room for more")
            return f"{self._start_member()} is starting"

        def stop(words: list[str]) -> str:
            if len(words) != 1 or words[0] not in self.members:
                raise ValueError(f"say which consumer: {', '.join(self.members) or 'none runs'}")
            self._stop_member(words[0])
            return f"{words[0]} has left the group"

        return [
            Verb("start-consumer", "start one more consumer of the group fraud", start),
            Verb("stop-consumer NAME", "stop a consumer in order: it commits, and leaves", stop),
        ]

    def _start_member(self) -> str:
        self._made += 1
        name = f"{GROUP}-{self._made}"
        worker = Worker(
            self.world,
            name,
            self.reading,
            {"fetch.max.wait.ms": 1_000, "metadata.max.age.ms": _METADATA_MS},
            _MEMBER_PER_S,
            on_record=self.fraud.check,
        )
        self.members[name] = self.world.start(name, worker), worker
        return name

    def _stop_member(self, name: str) -> None:
        host, worker = self.members.pop(name)
        worker.is_leaving = True
        host.act(lambda: None)
        limit_us = self.world.scheduler.now_us + 10_000 * US_PER_MS
        while not worker.has_left and self.world.scheduler.now_us < limit_us:
            self.world.scheduler.run_next()
        host.crash()

    # --- the judge ----------------------------------------------------------------------------------------------------

    def second(self) -> None:
        lags = self.reading.lags()
        is_in_time = self.world.now_ms - self.fraud.last_late_ms > 1_500
        is_right = bool(self.members) and is_in_time and max(lags.values(), default=0) < _SMALL_LAG
        self._right_s = self._right_s + 1 if is_right else 0
        if is_right and not self._has_more and self._right_s >= 5:
            self._has_more, self._right_s = True, 0
            self.till.hot_per_s = _MORE_PER_S
            self.report("megastore extends its sale, and sells a tenth more")

    def missing(self) -> str | None:
        if not self._has_more or self._right_s < _RIGHT_S:
            return "the lag is not gone for good"
        return None

    def is_lost(self) -> bool:
        return self.reading.missed + self.fraud.out_of_order > 0

    # --- what is seen -------------------------------------------------------------------------------------------------

    def counters(self) -> tuple[Counter, ...]:
        return (
            Counter("payments checked", self.reading.processed),
            Counter("waiting", sum(self.reading.lags().values()), harm=True),
            Counter("checked too late", self.fraud.late, harm=True),
            Counter("out of order", self.fraud.out_of_order, harm=True),
            Counter("never checked", self.reading.missed, harm=True),
        )

    def cards(self) -> list[Card]:
        lags = self.reading.lags()
        found = []
        for name, (_, worker) in self.members.items():
            owned = [(number, lags.get(number, 0)) for number in worker.partitions]
            rows = [Row(f"{TOPIC}-{n}", lag / _FULL_LAG, f"lag {lag:,}", lag >= _SMALL_LAG) for n, lag in owned]
            found.append(Card(name, f"{len(rows)} of {PARTITIONS}" if len(self.members) < 5 else "", rows))
        return found or [Card("no consumer runs", "", [], is_up=False)]
