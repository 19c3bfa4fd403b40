"""Lab 15 in a live quorum: its leader changes the voters by your rule, and commits what your majority has.

One broker and three controllers run in this process. A voter goes and comes back; then it is added a second time. After
that one controller dies, and the other follower is removed: one removal too many, which a majority of the new set can
never commit. When the dead controller is back, the removal is committed, and at last the leader removes itself.
"""

from pykraft import Admin, Cluster
from pykraft.common.core import Promise
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import ReplicaKey, Uuid
from pykraft.course.labs.plug import Outcome, plugged
from pykraft.course.lessons.scale.live_voters import (
    directory_id,
    endpoints,
    followers,
    mend,
    remove_one_too_many,
    voters,
)
from pykraft.raft import voter_changes
from pykraft.raft.leader_state import LeaderState
from pykraft.raft.leader_state import Outcome as Change
from pykraft.raft.log.voters import VoterSet
from pykraft.viz import board

ADD = "pykraft.raft.service.add_voter"
REMOVE = "pykraft.raft.service.remove_voter"
OBSTACLE = "pykraft.raft.voter_changes._obstacle"
WITHOUT = "pykraft.raft.log.voters.VoterSet.without_voter"
COMMIT = "pykraft.raft.leader_state.LeaderState._update_high_watermark"
ERRORS = {
    "wait": ErrorCode.REQUEST_TIMED_OUT,
    "duplicate": ErrorCode.DUPLICATE_VOTER,
    "not found": ErrorCode.VOTER_NOT_FOUND,
}
TIMEOUT_MS = 3_000


def run(work):
    """Change the voters of a live quorum by the rule of `work`; it agrees if each request ends as it should."""
    with plugged(places(work)) as plugs, Cluster(nodes=1, controllers=3) as cluster:
        came, figure = live(cluster)
    wanted = {
        "a follower is removed": "done",
        "it is added": "done",
        "it is added twice": "DUPLICATE_VOTER",
        "one removal too many": "REQUEST_TIMED_OUT",
        "the voters after it": 2,
        "the voters in the end": 3,
        "the leader removes itself": "done",
    }
    compared = {name: (came.get(name, "nothing"), right) for name, right in wanted.items()}
    lines = [f"{name[0].upper()}{name[1:]}: {came.get(name, 'nothing')}." for name in wanted]
    return Outcome(compared, tuple(lines), tuple(plugs.values()), figure, dict(came))


def live(cluster):
    """What came of each request, and the quorum in the end."""
    last = followers(cluster)[-1]
    came = {"a follower is removed": asked(cluster, "remove", last)}
    came["it is added"] = asked(cluster, "add", last)
    came["it is added twice"] = asked(cluster, "add", last)
    broken = remove_one_too_many(cluster)
    came["one removal too many"] = broken.answer
    came["the voters after it"] = len(mend(cluster))
    came["the voters in the end"] = len(voters(cluster))
    leader = cluster.describe(0).active_controller
    title = f"After all changes node {leader} leads {came['the voters in the end']} voters"
    figure = board(cluster, topics=[], title=title)
    came["the leader removes itself"] = asked(cluster, "remove", leader)
    return came, figure


def asked(cluster, kind, node):
    """What an administrator hears: "done", or the name of the error."""
    with Admin(**cluster.client_settings(), default_api_timeout_ms=TIMEOUT_MS) as admin:
        try:
            if kind == "add":
                admin.add_raft_voter(node, directory_id(cluster, node), endpoints(cluster, node))
            else:
                admin.remove_raft_voter(node, directory_id(cluster, node))
        except KafkaError as error:
            return error.code.name
    return "done"


# --- your rule where pykraft's leader asks for its own ----------------------------------------------------------------


def places(work):
    return {
        ADD: lambda replica, key, *more: (
            refusal(work, replica, "add", key, more[-1]) or voter_changes.add_voter(replica, key, *more)
        ),
        REMOVE: lambda replica, key, now: (
            refusal(work, replica, "remove", key, now) or voter_changes.remove_voter(replica, key, now)
        ),
        OBSTACLE: lambda replica: None,
        WITHOUT: lambda voters, key: without(work, voters, key),
        COMMIT: lambda leader: commits(work, leader),
    }


def refusal(work, replica, kind, key, now):
    """A refusal by your rule, or None; a change under way is given up if your rule begins another."""
    leader, records = replica.leader, replica.control_records
    if leader is None or replica.is_removed:
        return None
    observers = [each for each in leader.observers if leader.is_caught_up(each, now)]
    known = work.Leader(
        leader.epoch_start_offset,
        leader.high_watermark,
        tuple(plain(work, each) for each in records.voters.keys),
        records.history.latest_offset,
        None if leader.change is None else plain(work, leader.change.key),
        frozenset(plain(work, each) for each in observers),
    )
    said = work.may_change(known, work.Change(kind, plain(work, key)))
    if said in ERRORS:
        return Promise.of(Change(ERRORS[said], f"your rule says {said!r}"))
    leader.end_change(Change(ErrorCode.REQUEST_TIMED_OUT, "another change has begun"))
    return None


def without(work, voters, key):
    found = work.new_voters(
        tuple(plain(work, each) for each in voters.keys), work.Change("remove", plain(work, voters.voters[key.id].key))
    )
    return VoterSet({each.id: voters.voters[each.id] for each in found})


def commits(work, leader: LeaderState):
    """Your high watermark; whether it moved."""
    progress = [*leader.voters.values(), *leader.observers.values()]
    ends = {plain(work, each.key): each.end_offset for each in progress if each.end_offset is not None}
    known = work.Leader(
        leader.epoch_start_offset,
        leader.high_watermark,
        tuple(plain(work, each.key) for each in leader.voters.values()),
        -1,
        None,
        frozenset(),
    )
    found = work.high_watermark(known, ends)
    if found is None or found == leader.high_watermark:
        return False
    leader.high_watermark = found
    return True


def plain(work, key: ReplicaKey):
    return work.Voter(key.id, str(key.directory_id or Uuid(bytes(16))))
