"""What notebook 08 says besides its claims; see tests/harness/notebook_facts.py."""

from __future__ import annotations

from typing import Any

from tests.harness.notebook_facts import fact


@fact("No hash spreads 224 routes evenly, and each of them spreads 20,000 users.", after="of_users = {name")
def hashes_spread_keys(of_routes: Any, of_users: Any) -> None:
    assert min(of_routes.values()) > 1.2 and max(of_users.values()) < 1.1, (of_routes, of_users)


@fact("More partitions help only until the hottest key fills one by itself.", after="fullest = {skew")
def the_hottest_key_is_a_floor(fullest: Any, floors: Any) -> None:
    assert fullest[1][-1] < 1.2 * floors[1], (fullest[1], floors[1])
    assert fullest[1][0] > 2 * fullest[1][-1], fullest[1]


@fact("128 partitions take three times the bytes of one, and hardly any memory.", after='nb.answer("bytes")')
def the_price_of_partitions(costs: Any) -> None:
    one, *_, many = costs
    assert many.files == 4 * 128 and many.memory_kb < 50 * 128, many
    assert many.log_kb > 3 * one.log_kb, (one, many)
