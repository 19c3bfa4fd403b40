"""A story shows its steps in any order; an intervention makes a branch, which is the same on every run."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from pykraft.sim.cluster import SimulatedCluster
from pykraft.sim.interventions import Impossible, Kill
from pykraft.sim.laws.invariants import Violation
from pykraft.sim.trouble.knobs import draw
from pykraft.simulation import Simulation
from pykraft.story.marks import KINDS
from pykraft.story.story import Story
from pykraft.story.views import cluster_view
from tests.harness.speed import slowness

SEED = 16
"""A short story in which much happens."""


@pytest.fixture(scope="module")
def whole() -> Story:
    return Simulation(SEED).story()


@pytest.fixture
def story() -> Story:
    """Not looked at yet."""
    return Story.begin(SEED, draw(SEED), {})


def test_a_step_shows_what_a_run_up_to_there_shows(whole: Story) -> None:
    simulation = Simulation(SEED)
    for step in (0, 1, 400, 1_234, whole.last_step):
        assert whole.at(step) == cluster_view(simulation.at(step))
    assert simulation.run().digest == whole.digest


def test_steps_are_reached_in_any_order(whole: Story) -> None:
    views = {step: whole.at(step) for step in (900, 300, 1_500, 0)}
    assert {step: whole.at(step) for step in views} == views
    assert whole.step == 0


def test_watching_changes_no_history(whole: Story) -> None:
    whole.at(whole.last_step)
    assert whole.digest == SimulatedCluster(SEED).run().digest


def test_the_marks_are_where_something_happened(whole: Story) -> None:
    kinds = {mark.kind for mark in whole.marks}
    assert {"election", "commit", "truncation", "isr", "fault", "crash", "restart"} <= kinds <= set(KINDS)
    whole.at(0)
    mark = whole.next("election")
    assert mark is not None
    assert mark.node == whole.view.active_controller
    assert f"node {mark.node} is elected active controller, epoch 1" in mark.text
    crash = whole.next("crash")
    assert crash is not None and crash.node is not None
    assert not whole.view.nodes[crash.node].is_alive
    assert crash.text == f"crash: node {crash.node} ends"
    assert whole.previous("election") is not None
    assert whole.step < crash.step


def test_a_commit_is_where_a_leaders_high_watermark_moves(whole: Story) -> None:
    whole.at(0)
    while (mark := whole.next("commit")) is not None and "t-0" not in mark.text:
        pass
    assert mark is not None
    before = whole.view_at(mark.step - 1).high_watermark("t", 0)
    assert before < whole.view.high_watermark("t", 0)
    assert mark.text == f"t-0 is committed up to offset {whole.view.high_watermark('t', 0)}"


def test_a_truncation_takes_records_from_a_log(whole: Story) -> None:
    whole.at(0)
    mark = whole.next("truncation")
    assert mark is not None and mark.node is not None
    before, after = whole.view_at(mark.step - 1).nodes[mark.node], whole.view.nodes[mark.node]
    ends = [{view.topic_partition: view.log_end_offset for view in node.partitions} for node in (before, after)]
    metadata = before.quorum.log_end_offset > after.quorum.log_end_offset
    assert metadata or any(ends[1][key] < end for key, end in ends[0].items() if key in ends[1])


def test_there_is_no_next_mark_at_the_end(whole: Story) -> None:
    whole.at(whole.last_step)
    assert whole.next() is None
    assert whole.next("election") is None
    assert whole.step == whole.last_step
    with pytest.raises(ValueError, match="this history ends with step"):
        whole.at(whole.last_step + 1)
    with pytest.raises(ValueError, match="'party' is no kind of mark; there are event, election, commit"):
        whole.next("party")


def test_the_next_message_to_a_node_arrives_there(whole: Story) -> None:
    whole.at(500)
    mark = whole.next_message(2)
    assert mark is not None
    assert mark.text.startswith("node 2 receives the ")
    assert whole.what == mark.text


# --- stepping into it -------------------------------------------------------------------------------------------------


def test_what_you_do_makes_a_branch_and_the_original_stays(whole: Story) -> None:
    whole.at(900)
    view, digest = whole.view, whole.digest
    leader = view.active_controller
    assert leader is not None
    branch = whole.kill(leader)
    assert branch is not whole
    assert (branch.name, branch.parent, branch.forked_at) == (branch.name, whole, 900)
    assert branch.interventions == {901: Kill(leader)}
    assert not branch.view.nodes[leader].is_alive
    assert branch.next("election") is not None
    assert branch.view.active_controller not in (leader, None)
    assert (whole.step, whole.view, whole.digest) == (900, view, digest)
    busy = next(step for step in range(700, 0, -1) if whole.frames(step))
    assert branch.frames(busy) == whole.frames(busy)
    beside = branch.beside()
    assert beside is not None
    original, step = beside
    assert original is whole
    assert whole.view_at(step).time_ms <= branch.view.time_ms <= whole.view_at(step + 1).time_ms


def test_until_goes_to_the_next_step_whose_sentence_has_the_words(whole: Story) -> None:
    whole.at(0)
    mark = whole.until("produce REQUEST")
    assert mark is not None and mark.step == whole.step
    assert "receives the Produce request of producer-" in whole.what
    assert not any("Produce request" in whole.what_at(step) for step in range(mark.step))
    assert whole.until("no such word") is None
    assert whole.step == mark.step


def test_you_go_on_in_a_branch_as_long_as_you_act_at_its_end(whole: Story) -> None:
    whole.at(700)
    branch = whole.kill(1)
    branch.next("commit")
    second = branch.restart(1)
    assert second is branch
    branch.at(705)
    third = branch.cut(2, 3)
    assert third is not branch
    assert third.parent is branch
    assert len(branch.interventions) == 2
    assert {**third.interventions}.keys() == {701, 706}


def test_a_branch_is_a_seed_and_what_was_done_in_which_step(whole: Story) -> None:
    whole.at(800)
    branch = whole.kill(3)
    branch.next("commit")
    branch.at(branch.step + 40)
    if branch.messages:
        branch.drop(branch.messages[0])
    branch.cut(1, 2)
    branch.at(branch.step + 100)
    branch.heal(1, 2)
    branch.at(branch.step + 200)
    again = Story.begin(SEED, draw(SEED), branch.interventions)
    again.at(branch.step)
    assert again.digest == branch.digest
    assert again.view == branch.view
    assert again.marks == branch.marks
    assert branch.digest != whole.digest


def test_what_is_done_at_the_end_of_a_story_is_played_again_too(whole: Story) -> None:
    whole.at(whole.last_step)
    branch = whole.kill(1)
    branch.at(branch.step + 30)
    again = Story.begin(SEED, draw(SEED), branch.interventions)
    again.at(branch.step)
    assert again.digest == branch.digest


def test_a_fork_without_a_deed_goes_on_like_the_original(story: Story) -> None:
    story.at(300)
    fork = story.fork("a second look")
    fork.at(600)
    story.at(600)
    assert fork.digest == story.digest
    assert set(story.branches) == {"original", "a second look"}
    with pytest.raises(ValueError, match="there is a story named 'a second look' already"):
        story.fork("a second look")


def test_a_message_that_is_dropped_does_not_arrive_in_the_branch(story: Story) -> None:
    story.at(700)
    while not story.messages:
        story.next()
    message = story.messages[-1]
    branch = story.drop(message)
    assert message not in branch.messages
    assert (
        branch.what
        == f"you drop {message.name} {'response' if message.is_response else 'request'} from "
        + (str(message).partition(" from ")[2].partition(":")[0])
    )
    delivered = story.deliver(message)
    assert message not in delivered.messages
    delayed = story.delay(message, 25)
    late = next(each for each in delayed.messages if each.id == message.id)
    assert late.due_ms == message.due_ms + 25
    assert len({branch.name, delivered.name, delayed.name}) == 3


def test_what_cannot_be_done_makes_no_branch(story: Story) -> None:
    story.at(500)
    with pytest.raises(Impossible, match="there is no node 7"):
        story.kill(7)
    assert list(story.branches) == ["original"]
    assert story.kill(2).view.nodes[2].is_alive is False


def test_a_broken_law_is_shown_and_ends_the_history(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    story.at(500)
    branch = story.kill(2)

    def broken(*_: object) -> None:
        raise Violation("an image may not be looked at")

    monkeypatch.setattr("pykraft.sim.laws.watcher.check_image", broken)
    branch.run()
    assert branch.is_over
    assert branch.failure == "Violation: an image may not be looked at"
    branch.at(branch.last_step)
    assert "A LAW IS BROKEN" in repr(branch)
    assert branch.marks[-1].kind == "law"
    assert branch.view.nodes[1].node_id == 1
    with pytest.raises(Impossible, match="go back before you act"):
        branch.kill(1)
    monkeypatch.undo()
    branch.at(501)
    assert branch.restart(2).failure is None


# --- what a step did --------------------------------------------------------------------------------------------------


def test_a_step_tells_which_lines_ran(whole: Story) -> None:
    whole.at(0)
    election = whole.next("election")
    assert election is not None
    ran = whole.lines()
    assert ran.is_complete
    by_name = {call.function: call for call in ran}
    call = by_name["QuorumState.become_leader"]
    assert call.path == "pykraft/raft/quorum_state.py"
    assert call.first_line <= min(call.lines)
    assert not any(call.path.startswith(("pykraft/sim/", "pykraft/protocol/")) for call in ran)
    assert f"> {call.lines[0]:>4} " in ran.source(most_lines=10_000)
    assert len(whole.lines(with_plumbing=True)) > len(ran)


def test_a_step_tells_which_frames_came_and_went(whole: Story) -> None:
    whole.at(400)
    while not whole.what.startswith("node 1 receives the Fetch request of node"):
        assert whole.next() is not None
    arrived, *_ = whole.frames()
    assert (arrived.name, arrived.is_response, arrived.receiver) == ("Fetch", False, "node-1")
    assert "maxWaitMs: " in arrived.tree()


# --- quick enough to play with ----------------------------------------------------------------------------------------


def cpu_seconds(action: Callable[[], object]) -> float:
    before = time.process_time()
    action()
    return time.process_time() - before


def test_a_step_of_5000_events_appears_within_half_a_second() -> None:
    """The clock of the processor counts: others may be at work on the machine. On a slower one it is that much more."""
    enough_s = 0.5 * slowness()
    seed = 39
    story = Story.begin(seed, draw(seed), {})
    story.at(5_000)
    story.prepare()
    assert cpu_seconds(lambda: [str(story.at(step)) for step in (4_999, 17, 2_500, 5_000)]) < enough_s
    story.at(4_900)
    assert cpu_seconds(lambda: str(story.kill(2).view)) < enough_s
    story.prepare()
    assert cpu_seconds(lambda: str(story.lines(4_000))) < enough_s
