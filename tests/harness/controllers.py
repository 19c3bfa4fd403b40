"""A controller that is a quorum of its own, on a disk in memory, with brokers that are only names.

What it decides is decided as soon as it is written; what it answers is read from the promise. `Controllers` are three
of them on one `Quorum`, so that one can lose its leadership.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from pykraft.common.core import Promise
from pykraft.common.errors import ErrorCode
from pykraft.common.settings.config import ConfigDef
from pykraft.common.time_slice import TimeSlice
from pykraft.common.trace import Silence, Tracer
from pykraft.common.types import Uuid
from pykraft.controller.config import CONTROLLER_KEYS
from pykraft.controller.controller import Outcome, QuorumController
from pykraft.controller.features import ELR_VERSION, NEW_CLUSTER, SUPPORTED_FEATURES, level_records
from pykraft.controller.partitions.assignment import Assignment
from pykraft.metadata.image import MetadataImage, PartitionRegistration
from pykraft.metadata.loader import MetadataLoader
from pykraft.protocol.messages.admin import CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest
from pykraft.protocol.messages.brokers import (
    AlterPartitionRequest,
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
    SecuredEndpoint,
    SupportedFeature,
)
from pykraft.protocol.messages.configs import IncrementalAlterConfigsRequest, Operation
from pykraft.raft.client import RaftClient
from pykraft.raft.log.voters import VOTERS_IN_LOG
from tests.harness.asking import reassign, reassignments, update
from tests.harness.quorum import CLUSTER_ID, Heard, directory_id, replica

SESSION_MS = 9000
CONFIG = ConfigDef(CONTROLLER_KEYS)
NOBODY = -1
WITHOUT_ELR = {**NEW_CLUSTER, ELR_VERSION: 0}
"""The levels of a cluster that is formatted without eligible leader replicas."""


def incarnation(broker_id: int, life: int = 1) -> Uuid:
    """The id of a broker's process, from its first life on."""
    return Uuid(bytes([life]) + bytes(14) + bytes([broker_id]))


def registration(broker_id: int, life: int = 1, rack: str | None = None, **fields: Any) -> BrokerRegistrationRequest:
    return BrokerRegistrationRequest(
        broker_id=broker_id,
        cluster_id=CLUSTER_ID,
        incarnation_id=incarnation(broker_id, life),
        listeners=[SecuredEndpoint(name="PLAINTEXT", host="broker", port=9100 + broker_id, security_protocol=0)],
        features=[
            SupportedFeature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in SUPPORTED_FEATURES.items()
        ],
        rack=rack,
        log_dirs=[directory_id(100 + broker_id)],
    ).replace(**fields)


def new_topic(name: str, partitions: int = 1, replicas: int = 1, **fields: Any) -> CreateTopicsRequest.Topic:
    """A topic to be made; `assignment` lists the replicas of each partition, `configs` are name and value."""
    topic = CreateTopicsRequest.Topic
    assignment: Mapping[int, Sequence[int]] = fields.pop("assignment", {})
    configs: Mapping[str, str | None] = fields.pop("configs", {})
    return topic(
        name=name,
        num_partitions=-1 if assignment else partitions,
        replication_factor=-1 if assignment else replicas,
        assignments=[
            topic.Assignment(partition_index=number, broker_ids=list(brokers)) for number, brokers in assignment.items()
        ],
        configs=[topic.Config(name=key, value=value) for key, value in configs.items()],
    ).replace(**fields)


def make(*topics: CreateTopicsRequest.Topic, validate_only: bool = False) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=list(topics), timeout_ms=1000, validate_only=validate_only)


