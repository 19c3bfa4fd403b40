"""Lab 09: records on their way into batches."""

import math
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
def append(queue: list[Batch], record: Any, size: int, now_ms: float, batch_size: int, number: int) -> bool:
    """Add a record of `size` bytes to the last batch of its partition, or begin a batch of this number.
    Whether the sender should look: a batch has begun, or has become full."""
    is_new = not queue or queue[-1].attempts > 0 or queue[-1].size + size > batch_size
    if is_new:
        queue.append(Batch(number, now_ms))
    batch = queue[-1]
    batch.records.append(record)
    batch.size += size
    return is_new or batch.size >= batch_size


# --- end of task 9.1 ---


# --- task 9.2: when is it sent ---
def ready_at(queue: list[Batch], batch_size: int, linger_ms: float, is_flushing: bool) -> float:
    """From when on the first batch of a queue may be sent: 0 for at once, math.inf for an empty
    queue."""
    if not queue:
        return math.inf
    first = queue[0]
    if first.attempts > 0:
        return first.not_before_ms
    if is_flushing or len(queue) > 1 or first.size >= batch_size:
        return 0
    return first.created_ms + linger_ms


def next_look(queues: dict[int, list[Batch]], batch_size: int, linger_ms: float, is_flushing: bool) -> float:
    """When the sender should look next, if nothing comes before: math.inf if nothing waits."""
    return min((ready_at(queue, batch_size, linger_ms, is_flushing) for queue in queues.values()), default=math.inf)


# --- end of task 9.2 ---


# --- task 9.3: one request ---
def drain(queues: dict[int, list[Batch]], ready: list[int], max_bytes: int) -> list[Batch]:
    """Take the first batch of each ready partition, as many as one request holds. A partition from
    which a batch was taken is the last one in `queues` from now on."""
    taken: list[Batch] = []
    for partition in ready:
        batch = queues[partition][0]
        if taken and sum(other.size for other in taken) + batch.size > max_bytes:
            break
        queues[partition] = queues.pop(partition)
        queues[partition].remove(batch)
        batch.attempts += 1
        taken.append(batch)
    return taken


# --- end of task 9.3 ---


# --- task 9.4: refused, or too late ---
def put_back(queue: list[Batch], batch: Batch, now_ms: float, backoff_ms: float, backoff_max_ms: float) -> None:
    """A batch was sent and refused: put it where its number belongs, and let it wait."""
    batch.not_before_ms = now_ms + min(backoff_max_ms, backoff_ms * 2 ** (batch.attempts - 1))
    queue.append(batch)
    queue.sort(key=lambda other: other.number)


def expire(queue: list[Batch], now_ms: float, delivery_ms: float) -> list[Batch]:
    """Take out the batches that began `delivery_ms` ago, or earlier."""
    late = [batch for batch in queue if batch.created_ms + delivery_ms <= now_ms]
    queue[:] = [batch for batch in queue if batch.created_ms + delivery_ms > now_ms]
    return late


# --- end of task 9.4 ---
