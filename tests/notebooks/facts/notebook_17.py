"""What notebook 17 says besides its claims; see tests/harness/notebook_facts.py."""

from __future__ import annotations

from typing import Any

from tests.harness.notebook_facts import fact


@fact("sticky moves fewer partitions than range and stops as long.", after='nb.answer("stopped")')
def sticky_moves_fewer_and_stops_as_long(moved: Any, stopped: Any) -> None:
    more_moves, moves, *_ = moved.values()
    same_stop, stop, *_ = stopped.values()
    assert more_moves >= 1.5 * moves and stop == same_stop, (moved, stopped)


@fact("Two more members halve a lag that grew before.", after="lag_over_time(slow.seen")
def the_lag_is_halved(slow: Any, behind: Any) -> None:
    assert slow.lag < behind / 2, (behind, slow.lag)


@fact("An added broker leads no old partition, and gains nothing.", after='nb.answer("more")')
def an_added_broker_leads_nothing(tried: Any, lag: Any) -> None:
    four, _, added, _ = lag.values()
    assert tried["4 on 4, a broker added"].led == {1: 4, 2: 0} and four <= 1.1 * added, lag
