"""What a worker of Spark's keeps from one task for the next: its imports, and the connections of its last reading.

Spark gives a worker in Python one task after the other. A stream has a few small tasks for each of its batches, so what
every task begins and ends with counts as much as its rows.

- PySpark calls Python's garbage collector after each task. What it goes through is not what the task has left but
  pandas, Arrow and this package: some 40 ms of the processor, and nothing is ever found there. `settle` puts all that
  is there when the first task begins out of the collector's sight. What tasks leave is collected as before.
- To read one range, a client connects twice (to a bootstrap address, and to the leader that it names), and greets both:
  four requests, of which one asks for records. `Shelf` keeps the client of a task that has read its whole range, and
  lends it to the next task with the same settings. A consumer of Kafka lives as long as its stream, too.

A client is not lent again if its task failed or stopped early, if it has lain there for long, or if it knows the topic
under another id than the range: then the task begins with a new one, as the first task does. Whatever else has changed
meanwhile (leaders, connections) is for the client to find out, as for every client that lives long.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark import TaskContext

from pykraft.common.types import TopicPartition, Uuid
from pykraft.spark.brokers import Brokers
from pykraft.spark.options import ReadOptions

KEPT_MS = 10_000
"""For a stream with longer pauses a new connection costs nothing that counts."""


def is_in_task() -> bool:
    """Whether this process is a worker that has a task."""
    return TaskContext.get() is not None


def settle() -> None:
    """Let the collector leave alone what was imported until now. To be called at the beginning of a task; from the
    second one on, and elsewhere than in a worker, nothing happens."""
    if is_in_task() and not gc.get_freeze_count():
        gc.freeze()


class Shelf:
    """The client of the last task that has read all that it was to read; none if the shelf keeps nothing."""

    def __init__(self, *, keeps: bool = True) -> None:
        self._keeps = keeps
        self._kept: Brokers | None = None
        self._settings: tuple[object, ...] = ()
        self._since = 0

    @contextmanager
    def lent(self, options: ReadOptions, partition: TopicPartition, topic_id: Uuid | None) -> Iterator[Brokers]:
        """A client that reads this partition, and no topic of another id. It is kept unless the block is left by an
        error, or by a reader that has seen enough."""
        settings = (options.consumer.as_dict(), options.patience_ms)
        brokers, self._kept = self._kept, None
        if brokers is not None and (settings != self._settings or brokers.client.now - self._since > KEPT_MS):
            brokers.close()
            brokers = None
        if brokers is not None:
            _prepare(brokers, partition, topic_id)
            if brokers.reader.fetcher.is_another_topic(partition.topic):
                brokers.close()
                brokers = None
        if brokers is None:
            brokers = Brokers(options.consumer, options.patience_ms)
            _prepare(brokers, partition, topic_id)
        try:
            yield brokers
        except BaseException:
            brokers.close()
            raise
        if self._keeps:
            self._kept, self._settings, self._since = brokers, settings, brokers.client.now
        else:
            brokers.close()

    def close(self) -> None:
        """Close the client that is kept."""
        kept, self._kept = self._kept, None
        if kept is not None:
            kept.close()


def _prepare(brokers: Brokers, partition: TopicPartition, topic_id: Uuid | None) -> None:
    """Let the client read this partition alone, and know nothing of what it has read before."""
    fetcher = brokers.reader.fetcher
    fetcher.is_lent_buffers = True
    fetcher.topic_ids = {} if topic_id is None else {partition.topic: topic_id}
    brokers.reader.assign([])
    brokers.reader.assign([partition])


_OF_THIS_WORKER = Shelf()


def shelf() -> Shelf:
    """The one that the tasks of this worker share; elsewhere one that keeps nothing."""
    return _OF_THIS_WORKER if is_in_task() else Shelf(keeps=False)
