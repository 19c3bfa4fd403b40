"""What lab 10 asks of a history. Histories are drawn by the seed: what is lost in them was left out on purpose."""

import pytest


def history_of(impl, chance, records=40, gone=(), stop=None, has_end=True, named=True):
    """A history of a cluster that has lost the records `gone`: their offsets hold nothing, as after a compaction, or
    those of others. The reader stops before the offset `stop`. Without `named` no acknowledgement names an offset."""
    events = [impl.Sent(number) for number in range(records)]
    offsets = {number: number + 3 for number in range(records)}
    acknowledged = [impl.Acknowledged(number, offsets[number] if named else -1) for number in range(records)]
    chance.shuffle(acknowledged)
    read = [impl.Read(offsets[n], n) for n in range(records) if n not in gone and (stop is None or offsets[n] < stop)]
    return [*events, *acknowledged, *read, *([impl.End(records + 3)] if has_end else [])]


# --- task 10.1 --------------------------------------------------------------------------------------------------------


@pytest.mark.task("10.1", points=2)
def test_each_record_that_was_sent_has_an_outcome(impl):
    """Four records: acknowledged, failed, neither, and acknowledged without an offset."""
    history = [impl.Sent(n) for n in range(4)] + [impl.Failed(1), impl.Acknowledged(0, 7), impl.Acknowledged(3, -1)]
    found = impl.outcomes(history)
    wanted = {0: "acknowledged", 1: "failed", 2: "unknown", 3: "acknowledged"}
    assert found == wanted, f"the outcomes are {wanted}, and you say {found}"
    assert impl.outcomes([]) == {}, "an empty history has no outcomes, and you found some"
    found = impl.outcomes([impl.Sent(0), impl.Read(0, 0)])
    assert found == {0: "unknown"}, f"record 0 was read, but the producer has said nothing: unknown, and not {found}"


@pytest.mark.task("10.1", points=1)
def test_the_order_of_events_of_different_records_does_not_matter(impl):
    """An acknowledgement before the next record is sent, and a reader that is earlier than the producer's answer."""
    history = [impl.Sent(0), impl.Acknowledged(0, 5), impl.Sent(1), impl.Read(6, 1), impl.Acknowledged(1, 6)]
    found = impl.outcomes(history)
    assert found == {0: "acknowledged", 1: "acknowledged"}, f"both are acknowledged, and you say {found}"


@pytest.mark.task("10.1", points=2)
def test_the_position_is_after_the_last_record_that_was_read(impl):
    """Nothing read, one record, records with gaps between them, and a log that goes on."""
    assert impl.position([impl.Sent(0), impl.Acknowledged(0, 9)]) == 0, "nothing was read: the position is 0"
    for offsets in ([0], [4], [2, 3, 9]):
        found = impl.position([impl.Read(offset, offset) for offset in offsets])
        assert found == offsets[-1] + 1, f"records at {offsets} were read: {offsets[-1] + 1} is next, not {found}"
    found = impl.position([impl.Read(3, 0), impl.End(9)])
    assert found == 4, f"offset 3 was read, and the log ends at 9: the reader asks for 4 next, not for {found}"


# --- task 10.2 --------------------------------------------------------------------------------------------------------


@pytest.mark.task("10.2", points=3)
def test_what_was_acknowledged_and_is_not_there_is_lost(impl, chance):
    """Forty records of which none, one, or five are gone, never the last. The reader has reached the end. Then the very
    first offset, a log in which nothing is left, and a log whose end was truncated."""
    for count in (0, 1, 5):
        gone = sorted(chance.sample(range(39), count))  # without the last one the end would not be reached
        found = impl.lost(history_of(impl, chance, gone=gone))
        assert found == gone, f"the lost records are {gone}, and you found {found}"
    found = impl.lost([impl.Sent(0), impl.Acknowledged(0, 0), impl.Read(1, 5)])
    assert found == [0], f"record 0 was acknowledged at offset 0, which the reader has passed, and you found {found}"
    for offset in (0, -1):
        found = impl.lost([impl.Sent(0), impl.Acknowledged(0, offset), impl.End(0)])
        assert found == [0], f"the log ends at 0, so nothing is in it: record 0 is lost, and you found {found}"
    places = range(5)
    history = [*map(impl.Sent, places), *map(impl.Acknowledged, places, places), *map(impl.Read, range(3), range(3))]
    found = impl.lost([*history, impl.End(3)])
    assert found == [3, 4], (
        f"0 to 4 were acknowledged at offsets 0 to 4, and the log ends at 3, where the reader is: 3 and 4 are lost, "
        f"and you found {found}"
    )


