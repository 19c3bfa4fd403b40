"""A broker that says what a test wants: a peer with real sockets and a script in place of a log.

It knows one topic, "t", and leads all its partitions; `fetch` answers the fetches. What a request is answered with may
be replaced by a script: a function of the request that returns a response, raw bytes for the frame, `CLOSE`, or None
for the usual answer. Every request is kept in `asked`.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

from pykraft.common.errors import ErrorCode
from pykraft.common.types import TopicPartition, Uuid
from pykraft.protocol.api import requests
from pykraft.protocol.header import RequestHeader, encode_response, peek, request_header_version
from pykraft.protocol.messages.cluster import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    MetadataRequest,
    MetadataResponse,
)
from pykraft.protocol.messages.data import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    FetchRequest,
    FetchResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
)
from pykraft.protocol.schema import Request, Response
from pykraft.records.batch import RecordBatch

CLOSE = object()
TOPIC_ID = Uuid(bytes(range(1, 17)))
Script = Callable[[Any], Any]


class ScriptedBroker:
    """Broker 1 at `address`, serving until it is closed."""

    def __init__(self, batches: list[RecordBatch] | None = None, *, partitions: int = 1, script: Script | None = None):
        self.batches = batches or []
        self.partitions = partitions
        self.script = script or (lambda request: None)
        self.versions = {
            api.api: api.versions for api in (ApiVersionsRequest, MetadataRequest, FetchRequest, ListOffsetsRequest)
        }
        self.asked: list[tuple[Request, int]] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.host, self.port = self._listener.getsockname()
        self.address = f"{self.host}:{self.port}"
        self._connections: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def __enter__(self) -> ScriptedBroker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        for connection in self._connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10)
        self._listener.close()

    def asked_for(self, request: type[Request]) -> list[tuple[Any, int]]:
        """The requests of this kind that came, with their versions."""
        return [(one, version) for one, version in self.asked if isinstance(one, request)]

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self._connections.append(connection)
                self._threads.append(threading.Thread(target=self._serve, args=(connection,)))
                self._threads[-1].start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError), connection.makefile("rb") as stream:
            while size := stream.read(4):
                frame = memoryview(stream.read(struct.unpack(">i", size)[0]))
                reply = self._reply(frame)
                if reply is CLOSE:
                    return
                connection.sendall(reply)

    def _reply(self, frame: memoryview) -> Any:
        key, version, correlation_id = peek(frame)
        low, high = self.versions[key]
        if not low <= version <= high:
            refusal = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
            return b"".join(encode_response(refusal, 0, correlation_id))
        _, start = RequestHeader.decode_from(frame, request_header_version(requests[key], version))
        request = requests[key].decode(frame, version, start)
        self.asked.append((request, version))
        said = self.script(request)
        answer = self.usual(request) if said is None else said
        if isinstance(answer, Response):
            return b"".join(bytes(part) for part in encode_response(answer, version, correlation_id))
        return answer if answer is CLOSE else struct.pack(">i", len(answer)) + answer

    # --- the usual answers --------------------------------------------------------------------------------------------

    def usual(self, request: Any) -> Response:
        match request:
            case ApiVersionsRequest():
                return ApiVersionsResponse(
                    api_keys=[
                        ApiVersionsResponse.ApiVersion(api_key=key, min_version=low, max_version=high)
                        for key, (low, high) in self.versions.items()
                    ]
                )
            case MetadataRequest():
                return self.metadata(request)
            case ListOffsetsRequest():
                return self.offsets(request)
            case _:
                return self.fetch(request)

    def metadata(self, request: MetadataRequest, error: ErrorCode = ErrorCode.NONE, leader: int = 1) -> Response:
        """About the topics that are asked for: "t" exists, others do not."""
        names = ["t"] if request.topics is None else [topic.name for topic in request.topics]
        found = [
            MetadataResponse.Topic.Partition(
                partition_index=number, leader_id=leader, leader_epoch=5, replica_nodes=[1], isr_nodes=[1]
            )
            for number in range(self.partitions)
        ]
        return MetadataResponse(
            brokers=[MetadataResponse.Broker(node_id=1, host=self.host, port=self.port)],
            topics=[
                MetadataResponse.Topic(
                    name=name,
                    topic_id=TOPIC_ID,
                    error_code=error or (0 if name == "t" else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
                    partitions=found if name == "t" and not error else [],
                )
                for name in names
            ],
        )

    def offsets(self, request: ListOffsetsRequest, first: int | None = None) -> Response:
        """The ends of the log, which begins with its first batch if nothing else is said."""
        end = self.batches[-1].next_offset if self.batches else 0
        if first is None:
            first = self.batches[0].base_offset if self.batches else 0
        known = {EARLIEST_TIMESTAMP: first, LATEST_TIMESTAMP: end}
        return ListOffsetsResponse(
            topics=[
                ListOffsetsResponse.Topic(
                    name=topic.name,
                    partitions=[
                        ListOffsetsResponse.Topic.Partition(
                            partition_index=part.partition_index, offset=known.get(part.timestamp, -1)
                        )
                        for part in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    def fetch(self, request: FetchRequest, **values: Any) -> Response:
        """The batches from the asked offset on; with `values` for other fields of the partition's answer."""
        (topic,) = request.topics
        (part,) = topic.partitions
        end = self.batches[-1].next_offset if self.batches else 0
        records = b"".join(bytes(batch.buffer) for batch in self.batches if batch.next_offset > part.fetch_offset)
        fields = {"partition_index": part.partition, "records": records, "high_watermark": end, **values}
        answer = FetchResponse.Topic.Partition(last_stable_offset=end, **fields)
        return FetchResponse(
            responses=[FetchResponse.Topic(topic=topic.topic, topic_id=topic.topic_id, partitions=[answer])]
        )


def fetch_offset(request: FetchRequest) -> int:
    """The one offset that a fetch asks for."""
    return request.topics[0].partitions[0].fetch_offset


T0 = TopicPartition("t", 0)
