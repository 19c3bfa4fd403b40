"""An experiment about a claim: what counts as an answer is written down before anything is measured.

::

    plan = Experiment(
        claim="With fetch.max.wait.ms=1000 a consumer hears of a record at least 10 times as late as with 10.",
        compared=("1000 ms", "10 ms"),
        holds_if="at least 10 times",
        prediction=50,
        because="a record meets a fetch that waits, and has to wait for its end: half of the time, in the mean",
        held="one broker, one partition, one record at a time",
    )
    plan                                     # the rule in words
    outcome = plan.run(lambda arm: readers[arm].hear(5), seed=nb.seed)
    outcome                                  # HOLDS, DOES NOT HOLD or UNDECIDED, and a picture of the pairs
    outcome.report(threats=[...])            # a page that another person can check and repeat

**Pairs.** Each pair measures both arms, one right after the other, and gives a factor: the first divided by the second.
Which arm goes first is drawn by the seed. So a machine that becomes slower meanwhile slows both arms down.

**The rule.** A pair speaks for the claim if its factor is beyond the claimed one by the margin, and against it if it
falls short by the margin. `needed` of the pairs must agree: so many that a fair coin would do it at most once in twenty
times (a sign test). If they do not, the outcome is UNDECIDED: measure longer, or make a smaller claim.

The fields are those of lab 04's report, whose raw numbers count a disk's bytes; here a measurement is any number above
zero. What still says FILL IN is refused in one sentence.
"""

import csv
import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from html import escape
from math import comb
from pathlib import Path
from random import Random
from statistics import median
from typing import Any, NamedTuple

from pykraft.course.lesson import FAILS, HOLDS
from pykraft.viz.drawing.figure import Figure
from pykraft.viz.measured.pairs_chart import factors_of_pairs
from pykraft.viz.measured.verdict_chart import Finding

UNDECIDED = "UNDECIDED"
UNWRITTEN = "FILL IN"
MARGIN = 1.25
PAIRS, FEWEST_PAIRS = 8, 5
CHANCE = 0.05
REASON_WORDS = 12
THREATS = 3


class Pair(NamedTuple):
    """Both arms, measured one right after the other."""

    first: str
    """The arm that was measured first."""
    values: tuple[float, float]
    """In the order of `Experiment.compared`."""

    @property
    def factor(self) -> float:
        return self.values[0] / self.values[1]


