"""What lab 07 asks of the queue, the muting and the idle time. The queue is called by threads: what must wait is looked
at while it waits, what must come back has a few seconds to do so."""

import threading
import time
from collections import Counter, deque
from contextlib import ExitStack, contextmanager
from itertools import accumulate

import pytest

STILL_S = 0.05
"""A call that has not come back after this time waits."""
PATIENCE_S, LESS_S = 2, 0.5
"""A call that may go on comes back much sooner than this. Once one has not, the others get less time."""
EVENTS = ("request_received", "response_sent", "throttle_started", "throttle_ended")


def said(action, found, wanted):
    return f"{action} gave {found!r}, and should give {wanted!r}"


class Caller:
    """A call on a thread of its own."""

    has_stuck = False

    def __init__(self, function, *arguments):
        self._answer, self._error = None, None

        def call():
            try:
                self._answer = function(*arguments)
            except BaseException as error:
                self._error = error

        self._thread = threading.Thread(target=call, daemon=True)
        self._thread.start()

    @property
    def waits(self):
        """Whether it has not come back, after a moment."""
        self._thread.join(STILL_S)
        return self._thread.is_alive()

    def result(self, words):
        """What it returned. AssertionError with these words if it does not come back."""
        self._thread.join(LESS_S if Caller.has_stuck else PATIENCE_S)
        Caller.has_stuck |= self._thread.is_alive()
        assert not self._thread.is_alive(), words
        if self._error is not None:
            raise self._error
        return self._answer


def now(function, *arguments):
    """What a call returns that has nothing to wait for."""
    return Caller(function, *arguments).result(f"{function.__name__} did not come back, and had nothing to wait for")


@contextmanager
def locked(queue):
    """The conditions of a queue, all of which belong to this thread for as long as a block lasts. Several may share one
    lock, and that is taken once."""
    names = (*getattr(queue, "__dict__", ()), *getattr(queue, "__slots__", ()))
    values = [getattr(queue, name, None) for name in names]
    conditions = [each for each in values if isinstance(each, threading.Condition)]
    with ExitStack() as stack:
        for condition in {id(each.acquire.__self__): each for each in conditions}.values():
            has_it = condition.acquire(timeout=PATIENCE_S)
            assert has_it, "a thread keeps the lock while it waits: wait() of the condition gives it up"
            stack.callback(condition.release)
        yield conditions


def wake_all(queue):
    """Wake the threads that wait in a queue, for nothing."""
    with locked(queue) as conditions:
        for condition in conditions:
            condition.notify_all()


def full(impl, capacity):
    """A queue with the requests 0, 1 and so on in it, up to its bound."""
    queue = impl.RequestQueue(capacity)
    for number in range(capacity):
        assert now(queue.put, number) is True, (
            f"a queue of {capacity} has room for request {number + 1}: put gives True"
        )
    return queue


# --- task 7.1 ---------------------------------------------------------------------------------------------------------


@pytest.mark.task("7.1", points=2)
def test_requests_leave_in_the_order_in_which_they_came(impl, chance):
    """Random puts and takes of one thread, with room for all of them; also requests that look like nothing (0, an empty
    text)."""
    queue, model = impl.RequestQueue(1000), deque()

    def use():
        for request in (*range(200), "", 0, (), False, "last"):
            while model and chance.random() < 0.4:
                found, wanted = queue.take(), model.popleft()
                assert found == wanted, said("take()", found, wanted)
            assert queue.put(request) is True, f"put({request!r}) of 1,000 places with {len(model)} taken gives True"
            model.append(request)
            assert len(queue) == len(model), said("len(queue)", len(queue), len(model))
        for wanted in model:
            found = queue.take()
            assert found == wanted, said("take()", found, wanted)

    now(use)


@pytest.mark.task("7.1", points=2)
def test_a_put_waits_while_the_queue_is_full(impl):
    """Queues with 1 and 3 places, and a request too many: it waits, is not inside, and goes in after a take."""
    for capacity in (1, 3):
        queue = full(impl, capacity)
        putting = Caller(queue.put, "too many")
        assert putting.waits, f"a queue of {capacity} is full: put has to wait, and returned {putting.result('')!r}"
        assert len(queue) == capacity, said("len of a full queue", len(queue), capacity)
        first = now(queue.take)
        assert first == 0, said("take() from the full queue", first, 0)
        found = putting.result("a take has made room, and put still waits: which call wakes it?")
        assert found is True, said("put(), which had waited for room,", found, True)
        rest = [now(queue.take) for _ in range(capacity)]
        assert rest == [*range(1, capacity), "too many"], said("what followed", rest, [*range(1, capacity), "too many"])


