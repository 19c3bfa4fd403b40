"""What a coordinator's handler plans, and the two things that it asks of the runtime around it.

A coordinator changes its state in one way only: a handler plans `(records, response)` without changing anything,
`replay` of each record changes the state, the runtime appends the records to the coordinator's partition, and the
response goes out once they are committed. A handler that plans no records still waits for what was appended before it:
its response may rest on that. A response that is a `Promise` is different: it is kept when the handler's own condition
comes true (all members have joined), and waits for no record.

A plan may have an `after`: soft state that no record holds (timers, waiting members) changes there, once the records
are replayed. If the append fails before that, `after` is not called and nothing has changed; if it fails after that,
the whole shard is dropped, soft state and all.

Follows org.apache.kafka.coordinator.common.runtime.{CoordinatorResult,CoordinatorTimer}.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.protocol.messages.coordinators import CoordinatorRecord

_SPLIT_BYTES = 1 << 16
"""Records that need not be written together are written in batches of about this size."""
_RECORD_OVERHEAD = 20
"""At most this many bytes of a record are neither its key nor its value."""

_SEEN_AS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""What a failed append is for a client, which knows of no partition; and a failed question to a transaction's
coordinator, which old clients do not expect."""

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


def seen_by_client(error: KafkaError) -> KafkaError:
    """The error of a partition in the words of a coordinator's client."""
    return KafkaError(_SEEN_AS.get(error.code, error.code), error.detail)


def split(records: Sequence[tuple[bytes, bytes | None]]) -> Iterator[Sequence[tuple[bytes, bytes | None]]]:
    """The same records in batches of a moderate size."""
    batch: list[tuple[bytes, bytes | None]] = []
    size = 0
    for key, value in records:
        batch.append((key, value))
        size += len(key) + len(value or b"") + _RECORD_OVERHEAD
        if size >= _SPLIT_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
