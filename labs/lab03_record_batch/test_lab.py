"""What lab 03 asks of a batch. Bytes are compared with those that Apache Kafka wrote (tests/golden), and for other
records with pykraft's, which are themselves compared with Kafka's."""

import gzip
import struct
from itertools import pairwise, product

import pytest

from pykraft.course.places import ROOT
from pykraft.records import batch as kafka
from pykraft.records.builder import RecordBatchBuilder
from pykraft.records.compression import Compression
from pykraft.records.crc32c import crc32c
from pykraft.records.record import encode_record
from pykraft.records.varint import encode_varint

ALLOWED_IMPORTS = frozenset({"crc32c"})
GOLDEN = ROOT / "tests/golden/kafka-4.2.0-rc1-data/golden-0" / f"{0:020d}.log"

# Zigzag: 0, -1, 1, -2, 2 become 0, 1, 2, 3, 4.
VARINTS = {
    0: "00",
    -1: "01",
    1: "02",
    -2: "03",
    63: "7e",
    -64: "7f",
    64: "80 01",
    -65: "81 01",
    8191: "fe 7f",
    8192: "80 80 01",
    2**31 - 1: "fe ff ff ff 0f",
    -(2**31): "ff ff ff ff 0f",
    2**63 - 1: "fe ff ff ff ff ff ff ff ff 01",
    -(2**63): "ff ff ff ff ff ff ff ff ff 01",
}


def golden(codec):
    """The bytes of the batch with this codec that Apache Kafka wrote, and the batch as pykraft reads it."""
    for found in kafka.batches(memoryview(GOLDEN.read_bytes())):
        if found.compression == codec:
            return bytes(found.buffer), found
    raise LookupError(codec)


def first_difference(found, wanted):
    """In words, where two pieces of bytes part."""
    at = next((n for n, (a, b) in enumerate(zip(found, wanted, strict=False)) if a != b), min(len(found), len(wanted)))
    return (
        f"byte {at}: {found[at : at + 4].hex(' ') or 'nothing'} instead of {wanted[at : at + 4].hex(' ') or 'nothing'}"
    )


def equal_bytes(found, wanted, about):
    assert isinstance(found, bytes | bytearray), f"{about} is bytes, not {type(found).__name__}"
    assert bytes(found) == wanted, f"{about}, {first_difference(bytes(found), wanted)}"


def equal_records(found, wanted, about):
    assert len(found) == len(wanted), f"{about}: {len(found)} records instead of {len(wanted)}"
    for mine, its in zip(found, wanted, strict=True):
        plain = (*tuple(its)[:4], tuple(its.headers))
        assert (*tuple(mine)[:4], tuple(mine.headers)) == plain, f"{about}: {tuple(mine)} instead of {plain}"


def some_records(impl, chance, count=20, offset=None):
    """Records with all that may be in them: nulls, empty values, headers, also two of one name, times that go back,
    gaps between offsets."""
    offset = chance.randrange(1 << 40) if offset is None else offset
    start, found = chance.randrange(1 << 40), []
    pieces = (None, b"", b"k", chance.randbytes(70), chance.randbytes(200))
    for number in range(count):
        headers = tuple((name, chance.choice(pieces)) for name in ("a", "größe", "a")[: number % 4])
        time = start + chance.randrange(-100_000, 100_000)
        found.append(impl.Record(offset, time, chance.choice(pieces), chance.choice(pieces), headers))
        offset += chance.choice((1, 1, 1, 70))
    return found


def record_bytes(record, base_offset, base_timestamp):
    """As pykraft writes a record."""
    out = bytearray()
    encode_record(out, record.offset - base_offset, record.timestamp - base_timestamp, *record[2:])
    return bytes(out)


def with_checksum(data):
    return data[:17] + crc32c(data[21:]).to_bytes(4, "big") + data[21:]


# --- task 3.1 ---------------------------------------------------------------------------------------------------------


