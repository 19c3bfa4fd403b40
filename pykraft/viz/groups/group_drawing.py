"""A consumer group as it is now: brokers and what they lead, members and what they own, and the coordinator.

`group_map` draws three columns. On the left are the brokers, with a cell for each partition that they lead. In the
middle are the members, with a cell for each partition that they own, in the member's colour. A line from cell to cell
is where records come from: a member fetches from the leader of each of its partitions. On the right is the broker that
coordinates the group; the dashed lines to it are heartbeats and commits. No record goes through it.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import ceil
from typing import NamedTuple

from pykraft.client.administration.groups import ConsumerGroupDescription
from pykraft.common.types import TopicPartition
from pykraft.viz.drawing import palette
from pykraft.viz.drawing.charts import WIDTH, finished, headed, need
from pykraft.viz.drawing.figure import Figure
from pykraft.viz.drawing.svg import Svg, shortened, text_width
from pykraft.viz.groups.ownership_chart import Looks

_TOP, _CELL, _STEP, _HEAD, _SPACE = 96.0, 34.0, 40.0, 30.0, 16.0
_BROKERS, _MEMBERS, _COORDINATOR = 0.0, 360.0, 740.0
_BOX, _COORDINATOR_BOX = 250.0, WIDTH - 741.0
_FRAME: dict[str, object] = {"fill": "none", "stroke": "currentColor", "stroke_opacity": "0.6", "rx": 6}


class _Card(NamedTuple):
    """A broker or a member, and where its partitions' cells begin."""

    name: str
    top: float
    size: float
    cells: dict[TopicPartition, tuple[float, float]]


def group_map(
    group: ConsumerGroupDescription, leaders: Mapping[TopicPartition, int | None], *, title: str, note: str = ""
) -> Figure:
    """The group, by the names that its members' clients have. `leaders` is the broker that leads each partition.
    ValueError without a partition."""
    need([0.0 for _ in leaders], "group_map")
    led: dict[str, list[TopicPartition]] = {}
    for key, leader in sorted(leaders.items()):
        led.setdefault("no leader" if leader is None else f"broker {leader}", []).append(key)
    led = dict(sorted(led.items()))
    owned = {member.client_id: sorted(member.assignment) for member in sorted(group.members, key=lambda m: m.client_id)}
    looks = Looks(owned, title)
    owner = {key: name for name, keys in owned.items() for key in keys}
    height = max(_needed(led), _needed(owned), 130.0)
    homes, seats = _column(led, _BROKERS, height), _column(owned, _MEMBERS, height)
    svg = headed(title, note, _TOP + height)
    looks.define(svg)
    for x, text in (
        (_BROKERS, "leaders: records"),
        (_MEMBERS, "members"),
        (_COORDINATOR, "coordinator: who owns what"),
    ):
        svg.text(x, _TOP - 14, text, 12.5, opacity=palette.FAINT)
    _draw_fetches(svg, homes, seats, looks)
    _draw_coordinator(svg, group, seats, height)
    for left, cards in ((_BROKERS, homes), (_MEMBERS, seats)):
        for card in cards:
            svg.rect(left, card.top, _BOX, card.size, **_FRAME)
            svg.text(left + 12, card.top + 20, shortened(card.name, _BOX - 24, 14, bold=True), 14, bold=True)
            for key, (x, y) in card.cells.items():
                _draw_cell(svg, (x, y), key, owner.get(key), looks)
    return finished(svg, title, note, list(_in_words(group, led, owned)), {"data": [], "layout": {}})


def _size(keys: Sequence[TopicPartition]) -> float:
    """The height of a card: its cells stand in rows."""
    rows = ceil(len(keys) / int((_BOX - 18) / _STEP))
    return _HEAD + max(1, rows) * _STEP + 4


def _needed(cards: Mapping[str, Sequence[TopicPartition]]) -> float:
    return sum(_size(keys) + _SPACE for keys in cards.values())


