"""The board: a cluster at one moment, drawn from its `ClusterView` and from nothing else.

A card is a node. A lane in it is a replica, and shows the end of its log: one cell for each of the last records, with
the log end, the high watermark and the last stable offset between them (`board_lens`). What colour says, shape or words
say too::

    dark cells, ◆   leads the partition
    light cells, ●  follows
    filled          committed, as this node knows it: before its high watermark
    hatched         not committed
    torn off        not in the leader's log: the replica truncates it when it hears of the leader
    crossed, ringed its transaction was aborted, is open; C and A are the markers that commit and abort
    dashed frame    not in sync: it would lose records if it led
    ◆ ● ▲ ○ ✕       of a node: leads the metadata quorum, follows, wants to lead, has no vote, is dead

Links that are cut are broken lines between cards, and messages on their way are arrows below them (`board_links`).

Nodes tell what they know, and may be wrong: one that was cut off can believe that it still leads. The board believes
the highest epoch and says so where a node is behind it. Offsets that no node could tell (-1) are called unknown, not
drawn as zero.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from pykraft.cluster_view import ClusterView
from pykraft.viz.boards import board_text
from pykraft.viz.boards.board_drawing import Drawing
from pykraft.viz.boards.board_facts import BoardFacts, count_of
from pykraft.viz.boards.board_links import MOST_MESSAGES
from pykraft.viz.drawing.figure import Figure


class Describable(Protocol):
    """A cluster: something that tells its view."""

    def describe(self) -> ClusterView: ...


class Board:
    """`board(cluster)` is a picture of a cluster."""

    def __call__(
        self,
        cluster: ClusterView | Describable,
        *,
        title: str | None = None,
        when: str | None = None,
        note: str | None = None,
        facts: Sequence[str] = (),
        topics: Iterable[str] | None = None,
        max_partitions: int = 6,
        selected: int | None = None,
        max_messages: int = MOST_MESSAGES,
        legend: bool = True,
        metrics: bool = False,
    ) -> Figure:
        """Draw a cluster, or a view of it that was kept.

        `title` says what, `when` says when, `note` is one sentence below; each has a sensible default. Up to two
        `facts` stand in the upper right corner. Topics whose names begin with __ are left out unless `topics` names
        them. A card has at most `max_partitions` lanes; the text has all. Of the messages on their way `max_messages`
        are drawn, and among them the one whose id is `selected`, which is highlighted. With `metrics` each card has
        some of its node's metrics.
        """
        view = cluster if isinstance(cluster, ClusterView) else cluster.describe()
        known = BoardFacts(view, topics, metrics)
        title = title or f"Cluster of {count_of(len(view.nodes), 'node')}"
        when = when or board_text.moment(view)
        note = note or board_text.summary(known)
        shown = known.topic_partitions[:max_partitions]
        drawing = Drawing(known, shown, selected=selected, max_messages=max_messages, has_legend=legend)
        svg = drawing.draw(title, when, note, facts)
        text = board_text.text(known, title, when, note, facts)
        described = board_text.description(known, note)
        return Figure(title, svg.render(f"{title}, {when}", described), text, tuple(svg.boxes))

    def signs(
        self, view: ClusterView, topics: Iterable[str] | None = None, max_partitions: int = 6, **_: Any
    ) -> set[str]:
        """The names of the signs that a legend of this view explains: a strip of pictures explains each sign once."""
        known = BoardFacts(view, topics)
        drawing = Drawing(known, known.topic_partitions[:max_partitions], has_legend=False)
        drawing.draw("", "", "", ())
        return drawing.looks


board = Board()
