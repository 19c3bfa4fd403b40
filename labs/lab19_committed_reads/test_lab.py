"""What lab 19 asks of a reader of committed data. The wanted answers follow from the definitions alone, by looking at
every transaction for every offset: slow, and hard to get wrong."""

import pytest

HIGH = 10**9
UNTOLD = -1
"""The offset of an abort marker, as a client knows it: a Fetch response does not have it."""


class Log:
    """A log that is written down batch by batch."""

    def __init__(self):
        self.batches = []
        self.end = 0

    def add(self, kind, producer_id=-1, records=1):
        """Append a batch; its first offset."""
        first, self.end = self.end, self.end + records
        self.batches.append((kind, producer_id, first, self.end - 1))
        return first


def log_of(*said):
    """A log from words such as ("data", 3) or ("abort", 7)."""
    log = Log()
    for kind, producer_id, *records in said:
        log.add(kind, producer_id, *records)
    return log


def drawn_log(chance, batches=60, producers=(1, 2, 3)):
    """Transactions of some producers that overlap, with other data and markers of empty transactions between them; some
    are open at the end."""
    log, begun = Log(), set()
    for _ in range(batches):
        producer_id = chance.choice(producers)
        drawn = chance.random()
        if drawn < 0.1 and producer_id not in begun:
            log.add(chance.choice(("commit", "abort")), producer_id)
        elif drawn < 0.2:
            log.add("data", -1, chance.randrange(1, 4))
        elif drawn < 0.75 or producer_id not in begun:
            log.add("transactional", producer_id, chance.randrange(1, 4))
            begun.add(producer_id)
        else:
            log.add(chance.choice(("commit", "abort")), producer_id)
            begun.discard(producer_id)
    return log


def transactions(batches):
    """All transactions as (producer id, first offset, offset of the marker or None, "commit", "abort" or None)."""
    found, begun = [], {}
    for kind, producer_id, first, _ in batches:
        if kind == "transactional" and producer_id not in begun:
            begun[producer_id] = first
        elif kind in ("commit", "abort") and producer_id in begun:
            found.append((producer_id, begun.pop(producer_id), first, kind))
    return found + [(producer_id, first, None, None) for producer_id, first in begun.items()]


def wanted_stable(log, high_watermark):
    """The largest offset up to the high watermark before which no undecided transaction begins."""
    undecided = [
        first
        for _, first, marker, _ in transactions(log.batches)
        if first < high_watermark and (marker is None or marker >= high_watermark)
    ]
    return min([high_watermark, *undecided])


def equal_stable(impl, log, high_watermark):
    found, wanted = impl.last_stable_offset(iter(log.batches), high_watermark), wanted_stable(log, high_watermark)
    assert found == wanted, (
        f"with the high watermark at {high_watermark} and the log {log.batches[-8:]} (its end) the last stable offset "
        f"is {wanted}, not {found}"
    )


# --- task 19.1 --------------------------------------------------------------------------------------------------------


@pytest.mark.task("19.1", points=1)
def test_without_transactions_all_below_the_high_watermark_is_stable(impl):
    """A log of five batches without transactions, an empty log, and a transaction that begins at the high watermark."""
    equal_stable(impl, log_of(*[("data", -1, 2)] * 5), 10)
    equal_stable(impl, log_of(), 0)
    for above in range(3):
        equal_stable(impl, log_of(("data", -1), *[("data", -1)] * above, ("transactional", 1)), 1)


@pytest.mark.task("19.1", points=2)
def test_the_earliest_open_transaction_bounds_the_reader(impl):
    """Three producers begin one after the other; the second commits."""
    log = log_of(("data", -1), ("transactional", 1), ("transactional", 2), ("transactional", 3), ("commit", 2))
    equal_stable(impl, log, log.end)


@pytest.mark.task("19.1", points=2)
def test_a_transaction_begins_with_its_first_batch(impl):
    """An open transaction of three batches, with data between them."""
    log = log_of(("data", -1), ("transactional", 1), ("data", -1), ("transactional", 1), ("transactional", 1))
    equal_stable(impl, log, log.end)


@pytest.mark.task("19.1", points=2)
def test_a_marker_above_the_high_watermark_ends_nothing_yet(impl):
    """A commit marker that no follower has copied."""
    log = log_of(("transactional", 1), ("data", -1), ("commit", 1), ("data", -1))
    for high_watermark in (2, 3, 4):
        equal_stable(impl, log, high_watermark)