@dataclass(frozen=True)
class Experiment:
    """A claim, what you expect, and how it is decided. ValueError says which field is not as it must be."""

    claim: str
    """One sentence, with the number that decides."""
    compared: tuple[str, str]
    """The two arms; the first is divided by the second."""
    holds_if: str
    """As in "at least 10 times" or "at most 2 times"."""
    prediction: float
    """The factor that you expect."""
    because: str
    """Why you expect it."""
    held: str = ""
    """What is the same in both arms."""
    unit: str = "ms"
    pairs: int = PAIRS
    margin: float = MARGIN
    written: str = field(default_factory=lambda: datetime.now().isoformat(" ", "seconds"), init=False)

    def __post_init__(self) -> None:
        for each in fields(self):
            if UNWRITTEN in str(getattr(self, each.name)):
                raise ValueError(f"{each.name} still says {UNWRITTEN}: write it before you measure")
        if not re.fullmatch(r"at (least|most) \d+(\.\d+)? times", self.holds_if):
            raise ValueError(f"holds_if={self.holds_if!r}: say it as in 'at least 10 times' or 'at most 2 times'")
        if not re.search(rf"(?<![\d.]){self.claimed:g}(?![\d.]*\d)", self.claim):
            raise ValueError(f"the claim has no {self.claimed:g} in it, which is the number of holds_if")
        if len(self.because.split()) < REASON_WORDS:
            raise ValueError(f"because has {len(self.because.split())} words: give a reason of {REASON_WORDS} or more")
        if self.pairs < FEWEST_PAIRS or self.margin <= 1 or self.prediction <= 0:
            raise ValueError(f"there are at least {FEWEST_PAIRS} pairs, the margin is above 1, the prediction above 0")

    @property
    def claimed(self) -> float:
        """The factor of `holds_if`."""
        return float(self.holds_if.split()[2])

    @property
    def is_at_least(self) -> bool:
        return self.holds_if.startswith("at least")

    @property
    def needed(self) -> int:
        """How many pairs must agree: a fair coin would fall so at most once in twenty times."""
        return next(k for k in range(self.pairs + 1) if _chance_of_at_least(k, self.pairs) <= CHANCE)

    @property
    def bounds(self) -> tuple[float, float]:
        """Up to the first a factor is too small for the claimed one, from the second on it is too large."""
        return self.claimed / self.margin, self.claimed * self.margin

    @property
    def rule(self) -> str:
        """What the outcome will be called, in words."""
        low, high = self.bounds
        small, large = f"at most {low:g}", f"at least {high:g}"
        yes, no = (large, small) if self.is_at_least else (small, large)
        enough = f"{self.needed} or more of {self.pairs} pairs"
        return (
            f"A pair's factor is {self.compared[0]} divided by {self.compared[1]}. {HOLDS} if {enough} give {yes}. "
            f"{FAILS} if {enough} give {no}. Otherwise {UNDECIDED}."
        )

    def run(self, measure: Callable[[str], float], seed: int = 0) -> "Outcome":
        """Measure all pairs: ``measure(arm)`` returns a number above zero. Each arm is measured once before, which does
        not count."""
        random = Random(f"{seed}/{self.claim}")
        for arm in self.compared:
            measure(arm)
        found = []
        for _ in range(self.pairs):
            order = random.sample((0, 1), 2)
            values = {place: self._measured(measure, self.compared[place]) for place in order}
            found.append(Pair(self.compared[order[0]], (values[0], values[1])))
        return Outcome(self, tuple(found))

    def _measured(self, measure: Callable[[str], float], arm: str) -> float:
        value = float(measure(arm))
        if not value > 0:
            raise ValueError(f"a measurement of {arm!r} gave {value:g}: a factor needs numbers above zero")
        return value

    def _lines(self) -> list[tuple[str, str]]:
        return [
            ("Claim", self.claim),
            ("Compared", f"{self.compared[0]} against {self.compared[1]}, in {self.unit}"),
            ("Holds if", self.holds_if),
            ("Prediction", f"{self.prediction:g} times"),
            ("Because", self.because),
            ("Held", self.held or "nothing is said"),
            ("Repeated", f"{self.pairs} pairs, both arms in each; the seed draws which one is first"),
            ("Rule", self.rule),
            ("Written", self.written),
        ]

    def __repr__(self) -> str:
        return "\n".join(f"{name + ':':<12}{text}" for name, text in self._lines() if name != "Written")

    def _repr_html_(self) -> str:
        rows = "".join(
            f'<tr><th style="text-align:left;vertical-align:top">{name}</th>'
            f'<td style="text-align:left">{escape(text)}</td></tr>'
            for name, text in self._lines()
        )
        return f"<table>{rows}</table>"


