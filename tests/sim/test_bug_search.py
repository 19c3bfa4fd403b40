"""``simulate`` looks for a planted bug, or for one in a patch, in processes of their own, and tells what it found."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pykraft.cli import main
from pykraft.common.version import VERSION
from pykraft.sim.bugs.planting import bugs, planted
from pykraft.sim.laws.names import LAWS
from pykraft.sim.search.workers import Outcome, run_seeds
from pykraft.sim.trouble.knobs import calm, draw
from pykraft.sim.trouble.limits import LimitKnobs
from pykraft.sim.trouble.mixture import mixture
from pykraft.story.explanation import explain, told
from pykraft.story.history_names import history_name, read_name
from pykraft.story.links import Link
from pykraft.story.marks import Mark

EARLY = "a_fetch_answered_before_its_flush"
SEED = bugs()[EARLY].seed
UNSYNCED = """\
--- a/pykraft/raft/replica.py
+++ b/pykraft/raft/replica.py
@@ -326,3 +326,2 @@
         if self.log.append_as_follower(data):
             if self.can_become_voter:
-                self.log.sync()
+                pass
"""
"""The same mistake as a patch."""


def patch(path: Path, text: str) -> str:
    file = path / "a.diff"
    file.write_text(text)
    return str(file)


def test_a_patch_dies_by_a_law_in_a_seed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = patch(tmp_path, UNSYNCED.replace("326,3 +326,2", "300,3 +300,3"))
    assert main(["simulate", str(SEED), "--patch", file, "--count", "3", "--jobs", "1"]) == 1
    died, found, again = capfd.readouterr().out.splitlines()
    assert died == f"it died in seed {SEED}, by the law Majority: {LAWS['Majority']}"
    assert found.startswith(f"found: seed {SEED}, step ") and "Violation" in found
    assert again.endswith(f"simulate {SEED} --patch {file} --count 1")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (UNSYNCED.replace("can_become_voter", "may_vote"), "hunk 1 does not apply to raft/replica.py"),
        ("+++\n", "there is no unified diff"),
        (UNSYNCED.replace("raft/replica", "raft/nothing"), "changes raft/nothing.py, and there is no such file"),
        (UNSYNCED.replace("pykraft/raft", "docs/raft"), "changes docs/raft/replica.py, and nothing in pykraft/"),
        pytest.param(UNSYNCED.replace("   pass", "   pass pass"), "run: SyntaxError", marks=pytest.mark.long),
    ],
)
def test_a_patch_that_cannot_be_tried_is_refused_in_one_sentence(
    text: str, words: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    text = text.replace("326,3 +326,2", "326,3 +326,3")
    assert main(["simulate", "--patch", patch(tmp_path, text), "--jobs", "1"]) == 1
    said = capfd.readouterr()
    assert said.out == "" and words in said.err and said.err.count("\n") == 1


def test_a_bug_is_looked_for_in_many_seeds_until_it_dies(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", str(SEED), "--bug", EARLY, "--count", "9", "--jobs", "1"]) == 1
    said = capfd.readouterr().out.splitlines()
    assert said[0] == f"{EARLY}: {bugs()[EARLY].sentence}"
    assert said[1].startswith(f"it died in seed {SEED}, by the law Majority: ")
    assert said[3].endswith(f"simulate {SEED} --bug {EARLY}")


@pytest.mark.long
def test_a_history_that_takes_too_long_ends_its_process() -> None:
    (outcome,) = run_seeds([0], 1, longest_s=0.01)
    assert outcome == Outcome(0, "no law", "seed 0: its process ended, or was ended after 0 s", 0)


def test_all_bugs_are_listed_with_what_they_break(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--bugs"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sorted(lines) == sorted(f"{bug.name} ({bug.part}): {bug.sentence}" for bug in bugs().values())


def test_the_mixture_has_seeds_of_every_kind_early_and_no_seed_twice() -> None:
    seeds = [seed for seed, _ in zip(mixture(), range(400), strict=False)]
    assert len(set(seeds)) == 400
    knobs = [draw(seed) for seed in seeds[:24]]
    kinds = ("transactions", "elections", "recreations", "voters", "slice_ends", "moves", "level_changes")
    for kind in (*kinds, "moving", "settings", "swarm", "foreign", "security"):
        assert any(getattr(each, kind) for each in knobs), kind
    assert any(each.limits.quotas_ms for each in knobs) and any(each.limits.rules_ms for each in knobs)
    assert all(each.limits == LimitKnobs() for each in map(draw, range(300)))


# --- plain words ------------------------------------------------------------------------------------------------------


def test_a_failing_history_is_told_in_plain_words() -> None:
    with planted(EARLY):
        lines, is_sound = explain(SEED, draw(SEED))
    assert not is_sound
    told = "\n".join(lines)
    for words in (
        f"Seed {SEED}, pykraft {VERSION}.",
        f"Planted is {EARLY}: {bugs()[EARLY].sentence}",
        "The cluster: 3 brokers, controllers too; topic t with 1 partition of 3 replicas, min.insync.replicas 2;",
        "No fault came.",
        "The first wrong state is that after step 216, at 153.033 ms.",
        "In this step arrives: Fetch request from node-2 to node-3.",
        "metadata_high_watermark  offset=3",
        f"It breaks the law Majority: {LAWS['Majority']}.",
        "What was found: node 3 takes the metadata log up to 3 for committed; of 3 voters [3] have it on their disks",
        f"The same history in one line: pykraft/{VERSION}/seed-{SEED},bug-{EARLY}/{SEED}",
    ):
        assert words in told, told


def test_the_trouble_is_told_the_last_of_it_one_by_one() -> None:
    faults = [(step, Mark(step, "fault", f"pause: node {step} does nothing")) for step in range(9)]
    crashes = [(step, Mark(step, "crash", f"crash: node {step} ends")) for step in range(9, 20)]
    first, then, *shown = told([*faults, *crashes])
    assert (first, then) == ("What came first: pause (8).", "What came then:")
    assert len(shown) == 12 and shown[0] == "  8 ms, step 8: pause: node 8 does nothing"
    assert list(told([])) == ["No fault came."]


@pytest.mark.long
def test_a_sound_history_is_told_too() -> None:
    knobs = replace(calm(draw(1)), groups=(), producers=draw(1).producers[:1], storm_until_ms=1_000)
    lines, is_sound = explain(1, knobs)
    assert is_sound
    assert any(line.startswith("No law is broken. seed 1: ") for line in lines)


def test_a_history_in_one_line_is_read_again_and_is_a_players_link() -> None:
    name = f"seed-7,no-crash,no-12,no-producer-0,until-3000,bug-{EARLY}"
    history = read_name(name)
    assert history is not None and (history.seed, history.bug) == (7, EARLY)
    omitted = history.knobs.omitted
    assert (omitted.kinds, omitted.faults, omitted.clients, omitted.until_ms) == ({"crash"}, {12}, {"producer-0"}, 3000)
    with planted(EARLY):
        line = history_name(7, history.knobs)
    assert line == str(Link.parse(line)) == f"pykraft/{VERSION}/{name}/7"
    assert read_name("seed-7-calm") is not None and read_name("first-loss") is None
    with pytest.raises(ValueError, match="'yes-crash' leaves nothing out"):
        read_name("seed-7,yes-crash")


def test_a_history_that_fails_with_a_bug_names_the_line_that_shows_it_again(capsys: pytest.CaptureFixture[str]) -> None:
    line = f"pykraft/{VERSION}/seed-{SEED},no-ghost,bug-{EARLY}/{SEED}"
    with planted(EARLY):
        assert main(["simulate", line]) == 1
    found, again = capsys.readouterr().err.splitlines()
    assert f"seed {SEED}, step " in found and again == f"again: python -m pykraft simulate {line}"
