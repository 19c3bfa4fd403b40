"""Rounds in which each side is asked in turn, and the rows of their medians."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence

from tests.bench.rows import Row, beside, progress
from tests.bench.sides import APACHE, OURS, Side, fresh_topic, leaders, warm_up, why_without_apache

ROUNDS = 5
WARM_UP_S = 20.0
AIM = 1.0
"""Of Apache Kafka's figure."""

Figures = dict[str, float]
"""By the name of the row."""


def in_turn(
    both: Sequence[Side], load: Callable[[Side], Figures], unit: str, lower_is_better: bool = False
) -> list[Row]:
    """Rows of the medians; every round asks all sides."""
    for side in both:
        warm_up(side, load, WARM_UP_S)
    runs: dict[str, dict[str, list[float]]] = {}
    for number in range(1, ROUNDS + 1):
        for side in both:
            for name, figure in load(side).items():
                runs.setdefault(name, {}).setdefault(side.name, []).append(figure)
        said = "; ".join(
            f"{name} " + " / ".join(f"{figures[-1]:.3g}" for figures in of.values()) for name, of in runs.items()
        )
        progress(f"round {number} of {ROUNDS}: {said}")
    return [row_of(name, unit, of, lower_is_better) for name, of in runs.items()]


def row_of(name: str, unit: str, of: Mapping[str, Sequence[float]], lower_is_better: bool) -> Row:
    """Processor time has no target: it explains the others."""
    is_cpu = "processor time" in name
    theirs = of.get(APACHE, ())
    row = beside(name, _cpu_unit(name) if is_cpu else unit, of[OURS], APACHE, theirs, note=why_without_apache())
    if is_cpu:
        return row
    if lower_is_better:
        is_met = None if row.ratio is None else row.ratio <= AIM
        return Row(**{**vars(row), "target": f"ratio <= {AIM:g}", "is_met": is_met})
    return beside(name, unit, of[OURS], APACHE, theirs, note=why_without_apache(), ratio_at_least=AIM)


def _cpu_unit(name: str) -> str:
    if "consumes" in name:
        return "CPU s/GB"
    if "transaction" in name:
        return "CPU ms/transaction"
    return "CPU ms/commit" if "commit" in name else "CPU s"


@contextlib.contextmanager
def lasting_topics(both: Sequence[Side], partitions: int) -> Iterator[dict[str, str]]:
    """One topic of each side, by the side's name, for all rounds, each partition with a record. With a new topic for
    each round the brokers would be measured while they still make its logs."""
    with contextlib.ExitStack() as stack:
        topics = {side.name: stack.enter_context(fresh_topic(side, partitions)) for side in both}
        for side in both:
            leaders(side, topics[side.name])
        yield topics
