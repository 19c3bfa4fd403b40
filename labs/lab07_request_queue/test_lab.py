"""What lab 07 asks of the queue, the muting and the idle time: a model beside each, and random histories of both."""

from collections import deque
from itertools import accumulate

import pytest


def said(action, found, wanted):
    return f"{action} gave {found!r}, and should give {wanted!r}"


# --- task 7.1 ---------------------------------------------------------------------------------------------------------


@pytest.mark.task("7.1", points=2)
def test_requests_leave_in_the_order_in_which_they_came(impl, chance):
    """Random puts and takes, with room for all of them."""
    queue, model = impl.RequestQueue(1000), deque()
    for number in range(300):
        if chance.random() < 0.6:
            assert queue.put(number) is True, f"put({number}) was refused with {len(model)} of 1000 places taken"
            model.append(number)
        else:
            found, wanted = queue.take(), model.popleft() if model else None
            assert found == wanted, said("take()", found, wanted)
        assert len(queue) == len(model), said("len(queue)", len(queue), len(model))


@pytest.mark.task("7.1", points=2)
def test_a_full_queue_refuses_one_more(impl):
    """Queues with 1 to 5 places: one request too many is refused, is not inside, and finds room after a take."""
    for capacity in range(1, 6):
        queue = impl.RequestQueue(capacity)
        for number in range(capacity):
            assert queue.put(number) is True, f"a queue of {capacity} refused request {number + 1}: it has room for it"
        assert queue.put("too many") is False, (
            f"a queue of {capacity} took request {capacity + 1}: it is full, and put should return False"
        )
        assert len(queue) == capacity, said("len of a full queue", len(queue), capacity)
        first = queue.take()
        assert first == 0, said("take() from the full queue", first, 0)
        assert queue.put("next") is True, "after a take there is room for one"
        rest = [queue.take() for _ in range(capacity)]
        assert rest == [*range(1, capacity), "next"], said("what followed", rest, [*range(1, capacity), "next"])


@pytest.mark.task("7.1", points=1)
def test_an_empty_queue_gives_nothing(impl):
    """A new queue, and one that was emptied. Requests that look like nothing (0, an empty text) are requests."""
    queue = impl.RequestQueue(3)
    assert queue.take() is None, "take() from a new queue should give None"
    for request in (0, "", ()):
        queue.put(request)
    taken = [queue.take() for _ in range(3)]
    assert taken == [0, "", ()], said("take(), three times,", taken, [0, "", ()])
    assert queue.take() is None, "take() from an emptied queue should give None"


@pytest.mark.task("7.1", points=2)
def test_a_closed_queue_takes_and_gives_nothing(impl):
    """A queue with two requests is closed."""
    queue = impl.RequestQueue(5)
    queue.put(1)
    queue.put(2)
    queue.close()
    assert queue.put(3) is False, "a closed queue took a request"
    assert queue.take() is None, "a closed queue gave a request to a handler"
    assert len(queue) == 0, said("len of a closed queue", len(queue), 0)


# --- task 7.2 ---------------------------------------------------------------------------------------------------------


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
    """300 random events that are possible, on one channel."""
    channel, pending, throttled = impl.Channel(), False, False
    for _ in range(300):
        possible = ["request_received"] if not pending and not throttled else []
        possible += ["response_sent"] if pending else []
        possible += ["throttle_started"] if pending and not throttled else []
        possible += ["throttle_ended"] if throttled else []
        event = chance.choice(possible)
        getattr(channel, event)()
        pending = {"request_received": True, "response_sent": False}.get(event, pending)
        throttled = {"throttle_started": True, "throttle_ended": False}.get(event, throttled)
        wanted = pending or throttled
        assert channel.is_muted == wanted, said(f"is_muted after {event}", channel.is_muted, wanted)


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
    """The last of these events is impossible: ValueError, and nothing changes."""
    channel = impl.Channel()
    for event in events[:-1]:
        getattr(channel, event)()
    before = channel.is_muted
    try:
        getattr(channel, events[-1])()
    except ValueError:
        pass
    else:
        pytest.fail(f"{' then '.join(events)}: the last of these is not possible, and raised no ValueError")
    assert channel.is_muted == before, f"{events[-1]} was refused, and changed the channel all the same"


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
    """A thread works for 10, and then waits without end: it would look busy if only its past waits counted."""
    idle = impl.IdleTime(100)
    idle.begin(110)
    for now in (120, 200, 1100):
        found, wanted = idle.share(now), (now - 110) / (now - 100)
        assert found == pytest.approx(wanted), said(f"share({now})", found, wanted)
    idle.end(1100)
    found = idle.share(2100)
    assert found == pytest.approx(990 / 2000), said("share(2100), long after the wait", found, 990 / 2000)


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
