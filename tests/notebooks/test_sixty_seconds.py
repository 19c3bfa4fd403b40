"""Notebook 00 must turn red when the system is broken, and stay within a minute and a small container when it is not.

nbval runs the notebook as well, in the same suite: so it is run at least twice in a row.
"""

from __future__ import annotations

import os
import resource
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psutil
import pytest

from pykraft.course.execute import NotebookFailed, execute, read
from tests.notebooks.sections import NOTEBOOK, run

pytestmark = pytest.mark.limit(300)  # where others use the cores, too

SECONDS = 60
MEGABYTES = 1300

A_RASH_ACKNOWLEDGEMENT = """
from pykraft.common.errors import ErrorCode
from pykraft.server.partition import Partition

def replicated_up_to(self, offset):
    return ErrorCode.NONE if self.log.log_end_offset >= offset else None

Partition.replicated_up_to = replicated_up_to
"""

A_TAIL_LOST_AT_RESTART = """
import os
from pathlib import Path
from pykraft.storage.log_loader import LogLoader

whole_load = LogLoader.load

def load(self):
    for file in sorted(Path(self.directory).glob("*.log"))[-1:]:
        if file.parent.name.startswith("flights-") and file.stat().st_size:
            os.truncate(file, file.stat().st_size - 1)
    return whole_load(self)

LogLoader.load = load
"""

A_CLAIM = """
nb.claim("One of the three is the active controller.", victim in cluster.broker_ids)
thread = cluster._nodes[others[0]]
"""

A_THREAD_THAT_FAILED = (
    A_CLAIM
    + """
def poll(now):
    raise RuntimeError("planted")

thread.node.poll = poll
thread._selector.wakeup()
thread._thread.join()
"""
)

A_THREAD_THAT_ENDED = A_CLAIM + "thread.kill()"


def test_an_acknowledgement_at_the_leaders_log_end_turns_the_notebook_red() -> None:
    """The idempotent client finds it out by itself: the next leader misses what this one has acknowledged."""
    with pytest.raises(NotebookFailed, match=r"(?i)kafkaexception: .*fatal"):
        run("5. ", before=A_RASH_ACKNOWLEDGEMENT)


def test_a_client_that_counts_nothing_loses_flights_to_a_rash_acknowledgement_and_the_account_tells() -> None:
    with pytest.raises(NotebookFailed, match=r"this does not hold: .*Not one acknowledged flight is missing"):
        run(
            "5. ",
            before=A_RASH_ACKNOWLEDGEMENT,
            changed=('"enable.idempotence": True', '"enable.idempotence": False'),
        )


def test_a_log_that_loses_its_tail_at_a_restart_turns_the_notebook_red() -> None:
    with pytest.raises(NotebookFailed, match="this does not hold: Each log is as long as it was"):
        run("7. ", before=A_TAIL_LOST_AT_RESTART)


@pytest.mark.parametrize(
    ("plant", "words"),
    [
        (A_THREAD_THAT_FAILED, r"node \d does not run any more; ClusterError: node \d died: RuntimeError: planted"),
        (A_THREAD_THAT_ENDED, r"node \d does not run any more"),
    ],
    ids=["with an error", "silently"],
)
def test_a_node_thread_that_died_turns_the_notebook_red(plant: str, words: str) -> None:
    with pytest.raises(NotebookFailed, match=words):
        run("2. ", after=plant)


class Taken:
    """What a block took: seconds, without those in which others had the cores, and memory at the most."""

    seconds = 0.0
    megabytes = 0.0


@contextmanager
def measured() -> Iterator[Taken]:
    """Watch the block's child processes."""
    taken, over = Taken(), threading.Event()

    def watch() -> None:
        while not over.wait(0.2):
            taken.megabytes = max(taken.megabytes, sum(map(_pss, psutil.Process().children(recursive=True))) / 1e6)

    watcher = threading.Thread(target=watch)
    watcher.start()
    started, own, busy = time.monotonic(), _own_cpu_seconds(), _busy_cpu_seconds()
    try:
        yield taken
    finally:
        over.set()
        watcher.join()
    others = max(0.0, _busy_cpu_seconds() - busy - (_own_cpu_seconds() - own))
    taken.seconds = time.monotonic() - started - others / (os.cpu_count() or 1)


def _pss(process: psutil.Process) -> int:
    with suppress(psutil.Error):
        memory = process.memory_full_info()
        return int(getattr(memory, "pss", memory.rss))
    return 0


def _own_cpu_seconds() -> float:
    """Of this process, and of all its children that have ended."""
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in usage)


def _busy_cpu_seconds() -> float:
    times = psutil.cpu_times()
    return float(times.user + times.system + times.nice)


def test_the_notebook_runs_within_a_minute_and_in_a_small_container() -> None:
    with measured() as taken:
        execute(read(NOTEBOOK), NOTEBOOK.parent)
    print(f"notebook 00: {taken.seconds:.1f} s, {taken.megabytes:,.0f} MB of memory")  # noqa: T201
    assert taken.seconds < SECONDS
    assert taken.megabytes < MEGABYTES
