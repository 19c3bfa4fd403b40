"""Faults are counted and written down, and what is no fault is raised again."""

from __future__ import annotations

import pytest

from pykraft.common.fault_handler import MOST_SORTS, FaultHandler, StrictFaultHandler
from pykraft.common.metrics import OWN, Metrics
from pykraft.common.trace import RingBuffer, Tracer

pytestmark = pytest.mark.survives_faults


def caught(error: BaseException) -> BaseException:
    """The same with a traceback."""
    try:
        raise error
    except BaseException as same:
        return same


def handler() -> tuple[FaultHandler, RingBuffer, Metrics]:
    journal, metrics = RingBuffer(), Metrics()
    return FaultHandler(Tracer(1, journal), metrics), journal, metrics


def test_the_journal_has_one_traceback_for_each_kind_and_class_and_a_line_for_each_fault() -> None:
    faults, journal, metrics = handler()
    for kind, error in (
        ("timer", KeyError("a")),
        ("timer", KeyError("b")),
        ("timer", ValueError()),
        ("gauge", KeyError()),
    ):
        faults.handle_fault(kind, caught(error), name="x")
    assert [("traceback" in event.fields, event.fields["count"]) for event in journal.events] == [
        (True, 1),
        (False, 2),
        (True, 1),
        (True, 1),
    ]
    first, second = (str(event) for event in journal.events[:2])
    assert "Traceback" in first and "raise error" in first and first.endswith("KeyError: 'a'\n")
    assert "KeyError: 'b'" in second and "\n" not in second and "name=x" in second
    assert metrics.value("FaultHandler", "FaultCount", OWN) == faults.count == 4


def test_what_is_no_fault_is_raised_again_and_not_counted() -> None:
    faults, journal, _ = handler()
    for error in (OSError(5, "input/output error"), KeyboardInterrupt()):
        with pytest.raises(type(error)):
            faults.handle_fault("timer", caught(error))
    assert faults.count == 0 and not journal.events


def test_the_memory_of_a_handler_is_bounded() -> None:
    faults, journal, _ = handler()
    for number in range(MOST_SORTS + 50):
        faults.handle_fault("request", caught(type(f"Error{number}", (Exception,), {})("x" * 100_000)))
    assert faults.count == MOST_SORTS + 50
    assert sum("traceback" in event.fields for event in journal.events) == MOST_SORTS
    assert max(len(str(event)) for event in journal.events) < 30_000


def test_a_strict_handler_takes_note_and_raises() -> None:
    journal = RingBuffer()
    strict = StrictFaultHandler(Tracer(1, journal))
    with pytest.raises(KeyError):
        strict.handle_fault("timer", caught(KeyError("a")))
    assert [event.name for event in journal.events] == ["fault"]
