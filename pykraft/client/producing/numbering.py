"""The numbers of an idempotent producer: its id and epoch, and the next sequence number of each partition (KIP-98).

A broker drops a numbered batch that it has, and refuses one that leaves a gap. So a retry is no duplicate; and if an
earlier batch is being retried, later ones in flight are refused, come back, and follow it in order. Three rules keep
the numbers right:

* a batch keeps its number when it is sent again;
* while a partition has a batch to be sent again, only batches follow it, in the order of their numbers, one at a time;
* until the first batch of a numbering is acknowledged, no other is sent: a broker takes any first number from a
  producer that it does not know, so a second batch would get in where the first was refused. (Kafka's own producer
  does not wait here; the simulator found the gap.) The numbering is *established* then.

A batch that is given up after it was sent may be in the log or not, and the numbers after it in its partition are in
*doubt*. The batches that were sent under them are sent again, one at a time, under their old numbers:

* If the broker has it, the batch is acknowledged.
* If every attempt was refused for its number, the batch is not in the log, and neither is a later one.
* If the answer to an attempt was lost, a refusal may also mean that the broker has forgotten the batch: after a restart
  it knows only the last one of each producer. Such a batch is given up too.

When all that waits is certain, the producer asks for another id, and numbers the partition from 0 under it (KIP-360).
The other partitions go on under the old one. (Kafka's own producer renumbers at once, and may write a batch twice.)

The producer id comes from any broker (InitProducerId). A producer without idempotence has no numbers, and may send
everything.

A transactional producer gets id and epoch from its coordinator: `transactions` asks for them, and calls `renumber`. It
never sends anything in doubt: the transaction is aborted, and what comes after is numbered from 0 under a new epoch. A
broker that has seen the new epoch refuses the older one, so that a batch which is late gets into no later transaction
(KIP-360, KIP-890).

Follows the idempotent half of org.apache.kafka.clients.producer.internals.TransactionManager, with TxnPartitionEntry.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pykraft.client import config as keys
from pykraft.client.api_driver import ApiDriver
from pykraft.client.producing.accumulator import ProducerBatch, RecordAccumulator
from pykraft.common.core import FOREVER
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.settings.config import LARGEST, Config
from pykraft.common.types import TopicPartition
from pykraft.protocol.messages.transactions import InitProducerIdRequest, InitProducerIdResponse
from pykraft.records.batch import LARGEST_SEQUENCE, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE

_CHANNEL = "produce"
_ATTEMPT_MS = 5000
"""A broker that does not answer is given up for another one after this time, or request.timeout.ms if that is less."""


class ProducerIdAndEpoch(NamedTuple):
    """The identity under which batches are numbered."""

    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_PRODUCER_EPOCH


class _PartitionNumbering:
    """The numbering of one partition. It is established once the broker has acknowledged a batch of it."""

    __slots__ = ("identity", "is_established", "next_sequence")

    def __init__(self, identity: ProducerIdAndEpoch) -> None:
        self.identity = identity
        self.next_sequence = 0
        self.is_established = False


class Numbering:
    """The numbers of one producer's batches, and which batches they allow to be sent."""

    def __init__(self, config: Config, driver: ApiDriver, accumulator: RecordAccumulator) -> None:
        self._config = config
        self._driver = driver
        self._accumulator = accumulator
        self._is_idempotent: bool = config[keys.ENABLE_IDEMPOTENCE]
        self._is_transactional = bool(config[keys.TRANSACTIONAL_ID])
        self._identity = ProducerIdAndEpoch()
        self._needs_identity = self._is_idempotent and not self._is_transactional
        self._is_asking = False
        self._ask_at = 0
        self._partitions: dict[TopicPartition, _PartitionNumbering] = {}
        self._doubtful: set[TopicPartition] = set()

    # --- sending ------------------------------------------------------------------------------------------------------

    def may_send(self, batch: ProducerBatch, in_flight: Sequence[ProducerBatch]) -> bool:
        """Whether this batch, the first that waits in its partition, may follow those in flight."""
        if not self._is_idempotent:
            return True
        key = batch.topic_partition
        if key in self._doubtful:
            return batch.may_be_written and not in_flight
        if key not in self._partitions and self._needs_identity:
            return False
        if not in_flight:
            return True
        if len(in_flight) >= self._config[keys.MAX_IN_FLIGHT]:
            return False  # some are under way to the leader before; no broker knows older ones again (KIP-98)
        is_again = batch.attempts > 0 or any(other.attempts > 1 for other in in_flight)
        return self._partitions[key].is_established and not is_again

    def number(self, batch: ProducerBatch) -> None:
        """Finish a batch without a number under the next one of its partition."""
        if not self._is_idempotent:
            batch.finish(NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE)
            return
        numbering = self._partitions.setdefault(batch.topic_partition, _PartitionNumbering(self._identity))
        sequence = numbering.next_sequence
        numbering.next_sequence = (sequence + batch.count) & LARGEST_SEQUENCE
        batch.finish(*numbering.identity, sequence)

    def number_parts(self, batch: ProducerBatch, parts: Sequence[ProducerBatch]) -> None:
        """A batch was too large, and is surely not in the log. The parts of a transactional one share its numbers: its
        transaction must not have a gap. Otherwise the parts, and all that follows, are numbered later."""
        if not self._is_transactional:
            self.given_up(batch.topic_partition)
            return
        sequence = batch.sequence
        for part in parts:
            part.finish(*self._partitions[batch.topic_partition].identity, sequence)
            sequence = (sequence + part.count) & LARGEST_SEQUENCE

    # --- answers ------------------------------------------------------------------------------------------------------

    def acknowledged(self, batch: ProducerBatch) -> None:
        """The batch is in the log."""
        if self._is_idempotent:
            self._partitions[batch.topic_partition].is_established = True

    def may_retry(self, batch: ProducerBatch, has_earlier: bool) -> bool:
        """Whether a batch that was refused for its number will be in order later: after an earlier one, or renumbered
        because it is surely not in the log."""
        return has_earlier or (batch.topic_partition in self._doubtful and not batch.has_unknown_attempts)

    def refused(self, batch: ProducerBatch, error: ErrorCode, has_earlier: bool) -> None:
        """The batch was not acknowledged, and will be sent again."""
        if error is not ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            batch.has_unknown_attempts = True
        elif not has_earlier:
            batch.forget_sequence()

    def given_up(self, topic_partition: TopicPartition) -> None:
        """A number of this partition is missing in the log, or may be."""
        if self._is_idempotent:
            self._doubtful.add(topic_partition)

    # --- doubt, and the producer id -----------------------------------------------------------------------------------

    @property
    def identity(self) -> ProducerIdAndEpoch:
        """The newest id and epoch that this producer was given."""
        return self._identity

    @property
    def is_doubtful(self) -> bool:
        """Whether a number of some partition is missing in its log, or may be."""
        return bool(self._doubtful)

    def renumber(self, identity: ProducerIdAndEpoch) -> None:
        """A transactional producer, with nothing under way, goes on under this id and epoch, from 0 in every
        partition."""
        self._identity = identity
        self._partitions.clear()
        self._doubtful.clear()

    def update(self, now: int, in_flight: Mapping[TopicPartition, Sequence[ProducerBatch]]) -> int:
        """Renumber what can be, and ask for a producer id if one is missing; returns when to call again."""
        if self._is_transactional:
            return FOREVER
        self._renumber_doubtful(in_flight)
        if not self._needs_identity or self._is_asking or not self._accumulator.has_unsent:
            return FOREVER
        if now < self._ask_at:
            return self._ask_at
        self._ask_for_identity(now)
        return FOREVER

    def _renumber_doubtful(self, in_flight: Mapping[TopicPartition, Sequence[ProducerBatch]]) -> None:
        """End the doubt of a partition once it is certain that no batch that waits is in the log."""
        for topic_partition in sorted(self._doubtful):
            first = self._accumulator.peek(topic_partition)
            if in_flight.get(topic_partition) or (first is not None and first.may_be_written):
                continue
            self._doubtful.discard(topic_partition)
            self._partitions.pop(topic_partition, None)
            self._needs_identity = True
            for batch in self._accumulator.waiting():
                if batch.topic_partition == topic_partition:
                    batch.forget_sequence()

    def _ask_for_identity(self, now: int) -> None:
        self._is_asking = True
        self._ask_at = now + self._config[keys.RETRY_BACKOFF_MAX_MS]  # but at once after a success
        self._driver.ask_any(
            "no producer id was given",
            InitProducerIdRequest(transaction_timeout_ms=LARGEST["int"]),
            _identity,
            now + self._config[keys.DEFAULT_API_TIMEOUT_MS],
            _CHANNEL,
            min(self._config[keys.REQUEST_TIMEOUT_MS], _ATTEMPT_MS),
        ).then(self._on_identity)

    def _on_identity(self, found: ProducerIdAndEpoch | KafkaError) -> None:
        self._is_asking = False
        if isinstance(found, KafkaError):
            return  # batches wait for the next try until their delivery.timeout.ms is over
        self._identity = found
        self._needs_identity = False
        self._ask_at = 0


def _identity(response: InitProducerIdResponse) -> ProducerIdAndEpoch:
    if response.error_code:
        raise KafkaError(ErrorCode.of(response.error_code))
    return ProducerIdAndEpoch(response.producer_id, response.producer_epoch)
