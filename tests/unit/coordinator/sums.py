"""A coordinator whose shard is a sum, on a log that a test may refuse, and whose high watermark it may hold back.

Each plan adds to the sum that it sees, so two plans on the same state would show: the sums in the log always grow.
Records of transactions are a number beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pykraft.common.core import Promise
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.fault_handler import FaultHandler
from pykraft.common.rooms import Room, Rooms
from pykraft.common.timer import Timer
from pykraft.common.trace import Silence, Tracer
from pykraft.common.types import TopicPartition
from pykraft.coordinator.group.offsets import CommittedOffset, commit_record
from pykraft.coordinator.replay import changes
from pykraft.coordinator.result import CoordinatorResult, TransactionalWriter, TransactionEnd
from pykraft.coordinator.runtime import CoordinatorRuntime
from pykraft.coordinator.shard_writer import ADAPTIVE
from pykraft.protocol.messages.coordinators import GROUP_RECORDS, CoordinatorRecord, OffsetCommitValue
from pykraft.records.batch import RecordBatch
from pykraft.records.builder import RecordBatchBuilder
from pykraft.records.markers import Marker, end_transaction_marker

P = 0
COMMIT_TIMEOUT_MS = 5_000
PRODUCER = TransactionalWriter(7, 1)
COMMIT, ABORT = TransactionEnd(7, 1, True, 3), TransactionEnd(7, 1, False, 3)
UNREPLAYABLE = 666
"""No shard takes this number."""


class Log:
    """A partition: its batches, in order."""

    def __init__(self) -> None:
        self.data: list[bytes] = []
        self.ends = [0]
        self.refuses: Exception | None = None
        self.committed: int | None = None
        """The high watermark; None: everything is committed at once."""
        self.most = 1 << 20

    def append(
        self, partition: int, records: Sequence[tuple[bytes, bytes | None]], now: int, writer: Any = None
    ) -> int:
        fields = {} if writer is None else {"producer_id": writer.producer_id, "producer_epoch": 1, "base_sequence": 0}
        builder = RecordBatchBuilder(transactional=writer is not None, **fields)
        for key, value in records:
            builder.append(0, key, value)
        if builder.size > self.most:
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, "that is too large")
        return self._append(builder.build(), len(records))

    def append_marker(self, partition: int, end: TransactionEnd, now: int) -> int:
        marker = end_transaction_marker(end.producer_id, end.producer_epoch, Marker(end.committed, 3), 0)
        return self._append(marker, 1)

    def _append(self, data: bytes | bytearray, count: int) -> int:
        if self.refuses is not None:
            raise self.refuses
        batch = RecordBatch(memoryview(bytearray(data)))
        batch.assign(self.ends[-1], 0)
        self.data.append(bytes(batch.buffer))
        self.ends.append(self.ends[-1] + count)
        return self.ends[-1]

    def max_batch_bytes(self, partition: int) -> int:
        return self.most

    def high_watermark(self, partition: int) -> int:
        return self.ends[-1] if self.committed is None else self.committed

    def batches(self, partition: int, offset: int = 0) -> Iterator[RecordBatch]:
        """Also those that are appended while this is read, as a broker's log gives them."""
        for data in self.data:
            batch = RecordBatch(memoryview(data))
            if batch.next_offset > offset:
                yield batch

    def end_offset(self, partition: int) -> int:
        return self.ends[-1]

    @property
    def numbers(self) -> list[tuple[int, int, int]]:
        """Of each record but markers: its number, its producer, and the offset after its batch."""
        found = []
        for batch in self.batches(P):
            for change in changes(GROUP_RECORDS, batch):
                if change.record is not None:
                    assert isinstance(change.record.value, OffsetCommitValue)
                    found.append((change.record.value.offset, change.producer_id, batch.next_offset))
        return found

    @property
    def sizes(self) -> list[int]:
        """How many records each batch has."""
        return [end - begin for begin, end in zip(self.ends, self.ends[1:], strict=False)]