class ControllerScript:
    """The active controller, and what it is asked."""

    def __init__(
        self,
        properties: Mapping[str, str] | None = None,
        levels: Mapping[str, int] = NEW_CLUSTER,
        static_voters: Sequence[int] = (),
        kraft_version: int = VOTERS_IN_LOG,
        time_slice: TimeSlice | None = None,
        raft: RaftClient | None = None,
        **settings: Any,
    ) -> None:
        """`properties` is the node's file, `levels` those of the features that the cluster begins with. A `time_slice`
        interrupts the controller's changes; a `raft` of the caller's may have one too."""
        self.now = 1000
        self.raft: RaftClient = raft or replica(1, voters=[1], kraft_version=kraft_version)
        self.loader = MetadataLoader()
        self.controller = QuorumController(
            node_id=1,
            cluster_id=CLUSTER_ID,
            raft=self.raft,
            loader=self.loader,
            config=CONFIG.resolve().with_values(**{"metadata_max_idle_interval_ms": 0, **settings}),
            random=Random(1),
            trace=Tracer(1, Silence()),
            properties=properties,
            first_records=level_records(levels),
            static_voters=static_voters,
            time_slice=time_slice,
        )
        self.heard = Heard()
        self.raft.register(self.loader)
        self.raft.register(self.heard)
        self.raft.start(self.now)
        self.run()

    @property
    def image(self) -> MetadataImage:
        return self.controller.image

    def run(self, duration_ms: int = 30) -> None:
        """Let time pass: long enough, if nothing is said, for what is proposed to be decided."""
        end = self.now + duration_ms
        while True:
            deadline = min(self.raft.poll(self.now).deadline, self.controller.poll(self.now), self.raft.append_deadline)
            if deadline > end:
                break
            self.now = max(self.now, deadline)
        self.now = end
        self.raft.poll(self.now)

    def answered(self, promise: Promise[Outcome]) -> Any:
        """The response, once what it says is decided; an error raises."""
        self.run()
        if promise.value.error is not None:
            raise promise.value.error
        return promise.value.response

    def register(self, broker_id: int, life: int = 1, rack: str | None = None, **fields: Any) -> int:
        """A broker's process registers; returns its epoch."""
        request = registration(broker_id, life, rack, **fields)
        epoch: int = self.answered(self.controller.answer(request, self.now)).broker_epoch
        return epoch

    def heartbeat(self, sender: int, **fields: Any) -> Any:
        """A broker that has applied all there is tells that it lives."""
        request = BrokerHeartbeatRequest(
            broker_id=sender,
            broker_epoch=self.image.brokers[sender].epoch,
            current_metadata_offset=self.image.provenance.offset,
            want_fence=False,
            want_shut_down=False,
        ).replace(**fields)
        return self.answered(self.controller.answer(request, self.now))

    def bring_up(self, *brokers: int, racks: Mapping[int, str] | None = None) -> None:
        """These brokers register, and are unfenced."""
        for broker_id in brokers:
            self.register(broker_id, rack=(racks or {}).get(broker_id))
            self.heartbeat(broker_id)

    def live(self, broker_id: int, duration_ms: int) -> None:
        """Let time pass in which this broker sends its heartbeats, and the others send none."""
        end = self.now + duration_ms
        while self.now < end:
            self.run(min(SESSION_MS // 3, end - self.now))
            self.heartbeat(broker_id)

    def configure(self, kind: int, name: str, settings: Mapping[str, str]) -> None:
        """Set these settings of a topic or a broker."""
        config = IncrementalAlterConfigsRequest.Resource.Config
        resource = IncrementalAlterConfigsRequest.Resource(
            resource_type=kind,
            resource_name=name,
            configs=[config(name=key, config_operation=Operation.SET, value=value) for key, value in settings.items()],
        )
        request = IncrementalAlterConfigsRequest(resources=[resource])
        (result,) = self.answered(self.controller.answer(request, self.now)).responses
        assert not result.error_code, result.error_message

    def create(self, *topics: CreateTopicsRequest.Topic, validate_only: bool = False) -> dict[str, ErrorCode]:
        """What became of each topic."""
        request = make(*topics, validate_only=validate_only)
        response = self.answered(self.controller.answer(request, self.now))
        return {topic.name: ErrorCode.of(topic.error_code) for topic in response.topics}

    def grow(self, request: CreatePartitionsRequest) -> list[tuple[str, ErrorCode]]:
        """What became of each topic."""
        response = self.answered(self.controller.answer(request, self.now))
        return [(topic.name, ErrorCode.of(topic.error_code)) for topic in response.results]

    def update(self, *changes: tuple[str, int] | tuple[str, int, int], validate_only: bool = False) -> ErrorCode:
        """Change the levels of features; what came of it."""
        response = self.answered(self.controller.answer(update(*changes, validate_only=validate_only), self.now))
        return ErrorCode.of(response.error_code)

    def reassign(self, *targets: tuple[str, int, Sequence[int] | None], **settings: bool) -> list[ErrorCode]:
        """What became of each partition."""
        response = self.answered(self.controller.answer(reassign(*targets, **settings), self.now))
        assert not response.error_code
        return [ErrorCode.of(answer.error_code) for topic in response.responses for answer in topic.partitions]

    def reassigning(self, *topics: tuple[str, Sequence[int]]) -> list[tuple[str, int, Assignment]]:
        """The reassignments that the controller lists."""
        response = self.answered(self.controller.answer(reassignments(*topics), self.now))
        return [
            (
                topic.name,
                each.partition_index,
                Assignment(tuple(each.replicas), tuple(each.adding_replicas), tuple(each.removing_replicas)),
            )
            for topic in response.topics
            for each in topic.partitions
        ]

    def delete(self, *topics: DeleteTopicsRequest.Topic) -> list[ErrorCode]:
        request = DeleteTopicsRequest(topics=list(topics), timeout_ms=1000)
        response = self.answered(self.controller.answer(request, self.now))
        return [ErrorCode.of(topic.error_code) for topic in response.responses]

    def partition(self, topic: str, number: int = 0) -> PartitionRegistration:
        found = self.image.topic_named(topic)
        assert found is not None
        return found.partitions[number]

    def alter(self, topic: str, isr: Sequence[int], sender: int | None = None, **fields: Any) -> Any:
        """The leader asks for this ISR; the answer about the one partition."""
        partition = self.partition(topic)
        sender = partition.leader if sender is None else sender
        state = AlterPartitionRequest.Topic.Partition.BrokerState
        wanted = AlterPartitionRequest.Topic.Partition(
            partition_index=0,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
            new_isr_with_epochs=[
                state(broker_id=n, broker_epoch=self.image.brokers[n].epoch if n in self.image.brokers else 0)
                for n in isr
            ],
        ).replace(**fields)
        request = AlterPartitionRequest(
            broker_id=sender,
            broker_epoch=self.image.brokers[sender].epoch,
            topics=[AlterPartitionRequest.Topic(topic_id=self.image.topic_ids[topic], partitions=[wanted])],
        )
        response = self.answered(self.controller.answer(request, self.now))
        return response.topics[0].partitions[0]
