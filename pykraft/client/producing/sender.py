"""Getting batches acknowledged, once and in order.

For each broker, up to ``max.in.flight.requests.per.connection`` produce requests are under way. When one fails in a way
that may pass, its batches go back to the front of their queues and are sent again, until ``delivery.timeout.ms``.

An idempotent producer also numbers its batches. `numbering` says which batch may be sent under which number, and what
an answer means for the numbers. A transactional producer sends only what belongs to its open transaction; the
`transactions` say so, and hear of each batch that fails.

Follows org.apache.kafka.clients.producer.internals.Sender.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from random import Random
from typing import Any

from pykraft.client import config as keys
from pykraft.client.errors import ClientTimeoutError
from pykraft.client.metadata import ClusterMetadata
from pykraft.client.producing.accumulator import ProducerBatch, RecordAccumulator
from pykraft.client.producing.numbering import Numbering
from pykraft.client.producing.transactions import LAST_V1_PRODUCE, TransactionManager
from pykraft.common.core import FOREVER, Failure, Outbound, Poll
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.settings.config import Config
from pykraft.common.timer import Backoff
from pykraft.common.types import Node, TopicPartition, Uuid
from pykraft.protocol.messages.data import ProduceRequest, ProduceResponse

CHANNEL = "produce"
_ACKS = {"0": 0, "1": 1, "-1": -1, "all": -1}


class Sender:
    """Sends what the accumulator has ready. It is a RequestManager."""

    def __init__(
        self,
        config: Config,
        metadata: ClusterMetadata,
        accumulator: RecordAccumulator,
        numbering: Numbering,
        random: Random,
        transactions: TransactionManager | None = None,
    ) -> None:
        self._config = config
        self._transactions = transactions
        self._metadata = metadata
        self._accumulator = accumulator
        self._numbering = numbering
        self._acks = _ACKS[config[keys.ACKS]]
        self._backoff = Backoff(random, config[keys.RETRY_BACKOFF_MS], config[keys.RETRY_BACKOFF_MAX_MS])
        self._in_flight: dict[int, int] = {}
        self._under_way: dict[TopicPartition, list[ProducerBatch]] = {}

    @property
    def has_under_way(self) -> bool:
        return any(self._under_way.values())

    def under_way(self) -> Iterator[ProducerBatch]:
        """The batches that were sent and not answered yet."""
        return chain.from_iterable(self._under_way.values())

    def abandon(self, error: Exception) -> None:
        """Fail the requests under way: their answers will not be heard."""
        lost = list(self.under_way())
        self._under_way.clear()
        for batch in lost:
            self._accumulator.release(batch)
            batch.fail(error)

    # --- sending ------------------------------------------------------------------------------------------------------

    def poll(self, now: int) -> Poll:
        """Send what is ready and allowed; returns when there may be more."""
        deadline = min(self._give_up_late(now), self._numbering.update(now, self._under_way))
        self._hurry_to_new_leaders(now)
        requests: list[Outbound] = []
        for node, topic_partitions in self._sendable(now).items():
            while self._in_flight.get(node.id, 0) < self._config[keys.MAX_IN_FLIGHT]:
                batches = self._drain(topic_partitions, now)
                if not batches:
                    break
                requests.append(self._request(node, batches))
        return Poll(min(deadline, self._next_ready(now)), requests)

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
            if batch is None or not self._accumulator.is_ready(topic_partition, now):
                continue
            if not self._allows(topic_partition):
                continue
            under_way = self._under_way.setdefault(topic_partition, [])
            if not self._numbering.may_send(batch, under_way):
                continue
            if batches and size + batch.size > self._config[keys.MAX_REQUEST_SIZE]:
                break
            self._accumulator.take(topic_partition)
            if batch.data is None:
                self._numbering.number(batch)
            batch.attempts += 1
            batch.leader_epoch = self._metadata.leader_epoch(topic_partition)
            size += batch.size
            under_way.append(batch)
            batches.append(batch)
        return batches

    def _allows(self, topic_partition: TopicPartition) -> bool:
        """Whether the partition is part of the open transaction; a producer without transactions sends anything."""
        return self._transactions is None or self._transactions.allows(topic_partition)

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
        if self._transactions is not None:
            request.transactional_id = self._transactions.id
            if not self._transactions.is_v2:
                request.at_most(LAST_V1_PRODUCE)
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
            self._numbering.acknowledged(batch)
            offset = answer.base_offset if answer is not None else -1
            batch.deliver(offset, -1 if answer is None else answer.log_append_time_ms)
            return
        if error.refreshes_metadata:
            self._metadata.request_update()
        if error is ErrorCode.MESSAGE_TOO_LARGE and self._may_split(batch):
            self._split(batch)
        elif self._may_retry(batch, error, now):
            self._under_way[batch.topic_partition].remove(batch)
            self._numbering.refused(batch, error, self._has_earlier(batch))
            batch.not_before = now + self._backoff.pause_ms(batch.attempts - 1)
            self._accumulator.put_back(batch)
        else:
            detail = (answer.error_message if answer is not None else None) or ""
            self._finish(batch)
            self._numbering.given_up(batch.topic_partition)
            is_late = error.retriable and self._is_late(batch, now)
            self._fail(batch, self._lateness(batch, detail or error.text) if is_late else KafkaError(error, detail))

    def _fail(self, batch: ProducerBatch, error: KafkaError) -> None:
        batch.fail(error if self._transactions is None else self._transactions.batch_failed(error))

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
            return self._numbering.may_retry(batch, self._has_earlier(batch))
        return error.retriable

    def _has_earlier(self, batch: ProducerBatch) -> bool:
        under_way = self._under_way.get(batch.topic_partition, [])
        waiting = self._accumulator.peek(batch.topic_partition)
        is_waiting = waiting is not None and waiting.place < batch.place
        return is_waiting or any(other.place < batch.place for other in under_way)

    def _may_split(self, batch: ProducerBatch) -> bool:
        """A batch of a transaction keeps its numbers, so it must surely not be in the log."""
        if batch.count == 1:
            return False
        return self._transactions is None or (self._allows(batch.topic_partition) and not batch.has_unknown_attempts)

    def _split(self, batch: ProducerBatch) -> None:
        """Too large for the broker: the same records again in smaller batches."""
        self._finish(batch)
        parts = list(batch.split(max(1, batch.size // 2)))
        self._numbering.number_parts(batch, parts)
        self._accumulator.put_parts(parts)

    def _finish(self, batch: ProducerBatch) -> None:
        self._under_way[batch.topic_partition].remove(batch)
        self._accumulator.release(batch)

    def _give_up_late(self, now: int) -> int:
        """Fail what has waited for too long; returns when the next will have."""
        limit = self._config[keys.DELIVERY_TIMEOUT_MS]
        late = self._accumulator.take_older(now - limit + 1)
        for batch in late:
            self._accumulator.release(batch)
            if batch.attempts or batch.may_be_written:
                self._numbering.given_up(batch.topic_partition)
            self._fail(batch, self._lateness(batch))
        return min(FOREVER, self._accumulator.oldest + limit)
