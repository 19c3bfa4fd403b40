"""The clients of logs that move: they write and read keys in two topics, and an administrator shortens the logs.

* A `KeyWriter` writes values and tombstones of a few keys. Now and then it rests, perhaps for so long that the logs
  forget it; then it goes on with its next sequence number, as if nothing had happened.
* A `KeyTransactions` does so in transactions, of which it aborts some. Where there is no bank, its transactional id
  changes now and then, and the coordinator forgets the old one.
* A `KeyReader` reads all from the logs' starts, and comes again to read it all once more: so it comes late each time.
* A `LogAdministrator` deletes records, changes the policies of the topics, and gives those of the coordinators tiny
  segments.

What must hold is in `laws.moving_log_laws`.
"""

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from pykraft.broker.broker import Broker
from pykraft.broker.coordination.coordinators import GROUP_TOPIC
from pykraft.client.administration.admin import NewTopic
from pykraft.client.administration.configs import ConfigCalls, ConfigResource, ConfigResourceType
from pykraft.client.administration.logs import LogCalls
from pykraft.client.config import PRODUCER_CONFIG, client_config
from pykraft.client.consuming.fetcher import FetchedRecord
from pykraft.client.errors import TransactionError, TransactionFatalError
from pykraft.client.producing.accumulator import RecordMetadata
from pykraft.client.producing.producer import Outgoing, ProducerCore
from pykraft.common.core import FOREVER, Poll, merge
from pykraft.common.errors import KafkaError
from pykraft.common.types import TopicIdPartition, TopicPartition
from pykraft.coordinator.transaction.config import TRANSACTION_TOPIC
from pykraft.metadata.image import MetadataImage
from pykraft.sim.laws.moving_log_laws import COMPACTED, SHORTENED, MovingLogLaws
from pykraft.sim.laws.watcher import Watcher
from pykraft.sim.trouble.moving_logs import MovingLogKnobs, producer_settings, transaction_settings
from pykraft.sim.workloads.rereading import RereadingConsumer
from pykraft.sim.workloads.settling import ends_of, missing_in_transactions
from pykraft.sim.workloads.transaction_workload import Step, TransactionalUser
from pykraft.sim.workloads.workload import TopicMaker, admin_core
from pykraft.sim.world.encoders import encode

_TAKE = 500
_PATIENCE_MS = 2_000
_PAUSE_MS = 20
_READ_EVERY_MS = 5
_AT_HIGH_WATERMARK = -1
_RESTS = 0.02
"""How often a producer rests after a record."""
_POLICIES = {
    SHORTENED: ("delete", "delete", "compact,delete"),
    COMPACTED: ("compact", "compact", "compact,delete", "delete"),
}
_TRANSACTIONAL_ID = "keys"
_IDS = 4
_LONGEST_LIFE_MS = 1_200
_COMMITS = 0.6


class _Keys:
    """Draws what is written next."""

    def __init__(self, name: str, knobs: MovingLogKnobs, random: Random) -> None:
        self._name = name
        self._knobs = knobs
        self._random = random
        self._count = 0

    def draw(self, time_ms: int) -> Outgoing:
        self._count += 1
        random, knobs = self._random, self._knobs
        value = None if random.random() < knobs.tombstones else f"{self._name} {self._count}".encode()
        if value is not None:
            value = value.ljust(random.choice((0, 0, 100)), b".")
        partition = random.randrange(knobs.partitions)
        topic, key = random.choice((SHORTENED, COMPACTED, COMPACTED)), b"k%d" % random.randrange(knobs.keys)
        return Outgoing(topic, key, value, (), partition, time_ms)


