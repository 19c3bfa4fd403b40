"""The timers of a simulated cluster that decide who leads: what a node waits for, and when its patience ends.

    fetch      a follower of the quorum has heard from its leader; when this runs out it seeks votes
    election   a node without a leader, or one that asked for votes, tries again when this runs out
    session    the active controller has heard from a broker; when this runs out it fences that broker

The cores hold deadlines, and nothing more. A deadline is read here, and can be made to be now.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from pykraft.common.core import FOREVER
from pykraft.raft.quorum_state import Follower
from pykraft.sim.world.hosts import SimulatedNode

Nodes = Mapping[int, SimulatedNode]
FETCH, ELECTION, SESSION = "fetch", "election", "session"


class Timer(NamedTuple):
    """A wait of, or for, a host: a node by its id, a client by its name. Virtual milliseconds."""

    host: int | str
    kind: str
    deadline_ms: int


def timers_of(nodes: Nodes, node_id: int) -> list[Timer]:
    """The timers that are about this node: its own, and the session that the active controller has of it."""
    return [*quorum_timers(nodes[node_id]), *(each for each in sessions(nodes) if each.host == node_id)]


def quorum_timers(machine: SimulatedNode) -> Iterator[Timer]:
    """What a voter waits for."""
    if machine.node is None:
        return
    role = machine.node.raft.replica.quorum.role
    field = _field(role)
    deadline = getattr(role, field, FOREVER)
    if deadline < FOREVER:
        yield Timer(machine.node_id, FETCH if isinstance(role, Follower) else ELECTION, deadline)


def sessions(nodes: Nodes) -> Iterator[Timer]:
    """The sessions of the brokers with the active controller."""
    active = _active(nodes)
    if active is None or active.node is None or active.node.controller is None:
        return
    heartbeats = active.node.controller.heartbeats
    for node_id in nodes:
        if heartbeats.has_valid_session(node_id, active.scheduler.now):
            yield Timer(node_id, SESSION, heartbeats.contacts[node_id].last_contact + heartbeats.session_timeout_ms)


def fire(nodes: Nodes, node_id: int, kind: str, now: int) -> None:
    """Let a timer run out now: what waits for it acts at once."""
    if kind == SESSION:
        active = _active(nodes)
        if active is not None:
            active.act(partial(_end_session, active, node_id, now))
    else:
        nodes[node_id].act(partial(_end_patience, nodes[node_id], now))


def _end_session(active: SimulatedNode, node_id: int, now: int) -> None:
    assert active.node is not None and active.node.controller is not None
    heartbeats = active.node.controller.heartbeats
    if (contact := heartbeats.contacts.get(node_id)) is not None:
        contact.last_contact = now - heartbeats.session_timeout_ms
    active.node.controller.room.wake_by(now, "request")


def _end_patience(machine: SimulatedNode, now: int) -> None:
    assert machine.node is not None
    quorum = machine.node.raft.replica.quorum
    role: Any = quorum.role
    quorum.role = replace(role, **{_field(role): now})
    machine.node.raft.room.wake_by(now, "vote")


def _field(role: object) -> str:
    return "fetch_deadline" if isinstance(role, Follower) else "election_deadline"


def _active(nodes: Nodes) -> SimulatedNode | None:
    """The newest leader of the quorum."""
    leaders = [each for each in nodes.values() if each.node is not None and each.node.raft.replica.quorum.is_leader]
    return max(leaders, key=lambda each: each.node.raft.leader_and_epoch.epoch if each.node else -1, default=None)
