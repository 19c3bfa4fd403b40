"""A simulated cluster as a `ClusterView`: the same view, by the same code, as of a cluster on real sockets and disks.

The nodes describe themselves (`broker.describe`). The simulator adds what only it can know: which links are cut, and
every message on its way, decoded.
"""

from pykraft.broker.describe import NodeView
from pykraft.cluster_view import ClusterView, MessageInFlight
from pykraft.common.types import Uuid
from pykraft.protocol.schema import Request
from pykraft.sim.cluster import SimulatedCluster
from pykraft.sim.world.frames import UNKNOWN_TOPIC, Frame, read_frame
from pykraft.sim.world.network import InFlight
from pykraft.sim.world.scheduler import US_PER_MS

_NODE = "node-"
_NEVER = float("inf")
_MOST_SUMMARIES = 5_000


def cluster_view(cluster: SimulatedCluster) -> ClusterView:
    """The cluster as it is now."""
    nodes = {node_id: cluster.describe(node_id) for node_id in cluster.nodes}
    return as_view(cluster, nodes, Messages().look(cluster))


def as_view(
    cluster: SimulatedCluster, nodes: dict[int, NodeView], messages: tuple[MessageInFlight, ...]
) -> ClusterView:
    """A view of these parts."""
    return ClusterView(cluster.cluster_id, cluster.scheduler.now, nodes, cut_links(cluster), messages)


def cut_links(cluster: SimulatedCluster) -> frozenset[tuple[int | str, int | str]]:
    return frozenset((host(source), host(target)) for source, target in cluster.network.cut_links)


def host(name: str) -> int | str:
    """A host as a view names it: a node by its id."""
    number = name.removeprefix(_NODE)
    return int(number) if number != name and number.isdigit() else name


class Messages:
    """Decodes each message once, when it is first seen on its way."""

    def __init__(self) -> None:
        self.frames: dict[int, Frame] = {}
        """What was seen, by the pieces' numbers."""
        self._known: dict[int, MessageInFlight] = {}
        self._summaries: dict[tuple[type[Request], bool, int, bytes], str] = {}

    def copy(self, in_flight: tuple[MessageInFlight, ...], newest: int) -> "Messages":
        """For a history that has all of this one up to a moment at which these messages are on their way. `newest` is
        the number of the last that was sent by then: from there on equal numbers are other messages."""
        copy = Messages()
        copy.frames = {number: frame for number, frame in self.frames.items() if number <= newest}
        copy._known = {message.id: message for message in in_flight}
        return copy

    def message(self, number: int) -> MessageInFlight | None:
        """The message that a piece carries, if it has been seen."""
        return self._known.get(number)

    def look(self, cluster: SimulatedCluster) -> tuple[MessageInFlight, ...]:
        """The messages on their way, in the order in which they were sent."""
        found = (self._message(cluster, flight) for flight in cluster.network.in_flight() if flight.piece.data)
        return tuple(message for message in found if message is not None)

    def _message(self, cluster: SimulatedCluster, flight: InFlight) -> MessageInFlight | None:
        due_ms = _NEVER if flight.due_us is None else flight.due_us / US_PER_MS
        known = self._known.get(flight.piece.number)
        if known is not None and known.due_ms == due_ms:
            return known
        if known is None:
            frame = read_frame(flight)
            if frame is None:
                return None
            self.frames[frame.number] = frame
        else:
            frame = self.frames[known.id]
        message = MessageInFlight(
            id=frame.number,
            sender=host(frame.sender),
            receiver=host(frame.receiver),
            name=frame.name,
            is_response=frame.is_response,
            summary=known.summary if known is not None else self._summary(cluster, frame),
            sent_ms=frame.sent_us / US_PER_MS,
            due_ms=due_ms,
        )
        self._known[message.id] = message
        return message

    def _summary(self, cluster: SimulatedCluster, frame: Frame) -> str:
        """Half of all messages say what an earlier one said, but for its correlation id."""
        key = frame.kind, frame.is_response, frame.version, bytes(frame.after_correlation_id)
        if key not in self._summaries:
            if len(self._summaries) == _MOST_SUMMARIES:
                self._summaries.clear()
            self._summaries[key] = frame.summary(lambda topic: _topic_name(cluster, topic))
            if UNKNOWN_TOPIC in self._summaries[key]:
                return self._summaries.pop(key)
        return self._summaries[key]


def _topic_name(cluster: SimulatedCluster, topic_id: Uuid) -> str | None:
    """The name by which a node knows the topic."""
    for machine in cluster.nodes.values():
        if machine.node is not None and (topic := machine.node.loader.image.topics.get(topic_id)) is not None:
            return topic.name
    return None
