"""What a coordinator's partition says up to its high watermark: the state that readers see.

A shard runs ahead: it has replayed every record that is in the log. Some of them may be lost, so a write's response
waits until they are committed. A read (describe a group, fetch its offsets) must not wait. With too few replicas in
sync, nothing is committed for a long time, and then an administrator reads most of all. So there is a second copy of
the shard, the *view*. It replays the same records later, once the high watermark has passed them::

    log        | a b c d e f g h |
    shard                        ^  the log's end: plans are made from this
    view                 ^          the high watermark: reads are answered from this
    pending              [d..h]     what the view has still to replay, in the order of the log

The view replays when it is read, or when many records are pending. What it tells is committed: no crash, no new leader
and no truncation takes it back. It needs no truncation of its own, because the log of a leader is not truncated. A
broker that loses the leadership drops both copies.

*Memory.* The view takes as much as the shard. At most `MOST_PENDING` records are kept. With more, the view forgets
them and is *behind*: it reads them from the log when they are committed, a few thousand in one turn of the node's loop.

Kafka has one copy instead, in hash tables that keep the old value of each entry that changed after the last committed
offset (timeline data structures). Its memory grows as long as nothing is committed.

Follows org.apache.kafka.timeline.SnapshotRegistry, as
org.apache.kafka.coordinator.common.runtime.{SnapshottableCoordinator,CoordinatorRuntime#scheduleReadOperation} use it.
"""

from collections import deque
from collections.abc import Sequence
from typing import Generic, TypeVar

from pykraft.common.core import Steps
from pykraft.coordinator.ports import PartitionLog, Shard
from pykraft.coordinator.replay import Change, changes
from pykraft.coordinator.replay_turn import ReplayTurn
from pykraft.protocol.messages.coordinators import RecordTypes

MOST_PENDING = 10_000
"""With more records than these the view reads the log instead."""
_REPLAYED_AT = 10
"""When the tenth part of that is pending, the view does not wait for a reader."""

S = TypeVar("S", bound=Shard)


class CommittedView(Generic[S]):
    """The committed state of one partition."""

    def __init__(
        self, shard: S, types: RecordTypes, log: PartitionLog, partition: int, replay_turn: ReplayTurn
    ) -> None:
        """`shard` is an empty one that has no timers."""
        self.shard = shard
        self.offset = 0
        """Everything before it is replayed."""
        self.pending = 0
        """The number of records that are kept."""
        self.is_behind = False
        """Records after those that are kept are in the log only."""
        self._types = types
        self._log = log
        self._partition = partition
        self._replay_turn = replay_turn
        self._batches: deque[tuple[int, Sequence[Change]]] = deque()

    def note(self, next_offset: int, appended: Sequence[Change]) -> None:
        """These changes are in the log, up to this offset."""
        if self.is_behind:
            return
        self._keep(next_offset, appended)
        if self.pending * _REPLAYED_AT >= MOST_PENDING:
            self.catch_up(self._log.high_watermark(self._partition))
            if self.pending > MOST_PENDING:
                self._forget()

    def catch_up(self, high_watermark: int) -> bool:
        """Replay what is committed by now. False: some of it must be read from the log."""
        while self._batches and self._batches[0][0] <= high_watermark:
            self.offset, committed = self._batches.popleft()
            self.pending -= len(committed)
            for change in committed:
                change.apply(self.shard)
        return not self.is_behind or self.offset >= high_watermark

    def read_log(self) -> Steps[None]:
        """Replay from the log what is committed, while the view is behind. Then keep what is pending, or stay behind
        if that is too much."""
        for batch in self._log.batches(self._partition, self.offset):
            high_watermark = self._log.high_watermark(self._partition)
            is_committed = batch.next_offset <= high_watermark
            if not is_committed and self._log.end_offset(self._partition) - high_watermark > MOST_PENDING:
                self._forget()
                return
            found = list(changes(self._types, batch))
            self._keep(batch.next_offset, found)
            self.catch_up(high_watermark)
            self._replay_turn.replayed(len(found))
            if self._replay_turn.is_over:
                yield
        self.is_behind = False

    def _keep(self, next_offset: int, appended: Sequence[Change]) -> None:
        self._batches.append((next_offset, appended))
        self.pending += len(appended)

    def _forget(self) -> None:
        self._batches.clear()
        self.pending = 0
        self.is_behind = True
