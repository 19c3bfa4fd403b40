"""Requests that no client of good will sends: small on the wire, and made to cost a node time or memory.

Each entry of `HOSTILE` is a name, the listener that it goes to, and the frame. Those with "many" in their name have as
many elements as a request may have, so they are not refused when they are read: the handler has to bear them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from pykraft.protocol.api import ListenerKind
from pykraft.protocol.header import SIZE, RequestHeader
from pykraft.protocol.messages.admin import CreateTopicsRequest, DeleteTopicsRequest
from pykraft.protocol.messages.brokers import DefaultPrincipalData, EnvelopeRequest
from pykraft.protocol.messages.cluster import ApiVersionsRequest, FindCoordinatorRequest, MetadataRequest
from pykraft.protocol.messages.configs import DescribeConfigsRequest, IncrementalAlterConfigsRequest, Operation
from pykraft.protocol.messages.data import FetchRequest, ListOffsetsRequest, OffsetForLeaderEpochRequest, ProduceRequest
from pykraft.protocol.messages.logs import DeleteRecordsRequest
from pykraft.protocol.messages.quorum import VoteRequest
from pykraft.protocol.primitives import encode_unsigned_varint
from pykraft.protocol.schema import Request
from pykraft.records.batch import packed_batch
from pykraft.records.compression import Compression, compress
from pykraft.records.varint import encode_varint
from pykraft.transport.server_channel import MAX_REQUEST_ELEMENTS
from tests.harness.connection import Connection

TOPIC, COMPACTED, PARTITIONS = "bombed", "bombed-compacted", 30
MANY = MAX_REQUEST_ELEMENTS - 10
_MAGAZINE_BYTES = 250 << 20
_BATCH_BYTES = 1_000_000
"""As large as a batch may be by default."""

BROKER, CONTROLLER = ListenerKind.BROKER, ListenerKind.CONTROLLER


class Hostile(NamedTuple):
    """One request, ready to be sent."""

    name: str
    listener: ListenerKind
    frame: bytes


def frame(request: Request, version: int) -> bytes:
    return Connection.frame(request, version)


# --- batches that unpack to much --------------------------------------------------------------------------------------


def one_large_record(size: int) -> bytes:
    """The bytes of one record with a value of zeros."""
    body = bytes(3) + encode_varint(-1) + encode_varint(size) + bytes(size) + encode_varint(0)
    return encode_varint(len(body)) + body


def small_records(count: int) -> bytes:
    """Records without key and value, one after the other."""
    return b"".join(
        encode_varint(len(body)) + body
        for body in (b"\0\0" + encode_varint(number) + b"\1\1\0" for number in range(count))
    )


def batch_of(codec: Compression, records: bytes, count: int) -> bytes:
    return bytes(
        packed_batch(
            compress(codec, records),
            base_offset=0,
            leader_epoch=-1,
            attributes=codec,
            last_offset_delta=count - 1,
            base_timestamp=0,
            max_timestamp=0,
            producer_id=-1,
            producer_epoch=-1,
            base_sequence=-1,
            count=count,
        )
    )


def bombs(topic: str, *batches: bytes) -> bytes:
    """A produce of these batches, in turn, for all partitions."""
    partitions = [
        ProduceRequest.Topic.Partition(index=number, records=batches[number % len(batches)])
        for number in range(PARTITIONS)
    ]
    topics = [ProduceRequest.Topic(name=topic, partition_data=partitions)]
    return frame(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=topics), 9)


def produce_bombs() -> Iterator[Hostile]:
    zeros = one_large_record(_MAGAZINE_BYTES)
    gzip, zstd = (batch_of(codec, zeros, 1) for codec in (Compression.GZIP, Compression.ZSTD))
    yield Hostile("a produce of gzip and zstd for 30 partitions", BROKER, bombs(TOPIC, gzip, zstd))
    yield Hostile("the same where records are looked at", BROKER, bombs(COMPACTED, gzip, zstd))
    lz4 = batch_of(Compression.LZ4, one_large_record(200 * _BATCH_BYTES), 1)
    snappy = batch_of(Compression.SNAPPY, one_large_record(20 * _BATCH_BYTES), 2)  # one record is missing
    yield Hostile("a produce of snappy and lz4 for 30 partitions", BROKER, bombs(TOPIC, snappy, lz4))
    most = 1 << 17
    yield Hostile(
        "a produce of the most records for 30 partitions",
        BROKER,
        bombs(COMPACTED, batch_of(Compression.ZSTD, small_records(most), most)),  # none has a key
    )


# --- requests with many elements --------------------------------------------------------------------------------------


def names(count: int) -> list[str]:
    return [f"{number:06x}" for number in range(count)]


def empty_names(count: int) -> bytes:
    """Metadata, version 1, for topics without a name: two bytes each."""
    header = RequestHeader(api_key=MetadataRequest.api, api_version=1, correlation_id=1, client_id=None).to_bytes(1)
    body = header + count.to_bytes(4, "big") + bytes(2 * count)
    return SIZE.pack(len(body)) + body


def tagged_fields(count: int, request: type[Request], version: int) -> bytes:
    """A request whose header has this many tagged fields, each empty and unknown."""
    header = RequestHeader(api_key=request.api, api_version=version, correlation_id=1, client_id=None).to_bytes(2)
    body = (
        header[:-1]
        + encode_unsigned_varint(count)
        + b"".join(encode_unsigned_varint(tag) + b"\0" for tag in range(count))
    )
    return SIZE.pack(len(body)) + body


def fetch() -> FetchRequest:
    partitions = [FetchRequest.Topic.Partition(partition=number, partition_max_bytes=1) for number in range(MANY)]
    return FetchRequest(
        max_wait_ms=2**31 - 1,
        min_bytes=2**31 - 1,
        session_epoch=-1,
        topics=[FetchRequest.Topic(topic=TOPIC, partitions=partitions)],
    )


def produce() -> ProduceRequest:
    partitions = [ProduceRequest.Topic.Partition(index=number, records=b"") for number in range(MANY)]
    topics = [ProduceRequest.Topic(name=TOPIC, partition_data=partitions)]
    return ProduceRequest(acks=1, timeout_ms=1000, topic_data=topics)


def list_offsets() -> ListOffsetsRequest:
    partition = ListOffsetsRequest.Topic.Partition
    partitions = [partition(partition_index=number, timestamp=0) for number in range(MANY)]
    return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsRequest.Topic(name=TOPIC, partitions=partitions)])


def leader_epochs() -> OffsetForLeaderEpochRequest:
    topic = OffsetForLeaderEpochRequest.Topic
    partitions = [topic.Partition(partition=number, leader_epoch=0) for number in range(MANY)]
    return OffsetForLeaderEpochRequest(topics=[topic(topic=TOPIC, partitions=partitions)])


def delete_records() -> DeleteRecordsRequest:
    topic = DeleteRecordsRequest.Topic
    partitions = [topic.Partition(partition_index=number, offset=0) for number in range(MANY)]
    return DeleteRecordsRequest(topics=[topic(name=TOPIC, partitions=partitions)], timeout_ms=1000)


def describe_configs() -> DescribeConfigsRequest:
    resource = DescribeConfigsRequest.Resource
    resources = [resource(resource_type=2, resource_name=name, configuration_keys=None) for name in names(MANY)]
    return DescribeConfigsRequest(resources=resources)


def alter_configs() -> IncrementalAlterConfigsRequest:
    resource = IncrementalAlterConfigsRequest.Resource
    config = resource.Config(name="retention.ms", config_operation=Operation.SET, value="1")
    resources = [resource(resource_type=2, resource_name=name, configs=[config]) for name in names(MANY // 2)]
    return IncrementalAlterConfigsRequest(resources=resources, validate_only=False)


def create_topics() -> CreateTopicsRequest:
    topic = CreateTopicsRequest.Topic
    topics = [
        topic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[]) for name in names(MANY)
    ]
    return CreateTopicsRequest(topics=topics)


def vote() -> VoteRequest:
    topics = [VoteRequest.Topic(topic_name="t", partitions=[]) for _ in range(MANY)]
    return VoteRequest(cluster_id=None, topics=topics)


def envelope() -> EnvelopeRequest:
    principal = b"\0\0" + DefaultPrincipalData(type="User", name="ANONYMOUS").to_bytes(0)
    inner = frame(DeleteTopicsRequest(topic_names=names(MANY), timeout_ms=1000), 5)[SIZE.size :]
    return EnvelopeRequest(request_data=inner, request_principal=principal, client_host_address=bytes(4))


MANY_OF: tuple[tuple[str, ListenerKind, Callable[[], Request], int], ...] = (
    (
        "metadata of many topics",
        BROKER,
        lambda: MetadataRequest(topics=[MetadataRequest.Topic(name=n) for n in names(MANY)]),
        9,
    ),
    ("a fetch of many partitions, for ever", BROKER, fetch, 12),
    ("a produce for many partitions", BROKER, produce, 9),
    ("offsets of many partitions", BROKER, list_offsets, 7),
    ("epochs of many partitions", BROKER, leader_epochs, 4),
    ("records to delete in many partitions", BROKER, delete_records, 2),
    ("settings of many topics", BROKER, describe_configs, 4),
    ("settings of many topics to change", BROKER, alter_configs, 1),
    ("many topics to make", BROKER, create_topics, 7),
    ("many groups to look for", BROKER, lambda: FindCoordinatorRequest(key_type=0, coordinator_keys=names(MANY)), 4),
    ("a vote about many topics", CONTROLLER, vote, 2),
    ("many topics to delete, in an envelope", CONTROLLER, envelope, 0),
)


def hostile() -> Iterator[Hostile]:
    """All of them."""
    yield from produce_bombs()
    yield Hostile("metadata of six million topics without a name", BROKER, empty_names(6_000_000))
    yield Hostile("three million tagged fields", BROKER, tagged_fields(3_000_000, ApiVersionsRequest, 4))
    yield Hostile("the most tagged fields", BROKER, tagged_fields(10_000, MetadataRequest, 9))
    for name, listener, request, version in MANY_OF:
        yield Hostile(name, listener, frame(request(), version))
