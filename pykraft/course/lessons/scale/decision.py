"""A broker dies, and the records of that decision are counted and timed where they are made and where they arrive.

::

    decision = decision_of(cluster, broker=2)
    decision.counts                    how many records there are of each type
    decision.silence_s                 from the kill to the first record
    decision.decided, decision.heard   (ms after the first record, records so far): in the controller, in a broker

The nodes are threads of this process. Every record changes an image by `MetadataDelta.replay`: in the active controller
when it decides, in the others when they read the log. There each is noted, with the thread and the time.
"""

import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from pykraft.metadata.delta import MetadataDelta

if TYPE_CHECKING:
    from pykraft.cluster import Cluster

_PATIENCE_S, _LOOK_S = 120.0, 0.05
_OF_A_DEATH = ("PartitionChange", "BrokerRegistrationChange")

Course = list[tuple[float, int]]
"""(ms after the first record, records so far)."""


class Note(NamedTuple):
    """A record reached an image."""

    thread: str
    at_s: float
    name: str


class Decision(NamedTuple):
    """What the death of one broker costs."""

    counts: dict[str, int]
    silence_s: float
    decided: Course
    heard: Course

    @property
    def records(self) -> int:
        return sum(self.counts.values())

    @property
    def took_ms(self) -> float:
        """From the first record in the active controller to the last one in the other broker."""
        return self.heard[-1][0]

    @property
    def us_per_record(self) -> float:
        return 1000 * self.took_ms / self.records


def make_wide_topic(cluster: "Cluster", name: str, partitions: int) -> float:
    """A topic with a replica of each partition on every broker; the seconds until each broker has made its logs."""
    began = time.monotonic()
    with cluster.admin() as admin:
        admin.create_topic(name, partitions, len(cluster.broker_ids))
    deadline = began + _PATIENCE_S
    while any(_logs(cluster, broker, name) < partitions for broker in cluster.broker_ids):
        if time.monotonic() > deadline:
            raise TimeoutError(f"the brokers have not made {partitions} logs after {_PATIENCE_S:g} s")
        time.sleep(_LOOK_S)
    return time.monotonic() - began


def _logs(cluster: "Cluster", broker: int, topic: str) -> int:
    return sum(1 for _ in cluster.node_directory(broker).glob(f"{topic}-*"))


def decision_of(cluster: "Cluster", broker: int) -> Decision:
    """Kill the broker, and wait until each other broker knows that it is fenced."""
    active = cluster.describe(0).active_controller
    other = next(each for each in cluster.broker_ids if each != broker)
    with _noting() as notes:
        killed = time.monotonic()
        cluster.kill(broker)
        deadline = killed + _PATIENCE_S
        while not _ends(notes, active) or not _ends(notes, other):
            if time.monotonic() > deadline:
                raise TimeoutError(f"broker {broker} is not fenced after {_PATIENCE_S:g} s")
            time.sleep(_LOOK_S)
    decided, heard = (_first_pass([note for note in notes if _is_of(note, node)]) for node in (active, other))
    first = decided[0].at_s
    counts = dict(Counter(note.name for note in decided))
    return Decision(counts, first - killed, _course(decided, first), _course(heard, first))


def _is_of(note: Note, node: int | None) -> bool:
    return note.thread == f"node-{node}" and note.name in _OF_A_DEATH


def _ends(notes: Sequence[Note], node: int | None) -> bool:
    """Whether the record that fences the broker, the last one, has reached this node's image."""
    return any(_is_of(note, node) and note.name == _OF_A_DEATH[-1] for note in list(notes))


def _first_pass(notes: list[Note]) -> list[Note]:
    """Up to the record that fences: an active controller replays what it has decided once more when it is committed."""
    names = [note.name for note in notes]
    return notes[: names.index(_OF_A_DEATH[-1]) + 1]


def _course(notes: Sequence[Note], first: float) -> Course:
    return [(1000 * (note.at_s - first), number) for number, note in enumerate(notes, 1)]


@contextmanager
def _noting() -> Iterator[list[Note]]:
    """Meanwhile note each record that reaches an image."""
    notes: list[Note] = []
    own = MetadataDelta.replay

    def replay(self: MetadataDelta, record: Any) -> None:
        own(self, record)
        name = type(record).__name__.removesuffix("Record")
        notes.append(Note(threading.current_thread().name, time.monotonic(), name))

    MetadataDelta.replay = replay  # type: ignore[method-assign]
    try:
        yield notes
    finally:
        MetadataDelta.replay = own  # type: ignore[method-assign]
