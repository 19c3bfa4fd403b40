"""Produce: what is appended, and what is refused how."""

from __future__ import annotations

import time

import lz4.frame

from pykraft.common.types import ZERO_UUID, Uuid
from pykraft.protocol.messages.data import ProduceRequest
from pykraft.records.compression import Compression, compress
from pykraft.records.varint import encode_varint
from tests.conformance.dialogue import Dialogue
from tests.harness.asking import (
    T0,
    altered,
    batch,
    fetch,
    list_offsets,
    produce,
    versions,
    with_records,
)

HOUR_MS = 3_600_000
NOBODY = Uuid(bytes(15) + b"\xee")


def test_each_version_appends(talk: Dialogue) -> None:
    topic_id = talk.topic("produce-versions")
    for version in versions(ProduceRequest):
        talk.to().ask(produce("produce-versions", batch(), topic_id=topic_id), version)
    talk.to().ask(fetch("produce-versions", 0), 12)


def test_each_codec_is_stored_as_it_came(talk: Dialogue) -> None:
    talk.topic("produce-codecs")
    for codec in Compression:
        talk.to().ask(produce("produce-codecs", batch(3, codec=codec)), 9, codec.name)
    talk.to().ask(fetch("produce-codecs", 0), 12)


def test_zstd_came_with_version_7(talk: Dialogue) -> None:
    talk.topic("produce-zstd")
    for version in (6, 7):
        talk.to().ask(produce("produce-zstd", batch(codec=Compression.ZSTD)), version)


def test_acks_say_who_is_waited_for(talk: Dialogue) -> None:
    talk.topic("produce-acks", [(1, 2, 3)])
    for acks in (1, -1):
        talk.to().ask(produce("produce-acks", batch(), acks=acks), 9, f"acks {acks}")
    talk.to().tell(produce("produce-acks", batch(), acks=0), 9, "acks 0")
    talk.to().ask(list_offsets("produce-acks", -1, replica_id=-2), 7)


def test_other_acks_are_refused(talk: Dialogue) -> None:
    talk.topic("produce-bad-acks")
    for acks in (2, -2, 32767):
        talk.to().ask(produce("produce-bad-acks", batch(), acks=acks), 9, f"acks {acks}")
    talk.to().ask(list_offsets("produce-bad-acks", -1), 7)


def test_a_failure_that_is_not_answered_closes_the_connection(talk: Dialogue) -> None:
    talk.to().tell(produce("produce-unknown", batch(), acks=0), 9, "acks 0 to an unknown topic")
    talk.to().ask(list_offsets("produce-unknown", -1), 7)


def test_topics_and_partitions_must_exist(talk: Dialogue) -> None:
    topic_id = talk.topic("produce-where")
    for version in (3, 9, 12):
        talk.to().ask(produce("produce-nowhere", batch()), version, "an unknown topic")
        talk.to().ask(produce("", batch()), version, "no name")
        talk.to().ask(produce("a/b", batch()), version, "a name that is not allowed")
        talk.to().ask(produce("produce-where", (1, batch()), (0, batch())), version, "an unknown and a known partition")
        talk.to().ask(produce("produce-where", (-1, batch())), version, "partition -1")
    talk.to().ask(produce("", batch(), topic_id=NOBODY), 13, "an unknown id")
    talk.to().ask(produce("", batch(), topic_id=ZERO_UUID), 13, "the id zero")
    talk.to().ask(produce("", (1, batch()), topic_id=topic_id), 13, "an unknown partition")


def test_only_the_leader_appends(talk: Dialogue) -> None:
    topic_id = talk.topic("produce-leader", [(1, 2)])
    for version in (3, 9, 10, 13):
        talk.to(2).ask(produce("produce-leader", batch(), topic_id=topic_id), version, "to a follower")
        talk.to(3).ask(produce("produce-leader", batch(), topic_id=topic_id), version, "to a stranger")


def test_nothing_is_appended_but_one_batch(talk: Dialogue) -> None:
    talk.topic("produce-one")
    one = batch()
    for says, records in {
        "no bytes": b"",
        "two batches": one + one,
        "a batch and rubbish": one + b"rubbish",
        "a batch and a cut one": one + one[:-1],
        "half a header": one[:30],
        "a cut batch": one[:-1],
        "a header alone": one[:61],
    }.items():
        talk.to().ask(produce("produce-one", records), 9, says)
    talk.to().ask(fetch("produce-one", 0), 12)


