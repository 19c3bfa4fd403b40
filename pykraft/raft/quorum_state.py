"""The role of a node in the quorum, and the table of the moves that it may make.

::

    UNATTACHED   knows of no leader in this epoch; may have voted
    PROSPECTIVE  has not heard from a leader for too long; asks whether it would be voted for (pre-vote, KIP-996)
    CANDIDATE    has raised the epoch and asks for votes
    LEADER       has a majority of the votes of its epoch
    FOLLOWER     fetches from the leader
    RESIGNED     led this epoch, and will not again: until a new epoch begins it says so to the others

`TRANSITIONS` says which role may follow which; anything else is a bug, and stops the node. Observers (brokers, and
controllers that are no voters) are UNATTACHED or FOLLOWER. A leader that has removed itself from the voters is LEADER
until that is committed, and then RESIGNED until an election timeout is over.

Two rules make elections safe, and both are in this file:

* *One vote an epoch.* The vote and the epoch are on the disk before any answer says so (`QuorumState._become` writes,
  then changes the role). An epoch never goes back.
* *Vote only for a log that is at least as good* (`grants_vote`): its last epoch is larger, or equal and its end not
  before ours. So a leader has every committed record: a majority has it, a majority voted, and they share a voter.

A node that had led and restarts is RESIGNED in its old epoch: it may have lost records of that epoch which were not
synced, and must not write others with the same offset and epoch.

Follows org.apache.kafka.raft.QuorumState and the EpochState classes, as of Kafka 4.2.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from random import Random

from pykraft.common.core import FOREVER
from pykraft.common.trace import Tracer
from pykraft.common.types import Node, ReplicaKey
from pykraft.raft.election import ElectionState, QuorumStateFile
from pykraft.raft.log.voters import STATIC_VOTERS, VoterSet


class RoleName(Enum):
    UNATTACHED = "unattached"
    PROSPECTIVE = "prospective"
    CANDIDATE = "candidate"
    LEADER = "leader"
    FOLLOWER = "follower"
    RESIGNED = "resigned"


TRANSITIONS: dict[RoleName, dict[RoleName, str]] = {
    RoleName.UNATTACHED: {
        RoleName.UNATTACHED: "a higher epoch, or a vote given in this one",
        RoleName.PROSPECTIVE: "election timeout",
        RoleName.FOLLOWER: "a leader of this or a higher epoch",
    },
    RoleName.PROSPECTIVE: {
        RoleName.UNATTACHED: "a higher epoch; or the pre-vote is lost and no leader is known",
        RoleName.PROSPECTIVE: "a vote given in this epoch",
        RoleName.CANDIDATE: "a majority would vote for it",
        RoleName.FOLLOWER: "a leader of this or a higher epoch; or the pre-vote is lost and a leader is known",
    },
    RoleName.CANDIDATE: {
        RoleName.UNATTACHED: "a higher epoch",
        RoleName.PROSPECTIVE: "election timeout",
        RoleName.LEADER: "a majority of votes",
        RoleName.FOLLOWER: "a leader of this or a higher epoch",
    },
    RoleName.LEADER: {
        RoleName.UNATTACHED: "a higher epoch",
        RoleName.RESIGNED: "shutdown, or no majority has fetched for too long",
        RoleName.FOLLOWER: "a leader of a higher epoch",
    },
    RoleName.FOLLOWER: {
        RoleName.UNATTACHED: "a higher epoch; or an observer that hears nothing of its leader",
        RoleName.PROSPECTIVE: "fetch timeout",
        RoleName.FOLLOWER: "a leader of a higher epoch",
    },
    RoleName.RESIGNED: {
        RoleName.UNATTACHED: "a higher epoch, or election timeout (which raises the epoch)",
        RoleName.FOLLOWER: "a leader of a higher epoch",
    },
}


@dataclass(frozen=True, kw_only=True)
class Role:
    """What all roles have: the epoch, and the vote given in it."""

    name: RoleName
    epoch: int
    voted: ReplicaKey | None = None
    leader_id: int | None = None

    @property
    def election(self) -> ElectionState:
        """What the disk must know of this role."""
        return ElectionState(self.epoch, self.leader_id, self.voted)


@dataclass(frozen=True, kw_only=True)
class Unattached(Role):
    name: RoleName = RoleName.UNATTACHED
    election_deadline: int


@dataclass(frozen=True, kw_only=True)
class Nominee(Role):
    """A prospective or candidate: the voters asked, and what they said."""

    election_deadline: int
    granted: frozenset[int]
    rejected: frozenset[int] = frozenset()
    leader: Node | None = None
    """A prospective remembers the leader that it lost, and goes back to it when the others still hear from it."""


@dataclass(frozen=True, kw_only=True)
class Prospective(Nominee):
    name: RoleName = RoleName.PROSPECTIVE


@dataclass(frozen=True, kw_only=True)
class Candidate(Nominee):
    name: RoleName = RoleName.CANDIDATE


@dataclass(frozen=True, kw_only=True)
class Leader(Role):
    name: RoleName = RoleName.LEADER
    granted: frozenset[int]


@dataclass(frozen=True, kw_only=True)
class Follower(Role):
    name: RoleName = RoleName.FOLLOWER
    leader: Node
    fetch_deadline: int
    has_fetched: bool = False
    """Whether this leader has answered a fetch: then it is alive, and no pre-vote is granted against it."""
    update_deadline: int = FOREVER
    """When to see whether this leader needs to hear what this voter is (UpdateRaftVoter)."""
    has_updated_leader: bool = False
    """Whether it has heard it: at kraft.version 0 each leader has to."""


@dataclass(frozen=True, kw_only=True)
class Resigned(Role):
    name: RoleName = RoleName.RESIGNED
    election_deadline: int
    successors: tuple[ReplicaKey, ...] = ()
    """The other voters, the one with the longest log first."""
    told: frozenset[int] = frozenset()


def grants_vote(role: Role, candidate: ReplicaKey, log_is_up_to_date: bool, pre_vote: bool) -> bool:
    """Whether a node in this role votes for the candidate (or, `pre_vote`, would)."""
    match role:
        case Unattached() | Prospective():
            if pre_vote:
                return log_is_up_to_date
            if role.voted is not None:
                return role.voted.matches(candidate)
            return role.leader_id is None and log_is_up_to_date
        case Follower():
            return pre_vote and not role.has_fetched and log_is_up_to_date
        case Candidate() | Resigned():
            return pre_vote and log_is_up_to_date
        case _:
            return False


class QuorumState:
    """The role of this node. Every change goes through `_become`."""

    def __init__(
        self,
        *,
        local: ReplicaKey,
        voters: Callable[[], VoterSet],
        kraft_version: Callable[[], int],
        file: QuorumStateFile,
        election_timeout_ms: int,
        fetch_timeout_ms: int,
        random: Random,
        trace: Tracer,
    ) -> None:
        """`voters()` is the set that holds now, and `kraft_version()` the level."""
        self.local = local
        self._voters = voters
        self._kraft_version = kraft_version
        self._file = file
        self._election_timeout_ms = election_timeout_ms
        self._fetch_timeout_ms = fetch_timeout_ms
        self._random = random
        self._trace = trace
        self.role: Role

    def start(self, log_epoch: int, leader_node: Callable[[int], Node | None], now: int) -> None:
        """Take up the role that the node had when it stopped. `log_epoch` is that of the last record in its log;
        `leader_node(id)` says where a voter is reached."""
        known = self._file.read()
        leader = leader_node(known.leader_id) if known.leader_id is not None else None
        if known.epoch < log_epoch:
            self.role = Unattached(epoch=log_epoch, election_deadline=self._election_deadline(now))
        elif known.leader_id == self.local.id:
            self.role = Resigned(
                epoch=known.epoch, leader_id=self.local.id, election_deadline=self._random_deadline(now)
            )
        elif known.voted is not None and known.voted.matches(self.local) and self.is_voter:
            self.role = Candidate(
                epoch=known.epoch,
                voted=self.local,
                election_deadline=self._election_deadline(now),
                granted=frozenset([self.local.id]),
            )
        elif leader is not None:
            self.role = self._follower(known.epoch, leader, known.voted, now)
        else:
            self.role = Unattached(
                epoch=known.epoch,
                voted=known.voted,
                leader_id=known.leader_id,
                election_deadline=self._election_deadline(now),
            )
        self._write(self.role)
        self._trace("role", **self._described())

    # --- what holds now -----------------------------------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        return self.role.epoch

    @property
    def leader_id(self) -> int | None:
        return self.role.leader_id

    @property
    def is_voter(self) -> bool:
        return self._voters().is_voter(self.local)

    @property
    def is_leader(self) -> bool:
        return self.role.name is RoleName.LEADER

    @property
    def leader_node(self) -> Node | None:
        """Where the leader is reached, if another node leads."""
        match self.role:
            case Follower() | Prospective():
                return self.role.leader
            case _:
                return None

    def vote_is_granted(self, nominee: Nominee) -> bool:
        """A majority said yes."""
        return len(nominee.granted & set(self._voters().ids)) >= self._voters().majority

    def vote_is_rejected(self, nominee: Nominee) -> bool:
        """So many said no that a majority cannot be had."""
        voters = self._voters()
        return len(voters.voters) - len(nominee.rejected & set(voters.ids)) < voters.majority

    # --- transitions --------------------------------------------------------------------------------------------------

    def become_unattached(self, epoch: int, leader_id: int | None, now: int) -> None:
        """A higher epoch was seen; or, in this one, the pre-vote was lost or the leader is out of reach."""
        role = self.role
        assert epoch >= role.epoch, f"from {role} to an older epoch {epoch}"
        match role:
            case _ if not self.is_voter:
                deadline = FOREVER
            case Prospective() if self.vote_is_rejected(role):
                deadline = self._election_deadline(now)
            case Unattached() | Nominee() | Resigned():
                deadline = role.election_deadline  # an epoch that came by does not put off this node's own election
            case _:
                deadline = self._election_deadline(now)
        voted = role.voted if epoch == role.epoch else None
        self._become(Unattached(epoch=epoch, voted=voted, leader_id=leader_id, election_deadline=deadline))

    def give_vote(self, candidate: ReplicaKey, now: int) -> None:
        """Vote for the candidate in this epoch. The election timeout begins again: the candidate may well win."""
        role = self.role
        assert isinstance(role, Unattached | Prospective), f"{role} gives a vote"
        assert role.voted is None and candidate.id != self.local.id, f"{role} votes for {candidate}"
        deadline = self._election_deadline(now)
        if isinstance(role, Unattached):
            self._become(replace(role, voted=candidate, election_deadline=deadline))
        else:
            asked_anew = frozenset([self.local.id])
            self._become(
                replace(role, voted=candidate, election_deadline=deadline, granted=asked_anew, rejected=frozenset())
            )

    def become_prospective(self, now: int) -> None:
        role = self.role
        assert self.is_voter, "an observer stands for no election"
        self._become(
            Prospective(
                epoch=role.epoch,
                voted=role.voted,
                leader_id=role.leader_id,
                leader=self.leader_node,
                election_deadline=self._election_deadline(now),
                granted=frozenset([self.local.id]),
            )
        )

    def become_candidate(self, now: int) -> None:
        self._become(
            Candidate(
                epoch=self.role.epoch + 1,
                voted=self.local,
                election_deadline=self._election_deadline(now),
                granted=frozenset([self.local.id]),
            )
        )

    def become_leader(self) -> None:
        role = self.role
        assert isinstance(role, Candidate) and self.vote_is_granted(role), f"{role} has no majority"
        self._become(Leader(epoch=role.epoch, leader_id=self.local.id, granted=role.granted))

    def become_follower(self, epoch: int, leader: Node, now: int) -> None:
        role = self.role
        assert leader.id != self.local.id, f"{role} follows itself"
        assert epoch > role.epoch or (epoch == role.epoch and not self.is_leader), f"{role} follows {leader} in {epoch}"
        voted = role.voted if epoch == role.epoch else None
        self._become(self._follower(epoch, leader, voted, now))

    def become_resigned(self, successors: tuple[ReplicaKey, ...], now: int) -> None:
        role = self.role
        self._become(
            Resigned(
                epoch=role.epoch,
                leader_id=self.local.id,
                election_deadline=self._random_deadline(now),
                successors=successors,
            )
        )

    def _become(self, role: Role) -> None:
        """Make a transition: what must survive a crash is on the disk before it holds."""
        allowed = TRANSITIONS[self.role.name]
        assert role.name in allowed, f"no transition leads from {self.role.name.value} to {role.name.value}"
        if role.election != self.role.election:
            self._write(role)
        self.role = role
        self._trace("role", **self._described())

    def _write(self, role: Role) -> None:
        is_static = self._kraft_version() == STATIC_VOTERS
        self._file.write(role.election, self._voters().ids if is_static else None)

    # --- progress within a role ---------------------------------------------------------------------------------------

    def record_vote(self, voter_id: int, granted: bool) -> Nominee:
        """A voter answered the nominee."""
        role = self.role
        assert isinstance(role, Nominee)
        if granted:
            self.role = role = replace(role, granted=role.granted | {voter_id}, rejected=role.rejected - {voter_id})
        elif voter_id not in role.granted:
            self.role = role = replace(role, rejected=role.rejected | {voter_id})
        return role

    def record_fetch(self, now: int) -> None:
        """The leader answered a fetch: it is alive."""
        role = self.role
        assert isinstance(role, Follower)
        self.role = replace(role, fetch_deadline=now + self._fetch_timeout_ms, has_fetched=True)

    def put_off_update(self, now: int) -> None:
        """Look a fetch timeout later again whether the leader has to be told what this voter is."""
        role = self.role
        assert isinstance(role, Follower)
        self.role = replace(role, update_deadline=now + self._fetch_timeout_ms)

    def record_update(self, now: int) -> None:
        """The leader knows what this voter is. That is as good as an answer to a fetch."""
        role = self.role
        assert isinstance(role, Follower)
        self.role = replace(role, has_updated_leader=True)
        self.record_fetch(now)

    def hasten_election(self, deadline: int) -> None:
        """The leader resigned: do not wait for the fetch timeout."""
        role = self.role
        assert isinstance(role, Follower)
        self.role = replace(role, fetch_deadline=deadline)

    def record_told(self, voter_id: int) -> None:
        """A voter knows that this leader resigned."""
        role = self.role
        assert isinstance(role, Resigned)
        self.role = replace(role, told=role.told | {voter_id})

    # ------------------------------------------------------------------------------------------------------------------

    def _follower(self, epoch: int, leader: Node, voted: ReplicaKey | None, now: int) -> Follower:
        deadline = now + self._fetch_timeout_ms
        return Follower(
            epoch=epoch,
            voted=voted,
            leader_id=leader.id,
            leader=leader,
            fetch_deadline=deadline,
            update_deadline=deadline,
        )

    def _election_deadline(self, now: int) -> int:
        """Between one and two election timeouts from now, by chance, so that not all stand at once. An observer never
        stands."""
        return self._random_deadline(now) if self.is_voter else FOREVER

    def _random_deadline(self, now: int) -> int:
        timeout_ms = max(1, self._election_timeout_ms)
        return now + timeout_ms + self._random.randrange(timeout_ms)

    def _described(self) -> dict[str, object]:
        role = self.role
        return {
            "role": role.name.value,
            "epoch": role.epoch,
            "leader": -1 if role.leader_id is None else role.leader_id,
            "voted": -1 if role.voted is None else role.voted.id,
        }
