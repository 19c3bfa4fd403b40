"""A producer without a thread: partitioner, accumulator, numbering, transactions, sender and metadata in one.

`try_append` takes a record, or says what it must wait for; `poll` sends. Its owner has a clock and a network, and
drives it: the `Producer` façade with a thread and sockets, the simulator with its own.

Follows org.apache.kafka.clients.producer.KafkaProducer.
"""

from collections.abc import Sequence
from enum import Enum
from itertools import chain
from random import Random
from typing import NamedTuple

from pykraft.client import config as keys
from pykraft.client.api_driver import ApiDriver
from pykraft.client.config import bootstrap_endpoints
from pykraft.client.metadata import ClusterMetadata
from pykraft.client.producing.accumulator import OnDelivery, RecordAccumulator
from pykraft.client.producing.numbering import Numbering
from pykraft.client.producing.partitioner import StickyPartitioner, partition_of_key
from pykraft.client.producing.sender import Sender
from pykraft.client.producing.transactions import TransactionManager
from pykraft.common.core import Poll, merge
from pykraft.common.errors import ConfigError, ErrorCode, KafkaError
from pykraft.common.settings.config import Config
from pykraft.common.types import TopicPartition
from pykraft.records.builder import estimated_size
from pykraft.records.compression import Encoder, compress
from pykraft.records.encoded import EncodedRecordBatch
from pykraft.records.record import Header


class Obstacle(Enum):
    """What a record must wait for before it can be taken."""

    METADATA = "the topic's partitions are not known yet"
    MEMORY = "buffer.memory is used up"


class Outgoing(NamedTuple):
    """A record that is to be sent. Without a partition the key decides, without a key the partitioner does."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header]
    partition: int | None
    timestamp: int


class ProducerCore:
    """One producer. It is a RequestManager."""

    def __init__(self, config: Config, random: Random, encode: Encoder = compress) -> None:
        """ConfigError if the settings contradict each other. `encode` compresses the batches."""
        _check(config)
        self.config = config
        self.metadata = ClusterMetadata(config, bootstrap_endpoints(config), random)
        self.accumulator = RecordAccumulator(config, encode)
        self.driver = ApiDriver(config, self.metadata, random)
        numbering = Numbering(config, self.driver, self.accumulator)
        self.transactions: TransactionManager | None = None
        """None if the producer has no transactional.id."""
        if config[keys.TRANSACTIONAL_ID]:
            self.transactions = TransactionManager(config, self.driver, self.accumulator, numbering)
        self._sender = Sender(config, self.metadata, self.accumulator, numbering, random, self.transactions)
        self._partitioner = StickyPartitioner(random, config[keys.BATCH_SIZE])
        self._max_record_bytes = config[keys.MAX_REQUEST_SIZE]
        self.wants_poll = False
        """Something was appended that need not wait any longer, or that has its own time to be sent at."""

    def try_append(self, record: Outgoing, on_delivery: OnDelivery | None, now: int) -> Obstacle | None:
        """Take the record, or say what it must wait for. KafkaError or ValueError if it can never be sent; RuntimeError
        if it needs a transaction and none is open."""
        if self.transactions is not None:
            self.transactions.check_open("send()")
        size = estimated_size(record.key, record.value, record.headers)
        if size > self._max_record_bytes:
            raise _too_large("record", size, self._max_record_bytes)
        partitions = self.metadata.partitions_of(record.topic)
        if partitions is None:
            self._want(record.topic)
            return Obstacle.METADATA
        if not self.accumulator.has_room(size):
            self.accumulator.is_wanting = True
            return Obstacle.MEMORY
        topic_partition = TopicPartition(record.topic, self._partition(record, partitions, size))
        if self.transactions is not None:
            self.transactions.add(topic_partition)
        concerns_sender = self.accumulator.append(
            topic_partition, record.timestamp, record.key, record.value, record.headers, on_delivery, now
        )
        self.wants_poll |= concerns_sender
        return None

    def try_append_encoded(
        self, topic_partition: TopicPartition, encoded: EncodedRecordBatch, on_failure: OnDelivery | None, now: int
    ) -> Obstacle | None:
        """Take a batch that was encoded elsewhere, or say what it must wait for; this producer numbers it. `on_failure`
        is called if it is not written. Errors as for `try_append`."""
        if self.transactions is not None:
            self.transactions.check_open("sending a batch")
        if encoded.size > self._max_record_bytes:
            raise _too_large("batch", encoded.size, self._max_record_bytes)
        partitions = self.metadata.partitions_of(topic_partition.topic)
        if partitions is None:
            self._want(topic_partition.topic)
            return Obstacle.METADATA
        if topic_partition.partition not in partitions:
            raise _no_partition(topic_partition, partitions)
        if not self.accumulator.has_room(encoded.size):
            self.accumulator.is_wanting = True
            return Obstacle.MEMORY
        if self.transactions is not None:
            self.transactions.add(topic_partition)
        self.accumulator.append_encoded(topic_partition, encoded, on_failure, now)
        self.wants_poll = True
        return None

    def reason(self, topic: str, obstacle: Obstacle) -> str:
        """What a record of this topic waits for, in words."""
        reason: str = obstacle.value
        if obstacle is not Obstacle.METADATA:
            return reason
        if not self.metadata.version:
            return f"no broker has answered at {', '.join(map(str, bootstrap_endpoints(self.config)))}"
        known = self.metadata.topics.get(topic)
        return f"{reason}: {known.error.text}" if known is not None and known.error else reason

    def knows(self, topic: str) -> bool:
        """Whether the topic's partitions are known; if not, they are asked for. KafkaError: they never will be."""
        if self.metadata.partitions_of(topic) is not None:
            return True
        self._want(topic)
        return False

    def _want(self, topic: str) -> None:
        known = self.metadata.topics.get(topic)
        if known is not None and known.error is not ErrorCode.NONE and not known.error.retriable:
            self.metadata.forget_topic(topic)  # the next send asks again: there may be a rule by then
            raise KafkaError(known.error, f"{topic}: {known.error.text}")
        self.metadata.add_topic(topic)

    def _partition(self, record: Outgoing, partitions: Sequence[int], size: int) -> int:
        if record.partition is not None:
            if record.partition not in partitions:
                raise _no_partition(TopicPartition(record.topic, record.partition), partitions)
            return record.partition
        if record.key is not None:
            return partition_of_key(record.key, len(partitions))
        led = [p for p in partitions if self.metadata.leader_of(TopicPartition(record.topic, p)) is not None]
        return self._partitioner.partition(record.topic, led or partitions, size)

    @property
    def obstacle(self) -> str:
        """What the oldest call under way waits for, in words."""
        return self.driver.obstacle

    @property
    def is_idle(self) -> bool:
        """Every record that was taken is acknowledged, or has failed."""
        return not (self.accumulator.has_unsent or self._sender.has_under_way)

    def begin_flush(self) -> int:
        """From now on nothing lingers, until `end_flush`. `is_flushed` tells when what was taken before is settled."""
        self.accumulator.flushes += 1
        return self.accumulator.newest

    def is_flushed(self, flush: int) -> bool:
        """Every record that was taken before this flush began is acknowledged, or has failed."""
        unsettled = chain(self.accumulator.firsts(), self._sender.under_way())
        return all(batch.place[0] > flush for batch in unsettled)

    def end_flush(self) -> None:
        self.accumulator.flushes -= 1

    def abandon(self, error: Exception) -> None:
        """Fail all records that are not acknowledged: they are not sent any more, and no answer will be heard."""
        self._sender.abandon(error)
        for batch in self.accumulator.take_all():
            self.accumulator.release(batch)
            batch.fail(error)

    def poll(self, now: int) -> Poll:
        self.wants_poll = False
        if self.transactions is not None:
            self.transactions.poll(self._sender.has_under_way)
        sender = self._sender.poll(now)  # first: it may need a producer id, or find out that the metadata are old
        return merge([sender, self.driver.poll(now), self.metadata.poll(now)])


