"""Incident 2: a disk fills, for one record keeps its segment, and that segment keeps all that come after it.

READING ON SPOILS THE INCIDENT.

Retention by time looks at the largest timestamp of a segment. A kiosk whose clock shows the year 2090 sends a record
every 45 s, and each of them is never old enough. Retention goes from the oldest segment on and stops at the first one
that it keeps, so nothing of that partition is deleted any more. Kafka 4 refuses such records out of the box
(``message.timestamp.after.max.ms`` is one hour); for a backfill that limit was raised, and never put back.

The second blow: when all is right, another kiosk with the same firmware is switched on.
"""

from typing import ClassVar

from pykraft.client.config import PRODUCER_CONFIG, client_config
from pykraft.client.producing.producer import Outgoing, ProducerCore
from pykraft.common.core import FOREVER, Poll, merge
from pykraft.course.incidents.drawing import Card, Row
from pykraft.course.incidents.incident import Counter, Incident, Script, WrongCure
from pykraft.course.incidents.programs import Orderer
from pykraft.course.incidents.readers import Reading, Worker
from pykraft.course.incidents.terminal import Verb
from pykraft.course.incidents.world import World

TOPIC, PARTITIONS, GROUP = "clicks", 3, "billing"
_CLICKS_PER_S, _CLICK_BYTES = 18, 3_000
_RETENTION_MS, _SEGMENT_MS = 60_000, 10_000
_BILLING_EVERY_S = 30
_BAD, _KIOSK_EVERY_MS, _YEAR_2090_MS = 1, 45_000, 3_786_912_000_000
_HOUR_MS = 3_600_000
_CAPACITY_BYTES = 20_000_000
_MOST_BYTES = _CLICKS_PER_S // PARTITIONS * _CLICK_BYTES * 120
"""So large is a partition at most whose retention works: a minute of clicks, and two segments."""
_RIGHT_S = 5


class Kiosk:
    """A small producer with a wrong clock. It is a RequestManager."""

    def __init__(self, world: World, name: str) -> None:
        config = client_config(PRODUCER_CONFIG, {"bootstrap.servers": world.servers, "client.id": name})
        self._core = ProducerCore(config, world.chance(name))
        self._name, self._next_at = name, float(world.now_ms)
        self.accepted = self.refused = 0
        self.is_on = True

    def poll(self, now: int) -> Poll:
        if self.is_on and now >= self._next_at:
            record = Outgoing(TOPIC, self._name.encode(), b"tap", (), _BAD, _YEAR_2090_MS + now)
            if self._core.try_append(record, self._on_delivery, now) is None:
                self._next_at = now + _KIOSK_EVERY_MS
            else:
                self._next_at = now + 200
        return merge([self._core.poll(now), Poll(round(self._next_at) if self.is_on else FOREVER)])

    def _on_delivery(self, metadata: object, error: Exception | None) -> None:
        self.accepted += error is None
        self.refused += error is not None


