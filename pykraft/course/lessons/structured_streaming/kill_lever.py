"""The first picture of notebook 24: a driver or a broker is killed at a step, and the checkpoint says what comes again.

At each move a broker is started, 24 records are written, and a driver in a process of its own (`small_driver`) copies
them in three batches. At the chosen step it gets SIGKILL; then a second driver goes on from the same checkpoint. Or the
broker is killed there, and started again, and the same driver goes on. In the end a reader of committed records counts
how often each record is there.
"""

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from pykraft import Cluster, NewTopic, Producer
from pykraft.course.lessons.structured_streaming.small_driver import BATCHES, RECORDS, SINK, SOURCE, STEPS
from pykraft.course.places import ROOT
from pykraft.spark.options import read_options
from pykraft.spark.reading.plan import plan
from pykraft.spark.source import rows
from pykraft.viz import Figure
from pykraft.viz.measured.death_chart import Ran, death_chart

DRIVER, BROKER = "the driver", "the broker"
DEFAULT, ONCE = "at least once (default)", "exactlyOnce=true"
LAST_STEP = BATCHES * len(STEPS)
"""After this one there is nothing left to kill."""
_PATIENCE_S = 60
_QUICK = {
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
    "group.initial.rebalance.delay.ms": 0,
}


class Outcome(NamedTuple):
    """What came of a death."""

    ran: tuple[Ran, ...]
    """The steps of each driver: the one that was killed first."""
    status: int
    """Of the first driver's process: -9 if it was killed."""
    files: frozenset[str]
    """Of the checkpoint, in the moment of the death."""
    times: Counter[int]
    """How often a reader of committed records finds each record."""


def draw_kill(kill: str, after_step: int, sink: str) -> Figure:
    """The drivers' steps, the checkpoint at the death, and how often each record is there."""
    outcome = killed(kill, after_step, sink)
    batch, step = divmod(after_step - 1, len(STEPS))
    twice = sum(count > 1 for count in outcome.times.values())
    missing = BATCHES * RECORDS - len(outcome.times)
    title = f"{kill.capitalize()} is killed after '{STEPS[step]}' of batch {batch}: {_counted(twice)} twice"
    title += f", {_counted(missing)} missing" if missing else ", none is missing"
    what = "kill -9 of a process" if kill == DRIVER else "the broker ends without a word, and starts again"
    return death_chart(
        outcome.ran, outcome.files, outcome.times, steps=STEPS, records=RECORDS, title=title, note=f"{sink}; {what}."
    )


def killed(kill: str, after_step: int, sink: str) -> Outcome:
    """Copy the records, kill one of the two when the driver has done so many steps, and go on to the end."""
    with Cluster(nodes=1, properties=_QUICK) as cluster, TemporaryDirectory(prefix="pykraft-kill-") as folder:
        _fill(cluster)
        checkpoint = Path(folder)
        with _driver(cluster, checkpoint, sink) as first:
            ran = [_steps(first, after_step)]
            files = frozenset(f"{each.parent.name}/{each.name}" for each in checkpoint.glob("[oc]*/*"))
            if kill == DRIVER:
                os.kill(first.pid, signal.SIGKILL)
            else:
                cluster.kill(1)
                cluster.restart(1)
                if after_step < LAST_STEP:
                    _go_on(first)
                ran[0] += _steps(first)
            status = first.wait(_PATIENCE_S)
        if kill == DRIVER:
            with _driver(cluster, checkpoint, sink) as second:
                ran.append(_steps(second))
                second.wait(_PATIENCE_S)
        return Outcome(tuple(ran), status, files, _found(cluster.bootstrap_servers))


def _fill(cluster: Cluster) -> None:
    with cluster.admin() as admin:
        admin.create_topics([NewTopic(SOURCE, 2, 1), NewTopic(SINK, 1, 1)])
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for number in range(BATCHES * RECORDS):
            producer.send(SOURCE, b"%d" % number, partition=number % 2)


@contextmanager
def _driver(cluster: Cluster, checkpoint: Path, sink: str) -> Iterator["subprocess.Popen[str]"]:
    module = "pykraft.course.lessons.structured_streaming.small_driver"
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    process = subprocess.Popen(
        [sys.executable, "-m", module, cluster.bootstrap_servers, str(checkpoint), str(sink == ONCE).lower()],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )
    try:
        yield process
    finally:
        process.kill()
        with suppress(BrokenPipeError):
            process.communicate()


def _steps(process: "subprocess.Popen[str]", most: int = LAST_STEP) -> Ran:
    """Let it do so many steps, and wait after the last one; or all that are left."""
    assert process.stdout is not None
    found: Ran = []
    for line in process.stdout:
        batch, _, step = line.strip().partition(" ")
        found.append((int(batch), step))
        if len(found) == most < LAST_STEP:
            break
        _go_on(process)
    return found


def _go_on(process: "subprocess.Popen[str]") -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def _found(servers: str) -> Counter[int]:
    said = {"kafka.bootstrap.servers": servers, "subscribe": SINK, "isolationLevel": "read_committed"}
    options = read_options(said)
    batches = [batch for offsets in plan(options) for batch in rows(options, ("value",), offsets)]
    return Counter(int(value) for batch in batches for value in batch.column(0).to_pylist())


def _counted(records: int) -> str:
    return {0: "no record is there", 1: "1 record is there"}.get(records, f"{records} records are there")
