"""The player in a notebook: a widget whose state comes from Python, and whose drawing is `player.js`.

::

    play("first-loss")          it plays; what you do in it makes a branch
    play("pykraft/0.1.0/...")   what was done in a link, again

Without a page, or without a reader in front of it, it is pictures of its moments with the same facts as text.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pykraft.extras import require
from pykraft.story.links import Link
from pykraft.story.scenes import is_scene
from pykraft.surroundings import is_headless, is_notebook
from pykraft.viz.drawing.figure import Figure
from pykraft.viz.player.acts import Rehearsal
from pykraft.viz.player.still import still
from pykraft.viz.player.words import in_words

_HERE = Path(__file__).parent


def play(what: str = "first-loss", acts: Sequence[tuple[float, str]] = ()) -> "Player | Figure":
    """Play a scene, or a link. `acts` are done first, each at its virtual time in milliseconds. ValueError: there is no
    such scene, or the link is of another version."""
    rehearsal = Rehearsal(what if is_scene(what) else Link.parse(what).scene)
    if not is_scene(what):
        rehearsal.replay(what)
    for ms, words in acts:
        if said := rehearsal.act(words, ms):
            raise ValueError(said)
    if is_headless() or not is_notebook():
        return still(rehearsal)
    return Player(rehearsal)


class Player:
    """A rehearsal on a page."""

    def __init__(self, rehearsal: Rehearsal) -> None:
        require("the player", "course", "anywidget")
        import anywidget
        import traitlets

        self.rehearsal = rehearsal
        fields = {
            "_esm": _HERE / "player.js",
            "_css": _HERE / "player.css",
            "data": traitlets.Dict().tag(sync=True),
        }
        self.widget = type("PlayerWidget", (anywidget.AnyWidget,), fields)(data=rehearsal.data())
        self.widget.on_msg(self._on_message)

    def _on_message(self, _: object, content: dict[str, Any], __: object) -> None:
        said = self.act(str(content.get("act", "")), float(content.get("ms", 0)))
        if said:
            self.widget.send({"said": said})

    def act(self, words: str, ms: float) -> str:
        """What the page's buttons do; the branch that follows is shown. Returns why it cannot be done, or ""."""
        before = self.rehearsal.story, self.rehearsal.link
        said = self.rehearsal.act(words, ms)
        if not said or (self.rehearsal.story, self.rehearsal.link) != before:
            self.widget.data = {**self.rehearsal.data(), "said": said}
        return said

    @property
    def link(self) -> str:
        """This history as one line of text."""
        return str(self.rehearsal.link)

    def __repr__(self) -> str:
        return in_words(self.rehearsal.data())

    def _repr_mimebundle_(self, **_: Sequence[str] | None) -> Any:
        return self.widget._repr_mimebundle_()
