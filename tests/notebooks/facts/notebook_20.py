"""What notebook 20 says besides its claims; see tests/harness/notebook_facts.py."""

from __future__ import annotations

from typing import Any

from tests.harness.notebook_facts import fact


@fact("A reader that is away longer than delete.retention.ms keeps the deleted key.", after='nb.answer("ghost")')
def a_deleted_key_that_stays(away: Any, new: Any) -> None:
    assert away.table.keys() - new.table.keys() == {b"C"}, (away.table, new.table)


@fact("retention.bytes is a lower limit: that much stays.", after='left = segments(cluster, "by-size")')
def that_much_stays(left: Any, limit: Any) -> None:
    oldest, size = next(iter(left.values())), sum(left.values())
    assert limit <= size < limit + oldest, size
