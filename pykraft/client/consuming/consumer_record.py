"""A record as the reader of a topic sees it: where it is, when, and what it says.

Its key and value are bytes, or what the consumer's deserializers have made of them. The sizes that it had in the log
are known either way.
"""

from collections.abc import Sequence
from typing import Any, Generic, NamedTuple

from pykraft.client.consuming.fetcher import FetchedRecord
from pykraft.client.content_types import K, V
from pykraft.common.types import TopicPartition
from pykraft.records.record import Header

_KEY = 5
"""Where the key is in a record; the value follows."""


class ConsumerRecord(NamedTuple, Generic[K, V]):
    """A record as its reader sees it. `timestamp` is in milliseconds since 1970; `timestamp_type` 0 is the producer's,
    1 the time of the append."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: K
    value: V
    headers: Sequence[Header]
    leader_epoch: int

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def serialized_key_size(self) -> int:
        """How many bytes the key has in the log; -1 for None."""
        return _size(self.key)

    @property
    def serialized_value_size(self) -> int:
        """How many bytes the value has in the log; -1 for None."""
        return _size(self.value)


class _DeserializedRecord(ConsumerRecord[K, V]):
    """A record whose key or value is not bytes any more."""

    raw: ConsumerRecord

    @property
    def serialized_key_size(self) -> int:
        return _size(self.raw.key)

    @property
    def serialized_value_size(self) -> int:
        return _size(self.raw.value)


_DeserializedRecord.__name__ = "ConsumerRecord"  # as which it prints itself


def deserialized(raw: ConsumerRecord[Any, Any], key: Any, value: Any) -> ConsumerRecord[Any, Any]:
    """The record with what the deserializers have made of its key and value."""
    found = _DeserializedRecord._make((*raw[:_KEY], key, value, *raw[_KEY + 2 :]))
    found.raw = raw
    return found


def raw_record(fetched: FetchedRecord) -> ConsumerRecord:
    """A record with key and value as they came."""
    record = fetched.record
    return ConsumerRecord(
        *fetched.topic_partition,
        record.offset,
        record.timestamp,
        fetched.timestamp_type,
        record.key,
        record.value,
        record.headers,
        fetched.leader_epoch,
    )


def _size(content: Any) -> int:
    return -1 if content is None else len(content)
