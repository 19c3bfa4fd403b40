"""What notebook 04 says besides its claims; see tests/harness/notebook_facts.py."""

from __future__ import annotations

from typing import Any

from tests.harness.notebook_facts import fact


@fact("A batch shares one sync: ten times as fast.", after="shared = together / alone")
def a_shared_sync(shared: Any, file: Any) -> None:
    assert file.never_synced or shared > 1.5, shared


@fact("Objects take more than twice the memory of small records, and not of large ones.", after="lever(draw_caches")
def objects_in_the_heap() -> None:
    from pykraft.course.lessons.disk.cache_lever import COLLECTOR, FETCH, LOOK, MEMORY, RESTART, outcomes_of

    small, large = outcomes_of(1000, 100), outcomes_of(200, 2000)
    found = {said: (outcome.verdict, round(outcome.factor, 1)) for said, outcome in small.items()}
    assert {verdict for verdict, _ in found.values()} <= {"HOLDS", "UNDECIDED"}, found
    assert found[MEMORY][0] == "HOLDS" and 2.5 <= found[MEMORY][1] <= 5, found
    assert min(found[said][1] for said in (COLLECTOR, RESTART, FETCH, LOOK)) > 3, found
    assert large[MEMORY].verdict == "DOES NOT HOLD", large[MEMORY].factors
