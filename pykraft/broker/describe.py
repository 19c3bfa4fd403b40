"""What a node knows of itself and of the cluster, as plain values: for a board, a test, a table.

A view is a copy: it does not change when the node goes on. Each node tells what it has heard; nodes that were cut off,
or are behind in the metadata log, tell of an older world, and that is what a view is there to show.

The last records of each replica come with it as cells (`storage.log_tail`). That reads the end of the log's file, a
little for each replica, on the node's own thread; with `tail_records=0` nothing is read.
"""

from collections.abc import Callable
from typing import NamedTuple

from pykraft.broker.node import Node
from pykraft.broker.settings.config import NodeConfig
from pykraft.common.metrics import CONTROLLER, NETWORK, OWN
from pykraft.common.types import TopicPartition
from pykraft.raft.quorum_state import Candidate, Leader
from pykraft.storage.log import UnifiedLog
from pykraft.storage.log_tail import CellKind, Cells, tail

__all__ = [
    "CellKind",
    "Cells",
    "EpochStart",
    "NodeFigures",
    "NodeView",
    "PartitionView",
    "QuorumView",
    "SegmentView",
    "describe",
    "never_started",
]

TAIL = 24
"""The records of a replica's tail."""
_MOST_EPOCHS = 32
_MOST_SEGMENTS = 64
TailOf = Callable[[UnifiedLog, int], tuple[Cells, ...]]


class EpochStart(NamedTuple):
    """A leader epoch, and the offset of its first record in this replica's log."""

    epoch: int
    start_offset: int


class SegmentView(NamedTuple):
    """One segment of a replica's log. It ends where the next one begins; the last one is the active segment."""

    base_offset: int
    size_bytes: int
    is_clean: bool
    """The cleaner has compacted it."""


class PartitionView(NamedTuple):
    """One replica, as the broker that holds it sees it. Offsets are -1 where they are not known."""

    topic_partition: TopicPartition
    leader_id: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    log_start_offset: int
    log_end_offset: int
    high_watermark: int
    last_stable_offset: int = -1
    epochs: tuple[EpochStart, ...] = ()
    """The newest leader epochs of its log, oldest first."""
    tail: tuple[Cells, ...] = ()
    """Its last records, one run for each batch, oldest first; empty where that is not known."""
    recovery_point: int = -1
    """Up to here the log is on the disk, not only in the page cache."""
    segments: tuple[SegmentView, ...] = ()
    """The newest segments of its log, oldest first; empty where they are not known."""

    def epoch_at(self, offset: int) -> int | None:
        """The leader epoch of the record at `offset`; None if this replica's log has no such record, or that is not
        known."""
        if not self.log_start_offset <= offset < self.log_end_offset:
            return None
        return next((entry.epoch for entry in reversed(self.epochs) if entry.start_offset <= offset), None)


class QuorumView(NamedTuple):
    """The metadata quorum, as one node sees it. `role` is a role's name in lower case: leader, follower, ..., or
    observer for a node that has no vote."""

    role: str
    epoch: int
    leader_id: int
    voters: tuple[int, ...]
    log_end_offset: int
    high_watermark: int
    voted_for: int | None = None
    """Its own vote in this epoch; None if it has given none, or that is not known."""
    granted: frozenset[int] = frozenset()
    """Of a candidate or leader: the voters that granted it their vote, itself among them."""
    epochs: tuple[EpochStart, ...] = ()
    """The newest epochs of its metadata log, oldest first."""


class NodeFigures(NamedTuple):
    """Some of the node's metrics."""

    requests: int
    """Answered since it has started."""
    waiting: int
    """In its purgatories."""
    under_replicated: int
    """Partitions that it leads, and that have followers out of sync."""
    offline_partitions: int
    """Partitions without a leader, as the active controller knows; 0 on other nodes."""
    isr_shrinks: int
    """Since it has started."""
    group_lag: int
    """Records that the groups coordinated here have still to read, in partitions that are here."""


class NodeView(NamedTuple):
    """One node; the last that was seen of it, if it is not alive."""

    node_id: int
    is_alive: bool
    roles: tuple[str, ...]
    broker_state: str | None
    """Where the broker is in its life; None if the node is no broker."""
    quorum: QuorumView
    partitions: tuple[PartitionView, ...]
    metadata_offset: int = -1
    """The offset after the last metadata record that this node has applied."""
    fenced_brokers: frozenset[int] = frozenset()
    """The brokers that are fenced, as far as this node has read the metadata log."""
    figures: NodeFigures | None = None
    """None where they are not known."""

    @property
    def is_active_controller(self) -> bool:
        return self.is_alive and "controller" in self.roles and self.quorum.leader_id == self.node_id

    def partition(self, topic: str, partition: int) -> PartitionView | None:
        """The replica of this partition on this node, if there is one."""
        wanted = TopicPartition(topic, partition)
        return next((view for view in self.partitions if view.topic_partition == wanted), None)


