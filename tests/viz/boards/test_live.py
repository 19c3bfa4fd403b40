"""The board with buttons, pressed without a screen: each look is kept, each button does what it says, and records flow
while something is broken."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

import pykraft
from pykraft.cluster_view import ClusterView
from pykraft.surroundings import HEADLESS
from pykraft.viz import Figure, board
from pykraft.viz.boards import live_clicks
from pykraft.viz.boards.live import LiveBoard
from pykraft.viz.boards.live_clicks import MOST_FRAMES, LiveClicks, Recorder, Seen
from tests.harness.waiting import wait_until
from tests.viz.reading import complaints
from tests.viz.views import healthy

SCRIPT = ["start producer acks=1; start consumer; wait 10 records", "cut leader of orders-0; wait 10 records"]
SCRIPT += ["wait leader of orders-0; wait diverging", "stop producer; heal; wait in sync"]


class Cluster:
    """A cluster whose look a test sets, and remembers what was asked of it."""

    bootstrap_servers = "127.0.0.1:1"

    def __init__(self) -> None:
        self.view = healthy()
        self.node_ids = sorted(self.view.nodes)
        self.dead: set[int] = set()
        self.cut: set[tuple[int | str, int | str]] = set()
        self.asked: list[tuple[object, ...]] = []

    @property
    def alive(self) -> list[int]:
        return [node_id for node_id in self.node_ids if node_id not in self.dead]

    def describe(self) -> ClusterView:
        nodes = {n: node._replace(is_alive=n not in self.dead) for n, node in self.view.nodes.items()}
        time_ms = self.view.time_ms + 100
        self.view = replace(self.view, nodes=nodes, time_ms=time_ms, cut_links=frozenset(self.cut))
        return self.view

    def kill(self, node_id: int) -> None:
        self.asked.append(("kill", node_id))
        self.dead.add(node_id)

    def restart(self, node_id: int, wait: bool = True) -> None:
        assert not wait, "a page may not wait for a node"
        self.asked.append(("restart", node_id))
        self.dead.discard(node_id)

    def disconnect(self, one: int, other: int) -> None:
        self.asked.append(("disconnect", one, other))
        self.cut |= {(one, other), (other, one)}

    def reconnect(self, one: int, other: int) -> None:
        if other == 3:
            raise ValueError("node <3> does not run")
        self.asked.append(("reconnect", one, other))
        self.cut -= {(one, other), (other, one)}


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture(scope="module")
def real() -> Iterator[pykraft.Cluster]:
    with pykraft.Cluster(nodes=3) as cluster:
        cluster.create_topic("orders")
        yield cluster


def recorder_of(cluster: Cluster) -> Recorder:
    return Recorder(lambda: Seen(cluster.describe()))


def test_without_a_reader_it_is_a_picture(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(board.live(cluster, title="Three nodes"), Figure)
    monkeypatch.setenv(HEADLESS, "1")
    assert isinstance(board.live(cluster), Figure)


def test_only_changes_are_kept_and_not_without_end(cluster: Cluster) -> None:
    recorder = recorder_of(cluster)
    assert not recorder.look()
    for number in range(MOST_FRAMES + 10):
        cluster.dead ^= {1}
        assert recorder.look()
        assert len(recorder.frames) == min(number + 2, MOST_FRAMES)
    cluster.cut = {(1, 2)}
    assert recorder.look()


def test_a_reader_at_the_newest_look_goes_on_and_one_who_looks_back_stays(cluster: Cluster) -> None:
    live = LiveBoard(cluster)
    live.click("kill 1")
    assert (live.shown, live._slider.max) == (1, 1)
    assert "✕ dead" in live._picture.value
    live._slider.value = 0
    assert "✕ dead" not in live._picture.value
    live.click("restart 1")
    assert (live.shown, live._slider.max) == (0, 2)
    assert "Seen 1 of 3" in live._status.value


def test_playing_looks_again(cluster: Cluster) -> None:
    live = LiveBoard(cluster)
    cluster.dead.add(2)
    live._play.value += 1
    assert (live.shown, len(live.recorder.frames)) == (1, 2)
    assert live._play.interval >= 400


def test_the_buttons_of_a_node_stand_under_its_card(cluster: Cluster) -> None:
    live = LiveBoard(cluster)
    columns = [[button.description for button in box.children] for box in live._cards.children]
    assert columns == [[f"✕ kill node {n}", f"✕ cut off node {n}"] for n in (1, 2, 3)]
    assert live._cards.layout.grid_template_columns == "repeat(3, 1fr)"
    order = list(live.widget.children)
    assert order.index(live._cards) == order.index(live._picture) + 1, "the legend is not between them"
    assert "high watermark: committed up to here" in live._legend.value
    assert "high watermark: committed up to here" not in live._picture.value


def test_a_button_kills_a_node_and_starts_it_again(cluster: Cluster) -> None:
    live = LiveBoard(cluster)
    live._nodes[2].click()
    assert live._nodes[2].description == "● start node 2" and live._offs[2].disabled
    assert "Node 2 was killed." in live._status.value
    live._nodes[2].click()
    assert live._nodes[2].description == "✕ kill node 2"
    assert cluster.asked == [("kill", 2), ("restart", 2)]


def test_buttons_cut_a_link_or_a_node_off_and_join_them_again(cluster: Cluster) -> None:
    live = LiveBoard(cluster)
    live._pair.value = "1 2"
    live._cuts["cut"].click()
    assert live._offs[1].description == "✕ cut off node 1", "node 3 still hears it"
    live._cuts["heal"].click()
    live._offs[2].click()
    assert [button.description for button in live._offs.values()] == [
        "✕ cut off node 1",
        "● join node 2",
        "✕ cut off node 3",
    ]
    assert live._play.playing, "what follows is to be seen"
    assert cluster.asked == [
        ("disconnect", 1, 2),
        ("reconnect", 1, 2),
        ("disconnect", 1, 2),
        ("disconnect", 2, 3),
    ]
    assert "Nothing gets through between 1 and 2, 2 and 3." in live._status.value


def test_what_does_not_work_is_told_beside_the_board(cluster: Cluster) -> None:
    live = LiveBoard(cluster)
    live.click("cut 1 3")
    live.click("heal 1 3")
    assert "That did not work: node &lt;3&gt; does not run" in live._status.value
    assert 'role="status" aria-live="polite"' in live._status.value


NO_CLICKS = {
    "fly": "'fly' is no click; a click begins with start, stop, kill, restart, cut, heal, wait",
    "kill nobody": "'nobody' is no node: say a node's id, leader, or leader of t-0",
    "kill 1 2": "'1 2' is no node: say a node's id, leader, or leader of t-0",
    "cut leader of t-0": "there is no partition 't-0'; there are flights-0, flights-1",
    "start fire": "'fire' is no client; there are producer, consumer",
    "start producer acks=2": "start producer acks=2: the only setting is the producer's acks=all or 1 or 0",
    "wait 5 records": "no record comes: start producer first",
    "wait long": "wait 'long': say 20 records, leader of t-0, diverging, or in sync",
}


@pytest.mark.parametrize("click", NO_CLICKS)
def test_a_click_that_there_is_not_says_what_there_is(click: str, cluster: Cluster) -> None:
    with pytest.raises(ValueError) as refusal:
        LiveClicks(cluster).click(click)
    assert str(refusal.value) == NO_CLICKS[click]


def test_what_never_comes_is_waited_for_up_to_a_deadline(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_clicks, "WAIT_S", 0.1)
    with pytest.raises(TimeoutError, match="still no: wait diverging"):
        LiveClicks(cluster).click("wait diverging")


def test_what_is_kept_of_it_where_there_is_no_page_is_its_text(cluster: Cluster) -> None:
    assert "Cluster of three nodes" in repr(LiveBoard(cluster))
    assert any("widget" in kind for kind in LiveBoard(cluster)._repr_mimebundle_())


def test_a_script_of_clicks_becomes_a_film_strip_of_what_happened(real: pykraft.Cluster) -> None:
    """The leader is cut off while records flow, with acks=1: it acknowledges records that no follower has."""
    figure = board.live(real, SCRIPT, title="A leader is cut off")
    assert isinstance(figure, Figure)
    assert list(complaints(figure)) == []
    assert figure.title == "A leader is cut off, in 4 pictures"
    one, two, three, four = figure.text.split("\n\n")[1:]
    assert "acknowledged 1" in one and "consumed" in one
    assert "cut: nothing gets" in two
    assert "◆ thinks it leads · epoch 0" in three and "about to be truncated" in three
    assert "torn" not in four and "loses" not in four and "all replicas are in sync" in four


def test_records_flow_while_the_reader_kills_the_leader(real: pykraft.Cluster) -> None:
    live = LiveBoard(real, topic="orders")
    try:
        live._flows["consumer"].value = True
        live._flows["producer"].value = True
        assert live._play.playing and live._flows["producer"].description == "■ stop producer"
        counts = live._clicks.flows["producer"].counts
        wait_until(lambda: counts["acknowledged"] > 0, "records are acknowledged")
        live.click("kill leader of orders-0; wait leader of orders-0; wait 5 records")
        assert live.said.endswith("5 more records were acknowledged.")
        wait_until(lambda: live._clicks.flows["consumer"].counts["consumed"] > 0, "records are consumed")
        live.look()
        assert "acknowledged" in live._picture.value and "consumed" in live._picture.value
        live._flows["producer"].value = False
        assert not live._clicks.is_on("producer")
        live.click("restart dead; wait in sync")
        assert live.said.endswith("all replicas are in sync.")
    finally:
        live.close()
    assert not any(flow.is_running for flow in live._clicks.flows.values())


def test_a_second_board_of_a_cluster_ends_the_clients_of_the_first(real: pykraft.Cluster) -> None:
    first = LiveBoard(real)
    first.click("start producer")
    assert first._clicks.is_on("producer")
    LiveBoard(real)
    assert not first._clicks.is_on("producer")


def test_the_script_is_also_a_button(cluster: Cluster) -> None:
    live = LiveBoard(cluster, ["kill 1", "restart 1"])
    assert live._script_button.description == "next: kill 1 ▶"
    assert live._script_button.button_style == "primary"
    live._script_button.click()
    live._script_button.click()
    assert cluster.asked == [("kill", 1), ("restart", 1)] and live._script_button.disabled


def test_when_the_cluster_is_closed_what_was_seen_stays_and_the_buttons_say_so() -> None:
    with pykraft.Cluster(nodes=1) as real:
        live = LiveBoard(real)
        live.click("kill 1")
        live.click("restart 1")
        seen = len(live.recorder.frames)
    live.click("restart 1")
    assert live.said == "That did not work: the cluster is closed: start another one"
    live.look()
    assert len(live.recorder.frames) - seen <= 1 and live.shown < len(live.recorder.frames)
