"""Batches that lie: refused with a code, or taken and harmless. Either way the log stays one that can be read."""

from __future__ import annotations

import resource
import sys
import zlib
from collections import Counter
from random import Random
from typing import Any

import lz4.frame
import pytest
import zstandard

from pykraft.common.errors import ErrorCode
from pykraft.protocol.messages.data import FetchRequest, ListOffsetsRequest, ProduceRequest
from pykraft.records.batch import HEADER_BYTES, batches
from pykraft.records.compression import Compression, compress
from tests.harness.asking import T0, batch, checked, create, fetch, list_offsets, new_topic, produce, with_records
from tests.harness.connection import Connection
from tests.harness.network import NETWORK
from tests.wire.ammunition import flips
from tests.wire.conftest import MAX_REQUEST_BYTES, Target

CODECS = pytest.mark.parametrize("codec", list(Compression), ids=lambda codec: codec.name.lower())


def make_topic(node: Target, name: str) -> None:
    with Connection(node.broker) as connection:
        made = connection.ask(create(new_topic(name, 1, 1, configs=[("max.message.bytes", "10000000")])), 7)
        assert made.topics[0].error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
        while connection.ask(list_offsets(name, -1), 7).topics[0].partitions[0].error_code:
            node.serves()


def answer(connection: Connection, request: ProduceRequest) -> ProduceRequest:
    return connection.ask(request, 9).responses[0].partition_responses[0]


def read_through(connection: Connection, topic: str) -> int:
    """Read the log from its start to its end as bytes; how many batches there are."""
    offset = found = 0
    while True:
        request: FetchRequest = fetch(topic, offset)
        partition = connection.ask(request, 12).responses[0].partitions[0]
        assert partition.error_code == ErrorCode.NONE
        if not partition.records:
            assert offset == partition.high_watermark
            return found
        for part in batches(memoryview(partition.records)):
            assert part.base_offset == offset, "a gap"
            assert part.is_valid
            offset, found = part.next_offset, found + 1


@CODECS
@pytest.mark.parametrize("with_crc", [False, True], ids=["crc as it was", "crc made right"])
def test_a_bit_turned_over_in_a_batch(node: Target, codec: Compression, with_crc: bool) -> None:
    """With a checksum that fits, the bytes are all that can betray the lie."""
    topic = f"flipped-{codec.name.lower()}-{with_crc}"
    make_topic(node, topic)
    whole = batch(3, codec=codec, producer=(700 + codec, 0, 0))
    codes: Counter[ErrorCode] = Counter()
    with Connection(node.broker) as connection:
        for _, data in flips(whole, 1000, Random(8)):
            result = answer(connection, produce(topic, checked(data) if with_crc else data))
            codes[ErrorCode.of(result.error_code)] += 1
        taken = read_through(connection, topic)
        for timestamp in (-1, -2, -3, 0, 1_700_000_000_000, 2**62):
            found = connection.ask(list_offsets(topic, timestamp), 7).topics[0].partitions[0]
            codes[ErrorCode.of(found.error_code)] += 1
    allowed = {
        ErrorCode.NONE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.INVALID_RECORD,
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,  # transactional now, and its request has no transactional id
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
    }
    assert codes.keys() <= allowed
    refused = sum(codes.values()) - codes[ErrorCode.NONE]
    assert refused > 50
    # The checksum does not cover what a leader sets: those batches are taken, and the producer's number makes them one.
    assert taken > 10 if with_crc else taken == 1, "is this still a test?"


def test_a_log_with_lies_in_it_is_read_again_after_a_restart(node: Target) -> None:
    """Recovery reads every batch; here are those that were taken though a bit was turned over."""
    topic = "flipped-restart"
    make_topic(node, topic)
    whole = batch(3, codec=Compression.GZIP, producer=(800, 0, 0))
    with Connection(node.broker) as connection:
        for _, data in flips(whole, 400, Random(9)):
            answer(connection, produce(topic, checked(data)))
        taken = read_through(connection, topic)
    node.cluster.kill(1)
    node.cluster.restart(1)
    node.reconnect()
    with Connection(node.broker) as connection:
        while connection.ask(list_offsets(topic, -1), 7).topics[0].partitions[0].error_code:
            node.serves()
        assert read_through(connection, topic) == taken > 10


