"""What a leader knows of its followers: who has how much, and who is still there.

A follower's fetch at offset n says that it has everything before n on its disk. From that the leader takes

* the *high watermark*: the largest offset that a majority of the voters has reached. But only once it is beyond the
  start of the leader's own epoch: a record of an older epoch that a majority holds may still be lost, when a voter with
  a newer last epoch, but without that record, is elected (figure 8 of the Raft paper). The first record that a leader
  writes makes everything before it safe;
* the *check of the quorum*: a leader that no majority has fetched from for 1.5 fetch timeouts resigns, since the others
  may have a new leader that it cannot see;
* the voters to remind: those that do not fetch get another BeginQuorumEpoch.

Observers, the brokers, are kept beside the voters, for DescribeQuorum; they count for nothing. One that is caught up
may become a voter.

A leader may remove itself from the voters. From then on a majority is one of the other voters, and this leader's own
log does not count; it resigns when its removal is committed.

Follows org.apache.kafka.raft.LeaderState.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from pykraft.common.core import FOREVER, Promise
from pykraft.common.errors import ErrorCode
from pykraft.common.timer import TimerTask
from pykraft.common.types import ReplicaKey
from pykraft.raft.log.voters import VoterSet

CHECK_QUORUM_FACTOR = 1.5
OBSERVER_SESSION_MS = 300_000
_FRESH_MS = 3_600_000
"""An observer that may become a voter has fetched within this time."""


@dataclass(slots=True)
class ReplicaProgress:
    """How far one replica is."""

    key: ReplicaKey
    end_offset: int | None = None
    """None until it has fetched from this leader."""
    last_fetch: int = -1
    last_caught_up: int = -1
    last_fetch_end_offset: int = 0
    """The leader's end offset at the last fetch: who reaches it was caught up then."""


class Outcome(NamedTuple):
    """What became of a change of the voters."""

    error: ErrorCode
    message: str | None = None


@dataclass(slots=True, eq=False)
class VoterChange:
    """One change of the voter set that the leader is making."""

    key: ReplicaKey
    """The voter that comes or goes."""
    outcome: Promise[Outcome] = field(default_factory=Promise)
    expiry: TimerTask | None = None
    offset: int | None = None
    """Of the VotersRecord; None until it is appended."""


