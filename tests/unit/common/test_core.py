"""Promises, polls, metrics and traces: the small parts that every core shares."""

from __future__ import annotations

from typing import Any

import pytest

from pykraft.common.core import FOREVER, Outbound, Poll, Promise, merge
from pykraft.common.metrics import LOG, Metrics
from pykraft.common.trace import RingBuffer, Silence, TraceEvent, Tracer
from pykraft.common.types import Node


def test_a_promise_calls_back_when_it_is_kept_and_at_once_afterwards() -> None:
    promise: Promise[int] = Promise()
    heard: list[tuple[str, int]] = []
    promise.then(lambda value: heard.append(("before", value)))
    assert not promise.kept and heard == []
    promise.keep(7)
    promise.then(lambda value: heard.append(("after", value)))
    assert heard == [("before", 7), ("after", 7)]
    assert promise.kept and promise.value == 7 and Promise.of(None).value is None


def test_a_promise_is_kept_once() -> None:
    promise = Promise.of(1)
    with pytest.raises(AssertionError, match="kept once"):
        promise.keep(2)
    with pytest.raises(AssertionError, match="not been kept"):
        _ = Promise[int]().value


def test_abandoning_a_promise_tells_the_operation_once_and_its_value_goes_nowhere() -> None:
    promise: Promise[int] = Promise()
    heard: list[object] = []
    promise.then(heard.append)
    promise.on_abandoned(lambda: heard.append("first"))
    promise.on_abandoned(lambda: heard.append("second"))
    assert not promise.abandoned
    promise.abandon()
    promise.abandon()
    promise.keep(7)
    promise.keep(8)
    assert promise.abandoned and not promise.kept and heard == ["first", "second"]
    promise.on_abandoned(lambda: heard.append("late"))
    assert heard == ["first", "second", "late"], "an operation that registers late hears of it at once"


def test_a_kept_promise_cannot_be_abandoned() -> None:
    kept: Promise[int] = Promise()
    heard: list[str] = []
    for promise in (kept, Promise.of(1)):
        promise.on_abandoned(lambda: heard.append("abandoned"))
        if not promise.kept:
            promise.keep(1)
        promise.abandon()
        assert promise.kept and not promise.abandoned and promise.value == 1
    assert heard == []


def test_a_mapped_promise_is_kept_with_what_the_function_makes_and_abandons_its_source() -> None:
    source: Promise[int] = Promise()
    text = source.map(str)
    assert not text.kept
    source.keep(7)
    assert text.value == "7" and source.map(float).value == 7.0
    unwanted: Promise[int] = Promise()
    unwanted.map(str).map(len).abandon()
    assert unwanted.abandoned


def test_polls_merge_to_the_nearest_deadline_and_all_requests() -> None:
    def request(name: str) -> Outbound:
        return Outbound("data", Node(1, "h", 9), name, lambda _, __: None, 10)

    merged = merge([Poll(50, [request("a")]), Poll(20), Poll(requests=[request("b"), request("c")])])
    assert merged.deadline == 20
    assert [each.request for each in merged.requests] == ["a", "b", "c"]
    assert merge([]) == Poll(FOREVER, [])


def test_metrics_read_as_prometheus_text() -> None:
    metrics = Metrics()
    metrics.meter("ReplicaManager", "IsrShrinksPerSec").mark()
    metrics.meter("ReplicaManager", "IsrShrinksPerSec").mark(2)
    metrics.gauge("Log", "Size", lambda: 0.5, LOG, topic="a-b")
    assert list(metrics.read()) == [("Log", "Size,topic=a-b", 0.5), ("ReplicaManager", "IsrShrinksPerSec", 3)]


def test_a_tracer_writes_what_happened_where_and_when() -> None:
    buffer = RingBuffer(capacity=2)
    tracer = Tracer(3, buffer)
    for now in (1, 2, 3):
        tracer.now = now
        tracer("became leader", epoch=now)
    assert list(buffer.events) == [
        TraceEvent(2, 3, "became leader", {"epoch": 2}),
        TraceEvent(3, 3, "became leader", {"epoch": 3}),
    ]
    assert str(buffer.events[-1]).endswith("3 ms  node 3  became leader  epoch=3")
    tracer("truncate", end=7)
    for now in (4, 5, 6):
        tracer.now = now
        tracer("became leader", epoch=now)
    assert [(event.now, event.name) for event in buffer.events] == [
        (3, "truncate"),
        (5, "became leader"),
        (6, "became leader"),
    ], "what comes often has pushed out what is rare"
    Silence().emit(buffer.events[0])


def test_all_that_asked_for_a_value_get_it_also_if_one_of_them_raises() -> None:
    promise: Promise[int] = Promise()
    told: list[int] = []

    def raising(value: int) -> None:
        raise ValueError("planted")

    promise.then(raising)
    promise.then(told.append)
    with pytest.raises(ValueError, match="planted"):
        promise.keep(5)
    assert told == [5] and promise.kept


def refuse(value: int) -> str:
    raise ValueError(f"planted at {value}")


def test_a_mapped_promise_whose_function_raises_fails_and_so_does_what_is_derived_from_it() -> None:
    source: Promise[int] = Promise()
    made = source.map(refuse).map(len)
    heard: list[object] = []
    made.then(heard.append, lambda error: heard.append(str(error)))
    source.keep(7)
    assert source.kept and source.value == 7, "the source has its value all the same"
    assert made.kept and heard == ["planted at 7"]
    with pytest.raises(ValueError, match="planted at 7"):
        _ = made.value
    made.then(heard.append, lambda error: heard.append("late"))
    assert heard == ["planted at 7", "late"]


@pytest.mark.parametrize("asked", [lambda promise: None, lambda promise: promise.then(print), Promise.abandon])
def test_a_failure_that_nothing_hears_of_is_raised(asked: Any) -> None:
    promise: Promise[int] = Promise()
    asked(promise)
    with pytest.raises(ValueError, match="planted"):
        promise.fail(ValueError("planted"))


def test_a_promise_passes_on_its_value_its_failure_and_being_abandoned() -> None:
    source: Promise[int] = Promise()
    other: Promise[int] = Promise()
    source.pass_on_to(other)
    source.keep(7)
    assert other.value == 7
    failing: Promise[int] = Promise()
    failing.pass_on_to(other := Promise())
    heard: list[Exception] = []
    other.then(print, heard.append)
    failing.fail(ValueError("planted"))
    assert [str(error) for error in heard] == ["planted"]
    unwanted: Promise[int] = Promise()
    unwanted.pass_on_to(other := Promise())
    other.abandon()
    assert unwanted.abandoned


def test_of_several_errors_the_failure_of_a_disk_is_raised() -> None:
    promise: Promise[int] = Promise()
    for error in (ValueError("a bug"), OSError("a disk"), OSError("another disk")):

        def raising(_: int, error: Exception = error) -> None:
            raise error

        promise.then(raising)
    with pytest.raises(OSError, match=r"^a disk"):
        promise.keep(5)