def test_a_header_that_contradicts_itself_is_refused(talk: Dialogue) -> None:
    talk.topic("produce-header")
    one = batch()
    for says, records in {
        "a wrong checksum": altered(one, crc=0x1234567),
        "magic 0": altered(one, magic=0),
        "magic 1": altered(one, magic=1),
        "magic 3": altered(one, magic=3),
        "magic -1": altered(one, magic=-1),
        "a length of 0": altered(one, batch_length=0),
        "a length of -1": altered(one, batch_length=-1),
        "a length of 48": altered(one, batch_length=48),
        "a length of 49": altered(one, batch_length=49),
        "a length that is 1 too small": altered(one, batch_length=len(one) - 13),
        "a length that is 1 too large": altered(one, batch_length=len(one) - 11),
        "a length of 2^31 - 1": altered(one, batch_length=2**31 - 1),
        "a length of 2^31 - 12": altered(one, batch_length=2**31 - 12),
        "a length of 2^31 - 13": altered(one, batch_length=2**31 - 13),
        "a length of 2^31 - 1, magic 1": altered(one, batch_length=2**31 - 1, magic=1),
        "a length of 13, magic 1": altered(one, batch_length=13, magic=1),
        "a length of 14, magic 1": altered(one, batch_length=14, magic=1),
        "a batch, and a length of 2^31 - 12": one + altered(one, batch_length=2**31 - 12),
        "base offset 1": altered(one, base_offset=1),
        "base offset -1": altered(one, base_offset=-1),
        "leader epoch 77": altered(one, partition_leader_epoch=77),
        "a count of 0": altered(one, count=0),
        "a count of -1": altered(one, count=-1),
        "a count of 1": altered(one, count=1),
        "a count of 3": altered(one, count=3),
        "a last offset delta of 0": altered(one, last_offset_delta=0),
        "a last offset delta of 2": altered(one, last_offset_delta=2),
        "a last offset delta of -1": altered(one, last_offset_delta=-1),
        "count 3 and last offset delta 2": altered(one, count=3, last_offset_delta=2),
        "count 1 and last offset delta 0": altered(one, count=1, last_offset_delta=0),
        "count 0 and last offset delta -1": altered(one, count=0, last_offset_delta=-1),
        "codec 5": altered(one, attributes=5),
        "codec 7": altered(one, attributes=7),
        "gzip that is none": altered(one, attributes=1),
        "snappy that is none": altered(one, attributes=2),
        "lz4 that is none": altered(one, attributes=3),
        "zstd that is none": altered(one, attributes=4),
        "a control batch": altered(one, attributes=0x20),
        "a delete horizon": altered(one, attributes=0x40),
        "an attribute that means nothing": altered(one, attributes=0x80),
        "a producer without a sequence": altered(one, producer_id=5, producer_epoch=0),
        "a producer without an epoch": altered(one, producer_id=5, base_sequence=0),
        "a sequence without a producer": altered(one, base_sequence=0),
        "an epoch without a producer": altered(one, producer_epoch=0),
        "producer -2": altered(one, producer_id=-2, producer_epoch=0, base_sequence=0),
    }.items():
        talk.to().ask(produce("produce-header", records), 9, says)
    talk.to().ask(fetch("produce-header", 0), 12)


def test_records_that_contradict_themselves_are_refused(talk: Dialogue) -> None:
    talk.topic("produce-records")
    one = batch(1)
    key = b"\x06key"
    for says, records in {
        "offset delta 5": b"\x14\x00\x00\x0a" + key + b"\x02v\x00",
        "attributes 255": b"\x14\xff\x00\x00" + key + b"\x02v\x00",
        "a key length of -2": b"\x0e\x00\x00\x00\x03\x02v\x00",
        "no record at all": b"",
        "a length of 0": b"\x00",
        "a length of -1": b"\x01",
        "a length beyond the end": b"\x7f" + bytes(6),
        "a length without an end": b"\xff" * 6,
        "a record and rubbish": b"\x12\x00\x00\x00" + key + b"\x00\x00" + b"rubbish",
        "a key beyond the record": b"\x14\x00\x00\x00\x7fkey\x02v\x00",
        "a value beyond the record": b"\x14\x00\x00\x00" + key + b"\x7fv\x00",
        "-1 headers": b"\x14\x00\x00\x00" + key + b"\x02v\x01",
        "1 header that is not there": b"\x14\x00\x00\x00" + key + b"\x02v\x02",
        "a header without a key": b"\x18\x00\x00\x00" + key + b"\x02v\x02\x01\x01",
        "headers without an end": b"\x14\x00\x00\x00" + key + b"\x02v\x7e",
        "fields that end too soon": b"\x18\x00\x00\x00" + key + b"\x02v\x00\x00\x00",
    }.items():
        talk.to().ask(produce("produce-records", with_records(one, records)), 9, says)
    talk.to().ask(list_offsets("produce-records", -1), 7)