class KeyWriter:
    """A producer with idempotence. It is a RequestManager."""

    def __init__(
        self,
        name: str,
        knobs: MovingLogKnobs,
        servers: str,
        watcher: Watcher,
        time_ms: Callable[[], int],
        random: Random,
    ) -> None:
        config = client_config(PRODUCER_CONFIG, {"bootstrap.servers": servers, **producer_settings(random)})
        self._core = ProducerCore(config, random, encode)
        self._keys = _Keys(name, knobs, random)
        self._knobs = knobs
        self._watcher = watcher
        self._time_ms = time_ms
        self._random = random
        self._next_at = 0
        self.is_writing = True

    @property
    def is_idle(self) -> bool:
        return self._core.is_idle

    def poll(self, now: int) -> Poll:
        if self.is_writing and now >= self._next_at:
            self._write(now)
            self._next_at = now + self._random.randint(1, 2 * self._knobs.write_every_ms)
            if self._random.random() < _RESTS:
                self._next_at += self._knobs.rest_ms
        return merge([self._core.poll(now), Poll(self._next_at if self.is_writing else FOREVER)])

    def _write(self, now: int) -> None:
        record = self._keys.draw(self._time_ms())
        place, value = TopicPartition(record.topic, record.partition or 0), record.value

        def on_delivery(metadata: RecordMetadata | None, error: Exception | None) -> None:
            if metadata is not None and metadata.offset >= 0:
                self._watcher.progress.keys_written += 1
                self._watcher.history(place).acknowledge(metadata.offset, value)

        self._core.try_append(record, on_delivery, now)


class _KeyUser(TransactionalUser):
    """A program that writes keys in transactions."""

    def __init__(self, keys: _Keys, knobs: MovingLogKnobs, *rest: Any) -> None:
        self._keys = keys
        self._knobs = knobs
        super().__init__(*rest)

    def _rest(self, now: int) -> Any:
        return (yield now + self._random.randint(1, 3 * self._knobs.write_every_ms))

    def _transact(self) -> Step:
        error: KafkaError | None
        try:
            self.transactions.begin()
            for _ in range(self._random.choice((0, 1, 2, 4))):
                now = yield 0
                record = self._keys.draw(self._time_ms())
                while self.producer.try_append(record, None, now) is not None:
                    now = yield now + _PAUSE_MS
            is_commit = self._random.random() < _COMMITS
            error = yield from self._await(self.transactions.commit() if is_commit else self.transactions.abort())
        except TransactionError as raised:
            error = raised
        if error is not None and not isinstance(error, TransactionFatalError):
            error = yield from self._await(self.transactions.abort())
        return error


class KeyTransactions:
    """A host on which such a program runs; after a fatal error, and sometimes before, another one. It is a
    RequestManager."""

    def __init__(self, knobs: MovingLogKnobs, servers: str, time_ms: Callable[[], int], random: Random) -> None:
        self._knobs = knobs
        self._servers = servers
        self._time_ms = time_ms
        self._random = random
        self._begun = 0
        self._user = self._begin()
        self._change_at = 0
        self.is_pausing = False

    def _begin(self) -> _KeyUser:
        name = f"{_TRANSACTIONAL_ID}-{self._begun % _IDS}"
        self._begun += 1
        keys = _Keys(f"{name} {self._begun}", self._knobs, self._random)
        settings = transaction_settings(self._random)
        return _KeyUser(keys, self._knobs, name, settings, self._servers, self._time_ms, self._random)

    @property
    def is_idle(self) -> bool:
        return self._user.is_idle or self._user.is_done

    def poll(self, now: int) -> Poll:
        if not self._change_at:
            self._change_at = now + self._random.randint(1, _LONGEST_LIFE_MS)
        if not self.is_pausing and (self._user.is_done or (self._user.is_idle and now >= self._change_at)):
            self._user = self._begin()
            self._change_at = now + self._random.randint(1, _LONGEST_LIFE_MS)
        self._user.is_pausing = self.is_pausing
        return merge([self._user.poll(now), Poll(FOREVER if self.is_pausing else max(now + 1, self._change_at))])