@pytest.mark.task("7.1", points=2)
def test_a_take_waits_while_the_queue_is_empty(impl):
    """Two handlers wait in a new queue; two requests come."""
    queue = impl.RequestQueue(3)
    takers = [Caller(queue.take) for _ in range(2)]
    for taker in takers:
        assert taker.waits, f"the queue is empty: take has to wait, and returned {taker.result('')!r}"
    for request in ("a", "b"):
        now(queue.put, request)
    found = [taker.result("a request is inside, and take still waits: which call wakes it?") for taker in takers]
    assert sorted(map(str, found)) == ["a", "b"], f"two handlers took {found}: each of the requests a and b goes to one"


@pytest.mark.task("7.1", points=2)
def test_a_thread_that_is_woken_for_nothing_waits_again(impl):
    """Every condition of the queue wakes its threads, while a put waits in a full queue and a take in an empty one."""
    queue, empty = full(impl, 2), impl.RequestQueue(2)
    putting, taking = Caller(queue.put, "too many"), Caller(empty.take)
    assert putting.waits and taking.waits, "a full queue lets no request in, and an empty one gives none"
    for _ in range(3):
        wake_all(queue)
        wake_all(empty)
    assert putting.waits, f"put was woken, the queue is full still, and it went on: it gave {putting.result('')!r}"
    assert len(queue) == 2, f"a queue of 2 has {len(queue)} requests inside: look again after each wait"
    assert taking.waits, f"take was woken, the queue is empty still, and it went on: it gave {taking.result('')!r}"
    now(queue.close)
    now(empty.close)


@pytest.mark.task("7.1", points=1)
def test_the_last_place_goes_to_one_of_two(impl):
    """Two threads put at the same moment into a queue with one place left: both come as far as they can without the
    lock, and then they get it."""
    queue = impl.RequestQueue(1)
    with locked(queue):
        putters = [Caller(queue.put, request) for request in ("a", "b")]
        _ = [putter.waits for putter in putters]
    assert any(putter.waits for putter in putters), "two puts into a queue with one place came back: one has to wait"
    assert len(queue) == 1, f"a queue with one place has {len(queue)} inside: look for room while you have the lock"
    now(queue.close)


@pytest.mark.task("7.1", points=1)
def test_who_waits_leaves_the_processor_alone(impl):
    """A put and a take wait for three tenths of a second, and the processor's time is measured."""
    queue, empty = full(impl, 1), impl.RequestQueue(1)
    waiting = [Caller(queue.put, "too many"), Caller(empty.take)]
    assert all(caller.waits for caller in waiting), "a full queue lets no request in, and an empty one gives none"
    began = time.process_time()
    time.sleep(0.3)
    spent = time.process_time() - began
    assert spent < 0.02, (
        f"two threads that wait for 0.3 s have used the processor for {spent:.2f} s: let a condition wait"
    )
    now(queue.close)
    now(empty.close)


@pytest.mark.task("7.1", points=2)
def test_many_threads_lose_nothing(impl):
    """Four network threads put 100 requests each into a queue with one place, and four handlers take them."""
    queue, sizes = impl.RequestQueue(1), set()

    def put_some(thread):
        for number in range(100):
            queue.put((thread, number))
            sizes.add(len(queue))

    def take_some():
        return [queue.take() for _ in range(100)]

    putters = [Caller(put_some, thread) for thread in range(4)]
    takers = [Caller(take_some) for _ in range(4)]
    stuck = f"threads wait for each other: {len(queue)} of 1 places are taken. Did a change wake the wrong thread?"
    found = [request for taker in takers for request in taker.result(stuck)]
    for putter in putters:
        putter.result(stuck)
    wrong = Counter(found) - Counter((thread, number) for thread in range(4) for number in range(100))
    assert not wrong, f"of 400 requests some were taken twice, such as {next(iter(wrong))}"
    assert max(sizes) <= 1, f"a queue with one place had {max(sizes)} requests inside"


