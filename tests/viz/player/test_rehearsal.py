"""What the player plays: a film is plain data of a history, and what a reader does is a branch that a link replays."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from pykraft import __version__
from pykraft.cluster_view import ClusterView
from pykraft.common.types import TopicPartition
from pykraft.sim.interventions import Impossible
from pykraft.story.links import Link, UnknownHistory
from pykraft.story.scenes import SCENES
from pykraft.story.story import Story
from pykraft.viz.player.acts import Rehearsal
from pykraft.viz.player.film_data import first_difference
from pykraft.viz.player.words import in_words, outcome_in_words
from tests.viz.player.rehearsals import rehearsal_of

CUT_MS = 4_500
PARTITION = TopicPartition("t", 0)


@pytest.fixture(scope="module")
def scene() -> Rehearsal:
    return Rehearsal("first-loss")


@pytest.fixture(scope="module")
def original(scene: Rehearsal) -> dict[str, Any]:
    return scene.data()


@pytest.fixture
def rehearsal(scene: Rehearsal) -> Iterator[Rehearsal]:
    """The scene; what a test does in it is taken back."""
    yield scene
    while scene.before is not None:
        scene.act("undo", 0)


def view_after(story: Story, ms: float) -> ClusterView:
    story.run_until(ms + 1)
    return story.view_at(story.step_at(ms))


def gone(film: dict[str, Any]) -> int:
    _, acknowledged, surviving = film["losses"][-1]
    return int(acknowledged - surviving)


def flying(film: dict[str, Any], ms: float, kind: str, is_response: bool) -> list[Any]:
    rows = [row for row in film["messages"] if row[3] == kind and row[5] == is_response]
    return next(row for row in rows if row[7] <= ms < row[9])


def test_a_film_is_plain_data_and_opens_one_second_before_the_failure(original: dict[str, Any]) -> None:
    film = original["film"]
    assert json.loads(json.dumps(original)) == original
    assert original["open"] == CUT_MS - 1_000 >= film["from"]
    first_fault = next(mark for mark in film["marks"] if mark[1] == "fault")
    assert first_fault[0] == CUT_MS
    assert film["to"] == 9_500


def test_every_message_is_sent_before_it_ends_and_goes_between_hosts_of_the_film(original: dict[str, Any]) -> None:
    film = original["film"]
    hosts = {host[0] for host in film["hosts"]}
    assert {"produce", "fetch", "quorum", "background"} <= {row[3] for row in film["messages"]}
    for row in film["messages"]:
        assert row[1] in hosts and row[2] in hosts and row[1] != row[2]
        assert row[9] is None or row[7] <= row[9]
        assert (row[10] == "under way") == (row[9] is None)


def test_what_a_cut_link_holds_back_is_due_at_no_time_until_the_link_heals(original: dict[str, Any]) -> None:
    held = [row for row in original["film"]["messages"] if any(due is None for _, due in row[8])]
    assert held
    healed = [row for row in held if row[8][-1][1] is not None]
    assert healed, "some wait for the end of the partition"
    assert all(row[8][-1][0] >= 7_500 for row in healed)


def test_acknowledged_records_that_the_new_leader_lacks_are_gone_and_their_scar_says_where_they_were(
    original: dict[str, Any], rehearsal: Rehearsal
) -> None:
    film = original["film"]
    leader_end = _leader_end(rehearsal.story, 9_500)
    _, acknowledged, surviving = film["losses"][-1]
    assert surviving <= leader_end < acknowledged
    assert gone(film) == max(scar[4] for scar in film["scars"]) > 50
    assert f"{gone(film)} acknowledged records are gone" in outcome_in_words(film)
    before = [row for row in film["losses"] if row[0] < CUT_MS]
    assert all(row[1] == row[2] for row in before), "nothing is lost before the failure"


def test_with_acks_all_the_same_failure_loses_nothing() -> None:
    assert gone(rehearsal_of("all-in-sync").film()) == 0


def test_a_timer_ends_when_it_is_set_again_or_runs_out(original: dict[str, Any]) -> None:
    timers = original["film"]["timers"]
    assert {row[1] for row in timers} >= {"fetch", "session"}
    assert all(row[2] <= row[3] for row in timers)
    assert all(row[4] is None or row[2] <= row[4] for row in timers)


def test_a_dropped_fetch_delays_the_records_on_it(original: dict[str, Any], rehearsal: Rehearsal) -> None:
    message = flying(original["film"], 4_000, "fetch", is_response=True)
    assert rehearsal.act(f"drop {message[0]}", 4_000) == ""
    data = rehearsal.data()
    assert next(row for row in data["film"]["messages"] if row[0] == message[0])[10] == "lost"
    assert data["difference"] is not None and data["difference"][0] > data["fork"]
    assert data["before"] == original["film"], "the branch before is shown beside it"
    assert "you drop Fetch response" in data["branch"]
    rehearsal.act("undo", 0)
    assert rehearsal.data()["film"] == original["film"]


def test_a_duplicated_produce_request_is_appended_twice_without_idempotence(
    original: dict[str, Any], rehearsal: Rehearsal
) -> None:
    message = next(
        row
        for row in original["film"]["messages"]
        if row[3] == "produce" and not row[5] and "acks 1" in row[6] and row[7] <= 4_000 < row[9]
    )
    rehearsal.act(f"duplicate {message[0]} 200", 4_000)
    ghost = next(row for row in rehearsal.film()["messages"] if row[0] == -message[0])
    assert ghost[6].startswith("once more") and ghost[9] - ghost[7] == pytest.approx(200)
    before, after = (_leader_end(rehearsal.story, ghost[9] + ms) for ms in (-0.001, 0.001))
    assert after == before + 1


def _leader_end(story: Story, ms: float) -> int:
    view = view_after(story, ms)
    leader = view.leader("t", 0)
    assert leader is not None
    return view.replicas("t", 0)[leader].log_end_offset


def test_a_response_cannot_be_duplicated(original: dict[str, Any], rehearsal: Rehearsal) -> None:
    message = flying(original["film"], 4_000, "fetch", is_response=True)
    assert "only a request" in rehearsal.act(f"duplicate {message[0]} 200", 4_000)
    assert rehearsal.data()["film"] == original["film"], "nothing has changed"


def test_a_timer_that_fires_now_brings_the_election_forward(original: dict[str, Any], rehearsal: Rehearsal) -> None:
    story = rehearsal.story
    follower = next(timer.host for timer in story.timers_at(story.step_at(CUT_MS + 100)) if timer.kind == "fetch")
    assert "no election timer" in rehearsal.act(f"fire {follower} election", CUT_MS + 100)
    assert rehearsal.act(f"fire {follower} fetch", CUT_MS + 100) == ""
    branch = rehearsal.story
    roles = [branch.view_at(step).nodes[follower].quorum.role for step in (branch.forked_at, branch.forked_at + 1)]
    assert roles[0] == "follower" and roles[1] != "follower"


def test_a_session_that_ends_now_fences_its_broker(rehearsal: Rehearsal) -> None:
    active = view_after(rehearsal.story, 4_000).active_controller
    broker = next(node for node in (1, 2, 3) if node != active)
    assert rehearsal.act(f"fire {broker} session", 4_000) == ""
    story = rehearsal.story.run_until(4_500)
    steps = range(story.forked_at, story.last_step)
    assert broker not in story.view_at(story.forked_at).fenced_brokers
    assert any(broker in story.view_at(step).fenced_brokers for step in steps)


def test_a_node_that_is_cut_off_is_cut_from_every_other_and_healed_again(rehearsal: Rehearsal) -> None:
    rehearsal.act("cut 2", 4_000)
    view = view_after(rehearsal.story, 4_100)
    assert view.is_cut(2, 1) and view.is_cut(2, 3)
    rehearsal.act("heal 2", 4_200)
    assert not view_after(rehearsal.story, 4_300).cut_links
    assert "no link to heal" in rehearsal.act("heal 2", 4_300)


def test_what_arrives_in_a_branch_was_on_its_way_there(rehearsal: Rehearsal) -> None:
    rehearsal.act("kill 3", 4_000)
    story = rehearsal.story.run_until(4_300)
    sent: set[int] = set()
    for step in range(story.last_step + 1):
        arrived = story.arrived_at(step)
        assert arrived is None or arrived.number in sent, f"{arrived} is a message of the branch that was left"
        sent |= {message.id for message in story.messages_at(step)}


@pytest.mark.parametrize("words", ["", "jump 3", "drop", "drop 3 4", "kill 1 2", "fire 2"])
def test_what_is_no_act_is_said_to_be_none(rehearsal: Rehearsal, words: str) -> None:
    assert "no act" in rehearsal.act(words, 4_000)
    assert rehearsal.before is None


def test_a_link_replays_what_was_done_to_the_last_byte(rehearsal: Rehearsal) -> None:
    rehearsal.act("kill 2", 2_300)
    rehearsal.act("restart 2", 2_500)
    link, story = str(rehearsal.link), rehearsal.story
    story.run_until(2_800)
    story.at(story.last_step)
    other = Link.parse(link).replay(Story)
    other.run_until(story.time_ms)
    other.at(story.last_step)
    assert link.startswith(f"pykraft/{__version__}/first-loss/7/") and ".kill.2/" in link
    assert other.digest == story.digest


@pytest.mark.parametrize(
    ("link", "words"),
    [
        ("pykraft/9.9.9/first-loss/7", f"recorded by pykraft 9.9.9, and this is pykraft {__version__}"),
        ("hello", "is no history"),
        (f"pykraft/{__version__}/nowhere/7", "no scene"),
        (f"pykraft/{__version__}/first-loss/7/12.jump.3", "is no act"),
        (f"pykraft/{__version__}/first-loss/7/12.kill", "is no act"),
        (f"pykraft/{__version__}/first-loss/7/12.kill.1.2", "kill has other objects"),
    ],
)
def test_a_line_that_cannot_be_replayed_is_refused_in_one_sentence(link: str, words: str, rehearsal: Rehearsal) -> None:
    with pytest.raises(UnknownHistory, match=words.replace(".", r"\.")):
        Link.parse(link)
    assert words in rehearsal.act(f"replay {link}", 0)
    assert rehearsal.before is None


def test_an_act_that_is_impossible_when_it_is_replayed_says_why() -> None:
    with pytest.raises(Impossible):
        Link.parse(f"pykraft/{__version__}/first-loss/7/90.restart.1").replay(Story)


def test_more_goes_on_two_seconds_and_not_further(rehearsal: Rehearsal, original: dict[str, Any]) -> None:
    rehearsal.act("more", 0)
    assert rehearsal.film()["to"] == original["film"]["to"] + 2_000


def test_the_first_difference_is_the_first_mark_that_one_branch_lacks() -> None:
    here = {"marks": [[1.0, "you", "a", None], [1.0, "crash", "b", 1], [5.0, "election", "c", 1]]}
    there = {"marks": [[3.0, "election", "d", 2], [5.0, "election", "c", 1]]}
    assert first_difference(here, there, 1.0) == [3.0, "election", "d", 2]
    assert first_difference(here, here, 1.0) is None


def test_the_words_of_a_player_have_what_its_picture_shows(original: dict[str, Any]) -> None:
    text = in_words(original)
    assert "4,500 ms: network partition" in text and "acknowledged records are gone" in text
    assert original["link"] in text


def test_an_election_is_a_scene_like_any_other() -> None:
    rehearsal = Rehearsal("new-controller")
    film = rehearsal.film()
    killed = next(mark for mark in film["marks"] if mark[1] == "crash")
    elected = next(mark for mark in film["marks"] if mark[1] == "election" and "active controller" in mark[2])
    assert killed[0] == CUT_MS < elected[0] and killed[3] != elected[3]
    votes = [row for row in film["messages"] if row[4] == "Vote" and row[7] >= CUT_MS]
    assert any(row[5] and "granted" in row[6] for row in votes)
    assert any(row[1] == "election" and row[2] > CUT_MS for row in film["timers"]) or votes
    assert gone(film) == 0
    assert {"first-loss", "all-in-sync", "new-controller"} <= set(SCENES)
