"""What lab 01 asks of a recovery. The segments are made of real record batches, and damaged as crashes and disks do it;
what the functions read is written down."""

import struct

import pytest

from pykraft.records.batch import RecordBatch
from pykraft.records.builder import RecordBatchBuilder
from pykraft.records.crc32c import crc32c
from pykraft.records.filtering import emptied

ALLOWED_IMPORTS = frozenset({"crc32c"})
INTERVAL_BYTES = 2000


class File:
    """Bytes that are read through a hole: `touched` are the ranges that were read."""

    def __init__(self, data):
        self.data = bytes(data)
        self.touched = []

    def __call__(self, position, length):
        assert 0 <= position <= position + length <= len(self.data), (
            f"read({position}, {length}): the file has {len(self.data)} bytes"
        )
        self.touched.append((position, length))
        return self.data[position : position + length]

    def __len__(self):
        return len(self.data)


def batch_of(chance, offset, records=None):
    """A batch of some records from this offset on."""
    builder = RecordBatchBuilder(offset, leader_epoch=3)
    for _ in range(chance.randrange(1, 30) if records is None else records):
        builder.append(chance.randrange(1 << 40), b"key", chance.randbytes(chance.randrange(40)))
    return builder.build()


def with_checksum(batch):
    """The batch with the checksum that its bytes call for."""
    return batch[:17] + crc32c(bytes(batch[21:])).to_bytes(4, "big") + batch[21:]


class Good:
    """A segment without damage. `places` are (first offset, last offset, start, end)"""

    def __init__(self, chance, base_offset=None, batches=12, gaps=True):
        self.base_offset = chance.randrange(1 << 40) if base_offset is None else base_offset
        data, offset, self.places = bytearray(), self.base_offset, []
        for _ in range(batches):
            offset += chance.choice((0, 0, 1, 5)) if gaps else 0
            batch = batch_of(chance, offset)
            last = offset + RecordBatch(memoryview(batch)).last_offset_delta
            self.places.append((offset, last, len(data), len(data) + len(batch)))
            data += batch
            offset = last + 1
        self.file, self.next_offset = File(data), offset

    def what_is_left(self):
        """As much of it as a recovery finds."""
        return len(self.file), self.next_offset


def same_batch(found, wanted, about):
    assert found is not None, f"{about}: it is whole, and None was returned"
    assert tuple(found) == wanted, f"{about}: first offset, last offset and end are {wanted}, not {tuple(found)}"


# --- task 1.1 ---------------------------------------------------------------------------------------------------------


@pytest.mark.task("1.1", points=2)
def test_a_whole_batch_has_its_offsets_and_its_end(impl, chance):
    """Each batch of a segment; the last one ends where the file ends. And a batch whose records compaction took: 61
    bytes."""
    good = Good(chance)
    for first, last, start, end in good.places:
        same_batch(impl.batch_at(good.file, len(good.file), start), (first, last, end), f"the batch at byte {start}")
    bare = emptied(RecordBatch(memoryview(batch_of(chance, 700, 5))))
    same_batch(impl.batch_at(File(bare), len(bare), 0), (700, 704, 61), "a header without records")


@pytest.mark.task("1.1", points=2)
def test_a_batch_that_the_end_of_the_file_cuts_is_none(impl, chance):
    """A batch of three records, cut after each of its bytes. Nothing is read that is not there."""
    batch = batch_of(chance, 50, 3)
    for size in range(len(batch)):
        found = impl.batch_at(File(batch[:size]), size, 0)
        assert found is None, f"of {len(batch)} bytes {size} are there, and this was taken for a batch: {found}"


@pytest.mark.task("1.1", points=2)
def test_any_changed_bit_that_the_checksum_covers_is_noticed(impl, chance):
    """A batch with one bit flipped: in each byte from the checksum on, one after the other."""
    batch = batch_of(chance, 50, 3)
    for at in range(17, len(batch)):
        torn = bytearray(batch)
        torn[at] ^= 1 << chance.randrange(8)
        found = impl.batch_at(File(torn), len(torn), 0)
        assert found is None, f"one bit of byte {at} is flipped, and the batch was taken for a good one"


