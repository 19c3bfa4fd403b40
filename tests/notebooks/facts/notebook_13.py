"""What notebook 13 says besides its claims; see tests/harness/notebook_facts.py."""

from __future__ import annotations

from typing import Any

from tests.harness.notebook_facts import fact


@fact("Without chance, split votes follow each other: the worst run needs more elections.", after='nb.answer("chance")')
def elections_without_chance(counts: Any, rigid_counts: Any) -> None:
    assert max(rigid_counts) > max(counts) + 1, (counts, rigid_counts)


@fact("The follower that misses records loses all three elections.", after="logs, elected = behind_and_complete(seed)")
def the_complete_log_wins(won: Any) -> None:
    assert won == [True] * 3, won
