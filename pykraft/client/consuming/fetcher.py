"""Fetching records before the application asks for them.

One fetch at a time is under way to each broker that leads something, and asks for all its partitions that may be
fetched. The broker holds it back until there is something (``fetch.min.bytes``, ``fetch.max.wait.ms``). None is sent
while something from that broker is left: without the partition that it is of, the fetch might wait, and the partition
with it. What comes is kept as it came, in batches; a batch is unpacked when its records are asked for, and only then
does the position move. So a position never passes a record that the application has not seen, and a `seek` in between
simply drops the bytes.

Not every offset has a record, and not every batch is for readers: see `records.visibility`.

A partition is fetched from its leader, which may name a follower that is nearer (KIP-392): one in the rack that
``client.rack`` says. That one is fetched from until it fails or does not have the position, until another leader is
elected, and at most for ``metadata.max.age.ms``. Then the leader is asked again.

With each broker there is a fetch session (KIP-227). A fetch is about the partitions that may be fetched now, and names
those whose position is another one than in the fetch before.

Follows org.apache.kafka.clients.consumer.internals.{AbstractFetch,FetchCollector,CompletedFetch}.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pykraft.client import config as keys
from pykraft.client.consuming.subscription import FetchPosition, PartitionState, SubscriptionState
from pykraft.client.errors import NoOffsetError
from pykraft.client.metadata import ClusterMetadata
from pykraft.common.core import FOREVER, Failure, Outbound, Poll
from pykraft.common.errors import CorruptRecordError, ErrorCode, KafkaError
from pykraft.common.settings.config import Config
from pykraft.common.types import ZERO_UUID, Node, TopicPartition, Uuid
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
        self,
        key: TopicPartition,
        offset: int,
        answer: FetchResponse.Topic.Partition,
        records: memoryview,
        config: Config,
    ) -> None:
        self.key = key
        self.next_offset = self._first_offset = offset
        """The position that this continues; if the partition's is another one, the application has called `seek`."""
        self._size = len(records)
        self._max_bytes: int = config[keys.MAX_PARTITION_FETCH_BYTES]
        self._check_crcs: bool = config[keys.CHECK_CRCS]
        self._batches = batches(records)
        aborted = answer.aborted_transactions or ()
        self._visibility = Visibility(
            config[keys.ISOLATION_LEVEL] == "read_committed",
            ((each.first_offset, each.producer_id) for each in aborted),
        )
        self._records: Iterator[Record] = iter(())
        self._batch: RecordBatch | None = None
        self._error: KafkaError | None = None
        """What is wrong at `next_offset`: raised when everything before it was handed out."""

    def take(self, limit: int) -> tuple[list[FetchedRecord], bool]:
        """(at most `limit` records, whether there may be more). KafkaError: `next_offset` cannot be read."""
        taken: list[FetchedRecord] = []
        return taken, self._until_error(taken, lambda: self._take(taken, limit))

    def take_batches(self) -> tuple[list[RecordBatch], bool]:
        """The same for all the batches that a reader sees and that were not unpacked yet."""
        taken: list[RecordBatch] = []
        return taken, self._until_error(taken, lambda: self._take_batches(taken))

    def _until_error(self, taken: Sequence[object], take: Callable[[], bool]) -> bool:
        """Take, and whether there may be more. What came before an error is handed out first."""
        try:
            if self._error is None:
                return take()
        except KafkaError as error:
            self._error = error
        if taken:
            return True
        raise self._error

    def _take(self, taken: list[FetchedRecord], limit: int) -> bool:
        while len(taken) < limit:
            if self._batch is None and not self._next_batch():
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

    def _take_batches(self, taken: list[RecordBatch]) -> bool:
        while self._next_batch():
            batch, self._batch = self._batch, None
            assert batch is not None
            taken.append(batch)
            self.next_offset = batch.next_offset
        return False

    def _next_batch(self) -> bool:
        """Go on to the next batch that a reader sees. A leader may begin before the offset that was asked for."""
        for batch in self._batches:
            if self._check_crcs and not batch.is_valid:
                raise CorruptRecordError(f"{self.key}: the batch at offset {batch.base_offset} fails its checksum")
            is_shown = self._visibility.shows(batch)
            if batch.next_offset <= self.next_offset:
                continue
            if is_shown:
                self._records = batch.records()
                self._batch = batch
                return True
            self.next_offset = batch.next_offset
        if self._size and self.next_offset == self._first_offset:
            self._complain()
        return False

    def _complain(self) -> None:
        """Bytes came, and yet no batch that goes on from here."""
        where = f"{self.key} at offset {self._first_offset}"
        if self._size >= self._max_bytes:
            raise KafkaError(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"{where}: a batch is larger than max.partition.fetch.bytes ({self._max_bytes}), and its broker sends"
                " only as much",
            )
        raise CorruptRecordError(f"{where}: what the broker sent does not go on from there")


