"""The game of notebook 25: one line of the real code is wrong, and a law is broken.

::

    game = Game(1)
    game.search()                      # seed after seed, until a law breaks
    game.shrink()                      # leave out what the broken law does not need
    game.play()                        # the history, at its first wrong state
    game.tell()                        # the same in plain words
    game.hint()                        # one of three; each costs more
    game.name("raft.leader_state", 182)
    game.patch("reached = ...", "reached = ...")
    game.certificate                   # one line that another person can replay

You begin a case with 100 points. Hints cost 10, 20 and 30; a line that is not the wrong one and a patch that breaks a
law cost 10 each. Looking is free: search, shrink, play and read as often as you like.

The game is a list of *clicks*, and everything follows from them: which seed was found, what a patch broke, the points.
So a certificate is the case and the clicks, and it is checked by clicking again (`certificate`).

A patch is the new text of one function. It must break no law in a hundred seeds; the seed that has shown the bug runs
first, and to its very end. In a headless run the game plays itself, with the solution and a few seeds.
"""

import base64
import textwrap
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import count

from pykraft.course.lessons.find_the_bug.cases import CASES, SHOWN, Case
from pykraft.course.lessons.find_the_bug.code import (
    SUSPECTS,
    Place,
    function_at,
    running_function,
    short,
    wrong_place,
)
from pykraft.course.lessons.find_the_bug.runs import in_order
from pykraft.sim.bugs.planting import planted
from pykraft.sim.bugs.rewriting import PACKAGE, Refused, Rewrite, functions_of
from pykraft.sim.bugs.wrong_lines import WRONG_LINES
from pykraft.sim.laws.names import LAWS
from pykraft.sim.search.shrinker import Shrinker, runner
from pykraft.sim.search.workers import Outcome, Unusable
from pykraft.sim.trouble.knobs import KINDS, Knobs, draw
from pykraft.sim.trouble.omissions import NOTHING, Omissions
from pykraft.surroundings import Told, is_headless

POINTS = 100
HINT_COSTS = (10, 20, 30)
ATTEMPT_COST = 10
"""Of a line that is not the wrong one, and of a patch that does not hold."""
SEEDS = 100
"""So many must pass with the patch."""
_MOST_MESSAGES = 20
"""A smaller history whose line would name more late or lost messages than this is not taken over yet."""
_BLOCK = 16
"""So many seeds are searched at once."""

Listener = Callable[[int, int, str], None]
"""Hears how far a long run is: so many of so many, and what came last."""


class GameError(Told):
    """A step that cannot be taken now; the text says what to do first."""


@dataclass(frozen=True)
class Found:
    """The history that breaks a law."""

    seed: int
    law: str
    step: int
    words: str
    searched: int
    """So many seeds were searched, this one included."""


@dataclass(frozen=True)
class Verdict:
    """What came of a patch."""

    passed: int
    """So many seeds broke no law."""
    seeds: int
    seed: int = 0
    law: str = ""
    words: str = ""
    """Where it is broken: the seed, the law, and what was found."""

    @property
    def holds(self) -> bool:
        return not self.law

    def __str__(self) -> str:
        if self.holds:
            return f"{self.passed} of {self.seeds} seeds passed: no law is broken any more."
        says = f": {LAWS[self.law]}" if self.law in LAWS else ""
        return f"Seed {self.seed} breaks the law {self.law}{says}. {self.words}"