@pytest.mark.task("3.1", points=2)
def test_numbers_have_the_bytes_of_the_table(impl):
    """Fourteen numbers from 0 to the ends of 64 bits, among them those where a byte more is needed."""
    for number, text in VARINTS.items():
        found = bytes(impl.encode_varint(number)).hex(" ")
        assert found == text, f"encode_varint({number}) is {text}, not {found}"


@pytest.mark.task("3.1", points=2)
def test_numbers_are_read_from_any_place(impl, chance):
    """The same numbers and 200 others, each between other bytes: the position after it comes back, too."""
    for number in (*VARINTS, *(chance.randrange(-(1 << chance.randrange(1, 63)), 1 << 40) for _ in range(200))):
        before, written = chance.randbytes(chance.randrange(4)), encode_varint(number)
        found = tuple(impl.decode_varint(before + written + b"\xff\x01", len(before)))
        wanted = (number, len(before) + len(written))
        assert found == wanted, f"{written.hex(' ')} at {len(before)} is {wanted} (number, position), not {found}"


# --- task 3.2 ---------------------------------------------------------------------------------------------------------


@pytest.mark.task("3.2", points=3)
def test_a_record_has_kafkas_bytes(impl, chance):
    """Records with nulls, with empty keys and values, with headers, of which two may have one name, and with times
    before the first one's."""
    records = some_records(impl, chance, 60)
    base, time = records[0][:2]
    for record in records:
        found = impl.encode_record(record, base, time)
        equal_bytes(found, record_bytes(record, base, time), f"{record} in a batch from offset {base}, time {time}")


@pytest.mark.task("3.2", points=3)
def test_a_record_is_read_as_it_was_written(impl, chance):
    """The same records, back to back: each leads to the next."""
    records = some_records(impl, chance, 60)
    base, time = records[0][:2]
    pieces = [record_bytes(record, base, time) for record in records]
    data, position = b"".join(pieces), 0
    for record, piece in zip(records, pieces, strict=True):
        found, end = impl.decode_record(data, position, base, time)
        equal_records([found], [record], f"the record at byte {position}")
        assert end == position + len(piece), f"the record ends at byte {position + len(piece)}, not at {end}"
        position = end


@pytest.mark.task("3.2", points=1)
def test_null_and_empty_are_two_things(impl):
    """A record with null key and empty value, and the other way round, with headers of the same kinds."""
    for key, value in ((None, b""), (b"", None)):
        record = impl.Record(7, 1000, key, value, (("h", value), ("i", key)))
        data = bytes(impl.encode_record(record, 7, 1000))
        equal_bytes(data, record_bytes(record, 7, 1000), f"key {key}, value {value}")
        found, _ = impl.decode_record(data, 0, 7, 1000)
        assert (found.key, found.value) == (key, value), f"key {key} and value {value} came back as {found}"


# --- task 3.3 ---------------------------------------------------------------------------------------------------------


@pytest.mark.task("3.3", points=4)
def test_a_batch_is_the_one_that_apache_kafka_wrote(impl):
    """Twenty records that a Java producer sent, and the 3,211 bytes that a Kafka broker has on its disk."""
    wanted, theirs = golden(Compression.NONE)
    records = [impl.Record(*record[:4], tuple(record.headers)) for record in theirs.records()]
    producer = (theirs.producer_id, theirs.producer_epoch, theirs.base_sequence)
    found = impl.encode_batch(records, 0, theirs.partition_leader_epoch, producer)
    equal_bytes(found, wanted, "the batch of Kafka's broker")


