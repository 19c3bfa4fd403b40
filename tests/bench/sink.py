"""A broker that keeps nothing: what a client reaches with it is the client's own ceiling.

It speaks ApiVersions, Metadata, ListOffsets, Produce and Fetch through pykraft's protocol, and does none of a broker's
work. A Produce is acknowledged without a look at the records; a Fetch is answered from one piece of memory that holds
as many batches as fit into a megabyte, whose base offsets are set to what was asked for.

    python -m tests.bench.sink BATCH_BYTES     serves until it is ended; says its port first
"""

from __future__ import annotations

import contextlib
import socket
import struct
import sys
import threading
import time
from typing import Any

from pykraft.protocol.api import requests
from pykraft.protocol.header import RequestHeader, encode_response, peek, request_header_version
from pykraft.protocol.messages.cluster import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    MetadataRequest,
    MetadataResponse,
)
from pykraft.protocol.messages.data import (
    FetchRequest,
    FetchResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ProduceRequest,
    ProduceResponse,
)
from pykraft.protocol.schema import Request, Response
from pykraft.records.builder import RecordBatchBuilder
from pykraft.transport.frames import FrameReader
from tests.bench.raw import HOST, say_port

NAME = "a sink: the client's ceiling"
RECORD_BYTES = 1024
ENDLESS = 1 << 40
_FETCHED_BYTES = 1 << 20
_MAX_FRAME_BYTES = 1 << 27
_VERSIONS = {ApiVersionsRequest: (0, 3), MetadataRequest: (0, 4), ListOffsetsRequest: (1, 1)}
_VERSIONS |= {ProduceRequest: (3, 7), FetchRequest: (4, 11)}  # the last ones in which topics go by name


class Sink:
    """What the connections share: the port to name, and the batches to give."""

    def __init__(self, port: int, batch_bytes: int) -> None:
        self._port = port
        builder = RecordBatchBuilder()
        for _ in range(max(1, batch_bytes // RECORD_BYTES)):
            builder.append(time.time_ns() // 1_000_000, None, bytes(RECORD_BYTES))
        self._records_per_batch = builder.count
        self._batch = bytes(builder.build())

    def serve(self, connection: socket.socket) -> None:
        """Answer one connection's requests until it ends."""
        frames = FrameReader(_MAX_FRAME_BYTES)
        batches = bytearray(self._batch * (_FETCHED_BYTES // len(self._batch)))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection, contextlib.suppress(OSError):  # a client leaves when it has seen enough
            while count := connection.recv_into(frames.space()):
                frames.received(count)
                while (frame := frames.next_frame()) is not None:
                    for part in self._answered(frame, batches):
                        connection.sendall(part)

    def _answered(self, frame: memoryview, batches: bytearray) -> list[Any]:
        key, version, correlation_id = peek(frame)
        _, start = RequestHeader.decode_from(frame, request_header_version(requests[key], version))
        answer = self._answer(requests[key].decode(frame, version, start), batches)
        parts = encode_response(answer, version, correlation_id)
        small = b"".join(part for part in parts if part is not batches)
        if len(small) == sum(map(len, parts)):
            return [small]
        return parts

    def _answer(self, request: Request, batches: bytearray) -> Response:
        match request:
            case ProduceRequest():
                return _acknowledged(request)
            case FetchRequest():
                return self._fetched(request, batches)
            case MetadataRequest():
                return self._metadata(request)
            case ListOffsetsRequest():
                return _offsets(request)
            case _:
                kind = ApiVersionsResponse.ApiVersion
                known = [kind(api_key=r.api, min_version=v[0], max_version=v[1]) for r, v in _VERSIONS.items()]
                return ApiVersionsResponse(api_keys=known)

    def _metadata(self, request: MetadataRequest) -> Response:
        partition = MetadataResponse.Topic.Partition(
            partition_index=0, leader_id=1, replica_nodes=[1], isr_nodes=[1], leader_epoch=0
        )
        return MetadataResponse(
            brokers=[MetadataResponse.Broker(node_id=1, host=HOST, port=self._port)],
            controller_id=1,
            topics=[MetadataResponse.Topic(name=topic.name, partitions=[partition]) for topic in request.topics or ()],
        )

    def _fetched(self, request: FetchRequest, batches: bytearray) -> Response:
        topics = []
        for topic in request.topics:
            (asked,) = topic.partitions
            first = asked.fetch_offset - asked.fetch_offset % self._records_per_batch
            for number in range(len(batches) // len(self._batch)):
                base_offset = first + number * self._records_per_batch
                struct.pack_into(">q", batches, number * len(self._batch), base_offset)
            answer = FetchResponse.Topic.Partition(
                partition_index=0, high_watermark=ENDLESS, last_stable_offset=ENDLESS, log_start_offset=0
            )
            answer.records = batches
            topics.append(FetchResponse.Topic(topic=topic.topic, partitions=[answer]))
        return FetchResponse(responses=topics)


def _acknowledged(request: ProduceRequest) -> Response:
    done = ProduceResponse.Topic
    return ProduceResponse(
        responses=[
            done(
                name=topic.name,
                partition_responses=[done.Partition(index=p.index, base_offset=0) for p in topic.partition_data],
            )
            for topic in request.topic_data
        ]
    )


def _offsets(request: ListOffsetsRequest) -> Response:
    kind = ListOffsetsResponse.Topic
    return ListOffsetsResponse(
        topics=[kind(name=t.name, partitions=[kind.Partition(partition_index=0, offset=0)]) for t in request.topics]
    )


def main() -> None:
    with socket.create_server((HOST, 0)) as listener:
        say_port(listener)
        sink = Sink(listener.getsockname()[1], int(sys.argv[1]))
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=sink.serve, args=(connection,), daemon=True).start()


if __name__ == "__main__":
    main()
