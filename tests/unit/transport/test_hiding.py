"""Frames for people to look at have no password in them, and every other byte as it was."""

from __future__ import annotations

from typing import Any

import pytest

from pykraft.common.types import METADATA_TOPIC_ID
from pykraft.metadata.hiding import without_secrets_of_metadata
from pykraft.protocol.header import encode_request, encode_response
from pykraft.protocol.hiding import has_secret, without_secrets
from pykraft.protocol.messages.brokers import EnvelopeRequest
from pykraft.protocol.messages.cluster import MetadataRequest
from pykraft.protocol.messages.configs import IncrementalAlterConfigsRequest
from pykraft.protocol.messages.data import FetchRequest, FetchResponse
from pykraft.protocol.messages.quorum import FetchSnapshotRequest, FetchSnapshotResponse, SnapshotId
from pykraft.protocol.messages.records import (
    ConfigRecord,
    UserScramCredentialRecord,
    decode_metadata_record,
    encode_metadata_record,
)
from pykraft.protocol.messages.sasl import (
    AlterUserScramCredentialsRequest,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
)
from pykraft.protocol.schema import Request
from pykraft.records.batch import batches
from pykraft.records.builder import RecordBatchBuilder
from pykraft.transport.frame_recorder import FrameRecorder

SECRET = b"secret-secret"
UPSERTION = AlterUserScramCredentialsRequest.Upsertion(
    name="alice", mechanism=1, iterations=4096, salt=b"pepper", salted_password=SECRET
)
TOKEN = SaslAuthenticateRequest(auth_bytes=SECRET)
ALTER = AlterUserScramCredentialsRequest(deletions=[], upsertions=[UPSERTION, UPSERTION])


def frame_of(request: Request, version: int) -> memoryview:
    return memoryview(b"".join(encode_request(request, version, 7, "client"))[4:])


def envelope(inner: Request, version: int) -> EnvelopeRequest:
    return EnvelopeRequest(
        request_data=bytes(frame_of(inner, version)), request_principal=None, client_host_address=bytes(4)
    )


@pytest.mark.parametrize(
    ("request_", "version", "is_secret"),
    [
        *((TOKEN, version, True) for version in range(3)),
        (ALTER, 0, True),
        (envelope(ALTER, 0), 0, True),
        (envelope(MetadataRequest(topics=[]), 12), 0, False),
        (SaslHandshakeRequest(mechanism="PLAIN"), 1, False),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Request) else str(value),
)
def test_a_request_has_asterisks_in_the_place_of_a_secret(request_: Request, version: int, is_secret: bool) -> None:
    frame = frame_of(request_, version)
    shown = without_secrets(type(request_), version, False, frame)
    assert has_secret(frame) is is_secret
    assert len(shown) == len(frame)
    assert SECRET not in bytes(shown)
    differing = [number for number in range(len(frame)) if frame[number] != shown[number]]
    assert bool(differing) is is_secret
    assert all(shown[number] == ord("*") for number in differing)


def test_so_has_the_answer_of_a_server() -> None:
    response = SaslAuthenticateResponse(auth_bytes=SECRET)
    frame = memoryview(b"".join(encode_response(response, 2, 7))[4:])
    shown: Any = bytes(without_secrets(SaslAuthenticateRequest, 2, True, frame))
    assert shown == bytes(frame).replace(SECRET, b"*" * len(SECRET))


def test_what_cannot_be_read_shows_nothing() -> None:
    frame = memoryview(bytes(frame_of(TOKEN, 2))[:-5] + b"\xff\xff")
    assert SECRET[:5] not in bytes(without_secrets(SaslAuthenticateRequest, 2, False, frame))
    assert has_secret(memoryview(bytes(frame_of(envelope(ALTER, 0), 0))[:20]))


def altering(name: str) -> IncrementalAlterConfigsRequest:
    config = IncrementalAlterConfigsRequest.Resource.Config(name=name, config_operation=0, value=SECRET.decode())
    resource = IncrementalAlterConfigsRequest.Resource(resource_type=4, resource_name="1", configs=[config])
    return IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)


