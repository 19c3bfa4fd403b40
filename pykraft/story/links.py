"""A history as one line of text: what one reader did happens again for another.

::

    pykraft/0.1.0/first-loss/7/861.kill.2/1042.restart.2

A version, a scene, its seed, and what was done in which step. The same version makes the same history of it, on any
machine. Another version may have other steps, so a link of one is refused, in a sentence. A dot in the name of a client
is written ``~``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from pykraft.common.version import VERSION
from pykraft.sim.cluster import Intervention
from pykraft.sim.interventions import Cut, Delay, Deliver, Drop, Duplicate, Fire, Heal, Host, Kill, Restart
from pykraft.story.scenes import SCENES, is_scene, scene
from pykraft.story.story import Story

_NAME = "pykraft"
_KINDS = (Cut, Delay, Deliver, Drop, Duplicate, Fire, Heal, Kill, Restart)
_VERBS = {kind.__name__.lower(): kind for kind in _KINDS}
_MESSAGES = (Delay, Deliver, Drop, Duplicate)
S = TypeVar("S", bound=Story)


class UnknownHistory(ValueError):  # noqa: N818 (it tells what is the case)
    """A line is no history that can be replayed here; the text says why."""


@dataclass(frozen=True)
class Link:
    """A scene, and what was done in it, by step."""

    scene: str
    deeds: tuple[tuple[int, Intervention], ...] = ()
    version: str = VERSION

    def __str__(self) -> str:
        seed = scene(self.scene).seed
        return "/".join([_NAME, self.version, self.scene, str(seed), *(_written(*deed) for deed in self.deeds)])

    @classmethod
    def of(cls, name: str, story: Story) -> "Link":
        """The link of a story of this scene."""
        return cls(name, tuple(sorted(story.interventions.items())))

    @classmethod
    def parse(cls, text: str) -> "Link":
        """Read one. UnknownHistory: it is none, or one of another version."""
        name, *parts = text.strip().split("/")
        if name != _NAME or len(parts) < 3:
            raise UnknownHistory(f"{text.strip()!r} is no history: one begins with {_NAME}/{VERSION}/ and a scene")
        version, known, seed, *deeds = parts
        if version != VERSION:
            raise UnknownHistory(
                f"this history was recorded by pykraft {version}, and this is pykraft {VERSION}: "
                f"the same steps may be others here"
            )
        if not is_scene(known) or seed != str(scene(known).seed):
            raise UnknownHistory(f"there is no scene {known!r} with seed {seed}; there are {', '.join(SCENES)}")
        return cls(known, tuple(_read(deed) for deed in deeds))

    def replay(self, cls: type[S]) -> S:
        """The story with all of it, at the step of the last deed."""
        original = scene(self.scene).begin(cls)
        story = original
        for step, deed in self.deeds:
            story.at(step - 1)
            story = story.fork() if story is original else story
            story = story.do(deed)
        return story


def _written(step: int, deed: Intervention) -> str:
    values: Sequence[object]
    match deed:
        case Drop() | Deliver():
            values = [deed.message]
        case Delay() | Duplicate():
            values = [deed.message, deed.ms]
        case Cut() | Heal():
            values = [deed.one, deed.other]
        case Kill() | Restart():
            values = [deed.node]
        case Fire():
            values = [deed.host, deed.timer]
        case _:
            raise TypeError(f"a link has no word for {deed!r}")
    return ".".join([str(step), type(deed).__name__.lower(), *(str(value).replace(".", "~") for value in values)])


def _read(text: str) -> tuple[int, Intervention]:
    step, verb, *values = [*text.split("."), ""][: text.count(".") + 1] if text.count(".") >= 2 else ("", "", "")
    kind = _VERBS.get(verb)
    if kind is None or not step.isdigit():
        raise UnknownHistory(f"{text!r} is no act: one is a step, a verb ({', '.join(_VERBS)}) and its objects")
    try:
        return int(step), kind(*(_value(each) for each in values))  # type: ignore[arg-type]
    except TypeError:
        raise UnknownHistory(f"{text!r}: {verb} has other objects than {', '.join(values)}") from None


def _value(text: str) -> Host:
    return int(text) if text.isdigit() else text.replace("~", ".")
