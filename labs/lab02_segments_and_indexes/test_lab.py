"""What lab 02 asks of a lookup. The segments are made of real record batches; what the functions read is written down,
since the point of an index is what need not be read."""

import struct
from itertools import accumulate

import pytest

from pykraft.records.builder import RecordBatchBuilder

HEADER_BYTES = 61
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

    def forget(self):
        self.touched.clear()


class Segment:
    """A log of batches of 1 to 40 records, some offsets missing between batches and at the end of one, with the two
    indexes that belong to it."""

    def __init__(self, chance, batches=120, base_offset=None):
        self.base_offset = chance.randrange(1 << 40) if base_offset is None else base_offset
        self.places = []  # (first offset, last offset, position)
        self.times = []  # the largest timestamp up to each batch
        log, index, time_index = bytearray(), bytearray(), bytearray()
        self.index_entries, self.time_entries = [], []
        offset, now, since = self.base_offset, chance.randrange(1 << 40), 0
        for _ in range(batches):
            offset += chance.choice((0, 0, 0, 1, 5))  # what compaction leaves: gaps
            builder = RecordBatchBuilder(offset)
            for _ in range(chance.randrange(1, 41)):
                builder.append(now, b"key", b"v" * chance.randrange(40))
            batch = builder.build()
            last = offset + builder.count - 1 + chance.choice((0, 0, 1, 7))
            batch[23:27] = struct.pack(">i", last - offset)
            if since > INTERVAL_BYTES:
                self.index_entries.append((last, len(log)))
                self.time_entries.append((now, last))
                index += struct.pack(">ii", last - self.base_offset, len(log))
                time_index += struct.pack(">qi", now, last - self.base_offset)
                since = 0
            self.places.append((offset, last, len(log)))
            since += len(batch)
            log += batch
            offset = last + 1
            now += chance.randrange(1, 5000)
        self.end = offset
        self.log, self.index, self.time_index = File(log), File(index), File(time_index)


def most_steps(entries):
    """How many entries a binary search looks at, at the most."""
    return entries.bit_length() + 1


# --- task 2.1 ---------------------------------------------------------------------------------------------------------


@pytest.mark.task("2.1", points=1)
def test_an_offset_is_in_the_last_segment_that_does_not_begin_above_it(impl, chance):
    """Thirty segments with random base offsets, and every offset near a border."""
    bases = sorted(chance.sample(range(100, 100_000), 30))
    for base in bases:
        for offset in (base - 1, base, base + 1):
            found, wanted = impl.find_segment(bases, offset), max((b for b in bases if b <= offset), default=None)
            assert found == wanted, f"offset {offset:,} is in the segment {wanted}, not in {found}: {bases}"


@pytest.mark.task("2.1", points=1)
def test_an_offset_before_the_first_segment_is_in_none_and_a_large_one_is_in_the_last(impl):
    """Offsets 0 and 99 of a log that begins at 100, and one far past its end. And a log without segments."""
    assert impl.find_segment([100, 200, 300], 0) is None, "offset 0 is in no segment of a log that begins at 100"
    assert impl.find_segment([100, 200, 300], 99) is None, "offset 99 is in no segment of a log that begins at 100"
    assert impl.find_segment([100, 200, 300], 1 << 60) == 300, "what is past the end belongs to the last segment"
    assert impl.find_segment([], 5) is None, "where there is no segment there is None"


# --- task 2.2 ---------------------------------------------------------------------------------------------------------


@pytest.mark.task("2.2", points=2)
def test_each_entry_is_found_by_its_own_offset_and_by_those_up_to_the_next(impl, chance):
    """An index with large base offset: for each entry its own offset, the one before, the one after."""
    segment = Segment(chance)
    for offset in sorted({o + d for o, _ in segment.index_entries for d in (-1, 0, 1)}):
        found = impl.lookup_offset(segment.index, len(segment.index_entries), segment.base_offset, offset)
        wanted = max((e for e in segment.index_entries if e[0] <= offset), default=(segment.base_offset, 0))
        assert tuple(found) == wanted, f"offset {offset:,}: the entry is {wanted}, not {tuple(found)}"


@pytest.mark.task("2.2", points=1)
def test_an_offset_before_the_first_entry_is_looked_for_from_the_beginning(impl, chance):
    """The base offset itself, and an index without any entry: (base offset, 0)."""
    segment = Segment(chance)
    for entries in (len(segment.index_entries), 0):
        found = impl.lookup_offset(segment.index, entries, segment.base_offset, segment.base_offset)
        assert tuple(found) == (segment.base_offset, 0), f"with {entries} entries: {found}"


@pytest.mark.task("2.2", points=2)
def test_a_lookup_reads_a_handful_of_entries_and_not_the_index(impl, chance):
    """A large index: each lookup may read one entry for each time that the index can be halved."""
    count = 5000
    offsets = list(accumulate(chance.randrange(1, 60) for _ in range(count)))
    index = File(b"".join(struct.pack(">ii", offset, 4000 * (n + 1)) for n, offset in enumerate(offsets)))
    for _ in range(50):
        index.forget()
        offset = chance.randrange(offsets[-1] + 100)
        impl.lookup_offset(index, count, 0, offset)
        steps = len(index.touched)
        assert 0 < steps <= most_steps(count), f"{steps} reads for one of {count:,} entries"
        assert all(length <= 8 for _, length in index.touched), "a read of more than one entry"