@pytest.mark.task("19.1", points=1)
def test_a_marker_without_a_transaction_changes_nothing(impl):
    """The marker of a producer that wrote into other partitions only."""
    log = log_of(("abort", 5), ("transactional", 1), ("commit", 5))
    equal_stable(impl, log, log.end)


@pytest.mark.task("19.1", points=2)
def test_the_stable_offset_is_right_at_every_high_watermark(impl, chance):
    """Three logs of 40 batches, and the high watermark at the end of each batch."""
    for _ in range(3):
        log = drawn_log(chance, 40)
        for *_, last in log.batches:
            equal_stable(impl, log, last + 1)


# --- task 19.2 --------------------------------------------------------------------------------------------------------


def equal_index(impl, log):
    found = impl.aborted_transactions(iter(log.batches))
    ended = sorted(marker_of for marker_of in transactions(log.batches) if marker_of[3] == "abort")
    wanted = sorted(((one, first, marker) for one, first, marker, _ in ended), key=lambda each: each[2])
    assert list(map(tuple, found)) == wanted, f"the log {log.batches[-8:]} (its end) has {wanted}, not {found}"


@pytest.mark.task("19.2", points=2)
def test_the_index_has_each_abort_with_the_begin_of_its_transaction(impl, chance):
    """Transactions that overlap: some commit, some abort, some stay open."""
    equal_index(impl, log_of(("transactional", 1), ("transactional", 2), ("abort", 2), ("commit", 1)))
    for _ in range(5):
        equal_index(impl, drawn_log(chance))


@pytest.mark.task("19.2", points=2)
def test_a_marker_without_a_transaction_is_no_entry(impl):
    """Abort markers of producers that have written nothing since their last marker."""
    equal_index(impl, log_of(("abort", 5), ("transactional", 1), ("abort", 1), ("abort", 1)))


@pytest.mark.task("19.2", points=1)
def test_a_producer_may_abort_several_times(impl):
    """Three transactions of one producer: abort, commit, abort."""
    ends = ("abort", "commit", "abort")
    equal_index(impl, log_of(*[each for end in ends for each in (("transactional", 7, 2), (end, 7))]))


@pytest.mark.task("19.2", points=3)
def test_a_fetch_that_ends_where_a_transaction_begins_does_not_need_it(impl):
    """A transaction from offset 10 to its marker at 20, and fetches around it."""
    for fetch_offset, end_offset, overlaps in (
        (0, 10, False),
        (0, 11, True),
        (12, 15, True),
        (20, 30, True),
        (21, 30, False),
        (0, 100, True),
    ):
        found = impl.overlapping([(1, 10, 20)], fetch_offset, end_offset)
        assert bool(found) == overlaps, (
            f"a fetch of the offsets {fetch_offset} to {end_offset - 1} {'needs' if overlaps else 'does not need'} the "
            f"transaction that begins at 10 and has its marker at 20; you return {found}"
        )


@pytest.mark.task("19.2", points=1)
def test_overlapping_keeps_the_order(impl, chance):
    """An index of twenty transactions."""
    index = [(chance.randrange(5), 10 * n, 10 * n + chance.randrange(5, 40)) for n in range(20)]
    index.sort(key=lambda each: each[2])
    found = list(map(tuple, impl.overlapping(iter(index), 60, 130)))
    wanted = [each for each in index if each[2] >= 60 and each[1] < 130]
    assert found == wanted, f"of {index} a fetch from 60 to 129 needs {wanted}, not {found}"


# --- task 19.3 --------------------------------------------------------------------------------------------------------


def equal_reading(impl, chance, log, start=0):
    """A fetch from this batch on, up to the last stable offset."""
    stable = wanted_stable(log, HIGH if not log.batches else log.end)
    fetched = [batch for batch in log.batches[start:] if batch[3] < stable]
    if not fetched:
        return
    all_of_it = transactions(log.batches)
    aborted = [(one, first, marker) for one, first, marker, end in all_of_it if end == "abort"]
    aborted = [each for each in aborted if each[2] >= fetched[0][2] and each[1] < stable]
    listed = [(one, first, UNTOLD) for one, first, _ in aborted]
    chance.shuffle(listed)
    reader = impl.CommittedReader(list(listed))
    for batch in fetched:
        kind, producer_id, first, _ = batch
        is_aborted = any(one == producer_id and begin <= first < marker for one, begin, marker in aborted)
        wanted = kind == "data" or (kind == "transactional" and not is_aborted)
        found = reader.shows(batch)
        assert bool(found) == wanted, (
            f"the batch {batch} of a fetch from offset {fetched[0][2]} on, with the aborted transactions {listed}, is "
            f"{'shown' if wanted else 'not shown'}; you say {found!r}. The -1 are the offsets of the markers, which a "
            "client is not told: it sees a transaction's end when the marker comes"
        )


