"""Moving replicas to other brokers: the plans, with every refusal that a client may meet (KIP-455, KIP-860).

A client names the brokers that are to hold a partition. The plan is the first record of the reassignment (`assignment`
has both); if all of the target are in the ISR already, as where replicas only change their order or some of them leave,
that record is the second one, too. What happens between the two is ordinary replication: the adding replicas fetch, the
leader takes them into the ISR when they have caught up, and brokers may be fenced meanwhile. So nothing here waits, and
a new active controller goes on where the old one stopped: a reassignment is part of the partition's registration.

One request may name many partitions; each is judged alone. If it names one twice, the second target comes after the
first. A reassignment that is in progress may get another target.

Follows org.apache.kafka.controller.ReplicationControlManager.
"""

from collections.abc import Iterable, Sequence

from pykraft.common.core import Steps
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import TopicIdPartition
from pykraft.controller.partitions.assignment import Assignment, reassigned, reverted
from pykraft.controller.partitions.replication_control import ReplicationControl
from pykraft.controller.partitions.topics import check_takes_replicas
from pykraft.controller.result import MAX_RECORDS_PER_REQUEST, Result, VersionedRecord
from pykraft.metadata.image import MetadataImage, PartitionRegistration, TopicImage
from pykraft.protocol.messages.reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from pykraft.protocol.messages.records import PartitionChangeRecord

Answer = AlterPartitionReassignmentsResponse.Topic.Partition
Ongoing = ListPartitionReassignmentsResponse.Topic


class ReassignmentControl:
    """Plans reassignments, and tells which are in progress."""

    def __init__(self, replication: ReplicationControl) -> None:
        self._replication = replication

    def alter(
        self, image: MetadataImage, request: AlterPartitionReassignmentsRequest
    ) -> Steps[Result[AlterPartitionReassignmentsResponse]]:
        records: list[VersionedRecord] = []
        changed: dict[TopicIdPartition, PartitionRegistration] = {}
        topics = []
        for topic in request.topics:
            answers = []
            for wanted in topic.partitions:
                answer = Answer(partition_index=wanted.partition_index)
                try:
                    if len(records) == MAX_RECORDS_PER_REQUEST:
                        raise KafkaError(
                            ErrorCode.POLICY_VIOLATION, f"{MAX_RECORDS_PER_REQUEST} changes at once are allowed"
                        )
                    key, partition = _find(image, topic.name, wanted.partition_index)
                    partition = changed.get(key, partition)
                    allows_change = request.allow_replication_factor_change
                    record = self._plan(image, key, partition, wanted.replicas, allows_change)
                    if record is not None:
                        records.append(record)
                        assert isinstance(record[0], PartitionChangeRecord)
                        changed[key] = partition.merge(record[0])
                except KafkaError as error:
                    answer.error_code, answer.error_message = error.code, error.detail
                answers.append(answer)
                yield
            topics.append(AlterPartitionReassignmentsResponse.Topic(name=topic.name, partitions=answers))
        response = AlterPartitionReassignmentsResponse(
            allow_replication_factor_change=request.allow_replication_factor_change, responses=topics
        )
        return Result(records, response)

    def _plan(
        self,
        image: MetadataImage,
        key: TopicIdPartition,
        partition: PartitionRegistration,
        target: Sequence[int] | None,
        allows_change: bool,
    ) -> VersionedRecord | None:
        """The record that begins, changes or cancels the reassignment of a partition; None if nothing changes."""
        now = Assignment.of(partition)
        if target is None:
            return self._plan_cancelling(image, key, partition)
        _check_target(image, target)
        if not allows_change and len(now.target) != len(target):
            raise KafkaError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"{key.topic_partition} has {len(now.target)} replicas and would have {len(target)}; the request does"
                " not allow that",
            )
        after = reassigned(now, target)
        return self._replication.plan_assignment(image, key, partition, after, partition.isr, unclean=False)

    def _plan_cancelling(
        self, image: MetadataImage, key: TopicIdPartition, partition: PartitionRegistration
    ) -> VersionedRecord | None:
        now = Assignment.of(partition)
        if not now.is_in_progress:
            raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, f"{key.topic_partition} is not being reassigned")
        unclean = self._replication.allows_unclean_election(image, key.topic)
        after, isr, may_lack_records = reverted(now, partition.isr)
        if may_lack_records and not unclean:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"no original replica of {key.topic_partition} is in sync: to go back may lose records, and"
                " unclean.leader.election.enable does not allow that",
            )
        return self._replication.plan_assignment(image, key, partition, after, isr, unclean)

    def list_ongoing(
        self, image: MetadataImage, request: ListPartitionReassignmentsRequest
    ) -> Steps[Result[ListPartitionReassignmentsResponse]]:
        """Those of the partitions asked for that are being reassigned."""
        topics = []
        for topic, numbers in _asked_for(image, request):
            partitions = []
            for number in numbers:
                partition = topic.partitions.get(number)
                if partition is not None and Assignment.of(partition).is_in_progress:
                    partitions.append(
                        Ongoing.Partition(
                            partition_index=number,
                            replicas=partition.replicas,
                            adding_replicas=partition.adding_replicas,
                            removing_replicas=partition.removing_replicas,
                        )
                    )
                yield
            if partitions:
                topics.append(Ongoing(name=topic.name, partitions=partitions))
        return Result([], ListPartitionReassignmentsResponse(topics=topics))


def _asked_for(
    image: MetadataImage, request: ListPartitionReassignmentsRequest
) -> Iterable[tuple[TopicImage, Sequence[int]]]:
    if request.topics is None:
        return [
            (image.topics[topic_id], sorted(image.topics[topic_id].partitions)) for topic_id in sorted(image.topics)
        ]
    named = [(image.topic_named(topic.name), topic.partition_indexes) for topic in request.topics]
    return [(topic, numbers) for topic, numbers in named if topic is not None]


def _find(image: MetadataImage, name: str, number: int) -> tuple[TopicIdPartition, PartitionRegistration]:
    topic = image.topic_named(name)
    partition = None if topic is None else topic.partitions.get(number)
    if topic is None or partition is None:
        what = f"topic {name}" if topic is None else f"partition {number} of topic {name}"
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no {what}")
    return TopicIdPartition(topic.topic_id, name, number), partition


def _check_target(image: MetadataImage, target: Sequence[int]) -> None:
    """KafkaError unless these brokers may hold a partition."""
    if not target or len(set(target)) < len(target):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"the replicas {list(target)} are none, or one of them is named twice: name each broker once",
        )
    for broker_id in target:
        check_takes_replicas(image, broker_id)
