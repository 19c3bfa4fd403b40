"""KRaft: this node's part in the quorum that decides the metadata log (KIP-595, KIP-853, KIP-996).

Raft, with Kafka's log underneath. What differs from the paper: replicas *pull*. There is no AppendEntries; a follower
sends Fetch, the same request that consumers send, and its fetch offset is the acknowledgement of all before it. A
leader is known to be alive by its answers, a follower by its fetches::

    follower                          leader
       |  Fetch(offset 7, epoch 3)       |      "I have everything before 7, synced; my last record is of epoch 3"
       |-------------------------------->|      checks that (7, 3) is a prefix of its log; counts it towards the
       |                                 |      high watermark; answers now, or when there is something to tell
       |  records 7..9, high watermark 7 |
       |<--------------------------------|
       |  appends, syncs                 |
       |  Fetch(offset 10, epoch 3)      |      now a majority has 9: the high watermark becomes 10
       |-------------------------------->|

If (offset, epoch) is no prefix of the leader's log, the leader says where the follower's epoch ends, and the follower
truncates to there and asks again.

`poll` makes one step of the current role: each ``_poll_...`` method sends what is due and returns when it wants to be
called again. `RaftService` answers the others' requests, `RaftReplica` holds the log and makes the transitions. What is
decided is read from the log and handed to the listeners.

If the leader's log begins after the follower's ends, the leader names a snapshot instead. The follower copies it with
FetchSnapshot, piece by piece, and its log goes on from there (`snapshot_fetch`).

The voters change while the quorum works: `voter_changes`.

Follows org.apache.kafka.raft.KafkaRaftClient, as of Kafka 4.2.
"""

from collections.abc import Sequence
from typing import Any

from pykraft.common.core import FOREVER, Poll, Promise, Steps
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.time_slice import EndlessSlice, TimeSlice
from pykraft.common.types import LeaderAndEpoch, Node, OffsetAndEpoch, ReplicaKey
from pykraft.protocol.messages.data import FetchRequest, FetchResponse
from pykraft.protocol.messages.quorum import (
    AddRaftVoterResponse,
    BeginQuorumEpochResponse,
    EndQuorumEpochResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    ListenerEndpoint,
    RemoveRaftVoterResponse,
    UpdateRaftVoterResponse,
    VoteResponse,
)
from pykraft.raft import config as keys
from pykraft.raft import wire
from pykraft.raft.log.accumulator import BatchAccumulator, Write
from pykraft.raft.log.listener import Listener
from pykraft.raft.log.snapshot_fetch import SnapshotFetch
from pykraft.raft.log.state_machine import CommitReader
from pykraft.raft.log.voters import STATIC_VOTERS
from pykraft.raft.quorum_state import Candidate, Follower, Leader, Nominee, Prospective, Resigned, Unattached
from pykraft.raft.reading import AnswerReader
from pykraft.raft.replica import RaftReplica
from pykraft.raft.service import HIGHEST_EPOCH_OF_ANSWERS, RaftService
from pykraft.raft.voter_changes import wanted_change
from pykraft.raft.voter_updates import upgrade

_MAX_FETCH_WAIT_MS = 500

# A node that answers so knows of another leader, or of a newer epoch, and names it beside the error.
_STALE_OR_FENCED = (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER)


