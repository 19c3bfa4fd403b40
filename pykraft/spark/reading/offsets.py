"""The offset of a stream: where a query is in each partition, as JSON in Spark's checkpoint and in a query's progress.

    {"flights": {"0": 120, "1": 98}, "@pykraft": {"topicIds": {"flights": "mDk3cUh1T0m3oXh8vYk0Vg"}}}

Without the last key this is the offset of Spark's own Kafka source: for each partition the first offset that was not
read yet. The last key is ours. Its name cannot be a topic's, for ``@`` is not allowed there. An offset without it is
accepted, so a query of Spark's own source can go on with this one, from the same checkpoint.

- `topicIds`: a topic that was deleted and created again has another id. Its offsets count from 0 again, so without the
  id a restarted query would skip the first records of the new topic, and say nothing.
- `began`: the offsets at which the first batch begins. Spark writes down only where a batch ends, and asks for the
  beginning again if a query is restarted before its first batch was committed. "Latest" is another offset by then, and
  the records between would be lost. Spark's own source keeps its beginning in a file of the checkpoint; a source in
  Python does not know where the checkpoint is. The key stays until a batch has read something.

Follows org.apache.spark.sql.kafka010.{KafkaSourceOffset,JsonUtils}.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from pykraft.common.errors import ConfigError
from pykraft.common.types import TopicPartition, Uuid

Offsets = Mapping[TopicPartition, int]

OURS = "@pykraft"
_TOPIC_IDS = "topicIds"
_BEGAN = "began"


@dataclass(frozen=True)
class StreamOffset:
    """For each partition the offset that is read next."""

    offsets: Offsets
    topic_ids: Mapping[str, Uuid] = field(default_factory=dict)
    """The ids of the topics, as far as they are known: brokers before Kafka 2.8 have none."""
    began: Offsets | None = None

    @property
    def is_beginning(self) -> bool:
        """Whether nothing was read yet, as far as this offset knows."""
        return self.began is not None and self.began == self.offsets

    def has_another_topic(self, topic: str, than: Self) -> bool:
        """Whether `than` has a topic of this name with another id."""
        known = self.topic_ids.get(topic), than.topic_ids.get(topic)
        return None not in known and known[0] != known[1]

    def as_json(self) -> dict[str, Any]:
        """What Spark is given; equal offsets give equal JSON, in the same order."""
        ours: dict[str, Any] = {}
        if self.topic_ids:
            ours[_TOPIC_IDS] = {topic: str(topic_id) for topic, topic_id in sorted(self.topic_ids.items())}
        if self.began is not None:
            ours[_BEGAN] = offsets_as_json(self.began)
        return offsets_as_json(self.offsets) | ({OURS: ours} if ours else {})

    @classmethod
    def of_json(cls, found: Any) -> Self:
        """What `as_json` gave, or what Spark's own source wrote; ConfigError if it is neither."""
        try:
            ours = found.get(OURS, {})
            began = ours.get(_BEGAN)
            return cls(
                _offsets_of(found),
                {topic: Uuid.parse(text) for topic, text in ours.get(_TOPIC_IDS, {}).items()},
                None if began is None else _offsets_of(began),
            )
        except (AttributeError, TypeError, ValueError):
            text = json.dumps(found)[:200]
            raise ConfigError(
                f"the checkpoint holds the offset {text}, which is not one of this source, like"
                ' {"topicA": {"0": 23, "1": 0}}: use the checkpoint of this query, or a new folder'
            ) from None


def offsets_as_json(offsets: Offsets) -> dict[str, dict[str, int]]:
    """The offsets as Spark's own source writes them: topics and partitions in order."""
    found: dict[str, dict[str, int]] = {}
    for partition, offset in sorted(offsets.items()):
        found.setdefault(partition.topic, {})[str(partition.partition)] = offset
    return found


def _offsets_of(found: Mapping[str, Mapping[str, int]]) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic, int(number)): _checked(offset)
        for topic, by_number in found.items()
        if topic != OURS
        for number, offset in by_number.items()
    }


def _checked(offset: object) -> int:
    if not isinstance(offset, int) or isinstance(offset, bool) or offset < 0:
        raise ValueError(f"{offset!r} is no offset")
    return offset
