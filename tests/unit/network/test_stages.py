"""What is between Kafka's threads: the bounded queue, and the channel of a network thread."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from pykraft.common.metrics import Metrics
from pykraft.common.timer import Timer
from pykraft.network.stages import ProcessorChannel, RequestQueue, WaitingTime
from pykraft.transport.pace import Pace
from pykraft.transport.request_metrics import RequestMetrics
from pykraft.transport.server_connection import QueuedRequest
from tests.harness.waiting import wait_until

PACE = Pace(Timer(), lambda: 0)
METRICS = RequestMetrics(Metrics(), lambda: 0)


def waiting() -> WaitingTime:
    return WaitingTime(time.monotonic_ns)


def request(number: int) -> Any:
    return QueuedRequest(None, None, number)  # type: ignore[arg-type]


def test_requests_leave_the_queue_in_the_order_in_which_they_came() -> None:
    queue = RequestQueue(10)
    for number in range(5):
        queue.put(request(number))
    assert [queue.take(waiting()).queued_at for _ in range(5)] == list(range(5))  # type: ignore[union-attr]


def test_a_full_queue_holds_up_whoever_brings_one_more_until_a_handler_takes_one() -> None:
    queue = RequestQueue(2)
    with ThreadPoolExecutor(1) as pool:
        for number in range(2):
            queue.put(request(number))
        third = pool.submit(queue.put, request(2))
        time.sleep(0.02)
        assert not third.done() and len(queue) == 2
        assert queue.take(waiting()) == request(0)
        third.result(10)
        assert len(queue) == 2


def test_many_threads_lose_no_request_and_never_exceed_the_bound() -> None:
    queue, taken, largest = RequestQueue(3), [], 0
    lock = threading.Lock()

    def handle() -> None:
        nonlocal largest
        own = waiting()
        while (found := queue.take(own)) is not None:
            with lock:
                taken.append(found.queued_at)
                largest = max(largest, len(queue))

    def bring(first: int) -> None:
        for number in range(first, first + 200):
            queue.put(request(number))

    with ThreadPoolExecutor(8) as pool:
        handlers = [pool.submit(handle) for _ in range(4)]
        for done in [pool.submit(bring, first) for first in (0, 200, 400)]:
            done.result(20)
        wait_until(lambda: len(taken) == 600, "all are taken")
        queue.close()
        for done in handlers:
            done.result(20)
    assert sorted(taken) == list(range(600)) and largest <= 3


@pytest.mark.parametrize("waits_for", ["a request", "room"])
def test_a_closed_queue_lets_everybody_go(waits_for: str) -> None:
    queue = RequestQueue(1)
    with ThreadPoolExecutor(1) as pool:
        if waits_for == "room":
            queue.put(request(0))
            held = pool.submit(queue.put, request(1))
        else:
            held = pool.submit(queue.take, waiting())
        time.sleep(0.02)
        assert not held.done()
        queue.close()
        assert held.result(10) is None
    assert queue.take(waiting()) is None


def test_a_wait_that_goes_on_counts_already() -> None:
    now = [100]
    own = WaitingTime(lambda: now[0])
    own.begin()
    now[0] = 130
    assert own.is_waiting and own.total(140) == 40
    own.end()
    assert not own.is_waiting and own.total(200) == 30


def test_what_the_node_leaves_for_the_network_is_done_there_and_the_other_way_round() -> None:
    calls: list[str] = []

    class Connection:
        def send_response(self, response: Any) -> None:
            calls.append(f"sent {response}")

        def __getattr__(self, name: str) -> Any:
            return lambda: calls.append(name)

    connection: Any = Connection()
    to_the_node: list[Any] = []
    channel = ProcessorChannel(RequestQueue(1), PACE, METRICS, lambda: calls.append("woken"), to_the_node.append)
    channel.hang_up(connection)
    channel.look_again(connection)
    channel.abandon(connection)
    assert calls == ["woken", "woken"] and channel.has_news
    channel.send_responses()
    assert calls[2:] == ["close", "go_on"] and not channel.has_news
    to_the_node[0]()
    assert calls[4:] == ["abandon"]


def test_what_one_connection_raises_does_not_keep_the_others_from_their_answers() -> None:
    class Connection:
        def __init__(self, fault: Exception | None) -> None:
            self._fault = fault

        def close(self) -> None:
            if self._fault is not None:
                raise self._fault
            closed.append(self)

    closed: list[Connection] = []
    told: list[Exception] = []
    channel = ProcessorChannel(RequestQueue(1), PACE, METRICS, lambda: None, lambda call: None)
    channel.on_error = told.append
    faults = [None, ValueError("planted"), None]
    for fault in faults:
        channel.hang_up(Connection(fault))  # type: ignore[arg-type]
    channel.send_responses()
    assert len(closed) == 2 and told == [faults[1]]
