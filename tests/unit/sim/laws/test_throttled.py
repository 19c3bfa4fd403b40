"""A law of quotas in the simulator: no client is throttled for what another one used. What it has used counts, also if
its quota was another one then."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from pykraft.common.quotas.entities import CLIENT_ID, PRODUCER_BYTE_RATE, entity_key
from pykraft.metadata.client_quotas import ClientQuotasImage
from pykraft.protocol.messages.records import ClientQuotaRecord
from pykraft.sim.laws.invariants import Violation
from pykraft.sim.laws.quota_laws import QuotaLaws

SAMPLES, SAMPLE_MS = 3, 1_000


def quota(rate: float) -> ClientQuotasImage:
    record = ClientQuotaRecord(entity=[], key=PRODUCER_BYTE_RATE, value=rate)
    return {(entity_key([(CLIENT_ID, "loader")]), PRODUCER_BYTE_RATE): record}


def see(requests: Iterable[tuple[int, float, int, int]]) -> None:
    """Requests of one client: when, at which quota, how many bytes, and for how long it is throttled."""
    laws = QuotaLaws(SAMPLES, SAMPLE_MS)
    for number, (now, rate, size_bytes, throttle_ms) in enumerate(requests):
        client = ("ANONYMOUS", "loader")
        laws.see(1, quota(rate), PRODUCER_BYTE_RATE, client, f"connection-{number}", size_bytes, throttle_ms, now)


def test_a_client_is_throttled_for_what_it_has_written_before_its_quota_was_lowered() -> None:
    see([(0, 1_000, 1_500, 0), (500, 300, 100, 2_000), (900, 200, 100, 3_000)])


@pytest.mark.parametrize("written", [(500, 300, 100, 2_000), (5_000, 300, 100, 2_000)])
def test_a_client_that_has_written_little_or_long_ago_is_not_throttled(written: tuple[int, float, int, int]) -> None:
    with pytest.raises(Violation, match=r"throttled for 2000 ms .* and 600 come at once"):
        see([(0, 1_000, 100 if written[0] == 500 else 1_500, 0), written])