def test_a_record_has_at_least_six_bytes(talk: Dialogue) -> None:
    talk.topic("produce-short")
    one = batch(1)
    for length in range(7):
        record = bytes([2 * length, 0, 0, 0, 1, 1, 0])[: 1 + length]
        for codec in (Compression.NONE, Compression.ZSTD):
            records = with_records(one, compress(codec, record), attributes=codec)
            talk.to().ask(produce("produce-short", records), 9, f"a length of {length}, {codec.name}")
    talk.to().ask(produce("produce-short", with_records(one, b"\x8c\x00\0\0\0\1\1\0")), 9, "6 in two bytes")
    talk.to().ask(produce("produce-short", with_records(one, b"\x80\x00")), 9, "0 in two bytes")
    talk.to().ask(list_offsets("produce-short", -1), 7)


def test_what_follows_the_batch_is_the_beginning_of_another(talk: Dialogue) -> None:
    """A cut batch at the end is passed over, as anywhere else; what cannot be one is refused."""
    talk.topic("produce-behind")
    one = batch()
    for size in (1, 11, 12, 16, 17, 20, 60, 61, 80):
        talk.to().ask(produce("produce-behind", one + bytes(size)), 9, f"{size} zero bytes")
    for length in (13, 14, 48, 49, 1000):
        for magic in (-1, 0, 1, 2, 3):
            rest = altered(one, batch_length=length, magic=magic)
            talk.to().ask(produce("produce-behind", one + rest[:17]), 9, f"17 bytes, length {length}, magic {magic}")
    talk.to().ask(produce("produce-behind", one + altered(one, batch_length=-1)[:16]), 9, "16 bytes, length -1")
    talk.to().ask(list_offsets("produce-behind", -1), 7)


def test_compressed_records_end_where_their_stream_ends(talk: Dialogue) -> None:
    talk.topic("produce-streams")
    one = batch(1)
    record = one[61:]
    for codec in (Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD):
        whole, half = compress(codec, record), compress(codec, record[:8])
        for says, records in {
            "whole": whole,
            **{f"without the last {cut}": whole[:-cut] for cut in (1, 3, 4, 8, 12)},
            "nothing": b"",
            "nothing, packed": compress(codec, b""),
            "and rubbish": whole + b"\xde\xad\xbe\xef\xde\xad\xbe\xef",
            "in two streams": half + compress(codec, record[8:]),
            "and an empty stream": whole + compress(codec, b""),
        }.items():
            content = with_records(one, records, attributes=codec)
            talk.to().ask(produce("produce-streams", content), 9, f"{codec.name}, {says}")
    large = batch(1, size=100_000)
    for is_linked in (False, True):
        frame = lz4.frame.compress(large[61:], block_size=lz4.frame.BLOCKSIZE_MAX64KB, block_linked=is_linked)
        content = with_records(large, frame, attributes=Compression.LZ4)
        talk.to().ask(produce("produce-streams", content), 9, f"LZ4 of several blocks, linked: {is_linked}")
    talk.to().ask(list_offsets("produce-streams", -1), 7)


def test_a_timestamp_wraps_at_64_bits(talk: Dialogue) -> None:
    """Base timestamp and delta leave what 64 bits can hold, and come to be a time of today."""
    talk.topic("produce-wraps")
    body = b"\x00" + encode_varint(T0 - 2**63) + b"\x00\x06key\x02v\x00"
    wrapping = with_records(batch(1), encode_varint(len(body)) + body, base_timestamp=-(2**63))
    talk.to().ask(produce("produce-wraps", wrapping), 9)
    talk.to().ask(produce("produce-wraps", batch(1, timestamp=T0 + 5)), 9, "one as usual")
    for timestamp in (0, T0, T0 + 1, T0 + 6):
        talk.to().ask(list_offsets("produce-wraps", timestamp), 7, f"at {timestamp}")
    talk.to().ask(fetch("produce-wraps", 0), 12)


def test_only_a_broker_says_when_a_batch_was_appended(talk: Dialogue) -> None:
    talk.topic("produce-false-time")
    talk.to().ask(produce("produce-false-time", altered(batch(), attributes=0x08)), 9)
    talk.to().ask(fetch("produce-false-time", 0), 12)


