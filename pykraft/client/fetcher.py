"""Fetching records ahead of whoever reads them.

One fetch at a time is under way to each broker that leads something, and asks for all its partitions that may be
fetched. The broker holds it back until there is something (``fetch.min.bytes``, ``fetch.max.wait.ms``). None is sent
while something from that broker is left: without the partition that it is of, the fetch might wait, and the partition
with it. What comes is kept as it came, in batches; a batch is unpacked when its records are asked for, and only then
does the position move. So a position never passes a record that nobody has seen, and a `seek` in between simply drops
the bytes.

Not every offset has a record, and not every batch is for readers: see `records.visibility`.

With each broker there is a fetch session (KIP-227). A fetch is about the partitions that may be fetched now, and names
those whose position is another one than in the fetch before.

Follows org.apache.kafka.clients.consumer.internals.{AbstractFetch,FetchCollector,CompletedFetch}.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pykraft.client import config as keys
from pykraft.client.errors import NoOffsetError
from pykraft.client.metadata import ClusterMetadata
from pykraft.client.subscription import FetchPosition, PartitionState, SubscriptionState
from pykraft.common.config import Config
from pykraft.common.core import FOREVER, Failure, Outbound, Poll
from pykraft.common.errors import CorruptRecordError, ErrorCode, KafkaError
from pykraft.common.types import Node, TopicPartition
from pykraft.protocol.messages.data import FetchRequest, FetchResponse
from pykraft.records.batch import RecordBatch, batches
from pykraft.records.record import Record
from pykraft.records.visibility import Visibility
from pykraft.transport.fetch_session import SESSION_ERRORS, FetchSessionHandler, Wanted

CHANNEL = "fetch"
READ_COMMITTED = 1


class FetchedRecord(NamedTuple):
    """A record, and where it was."""

    topic_partition: TopicPartition
    record: Record
    timestamp_type: int
    """0: the producer's timestamp; 1: the time of the append."""
    leader_epoch: int


class _Fetched:
    """What a fetch brought of one partition, and how much of it was handed out."""

    def __init__(
        self, key: TopicPartition, offset: int, answer: FetchResponse.Topic.Partition, read_committed: bool
    ) -> None:
        self.key = key
        self.next_offset = offset
        """The position that this continues; if the partition's is another one, somebody has sought."""
        # The response is a view of the connection's buffer, which the next response overwrites.
        self._batches = batches(memoryview(bytes(answer.records or b"")))
        aborted = answer.aborted_transactions or ()
        self._visibility = Visibility(read_committed, ((each.first_offset, each.producer_id) for each in aborted))
        self._records: Iterator[Record] = iter(())
        self._batch: RecordBatch | None = None
        self._error: KafkaError | None = None
        """What is wrong at `next_offset`: told when everything before it was handed out."""

    def take(self, limit: int, check_crcs: bool) -> tuple[list[FetchedRecord], bool]:
        """(at most `limit` records, whether there may be more). CorruptRecordError: `next_offset` cannot be read."""
        taken: list[FetchedRecord] = []
        try:
            if self._error is None:
                return taken, self._take(taken, limit, check_crcs)
        except KafkaError as error:
            self._error = error
        if taken:
            return taken, True
        raise self._error

    def _take(self, taken: list[FetchedRecord], limit: int, check_crcs: bool) -> bool:
        while len(taken) < limit:
            if self._batch is None and not self._next_batch(check_crcs):
                return False
            batch = self._batch
            assert batch is not None
            record = next(self._records, None)
            if record is None:
                self.next_offset = batch.next_offset
                self._batch = None
            elif record.offset >= self.next_offset:
                taken.append(
                    FetchedRecord(self.key, record, int(batch.uses_log_append_time), batch.partition_leader_epoch)
                )
                self.next_offset = record.offset + 1
        return True

    def _next_batch(self, check_crcs: bool) -> bool:
        """Go on to the next batch that a reader sees."""
        for batch in self._batches:
            if check_crcs and not batch.is_valid:
                raise CorruptRecordError(f"{self.key}: the batch at offset {batch.base_offset} fails its checksum")
            if self._visibility.shows(batch):
                self._records = batch.records()
                self._batch = batch
                return True
            self.next_offset = batch.next_offset
        return False


