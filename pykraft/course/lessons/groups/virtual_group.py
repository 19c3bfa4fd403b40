"""A scenario: a consumer group on a simulated cluster, whose members come, go, crash and pause at set seconds.

::

    group = VirtualGroup("sticky", partitions=12)
    group.join("ann", "ben", "cleo")
    group.wait(30)
    group.pause("cleo", 20)
    group.join("dora")
    group.wait(45)
    group.moved("dora joins"), group.stopped_s("dora joins"), group.owners

The nodes, the clients and their settings are the real ones; clock and network are the simulator's. So a minute takes
a part of a second, Kafka's default timeouts can stay as they are, and the same script gives the same numbers on every
machine. A `way` is an assignor of the classic protocol, or "consumer" for the protocol of KIP-848.

A member that pauses (its program is busy elsewhere) owns its partitions and reads none of them. A member that has
crashed owns nothing here, whatever its coordinator still believes. A program that starts again under its old name is
the same owner.
"""

from collections.abc import Callable, Generator
from dataclasses import replace
from math import ceil
from random import Random

from pykraft.broker.broker import Broker
from pykraft.client.administration.admin import NewTopic
from pykraft.client.config import PRODUCER_CONFIG, client_config, consumer_config
from pykraft.client.consuming.consumer import ConsumerCore
from pykraft.client.producing.producer import Outgoing, ProducerCore
from pykraft.common.core import FOREVER, Poll, RequestManager, merge
from pykraft.course.lessons.groups.ownership import Ownership, Spans, in_words, moved, stopped_s
from pykraft.sim.cluster import SimulatedCluster
from pykraft.sim.trouble.knobs import Knobs, calm, draw
from pykraft.sim.workloads.workload import TopicMaker
from pykraft.sim.world.client_hosts import SimulatedClient
from pykraft.sim.world.hosts import EPOCH_MS
from pykraft.sim.world.scheduler import US_PER_MS

TOPIC, GROUP = "orders", "billing"
CONSUMER = "consumer"
"""The way of KIP-848; the others are assignors of the classic protocol."""
WAYS = ("range", "sticky", "cooperative-sticky", CONSUMER)
_SEED = 17
_SHORT_MS, _BUSY_MS, _IDLE_MS = 5, 500, 1_000
_STAGGER_S = 0.7
"""Between two programs that start together: no two members have their heartbeats at the same time."""
_CLOSE_MS = 5_000
_LOOK_MS = 500
_BROKERS = 2
"""The second one is down until `add_broker`."""


def _knobs() -> Knobs:
    """A quiet cluster: one controller, brokers with Kafka's defaults, no clients but ours."""
    return replace(
        calm(draw(_SEED)), brokers=_BROKERS, controllers=1, partitions=1, topic={}, producers=(), consumers=(),
        groups=(), transactions=None, background_us=100, storm_until_ms=FOREVER,
        properties={"offsets.topic.num.partitions": 1, "offsets.topic.replication.factor": 1},
    )  # fmt: skip


class _NodesOnly(SimulatedCluster):
    """The nodes; the clients are the group's."""

    def _make_clients(self) -> None:
        """There are no others."""


