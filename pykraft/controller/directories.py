"""In which log directory each replica is: the plan when a broker tells (KIP-858).

A broker with one log directory need not tell: the controller knows it when it places a replica. One with several
chooses a directory itself, and tells when it has. So does a broker whose disk was replaced: its replicas begin empty,
in a directory with another id. Until it has told, it leads none of them. If it did, the replicas that have the records
would follow a leader without them.

A replica that is said to be in a directory which its broker does not have (any more) leaves the ISR. A partition that
had no leader, because its replica was said to be elsewhere, gets one at once. (Apache Kafka looks at the old directory
in that plan, and elects with the next change of a broker, or when it balances the leaders.)

Follows handleAssignReplicasToDirs of org.apache.kafka.controller.ReplicationControlManager.
"""

from collections.abc import Sequence

from pykraft.common.core import Steps
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import Uuid
from pykraft.controller.cluster_control import ClusterControl
from pykraft.controller.partitions.replication_control import ReplicationControl
from pykraft.controller.result import Result, VersionedRecord
from pykraft.metadata.image import BrokerRegistration, MetadataImage, PartitionRegistration
from pykraft.metadata.versions import IV_3_7_2_DIRECTORIES, METADATA_VERSION
from pykraft.protocol.messages.brokers import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse
from pykraft.protocol.messages.records import PartitionChangeRecord

Answer = AssignReplicasToDirsResponse.Directory


class DirectoryControl:
    """Plans what follows from the directories of replicas."""

    def __init__(self, replication: ReplicationControl) -> None:
        self._replication = replication

    def assign_replicas(
        self, image: MetadataImage, request: AssignReplicasToDirsRequest
    ) -> Steps[Result[AssignReplicasToDirsResponse]]:
        """An answer for each replica; those that can be are noted. One that is named again is noted again only for
        another directory."""
        level = image.features.get(METADATA_VERSION, 0)
        if level < IV_3_7_2_DIRECTORIES:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"directories are known from {METADATA_VERSION} {IV_3_7_2_DIRECTORIES} on, and it is {level}",
            )
        broker = ClusterControl.checked(image, request.broker_id, request.broker_epoch)
        records: list[VersionedRecord] = []
        changed: dict[tuple[Uuid, int], PartitionRegistration] = {}
        directories = []
        for directory in request.directories:
            topics = []
            for topic in directory.topics:
                partitions = []
                for wanted in topic.partitions:
                    answer = Answer.Topic.Partition(partition_index=wanted.partition_index)
                    try:
                        key = topic.topic_id, wanted.partition_index
                        partition = changed.get(key) or _find(image, *key)
                        some, changed[key] = self._assign(image, broker, key, partition, directory.id)
                        records += some
                    except KafkaError as error:
                        answer.error_code = error.code
                    partitions.append(answer)
                    yield
                topics.append(Answer.Topic(topic_id=topic.topic_id, partitions=partitions))
            directories.append(Answer(id=directory.id, topics=topics))
        return Result(records, AssignReplicasToDirsResponse(directories=directories))

    def _assign(
        self,
        image: MetadataImage,
        broker: BrokerRegistration,
        key: tuple[Uuid, int],
        partition: PartitionRegistration,
        directory: Uuid,
    ) -> tuple[list[VersionedRecord], PartitionRegistration]:
        """The records that let this replica be in that directory, and the partition after them."""
        replica = broker.broker_id
        if replica not in partition.replicas:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        noted = self._replication.plan(
            image, *key, may_lead=image.is_active, moved={replica: directory}, partition=partition
        )
        partition = _after(partition, noted)
        if not partition.has_leader and broker.has_online(directory):
            elected = self._replication.plan(image, *key, may_lead=image.is_active, partition=partition)
            return noted + elected, _after(partition, elected)
        if broker.has_online(directory) or replica not in partition.isr:
            return noted, partition
        gone = self._replication.plan(
            image,
            *key,
            may_lead=lambda other: other != replica and image.is_active(other),
            new_isr=[other for other in partition.isr if other != replica],
            partition=partition,
        )
        return noted + gone, _after(partition, gone)


def _after(partition: PartitionRegistration, records: Sequence[VersionedRecord]) -> PartitionRegistration:
    for record, _ in records:
        assert isinstance(record, PartitionChangeRecord)
        partition = partition.merge(record)
    return partition


def _find(image: MetadataImage, topic_id: Uuid, number: int) -> PartitionRegistration:
    topic = image.topics.get(topic_id)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
    partition = topic.partitions.get(number)
    if partition is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return partition