@pytest.mark.parametrize(
    ("name", "is_hidden"),
    [
        ("listener.name.internal.ssl.keystore.key", True),
        ("ssl.key.password", True),
        ("listener.name.internal.scram-sha-256.sasl.jaas.config", True),
        ("ssl.keystore.location", False),
        ("log.retention.ms", False),
    ],
)
def test_a_setting_that_is_a_password_is_hidden_in_a_request_and_in_an_envelope(name: str, is_hidden: bool) -> None:
    for request in (altering(name), envelope(altering(name), 1)):
        frame = frame_of(request, 1 if request.api == altering(name).api else 0)
        assert has_secret(frame) is is_hidden
        shown = without_secrets(type(request), int.from_bytes(frame[2:4], "big"), False, frame)
        assert (SECRET not in bytes(shown)) is is_hidden and len(shown) == len(frame)


RECORDS = {
    SECRET: UserScramCredentialRecord(
        name="alice", mechanism=1, salt=b"pepper", stored_key=SECRET, server_key=SECRET[::-1], iterations=4096
    ),
    b"a-key": ConfigRecord(resource_type=4, resource_name="1", name="ssl.keystore.key", value="a-key"),
    b"86400": ConfigRecord(resource_type=4, resource_name="1", name="log.retention.ms", value="86400"),
}


def metadata_batch() -> bytes:
    builder = RecordBatchBuilder()
    for record in RECORDS.values():
        builder.append(0, None, encode_metadata_record(record, 0))
    return builder.build()


def fetched(records: bytes) -> FetchResponse:
    partition = FetchResponse.Topic.Partition(partition_index=0, high_watermark=3, records=records)
    return FetchResponse(responses=[FetchResponse.Topic(topic_id=METADATA_TOPIC_ID, partitions=[partition])])


def copied(records: bytes, position: int) -> FetchSnapshotResponse:
    kind = FetchSnapshotResponse.Topic.Partition
    snapshot = SnapshotId(end_offset=3, epoch=1)
    partition = kind(index=0, snapshot_id=snapshot, size=99, position=position, unaligned_records=records)
    return FetchSnapshotResponse(
        topics=[FetchSnapshotResponse.Topic(name="__cluster_metadata", partitions=[partition])]
    )


@pytest.mark.parametrize("cut", [0, 1, 150])
@pytest.mark.parametrize("way", ["fetched", "copied", "copied from the middle"])
def test_records_of_the_metadata_log_are_shown_without_what_proves_a_password(way: str, cut: int) -> None:
    """A batch that is cut off, and a piece that begins in the middle of one, are hidden as a whole."""
    whole = metadata_batch()
    batch = whole[: len(whole) - cut]
    response: Any = fetched(batch) if way == "fetched" else copied(batch, 5 * (way != "copied"))
    kind, version = (FetchRequest, 16) if way == "fetched" else (FetchSnapshotRequest, 1)
    frame = memoryview(b"".join(encode_response(response, version, 7))[4:])
    shown = bytes(without_secrets_of_metadata(kind, version, frame))
    assert len(shown) == len(frame)
    for secret in (SECRET, SECRET[::-1], b"pepper", b"a-key"):
        assert secret not in shown
    is_read = not cut and way != "copied from the middle"
    assert (b"86400" in shown) is is_read
    if is_read:
        start = bytes(frame).index(batch)
        (found,) = batches(memoryview(shown[start : start + len(batch)]))
        assert found.is_valid and [type(decode_metadata_record(each.value or b"")[0]) for each in found.records()] == [
            type(each) for each in RECORDS.values()
        ]


def test_a_recorder_that_cannot_read_the_metadata_log_keeps_asterisks() -> None:
    partition = FetchRequest.Topic.Partition(partition=0, fetch_offset=0, partition_max_bytes=1)
    topic = FetchRequest.Topic(topic_id=METADATA_TOPIC_ID, partitions=[partition])
    recorder = FrameRecorder(1, lambda: 0, of_nodes=True)
    recorder.took("c", "CONTROLLER", frame_of(FetchRequest(max_wait_ms=0, min_bytes=0, topics=[topic]), 16))
    recorder.sent("c", encode_response(fetched(metadata_batch()), 16, 7))
    (exchange,) = recorder.exchanges
    assert exchange.response is not None and set(exchange.response.data[8:]) == {ord("*")}