def test_a_batch_may_be_too_large(talk: Dialogue) -> None:
    talk.topic("produce-large", configs={"max.message.bytes": 300})
    talk.to().ask(produce("produce-large", batch(1, size=200)), 9, "274 bytes")
    talk.to().ask(produce("produce-large", batch(1, size=300)), 9, "374 bytes")
    talk.to().ask(produce("produce-large", batch(1, size=2000, codec=Compression.GZIP)), 9, "2 KB, compressed")
    talk.to().ask(list_offsets("produce-large", -1), 7)


def test_the_log_may_say_when_a_record_was_appended(talk: Dialogue) -> None:
    topic_id = talk.topic("produce-append-time", configs={"message.timestamp.type": "LogAppendTime"})
    for codec in (Compression.NONE, Compression.LZ4):
        talk.to().ask(produce("produce-append-time", batch(codec=codec), topic_id=topic_id), 13, codec.name)
    talk.to().ask(fetch("produce-append-time", 0), 12)


def test_timestamps_may_be_too_old_or_too_young(talk: Dialogue) -> None:
    limits = {"message.timestamp.before.max.ms": HOUR_MS, "message.timestamp.after.max.ms": HOUR_MS}
    now = time.time_ns() // 1_000_000
    talk.topic("produce-timestamps", configs=limits)
    for says, timestamp in {
        "two hours old": now - 2 * HOUR_MS,
        "half an hour old": now - HOUR_MS // 2,
        "in half an hour": now + HOUR_MS // 2,
        "in two hours": now + 2 * HOUR_MS,
        "no timestamp": -1,
        "timestamp -2": -2,
    }.items():
        talk.to().ask(produce("produce-timestamps", batch(1, timestamp=timestamp)), 9, says)
    talk.to().ask(
        produce("produce-timestamps", batch(2, timestamp=now - 2 * HOUR_MS, step_ms=2 * HOUR_MS)), 9, "one of two"
    )


def test_the_largest_timestamp_is_the_records_own(talk: Dialogue) -> None:
    talk.topic("produce-max-timestamp")
    talk.to().ask(produce("produce-max-timestamp", altered(batch(2), max_timestamp=T0 + 50_000)), 9, "too large")
    talk.to().ask(produce("produce-max-timestamp", altered(batch(2), max_timestamp=T0 - 50_000)), 9, "too small")
    talk.to().ask(produce("produce-max-timestamp", altered(batch(2), max_timestamp=-1)), 9, "none")
    talk.to().ask(fetch("produce-max-timestamp", 0), 12)


def test_a_compacted_topic_wants_keys(talk: Dialogue) -> None:
    talk.topic("produce-compacted", configs={"cleanup.policy": "compact"})
    for codec in (Compression.NONE, Compression.GZIP):
        talk.to().ask(produce("produce-compacted", batch(codec=codec, key=None)), 9, f"without, {codec.name}")
        talk.to().ask(produce("produce-compacted", batch(codec=codec)), 9, f"with, {codec.name}")


def test_a_topic_may_have_its_own_codec(talk: Dialogue) -> None:
    talk.topic("produce-own-codec", configs={"compression.type": "gzip"})
    talk.topic("produce-no-codec", configs={"compression.type": "uncompressed"})
    for topic in ("produce-own-codec", "produce-no-codec"):
        for codec in (Compression.NONE, Compression.GZIP, Compression.LZ4):
            talk.to().ask(produce(topic, batch(codec=codec)), 9, codec.name)
        talk.to().ask(fetch(topic, 0), 12)


def test_a_partition_may_be_named_twice(talk: Dialogue) -> None:
    talk.topic("produce-twice")
    talk.to().ask(produce("produce-twice", (0, batch(1)), (0, batch(2))), 9)
    once = produce("produce-twice", batch(1)).topic_data[0]
    again = produce("produce-twice", batch(2)).topic_data[0]
    talk.to().ask(ProduceRequest(acks=1, timeout_ms=1000, topic_data=[once, again]), 9, "as two topics")
    talk.to().ask(list_offsets("produce-twice", -1), 7)


def test_each_partition_is_judged_alone(talk: Dialogue) -> None:
    talk.topic("produce-mixed", [(1,), (1,), (2,)])
    request = produce("produce-mixed", batch(), altered(batch(), crc=1), batch(), batch(), acks=-1)
    talk.to().ask(request, 10)


def test_a_request_may_be_empty(talk: Dialogue) -> None:
    talk.topic("produce-empty")
    talk.to().ask(ProduceRequest(acks=1, timeout_ms=1000, topic_data=[]), 9)
    talk.to().ask(produce("produce-empty"), 9, "a topic without partitions")