@pytest.mark.task("3.3", points=2)
def test_the_header_tells_of_the_records(impl, chance):
    """Records with gaps between offsets and times out of order: each field of the header, and the records. And records
    with time -1, which is Kafka's word for no time."""
    for _ in range(10):
        records = some_records(impl, chance, chance.randrange(1, 20))
        producer = (chance.randrange(1 << 40), chance.randrange(1 << 15), chance.randrange(1 << 31))
        found = kafka.RecordBatch(memoryview(bytearray(impl.encode_batch(records, 0, 5, producer))))
        wanted = {
            "base offset": (found.base_offset, records[0].offset),
            "length": (found.size - 12, len(found.buffer) - 12),
            "leader epoch": (found.partition_leader_epoch, 5),
            "magic": (found.magic, 2),
            "attributes": (found.attributes, 0),
            "last offset delta": (found.last_offset_delta, records[-1].offset - records[0].offset),
            "base timestamp": (found.base_timestamp, records[0].timestamp),
            "newest timestamp": (found.max_timestamp, max(record.timestamp for record in records)),
            "producer id": (found.producer_id, producer[0]),
            "producer epoch": (found.producer_epoch, producer[1]),
            "first sequence number": (found.base_sequence, producer[2]),
            "count": (found.count, len(records)),
        }
        for name, (mine, value) in wanted.items():
            assert mine == value, f"{name} is {value}, not {mine}"
        assert found.is_valid, "the checksum is that of everything from byte 21 on, and it is another one here"
        equal_records(list(found.records()), records, "a batch whose offsets have gaps")
    records = [impl.Record(n, time, b"k", b"v") for n, time in enumerate((-1, -1, 7))]
    try:
        data = bytes(impl.encode_batch(records, 0, 0))
    except struct.error:
        pytest.fail("a record of time -1 cannot be written: the times of a header have a sign, so pack them with q")
    equal_bytes(data, kafka_bytes(records), "a batch whose first records have time -1")


@pytest.mark.task("3.3", points=1)
def test_without_more_words_there_is_no_producer_and_no_epoch(impl, chance):
    """A batch made of records alone: what a plain producer sends before a leader has seen it."""
    records = some_records(impl, chance, 4, offset=0)
    builder = RecordBatchBuilder()
    for number, record in enumerate(records):
        records[number] = record._replace(offset=number)
        builder.append(record.timestamp, record.key, record.value, record.headers)
    equal_bytes(impl.encode_batch(records), bytes(builder.build()), "a batch without producer and epoch")


@pytest.mark.task("3.3", points=2)
def test_gzip_packs_the_records_and_not_the_header(impl, chance):
    """Forty records that are much alike, with codec 1: they are unpacked with the standard library."""
    records = [impl.Record(n, 1000 + n, b"key", b"the same again and again " * 4) for n in range(40)]
    data = bytes(impl.encode_batch(records, 1))
    found = kafka.RecordBatch(memoryview(bytearray(data)))
    assert found.attributes == 1, f"the attributes of a batch with gzip are 1, not {found.attributes}"
    assert found.is_valid and found.size == len(data), "checksum and length are those of the packed records"
    assert len(data) < 400, f"{len(data)} bytes: forty records that are alike become less than 400"
    assert data[61:63] == b"\x1f\x8b", f"at byte 61 gzip begins with 1f 8b, not with {data[61:63].hex(' ')}"
    equal_bytes(gzip.decompress(data[61:]), b"".join(record_bytes(r, 0, 1000) for r in records), "unpacked")


# --- task 3.4 ---------------------------------------------------------------------------------------------------------


@pytest.mark.task("3.4", points=3)
def test_what_apache_kafka_wrote_is_read(impl):
    """Two batches from a Kafka broker's disk, one plain and one packed with gzip: offset, time, key, value, headers.
    And one whose records have time -1, which is Kafka's word for no time."""
    for codec in (Compression.NONE, Compression.GZIP):
        data, theirs = golden(codec)
        equal_records(impl.decode_batch(data), list(theirs.records()), f"the batch with {codec.name.lower()}")
    records = [impl.Record(n, time, b"k", b"v") for n, time in enumerate((-1, -1, 7))]
    equal_records(impl.decode_batch(kafka_bytes(records)), records, "times have a sign: a batch of time -1")


