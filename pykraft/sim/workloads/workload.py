"""What the clients do meanwhile: produce numbered records, read everything, and compare the answers.

Each producer waits for all in-sync replicas, and nearly each is idempotent. It numbers its records for each partition,
so that a record that is missing, doubled or out of order is seen without looking anywhere else. A record whose sending
failed is given up: it may be in the log or not, but at most once. In some histories one producer is a plain one, whose
records may be there twice; what was acknowledged must be where it was said to be all the same.
"""

from collections.abc import Callable
from random import Random

from pykraft.client.administration.admin import AdminCalls, NewTopic
from pykraft.client.administration.quotas import ClientQuotaEntity, QuotaCalls, QuotaChanges
from pykraft.client.api_driver import ApiDriver
from pykraft.client.config import (
    ACKS,
    COMMON_CONFIG,
    CONSUMER_CONFIG,
    PRODUCER_CONFIG,
    bootstrap_endpoints,
    client_config,
)
from pykraft.client.consuming.consumer import ConsumerCore
from pykraft.client.consuming.fetcher import FetchedRecord
from pykraft.client.metadata import ClusterMetadata
from pykraft.client.producing.accumulator import RecordMetadata
from pykraft.client.producing.producer import Outgoing, ProducerCore
from pykraft.common.core import FOREVER, Poll, merge
from pykraft.common.errors import CorruptRecordError, ErrorCode, KafkaError
from pykraft.common.quotas.entities import PRODUCER_BYTE_RATE
from pykraft.common.types import TopicPartition
from pykraft.sim.laws.watcher import Watcher
from pykraft.sim.world.encoders import encode

TOPIC = "t"
_TAKE = 500


def admin_core(
    bootstrap_servers: str, random: Random, of_controllers: bool = False, **settings: object
) -> tuple[ClusterMetadata, ApiDriver]:
    """What an admin client asks with: both are RequestManagers. It gives a broker up after a second. `of_controllers`:
    it asks controllers, which `bootstrap_servers` names."""
    given = {"bootstrap.servers": bootstrap_servers, "request.timeout.ms": 1000}
    config = client_config(
        COMMON_CONFIG, {**given, **{name.replace("_", "."): each for name, each in settings.items()}}
    )
    metadata = ClusterMetadata(config, bootstrap_endpoints(config), random, of_controllers)
    metadata.request_update()
    return metadata, ApiDriver(config, metadata, random)


class TopicMaker:
    """Makes the topic; an admin client's core. It is a RequestManager."""

    def __init__(self, topic: NewTopic, bootstrap_servers: str, random: Random, pause_ms: int = 0) -> None:
        """`pause_ms` is the pause between two attempts."""
        self._metadata, self._driver = admin_core(bootstrap_servers, random)
        self._topic = topic
        self._pause_ms = pause_ms
        self._ask_at = 0
        self._asked = False
        self.is_done = False

    def poll(self, now: int) -> Poll:
        if not self._asked and not self.is_done and now >= self._ask_at:
            self._asked = True
            self._ask_at = now + self._pause_ms
            made = AdminCalls(self._driver).create_topics([self._topic], False, 1000, FOREVER)
            made.then(self._on_made)
        deadline = FOREVER if self._asked else max(now, self._ask_at)
        return merge([Poll(deadline), self._driver.poll(now), self._metadata.poll(now)])

    def _on_made(self, result: object) -> None:
        if isinstance(result, KafkaError) and result.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            # Too few brokers are there yet.
            self._asked = False
        else:
            self.is_done = True


class QuotaMaker:
    """Limits what one client may send; an admin client's core. It is a RequestManager."""

    def __init__(self, client_id: str, bytes_per_s: int, bootstrap_servers: str, random: Random) -> None:
        self._metadata, self._driver = admin_core(bootstrap_servers, random)
        self._changes: QuotaChanges = {ClientQuotaEntity(client_id=client_id): {PRODUCER_BYTE_RATE: float(bytes_per_s)}}
        self._is_asked = False

    def poll(self, now: int) -> Poll:
        if not self._is_asked:
            self._is_asked = True
            QuotaCalls(self._driver).alter(self._changes, False, now + 3_000).then(self._on_made)
        return merge([self._driver.poll(now), self._metadata.poll(now)])

    def _on_made(self, result: object) -> None:
        self._is_asked = not isinstance(result, KafkaError)


