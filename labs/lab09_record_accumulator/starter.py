"""Lab 09: records on their way into batches."""

import math  # noqa: F401 (you will need it)
from dataclasses import dataclass, field
from typing import Any

HEADER_BYTES = 61


@dataclass(eq=False)
class Batch:
    """A batch of one partition. Batches are numbered in the order in which they begin; times are
    milliseconds."""

    number: int
    created_ms: float
    size: int = HEADER_BYTES
    records: list[Any] = field(default_factory=list)
    attempts: int = 0
    """How often it was sent."""
    not_before_ms: float = 0


# --- task 9.1: fill a batch ---
def append(
    queue: list[Batch],
    record: Any,
    size: int,
    now_ms: float,
    batch_size: int,
    number: int,
) -> bool:
    """Add a record of `size` bytes to the last batch of its partition, or begin a batch of this number.
    Whether the sender should look: a batch has begun, or has become full."""
    raise NotImplementedError("Task 9.1: the last batch, or a new one")


# --- end of task 9.1 ---


# --- task 9.2: when is it sent ---
def ready_at(queue: list[Batch], batch_size: int, linger_ms: float, is_flushing: bool) -> float:
    """From when on the first batch of a queue may be sent: 0 for at once, math.inf for an empty
    queue."""
    raise NotImplementedError("Task 9.2: what ends the wait of the first batch")


def next_look(
    queues: dict[int, list[Batch]],
    batch_size: int,
    linger_ms: float,
    is_flushing: bool,
) -> float:
    """When the sender should look next, if nothing comes before: math.inf if nothing waits."""
    raise NotImplementedError("Task 9.2: the earliest of all queues")


# --- end of task 9.2 ---


# --- task 9.3: one request ---
def drain(queues: dict[int, list[Batch]], ready: list[int], max_bytes: int) -> list[Batch]:
    """Take the first batch of each ready partition, as many as one request holds. A partition from
    which a batch was taken is the last one in `queues` from now on."""
    raise NotImplementedError("Task 9.3: one batch of each, as long as they fit")


# --- end of task 9.3 ---


# --- task 9.4: refused, or too late ---
def put_back(
    queue: list[Batch],
    batch: Batch,
    now_ms: float,
    backoff_ms: float,
    backoff_max_ms: float,
) -> None:
    """A batch was sent and refused: put it where its number belongs, and let it wait."""
    raise NotImplementedError("Task 9.4: where does it belong, and how long does it wait")


def expire(queue: list[Batch], now_ms: float, delivery_ms: float) -> list[Batch]:
    """Take out the batches that began `delivery_ms` ago, or earlier."""
    raise NotImplementedError("Task 9.4: which have waited for too long")


# --- end of task 9.4 ---
