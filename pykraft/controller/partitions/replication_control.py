"""Leaders and in-sync replicas: the plans when brokers go and come, and when a leader asks for another ISR.

A topic may allow an *unclean* election: when no member of its ISR is alive, a replica that lacks acknowledged records
may lead. ``unclean.leader.election.enable`` says so, for one topic, for this controller's node, for all brokers, or in
the node's file, the strongest first. `elections` looks at partitions without a leader again from time to time.

With eligible leader replicas (KIP-966, ``eligible.leader.replicas.version`` 1) the controller must know every topic's
``min.insync.replicas``, from the same places (`partition_change` says what for). A broker that registers without the
epoch that it wrote down when it stopped in order may have lost records: it leaves the ISRs and ELRs that it was in.

A leader knows first which of its followers keep up. But it does not decide the ISR alone: it asks the controller
(AlterPartition, KIP-497), so that the next leader is always chosen from an ISR that every node can read in the metadata
log. The request carries what the leader believes (leader epoch, partition epoch, the broker epoch of each replica); if
any of it is outdated, nothing is changed and the leader learns why.

Follows org.apache.kafka.controller.ReplicationControlManager.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

from pykraft.common.core import Steps
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.settings.config import Key
from pykraft.common.settings.topic_config import MIN_INSYNC_REPLICAS
from pykraft.common.settings.topic_config import UNCLEAN_LEADER_ELECTION_ENABLE as UNCLEAN
from pykraft.common.types import TopicIdPartition, Uuid
from pykraft.controller.partitions.assignment import Assignment
from pykraft.controller.partitions.brokers_to_isrs import BrokersToIsrs
from pykraft.controller.partitions.partition_change import Election, ElrRules, plan_partition_change
from pykraft.controller.result import Result, VersionedRecord
from pykraft.metadata.image import TOPIC_RESOURCE, ConfigResource, MetadataImage, PartitionRegistration
from pykraft.metadata.settings import NodeLayers, node_layers, topic_setting
from pykraft.metadata.versions import BASE, IV_3_6_0_NO_EPOCH_BUMP, METADATA_VERSION
from pykraft.protocol.messages.brokers import RECOVERED, RECOVERING, AlterPartitionRequest, AlterPartitionResponse
from pykraft.protocol.messages.records import PartitionChangeRecord

T = TypeVar("T")

Answer = AlterPartitionResponse.Topic.Partition
Wanted = AlterPartitionRequest.Topic.Partition


class ReplicationControl:
    """Plans leadership and ISR changes."""

    def __init__(self, node_id: int, properties: Mapping[str, str]) -> None:
        """`properties` is this node's file, which has defaults for settings of topics."""
        self._node_id = node_id
        self._properties = properties
        self._configs: Mapping[ConfigResource, Mapping[str, str]] | None = None
        """The settings from which the next two were worked out. An image has the mapping of the one before, until a
        setting changes; a broker that goes asks for the settings of ten thousand partitions."""
        self._known_layers = NodeLayers({}, {}, {})
        self._known: dict[tuple[str, str], Any] = {}
        """By setting and topic."""
        self.index = BrokersToIsrs()

    def plan_broker_gone(self, image: MetadataImage, broker_id: int) -> Iterable[VersionedRecord]:
        """The broker may neither lead nor count as in sync any more."""
        return self._plan_without(
            image, broker_id, lambda partition: broker_id in partition.isr or partition.leader == broker_id
        )

    def plan_broker_replaced(self, image: MetadataImage, broker_id: int, is_clean: bool) -> Iterable[VersionedRecord]:
        """Another process has the broker's id now. Unless the old one stopped in order, the disk may have lost what was
        not synced."""
        if is_clean:
            return self.plan_broker_gone(image, broker_id)
        return self._plan_without(
            image,
            broker_id,
            lambda partition: broker_id in {*partition.isr, partition.leader, *partition.eligible_leader_replicas},
            lost=frozenset({broker_id}),
        )

    def plan_broker_back(self, image: MetadataImage, broker_id: int) -> Iterable[VersionedRecord]:
        """The broker may lead again: partitions without a leader may get one."""

        def may_lead(replica: int) -> bool:
            return replica == broker_id or image.is_active(replica)

        return (
            record
            for topic_id, number, partition in self.index.without_leader(image)
            if broker_id in partition.replicas
            for record in self.plan(image, topic_id, number, may_lead=may_lead)
        )

    def plan_directories_gone(
        self, image: MetadataImage, broker_id: int, directories: Collection[Uuid]
    ) -> Iterable[VersionedRecord]:
        """What the broker has in these log directories may neither lead nor count as in sync any more."""
        return self._plan_without(
            image,
            broker_id,
            lambda partition: broker_id in partition.isr and partition.directory_of(broker_id) in directories,
        )

    def _plan_without(
        self,
        image: MetadataImage,
        broker_id: int,
        is_affected: Callable[[PartitionRegistration], bool],
        lost: frozenset[int] = frozenset(),
    ) -> Iterable[VersionedRecord]:
        """The broker leaves the ISR of the affected partitions, and others lead them."""
        return (
            record
            for topic_id, number, partition in self.index.concerned(image, broker_id)
            if is_affected(partition)
            for record in self.plan(
                image,
                topic_id,
                number,
                may_lead=lambda replica: replica != broker_id and image.is_active(replica),
                new_isr=[replica for replica in partition.isr if replica != broker_id],
                lost=lost,
            )
        )

    def plan_assignment(
        self,
        image: MetadataImage,
        key: TopicIdPartition,
        partition: PartitionRegistration,
        assignment: Assignment,
        isr: Sequence[int],
        unclean: bool,
    ) -> VersionedRecord | None:
        """The record that gives the partition the replicas that `assignment` names; None if nothing changes."""
        known = {replica: image.brokers[replica] for replica in assignment.replicas if replica in image.brokers}
        return plan_partition_change(
            key.topic_id,
            key.partition,
            partition,
            new_isr=isr,
            may_lead=lambda replica: image.is_active(replica) and image.is_online(replica, partition),
            election=Election.UNCLEAN if unclean else Election.ONLINE,
            assignment=assignment,
            directories={replica: broker.default_directory for replica, broker in known.items()},
            elr_rules=self._elr_rules(image, key.topic),
            epoch_rises_on_shrink=_epoch_rises_on_shrink(image),
        )

    def allows_unclean_election(self, image: MetadataImage, topic: str) -> bool:
        """Whether a replica of the topic may lead that lacks acknowledged records."""
        return self._setting(UNCLEAN, image, topic)

    def _setting(self, key: Key[T], image: MetadataImage, topic: str) -> T:
        """What holds for the topic, on this node."""
        if self._configs is not image.configs:
            self._configs, self._known = image.configs, {}
            self._known_layers = node_layers(image, self._node_id, self._properties)
        if (key.name, topic) not in self._known:
            own = image.config_of(TOPIC_RESOURCE, topic)
            self._known[key.name, topic] = topic_setting(key, own, self._known_layers)
        found: T = self._known[key.name, topic]
        return found

    def plan(
        self,
        image: MetadataImage,
        topic_id: Uuid,
        number: int,
        *,
        may_lead: Callable[[int], bool],
        election: Election | None = None,
        new_isr: Sequence[int] | None = None,
        recovery_state: int | None = None,
        lost: frozenset[int] = frozenset(),
        moved: Mapping[int, Uuid] = MappingProxyType({}),
        partition: PartitionRegistration | None = None,
    ) -> list[VersionedRecord]:
        """The record, if there is one, of one partition's next state. The election is the one that the topic allows,
        unless another is wanted. A replica leads only in a log directory that its broker has. `lost` are brokers whose
        disks may have lost records, `moved` replicas in another directory. `partition` is how it is by then, if that is
        not as in the image."""
        topic = image.topics[topic_id]
        now = topic.partitions[number] if partition is None else partition
        if election is None:
            election = Election.UNCLEAN if self.allows_unclean_election(image, topic.name) else Election.ONLINE
        record = plan_partition_change(
            topic_id,
            number,
            now,
            may_lead=lambda replica: may_lead(replica) and image.is_online(replica, now),
            election=election,
            new_isr=new_isr,
            recovery_state=recovery_state,
            moved=moved,
            elr_rules=self._elr_rules(image, topic.name, lost),
            lost=lost,
            epoch_rises_on_shrink=_epoch_rises_on_shrink(image),
        )
        return [] if record is None else [record]

    def _elr_rules(self, image: MetadataImage, topic: str, lost: frozenset[int] = frozenset()) -> ElrRules | None:
        return ElrRules(self.min_isr(image, topic), lost) if image.keeps_elr else None

    def min_isr(self, image: MetadataImage, topic: str) -> int:
        """How many replicas of the topic must be in sync for its high watermark to rise."""
        found = image.topic_named(topic)
        assert found is not None, f"a topic without metadata: {topic}"
        return min(self._setting(MIN_INSYNC_REPLICAS, image, topic), len(found.partitions[0].replicas))

    # --- AlterPartition -----------------------------------------------------------------------------------------------

    def alter_partition(
        self, image: MetadataImage, request: AlterPartitionRequest
    ) -> Steps[Result[AlterPartitionResponse]]:
        """The caller has checked the broker's epoch."""
        records: list[VersionedRecord] = []
        topics = []
        for topic in request.topics:
            answers = []
            for wanted in topic.partitions:
                try:
                    some, answer = self._alter_one(image, request.broker_id, topic.topic_id, wanted)
                    records += some
                    answers.append(answer)
                except KafkaError as error:
                    answers.append(Answer(partition_index=wanted.partition_index, error_code=error.code, isr=[]))
                yield
            topics.append(AlterPartitionResponse.Topic(topic_id=topic.topic_id, partitions=answers))
        return Result(records, AlterPartitionResponse(topics=topics))

    def _alter_one(
        self, image: MetadataImage, broker_id: int, topic_id: Uuid, wanted: Wanted
    ) -> tuple[list[VersionedRecord], Answer]:
        topic = image.topics.get(topic_id)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        partition = topic.partitions.get(wanted.partition_index)
        if partition is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        new_isr = [state.broker_id for state in wanted.new_isr_with_epochs] or list(wanted.new_isr)
        _check_claim(partition, broker_id, wanted)
        _check_isr(image, partition, wanted, new_isr)
        records = self.plan(
            image,
            topic_id,
            wanted.partition_index,
            may_lead=image.is_active,
            new_isr=new_isr,
            recovery_state=wanted.leader_recovery_state,
        )
        after = partition
        for record, _ in records:
            assert isinstance(record, PartitionChangeRecord)
            after = partition.merge(record)
        error = ErrorCode.NONE if after.leader == partition.leader else ErrorCode.NEW_LEADER_ELECTED
        return records, Answer(
            partition_index=wanted.partition_index,
            error_code=error,
            leader_id=after.leader,
            leader_epoch=after.leader_epoch,
            isr=after.isr,
            leader_recovery_state=after.leader_recovery_state,
            partition_epoch=after.partition_epoch,
        )


