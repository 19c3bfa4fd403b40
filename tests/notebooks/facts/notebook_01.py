"""What notebook 01 says besides its claims; see tests/harness/notebook_facts.py."""

from __future__ import annotations

from typing import Any

from tests.harness.notebook_facts import fact


@fact("If the changes are neighbours, the same tree writes less than a tenth.", after='nb.answer("growth")')
def neighbours_share_pages(many: Any) -> None:
    assert many["Tree"] > 10 * many["Tree, neighbours"], many


@fact(
    "After an orderly stop the node serves the damaged batch, and the consumer refuses it.",
    after='nb.answer("orderly")',
)
def damage_is_served_and_refused(alone: Any, damaged: Any) -> None:
    assert alone.read() == damaged
    assert "fails its checksum" in alone.refusal()
