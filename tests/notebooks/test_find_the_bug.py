"""The game of notebook 25: each of its ten bugs dies, its own line alone mends it, and what costs points costs them.

A certificate is what the game is worth to others: it replays, and one that does not add up is refused.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from pathlib import Path

import pytest

from pykraft.course.lessons.find_the_bug import desk as desks
from pykraft.course.lessons.find_the_bug.cases import CASES, SHOWN, Case
from pykraft.course.lessons.find_the_bug.certificate import certificate, verify
from pykraft.course.lessons.find_the_bug.code import SUSPECTS, numbered, running_text, short, wrong_place
from pykraft.course.lessons.find_the_bug.game import POINTS, Found, Game, GameError, packed, unpacked
from pykraft.course.lessons.find_the_bug.replay import LastSteps, play, tell
from pykraft.course.lessons.find_the_bug.score import board_of, note_points, noted_points
from pykraft.course.lessons.find_the_bug.watched import watch
from pykraft.sim.bugs.planting import bugs, planted_now
from pykraft.sim.bugs.rewriting import function_text, module_text
from pykraft.sim.bugs.wrong_lines import WRONG_LINES
from pykraft.sim.search.worker import outcome
from pykraft.surroundings import HEADLESS, HOME
from tests.harness.tree import ROOT
from tests.viz.reading import complaints

SEARCHED = 20
"""So many seeds a reader searches at most, with progress: seconds."""
ALL = [SHOWN, *CASES.values()]
IDS = [f"case {case.number}" for case in ALL]
SLOW = [case for case in ALL if case.most_steps > 6_500]
"""Their bugs die late in a history."""
RECORDED = [pytest.param(case, id=f"case {case.number}", marks=[pytest.mark.long] * (case in SLOW)) for case in ALL]


@pytest.fixture(autouse=True)
def _without_a_reader(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv(HEADLESS, "1")
    monkeypatch.setenv(HOME, str(tmp_path))
    yield
    assert planted_now() == (), "a bug is left in this process"


def opened(number: int = 1) -> Game:
    """A game whose line is named."""
    game, wrong = Game(number), wrong_place(f"wrong_line_{number}")
    game.search()
    assert game.name(short(wrong.module), wrong.line)
    return game


@pytest.fixture(scope="module")
def solved() -> Game:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(HEADLESS, "1")
        game = Game(1)
        game.search()
        game.hint()
        assert not game.name("partition.py", wrong_place("wrong_line_1").line + 1)
        assert game.solve(seeds=1).holds
        return game


# --- ten bugs ---------------------------------------------------------------------------------------------------------


@pytest.mark.limit(120)
@pytest.mark.parametrize("case", RECORDED)
def test_a_bug_dies_in_its_recorded_seed_which_the_search_comes_to(case: Case) -> None:
    from pykraft.sim.bugs.planting import planted

    bug = bugs()[case.bug]
    assert bug.seed in range(case.first, case.first + SEARCHED)
    with planted(bug.name):
        found = outcome(bug.seed, case.most_steps)
    assert found["law"] == bug.law, found["line"]


@pytest.mark.long
@pytest.mark.limit(400)
@pytest.mark.parametrize("case", ALL, ids=IDS)
def test_the_game_finds_its_bug_within_twenty_seeds_and_the_right_line_mends_it(case: Case) -> None:
    game = Game(case.number)
    assert game.search().searched <= SEARCHED
    assert game.search().law == bugs()[case.bug].law
    assert game.solve(seeds=10).holds, game.verdict


@pytest.mark.parametrize("case", ALL, ids=IDS)
def test_a_bug_is_one_line_of_a_file_that_the_reader_can_choose(case: Case) -> None:
    wrong, place = WRONG_LINES[case.bug], wrong_place(case.bug)
    lines = difflib.ndiff(module_text(wrong.module).splitlines(), running_text(case.bug, wrong.module).splitlines())
    changed = [line for line in lines if line[0] in "+-"]
    assert [line[0] for line in changed] == ["-", "+"] and wrong.right in changed[0] and wrong.wrong in changed[1]
    assert place.module in SUSPECTS
    assert wrong.wrong in dict(numbered(case.bug, wrong.module, wrong.function))[place.line]
    mended = wrong.rewrite.text.replace(wrong.wrong, wrong.right)
    assert mended == function_text(wrong.module, wrong.function), "the line alone mends it"


def test_difficulty_rises_and_no_case_tells_its_file_in_the_title() -> None:
    assert [case.difficulty for case in CASES.values()] == ["easy"] * 3 + ["medium"] * 3 + ["hard"] * 4
    assert len(CASES) == 10 and list(CASES) == list(range(1, 11))
    assert all(len(case.hints) == 3 for case in ALL)
    assert len({wrong_place(case.bug) for case in ALL}) == len(ALL)


def test_the_committed_notebook_shows_no_line_of_the_ten() -> None:
    text = (ROOT / "notebooks" / "25_find_the_bug.ipynb").read_text()
    for case in CASES.values():
        wrong = WRONG_LINES[case.bug]
        assert wrong.wrong not in text and wrong.right not in text and wrong.function not in text


# --- what costs points ------------------------------------------------------------------------------------------------


def test_hints_cost_ten_twenty_and_thirty_points_and_there_are_three() -> None:
    game = Game(1)
    assert [(game.hint(), game.points)[1] for _ in range(3)] == [90, 70, 40]
    assert game.hints == game.case.hints
    with pytest.raises(GameError, match="all three hints were given"):
        game.hint()


def test_a_line_that_is_right_costs_ten_points_and_a_line_outside_of_functions_none() -> None:
    game = Game(1)
    with pytest.raises(GameError, match="no law is broken yet: search first"):
        game.name("partition.py", 1)
    game.search()
    assert not game.name("raft.leader_state", 182) and game.points == POINTS - 10
    for module, line, words in (("partition.py", 1, "is in no function"), ("os", 1, "os is none of the files")):
        with pytest.raises(GameError, match=words):
            game.name(module, line)
    assert game.points == POINTS - 10 and not game.is_named


def test_a_patch_that_does_not_hold_says_by_which_law_and_seed_and_costs_ten_points() -> None:
    game = opened()
    found, wrong = game.search(), WRONG_LINES["wrong_line_1"].wrong
    verdict = game.patch(wrong, wrong.replace(" and", "  and"), seeds=2)
    assert (verdict.seed, verdict.law, verdict.passed) == (found.seed, "High Watermark", 0)
    assert str(verdict).startswith(f"Seed {found.seed} breaks the law High Watermark: a leader's high watermark is not")
    assert game.points == POINTS - 10 and not game.is_solved
    with pytest.raises(GameError, match="a certificate needs the wrong line, named, and a patch that holds"):
        certificate(game)


def test_a_patch_waits_for_the_line() -> None:
    game = Game(1)
    game.search()
    with pytest.raises(GameError, match="the wrong line is not named yet"):
        game.patch("a", "b")
    with pytest.raises(GameError, match=r"is 0 times in Partition\.advance_high_watermark, not once"):
        opened().patch("nothing of the kind", "b")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("def advance_high_watermark(self, now):\n    import os\n    return True", "the word 'os'"),
        ("def advance_high_watermark(self, now):\n    return open('x')", "the word 'open'"),
        ("def advance_high_watermark(self, now):\n    return self.__class__", "the word '__class__'"),
        ("def another(self, now):\n    return True", "the text defines another"),
        ("def advance_high_watermark(self, now:\n    return True", "Python does not understand line 1"),
        ("x = 1", "the text must be one function"),
        ("def advance_high_watermark(self, now):\n    return True\nx = 1", "the text must be one function"),
    ],
)
def test_a_patch_with_foreign_words_is_refused_and_costs_nothing(text: str, words: str) -> None:
    game = opened()
    with pytest.raises(GameError, match="the patch is refused: ") as refused:
        game.rewrite(text)
    assert words in str(refused.value) and game.points == POINTS


@pytest.mark.long
@pytest.mark.limit(120)
def test_a_patch_that_does_nothing_dies_by_the_law_recovery() -> None:
    verdict = opened().patch("if self.is_under_min_isr:", "if True:", seeds=1)
    assert verdict.law == "Recovery", verdict


# --- certificates -----------------------------------------------------------------------------------------------------


def test_a_certificate_replays_to_the_same_points(solved: Game) -> None:
    line = certificate(solved)
    assert line.endswith("/80") and "\n" not in line and len(line) < 1_000
    checked = verify(line)
    assert checked.is_valid and "80 points; the patch holds in 1 seed, 99 fewer than" in checked.words


def test_a_forged_certificate_is_refused_with_the_reason(solved: Game) -> None:
    line = certificate(solved)
    *_, clicks, _ = line.split("/")
    patch = clicks.rpartition("+")[2]
    wrong = WRONG_LINES["wrong_line_1"].rewrite.text
    foreign = "def advance_high_watermark(self, now):\n    return eval('1')"
    for forged, words in (
        (line.removesuffix("/80") + "/100", "the hints leave 90 points at most, and the line says 100"),
        (line.replace("/65/", "/64/"), "the search finds seed 65, and the line says 64"),
        (line.replace(f"+{patch}", ""), "the last patch does not hold: there is none"),
        (line.replace(patch, f"patch:1:{packed(wrong)}"), "the last patch does not hold: Seed 65 breaks the law High"),
        (line.replace(patch, f"patch:1:{packed(foreign)}"), "the text has the word 'eval'"),
        (line.replace(patch, "patch:1:xyz"), "'xyz'... is no text"),
        (line.replace("hint+", "look+"), "'look' is no click"),
        (line.replace("/1/65/", "/11/65/"), "there is no such case"),
        (line.replace("pykraft/", "pykraft/9", 1), "it is of pykraft 9"),
        ("my dog found it", "this is no certificate"),
    ):
        checked = verify(forged)
        assert not checked.is_valid and words in checked.words, (forged[:80], checked)


@pytest.mark.long
def test_a_certificate_with_more_points_than_its_clicks_leave_is_refused(solved: Game) -> None:
    checked = verify(certificate(solved).removesuffix("/80") + "/90")
    assert checked.words == "these clicks leave 80 points, and the line says 90"


def test_a_text_is_packed_into_letters_that_no_mail_changes() -> None:
    text = WRONG_LINES["wrong_line_7"].rewrite.text
    assert "def _truncate" in unpacked(packed(text)) and set(packed(text)).isdisjoint("/+ ")


# --- what is shown ----------------------------------------------------------------------------------------------------


def test_the_history_is_shown_at_its_first_wrong_state_and_told_without_the_bugs_name() -> None:
    game = Game(1)
    found = game.search()
    assert isinstance(found, Found) and "high watermark" in found.words
    last = LastSteps(game)
    pictures = last.draw(0), last.draw(7), play(game)
    for each in pictures:
        assert list(complaints(each)) == []
    assert f"event {found.step:,} of {found.step:,}" in pictures[0].title + pictures[0].text
    assert pictures[1].title.startswith("7 events earlier: ")
    told = repr(tell(game))
    assert "It breaks the law High Watermark" in told and "Planted is" not in told


def test_the_board_counts_the_best_points_of_each_case(monkeypatch: pytest.MonkeyPatch, solved: Game) -> None:
    assert noted_points() == {}
    monkeypatch.delenv(HEADLESS)
    note_points(solved)
    note_points(solved)
    assert noted_points() == {1: 80}
    board = board_of({1: 80, 10: 100})
    assert board.title == "2 of 10 bugs found: 180 of 1,000 points" and list(complaints(board)) == []
    assert "case 1, easy: Committed too early, ✔ 80 points" in board.text


def test_the_reader_accuses_a_line_and_mends_it_by_buttons() -> None:
    game, wrong = Game(1), WRONG_LINES["wrong_line_1"]
    game.search()
    accusation = desks._Accusation(game)
    accusation.file.value = wrong.module
    accusation.function.value = wrong.function
    accusation.button.click()
    assert "Choose a line first" in accusation.line.widget.value
    accusation.lines.value = wrong.line
    accusation.button.click()
    assert "is the wrong one" in accusation.line.widget.value and game.is_named
    mending = desks._Mending(game)
    assert wrong.wrong in mending.text.value
    mending.button.click()
    assert "breaks the law High Watermark" in mending.line.widget.value and "90 points" in mending.line.widget.value


def test_a_desk_has_all_steps_of_a_case() -> None:
    desk = desks._Desk(1)
    (steps, *_) = desk._body.children
    search, _, _, explain, hint = steps.children
    for button in (explain, search, explain, hint):
        button.click()
    assert "It breaks the law High Watermark" in desk._said.value and "The law names" in desk._hints.value
    desk.choice.value = 2
    assert desk.game.case.number == 2 and "Search seeds until a law breaks" in desk.line.widget.value


# --- the reverse: laws of the reader ----------------------------------------------------------------------------------


def test_laws_of_a_reader_watch_a_whole_cluster_and_kill_what_is_planted() -> None:
    from pykraft.course.labs.loading import load

    work = load(ROOT / "labs" / "lab25_laws" / "solution.py")
    found = watch(work, 65, "wrong_line_1", 2_000)
    assert found.step and found.words.startswith("node ") and work.judge(found.history) == len(found.history) - 1
    assert watch(work, 65, most_steps=1_000).words == ""
    work.high_watermark = lambda state: 1 // 0
    with pytest.raises(ZeroDivisionError):
        watch(work, 65, most_steps=1_000)
