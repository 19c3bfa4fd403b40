"""The chart of a key under several hash functions."""

from __future__ import annotations

import pytest

from pykraft.viz import Figure, hash_paths
from pykraft.viz.clients.key_chart import KeyPath
from pykraft.viz.drawing import palette
from tests.viz.reading import complaints, elements

LONG = "a name that is <b>not</b> short & goes on " * 100
PATHS = [KeyPath("murmur2", 0x3F7FF406, 6, ()), KeyPath("CRC-32", 0x2C3FD1A5, 6, ())]


@pytest.mark.parametrize(
    "figure",
    [
        hash_paths(PATHS, 6, [True, False] * 112, title="Two functions", note="A note.", squares="224 keys"),
        hash_paths([KeyPath(LONG, 2**32 - 1, 12, ())] * 4, 12, [True] * 400, title=LONG, note=LONG, squares=LONG),
        hash_paths([KeyPath("murmur2", 0, 1, ())], 1, [], title="One partition"),
    ],
    ids=["two functions", "all of it long", "one"],
)
def test_every_chart_of_hashes_is_a_sound_figure(figure: Figure) -> None:
    assert list(complaints(figure)) == []


def test_each_function_has_a_line_and_each_key_a_square_dark_if_it_moves() -> None:
    figure = hash_paths(PATHS, 6, [True, False, True], title="Two functions")
    assert len(elements(figure, "path")) == len(PATHS)
    squares = [each for each in elements(figure, "rect") if each.get("rx") == "2"]
    assert [each.get("fill") == palette.BLUE for each in squares] == [True, False, True]
    assert "murmur2: 0x3f7ff406, mod 6 = 2: partition 2\nCRC-32: 0x2c3fd1a5, mod 6 = 1: partition 1" in figure.text


@pytest.mark.parametrize(
    ("functions", "partitions", "keys"), [(0, 6, 1), (5, 6, 1), (1, 0, 1), (1, 13, 1), (1, 6, 401)]
)
def test_too_much_or_nothing_to_draw_is_refused(functions: int, partitions: int, keys: int) -> None:
    with pytest.raises(ValueError, match="hash_paths"):
        hash_paths(PATHS[:1] * functions, partitions, [False] * keys, title="x")