@dataclass(frozen=True)
class Outcome:
    """What was measured, and what the rule makes of it."""

    experiment: Experiment
    pairs: tuple[Pair, ...]

    @property
    def factors(self) -> list[float]:
        return [pair.factor for pair in self.pairs]

    @property
    def factor(self) -> float:
        """The median of the pairs' factors."""
        return median(self.factors)

    @property
    def verdict(self) -> str:
        """HOLDS, DOES NOT HOLD or UNDECIDED."""
        low, high = self.experiment.bounds
        small, large = sum(f <= low for f in self.factors), sum(f >= high for f in self.factors)
        yes, no = (large, small) if self.experiment.is_at_least else (small, large)
        needed = self.experiment.needed
        return HOLDS if yes >= needed else FAILS if no >= needed else UNDECIDED

    @property
    def sentence(self) -> str:
        """The finding, with its numbers."""
        plan = self.experiment
        return f"{self.verdict}: {_times(self.factor)}; claimed {plan.holds_if}, predicted {plan.prediction:g} times"

    @property
    def picture(self) -> Figure:
        """The pairs' factors, and the ranges of the rule."""
        plan = self.experiment
        low, high = plan.bounds
        names = (HOLDS, FAILS)[:: -1 if plan.is_at_least else 1]
        return factors_of_pairs(
            [pair.values for pair in self.pairs],
            compared=plan.compared,
            bounds=(low, high),
            ranges=(names[0], names[1]),
            title=self.sentence,
            note=plan.claim,
            unit=plan.unit,
        )

    @property
    def finding(self) -> Finding:
        """The outcome as one row among others, for `pykraft.viz.verdicts`."""
        plan = self.experiment
        typical = [median(pair.values[arm] for pair in self.pairs) for arm in (0, 1)]
        low, high = plan.bounds
        return Finding(
            plan.compared, (typical[0], typical[1]), plan.unit, self.factor,
            high if plan.is_at_least else low, not plan.is_at_least, self.verdict,
        )  # fmt: skip

    def csv(self) -> str:
        """The raw numbers: one line for each measurement, in the order in which they were made."""
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["pair", "arm", self.experiment.unit])
        for number, pair in enumerate(self.pairs, 1):
            arms = list(zip(self.experiment.compared, pair.values, strict=True))
            for arm, value in arms if pair.first == self.experiment.compared[0] else arms[::-1]:
                writer.writerow([number, arm, f"{value:.4g}"])
        return file.getvalue()

    def report(self, threats: Sequence[str]) -> "Report":
        """The whole experiment on a page. ValueError unless there are three threats, each with what was done about it
        behind a semicolon."""
        if any(UNWRITTEN in threat for threat in threats):
            raise ValueError(f"a threat still says {UNWRITTEN}")
        if len(set(threats)) < THREATS or not all(re.search(r"\w; \w", threat) for threat in threats):
            raise ValueError(
                f"name at least {THREATS} threats, each as 'what could make this wrong; what was done about it'"
            )
        return Report(self, tuple(threats))

    def __repr__(self) -> str:
        return self.picture.text

    def _repr_mimebundle_(self, **limits: Any) -> Any:
        return self.picture._repr_mimebundle_(**limits)


@dataclass(frozen=True)
class Report:
    """A page of Markdown: claim, prediction, design, threats, result."""

    outcome: Outcome
    threats: tuple[str, ...]

    @property
    def text(self) -> str:
        said = dict(self.outcome.experiment._lines())
        parts = {
            "Claim": ("Claim", "Compared", "Holds if"),
            "Prediction": ("Prediction", "Because", "Written"),
            "Design": ("Held", "Repeated", "Rule"),
        }
        pages = [f"## {title}\n\n" + "\n".join(f"- {n}: {said[n]}" for n in names) for title, names in parts.items()]
        pages.append("## Threats\n\n" + "\n".join(f"- Threat: {threat}" for threat in self.threats))
        low, high = min(self.outcome.factors), max(self.outcome.factors)
        pages.append(
            f"## Result\n\n- Factor: {_times(self.outcome.factor)} (median; from {_times(low)} to {_times(high)})\n"
            f"- Verdict: {self.outcome.verdict}\n\n```csv\n{self.outcome.csv()}```"
        )
        return "\n\n".join(pages) + "\n"

    def save(self, path: str | Path) -> Path:
        """Write it to a file."""
        Path(path).write_text(f"# {self.outcome.experiment.claim}\n\n{self.text}", encoding="utf-8")
        return Path(path)

    def __repr__(self) -> str:
        return self.text

    def _repr_markdown_(self) -> str:
        return self.text.replace("## ", "#### ")


def _times(factor: float) -> str:
    return f"{factor:.2g} times" if factor < 10 else f"{factor:,.0f} times"


def _chance_of_at_least(count: int, of: int) -> float:
    """How likely a fair coin falls heads so often or oftener."""
    return sum(comb(of, k) for k in range(count, of + 1)) / float(2**of)