def _epoch_rises_on_shrink(image: MetadataImage) -> bool:
    """Brokers before 3.6 need a new leader epoch to hear of an ISR that shrinks."""
    return image.features.get(METADATA_VERSION, BASE.level) < IV_3_6_0_NO_EPOCH_BUMP


def _check_claim(partition: PartitionRegistration, broker_id: int, wanted: Wanted) -> None:
    """Whether the sender leads the partition, and knows its latest state."""
    if wanted.leader_epoch > partition.leader_epoch or wanted.partition_epoch > partition.partition_epoch:
        raise KafkaError(ErrorCode.NOT_CONTROLLER)  # it knows more than this controller does
    if wanted.leader_epoch < partition.leader_epoch:
        raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
    if broker_id != partition.leader:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    if wanted.partition_epoch < partition.partition_epoch:
        raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION)


def _check_isr(image: MetadataImage, partition: PartitionRegistration, wanted: Wanted, new_isr: Sequence[int]) -> None:
    """Whether these replicas may be in sync: replicas of the partition, the leader among them, each active, and each
    the process that the leader heard from."""
    is_subset = set(new_isr) <= set(partition.replicas) and len(set(new_isr)) == len(new_isr)
    if not is_subset or partition.leader not in new_isr:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    if wanted.leader_recovery_state not in (RECOVERED, RECOVERING):
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    recovering = wanted.leader_recovery_state == RECOVERING
    if recovering and (len(new_isr) > 1 or partition.leader_recovery_state == RECOVERED):
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    epochs = {state.broker_id: state.broker_epoch for state in wanted.new_isr_with_epochs}
    for replica in new_isr:
        epoch = epochs.get(replica, -1)
        if not image.is_active(replica) or epoch not in (-1, image.brokers[replica].epoch):
            raise KafkaError(ErrorCode.INELIGIBLE_REPLICA)