@pytest.mark.task("7.1", points=2)
def test_a_closed_queue_takes_and_gives_nothing(impl):
    """A queue with two requests is closed."""
    queue = impl.RequestQueue(5)
    for number in (1, 2):
        now(queue.put, number)
    now(queue.close)
    found = now(queue.put, 3)
    assert found is False, said("put() into a closed queue", found, False)
    found = now(queue.take)
    assert found is None, said("take() from a closed queue", found, None)
    assert len(queue) == 0, said("len of a closed queue", len(queue), 0)


@pytest.mark.task("7.1", points=2)
def test_to_close_a_queue_ends_every_wait(impl):
    """Two puts wait in a full queue and two takes in an empty one; both queues are closed."""
    queue, empty = full(impl, 1), impl.RequestQueue(1)
    putters, takers = [Caller(queue.put, "more") for _ in range(2)], [Caller(empty.take) for _ in range(2)]
    assert all(caller.waits for caller in putters + takers), "a full queue lets nothing in, an empty one gives nothing"
    now(queue.close)
    now(empty.close)
    for putter in putters:
        found = putter.result("the queue is closed, and a put still waits in it: the broker could not stop")
        assert found is False, said("put(), in a queue that was closed meanwhile,", found, False)
    for taker in takers:
        found = taker.result("the queue is closed, and a take still waits in it: the broker could not stop")
        assert found is None, said("take(), in a queue that was closed meanwhile,", found, None)
    assert len(queue) == 0, said("len of a queue that was closed while a put waited", len(queue), 0)


# --- task 7.2 ---------------------------------------------------------------------------------------------------------


class Model:
    """What a channel should know."""

    def __init__(self):
        self.pending = self.throttled = False

    @property
    def is_muted(self):
        return self.pending or self.throttled

    def can(self, event):
        return {
            "request_received": not self.is_muted,
            "response_sent": self.pending,
            "throttle_started": self.pending and not self.throttled,
            "throttle_ended": self.throttled,
        }[event]

    def hear(self, event):
        self.pending = {"request_received": True, "response_sent": False}.get(event, self.pending)
        self.throttled = {"throttle_started": True, "throttle_ended": False}.get(event, self.throttled)


def tell(channel, model, event, before):
    """One event for both, possible or not; `before` are those that came before it."""
    told = ", ".join([*before[-6:], event])
    is_possible = model.can(event)
    try:
        getattr(channel, event)()
    except ValueError as error:
        assert not is_possible, f"{told}: the last of these is possible, and raised ValueError, {error}"
    else:
        assert is_possible, f"{told}: the last of these is not possible, and raised no ValueError"
        model.hear(event)
    before.append(event)
    about = f"is_muted after {told}" + ("" if is_possible else ", which was refused,")
    assert bool(channel.is_muted) == model.is_muted, said(about, channel.is_muted, model.is_muted)


def heard_out(channel, model, before):
    """Let everything end that goes on, and take one more request: a channel that is confused shows it."""
    for event in ("response_sent", "throttle_ended", "request_received", "response_sent"):
        if model.can(event):
            tell(channel, model, event, before)


@pytest.mark.task("7.2", points=2)
def test_a_channel_is_muted_from_a_request_to_its_response(impl):
    """Three requests, one after the other."""
    channel = impl.Channel()
    for _ in range(3):
        assert not channel.is_muted, "a channel without a request in hand is muted"
        channel.request_received()
        assert channel.is_muted, "a channel with a request in hand is not muted: the next one could overtake it"
        channel.response_sent()
    assert not channel.is_muted, "the response was sent, and the channel is still muted"


@pytest.mark.task("7.2", points=2)
def test_a_throttled_channel_stays_muted_until_the_time_is_over(impl):
    """Throttling begins before the response is sent, and ends after it."""
    channel = impl.Channel()
    channel.request_received()
    channel.throttle_started()
    channel.response_sent()
    assert channel.is_muted, "the response was sent, but the client is throttled: the channel must stay muted"
    channel.throttle_ended()
    assert not channel.is_muted, "the time is over and the response sent: the channel must be heard"


