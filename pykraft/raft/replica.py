"""This node's replica of the metadata log, and what changes with its role.

`QuorumState` says which moves are legal and writes down what must survive; this module does what else belongs to a
move: requests under way are forgotten, parked fetches are answered, a new leader writes its first records.

A leader's records count for the high watermark only when they are on its disk. If it counted them earlier, and lost
them with its power, a majority without them could form and elect: a decided record would be gone.

Follows the onBecome... methods of org.apache.kafka.raft.KafkaRaftClient.
"""

from collections.abc import Callable, Sequence
from random import Random

from pykraft.common.core import Clock, Promise, Steps
from pykraft.common.errors import CorruptRecordError, ErrorCode
from pykraft.common.rooms import Room
from pykraft.common.settings.config import Config
from pykraft.common.timer import Timer, TimerTask
from pykraft.common.trace import Tracer
from pykraft.common.types import EVERYWHERE, Node, OffsetAndEpoch, ReplicaKey
from pykraft.protocol.messages.control import (
    ControlRecord,
    ControlRecordType,
    KRaftVersionRecord,
    LeaderChangeMessage,
    encode_control_record,
)
from pykraft.protocol.messages.data import FetchResponse
from pykraft.raft import config as keys
from pykraft.raft import wire
from pykraft.raft.election import QuorumStateFile
from pykraft.raft.leader_state import LeaderState, Outcome
from pykraft.raft.log.accumulator import BatchAccumulator
from pykraft.raft.log.history import check_understood
from pykraft.raft.log.replicated_log import ReplicatedLog
from pykraft.raft.log.snapshot_fetch import SnapshotFetch
from pykraft.raft.log.state_machine import CommitReader, ControlRecords
from pykraft.raft.log.voters import BOOTSTRAP_OFFSET, STATIC_VOTERS, VOTERS_IN_LOG, Voter, VoterSet
from pykraft.raft.quorum_state import Candidate, Leader, Nominee, Prospective, QuorumState
from pykraft.raft.requests import QuorumRequests
from pykraft.records.batch import batches
from pykraft.records.builder import RecordBatchBuilder
from pykraft.storage.disk.checkpoint import DamagedFileError

_CLEAN_INTERVAL_MS = 60_000


class ParkedFetch:
    """A fetch that waits for something to tell. `answer()` makes the answer as of now."""

    __slots__ = ("_answer", "expiry", "offset", "promise")

    def __init__(self, offset: int, answer: Callable[[], FetchResponse], expiry: TimerTask) -> None:
        self.offset = offset
        self.promise: Promise[FetchResponse] = Promise()
        self._answer = answer
        self.expiry = expiry

    def release(self) -> None:
        """Answer, unless that was done."""
        if self.promise.kept:
            return
        self.expiry.cancel()
        try:
            answer = self._answer()
        except Exception as error:
            self.promise.fail(error)
        else:
            self.promise.keep(answer)