class KeyReader(RereadingConsumer):
    """It reads both topics."""

    def __init__(
        self,
        knobs: MovingLogKnobs,
        settings: dict[str, object],
        servers: str,
        watcher: Watcher,
        random: Random,
    ) -> None:
        places = [TopicPartition(topic, number) for topic in _POLICIES for number in range(knobs.partitions)]
        super().__init__(settings, servers, places, _READ_EVERY_MS, knobs.read_again_ms, random)
        self._is_committed = settings["isolation.level"] == "read_committed"
        self._retention_ms = {
            SHORTENED: int(str(knobs.shortened["delete.retention.ms"])),
            COMPACTED: int(str(knobs.compacted["delete.retention.ms"])),
        }
        self._watcher = watcher

    def _take(self) -> list[FetchedRecord]:
        return self._core.take(_TAKE)

    def _read(self, place: TopicPartition, record: Any) -> None:
        key, laws = self._key(place), self._laws
        self._skip(place, record.offset)
        laws.check_shown(key, record, self._is_committed)
        self._expected[place] = record.offset + 1
        self._watcher.progress.keys_read += 1

    def _skip(self, place: TopicPartition, end: int) -> None:
        expected = self._expected[place]
        if end < expected:
            raise AssertionError(f"{place}: a reader is shown offset {end} after {expected - 1}")
        retention_ms = self._retention_ms[place.topic]
        self._laws.check_skipped(self._key(place), expected, end, self._is_committed, retention_ms)

    @property
    def _laws(self) -> MovingLogLaws:
        assert self._watcher.moving is not None
        return self._watcher.moving

    def _key(self, place: TopicPartition) -> TopicIdPartition:
        image = self._watcher.newest_image()
        assert image is not None
        return TopicIdPartition(image.topic_ids[place.topic], *place)

    def missing(self, ends: Mapping[TopicPartition, int]) -> str | None:
        """Why it has not read all there is; None if it has, and nothing that it was not shown is missing."""
        for place, end in ends.items():
            position = self._core.subscription.partitions[place].position
            if position is None or position.offset < end:
                return f"a reader of {place} has come to {position and position.offset} of {end}"
            self._skip(place, max(position.offset, self._expected[place]))
        return None


