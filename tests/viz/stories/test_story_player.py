"""The player's buttons do what they say, also without a screen; what it shows can be read in words."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from pykraft.sim.interventions import Impossible, Kill
from pykraft.simulation import Simulation
from pykraft.story.marks import Mark
from pykraft.story.story import Story
from pykraft.surroundings import HEADLESS
from pykraft.viz import Figure
from pykraft.viz.drawing.svg import overlaps
from pykraft.viz.stories.story_clicks import StoryClicks
from pykraft.viz.stories.story_frames import LABELS, WIDTH, count_marks, lanes
from pykraft.viz.stories.story_player import StoryPlayer, film_strip

SEED = 16


@pytest.fixture(scope="module")
def recorded() -> Story:
    return Simulation(SEED).story()


@pytest.fixture
def story(recorded: Story) -> Story:
    recorded.at(0)
    return recorded


# --- clicks -----------------------------------------------------------------------------------------------------------


def test_clicks_move_and_say_where(story: Story) -> None:
    clicks = StoryClicks(story)
    clicks.click("next election")
    assert re.fullmatch(r"step \d+: node \d is elected active controller, epoch 1", clicks.said)
    step = story.step
    clicks.click("next")
    assert story.step == step + 1
    clicks.click("previous")
    assert story.step == step
    clicks.click("at 1,000")
    assert story.step == 1_000
    clicks.click("previous truncation")
    assert clicks.said == "there is no truncation before step 1,000" or story.step < 1_000


def test_the_leader_can_be_killed_without_knowing_which_node_it_is(story: Story) -> None:
    clicks = StoryClicks(story)
    clicks.click("at 900")
    controller, leader = story.view.active_controller, story.view.leader("t", 0)
    clicks.click("kill leader")
    assert list(clicks.story.interventions.values()) == [Kill(controller or 0)]
    assert clicks.said.endswith(f"you kill node {controller} ({clicks.story.name} begins)")
    clicks.click("story original")
    assert clicks.story is story
    clicks.click("kill leader of t-0")
    assert list(clicks.story.interventions.values()) == [Kill(leader or 0)]


def test_a_message_is_named_by_its_words(story: Story) -> None:
    clicks = StoryClicks(story)
    clicks.click("at 900")
    while not any(message.name == "Fetch" and message.is_response for message in story.messages):
        clicks.click("next")
    clicks.click("delay fetch response 100")
    assert re.search(r"you delay Fetch response from node \d to .* by 100 ms", clicks.said)
    clicks.click("drop Fetch response")
    assert re.search(r"you drop Fetch response from node \d", clicks.said)
    assert len(clicks.story.interventions) == 2


def test_one_node_can_be_cut_off_and_all_links_healed(story: Story) -> None:
    clicks = StoryClicks(story)
    clicks.click("at 900; cut 2")
    assert clicks.story.view.cut_links == {(2, 1), (1, 2), (2, 3), (3, 2)}
    step, name = clicks.story.step, clicks.story.name
    assert clicks.said == f"step {step}: you cut node 2 and node 1, node 2 and node 3 ({name} begins)"
    clicks.click("next; heal")
    assert not clicks.story.view.cut_links


@pytest.mark.parametrize(
    ("click", "why"),
    [
        ("explode", "'explode' is no click; a click begins with next, previous, at, until"),
        ("next party", "'party' is no kind of mark"),
        ("at noon", "at noon: a step is a number"),
        ("kill everything", "'everything' is no node: say a node's id, leader, or leader of t-0"),
        ("kill leader of x-9", "there is no partition 'x-9' at step 900; there are t-0"),
        ("kill 9", "there is no node 9"),
        ("cut 1 9", "there is no node 9"),
        ("heal", "there is no link to cut or to heal"),
        ("deliver Nothing", "no message on its way at step 900 has the words 'Nothing'"),
        ("delay Fetch soon", "the last word is the number of milliseconds"),
        ("story of my life", "there is no story 'of my life'; there are original"),
    ],
)
def test_a_click_that_does_not_work_says_why(story: Story, click: str, why: str) -> None:
    story.at(900)
    with pytest.raises((ValueError, Impossible), match=re.escape(why)):
        StoryClicks(story).click(click)


# --- pictures ---------------------------------------------------------------------------------------------------------


def test_a_script_becomes_a_film_strip(story: Story) -> None:
    story.at(700)  # the first picture has every sign that the other two have
    figure = film_strip(story, ["next commit", "kill leader", "next election"])
    assert isinstance(figure, Figure)
    tree = ElementTree.fromstring(figure.svg)
    drawings = [element for element in tree if element.tag.endswith("svg")]
    assert len(drawings) == 3
    assert not overlaps(figure.boxes)
    assert figure.text.startswith(f"A story of seed {SEED} in 3 pictures\n\n1  next commit → step ")
    assert "✕ dead" in figure.text
    narrow = film_strip(story, ["next commit", "kill leader", "next election"], columns=2)
    assert narrow.height < figure.height
    assert figure.svg.count("high watermark: committed up to here") == 1, "one legend is enough"


def test_without_a_page_the_story_shows_a_picture(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HEADLESS, "1")
    story.at(900)
    bundle = story._repr_mimebundle_()
    assert set(bundle) == {"text/html", "image/svg+xml", "text/plain"}
    assert "step 900 of" in bundle["text/plain"]


def test_a_mark_stands_in_the_lane_of_its_kind_where_its_step_is() -> None:
    marks = [Mark(500, "election", "x"), Mark(0, "commit", "x"), Mark(1_000, "commit", "x")]
    svg = lanes(marks, 1_000, 250)
    assert [box.text for box in svg.boxes] == ["election", "commit"]
    places = [float(x) + 1 for part in svg.parts if (x := _attribute(part, "x")) and part.startswith("<rect")]
    assert places == [LABELS + (WIDTH - LABELS) / 2, LABELS, WIDTH]
    assert count_marks(marks) == "1 election, 2 commits"
    assert count_marks([]) == "no marks"


def _attribute(part: str, name: str) -> str | None:
    found = re.search(rf' {name}="([\d.]+)"', part)
    return None if found is None else found[1]


# --- widgets ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def player(story: Story) -> StoryPlayer:
    pytest.importorskip("ipywidgets")
    story.at(900)
    return StoryPlayer(story, ["kill leader", "next election"])


def press(player: StoryPlayer, label: str) -> None:
    """Press the button whose label begins like this, as a page would."""
    buttons = [each for row in player.widget.children for each in _leaves(row) if hasattr(each, "click")]
    next(button for button in buttons if button.description.startswith(label)).click()


def _leaves(widget: object) -> list[object]:
    children = getattr(widget, "children", None)
    return [widget] if children is None else [leaf for child in children for leaf in _leaves(child)]


def test_buttons_move_the_story_and_the_slider(player: StoryPlayer) -> None:
    press(player, "event ▶")
    assert player.story.step == player._slider.value == 901
    press(player, "commit ▶")
    assert "is committed up to" in player._status.value
    assert 'aria-live="polite"' in player._status.value
    player._slider.value = 300
    assert player.story.step == 300
    assert "step 300 of" in player._picture.value
    press(player, "truncation ▶")
    assert "truncates" in player.said


def test_the_button_of_a_node_kills_it_and_starts_it_again(player: StoryPlayer) -> None:
    original = player.story
    press(player, "✕ kill node 2")
    assert player.story.parent is original
    assert "step 900 of" in player._beside.value, "the original stands beside what was done"
    assert "To compare: original, at the same time" in player._beside.value
    press(player, "✕ cut it off")
    assert player.story.view.cut_links == {(1, 2), (2, 1), (1, 3), (3, 1)}
    press(player, "● join it again")
    press(player, "● restart node 2")
    assert player.story.view.nodes[2].is_alive
    player._names.value = "original"
    assert player.story is original
    assert player._beside.value == ""


def test_the_scripts_clicks_wait_behind_a_button(player: StoryPlayer) -> None:
    press(player, "next: kill leader ▶")
    press(player, "next: next election ▶")
    assert "is elected active controller" in player.said
    assert player._script_button.disabled


def test_a_chosen_message_is_delivered_delayed_or_dropped(player: StoryPlayer) -> None:
    while not player.story.messages:
        press(player, "event ▶")
    chosen = player._messages.value = player.story.messages[-1].id
    press(player, "delay")
    assert "you delay" in player.said and "by 200 ms" in player.said
    assert player._messages.value == chosen, "it stays chosen"
    assert f'data-message="{chosen}"' in player._picture.value
    press(player, "deliver now")
    assert all(message.id != chosen for message in player.story.messages)


def test_a_message_must_be_selected_unless_there_is_only_one(player: StoryPlayer) -> None:
    while len(player.story.messages) < 2:
        press(player, "event ▶")
    player._messages.value = None
    step = player.story.step
    press(player, "drop")
    assert "Drop: select a message first." in player._status.value and player.story.step == step
    while len(player.story.messages) != 1:
        press(player, "event ▶")
    player._messages.value = None
    press(player, "drop")
    assert "you drop" in player.said


def test_what_is_looked_for_is_said_before_it_is_found(player: StoryPlayer) -> None:
    said: list[str] = []
    player._status.observe(lambda change: said.append(change["new"]), names="value")
    press(player, "election ▶")
    assert ">Next election …</div>" in said[0] and "is elected" in said[-1]


def test_a_button_that_finds_nothing_comes_back_and_looks_further_when_pressed_again(
    player: StoryPlayer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pykraft.viz.stories.story_player.REACH", 100)
    press(player, "✕ kill node 2")  # a branch, of which nothing was looked at yet
    before = player.story.last_step
    press(player, "crash ▶")
    assert player.said == f"there is no crash up to step {before + 100:,}; press again to look further"
    press(player, "crash ▶")
    assert f"up to step {before + 200:,}" in player.said
    assert player.story.next("commit") is not None, "a program looks as far as it takes"


def test_pairs_are_cut_and_healed_and_refusals_are_said(player: StoryPlayer) -> None:
    press(player, "heal")
    assert player.said.startswith("That does not work: node 1 and node 2 are not cut apart")
    press(player, "cut")
    assert (1, 2) in player.story.view.cut_links
    press(player, "heal")
    assert not player.story.view.cut_links


def test_details_show_the_frames_and_the_lines_of_a_step(player: StoryPlayer) -> None:
    while "receives the Fetch request of node" not in player.story.what:
        press(player, "event ▶")
    player._shown.value = "frames of this step"
    assert "FetchRequest, version 18" in player._details.value
    player._shown.value = "lines that ran"
    assert "pykraft/broker/" in player._details.value or "pykraft/raft/" in player._details.value
