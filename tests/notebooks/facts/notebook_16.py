"""What notebook 16 says besides its claims; see tests/harness/notebook_facts.py."""

from __future__ import annotations

from typing import Any

from tests.harness.notebook_facts import fact


@fact("The successor lacks no record of the metadata log, and writes one or two.", after='"records it wrote": wrote')
def the_successor_lacks_nothing(takeovers: Any) -> None:
    for some in takeovers.values():
        assert all(each.behind == 0 and each.appended <= 2 for each in some), some
