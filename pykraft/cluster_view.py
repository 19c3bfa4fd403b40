"""What a whole cluster looks like at one moment: the views of its nodes side by side, and what follows from them.

The nodes are asked one after the other, and each tells what it knows. So a view may hold two leaders of one partition:
one that leads, and one that has not heard yet that it does not. The higher epoch is right.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from pykraft.admin import Admin
from pykraft.broker.describe import NodeView, PartitionView, QuorumView
from pykraft.broker.startup.lifecycle import LifecycleState
from pykraft.client.administration.admin import QuorumDescription, TopicDescription
from pykraft.common.errors import KafkaError
from pykraft.common.types import TopicPartition
from pykraft.protocol.messages.data import LATEST_TIMESTAMP

_NO_LEADER = -1


@dataclass(frozen=True)
class MessageInFlight:
    """A request or response between two hosts: node ids are numbers, clients have names. Times count as the view's."""

    id: int
    sender: int | str
    receiver: int | str
    name: str
    is_response: bool
    summary: str
    """A few words, such as "t-0, epoch 3, from offset 17"."""
    sent_ms: float
    due_ms: float
    """Infinite, if a cut link holds it back."""

    def __str__(self) -> str:
        what = "response" if self.is_response else "request"
        about = f": {self.summary}" if self.summary else ""
        return f"{self.name} {what} from {_host(self.sender)} to {_host(self.receiver)}{about}"


def _host(name: int | str) -> str:
    return f"node {name}" if isinstance(name, int) else name


@dataclass(frozen=True)
class ClusterView:
    """The nodes by their ids; a node that does not run is there as it was last seen. `time_ms` counts from the start of
    the cluster."""

    cluster_id: str
    time_ms: int
    nodes: Mapping[int, NodeView]
    cut_links: frozenset[tuple[int | str, int | str]] = frozenset()
    """From whom to whom nothing gets through."""
    messages: tuple[MessageInFlight, ...] = ()
    """What is on its way, in the order in which it was sent; empty where that is not known."""

    @property
    def alive(self) -> list[NodeView]:
        return [node for node in self.nodes.values() if node.is_alive]

    @property
    def active_controller(self) -> int | None:
        """The node that leads the metadata quorum, as those in the highest epoch know it."""
        if not self.alive:
            return None
        newest = max(node.quorum.epoch for node in self.alive)
        known = [node.quorum.leader_id for node in self.alive if node.quorum.epoch == newest]
        leaders = [leader for leader in known if leader in self.nodes and self.nodes[leader].is_alive]
        return leaders[0] if leaders else None

    @property
    def ready_brokers(self) -> set[int]:
        """The brokers that run, are unfenced, and lead or follow what they should."""
        return {node.node_id for node in self.alive if node.broker_state == LifecycleState.RUNNING.value}

    @property
    def fenced_brokers(self) -> frozenset[int]:
        """The brokers that are fenced: as the node knows it that has read most of the metadata log."""
        newest = max(self.alive, key=lambda node: node.metadata_offset, default=None)
        return frozenset() if newest is None else newest.fenced_brokers

    @property
    def votes(self) -> dict[int, int]:
        """For whom each node voted in the highest quorum epoch that is known, as far as it is known."""
        newest = max((node.quorum.epoch for node in self.alive), default=-1)
        given: dict[int, int] = {}
        for node in self.nodes.values():
            quorum = node.quorum
            if quorum.epoch == newest:
                given |= dict.fromkeys(sorted(quorum.granted), node.node_id)
                if quorum.voted_for is not None:
                    given[node.node_id] = quorum.voted_for
        return given

    def is_cut(self, one: int | str, other: int | str) -> bool:
        """Whether nothing gets through between the two, in one direction at least."""
        return not self.cut_links.isdisjoint({(one, other), (other, one)})

    @property
    def topic_partitions(self) -> list[TopicPartition]:
        """All partitions of which a live node holds a replica."""
        return sorted({view.topic_partition for node in self.alive for view in node.partitions})

    def replicas(self, topic: str, partition: int) -> dict[int, PartitionView]:
        """The replicas of a partition, by the node that holds them."""
        found = {node.node_id: node.partition(topic, partition) for node in self.nodes.values()}
        return {node_id: view for node_id, view in found.items() if view is not None}

    def _newest(self, topic: str, partition: int) -> PartitionView | None:
        """What is known of the partition by those alive that know the highest leader epoch; the leader's own words
        first."""
        views = [
            (view.leader_epoch, view.leader_id == node_id, view)
            for node_id, view in self.replicas(topic, partition).items()
            if self.nodes[node_id].is_alive
        ]
        return max(views, key=lambda entry: entry[:2])[2] if views else None

    def leader(self, topic: str, partition: int) -> int | None:
        """The node that leads the partition; None if there is none, or no live node knows one."""
        newest = self._newest(topic, partition)
        return None if newest is None or newest.leader_id == _NO_LEADER else newest.leader_id

    def isr(self, topic: str, partition: int) -> set[int]:
        """The in-sync replicas of the partition."""
        newest = self._newest(topic, partition)
        return set() if newest is None else set(newest.isr)

    def high_watermark(self, topic: str, partition: int) -> int:
        """The leader's high watermark; -1 if there is no leader."""
        leader = self.leader(topic, partition)
        view = self.replicas(topic, partition).get(leader) if leader is not None else None
        return -1 if view is None else view.high_watermark

    def truncation_offset(self, topic: str, partition: int, node_id: int) -> int | None:
        """The offset from which this replica's log is not the leader's: there it is going to be truncated, or, if its
        node is dead, would be. None if all of its log that is known is the leader's, or that is not known.

        A record is the leader's if the leader's log has the same leader epoch at its offset (log matching)."""
        replicas = self.replicas(topic, partition)
        leader, replica = self.leader(topic, partition), replicas.get(node_id)
        if replica is None or leader is None or leader == node_id or leader not in replicas:
            return None
        led = replicas[leader]
        if not (led.epochs and replica.epochs) or led.log_end_offset < 0:
            return None
        boundaries = {entry.start_offset for entry in (*led.epochs, *replica.epochs)} | {led.log_end_offset}
        known_from = max(led.epochs[0].start_offset, led.log_start_offset, replica.log_start_offset)
        for offset in sorted(boundaries):
            if known_from <= offset < replica.log_end_offset and replica.epoch_at(offset) != led.epoch_at(offset):
                # A follower in the leader's own epoch may have heard more from it than an older look at the leader.
                return None if replica.epoch_at(offset) == led.leader_epoch else offset
        return None

    def __str__(self) -> str:
        lines = [f"cluster {self.cluster_id} after {self.time_ms / 1000:.1f} s"]
        for node in self.nodes.values():
            lines.append(f"  {_headline(node)}")
            lines += [f"    {_line(node.node_id, view)}" for view in node.partitions]
        return "\n".join(lines)


