"""What lab 09 asks of an accumulator. Sizes and times are drawn by the seed; what must come out is worked out here."""

import math

import pytest

HEADER = 61
BATCH_SIZE = 1_000
LINGER_MS, BACKOFF_MS, BACKOFF_MAX_MS, DELIVERY_MS = 20, 100, 1_000, 5_000


def filled(impl, sizes, now_ms=0, queue=None, batch_size=BATCH_SIZE):
    """The queue after records of these sizes, which are numbered, and what each append said."""
    queue = [] if queue is None else queue
    said = [impl.append(queue, n, size, now_ms, batch_size, 100 + n) for n, size in enumerate(sizes)]
    return queue, said


def batch(impl, number=1, created_ms=0, size=200, attempts=0, not_before_ms=0):
    return impl.Batch(number, created_ms, size, ["a record"], attempts, not_before_ms)


def records_of(queue):
    return [each.records for each in queue]


def groups(sizes, batch_size=BATCH_SIZE):
    """Which records share a batch."""
    found, size = [], math.inf
    for number, each in enumerate(sizes):
        if size + each > batch_size:
            found.append([])
            size = HEADER
        found[-1].append(number)
        size += each
    return found


# --- task 9.1 ---------------------------------------------------------------------------------------------------------


@pytest.mark.task("9.1", points=2)
def test_records_share_a_batch_as_long_as_they_fit(impl, chance):
    """Forty records of 20 to 400 bytes, three times; and records that fill a batch to the last byte."""
    exact = [(BATCH_SIZE - HEADER) // 3] * 6
    for sizes in (exact, [939, 1, 938, 1, 1], *([chance.randrange(20, 400) for _ in range(40)] for _ in range(3))):
        queue, _ = filled(impl, sizes)
        wanted = groups(sizes)
        assert records_of(queue) == wanted, f"records of {sizes[:6]}… bytes: batches {records_of(queue)}, not {wanted}"
        for each, numbers in zip(queue, wanted, strict=True):
            size = HEADER + sum(sizes[number] for number in numbers)
            assert each.size == size, f"a batch of the records {numbers} has {size} bytes, and yours says {each.size}"


@pytest.mark.task("9.1", points=1)
def test_a_record_larger_than_a_batch_gets_one_of_its_own(impl):
    """Small, large, large, small."""
    queue, _ = filled(impl, [50, 5_000, 3_000, 50])
    found = records_of(queue)
    assert found == [[0], [1], [2], [3]], f"four batches, and you have {found}"


@pytest.mark.task("9.1", points=2)
def test_no_record_joins_a_batch_that_was_sent(impl):
    """A batch that was sent once, or three times, is back in the queue, and has room; one in front of an open batch."""
    for attempts in (1, 3):
        queue, _ = filled(impl, [50], queue=[batch(impl, attempts=attempts)])
        found = records_of(queue)
        assert found == [["a record"], [0]], f"a batch with {attempts} attempts has its bytes already: you made {found}"
    queue, _ = filled(impl, [50, 50], queue=[batch(impl, 1, attempts=1), batch(impl, 2)])
    found = records_of(queue)
    assert found == [["a record"], ["a record", 0, 1]], f"the last batch was not sent, and has room: you made {found}"


@pytest.mark.task("9.1", points=2)
def test_append_says_when_the_sender_should_look(impl):
    """The first record of a batch, one in the middle, one that fills it to the last byte, and two of the next batch."""
    _, said = filled(impl, [400, 300, 239, 100, 100])
    wanted = [True, False, True, True, False]
    assert [bool(each) for each in said] == wanted, f"{wanted} is what the sender must hear, and you said {said}"


@pytest.mark.task("9.1", points=1)
def test_a_batch_has_its_number_and_the_time_of_its_first_record(impl):
    """Two records at 5 ms and 9 ms in one batch, a third one at 12 ms in the next."""
    queue = []
    for number, (now_ms, size) in enumerate(((5, 400), (9, 400), (12, 400))):
        impl.append(queue, number, size, now_ms, BATCH_SIZE, 100 + number)
    found = [(each.number, each.created_ms) for each in queue]
    assert found == [(100, 5), (102, 12)], (
        f"the batches have (number, created_ms) {found}, and should have [(100, 5), (102, 12)]"
    )
    sent = [(each.attempts, each.not_before_ms) for each in queue]
    assert sent == [(0, 0)] * 2, f"no batch was sent, and attempts and pauses are {sent}"


# --- task 9.2 ---------------------------------------------------------------------------------------------------------


def when(impl, queue, is_flushing=False, linger_ms=LINGER_MS):
    return impl.ready_at(queue, BATCH_SIZE, linger_ms, is_flushing)


@pytest.mark.task("9.2", points=2)
def test_a_batch_that_is_not_full_waits_for_the_linger(impl, chance):
    """One batch, begun at some time, with lingers from 0 to 200 ms; and a queue without any."""
    for linger_ms in (0, 5, 200):
        created_ms = chance.randrange(1, 10_000)
        found = when(impl, [batch(impl, created_ms=created_ms)], linger_ms=linger_ms)
        assert found == created_ms + linger_ms, f"begun at {created_ms}, linger {linger_ms}: ready at {found}"
    assert when(impl, []) == math.inf, "an empty queue is never ready: math.inf"
    assert when(impl, [], is_flushing=True) == math.inf, "an empty queue is never ready, not even in a flush"


@pytest.mark.task("9.2", points=2)
def test_what_cannot_grow_and_what_is_flushed_is_ready_at_once(impl):
    """A batch with exactly batch.size, a larger one, one that another follows, and one that is flushed."""
    for name, queue, is_flushing in (
        ("full", [batch(impl, created_ms=70, size=BATCH_SIZE)], False),
        ("too large", [batch(impl, created_ms=70, size=BATCH_SIZE + 1)], False),
        ("followed by another", [batch(impl, 1, 70), batch(impl, 2, 71)], False),
        ("flushed", [batch(impl, created_ms=70)], True),
    ):
        found = when(impl, queue, is_flushing)
        assert found == 0, f"a batch that is {name} is ready at once, 0, and you say {found}"
    almost = when(impl, [batch(impl, created_ms=70, size=BATCH_SIZE - 1)])
    assert almost == 70 + LINGER_MS, f"with a byte to go a batch still lingers, and you say {almost}"


@pytest.mark.task("9.2", points=2)
def test_a_batch_that_was_refused_waits_for_its_pause(impl):
    """Refused batches: full, followed by another, flushed, and one whose linger would end after the pause."""
    for name, queue, is_flushing in (
        ("alone", [batch(impl, attempts=1, not_before_ms=300)], False),
        ("full", [batch(impl, size=BATCH_SIZE, attempts=2, not_before_ms=300)], False),
        ("followed by another", [batch(impl, 1, attempts=1, not_before_ms=300), batch(impl, 2)], False),
        ("flushed", [batch(impl, attempts=1, not_before_ms=300)], True),
        ("young", [batch(impl, created_ms=295, attempts=1, not_before_ms=300)], False),
    ):
        found = when(impl, queue, is_flushing)
        assert found == 300, f"a refused batch that is {name} waits for its pause, 300, and you say {found}"
    found = when(impl, [batch(impl, created_ms=70, attempts=1, not_before_ms=0)])
    assert found == 0, f"a batch that was sent does not linger any more: its pause ended at 0, and you say {found}"


@pytest.mark.task("9.2", points=1)
def test_the_sender_looks_when_the_first_queue_is_ready(impl, chance):
    """Five queues with one batch each, an empty one, a refused batch; no queues at all."""
    times = chance.sample(range(100, 10_000), 5)
    queues = {number: [batch(impl, created_ms=ms)] for number, ms in enumerate(times)} | {9: []}
    found = impl.next_look(queues, BATCH_SIZE, LINGER_MS, False)
    assert found == min(times) + LINGER_MS, f"batches begun at {times}: look at {min(times) + LINGER_MS}, not {found}"
    queues[9] = [batch(impl, attempts=1, not_before_ms=50)]
    found = impl.next_look(queues, BATCH_SIZE, LINGER_MS, False)
    assert found == 50, f"a pause ends at 50, before all the others, and you look at {found}"
    flushing = impl.next_look({0: [batch(impl, created_ms=70)]}, BATCH_SIZE, LINGER_MS, True)
    assert flushing == 0, f"while it is flushed, a batch is ready at once, and you look at {flushing}"
    assert impl.next_look({}, BATCH_SIZE, LINGER_MS, False) == math.inf, "with nothing to send the sender never looks"


# --- task 9.3 ---------------------------------------------------------------------------------------------------------


def queues_of(impl, sizes, each=2):
    """A queue for each size, with so many batches of it, which have numbers of their own."""
    return {
        partition: [batch(impl, 10 * partition + number, size=size) for number in range(each)]
        for partition, size in enumerate(sizes)
    }


@pytest.mark.task("9.3", points=2)
def test_a_request_takes_one_batch_of_every_ready_partition(impl):
    """Three ready partitions of four, with two batches each, and room for all; and two with one batch each."""
    queues = queues_of(impl, [200, 300, 400, 500])
    found = [each.number for each in impl.drain(queues, [0, 1, 3], 10_000)]
    assert found == [0, 10, 30], f"the first batches of partitions 0, 1 and 3 are 0, 10 and 30, not {found}"
    left = {partition: [each.number for each in queue] for partition, queue in queues.items()}
    assert left == {0: [1], 1: [11], 2: [20, 21], 3: [31]}, f"what is left in the queues is {left}"
    queues = queues_of(impl, [200, 300], each=1)
    lists = dict(queues)
    impl.drain(queues, [0, 1], 10_000)
    assert queues == {0: [], 1: []}, f"queues of one batch are empty after it was taken, and there: you left {queues}"
    assert lists == {0: [], 1: []}, "a batch that was taken is still in the list that was its queue: change that list"


@pytest.mark.task("9.3", points=1)
def test_a_request_takes_partitions_in_the_order_of_ready(impl, chance):
    """Five ready partitions in any order, with room for three batches: the first three go. Then one whose only batch
    is taken: it becomes the last one, too."""
    for ready in ([3, 0, 2, 4, 1], chance.sample(range(5), 5)):
        queues = queues_of(impl, [300] * 5)
        found = [each.number // 10 for each in impl.drain(queues, list(ready), 1_000)]
        assert found == ready[:3], (
            f"partitions {ready} are ready, in this order: {ready[:3]} go, and yours took {found}"
        )
        assert list(queues)[-3:] == ready[:3], (
            f"partitions {ready[:3]} were served, and are the last three of the queues now: yours are {list(queues)}"
        )
    queues = queues_of(impl, [300] * 3, each=1)
    impl.drain(queues, [0], 1_000)
    assert list(queues) == [1, 2, 0], (
        f"the only batch of partition 0 was taken, so 0 becomes the last one, empty as it is: the queues are in the"
        f" order {list(queues)}, not [1, 2, 0]"
    )


@pytest.mark.task("9.3", points=2)
def test_a_request_ends_before_the_first_batch_that_does_not_fit(impl):
    """400, 400, 300 and 100 bytes and room for 1,000; 500 and 500, which fit exactly; a batch that never fits, as
    the first and as the second."""
    for sizes, room, wanted in (([400, 400, 300, 100], 1_000, [0, 10]), ([500, 500, 1], 1_000, [0, 10])):
        found = [each.number for each in impl.drain(queues_of(impl, sizes), list(range(len(sizes))), room)]
        assert found == wanted, f"batches of {sizes} bytes, room for {room}: take {wanted}, not {found}"
    found = [each.number for each in impl.drain(queues_of(impl, [5_000, 100]), [0, 1], 1_000)]
    assert found == [0], f"a batch larger than a request goes alone, or it would wait forever: you took {found}"
    found = [each.number for each in impl.drain(queues_of(impl, [100, 5_000, 100]), [0, 1, 2], 1_000)]
    assert found == [0], f"a batch larger than a request goes alone, and not after another: you took {found}"
    found = impl.drain(queues_of(impl, [5_000, 100]), [], 1_000)
    assert found == [], f"no partition is ready, and you took {found}"


@pytest.mark.task("9.3", points=2)
def test_partitions_take_turns(impl):
    """Four partitions with three batches each, and requests that hold two."""
    queues = queues_of(impl, [400] * 4, each=3)
    found = []
    for _ in range(4):
        ready = [partition for partition, queue in queues.items() if queue]
        found.append([each.number // 10 for each in impl.drain(queues, ready, 1_000)])
    assert found == [[0, 1], [2, 3], [0, 1], [2, 3]], (
        f"four requests took batches of the partitions {found}: each of the four should go in turn"
    )


@pytest.mark.task("9.3", points=1)
def test_a_batch_that_is_taken_counts_an_attempt(impl):
    """Batches with 0 and with 2 attempts, one that stays, and one that does not fit."""
    queues = {0: [batch(impl, 1), batch(impl, 2)], 1: [batch(impl, 3, attempts=2)]}
    taken = impl.drain(queues, [0, 1], 10_000)
    found = [each.attempts for each in taken], queues[0][0].attempts
    assert found == ([1, 3], 0), f"attempts are 1 and 3, and 0 for the one that stays: you have {found}"
    queues = queues_of(impl, [900, 900], each=1)
    impl.drain(queues, [0, 1], 1_000)
    found = queues[1][0].attempts if queues[1] else None
    assert found == 0, f"a batch that does not fit was not sent: it has 0 attempts, and yours {found}"


# --- task 9.4 ---------------------------------------------------------------------------------------------------------


@pytest.mark.task("9.4", points=3)
def test_refused_batches_come_back_in_the_order_of_their_numbers(impl, chance):
    """Five batches in flight are refused in any order, in front of those that wait, and where none waits."""
    for waiting in ([6, 7], [], [6], [7, 8], []):
        queue = [batch(impl, number) for number in waiting]
        for number in chance.sample(range(1, 6), 5):
            impl.put_back(queue, batch(impl, number, attempts=1), 0, BACKOFF_MS, BACKOFF_MAX_MS)
        found = [each.number for each in queue]
        assert found == [*range(1, 6), *waiting], (
            f"the queue is in the order {found}, and the log would be, too: put_back should keep it in order of numbers"
        )


@pytest.mark.task("9.4", points=2)
def test_the_pause_doubles_up_to_its_limit(impl, chance):
    """One to nine attempts, at some time, after an earlier pause; to be put back counts no attempt."""
    for attempts in range(1, 10):
        now_ms, queue = chance.randrange(500, 10_000), []
        refused = batch(impl, attempts=attempts, not_before_ms=chance.randrange(500))
        impl.put_back(queue, refused, now_ms, BACKOFF_MS, BACKOFF_MAX_MS)
        assert refused.attempts == attempts, (
            f"a batch with {attempts} attempts has {refused.attempts} after put_back: drain has counted them already"
        )
        pause = min(1_000, 100 * 2 ** (attempts - 1))
        found = queue[0].not_before_ms - now_ms
        assert found == pause, f"after attempt {attempts} the pause is {pause} ms, and yours is {found}"


@pytest.mark.task("9.4", points=2)
def test_a_batch_is_given_up_when_its_time_is_over(impl):
    """Batches that began 5,001, 5,000 and 4,999 ms ago, some of them sent before, one in a pause; a queue without
    late ones; and a batch that was put back just before its time is over."""
    queue = [batch(impl, number, created_ms) for number, created_ms in enumerate((999, 1_000, 1_001, 3_000), 1)]
    queue[0].attempts, queue[0].not_before_ms = 3, 6_500
    late = [each.number for each in impl.expire(queue, 6_000, DELIVERY_MS)]
    left = [each.number for each in queue]
    assert (late, left) == ([1, 2], [3, 4]), (
        f"1 began 5,001 ms ago, though it pauses, and 2 began 5,000 ms ago: both are late, 3 and 4 stay. You took"
        f" {late} and left {left}"
    )
    assert impl.expire(queue, 6_000, DELIVERY_MS) == [], "nothing is late any more, and you took something"
    refused = batch(impl, 1, 1_000, attempts=2)
    impl.put_back(queue, refused, 5_900, BACKOFF_MS, BACKOFF_MAX_MS)
    late = [each.number for each in impl.expire(queue, 6_000, DELIVERY_MS)]
    assert late == [1], f"a batch began at 1,000 and was put back at 5,900: at 6,000 it is late, and you took {late}"
