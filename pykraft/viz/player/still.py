"""What a player is without a page, or without a reader in front of it: boards, one for each moment of its scene."""

from dataclasses import replace
from typing import Any

from pykraft.broker.describe import NodeView, PartitionView
from pykraft.cluster_view import ClusterView
from pykraft.common.types import METADATA_TOPIC, TopicPartition
from pykraft.story.scenes import METADATA, Scene
from pykraft.story.story import Story
from pykraft.viz.boards.cluster_board import board
from pykraft.viz.drawing.figure import Figure
from pykraft.viz.drawing.film_strip import Frame, strip
from pykraft.viz.player.acts import Rehearsal
from pykraft.viz.player.still_lanes import lanes_at_moments
from pykraft.viz.player.words import in_words, outcome_in_words


def picture(story: Story, step: int | None = None, **options: Any) -> Figure:
    """The board at a step of a story; `options` are those of `board`."""
    step = story.step if step is None else step
    what = story.what_at(step)
    of = f"{story.last_step:,}{'' if story.is_over else ' so far'}"
    when = f"seed {story.seed}, {story.name} · step {step:,} of {of} · {story.view_at(step).time_ms:,} ms"
    facts = [f"A law is broken: {story.failure}"] if story.failure and step == story.last_step else []
    given = {"title": f"{what[:1].upper()}{what[1:]}", "when": when, "facts": facts, **options}
    view = story.view_at(step)
    return board(with_metadata_logs(view) if METADATA_TOPIC in given.get("topics", ()) else view, **given)


def with_metadata_logs(view: ClusterView) -> ClusterView:
    """The view with each node's metadata log as if it were the replica of a partition. It has no in-sync replicas."""
    return replace(view, nodes={node_id: _with_log(node, view) for node_id, node in view.nodes.items()})


def _with_log(node: NodeView, view: ClusterView) -> NodeView:
    quorum, everyone = node.quorum, tuple(view.nodes)
    log = PartitionView(
        topic_partition=TopicPartition(METADATA_TOPIC, 0),
        leader_id=quorum.leader_id,
        leader_epoch=max(0, quorum.epoch),
        replicas=everyone,
        isr=everyone,
        log_start_offset=0,
        log_end_offset=quorum.log_end_offset,
        high_watermark=quorum.high_watermark,
        epochs=quorum.epochs,
    )
    return node._replace(partitions=(*node.partitions, log))


def _topic(scene: Scene) -> str:
    """Whose lanes a board has."""
    return METADATA_TOPIC if scene.lanes == METADATA else scene.topic


def still(rehearsal: Rehearsal) -> Figure:
    """The moments of a scene, one after the other. A scene without moments has one: before most is truncated, or the
    end. With the same facts as text."""
    data, story = rehearsal.data(), rehearsal.story
    outcome = outcome_in_words(data["film"])
    title = f"{data['title']}: in the end {outcome}" if rehearsal.scene.shows_all else data["title"]
    steps = rehearsal.moments()
    if data["film"]["segments"]:
        drawn = lanes_at_moments(title, data["film"], data["moments"])
    elif steps:
        drawn = strip(title, list(_frames(rehearsal, steps)))
    else:
        drawn = _board(rehearsal, _worst(rehearsal, data["film"]), title=title)
    text = in_words(data)
    if story.failure:
        text = f"{text}\nA law is broken: {story.failure}"
    return Figure(title, drawn.svg, text, drawn.boxes)


def _frames(rehearsal: Rehearsal, steps: list[int]) -> list[Frame]:
    frames: list[Frame] = []
    explained: set[str] = set()
    story, topics = rehearsal.story, [_topic(rehearsal.scene)]
    for step in steps:
        signs = board.signs(with_metadata_logs(story.view_at(step)), topics=topics)
        caption = f"{story.time_at(step):,.0f} ms: {rehearsal.said_at(step)}"
        frames.append(Frame(caption, _board(rehearsal, step, legend=not signs <= explained)))
        explained |= signs
    return frames


def _board(rehearsal: Rehearsal, step: int, **options: Any) -> Figure:
    return picture(rehearsal.story, step, topics=[_topic(rehearsal.scene)], max_messages=0, **options)


def _worst(rehearsal: Rehearsal, film: dict[str, Any]) -> int:
    scar = max(film["scars"], key=lambda scar: scar[4], default=None)
    return rehearsal.story.step_at(film["to"]) if scar is None else rehearsal.story.step_at(scar[3]) - 1
