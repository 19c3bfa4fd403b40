"""What a simulated cluster still lacks before it has settled: in its partitions, its transactions, its coordinators.

Each function says what is missing, or None.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from pykraft.broker.broker import Broker
from pykraft.broker.coordination.coordinators import GROUP_TOPIC
from pykraft.common.types import TopicPartition
from pykraft.coordinator.group.classic_groups.classic_group import ClassicState
from pykraft.coordinator.transaction.state import AT_REST
from pykraft.metadata.image import MetadataImage, TopicImage
from pykraft.sim.laws.invariants import RECREATED
from pykraft.sim.laws.moving_log_laws import COMPACTED, SHORTENED
from pykraft.sim.laws.setting_laws import CHANGING
from pykraft.sim.laws.watcher import Watcher
from pykraft.sim.workloads.group_workload import GroupWorkload
from pykraft.sim.workloads.workload import TOPIC
from pykraft.sim.world.hosts import SimulatedNode

Nodes = Mapping[int, SimulatedNode]
Brokers = Iterable[tuple[int, Broker]]
"""Each broker that is up, with its node id."""


def missing_in_partitions(nodes: Nodes, images: Sequence[MetadataImage]) -> str | None:
    """What the topics of the workloads still lack; None if nothing."""
    topic = images[0].topic_named(TOPIC)
    if topic is None:
        return "the topic is unknown"
    others = [images[0].topic_named(name) for name in (RECREATED, SHORTENED, COMPACTED, CHANGING)]
    return missing_in_topics(nodes, [each for each in (topic, *others) if each is not None])


def missing_in_topics(nodes: Nodes, topics: Iterable[TopicImage]) -> str | None:
    """What these topics still lack; None if nothing."""
    return next((why for each in topics if (why := _missing_in_topic(nodes, each)) is not None), None)


def _missing_in_topic(nodes: Nodes, topic: TopicImage) -> str | None:
    for number, registration in topic.partitions.items():
        key = TopicPartition(topic.name, number)
        if registration.leader < 0 or set(registration.isr) != set(registration.replicas):
            return f"{key} has leader {registration.leader} and ISR {registration.isr} of {registration.replicas}"
        ends = set()
        for replica in registration.replicas:
            node = nodes[replica].node
            assert node is not None and node.broker is not None
            partition = node.broker.replicas.partitions.get(key)
            if partition is None or partition.log.high_watermark != partition.log.log_end_offset:
                return f"{key} on node {replica} is not wholly committed: {partition and partition.log}"
            ends.add(partition.log.log_end_offset)
        if len(ends) != 1:
            return f"the replicas of {key} end at {sorted(ends)}"
    return None


def missing_in_transactions(brokers: Brokers) -> str | None:
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


def missing_in_coordinators(brokers: Brokers, group: GroupWorkload) -> str | None:
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


def end_for_readers(watcher: Watcher, brokers: Brokers, key: TopicPartition) -> int:
    """Where a consumer must have come to: the end of what is committed, as the leader has it if some was lost."""
    history = watcher.history(key)
    if not history.is_lost:
        return len(history.values)
    logs = [broker.replicas.partitions[key].log for _, broker in brokers if key in broker.replicas.partitions]
    return max(log.high_watermark for log in logs)


def ends_of(brokers: Brokers, topics: Collection[str]) -> dict[TopicPartition, int]:
    """Where the leaders' logs of these topics end."""
    return {
        place: partition.log.log_end_offset
        for _, broker in brokers
        for place, partition in broker.replicas.partitions.items()
        if place.topic in topics and partition.is_leader
    }
