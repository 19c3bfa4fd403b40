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


@fact("A short session shortens the silence after a crash, and moves what a slow restart leaves.", after="panels = {")
def a_short_session(VirtualGroup: Any) -> None:  # noqa: N803 (the notebook's name)
    from pykraft.common.errors import ConfigError

    short = {"session_timeout_ms": 10_000}
    group = VirtualGroup("sticky", **short)
    group.join("ann", "ben")
    group.wait(10)
    group.crash("ben")
    group.wait(20)
    silence = max(end - begin for spans in group.owners.values() for owner, begin, end in spans if not owner)
    assert 10 < silence < 14, silence
    moved = []
    for session in ({}, short):
        static = VirtualGroup("sticky", is_static=True, **session)
        static.join("ann", "ben")
        static.wait(10)
        static.leave("ben")
        static.wait(15)
        moved.append(static.moved("ben leaves"))
    assert moved == [0, 6], moved
    try:
        VirtualGroup("consumer", **short).join("ann")
    except ConfigError as error:
        assert "session.timeout.ms cannot be set when group.protocol=CONSUMER" in str(error)
    else:
        raise AssertionError("the setting was taken")


@fact("A client whose program does not poll leaves its group, and the program learns of it late.", after="panels = {")
def a_client_leaves_by_itself(VirtualGroup: Any) -> None:  # noqa: N803 (the notebook's name)
    group = VirtualGroup("cooperative-sticky", max_poll_interval_ms=20_000)
    group.join("ann", "ben")
    group.wait(10)
    group.pause("ben", 30)
    group.wait(25)
    (_, ann), (_, ben) = group._members.values()
    assert ben.core.group.membership.state.name == "UNJOINED" and len(ann.partitions) == 12 > len(ben.partitions) == 6
    group.wait(15)
    assert not ann.partitions & ben.partitions and len(ann.partitions | ben.partitions) == 12
