"""Acknowledged records, and which of them survive: what the producers heard, held against the leader's log.

A producer has heard that its record is in the log at an offset, from a leader in its epoch. The record survives as
long as the log of the partition's newest leader has a record of that epoch at that offset. Once it has not, no consumer
will ever read the record, though another node may still hold a copy that it is about to truncate.

Everything is read from the wire and from what the nodes say of themselves: no node is asked for anything else.
"""

from collections.abc import Iterator
from typing import NamedTuple

from pykraft.broker.describe import PartitionView
from pykraft.cluster_view import ClusterView
from pykraft.common.errors import KafkaError, ProtocolError
from pykraft.common.types import TopicPartition
from pykraft.protocol.messages.data import ProduceRequest, ProduceResponse
from pykraft.protocol.schema import Struct
from pykraft.records.batch import batches
from pykraft.sim.world.frames import Frame
from pykraft.story.story import Story
from pykraft.story.views import host


class Heard(NamedTuple):
    """A producer heard that these offsets are its records, from a leader in this epoch."""

    base_offset: int
    end_offset: int
    epoch: int


class Tally(NamedTuple):
    """How many records were acknowledged up to a moment, and how many of them the newest leader has."""

    acknowledged: int
    surviving: int

    @property
    def gone(self) -> int:
        return self.acknowledged - self.surviving


class Acknowledgements:
    """What was heard of one partition, step by step."""

    def __init__(self, partition: TopicPartition) -> None:
        self._partition = partition
        self._asked: dict[tuple[str, str, int], int] = {}
        self.heard: list[Heard] = []

    def look(self, story: Story, step: int) -> None:
        """Take note of what arrived in a step, and of what was sent in it."""
        for message in story.messages_at(step):
            if message.name == "Produce" and not message.is_response:
                self._remember(story.sent_in(message.id))
        frame = story.arrived_at(step)
        if frame is not None and frame.name == "Produce" and frame.is_response:
            # A batch that was sent twice may be acknowledged twice, at the same offset.
            self.heard += [heard for heard in self._answered(story, frame) if heard not in self.heard]

    def tally(self, view: ClusterView) -> Tally:
        """What has come of it, as the newest leader's log says."""
        led = self.led(view)
        total = sum(heard.end_offset - heard.base_offset for heard in self.heard)
        return Tally(total, total if led is None else sum(_held(heard, led) for heard in self.heard))

    def gone_between(self, view: ClusterView, first: int, end: int) -> int:
        """How many records that were acknowledged at these offsets the newest leader's log does not have."""
        led = self.led(view)
        inside = (heard for heard in self.heard if heard.base_offset < end and heard.end_offset > first)
        parts = (Heard(max(first, each.base_offset), min(end, each.end_offset), each.epoch) for each in inside)
        return 0 if led is None else sum(each.end_offset - each.base_offset - _held(each, led) for each in parts)

    def led(self, view: ClusterView) -> PartitionView | None:
        """The log of the newest leader, also of one that is dead: until another leads, nothing is lost."""
        replicas = view.replicas(self._partition.topic, self._partition.partition)
        own = [replica for node_id, replica in replicas.items() if replica.leader_id == node_id]
        return max(own, key=lambda replica: replica.leader_epoch, default=None)

    def _remember(self, frame: Frame | None) -> None:
        if frame is None or (key := (frame.sender, frame.receiver, frame.correlation_id)) in self._asked:
            return
        request = _message(frame)
        if isinstance(request, ProduceRequest):
            self._asked[key] = sum(_count(each.records) for each in _parts(request, self._partition))

    def _answered(self, story: Story, frame: Frame) -> Iterator[Heard]:
        count = self._asked.pop((frame.receiver, frame.sender, frame.correlation_id), 0)
        response = _message(frame)
        if not count or not isinstance(response, ProduceResponse):
            return
        node = host(frame.sender)
        then = story.view_at(story.step_at(frame.sent_us / 1000))  # by now its log may be another one
        replicas = then.replicas(self._partition.topic, self._partition.partition)
        replica = replicas.get(node) if isinstance(node, int) else None
        for topic in response.responses:
            for each in topic.partition_responses:
                if each.index == self._partition.partition and not each.error_code and each.base_offset >= 0:
                    epoch = None if replica is None else _epoch(replica, each.base_offset)
                    if epoch is not None:
                        yield Heard(each.base_offset, each.base_offset + count, epoch)


def _parts(request: ProduceRequest, partition: TopicPartition) -> Iterator[ProduceRequest.Topic.Partition]:
    for topic in request.topic_data:
        for each in topic.partition_data:
            if each.index == partition.partition:
                yield each


def _count(records: memoryview | bytes | None) -> int:
    return sum(batch.count for batch in batches(memoryview(records))) if records else 0


def _message(frame: Frame) -> Struct | None:
    try:
        return frame.message()
    except (ProtocolError, KafkaError):
        return None


def _epoch(replica: PartitionView, offset: int) -> int | None:
    return next((entry.epoch for entry in reversed(replica.epochs) if entry.start_offset <= offset), None)


def _held(heard: Heard, led: PartitionView) -> int:
    """How many of these records are in this log."""
    return sum(led.epoch_at(offset) == heard.epoch for offset in range(heard.base_offset, heard.end_offset))
