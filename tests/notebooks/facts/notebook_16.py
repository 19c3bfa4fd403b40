"""What notebook 16 says besides its claims; see tests/harness/notebook_facts.py."""

from __future__ import annotations

from typing import Any

from tests.harness.notebook_facts import fact


@fact("The successor lacks no record of the metadata log, and writes one or two.", after='"records it wrote": wrote')
def the_successor_lacks_nothing(takeovers: Any) -> None:
    for some in takeovers.values():
        assert all(each.behind == 0 and each.appended <= 2 for each in some), some


@fact(
    "Below a second: a round trip of 60 µs, or 160 requests in flight; never below 0.3 s.", after="sizes = (10, 1_000"
)
def a_network_for_100_000_partitions(ZooKeeperModel: Any) -> None:  # noqa: N803 (the notebook's name)
    def seconds(**network: float) -> float:
        return float(ZooKeeperModel(brokers=3, **network).after_session_s(100_000))

    assert seconds(round_trip_s=60e-6) < 1 < seconds(round_trip_s=70e-6)
    assert seconds(in_flight=160) < 1 < seconds(in_flight=150)
    assert round(seconds(in_flight=1_000_000), 2) == 0.3
    assert (
        round(ZooKeeperModel(in_flight=160).reads(100_000) / ZooKeeperModel(in_flight=160).reading_s(100_000))
        == 160_000
    )
