"""The history that a case has found, to look at: the player at its end, boards of its last steps, and plain words.

The bug is planted while the history is simulated, and also while a reader's acts make a branch of it. What was recorded
needs no bug any more.
"""

import re
from dataclasses import replace
from functools import partial
from typing import Any

from pykraft.course.lessons.find_the_bug.game import Game
from pykraft.sim.bugs.planting import planted
from pykraft.sim.laws.names import LAWS
from pykraft.story.explanation import explain
from pykraft.story.history_names import scene_name
from pykraft.story.scenes import METADATA, Scene, scene
from pykraft.story.story import Story
from pykraft.surroundings import Shown, is_headless, is_notebook
from pykraft.viz.drawing.figure import Figure
from pykraft.viz.drawing.svg import wrapped
from pykraft.viz.player.acts import Rehearsal
from pykraft.viz.player.film_data import Film, film_of
from pykraft.viz.player.player import Player
from pykraft.viz.player.still import picture

_AFTER_MS, _LEAD_MS = 1, 1_200
_PARTITION = re.compile(r"\b([\w.]+)-(\d+)(?= of node|:| is| of)")
_LONG_ID = re.compile(r"\b[\w-]{22}\b")
_TITLE_WIDTH = 900


class PlantedRehearsal(Rehearsal):
    """A history that is simulated under a bug, whatever is done in it."""

    def __init__(self, of: Scene, bug: str) -> None:
        self._bug = bug
        self._cls = Story
        with planted(bug):
            self._begin(of)
            self.story.run_until(of.end_ms)

    def act(self, words: str, ms: float) -> str:
        with planted(self._bug):
            said = super().act(words, ms)
            self.story.run_until(self._end_ms)
        return said

    @property
    def opens_ms(self) -> float:
        return max(0.0, super().opens_ms)

    def film(self, story: Story | None = None) -> Film:
        """From the beginning on, if the history is shorter than other films."""
        story = self.story if story is None else story
        key = (story.name, self._end_ms)
        if key not in self._films:
            self._films[key] = film_of(story, self.scene, max(0, self.scene.failure_ms - _LEAD_MS), self._end_ms)
        return self._films[key]

    def moments(self) -> list[int]:
        """The last step: the first wrong state."""
        return [self.story.step_at(self._end_ms)]

    def said_at(self, step: int) -> str:
        found = self.story.failure if step == self.story.last_step else None
        return without_ids(found.partition(": ")[2] or found) if found else super().said_at(step)

    def data(self) -> dict[str, Any]:
        with planted(self._bug):
            return super().data()


def without_ids(words: str) -> str:
    """Ids of members and topics by their first letters: the rest says nothing to a reader."""
    return _LONG_ID.sub(lambda found: found[0][:6] + "…", words)


def scene_of(game: Game) -> Scene:
    """The found history as a scene that opens before its end."""
    found = game.search()
    with planted(game.case.bug):
        name = scene_name(found.seed, game.knobs)
        of = scene(name)
        story = of.begin(Story).run()
        end = story.time_at(story.last_step)
    place = _PARTITION.search(found.words)
    topic, partition = (place[1], int(place[2])) if place and game.case.lanes != METADATA else (of.topic, 0)
    return replace(
        of,
        title=f"Case {game.case.number}, seed {found.seed}: the law {found.law} is broken",
        about=f"{LAWS[found.law][:1].upper()}{LAWS[found.law][1:]}.",
        failure_ms=round(end),
        end_ms=round(end) + _AFTER_MS,
        topic=topic,
        partition=partition,
        lanes=game.case.lanes,
    )


def play(game: Game) -> Player | Figure:
    """The player, one second before the first wrong state. Without a page it is a picture of that state."""
    rehearsal = PlantedRehearsal(scene_of(game), game.case.bug)
    if is_headless() or not is_notebook():
        return _wrong_state(rehearsal.story, rehearsal.scene, 0)
    return Player(rehearsal)


def tell(game: Game) -> Shown:
    """The history in plain words, up to its first wrong state."""
    with planted(game.case.bug):
        lines, _ = explain(game.search().seed, game.knobs)
    return Shown("\n".join(without_ids(line) for line in lines if not line.startswith("Planted is")))


class LastSteps:
    """The last steps of the history that a case has found: a board for each."""

    def __init__(self, game: Game) -> None:
        self._scene = scene_of(game)
        with planted(game.case.bug):
            self._story = self._scene.begin(Story).run()
        self.most = self._story.last_step - 1

    def draw(self, back: int) -> Figure:
        """The cluster so many events before the first wrong state."""
        return _wrong_state(self._story, self._scene, back)


def _wrong_state(story: Story, of: Scene, events_before: int) -> Figure:
    step = max(0, story.last_step - events_before)
    what = story.what_at(step)
    if events_before:
        title = f"{events_before:,} event{'s' * (events_before > 1)} earlier: {what}"
    else:
        failure = story.failure or ""
        title = without_ids(failure.partition(": ")[2] or failure)
    title = wrapped(
        title if _PARTITION.match(title) else f"{title[:1].upper()}{title[1:]}", _TITLE_WIDTH, 15, bold=True
    )[0]
    when = f"seed {story.seed} · event {step:,} of {story.last_step:,} · {story.time_at(step):,.1f} ms"
    note = of.about if not events_before else ""
    draw = partial(picture, story, step, topics=[of.topic], max_partitions=2, max_messages=4, title=title, when=when)
    return draw(note=f"The law: {note}", facts=[]) if note else draw(facts=[])
