"""The charts of keys: a line to each partition that holds the key, and the records that come after a later one."""

from __future__ import annotations

import pytest

from pykraft.viz import Figure, key_order, key_paths
from pykraft.viz.clients.key_chart import KeyPath, late_ones
from tests.viz.reading import complaints, elements, texts

LONG = "a name that is <b>not</b> short & goes on " * 100
PATHS = [KeyPath("JFK-LAX", 0x3F7FF406, 6, (2,)), KeyPath("LGA-ORD", 0x64884CD0, 6, (5, 4))]
STRIPS = {"partition 2": [1, None, 2, None], "partition 6": [3, 4]}


def paths(**more: object) -> Figure:
    return key_paths(PATHS, [40, 36, 1, 34, 25, 0], title="One key is torn", **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "figure",
    [
        paths(),
        paths(note="Read back."),
        key_paths([KeyPath(LONG, 2**31 - 1, 16, tuple(range(16)))] * 12, [10**18] * 16, title=LONG, note=LONG),
        key_paths([KeyPath("k", 0, 1, ())], [0], title="Nothing was found"),
        key_order(STRIPS, [1, 3, 4, 2], title="2 comes late", note="Two workers."),
        key_order({LONG: list(range(40))}, list(range(39, -1, -1)), title=LONG, note=LONG),
        key_order({"partition 0": [10**9, None]}, [10**9], title="One"),
    ],
    ids=["two keys", "a note", "all of it long", "nothing", "an order", "a long order", "one"],
)
def test_every_chart_of_keys_is_a_sound_figure(figure: Figure) -> None:
    assert list(complaints(figure)) == []


def test_a_key_has_a_solid_line_to_its_remainder_and_a_dashed_one_to_each_other_partition() -> None:
    dashes = [line.get("stroke-dasharray") for line in elements(paths(), "path")]
    assert (dashes.count(None), len(dashes)) == (2, 3)


def test_the_text_tells_hash_remainder_and_partitions() -> None:
    text = paths().text
    assert "JFK-LAX: hash 0x3f7ff406, mod 6 = 2; found in partition 2\n" in text
    assert "LGA-ORD: hash 0x64884cd0, mod 6 = 4; found in partition 4, 5\n" in text
    assert "partition 2 1, " in text and "1 record" in texts(paths())


def test_a_record_after_a_later_one_is_framed() -> None:
    figure = key_order(STRIPS, [1, 3, 4, 2], title="2 comes late")
    assert late_ones([1, 3, 4, 2]) == [2] and late_ones([1, 2, 3]) == [] and late_ones([3, 1, 2]) == [1, 2]
    assert sum(rect.get("stroke-width") == "3" for rect in elements(figure, "rect")) == 1
    assert "after a later one: 2" in figure.text
    assert "partition 2: 1 2, and 2 of other keys" in figure.text


@pytest.mark.parametrize(("keys", "partitions"), [(0, 6), (13, 6), (1, 17), (1, 0)])
def test_too_many_or_no_keys_and_partitions_are_refused(keys: int, partitions: int) -> None:
    with pytest.raises(ValueError, match="key_paths"):
        key_paths(PATHS[:1] * keys, [1] * partitions, title="x")


def test_an_order_that_is_too_long_is_refused() -> None:
    with pytest.raises(ValueError, match="at most 40 cells in a row, not 41"):
        key_order({"partition 0": list(range(41))}, [0], title="x")
