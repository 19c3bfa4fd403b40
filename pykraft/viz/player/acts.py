"""What a reader does in a player, and what becomes of it: each act begins a branch of the history.

An act is a few words and a virtual time::

    drop 812            a message, by its number            delay 812 200     by this many milliseconds
    duplicate 812 200   a request arrives once more         kill 2            restart 2
    cut 1 3             a link                              heal 1 3          cut 2: all links of a host
    fire 2 election     a timer                             undo              back to the branch before
    more                two seconds more                    replay LINK       what another reader did

In a program a message may have words in place of its number, ``drop Produce response``: the first one on its way that
has them all. ``leader`` is the node that leads the scene's partition, ``controller`` the active controller.

The story is run again from its seed with all acts. So a player's branch is a `Link`, and a link is a branch.
"""

from collections.abc import Iterator
from typing import Any

from pykraft.sim.cluster import Intervention
from pykraft.sim.interventions import Cut, Delay, Drop, Duplicate, Fire, Heal, Host, Impossible, Kill, Restart
from pykraft.story.links import Link, UnknownHistory
from pykraft.story.scenes import Scene, scene
from pykraft.story.story import Story
from pykraft.viz.player.film_data import OWN_MARKS, Film, film_of, first_difference

MORE_MS = 2_000
_LEAD_MS = 1_200
"""How long before the failure a film begins; a player opens one second before it."""
_OPENS_BEFORE_MS = 1_000
_SPEED = 0.2
_LONGEST_MS = 60_000


