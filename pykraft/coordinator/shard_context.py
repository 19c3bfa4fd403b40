"""A coordinator's shard, and what the runtime knows of it: how far it is loaded, what it has decided, who waits.

::

    log      | a b c d | e f g |              the partition
    waiting            ^ (d)   ^ (g)          answers that are due when the log is committed up to there
    batch                      [ h i j ]      decided and replayed, and not in the log yet; their answers wait in it
    shard                              ^      plans are made from this

Follows org.apache.kafka.coordinator.common.runtime.CoordinatorRuntime (its CoordinatorContext and CoordinatorBatch).
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Generic, NamedTuple, TypeVar

from pykraft.common.core import Promise, Steps
from pykraft.common.errors import KafkaError
from pykraft.common.timer import TimerTask
from pykraft.coordinator.committed_view import CommittedView
from pykraft.coordinator.ports import Shard
from pykraft.coordinator.replay import Change
from pykraft.coordinator.result import CoordinatorResult
from pykraft.coordinator.shard_timer import ShardTimer

S = TypeVar("S", bound=Shard)

EncodedRecord = tuple[bytes, bytes | None]
_BATCH_OVERHEAD = 61
_RECORD_OVERHEAD = 30
"""At most this many bytes of a record in a batch are neither its key nor its value."""


class State(Enum):
    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"


class Operation(NamedTuple):
    """A write that was planned, and the promise of its response."""

    result: CoordinatorResult[Any]
    promise: Promise[Any]


@dataclass(eq=False, slots=True)
class Waiting:
    """Responses that wait until the log is committed up to `offset`, or until they time out."""

    offset: int
    operations: Sequence[Operation]
    late: KafkaError
    """What they get if it takes too long."""
    timeout: TimerTask | None = None


class Read(NamedTuple):
    """A read that waits until what is committed is known."""

    look: Callable[[Any, Any], Any]
    promise: Promise[Any]


class OpenBatch:
    """What a shard has decided and replayed, and what its log does not have yet."""

    __slots__ = ("_room", "changes", "due", "operations", "records")

    def __init__(self, most_bytes: int, due: int) -> None:
        """The log takes a batch of `most_bytes`. At `due` it has to be written."""
        self.due = due
        self.records: list[EncodedRecord] = []
        self.changes: list[Change] = []
        self.operations: list[Operation] = []
        """Those whose last records are in here, and those that have none and have seen these."""
        self._room = most_bytes - _BATCH_OVERHEAD

    def has_room_for(self, records: Sequence[EncodedRecord]) -> bool:
        """Whether these surely fit as well."""
        return _bytes_of(records) <= self._room

    def add(self, records: Sequence[EncodedRecord], changes: Sequence[Change]) -> None:
        self._room -= _bytes_of(records)
        self.records += records
        self.changes += changes


def _bytes_of(records: Sequence[EncodedRecord]) -> int:
    return sum(len(key) + len(value or b"") + _RECORD_OVERHEAD for key, value in records)


@dataclass(eq=False)
class Context(Generic[S]):
    """A shard, and what the runtime knows of it."""

    partition: int
    epoch: int
    shard: S
    timer: ShardTimer
    loading: Steps[None] | None = None
    state: State = State.LOADING
    end_offset: int = 0
    """After the last record that is in the log."""
    batch: OpenBatch | None = None
    waiting: deque[Waiting] = field(default_factory=deque)
    view: CommittedView[S] | None = None
    """What readers see, if there are readers."""
    catching_up: Steps[None] | None = None
    """The view replays more than fits in a turn."""
    reads: list[Read] = field(default_factory=list)
    loaded_end: int = 0
    """The log's end when it was loaded: the leader before may have acknowledged everything up to it."""
    reads_wait_until: int = 0
    """How long reads wait for `loaded_end` to be committed."""
    skipped: set[int] = field(default_factory=set)
    """The types of records that were skipped."""

    @property
    def is_reading(self) -> bool:
        """Whether it has more to replay than fits in a turn."""
        return self.loading is not None or self.catching_up is not None
