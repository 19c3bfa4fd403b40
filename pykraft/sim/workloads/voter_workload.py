"""An administrator who adds and removes voters while the cluster is in trouble.

Each looks at the quorum and then changes something, or two things at once: an observer that is a controller becomes a
voter, or a voter goes, perhaps the leader. It asks the controllers themselves, again after a moment if the one that it
asks does not lead: so its requests come to a leader that is cut off from the other voters, and to one that was elected
just now. What comes of it the laws about voters say (`laws.voter_laws`). A change that is refused, or whose answer is
lost, is forgotten: the next look shows what has come of it.

Two voters stay, also if all administrators remove voters at once. A voter whose disk is lost is removed before others,
and none else is that the quorum needs until then.
"""

from collections.abc import Callable, Iterator
from functools import partial
from random import Random

from pykraft.client.administration.admin import AdminCalls, QuorumDescription, QuorumReplica, VoterChangeError
from pykraft.common.core import FOREVER, Poll, merge
from pykraft.common.errors import KafkaError
from pykraft.common.types import ReplicaKey
from pykraft.protocol.messages.quorum import AddRaftVoterRequest, ListenerEndpoint, RemoveRaftVoterRequest
from pykraft.sim.laws.voter_laws import VoterLaws
from pykraft.sim.trouble.voter_changes import ADD, VoterKnobs
from pykraft.sim.workloads.workload import admin_core

_ADDS = 0.6
_REMOVES_WIPED = 0.7
"""How often a voter whose disk is lost is removed when there is one."""
_AT_ONCE = 2
"""So many voters are removed at once."""