def _too_large(what: str, size: int, limit: int) -> KafkaError:
    return KafkaError(ErrorCode.MESSAGE_TOO_LARGE, f"the {what} has {size} bytes, max.request.size allows {limit}")


def _no_partition(wanted: TopicPartition, partitions: Sequence[int]) -> ValueError:
    return ValueError(f"{wanted.topic} has partitions {partitions[0]} to {partitions[-1]}, not {wanted.partition}")


def _check(config: Config) -> None:
    acks = config[keys.ACKS]
    if config[keys.TRANSACTIONAL_ID] and not config[keys.ENABLE_IDEMPOTENCE]:
        raise ConfigError(
            f"transactional.id={config[keys.TRANSACTIONAL_ID]}: a transactional producer is an idempotent one, which "
            "needs enable.idempotence=true, acks=all and retries of at least 1"
        )
    in_flight = config[keys.MAX_IN_FLIGHT]
    if config[keys.ENABLE_IDEMPOTENCE]:
        if acks not in ("all", "-1"):
            raise ConfigError(f"acks={acks}: an idempotent producer needs acks=all. Or set enable.idempotence=false")
        if not config[keys.RETRIES]:
            raise ConfigError(
                "retries=0: an idempotent producer must be able to try again. Or set enable.idempotence=false"
            )
        if in_flight > 5:
            raise ConfigError(
                f"max.in.flight.requests.per.connection={in_flight}: brokers remember five batches of a producer, so "
                "an idempotent one may have at most 5 under way. Or set enable.idempotence=false"
            )
    if config[keys.DELIVERY_TIMEOUT_MS] < config[keys.LINGER_MS] + config[keys.REQUEST_TIMEOUT_MS]:
        raise ConfigError(
            f"delivery.timeout.ms={config[keys.DELIVERY_TIMEOUT_MS]} is less than linger.ms plus request.timeout.ms, "
            f"{config[keys.LINGER_MS] + config[keys.REQUEST_TIMEOUT_MS]}: no request could ever be late"
        )