def _column(cards: Mapping[str, Sequence[TopicPartition]], left: float, height: float) -> list[_Card]:
    """The cards below each other, in the middle of the drawing's height."""
    found, top = [], _TOP + (height - _needed(cards)) / 2
    in_a_row = int((_BOX - 18) / _STEP)
    for name, keys in cards.items():
        places = (divmod(number, in_a_row) for number in range(len(keys)))
        corners = [(left + 12 + _STEP * column, top + _HEAD + _STEP * row) for row, column in places]
        found.append(_Card(name, top, _size(keys), dict(zip(keys, corners, strict=True))))
        top += _size(keys) + _SPACE
    return found


def _draw_fetches(svg: Svg, homes: Sequence[_Card], seats: Sequence[_Card], looks: Looks) -> None:
    """From each leader's cell to its owner's."""
    led = {key: place for card in homes for key, place in card.cells.items()}
    for card in seats:
        stroke: dict[str, object] = {"stroke": looks.colour(card.name), "stroke_width": "2.5"}
        for key, (x, y) in card.cells.items():
            if key in led:
                svg.line(led[key][0] + _CELL, led[key][1] + _CELL / 2, x, y + _CELL / 2, **stroke)


def _draw_cell(svg: Svg, corner: tuple[float, float], key: TopicPartition, owner: str | None, looks: Looks) -> None:
    x, y = corner
    filling = "none" if owner is None else looks.pattern(owner)
    svg.rect(x, y, _CELL, _CELL, rx=4, fill=filling, stroke="currentColor", stroke_opacity="0.6")
    number = shortened(f"{key.partition}", _CELL - 4, 14, bold=True)
    if owner is not None:  # the number has a ground without a pattern
        width = text_width(number, 14, bold=True) + 6
        svg.rect(x + (_CELL - width) / 2, y + 8, width, 18, rx=3, fill=looks.colour(owner))
    ink = None if owner is None else palette.ink_on(looks.colour(owner))
    svg.text(x + _CELL / 2, y + 22, number, 14, anchor="middle", bold=True, fill=ink)


def _facts(group: ConsumerGroupDescription) -> list[str]:
    epoch = [] if group.group_epoch is None else [f"epoch {group.group_epoch}"]
    return [
        f"group {group.group_id}",
        f"{group.group_type.lower()}, {group.state.lower()}",
        group.partition_assignor,
        *epoch,
    ]


def _draw_coordinator(svg: Svg, group: ConsumerGroupDescription, seats: Sequence[_Card], height: float) -> None:
    facts = _facts(group)
    size = 36.0 + 20 * len(facts)
    top = _TOP + (height - _SPACE - size) / 2
    dashes: dict[str, object] = {"stroke": "currentColor", "stroke_opacity": "0.6", "stroke_dasharray": "5 4"}
    for card in seats:
        svg.line(_MEMBERS + _BOX, card.top + card.size / 2, _COORDINATOR, top + size / 2, **dashes)
    svg.rect(_COORDINATOR, top, _COORDINATOR_BOX, size, **_FRAME)
    svg.text(_COORDINATOR + 12, top + 22, f"broker {group.coordinator.id}", 14, bold=True)
    for row, fact in enumerate(facts):
        svg.text(_COORDINATOR + 12, top + 44 + 20 * row, shortened(fact, _COORDINATOR_BOX - 24, 13), 13)


def _in_words(
    group: ConsumerGroupDescription,
    led: Mapping[str, Sequence[TopicPartition]],
    owned: Mapping[str, Sequence[TopicPartition]],
) -> Iterator[str]:
    yield f"coordinator: broker {group.coordinator.id}, {', '.join(_facts(group))}"
    for verb, cards in (("leads", led), ("owns", owned)):
        for name, keys in sorted(cards.items()):
            yield f"{name} {verb} {', '.join(f'{key.topic}-{key.partition}' for key in keys) or 'nothing'}"