def key_of(number: int, keys: int) -> bytes | None:
    """The key of a producer's record by its number: each key comes half as often as the one before. None: it has
    none."""
    turns = ((number + 1) & -(number + 1)).bit_length() - 1
    return f"key {min(keys - 1, turns)}".encode() if keys else None


class Writer:
    """A producer that writes records of its own accord. It is a RequestManager."""

    def __init__(
        self,
        name: str,
        settings: dict[str, object],
        bootstrap_servers: str,
        records_per_s: int,
        partitions: int,
        watcher: Watcher,
        time_ms: Callable[[], int],
        random: Random,
        keys: int = 0,
        topic: str = TOPIC,
    ) -> None:
        """With `keys` each record has one of that many (`key_of`)."""
        config = client_config(PRODUCER_CONFIG, {"bootstrap.servers": bootstrap_servers, **settings})
        self._name = name
        self._core = ProducerCore(config, random, encode)
        self._waits_for_all = config[ACKS] in ("all", "-1")
        self._pause_ms = 1000 // records_per_s
        self._partitions = partitions
        self._watcher = watcher
        self._time_ms = time_ms
        self._random = random
        self._keys = keys
        self._topic = topic
        self._next_at = 0
        self._numbers = dict.fromkeys(range(partitions), 0)
        self.is_writing = True
        self.failed = 0

    @property
    def is_idle(self) -> bool:
        return self._core.is_idle

    def poll(self, now: int) -> Poll:
        if self.is_writing and now >= self._next_at:
            for _ in range(self._random.choice((1, 1, 1, 5))):
                self._write(now)
            self._next_at = now + self._random.randint(1, 2 * self._pause_ms)
        poll = self._core.poll(now)
        return merge([poll, Poll(self._next_at if self.is_writing else FOREVER)])

    def _write(self, now: int) -> None:
        partition = self._random.randrange(self._partitions)
        number = self._numbers[partition]
        value = f"{self._name} {partition} {number}".encode().ljust(self._random.choice((20, 40, 200)), b".")

        def on_delivery(metadata: RecordMetadata | None, error: Exception | None) -> None:
            if metadata is None:
                self.failed += 1
            elif metadata.offset >= 0:  # a duplicate is acknowledged without saying where it is
                self._watcher.progress.acknowledged += 1
                if not self._waits_for_all:
                    return  # the answer promises that one replica has it, and a law cannot ask for more
                self._watcher.history(TopicPartition(self._topic, partition)).acknowledge(metadata.offset, value)

        record = Outgoing(self._topic, key_of(number, self._keys), value, (), partition, self._time_ms())
        if self._core.try_append(record, on_delivery, now) is None:
            self._numbers[partition] += 1


def take_whole(core: ConsumerCore, watcher: Watcher) -> list[FetchedRecord]:
    """What a consumer has fetched. Where bytes may rot, a batch that fails its checksum is one to ask for again."""
    try:
        return core.take(_TAKE)
    except CorruptRecordError:
        if watcher.disks is None:
            raise
        watcher.progress.damage_met += 1
        return []


class Reader:
    """A consumer that reads all partitions from their beginning. It is a RequestManager."""

    def __init__(
        self,
        settings: dict[str, object],
        bootstrap_servers: str,
        partitions: int,
        watcher: Watcher,
        random: Random,
        topic: str = TOPIC,
    ) -> None:
        config = client_config(CONSUMER_CONFIG, {"bootstrap.servers": bootstrap_servers, **settings})
        self._core = ConsumerCore(config, random)
        places = [TopicPartition(topic, partition) for partition in range(partitions)]
        self._core.assign(places)
        self._watcher = watcher
        self._pause = random.choice((1, 10))
        self._next_at = 0
        self.positions = dict.fromkeys(places, 0)

    def poll(self, now: int) -> Poll:
        deadline = FOREVER
        if now >= self._next_at:
            for fetched in take_whole(self._core, self._watcher):
                key, record = fetched.topic_partition, fetched.record
                expected = self.positions[key]
                if record.offset != expected and not self._watcher.history(key).is_lost:
                    raise AssertionError(f"{key}: a consumer saw offset {record.offset} after {expected - 1}")
                self._watcher.history(key).consume(record.offset, record.value)
                self.positions[key] = record.offset + 1
                self._watcher.progress.consumed += 1
                is_near = self._core.subscription.partitions[key].preferred_read_replica is not None
                self._watcher.progress.consumed_from_followers += is_near
            self._next_at = now + self._pause
        poll = self._core.poll(now)
        if self._core.has_news:
            deadline = self._next_at
        return merge([poll, Poll(deadline)])