@pytest.mark.task("19.3", points=1)
def test_the_reader_never_shows_a_marker(impl, chance):
    """A log with a commit and an abort."""
    equal_reading(impl, chance, log_of(("transactional", 1), ("commit", 1), ("transactional", 1), ("abort", 1)))


@pytest.mark.task("19.3", points=2)
def test_records_of_an_aborted_transaction_are_dropped(impl, chance):
    """Two producers in turn: one aborts, one commits; then both abort, one later; and data without a transaction. Then
    one aborts before the other begins, whichever has the lower id."""
    said = [("transactional", 1), ("transactional", 2), ("data", -1)] * 3
    equal_reading(impl, chance, log_of(*said, ("abort", 1), ("commit", 2)))
    for first, second in ((1, 2), (2, 1)):
        more = [("abort", first), *[("transactional", second)] * 2, ("abort", second)]
        equal_reading(impl, chance, log_of(*said, *more))
        one_by_one = [each for one in (first, second) for each in (("transactional", one), ("abort", one))]
        equal_reading(impl, chance, log_of(*one_by_one))


@pytest.mark.task("19.3", points=2)
def test_after_its_marker_a_producer_is_shown_again(impl, chance):
    """A producer that aborts, and then commits."""
    equal_reading(impl, chance, log_of(("transactional", 1), ("abort", 1), ("transactional", 1), ("commit", 1)))


@pytest.mark.task("19.3", points=2)
def test_what_a_producer_committed_before_its_abort_is_shown(impl, chance):
    """A producer that commits, and then aborts."""
    equal_reading(impl, chance, log_of(("transactional", 1), ("commit", 1), ("transactional", 1), ("abort", 1)))


@pytest.mark.task("19.3", points=1)
def test_a_producer_may_abort_twice_in_one_fetch(impl, chance):
    """Two aborted transactions of one producer with a committed one between them; the list comes in any order."""
    said = [each for end in ("abort", "commit", "abort") for each in (("transactional", 4, 3), (end, 4))]
    for _ in range(8):
        equal_reading(impl, chance, log_of(*said))


@pytest.mark.task("19.3", points=1)
def test_a_marker_of_an_empty_transaction_ends_no_other_one(impl, chance):
    """A producer aborts without having written into this partition; then it writes, and aborts again."""
    equal_reading(impl, chance, log_of(("abort", 4), ("data", -1), ("transactional", 4, 2), ("abort", 4)))
    said = [("transactional", 1), ("abort", 4), ("transactional", 1), ("transactional", 4), ("abort", 1), ("abort", 4)]
    equal_reading(impl, chance, log_of(*said))


@pytest.mark.task("19.3", points=1)
def test_a_fetch_may_begin_in_the_middle_of_an_aborted_transaction(impl, chance):
    """The transaction began before the first offset of the fetch, and its marker comes in the fetch."""
    for start in (1, 2):
        equal_reading(impl, chance, log_of(*[("transactional", 3, 2)] * 3, ("abort", 3), ("transactional", 3)), start)


@pytest.mark.task("19.3", points=1)
def test_each_fetch_has_a_reader_of_its_own(impl, chance):
    """A fetch whose transaction has not ended yet, and then another fetch, in which the same producer commits."""
    batch = ("transactional", 1, 7, 8)
    found = impl.CommittedReader([(1, 7, UNTOLD)]).shows(batch)
    assert not found, f"{batch} belongs to the aborted transaction (1, 7, {UNTOLD}), and you say {found!r}"
    equal_reading(impl, chance, log_of(("transactional", 1), ("commit", 1)))


@pytest.mark.task("19.3", points=1)
def test_a_fetch_may_begin_anywhere(impl, chance):
    """Four logs of 30 batches, read from each batch on: also in the middle of transactions."""
    for _ in range(4):
        log = drawn_log(chance, 30)
        for start in range(len(log.batches)):
            equal_reading(impl, chance, log, start)