class Game:
    """One case and one player."""

    def __init__(self, number: int, on_progress: Listener = lambda done, of, words: None) -> None:
        """GameError if there is no such case."""
        known = {SHOWN.number: SHOWN, **CASES}
        if number not in known:
            raise GameError(f"there is no case {number!r}: there are {min(CASES)} to {max(CASES)}")
        self.case: Case = known[number]
        self.on_progress = on_progress
        self.clicks: list[str] = []
        self.found: Found | None = None
        self.omitted: Omissions = NOTHING
        self.is_named = False
        self.verdict: Verdict | None = None
        """Of the last patch."""
        self._rewrite: Rewrite | None = None
        self._hints = self._wrong = 0

    # --- the history --------------------------------------------------------------------------------------------------

    def search(self) -> Found:
        """Run seed after seed from the case's first on, until a law breaks."""
        if self.found is None:
            searched = 0
            for block in count(self.case.first, _BLOCK):
                for each in in_order(range(block, block + _BLOCK), self.case.bug, self.case.most_steps):
                    searched += 1
                    self.on_progress(searched, 0, f"seed {each.seed}: {'the law ' + each.law if each.law else 'sound'}")
                    if each.law:
                        self.found = _found(each, searched)
                        return self.found
        assert self.found is not None
        return self.found

    @property
    def knobs(self) -> Knobs:
        """Of the found history, with what is left out of it."""
        return replace(draw(self._known().seed), omitted=self.omitted)

    def shrink(self, most_tries: int = 60) -> Omissions:
        """Leave out what the broken law does not need; what is left out so far, after `most_tries`. A headless run
        takes what is known of the recorded history, where that still fails."""
        found = self._known()
        if is_headless() and self._recall() != NOTHING:
            return self.omitted
        with planted(self.case.bug):
            shrinker = Shrinker(runner(found.seed, draw(found.seed)), self.omitted)
            for said in shrinker.shrink():
                if len(shrinker.omitted.messages or ()) <= _MOST_MESSAGES:
                    self.omitted = shrinker.omitted
                self.on_progress(shrinker.tries, most_tries, f"left out: {said}")
                if shrinker.tries >= most_tries:
                    break
        return self.omitted

    def _recall(self) -> Omissions:
        """What is known to be left out of the recorded history; nothing if the seed is another one by now."""
        found, known = self._known(), NOTHING
        for word in self.case.less.split():
            known = known.with_word(word, KINDS)
        with planted(self.case.bug):
            failure = runner(found.seed, draw(found.seed))(known) if self.case.less else None
        if failure is not None and failure.law == found.law:
            self.omitted = known
        return self.omitted

    def _known(self) -> Found:
        if self.found is None:
            raise GameError("no law is broken yet: search first")
        return self.found

    # --- what costs points --------------------------------------------------------------------------------------------

    @property
    def points(self) -> int:
        """What is left of a hundred."""
        return max(0, POINTS - sum(HINT_COSTS[: self._hints]) - ATTEMPT_COST * self._wrong)

    @property
    def hints_left(self) -> int:
        return len(self.case.hints) - self._hints

    def hint(self) -> str:
        """The next hint. GameError: all were given."""
        if not self.hints_left:
            raise GameError("all three hints were given; read them again, they are still true")
        self.clicks.append("hint")
        self._hints += 1
        return self.case.hints[self._hints - 1]

    @property
    def hints(self) -> tuple[str, ...]:
        """Those that were given."""
        return self.case.hints[: self._hints]

    def name(self, module: str, line: int) -> bool:
        """Say which line is wrong, by its number in the file; whether it is. GameError: no function has this line."""
        self._known()
        place = Place(_full(module), line)
        if function_at(place) is None:
            raise GameError(f"{place} is in no function: the wrong line is in one")
        self.clicks.append(f"name:{place.module.removeprefix(PACKAGE)}:{line}")
        is_right = place == wrong_place(self.case.bug)
        if is_right:
            self.is_named = True
        else:
            self._wrong += 1
        return is_right

    @property
    def function(self) -> tuple[str, str]:
        """Module and name of the function with the wrong line. GameError: the line is not named yet."""
        if not self.is_named:
            raise GameError("the wrong line is not named yet: name it first")
        wrong = WRONG_LINES[self.case.bug]
        return wrong.module, wrong.function

    @property
    def text(self) -> str:
        """The function as it runs, or as it was patched last."""
        return self._rewrite.text if self._rewrite else running_function(self.case.bug, *self.function)

    def patch(self, old: str, new: str, seeds: int = SEEDS) -> Verdict:
        """Replace a text that is once in the function, and try the whole in so many seeds. GameError: it is not."""
        text = running_function(self.case.bug, *self.function)
        if text.count(old) != 1:
            raise GameError(f"{old!r} is {text.count(old)} times in {self.function[1]}, not once")
        return self.rewrite(text.replace(old, new), seeds)

    def rewrite(self, text: str, seeds: int = SEEDS) -> Verdict:
        """Put a new text in place of the function, and run so many seeds. GameError: the text is refused."""
        found = self._known()
        rewrite = Rewrite(*self.function, text)
        try:
            rewrite.check()
        except Refused as reason:
            raise GameError(f"the patch is refused: {reason}") from None
        self._rewrite, self.verdict = rewrite, None
        self.clicks.append(f"patch:{seeds}:{packed(text)}")
        verdict = self._tried(rewrite, found.seed, seeds)
        if not verdict.holds:
            self._wrong += 1
        self.verdict = verdict
        return verdict

    def _tried(self, rewrite: Rewrite, shown: int, seeds: int) -> Verdict:
        passed = 0
        try:
            for each in self._histories(rewrite, shown, seeds):
                if each.law:
                    return Verdict(passed, seeds, each.seed, each.law, each.line)
                passed += 1
                self.on_progress(passed, seeds, f"seed {each.seed}: sound")
        except (Refused, Unusable) as reason:
            return Verdict(passed, seeds, shown, "no law", str(reason))
        return Verdict(passed, seeds)

    def _histories(self, rewrite: Rewrite, shown: int, seeds: int) -> Iterator[Outcome]:
        """The history that has shown the bug, to its end; then the others in their order, each to its limit."""
        yield from in_order([shown], self.case.bug, 0, rewrite)
        others = [seed for seed in range(self.case.first, self.case.first + seeds) if seed != shown][: seeds - 1]
        yield from in_order(others, self.case.bug, self.case.most_steps, rewrite)

    @property
    def is_solved(self) -> bool:
        """The line is named, and the last patch holds."""
        return self.is_named and self.verdict is not None and self.verdict.holds

    # --- without a reader ---------------------------------------------------------------------------------------------

    def solve(self, seeds: int = SEEDS) -> Verdict:
        """Name the line and mend it, as a person does who knows the answer."""
        wrong, place = WRONG_LINES[self.case.bug], wrong_place(self.case.bug)
        self.search()
        if not self.is_named:
            self.name(place.module, place.line)
        return self.patch(wrong.wrong, wrong.right, seeds)


def _found(each: Outcome, searched: int) -> Found:
    words = each.line.partition(" ms: ")[2] or each.line
    return Found(each.seed, each.law, each.step, words.removeprefix("Violation: "), searched)


def _full(module: str) -> str:
    """A module's full name, from its name within pykraft or its file. GameError: it is none of the suspects."""
    name = module.removeprefix(PACKAGE).removesuffix(".py").replace("/", ".")
    for known in SUSPECTS:
        if known == PACKAGE + name or known.endswith(f".{name}"):
            functions_of(known)
            return known
    raise GameError(f"{module} is none of the files: {', '.join(short(each) for each in SUSPECTS)}")


def packed(text: str) -> str:
    """A text as part of a certificate: letters that no mail changes."""
    return base64.urlsafe_b64encode(zlib.compress(textwrap.dedent(text).encode(), 9)).decode().rstrip("=")


def unpacked(word: str) -> str:
    """The text of such a word. ValueError: it is none."""
    try:
        stream = zlib.decompressobj()
        text = stream.decompress(base64.urlsafe_b64decode(word + "=" * (-len(word) % 4)), 100_000)
        return text.decode()
    except (ValueError, zlib.error) as error:
        raise ValueError(f"{word[:12]!r}... is no text: {error}") from None
