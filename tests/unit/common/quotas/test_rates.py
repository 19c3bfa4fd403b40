"""Rates and buckets as Apache Kafka 4.2 computes them: rates.txt has what its own classes Rate and TokenBucket say
after each of a row of events."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from pykraft.common.quotas.rates import LONGEST_THROTTLE_MS, SampledRate, TokenBucket, milliseconds

GOLDEN = Path(__file__).with_name("rates.txt")


class Section(NamedTuple):
    """Events at one limit: time, value, and what Kafka says then."""

    samples: int
    sample_ms: int
    limit: float
    rows: list[list[float]]


def sections() -> list[Section]:
    found: list[Section] = []
    for line in GOLDEN.read_text().splitlines():
        if line.startswith("==="):
            samples, sample_ms, limit = (word.partition("=")[2] for word in line.removeprefix("=== ").split())
            found.append(Section(int(samples), int(sample_ms), float(limit), []))
        else:
            found[-1].rows.append([float(word) for word in line.split() if word != "|"])
    return found


@pytest.mark.parametrize("section", sections(), ids=lambda section: f"{section.samples} {section.limit:g}")
def test_rate_window_throttle_and_tokens_are_those_of_kafka(section: Section) -> None:
    rate, bucket = (kind(section.samples, section.sample_ms) for kind in (SampledRate, TokenBucket))
    for time, value, observed, window_ms, throttle_ms, tokens, missing_ms in section.rows:
        now = int(time)
        rate.record(value, now)
        bucket.take(value / 100, section.limit, now)
        assert rate.per_second(now) == pytest.approx(observed, rel=1e-12)
        assert rate.window_ms(now) == window_ms
        assert rate.throttle_time_ms(section.limit, now) == min(throttle_ms, LONGEST_THROTTLE_MS)
        assert bucket.tokens(section.limit, now) == pytest.approx(tokens, rel=1e-9)
        assert bucket.throttle_time_ms(section.limit, now) == min(missing_ms, LONGEST_THROTTLE_MS)


def test_what_comes_in_ten_seconds_may_come_at_once_and_what_is_more_takes_its_time() -> None:
    rate = SampledRate()
    rate.record(20_000, 7)
    assert rate.throttle_time_ms(2000, 7) == 0
    rate.record(5_000, 7)
    assert rate.throttle_time_ms(2000, 7) == 2500
    assert SampledRate().throttle_time_ms(2000, 7) == 0


def test_a_bucket_that_was_overdrawn_comes_back_to_zero_after_the_throttle_time() -> None:
    bucket = TokenBucket()
    bucket.take(30, 2, 5000)
    assert bucket.tokens(2, 5000) == 22 - 30
    assert bucket.throttle_time_ms(2, 5000) == 4000
    assert bucket.tokens(2, 9000) == 0
    assert bucket.tokens(2, 99_000) == 22, "no more than what comes in eleven seconds"


@pytest.mark.parametrize("limit", [0.0001, 1e-300, 1e308, float("inf"), float("nan")])
def test_no_limit_is_too_small_or_too_large(limit: float) -> None:
    rate, bucket = SampledRate(), TokenBucket()
    for now in (0, 0, 500, 20_000):
        rate.record(1000, now)
        bucket.take(1000, limit, now)
        for throttle_ms in (rate.throttle_time_ms(limit, now), bucket.throttle_time_ms(limit, now)):
            assert isinstance(throttle_ms, int)
            assert 0 <= throttle_ms <= LONGEST_THROTTLE_MS
    assert (rate.throttle_time_ms(limit, 20_000) > 0) is (limit < 1)
    assert (bucket.throttle_time_ms(limit, 20_000) > 0) is (limit < 1)


def test_half_a_millisecond_is_rounded_up_as_in_java() -> None:
    assert [milliseconds(exact) for exact in (0.49, 0.5, 1.5, 2.5, 1e300)] == [0, 1, 2, 3, LONGEST_THROTTLE_MS]


def test_a_clock_that_goes_back_gives_no_tokens_twice() -> None:
    bucket = TokenBucket()
    bucket.take(22, 2, 5000)
    assert bucket.tokens(2, 4000) == 0
    assert bucket.tokens(2, 5000) == 0
    assert bucket.tokens(2, 5500) == 1