class RaftClient:
    """Drives this node's replica: a voter, or an observer that only follows."""

    def __init__(self, replica: RaftReplica, time_slice: TimeSlice | None = None) -> None:
        """`time_slice` says when handing over what is committed has to make room for other work: never, if it is not
        given."""
        self._replica = replica
        self._time_slice = time_slice or EndlessSlice()
        self._quorum = replica.quorum
        self.room = replica.room
        self.service = RaftService(replica)
        # A fetch that is held back must not look like a leader that is dead, nor like an answer that is lost.
        patience_ms = min(replica.config[keys.FETCH_TIMEOUT_MS], replica.config[keys.REQUEST_TIMEOUT_MS])
        self._fetch_wait_ms = min(_MAX_FETCH_WAIT_MS, patience_ms // 2)
        self._is_shutting_down = False
        self._reader = AnswerReader(replica, self._time_slice)

    def start(self, now: int) -> None:
        """Take up the role that the node had when it stopped. A single voter leads at once."""
        replica = self._replica
        self._quorum.start(replica.log.last_epoch, replica.voter_node, now)
        if replica.control_records.voters.is_only_voter(replica.local):
            if isinstance(self._quorum.role, Resigned):
                replica.become_unattached(self._quorum.epoch + 1, None, now)
            if not isinstance(self._quorum.role, Candidate):
                replica.become_prospective(now)
        replica.advance_nominee(now)

    def register(self, listener: Listener) -> CommitReader:
        """Hand everything that is committed to this listener, from the newest snapshot on."""
        reader = CommitReader(self._replica.log, listener)
        self._replica.readers.append(reader)
        return reader

    # --- what this node knows -----------------------------------------------------------------------------------------

    @property
    def leader_and_epoch(self) -> LeaderAndEpoch:
        leader_id = self._quorum.leader_id
        return LeaderAndEpoch(-1 if leader_id is None else leader_id, self._quorum.epoch)

    @property
    def leader_node(self) -> Node | None:
        """Where the leader's controller listener is reached; None without a leader."""
        return self._replica.leader_node

    @property
    def replica(self) -> RaftReplica:
        return self._replica

    @property
    def high_watermark(self) -> int:
        return self._replica.log.high_watermark

    @property
    def kraft_version(self) -> int:
        """The level of ``kraft.version``."""
        return self._replica.control_records.kraft_version

    def upgrade_kraft_version(self, epoch: int, level: int, validate_only: bool) -> None:
        """Raise the level of ``kraft.version``, or only see whether that would be allowed. KafkaError(NOT_CONTROLLER)
        unless this node leads that epoch, KafkaError(INVALID_UPDATE_VERSION) if the level may not be raised."""
        if not self.leads(epoch):
            raise KafkaError(ErrorCode.NOT_CONTROLLER, f"node {self._replica.local.id} does not lead epoch {epoch}")
        self.room.mark("level")
        upgrade(self._replica, level, validate_only)

    # --- what the controller does -------------------------------------------------------------------------------------

    def leads(self, epoch: int) -> bool:
        """Whether this node leads that epoch, now."""
        return self._replica.accumulator is not None and epoch == self._quorum.epoch

    def encoded(self, epoch: int, values: Sequence[bytes]) -> Steps[Write]:
        """These records as `append` takes them: very many are encoded with a pause after each. KafkaError as for
        `append`."""
        return (yield from self._accumulator(epoch).encoded(values, self._replica.clock.time_ms()))

    def append(self, epoch: int, write: Write, now: int) -> int:
        """Propose records that become true together; returns the offset of the last.

        KafkaError(NOT_CONTROLLER) unless this node leads that epoch, KafkaError(RECORD_LIST_TOO_LARGE) if they do not
        fit into one batch. They are decided when the high watermark passes them, or never.
        """
        accumulator = self._accumulator(epoch)
        offset = accumulator.append(write, self._replica.clock.time_ms(), now)
        self.room.wake_by(accumulator.deadline, "append")
        return offset

    def _accumulator(self, epoch: int) -> BatchAccumulator:
        accumulator = self._replica.accumulator
        if accumulator is None or not self.leads(epoch):
            raise KafkaError(ErrorCode.NOT_CONTROLLER, f"node {self._replica.local.id} does not lead epoch {epoch}")
        return accumulator

    @property
    def append_deadline(self) -> int:
        """When what was proposed will be written."""
        return FOREVER if self._replica.accumulator is None else self._replica.accumulator.deadline

    @property
    def next_append_offset(self) -> int:
        """The offset that the next proposed record will get."""
        assert self._replica.accumulator is not None, "only a leader appends"
        return self._replica.accumulator.next_offset

    def begin_shutdown(self, now: int) -> None:
        """Take no part in elections any more; a leader resigns and tells the others."""
        if not self._is_shutting_down or self._replica.leader is not None:
            self.room.mark("shutdown")
        self._is_shutting_down = True
        if self._replica.leader is not None:
            self._replica.become_resigned(now)

    @property
    def is_shut_down(self) -> bool:
        """Whether no voter waits for this node any more."""
        role = self._quorum.role
        return not isinstance(role, Resigned) or not self._untold(role)

    # --- one step -----------------------------------------------------------------------------------------------------

    def poll(self, now: int) -> Poll:
        """Do what is due."""
        replica = self._replica
        replica.timer.expire(now)
        self.room.stay_awake(False)
        self._reader.go_on(now)
        deadline = now
        while deadline <= now:
            deadline = self._poll_role(now)
        if not self._tell_listeners(now) or self._reader.is_busy:
            deadline = now
        deadline = min(deadline, self.append_deadline)  # a listener may have proposed something
        requests = [*replica.voting.take_outbox(), *replica.fetching.take_outbox()]
        return Poll(min(deadline, replica.timer.deadline), requests)

    def _poll_role(self, now: int) -> int:
        match self._quorum.role:
            case Unattached() as role:
                return self._poll_unattached(role, now)
            case Nominee() as role:
                return self._poll_nominee(role, now)
            case Follower() as role:
                return self._poll_follower(role, now)
            case Leader():
                return self._poll_leader(now)
            case Resigned() as role:
                return self._poll_resigned(role, now)
        raise AssertionError(self._quorum.role)

    def _poll_unattached(self, role: Unattached, now: int) -> int:
        if now < role.election_deadline or not self._quorum.is_voter:
            deadline = self._fetch_from_anyone(now)
            return min(deadline, role.election_deadline) if self._quorum.is_voter else deadline
        if self._is_shutting_down:
            return FOREVER
        self._replica.become_prospective(now)
        return now

    def _poll_nominee(self, role: Nominee, now: int) -> int:
        if now >= role.election_deadline:
            if isinstance(role, Prospective):
                self._replica.lose_pre_vote(role, now)
            else:
                self._replica.become_prospective(now)
            return now
        deadline = role.election_deadline
        if self._quorum.vote_is_rejected(role):
            return deadline
        for key, node in self._other_voters():
            if key.id not in role.granted | role.rejected:
                request = wire.vote_request(
                    self._replica.cluster_id,
                    role.epoch,
                    self._replica.local,
                    key,
                    self._replica.log.end,
                    pre_vote=isinstance(role, Prospective),
                )
                self._replica.voting.send(node, request, self._on_vote_response, now)
                deadline = min(deadline, self._replica.voting.next_ready(node, now))
        return deadline

    def _poll_follower(self, role: Follower, now: int) -> int:
        if now >= role.fetch_deadline:
            if not self._quorum.is_voter:
                self._replica.become_unattached(role.epoch, role.leader_id, now)
                return now
            if self._is_shutting_down:
                return FOREVER
            self._replica.become_prospective(now)
            return now
        self._maybe_update_voter(role, now)
        is_waiting = self._quorum.is_voter or wanted_change(self._replica) is not None
        if is_waiting and isinstance(self._quorum.role, Follower):
            self.room.look_in_at(self._quorum.role.update_deadline)
        return self._fetch_as_follower(role, now)

    def _maybe_update_voter(self, role: Follower, now: int) -> None:
        """Once in a fetch timeout a voter sees whether the leader knows what it is, and tells it if not. At
        kraft.version 1 the log has that, and it is wrong only after a voter has moved or was upgraded; at kraft.version
        0 no leader knows it before that. An observer that joins by itself asks as often."""
        if now < role.update_deadline or self._is_shutting_down:
            return
        replica = self._replica
        if not self._quorum.is_voter:
            change = wanted_change(replica)
            if change is not None:
                self._quorum.put_off_update(now)
                replica.voting.send(role.leader, change, self._on_change_response, now)
            return
        self._quorum.put_off_update(now)
        is_static = self.kraft_version == STATIC_VOTERS
        if not role.has_updated_leader if is_static else replica.needs_voter_update:
            request = wire.update_request(replica.cluster_id, role.epoch, replica.local_voter)
            replica.voting.send(role.leader, request, self._on_update_response, now)

    def _fetch_as_follower(self, role: Follower, now: int) -> int:
        fetching, fetch = self._replica.fetching, self._replica.snapshot_fetch
        if not fetching.is_idle:
            return role.fetch_deadline
        if fetching.is_backing_off(role.leader, now):
            # The leader does not answer: ask any voter whether there is another one. (Not while a snapshot is copied:
            # the leader itself, under another name, would only say again which.)
            anyone = self._fetch_from_anyone(now) if fetch is None else FOREVER
            self.room.stay_awake()  # when another voter has been asked, this is sooner than needed
            return min(anyone, fetching.next_ready(role.leader, now), role.fetch_deadline)
        if fetch is None:
            fetching.send(role.leader, self._fetch_request(), self._on_fetch_response, now)
        else:
            fetching.send(role.leader, self._snapshot_request(fetch), self._on_snapshot_response, now)
        return role.fetch_deadline

    def _poll_leader(self, now: int) -> int:
        replica = self._replica
        leader, accumulator = replica.leader, replica.accumulator
        assert leader is not None and accumulator is not None
        if now >= leader.check_quorum_deadline or replica.is_removed:
            replica.become_resigned(now)
            return now
        if now >= accumulator.deadline:
            replica.write(accumulator.drain())
        if now >= leader.begin_quorum_deadline:
            silent = leader.silent_voters(now)
            for key, node in self._other_voters():
                if key in silent:
                    request = wire.begin_request(
                        replica.cluster_id, leader.epoch, replica.local.id, self._local_endpoints(), key
                    )
                    replica.voting.send(node, request, self._on_begin_response, now)
        return min(accumulator.deadline, leader.begin_quorum_deadline, leader.check_quorum_deadline)

    def _poll_resigned(self, role: Resigned, now: int) -> int:
        replica = self._replica
        if now >= role.election_deadline and not self._is_shutting_down:
            # A new epoch: in the old one this node had led, and must neither be followed nor follow.
            replica.become_unattached(role.epoch + 1, None, now)
            return now
        deadline = role.election_deadline if now < role.election_deadline else FOREVER
        for key, node in self._other_voters():
            if key.id not in role.told:
                request = wire.end_request(
                    replica.cluster_id, role.epoch, replica.local.id, self._local_endpoints(), role.successors
                )
                replica.voting.send(node, request, self._on_end_response, now)
                deadline = min(deadline, replica.voting.next_ready(node, now))
        return deadline

    def _untold(self, role: Resigned) -> list[ReplicaKey]:
        return [key for key, _ in self._other_voters() if key.id not in role.told]

    def _other_voters(self) -> list[tuple[ReplicaKey, Node]]:
        """The other voters, and where they are reached."""
        keys_and_nodes = [(key, self._replica.voter_node(key.id)) for key in self._replica.control_records.voters.keys]
        return [(key, node) for key, node in keys_and_nodes if node is not None and key.id != self._replica.local.id]

    def _local_endpoints(self) -> list[ListenerEndpoint]:
        node = self._replica.local_endpoint()
        return [ListenerEndpoint(name=self._replica.listener_name, host=node.host, port=node.port)]

    def _fetch_from_anyone(self, now: int) -> int:
        """Fetch from any known address, to learn who leads; returns when to try again."""
        fetching = self._replica.fetching
        node = fetching.ready_bootstrap(now) if fetching.is_idle else None
        if node is not None:
            fetching.send(node, self._fetch_request(), self._on_fetch_response, now)
        return fetching.bootstrap_ready(now) if fetching.is_idle else FOREVER

    def _fetch_request(self) -> FetchRequest:
        replica = self._replica
        return wire.fetch_request(
            replica.cluster_id,
            replica.local,
            self._quorum.epoch,
            replica.log.end,
            replica.log.high_watermark,
            self._fetch_wait_ms,
            replica.config[keys.FETCH_MAX_BYTES],
        )

    def _snapshot_request(self, fetch: SnapshotFetch) -> FetchSnapshotRequest:
        replica = self._replica
        max_bytes = replica.config[keys.FETCH_MAX_BYTES]
        return wire.snapshot_request(
            replica.cluster_id, replica.local, self._quorum.epoch, fetch.id, fetch.position, max_bytes
        )

    def _tell_listeners(self, now: int) -> bool:
        """Hand over what was decided, and who leads; whether all has been, or the slice was over before. A listener
        hears of a leader when it has what was decided, and a new leader's own listeners when they know everything that
        was decided before; no listener hears that this node, resigned, still leads."""
        leader, log, is_all = self._replica.leader, self._replica.log, True
        self._time_slice.begin()
        for reader in self._replica.readers:
            if not reader.deliver_some(log.high_watermark, self._time_slice, now):
                is_all = False
                continue
            caught_up = leader is None or reader.next_offset > leader.epoch_start_offset
            if caught_up and not isinstance(self._quorum.role, Resigned):
                reader.tell_leader(self.leader_and_epoch)
        return is_all

    # --- answers ------------------------------------------------------------------------------------------------------

    def _heed(self, response: Any, partition: Any, error: ErrorCode, now: int) -> bool | None:
        """What all answers have in common: epoch, leader, and errors about them.

        Returns whether the answer was of use, or None if it is for the caller to go on with it.
        """
        replica = self._replica
        view = wire.view_of(response, partition)
        if view.epoch < replica.epoch or error is ErrorCode.UNKNOWN_LEADER_EPOCH:
            return False  # outdated: this node knows more, and asks again after a pause
        if replica.contradicts(view) or view.epoch > HIGHEST_EPOCH_OF_ANSWERS:
            return False
        if view.epoch > replica.epoch or error in _STALE_OR_FENCED or replica.is_news(view):
            # A node that knows no more than this one is not asked again at once.
            return replica.follow(view, now)
        return None if error is ErrorCode.NONE else False

    def _on_vote_response(self, node: Node, response: VoteResponse, now: int) -> bool:
        partition = wire.only_partition(response)
        if response.error_code or partition is None:
            return False
        outcome = self._heed(response, partition, ErrorCode.of(partition.error_code), now)
        if outcome is not None:
            return outcome
        if isinstance(self._quorum.role, Nominee):
            role = self._quorum.record_vote(node.id, partition.vote_granted)
            self._replica.advance_nominee(now)
            if isinstance(role, Prospective) and self._quorum.vote_is_rejected(role):
                self._replica.lose_pre_vote(role, now)
        return True

    def _on_begin_response(self, _: Node, response: BeginQuorumEpochResponse, now: int) -> bool:
        partition = wire.only_partition(response)
        if response.error_code or partition is None:
            return False
        outcome = self._heed(response, partition, ErrorCode.of(partition.error_code), now)
        return True if outcome is None else outcome

    def _on_end_response(self, node: Node, response: EndQuorumEpochResponse, now: int) -> bool:
        partition = wire.only_partition(response)
        if response.error_code or partition is None:
            return False
        outcome = self._heed(response, partition, ErrorCode.of(partition.error_code), now)
        if isinstance(self._quorum.role, Resigned):
            self._quorum.record_told(node.id)
        return True if outcome is None else outcome

    def _on_update_response(self, _: Node, response: UpdateRaftVoterResponse, now: int) -> bool:
        outcome = self._heed(response, response, ErrorCode.of(response.error_code), now)
        if outcome is None and isinstance(self._quorum.role, Follower):
            self._quorum.record_update(now)
        return True if outcome is None else outcome

    def _on_change_response(self, _: Node, response: AddRaftVoterResponse | RemoveRaftVoterResponse, now: int) -> bool:
        """What the leader has changed comes with the log. If it has not, there is a next time."""
        return True

    def _on_fetch_response(self, _: Node, response: FetchResponse, now: int) -> bool | Promise[bool]:
        partition = wire.only_partition(response)
        if response.error_code or partition is None:
            return False
        outcome = self._heed(response, partition, ErrorCode.of(partition.error_code), now)
        if outcome is not None:
            return outcome
        if not isinstance(self._quorum.role, Follower):
            return True
        diverging = partition.diverging_epoch
        if partition.snapshot_id is not None:
            snapshot = OffsetAndEpoch(partition.snapshot_id.end_offset, partition.snapshot_id.epoch)
            if not self._replica.begin_snapshot_fetch(snapshot):
                return False
        elif diverging is not None:
            if not self._replica.truncate(OffsetAndEpoch(diverging.end_offset, diverging.epoch)):
                return False
        else:
            return self._reader.read_records(partition.records or b"", partition.high_watermark, now)
        self._quorum.record_fetch(now)
        return True

    def _on_snapshot_response(self, _: Node, response: FetchSnapshotResponse, now: int) -> bool | Promise[bool]:
        partition = wire.only_partition(response)
        if response.error_code or partition is None:
            return False
        error = ErrorCode.of(partition.error_code)
        is_gone = error in (ErrorCode.SNAPSHOT_NOT_FOUND, ErrorCode.POSITION_OUT_OF_RANGE)
        outcome = self._heed(response, partition, ErrorCode.NONE if is_gone else error, now)
        fetch = self._replica.snapshot_fetch
        if outcome is not None or fetch is None or not isinstance(self._quorum.role, Follower):
            return bool(outcome)
        found = OffsetAndEpoch(partition.snapshot_id.end_offset, partition.snapshot_id.epoch)
        if is_gone or found != fetch.id or partition.position != fetch.position:
            self._replica.drop_snapshot_fetch()  # a fetch tells which one there is now
            return error is ErrorCode.SNAPSHOT_NOT_FOUND
        return self._reader.read_piece(partition.unaligned_records or b"", partition.size, now)
