"""What lab 20 asks of a compactor. The logs are drawn by chance; what must stay is computed here in the plainest
way."""

import pytest

KEYS = [b"AA1", b"B62", b"DL3", b"UA4", b"WN5"]
NOW_MS, RETENTION_MS = 1_700_000_000_000, 86_400_000
MANY = 1 << 30


def records_of(impl, chance, offset, count):
    """Records of few keys: some tombstones, some without a key, some offsets missing."""
    found = []
    for _ in range(count):
        offset += chance.choice((0, 0, 1, 4))
        value = None if chance.random() < 0.2 else b"%d" % offset
        key = None if chance.random() < 0.1 else chance.choice(KEYS)
        found.append(impl.Record(offset, key, value if key else b"no key"))
        offset += 1
    return found


def batch_of(impl, records, horizon_ms=None, more=0):
    """A batch of these records, whose last offset may be one that is not there any more."""
    return impl.Batch(records[0].offset, records[-1].offset + more, tuple(records), horizon_ms)


def log_of(impl, chance, segments=6, batches=4):
    """A log of segments, from a first offset that is not 0."""
    found, offset = [], chance.randrange(1, 1 << 40)
    for _ in range(segments):
        its, base = [], offset
        for _ in range(batches):
            its.append(
                batch_of(impl, records_of(impl, chance, offset, chance.randrange(1, 6)), more=chance.choice((0, 3)))
            )
            offset = its[-1].last_offset + 1
        found.append(impl.Segment(base, chance.randrange(100, 1000), tuple(its)))
    return found


def batches_in(segments):
    return [batch for segment in segments for batch in segment.batches]


def records_in(batches):
    return [record for batch in batches for record in batch.records]


def view(records):
    """What a reader knows that has read all of this: key -> value."""
    found = {}
    for record in records:
        if record.key is not None:
            found[record.key] = record.value
    return {key: value for key, value in found.items() if value is not None}


# --- task 20.1 --------------------------------------------------------------------------------------------------------


@pytest.mark.task("20.1", points=2)
def test_the_map_has_the_last_offset_of_each_key(impl, chance):
    """All batches of a log, from its first offset on; records without a key are not in the map. A batch that an earlier
    pass left without records is known, too."""
    batches = batches_in(log_of(impl, chance))
    latest, end = impl.latest_offsets(batches, batches[0].first_offset, MANY)
    wanted = {record.key: record.offset for record in records_in(batches) if record.key is not None}
    assert latest == wanted, f"the map should be {wanted}, not {latest}"
    assert end == batches[-1].last_offset + 1, f"the map knows the log up to {batches[-1].last_offset + 1}, not {end}"
    latest, _ = impl.latest_offsets([batch_of(impl, [impl.Record(4, b"", b"v"), impl.Record(5, None, b"v")])], 4, MANY)
    assert latest == {b"": 4}, f"offset 4 has an empty key, which is a key, and 5 has none: {{b'': 4}}, not {latest}"
    first = batch_of(impl, [impl.Record(4, b"a", b"v")])
    _, end = impl.latest_offsets([first, impl.Batch(5, 8, ())], 4, MANY)
    assert end == 9, f"the last batch has offsets 5 to 8, and no record is left in it: the end is 9, not {end}"


