"""The figures that a node tells when a reader asks: of its quorum, controller, replicas, logs and groups.

Each is computed from the state at that moment. What must be counted as it happens is counted where it happens
(`topic_metrics`, `transport.request_metrics`, `storage.disk.flushes`).

Names are Kafka's. (``current-state`` is a text there, and here a label.) Two are for what Kafka's brokers do not tell:
``pykraft_transaction_coordinator_num_partitions`` is what ``num-partitions`` of the group coordinator is, and
``pykraft_group_lag`` is how many records a group has still to read, by partition, where this broker coordinates the
group and has a replica of the partition. (Kafka's clients measure their lag themselves, as records-lag.)

Follows org.apache.kafka.raft.internals.KafkaRaftMetrics, org.apache.kafka.controller.metrics.ControllerMetadataMetrics,
kafka.server.ReplicaManager and org.apache.kafka.coordinator.group.metrics.{GroupCoordinatorMetrics,
CoordinatorRuntimeMetrics}.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import islice

from pykraft.broker.coordination.coordinators import GroupCoordinator
from pykraft.broker.coordination.transactions import TransactionCoordinator
from pykraft.broker.replication.partition import Partition
from pykraft.broker.replication.replica_manager import ReplicaManager
from pykraft.common.metrics import (
    CLUSTER,
    CONTROLLER,
    GROUP_COORDINATOR,
    LOG,
    OWN,
    TRANSACTION_COORDINATOR,
    Metrics,
    Series,
)
from pykraft.controller.controller import QuorumController
from pykraft.coordinator.group.classic_groups.classic_group import ClassicGroup, ClassicState
from pykraft.coordinator.group.consumer_groups.consumer_group import ConsumerGroupState
from pykraft.coordinator.group.shard import GroupShard
from pykraft.coordinator.shard_context import State
from pykraft.metadata.image import MetadataImage, PartitionRegistration
from pykraft.raft.client import RaftClient
from pykraft.raft.quorum_state import Candidate, Follower, Leader, Prospective, Unattached
from pykraft.storage.log import UnifiedLog

MOST_SERIES = 1000
"""Of one name: a reader gets the first of them. There may be as many partitions, and more lags."""


# --- quorum and controller --------------------------------------------------------------------------------------------


def tell_quorum(metrics: Metrics, raft: RaftClient) -> None:
    """The metadata quorum, as this node sees it."""
    replica = raft.replica

    def state() -> Series:
        role, is_voter = replica.quorum.role, replica.quorum.is_voter
        name = "observer" if isinstance(role, Follower) and not is_voter else role.name.value.lower()
        has_voted = isinstance(role, Unattached | Prospective) and role.voted is not None
        return [({"state": f"{name}-voted" if has_voted else name}, 1)]

    def voted() -> float:
        role = replica.quorum.role
        if isinstance(role, Leader | Candidate):
            return replica.quorum.local.id
        return -1 if role.voted is None else role.voted.id

    kind = "raft-metrics"
    metrics.series(kind, "current-state", state)
    metrics.gauge(kind, "current-leader", lambda: raft.leader_and_epoch.leader_id)
    metrics.gauge(kind, "current-epoch", lambda: replica.epoch)
    metrics.gauge(kind, "current-vote", voted)
    metrics.gauge(kind, "high-watermark", lambda: replica.log.high_watermark)
    metrics.gauge(kind, "log-end-offset", lambda: replica.log.end_offset)
    metrics.gauge(kind, "log-end-epoch", lambda: replica.log.last_epoch)


def tell_controller(metrics: Metrics, controller: QuorumController, raft: RaftClient) -> None:
    """The cluster, as the metadata describe it."""

    def partitions() -> Iterator[PartitionRegistration]:
        for topic in controller.image.topics.values():
            yield from topic.partitions.values()

    def is_imbalanced(partition: PartitionRegistration) -> bool:
        return bool(partition.replicas) and partition.leader != partition.replicas[0]

    def image() -> MetadataImage:
        return controller.image

    def brokers(fenced: bool) -> int:
        return sum(broker.fenced is fenced for broker in image().brokers.values())

    gauges: Mapping[str, Callable[[], float]] = {
        "ActiveControllerCount": lambda: int(controller.is_active),
        "GlobalTopicCount": lambda: len(image().topics),
        "GlobalPartitionCount": lambda: sum(1 for _ in partitions()),
        "OfflinePartitionsCount": lambda: sum(not each.has_leader for each in partitions()),
        "PreferredReplicaImbalanceCount": lambda: sum(map(is_imbalanced, partitions())),
        "ActiveBrokerCount": lambda: brokers(fenced=False),
        "FencedBrokerCount": lambda: brokers(fenced=True),
        "LastAppliedRecordOffset": lambda: image().provenance.offset,
        "LastCommittedRecordOffset": lambda: raft.high_watermark - 1,
    }
    for name, read in gauges.items():
        metrics.gauge("KafkaController", name, read, CONTROLLER)


# --- replicas ---------------------------------------------------------------------------------------------------------


def tell_broker(
    metrics: Metrics, replicas: ReplicaManager, groups: GroupCoordinator, transactions: TransactionCoordinator
) -> None:
    """What a broker has."""
    tell_replicas(metrics, replicas)
    tell_groups(metrics, groups, replicas)
    tell_transactions(metrics, transactions)


def tell_replicas(metrics: Metrics, replicas: ReplicaManager) -> None:
    """The partitions of this broker."""
    kind = "ReplicaManager"

    def led() -> Iterator[Partition]:
        return (partition for partition in replicas.partitions.values() if partition.is_leader)

    def max_lag() -> int:
        """How many records the slowest replica here lags behind its leader."""
        return max((fetcher.max_lag for fetcher in replicas.fetchers.values()), default=0)

    def offline() -> int:
        return len(replicas.offline.keys) or (len(replicas.partitions) if replicas.offline.is_all else 0)

    metrics.gauge(kind, "PartitionCount", lambda: len(replicas.partitions))
    metrics.gauge(kind, "LeaderCount", lambda: sum(1 for _ in led()))
    metrics.gauge(kind, "OfflineReplicaCount", offline)
    metrics.gauge(kind, "UnderReplicatedPartitions", lambda: sum(map(_is_under_replicated, led())))
    metrics.gauge(kind, "UnderMinIsrPartitionCount", lambda: sum(each.is_under_min_isr for each in led()))
    metrics.gauge(kind, "AtMinIsrPartitionCount", lambda: sum(map(_is_at_min_isr, led())))
    metrics.gauge(kind, "ReassigningPartitions", lambda: sum(each.is_reassigning for each in led()))
    metrics.gauge(
        "ReplicaFetcherManager",
        "MaxLag",
        lambda: max((each.max_lag for each in replicas.fetchers.values()), default=0),
        clientId="Replica",
    )
    purgatories = {"Produce": replicas.produces, "Fetch": replicas.fetches, "DeleteRecords": replicas.deletes}
    for name, purgatory in purgatories.items():
        metrics.gauge("DelayedOperationPurgatory", "PurgatorySize", purgatory.__len__, delayedOperation=name)

    def under_min_isr() -> Series:
        found = (each for each in led() if each.is_under_min_isr)
        return [(_tags(each), 1) for each in islice(found, MOST_SERIES)]

    metrics.series("Partition", "UnderMinIsr", under_min_isr, CLUSTER)

    def of_logs(read: Callable[[UnifiedLog], int]) -> Callable[[], Series]:
        return lambda: [(_tags(each), read(each.log)) for each in islice(replicas.partitions.values(), MOST_SERIES)]

    metrics.series("Log", "Size", of_logs(lambda log: log.size), LOG)
    metrics.series("Log", "LogStartOffset", of_logs(lambda log: log.log_start_offset), LOG)
    metrics.series("Log", "LogEndOffset", of_logs(lambda log: log.log_end_offset), LOG)
    metrics.series("Log", "NumLogSegments", of_logs(lambda log: len(log.segments)), LOG)


def _tags(partition: Partition) -> dict[str, str]:
    return {"topic": partition.key.topic, "partition": str(partition.key.partition)}


def _is_under_replicated(partition: Partition) -> bool:
    return len(partition.isr_state.isr) <= len(partition.followers)


def _is_at_min_isr(partition: Partition) -> bool:
    return len(partition.isr_state.isr) == partition.min_insync_replicas


# --- groups -----------------------------------------------------------------------------------------------------------


def tell_groups(metrics: Metrics, coordinator: GroupCoordinator, replicas: ReplicaManager) -> None:
    """The groups that this broker coordinates."""
    kind = "group-coordinator-metrics"

    def shards() -> list[GroupShard]:
        runtime = coordinator.runtime
        return [runtime.active(partition) for partition in runtime.active_partitions()]

    def by_protocol() -> Series:
        found = Counter(group.group_type for shard in shards() for group in shard.groups.values())
        return [({"protocol": protocol}, found[protocol]) for protocol in ("classic", "consumer")]

    def by_state() -> Series:
        groups = (group for shard in shards() for group in shard.groups.values())
        found = Counter(group.state_name for group in groups if not isinstance(group, ClassicGroup))
        return [({"state": state.value}, found[state.value]) for state in ConsumerGroupState]

    def partitions() -> Series:
        states = coordinator.runtime.states
        return [({"state": state.value}, states[state]) for state in State]

    def classic_groups(state: ClassicState | None = None) -> int:
        groups = (group for shard in shards() for group in shard.groups.values() if isinstance(group, ClassicGroup))
        return sum(state in (None, group.state) for group in groups)

    manager = "GroupMetadataManager"
    metrics.gauge(manager, "NumOffsets", lambda: sum(shard.offsets.count for shard in shards()), GROUP_COORDINATOR)
    metrics.gauge(manager, "NumGroups", classic_groups, GROUP_COORDINATOR)
    for state in ClassicState:
        metrics.gauge(manager, f"NumGroups{state.value}", partial(classic_groups, state), GROUP_COORDINATOR)
    metrics.series(kind, "num-partitions", partitions)
    metrics.series(kind, "group-count", by_protocol)
    metrics.series(kind, "consumer-group-count", by_state)
    metrics.series("group", "lag", lambda: list(islice(_lags(coordinator, replicas), MOST_SERIES)), OWN)


def tell_transactions(metrics: Metrics, coordinator: TransactionCoordinator) -> None:
    """The transactions that this broker coordinates."""

    def partitions() -> Series:
        states = coordinator.runtime.states
        return [({"state": state.value}, states[state]) for state in State]

    metrics.series("transaction-coordinator", "num-partitions", partitions, OWN)
    metrics.gauge(
        "TransactionMarkerChannelManager",
        "UnknownDestinationQueueSize",
        lambda: coordinator.markers.waiting_for_leaders,
        TRANSACTION_COORDINATOR,
    )


def _lags(coordinator: GroupCoordinator, replicas: ReplicaManager) -> Iterator[tuple[dict[str, str], float]]:
    runtime = coordinator.runtime
    for number in runtime.active_partitions():
        offsets = runtime.active(number).offsets
        for group_id in offsets.groups():
            for place, committed in offsets.of(group_id).items():
                partition = replicas.partitions.get(place)
                if partition is not None:
                    tags = {"group": group_id, "topic": place.topic, "partition": str(place.partition)}
                    yield tags, max(0, partition.log.high_watermark - committed.offset)
