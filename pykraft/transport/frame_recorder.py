"""The frames that a node receives and sends, kept for a person to look at.

A recorder belongs to the connections of one node. It keeps each request as it came and each response as it left, with
their sizes in front, in pairs: a connection has one request in hand at a time, so the next response on it is the
answer. A request that closes its connection is kept, too; it has no response. A request with a password in it is not
kept (`protocol.hiding`). In a response with records of the metadata log asterisks are in the place of secrets
(`metadata.hiding`); a recorder that has no way to read them keeps asterisks alone.

Memory is bounded: a frame keeps its first `MOST_FRAME_BYTES`, and of all exchanges the newest stay, with at most
`MOST_BYTES` of frames and `MOST_EXCHANGES` in number.

A node without a recorder does nothing for it but look whether there is one. Not in Kafka, whose brokers log requests
as text instead (kafka.network.RequestChannel, `kafka.request.logger`).
"""

import re
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pykraft.common.types import METADATA_TOPIC, METADATA_TOPIC_ID
from pykraft.protocol.api import requests
from pykraft.protocol.field_tree import FieldNode, FrameTree, read_request_tree, read_tree
from pykraft.protocol.header import SIZE
from pykraft.protocol.hiding import has_secret
from pykraft.protocol.schema import Request

MOST_FRAME_BYTES = 64 * 1024
MOST_BYTES = 4 << 20
MOST_EXCHANGES = 5_000
Hide = Callable[[type[Request], int, memoryview], memoryview]
"""(kind, version, response) -> the response as it may be shown. It is as long as before."""
_HEAD_BYTES = 4
_OF_NODES = re.compile(r"node-\d+-client|raft-client-\d+")


@dataclass(frozen=True)
class RecordedFrame:
    """A request or a response, with the four bytes of its size."""

    exchange: "Exchange"
    is_response: bool
    time_ms: int
    """When the node took the request, or sent the response, on the cluster's clock."""
    data: bytes
    """The frame, or the beginning of a long one."""
    size_bytes: int
    """Of the whole frame."""

    @property
    def name(self) -> str:
        """Such as "Fetch request"."""
        return f"{self.exchange.api} {'response' if self.is_response else 'request'}"

    def fields(self) -> FrameTree:
        """The frame's fields with their bytes."""
        exchange = self.exchange
        if not self.is_response:
            return read_request_tree(self.data, has_size=True)
        assert exchange.kind is not None, "what is answered was understood"
        return read_tree(self.data, exchange.kind, exchange.answered_version, True, has_size=True)

    def tree(self) -> str:
        """The message's fields, one a line."""
        return str(self.fields())

    def __str__(self) -> str:
        exchange = self.exchange
        return f"{self.name}, version {exchange.version}, {self.size_bytes:,} bytes, client {exchange.client_id}"


class Exchange:
    """One request that a node received, and its response."""

    def __init__(self, node_id: int, connection_id: str, listener: str, time_ms: int, frame: memoryview) -> None:
        self.node_id = node_id
        self.connection_id = connection_id
        self.listener = listener
        """The name of the listener, such as PLAINTEXT."""
        data = SIZE.pack(len(frame)) + bytes(frame[:MOST_FRAME_BYTES])
        self.request = RecordedFrame(self, False, time_ms, data, SIZE.size + len(frame))
        self.response: RecordedFrame | None = None
        """None until it leaves; and for good if the request wants none, or its connection was closed instead."""
        self.is_closed = False
        """The connection was closed before the response left."""
        header = read_request_tree(data, has_size=True).root
        self.api_key: int | None = _found(header, "apiKey")
        self.version: int | None = _found(header, "apiVersion")
        self.correlation_id: int | None = _found(header, "correlationId")
        self.client_id: str | None = _found(header, "clientId")
        self.kind: type[Request] | None = requests.get(-1 if self.api_key is None else self.api_key)
        self.asks_for_metadata = bytes(METADATA_TOPIC_ID) in data or METADATA_TOPIC.encode() in data
        """The response may have records of the metadata log."""

    @property
    def api(self) -> str:
        """Kafka's name of the API, or "unknown"."""
        return "unknown" if self.kind is None else self.kind.__name__.removesuffix("Request")

    @property
    def answered_version(self) -> int:
        """The version of the response: that of the request, but 0 if it is an unknown one of ApiVersions (KIP-511)."""
        assert self.kind is not None
        assert self.version is not None
        low, high = self.kind.versions
        return self.version if low <= self.version <= high else 0

    @property
    def is_of_a_node(self) -> bool:
        """Whether another node sent it, and not a client."""
        return _OF_NODES.fullmatch(self.client_id or "") is not None

    @property
    def frames(self) -> list[RecordedFrame]:
        """The request, and the response if there is one."""
        return [self.request] if self.response is None else [self.request, self.response]

    def __repr__(self) -> str:
        answer = "no response" if self.response is None else f"{self.response.size_bytes:,} bytes"
        return (
            f"<{self.api} v{self.version}, correlation id {self.correlation_id}, client {self.client_id}, "
            f"node {self.node_id}: {self.request.size_bytes:,} bytes, {answer}>"
        )