class VoterChanger:
    """An admin client's core that acts of its own accord. It is a RequestManager."""

    def __init__(
        self,
        bootstrap_controllers: str,
        knobs: VoterKnobs,
        laws: VoterLaws,
        first_controller: int,
        port: int,
        random: Random,
    ) -> None:
        """Controllers have ids from `first_controller` on, and listen on this port of their hosts. The `laws` know the
        disks that are lost."""
        cores = [
            admin_core(
                bootstrap_controllers,
                random,
                of_controllers=True,
                retry_backoff_ms=knobs.again_ms,
                retry_backoff_max_ms=2 * knobs.again_ms,
            )
            for _ in range(_AT_ONCE)
        ]
        self._parts = [part for core in cores for part in core]
        self._calls = [AdminCalls(driver) for _, driver in cores]
        """Each on connections of its own: a server answers one request of a connection after the other."""
        self._knobs = knobs
        self._laws = laws
        self._first_controller = first_controller
        self._port = port
        self._random = random
        self._orders = list(knobs.orders)
        self._act_at = self._orders[0][0] if self._orders else knobs.every_ms
        self._now = 0
        self.is_active = True
        self._is_looking = False
        self._changes = 0
        """So many are not answered yet."""
        self.removals: set[ReplicaKey] = set()
        """The voters that it has asked to remove, without having heard what has come of it."""

    @property
    def is_waiting(self) -> bool:
        return self._is_looking or self._changes > 0

    def poll(self, now: int) -> Poll:
        self._now = now
        if self.is_active and not self.is_waiting and now >= self._act_at:
            if not self._orders:
                self._act_at = now + 1 + self._random.randrange(2 * self._knobs.every_ms)
            self._is_looking = True
            self._calls[0].describe_quorum(now + self._knobs.patience_ms).then(self._on_described)
        deadline = self._act_at if self.is_active and not self.is_waiting else FOREVER
        return merge([Poll(max(now, deadline)), *(part.poll(now) for part in self._parts)])

    def _on_described(self, quorum: QuorumDescription | KafkaError) -> None:
        self._is_looking = False
        if not isinstance(quorum, KafkaError) and self.is_active:
            requests = self._ordered(quorum) if self._orders else self._wanted(quorum)
            self._changes = len(requests)
            for calls, request in zip(self._calls, requests, strict=False):
                if isinstance(request, RemoveRaftVoterRequest):
                    self.removals.add(ReplicaKey(request.voter_id, request.voter_directory_id))
                changed = calls.change_voters(request, self._now + self._knobs.patience_ms)
                changed.then(partial(self._on_changed, request))

    def _on_changed(self, request: AddRaftVoterRequest | RemoveRaftVoterRequest, result: object) -> None:
        self._changes -= 1
        if result is None or isinstance(result, VoterChangeError):
            self.removals.discard(ReplicaKey(request.voter_id, request.voter_directory_id))

    def _ordered(self, quorum: QuorumDescription) -> list[AddRaftVoterRequest | RemoveRaftVoterRequest]:
        """The next order; after the last one nothing is changed any more."""
        _, what = self._orders.pop(0)
        self._act_at, self.is_active = (self._orders[0][0], True) if self._orders else (FOREVER, False)
        if what == ADD:
            spare = [each for each in quorum.observers if each.replica_id >= self._first_controller]
            return [self._addition(each) for each in spare[:1]]
        return [_removal(voter) for voter in quorum.voters if voter.replica_id == quorum.leader_id]

    def _wanted(self, quorum: QuorumDescription) -> list[AddRaftVoterRequest | RemoveRaftVoterRequest]:
        voters = list(quorum.voters)
        ids = {voter.replica_id for voter in voters}
        wiped = [voter for voter in voters if _key(voter) in self._laws.wiped]
        if wiped and self._random.random() < _REMOVES_WIPED:
            return [_removal(wiped[0])]
        spare = [
            replica
            for replica in quorum.observers
            if replica.replica_id >= self._first_controller
            and replica.replica_id not in ids
            and _key(replica) not in self._laws.wiped
        ]
        if spare and (len(voters) == 1 or self._random.random() < _ADDS):
            return [self._addition(self._random.choice(spare))]
        if len(voters) < 2 + self._knobs.administrators:
            return []
        leaders = [voter for voter in voters if voter.replica_id == quorum.leader_id]
        is_of_leader = bool(leaders) and self._random.random() < self._knobs.of_leader
        victims = leaders if is_of_leader else [self._random.choice(voters)]
        if len(voters) >= 2 + _AT_ONCE * self._knobs.administrators:
            victims = [*self._random.sample([each for each in voters if each not in victims], _AT_ONCE - 1), *victims]
        may_go = not self._laws.wiped or self._laws.can_do_without({*map(_key, victims), *self.removals})
        return [_removal(each) for each in victims] if may_go else []

    def _addition(self, replica: QuorumReplica) -> AddRaftVoterRequest:
        listener = ListenerEndpoint(name="CONTROLLER", host=f"node-{replica.replica_id}", port=self._port)
        return AddRaftVoterRequest(
            timeout_ms=self._knobs.patience_ms,
            voter_id=replica.replica_id,
            voter_directory_id=replica.directory_id,
            listeners=[listener],
            ack_when_committed=self._random.random() < 0.5,
        )


def changers(
    knobs: VoterKnobs,
    laws: VoterLaws,
    first_controller: int,
    controllers: int,
    port: int,
    dice: Callable[[str], Random],
) -> Iterator[tuple[str, VoterChanger]]:
    """The administrators of a cluster with this many controllers, by the names of their clients."""
    ids = range(first_controller, first_controller + controllers)
    servers = ",".join(f"node-{node_id}:{port}" for node_id in ids)
    for number in range(knobs.administrators):
        name = f"voter-changer-{number}"
        yield name, VoterChanger(servers, knobs, laws, first_controller, port, dice(name))


def _key(replica: QuorumReplica) -> ReplicaKey:
    return ReplicaKey(replica.replica_id, replica.directory_id)


def _removal(voter: QuorumReplica) -> RemoveRaftVoterRequest:
    return RemoveRaftVoterRequest(voter_id=voter.replica_id, voter_directory_id=voter.directory_id)
