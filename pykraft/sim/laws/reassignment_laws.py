"""The laws of reassignments, held against the committed metadata log and the logs of the replicas.

When a reassignment ends, replicas leave, and with them their copies. So every replica that remains has all records that
are committed at that moment. There are as many whole copies as the target has replicas: ``min.insync.replicas`` or
more, unless the target itself has fewer. Only a cancellation may leave fewer, for the replicas that there were before
may have fallen behind meanwhile; one of them is in the ISR.

A copy counts if its log reaches the end of what is committed, also if its process is dead. A broker that has lost power
may have lost records that it had; Kafka does not promise more of it, so its copies count.

The records are looked at one by one, as they are committed: between two images a reassignment might end and the next
one begin. Follows KIP-455.
"""

from collections.abc import Callable, Iterable, Sequence

from pykraft.common.types import TopicIdPartition, Uuid
from pykraft.controller.partitions.assignment import Assignment
from pykraft.metadata.image import PartitionRegistration
from pykraft.protocol.messages.records import PartitionChangeRecord, PartitionRecord, RemoveTopicRecord, TopicRecord
from pykraft.raft.log.history import committed as decoded
from pykraft.records.batch import RecordBatch
from pykraft.sim.laws.invariants import require


class ReassignmentLaws:
    """The laws of one run."""

    def __init__(
        self,
        lacking: Callable[[TopicIdPartition, Sequence[int]], list[int]],
        on_left: Callable[[TopicIdPartition, int], None],
    ) -> None:
        """`lacking` tells which of these replicas lack committed records; `on_left` hears of each that leaves."""
        self._lacking = lacking
        self._on_left = on_left
        self._left: set[tuple[TopicIdPartition, int]] = set()
        self._names: dict[Uuid, str] = {}
        self._partitions: dict[tuple[Uuid, int], PartitionRegistration] = {}
        self.completed = 0
        self.cancelled = 0

    def has_left(self, key: TopicIdPartition, node_id: int) -> bool:
        """Whether a node once had to give up its replica. If it has another one, that has begun empty."""
        return (key, node_id) in self._left

    def commit(self, batches: Iterable[bytes]) -> None:
        """The next batches of the metadata log are committed."""
        for data in batches:
            for record in decoded(RecordBatch(memoryview(data))).records:
                match record:
                    case TopicRecord():
                        self._names[record.topic_id] = record.name
                    case PartitionRecord():
                        key = record.topic_id, record.partition_id
                        self._partitions[key] = PartitionRegistration.from_record(record)
                    case PartitionChangeRecord():
                        self._change(record)
                    case RemoveTopicRecord():
                        for key in [key for key in self._partitions if key[0] == record.topic_id]:
                            del self._partitions[key]

    def _change(self, record: PartitionChangeRecord) -> None:
        key = record.topic_id, record.partition_id
        registration = self._partitions[key]
        self._partitions[key] = changed = registration.merge(record)
        before, after = Assignment.of(registration), Assignment.of(changed)
        place = TopicIdPartition(record.topic_id, self._names[record.topic_id], record.partition_id)
        for node_id in sorted(set(before.replicas) - set(after.replicas)):
            self._left.add((place, node_id))
            self._on_left(place, node_id)
        is_other = set(before.replicas) != set(after.replicas)
        if after.is_in_progress or not (before.is_in_progress or is_other):
            return
        if before.is_in_progress and set(after.replicas) == set(before.original):
            self.cancelled += 1
            return
        self.completed += 1
        lacking = self._lacking(place, after.replicas)
        require(
            not lacking,
            f"{place.topic_partition}: a reassignment ends on {after.replicas}, of which {lacking} lack records that "
            f"are committed: {len(after.replicas) - len(lacking)} copies are left (before: {before}, ISR "
            f"{changed.isr})",
        )