class Fetcher:
    """Fetches what the subscription wants. It is a RequestManager."""

    def __init__(self, config: Config, metadata: ClusterMetadata, subscription: SubscriptionState) -> None:
        self._config = config
        self._metadata = metadata
        self._subscription = subscription
        self._isolation_level = READ_COMMITTED if config[keys.ISOLATION_LEVEL] == "read_committed" else 0
        self._sessions: dict[int, FetchSessionHandler] = {}
        """By the id of the broker."""
        self._under_way: set[int] = set()
        self._not_before: dict[int, int] = {}
        self._fetched: deque[_Fetched] = deque()
        self._served: dict[TopicPartition, int] = {}
        """By partition which answer brought records of it last."""
        self._answers = 0
        self._errors: deque[KafkaError] = deque()
        self._failed: dict[TopicPartition, tuple[int, KafkaError]] = {}
        """By partition the offset that cannot be fetched, and why: of no interest to one who seeks elsewhere."""

    # --- asking -------------------------------------------------------------------------------------------------------

    def poll(self, now: int) -> Poll:
        """Fetch what may be fetched and is not there yet."""
        by_node: dict[Node, list[TopicPartition]] = {}
        deadline = FOREVER
        busy = self._under_way | self._with_rest()
        for key, state in self._subscription.partitions.items():
            if key in self._failed or not state.is_fetchable:
                continue
            node = self._metadata.leader_of(key)
            if node is None:
                self._metadata.request_update()
            elif now < self._not_before.get(node.id, 0):
                deadline = min(deadline, self._not_before[node.id])
            elif node.id not in busy:
                by_node.setdefault(node, []).append(key)
        return Poll(deadline, [self._request(node, self._fairly(asked)) for node, asked in by_node.items()])

    def _fairly(self, asked: Sequence[TopicPartition]) -> Sequence[TopicPartition]:
        """Who was served last comes last: a broker fills an answer in the order of the request, and the first ones
        would leave the others no room."""
        return sorted(asked, key=lambda key: self._served.get(key, 0))

    def _with_rest(self) -> set[int]:
        """The brokers of which something was fetched that somebody may still take."""
        found: set[int] = set()
        for fetched in self._fetched:
            leader = self._metadata.leader_of(fetched.key)
            if leader is not None and self._may_be_taken(fetched):
                found.add(leader.id)
        return found

    def _request(self, node: Node, asked: Sequence[TopicPartition]) -> Outbound:
        self._under_way.add(node.id)
        offsets: dict[TopicPartition, int] = {}
        wanted: dict[TopicPartition, Wanted] = {}
        for key in asked:
            position = self._subscription.partitions[key].position
            assert position is not None
            offsets[key] = position.offset
            wanted[key] = Wanted(
                topic_id=self._metadata.topic_id(key.topic),
                fetch_offset=position.offset,
                partition_max_bytes=self._config[keys.MAX_PARTITION_FETCH_BYTES],
                current_leader_epoch=self._metadata.leader_epoch(key),
            )
        max_wait_ms = self._config[keys.FETCH_MAX_WAIT_MS]
        request = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=self._config[keys.FETCH_MIN_BYTES],
            max_bytes=self._config[keys.FETCH_MAX_BYTES],
            isolation_level=self._isolation_level,
            topics=[],
        )
        self._sessions.setdefault(node.id, FetchSessionHandler()).fill(request, wanted)

        def on_response(response: Any, now: int) -> None:
            self._under_way.discard(node.id)
            self._on_response(node, offsets, response, now)

        return Outbound(CHANNEL, node, request, on_response, self._config[keys.REQUEST_TIMEOUT_MS] + max_wait_ms)

    # --- answers ------------------------------------------------------------------------------------------------------

    def _on_response(self, node: Node, offsets: Mapping[TopicPartition, int], response: Any, now: int) -> None:
        session = self._sessions[node.id]
        if not isinstance(response, FetchResponse):
            session.reset()
            if response is Failure.UNSUPPORTED_VERSION:
                self._refused(node, ErrorCode.UNSUPPORTED_VERSION, now)
            else:
                self._metadata.has_failed(node)
                self._retry(node, now)
            return
        was_incremental = session.is_incremental
        answers = session.take(response)
        if answers is None:
            error = ErrorCode.of(response.error_code)
            if not (was_incremental and error in SESSION_ERRORS):  # else fetch without the session, at once
                self._refused(node, error, now)
            return
        self._answers += 1
        states = self._subscription.partitions
        for key in offsets.keys() - {key for key, _ in answers}:
            if key in states and states[key].high_watermark < 0:
                session.reset()  # given up, and taken back meanwhile: the broker has left out what is known no more
        for key, answer in answers:
            state = self._subscription.partitions.get(key)
            if state is None:
                continue  # given up meanwhile
            if not answer.error_code:
                state.high_watermark = answer.high_watermark
                state.last_stable_offset = answer.last_stable_offset
            if self._is_awaited(state, offsets.get(key)):  # not sought meanwhile
                self._on_partition(node, key, state, answer, response, now)

    def _refused(self, node: Node, error: ErrorCode, now: int) -> None:
        """A fetch was refused as a whole; NONE if its answer is of other partitions."""
        if error is not ErrorCode.NONE and not error.retriable:
            self._errors.append(KafkaError(error, f"broker {node.id} cannot be fetched from"))
        self._retry(node, now)

    @staticmethod
    def _is_awaited(state: PartitionState, offset: int | None) -> bool:
        return state.position is not None and state.position.offset == offset

    def _on_partition(
        self,
        node: Node,
        key: TopicPartition,
        state: PartitionState,
        answer: FetchResponse.Topic.Partition,
        response: FetchResponse,
        now: int,
    ) -> None:
        error = ErrorCode.of(answer.error_code)
        assert state.position is not None
        if error is ErrorCode.NONE:
            if answer.records:
                self._served[key] = self._answers
                is_committed = self._isolation_level == READ_COMMITTED
                self._fetched.append(_Fetched(key, state.position.offset, answer, is_committed))
        elif error is ErrorCode.OFFSET_OUT_OF_RANGE:
            try:
                self._subscription.reset(key, state.position.offset)
            except NoOffsetError as no_offset:
                self._failed[key] = state.position.offset, no_offset
        elif error.retriable:
            if answer.current_leader is not None:
                self._metadata.learn_leader(key, answer.current_leader, response.node_endpoints)
            self._retry(node, now)
        else:
            self._failed[key] = state.position.offset, KafkaError(error, f"{key}: {error.text}")
            self._retry(node, now)

    def _retry(self, node: Node, now: int) -> None:
        self._not_before[node.id] = now + self._config[keys.RETRY_BACKOFF_MS]
        self._metadata.request_update()

    # --- handing out --------------------------------------------------------------------------------------------------

    @property
    def has_news(self) -> bool:
        """There is something to take, or to be told. What lies ready of a paused partition is not."""
        return bool(self._errors or self._failed) or any(map(self._may_be_taken, self._fetched))

    def _may_be_taken(self, fetched: _Fetched) -> bool:
        state = self._subscription.partitions.get(fetched.key)
        return state is not None and state.is_fetchable

    def raise_error(self) -> None:
        """Tell what the consumer's user must know, each error once; a partition is fetched again after its own."""
        if self._errors:
            raise self._errors.popleft()
        for key in list(self._failed):
            offset, error = self._failed.pop(key)
            state = self._subscription.partitions.get(key)
            if state is not None and self._is_awaited(state, offset):
                raise error

    def take(self, limit: int) -> list[FetchedRecord]:
        """At most `limit` records; the positions move behind them. CorruptRecordError where a batch cannot be read: the
        position stays before it, and whoever wants to go on without it seeks."""
        taken: list[FetchedRecord] = []
        paused = []
        while self._fetched and len(taken) < limit:
            fetched = self._fetched[0]
            state = self._subscription.partitions.get(fetched.key)
            if state is None or state.position is None or state.position.offset != fetched.next_offset:
                self._fetched.popleft()  # given up or sought meanwhile
                continue
            if not state.is_fetchable:
                paused.append(self._fetched.popleft())
                continue
            try:
                records, has_more = fetched.take(limit - len(taken), self._config[keys.CHECK_CRCS])
            except KafkaError:
                if taken:
                    break  # those first; the next call comes here again
                self._fetched.popleft()
                raise
            if not has_more:
                self._fetched.popleft()
            taken += records
            epoch = records[-1].leader_epoch if records else state.position.offset_epoch
            state.advance(FetchPosition(fetched.next_offset, epoch))
        self._fetched.extend(paused)
        return taken
