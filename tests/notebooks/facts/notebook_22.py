"""What notebook 22 says besides its claims; see tests/harness/notebook_facts.py."""

from __future__ import annotations

from typing import Any

from tests.harness.notebook_facts import fact


@fact("Above its quota a client gets its response at once, with the throttle time in it.", after="first = next(")
def a_response_that_does_not_wait(held: Any, first: Any) -> None:
    throttled = [answer for answer in held.greedy if answer.throttle_time_ms]
    assert first.latency_ms < max(answer.throttle_time_ms for answer in throttled), held.greedy


@fact(
    "A quota allows its rate, what was saved up, and one request for each connection.", after="for quota_mb in (2, 32)"
)
def never_more_than_allowed(runs: Any) -> None:
    assert all(run.taken_bytes <= run.most_bytes for run in runs.values()), runs
    assert all(run.taken_bytes > run.quota for run in runs.values()), "and that much it gets"


@fact("The smaller the quota, the longer the throttle times.", after="in (2, 32)")
def longer_for_less(runs: Any) -> None:
    longest = [runs[quota_mb].longest_throttle_ms for quota_mb in sorted(runs)]
    assert longest[0] > longest[-1] > 0, longest


@fact("Pressing gains nothing: both clients come to their last request at the same time.", after="seen = tenants")
def pressing_gains_nothing(seen: Any) -> None:
    of_pressing, of_waiting = seen["presses"].muted_ms[-1][1], seen["waits"].muted_ms[-1][1]
    assert of_pressing > 0.8 * of_waiting, seen
    assert max(seen["waits"].waited_ms) < max(seen["presses"].waited_ms), "only the pressing client's requests wait"


@fact("The sampled rate says four to five seconds until second 12, and the bucket nothing from 5 on.", after="curves =")
def said_again(rate: Any, bucket: Any) -> None:
    from pykraft.common.quotas.rates import SampledRate, TokenBucket

    rate, bucket = SampledRate(), TokenBucket()
    rate.record(150, 1000)
    bucket.take(150, 10, 1000)
    told = [rate.throttle_time_ms(10, now) for now in range(1000, 12_000, 100)]
    assert min(told) > 4000 and max(told) == 5000 and rate.throttle_time_ms(10, 12_000) == 0
    assert [bucket.throttle_time_ms(10, second * 1000) for second in (1, 4, 5)] == [4000, 1000, 0]


@fact(
    "Users go before client ids: a default user hides every quota of a client id alone.", after="{client: which_quota"
)
def users_go_first(quotas: Any, clients: Any) -> None:
    from pykraft.client.administration.quotas import DEFAULT, ClientQuotaEntity
    from pykraft.course.lessons.quotas.counts import which_quota

    with_default = {**quotas, ClientQuotaEntity(user=DEFAULT): 100_000}
    found = {client: which_quota(with_default, *client) for client in clients}
    assert found["bob", "loader"] == found["bob", "other"] == "0.1 MB/s for bob, all client ids together", found
    assert found["alice", "report"] == "2 MB/s for alice as report", found
