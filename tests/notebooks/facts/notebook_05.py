"""What notebook 05 says besides its claims; see tests/harness/notebook_facts.py."""

from __future__ import annotations

from tests.harness.notebook_facts import fact


@fact("A larger send buffer alone gains nothing on a link; both together do.", after="lever(draw_buffers")
def the_smaller_buffer_is_the_limit() -> None:
    from pykraft.course.lessons.zero_copy.buffer_lever import FAR, SYSTEMS, outcomes_of

    one, both = outcomes_of(1024, 64, 50, 1000), outcomes_of(1024, 1024, 50, 1000)
    (yours, alone), (_, together) = one, both
    assert yours.receiver < yours.sender and 0.005 < 0.8 / yours.seconds(100_000_000, 50, 1000) < 0.03, yours
    assert alone[FAR].verdict == "DOES NOT HOLD", alone[FAR].factors
    assert min(together[FAR].factor, alone[SYSTEMS].factor) > 1.3, (together[FAR].factors, alone[SYSTEMS].factors)