@pytest.mark.task("3.4", points=3)
def test_one_wrong_bit_is_caught(impl, chance):
    """A batch with one bit flipped in each byte that the checksum covers, in the checksum, the magic and the length."""
    data, _ = golden(Compression.GZIP)
    for at in (*range(8, 12), *range(16, len(data))):
        torn = bytearray(data)
        torn[at] ^= 1 << chance.randrange(8)
        refused(impl, torn, f"one bit of byte {at} is flipped")


def refused(impl, data, about):
    """The bytes are no batch, and are refused."""
    try:
        found = impl.decode_batch(bytes(data))
    except impl.CorruptBatchError:
        return
    except NotImplementedError:
        raise
    except Exception as error:
        message = f"{about}: raise CorruptBatchError; yours raised {type(error).__name__}, {error}"
        raise AssertionError(message.replace("Error:", "Error")) from None
    raise AssertionError(f"{about}, and {len(found)} records came out")


@pytest.mark.task("3.4", points=2)
def test_what_is_not_exactly_a_batch_is_refused(impl):
    """A batch cut after 0 to 61 bytes and before its last byte, one with a byte too many, one with magic 1, and one
    with a codec that is not asked for; in each case with the right checksum."""
    data, _ = golden(Compression.NONE)
    for size in (*range(62), len(data) - 1):
        cut = data[:size] if size < 21 else with_checksum(data[:size])
        refused(impl, cut, f"of {len(data)} bytes {size} are there")
    refused(impl, with_checksum(data + b"\0"), "a byte follows the batch")
    refused(impl, data[:16] + b"\x01" + data[17:], "magic is 1")
    for codec in (2, 4):
        other = with_checksum(data[:21] + struct.pack(">h", codec) + data[23:])
        refused(impl, other, f"codec {codec} cannot be unpacked")


@pytest.mark.task("3.4", points=1)
def test_a_broker_may_give_all_records_its_own_time(impl, chance):
    """A topic with LogAppendTime: bit 3 of the attributes says that the header's newest time is that of each record. A
    plain batch, and one packed with gzip, from a broker whose clock is ahead of the producer's, or far behind it."""
    for codec, time in product((Compression.NONE, Compression.GZIP), (1_800_000_000_000, 86_400_000)):
        data, theirs = golden(codec)
        stamped = kafka.RecordBatch(memoryview(bytearray(data)))
        stamped.stamp(time)
        found = impl.decode_batch(bytes(stamped.buffer))
        wanted = [record._replace(timestamp=time) for record in theirs.records()]
        equal_records(found, wanted, f"a batch with {codec.name.lower()} and the broker's time, {time}")


@pytest.mark.task("3.4", points=1)
def test_a_batch_that_lost_records_to_compaction_is_read(impl, chance):
    """Every second record, with the offsets that it always had; and the transactional bit, which is no codec."""
    records = some_records(impl, chance, 20)[::2]
    assert any(b.offset - a.offset > 1 for a, b in pairwise(records)), "these records have no gap"
    builder = bytearray(kafka_bytes(records))
    equal_records(impl.decode_batch(bytes(builder)), records, "a batch with gaps")
    builder[21:23] = struct.pack(">h", 16)
    equal_records(impl.decode_batch(with_checksum(bytes(builder))), records, "a transactional batch")


@pytest.mark.task("3.4", points=1)
def test_a_header_without_records_is_a_batch(impl):
    """What compaction leaves as the trace of a producer: 61 bytes, no records."""
    found = impl.decode_batch(kafka_bytes([]))
    assert list(found) == [], f"there is no record in 61 bytes, and {found} came out"


def kafka_bytes(records):
    """A batch of these records, whatever their offsets."""
    base, time = (records[0].offset, records[0].timestamp) if records else (5, -1)
    data = b"".join(record_bytes(record, base, time) for record in records)
    delta = records[-1].offset - base if records else 3
    newest = max((record.timestamp for record in records), default=-1)
    fields = (base, 49 + len(data), 0, 2, 0, 0, delta, time, newest, -1, -1, -1, len(records))
    return with_checksum(kafka.HEADER.pack(*fields) + data)
