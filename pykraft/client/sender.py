"""Getting batches acknowledged, once and in order.

For each broker, up to ``max.in.flight.requests.per.connection`` produce requests are under way. When one fails in a way
that may pass, its batches go back to the front of their queues and are sent again, until ``delivery.timeout.ms``.

An *idempotent* producer numbers the batches of each partition (KIP-98): the broker drops a batch that it has, and
refuses one that leaves a gap. So a retry is no duplicate; and if an earlier batch is being retried, later ones that
were under way are refused, come back, and follow it in order. Three rules keep the numbers right:

* a batch keeps its number when it is sent again;
* while a partition has a batch to be sent again, only batches follow it, in the order of their numbers, one at a time;
* until the first batch of a numbering is acknowledged, no other is sent: a broker takes any first number from a
  producer that it does not know, so a second batch would get in where the first was refused. (Kafka's own producer
  does not wait here; the simulator found the gap.)

If a batch is given up after it was sent, nobody knows whether it is in the log, and the numbers after it in its
partition are in *doubt*. Those that were sent too are asked for again, one at a time, under their old numbers. Who is
known to be in the log is acknowledged. Who is refused for its number is not in the log, if each attempt was refused so;
then no later one is either. But if the answer to an attempt was lost, it may also be that the broker had forgotten the
batch: after a restart it knows only the last one of each producer. Such a batch is given up too, since nobody knows.
When all that waits is certain, the producer asks for another id, and numbers it anew from 0 under it (KIP-360). The
other partitions go on under the old one. (Kafka's own producer renumbers at once, and may write a batch twice.)

Follows org.apache.kafka.clients.producer.internals.{Sender,TransactionManager}.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from random import Random
from typing import Any, NamedTuple

from pykraft.client import config as keys
from pykraft.client.accumulator import ProducerBatch, RecordAccumulator
from pykraft.client.errors import ClientTimeoutError
from pykraft.client.metadata import ClusterMetadata
from pykraft.common.config import LARGEST, Config
from pykraft.common.core import FOREVER, Failure, Outbound, Poll
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.timer import Backoff
from pykraft.common.types import Node, TopicPartition, Uuid
from pykraft.protocol.messages.data import ProduceRequest, ProduceResponse
from pykraft.protocol.messages.transactions import InitProducerIdRequest, InitProducerIdResponse
from pykraft.records.batch import LARGEST_SEQUENCE, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE

CHANNEL = "produce"
_ACKS = {"0": 0, "1": 1, "-1": -1, "all": -1}


class _Identity(NamedTuple):
    """A producer id and its epoch."""

    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_PRODUCER_EPOCH


class _Numbering:
    """Under which identity a partition's batches are numbered, the next number, and whether the broker has one."""

    __slots__ = ("identity", "is_established", "next_sequence")

    def __init__(self, identity: _Identity) -> None:
        self.identity = identity
        self.next_sequence = 0
        self.is_established = False


