"""What notebook 04 says besides its claims; see tests/harness/notebook_facts.py."""

from __future__ import annotations

from typing import Any

from tests.harness.notebook_facts import fact


@fact("A batch shares one sync: ten times as fast.", after="shared = together / alone")
def a_shared_sync(shared: Any, file: Any) -> None:
    assert file.never_synced or shared > 1.5, shared