def describe(node: Node, tail_records: int = TAIL, tail_of: TailOf = tail) -> NodeView:
    """The view of a node; to be called by its owner. With `tail_records=0` no log is read; a `Tails` as `tail_of` reads
    only logs that have changed."""
    image = node.loader.image
    return NodeView(
        node_id=node.config.node_id,
        is_alive=True,
        roles=tuple(sorted(node.config.roles)),
        broker_state=None if node.broker is None else node.broker.lifecycle.state.value,
        quorum=_quorum(node),
        partitions=_partitions(node, tail_records, tail_of),
        metadata_offset=image.provenance.offset + 1,
        fenced_brokers=frozenset(broker.broker_id for broker in image.brokers.values() if broker.fenced),
        figures=_figures(node),
    )


def _figures(node: Node) -> NodeFigures:
    value = node.metrics.value
    is_active = node.controller is not None and node.controller.is_active
    return NodeFigures(
        requests=int(value("RequestMetrics", "RequestsPerSec", NETWORK)),
        waiting=int(value("DelayedOperationPurgatory", "PurgatorySize")),
        under_replicated=int(value("ReplicaManager", "UnderReplicatedPartitions")),
        offline_partitions=int(value("KafkaController", "OfflinePartitionsCount", CONTROLLER)) if is_active else 0,
        isr_shrinks=int(value("ReplicaManager", "IsrShrinksPerSec")),
        group_lag=int(value("group", "lag", OWN)),
    )


def never_started(config: NodeConfig) -> NodeView:
    """The view of a node that has not run yet."""
    quorum = QuorumView("unattached" if config.is_controller else "observer", -1, -1, (), -1, -1)
    return NodeView(config.node_id, False, tuple(sorted(config.roles)), None, quorum, ())


def _quorum(node: Node) -> QuorumView:
    replica = node.raft.replica
    leader = node.raft.leader_and_epoch
    voters = tuple(replica.control_records.voters.ids)
    role = replica.quorum.role.name.value if node.config.node_id in voters else "observer"
    log = replica.log
    known = replica.quorum.role
    return QuorumView(
        role=role,
        epoch=leader.epoch,
        leader_id=leader.leader_id,
        voters=voters,
        log_end_offset=log.end_offset,
        high_watermark=max(0, log.high_watermark),
        voted_for=None if known.voted is None else known.voted.id,
        granted=known.granted if isinstance(known, (Candidate, Leader)) else frozenset(),
        epochs=tuple(EpochStart(*entry) for entry in log.epochs[-_MOST_EPOCHS:]),
    )


def _partitions(node: Node, tail_records: int, tail_of: TailOf) -> tuple[PartitionView, ...]:
    if node.broker is None:
        return ()
    image = node.loader.image
    clean = {key: offset for cleaner in node.broker.logs.cleaners for key, offset in cleaner.first_dirty.items()}
    views = []
    for topic_partition, partition in sorted(node.broker.replicas.partitions.items()):
        topic = image.topics.get(partition.key.topic_id)
        registration = None if topic is None else topic.partitions.get(topic_partition.partition)
        # A leader hears of a new ISR in the controller's answer, a moment before it reads it in the metadata log.
        isr = sorted(partition.isr_state.isr) if partition.is_leader or registration is None else registration.isr
        views.append(
            PartitionView(
                topic_partition,
                partition.leader_id,
                partition.leader_epoch,
                () if registration is None else registration.replicas,
                tuple(sorted(isr)),
                partition.log.log_start_offset,
                partition.log.log_end_offset,
                partition.log.high_watermark,
                partition.log.last_stable_offset,
                tuple(EpochStart(*entry) for entry in partition.log.epochs.entries[-_MOST_EPOCHS:]),
                tail_of(partition.log, tail_records),
                partition.log.recovery_point,
                _segments(partition.log, clean.get(topic_partition, 0)),
            )
        )
    return tuple(views)


def _segments(log: UnifiedLog, first_dirty: int) -> tuple[SegmentView, ...]:
    newest = log.segments[-_MOST_SEGMENTS:]
    return tuple(SegmentView(each.base_offset, each.size, each.base_offset < first_dirty) for each in newest)
