"""Runs the histories of notebook 25: with a bug planted, and with the reader's patch on top of it.

With a reader in front of it each core has a process of its own, and the notebook's kernel stays free of the bug. A
headless run takes the few histories that it needs in its own process, which saves the start of others.

A history ends after so many events as its bug is likely to need, so that a hundred of them take a minute on two cores.
That has a catch: code that does nothing breaks no law in a short history. So the history that has shown the bug runs to
its very end, where the cluster must recover (law Recovery).
"""

from collections.abc import Generator, Iterable, Sequence

from pykraft.sim.bugs.planting import planted, put_back
from pykraft.sim.bugs.rewriting import Rewrite
from pykraft.sim.search.worker import outcome
from pykraft.sim.search.workers import Outcome, run_seeds
from pykraft.surroundings import is_headless


def in_order(
    seeds: Sequence[int], bug: str, most_steps: int, rewrite: Rewrite | None = None
) -> Generator[Outcome, None, None]:
    """What comes of the seeds, in their order. Refused, Unusable: the rewrite cannot be put in its place."""
    if is_headless() or len(seeds) == 1:
        yield from _here(seeds, bug, most_steps, rewrite)
        return
    early: dict[int, Outcome] = {}
    left = list(seeds)
    found = run_seeds(seeds, bug=bug, most_steps=most_steps, rewrite=rewrite)
    try:
        for each in found:
            early[each.seed] = each
            while left and left[0] in early:
                yield early.pop(left.pop(0))
    finally:
        found.close()


def _here(seeds: Iterable[int], bug: str, most_steps: int, rewrite: Rewrite | None) -> Generator[Outcome, None, None]:
    for seed in seeds:
        with planted(bug), put_back():
            if rewrite is not None:
                rewrite.apply()
            found = Outcome(**{**outcome(seed, most_steps), "rows": ()})  # type: ignore[arg-type]
        yield found