class Sender:
    """Sends what the accumulator has ready. It is a RequestManager."""

    def __init__(
        self, config: Config, metadata: ClusterMetadata, accumulator: RecordAccumulator, random: Random
    ) -> None:
        self._config = config
        self._metadata = metadata
        self._accumulator = accumulator
        self._acks = _ACKS[config[keys.ACKS]]
        self._idempotent = config[keys.ENABLE_IDEMPOTENCE]
        self._backoff = Backoff(random, config[keys.RETRY_BACKOFF_MS], config[keys.RETRY_BACKOFF_MAX_MS])
        self._identity = _Identity()
        self._needs_identity = self._idempotent
        self._asking_identity = False
        self._ask_identity_at = 0
        self._identity_attempts = 0
        self._numberings: dict[TopicPartition, _Numbering] = {}
        self._doubtful: set[TopicPartition] = set()
        self._in_flight: dict[int, int] = {}
        self._under_way: dict[TopicPartition, list[ProducerBatch]] = {}

    @property
    def has_under_way(self) -> bool:
        return any(self._under_way.values())

    def under_way(self) -> Iterator[ProducerBatch]:
        """The batches that were sent and not answered yet."""
        return chain.from_iterable(self._under_way.values())

    def abandon(self, error: Exception) -> None:
        """Fail them: nobody will hear the answers."""
        lost = list(self.under_way())
        self._under_way.clear()
        for batch in lost:
            self._accumulator.release(batch)
            batch.fail(error)

    # --- sending ------------------------------------------------------------------------------------------------------

    def poll(self, now: int) -> Poll:
        """Send what is ready and allowed; returns when there may be more."""
        deadline = self._give_up_late(now)
        self._renumber_doubtful()
        self._hurry_to_new_leaders(now)
        identity = self._ask_identity(now) if self._needs_identity and self._accumulator.has_unsent else Poll()
        requests = list(identity.requests)
        for node, topic_partitions in self._sendable(now).items():
            while self._in_flight.get(node.id, 0) < self._config[keys.MAX_IN_FLIGHT]:
                batches = self._drain(topic_partitions, now)
                if not batches:
                    break
                requests.append(self._request(node, batches))
        return Poll(min(deadline, identity.deadline, self._next_ready(now)), requests)

    def _hurry_to_new_leaders(self, now: int) -> None:
        """The pause before a retry is for a leader that may get well. A new one need not be waited for (KIP-951), and
        is looked for all the time: pauses grow, and a cluster may elect it at the beginning of a long one."""
        for batch in self._accumulator.pausing(now):
            if self._metadata.leader_epoch(batch.topic_partition) > batch.leader_epoch:
                batch.not_before = now
            else:
                self._metadata.request_update()

    def _next_ready(self, now: int) -> int:
        """What is ready but could not be sent waits for an answer or for metadata, not for time."""
        ready = self._accumulator.deadline()
        return ready if ready > now else FOREVER

    def _sendable(self, now: int) -> dict[Node, list[TopicPartition]]:
        """The partitions with something to send, by the broker that leads them."""
        by_node: dict[Node, list[TopicPartition]] = {}
        for topic_partition in self._accumulator.ready(now):
            node = self._metadata.leader_of(topic_partition)
            if node is None:
                self._metadata.request_update()
            else:
                by_node.setdefault(node, []).append(topic_partition)
        return by_node

    def _drain(self, topic_partitions: Sequence[TopicPartition], now: int) -> list[ProducerBatch]:
        """One batch of each of these partitions, as many as fit into a request."""
        batches: list[ProducerBatch] = []
        size = 0
        for topic_partition in topic_partitions:
            batch = self._accumulator.peek(topic_partition)
            if batch is None or not self._accumulator.is_ready(topic_partition, now) or not self._may_send(batch):
                continue
            if batches and size + batch.size > self._config[keys.MAX_REQUEST_SIZE]:
                break
            self._accumulator.take(topic_partition)
            if batch.data is None:
                batch.finish(*self._number(batch))
            batch.attempts += 1
            batch.leader_epoch = self._metadata.leader_epoch(topic_partition)
            size += batch.size
            self._under_way.setdefault(topic_partition, []).append(batch)
            batches.append(batch)
        return batches

    def _may_send(self, batch: ProducerBatch) -> bool:
        """Order: a batch that is sent again waits until it is the first under way, and lets nobody pass."""
        if not self._idempotent:
            return True
        key = batch.topic_partition
        under_way = self._under_way.get(key, [])
        if key in self._doubtful:
            return batch.may_be_written and not under_way
        if key not in self._numberings and self._needs_identity:
            return False
        if not under_way:
            return True
        if len(under_way) >= self._config[keys.MAX_IN_FLIGHT]:
            return False  # some are under way to the leader before; no broker knows older ones again (KIP-98)
        is_again = batch.attempts > 0 or any(other.attempts > 1 for other in under_way)
        return self._numberings[key].is_established and not is_again

    def _number(self, batch: ProducerBatch) -> tuple[int, int, int]:
        """(producer id, epoch, sequence) of a batch that is sent for the first time."""
        if not self._idempotent:
            return (NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE)
        numbering = self._numberings.setdefault(batch.topic_partition, _Numbering(self._identity))
        sequence = numbering.next_sequence
        numbering.next_sequence = (sequence + batch.count) & LARGEST_SEQUENCE
        return (*numbering.identity, sequence)

    def _request(self, node: Node, batches: Sequence[ProducerBatch]) -> Outbound:
        topics: dict[str, list[ProduceRequest.Topic.Partition]] = {}
        for batch in batches:
            partition = ProduceRequest.Topic.Partition(index=batch.topic_partition.partition, records=batch.data)
            topics.setdefault(batch.topic_partition.topic, []).append(partition)
        request = ProduceRequest(
            acks=self._acks,
            timeout_ms=self._config[keys.REQUEST_TIMEOUT_MS],
            topic_data=[
                ProduceRequest.Topic(name=topic, topic_id=self._metadata.topic_id(topic), partition_data=partitions)
                for topic, partitions in topics.items()
            ],
        )
        self._in_flight[node.id] = self._in_flight.get(node.id, 0) + 1
        names = {topic.topic_id: topic.name for topic in request.topic_data}

        def on_response(response: Any, now: int) -> None:
            self._in_flight[node.id] -= 1
            if isinstance(response, Failure):
                self._metadata.has_failed(node)
            self._on_response(batches, names, response, now)

        return Outbound(CHANNEL, node, request, on_response, self._config[keys.REQUEST_TIMEOUT_MS])

    # --- answers ------------------------------------------------------------------------------------------------------

    def _on_response(
        self, batches: Sequence[ProducerBatch], names: Mapping[Uuid, str], response: Any, now: int
    ) -> None:
        """`names` gives the topics' names by their ids: from Produce 13 on the answer has ids only."""
        if response is None:  # acks=0: gone, and nothing will ever be known
            for batch in batches:
                self._finish(batch)
                batch.deliver(-1, -1)
            return
        answers = {}
        if isinstance(response, ProduceResponse):
            answers = {
                TopicPartition(topic.name or names.get(topic.topic_id, ""), answer.index): answer
                for topic in response.responses
                for answer in topic.partition_responses
            }
        silent = ErrorCode.NETWORK_EXCEPTION
        if response is Failure.UNSUPPORTED_VERSION:
            silent = ErrorCode.UNSUPPORTED_VERSION
        for batch in batches:
            found = answers.get(batch.topic_partition)
            if found is not None and found.current_leader is not None:
                self._metadata.learn_leader(batch.topic_partition, found.current_leader, response.node_endpoints)
            self._settle(batch, silent if found is None else ErrorCode.of(found.error_code), found, now)

    def _settle(
        self,
        batch: ProducerBatch,
        error: ErrorCode,
        answer: ProduceResponse.Topic.Partition | None,
        now: int,
    ) -> None:
        if error in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            self._finish(batch)
            if self._idempotent:
                self._numberings[batch.topic_partition].is_established = True
            offset = answer.base_offset if answer is not None else -1
            batch.deliver(offset, -1 if answer is None else answer.log_append_time_ms)
            return
        if error.refreshes_metadata:
            self._metadata.request_update()
        if error is ErrorCode.MESSAGE_TOO_LARGE and batch.count > 1:
            self._split(batch)
        elif self._may_retry(batch, error, now):
            self._under_way[batch.topic_partition].remove(batch)
            if error is not ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
                batch.has_unknown_attempts = True
            elif not self._has_earlier(batch):
                batch.forget_sequence()
            batch.not_before = now + self._backoff.pause_ms(batch.attempts - 1)
            self._accumulator.put_back(batch)
        else:
            detail = (answer.error_message if answer is not None else None) or ""
            self._finish(batch)
            self._distrust(batch.topic_partition)
            is_late = error.retriable and self._is_late(batch, now)
            batch.fail(self._lateness(batch, detail or error.text) if is_late else KafkaError(error, detail))

    def _is_late(self, batch: ProducerBatch, now: int) -> bool:
        return now >= batch.created + self._config[keys.DELIVERY_TIMEOUT_MS]

    def _lateness(self, batch: ProducerBatch, obstacle: str = "") -> ClientTimeoutError:
        limit = self._config[keys.DELIVERY_TIMEOUT_MS]
        what = f"{batch.count} records for {batch.topic_partition} were not acknowledged in {limit} ms"
        return ClientTimeoutError(f"{what}: {obstacle}" if obstacle else what)

    def _may_retry(self, batch: ProducerBatch, error: ErrorCode, now: int) -> bool:
        if self._is_late(batch, now) or batch.attempts > self._config[keys.RETRIES]:
            return False
        if error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            # Refused because an earlier one was: it will be in order when that one is in, or renumbered.
            is_surely_not_written = batch.topic_partition in self._doubtful and not batch.has_unknown_attempts
            return self._has_earlier(batch) or is_surely_not_written
        return error.retriable

    def _has_earlier(self, batch: ProducerBatch) -> bool:
        under_way = self._under_way.get(batch.topic_partition, [])
        waiting = self._accumulator.peek(batch.topic_partition)
        is_waiting = waiting is not None and waiting.place < batch.place
        return is_waiting or any(other.place < batch.place for other in under_way)

    def _split(self, batch: ProducerBatch) -> None:
        """Too large for the broker: the same records again in smaller batches, which need other numbers, as do all
        that follow."""
        self._finish(batch)
        self._accumulator.put_parts(batch.split(max(1, batch.size // 2)))
        self._distrust(batch.topic_partition)

    def _finish(self, batch: ProducerBatch) -> None:
        self._under_way[batch.topic_partition].remove(batch)
        self._accumulator.release(batch)

    def _give_up_late(self, now: int) -> int:
        """Fail what has waited for too long; returns when the next will have."""
        limit = self._config[keys.DELIVERY_TIMEOUT_MS]
        late = self._accumulator.take_older(now - limit + 1)
        for batch in late:
            self._accumulator.release(batch)
            if batch.attempts:
                self._distrust(batch.topic_partition)
            batch.fail(self._lateness(batch))
        return min(FOREVER, self._accumulator.oldest + limit)

    # --- the producer id ----------------------------------------------------------------------------------------------

    def _distrust(self, topic_partition: TopicPartition) -> None:
        """A number of this partition is missing, or may be."""
        if self._idempotent:
            self._doubtful.add(topic_partition)

    def _renumber_doubtful(self) -> None:
        """Let doubtful partitions begin anew, once it is certain that nothing that waits is in the log."""
        for topic_partition in sorted(self._doubtful):
            first = self._accumulator.peek(topic_partition)
            if self._under_way.get(topic_partition) or (first is not None and first.may_be_written):
                continue
            self._doubtful.discard(topic_partition)
            self._numberings.pop(topic_partition, None)
            self._needs_identity = True
            for batch in self._accumulator.waiting():
                if batch.topic_partition == topic_partition:
                    batch.forget_sequence()

    def _ask_identity(self, now: int) -> Poll:
        if self._asking_identity:
            return Poll(FOREVER)
        if now < self._ask_identity_at:
            return Poll(self._ask_identity_at)
        self._asking_identity = True
        request = InitProducerIdRequest(transaction_timeout_ms=LARGEST["int"])
        node = self._metadata.any_node()
        timeout_ms = min(self._config[keys.REQUEST_TIMEOUT_MS], 5000)

        def on_response(response: Any, now: int) -> None:
            if isinstance(response, Failure):
                self._metadata.has_failed(node)
            self._on_identity(response, now)

        return Poll(FOREVER, [Outbound(CHANNEL, node, request, on_response, timeout_ms)])

    def _on_identity(self, response: InitProducerIdResponse | Any, now: int) -> None:
        self._asking_identity = False
        if isinstance(response, InitProducerIdResponse) and not response.error_code:
            self._identity = _Identity(response.producer_id, response.producer_epoch)
            self._needs_identity = False
            self._identity_attempts = 0
            return
        self._ask_identity_at = now + self._backoff.pause_ms(self._identity_attempts)
        self._identity_attempts += 1
