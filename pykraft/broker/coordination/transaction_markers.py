"""The markers of transactions that end: sent to the leader of every partition until each has written its own.

A decision (`coordinator.transaction.shard.Ending`) names the partitions that the transaction wrote to. Their leaders
are looked up in the metadata, and each gets one WriteTxnMarkers at a time with all markers that wait for it by then.
What it cannot write now is looked up again and sent again, after a pause; so is what had no answer. A partition without
a leader waits for the next change of the metadata, and a partition that is gone from the metadata needs no marker. When
no partition is left, the coordinator may write that the transaction is complete.

::

    send -> _fresh -> (leader?) -> _queues[leader] -> in flight -> written
               ^          |                               |
               |          └-> _leaderless                 └-> _resting, for RETRY_BACKOFF_MS
               └──────────────────┴───────────────────────────────┘

Markers carry the leader epoch of the coordinator's partition. A leader that has seen a marker of a newer coordinator
refuses this one: then another broker coordinates the transaction, and this broker stops. It also stops when it learns
of that from the metadata. Stopping forgets the transaction here; what is under way is ignored when it comes back.

A leader on this broker is sent its markers through the network, as any other. The memory is bounded by the
transactional ids that the coordinator holds: each has one transaction at most.

Follows kafka.coordinator.transaction.{TransactionMarkerChannelManager,TransactionMarkerRequestCompletionHandler}.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from pykraft.common.core import FOREVER, Failure, Outbound, Poll
from pykraft.common.errors import ErrorCode
from pykraft.common.rooms import Room
from pykraft.common.trace import Tracer
from pykraft.common.types import Node, TopicPartition, by_topic
from pykraft.coordinator.transaction.shard import Ending
from pykraft.metadata.image import MetadataImage
from pykraft.protocol.messages.transactions import WriteTxnMarkersRequest, WriteTxnMarkersResponse

CHANNEL = "transaction-markers"
RETRY_BACKOFF_MS = 50
PARTITIONS_PER_REQUEST = 500
"""A request has the markers of this many partitions, or of one transaction more."""

_NEVER_NEEDED = (ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode.UNSUPPORTED_VERSION)
"""The partition can hold no transaction, so the producer has written nothing there."""
_REPLACED = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED)
"""A newer coordinator has decided about this producer."""


class _Transaction:
    """A transaction that ends, and the partitions that have no marker yet."""

    __slots__ = ("coordinator_epoch", "ending", "on_marked", "state_partition", "unmarked")

    def __init__(
        self, state_partition: int, coordinator_epoch: int, ending: Ending, on_marked: Callable[[Ending, int], None]
    ) -> None:
        self.state_partition = state_partition
        self.coordinator_epoch = coordinator_epoch
        self.ending = ending
        self.on_marked = on_marked
        self.unmarked = set(ending.partitions)


class _Part(NamedTuple):
    """Partitions of one transaction that are sent together."""

    transaction: _Transaction
    partitions: list[TopicPartition]


class TransactionMarkers:
    """Sends the markers of this broker's transactions. It is a RequestManager."""

    def __init__(
        self, *, image: Callable[[], MetadataImage], listener: str, request_timeout_ms: int, trace: Tracer, room: Room
    ) -> None:
        """`listener` is the one on which brokers speak to each other. `room` is where it is polled."""
        self._room = room
        self._image = image
        self._listener = listener
        self._request_timeout_ms = request_timeout_ms
        self._trace = trace
        self._transactions: dict[str, _Transaction] = {}
        self._fresh: list[_Part] = []
        self._leaderless: list[_Part] = []
        self._queues: dict[int, deque[_Part]] = {}
        self._in_flight: set[int] = set()
        self._resting: deque[tuple[int, _Part]] = deque()

    # --- what there is to send ----------------------------------------------------------------------------------------

    def send(
        self, state_partition: int, coordinator_epoch: int, ending: Ending, on_marked: Callable[[Ending, int], None]
    ) -> None:
        """Have these markers written; `on_marked(ending, now)` is called once all are."""
        transaction = _Transaction(state_partition, coordinator_epoch, ending, on_marked)
        self._transactions[ending.transactional_id] = transaction
        self._fresh.append(_Part(transaction, sorted(transaction.unmarked)))
        self._room.mark("markers")

    def unmarked(self, transactional_id: str) -> frozenset[TopicPartition] | None:
        """The partitions of a transaction that have no marker yet; None if no markers are sent for it."""
        transaction = self._transactions.get(transactional_id)
        return None if transaction is None else frozenset(transaction.unmarked)

    @property
    def waiting_for_leaders(self) -> int:
        """How many transactions wait with some markers, as the leaders of their partitions are not known."""
        return len(self._leaderless)

    def stop(self, state_partition: int) -> None:
        """Another broker coordinates the transactions of this partition of the internal topic."""
        for each in [each for each in self._transactions.values() if each.state_partition == state_partition]:
            self._forget(each)

    def _forget(self, transaction: _Transaction) -> None:
        if self._is_sent(transaction):
            del self._transactions[transaction.ending.transactional_id]

    def _is_sent(self, transaction: _Transaction) -> bool:
        return self._transactions.get(transaction.ending.transactional_id) is transaction

    def on_new_image(self) -> None:
        """The metadata have changed: what waits for a leader, or to be sent to one, is looked up again."""
        self._fresh += self._leaderless
        self._leaderless = []
        for queue in self._queues.values():
            self._fresh += queue
        self._queues.clear()

    # --- sending ------------------------------------------------------------------------------------------------------

    def poll(self, now: int) -> Poll:
        while self._resting and self._resting[0][0] <= now:
            self._fresh.append(self._resting.popleft()[1])
        fresh, self._fresh = self._fresh, []
        for part in fresh:
            self._route(part, now)
        requests = [self._request(broker_id) for broker_id in sorted(self._queues.keys() - self._in_flight)]
        if self._fresh:  # a transaction that was complete has let the next one end
            deadline = now
        else:
            deadline = self._resting[0][0] if self._resting else FOREVER
        return Poll(deadline, [each for each in requests if each is not None])

    def _route(self, part: _Part, now: int) -> None:
        """Queue each partition for its leader."""
        transaction = part.transaction
        if not self._is_sent(transaction):
            return
        image = self._image()
        by_leader: dict[int, list[TopicPartition]] = {}
        leaderless = []
        for place in part.partitions:
            topic = image.topic_named(place.topic)
            if topic is None or place.partition not in topic.partitions:
                transaction.unmarked.discard(place)
                continue
            leader = topic.partitions[place.partition].leader
            if self._node(leader) is None:
                leaderless.append(place)
            else:
                by_leader.setdefault(leader, []).append(place)
        if leaderless:
            self._leaderless.append(_Part(transaction, leaderless))
        for leader, partitions in by_leader.items():
            self._queues.setdefault(leader, deque()).append(_Part(transaction, partitions))
        self._finish(transaction, now)

    def _finish(self, transaction: _Transaction, now: int) -> None:
        if not transaction.unmarked and self._is_sent(transaction):
            self._forget(transaction)
            transaction.on_marked(transaction.ending, now)

    def _node(self, broker_id: int) -> Node | None:
        broker = self._image().brokers.get(broker_id)
        endpoint = None if broker is None or broker.fenced else broker.endpoints.get(self._listener)
        return None if endpoint is None else Node(broker_id, endpoint.host, endpoint.port)

    def _request(self, broker_id: int) -> Outbound | None:
        """The markers that wait for this broker; the rest stays in the queue."""
        queue = self._queues[broker_id]
        parts: list[_Part] = []
        count = 0
        while queue and count < PARTITIONS_PER_REQUEST:
            part = queue.popleft()
            if self._is_sent(part.transaction):
                parts.append(part)
                count += len(part.partitions)
        if not queue:
            del self._queues[broker_id]
        node = self._node(broker_id)
        if not parts or node is None:
            self._leaderless += parts
            return None
        self._in_flight.add(broker_id)

        def on_response(response: WriteTxnMarkersResponse | Failure, now: int) -> None:
            self._in_flight.discard(broker_id)
            self._room.mark("answer")
            self._on_response(parts, response, now)

        request = WriteTxnMarkersRequest(markers=[_marker(part) for part in parts])
        return Outbound(CHANNEL, node, request, on_response, self._request_timeout_ms)

    # --- answers ------------------------------------------------------------------------------------------------------

    def _on_response(self, parts: Iterable[_Part], response: WriteTxnMarkersResponse | Failure, now: int) -> None:
        codes: dict[tuple[int, TopicPartition], ErrorCode] = {}
        if not isinstance(response, Failure):
            codes = {
                (marker.producer_id, TopicPartition(topic.name, each.partition_index)): ErrorCode.of(each.error_code)
                for marker in response.markers
                for topic in marker.topics
                for each in topic.partitions
            }
        for part in parts:
            if self._is_sent(part.transaction):
                self._take(part, codes, now)

    def _take(self, part: _Part, codes: dict[tuple[int, TopicPartition], ErrorCode], now: int) -> None:
        """What this transaction's partitions have answered; what has no answer is sent again."""
        transaction = part.transaction
        again = []
        for place in part.partitions:
            code = codes.get((transaction.ending.producer_id, place))
            if code is ErrorCode.NONE or code in _NEVER_NEEDED:
                transaction.unmarked.discard(place)
                continue
            if code is not None:
                name = transaction.ending.transactional_id
                self._trace("marker_refused", transactional_id=name, partition=str(place), error=code.name)
            if code in _REPLACED:
                self._forget(transaction)
                return
            again.append(place)
        if again:
            self._resting.append((now + RETRY_BACKOFF_MS, _Part(transaction, again)))
        self._finish(transaction, now)


def _marker(part: _Part) -> WriteTxnMarkersRequest.Marker:
    marker_type: Any = WriteTxnMarkersRequest.Marker
    ending = part.transaction.ending
    topics = by_topic(part.partitions)
    marker: WriteTxnMarkersRequest.Marker = marker_type(
        producer_id=ending.producer_id,
        producer_epoch=ending.producer_epoch,
        transaction_result=ending.is_commit,
        topics=[marker_type.Topic(name=name, partition_indexes=numbers) for name, numbers in topics.items()],
        coordinator_epoch=part.transaction.coordinator_epoch,
        transaction_version=ending.transaction_version,
    )
    return marker
