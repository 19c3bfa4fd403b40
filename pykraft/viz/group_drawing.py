"""A consumer group as it is now: brokers and what they lead, members and what they own, and the coordinator.

`group_map` draws three columns. On the left are the brokers, with a cell for each partition that they lead. In the
middle are the members, with a cell for each partition that they own, in the member's colour. A line from cell to cell
is where records come from: a member fetches from the leader of each of its partitions. On the right is the broker that
coordinates the group; the dashed lines to it are heartbeats and commits. No record goes through it.
"""

from collections.abc import Iterator, Mapping, Sequence

from pykraft.client.groups import ConsumerGroupDescription
from pykraft.common.types import TopicPartition
from pykraft.viz import palette
from pykraft.viz.charts import WIDTH, finished, headed, need
from pykraft.viz.figure import Figure
from pykraft.viz.ownership_chart import colour, define_patterns, looks_of, pattern
from pykraft.viz.svg import Svg, shortened, text_width

_TOP, _CELL, _STEP, _CARD, _SPACE = 96.0, 34.0, 40.0, 74.0, 16.0
_BROKERS, _MEMBERS, _COORDINATOR = 0.0, 360.0, 740.0
_BOX, _MEMBER_BOX, _COORDINATOR_BOX = 240.0, 260.0, 220.0
_FRAME: dict[str, object] = {"fill": "none", "stroke": "currentColor", "stroke_opacity": "0.6", "rx": 6}


def group_map(
    group: ConsumerGroupDescription, leaders: Mapping[TopicPartition, int | None], *, title: str, note: str = ""
) -> Figure:
    """The group, by the names that its members' clients have. `leaders` is the broker that leads each partition.
    ValueError without a partition."""
    need([0.0 for _ in leaders], "group_map")
    led: dict[str, list[TopicPartition]] = {}
    for key, leader in sorted(leaders.items()):
        led.setdefault("no leader" if leader is None else f"broker {leader}", []).append(key)
    owned = {member.client_id: sorted(member.assignment) for member in sorted(group.members, key=lambda m: m.client_id)}
    looks = looks_of(owned)
    owner = {key: name for name, keys in owned.items() for key in keys}
    height = max(len(led), len(owned), 2) * (_CARD + _SPACE)
    svg = headed(title, note, _TOP + height)
    define_patterns(svg, looks.values())
    for x, text in (
        (_BROKERS, "leaders: records"),
        (_MEMBERS, "members"),
        (_COORDINATOR, "coordinator: who owns what"),
    ):
        svg.text(x, _TOP - 14, text, 12.5, opacity=palette.FAINT)
    homes, seats = _places(led, _BROKERS, _BOX, height), _places(owned, _MEMBERS, _MEMBER_BOX, height)
    for key, name in owner.items():
        (x1, y1), (x2, y2) = homes[key], seats[key]
        line = {"stroke": colour(looks[name]), "stroke_width": "2.5", "stroke_opacity": "0.8"}
        svg.line(x1 + _CELL, y1 + _CELL / 2, x2, y2 + _CELL / 2, **line)
    _draw_cards(svg, dict(sorted(led.items())), _BROKERS, _BOX, height)
    _draw_cards(svg, owned, _MEMBERS, _MEMBER_BOX, height)
    _draw_coordinator(svg, group, owned, height)
    for cells in (homes, seats):
        for key, (x, y) in cells.items():
            _draw_cell(svg, x, y, key, looks.get(owner.get(key, "")))
    return finished(svg, title, note, list(_told(group, led, owned)), {"data": [], "layout": {}})


def _tops(count: int, height: float) -> list[float]:
    """Where the cards of a column begin: in the middle of the drawing's height."""
    first = _TOP + (height - count * (_CARD + _SPACE)) / 2
    return [first + number * (_CARD + _SPACE) for number in range(count)]


def _places(
    cards: Mapping[str, Sequence[TopicPartition]], left: float, width: float, height: float
) -> dict[TopicPartition, tuple[float, float]]:
    """The top left corner of each partition's cell; many cells share the card's width."""
    found = {}
    for (_, keys), top in zip(sorted(cards.items()), _tops(len(cards), height), strict=True):
        step = min(_STEP, (width - 24 - _CELL) / max(1, len(keys) - 1))
        found.update({key: (left + 12 + step * number, top + 30) for number, key in enumerate(keys)})
    return found


def _draw_cards(svg: Svg, cards: Mapping[str, object], left: float, width: float, height: float) -> None:
    for name, top in zip(cards, _tops(len(cards), height), strict=True):
        svg.rect(left, top, width, _CARD, **_FRAME)
        svg.text(left + 12, top + 20, shortened(name, width - 24, 14, bold=True), 14, bold=True)


def _draw_cell(svg: Svg, x: float, y: float, key: TopicPartition, look: int | None) -> None:
    filling = "none" if look is None else pattern(look)
    svg.rect(x, y, _CELL, _CELL, rx=4, fill=filling, stroke="currentColor", stroke_opacity="0.6")
    number = f"{key.partition}"
    if look is not None:  # the number has a ground without a pattern
        width = text_width(number, 14, bold=True) + 6
        svg.rect(x + (_CELL - width) / 2, y + 8, width, 18, rx=3, fill=colour(look))
    ink = None if look is None else palette.ink_on(colour(look))
    svg.text(x + _CELL / 2, y + 22, number, 14, anchor="middle", bold=True, fill=ink)


def _facts(group: ConsumerGroupDescription) -> list[str]:
    epoch = [] if group.group_epoch is None else [f"epoch {group.group_epoch}"]
    return [
        f"group {group.group_id}",
        f"{group.group_type.lower()}, {group.state.lower()}",
        group.partition_assignor,
        *epoch,
    ]


def _draw_coordinator(svg: Svg, group: ConsumerGroupDescription, owned: Mapping[str, object], height: float) -> None:
    facts = _facts(group)
    size = 36.0 + 20 * len(facts)
    top = _TOP + (height - _SPACE - size) / 2
    for card in _tops(len(owned), height):
        svg.line(
            _MEMBERS + _MEMBER_BOX, card + _CARD / 2, _COORDINATOR, top + size / 2, stroke="currentColor",
            stroke_opacity="0.6", stroke_dasharray="5 4",
        )  # fmt: skip
    svg.rect(_COORDINATOR, top, min(_COORDINATOR_BOX, WIDTH - _COORDINATOR), size, **_FRAME)
    svg.text(_COORDINATOR + 12, top + 22, f"broker {group.coordinator.id}", 14, bold=True)
    for row, fact in enumerate(facts):
        svg.text(_COORDINATOR + 12, top + 44 + 20 * row, shortened(fact, _COORDINATOR_BOX - 24, 13), 13)


def _told(
    group: ConsumerGroupDescription,
    led: Mapping[str, Sequence[TopicPartition]],
    owned: Mapping[str, Sequence[TopicPartition]],
) -> Iterator[str]:
    yield f"coordinator: broker {group.coordinator.id}, {', '.join(_facts(group))}"
    for verb, cards in (("leads", led), ("owns", owned)):
        for name, keys in sorted(cards.items()):
            yield f"{name} {verb} {', '.join(f'{key.topic}-{key.partition}' for key in keys) or 'nothing'}"