class LeaderState:
    """One leadership: from the election to the resignation."""

    def __init__(
        self, local: ReplicaKey, epoch: int, epoch_start_offset: int, voters: VoterSet, fetch_timeout_ms: int, now: int
    ) -> None:
        self.local = local
        self.epoch = epoch
        self.epoch_start_offset = epoch_start_offset
        """The offset of this epoch's first record."""
        self.high_watermark: int | None = None
        """Unknown until a record of this epoch is committed."""
        self._check_quorum_ms = round(fetch_timeout_ms * CHECK_QUORUM_FACTOR)
        self._begin_quorum_ms = max(1, fetch_timeout_ms // 2)
        self._check_quorum_deadline = now + self._check_quorum_ms
        self.begin_quorum_deadline = now
        """When to look for voters that need another BeginQuorumEpoch."""
        self.volatile_voters: VoterSet | None = None
        """At kraft.version 0: what the voters have told this leader of themselves, and it keeps in memory."""
        self.change: VoterChange | None = None
        """The change of the voters that is under way: one at a time."""
        self._fetched: set[int] = set()
        self.voters: dict[int, ReplicaProgress] = {}
        self.observers: dict[ReplicaKey, ReplicaProgress] = {}
        self.update_voters(voters)

    def update_voters(self, voters: VoterSet) -> None:
        """Another voter set holds from now on; what is known of replicas that stay is kept. A static voter stays when
        it gets its directory id."""
        before, self.voters = self.voters, {}
        for key in voters.keys:
            progress = before.get(key.id)
            if progress is not None and progress.key.matches(key):
                del before[key.id]
                progress.key = key
            else:
                progress = self.observers.pop(key, None) or ReplicaProgress(key)
            self.voters[key.id] = progress
        self._fetched &= self.voters.keys()
        others = self.observers | {progress.key: progress for progress in before.values()}
        self.observers = dict(sorted(others.items()))

    @property
    def is_voter(self) -> bool:
        """Whether this leader votes: it may have removed itself."""
        progress = self.voters.get(self.local.id)
        return progress is not None and progress.key.matches(self.local)

    def put_off_check(self, now: int) -> None:
        """Give a single voter's first follower the time to fetch: this leader waited for none before."""
        if len(self.voters) == 1:
            self._check_quorum_deadline = now + self._check_quorum_ms

    # --- changes of the voters ----------------------------------------------------------------------------------------

    def is_caught_up(self, key: ReplicaKey, now: int) -> bool:
        """Whether this observer may become a voter: it has had everything that this leader had, and has fetched
        lately."""
        progress = self.observers.get(key)
        return progress is not None and progress.last_caught_up >= 0 and now - progress.last_fetch < _FRESH_MS

    def end_change(self, outcome: Outcome) -> None:
        """The change is made, or given up."""
        change, self.change = self.change, None
        if change is not None:
            if change.expiry is not None:
                change.expiry.cancel()
            if not change.outcome.kept:
                change.outcome.keep(outcome)

    def note_committed_change(self) -> None:
        """End the change if its record is committed."""
        offset = None if self.change is None else self.change.offset
        if offset is not None and self.high_watermark is not None and offset < self.high_watermark:
            self.end_change(Outcome(ErrorCode.NONE))

    # --- progress -----------------------------------------------------------------------------------------------------

    def update_local(self, end_offset: int) -> bool:
        """The leader's own log is on its disk up to `end_offset`; whether the high watermark moved."""
        if self.is_voter:
            self.voters[self.local.id].end_offset = end_offset
        return self._update_high_watermark()

    def update_replica(self, key: ReplicaKey, fetch_offset: int, leader_end_offset: int, now: int) -> bool:
        """A replica fetches at `fetch_offset`, the leader's log ends at `leader_end_offset`; whether the high watermark
        moved. A negative id is no replica's, but a reader's."""
        assert key.id != self.local.id, "a leader does not fetch from itself"
        if key.id < 0:
            return False
        progress = self._progress(key, now)
        if fetch_offset >= leader_end_offset:
            progress.last_caught_up = now
        elif progress.last_fetch >= 0 and fetch_offset >= progress.last_fetch_end_offset:
            progress.last_caught_up = max(progress.last_caught_up, progress.last_fetch)
        progress.last_fetch = now
        progress.last_fetch_end_offset = leader_end_offset
        progress.end_offset = fetch_offset
        self.heard_of(key, now)
        return self._update_high_watermark()

    def _progress(self, key: ReplicaKey, now: int) -> ReplicaProgress:
        voter = self.voters.get(key.id)
        if voter is not None and voter.key.matches(key):
            return voter
        if key not in self.observers:
            self.forget_silent_observers(now)  # so a peer that makes up ids makes room for them, too
        return self.observers.setdefault(key, ReplicaProgress(key))

    def _update_high_watermark(self) -> bool:
        """Take the largest offset that a majority has. It never goes back: voters may only change so that the new
        majority holds what the old one had."""
        offsets = sorted((-1 if p.end_offset is None else p.end_offset for p in self.voters.values()), reverse=True)
        reached = offsets[len(offsets) // 2]
        if reached <= self.epoch_start_offset:
            return False
        if self.high_watermark is not None and reached <= self.high_watermark:
            return False
        self.high_watermark = reached
        return True

    # --- who is still there -------------------------------------------------------------------------------------------

    def heard_of(self, key: ReplicaKey, now: int) -> None:
        """It asks for records or for a snapshot, so it is still there, and follows."""
        voter = self.voters.get(key.id)
        if voter is None or not voter.key.matches(key) or key.id == self.local.id:
            return
        self._fetched.add(key.id)
        needed = len(self.voters) // 2 + 1 - (1 if self.is_voter else 0)
        if len(self._fetched) >= needed:
            self._fetched.clear()
            self._check_quorum_deadline = now + self._check_quorum_ms

    @property
    def check_quorum_deadline(self) -> int:
        """When to resign unless a majority has fetched again; a single voter never does."""
        return FOREVER if len(self.voters) == 1 and self.is_voter else self._check_quorum_deadline

    def silent_voters(self, now: int) -> list[ReplicaKey]:
        """The voters that have not fetched for half a fetch timeout: they get a BeginQuorumEpoch. Ask again at
        `begin_quorum_deadline`."""
        self.begin_quorum_deadline = now + self._begin_quorum_ms
        return [
            progress.key
            for _, progress in sorted(self.voters.items())
            if not progress.key.matches(self.local)
            and (progress.last_fetch < 0 or now - progress.last_fetch >= self._begin_quorum_ms)
        ]

    def successors(self) -> tuple[ReplicaKey, ...]:
        """The other voters, the one with the longest log first."""
        others = [progress for progress in self.voters.values() if not progress.key.matches(self.local)]
        others.sort(key=lambda progress: (-(progress.end_offset or 0), progress.key.id))
        return tuple(progress.key for progress in others)

    def forget_silent_observers(self, now: int) -> None:
        self.observers = {
            key: progress for key, progress in self.observers.items() if now - progress.last_fetch < OBSERVER_SESSION_MS
        }
