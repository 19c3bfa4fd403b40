"""Short ways to write the requests that most cases of conformance and of the wire send."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from pykraft.common.types import ZERO_UUID, Uuid
from pykraft.protocol.messages.admin import CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest
from pykraft.protocol.messages.cluster import DescribeTopicPartitionsRequest, TopicPartitionCursor
from pykraft.protocol.messages.configs import (
    AlterConfigsRequest,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
    Operation,
    ResourceType,
)
from pykraft.protocol.messages.data import FetchRequest, ListOffsetsRequest, OffsetForLeaderEpochRequest, ProduceRequest
from pykraft.protocol.messages.elections import ElectLeadersRequest
from pykraft.protocol.messages.features import UPGRADE, UpdateFeaturesRequest
from pykraft.protocol.messages.logs import AlterReplicaLogDirsRequest
from pykraft.protocol.messages.reassignments import (
    AlterPartitionReassignmentsRequest,
    ListPartitionReassignmentsRequest,
)
from pykraft.protocol.schema import Request
from pykraft.records.batch import ATTRIBUTES_OFFSET, CRC_OFFSET, HEADER, RecordBatch
from pykraft.records.builder import RecordBatchBuilder
from pykraft.records.compression import Compression
from pykraft.records.crc32c import crc32c

T0 = 1_700_000_000_000
"""The first record's timestamp, in milliseconds since 1970; the following ones are a second apart."""
KEPT = {"retention.ms": "-1"}
"""For a topic with such old records: who runs for half a minute looks for old segments."""
UNDISTURBED = {"log.initial.task.delay.ms": "3600000"}
"""For a node with such topics: it does not look for old segments while it is asked."""
PATIENT = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "300",
    "controller.quorum.fetch.timeout.ms": "3000",
    "controller.quorum.election.timeout.ms": "1000",
    "controller.quorum.request.timeout.ms": "2000",
}
"""A kill is noticed soon, but a busy disk does not look like a dead node, as it may with the timeouts of a lesson.
There a broker whose session passed leads again in a new epoch, which the log's bytes show; and a client that creates a
topic while the controller changes may hear, from Apache Kafka as from pykraft, that it exists already: the first
attempt has made it, and its answer was lost."""


def versions(request: type[Request]) -> range:
    return range(request.versions[0], request.versions[1] + 1)


# --- records ----------------------------------------------------------------------------------------------------------


def batch(
    count: int = 2,
    *,
    codec: Compression = Compression.NONE,
    producer: tuple[int, int, int] = (-1, -1, -1),
    timestamp: int = T0,
    step_ms: int = 1000,
    size: int = 10,
    key: bytes | None = b"key",
    **attributes: Any,
) -> bytes:
    """A batch of `count` records; `producer` is (id, epoch, first sequence)."""
    builder = RecordBatchBuilder(
        compression=codec,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=producer[2],
        **attributes,
    )
    for number in range(count):
        value = (b"value %d " % number).ljust(size, b".")
        builder.append(timestamp + number * step_ms, key, value, [("header", b"h"), ("null", None)] if number else [])
    return bytes(builder.build())


def altered(data: bytes, *, with_crc: bool = True, **fields: int) -> bytes:
    """The batch with other values in its header; its checksum is made right again, unless it is among them."""
    names = list(RecordBatch.__annotations__)
    values = dict(zip(names, HEADER.unpack_from(data), strict=True)) | fields
    changed = bytearray(data)
    HEADER.pack_into(changed, 0, *(values[name] for name in names))
    return checked(changed) if with_crc and "crc" not in fields else bytes(changed)


def checked(data: bytes | bytearray) -> bytes:
    """The bytes with the checksum that they should have."""
    changed = bytearray(data)
    changed[CRC_OFFSET:ATTRIBUTES_OFFSET] = crc32c(memoryview(changed)[ATTRIBUTES_OFFSET:]).to_bytes(4, "big")
    return bytes(changed)


def with_records(data: bytes, records: bytes, **fields: int) -> bytes:
    """The batch's header with other bytes behind it, and a length that fits."""
    changed = data[: HEADER.size] + records
    return altered(changed, batch_length=len(changed) - 12, **fields)


# --- requests ---------------------------------------------------------------------------------------------------------


def produce(
    topic: str,
    *partitions: bytes | tuple[int, bytes | None] | None,
    topic_id: Uuid = ZERO_UUID,
    acks: int = 1,
    timeout_ms: int = 10_000,
    transactional_id: str | None = None,
) -> ProduceRequest:
    """Records for partition 0, 1, ...; or (partition, records) for others."""
    numbered = [each if isinstance(each, tuple) else (number, each) for number, each in enumerate(partitions)]
    data = [ProduceRequest.Topic.Partition(index=number, records=records) for number, records in numbered]
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[ProduceRequest.Topic(name=topic, topic_id=topic_id, partition_data=data)],
    )