@pytest.mark.task("20.1", points=1)
def test_what_is_clean_already_does_not_go_into_the_map(impl, chance):
    """The dirty part begins at a record in the middle of the log; then after its end; then there is no log at all."""
    batches = batches_in(log_of(impl, chance))
    records = records_in(batches)
    for number in (0, len(records) // 2, len(records) - 1):
        first = records[number].offset
        latest, _ = impl.latest_offsets(batches, first, MANY)
        wanted = {record.key: record.offset for record in records[number:] if record.key is not None}
        assert latest == wanted, f"dirty from {first} on: the map should be {wanted}, not {latest}"
    beyond = batches[-1].last_offset + 100
    found = tuple(impl.latest_offsets(batches, beyond, MANY))
    assert found == ({}, beyond), f"nothing is dirty: ({{}}, {beyond}), not {found}"
    assert tuple(impl.latest_offsets([], 7, MANY)) == ({}, 7), "a log without batches: ({}, 7)"


@pytest.mark.task("20.1", points=2)
def test_a_full_map_takes_no_further_batch(impl, chance):
    """At most 1, 2, 3 and 4 keys: the batch that fills the map goes in as a whole, the next one does not."""
    batches = batches_in(log_of(impl, chance))
    first = batches[0].first_offset
    for most in (1, 2, 3, 4):
        wanted, until = {}, first
        for batch in batches:
            if len(wanted) < most:
                wanted |= {record.key: record.offset for record in batch.records if record.key is not None}
                until = batch.last_offset + 1
        found = tuple(impl.latest_offsets(batches, first, most))
        assert found == (wanted, until), f"{most} keys at most: {(wanted, until)}, not {found}"


# --- task 20.2 --------------------------------------------------------------------------------------------------------


def kept(impl, records, latest, end, stay=True):
    return [record.offset for record in impl.survivors(records, latest, end, stay)]


@pytest.mark.task("20.2", points=2)
def test_a_record_goes_when_a_later_one_has_its_key(impl):
    """Five records of two keys; and one of a key that the map does not have, as it was written long ago."""
    records = [impl.Record(n, key, b"v") for n, key in enumerate((b"a", b"b", b"a", b"c", b"a", b"b"), start=10)]
    found = kept(impl, records, {b"a": 14, b"b": 15}, 16)
    assert found == [13, 14, 15], f"of a, b, a, c, a, b at 10 to 15 stay 13 (c), 14 (a), 15 (b), not {found}"


@pytest.mark.task("20.2", points=1)
def test_a_record_without_a_key_goes(impl):
    """No later record can ever replace it."""
    found = kept(impl, [impl.Record(3, None, b"v"), impl.Record(4, b"", b"v")], {b"": 4}, 9)
    assert found == [4], f"offset 3 has no key, offset 4 has an empty one, which is a key: [4] stays, not {found}"


@pytest.mark.task("20.2", points=2)
def test_a_tombstone_goes_only_when_tombstones_may_go(impl):
    """The last record of a key is a tombstone, an earlier one too; an empty value is no tombstone."""
    records = [
        impl.Record(1, b"a", None),
        impl.Record(2, b"a", b"v"),
        impl.Record(3, b"a", None),
        impl.Record(4, b"b", b""),
    ]
    for stay, wanted in ((True, [3, 4]), (False, [4])):
        found = kept(impl, records, {b"a": 3, b"b": 4}, 5, stay)
        assert found == wanted, f"tombstones {'stay' if stay else 'go'}: {wanted} is left, not {found}"


@pytest.mark.task("20.2", points=1)
def test_what_the_map_does_not_know_stays(impl):
    """Records from the map's end on: also one without a key, and a tombstone."""
    records = [impl.Record(n, key, None) for n, key in enumerate((b"a", b"a", None, b"b"), start=7)]
    found = kept(impl, records, {b"a": 7}, 8, stay=False)
    assert found == [8, 9, 10], f"the map ends at 8: offsets 8, 9 and 10 stay whatever they are, and {found} stayed"


# --- task 20.3 --------------------------------------------------------------------------------------------------------


def cleaned(impl, batch, now_ms=NOW_MS):
    """A batch cleaned with the map that is made of it alone."""
    latest = {record.key: record.offset for record in batch.records}
    return impl.clean_batch(batch, latest, batch.last_offset + 1, now_ms, RETENTION_MS)


@pytest.mark.task("20.3", points=2)
def test_a_batch_keeps_its_offsets(impl, chance):
    """Batches of which records go at the beginning and the end; and one of which nothing stays."""
    for _ in range(20):
        batch = batch_of(impl, records_of(impl, chance, chance.randrange(1 << 40), 12), more=2)
        found = cleaned(impl, batch)
        assert found is not None, f"something stays of {batch}"
        offsets = (found.first_offset, found.last_offset)
        wanted = (batch.first_offset, batch.last_offset)
        assert offsets == wanted, f"a batch from {wanted[0]} to {wanted[1]} keeps these offsets, and has {offsets}"
        latest = {record.key: record.offset for record in batch.records if record.key is not None}
        stay = tuple(r for r in batch.records if r.key is not None and latest[r.key] == r.offset)
        assert tuple(found.records) == stay, f"{stay} stay, not {found.records}"
    lost = impl.Batch(5, 5, (impl.Record(5, b"a", b"v"),))
    found = impl.clean_batch(lost, {b"a": 6}, 7, NOW_MS, RETENTION_MS)
    assert found is None, f"nothing stays of this batch, and None was to be returned, not {found}"


@pytest.mark.task("20.3", points=2)
def test_the_first_visit_decides_when_a_tombstone_goes(impl):
    """A tombstone is visited at once, before its horizon, a millisecond before it, and at it; once with a shorter
    retention. And one whose horizon is 0, as in a test with a clock of its own."""
    batch = impl.Batch(5, 6, (impl.Record(5, b"a", None), impl.Record(6, b"b", b"v")))
    horizon = NOW_MS + RETENTION_MS
    for now in (NOW_MS, NOW_MS + 1000, horizon - 1):
        batch = cleaned(impl, batch, now)
        assert batch.horizon_ms == horizon, f"the first visit was at {NOW_MS}: {horizon}, not {batch.horizon_ms}"
        assert len(batch.records) == 2, f"at {now} the tombstone stays until {horizon}, and it is gone"
    latest = {record.key: record.offset for record in batch.records}
    found = impl.clean_batch(batch, latest, 7, NOW_MS + 1000, 10).horizon_ms
    assert found == horizon, f"the horizon was {horizon}; a visit with a retention of 10 ms changed it to {found}"
    batch = cleaned(impl, batch, horizon)
    assert [record.offset for record in batch.records] == [6], (
        "at its horizon the tombstone goes, and it is there still"
    )
    batch = impl.Batch(5, 6, (impl.Record(5, b"a", None), impl.Record(6, b"b", b"v")), 0)
    left = [record.offset for record in cleaned(impl, batch).records]
    assert left == [6], f"0 is a horizon, and it has come: the tombstone at 5 goes, and {left} stay. None is none"


@pytest.mark.task("20.3", points=1)
def test_a_batch_without_a_tombstone_needs_no_horizon(impl):
    """One without any, one with an empty value, and one whose tombstone was replaced. A horizon that is there stays; a
    tombstone that the map does not know needs one."""
    plain = impl.Batch(5, 5, (impl.Record(5, b"a", b"v"),))
    replaced = impl.Batch(5, 6, (impl.Record(5, b"a", None), impl.Record(6, b"a", b"v")))
    empty = impl.Batch(5, 5, (impl.Record(5, b"a", b""),))
    for batch in (plain, empty, replaced):
        found = cleaned(impl, batch).horizon_ms
        assert found is None, f"no tombstone stays in {batch}, and its horizon became {found}"
    for horizon in (77, 0):
        found = cleaned(impl, plain._replace(horizon_ms=horizon)).horizon_ms
        assert found == horizon, f"the horizon {horizon} became {found}"
    unknown = impl.Batch(5, 6, (impl.Record(5, b"a", b"v"), impl.Record(6, b"b", None)))
    found = impl.clean_batch(unknown, {b"a": 5}, 6, NOW_MS, RETENTION_MS).horizon_ms
    assert found == NOW_MS + RETENTION_MS, (
        f"the map ends at 6, and the tombstone at 6 stays in the batch: the horizon is {NOW_MS + RETENTION_MS}, not "
        f"{found}"
    )


# --- task 20.4 --------------------------------------------------------------------------------------------------------


@pytest.mark.task("20.4", points=2)
def test_small_segments_are_put_together_up_to_the_limit(impl):
    """Sizes that fit exactly, that are a byte too many, and one that is too large by itself."""
    for sizes, wanted in (
        ([], []),
        ([40, 60, 100, 1], [[40, 60], [100], [1]]),
        ([40, 61, 39, 1], [[40], [61, 39], [1]]),
        ([300, 10, 300, 300, 20, 30, 50], [[300], [10], [300], [300], [20, 30, 50]]),
        ([99, 1, 1, 98, 1, 1], [[99, 1], [1, 98, 1], [1]]),
    ):
        segments = [impl.Segment(number, size, ()) for number, size in enumerate(sizes)]
        found = impl.groups(segments, 100)
        told = [[segment.size for segment in group] for group in found]
        assert told == wanted, f"sizes {sizes}, at most 100 together: {wanted}, not {told}"
        assert [segment for group in found for segment in group] == segments, f"the order of {sizes} was changed"


# --- task 20.5 --------------------------------------------------------------------------------------------------------


def passed(impl, log, first_dirty=None, most_keys=MANY, max_bytes=MANY, now_ms=NOW_MS):
    first = log[0].base_offset if first_dirty is None else first_dirty
    return impl.compact(log, first, now_ms, RETENTION_MS, most_keys, max_bytes)


@pytest.mark.task("20.5", points=2)
def test_a_reader_believes_the_same_before_and_after(impl, chance):
    """Twenty logs, from the beginning: the last value of each key, nothing twice, every record as it was."""
    for _ in range(20):
        log = log_of(impl, chance)
        segments, end = passed(impl, log)
        before = records_in(batches_in(log))
        after = [record for batches in segments for record in records_in(batches)]
        assert view(after) == view(before), f"a reader believed {view(before)} before and {view(after)} now"
        keys = [record.key for record in after]
        assert len(keys) == len(set(keys)), f"of one key there is one record left, and here are {keys}"
        assert set(after) <= set(before), "a record was changed"
        assert end == log[-1].batches[-1].last_offset + 1, f"all is clean now, and the pass says: up to {end}"


@pytest.mark.task("20.5", points=2)
def test_a_full_map_ends_the_pass_early(impl, chance):
    """Two keys at most: records after the map's end are as they were, and segments from there on are left out."""
    for number in range(10):
        log = log_of(impl, chance, batches=1 if number % 2 else 4)
        segments, end = passed(impl, log, most_keys=2, max_bytes=0)
        batches = batches_in(log)
        _, known = plain_map(batches, 2)
        assert end == known, f"the map knows the log up to {known}, and the pass says {end}"
        reached = sum(segment.base_offset < end for segment in log)
        assert len(segments) == reached, f"{reached} segments begin before {end}, and {len(segments)} were written"
        before = [record for record in records_in(batches_in(log[:reached])) if record.offset >= end]
        after = [record for batches in segments for record in records_in(batches) if record.offset >= end]
        assert after == before, f"from {end} on nothing is known, and {len(before)} records became {len(after)}"


def plain_map(batches, most):
    keys, end = set(), batches[0].first_offset
    for batch in batches:
        if len(keys) < most:
            keys |= {record.key for record in batch.records if record.key is not None}
            end = batch.last_offset + 1
    return keys, end


@pytest.mark.task("20.5", points=2)
def test_each_new_segment_ends_where_it_ended(impl, chance):
    """Segments all of whose records are replaced: the last batch of each new one stays without records, others go. So
    it is in the next pass: a batch without records stays where it is the last one, and goes where it is not."""
    segments = []
    for number in range(4):
        records = [impl.Record(10 * number + n, b"a", b"v") for n in range(10)]
        its = (batch_of(impl, records[:5]), batch_of(impl, records[5:], horizon_ms=NOW_MS + 9))
        segments.append(impl.Segment(10 * number, 50, its))
    for most, ends in ((100, [19, 39]), (50, [9, 19, 29, 39]), (MANY, [39])):
        found, _ = passed(impl, segments, max_bytes=most)
        told = [[batch.last_offset for batch in batches] for batches in found]
        assert told == [[end] for end in ends], f"at most {most} bytes: one batch each, up to {ends}, not {told}"
        empty = [batches[0] for batches in found[:-1]]
        assert all(tuple(batch.records) == () for batch in empty), f"these records were replaced: {empty}"
    before, _ = passed(impl, segments, max_bytes=100)
    offsets = [[(batch.first_offset, batch.last_offset) for batch in batches] for batches in before]
    assert offsets == [[(15, 19)], [(35, 39)]], (
        f"the last batches of the two new segments have offsets 15 to 19 and 35 to 39, with records or without: not"
        f" {offsets}"
    )
    again = [impl.Segment(20 * number, 50, tuple(batches)) for number, batches in enumerate(before)]
    for most, ends in ((50, [[19], [39]]), (100, [[39]])):
        found, _ = passed(impl, again, first_dirty=40, max_bytes=most)
        told = [[batch.last_offset for batch in batches] for batches in found]
        assert told == ends, (
            f"the batch up to 19 has no records; at most {most} bytes together make segments whose batches end at"
            f" {ends}, not at {told}: it stays only where it is the last batch of a new segment"
        )
    first = batch_of(impl, [impl.Record(0, b"b", b"v"), impl.Record(1, b"a", b"v")])
    last, end = (batch_of(impl, [impl.Record(number, b"a", b"v")]) for number in (2, 3))
    its = [impl.Segment(0, 50, (first, last)), impl.Segment(3, 50, (end,))]
    found, _ = passed(impl, its, max_bytes=50)
    told = [[(batch.last_offset, len(batch.records)) for batch in batches] for batches in found]
    assert told == [[(1, 1), (2, 0)], [(3, 1)]], (
        f"the first segment keeps a record, and its last batch without any: last offsets and records are "
        f"[[(1, 1), (2, 0)], [(3, 1)]], not {told}"
    )


@pytest.mark.task("20.5", points=1)
def test_a_second_pass_looks_at_what_was_clean_too(impl, chance):
    """A log cleaned once, then new records of the same keys: the old ones go, and after the horizon the tombstones. A
    clean record whose key has not come again stays."""
    log = log_of(impl, chance)
    segments, end = passed(impl, log)
    clean = impl.Segment(log[0].base_offset, 500, tuple(segments[0]))
    news = tuple(impl.Record(end + n, key, None) for n, key in enumerate(KEYS))
    dirty = impl.Segment(end, 100, (impl.Batch(end, end + 4, news),))
    segments, end = passed(impl, [clean, dirty], first_dirty=end)
    left = [record for batches in segments for record in records_in(batches)]
    assert left == list(news), f"each key has a tombstone now, and nothing else stays: {left}"
    again = [impl.Segment(log[0].base_offset, 500, tuple(segments[0]))]
    segments, _ = passed(impl, again, first_dirty=end, now_ms=NOW_MS + RETENTION_MS)
    left = [record for batches in segments for record in records_in(batches)]
    assert left == [], f"a day later the tombstones go: {left}"
    old = impl.Segment(0, 50, (batch_of(impl, [impl.Record(0, b"kept", b"v"), impl.Record(1, b"a", b"v")]),))
    new = impl.Segment(2, 50, (batch_of(impl, [impl.Record(2, b"a", b"w")]),))
    segments, _ = passed(impl, [old, new], first_dirty=2)
    left = [record.offset for batches in segments for record in records_in(batches)]
    assert left == [0, 2], f"offset 0 is clean, and its key has not come again: [0, 2] stay, not {left}"
