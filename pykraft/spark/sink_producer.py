"""The producer of a task that writes: many records at a time, and one error for all of them.

`pykraft.producer.Producer` makes a future for each record, and takes its lock for each. A task does not look at single
records: it wants all of them acknowledged, or the first reason why one is not. So this producer takes records in
chunks, with one callback for all.

The driver of an exactly-once stream uses it for its transactions: it sends batches that tasks have encoded, and asks
what its transactional id has committed before.
"""

from collections.abc import Iterable
from itertools import islice

from pykraft.client import config as keys
from pykraft.client.accumulator import RecordMetadata
from pykraft.client.arguments import topic_name
from pykraft.client.group_offsets import GroupOffsetCalls
from pykraft.client.producer import Obstacle, Outgoing
from pykraft.common.config import Config
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import TopicPartition
from pykraft.producer import Producer
from pykraft.records.encoded import EncodedRecordBatch

_CHUNK = 500
"""Records between two moments in which the sending thread may have the lock."""


class SinkProducer(Producer):
    """Sends the rows of one task. KafkaError says why one of them was not acknowledged."""

    def __init__(self, config: Config) -> None:
        super().__init__(**config.as_dict())
        self._failure: Exception | None = None
        self._named: set[str] = set()

    def send_all(self, records: Iterable[Outgoing]) -> None:
        """Queue these records, and wait at most max.block.ms where there is no room, or a topic is not known."""
        remaining = iter(records)
        while chunk := list(islice(remaining, _CHUNK)):
            self._check_topics(chunk)
            with self._thread.lock:
                self._thread.check()
                for record in chunk:
                    self._append_one(record)
                wants_poll = self._core.wants_poll
            if wants_poll:
                self._thread.wake()
            self.raise_failure()

    def finish(self) -> None:
        """Wait until all of them are acknowledged."""
        self.flush()
        self.raise_failure()

    def raise_failure(self) -> None:
        """Raise why a record was not acknowledged, if one was not."""
        if self._failure is not None:
            raise self._failure

    def send_encoded(self, place: TopicPartition, batch: bytes) -> None:
        """Queue a batch of the open transaction; commit_transaction() says whether it was written."""
        encoded = EncodedRecordBatch(batch, transactional=True)

        def append() -> Obstacle | None:
            return self._core.try_append_encoded(place, encoded, self._thread.now)

        with self._thread.lock:
            self._thread.check()
            obstacle = append()
            if obstacle is not None:
                self._wait_for_room(place.topic, obstacle, append)
        self._thread.wake()

    def committed_offset(self, group_id: str, place: TopicPartition) -> int | None:
        """What the group has committed there, if anything. If a transaction is about to change it, its end is waited
        for."""
        calls = GroupOffsetCalls(self._core.driver)
        timeout_ms = self._core.config[keys.DEFAULT_API_TIMEOUT_MS]
        found = self._thread.ask(
            lambda now: calls.list_consumer_group_offsets({group_id: [place]}, True, now + timeout_ms)
        )[group_id]
        if isinstance(found, KafkaError):
            raise found
        committed = found.get(place)
        return None if committed is None else committed.offset

    def _check_topics(self, chunk: Iterable[Outgoing]) -> None:
        for topic in {record.topic for record in chunk} - self._named:
            self._named.add(topic_name(topic))

    def _append_one(self, record: Outgoing) -> None:
        try:
            obstacle = self._core.try_append(record, self._on_delivery, self._thread.now)
            if obstacle is not None:
                self._wait_and_append(record, self._on_delivery, obstacle)
        except ValueError as error:  # of the column partition
            raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"a row cannot be written: {error}") from None

    def _on_delivery(self, place: RecordMetadata | None, error: Exception | None) -> None:
        if error is not None and self._failure is None:
            self._failure = error