class RaftReplica:
    """The log, the role in the quorum, and as long as this node leads the state of its leadership."""

    def __init__(
        self,
        *,
        cluster_id: str,
        local: ReplicaKey,
        listener_name: str,
        local_endpoint: Callable[[], Node],
        log: ReplicatedLog,
        control_records: ControlRecords,
        quorum_file: QuorumStateFile,
        bootstrap: list[Node],
        config: Config,
        random: Random,
        clock: Clock,
        trace: Tracer,
        can_become_voter: bool,
    ) -> None:
        """`local_endpoint()` is where this node's controller listener is reached; `bootstrap` are addresses to find the
        quorum by. `can_become_voter` is true of controllers."""
        self.cluster_id = cluster_id
        self.local = local
        self.listener_name = listener_name
        self.local_endpoint = local_endpoint
        self.log = log
        self.control_records = control_records
        self.config = config
        self.clock = clock
        self.trace = trace
        self.can_become_voter = can_become_voter
        self.room = Room("raft")
        self.on_transition: list[Callable[[], None]] = []
        """Hear that the role, or the leader, is another one. In the middle of the transition: they may only note it."""
        self.timer = Timer()
        self.quorum = QuorumState(
            local=local,
            voters=lambda: control_records.voters,
            kraft_version=lambda: control_records.kraft_version,
            file=quorum_file,
            election_timeout_ms=config[keys.ELECTION_TIMEOUT_MS],
            fetch_timeout_ms=config[keys.FETCH_TIMEOUT_MS],
            random=random,
            trace=trace,
        )
        backoff_ms, timeout_ms = config[keys.RETRY_BACKOFF_MS], config[keys.REQUEST_TIMEOUT_MS]
        # Votes have a connection of their own: a fetch may wait long at its receiver.
        self.voting = QuorumRequests("raft-vote", [], backoff_ms, timeout_ms, random, self.room)
        self.fetching = QuorumRequests("raft-fetch", bootstrap, backoff_ms, timeout_ms, random, self.room)
        self.readers: list[CommitReader] = []
        self.leader: LeaderState | None = None
        self.accumulator: BatchAccumulator | None = None
        self.parked: dict[ParkedFetch, None] = {}
        """In the order in which they came."""
        self.snapshot_fetch: SnapshotFetch | None = None
        """As a follower: the snapshot that it copies."""
        self._clean_later(0)

    # --- what holds now -----------------------------------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        return self.quorum.epoch

    def voter_node(self, voter_id: int) -> Node | None:
        """Where a voter's controller listener is reached."""
        return self.control_records.voters.node(voter_id, self.listener_name)

    @property
    def local_voter(self) -> Voter:
        """This node, as a voter set should have it. Where it listens on all addresses of its machine, the voter set
        knows better which of them others can reach."""
        endpoint = self.local_endpoint().endpoint
        known = self.voter_node(self.local.id)
        if endpoint.host in EVERYWHERE and known is not None:
            endpoint = known.endpoint
        return Voter(self.local, {self.listener_name: endpoint})

    @property
    def needs_voter_update(self) -> bool:
        """Whether this node votes, and the voters in the log have it otherwise: since its last start it is reached
        elsewhere, or supports other levels."""
        is_in_log = self.control_records.kraft_version != STATIC_VOTERS
        return is_in_log and self.control_records.voters.needs_update(self.local_voter)

    @property
    def is_removed(self) -> bool:
        """Whether this node leads, and is committed to vote no more: it has to resign."""
        leader = self.leader
        if leader is None or leader.high_watermark is None or leader.is_voter:
            return False
        return self.control_records.history.latest_offset < leader.high_watermark

    @property
    def leader_node(self) -> Node | None:
        """Where the leader's controller listener is reached; None without a leader."""
        return self.local_endpoint() if self.quorum.is_leader else self.quorum.leader_node

    @property
    def view(self) -> wire.View:
        """What this node tells of epoch and leader."""
        return wire.View(self.epoch, self.quorum.leader_id, self.leader_node)

    # --- transitions --------------------------------------------------------------------------------------------------

    def become_unattached(self, epoch: int, leader_id: int | None, now: int) -> None:
        self.quorum.become_unattached(epoch, leader_id, now)
        self._after_transition()

    def become_prospective(self, now: int) -> None:
        self.quorum.become_prospective(now)
        self._after_transition()
        self.advance_nominee(now)

    def become_follower(self, epoch: int, leader: Node, now: int) -> None:
        self.quorum.become_follower(epoch, leader, now)
        self._after_transition()

    def become_resigned(self, now: int) -> None:
        assert self.leader is not None
        self.quorum.become_resigned(self.leader.successors(), now)
        self._after_transition()

    def advance_nominee(self, now: int) -> None:
        """A nominee with a majority goes on: from prospective to candidate, from candidate to leader."""
        role = self.quorum.role
        if isinstance(role, Prospective) and self.quorum.vote_is_granted(role):
            self.quorum.become_candidate(now)
            self._after_transition()
            self.advance_nominee(now)
        elif isinstance(role, Candidate) and self.quorum.vote_is_granted(role):
            self._become_leader(role, now)

    def lose_pre_vote(self, role: Prospective, now: int) -> None:
        """The others would not vote for this node: it goes back to the leader that it knew, or waits."""
        if role.leader is not None:
            self.become_follower(role.epoch, role.leader, now)
        else:
            self.become_unattached(role.epoch, role.leader_id, now)

    def is_news(self, view: wire.View) -> bool:
        """Whether it names the leader of this epoch to a node that does not know it, or no way to it."""
        return view.leader_id is not None and not self.quorum.is_leader and self.quorum.leader_node is None

    def follow(self, view: wire.View, now: int) -> bool:
        """A message names an epoch and its leader: follow, if that is news. Returns whether it was."""
        before = self.quorum.role
        leader = view.leader
        if leader is None and view.leader_id is not None:
            leader = self.voter_node(view.leader_id)
        if view.leader_id == self.local.id:
            leader = None
        if view.epoch > self.epoch:
            if leader is not None:
                self.become_follower(view.epoch, leader, now)
            else:
                self.become_unattached(view.epoch, None, now)
        elif view.epoch == self.epoch and leader is not None and self.is_news(view):
            self.become_follower(view.epoch, leader, now)
        return self.quorum.role is not before

    def contradicts(self, view: wire.View) -> bool:
        """Whether that cannot be true: an epoch has one leader, and this node knows whether it is itself."""
        if view.epoch != self.epoch or view.leader_id is None:
            return False
        return self.quorum.leader_id not in (None, view.leader_id) or (
            view.leader_id == self.local.id and self.quorum.leader_id is None
        )

    def _after_transition(self) -> None:
        self.voting.reset()
        self.fetching.reset()
        self.drop_snapshot_fetch()
        for note in self.on_transition:
            note()
        if not isinstance(self.quorum.role, Leader):
            if self.leader is not None:
                self.leader.end_change(Outcome(ErrorCode.NOT_LEADER_OR_FOLLOWER))
            self.leader = None
            self.accumulator = None
            self.release_parked()

    def _become_leader(self, role: Nominee, now: int) -> None:
        self.quorum.become_leader()
        self._after_transition()
        fetch_timeout_ms = self.config[keys.FETCH_TIMEOUT_MS]
        start = self.log.end_offset
        self.log.begin_epoch(role.epoch)
        self.leader = LeaderState(self.local, role.epoch, start, self.control_records.voters, fetch_timeout_ms, now)
        if self.control_records.kraft_version == STATIC_VOTERS:
            self.leader.volatile_voters = self.control_records.voters.with_voter(self.local_voter)
        self.write([self._first_batch(role, start)])
        self.accumulator = BatchAccumulator(
            role.epoch, self.log.end_offset, self.config[keys.APPEND_LINGER_MS], self.config[keys.MAX_BATCH_BYTES]
        )

    def _first_batch(self, role: Nominee, offset: int) -> bytearray:
        """The first records of an epoch: which node leads. At kraft.version 1 the first leader of all also writes the
        voters, and so does a leader that the voter set has with other endpoints."""
        history = self.control_records.history
        voter = LeaderChangeMessage.Voter
        change = LeaderChangeMessage(
            leader_id=self.local.id,
            voters=[voter(voter_id=voter_id) for voter_id in history.latest.ids],
            granting_voters=[voter(voter_id=voter_id) for voter_id in sorted(role.granted)],
        )
        timestamp = self.clock.time_ms()
        builder = RecordBatchBuilder(offset, leader_epoch=role.epoch, control=True)
        builder.append(timestamp, *encode_control_record(ControlRecordType.LEADER_CHANGE, change))
        if self.control_records.kraft_version != STATIC_VOTERS and (
            history.latest_offset == BOOTSTRAP_OFFSET or self.needs_voter_update
        ):
            voters = history.latest.with_voter(self.local_voter) if self.needs_voter_update else history.latest
            for kind, record in voters_records(voters):
                builder.append(timestamp, *encode_control_record(kind, record))
        return builder.build()

    # --- the log ------------------------------------------------------------------------------------------------------

    def write(self, batches: Sequence[bytearray]) -> None:
        """Append as the leader: written, synced, counted, told to the fetches that wait for it, in this order."""
        leader = self.leader
        assert leader is not None
        for batch in batches:
            self.log.append_as_leader(batch, leader.epoch)
        if self.control_records.update():
            leader.update_voters(self.control_records.voters)
        self.log.sync()
        self.trace("metadata_append", end=self.log.end_offset, epoch=self.log.last_epoch)
        if leader.update_local(self.log.end_offset):
            self.on_high_watermark()
        else:
            self.release_parked()

    def write_control(self, records: Sequence[tuple[ControlRecordType, ControlRecord]]) -> None:
        """Append Raft's own records as the leader, at once: what was gathered before them is written, too."""
        assert self.accumulator is not None
        gathered = self.accumulator.drain()
        self.write([*gathered, self.accumulator.control_batch(records, self.clock.time_ms())])

    def check_fetched(self, data: memoryview) -> Steps[None]:
        """CorruptRecordError if that cannot be the leader's (no checksum covers a batch's epoch), or if a record cannot
        be read, for it could not at the next start, either. Pauses after each record."""
        for batch in batches(data):
            if not self.log.last_epoch <= batch.partition_leader_epoch <= self.epoch:
                raise CorruptRecordError(f"{batch} is not of the epochs {self.log.last_epoch} to {self.epoch}")
            yield from check_understood(batch)

    def append_fetched(self, data: memoryview) -> None:
        """Append what the leader sent, and `check_fetched` has found good; a voter's next fetch says that it is on the
        disk, so it is synced here. So does a controller that is no voter yet: from when the leader makes it one, what
        it has fetched counts."""
        if self.log.append_as_follower(data):
            if self.can_become_voter:
                self.log.sync()
            self.control_records.update()
            self.trace("metadata_append", end=self.log.end_offset, epoch=self.log.last_epoch)

    def truncate(self, leaders_end: OffsetAndEpoch) -> bool:
        """Cut the log to where it agrees with the leader's; False if that would take what is decided."""
        before = self.log.end_offset
        end_offset = self.log.truncate_to_match(leaders_end)
        if end_offset is None:
            self.trace("metadata_fetch_refused", reason=f"{leaders_end} lies below the high watermark")
            return False
        self.control_records.truncate_to(end_offset)
        self.trace("metadata_truncate", before=before, end=end_offset)
        return True

    # --- snapshots ----------------------------------------------------------------------------------------------------

    def begin_snapshot_fetch(self, snapshot: OffsetAndEpoch) -> bool:
        """The leader's log begins after ours ends: copy that snapshot. False if it cannot be what the leader has."""
        if not self.log.high_watermark <= snapshot.offset or not 0 <= snapshot.epoch <= self.epoch:
            self.trace("metadata_fetch_refused", reason=f"no snapshot of {snapshot} can be decided")
            return False
        self.drop_snapshot_fetch()
        if self.log.has_snapshot(snapshot):  # copied before, and then the log did not begin there
            self._begin_at(snapshot)
        else:
            self.snapshot_fetch = SnapshotFetch(self.log.snapshots, snapshot)
        return True

    def append_to_snapshot(self, piece: memoryview, size: int) -> Steps[bool]:
        """The next piece of a file of that size; False if it cannot be used, and the copying begins again. After the
        last piece all of it is looked through, with pauses."""
        fetch = self.snapshot_fetch
        assert fetch is not None
        if not 0 < len(piece) <= size - fetch.position:
            self.drop_snapshot_fetch()
            return False
        fetch.append(piece)
        if fetch.position == size:
            try:
                yield from fetch.check()
            except DamagedFileError as error:
                self.drop_snapshot_fetch()
                self.trace("metadata_fetch_refused", reason=str(error))
                return False
            self.snapshot_fetch = None
            fetch.finish()
            self.log.add_snapshot(fetch.id)
            self._begin_at(fetch.id)
        return True

    def drop_snapshot_fetch(self) -> None:
        if self.snapshot_fetch is not None:
            self.snapshot_fetch.abandon()
            self.snapshot_fetch = None

    def _begin_at(self, snapshot: OffsetAndEpoch) -> None:
        self.log.begin_at(snapshot)
        self.control_records.begin_again()
        self.trace("metadata_snapshot_loaded", offset=snapshot.offset, epoch=snapshot.epoch)
        self.trace("metadata_high_watermark", offset=self.log.high_watermark)

    def snapshot_written(self, snapshot: OffsetAndEpoch) -> None:
        """This node has written one of what is decided: it is whole, and on the disk."""
        self.log.add_snapshot(snapshot)
        self.trace("metadata_snapshot_written", offset=snapshot.offset, epoch=snapshot.epoch)
        self._clean()

    def _clean_later(self, now: int) -> None:
        """Every minute: time alone may let something go. (Kafka looks at sizes, too, only then.)"""

        def clean(then: int) -> None:
            self._clean_later(then)  # first: also if this time it fails
            self._clean()

        self.timer.at(now + _CLEAN_INTERVAL_MS, clean)

    def _clean(self) -> None:
        """See whether snapshots and segments may go."""
        retention = self.config[keys.METADATA_MAX_RETENTION_BYTES], self.config[keys.METADATA_MAX_RETENTION_MS]
        if self.log.clean(self.clock.time_ms(), *retention):
            self.trace("metadata_log_start", offset=self.log.start_offset)

    # --- high watermark -----------------------------------------------------------------------------------------------

    def on_high_watermark(self) -> None:
        """As the leader: more is decided."""
        assert self.leader is not None and self.leader.high_watermark is not None
        self.advance_high_watermark(self.leader.high_watermark)
        self.leader.note_committed_change()
        self.release_parked()

    def advance_high_watermark(self, offset: int) -> None:
        """What is below `offset` is decided; a follower may not have all of it yet."""
        if offset > self.log.high_watermark and self.log.update_high_watermark(offset):
            self.trace("metadata_high_watermark", offset=self.log.high_watermark)

    # --- parked fetches -----------------------------------------------------------------------------------------------

    def park(self, offset: int, answer: Callable[[], FetchResponse], deadline: int) -> Promise[FetchResponse]:
        """Hold a fetch back until there is news for it, its time is up, or the replica that sent it has hung up."""

        def expire(_: int) -> None:
            self.parked.pop(fetch, None)
            fetch.release()

        fetch = ParkedFetch(offset, answer, self.timer.at(deadline, expire))
        self.parked[fetch] = None
        fetch.promise.on_abandoned(lambda: self._forget(fetch))
        return fetch.promise

    def _forget(self, fetch: ParkedFetch) -> None:
        self.parked.pop(fetch, None)
        fetch.expiry.cancel()
        self.room.mark("hang-up")

    def release_parked(self) -> None:
        """Answer the fetches that wait: there is more to read, more is decided, or this node leads no more."""
        parked, self.parked = self.parked, {}
        for fetch in parked:
            fetch.release()


def voters_records(voters: VoterSet) -> list[tuple[ControlRecordType, ControlRecord]]:
    """The records by which the voters come into the log, with the level of ``kraft.version`` that allows it."""
    return [
        (ControlRecordType.KRAFT_VERSION, KRaftVersionRecord(kraft_version=VOTERS_IN_LOG)),
        (ControlRecordType.KRAFT_VOTERS, voters.to_record()),
    ]


def unavailable(view: wire.View, error: ErrorCode, log: ReplicatedLog) -> FetchResponse:
    """The answer to a fetch that gets no records, but learns who leads."""
    return wire.fetch_response(view, error, log.start_offset)
