"""What the clients of groups and transactions do, and what their coordinators know: for a player, which shows it.

    consumer-member-2   reads t-1, t-2            paused
    teller-0.1          in a transaction
    node 3              consumers: Stable, epoch 4

And the timers by which a coordinator gives a member up::

    member      it has heard from the member; when this runs out it removes that member
    rebalance   the member is to give partitions up; when this runs out the coordinator takes them away
    join        the coordinator of a classic group waits until all members have joined
    sync        and then until all have asked for their partitions

The first two are about a member, and have the name of its host. The others are of the coordinator's node.
"""

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from pykraft.broker.broker import Broker
from pykraft.common.types import TopicPartition
from pykraft.coordinator.group.classic_groups.classic import heartbeat_key, join_key, sync_key
from pykraft.coordinator.group.classic_groups.classic_group import ClassicGroup
from pykraft.coordinator.group.consumer_groups.consumer_group import ConsumerGroup
from pykraft.coordinator.group.consumer_groups.consumer_sessions import rebalance_key, session_key
from pykraft.sim.cluster import SimulatedCluster
from pykraft.sim.timers import Timer
from pykraft.sim.workloads.transaction_workload import Teller

MEMBER, REBALANCE, JOIN, SYNC = "member", "rebalance", "join", "sync"


class Doing(NamedTuple):
    """What a host does: a client as a whole, a node as a coordinator."""

    host: int | str
    what: str
    is_paused: bool = False


def doings(cluster: SimulatedCluster) -> tuple[Doing, ...]:
    """Of all clients of groups and transactions, and of their coordinators."""
    if not cluster.groups and cluster.bank is None:
        return ()
    return (*_of_clients(cluster), *_of_coordinators(cluster))


def committed(cluster: SimulatedCluster) -> tuple[tuple[TopicPartition, int], ...]:
    """How far the first group has committed, for each partition."""
    return tuple(cluster.groups[0].laws.committed().items()) if cluster.groups else ()


def _of_clients(cluster: SimulatedCluster) -> Iterator[Doing]:
    now = cluster.scheduler.now
    for group in cluster.groups:
        for name, member in group.hosts.items():
            owned = ", ".join(str(each.partition) for each in sorted(member.core.subscription.partitions))
            yield Doing(name, f"reads {owned}" if owned else "has no partition", member.naps_until > now)
    for name, client in cluster.bank.hosts.items() if cluster.bank is not None else ():
        kind = "in a transaction" if client.transactions.is_open else "idle"
        yield Doing(name, kind if isinstance(client, Teller) else "copies", client.naps_until > now)


def _of_coordinators(cluster: SimulatedCluster) -> Iterator[Doing]:
    for node_id, broker in _brokers(cluster):
        known = [
            f"{group.group_id}: {group.state_name}, {_age(group)}"
            for _, group in _groups(broker)
            if isinstance(group, (ClassicGroup, ConsumerGroup)) and group.members
        ]
        runtime = broker.transactions.runtime
        for number in runtime.active_partitions():
            known += [
                f"{name}: {each.state.title}" for name, each in sorted(runtime.active(number).transactions.items())
            ]
        if known:
            yield Doing(node_id, "; ".join(known))


def _age(group: ClassicGroup | ConsumerGroup) -> str:
    return f"generation {group.generation}" if isinstance(group, ClassicGroup) else f"epoch {group.group_epoch}"


def _brokers(cluster: SimulatedCluster) -> Iterator[tuple[int, Broker]]:
    for node_id, machine in cluster.nodes.items():
        if machine.node is not None and machine.node.broker is not None:
            yield node_id, machine.node.broker


def _groups(broker: Broker) -> Iterator[tuple[int, object]]:
    runtime = broker.groups.runtime
    for number in runtime.active_partitions():
        for group in runtime.active(number).groups.values():
            yield number, group


# --- timers -----------------------------------------------------------------------------------------------------------


class Place(NamedTuple):
    """Where a group's timer is kept."""

    node_id: int
    partition: int
    key: str


def group_timers(cluster: SimulatedCluster) -> dict[Timer, Place]:
    """The timers of all groups, and where each is kept."""
    if not cluster.groups:
        return {}
    names = {member_id: name for group in cluster.groups for member_id, name in group.names.items()}
    found: dict[Timer, Place] = {}
    for node_id, broker in _brokers(cluster):
        for number, group in _groups(broker):
            if not isinstance(group, (ClassicGroup, ConsumerGroup)):
                continue
            deadlines = broker.groups.runtime.timer(number).deadlines
            for host, kind, key in _keys(group, node_id, names):
                if key in deadlines:
                    found[Timer(host, kind, deadlines[key])] = Place(node_id, number, key)
    return found


def _keys(
    group: ClassicGroup | ConsumerGroup, node_id: int, names: dict[str, str]
) -> Iterator[tuple[int | str, str, str]]:
    """The timers that a group may have: of which host, of which kind, under which key."""
    for member_id in group.members:
        host = names.get(member_id, member_id)
        if isinstance(group, ClassicGroup):
            yield host, MEMBER, heartbeat_key(group.group_id, member_id)
        else:
            yield host, MEMBER, session_key(group.group_id, member_id)
            yield host, REBALANCE, rebalance_key(group.group_id, member_id)
    if isinstance(group, ClassicGroup):
        yield node_id, JOIN, join_key(group.group_id)
        yield node_id, SYNC, sync_key(group.group_id)


def fire_of_group(cluster: SimulatedCluster, place: Place) -> None:
    """Let the timer that is kept there run out now: the coordinator removes a member, or goes on with those it has."""
    machine = cluster.nodes[place.node_id]
    assert machine.node is not None and machine.node.broker is not None
    kept = machine.node.broker.groups.runtime.timer(place.partition)
    machine.act(partial(kept.hasten, place.key, cluster.scheduler.now))
