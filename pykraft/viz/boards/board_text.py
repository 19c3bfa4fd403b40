"""A board in words: the sentence below it, the description that is read aloud, and the text that has every fact."""

from collections.abc import Sequence

from pykraft.broker.describe import NodeView
from pykraft.cluster_view import ClusterView
from pykraft.common.types import METADATA_TOPIC
from pykraft.viz.boards.board_facts import BoardFacts, Piece, Replica, count_of, listed


def moment(view: ClusterView) -> str:
    """When the view was taken."""
    epoch = max((node.quorum.epoch for node in view.alive), default=None)
    ends = [node.quorum.high_watermark for node in view.alive]
    parts = [f"{view.time_ms / 1000:,.1f} s after the start"]
    if epoch is not None:
        parts += [f"Raft epoch {epoch}", f"metadata offset {max(ends):,}"]
    return " · ".join(parts)


def summary(facts: BoardFacts) -> str:
    """The sentence below, if the caller has none."""
    view = facts.view
    leader = view.active_controller
    parts = [f"Node {leader} is the active controller" if leader is not None else "No node is active controller"]
    dead = [node.node_id for node in view.nodes.values() if not node.is_alive]
    if dead:
        parts.append(f"{_names(dead)} dead")
    partitions = [key for key in facts.topic_partitions if key.topic != METADATA_TOPIC]
    isrs = {frozenset(view.isr(key.topic, key.partition)) for key in partitions}
    if len(isrs) == 1:
        parts.append(f"in-sync replicas of every partition: {listed(next(iter(isrs)))}")
    leaderless = [str(key) for key in partitions if view.leader(key.topic, key.partition) is None]
    if leaderless:
        parts.append(f"without leader: {', '.join(leaderless[:3])}{' …' if len(leaderless) > 3 else ''}")
    return "; ".join(parts) + "."


def _names(ids: Sequence[int]) -> str:
    return f"node {ids[0]} is" if len(ids) == 1 else f"nodes {listed(ids)} are"


def description(facts: BoardFacts, note: str) -> str:
    """For a reader who hears the picture: each node in a sentence, and what the note says."""
    parts = [f"{count_of(len(facts.view.nodes), 'node').capitalize()}."]
    for node in facts.view.nodes.values():
        led = [
            str(key)
            for key in facts.topic_partitions
            if node.is_alive and facts.view.leader(key.topic, key.partition) == node.node_id
        ]
        words = [facts.pill(node)[2:], *(["fenced"] if facts.is_fenced(node) else [])]
        words += [cut[2:]] if (cut := facts.cut_off(node)) else []
        words += [f"leads {', '.join(led)}"] if led else []
        words += [
            f"{replica.loss} of {key}"
            for key in facts.topic_partitions
            if (replica := facts.replica(node, key)) is not None and replica.loss
        ]
        parts.append(f"Node {node.node_id}: {', '.join(words)}.")
    if facts.view.messages:
        parts.append(f"{count_of(len(facts.view.messages), 'message').capitalize()} on the way.")
    return " ".join([*parts, note])


def text(facts: BoardFacts, title: str, when: str, note: str, corner: Sequence[str]) -> str:
    """Every fact of the view, those that are not drawn, too."""
    lines = [f"{title}, {when}", *corner]
    for node in facts.view.nodes.values():
        lines.append("; ".join([_node_line(facts, node), *facts.metrics(node)]))
        for key in facts.topic_partitions:
            replica = facts.replica(node, key)
            if replica is not None:
                lines += [f"  {key}: {_replica_line(replica)}", *(f"    {line}" for line in _tail_lines(replica))]
    for one, other in sorted(facts.view.cut_links, key=str):
        lines.append(f"cut: nothing gets from {_host(one)} to {_host(other)}")
    for message in facts.view.messages:
        due = "held back" if message.due_ms == float("inf") else f"due at {message.due_ms:,.1f} ms"
        lines.append(f"on its way: {message}, {due}")
    if facts.hidden:
        lines.append(f"not listed: {count_of(facts.hidden, 'partition')} of other topics")
    return "\n".join([*lines, note])


def _host(name: int | str) -> str:
    return f"node {name}" if isinstance(name, int) else name


def _node_line(facts: BoardFacts, node: NodeView) -> str:
    quorum = node.quorum
    was = "" if node.is_alive else "last seen "
    broker = "" if node.broker_state is None else f", broker {was}{node.broker_state}"
    fenced = ", fenced" if facts.is_fenced(node) else ""
    vote = f", {given}" if (given := facts.vote(node)) else ""
    return (
        f"node {node.node_id} ({' and '.join(node.roles)}): {facts.pill(node)}{broker}{fenced}; quorum epoch "
        f"{quorum.epoch}, leader {quorum.leader_id}, metadata end {quorum.log_end_offset:,}, "
        f"high watermark {quorum.high_watermark:,}{vote}"
    )


def _replica_line(replica: Replica) -> str:
    sync = "in sync" if replica.is_in_sync else "not in sync"
    stable = f"{replica.last_stable}, " if replica.last_stable else ""
    return (
        f"{replica.role}, leader {replica.view.leader_id}, {sync}, {replica.end}, "
        f"{replica.high_watermark}, {stable}start {replica.view.log_start_offset}, "
        f"replicas {listed(replica.view.replicas)}, ISR {listed(replica.view.isr)}"
    )


def _tail_lines(replica: Replica) -> list[str]:
    lines = []
    if replica.epochs:
        starts = ", ".join(f"epoch {entry.epoch} from {entry.start_offset:,}" for entry in replica.epochs)
        lines.append(f"its log: {starts}")
    if replica.view.tail:
        first, end = replica.view.tail[0].base_offset, replica.view.tail[-1].end_offset
        lines.append("last records: " + "; ".join(_piece(piece) for piece in replica.pieces(first, end)))
    if replica.loss:
        lines.append(f"not in the leader's log: {replica.loss}")
    return lines


def _piece(piece: Piece) -> str:
    offsets = f"{piece.start:,}" if piece.end == piece.start + 1 else f"{piece.start:,} to {piece.end - 1:,}"
    kind = {"open": "of an open transaction", "committed": "of a committed transaction"}.get(piece.kind, piece.kind)
    kind = {"aborted": "of an aborted transaction"}.get(kind, kind)
    state = "about to be truncated" if piece.is_torn else "committed" if piece.is_committed else "not committed"
    return f"{offsets} {state}" if piece.kind == "data" else f"{offsets} {kind}, {state}"
