"""What notebook 02 says besides its claims; see tests/harness/notebook_facts.py."""

from __future__ import annotations

from typing import Any

from tests.harness.notebook_facts import fact


@fact("With an interval of 1 byte the index is the same: no batch gets a second entry.", after='nb.answer("interval")')
def the_densest_index(dense: Any) -> None:
    assert dense["1"] == dense["4,096"], dense