class Rehearsal:
    """A scene and the branch of it that is shown."""

    def __init__(self, name: str, cls: type[Story] = Story) -> None:
        self._cls = cls
        self._begin(scene(name))

    def _begin(self, of: Scene) -> None:
        self.scene = of
        self.story = of.begin(self._cls)
        """The branch that is shown."""
        self._before: list[Story] = []
        self._end_ms = float(of.end_ms)
        self._films: dict[tuple[str, float], Film] = {}

    @property
    def link(self) -> Link:
        return Link.of(self.scene.name, self.story)

    def act(self, words: str, ms: float) -> str:
        """Do it at this time; returns a sentence where there is one to say. Nothing changes where it cannot be done."""
        verb, _, rest = words.strip().partition(" ")
        try:
            match verb:
                case "undo":
                    return self._undo()
                case "more":
                    self._end_ms = min(self._end_ms + MORE_MS, _LONGEST_MS)
                    return ""
                case "replay":
                    return self.replay(rest)
                case _:
                    self.story.run_until(ms)
                    return self._do(_deeds(verb, self._meant(verb, rest, ms), self.story, ms), ms)
        except (Impossible, UnknownHistory) as reason:
            return f"{str(reason)[:1].upper()}{str(reason)[1:]}."
        except (ValueError, TypeError):
            return f"There is no act {words!r}."

    def _meant(self, verb: str, rest: str, ms: float) -> list[str]:
        """The objects of an act by their numbers and names."""
        step, words = self.story.step_at(ms), rest.split()
        view = self.story.view_at(step)
        if verb in ("drop", "delay", "duplicate") and words and not words[0].isdigit():
            late = [word for word in words[-1:] if verb != "drop"]
            wanted = words[: len(words) - len(late)]
            found = (each for each in view.messages if all(word in str(each) for word in wanted))
            message = next((each for each in found if each.sender != each.receiver), None)
            if message is None:
                raise Impossible(f"no message on its way at {ms:,.0f} ms has the words {' '.join(wanted)!r}")
            return [str(message.id), *late]
        roles = {"leader": view.leader(*self.scene.topic_partition), "controller": view.active_controller}
        if any(word in roles and roles[word] is None for word in words):
            raise Impossible(f"there is no {' or '.join(words)} at {ms:,.0f} ms")
        return [str(roles.get(word, word)) for word in words]

    def _undo(self) -> str:
        if self._before:
            self.story = self._before.pop()
        return ""

    def _do(self, deeds: list[Intervention], ms: float) -> str:
        story = self.story
        story.run_until(ms)
        story.at(story.step_at(ms))
        branch = story.fork()
        for deed in deeds:
            branch = branch.do(deed)
        self._before.append(story)
        self.story = branch
        return ""

    def replay(self, text: str) -> str:
        """Show the history of a link. UnknownHistory: it cannot be shown here."""
        link = Link.parse(text)
        story = link.replay(self._cls)
        self._begin(scene(link.scene))
        if link.deeds:
            self._before, self.story = [self.story], story
            self._end_ms = max(self._end_ms, story.time_at(story.step) + MORE_MS)
        return f"Replayed: {len(link.deeds)} act{'s' * (len(link.deeds) != 1)}." if link.deeds else ""

    # --- what a player shows ------------------------------------------------------------------------------------------

    @property
    def before(self) -> Story | None:
        """The branch that this one began from."""
        return self._before[-1] if self._before else None

    def film(self, story: Story | None = None) -> Film:
        story = self.story if story is None else story
        key = (story.name, self._end_ms)
        if key not in self._films:
            self._films[key] = film_of(story, self.scene, self.scene.failure_ms - _LEAD_MS, self._end_ms)
        return self._films[key]

    @property
    def opens_ms(self) -> float:
        return float(self.scene.failure_ms - _OPENS_BEFORE_MS)

    def moments(self) -> list[int]:
        """The steps of the branch that is shown at which its scene's moments are; the missing ones are left out."""
        story = self.story.run_until(self._end_ms)
        last, step = story.step_at(self._end_ms), story.step_at(self.scene.failure_ms) - 1
        found = []
        for words in self.scene.moments:
            later = next(iter(self._steps_of(words, step + 1, last)), None)
            if later is not None:
                found.append(step := later)
        return found

    def said_at(self, step: int) -> str:
        """What a reader wants to know of a step: its mark, or else its sentence."""
        marks = (mark.text for mark in self.story.marks if mark.step == step and mark.kind != "commit")
        own = (text for at, _, text in self._own_marks() if at == step)
        return next(marks, next(own, self.story.what_at(step)))

    def _own_marks(self) -> Iterator[tuple[int, str, str]]:
        """The marks that the film has, and the story has not: (step, kind, text)."""
        rows = (row for row in self.film()["marks"] if row[1] in OWN_MARKS)
        yield from ((self.story.step_at(ms), kind, text) for ms, kind, text, _ in rows)

    def _steps_of(self, words: str, first: int, last: int) -> Iterator[int]:
        story = self.story
        if words.startswith("next "):
            wanted = words.removeprefix("next ")
            own = {step for step, kind, _ in self._own_marks() if kind == wanted}
            steps = sorted(own | {mark.step for mark in story.marks if mark.kind == wanted})
            yield from (step for step in steps if first <= step <= last)
        else:
            parts, own_texts = words.split(), {step: text for step, _, text in self._own_marks()}
            for step in range(first, last + 1):
                if all(word in story.what_at(step) for word in parts) or words in own_texts.get(step, ""):
                    yield step

    def data(self) -> dict[str, Any]:
        """All that the player's script needs."""
        film, before = self.film(), self.before
        old = None if before is None else self.film(before)
        fork = None if before is None else self.story.time_at(self.story.forked_at)
        return {
            "title": self.scene.title,
            "about": self.scene.about,
            "open": self.opens_ms,
            "moments": [[self.story.time_at(step), self.said_at(step)] for step in self.moments()],
            "speed": _SPEED,
            "link": str(self.link),
            "film": film,
            "before": old,
            "fork": fork,
            "difference": None if old is None or fork is None else first_difference(film, old, fork),
            "branch": self._named(),
            "said": "",
        }

    def _named(self) -> str:
        deeds = [
            f"you {deed}" for step, deed in sorted(self.story.interventions.items()) if step > self.story.forked_at
        ]
        return ", ".join(deeds[:1]) + (f" and {len(deeds) - 1} more" if len(deeds) > 1 else "")


def _deeds(verb: str, words: list[str], story: Story, ms: float) -> list[Intervention]:
    """The interventions of an act: cutting a node off is one for each of its links."""
    hosts: list[Host] = [int(word) if word.isdigit() else word for word in words]
    match verb, hosts:
        case "drop", [int(message)]:
            return [Drop(message)]
        case "delay", [int(message), int(late)]:
            return [Delay(message, late)]
        case "duplicate", [int(message), int(late)]:
            return [Duplicate(message, late)]
        case "kill", [int(node)]:
            return [Kill(node)]
        case "restart", [int(node)]:
            return [Restart(node)]
        case "fire", [host, str(timer)]:
            return [Fire(host, timer)]
        case (("cut" | "heal"), [one, other]):
            return [(Cut if verb == "cut" else Heal)(one, other)]
        case (("cut" | "heal"), [host]):
            return _of_all_links(verb, host, story, ms)
    raise ValueError(verb)


def _of_all_links(verb: str, host: Host, story: Story, ms: float) -> list[Intervention]:
    view = story.view_at(story.step_at(ms))
    others = [other for other in view.nodes if other != host and view.is_cut(host, other) == (verb == "heal")]
    if not others:
        raise Impossible(f"{f'node {host}' if isinstance(host, int) else host} has no link to {verb}")
    return [(Cut if verb == "cut" else Heal)(host, other) for other in others]
