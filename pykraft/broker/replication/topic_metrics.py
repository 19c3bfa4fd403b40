"""What comes into a broker and leaves it, by topic: Kafka's BrokerTopicMetrics.

The figures of all topics are the sums of those of each, so a request counts once. When a broker has no replica of a
topic any more, the topic's figures go, and stay in the sums.

Failed requests are those that fail for no reason that a client must expect: an unknown topic and another leader do not
count, an invalid record does. Rejected bytes are those of batches that were too large.

Follows org.apache.kafka.storage.log.metrics.{BrokerTopicStats,BrokerTopicMetrics}.
"""

from pykraft.common.errors import ErrorCode
from pykraft.common.metrics import Meter, Metrics

_KIND = "BrokerTopicMetrics"
_FAILED_PRODUCES, _FAILED_FETCHES, _REJECTED = (
    "FailedProduceRequestsPerSec",
    "FailedFetchRequestsPerSec",
    "BytesRejectedPerSec",
)
_EXPECTED = {
    ErrorCode.NONE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.KAFKA_STORAGE_ERROR,
}
_EXPECTED_OF_PRODUCES = _EXPECTED | {
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.RECORD_LIST_TOO_LARGE,
    ErrorCode.CORRUPT_MESSAGE,
}
_EXPECTED_OF_FETCHES = _EXPECTED | {
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.REPLICA_NOT_AVAILABLE,
    ErrorCode.INCONSISTENT_TOPIC_ID,
    ErrorCode.OFFSET_OUT_OF_RANGE,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
}
"""What may happen to any client is no failure."""
_BY_TOPIC = (
    "MessagesInPerSec",
    "BytesInPerSec",
    "BytesOutPerSec",
    "TotalProduceRequestsPerSec",
    "TotalFetchRequestsPerSec",
)


class _Topic:
    """The meters of one topic."""

    __slots__ = ("bytes_in", "bytes_out", "fetches", "messages_in", "produces")

    def __init__(self, meters: list[Meter]) -> None:
        self.messages_in, self.bytes_in, self.bytes_out, self.produces, self.fetches = meters


class BrokerTopicMetrics:
    """Counts for one broker."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._topics: dict[str, _Topic] = {}
        self._replicated_in = metrics.meter(_KIND, "ReplicationBytesInPerSec")
        self._replicated_out = metrics.meter(_KIND, "ReplicationBytesOutPerSec")
        self._reassigned_in = metrics.meter(_KIND, "ReassignmentBytesInPerSec")
        self._reassigned_out = metrics.meter(_KIND, "ReassignmentBytesOutPerSec")
        for name in (*_BY_TOPIC, _FAILED_PRODUCES, _FAILED_FETCHES, _REJECTED):
            metrics.sum(_KIND, name)

    def __contains__(self, topic: str) -> bool:
        return topic in self._topics

    def produced(self, topic: str, messages: int, size: int) -> None:
        """A batch of this many messages was appended, which has this many bytes in the log. (Kafka counts what the
        client has sent: this differs where the topic has a codec of its own.)"""
        meters = self._topics.get(topic) or self._make(topic)
        meters.produces.count += 1
        meters.messages_in.count += messages
        meters.bytes_in.count += size

    def refused(self, topic: str, error: ErrorCode, size: int) -> None:
        """A batch of this many bytes was not appended."""
        (self._topics.get(topic) or self._make(topic)).produces.count += 1
        if error not in _EXPECTED_OF_PRODUCES:
            self._metrics.meter(_KIND, _FAILED_PRODUCES, topic=topic).count += 1
        if error is ErrorCode.MESSAGE_TOO_LARGE:
            self._metrics.meter(_KIND, _REJECTED, topic=topic).count += size

    def not_fetched(self, topic: str, error: ErrorCode) -> None:
        """A reader has got this error instead of the records of a partition."""
        if error not in _EXPECTED_OF_FETCHES:
            self._metrics.meter(_KIND, _FAILED_FETCHES, topic=topic).count += 1

    def fetched(self, topic: str, size: int, is_follower: bool, is_added: bool = False) -> None:
        """A reader has got this many bytes of one partition; `is_added` says that it is a replica which a reassignment
        adds."""
        meters = self._topics.get(topic) or self._make(topic)
        meters.fetches.count += 1
        if is_follower:
            self._replicated_out.count += size
            if is_added:
                self._reassigned_out.count += size
        else:
            meters.bytes_out.count += size

    def replicated(self, size: int, is_added: bool = False) -> None:
        """This broker has fetched this many bytes from a leader; `is_added` says that a reassignment adds it."""
        self._replicated_in.count += size
        if is_added:
            self._reassigned_in.count += size

    def forget(self, topic: str) -> None:
        """No replica of the topic is here any more."""
        if self._topics.pop(topic, None) is not None:
            for name in (*_BY_TOPIC, _FAILED_PRODUCES, _FAILED_FETCHES, _REJECTED):
                self._metrics.forget(_KIND, name, topic=topic)

    def _make(self, topic: str) -> _Topic:
        meters = [self._metrics.meter(_KIND, name, topic=topic) for name in _BY_TOPIC]
        found = self._topics[topic] = _Topic(meters)
        return found
