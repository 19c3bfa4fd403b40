"""The board with buttons, pressed without a screen: each look is kept, each button does what it says."""

from __future__ import annotations

from dataclasses import replace

import pytest

import pykraft
from pykraft.cluster_view import ClusterView
from pykraft.course.surroundings import HEADLESS
from pykraft.viz import Figure, board
from pykraft.viz.live import MOST_FRAMES, LiveBoard, Recorder
from tests.viz.views import healthy


class Cluster:
    """A cluster that is told what to look like, and remembers what was asked of it."""

    def __init__(self) -> None:
        self.view = healthy()
        self.node_ids = sorted(self.view.nodes)
        self.dead: set[int] = set()
        self.asked: list[tuple[object, ...]] = []

    @property
    def alive(self) -> list[int]:
        return [node_id for node_id in self.node_ids if node_id not in self.dead]

    def describe(self) -> ClusterView:
        nodes = {n: node._replace(is_alive=n not in self.dead) for n, node in self.view.nodes.items()}
        self.view = replace(self.view, nodes=nodes, time_ms=self.view.time_ms + 100)
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

    def reconnect(self, one: int, other: int) -> None:
        if other == 3:
            raise ValueError("node <3> does not run")
        self.asked.append(("reconnect", one, other))


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def test_where_nobody_sits_in_front_it_is_a_picture(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(board.live(cluster, title="Three nodes"), Figure)
    monkeypatch.setenv(HEADLESS, "1")
    assert isinstance(board.live(cluster), Figure)


def test_only_changes_are_kept_and_not_without_end(cluster: Cluster) -> None:
    recorder = Recorder(cluster)
    assert not recorder.look()
    for number in range(MOST_FRAMES + 10):
        cluster.dead ^= {1}
        assert recorder.look()
        assert len(recorder.frames) == min(number + 2, MOST_FRAMES)


def test_who_looks_at_the_newest_goes_on_and_who_looks_back_stays(cluster: Cluster) -> None:
    live = LiveBoard(cluster)
    live.press_node(1)
    assert (live.shown, live._slider.max) == (1, 1)
    assert "✕" in live._picture.value
    live._slider.value = 0
    assert "✕" not in live._picture.value
    live.press_node(1)
    assert (live.shown, live._slider.max) == (0, 2)
    assert "Seen 1 of 3" in live._status.value


def test_playing_looks_again(cluster: Cluster) -> None:
    live = LiveBoard(cluster)
    cluster.dead.add(2)
    live._play.value += 1
    assert (live.shown, len(live.recorder.frames)) == (1, 2)
    assert live._play.interval >= 400


def test_a_button_kills_a_node_and_starts_it_again(cluster: Cluster) -> None:
    live = LiveBoard(cluster)
    live._nodes[2].click()
    assert live._nodes[2].description == "● start node 2"
    assert "Node 2 was killed." in live._status.value
    live._nodes[2].click()
    assert live._nodes[2].description == "✕ kill node 2"
    assert cluster.asked == [("kill", 2), ("restart", 2)]


def test_a_button_cuts_two_nodes_apart_and_joins_them(cluster: Cluster) -> None:
    live = LiveBoard(cluster)
    live._pairs[1, 2].click()
    assert live.cut == {(1, 2)} and live._pairs[1, 2].description.startswith("join 1")
    live._pairs[1, 2].click()
    assert not live.cut and live._pairs[1, 2].description.startswith("cut 1")
    assert cluster.asked == [("disconnect", 1, 2), ("reconnect", 1, 2)]
    live._pairs[1, 2].click()
    live._nodes[1].click()
    assert not live.cut and live._pairs[1, 2].disabled and not live._pairs[2, 3].disabled


def test_what_does_not_work_is_told_beside_the_board(cluster: Cluster) -> None:
    live = LiveBoard(cluster)
    live._pairs[1, 3].click()
    live._pairs[1, 3].click()
    assert "That did not work: node &lt;3&gt; does not run" in live._status.value


def test_what_is_kept_of_it_where_there_is_no_page_is_its_text(cluster: Cluster) -> None:
    assert "Cluster of three nodes" in repr(LiveBoard(cluster))
    assert any("widget" in kind for kind in LiveBoard(cluster)._repr_mimebundle_())


def test_when_the_cluster_is_closed_what_was_seen_stays_and_the_buttons_say_so() -> None:
    with pykraft.Cluster(nodes=1) as real:
        board = LiveBoard(real)
        board.press_node(1)
        board.press_node(1)
        seen = len(board.recorder.frames)
    board.press_node(1)
    assert board.said == "That did not work: the cluster is closed: start another one"
    board.look()
    assert len(board.recorder.frames) - seen <= 1 and board.shown < len(board.recorder.frames)
