"""What a coordinator's handler plans, and the two things that it asks of the runtime around it.

A coordinator changes its state in one way only: a handler plans `(records, response)` without changing anything, the
runtime appends the records to the coordinator's partition, `replay` of each record changes the state, and the response
goes out once the records are committed. A handler that plans no records still waits for what was appended before it:
its response may rest on that. A response that is a `Promise` is different: it is kept when the handler's own condition
comes true (all members have joined), and waits for no record.

A plan may have an `after`: soft state that no record holds (timers, waiting members) changes there, once the records
are in the log and replayed. If the append fails, `after` is not called and nothing has changed.

Follows org.apache.kafka.coordinator.common.runtime.{CoordinatorResult,CoordinatorTimer}.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from pykraft.common.errors import KafkaError
from pykraft.protocol.messages.coordinators import CoordinatorRecord

T = TypeVar("T")
U = TypeVar("U")


class CoordinatorResult(NamedTuple, Generic[T]):
    """Records to append, and the response once they are committed."""

    response: T
    records: Sequence[CoordinatorRecord] = ()
    after: Callable[[int], None] | None = None
    """Called with the time once the records are replayed."""
    on_end: Callable[[KafkaError | None, int], CoordinatorResult[None] | None] | None = None
    """Called with the time once the records are committed, or with the error if they will not be; it may plan more."""
    is_atomic: bool = True
    """False: the records may be written in several batches, because there may be too many for one."""
    is_replayed: bool = True
    """False: the state has changed already, or changes in `on_end`, and the records only keep it."""

    def answering(self, response: U) -> CoordinatorResult[U]:
        """The same plan with this response."""
        return CoordinatorResult(response, self.records, self.after, self.on_end, self.is_atomic, self.is_replayed)


class TransactionalWriter(NamedTuple):
    """The producer in whose transaction records are written."""

    producer_id: int
    producer_epoch: int
    verification: object = None
    """What the partition's log demands before it begins a transaction. The caller that asked for it knows its type;
    here it is only passed on."""


class TransactionEnd(NamedTuple):
    """How a producer's transaction ends, as its coordinator has decided."""

    producer_id: int
    producer_epoch: int
    committed: bool
    coordinator_epoch: int
    transaction_version: int = 0


def timer_key(kind: str, *names: str) -> str:
    """The key of a timer for these names. Clients choose the names, so each has its length in front: no two lists of
    names run together to the same key."""
    return ":".join([kind, *(f"{len(name)}:{name}" for name in names)])


class CoordinatorTimer(Protocol):
    """Things that a shard does later. Each has a key; a new one takes the place of the one before. They are soft state:
    when a shard is loaded, it schedules them again."""

    def schedule(self, key: str, delay_ms: int, plan: Callable[[int], CoordinatorResult[None]]) -> None:
        """Call ``plan(now)`` after this long, and write what it returns as any handler's. If the append fails it is
        tried again a little later."""
        ...

    def cancel(self, key: str) -> None:
        """Forget the one with this key, if there is one."""
        ...

    def is_scheduled(self, key: str) -> bool: ...