class _Member:
    """A consumer and its program, which polls in a loop. It is a RequestManager."""

    def __init__(self, group: "VirtualGroup", name: str, settings: dict[str, object], records_per_s: int) -> None:
        """`records_per_s` is how many its program manages to process; 0 for as many as come."""
        self.name = name
        self.core = ConsumerCore(consumer_config(settings), group.chance(name))
        self.core.subscribe([TOPIC])
        self.pauses_until = 0
        """Until then its program does not poll."""
        self.is_leaving = False
        self._group = group
        self._limit = max(1, records_per_s * _BUSY_MS // 1000) if records_per_s else 500
        self._program = self._run()
        self._wait = next(self._program)

    @property
    def partitions(self) -> set[int]:
        """What it reads."""
        return {key.partition for key in self.core.subscription.partitions}

    def poll(self, now: int) -> Poll:
        if now >= self._next_at():
            self._wait = self._program.send(now)
        self._group.note()
        poll = self.core.poll(now)
        return Poll(min(poll.deadline, self._next_at()), poll.requests)

    def _next_at(self) -> int:
        soonest, latest = self._wait
        return max(self.pauses_until, soonest if self.core.has_news or self.is_leaving else latest)

    def _run(self) -> Generator[tuple[int, int], int, None]:
        """The program. It yields (a, b): it goes on at `a` if there is news, at `b` at the latest."""
        group = self.core.group
        assert group is not None
        now = yield 0, 0
        while not self.is_leaving:
            while self.core.advance(now) is not None:
                self._group.note()
            for on_commit, offsets, error in group.commits.take_completed():
                on_commit(offsets, error)
            busy_ms = _BUSY_MS if self.core.take(self._limit) else _SHORT_MS
            now = yield now + busy_ms, now + _IDLE_MS
        for ask in (group.commit_at_end, lambda deadline: group.leave("the consumer is closed", deadline)):
            group.depart()
            promise = ask(now + _CLOSE_MS)
            while not promise.kept:
                now = yield now + _SHORT_MS, now + _SHORT_MS
        self.core.unsubscribe()
        while True:
            yield FOREVER, FOREVER


class _Flow:
    """A producer that writes to the partitions in turn. It is a RequestManager."""

    def __init__(self, servers: str, records_per_s: int, random: Random) -> None:
        self._core = ProducerCore(
            client_config(PRODUCER_CONFIG, {"bootstrap.servers": servers, "linger.ms": 200}), random
        )
        self._pause_ms = 1000 / records_per_s
        self._next_at = 0.0
        self._written = 0

    def poll(self, now: int) -> Poll:
        while now >= self._next_at:
            partitions = sorted(self._core.metadata.partitions_of(TOPIC) or [0])
            record = Outgoing(TOPIC, None, b"order", (), partitions[self._written % len(partitions)], EPOCH_MS + now)
            if self._core.try_append(record, _ignore, now) is None:
                self._written += 1
            self._next_at = max(self._next_at, now - 1000) + self._pause_ms
        return merge([self._core.poll(now), Poll(ceil(self._next_at))])


def _ignore(metadata: object, error: object) -> None:
    """The lag tells what has come."""


class VirtualGroup:
    """One group on a simulated cluster with one broker; a second broker is added by `add_broker`."""

    def __init__(
        self,
        way: str = "consumer",
        *,
        partitions: int = 12,
        records_per_s: int = 0,
        member_records_per_s: int = 0,
        is_static: bool = False,
        **settings: object,
    ) -> None:
        """The topic gets `records_per_s` in all, and each member processes at most `member_records_per_s`; 0 for no
        records, and for no limit. Static members have their name as ``group.instance.id``. `settings` are those of the
        members, with underscores."""
        protocol = {"group.protocol": CONSUMER} if way == CONSUMER else {"partition.assignment.strategy": way}
        self.way = way
        self._cluster = _NodesOnly(_SEED, _knobs())
        self._scheduler = self._cluster.scheduler
        self._servers = "node-1:9092"
        self._settings: dict[str, object] = {
            "bootstrap.servers": self._servers, "group.id": GROUP, "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 1_000, **protocol,
            # Without records a fetch only waits: let it wait long, for there is nothing to see.
            "fetch.max.wait.ms": 500 if records_per_s else 5_000,
            **{name.replace("_", "."): value for name, value in settings.items()},
        }  # fmt: skip
        self._member_records_per_s = member_records_per_s
        self._is_static = is_static
        self._members: dict[str, tuple[SimulatedClient, _Member]] = {}
        self._hosts = 0
        self._ownership = Ownership(range(partitions))
        self.events: dict[str, float] = {}
        """What was done, and in which second."""
        self.pauses: list[tuple[str, float, float]] = []
        """The member that paused, from which second, until which."""
        self.lags: list[tuple[float, int]] = []
        """Twice a second, how many records the group has not committed."""
        self._started_us = 0
        self._begin(partitions, records_per_s)

    def _begin(self, partitions: int, records_per_s: int) -> None:
        """Make the topic while the second broker is down, so that the first one leads all of it."""
        self._cluster.nodes[_BROKERS].is_kept_down = True
        maker = TopicMaker(NewTopic(TOPIC, partitions, 1), self._servers, self.chance("admin"), _IDLE_MS)
        self._start("admin", maker)
        self._run_until(lambda: maker.is_done)
        self._started_us = self._scheduler.now_us
        if records_per_s:
            self._start("producer", _Flow(self._servers, records_per_s, self.chance("producer")))
        self._look()

    # --- what befalls the group ---------------------------------------------------------------------------------------

    def join(self, *names: str) -> None:
        """A program starts under each of these names. One that has been here before starts again."""
        self._event(in_words("join", names))
        for name in names:
            more = {"group.instance.id": name} if self._is_static else {}
            member = _Member(self, name, {**self._settings, **more}, self._member_records_per_s)
            self._members[name] = (self._start(name, member), member)
            self.wait(_STAGGER_S)

    def leave(self, name: str) -> None:
        """It closes its consumer: it commits, and tells the coordinator (a static one does not)."""
        self._event(f"{name} leaves")
        host, member = self._members[name]
        member.is_leaving = True
        host.act(_nothing)

    def crash(self, name: str) -> None:
        """Its host is gone, without a word."""
        self._event(f"{name} crashes")
        self._members.pop(name)[0].crash()
        self.note()

    def pause(self, name: str, seconds: float) -> None:
        """Its program does not poll for this long; the client's heartbeats go on."""
        self._event(f"{name} pauses")
        self._members[name][1].pauses_until = self._scheduler.now + round(seconds * 1000)
        self.pauses.append((name, self.now_s, self.now_s + seconds))

    def add_broker(self) -> None:
        """The second broker starts."""
        self._event("broker 2 starts")
        node = self._cluster.nodes[_BROKERS]
        node.is_kept_down = False
        node.start()

    def wait(self, seconds: float) -> None:
        """Let this much virtual time pass."""
        until_us = self._scheduler.now_us + round(seconds * 1000) * US_PER_MS
        self._scheduler.at(until_us, _nothing)
        self._run_until(lambda: self._scheduler.now_us >= until_us)
        self.note()

    # --- what was seen ------------------------------------------------------------------------------------------------

    @property
    def now_s(self) -> float:
        """Virtual seconds since the topic was made."""
        return (self._scheduler.now_us - self._started_us) / 1e6

    def note(self) -> None:
        """Note the owners, if they have changed."""
        owners = {number: name for name, (_, member) in self._members.items() for number in member.partitions}
        self._ownership.note(self.now_s, owners)

    @property
    def owners(self) -> Spans:
        """The owner of each partition, from when until when; "" while no member did."""
        return self._ownership.spans(self.now_s)

    def moved(self, since: str, until: str = "") -> int:
        """How often a partition got another owner than its last one, between two events; at most until now."""
        return moved(self.owners, *self._between(since, until))

    def stopped_s(self, since: str, until: str = "") -> float:
        """For how many seconds partitions had no owner between two events, all partitions together."""
        return stopped_s(self.owners, *self._between(since, until))

    def _between(self, since: str, until: str) -> tuple[float, float]:
        return self.events[since], self.events[until] if until else self.now_s

    @property
    def lag(self) -> int:
        """Records that the group has not committed, over all partitions."""
        broker = self._broker()
        shard = broker.groups.runtime.active(0) if broker.groups.runtime.active_partitions() else None
        committed = {} if shard is None else shard.offsets.of(GROUP)
        return sum(
            partition.log.high_watermark - (committed[key].offset if key in committed else 0)
            for key, partition in broker.replicas.partitions.items()
            if key.topic == TOPIC
        )

    @property
    def led(self) -> dict[int, int]:
        """How many partitions of the topic each broker leads."""
        brokers = {node_id: machine.node.broker for node_id, machine in self._cluster.nodes.items() if machine.node}
        return {
            node_id: sum(key.topic == TOPIC and each.is_leader for key, each in broker.replicas.partitions.items())
            for node_id, broker in brokers.items()
            if broker is not None
        }

    # --- the clock ----------------------------------------------------------------------------------------------------

    def chance(self, name: str) -> Random:
        """A generator of chance for one client: the same in every run."""
        return Random(f"{_SEED}/{name}")

    def _start(self, name: str, core: RequestManager) -> SimulatedClient:
        self._hosts += 1
        host = SimulatedClient(f"{name}-{self._hosts}", core, self._scheduler, self._cluster.network, self.chance(name))
        host.act(_nothing)
        return host

    def _run_until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._scheduler.run_next()

    def _look(self) -> None:
        """Note the lag, now and every half second."""
        self.lags.append((self.now_s, self.lag))
        self._scheduler.after(_LOOK_MS * US_PER_MS, self._look)

    def _event(self, what: str) -> None:
        self.events[what] = self.now_s

    def _broker(self) -> Broker:
        node = self._cluster.nodes[1].node
        assert node is not None and node.broker is not None
        return node.broker


def _nothing() -> None:
    """Only time passes."""