def _headline(node: NodeView) -> str:
    quorum = node.quorum
    state = "is dead" if not node.is_alive else node.broker_state or "running"
    active = ", the active controller" if node.is_active_controller else ""
    return (
        f"node {node.node_id} ({' and '.join(node.roles)}{active}) {state}; quorum: {quorum.role} in epoch "
        f"{quorum.epoch}, log end {quorum.log_end_offset}, high watermark {quorum.high_watermark}"
    )


def _line(node_id: int, view: PartitionView) -> str:
    role = "leads  " if view.leader_id == node_id else "follows"
    sync = "in sync" if node_id in view.isr else "OUT OF SYNC"
    return (
        f"{view.topic_partition!s:<14} {role} in epoch {view.leader_epoch}, {sync}, log end {view.log_end_offset}, "
        f"high watermark {view.high_watermark}, ISR {','.join(map(str, view.isr))}"
    )


# --- nodes in other processes -----------------------------------------------------------------------------------------


def view_over_the_wire(
    admin: Admin, alive: Sequence[int], ready: Collection[int], controller_ids: Sequence[int]
) -> dict[int, NodeView]:
    """The views of nodes that can only be asked as any client asks them: leaders, in-sync replicas, the leaders' log
    end offsets. What no client can ask (a follower's own offsets) is -1. Empty if no node answers.

    `ready` are the brokers that say so themselves: of one that was killed and started again, the others may not know
    yet that it was away."""
    try:
        unfenced = {broker.id for broker in admin.describe_cluster().brokers}
        quorum = admin.describe_quorum()
        topics = admin.describe_topics()
        ends = _ends(admin, topics)
    except KafkaError:
        return {}
    observers = {observer.replica_id for observer in quorum.observers}
    return {
        node_id: NodeView(
            node_id=node_id,
            is_alive=True,
            roles=_roles(node_id in unfenced | observers, node_id in controller_ids),
            broker_state=LifecycleState.RUNNING.value if node_id in unfenced and node_id in ready else None,
            quorum=_quorum_view(quorum, node_id),
            partitions=tuple(_partition_views(topics, ends, node_id)),
        )
        for node_id in alive
    }


def _roles(is_broker: bool, is_controller: bool) -> tuple[str, ...]:
    return ("broker",) * is_broker + ("controller",) * is_controller


def _ends(admin: Admin, topics: Mapping[str, TopicDescription]) -> dict[TopicPartition, int]:
    led = {
        TopicPartition(topic.name, partition.partition): LATEST_TIMESTAMP
        for topic in topics.values()
        for partition in topic.partitions
        if partition.leader != _NO_LEADER
    }
    return {key: found.offset for key, found in admin.list_offsets(led).items()} if led else {}


def _quorum_view(quorum: QuorumDescription, node_id: int) -> QuorumView:
    states = {state.replica_id: state for state in (*quorum.voters, *quorum.observers)}
    voters = tuple(voter.replica_id for voter in quorum.voters)
    role = "leader" if node_id == quorum.leader_id else "follower" if node_id in voters else "observer"
    end = states[node_id].log_end_offset if node_id in states else -1
    return QuorumView(role, quorum.leader_epoch, quorum.leader_id, voters, end, quorum.high_watermark)


def _partition_views(
    topics: Mapping[str, TopicDescription], ends: Mapping[TopicPartition, int], node_id: int
) -> list[PartitionView]:
    found = []
    for topic in sorted(topics.values()):
        for partition in topic.partitions:
            if node_id in partition.replicas:
                key = TopicPartition(topic.name, partition.partition)
                end = ends.get(key, -1) if partition.leader == node_id else -1
                found.append(
                    PartitionView(
                        key, partition.leader, partition.leader_epoch, partition.replicas, partition.isr, -1, end, end
                    )
                )
    return found
