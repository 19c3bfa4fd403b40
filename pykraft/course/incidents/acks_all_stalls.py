"""Incident 1: ``acks=all`` stalls, for two of three replicas are not in sync, each for a reason of its own.

READING ON SPOILS THE INCIDENT.

Broker 2 may fetch 100 bytes a second: a move of partitions is over, and its throttle was left. When broker 2 restarted
it could not catch up. No alarm rang, because 1 and 3 were enough. Then the machine of broker 3 stopped. Now the ISR is
broker 1 alone, ``min.insync.replicas`` is 2, and the leader refuses what producers send with ``acks=all``.

A throttle holds back only a replica that is out of sync: it never pushes one out, and it never lets one in again.

Every repair gets the same second blow: when orders have flowed for 20 s, the machine of the leader loses its power, and
boots again 15 s later. Kafka acknowledges what replicas have in memory; what one machine alone had may be gone.
"""

from collections.abc import Callable
from typing import ClassVar

from pykraft.course.incidents.drawing import Card
from pykraft.course.incidents.incident import Counter, Incident, Script, WrongCure, replica_cards
from pykraft.course.incidents.programs import Orderer
from pykraft.course.incidents.world import World

TOPIC, PARTITIONS, REPLICAS = "orders", 2, 3
_ORDERS_PER_S = 8
_THROTTLE = 100
_FLOWS_MS, _FLOWING_S, _DARK_MS, _RIGHT_S = 2_000, 20, 15_000, 10
_PRODUCER = {"acks": "all", "linger.ms": 400, "request.timeout.ms": 5_000, "delivery.timeout.ms": 15_000}


class AcksAllStalls(Incident):
    NUMBER, TITLE = 1, "Orders stall"
    TOPICS = (TOPIC,)
    PAGER = (
        "SEV 1 · checkout: no order has been confirmed for 10 s. The log of the shop is full of NotEnoughReplicas. "
        "Customers give up after 15 s."
    )
    CURE: ClassVar[Script] = (
        (10, "kafka-topics --describe --topic orders"),
        (25, "restart-broker 3"),
        (40, "kafka-topics --describe --topic orders"),
        (50, "kafka-configs --describe --entity-type brokers --entity-name 2"),
        (60, "kafka-configs --alter --entity-type brokers --entity-name 2 "
             "--delete-config follower.replication.throttled.rate"),
    )  # fmt: skip
    WRONG = (
        WrongCure(
            "min.insync.replicas=1",
            ((10, "kafka-configs --alter --topic orders --add-config min.insync.replicas=1"),),
            "Orders flow at once, each with one copy in the memory of one machine. Its power fails, and they are gone.",
        ),
        WrongCure(
            "unclean.leader.election.enable=true, then restart the leader",
            (
                (10, "kafka-configs --alter --topic orders --add-config unclean.leader.election.enable=true"),
                (15, "restart-broker 1"),
            ),
            "While broker 1 is down, broker 2 leads with the log that its throttle has left it. The others truncate.",
        ),
    )
    STORY = (
        "Broker 2 was allowed to fetch 100 bytes a second: a partition move had ended, and its throttle "
        "(`follower.replication.throttled.rate`) had stayed. A throttle holds back only replicas that are out of sync, "
        "so nothing happened until broker 2 restarted. Since then it could not catch up. No alarm rang: two in-sync "
        "replicas are enough for `min.insync.replicas=2`.",
        "Then the machine of broker 3 stopped. The ISR was broker 1 alone, and the leader refused every order with "
        "NOT_ENOUGH_REPLICAS. That refusal was right: it kept the promise of `acks=all`.",
        "The cure has two parts. Start broker 3, and orders flow with two copies. Take the throttle from broker 2, and "
        "the next failure costs nothing. That came after 20 s of orders: the leader's machine lost its power.",
    )
    SHOWN_BY = (
        ("kafka-topics --describe --topic orders", "Isr: 1, of Replicas: 1,2,3"),
        ("kafka-broker-api-versions", "brokers 1 and 2 answer, broker 3 does not"),
        ("kafka-configs --describe --entity-type brokers --entity-name 2", "follower.replication.throttled.rate=100"),
    )

    def build(self) -> World:
        return World(self.seed, properties={"replica.fetch.max.bytes": 500})

    def prepare(self) -> None:
        world, run = self.world, self.terminal.run
        world.run_to(4_000)
        run(
            f"kafka-topics --create --topic {TOPIC} --replica-assignment 1:2:3,1:3:2 --config min.insync.replicas=2 "
            "--config follower.replication.throttled.replicas=*"
        )
        self.orders = Orderer(world, TOPIC, PARTITIONS, _ORDERS_PER_S, _PRODUCER)
        world.start("checkout", self.orders)
        world.run_to(world.now_ms + 10_000)
        throttle = f"follower.replication.throttled.rate={_THROTTLE}"
        run(f"kafka-configs --alter --entity-type brokers --entity-name 2 --add-config {throttle}")
        world.crash(2)
        self._wait_for(lambda isr: 2 not in isr, 60)
        world.boot(2)
        world.run_to(world.now_ms + 30_000)
        world.crash(3)
        self._wait_for(lambda isr: isr == {1}, 60)
        world.run_to(world.now_ms + 10_000)
        self._flowing_s = self._right_s = 0
        self._struck_ms: int | None = None
        self._is_dark = False

    def _wait_for(self, condition: Callable[[frozenset[int]], bool], seconds: int) -> None:
        limit_ms = self.world.now_ms + seconds * 1000
        while not all(condition(self.world.in_sync(TOPIC, n)) for n in range(PARTITIONS)):
            if self.world.now_ms > limit_ms:
                raise RuntimeError("the prehistory is another one than before")
            self.world.run_to(self.world.now_ms + 100)

    def second(self) -> None:
        flows = self.world.now_ms - self.orders.last_confirmed_ms <= _FLOWS_MS
        self._flowing_s = self._flowing_s + 1 if flows else 0
        if self._struck_ms is None and self._flowing_s >= _FLOWING_S:
            self._strike()
        is_right = flows and all(len(self.world.in_sync(TOPIC, n)) == REPLICAS for n in range(PARTITIONS))
        self._right_s = self._right_s + 1 if is_right else 0

    def _strike(self) -> None:
        leader = self.world.leader(TOPIC, 0)
        if leader is None:
            return
        node = next(n for n, each in self.world.replicas(TOPIC, 0).items() if each is leader)
        self._struck_ms, self._is_dark = self.world.now_ms, True
        self.report(f"the machine of broker {node} has lost its power")
        self.world.lose_power(node)

        def boot() -> None:
            self.world.boot(node)
            self._is_dark = False
            self.report(f"the machine of broker {node} boots again")

        self.world.after(_DARK_MS, boot)

    def counters(self) -> tuple[Counter, ...]:
        orders = self.orders
        return (
            Counter("orders confirmed", orders.confirmed),
            Counter("orders waiting", orders.waiting, harm=True),
            Counter("customers gave up", orders.refused, harm=True),
            Counter("confirmed, then lost", orders.lost, harm=True),
        )

    def cards(self) -> list[Card]:
        return replica_cards(self.world, TOPIC, PARTITIONS)

    def is_lost(self) -> bool:
        return self.orders.lost > 0 and not self._is_dark

    def missing(self) -> str | None:
        if self._struck_ms is None:
            return f"orders have not flowed for {_FLOWING_S} s"
        if self._right_s < _RIGHT_S:
            return f"not every partition has had {REPLICAS} in-sync replicas for {_RIGHT_S} s"
        return None