class DiskFills(Incident):
    NUMBER, TITLE = 2, "A disk fills"
    TOPICS = (TOPIC,)
    PAGER = (
        "SEV 2 · broker 2: its disk grows by 18 kB every second and will be full in a quarter of an hour. Brokers 1 "
        "and 3 have the same load and do not grow. Topic clicks keeps one minute; billing reads it every 30 s."
    )
    CURE: ClassVar[Script] = (
        (10, "kafka-log-dirs --describe --topic-list clicks"),
        (20, "kafka-configs --describe --topic clicks"),
        (30, "kafka-get-offsets --topic clicks --time max-timestamp"),
        (40, "kafka-console-consumer --topic clicks --partition 1 --offset 934 --max-messages 1 "
             "--formatter-property print.timestamp=true --formatter-property print.key=true "
             "--formatter-property print.value=false"),
        (50, "kafka-configs --alter --topic clicks --add-config message.timestamp.after.max.ms=3600000"),
        (100, "kafka-consumer-groups --describe --group billing"),
        (105, 'kafka-delete-records --offset-json-file '
              '\'{"version":1,"partitions":[{"topic":"clicks","partition":1,"offset":1320}]}\''),
    )  # fmt: skip
    WRONG = (
        WrongCure(
            "retention.ms=5000",
            ((10, "kafka-configs --alter --topic clicks --add-config retention.ms=5000"),),
            "Nothing goes on the full disk. On the healthy ones clicks go that billing has not read.",
        ),
        WrongCure(
            "retention.bytes=200000",
            ((10, "kafka-configs --alter --topic clicks --add-config retention.bytes=200000"),),
            "Retention by size does not look at timestamps. The disk is free at once, of unread clicks, too.",
        ),
    )
    STORY = (
        "kiosk-17 has a clock that shows the year 2090, and sends a click every 45 s. Retention by time asks for the "
        "largest timestamp of a segment: such a segment is never old. It goes from the oldest segment on and stops at "
        "the first that stays, so the partition keeps everything.",
        "Kafka 4 refuses records that are more than an hour ahead. A backfill had raised "
        "`message.timestamp.after.max.ms` for this topic, and the override had stayed.",
        "The cure has two parts, in this order. Take the override away, so that no new record blocks. Then delete what "
        "billing has read (`kafka-delete-records`), so that retention gets past those that are there.",
    )
    SHOWN_BY = (
        ("kafka-log-dirs --describe --topic-list clicks", "clicks-1 is far larger than clicks-0 and clicks-2"),
        ("kafka-get-offsets --topic clicks --time max-timestamp", "where the record with the largest timestamp is"),
        ("kafka-console-consumer --partition 1 --offset … --formatter-property print.timestamp=true", "the year 2090"),
        ("kafka-configs --describe --topic clicks", "message.timestamp.after.max.ms=9223372036854775807"),
        ("kafka-consumer-groups --describe --group billing", "up to which offset nothing is needed any more"),
    )

    def build(self) -> World:
        world = World(
            self.seed,
            properties={
                "log.retention.check.interval.ms": 3_000,
                "log.initial.task.delay.ms": 1_000,
                "offsets.topic.replication.factor": 3,
            },
        )
        for node in world.brokers:
            world.cluster.nodes[node].filesystem.capacity_bytes = _CAPACITY_BYTES
        return world

    def own_verbs(self) -> list[Verb]:
        def stop(words: list[str]) -> str:
            found = self.kiosks.get(words[0] if len(words) == 1 else "")
            if found is None:
                raise ValueError("say which small producer, by its client id")
            found.is_on = False
            return f"{words[0]} is switched off"

        return [Verb("switch-off NAME", "switch off one small device that sends records", stop)]

    def prepare(self) -> None:
        world, run = self.world, self.terminal.run
        world.run_to(4_000)
        run(
            f"kafka-topics --create --topic {TOPIC} --replica-assignment 1,2,3 --config retention.ms={_RETENTION_MS} "
            f"--config segment.ms={_SEGMENT_MS} --config segment.bytes=1048576 --config file.delete.delay.ms=1000 "
            "--config message.timestamp.after.max.ms=9223372036854775807"
        )
        settings = {"linger.ms": 1_000, "batch.size": 100_000, "delivery.timeout.ms": 15_000}
        settings["request.timeout.ms"] = 5_000
        self.clicks = Orderer(world, TOPIC, PARTITIONS, _CLICKS_PER_S, settings, _CLICK_BYTES)
        world.start("site", self.clicks)
        self.reading = Reading(world, TOPIC, GROUP)
        self.worker = Worker(world, GROUP, self.reading, {"fetch.max.wait.ms": 5_000}, 2_000, every_s=_BILLING_EVERY_S)
        world.start(GROUP, self.worker)
        world.run_to(world.now_ms + 20_000)
        self.kiosks = {"kiosk-17": Kiosk(world, "kiosk-17")}
        world.start("kiosk-17", self.kiosks["kiosk-17"])
        world.run_to(world.now_ms + 120_000)
        self._right_s = 0

    # --- the judge ----------------------------------------------------------------------------------------------------

    def _blocks(self, number: int) -> bool:
        """Whether the partition has a record that retention will not delete for years."""
        leader = self.world.leader(TOPIC, number)
        if leader is None:
            return True
        latest = self.world.time_ms + _HOUR_MS
        return any(segment.largest_timestamp().timestamp > latest for segment in leader.log.segments)

    def _size(self, number: int) -> int:
        leader = self.world.leader(TOPIC, number)
        return 0 if leader is None else leader.log.size

    def second(self) -> None:
        is_right = all(not self._blocks(n) and 0 < self._size(n) <= _MOST_BYTES for n in range(PARTITIONS))
        self._right_s = self._right_s + 1 if is_right else 0
        if is_right and self._right_s >= _RIGHT_S and "kiosk-18" not in self.kiosks:
            self.report("kiosk-18 is switched on: the same model, the same firmware as kiosk-17")
            self.kiosks["kiosk-18"] = Kiosk(self.world, "kiosk-18")
            self.world.start("kiosk-18", self.kiosks["kiosk-18"])
            self._right_s = 0

    def missing(self) -> str | None:
        if "kiosk-18" not in self.kiosks or self._right_s < 2 * _RIGHT_S:
            return "not every partition's retention works"
        return None

    def is_lost(self) -> bool:
        return self.reading.missed > 0

    # --- what is seen -------------------------------------------------------------------------------------------------

    def _disk(self, node: int) -> float:
        total_bytes, free_bytes = self.world.cluster.nodes[node].filesystem.space("/")
        return 1 - free_bytes / total_bytes

    def counters(self) -> tuple[Counter, ...]:
        return (
            Counter("disk of broker 2", round(100 * self._disk(2)), unit=" %"),
            Counter("clicks not billed yet", sum(self.reading.lags().values())),
            Counter("deleted before billing", self.reading.missed, harm=True),
            Counter("clicks refused", self.clicks.refused, harm=True),
        )

    def cards(self) -> list[Card]:
        found = []
        for node in self.world.brokers:
            number, share = node - 1, self._disk(node)
            rows = [Row("disk", share, f"{share:.0%}", share > 0.15)]
            leader = self.world.leader(TOPIC, number)
            if leader is not None:
                size = leader.log.size
                text = f"{size / 1e6:.1f} MB in {len(leader.log.segments)} segments"
                rows.append(Row(f"{TOPIC}-{number}", size / _CAPACITY_BYTES, text, size > _MOST_BYTES))
            is_up = self.world.is_up(node)
            found.append(Card(f"broker {node}", "runs" if is_up else "down", rows, is_up))
        return found