class LogAdministrator:
    """An admin client's core that acts of its own accord. It is a RequestManager."""

    def __init__(
        self, knobs: MovingLogKnobs, internal: tuple[str, ...], servers: str, watcher: Watcher, random: Random
    ) -> None:
        """It gives these topics of coordinators their settings, as soon as they are there."""
        self._metadata, self._driver = admin_core(servers, random)
        self._knobs = knobs
        self._internal = list(internal)
        self._watcher = watcher
        self._random = random
        self._act_at = 0
        self.is_active = True
        self.is_waiting = False

    def poll(self, now: int) -> Poll:
        if self.is_active and not self.is_waiting and now >= self._act_at:
            self._act_at = now + self._random.randint(1, 2 * self._knobs.every_ms)
            self._act(now + _PATIENCE_MS)
        deadline = self._act_at if self.is_active and not self.is_waiting else FOREVER
        return merge([Poll(max(now, deadline)), self._driver.poll(now), self._metadata.poll(now)])

    def _act(self, deadline: int) -> None:
        image = self._watcher.newest_image()
        if image is None:
            return
        made = next((topic for topic in self._internal if topic in image.topic_ids), None)
        if made is not None:
            self._alter(made, self._knobs.internal, deadline, lambda: self._internal.remove(made))
        elif SHORTENED in image.topic_ids and COMPACTED in image.topic_ids:
            topic = self._random.choice((SHORTENED, COMPACTED))
            if self._random.random() < self._knobs.policy_changes:
                policy = self._random.choice(_POLICIES[topic])
                self._alter(topic, {"cleanup.policy": policy}, deadline, lambda: None)
            else:
                place = TopicPartition(topic, self._random.randrange(self._knobs.partitions))
                self._delete(TopicIdPartition(image.topic_ids[topic], *place), deadline)

    def _alter(self, topic: str, changes: Mapping[str, object], deadline: int, on_done: Callable[[], None]) -> None:
        def on_answer(result: object) -> None:
            self.is_waiting = False
            if not isinstance(result, KafkaError):
                on_done()

        self.is_waiting = True
        asked = {ConfigResource(ConfigResourceType.TOPIC, topic): changes}
        ConfigCalls(self._driver).incremental_alter_configs(asked, False, deadline).then(on_answer)

    def _delete(self, key: TopicIdPartition, deadline: int) -> None:
        end, laws = self._watcher.history_of(key).log.end, self._watcher.moving
        assert laws is not None
        is_rough = self._random.random() < 0.1
        offset = _AT_HIGH_WATERMARK if is_rough else self._random.randint(self._random.choice((0, 3 * end // 4)), end)
        asked = laws.on_delete_asked(key, offset)

        def on_answer(result: Any) -> None:
            self.is_waiting = False
            image = self._watcher.newest_image()
            assert image is not None
            low_watermark = None if isinstance(result, KafkaError) else result.get(key.topic_partition)
            if isinstance(low_watermark, int):
                laws.on_deleted(key, asked, low_watermark, image)
                self._watcher.progress.deletions += 1

        self.is_waiting = True
        calls = LogCalls(self._driver)
        calls.delete_records({key.topic_partition: offset}, _PATIENCE_MS // 2, deadline).then(on_answer)


class MovingLogWorkload:
    """The two topics, and those who use them."""

    def __init__(
        self,
        knobs: MovingLogKnobs,
        brokers: int,
        consumers: tuple[dict[str, object], ...],
        servers: str,
        watcher: Watcher,
        time_ms: Callable[[], int],
        dice: Callable[[str], Random],
    ) -> None:
        self._knobs = knobs
        self._watcher = watcher
        self._makers = []
        for name, settings in ((SHORTENED, knobs.shortened), (COMPACTED, knobs.compacted)):
            said = {key: str(value) for key, value in settings.items()}
            topic = NewTopic(name, knobs.partitions, min(3, brokers), {}, said)
            self._makers.append((f"maker-{name}", TopicMaker(topic, servers, dice(f"maker of {name}"), _PAUSE_MS)))
        self.writers = [KeyWriter(f"w{n}", knobs, servers, watcher, time_ms, dice(f"key writer {n}")) for n in range(2)]
        self.transactions = KeyTransactions(knobs, servers, time_ms, dice("key transactions"))
        self.readers = [
            KeyReader(knobs, {**consumers[0], "isolation.level": level}, servers, watcher, dice(f"reader {level}"))
            for level in ("read_committed", "read_uncommitted")
        ]
        internal = (GROUP_TOPIC, TRANSACTION_TOPIC)
        self.administrator = LogAdministrator(knobs, internal, servers, watcher, dice("log administrator"))

    def clients(self) -> list[tuple[str, Any]]:
        """Each with its name."""
        return [
            *self._makers,
            *((f"key-writer-{number}", writer) for number, writer in enumerate(self.writers)),
            ("key-transactions", self.transactions),
            *((f"key-reader-{number}", reader) for number, reader in enumerate(self.readers)),
            ("log-administrator", self.administrator),
        ]

    def end(self) -> None:
        """From now on no log is shortened by an administrator."""
        self.administrator.is_active = False

    def pause(self) -> None:
        """Nothing more is written."""
        for writer in self.writers:
            writer.is_writing = False
        for reader in self.readers:
            reader.begins_again = False
        self.transactions.is_pausing = True

    def check(self, image: MetadataImage) -> None:
        """The laws of logs look at them, and at no promise of an administrator."""

    def missing(self, brokers: Sequence[tuple[int, Broker]]) -> str | None:
        """Why it has not settled; None if it has. `brokers` are those that are up, with their node ids."""
        if (why := missing_in_transactions(brokers)) is not None:
            return why
        ends = ends_of(brokers, _POLICIES)
        if self.administrator.is_waiting:
            return "the administrator of the logs waits for an answer"
        if not all(writer.is_idle for writer in self.writers) or not self.transactions.is_idle:
            return "a producer of keys waits for an answer"
        if len(ends) != len(_POLICIES) * self._knobs.partitions:
            return f"of the topics {sorted(_POLICIES)} there are only {sorted(ends)}"
        return next((why for reader in self.readers if (why := reader.missing(ends)) is not None), None)