@pytest.mark.task("1.1", points=1)
def test_the_place_in_the_log_is_not_part_of_what_is_checked(impl, chance):
    """A batch that a leader gave another offset and epoch: bytes 0 to 7 and 12 to 15 changed, the checksum did not."""
    batch = batch_of(chance, 50, 3)
    batch[0:8], batch[12:16] = struct.pack(">q", 9000), struct.pack(">i", 77)
    same_batch(impl.batch_at(File(batch), len(batch), 0), (9000, 9002, len(batch)), "a batch with another offset")


@pytest.mark.task("1.1", points=1)
def test_what_cannot_be_a_header_is_none(impl, chance):
    """Zeros, as file systems leave them; magic 1 and 3; a length below 49, also 0 and negative, with a good
    checksum."""
    assert impl.batch_at(File(bytes(500)), 500, 0) is None, "500 zeros were taken for a batch"
    good = batch_of(chance, 50, 3)
    for magic in (0, 1, 3):
        data = bytes(good[:16]) + bytes([magic]) + bytes(good[17:])
        assert impl.batch_at(File(data), len(data), 0) is None, f"magic {magic} was taken for 2"
    for length in (48, 0, -12, -200):
        short = bytearray(with_checksum(good[: max(12 + length, 21)]))
        short[8:12] = struct.pack(">i", length)
        data = bytes(short) + bytes(200)
        found = impl.batch_at(File(data), len(data), 0)
        assert found is None, f"a batch with length {length} is shorter than its header, and was taken: {found}"


# --- task 1.2 ---------------------------------------------------------------------------------------------------------


@pytest.mark.task("1.2", points=2)
def test_of_a_good_segment_everything_stays(impl, chance):
    """A segment whose offsets have gaps, one of a single batch, and one without any. What is read is counted: a byte
    may be read twice."""
    for batches in (12, 1, 0):
        good = Good(chance, batches=batches)
        found = tuple(impl.recover(good.file, len(good.file), good.base_offset))
        assert found == good.what_is_left(), (
            f"{batches} good batches: {good.what_is_left()} is (bytes, next offset), not {found}"
        )
        read = sum(length for _, length in good.file.touched)
        assert read <= 2 * len(good.file) + 61, f"of a segment of {len(good.file):,} bytes {read:,} were read"


@pytest.mark.task("1.2", points=2)
def test_a_torn_end_goes_and_all_before_it_stays(impl, chance):
    """After a good segment, the beginning of one more batch: a byte, half a header, a header, all but the last byte."""
    for pick in (0, 1, 2, 3):
        good = Good(chance)
        more = batch_of(chance, good.next_offset)
        torn = more[: (1, 30, 61, len(more) - 1)[pick]]
        file = File(good.file.data + bytes(torn))
        found = tuple(impl.recover(file, len(file), good.base_offset))
        assert found == good.what_is_left(), (
            f"{len(torn)} bytes of a batch more: {good.what_is_left()} is left, not {found}"
        )


@pytest.mark.task("1.2", points=2)
def test_after_the_first_damage_nothing_counts(impl, chance):
    """A bit flipped in the middle of a segment; the batches after it are whole."""
    for _ in range(5):
        good = Good(chance)
        number = chance.randrange(len(good.places))
        _, _, start, end = good.places[number]
        data = bytearray(good.file.data)
        data[chance.randrange(start + 21, end)] ^= 4
        wanted = (start, good.places[number - 1][1] + 1 if number else good.base_offset)
        found = tuple(impl.recover(File(data), len(data), good.base_offset))
        assert found == wanted, f"the batch at byte {start} is damaged: {wanted} is left, not {found}"


