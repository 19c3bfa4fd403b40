"""The thread for long work, and how it ends."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from pykraft.runtime.background import BackgroundThread


@pytest.fixture
def background() -> Iterator[BackgroundThread]:
    thread = BackgroundThread("test", lambda: None)
    yield thread
    thread.close()


def test_before_an_orderly_stop_the_job_that_is_being_done_ends_and_no_other_begins(
    background: BackgroundThread,
) -> None:
    began, may_end = threading.Event(), threading.Event()
    done: list[str] = []

    def first() -> str:
        began.set()
        may_end.wait()
        return "first"

    background.submit(first, done.append)
    background.submit(lambda: "second", done.append)
    began.wait()
    threading.Timer(0.05, may_end.set).start()
    background.finish()
    assert may_end.is_set() and done == ["first"]


def test_a_sync_that_fails_behind_a_stop_is_known_before_it(background: BackgroundThread) -> None:
    """A node that did not hear of it would say that it has closed its logs in order."""
    began = threading.Event()

    def job() -> None:
        began.set()
        raise OSError("the disk fails")

    background.submit(job, lambda _: None)
    began.wait()
    with pytest.raises(OSError, match="the disk fails"):
        background.finish()


def test_a_job_or_a_result_that_raises_is_told_and_the_others_go_on(background: BackgroundThread) -> None:
    told: list[str] = []
    background.on_error = lambda error: told.append(str(error))
    done: list[str] = []

    def raising(what: str) -> str:
        raise ValueError(what)

    background.submit(lambda: raising("a job"), done.append)
    background.submit(lambda: "a result", raising)
    background.submit(lambda: "third", done.append)
    background.close()
    background.drain()
    assert told == ["a job", "a result"] and done == ["third"]