class Fetcher:
    """Fetches what the subscription wants. It is a RequestManager."""

    def __init__(self, config: Config, metadata: ClusterMetadata, subscription: SubscriptionState) -> None:
        self._config = config
        self._metadata = metadata
        self._subscription = subscription
        self._rack: str = config[keys.CLIENT_RACK]
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
        self.obstacle = ""
        """Why the last answer brought nothing, in words; empty if it was no error."""
        self.is_lent_buffers = False
        """Whether what was fetched is not copied. For a reader of one partition that takes all that there is, and needs
        it no more when it waits for the next answer."""
        self.topic_ids: dict[str, Uuid] = {}
        """By name the id of a topic in whose place no other one of this name is to be fetched."""

    # --- asking -------------------------------------------------------------------------------------------------------

    def poll(self, now: int) -> Poll:
        """Fetch what may be fetched and is not there yet."""
        by_node: dict[Node, list[TopicPartition]] = {}
        deadline = FOREVER
        busy = self._under_way | self._with_rest(now)
        for key, state in self._subscription.partitions.items():
            if key in self._failed or not state.is_fetchable or self.is_another_topic(key.topic):
                continue
            node = self._node_for(key, state, now)
            if node is None:
                self._metadata.request_update()
            elif now < self._not_before.get(node.id, 0):
                deadline = min(deadline, self._not_before[node.id])
            elif node.id not in busy:
                by_node.setdefault(node, []).append(key)
        return Poll(deadline, [self._request(node, self._fairly(asked)) for node, asked in by_node.items()])

    def _node_for(self, key: TopicPartition, state: PartitionState, now: int) -> Node | None:
        """The broker to fetch this partition from; None while no leader is known."""
        replica = state.replica_at(now)
        if replica is not None:
            if replica in self._metadata.brokers:
                return self._metadata.brokers[replica]
            state.preferred_read_replica = None
            self._metadata.request_update()
        return self._metadata.leader_of(key)

    def is_another_topic(self, topic: str) -> bool:
        """Whether the topic that has this name now has another id than `topic_ids` wants."""
        wanted = self.topic_ids.get(topic, ZERO_UUID)
        return ZERO_UUID not in (wanted, self._metadata.topic_id(topic)) and wanted != self._metadata.topic_id(topic)

    def _fairly(self, asked: Sequence[TopicPartition]) -> Sequence[TopicPartition]:
        """The partition that was served last comes last: a broker fills an answer in the order of the request, and the
        first ones would leave the others no room."""
        return sorted(asked, key=lambda key: self._served.get(key, 0))

    def _with_rest(self, now: int) -> set[int]:
        """The brokers of which something was fetched that may still be taken."""
        found: set[int] = set()
        for fetched in self._fetched:
            state = self._subscription.partitions.get(fetched.key)
            if state is None or not state.is_fetchable:
                continue
            node = self._node_for(fetched.key, state, now)
            if node is not None:
                found.add(node.id)
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
            rack_id=self._rack,
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
            for key in offsets.keys() & self._subscription.partitions.keys():  # in any order
                self._subscription.partitions[key].preferred_read_replica = None
            self.obstacle = f"{node.endpoint}: {response.value}"
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
            is_throttled = error is ErrorCode.NONE and response.throttle_time_ms
            self.obstacle = "the quota of this client is used up for now" if is_throttled else error.text
            if not (was_incremental and error in SESSION_ERRORS):  # else fetch without the session, at once
                self._refused(node, error, now)
            return
        self._answers += 1
        self.obstacle = ""
        states = self._subscription.partitions
        for key in offsets.keys() - {key for key, _ in answers}:  # in any order
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
            self._errors.append(KafkaError(error, f"broker {node.id} cannot be fetched from: {error.text}"))
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
        was_at_leader = state.preferred_read_replica is None
        if error is not ErrorCode.NONE:
            state.preferred_read_replica = None
        if error is ErrorCode.NONE:
            if answer.preferred_read_replica >= 0:
                state.prefer(answer.preferred_read_replica, now + self._config[keys.METADATA_MAX_AGE_MS])
            if answer.records:
                self._served[key] = self._answers
                self._fetched.append(
                    _Fetched(key, state.position.offset, answer, self._kept(answer.records), self._config)
                )
        elif error is ErrorCode.OFFSET_OUT_OF_RANGE and not was_at_leader:
            self.obstacle = f"{key}: replica {node.id} does not have offset {state.position.offset}"  # the leader may
        elif error is ErrorCode.OFFSET_OUT_OF_RANGE:
            try:
                self._subscription.reset(key, state.position.offset)
            except NoOffsetError as no_offset:
                self._failed[key] = state.position.offset, no_offset
        elif error.retriable:
            self.obstacle = f"{key}: {error.text}"
            if answer.current_leader is not None:
                self._metadata.learn_leader(key, answer.current_leader, response.node_endpoints)
            self._retry(node, now)
        else:
            self._failed[key] = state.position.offset, KafkaError(error, f"{key}: {error.text}")
            self._retry(node, now)

    def _kept(self, records: Any) -> memoryview:
        """The response is a view of the connection's buffer, which the next response overwrites."""
        return memoryview(records if self.is_lent_buffers else bytes(records))

    def _retry(self, node: Node, now: int) -> None:
        self._not_before[node.id] = now + self._config[keys.RETRY_BACKOFF_MS]
        self._metadata.request_update()

    # --- handing out --------------------------------------------------------------------------------------------------

    @property
    def has_news(self) -> bool:
        """There are records to take, or there is an error to raise. Records of a paused partition do not count."""
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
        """At most `limit` records; the positions move past them. CorruptRecordError where a batch cannot be read: the
        position stays before it; `seek` skips it."""
        taken: list[FetchedRecord] = []
        while len(taken) < limit and (fetched := self._next_fetched()) is not None:
            try:
                records, has_more = fetched.take(limit - len(taken))
            except KafkaError:
                if taken:
                    break  # those first; the next call comes here again
                self._fetched.popleft()
                raise
            epoch = records[-1].leader_epoch if records else None
            self._advance(fetched, epoch, has_more)
            taken += records
        return taken

    def take_batches(self) -> tuple[TopicPartition, list[RecordBatch]] | None:
        """What one answer brought of one partition, not unpacked; None if nothing is there. The first batch may begin
        before the position, which moves behind the last one. KafkaError as for `take`."""
        fetched = self._next_fetched()
        if fetched is None:
            return None
        try:
            found, has_more = fetched.take_batches()
        except KafkaError:
            self._fetched.popleft()
            raise
        self._advance(fetched, found[-1].partition_leader_epoch if found else None, has_more)
        return fetched.key, found

    def _next_fetched(self) -> _Fetched | None:
        """The oldest answer with records that may be taken. Those of paused partitions go to the end."""
        for _ in range(len(self._fetched)):
            fetched = self._fetched[0]
            state = self._subscription.partitions.get(fetched.key)
            if state is None or state.position is None or state.position.offset != fetched.next_offset:
                self._fetched.popleft()  # given up or sought meanwhile
            elif state.is_fetchable:
                return fetched
            else:
                self._fetched.rotate(-1)
        return None

    def _advance(self, fetched: _Fetched, epoch: int | None, has_more: bool) -> None:
        """The position moves behind what was taken, whose last leader epoch this is; None if no record was."""
        state = self._subscription.partitions[fetched.key]
        assert state.position is not None
        state.advance(FetchPosition(fetched.next_offset, state.position.offset_epoch if epoch is None else epoch))
        if not has_more:
            self._fetched.popleft()
