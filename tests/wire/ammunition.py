"""Well-formed requests to begin with, one for each API and version, and ways to spoil them."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from random import Random

from pykraft.common.types import METADATA_TOPIC, METADATA_TOPIC_ID, Uuid
from pykraft.protocol.api import ListenerKind, apis
from pykraft.protocol.messages.admin import UnregisterBrokerRequest
from pykraft.protocol.messages.brokers import (
    AllocateProducerIdsRequest,
    AlterPartitionRequest,
    AssignReplicasToDirsRequest,
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
    EnvelopeRequest,
)
from pykraft.protocol.messages.cluster import (
    ApiVersionsRequest,
    DescribeClusterRequest,
    DescribeTopicPartitionsRequest,
    FindCoordinatorRequest,
    MetadataRequest,
)
from pykraft.protocol.messages.data import FetchRequest
from pykraft.protocol.messages.quorum import (
    BeginQuorumEpochRequest,
    DescribeQuorumRequest,
    EndQuorumEpochRequest,
    VoteRequest,
)
from pykraft.protocol.messages.transactions import InitProducerIdRequest
from pykraft.protocol.schema import Request
from tests.harness.asking import batch, create, delete, epoch_end, fetch, list_offsets, new_topic, produce
from tests.harness.connection import Closed, Connection

TOPIC = "wire"
STRANGER = Uuid(bytes(15) + b"\xee")


def requests(topic_id: Uuid) -> dict[ListenerKind, list[Request]]:
    """A request of every API that is served, by listener. Nothing of what they want takes long or breaks much."""
    quorum = DescribeQuorumRequest(topics=[_describe(DescribeQuorumRequest.Topic)])
    both: list[Request] = [
        ApiVersionsRequest(client_software_name="wire", client_software_version="1"),
        create(new_topic(TOPIC, 1, 1, configs=[("retention.ms", "1000")]), validate_only=True),
        delete("nobody-made-it"),
        DescribeClusterRequest(),
        UnregisterBrokerRequest(broker_id=99),
        quorum,
    ]
    broker: list[Request] = [
        produce(TOPIC, batch(), topic_id=topic_id),
        fetch(TOPIC, 0, topic_id=topic_id),
        list_offsets(TOPIC, -1),
        MetadataRequest(topics=[MetadataRequest.Topic(name=TOPIC)], allow_auto_topic_creation=False),
        DescribeTopicPartitionsRequest(topics=[DescribeTopicPartitionsRequest.Topic(name=TOPIC)]),
        FindCoordinatorRequest(key="group", coordinator_keys=["group"]),
        InitProducerIdRequest(transaction_timeout_ms=1000),
        epoch_end(TOPIC, 0),
    ]
    partition = FetchRequest.Topic.Partition(partition=0, partition_max_bytes=100, fetch_offset=0)
    metadata = FetchRequest.Topic(topic=METADATA_TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[partition])
    inner = Connection.frame(create(new_topic(TOPIC, 1, 1), validate_only=True), 7)[4:]
    controller: list[Request] = [
        FetchRequest(max_wait_ms=0, min_bytes=0, topics=[metadata]),
        VoteRequest(
            topics=[_describe(VoteRequest.Topic, replica_id=99, replica_epoch=0, last_offset=0, last_offset_epoch=0)]
        ),
        BeginQuorumEpochRequest(topics=[_describe(BeginQuorumEpochRequest.Topic, leader_id=99, leader_epoch=0)]),
        EndQuorumEpochRequest(topics=[_describe(EndQuorumEpochRequest.Topic, leader_id=99, leader_epoch=0)]),
        AlterPartitionRequest(broker_id=1, broker_epoch=0, topics=[_alter(topic_id)]),
        EnvelopeRequest(
            request_data=inner, request_principal=b"\0\0\x05User\x0aANONYMOUS\0\0", client_host_address=bytes(4)
        ),
        BrokerRegistrationRequest(
            broker_id=99,
            cluster_id="another",
            incarnation_id=STRANGER,
            listeners=[],
            features=[],
            log_dirs=[STRANGER],
        ),
        BrokerHeartbeatRequest(
            broker_id=99, broker_epoch=0, current_metadata_offset=0, want_fence=False, want_shut_down=False
        ),
        AllocateProducerIdsRequest(broker_id=99, broker_epoch=0),
        AssignReplicasToDirsRequest(broker_id=99, broker_epoch=0, directories=[_assigned(topic_id)]),
    ]
    return {ListenerKind.BROKER: both + broker, ListenerKind.CONTROLLER: both + controller}


def _assigned(topic_id: Uuid) -> AssignReplicasToDirsRequest.Directory:
    directory = AssignReplicasToDirsRequest.Directory
    topic = directory.Topic(topic_id=topic_id, partitions=[directory.Topic.Partition(partition_index=0)])
    return directory(id=STRANGER, topics=[topic])


def _describe(topic_type: type, **fields: object) -> object:
    partition = topic_type.Partition(partition_index=0, **fields)  # type: ignore[attr-defined]
    return topic_type(topic_name=METADATA_TOPIC, partitions=[partition])


def _alter(topic_id: Uuid) -> AlterPartitionRequest.Topic:
    partition = AlterPartitionRequest.Topic.Partition(
        partition_index=0, leader_epoch=0, new_isr=[1], leader_recovery_state=0, partition_epoch=0
    )
    return AlterPartitionRequest.Topic(topic_id=topic_id, partitions=[partition])


def frames(topic_id: Uuid, kind: ListenerKind, *, ends_only: bool = False) -> Iterator[tuple[str, bytes]]:
    """(name, whole frame) of each request in each version that a listener of this kind serves."""
    for request in requests(topic_id)[kind]:
        low, high = type(request).versions
        for version in sorted({low, high}) if ends_only else range(low, high + 1):
            yield f"{apis[request.api].name} {version}", Connection.frame(request, version)


def framed(data: bytes) -> bytes:
    """The bytes with their own size in front."""
    return struct.pack(">i", len(data)) + data


def flips(data: bytes, count: int, random: Random) -> Iterator[tuple[int, bytes]]:
    """(which bit, the bytes with it turned over), of `count` bits, or of all if there are no more."""
    bits = range(8 * len(data))
    for bit in sorted(random.sample(bits, count)) if count < len(bits) else bits:
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        yield bit, bytes(changed)


def shoot(address: str, data: bytes) -> bytes | None:
    """Send these bytes and nothing else; the answer without its size, or None if the server hangs up."""
    with Connection(address) as connection:
        try:
            connection.send_bytes(data)
            connection.end_sending()
            return connection.receive_frame()
        except (Closed, OSError) as error:
            assert not isinstance(error, TimeoutError | socket.timeout), "neither an answer nor an end"
            return None
