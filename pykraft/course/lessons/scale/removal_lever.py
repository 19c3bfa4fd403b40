"""The first picture of notebook 15: controllers die, voters are removed, and the quorum commits or does not.

At each move a quorum of pykraft's own controllers is simulated. Some followers die. Then the leader gets
RemoveRaftVoter for one voter after the other, as from an administrator. After each step we count what is committed in
a while: a leader that has nothing to do writes a record each 100 ms.

A removal is a record of the metadata log, and holds from when it is appended. So it is committed by a majority of the
*new* voter set. Where too few of these run, it never is, and neither is anything after it.
"""

from pykraft.common.errors import ErrorCode
from pykraft.course.lessons.elections.elections import Quorum
from pykraft.protocol.messages.quorum import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from pykraft.raft.quorum_state import Follower
from pykraft.raft.replica import RaftReplica
from pykraft.viz import Figure
from pykraft.viz.measured.voter_chart import DEAD, FOLLOWS, LEADS, STANDS, WATCHES, Moment, voters_by_step

A_RUNNING_ONE, A_DEAD_ONE = "a voter that runs", "a dead voter"
REMOVED = (A_RUNNING_ONE, A_DEAD_ONE)
DONE = "done"
_SEED = 15
_SETTLE_MS, _PATIENCE_MS, _COUNT_MS = 400, 1_500, 500
_NONE_LEFT = {A_RUNNING_ONE: "No other follower runs.", A_DEAD_ONE: "No other voter is dead."}


def draw_removals(voters: int, dead: int, remove: str, removals: int) -> Figure:
    """The controllers after each step. ValueError if the leader would have to die as well."""
    moments = removed(voters, dead, remove, removals)
    last = moments[-1]
    verdict = "the quorum commits" if last.committed else "nothing is committed any more"
    title = f"{last.running} of {len(last.voters)} voters run, and a majority is {last.majority}: {verdict}"
    note = "The voters of the newest set count, also before that set is committed."
    left = removals - sum(bool(moment.answer) for moment in moments)
    if left:
        note += f" {_NONE_LEFT[remove] if last.committed else 'No controller leads.'} So {left} more cannot be removed."
    return voters_by_step(moments, title=title, note=note, seconds=_COUNT_MS / 1_000)


def removed(voters: int, dead: int, remove: str, removals: int) -> list[Moment]:
    """What the controllers are at first, after the deaths, and after each removal until none leads."""
    if dead >= voters:
        raise ValueError(f"dead is {dead}: the leader stays alive, so at most {voters - 1} of {voters} voters can die")
    quorum = _Voters(voters)
    running = voters - 1 - dead
    dying = quorum.others()[running:]
    leaving = dying if remove == A_DEAD_ONE else quorum.others()[:running]
    moments = [quorum.moment("at first")]
    if dying:
        for controller in dying:
            quorum.kill(controller)
        quorum.run_for(_SETTLE_MS)
        moments.append(quorum.moment(f"{', '.join(map(str, dying))} {'dies' if dead == 1 else 'die'}"))
    for controller in leaving[:removals]:
        if quorum.leader is None:
            break
        answer = quorum.remove(controller)
        if answer != DONE:
            quorum.run_for(_SETTLE_MS)
        moments.append(quorum.moment(f"{controller} is removed", answer))
    return moments


class _Voters(Quorum):
    """Controllers in processes of their own, and one broker, which asks for nothing."""

    def __init__(self, voters: int) -> None:
        super().__init__(_SEED, 1, controllers=voters)
        self.run_until_led()
        self._keys = {controller: self._replica(controller).local_voter.key for controller in self._controllers()}
        self.run_for(_SETTLE_MS)

    def _controllers(self) -> list[int]:
        return [number for number, machine in self._cluster.nodes.items() if machine.node and machine.node.controller]

    def _replica(self, controller: int) -> RaftReplica:
        node = self._cluster.nodes[controller].node
        assert node is not None
        return node.raft.replica

    def _is_voter(self, controller: int) -> bool:
        return self._replica(controller).quorum.is_voter

    def others(self) -> list[int]:
        """All controllers but the leader."""
        return [controller for controller in self._keys if controller != self.leader]

    def remove(self, controller: int) -> str:
        """Ask the leader to take this voter out; "done", or the name of the error."""
        assert self.leader is not None
        machine, heard = self._cluster.nodes[self.leader], list[RemoveRaftVoterResponse]()
        request = RemoveRaftVoterRequest(voter_id=controller, voter_directory_id=self._keys[controller].directory_id)

        def ask() -> None:
            assert machine.node is not None
            machine.node.raft.service.remove_raft_voter(request, self._cluster.scheduler.now).then(heard.append)

        machine.act(ask)
        until = self.now_ms + _PATIENCE_MS
        self.run_until(lambda: bool(heard) or self.now_ms >= until)
        error = ErrorCode.of(heard[0].error_code) if heard else ErrorCode.REQUEST_TIMED_OUT
        return DONE if error is ErrorCode.NONE else error.name

    def moment(self, what: str, answer: str = "") -> Moment:
        """What the controllers are, and how many records are committed from now on."""
        before = self._committed()
        self.run_for(_COUNT_MS)
        running = self._controllers()
        newest = max((self._replica(controller) for controller in running), key=lambda replica: replica.log.end.offset)
        roles = {key: self._role(key) if key in running else DEAD for key in self._keys}
        return Moment(what, answer, roles, newest.control_records.voters.ids, self._committed() - before)

    def _role(self, controller: int) -> str:
        if not self._is_voter(controller):
            return WATCHES
        if controller == self.leader:
            return LEADS
        return FOLLOWS if isinstance(self._replica(controller).quorum.role, Follower) else STANDS

    def _committed(self) -> int:
        return max(self.high_watermark(controller) for controller in self._controllers())
