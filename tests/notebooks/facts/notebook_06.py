"""What notebook 06 says besides its claims; see tests/harness/notebook_facts.py."""

from __future__ import annotations

from typing import Any

from tests.harness.notebook_facts import fact


@fact("Flexible versions hardly make a list smaller: twenty topics save one byte.", after='nb.answer("saved")')
def one_byte_saved(sizes: Any) -> None:
    assert sizes[8] - sizes[9] == 1, sizes


@fact(
    "A broker answers a broken frame with silence, and serves its other connections.",
    after="outcomes = {name: outcome(cluster, octets)",
)
def silence(outcomes: Any, still_served: Any) -> None:
    assert set(outcomes.values()) == {"connection closed"}, outcomes
    assert still_served
