"""What notebook 23 says besides its claims; see tests/harness/notebook_facts.py."""

from __future__ import annotations

from typing import Any

from tests.harness.notebook_facts import fact


@fact("One task reads more than a third: no number of cores reads three times as fast.", after='nb.answer("cores")')
def the_fullest_partition(first: Any) -> None:
    assert 3 * max(task.records for task in first.tasks) > first.records, first.tasks


@fact(
    "For one day the source reads to the end of every log: a late record may carry an early time.",
    after='nb.answer("day")',
)
def to_the_end_of_every_log(done: Any, topic: Any) -> None:
    day, since = done["1 March"], topic.where("timestamp >= '2013-03-01'").count()
    assert day.records >= since > 10 * day.result > 0, (day, since)
