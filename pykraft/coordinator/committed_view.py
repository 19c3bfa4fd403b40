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

*Turns.* What the view replays counts in the `ReplayTurn` that it shares with the shards. When the turn is over it
pauses, in the middle of a batch if need be, and reads wait until it goes on in the next turn (`follow`).

*Memory.* The view takes as much as the shard. At most `MOST_PENDING` records are kept. With more, the view forgets
them and is *behind*: it reads them from the log when they are committed.

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
        self._position = 0
        """How many records of the first of these batches are replayed."""

    @property
    def has_many(self) -> bool:
        """Whether so many records are pending that the view does not wait for a reader."""
        return self.pending * _REPLAYED_AT >= MOST_PENDING

    def note(self, next_offset: int, appended: Sequence[Change]) -> None:
        """These changes are in the log, up to this offset."""
        if self.is_behind:
            return
        self._keep(next_offset, appended)
        if self.has_many:
            self.catch_up(self._log.high_watermark(self._partition))
        if self.pending > MOST_PENDING:
            self._forget()

    def note_in_steps(self, next_offset: int, appended: Sequence[Change]) -> Steps[None]:
        """As `note`, and of many pending records the committed ones are replayed, however many turns that takes."""
        if self.is_behind:
            return
        self._keep(next_offset, appended)
        if self.has_many:
            yield from self._replay_in_steps()
        if self.pending > MOST_PENDING:
            self._forget()

    def catch_up(self, high_watermark: int, in_turn: bool = True) -> bool:
        """Replay what is committed by now, until the turn is over. False: `follow` has to replay more, or some of it
        must be read from the log. With `in_turn` False nothing is counted, and the turn does not end."""
        while self._has_committed(high_watermark):
            next_offset, appended = self._batches[0]
            while self._position < len(appended):
                if in_turn and self._replay_turn.is_over:
                    return False
                change = appended[self._position]
                self._position += 1
                self.pending -= 1
                self._replay_turn.replayed(int(in_turn))
                change.apply(self.shard)
            self._batches.popleft()
            self.offset, self._position = next_offset, 0
        return not self.is_behind or self.offset >= high_watermark

    def follow(self) -> Steps[None]:
        """Replay what is committed, and pause whenever the turn is over."""
        yield from self._replay_in_steps()
        if self.is_behind:
            yield from self._read_log()

    def _replay_in_steps(self) -> Steps[None]:
        while self._has_committed(high_watermark := self._log.high_watermark(self._partition)):
            self.catch_up(high_watermark)
            if self._replay_turn.is_over:
                yield

    def _read_log(self) -> Steps[None]:
        """Replay from the log what is committed, while the view is behind. Then keep what is pending, or stay behind
        if that is too much."""
        kept_until = self._batches[-1][0] if self._batches else self.offset
        for batch in self._log.batches(self._partition, kept_until):
            high_watermark = self._log.high_watermark(self._partition)
            is_committed = batch.next_offset <= high_watermark
            if not is_committed and self._log.end_offset(self._partition) - high_watermark > MOST_PENDING:
                self._forget()
                return
            found = list(changes(self._types, batch))
            self._keep(batch.next_offset, found)
            if not is_committed:
                self._replay_turn.replayed(len(found))
                if self._replay_turn.is_over:
                    yield
            yield from self._replay_in_steps()
        self.is_behind = False

    def _has_committed(self, high_watermark: int) -> bool:
        return bool(self._batches) and self._batches[0][0] <= high_watermark

    def _keep(self, next_offset: int, appended: Sequence[Change]) -> None:
        self._batches.append((next_offset, appended))
        self.pending += len(appended)

    def _forget(self) -> None:
        """Drop what is pending, but for the batch that is replayed in part: the log would give all of it again."""
        while len(self._batches) > (self._position > 0):
            self._batches.pop()
        self.pending = sum(len(appended) for _, appended in self._batches) - self._position
        self.is_behind = True