@CODECS
def test_rubbish_instead_of_records(node: Target, codec: Compression) -> None:
    topic = f"rubbish-{codec.name.lower()}"
    make_topic(node, topic)
    random = Random(10)
    with Connection(node.broker) as connection:
        for length in (0, 1, 2, 5, 10, 50, 500):
            for _ in range(10):
                records = random.randbytes(length)
                if codec:
                    packed = compress(codec, records)
                    result = answer(connection, produce(topic, with_records(batch(2, codec=codec), packed)))
                    assert result.error_code == ErrorCode.INVALID_RECORD
                result = answer(connection, produce(topic, with_records(batch(2, codec=codec), records)))
                assert result.error_code in (ErrorCode.INVALID_RECORD, ErrorCode.UNKNOWN_SERVER_ERROR)


def test_nulls_are_refused(node: Target) -> None:
    make_topic(node, "nulls")
    with Connection(node.broker) as connection:
        assert answer(connection, produce("nulls", (0, None))).error_code == ErrorCode.INVALID_RECORD


PIECE = bytes(1 << 20)
PIECES = 31
TOO_MANY = 128


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.LZ4, Compression.ZSTD], ids=lambda c: c.name.lower())
def test_a_batch_that_swells_costs_time_but_no_memory(node: Target, codec: Compression) -> None:
    """One record of zeros in a hundredth of its size or less: written, and looked for by time."""
    topic = f"bomb-{codec.name.lower()}"
    make_topic(node, topic)
    data = with_records(batch(1, codec=codec), bomb(codec))
    assert len(data) < MAX_REQUEST_BYTES
    with Connection(node.broker) as connection:
        before = peak_bytes()
        too_much = with_records(batch(1, codec=codec), bomb(codec, TOO_MANY))
        assert answer(connection, produce(topic, too_much)).error_code == ErrorCode.MESSAGE_TOO_LARGE
        assert answer(connection, produce(topic, data)).error_code == ErrorCode.NONE
        found = connection.ask(list_offsets(topic, T0), 7).topics[0].partitions[0]
        assert (found.error_code, found.offset) == (ErrorCode.NONE, 0)
        # Every handler that unpacked something keeps its own arena of the allocator.
        share = 4 if NETWORK == "fused" else 3
        assert peak_bytes() - before < PIECES * len(PIECE) / share


def bomb(codec: Compression, pieces: int = PIECES) -> bytes:
    """A record without a key, whose value is zeros, compressed piece by piece: no buffer ever holds all of it."""
    value = pieces * len(PIECE)
    fields = b"\0\0\0\1" + zigzag(value)  # attributes, timestamp and offset delta, no key, the value's length
    head = zigzag(len(fields) + value + 1) + fields
    if codec is Compression.LZ4:
        frame = lz4.frame.LZ4FrameCompressor(block_linked=False)
        return frame.begin() + b"".join(map(frame.compress, [head, *[PIECE] * pieces, b"\0"])) + frame.flush()
    stream: Any = zlib.compressobj(wbits=31)
    if codec is Compression.ZSTD:
        stream = zstandard.ZstdCompressor().compressobj()
    return b"".join(map(stream.compress, [head, *[PIECE] * pieces, b"\0"])) + bytes(stream.flush())


def zigzag(value: int) -> bytes:
    """A positive number as a varint."""
    value <<= 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def peak_bytes() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def test_lookups_by_time_of_what_is_not_there(node: Target) -> None:
    make_topic(node, "times")
    with Connection(node.broker) as connection:
        for timestamp in (2**63 - 1, -(2**63), -7, -(2**31)):
            request: ListOffsetsRequest = list_offsets("times", timestamp)
            assert connection.ask(request, 11).topics[0].partitions[0].offset == -1


def test_a_header_says_more_than_there_is(node: Target) -> None:
    make_topic(node, "short")
    whole = batch(2)
    with Connection(node.broker) as connection:
        for length in range(len(whole)):
            code = answer(connection, produce("short", whole[:length])).error_code
            assert code in (ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE), f"{length} of {HEADER_BYTES} bytes"
