"""What happened inside: the hook through which tests, notebooks and the simulator watch a node.

A core reports each change of state that Kafka's theory has a name for (became leader, high watermark advanced, ISR
changed, log truncated, ...) as one flat event. The sink decides what becomes of it: nothing, a ring buffer that a
notebook prints, the invariants of the simulator. An event's fields are plain values, so a trace can be compared,
hashed and drawn.
"""

from collections import defaultdict, deque
from operator import itemgetter
from typing import Any, NamedTuple, Protocol


class TraceEvent(NamedTuple):
    """Something that happened at `now` on node `node`: a name and plain values."""

    now: int
    node: int
    name: str
    fields: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.now:>9} ms  node {self.node}  {self.name}  " + "  ".join(
            f"{key}={value}" for key, value in self.fields.items()
        )


class TraceSink(Protocol):
    def emit(self, event: TraceEvent) -> None: ...


class Silence:
    """A sink that keeps nothing."""

    def emit(self, event: TraceEvent) -> None:
        pass


class RingBuffer:
    """A sink that keeps the last events of each name: a node's journal. Nodes never print.

    A cluster that idles still writes four events a second, as its metadata log grows. They may push out each other, but
    not what is rare: a slow reader asks after an hour for what was cut off."""

    def __init__(self, capacity: int = 10_000) -> None:
        self.count = 0
        """How many events there were, in all."""
        self._by_name: defaultdict[str, deque[tuple[int, TraceEvent]]] = defaultdict(lambda: deque(maxlen=capacity))

    def emit(self, event: TraceEvent) -> None:
        self.count += 1
        self._by_name[event.name].append((self.count, event))

    @property
    def events(self) -> list[TraceEvent]:
        """What is kept, in the order in which it came; another thread may write meanwhile."""
        numbered = [entry for kept in list(self._by_name.values()) for entry in list(kept)]
        return [event for _, event in sorted(numbered, key=itemgetter(0))]


class Tracer:
    """A node's pen: knows which node writes, and what time it is there."""

    def __init__(self, node: int, sink: TraceSink) -> None:
        self.node = node
        self.now = 0
        self.sink = sink

    def __call__(self, name: str, /, **fields: Any) -> None:
        self.sink.emit(TraceEvent(self.now, self.node, name, fields))
