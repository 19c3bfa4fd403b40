"""The board of points: ten cases, how hard each is, and what the reader has won.

Points are kept with the learner's progress, on this machine alone; the best attempt counts. What counts for others is
the certificate.
"""

from collections.abc import Mapping

from pykraft.course.lessons.find_the_bug.cases import CASES, EASY, MIDDLE, Case
from pykraft.course.lessons.find_the_bug.game import POINTS, Game
from pykraft.course.progress import note, read_progress
from pykraft.surroundings import is_headless
from pykraft.viz.drawing import palette
from pykraft.viz.drawing.charts import finished, headed
from pykraft.viz.drawing.figure import Figure
from pykraft.viz.drawing.svg import wrapped

NOTEBOOK = "25"
_COLUMNS, _WIDTH, _BOX, _HEIGHT, _GAP, _TOP = 5, 960, 184, 84, 10, 62
_STARS = {EASY: "★", MIDDLE: "★★"}


def noted_points() -> dict[int, int]:
    """The best points of each solved case; nothing in a headless run."""
    if is_headless():
        return {}
    found = read_progress()["notebooks"].get(NOTEBOOK, {}).get("cases", {})
    return {number: int(found[str(number)]) for number in CASES if str(number) in found}


def note_points(game: Game) -> None:
    """Keep the points of a solved case, if they are more than before."""
    number = game.case.number
    note("notebooks", NOTEBOOK, cases={str(number): max(game.points, noted_points().get(number, 0))})


def board_of(points: Mapping[int, int]) -> Figure:
    """The ten cases; `points` are those of the solved ones."""
    total = sum(points.values())
    title = f"{len(points)} of {len(CASES)} bugs found: {total:,} of {POINTS * len(CASES):,} points"
    note_below = "★ easy · ★★ medium · ★★★ hard"
    rows = -(-len(CASES) // _COLUMNS)
    svg = headed(title, note_below, _TOP + rows * (_HEIGHT + _GAP))
    words = []
    for place, case in enumerate(CASES.values()):
        x, y = (place % _COLUMNS) * (_BOX + _GAP), _TOP + (place // _COLUMNS) * (_HEIGHT + _GAP)
        is_solved = case.number in points
        svg.rect(
            x, y, _BOX, _HEIGHT, rx=6, fill=palette.SKY if is_solved else "none", fill_opacity="0.35",
            stroke="currentColor", stroke_opacity="0.5",
        )  # fmt: skip
        stars = _STARS.get(case.difficulty, "★★★")
        svg.text(x + 10, y + 20, f"{case.number}  {stars}", 13, bold=True)
        for line, text in enumerate(wrapped(case.title, _BOX - 20, 13)[:2]):
            svg.text(x + 10, y + 40 + 16 * line, text, 13)
        svg.text(x + 10, y + 76, _state(case, points), 12)
        words.append(f"case {case.number}, {case.difficulty}: {case.title}, {_state(case, points)}")
    return finished(svg, title, note_below, words, {"data": [], "layout": {}})


def _state(case: Case, points: Mapping[int, int]) -> str:
    return f"✔ {points[case.number]} points" if case.number in points else "not found yet"