@pytest.mark.task("10.2", points=1)
def test_what_was_read_at_another_offset_is_not_lost(impl):
    """Record 0 was acknowledged at offset 1, which has record 7; record 0 is at offset 2. Then it is nowhere."""
    found = impl.lost([impl.Sent(0), impl.Acknowledged(0, 1), impl.Read(1, 7), impl.Read(2, 0), impl.End(3)])
    assert found == [], f"record 0 was read, though not where it was promised: it is not lost, and you found {found}"
    found = impl.lost([impl.Sent(0), impl.Acknowledged(0, 1), impl.Read(1, 7), impl.Read(2, 1)])
    assert found == [0], (
        f"record 0 was acknowledged at offset 1, which the reader has passed; record 7 is there, and 0 was not read: it"
        f" is lost, whatever else is at its place, and you found {found}"
    )


@pytest.mark.task("10.2", points=2)
def test_what_failed_or_is_unknown_is_not_lost(impl):
    """A record that failed, and one of which nothing was heard; both are not in the log."""
    history = [impl.Sent(0), impl.Sent(1), impl.Sent(2), impl.Failed(0), impl.Acknowledged(2, 1), impl.Read(1, 2)]
    found = impl.lost([*history, impl.End(2)])
    assert found == [], f"record 0 failed and 1 is unknown, so none is lost, and you found {found}"


@pytest.mark.task("10.2", points=2)
def test_what_the_reader_has_not_reached_is_not_lost_yet(impl, chance):
    """The reader stops at offset 20, with and without an end; two records before it are gone."""
    for has_end in (True, False):
        found = impl.lost(history_of(impl, chance, gone=(4, 9), stop=20, has_end=has_end))
        assert found == [4, 9], f"the reader stopped at 20: only 4 and 9 are certainly gone, and you found {found}"


@pytest.mark.task("10.2", points=2)
def test_without_an_offset_only_the_end_tells(impl, chance):
    """acks=0: no offset is named. The reader stops early, and then it reaches the end."""
    early = impl.lost(history_of(impl, chance, gone=(4, 9), stop=20, named=False))
    assert early == [], (
        f"no offset was named and the end is not reached, so none is certainly lost, and you found {early}"
    )
    late = impl.lost(history_of(impl, chance, gone=(4, 9), named=False))
    assert late == [4, 9], f"the reader has reached the end: 4 and 9 are lost, and you found {late}"


@pytest.mark.task("10.2", points=1)
def test_an_end_that_is_not_reached_decides_nothing(impl):
    """The log ends at 9, and the reader is at 8, or at 9."""
    history = [impl.Sent(0), impl.Acknowledged(0, -1), impl.End(9)]
    for offset, wanted in ((7, []), (8, [0])):
        found = impl.lost([*history, impl.Read(offset, 5)])
        assert found == wanted, (
            f"the log ends at 9 and the position is {offset + 1}: certainly lost are {wanted}, and you found {found}"
        )


# --- task 10.3 --------------------------------------------------------------------------------------------------------


@pytest.mark.task("10.3", points=2)
def test_a_record_that_was_read_twice_is_named_once(impl):
    """Records that come once, twice and three times, in a whole history; then one that failed, and comes twice."""
    numbers = range(17)
    history = [*map(impl.Sent, numbers), *map(impl.Acknowledged, numbers, numbers)]
    read = [impl.Read(offset, number) for offset, number in enumerate([16, 9, 16, 4, 9, 9])]
    found = impl.repeated([*history, *read, impl.End(6)])
    assert found == [9, 16], (
        f"9 and 16 were read more than once, and 4 once; all were acknowledged: [9, 16], in order, and you say {found}"
    )
    history = [impl.Sent(0), impl.Sent(1), impl.Failed(0), impl.Read(0, 0), impl.Read(1, 1), impl.Read(2, 0)]
    found = impl.repeated([*history, impl.Read(3, 1)])
    assert found == [0, 1], (
        f"0 failed, of 1 the producer has said nothing, and both were read twice: [0, 1] are repeated, and you say"
        f" {found}"
    )