@pytest.mark.task("1.2", points=2)
def test_a_whole_batch_that_does_not_follow_is_none_of_this_log(impl, chance):
    """After a good segment, a whole old batch: the first one once more, the last one, one that begins with the last
    offset, and one whose base offset is negative. And a segment that begins below its own base offset."""
    good = Good(chance)
    last = good.next_offset - 1
    old = [good.file.data[start:end] for _, _, start, end in (good.places[0], good.places[-1])]
    for more in (*old, bytes(batch_of(chance, last))):
        file = File(good.file.data + more)
        found = tuple(impl.recover(file, len(file), good.base_offset))
        assert found == good.what_is_left(), (
            f"an old batch comes after offset {last}: {good.what_is_left()} is left, not {found}"
        )
    negative = struct.pack(">q", -3) + bytes(batch_of(chance, last))[8:]
    file = File(good.file.data + negative)
    found = tuple(impl.recover(file, len(file), good.base_offset))
    assert found == good.what_is_left(), (
        f"a whole batch with base offset -3 comes after offset {last}: -3 is smaller, since a base offset has a sign. "
        f"{good.what_is_left()} is left, not {found}"
    )
    low = File(bytes(batch_of(chance, 99, 4)))
    found = tuple(impl.recover(low, len(low), 100))
    assert found == (0, 100), f"segment 100 begins with offset 99: (0, 100) is left, not {found}"


# --- task 1.3 ---------------------------------------------------------------------------------------------------------


def entries(index):
    assert isinstance(index, bytes | bytearray), f"an index is bytes, not {type(index).__name__}"
    assert len(index) % 8 == 0, f"an index of {len(index)} bytes: an entry has 8"
    return [struct.unpack_from(">ii", index, at) for at in range(0, len(index), 8)]


def wanted_entries(good, interval, places):
    found, since = [], 0
    for _, last, start, end in places:
        if since > interval:
            found.append((last - good.base_offset, start))
            since = 0
        since += end - start
    return found


@pytest.mark.task("1.3", points=2)
def test_the_index_is_the_one_that_appending_would_have_made(impl, chance):
    """Forty batches and an interval of 2,000 bytes; then one of as many bytes as the first batch has, one
    of a byte less, and one of 0."""
    good = Good(chance, batches=40)
    for interval in (INTERVAL_BYTES, good.places[0][3], good.places[0][3] - 1, 0):
        found = entries(impl.rebuild_index(good.file, len(good.file), good.base_offset, interval))
        wanted = wanted_entries(good, interval, good.places)
        wrong = next((pair for pair in zip(found, wanted, strict=False) if pair[0] != pair[1]), None)
        assert wrong is None, f"interval {interval}: an entry is {wrong[0]} and should be {wrong[1]}"
        assert len(found) == len(wanted), f"interval {interval}: {len(found)} entries instead of {len(wanted)}"


@pytest.mark.task("1.3", points=1)
def test_the_index_ends_where_the_good_part_ends(impl, chance):
    """A segment of which the first half is good; and one of which nothing is."""
    good = Good(chance, batches=40)
    half = good.places[:20]
    found = entries(impl.rebuild_index(good.file, half[-1][3], good.base_offset, 0))
    assert found == wanted_entries(good, 0, half), f"{len(found)} entries for 20 good batches; the first has none"
    assert impl.rebuild_index(good.file, 0, good.base_offset, 0) == b"", "nothing is good, and there is an entry"


# --- task 1.4 ---------------------------------------------------------------------------------------------------------


def log_of(chance, segments=5):
    """(base offset, good segment) of a log."""
    found, offset = [], chance.randrange(1 << 40)
    for _ in range(segments):
        found.append(Good(chance, offset, batches=5, gaps=False))
        offset = found[-1].next_offset
    return found


def as_segments(impl, log):
    return [impl.Segment(good.base_offset, len(good.file), good.file) for good in log]


def recovered(impl, log, point):
    kept, end = impl.recover_log(as_segments(impl, log), point)
    return [tuple(each) for each in kept], end


def whole(log):
    return [(good.base_offset, len(good.file)) for good in log]


@pytest.mark.task("1.4", points=1)
def test_of_a_good_log_every_segment_stays(impl, chance):
    """Five good segments, with recovery points from the first offset to the last, and 0, as in a broker that has lost
    its note of it; then a last segment that is empty."""
    log = log_of(chance)
    for point in (0, log[0].base_offset, log[2].base_offset, log[4].next_offset):
        found = recovered(impl, log, point)
        assert found == (whole(log), log[-1].next_offset), f"recovery point {point}: all is good, and {found} is left"
    log.append(Good(chance, log[-1].next_offset, batches=0))
    found = recovered(impl, log, log[0].base_offset)
    assert found == (whole(log), log[-1].next_offset), f"the last segment is empty: {found}"


