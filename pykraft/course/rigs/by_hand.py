"""Scenarios of notebook 06: a plain socket to a broker, requests to fill it with, and what an unmodified client said.

`Wire` is a connection on which the notebook writes its own bytes::

    wire = Wire(cluster)
    wire.send(request)      any bytes
    wire.receive()          the next frame with its four bytes of size; b"" if the broker has closed the connection
    wire.ask(request)       both

`metadata_request` and `waiting_fetch` are requests that would be long to write by hand. `outcome` says in a few words
what a broker made of some bytes on a connection of their own, and `conversation` what a client and a broker said to
each other, as steps of `pykraft.viz.exchange`. Not in Kafka.
"""

import socket
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from pykraft.common.errors import ErrorCode
from pykraft.protocol.header import SIZE, encode_request
from pykraft.protocol.messages.cluster import ApiVersionsResponse, MetadataRequest
from pykraft.protocol.messages.data import FetchRequest
from pykraft.transport.frame_recorder import Exchange
from pykraft.viz import Step

if TYPE_CHECKING:
    from pykraft.cluster import Cluster

_TIMEOUT_S = 30
_FETCH_VERSION = 12
"""The last one that names topics, and not their ids."""


class Wire:
    """One connection to the first broker of a cluster."""

    def __init__(self, cluster: "Cluster") -> None:
        host, _, port = cluster.bootstrap_servers.split(",")[0].rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=_TIMEOUT_S)
        self._stream = self._socket.makefile("rb")
        self.port: int = self._socket.getsockname()[1]
        """Ours: by it the broker's end is known."""

    def send(self, octets: bytes) -> None:
        """Write bytes, whatever they are."""
        self._socket.sendall(octets)

    def receive(self) -> bytes:
        """The next frame with its size; b"" if the broker has closed the connection."""
        try:
            size = self._stream.read(SIZE.size)
            return size + self._stream.read(SIZE.unpack(size)[0]) if size else b""
        except ConnectionResetError:  # it had not read all that we sent
            return b""

    def ask(self, request: bytes) -> bytes:
        """Send a request, and wait for the next response."""
        self.send(request)
        return self.receive()

    def close(self) -> None:
        self._stream.close()
        self._socket.close()


def metadata_request(version: int, topics: Iterable[str], correlation_id: int = 1) -> bytes:
    """A request for the leaders of these topics, in a version up to 9."""
    asked = [MetadataRequest.Topic(name=name) for name in topics]
    return b"".join(encode_request(MetadataRequest(topics=asked), version, correlation_id, "me"))


def waiting_fetch(topic: str, wait_ms: int, correlation_id: int) -> bytes:
    """A fetch at the end of an empty partition: the broker answers when a record comes, or after `wait_ms`."""
    partition = FetchRequest.Topic.Partition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    asked = FetchRequest.Topic(topic=topic, partitions=[partition])
    fetch = FetchRequest(max_wait_ms=wait_ms, min_bytes=1, max_bytes=1 << 20, session_epoch=-1, topics=[asked])
    return b"".join(encode_request(fetch, _FETCH_VERSION, correlation_id, "me"))


def correlation_id_of(response: bytes) -> int:
    """Which request a response answers: the first four bytes after its size."""
    return int.from_bytes(response[4:8], "big")


def version_range(response: bytes, version: int = 0) -> tuple[str, dict[int, tuple[int, int]]]:
    """What an ApiVersions response says: the name of its error, and the versions of each API."""
    message = ApiVersionsResponse.decode(response, version, 8)
    ranges = {each.api_key: (each.min_version, each.max_version) for each in message.api_keys}
    return ErrorCode.of(message.error_code).name, ranges


def outcome(cluster: "Cluster", octets: bytes) -> str:
    """Send bytes on a new connection: whether the broker answers them, or closes it."""
    wire = Wire(cluster)
    try:
        response = wire.ask(octets)
    finally:
        wire.close()
    return f"answered, {len(response)} bytes" if response else "connection closed"


def conversation(exchanges: Sequence[Exchange]) -> list[Step]:
    """Requests and responses as steps of a drawing."""
    return [
        Step(
            f"{each.api}, version {each.version}, correlation id {each.correlation_id}",
            f"reads {each.request.size_bytes} bytes",
            None if each.response is None else f"{each.response.size_bytes} bytes",
        )
        for each in exchanges
    ]
