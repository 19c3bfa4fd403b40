"""The board shows a cluster as it is: in the picture, in words, and the same in both."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from pykraft.broker.describe import NodeFigures
from pykraft.cluster_view import ClusterView
from pykraft.common.types import METADATA_TOPIC, TopicPartition
from pykraft.simulation import Simulation
from pykraft.viz import Figure, board
from pykraft.viz.boards.board_facts import BoardFacts
from pykraft.viz.drawing import palette
from pykraft.viz.player.still import with_metadata_logs
from tests.viz.reading import colours, complaints, drawing, elements, texts
from tests.viz.views import (
    VIEWS,
    clients_messages,
    cut_off_leader,
    election,
    far_apart,
    healthy,
    leader_dead,
    lens,
    lost_long_ago,
    messages,
    node,
    replica,
    separate_roles,
    torn_tail,
    transactions,
    view,
)

OKABE_ITO = {
    *(palette.BLUE, palette.SKY, palette.ORANGE, palette.VERMILLION, palette.GREEN, palette.YELLOW, palette.PURPLE),
    *(palette.WHITE, palette.DARK_INK),
}


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
    numbers = re.compile(r"(?:end|epoch|watermark|stable|from|offset) (\d[\d,]*\b)")
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


def measured() -> ClusterView:
    """A healthy cluster; node 2 has followers and groups that lag."""
    nodes = healthy().nodes
    figures = {
        1: NodeFigures(1204, 3, 0, 0, 0, 0),
        2: NodeFigures(17, 0, 1, 0, 2, 4000),
        3: NodeFigures(0, 0, 0, 0, 0, 0),
    }
    return replace(healthy(), nodes={one: node._replace(figures=figures[one]) for one, node in nodes.items()})


def test_a_board_shows_metrics_only_if_it_is_told_to() -> None:
    assert texts(board(measured())) == texts(board(healthy()))
    figure = board(measured(), metrics=True)
    assert list(complaints(figure)) == []
    shown = " ".join(texts(figure))
    assert "1,204 requests answered, 3 waiting" in shown
    assert "1 under-replicated · 2 ISR shrinks · 4,000 records of group lag" in shown
    assert "17 requests answered, 0 waiting; 1 under-replicated · 2 ISR shrinks" in figure.text


def test_a_board_of_a_simulated_cluster_shows_metrics_too() -> None:
    simulation = Simulation(1)
    simulation.at(1_500)
    figure = board(simulation, metrics=True)
    assert list(complaints(figure)) == []
    answered = [int(found.replace(",", "")) for found in re.findall(r"([\d,]+) requests answered", figure.text)]
    assert len(answered) == len(simulation.describe().alive)
    assert sum(answered) > 100


def cells(figure: Figure, node_id: int) -> list[tuple[float, float, dict[str, str]]]:
    """Left edge, right edge and looks of the runs of cells of a node with one lane, without legend."""
    (card,) = (group for group in elements(figure, "g") if group.get("data-node") == str(node_id))
    found = []
    for path in card.iter("{http://www.w3.org/2000/svg}path"):
        steps = re.findall(r"M([\d.]+) [\d.]+h([\d.]+)v26", path.get("d", ""))
        if steps:
            found.append((float(steps[0][0]), float(steps[-1][0]) + float(steps[-1][1]), dict(path.attrib)))
    return found


def test_the_cells_of_all_replicas_have_one_scale_so_that_a_lagging_one_is_seen() -> None:
    figure = board(torn_tail())
    ends = {n: cells(figure, n)[-1][1] - 330 * (n - 1) for n in (1, 2, 3)}
    cell = 10.5
    assert ends[2] - ends[3] == pytest.approx(2 * cell, abs=0.2)
    assert ends[2] - ends[1] == pytest.approx(4 * cell, abs=0.2)
    assert "… 1,195" in texts(figure)


def test_what_is_committed_is_filled_what_is_not_is_hatched_and_what_goes_is_torn_off() -> None:
    figure = board(torn_tail())
    committed, torn = cells(figure, 1)
    assert committed[2]["fill"] == palette.BLUE and "stroke" not in committed[2]
    assert torn[2]["fill"] == "none" and torn[2]["stroke"] == palette.VERMILLION and "stroke-dasharray" in torn[2]
    assert [run[2].get("fill-opacity") for run in cells(figure, 3)] == [None, "0.12"]
    assert "truncates 7 from offset 1,204" in texts(figure)
    assert "not in the leader's log: will be truncated" in texts(figure)
    assert "about to be truncated" in figure.text


def test_the_records_that_a_dead_leader_would_lose_are_in_the_lens_however_far_the_others_went_on() -> None:
    old = lens(replica("orders", 0, 1, 1211, 1204), (0, 0))
    led = lens(replica("orders", 0, 2, 4000, 4000, isr=(2, 3), epoch=1), (0, 0), (1, 1204))
    figure = board(view(node(1, old, role="leader", alive=False), node(2, led, role="leader", leader=2, epoch=2)))
    assert "would truncate 7 from offset 1,204" in texts(figure)
    assert any(looks.get("stroke") == palette.VERMILLION for _, _, looks in cells(figure, 1))


def test_what_was_lost_long_ago_is_wide_enough_to_be_seen_and_the_lens_leaves_out_what_came_since() -> None:
    figure = board(lost_long_ago())
    (torn,) = (run for run in cells(figure, 1) if run[2].get("stroke") == palette.VERMILLION)
    assert torn[1] - torn[0] == pytest.approx(1131 / 200 * 10.5, abs=1.5)
    assert texts(figure).count("… 53k") == 2, "of the two that have those records"
    lens_ = BoardFacts(lost_long_ago(), None).lens(TopicPartition("flights", 0))
    places = [lens_.place(offset) for offset in range(lens_.start, lens_.end + 1, 50)]
    assert places == sorted(places) and places[0] == 0 and lens_.place(lens_.end) == lens_.cells
    assert [end - start for start, end in lens_.ranges] == [200 * 10, 200 * 5]


def test_a_lane_whose_log_is_long_for_its_cells_begins_at_the_logs_start() -> None:
    old = lens(replica("orders", 0, 1, 120, 0), (0, 0))
    lens_ = BoardFacts(view(node(1, old, role="leader")), None).lens(TopicPartition("orders", 0))
    assert (lens_.start, lens_.per_cell, lens_.cells, lens_.has_stub) == (0, 10, 12, False)


def test_the_metadata_log_has_a_lane_without_in_sync_replicas_and_says_what_its_node_is() -> None:
    shown = with_metadata_logs(election())
    figure = board(shown, topics=[METADATA_TOPIC])
    for words in ("○ prospective · epoch 1", "○ candidate · epoch 2", "○ unattached · epoch 2", "end 17"):
        assert words in texts(figure)
    led = board(with_metadata_logs(healthy()), topics=[METADATA_TOPIC])
    assert texts(led).count("● follows · epoch 1") == 2 and "◆ leads · epoch 1" in texts(led)
    assert not any("ISR" in text or "in-sync" in text for text in (*texts(figure), *texts(led)))


def test_each_leader_epoch_is_numbered_where_it_begins() -> None:
    shown = texts(board(torn_tail()))
    assert (shown.count("epoch 0"), shown.count("epoch 1")) == (3, 2)
    assert "its log: epoch 0 from 0, epoch 1 from 1,204" in board(torn_tail()).text


def test_transactions_show_in_the_cells_and_the_last_stable_offset_is_marked() -> None:
    figure = board(transactions())
    shown = texts(figure)
    assert shown.count("A") == shown.count("C") == 3 + 1  # and the legend
    assert shown.count("last stable 313") == 3
    assert "aborted" in shown and "in an open transaction" in shown
    assert "304 to 306 of an aborted transaction, committed" in figure.text
    assert "316 to 317 of an open transaction, not committed" in figure.text


def test_the_legend_explains_what_is_there_and_nothing_else() -> None:
    shown = texts(board(healthy()))
    assert "high watermark: committed up to here" in shown
    assert not {"aborted", "cut link", "last stable offset", "not in sync"} & set(shown)
    assert "◆ leads the partition" not in texts(board(healthy(), legend=False))


def test_cut_links_fenced_brokers_and_votes_are_drawn_and_told() -> None:
    figure = board(torn_tail())
    assert "■ fenced · ✕ is cut off from 2, 3" in texts(figure)
    assert any(text.endswith("votes from 2, 3") for text in texts(figure))
    assert any(text.endswith("voted for 2") for text in texts(figure))
    broken = [path for path in elements(figure, "path") if path.get("stroke-dasharray") == "5 4"]
    assert len(broken) == 2
    assert figure.text.count("cut: nothing gets from node 1 to node") == 2
    assert "node 1 (broker and controller): ◆ thinks it is controller, broker running, fenced" in figure.text


def test_a_link_that_is_cut_in_one_direction_says_which() -> None:
    shown = texts(board(messages()))
    assert {"✕ does not hear 3", "✕ does not reach 1"} <= set(shown)


def test_messages_are_arrows_with_their_names_and_the_selected_one_is_marked() -> None:
    figure = board(messages(), selected=8)
    assert [g.get("data-message") for g in elements(figure, "g") if g.get("data-message")] == ["7", "8", "9"]
    assert "▶ Fetch response: flights-0, epoch 0, offsets 990 to 999" in texts(figure)
    assert "on its way: Vote request from node 3 to node 1: epoch 2" in figure.text
    assert "held back" in figure.text


def test_of_many_messages_the_first_to_arrive_and_the_selected_one_are_drawn() -> None:
    seen = messages()
    many = tuple(replace(seen.messages[0], id=n, due_ms=1500.0 + n) for n in range(40))
    figure = board(replace(seen, messages=many), selected=35)
    drawn = [g.get("data-message") for g in elements(figure, "g") if g.get("data-message")]
    assert drawn == ["0", "1", "2", "3", "4", "5", "6", "35"]
    assert "and 32 more on the way" in texts(figure)
    assert figure.text.count("on its way: ") == 40


def test_clients_have_columns_of_their_own() -> None:
    assert {"node 1", "producer"} <= set(texts(board(clients_messages())))


def test_replicas_far_apart_make_each_cell_many_records() -> None:
    figure = board(far_apart())
    assert {"a cell is 100,000 records", "1,000,711 behind", "… 7.3M"} <= set(texts(figure))


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


def test_a_view_over_the_wire_draws_what_clients_are_told_and_says_what_is_unknown() -> None:
    led, follower = replica("t", 0, 1, 30, 30), replica("t", 0, 1, -1, -1)
    figure = board(view(node(1, led, role="leader"), node(2, follower)))
    assert list(complaints(figure)) == []
    assert len(cells(figure, 1)) == 1 and cells(figure, 2) == []
    assert {"end 30", "end unknown", "high watermark unknown"} <= set(texts(figure))


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


def test_no_name_is_ever_shortened() -> None:
    name = "a." + "very-long_topic" * 16
    figure = board(view(node(1, replica(name, 0, 1, 5, 5), role="leader")), title="title " * 50, note="note " * 90)
    drawn = "".join(texts(figure))
    assert f"{name}-0" in drawn
    assert drawn.count("title") >= 50 and drawn.count("note") == 90
    assert list(complaints(figure)) == []


def test_names_are_data_and_never_markup() -> None:
    figure = board(healthy(), title="<script>&", note='"a" < b')
    assert "<script>&" in texts(figure)
    assert not drawing(figure).findall(".//script")


def test_the_headline_says_when() -> None:
    assert "1.5 s after the start · Raft epoch 1 · metadata offset 17" in texts(board(healthy()))
    assert "at noon" in texts(board(healthy(), when="at noon"))
