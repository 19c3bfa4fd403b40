"""What is still wanting, once a storm has ended, in the coordinators and in the logs.

A simulated cluster has settled when nothing of this is left (see `cluster`): each function says what is missing, or
None.
"""

from collections.abc import Collection, Iterable

from pykraft.broker.broker import Broker
from pykraft.broker.coordination.coordinators import GROUP_TOPIC
from pykraft.common.types import TopicPartition
from pykraft.coordinator.group.classic_groups.classic_group import ClassicState
from pykraft.coordinator.transaction.state import AT_REST
from pykraft.sim.workloads.group_workload import GroupWorkload

NodeBrokers = Iterable[tuple[int, Broker]]
"""Each broker that is up, with its node id."""


def missing_in_transactions(brokers: NodeBrokers) -> str | None:
    """No transaction is open: everything is stable."""
    for node_id, broker in brokers:
        for key, partition in broker.replicas.partitions.items():
            log = partition.log
            if partition.is_leader and log.last_stable_offset != log.log_end_offset:
                return f"{key} on node {node_id} is stable up to {log.last_stable_offset} of {log.log_end_offset}"
        for number in broker.transactions.runtime.active_partitions():
            for each in broker.transactions.runtime.active(number).transactions.values():
                if each.state not in AT_REST:
                    return f"the transaction of {each.transactional_id} is {each.state.title}"
    return None


def missing_in_coordinators(brokers: NodeBrokers, group: GroupWorkload) -> str | None:
    """The coordinator knows the members that there are, and everything it has appended is committed."""
    found = []
    for node_id, broker in brokers:
        for number in broker.groups.runtime.active_partitions():
            log = broker.replicas.partition(TopicPartition(GROUP_TOPIC, number)).log
            if log.high_watermark != log.log_end_offset or broker.groups.runtime.has_waiting(number):
                return f"{GROUP_TOPIC}-{number} on node {node_id} is not wholly committed"
            known = broker.groups.runtime.active(number).groups.get(group.group_id)
            if known is not None:
                found.append((known.state_name, sorted(known.members)))
    expected = sorted(member.member_id for member in group.members)
    is_expected = found == [(ClassicState.STABLE.value, expected)]
    return None if is_expected else f"the group {group.group_id} is {found}, not {expected}"


def ends_of(brokers: NodeBrokers, topics: Collection[str]) -> dict[TopicPartition, int]:
    """Where the leaders' logs of these topics end."""
    return {
        place: partition.log.log_end_offset
        for _, broker in brokers
        for place, partition in broker.replicas.partitions.items()
        if place.topic in topics and partition.is_leader
    }
