"""A certificate: the case, the seed, the clicks and the points, in one line that another person can replay.

::

    pykraft/0.1.0/find-the-bug/1/61/hint+name:broker.replication.partition:352+patch:100:eNp1.../90

`verify` believes none of it. It begins the same case, searches, clicks what the line says was clicked, and compares:
the seed that was found, the line that was named, whether the last patch holds in as many seeds, and the points. So a
certificate takes as long to check as the game took to compute, and one that does not add up is refused with the reason.
It cannot know of clicks that the line leaves out: a player who drops a hint from the line has cheated a friend, not the
program.

A patch is another person's code, and it runs when you verify. `Rewrite.check` lets it use no word that the module does
not have already; see there what that is worth.
"""

from dataclasses import dataclass

from pykraft.common.version import VERSION
from pykraft.course.lessons.find_the_bug.cases import CASES
from pykraft.course.lessons.find_the_bug.game import HINT_COSTS, POINTS, SEEDS, Game, GameError, Listener, unpacked

_NAME = "find-the-bug"
_MOST_CLICKS = 60
_LONGEST = 40_000


@dataclass(frozen=True)
class Checked:
    """What a certificate is worth."""

    is_valid: bool
    words: str

    def __repr__(self) -> str:
        return f"{'VALID' if self.is_valid else 'REFUSED'}  {self.words}"


def certificate(game: Game) -> str:
    """The line of a solved case. GameError: it is not solved yet."""
    if not game.is_solved or game.found is None:
        raise GameError("a certificate needs the wrong line, named, and a patch that holds")
    clicks = "+".join(game.clicks)
    return f"pykraft/{VERSION}/{_NAME}/{game.case.number}/{game.found.seed}/{clicks}/{game.points}"


def verify(line: str, on_progress: Listener = lambda done, of, words: None) -> Checked:
    """Click again what a certificate says was clicked, and compare."""
    try:
        number, seed, clicks, points = _read(line)
        most = max(0, POINTS - sum(HINT_COSTS[: clicks.count("hint")]))
        if points > most:
            return Checked(False, f"the hints leave {most} points at most, and the line says {points}")
        game = Game(number, on_progress)
        found = game.search()
        if found.seed != seed:
            return Checked(False, f"the search finds seed {found.seed}, and the line says {seed}")
        for click in clicks:
            _click(game, click)
    except (ValueError, GameError) as reason:
        return Checked(False, str(reason))
    if not game.is_named:
        return Checked(False, "the wrong line was not named")
    if game.verdict is None or not game.verdict.holds:
        return Checked(False, f"the last patch does not hold: {game.verdict or 'there is none'}")
    if game.points != points:
        return Checked(False, f"these clicks leave {game.points} points, and the line says {points}")
    seeds = game.verdict.seeds
    held = f"{seeds} seed{'s' * (seeds != 1)}"
    practice = "" if seeds >= SEEDS else f", {SEEDS - seeds} fewer than a full certificate has"
    return Checked(True, f"case {number}, seed {seed}: {points} points; the patch holds in {held}{practice}")


def _read(line: str) -> tuple[int, int, list[str], int]:
    parts = line.strip().split("/")
    if len(parts) != 7 or parts[0] != "pykraft" or parts[2] != _NAME or len(line) > _LONGEST:
        raise ValueError("this is no certificate: one is pykraft/VERSION/find-the-bug/CASE/SEED/CLICKS/POINTS")
    if parts[1] != VERSION:
        raise ValueError(f"it is of pykraft {parts[1]}, and this is {VERSION}: histories are other ones")
    case, seed, clicks, points = parts[3:]
    if not (case.isdigit() and seed.isdigit() and points.isdigit()) or int(case) not in CASES:
        raise ValueError("case, seed and points are numbers, and there is no such case")
    found = clicks.split("+")
    if len(found) > _MOST_CLICKS:
        raise ValueError(f"{len(found)} clicks are more than {_MOST_CLICKS}")
    return int(case), int(seed), found, int(points)


def _click(game: Game, click: str) -> None:
    match click.split(":"):
        case ["hint"]:
            game.hint()
        case ["name", module, line] if line.isdigit():
            game.name(module, int(line))
        case ["patch", seeds, text] if seeds.isdigit() and 1 <= int(seeds) <= SEEDS:
            game.rewrite(unpacked(text), int(seeds))
        case _:
            raise ValueError(f"{click[:40]!r} is no click")
