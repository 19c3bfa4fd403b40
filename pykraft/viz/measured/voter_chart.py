"""The voters of a quorum, step by step: a row for each moment, a box for each controller, and whether anything commits.

A voter has a whole border, a controller without a vote a dashed one. One that runs is filled, and its sign says what it
does::

    ◆ leads    ● follows    ▲ wants to lead, and is not elected    ○ runs without a vote    ✕ is dead

At the right are the majority of the newest voter set, and the records that were committed in the time after the step.
The text beside the picture has the same facts.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from pykraft.viz.drawing import palette
from pykraft.viz.drawing.charts import WIDTH, finished, headed
from pykraft.viz.drawing.figure import Figure
from pykraft.viz.drawing.svg import Svg, shortened

LEADS, FOLLOWS, STANDS, WATCHES, DEAD = "leads", "follows", "wants to lead", "runs without a vote", "dead"
_SIGNS = {LEADS: "◆", FOLLOWS: "●", STANDS: "▲", WATCHES: "○", DEAD: "✕"}
_FILLINGS = {LEADS: palette.BLUE, FOLLOWS: palette.SKY, STANDS: palette.ORANGE, WATCHES: "none", DEAD: "none"}
_LEFT, _TOP, _ROW, _BOX, _HEIGHT, _GAP = 176.0, 74.0, 54.0, 58.0, 36.0, 6.0


class Moment(NamedTuple):
    """What the controllers are after a step."""

    what: str
    answer: str
    """What an administrator heard, if the step was a request."""
    controllers: Mapping[int, str]
    """By id: `LEADS`, `FOLLOWS`, `STANDS`, `WATCHES` or `DEAD`."""
    voters: Collection[int]
    """The newest voter set, committed or not."""
    committed: int
    """How many records were committed in the time after it."""

    @property
    def running(self) -> int:
        """The voters that run."""
        return sum(self.controllers[voter] != DEAD for voter in self.voters)

    @property
    def majority(self) -> int:
        return len(self.voters) // 2 + 1


def voters_by_step(moments: Sequence[Moment], *, title: str, note: str = "", seconds: float = 1.0) -> Figure:
    """Draw the moments; `seconds` is the time in which the records were counted. ValueError if there is none."""
    if not moments:
        raise ValueError("voters_by_step needs a moment")
    foot = _TOP + _ROW * len(moments)
    svg = headed(title, note, foot + 20)
    for row, moment in enumerate(moments):
        _draw_moment(svg, moment, _TOP + _ROW * row, seconds)
    key = " · ".join(f"{sign} {name}" for name, sign in _SIGNS.items())
    svg.text(0, foot + 10, f"{key} · dashed border: no voter", 12.5, opacity=palette.FAINT)
    return finished(svg, title, note, list(_in_words(moments, seconds)), {"data": [], "layout": {}})


def _draw_moment(svg: Svg, moment: Moment, y: float, seconds: float) -> None:
    svg.text(0, y + (16 if moment.answer else 23), shortened(moment.what, _LEFT - 10, 13, bold=True), 13, bold=True)
    if moment.answer:
        svg.text(0, y + 33, shortened(moment.answer, _LEFT - 10, 11, mono=True), 11, mono=True, opacity=palette.FAINT)
    for number, (controller, role) in enumerate(moment.controllers.items()):
        _draw_controller(svg, _LEFT + number * (_BOX + _GAP), y, controller, role, controller in moment.voters)
    x = _LEFT + len(moment.controllers) * (_BOX + _GAP) + 14
    svg.text(x, y + 16, _verdict(moment, seconds), 14, bold=True)
    svg.text(x, y + 33, shortened(_counted(moment), WIDTH - x, 12), 12, opacity=palette.FAINT)


def _draw_controller(svg: Svg, x: float, y: float, controller: int, role: str, is_voter: bool) -> None:
    filling = _FILLINGS[role]
    svg.rect(
        x, y, _BOX, _HEIGHT, rx=5, fill=filling, stroke="currentColor", stroke_width="2" if is_voter else "1.2",
        stroke_dasharray=None if is_voter else "4 3",
    )  # fmt: skip
    ink = None if filling == "none" else palette.ink_on(filling)
    svg.text(
        x + _BOX / 2, y + 23, f"{_SIGNS[role]} {controller}", 12.5, anchor="middle", bold=role != DEAD, fill=ink,
        opacity=palette.FAINT if role == DEAD else 1.0,
    )  # fmt: skip


def _verdict(moment: Moment, seconds: float) -> str:
    return f"commits {moment.committed} records in {seconds:g} s" if moment.committed else "commits nothing"


def _counted(moment: Moment) -> str:
    return f"{moment.running} of {len(moment.voters)} voters run, a majority is {moment.majority}"


def _in_words(moments: Sequence[Moment], seconds: float) -> Iterator[str]:
    for moment in moments:
        answer = f" ({moment.answer})" if moment.answer else ""
        roles = ", ".join(f"{controller} {role}" for controller, role in moment.controllers.items())
        yield f"{moment.what}{answer}: {roles}; {_counted(moment)}: {_verdict(moment, seconds)}"
