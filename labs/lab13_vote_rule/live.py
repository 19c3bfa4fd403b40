"""Lab 13 in simulated quorums: nodes vote by your rule, count by your majority, and wait as long as you say.

Each quorum is pykraft's own controllers on a virtual clock. Five nodes lose their leader, in several seeds: several
followers ask for votes at once, so that a wrong rule makes two leaders. Then a follower that misses records asks for
votes when the leader has just died. The simulator checks its laws after every event: at most one leader an epoch, and
no leader without all that is committed.
"""

from pykraft.common.core import FOREVER
from pykraft.common.errors import ErrorCode
from pykraft.course.labs.plug import Outcome, at_most, plugged
from pykraft.course.lessons.elections.elections import behind_and_complete, failover
from pykraft.raft import wire
from pykraft.raft.quorum_state import Follower, Prospective, Unattached
from pykraft.raft.service import RaftService
from pykraft.sim.cluster import SimulationFailed
from pykraft.surroundings import pick
from pykraft.viz import roles_over_time

VOTE = "pykraft.raft.service.RaftService.vote"
WON = "pykraft.raft.quorum_state.QuorumState.vote_is_granted"
LOST = "pykraft.raft.quorum_state.QuorumState.vote_is_rejected"
WAIT = "pykraft.raft.quorum_state.QuorumState._election_deadline"
NODES, LATE_RUNS = 5, 2
FEW = 6
"""With waits that differ, one or two elections are enough; more than six are no chance."""
ERRORS = {"fenced": ErrorCode.FENCED_LEADER_EPOCH}


def run(work):
    """Elect by the rules of `work`; it agrees if no law is broken, and the incomplete log never wins."""
    count = pick(small=3, full=12)
    with plugged(places(work)) as plugs:
        runs, broken = attempts(count, lambda seed: failover(seed, NODES))
        late, broken_late = attempts(LATE_RUNS, behind_and_complete)
    wrong = [logs for logs, elected in late if elected == min(logs, key=logs.get)]
    most = max((run.epochs for run in runs), default=0)
    lines = [
        f"{count} times five nodes lost their leader: {len(broken)} runs broke a law, and the others needed at most "
        f"{most} elections.",
        f"In {len(wrong) + len(broken_late)} of {LATE_RUNS} runs the follower that misses records was elected.",
        *(broken + broken_late)[:1],
    ]
    worst = max(runs, key=lambda run: run.epochs, default=None)
    figure = None
    if worst is not None:
        title = f"The longest of {len(runs)} failovers takes {worst.ms:.0f} ms and {worst.epochs} elections"
        figure = roles_over_time(worst.quorum.spans(), marks=worst.quorum.marks, title=title)
    compared = {
        "runs that broke a law": (len(broken), 0),
        "elections of the log that misses records": (len(wrong) + len(broken_late), 0),
        "elections of the longest failover": (most, at_most(FEW)),
    }
    facts = {"broken": len(broken), "late": len(wrong) + len(broken_late), "most": most}
    return Outcome(compared, tuple(lines), tuple(plugs.values()), figure, facts)


def attempts(count, try_seed):
    """What came of the seeds 1 to `count`: the runs that got to their end, and the laws that the others broke."""
    done, broken = [], []
    for seed in range(1, count + 1):
        try:
            done.append(try_seed(seed))
        except (SimulationFailed, TimeoutError) as failure:
            broken.append(f"Seed {seed}: {str(failure).splitlines()[0]}")
    return done, broken


def places(work):
    """Your rules where pykraft's nodes ask for theirs."""
    own = RaftService.vote

    def vote(service, request, now):
        partition, replica = wire.only_partition(request), service._replica
        if partition is None or request.cluster_id not in (None, replica.cluster_id):
            return own(service, request, now)
        asked = work.VoteRequest(
            partition.replica_id,
            partition.replica_epoch,
            work.LogEnd(partition.last_offset_epoch, partition.last_offset),
            partition.pre_vote,
        )
        voter, said = work.answer(voter_of(work, replica), asked)
        if voter.epoch > replica.epoch:
            replica.become_unattached(voter.epoch, None, now)
        role = replica.quorum.role
        may_note = isinstance(role, Unattached | Prospective) and role.voted is None
        if may_note and voter.voted not in (None, replica.local.id):
            voters = replica.control_records.voters
            replica.quorum.give_vote(next(key for key in voters.keys if key.id == voter.voted), now)
        return wire.vote_response(replica.view, ERRORS.get(said, ErrorCode.NONE), said == "granted")

    def wait(quorum, now):
        if not quorum.is_voter:
            return FOREVER
        return now + work.election_timeout_ms(quorum._election_timeout_ms, quorum._random)

    def ids(quorum):
        return quorum._voters().ids

    return {
        VOTE: vote,
        WON: lambda quorum, nominee: work.has_won(nominee.granted, ids(quorum)),
        LOST: lambda quorum, nominee: work.has_lost(nominee.rejected, ids(quorum)),
        WAIT: wait,
    }


def voter_of(work, replica):
    """A node as your rule sees it."""
    role = replica.quorum.role
    log = replica.log.end
    return work.Voter(
        replica.local.id,
        role.name.value,
        role.epoch,
        None if role.voted is None else role.voted.id,
        role.leader_id,
        isinstance(role, Follower) and role.has_fetched,
        work.LogEnd(log.epoch, log.offset),
    )