@pytest.mark.task("1.4", points=2)
def test_every_segment_after_a_truncated_one_goes(impl, chance):
    """A damaged batch in each of five segments, one after the other; nothing was synced, or all but its last offset. A
    byte too many after the second segment, though the third begins where its batches end. And a segment whose first
    batch is damaged: it stays, without a byte."""
    for number in range(5):
        log = log_of(chance)
        good = log[number]
        start = good.places[3][2]
        data = bytearray(good.file.data)
        data[start + 30] ^= 1
        good.file.data = bytes(data)
        wanted = ([*whole(log[:number]), (good.base_offset, start)], good.places[2][1] + 1)
        for point in (log[0].base_offset, good.next_offset - 1):
            found = recovered(impl, log, point)
            assert found == wanted, (
                f"recovery point {point}, segment {number + 1} of 5 is good up to byte {start}: {wanted}, not {found}"
            )
    log = log_of(chance)
    size = len(log[1].file)
    log[1].file.data += b"\0"
    found = recovered(impl, log, log[0].base_offset)
    wanted = ([*whole(log[:1]), (log[1].base_offset, size)], log[1].next_offset)
    assert found == wanted, f"the second segment has a byte too many: {wanted} is left, not {found}"
    log = log_of(chance)
    data = bytearray(log[2].file.data)
    data[30] ^= 1
    log[2].file.data = bytes(data)
    found = recovered(impl, log, log[0].base_offset)
    wanted = ([*whole(log[:2]), (log[2].base_offset, 0)], log[2].base_offset)
    assert found == wanted, f"of the third segment nothing is good, and it stays as an empty one: {wanted}, not {found}"


@pytest.mark.task("1.4", points=2)
def test_what_was_synced_is_not_read(impl, chance):
    """Recovery points at the beginning of each segment, one before, and in the middle of it."""
    for number in range(1, 5):
        for point, first_read in (
            ((lambda g: g.base_offset), number),
            ((lambda g: g.base_offset - 1), number - 1),
            ((lambda g: g.places[2][0]), number),
        ):
            log = log_of(chance)
            recovered(impl, log, point(log[number]))
            read = [bool(good.file.touched) for good in log]
            wanted = [n >= first_read for n in range(5)]
            about = f"recovery point {point(log[number])}, segments from {[good.base_offset for good in log]}"
            assert read == wanted, f"{about}: read were {read}, should be {wanted}"


@pytest.mark.task("1.4", points=1)
def test_a_segment_that_does_not_begin_where_the_one_before_ends_goes(impl, chance):
    """The third of five segments is missing; the second lost its last batch and ends cleanly; or the second has a whole
    batch more, so that the third begins below its end. And an old segment comes between two that fit."""
    log = log_of(chance)
    del log[2]
    found = recovered(impl, log, log[0].base_offset)
    assert found == (whole(log[:2]), log[1].next_offset), f"the third segment is missing: {found}"
    log = log_of(chance)
    log[1].file.data = log[1].file.data[: log[1].places[-1][2]]
    found = recovered(impl, log, log[0].base_offset)
    assert found == (whole(log[:2]), log[1].places[-1][0]), f"the second segment ends too early: {found}"
    log = log_of(chance)
    log[1].file.data += bytes(batch_of(chance, log[1].next_offset, 1))
    found = recovered(impl, log, log[0].base_offset)
    wanted = (whole(log[:2]), log[1].next_offset + 1)
    assert found == wanted, f"the third segment begins below the end of the second, and goes: {wanted}, not {found}"
    log = log_of(chance)
    wanted = (whole(log[:1]), log[0].next_offset)
    log.insert(1, Good(chance, log[0].places[2][0], batches=2, gaps=False))
    found = recovered(impl, log, log[0].base_offset)
    assert found == wanted, (
        f"the second segment begins below the end of the first: it goes, and so does the third, though that one begins "
        f"where the first ends: {wanted}, not {found}"
    )
