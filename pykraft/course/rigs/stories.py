"""Stories for the notebooks with a player: its scenes, for cells that look at one step or count something.

The settings of a producer whose batches have one record each are here as well.
"""

from functools import cache
from typing import NamedTuple

from pykraft.protocol.messages.data import FetchRequest
from pykraft.story.scenes import scene
from pykraft.story.story import Story
from pykraft.viz.player.acts import Rehearsal

ONE_RECORD_A_BATCH = {
    "batch.size": 1,
    "linger.ms": 0,
    "compression.type": "none",
    "max.in.flight.requests.per.connection": 1,
    "request.timeout.ms": 800,
    "delivery.timeout.ms": 4_000,
    "retry.backoff.ms": 100,
    "metadata.max.age.ms": 1_000,
}


def before_the_failure(name: str) -> Story:
    """The story of a scene, at the last step before something befalls it."""
    of = scene(name)
    story = of.begin(Story).run_until(of.failure_ms)
    story.at(story.step_at(of.failure_ms) - 1)
    return story


@cache
def _rehearsal(name: str) -> Rehearsal:
    return Rehearsal(name)


def acknowledged_records_gone(name: str) -> int:
    """How many records a producer was acknowledged in this scene that are in no leader's log at its end."""
    _, acknowledged, surviving = _rehearsal(name).film()["losses"][-1]
    return int(acknowledged - surviving)


def deleted_at_ms(name: str, base_offset: int = 0) -> dict[int, float]:
    """By node, when it deleted its segment that begins at this offset."""
    gone = _rehearsal(name).film()["gone"]
    return {node: ms for node, base, _, ms, what in gone if base == base_offset and what == "deleted"}


class TakenOver(NamedTuple):
    """Offsets of a partition whose reader crashed."""

    asked: int
    """The last from which the crashed member fetched."""
    committed: int
    """What the group has committed of it when the next reader begins."""
    begins: int
    """The first from which the next reader fetches."""


def taken_over(name: str) -> TakenOver:
    """What happens to the partition of the member that crashes, in a scene with a group."""
    rehearsal = _rehearsal(name)
    story, crash_ms = rehearsal.story.run_until(rehearsal.scene.end_ms), rehearsal.scene.failure_ms
    crash = story.step_at(crash_ms)
    before = {doing.host: doing.what for doing in story.doings_at(crash - 1)}
    (gone,) = before.keys() - {doing.host for doing in story.doings_at(crash)}
    partition = int(before[gone].removeprefix("reads "))
    asked = -1
    for step in range(story.last_step + 1):
        for message in story.messages_at(step):
            offset = _fetched(story, message.id, partition) if isinstance(message.sender, str) else None
            if offset is not None and message.sender == gone:
                asked = offset
            elif offset is not None and message.sent_ms > crash_ms:
                committed = {each.partition: end for each, end in story.committed_at(step).items()}
                return TakenOver(asked, committed[partition], offset)
    raise RuntimeError("no member takes the partition over: choose another scene")


def _fetched(story: Story, message: int, partition: int) -> int | None:
    """From where a message fetches this partition, if it does."""
    frame = story.sent_in(message)
    request = None if frame is None or frame.is_response or frame.name != "Fetch" else frame.message()
    if not isinstance(request, FetchRequest):
        return None
    found = (each.fetch_offset for topic in request.topics for each in topic.partitions if each.partition == partition)
    return next(found, None)