class Sum:
    """A shard: the last sum that was written, and what transactions have pending and committed."""

    def __init__(self) -> None:
        self.value = self.settled = 0
        self.pending: dict[int, int] = {}
        self.is_unloaded = False

    def replay(self, record: CoordinatorRecord, producer_id: int) -> None:
        assert isinstance(record.value, OffsetCommitValue)
        number = record.value.offset
        if number == UNREPLAYABLE:
            raise ValueError("that is no number")
        if producer_id >= 0:
            self.pending[producer_id] = number
        else:
            self.value = number

    def replay_marker(self, producer_id: int, is_commit: bool) -> None:
        number = self.pending.pop(producer_id, None)
        if is_commit and number is not None:
            self.settled = number

    def on_loaded(self, now: int) -> None:
        pass

    def on_unloaded(self) -> None:
        self.is_unloaded = True


def record(number: int, text: str = "") -> CoordinatorRecord:
    return commit_record("g", TopicPartition("t", 0), CommittedOffset(number, -1, text, 0))


def add(number: int) -> Callable[[Sum], CoordinatorResult[int]]:
    """Write down the sum that the shard has, and this number; the response is the new sum."""

    def plan(shard: Sum) -> CoordinatorResult[int]:
        return CoordinatorResult(shard.value + number, [record(shard.value + number)])

    return plan


def look(shard: Sum) -> CoordinatorResult[int]:
    return CoordinatorResult(shard.value)


class Coordinator:
    """A runtime with one shard, in the hands of the test."""

    def __init__(self, linger_ms: int = ADAPTIVE) -> None:
        self.log, self.timer, self.now = Log(), Timer(), 1_000
        self.errors: list[Exception] = []
        self.faults: list[str] = []
        self.room = Room("sums")
        self.rooms = Rooms(lambda _, error: 0)
        self.runtime: CoordinatorRuntime[Sum] = CoordinatorRuntime(
            name="sums",
            types=GROUP_RECORDS,
            log=self.log,
            make_shard=lambda partition, timer: Sum(),
            timer=self.timer,
            trace=Tracer(0, Silence()),
            commit_timeout_ms=COMMIT_TIMEOUT_MS,
            append_linger_ms=linger_ms,
            has_readers=True,
            faults=NotedFaults(self.faults, self.errors),
            room=self.room,
        )
        self.rooms.add(self.room, self._poll)
        self.runtime.lead(P, 1, self.now)
        self.turn()
        assert self.runtime.active_partitions() == [P]

    def _poll(self, now: int) -> int:
        self.runtime.poll(now)
        return self.runtime.deadline(now)

    def write(self, plan: Any, writer: TransactionalWriter | None = None) -> Promise[Any]:
        return self.runtime.write(P, plan, self.now, writer)

    def turn(self, after_ms: int = 0) -> None:
        """The node's turn ends, and others follow while there is something to do."""
        self.now += after_ms
        self.timer.expire(self.now)
        while self.rooms.turn(self.now)[0] <= self.now:
            continue

    @property
    def shard(self) -> Sum:
        return self.runtime.active(P)

    def committed(self, up_to: int | None) -> None:
        self.log.committed = up_to
        self.runtime.note_high_watermark(P)
        self.turn()


class NotedFaults(FaultHandler):
    """Keeps what is at fault, and goes on."""

    def __init__(self, kinds: list[str], errors: list[Exception]) -> None:
        super().__init__(Tracer(0, Silence()))
        self._kinds, self._errors = kinds, errors

    def handle_fault(self, kind: str, error: Exception, **fields: Any) -> None:
        self._kinds.append(kind)
        self._errors.append(error)


def code(answer: Promise[Any]) -> ErrorCode | None:
    """The error of an answer; None if it is one without. It must be there."""
    assert answer.kept
    return answer.value.code if isinstance(answer.value, KafkaError) else None
