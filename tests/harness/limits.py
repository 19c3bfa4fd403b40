"""No test runs for ever: after 120 seconds it fails and says where each thread stood.

`@pytest.mark.limit(seconds)` gives one test, class or module another limit; the option `time_limit` changes it for a
run. Set-up, test and tear-down are limited each on its own.

The alarm is a signal, which Python delivers to the main thread between two bytecodes and into blocking calls. One C
call that neither returns nor lets go of the interpreter is beyond it: for that pytest's own faulthandler_timeout ends
the whole process, much later.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import traceback
from collections.abc import Generator, Iterator
from types import FrameType

import pytest

DEFAULT_S = 120.0
AGAIN_S = 20.0


class LimitExceeded(BaseException):
    """A test took too long. Not an Exception: neither the code under test nor Hypothesis may catch it and go on."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("time_limit", "seconds that the set-up, the test and the tear-down may take each", default=DEFAULT_S)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "limit(seconds): the test's own time limit")


def limit_of(item: pytest.Item) -> float:
    marker = item.get_closest_marker("limit")
    return float(marker.args[0] if marker else item.config.getini("time_limit"))


def stacks() -> str:
    """Where each thread stands, the youngest call last."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    return "\n".join(
        f"Thread {names.get(ident, ident)}:\n" + "".join(traceback.format_stack(frame)[-8:])
        for ident, frame in sys._current_frames().items()
        if ident != threading.get_ident()  # the traceback of the failure shows this one
    )


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raises LimitExceeded in the block when it has run for this long; and again, should something have caught it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(number: int, frame: FrameType | None) -> None:
        raise LimitExceeded(f"over the limit of {seconds:g} s\n{stacks()}")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, None, None]:
    with limited(limit_of(item)):
        yield


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    with limited(limit_of(item)):
        yield


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    with limited(limit_of(item)):
        yield
