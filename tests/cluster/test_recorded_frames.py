"""Frames overheard on a live cluster: pairs of requests and responses, byte for byte, within bounds."""

import socket
import struct
from collections.abc import Iterator

import pytest

from pykraft import Cluster, Producer
from pykraft.client.administration.configs import ConfigResource, ConfigResourceType
from pykraft.client.administration.scram import UserScramCredentialUpsertion
from pykraft.protocol.field_tree import NOT_READ
from pykraft.protocol.header import encode_request
from pykraft.protocol.messages.cluster import ApiVersionsRequest
from pykraft.transport import frame_recorder
from pykraft.transport.frame_recorder import Exchange, FrameRecorder
from tests.harness.waiting import wait_until


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=1) as cluster:
        yield cluster


def talk(cluster: Cluster, octets: bytes) -> bytes:
    """Send bytes, and receive one frame; b"" if the connection is closed."""
    host, _, port = cluster.bootstrap_servers.partition(":")
    with socket.create_connection((host, int(port)), timeout=10) as sock:
        sock.sendall(octets)
        with sock.makefile("rb") as stream:
            size = stream.read(4)
            return size + stream.read(struct.unpack(">i", size)[0]) if size else b""


def test_what_is_recorded_is_what_went_over_the_socket(cluster: Cluster) -> None:
    asked = b"".join(encode_request(ApiVersionsRequest(client_software_name="me"), 3, 77, "hand"))
    with cluster.record_frames() as recorded:
        answered = talk(cluster, asked)
    (exchange,) = recorded.of("ApiVersions", "hand")
    assert exchange.response is not None
    assert (exchange.request.data, exchange.response.data) == (asked, answered)
    assert (exchange.api, exchange.version, exchange.correlation_id, exchange.node_id) == ("ApiVersions", 3, 77, 1)
    assert exchange.request.time_ms <= exchange.response.time_ms
    assert exchange.response.fields().root.find("correlationId").value == 77


def test_a_response_answers_the_request_that_it_is_paired_with(cluster: Cluster) -> None:
    cluster.create_topic("paired")
    with cluster.record_frames() as recorded, Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        producer.send("paired", b"hello").get()
    assert recorded.of("Produce")
    for exchange in recorded.exchanges:
        if exchange.response is not None:
            assert exchange.response.fields().root.find("correlationId").value == exchange.correlation_id
            assert not exchange.response.fields().problem
    assert [frame.time_ms for frame in recorded.frames] == sorted(frame.time_ms for frame in recorded.frames)


def test_nothing_is_recorded_outside_of_the_block(cluster: Cluster) -> None:
    with cluster.record_frames() as recorded:
        pass
    talk(cluster, b"".join(encode_request(ApiVersionsRequest(), 0, 1, "late")))
    assert not recorded.of("ApiVersions", "late")
    with cluster.record_frames(), pytest.raises(ValueError, match="records already"), cluster.record_frames():
        pass


def test_what_nodes_send_each_other_is_recorded_only_on_demand() -> None:
    with Cluster(nodes=2, controllers=1) as cluster:
        with cluster.record_frames() as recorded:
            cluster.create_topic("quiet")
        assert {exchange.is_of_a_node for exchange in recorded.exchanges} == {False}
        with cluster.record_frames(of_nodes=True) as recorded:
            cluster.create_topic("loud")
        assert {exchange.node_id for exchange in recorded.exchanges if exchange.is_of_a_node} >= {101}
        with cluster.record_frames(of_nodes=True) as recorded:
            cluster.restart(2)
            secrets = _add_secrets(cluster)
        seen = b"".join(frame.data for exchange in recorded.exchanges for frame in exchange.frames)
        assert not [secret for secret in secrets if secret in seen], "the nodes have fetched them, and none is kept"
        assert b"\x06alice" in seen, "the record with the keys is kept but for these"
        fetched = [each.response.fields() for each in recorded.of("Fetch") if each.response is not None]
        assert not [fields.problem for fields in fetched if fields.problem]
        assert any(exchange.node_id == 2 or exchange.client_id == "node-2-client" for exchange in recorded.exchanges)


def _add_secrets(cluster: Cluster) -> list[bytes]:
    """A SCRAM credential, and a setting that is a password: what the metadata log has of them, once the brokers do."""
    broker = ConfigResource(ConfigResourceType.BROKER, "1")
    name, text = "listener.name.plaintext.ssl.key.password", "a-very-long-secret"
    with cluster.admin() as admin:
        admin.alter_user_scram_credentials([UserScramCredentialUpsertion("alice", 1, "secret")])
        admin.incremental_alter_configs({broker: {name: text}})

    def is_known(node_id: int) -> bool:
        return bool(cluster.call(node_id, lambda node: node.loader.image).configs)

    wait_until(lambda: all(map(is_known, (1, 2))), "the brokers have them")
    (credential,) = cluster.call(1, lambda node: node.loader.image.scram_credentials).values()
    return [bytes(credential.stored_key), bytes(credential.server_key), bytes(credential.salt), text.encode()]


@pytest.mark.parametrize("octets", [b"GET / HTTP/1.1", struct.pack(">hhih", 18, 3, 1, 500), b"\0"])
def test_a_frame_that_closes_its_connection_is_recorded_without_a_response(cluster: Cluster, octets: bytes) -> None:
    with cluster.record_frames() as recorded:
        assert talk(cluster, struct.pack(">i", len(octets)) + octets) == b""
    (exchange,) = recorded.exchanges
    assert exchange.response is None
    assert exchange.is_closed
    assert exchange.request.fields().problem


def test_an_unknown_version_of_api_versions_is_answered_in_version_0(cluster: Cluster) -> None:
    with cluster.record_frames() as recorded:
        talk(cluster, struct.pack(">ihhihb", 11, 18, 99, 5, -1, 0))
    (exchange,) = recorded.exchanges
    assert exchange.response is not None
    assert exchange.response.fields().root.find("errorCode").value == 35


def exchanges(recorder: FrameRecorder, sizes: list[int]) -> list[Exchange]:
    for number, size in enumerate(sizes):
        recorder.took(f"c{number}", "PLAINTEXT", memoryview(bytes(size)))
        recorder.sent(f"c{number}", [struct.pack(">i", size), bytes(size)])
    return list(recorder.exchanges)


def test_the_newest_exchanges_stay_within_their_bytes_and_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame_recorder, "MOST_BYTES", 1_000)
    monkeypatch.setattr(frame_recorder, "MOST_EXCHANGES", 3)
    kept = exchanges(FrameRecorder(1, lambda: 0), [10] * 9)
    assert [exchange.connection_id for exchange in kept] == ["c6", "c7", "c8"]
    kept = exchanges(FrameRecorder(1, lambda: 0), [300] * 9)
    assert [exchange.connection_id for exchange in kept] == ["c8"]


def test_of_a_long_frame_the_beginning_is_kept() -> None:
    size = 10 * frame_recorder.MOST_FRAME_BYTES
    (exchange,) = exchanges(FrameRecorder(1, lambda: 0), [size])
    assert len(exchange.request.data) == 4 + frame_recorder.MOST_FRAME_BYTES
    assert exchange.request.size_bytes == 4 + size
    assert exchange.request.fields().root.children[-1].name == NOT_READ
