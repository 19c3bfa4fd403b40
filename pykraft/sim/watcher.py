"""Looks at a simulated cluster after every event, and holds what it sees against the laws.

Only what an event may have changed is looked at: the node that it happened on. What was checked once is not checked
again; a node that starts anew is read from the beginning, because its disk may have lost or kept anything.

Besides, the watcher counts what a run has brought about (elections, truncations, ISR changes, acknowledged records): a
run in which nothing happens proves nothing.
"""

from dataclasses import dataclass, field

from pykraft.common.trace import TraceEvent
from pykraft.common.types import METADATA_TOPIC, TopicPartition
from pykraft.metadata.image import MetadataImage
from pykraft.server.node import Node
from pykraft.server.partition import Partition
from pykraft.sim.hosts import SimulatedNode
from pykraft.sim.invariants import (
    CommittedLog,
    Election,
    PartitionHistory,
    ReplicaLog,
    check_high_watermark,
    check_image,
    check_isr,
)


@dataclass
class Progress:
    """What a run has brought about."""

    elections: int = 0
    truncations: int = 0
    isr_changes: int = 0
    acknowledged: int = 0
    consumed: int = 0
    crashes: int = 0
    events: int = 0

    def __add__(self, other: "Progress") -> "Progress":
        return Progress(
            *(mine + theirs for mine, theirs in zip(vars(self).values(), vars(other).values(), strict=True))
        )


@dataclass
class _Seen:
    """What is known of one life of one node."""

    life: int
    metadata: ReplicaLog
    partitions: dict[TopicPartition, ReplicaLog] = field(default_factory=dict)
    image: MetadataImage | None = None


class Watcher:
    """Checks the laws as a run goes on."""

    def __init__(self, nodes: dict[int, SimulatedNode]) -> None:
        self._nodes = nodes
        self._seen: dict[int, _Seen] = {}
        self.progress = Progress()
        self.metadata = CommittedLog(METADATA_TOPIC)
        self.partitions: dict[TopicPartition, PartitionHistory] = {}
        self._election = Election()
        self.lossy: set[int] = set()
        """Nodes that have lost power, and are not in sync again."""

    def history(self, topic_partition: TopicPartition) -> PartitionHistory:
        if topic_partition not in self.partitions:
            self.partitions[topic_partition] = PartitionHistory(topic_partition)
        return self.partitions[topic_partition]

    # --- events that a node reports -----------------------------------------------------------------------------------

    def on_trace(self, event: TraceEvent) -> None:
        """Something happened in the middle of a step that is over, or undone, at its end."""
        machine = self._nodes[event.node]
        if machine.node is None:
            return
        seen = self._known(machine)
        fields = event.fields
        match event.name:
            case "role":
                leads = fields["role"] == "leader"
                self._election.observe(event.node, fields["epoch"], leads)
                if leads:
                    self.progress.elections += 1
                    self._follow_metadata(machine.node, seen)
                    self.metadata.check_leader(seen.metadata, fields["epoch"])
            case "metadata_truncate":
                self.progress.truncations += fields["end"] < fields["before"]
                seen.metadata.cut(fields["end"])
            case "truncate":
                self.progress.truncations += fields["end"] < fields["before"]
                replica = seen.partitions.get(_parse(fields["partition"]))
                if replica is not None:
                    replica.cut(fields["end"])
            case "isr":
                self.progress.isr_changes += 1
                check_isr(event.node, fields, self._ends(_parse(fields["partition"])))
            case "leadership":
                if fields["leader"] == event.node:
                    self._on_leadership(machine.node, seen, _parse(fields["partition"]), fields["epoch"])

    def _on_leadership(self, node: Node, seen: _Seen, topic_partition: TopicPartition, epoch: int) -> None:
        assert node.broker is not None
        partition = node.broker.replicas.partitions.get(topic_partition)
        if partition is not None:
            replica = self._follow(node, seen, topic_partition, partition)
            self.history(topic_partition).log.check_leader(replica, epoch)

    # --- after each event ---------------------------------------------------------------------------------------------

    def look(self, machine: SimulatedNode) -> None:
        """Look at one node."""
        node = machine.node
        if node is None:
            return
        seen = self._known(machine)
        self._follow_metadata(node, seen)
        log = node.raft.replica.log
        self.metadata.commit(seen.metadata, log.high_watermark, node.raft.replica.epoch)
        if node.loader.image is not seen.image:
            seen.image = node.loader.image
            check_image(machine.node_id, seen.image)
        if node.broker is not None:
            for topic_partition, partition in sorted(node.broker.replicas.partitions.items()):
                replica = self._follow(node, seen, topic_partition, partition)
                history = self.history(topic_partition)
                if partition.log.high_watermark > (replica.ends[replica.agreed - 1] if replica.agreed else 0):
                    history.commit(replica, partition.log.high_watermark, partition.leader_epoch)
                    if partition.is_leader:
                        check_high_watermark(machine.node_id, partition, self._ends(topic_partition))

    def _known(self, machine: SimulatedNode) -> _Seen:
        seen = self._seen.get(machine.node_id)
        if seen is None or seen.life != machine.life:
            seen = _Seen(machine.life, ReplicaLog(f"{METADATA_TOPIC} of node {machine.node_id}"))
            self._seen[machine.node_id] = seen
        return seen

    def _follow_metadata(self, node: Node, seen: _Seen) -> None:
        self.metadata.check_matching(seen.metadata, seen.metadata.follow(node.raft.replica.log.unified))

    def _follow(self, node: Node, seen: _Seen, topic_partition: TopicPartition, partition: Partition) -> ReplicaLog:
        replica = seen.partitions.get(topic_partition)
        if replica is None:
            replica = seen.partitions[topic_partition] = ReplicaLog(f"{topic_partition} of node {node.config.node_id}")
        if partition.log.log_end_offset != replica.end:
            self.history(topic_partition).log.check_matching(replica, replica.follow(partition.log))
        return replica

    def _ends(self, topic_partition: TopicPartition) -> dict[int, int]:
        ends = {}
        for node_id, machine in self._nodes.items():
            if machine.node is not None and machine.node.broker is not None and node_id not in self.lossy:
                partition = machine.node.broker.replicas.partitions.get(topic_partition)
                if partition is not None:
                    ends[node_id] = partition.log.log_end_offset
        return ends


def _parse(text: str) -> TopicPartition:
    topic, _, partition = text.rpartition("-")
    return TopicPartition(topic, int(partition))
