"""The scenes of the notebooks have what their text says of each moment."""

from __future__ import annotations

import pytest

from pykraft.course.rigs import stories
from pykraft.course.rigs.stories import acknowledged_records_gone, before_the_failure, deleted_at_ms, taken_over
from pykraft.story.story import Story
from tests.viz.player.rehearsals import rehearsal_of


@pytest.fixture(autouse=True)
def _simulated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The notebooks' own numbers come from the scenes that other tests look at, too."""
    monkeypatch.setattr(stories, "_rehearsal", rehearsal_of)


def at_moments(name: str) -> tuple[Story, list[int]]:
    """The story of a scene, and the steps of its moments."""
    rehearsal = rehearsal_of(name)
    return rehearsal.story, rehearsal.moments()


def ends(story: Story, step: int, topic: str = "t") -> dict[int, tuple[int, int]]:
    """Log end offset and high watermark of each replica."""
    replicas = story.view_at(step).replicas(topic, 0)
    return {node: (each.log_end_offset, each.high_watermark) for node, each in replicas.items()}


def test_in_11_the_record_is_on_one_node_then_on_two_and_committed_before_the_followers_know() -> None:
    story, steps = at_moments("one-record")
    leader = story.view_at(steps[0]).leader("t", 0)
    assert leader == 3
    first, second, third = (ends(story, step) for step in steps)
    assert first == {1: (4, 4), 2: (4, 4), 3: (5, 4)}
    assert second == {1: (5, 4), 2: (4, 4), 3: (5, 4)}
    assert third == {1: (5, 4), 2: (5, 4), 3: (5, 5)}


def test_in_12_node_3_truncates_what_acks_1_had_acknowledged_and_with_acks_all_nothing_is_gone() -> None:
    rehearsal = rehearsal_of("leader-returns")
    ((lane, *_, acknowledged, _),) = rehearsal.film()["scars"]
    assert lane == 3 and acknowledged == acknowledged_records_gone("leader-returns") == 5
    said = [rehearsal.said_at(step) for step in rehearsal.moments()]
    assert said[0] == "crash: node 3 ends" and "elected" in said[1] and said[2].startswith("node 3 truncates t-0")
    assert acknowledged_records_gone("all-in-sync") == 0


def test_in_17_the_next_reader_begins_where_the_group_has_committed_and_reads_a_record_again() -> None:
    assert taken_over("group") == (4, 3, 3)


def test_in_20_the_same_segment_goes_within_163_ms_and_a_batch_without_records_has_61_bytes() -> None:
    times = deleted_at_ms("retention")
    assert times.keys() == {1, 2, 3} and max(times.values()) - min(times.values()) == 163
    film = rehearsal_of("compaction").film()
    sizes = {segment[1] for _, _, segments in film["segments"] for segment in segments if segment[2] == "clean"}
    assert min(sizes) == 61


def test_in_13_both_ask_then_both_refuse_and_the_next_epoch_has_a_leader() -> None:
    story, steps = at_moments("split-vote")
    roles = [{n.quorum.role for n in story.view_at(step).nodes.values() if n.is_alive} for step in steps]
    assert roles[0] == {"prospective"} and roles[1] == {"candidate"} and "leader" in roles[2]
    assert [max(n.quorum.epoch for n in story.view_at(step).alive) for step in steps] == [1, 2, 3]


def test_in_14_node_3_thinks_that_it_leads_while_another_broker_leads() -> None:
    story, (out, back) = at_moments("old-image")
    view = story.view_at(out)
    assert 3 in view.fenced_brokers and view.leader("t", 0) != 3
    old = view.nodes[3].partition("t", 0)
    assert old is not None and old.leader_id == 3
    assert view.nodes[3].metadata_offset < view.nodes[2].metadata_offset
    assert story.view_at(back).isr("t", 0) == {1, 2, 3}


def test_in_18_the_lost_answer_is_repeated_and_appends_nothing() -> None:
    story, (lost, again, heard) = at_moments("lost-answer")
    assert "Produce response from node 3 to producer-0 is lost" in story.what_at(lost)
    assert ends(story, again)[3] == ends(story, heard)[3] == (5, 5)
    assert story.what_at(heard).endswith("t-0, at offset 4")


def test_in_19_the_coordinators_successor_writes_the_marker_that_was_lost() -> None:
    story, (lost, sent, written) = at_moments("lost-marker")
    assert not story.view_at(lost).nodes[3].is_alive
    assert "node 2 receives the WriteTxnMarkers request of node 1" in story.what_at(sent)
    leader = story.view_at(lost).nodes[2].partition("bank", 0)
    assert leader is not None and leader.last_stable_offset == 0 < leader.high_watermark
    leader = story.view_at(written).nodes[2].partition("bank", 0)
    assert leader is not None and leader.last_stable_offset == leader.high_watermark == 7


def test_a_story_can_be_taken_right_before_the_failure_of_its_scene() -> None:
    story = before_the_failure("lost-answer")
    mark = story.next("fault")
    assert mark is not None and mark.text == "message omission: Produce response from node 3 to producer-0 is lost"