def _found(node: FieldNode, name: str) -> Any:
    try:
        value = node.find(name).value
    except KeyError:
        return None
    return None if value is ... else value


def _hide_all(kind: type[Request], version: int, response: memoryview) -> memoryview:
    """Asterisks for all but the correlation id."""
    return memoryview(bytes(response[:_HEAD_BYTES]) + b"*" * (len(response) - _HEAD_BYTES))


class FrameRecorder:
    """The newest exchanges of one node."""

    def __init__(self, node_id: int, clock: Callable[[], int], of_nodes: bool = False, hide: Hide = _hide_all) -> None:
        self._node_id = node_id
        self._clock = clock
        self._hide = hide
        self._of_nodes = of_nodes
        """Whether what nodes send each other is kept, too."""
        self.exchanges: deque[Exchange] = deque()
        self._bytes = 0
        self._in_hand: dict[str, Exchange] = {}

    def took(self, connection_id: str, listener: str, frame: memoryview) -> None:
        """A connection took a request out of its buffer; it may be one that cannot be decoded."""
        if has_secret(frame):
            self._in_hand.pop(connection_id, None)
            return
        exchange = Exchange(self._node_id, connection_id, listener, self._clock(), frame)
        if exchange.is_of_a_node and not self._of_nodes:
            return
        self._in_hand[connection_id] = exchange
        self.exchanges.append(exchange)
        self._grow(len(exchange.request.data))

    def sent(self, connection_id: str, parts: Sequence[Any]) -> None:
        """A connection sends the response to the request in hand: its frame in parts, none if it has none."""
        exchange = self._in_hand.pop(connection_id, None)
        if exchange is None or not parts:
            return
        data, most_bytes = b"", SIZE.size + MOST_FRAME_BYTES
        for part in parts:
            room = len(part) if exchange.asks_for_metadata else most_bytes - len(data)
            if room > 0:
                data += _first(part, room)
        if exchange.asks_for_metadata and exchange.kind is not None:
            shown = self._hide(exchange.kind, exchange.answered_version, memoryview(data)[SIZE.size :])
            data = (data[: SIZE.size] + bytes(shown))[:most_bytes]
        exchange.response = RecordedFrame(exchange, True, self._clock(), data, sum(map(len, parts)))
        self._grow(len(data))

    def closed(self, connection_id: str) -> None:
        """A connection is closed; the request in hand gets no response."""
        exchange = self._in_hand.pop(connection_id, None)
        if exchange is not None:
            exchange.is_closed = True

    def _grow(self, count: int) -> None:
        self._bytes += count
        while self._bytes > MOST_BYTES or len(self.exchanges) > MOST_EXCHANGES:
            oldest = self.exchanges.popleft()
            self._bytes -= sum(len(frame.data) for frame in oldest.frames)
            if self._in_hand.get(oldest.connection_id) is oldest:
                del self._in_hand[oldest.connection_id]


def _first(part: Any, count: int) -> bytes:
    """The first bytes of a part; one that is no bytes is a region of a file."""
    if isinstance(part, bytes | bytearray | memoryview):
        return bytes(part[:count])
    data: bytes = part.read(0, min(count, len(part)))
    return data


class RecordedFrames:
    """What the recorders of a cluster's nodes have kept."""

    def __init__(self, clock: Callable[[], int], of_nodes: bool = False, hide: Hide = _hide_all) -> None:
        self._clock = clock
        self._of_nodes = of_nodes
        self._hide = hide
        self._recorders: dict[int, FrameRecorder] = {}

    def recorder(self, node_id: int) -> FrameRecorder:
        """A node's recorder; one that was started again goes on with its own."""
        return self._recorders.setdefault(node_id, FrameRecorder(node_id, self._clock, self._of_nodes, self._hide))

    @property
    def exchanges(self) -> list[Exchange]:
        """Requests with their responses, in the order in which the requests came."""
        found = [exchange for recorder in self._recorders.values() for exchange in _snapshot(recorder.exchanges)]
        return sorted(found, key=lambda exchange: exchange.request.time_ms)

    @property
    def frames(self) -> list[RecordedFrame]:
        """Requests and responses, in the order in which they passed."""
        found = [frame for exchange in self.exchanges for frame in exchange.frames]
        return sorted(found, key=lambda frame: frame.time_ms)

    def of(self, api: str, client_id: str | None = None) -> list[Exchange]:
        """The exchanges of an API, such as "Produce"; of one client, if its id is given."""
        return [each for each in self.exchanges if each.api == api and client_id in (None, each.client_id)]

    def __len__(self) -> int:
        return len(self.exchanges)

    def __str__(self) -> str:
        return "\n".join(map(repr, self.exchanges)) or "no frame was recorded"


def _snapshot(exchanges: deque[Exchange]) -> list[Exchange]:
    """A copy of what another thread may be adding to."""
    while True:
        try:
            return list(exchanges)
        except RuntimeError:  # it grew meanwhile
            continue