@pytest.mark.task("7.2", points=2)
def test_the_time_may_be_over_before_the_response_is_sent(impl):
    """A slow network: the throttling ends first."""
    channel = impl.Channel()
    channel.request_received()
    channel.throttle_started()
    channel.throttle_ended()
    assert channel.is_muted, "the time is over, but the response has not left: the channel must stay muted"
    channel.response_sent()
    assert not channel.is_muted, "both are over: the channel must be heard"


@pytest.mark.task("7.2", points=2)
def test_a_long_life_with_and_without_throttling(impl, chance):
    """300 random events on one channel, possible ones and others."""
    channel, model, before = impl.Channel(), Model(), []
    for _ in range(300):
        possible = [event for event in EVENTS if model.can(event)]
        tell(channel, model, chance.choice(possible if chance.random() < 0.7 else EVENTS), before)


@pytest.mark.task("7.2", points=2)
@pytest.mark.parametrize(
    "events",
    [
        ["response_sent"],
        ["throttle_started"],
        ["throttle_ended"],
        ["request_received", "request_received"],
        ["request_received", "response_sent", "response_sent"],
        ["request_received", "throttle_started", "throttle_started"],
        ["request_received", "throttle_ended"],
        ["request_received", "throttle_started", "response_sent", "request_received"],
        ["request_received", "throttle_started", "response_sent", "response_sent"],
        ["request_received", "throttle_started", "throttle_ended", "request_received"],
    ],
    ids=" then ".join,
)
def test_what_cannot_happen_is_refused(impl, events):
    """The last of these events is impossible: ValueError, and nothing changes, which shows in what follows."""
    channel, model, before = impl.Channel(), Model(), []
    for event in events:
        tell(channel, model, event, before)
    heard_out(channel, model, before)


# --- task 7.3 ---------------------------------------------------------------------------------------------------------


@pytest.mark.task("7.3", points=2)
def test_waits_add_up(impl, chance):
    """Random waits and pieces of work."""
    start = chance.randrange(1000)
    idle, now, waited = impl.IdleTime(start), start, 0
    for wait, work in [(chance.randrange(50), chance.randrange(1, 50)) for _ in range(20)]:
        idle.begin(now)
        idle.end(now + wait)
        now, waited = now + wait + work, waited + wait
        found, wanted = idle.share(now), waited / (now - start)
        assert found == pytest.approx(wanted), said(f"share({now})", found, wanted)


@pytest.mark.task("7.3", points=2)
def test_a_wait_that_goes_on_counts(impl):
    """A thread works for 10, and then waits without end: it would look busy if only its past waits counted. And a
    second wait, looked at twice."""
    idle = impl.IdleTime(100)
    idle.begin(110)
    for now in (120, 200, 1100):
        found, wanted = idle.share(now), (now - 110) / (now - 100)
        assert found == pytest.approx(wanted), said(f"share({now})", found, wanted)
    idle.end(1100)
    found = idle.share(2100)
    assert found == pytest.approx(990 / 2000), said("share(2100), long after the wait", found, 990 / 2000)
    idle.begin(2100)
    for _ in range(2):
        found = idle.share(3100)
        assert found == pytest.approx(1990 / 3000), said("share(3100), in the second wait,", found, 1990 / 3000)


@pytest.mark.task("7.3", points=1)
def test_zero_is_a_time_like_others(impl):
    """A clock that begins at 0, and a wait that does, too."""
    idle = impl.IdleTime(0)
    idle.begin(0)
    assert idle.share(10) == pytest.approx(1), said("share(10) of a wait since 0", idle.share(10), 1)
    idle.end(10)
    assert idle.share(20) == pytest.approx(0.5), said("share(20)", idle.share(20), 0.5)


@pytest.mark.task("7.3", points=1)
def test_a_thread_that_has_just_started_is_idle(impl):
    """No time has passed: there is nothing to divide by. And the end of a wait that never began adds nothing."""
    assert impl.IdleTime(7).share(7) == 1, "a thread that has just started should be idle"
    idle = impl.IdleTime(7)
    idle.end(9)
    assert idle.share(17) == 0, said("share(17) of a thread that never waited", idle.share(17), 0)
    times = list(accumulate([7, 3, 5]))
    idle.begin(times[1])
    idle.end(times[2])
    idle.end(times[2] + 50)
    found, wanted = idle.share(107), 5 / 100
    assert found == pytest.approx(wanted), said("share(107) after a second end", found, wanted)
