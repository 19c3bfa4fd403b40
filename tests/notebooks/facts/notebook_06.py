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


@fact("Names of 130 letters make version 9 longer, by 19 bytes.", after="names = [f")
def long_names_cost_bytes() -> None:
    from pykraft.course.rigs.by_hand import metadata_request

    saved = {}
    for letters in (126, 127, 130):
        names = [f"topic-{number:02}".ljust(letters, "x") for number in range(20)]
        saved[letters] = len(metadata_request(8, names)) - len(metadata_request(9, names))
    assert saved == {126: 1, 127: -19, 130: -19}, saved
