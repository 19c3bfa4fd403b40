"""The board shows a cluster as it is: in the picture, in words, and the same in both."""

from __future__ import annotations

import re

import pytest

from pykraft.viz import board, palette
from tests.viz.reading import colours, complaints, drawing, elements, texts
from tests.viz.views import (
    VIEWS,
    cut_off_leader,
    election,
    healthy,
    leader_dead,
    node,
    replica,
    separate_roles,
    view,
)

OKABE_ITO = {palette.BLUE, palette.SKY, palette.ORANGE, palette.VERMILLION, palette.WHITE, palette.DARK_INK}


@pytest.mark.parametrize("name", VIEWS)
def test_every_board_is_a_sound_figure(name: str) -> None:
    figure = board(VIEWS[name](), facts=("acknowledged 1,000,000",))
    assert list(complaints(figure)) == []


@pytest.mark.parametrize("name", VIEWS)
def test_a_board_has_only_colours_that_everybody_tells_apart(name: str) -> None:
    assert colours(board(VIEWS[name]())) <= OKABE_ITO


@pytest.mark.parametrize("name", VIEWS)
def test_the_text_has_every_number_of_the_picture(name: str) -> None:
    """Of the lanes that are drawn; the text may have more."""
    figure = board(VIEWS[name]())
    numbers = re.compile(r"(?:end|epoch|watermark) ([\d,]+)")
    for text in texts(figure):
        for number in numbers.findall(text):
            assert re.search(rf"\b{number}\b", figure.text), text


def test_each_lane_names_its_partition_and_says_who_leads_and_how_far_it_is() -> None:
    shown = texts(board(healthy()))
    assert shown.count("flights-0") == 3
    assert shown.count("◆ leads · epoch 0") == 2
    assert shown.count("● follows · epoch 0") == 4
    assert {"end 1,000", "high watermark 990", "ISR 1, 2, 3"} <= set(shown)
    assert shown.count("◆ active controller") == 1


def test_all_bars_have_one_scale_so_that_a_lagging_replica_is_seen() -> None:
    bars = [e for e in elements(board(healthy()), "rect") if e.get("height") == "26" and e.get("fill", "")[:1] == "#"]
    widths = sorted({float(bar.get("width", "0")) for bar in bars})
    assert widths == pytest.approx([264 * share for share in (0.495, 0.5, 0.99, 1)], abs=0.1)


def test_a_dead_node_is_told_by_sign_word_and_dashes_and_not_by_colour_alone() -> None:
    figure = board(leader_dead())
    assert "✕ dead" in texts(figure)
    assert "led in epoch 0" in texts(figure)
    assert any(e.get("stroke-dasharray") == "5 5" for e in elements(figure, "rect"))
    assert "node 1 is dead" in figure.text
    assert "ISR 2, 3" in texts(figure)


def test_a_leader_that_was_cut_off_is_not_believed() -> None:
    figure = board(cut_off_leader())
    assert "◆ thinks it is controller" in texts(figure)
    assert "◆ thinks it leads · epoch 0" in texts(figure)
    assert "Node 2 is the active controller" in figure.text


def test_what_nobody_could_tell_is_unknown_and_not_zero() -> None:
    figure = board(election())
    assert {"end unknown", "high watermark unknown", "▲ quorum: candidate", "▲ quorum: prospective"} <= set(
        texts(figure)
    )
    assert "No node is active controller" in figure.text
    assert "without leader: flights-0" in figure.text


def test_topics_of_kafkas_own_are_left_out_unless_they_are_named() -> None:
    assert "__consumer_offsets" not in board(separate_roles()).svg
    assert "__consumer_offsets-0" in board(separate_roles(), topics=["__consumer_offsets"]).svg


def test_what_has_no_lane_is_counted_and_is_in_the_text() -> None:
    figure = board(separate_roles(), max_partitions=2)
    assert texts(figure).count("and seven more partitions") == 2
    assert figure.text.count("end 100,000,000") == 2


def test_long_names_and_many_replicas_do_not_stand_on_each_other() -> None:
    every = tuple(range(1, 10))
    many = replica("<b>" + "topic" * 40, 0, 1, 10**12, 10**12, isr=every)._replace(replicas=every)
    figure = board(
        view(node(1, many, role="leader")), title="long " * 100, when="now " * 100, facts=["fact " * 100] * 2
    )
    assert list(complaints(figure)) == []
    assert "ISR 1, 2, 3, 4, 5, 6, 7, 8, 9" in figure.text


def test_names_are_data_and_never_markup() -> None:
    figure = board(healthy(), title="<script>&", note='"a" < b')
    assert "<script>&" in texts(figure)
    assert not drawing(figure).findall(".//script")


def test_the_headline_says_when() -> None:
    assert "1.5 s after the start · Raft epoch 1 · metadata offset 17" in texts(board(healthy()))
    assert "at noon" in texts(board(healthy(), when="at noon"))