def fetch(
    topic: str,
    *offsets: int | dict[str, int],
    topic_id: Uuid = ZERO_UUID,
    max_wait_ms: int = 0,
    min_bytes: int = 0,
    **fields: Any,
) -> FetchRequest:
    """Read partition 0, 1, ... from these offsets on; a dict says more of a partition than its `fetch_offset`."""
    partition_type = FetchRequest.Topic.Partition
    partitions = []
    for number, offset in enumerate(offsets):
        said = offset if isinstance(offset, dict) else {"fetch_offset": offset}
        partitions.append(partition_type(**{"partition": number, "partition_max_bytes": 1 << 20, **said}))
    topics = [FetchRequest.Topic(topic=topic, topic_id=topic_id, partitions=partitions)] if partitions else []
    return FetchRequest(max_wait_ms=max_wait_ms, min_bytes=min_bytes, topics=topics, **fields)


def list_offsets(
    topic: str, *timestamps: int, partition: int = 0, current_leader_epoch: int = -1, **fields: Any
) -> ListOffsetsRequest:
    """Look up timestamps in one partition. More than one is a mistake that a case may want to make."""
    asked = [
        ListOffsetsRequest.Topic.Partition(
            partition_index=partition, current_leader_epoch=current_leader_epoch, timestamp=timestamp
        )
        for timestamp in timestamps
    ]
    return ListOffsetsRequest(topics=[ListOffsetsRequest.Topic(name=topic, partitions=asked)], **fields)


def epoch_end(
    topic: str, leader_epoch: int, *, partition: int = 0, current_leader_epoch: int = -1, **fields: Any
) -> OffsetForLeaderEpochRequest:
    """Where does this epoch end?"""
    topic_type = OffsetForLeaderEpochRequest.Topic
    asked = topic_type.Partition(
        partition=partition, current_leader_epoch=current_leader_epoch, leader_epoch=leader_epoch
    )
    return OffsetForLeaderEpochRequest(topics=[topic_type(topic=topic, partitions=[asked])], **fields)


def new_topic(
    name: str,
    partitions: int = -1,
    factor: int = -1,
    *,
    assignments: Sequence[tuple[int, Sequence[int]]] = (),
    configs: Sequence[tuple[str, str | None]] = (),
) -> CreateTopicsRequest.Topic:
    topic_type = CreateTopicsRequest.Topic
    return topic_type(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        assignments=[
            topic_type.Assignment(partition_index=number, broker_ids=list(brokers)) for number, brokers in assignments
        ],
        configs=[topic_type.Config(name=key, value=value) for key, value in configs],
    )


def create(*topics: CreateTopicsRequest.Topic, validate_only: bool = False) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=list(topics), timeout_ms=30_000, validate_only=validate_only)


def grow(
    *topics: tuple[str, int] | tuple[str, int, Sequence[Sequence[int]]], validate_only: bool = False
) -> CreatePartitionsRequest:
    """Give topics more partitions: the name, how many in all, and perhaps the brokers of each new one."""
    topic_type = CreatePartitionsRequest.Topic
    return CreatePartitionsRequest(
        topics=[
            topic_type(
                name=topic[0],
                count=topic[1],
                assignments=[topic_type.Assignment(broker_ids=list(brokers)) for brokers in topic[2]]
                if len(topic) > 2
                else None,
            )
            for topic in topics
        ],
        timeout_ms=30_000,
        validate_only=validate_only,
    )


def update(*changes: tuple[str, int] | tuple[str, int, int], validate_only: bool = False) -> UpdateFeaturesRequest:
    """Set features to levels: the name, the level, and perhaps the type of the upgrade."""
    update_type = UpdateFeaturesRequest.Update
    return UpdateFeaturesRequest(
        feature_updates=[
            update_type(feature=name, max_version_level=level, upgrade_type=said[0] if said else UPGRADE)
            for name, level, *said in changes
        ],
        validate_only=validate_only,
    )


def reassign(
    *targets: tuple[str, int, Sequence[int] | None], allow_replication_factor_change: bool = True
) -> AlterPartitionReassignmentsRequest:
    """Move partitions: topic, number and the brokers of each, or None to cancel. Targets of one topic that follow each
    other are asked for together."""
    topic_type = AlterPartitionReassignmentsRequest.Topic
    return AlterPartitionReassignmentsRequest(
        topics=[
            topic_type(
                name=name,
                partitions=[
                    topic_type.Partition(partition_index=number, replicas=None if brokers is None else list(brokers))
                    for _, number, brokers in group
                ],
            )
            for name, group in groupby(targets, key=lambda target: target[0])
        ],
        timeout_ms=30_000,
        allow_replication_factor_change=allow_replication_factor_change,
    )