# --- task 2.3 ---------------------------------------------------------------------------------------------------------


@pytest.mark.task("2.3", points=2)
def test_every_offset_is_found_in_its_batch(impl, chance):
    """All offsets of a segment, from the start of the log: the first, those in the middle, the last of each batch, also
    where compaction has taken the last records of a batch: its last offset is still the one in the header."""
    segment = Segment(chance, batches=25)
    for first, last, position in segment.places:
        for offset in range(first, last + 1):
            found = impl.find_batch(segment.log, len(segment.log.data), 0, offset)
            assert found == position, f"offset {offset} is in the batch at {position} ({first} to {last}), not {found}"


@pytest.mark.task("2.3", points=1)
def test_an_offset_that_compaction_removed_leads_to_the_next_batch(impl, chance):
    """Offsets between two batches."""
    segment = Segment(chance)
    for (_, last, _), (first, _, position) in zip(segment.places, segment.places[1:], strict=False):
        for offset in range(last + 1, first):
            found = impl.find_batch(segment.log, len(segment.log.data), 0, offset)
            assert found == position, f"nothing has offset {offset}: the next batch begins at {position}, not {found}"


@pytest.mark.task("2.3", points=1)
def test_past_the_last_batch_there_is_nothing(impl, chance):
    """The offset that will be written next, and a log without any batch."""
    segment = Segment(chance, batches=10)
    found = impl.find_batch(segment.log, len(segment.log.data), 0, segment.end)
    assert found is None, f"offset {segment.end} is not written yet, and was found at {found}"
    assert impl.find_batch(File(b""), 0, 0, 7) is None, "an empty log holds nothing"


@pytest.mark.task("2.3", points=2)
def test_the_scan_begins_at_its_position_and_reads_headers_only(impl, chance):
    """From the position that an index would give: what is before it is not touched, nor are any records."""
    segment = Segment(chance)
    for number in range(0, len(segment.places), 7):
        begin = segment.places[number][2]
        first, _, position = segment.places[min(number + 3, len(segment.places) - 1)]
        segment.log.forget()
        found = impl.find_batch(segment.log, len(segment.log.data), begin, first)
        assert found == position, f"offset {first} from {begin} on: {found} instead of {position}"
        before = [at for at, _ in segment.log.touched if at < begin]
        assert not before, f"byte {before[:1]} was read, though the scan begins at {begin}"
        starts = {place[2] for place in segment.places}
        read = {byte for at, length in segment.log.touched for byte in range(at, at + length)}
        headers = {byte for start in starts for byte in range(start, start + HEADER_BYTES)}
        assert read <= headers, f"{len(read - headers)} bytes were read that belong to no header"
        assert max(read) < position + HEADER_BYTES, "the scan went on after the batch that it had found"


# --- task 2.4 ---------------------------------------------------------------------------------------------------------


@pytest.mark.task("2.4", points=2)
def test_each_time_is_found_and_those_up_to_the_next(impl, chance):
    """A time index with large timestamps: for each entry its own time, a millisecond before, a millisecond after."""
    segment = Segment(chance)
    for timestamp in sorted({t + d for t, _ in segment.time_entries for d in (-1, 0, 1)}):
        found = impl.lookup_time(segment.time_index, len(segment.time_entries), segment.base_offset, timestamp)
        wanted = max((e for e in segment.time_entries if e[0] <= timestamp), default=(-1, segment.base_offset))
        assert tuple(found) == wanted, f"time {timestamp:,}: the entry is {wanted}, not {tuple(found)}"


@pytest.mark.task("2.4", points=1)
def test_before_the_first_time_there_is_the_beginning(impl, chance):
    """A time before all entries, and an index without any: (-1, base offset). Entries of the times -1 and 0 are
    entries like others."""
    segment = Segment(chance)
    for entries in (len(segment.time_entries), 0):
        found = impl.lookup_time(segment.time_index, entries, segment.base_offset, 0)
        assert tuple(found) == (-1, segment.base_offset), f"with {entries} entries: {found}"
    early = File(struct.pack(">qiqiqi", -1, 3, 0, 4, 9, 7))
    for timestamp, wanted in ((-1, (-1, 303)), (5, (0, 304))):
        found = impl.lookup_time(early, 3, 300, timestamp)
        assert tuple(found) == wanted, f"entries of the times -1, 0, 9: at {timestamp} it is {wanted}, not {found}"


@pytest.mark.task("2.4", points=1)
def test_a_lookup_by_time_reads_a_handful_of_entries(impl, chance):
    """A large time index, as in task 2.2; an entry has 12 bytes."""
    count = 5000
    times = list(accumulate(chance.randrange(1, 90_000) for _ in range(count)))
    index = File(b"".join(struct.pack(">qi", time, 10 * (n + 1)) for n, time in enumerate(times)))
    for _ in range(50):
        index.forget()
        impl.lookup_time(index, count, 0, chance.randrange(times[-1] + 100))
        steps = len(index.touched)
        assert 0 < steps <= most_steps(count), f"{steps} reads for one of {count:,} entries"
        assert all(length <= 12 for _, length in index.touched), "a read of more than one entry"
