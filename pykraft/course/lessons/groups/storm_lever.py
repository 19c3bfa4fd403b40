"""The pictures of notebook 17: members come and go, and the reader moves the second in which `cleo` pauses.

At each move the groups live again on a simulated cluster (`VirtualGroup`): real brokers and consumers, Kafka's default
timeouts, a clock of their own. `draw_pause` has one group, and one change; `draw_storm` has the same five changes in
four groups.
"""

from functools import lru_cache, partial

from pykraft.client.config import PARTITION_ASSIGNMENT_STRATEGY
from pykraft.course.lessons.groups.virtual_group import CONSUMER, WAYS, VirtualGroup
from pykraft.viz import Figure, ownership

PARTITIONS = 12
_EMIL_S, _PAUSE_END_S = 25, 75
STORM_END_S = 150


def draw_pause(way: str, cleo_pauses_at_s: int, pause_s: int) -> Figure:
    """Who owns which partition, while `emil` joins and `cleo` pauses."""
    group = group_with_a_pause(way, cleo_pauses_at_s, pause_s)
    moved, stopped = group.moved("emil joins"), group.stopped_s("emil joins")
    pauses = f"all twelve together have no reader for {stopped:.0f} s"
    title = f"emil joins: {moved} of {PARTITIONS} partitions move, and {pauses}"
    default = ",".join(PARTITION_ASSIGNMENT_STRATEGY.default)
    protocol = "group.protocol=consumer" if way == CONSUMER else f"partition.assignment.strategy={way}"
    note = f"{protocol}; Kafka's default is group.protocol=classic with {default}"
    return ownership({way: group.owners}, title=title, note=note, marks=group.events, pauses=group.pauses)


def group_with_a_pause(way: str, cleo_pauses_at_s: int, pause_s: int) -> VirtualGroup:
    """Three members, a fourth after 25 s, and a pause of `cleo` at some second."""
    group = VirtualGroup(way, partitions=PARTITIONS)
    group.join("ann", "ben", "cleo")
    for second, change in sorted([(_EMIL_S, "emil"), (cleo_pauses_at_s, "cleo")]):
        group.wait(max(0, second - group.now_s))
        if change == "emil":
            group.join("emil")
        elif pause_s:
            group.pause("cleo", pause_s)
    group.wait(_PAUSE_END_S - group.now_s)
    return group


def draw_storm(cleo_pauses_at_s: int, pause_s: int) -> Figure:
    """The same changes, four ways."""
    groups = storms(cleo_pauses_at_s, pause_s)
    moved = {way: each.moved("dora joins") for way, each in groups.items()}
    stopped = {way: each.stopped_s("dora joins", "dora crashes") for way, each in groups.items()}
    panels = {f"{way}: {moved[way]} moved, {stopped[way]:.0f} s stopped": each.owners for way, each in groups.items()}
    eager, cooperative = stopped["sticky"], stopped["cooperative-sticky"]
    title = f"sticky stops partitions for {eager:.0f} s, cooperative-sticky for {cooperative:.0f} s"
    note = "12 partitions; moved since dora joined, seconds stopped from then until dora crashed, over all partitions"
    last = groups[CONSUMER]
    return ownership(panels, title=title, note=note, marks=last.events, pauses=last.pauses)


@lru_cache(maxsize=1)  # the lesson asks what the picture has drawn
def storms(cleo_pauses_at_s: int, pause_s: int) -> dict[str, VirtualGroup]:
    """A group of each way, after all changes."""
    groups = {way: VirtualGroup(way, partitions=PARTITIONS) for way in WAYS}
    for group in groups.values():
        storm(group, cleo_pauses_at_s, pause_s)
    return groups


def storm(group: VirtualGroup, cleo_pauses_at_s: int, pause_s: int) -> None:
    """Members join, leave, pause and crash."""
    changes = [
        (20, partial(group.join, "dora")),
        (40, partial(group.leave, "ben")),
        (cleo_pauses_at_s, partial(group.pause, "cleo", pause_s)),  # her program works, and does not poll
        (62, partial(group.join, "emil")),
        (90, partial(group.crash, "dora")),
    ]
    group.join("ann", "ben", "cleo")
    for second, change in sorted(changes, key=lambda each: each[0]):
        group.wait(max(0, second - group.now_s))
        change()
    group.wait(STORM_END_S - group.now_s)
