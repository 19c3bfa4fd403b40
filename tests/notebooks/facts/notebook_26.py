"""What notebook 26 says besides its claims; see tests/harness/notebook_facts.py."""

from __future__ import annotations

from typing import Any

from tests.harness.notebook_facts import fact


@fact("Compared with itself, a consumer shows no effect: noise alone makes no verdict.", after="same = itself.run(")
def noise_makes_no_verdict(same: Any) -> None:
    assert same.verdict != "HOLDS", same
