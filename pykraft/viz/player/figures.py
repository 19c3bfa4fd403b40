"""What a player says above its picture, where a scene tells of something else than of acknowledged records."""

from collections.abc import Sequence

from pykraft.cluster_view import ClusterView
from pykraft.common.types import TopicPartition
from pykraft.sim.coordination import Doing
from pykraft.story.scenes import GROUP, QUORUM, SEGMENTS, TRANSACTIONS, VOTERS, Scene
from pykraft.viz.player.lanes import leads_quorum


def figures_at(
    view: ClusterView, scene: Scene, doings: Sequence[Doing], committed: dict[TopicPartition, int]
) -> list[str] | None:
    """How it is, and what is wrong with it; None where a scene tells of losses."""
    if scene.tells == GROUP:
        return list(_of_group(view, scene, doings, committed))
    if scene.tells == TRANSACTIONS:
        return list(_of_transactions(view, scene))
    if scene.tells == SEGMENTS:
        return list(_of_segments(view, scene))
    if scene.tells == VOTERS:
        return list(_of_voters(view))
    return list(_of_quorum(view)) if scene.tells == QUORUM else None


def _of_group(
    view: ClusterView, scene: Scene, doings: Sequence[Doing], committed: dict[TopicPartition, int]
) -> tuple[str, str]:
    members = [doing for doing in doings if isinstance(doing.host, str)]
    partitions = [key for key in view.topic_partitions if key.topic == scene.topic]
    owned = sum(len(doing.what.removeprefix("reads ").split(", ")) for doing in members if doing.what[:5] == "reads")
    lag = sum(max(0, view.high_watermark(*key) - committed.get(key, 0)) for key in partitions)
    idle = len(partitions) - owned
    said = f"{len(members)} members · {lag} records not committed by the group"
    return said, f"{idle} partition{'s have' if idle > 1 else ' has'} no reader" if idle > 0 else ""


def _of_transactions(view: ClusterView, scene: Scene) -> tuple[str, str]:
    leader = view.leader(*scene.topic_partition)
    replica = None if leader is None else view.nodes[leader].partition(*scene.topic_partition)
    if replica is None:
        return "no leader", ""
    end = max(0, replica.high_watermark)
    stable = replica.last_stable_offset if 0 <= replica.last_stable_offset < end else end
    waiting = end - stable
    said = f"last stable offset {stable} · high watermark {end}"
    return said, f"{waiting} record{'s wait' if waiting > 1 else ' waits'} for a marker" if waiting else ""


def _of_quorum(view: ClusterView) -> tuple[str, str]:
    epoch = max((node.quorum.epoch for node in view.alive), default=0)
    leaders = [node for node in view.alive if node.quorum.role == "leader" and node.quorum.epoch == epoch]
    if not leaders:
        votes = ", ".join(f"{voter} for {chosen}" for voter, chosen in sorted(view.votes.items()))
        return f"epoch {epoch} · votes: {votes or 'none'}", "no node leads"
    leader = leaders[0]
    return f"epoch {epoch} · node {leader.node_id} leads · {leader.quorum.high_watermark} records are committed", ""


def _of_segments(view: ClusterView, scene: Scene) -> tuple[str, str]:
    leader = view.leader(*scene.topic_partition)
    replica = None if leader is None else view.nodes[leader].partition(*scene.topic_partition)
    if replica is None or not replica.segments:
        return "no leader", ""
    size = sum(each.size_bytes for each in replica.segments)
    count = len(replica.segments)
    of = f"{count} segment{'s' * (count != 1)}, {size:,} bytes"
    return f"node {leader}: {of} · offsets {replica.log_start_offset} to {replica.log_end_offset}", ""


def _of_voters(view: ClusterView) -> tuple[str, str]:
    """The newest voters that a node goes by, and which other controllers go by others."""
    controllers = [node for node in view.alive if "controller" in node.roles]
    newest = max(controllers, key=lambda node: (node.quorum.epoch, node.quorum.log_end_offset), default=None)
    if newest is None:
        return "no voters", ""
    voters = newest.quorum.voters
    leader = next((node for node in controllers if leads_quorum(node)), None)
    leads = "no node leads" if leader is None else f"node {leader.node_id} leads"
    behind = [str(node.node_id) for node in controllers if node.quorum.voters != voters]
    said = f"voters {', '.join(map(str, voters))} · {leads}, epoch {newest.quorum.epoch}"
    return said, f"{', '.join(behind)} do{'es' * (len(behind) == 1)} not know it yet" if behind else ""
