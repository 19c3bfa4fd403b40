"""What notebook 24 says besides its claims; see tests/harness/notebook_facts.py."""

from __future__ import annotations

from typing import Any

from tests.harness.notebook_facts import fact


@fact("A consumer group that never had a member says which batch was written last.", after='nb.answer("once")')
def the_number_of_the_last_batch(marker: Any, last: Any) -> None:
    assert [found.offset for found in marker.values()] == [last + 1], marker