@pytest.mark.task("10.3", points=3)
def test_another_record_at_the_offset_that_was_named_is_a_move(impl):
    """Records that are where they were acknowledged, whose place has another, and whose place was not read. Of two that
    moved one was read elsewhere and one nowhere. A record at two offsets, of which each was promised to another."""
    promised = [impl.Acknowledged(4, 13), impl.Acknowledged(0, 10), impl.Acknowledged(1, 11)]
    history = [*promised, impl.Acknowledged(2, 12), impl.Acknowledged(3, -1)]
    found = impl.moved([*history, impl.Read(10, 0), impl.Read(11, 9), impl.Read(13, 1)])
    assert found == [1, 4], (
        f"offset 11 was promised to record 1 and has record 9; offset 13 was promised to 4 and has 1: [1, 4], in order,"
        f" and you say {found}"
    )
    found = impl.moved([impl.Acknowledged(0, 4), impl.Read(3, 5), impl.Read(6, 0)])
    assert found == [], (
        f"offset 4 was promised to record 0, which is at 6; but no record was read at 4, and that decides nothing: none"
        f" has moved, and you say {found}"
    )
    found = impl.moved([impl.Acknowledged(0, 3), impl.Acknowledged(1, 4), impl.Read(3, 5), impl.Read(4, 5)])
    assert found == [0, 1], (
        f"offset 3 was promised to record 0 and 4 to record 1, and record 5 was read at both: [0, 1], and you say"
        f" {found}"
    )


# --- task 10.4 --------------------------------------------------------------------------------------------------------


@pytest.mark.task("10.4", points=2)
def test_a_verdict_needs_no_end_where_a_loss_is_certain(impl, chance):
    """Two records are gone; the reader is at the end, or has passed their places. And a record that moved, with an end
    and without."""
    for stop, has_end in ((None, True), (20, False)):
        found = impl.verdict(history_of(impl, chance, gone=(4, 9), stop=stop, has_end=has_end))
        assert found == "broken", f"two acknowledged records are gone for sure, and your verdict is {found!r}"
    found = impl.verdict(history_of(impl, chance, gone=(4, 9), named=False))
    assert found == "broken", f"no offset was named, and the end shows that two are gone: your verdict is {found!r}"
    history = [impl.Sent(0), impl.Acknowledged(0, 1), impl.Read(1, 7), impl.Read(2, 0)]
    for end in ([impl.End(3)], []):
        found = impl.verdict(history + end)
        about = "the log ends at 3" if end else "no end came"
        assert found == "broken", (
            f"offset 1 was promised to record 0 and has record 7, {about}: your verdict is {found!r}"
        )


@pytest.mark.task("10.4", points=2)
def test_a_verdict_is_unknown_while_a_record_may_come(impl, chance):
    """Nothing is gone, and the reader has not reached the last records; with names and without, with an end and
    without."""
    for named, has_end in ((True, False), (False, False), (True, True), (False, True)):
        found = impl.verdict(history_of(impl, chance, stop=20, has_end=has_end, named=named))
        end = "the log ends at 43" if has_end else "no end came"
        assert found == "unknown", (
            f"the reader is at offset 20, {end}, and records that were acknowledged may come: your verdict is {found!r}"
        )


@pytest.mark.task("10.4", points=2)
def test_a_cluster_that_kept_its_word_is_fine(impl, chance):
    """All that was acknowledged was read, with an end and without; failed and unknown ones were read or not; one came
    twice; and nothing was acknowledged."""
    for has_end in (True, False):
        found = impl.verdict(history_of(impl, chance, has_end=has_end))
        end = "the end came" if has_end else "no end came"
        assert found == "fine", f"every acknowledged record was read, {end}, and your verdict is {found!r}"
    found = impl.verdict([impl.Sent(0), impl.Failed(0)])
    assert found == "fine", f"nothing was acknowledged, so no promise is open: your verdict is {found!r}"
    history = [impl.Sent(n) for n in range(4)] + [impl.Failed(0), impl.Failed(1), impl.Acknowledged(3, 1)]
    read = [impl.Read(0, 1), impl.Read(1, 3), impl.Read(2, 3), impl.End(3)]
    found = impl.verdict(history + read)
    assert found == "fine", f"nothing was promised of 0, 1 and 2, and 3 is there: your verdict is {found!r}"