def reassignments(*topics: tuple[str, Sequence[int]]) -> ListPartitionReassignmentsRequest:
    """Which of these partitions are being reassigned; of all if none is named."""
    topic_type = ListPartitionReassignmentsRequest.Topic
    named = [topic_type(name=name, partition_indexes=list(numbers)) for name, numbers in topics]
    return ListPartitionReassignmentsRequest(timeout_ms=30_000, topics=named or None)


def elect(kind: int, *topics: tuple[str, Sequence[int]]) -> ElectLeadersRequest:
    """Elect leaders of these partitions of each topic."""
    topic_type = ElectLeadersRequest.TopicPartitions
    return ElectLeadersRequest(
        election_type=kind,
        topic_partitions=[topic_type(topic=name, partitions=list(numbers)) for name, numbers in topics],
        timeout_ms=30_000,
    )


def describe_partitions(
    *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None
) -> DescribeTopicPartitionsRequest:
    """Describe these topics, or all; `cursor` is the topic and the partition to begin with."""
    return DescribeTopicPartitionsRequest(
        topics=[DescribeTopicPartitionsRequest.Topic(name=name) for name in names],
        response_partition_limit=limit,
        cursor=None if cursor is None else TopicPartitionCursor(topic_name=cursor[0], partition_index=cursor[1]),
    )


def keep(path: str, *topics: tuple[str, Sequence[int]]) -> AlterReplicaLogDirsRequest:
    """Keep the replicas of these partitions in this log directory."""
    directory = AlterReplicaLogDirsRequest.Directory
    named = [directory.Topic(name=name, partitions=list(numbers)) for name, numbers in topics]
    return AlterReplicaLogDirsRequest(dirs=[directory(path=path, topics=named)])


def delete(*topics: str | Uuid | tuple[str | None, Uuid]) -> DeleteTopicsRequest:
    """Delete by name, by id, or by both."""
    topic_type = DeleteTopicsRequest.Topic
    parts = [
        each if isinstance(each, tuple) else (None, each) if isinstance(each, Uuid) else (each, ZERO_UUID)
        for each in topics
    ]
    return DeleteTopicsRequest(
        topics=[topic_type(name=name, topic_id=topic_id) for name, topic_id in parts],
        topic_names=[name for name, _ in parts if name is not None],
        timeout_ms=30_000,
    )


# --- settings ---------------------------------------------------------------------------------------------------------

TOPIC, BROKER, GROUP = ResourceType.TOPIC, ResourceType.BROKER, ResourceType.GROUP
CLIENT_METRICS = ResourceType.CLIENT_METRICS
SET, DELETE, APPEND, SUBTRACT = Operation

Change = tuple[str, int, str | None]
"""The name of a setting, an operation, a value."""


def describe(*resources: tuple[int, str], only: Sequence[str] | None = None, **fields: bool) -> DescribeConfigsRequest:
    """The settings of these resources; `only` some of them."""
    return DescribeConfigsRequest(
        resources=[
            DescribeConfigsRequest.Resource(resource_type=kind, resource_name=name, configuration_keys=only)
            for kind, name in resources
        ],
        **fields,
    )


def change(
    *resources: tuple[int, str, Sequence[Change]], validate_only: bool = False
) -> IncrementalAlterConfigsRequest:
    """Change settings of these resources."""
    resource_type = IncrementalAlterConfigsRequest.Resource
    return IncrementalAlterConfigsRequest(
        resources=[
            resource_type(
                resource_type=kind,
                resource_name=name,
                configs=[
                    resource_type.Config(name=key, config_operation=operation, value=value)
                    for key, operation, value in changes
                ],
            )
            for kind, name, changes in resources
        ],
        validate_only=validate_only,
    )


def replace_all(
    *resources: tuple[int, str, Sequence[tuple[str, str | None]]], validate_only: bool = False
) -> AlterConfigsRequest:
    """Let these be all the settings of these resources."""
    resource_type = AlterConfigsRequest.Resource
    return AlterConfigsRequest(
        resources=[
            resource_type(
                resource_type=kind,
                resource_name=name,
                configs=[resource_type.Config(name=key, value=value) for key, value in settings],
            )
            for kind, name, settings in resources
        ],
        validate_only=validate_only,
    )
