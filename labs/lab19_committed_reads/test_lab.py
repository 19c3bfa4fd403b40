"""What lab 19 asks of a reader of committed data. The wanted answers follow from the definitions alone, by looking at
every transaction for every offset: slow, and hard to get wrong."""

import pytest

HIGH = 10**9


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
    """Transactions of some producers that overlap, with other data between them, and some of them open at the end."""
    log, begun = Log(), set()
    for _ in range(batches):
        producer_id = chance.choice(producers)
        drawn = chance.random()
        if drawn < 0.2:
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
    """A log of five batches without transactions, and an empty log."""
    equal_stable(impl, log_of(*[("data", -1, 2)] * 5), 10)
    equal_stable(impl, log_of(), 0)


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
    """A log of 60 batches, and the high watermark at the end of each of them."""
    log = drawn_log(chance)
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
    chance.shuffle(aborted)
    reader = impl.CommittedReader(list(aborted))
    for batch in fetched:
        kind, producer_id, first, _ = batch
        is_aborted = any(one == producer_id and begin <= first < marker for one, begin, marker in aborted)
        wanted = kind == "data" or (kind == "transactional" and not is_aborted)
        found = reader.shows(batch)
        assert bool(found) == wanted, (
            f"the batch {batch} of a fetch from offset {fetched[0][2]} on, with the aborted transactions {aborted}, is "
            f"{'shown' if wanted else 'not shown'}; you say {found!r}"
        )


@pytest.mark.task("19.3", points=1)
def test_the_reader_never_shows_a_marker(impl, chance):
    """A log with a commit and an abort."""
    equal_reading(impl, chance, log_of(("transactional", 1), ("commit", 1), ("transactional", 1), ("abort", 1)))


@pytest.mark.task("19.3", points=2)
def test_records_of_an_aborted_transaction_are_dropped(impl, chance):
    """Two producers in turn: one aborts, one commits; and data without a transaction."""
    said = [("transactional", 1), ("transactional", 2), ("data", -1)] * 3
    equal_reading(impl, chance, log_of(*said, ("abort", 1), ("commit", 2)))


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
    """Two aborted transactions of one producer with a committed one between them."""
    said = [each for end in ("abort", "commit", "abort") for each in (("transactional", 4, 3), (end, 4))]
    equal_reading(impl, chance, log_of(*said))


@pytest.mark.task("19.3", points=2)
def test_a_fetch_may_begin_anywhere(impl, chance):
    """A log of 60 batches, read from each of them on: also in the middle of transactions."""
    log = drawn_log(chance)
    for start in range(len(log.batches)):
        equal_reading(impl, chance, log, start)
