"""The board as its users have it: `board(cluster)` is a picture of a cluster, `board.live(cluster)` one with buttons.

What loads a producer and a consumer is loaded when buttons are asked for.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pykraft.surroundings import is_headless, is_notebook
from pykraft.viz.boards.cluster_board import Board
from pykraft.viz.drawing.figure import Figure

if TYPE_CHECKING:
    from pykraft.viz.boards.live import LiveBoard
    from pykraft.viz.boards.live_clicks import Breakable


class BoardWithButtons(Board):
    """A `Board` that can also be clicked."""

    def live(
        self,
        cluster: "Breakable",
        script: Sequence[str] = (),
        *,
        topic: str | None = None,
        columns: int = 1,
        **options: Any,
    ) -> "Figure | LiveBoard":
        """A board with buttons, and switches for a producer and a consumer of `topic`. Where there is no page, or no
        reader in front of it, the film strip of a script of clicks (see `live_clicks`), `columns` pictures side by
        side; without a script, the static board. `options` are those of `board`."""
        from pykraft.viz.boards.live import LiveBoard, film_strip

        if is_headless() or not is_notebook():
            return film_strip(cluster, script, topic, columns, **options)
        return LiveBoard(cluster, script, topic, **options)


board = BoardWithButtons()
