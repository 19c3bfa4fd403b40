"""A story with pictures: a notebook shows it as a player, and it can be saved as a page."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pykraft.story.story import Story


class ShownStory(Story):
    """A `Story`, and what its user sees of it. The player is loaded when it is asked for."""

    def play(self, script: Sequence[str] = (), columns: int = 1, **options: Any) -> Any:
        """The player, in a notebook; without a reader in front of it, the film strip of a script of clicks (see
        `pykraft.viz.stories.story_player`). `options` are those of `board`."""
        from pykraft.viz.stories.story_player import play

        return play(self, script, columns, **options)

    def save(self, path: str | Path, **options: Any) -> Path:
        """Write this story as one page that plays in a browser, without a kernel (see
        `pykraft.viz.stories.story_page`)."""
        from pykraft.viz.stories.story_page import save

        return save(self, path, **options)

    def _repr_mimebundle_(self, **limits: Any) -> Any:
        return self.play()._repr_mimebundle_(**limits)
