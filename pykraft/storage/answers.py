"""What a log is asked for, and what it answers.

Follows org.apache.kafka.storage.internals.log.{FetchIsolation,LogAppendInfo,FetchDataInfo} and
org.apache.kafka.common.record.FileRecords.TimestampAndOffset.
"""

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from pykraft.common.core import FileRegion
from pykraft.storage.transaction_index import AbortedTransaction


class Isolation(Enum):
    """Up to where a reader may see."""

    LOG_END = "a replica: everything"
    HIGH_WATERMARK = "a consumer: what cannot be lost"
    COMMITTED = "a consumer of committed data: what is also decided"


@dataclass(slots=True)
class AppendInfo:
    """Where a batch went, or where it had gone if it is a repeated one."""

    first_offset: int
    last_offset: int
    log_append_time_ms: int
    """-1 if the timestamps are the producer's; of a repeated batch its largest timestamp."""
    log_start_offset: int


class FetchData(NamedTuple):
    """What a read found."""

    records: FileRegion | bytes
    """Batches, of which the last may be incomplete; empty if there is nothing that the reader may see."""
    first_batch_is_cut: bool
    """Whether not even the first one had room."""
    aborted: list[AbortedTransaction] | None
    """Of a reader of committed data: the aborted transactions among these batches."""


class TimestampedOffset(NamedTuple):
    """An offset found by its timestamp, with the leader epoch of the record there (-1 if unknown)."""

    timestamp: int
    offset: int
    leader_epoch: int
