"""The page of a story stands alone: no network, under a megabyte, and everything in it can be unpacked and read."""

from __future__ import annotations

import base64
import gzip
import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from pykraft.simulation import Simulation
from pykraft.story.marks import Mark
from pykraft.story.story import Story
from pykraft.viz.stories.story_frames import picture
from pykraft.viz.stories.story_page import MOST_BYTES, chosen_steps, page, save

SEED = 16
FRAMES = 60


@pytest.fixture(scope="module")
def story() -> Story:
    return Simulation(SEED).story()


@pytest.fixture(scope="module")
def text(story: Story, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = story.save(tmp_path_factory.mktemp("page") / "story.html", most_frames=FRAMES)
    return path.read_text(encoding="utf-8")


def unpacked(text: str) -> dict[str, Any]:
    found = re.search(r'<script id="data"[^>]*>([A-Za-z0-9+/=]+)</script>', text)
    assert found is not None
    data = json.loads(gzip.decompress(base64.b64decode(found[1])))
    assert isinstance(data, dict)
    return data


def stands_alone(text: str) -> None:
    assert len(text.encode()) < MOST_BYTES
    drawn = "\n".join(unpacked(text)["lines"])
    code = (re.sub(r">[A-Za-z0-9+/=]+</script>", "", text) + drawn).replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?:|//[a-z]|url\(|@import|\bsrc=|\bhref=|fetch\(|XMLHttp", code)
    assert "default-src 'none'" in text, "the browser itself refuses any request"
    assert not re.search(r"@[a-z_]+@", text), "every place of the template is filled"


def test_it_is_small_and_needs_no_network(text: str) -> None:
    stands_alone(text)
    assert len(text.encode()) < 200_000


def test_every_picture_is_what_the_board_draws(story: Story, text: str) -> None:
    data = unpacked(text)
    assert len(data["frames"]) == FRAMES
    for frame in data["frames"]:
        svg = "\n".join(data["lines"][number] for number in frame["svg"])
        ElementTree.fromstring(svg)
        assert frame["what"] == story.what_at(frame["step"])
    middle = data["frames"][FRAMES // 2]
    assert "\n".join(data["lines"][number] for number in middle["svg"]) == picture(story, middle["step"]).svg
    assert middle["ms"] == story.view_at(middle["step"]).time_ms


def test_the_marks_are_on_the_page_with_a_button_for_each_kind(story: Story, text: str) -> None:
    data = unpacked(text)
    assert data["marks"] == [[mark.step, mark.kind, mark.text] for mark in story.marks]
    shown = {frame["step"] for frame in data["frames"]}
    assert {mark.step for mark in story.marks if mark.kind in ("election", "truncation", "crash")} <= shown
    for kind in ("election", "commit", "truncation", "crash"):
        assert f'<button data-kind="{kind}">' in text
    assert '<button data-kind="you">' not in text


def test_it_can_be_read_without_seeing_it(text: str) -> None:
    assert '<html lang="en">' in text
    assert 'role="status" aria-live="polite"' in text
    assert 'aria-label="event"' in text
    assert "prefers-color-scheme:dark" in text
    assert "<noscript>" in text
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids))


def test_the_page_of_a_branch_has_the_original_beside_it(story: Story) -> None:
    story.at(900)
    branch = story.kill(1)
    branch.at(branch.step + 50)
    data = unpacked(page(branch, most_frames=20))
    assert all(("beside" in frame) == (frame["step"] > 900) for frame in data["frames"])
    assert [frame["step"] for frame in data["frames"] if frame["step"] in (900, 901)] == [900, 901]


def test_too_large_a_page_is_refused(story: Story, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pykraft.viz.stories.story_page.MOST_BYTES", 10_000)
    with pytest.raises(ValueError, match=r"more than 10,000: ask for fewer than 10 pictures"):
        save(story, tmp_path / "story.html", most_frames=10)
    assert not list(tmp_path.iterdir())


def test_rare_marks_are_shown_before_commits_and_others() -> None:
    marks = [Mark(step, "commit", "x") for step in range(100, 900)] + [Mark(500, "election", "x")]
    steps = chosen_steps(1_000, marks, 20)
    assert {0, 499, 500, 1_000} <= set(steps)
    assert len(steps) == 20
    assert chosen_steps(5, [], 400) == [0, 1, 2, 3, 4, 5]
