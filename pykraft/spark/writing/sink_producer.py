"""The producer of the sink: it sends record batches that are encoded already, and has one error for all of them.

`pykraft.producer.Producer` makes a future for each record. A task does not look at single records: it wants all of them
acknowledged, or the first reason why one is not. The driver of an exactly-once stream sends what its tasks have encoded
in a transaction, and asks what its transactional id has committed before.
"""

from pykraft.client import config as keys
from pykraft.client.administration.group_offsets import GroupOffsetCalls
from pykraft.client.consuming.commits import OffsetAndMetadata
from pykraft.client.producing.accumulator import RecordMetadata
from pykraft.client.producing.producer import Obstacle
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.settings.config import Config
from pykraft.common.types import Node, TopicPartition
from pykraft.producer import Producer
from pykraft.records.encoded import EncodedRecordBatch


class SinkProducer(Producer):
    """Sends batches. KafkaError says why one of them was not acknowledged."""

    def __init__(self, config: Config) -> None:
        super().__init__(**config.as_dict())
        self._failure: Exception | None = None

    def send_encoded(self, place: TopicPartition, batch: bytes) -> None:
        """Queue a batch, and wait at most max.block.ms where there is no room, or the topic is not known."""
        encoded = EncodedRecordBatch(batch, transactional=self._core.transactions is not None)

        def append() -> Obstacle | None:
            return self._core.try_append_encoded(place, encoded, self._on_failure, self._thread.now)

        try:
            with self._thread.lock:
                self._thread.check()
                obstacle = append()
                if obstacle is not None:
                    self._wait_for_room(place.topic, obstacle, append)
        except ValueError as error:  # the topic was made again with fewer partitions
            raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"a row cannot be written: {error}") from None
        self._thread.wake()
        self.raise_failure()

    def finish(self) -> None:
        """Wait until all of them are acknowledged."""
        self.flush()
        self.raise_failure()

    def raise_failure(self) -> None:
        """Raise why a batch was not acknowledged, if one was not."""
        if self._failure is not None:
            raise self._failure

    def committed_offset(self, group_id: str, place: TopicPartition) -> int | None:
        """The offset that the group has committed there, if any."""
        committed = self.committed(group_id, place)
        return None if committed is None else committed.offset

    def committed(self, group_id: str, place: TopicPartition) -> OffsetAndMetadata | None:
        """What the group has committed there, if anything; what a transaction is about to change does not count."""
        calls = GroupOffsetCalls(self._core.driver)
        timeout_ms = self._core.config[keys.DEFAULT_API_TIMEOUT_MS]
        found = self._thread.ask(
            lambda now: calls.list_consumer_group_offsets({group_id: [place]}, False, now + timeout_ms)
        )[group_id]
        if isinstance(found, KafkaError):
            raise found
        return found.get(place)

    def coordinator_of(self, group_id: str) -> Node | None:
        """The broker that answered last as the group's coordinator; None while it is looked up."""
        return self._core.driver.group_coordinators.node_of(group_id)

    def _on_failure(self, place: RecordMetadata | None, error: Exception | None) -> None:
        if error is not None and self._failure is None:
            self._failure = error
