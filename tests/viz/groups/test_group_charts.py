"""The drawings of a consumer group: who owned what over time, and who owns what now."""

from __future__ import annotations

import pytest

from pykraft.client.administration.groups import ConsumerGroupDescription, GroupState, GroupType, MemberDescription
from pykraft.common.types import Node, TopicPartition
from pykraft.viz import Figure, group_map, ownership
from tests.viz.reading import complaints, elements, texts

EAGER = {"0": [("ann", 0.0, 2.0), ("", 2.0, 3.0), ("ann", 3.0, 9.0)], "1": [("ben", 0.0, 4.0), ("", 4.0, 9.0)]}
LAZY = {"0": [("ann", 0.0, 9.0)], "1": [("ben", 0.0, 4.0), ("", 4.0, 6.0), ("cleo", 6.0, 9.0)]}
MARKS = {"cleo joins": 2.0, "ben leaves": 4.0}
LONG = "a name that is <b>not</b> short & goes on " * 100


def a_storm() -> Figure:
    return ownership({"range": EAGER, "sticky": LAZY}, title="Two", marks=MARKS, pauses=[("ann", 5.0, 8.0)])


def key(number: int) -> TopicPartition:
    return TopicPartition("t", number)


def a_group(names: tuple[str, ...] = ("ann", "ben"), partitions: int = 3) -> Figure:
    members = tuple(
        MemberDescription(
            f"id of {name}", None, None, name, "/127.0.0.1",
            tuple(key(p) for p in range(partitions) if p % len(names) == number), None, None, None,
        )
        for number, name in enumerate(names)
    )  # fmt: skip
    node = Node(2, "localhost", 9092, None)
    group = ConsumerGroupDescription("g", GroupType.CONSUMER, GroupState.STABLE, node, "uniform", members, 7, 7)
    leaders = {key(number): (None if number == 2 else 1 + number % 2) for number in range(partitions)}
    return group_map(group, leaders, title="A group")


@pytest.mark.parametrize(
    "figure",
    [
        a_storm(),
        ownership({"t": {"0": [("", 1.0, 1.0)]}}, title="One moment without an owner"),
        ownership({LONG: {LONG: [(LONG, 0.0, 1.0), ("b", 1.0, 9.0)]}}, title=LONG, note=LONG, marks={LONG: 1}),
        a_group(),
        a_group(("ann", LONG), partitions=40),
        group_map(
            ConsumerGroupDescription(
                "g", GroupType.CLASSIC, GroupState.EMPTY, Node(2, "localhost", 9092, None), "", (), None, None
            ),
            {key(0): 1},
            title="No member",
        ),
    ],
    ids=["a storm", "one moment", "all of it long", "a group", "many partitions", "no member"],
)
def test_every_drawing_of_a_group_is_a_sound_figure(figure: Figure) -> None:
    assert list(complaints(figure)) == []


def test_the_text_tells_who_owned_each_partition_and_what_happened() -> None:
    text = a_storm().text
    assert "cleo joins: at 2.0 s" in text and "ann pauses from 5.0 s to 8.0 s" in text
    assert "range:\n  0: ann 0.0 to 2.0 s, no owner 2.0 to 3.0 s, ann 3.0 to 9.0 s" in text
    assert "1: ben 0.0 to 4.0 s, no owner 4.0 to 6.0 s, cleo 6.0 to 9.0 s" in text


def test_members_differ_by_pattern_and_a_gap_is_empty_and_dashed() -> None:
    figure = a_storm()
    fillings = {path.get("fill", "").partition(" ")[0] for path in elements(figure, "path")}
    patterns = {f"url(#{pattern.get('id')})" for pattern in elements(figure, "pattern")}
    assert len(patterns) == 3 and patterns <= fillings
    assert not patterns & {f"url(#{each.get('id')})" for each in elements(a_group(), "pattern")}
    empty = [path for path in elements(figure, "path") if path.get("fill") == "none"]
    assert empty and all(path.get("stroke-dasharray") for path in empty)
    assert {"ann", "ben", "cleo", "no owner", "its owner pauses"} <= set(texts(figure))


def test_only_the_rows_of_a_pausing_owner_have_a_line() -> None:
    lines = [line for line in elements(a_storm(), "line") if line.get("stroke-width") == "3"]
    assert len(lines) == 1 + 2, "in the key, and in partition 0 of both groups"


def test_a_short_gap_is_wide_enough_to_be_seen() -> None:
    figure = ownership({"t": {"0": [("a", 0.0, 50.0), ("", 50.0, 50.001), ("a", 50.001, 100.0)]}}, title="A nick")
    (path,) = [path for path in elements(figure, "path") if path.get("fill", "").startswith("url")]
    (_, first, second) = path.get("d", "").split("M")
    end = float(first.split()[0]) + float(first.split("h")[1].split("v")[0])
    assert float(second.split()[0]) - end == pytest.approx(1.5, abs=0.2)


def test_the_map_tells_who_leads_and_who_owns_what_and_which_broker_coordinates() -> None:
    text = a_group().text
    assert "coordinator: broker 2, group g, consumer, stable, uniform, epoch 7" in text
    assert "broker 1 leads t-0" in text and "no leader leads t-2" in text
    assert "ann owns t-0, t-2" in text and "ben owns t-1" in text


@pytest.mark.parametrize("groups", [{}, {"t": {}}])
def test_nothing_cannot_be_drawn(groups: dict[str, dict[str, list[tuple[str, float, float]]]]) -> None:
    with pytest.raises(ValueError, match="at least one value"):
        ownership(groups, title="Nothing")
