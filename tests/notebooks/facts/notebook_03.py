"""What notebook 03 says besides its claims; see tests/harness/notebook_facts.py."""

from __future__ import annotations

from typing import Any

from tests.harness.notebook_facts import fact


@fact(
    "A leader writes an offset and an epoch, at most 12 bytes, and the checksum stays right.",
    after='nb.answer("place")',
)
def what_a_leader_writes(changed: Any, stored: Any) -> None:
    from pykraft.records.batch import RecordBatch

    assert not set(changed) - {*range(8), *range(12, 16)}, changed
    assert RecordBatch(memoryview(stored)).is_valid
