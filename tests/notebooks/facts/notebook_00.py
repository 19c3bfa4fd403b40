"""What notebook 00 says besides its claims; see tests/harness/notebook_facts.py."""

from __future__ import annotations

from typing import Any

from tests.harness.notebook_facts import fact


@fact("A consumer that dies before it commits makes its group read the record again.", after='nb.answer("group")')
def read_again(read: Any, partition: Any, last: Any) -> None:
    assert read == [(partition, last.offset)] * 2, read


@fact("Spark finds the record once, where it was acknowledged and not where it was first.", after='nb.answer("group")')
def spark_finds_it_once(rows: Any, partition: Any, last: Any) -> None:
    found = [(row.partition, row.offset) for row in rows]
    assert found == [(partition, last.offset)], found
