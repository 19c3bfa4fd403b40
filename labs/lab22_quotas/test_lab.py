"""What lab 22 asks of quotas. Long histories are compared with pykraft's own counts."""

import pytest

from pykraft.common.quotas import rates

SAMPLES, SAMPLE_MS = 11, 1000
LONGEST_MS = (1 << 31) - 1
ALICE, BOB = ("alice", "loader"), ("bob", "loader")


def rate_of(impl, *events, samples=SAMPLES, sample_ms=SAMPLE_MS):
    """A sampled rate with these events: (value, when)."""
    rate = impl.SampledRate(samples, sample_ms)
    for value, now in events:
        rate.record(value, now)
    return rate


def same(found, wanted, about):
    """AssertionError if two numbers differ by more than their last digits."""
    is_number = isinstance(found, int | float) and not isinstance(found, bool)
    assert is_number, f"{about}: it is {wanted:g}, and you say {found!r}"
    assert abs(found - wanted) <= 1e-6 * max(1, abs(wanted)), f"{about}: it is {wanted:g}, and you say {found!r}"


# --- task 22.1 --------------------------------------------------------------------------------------------------------


@pytest.mark.task("22.1", points=2)
def test_a_first_event_counts_over_all_samples_but_one(impl):
    """10,000 at once: eleven samples of a second, three of a second, and eleven of two seconds."""
    for samples, sample_ms, wanted in ((11, 1000, 1000), (3, 1000, 5000), (11, 2000, 500)):
        found = rate_of(impl, (10_000, 70), samples=samples, sample_ms=sample_ms).per_second(70)
        same(found, wanted, f"10,000 a moment ago, {samples} samples of {sample_ms} ms: the rate a second")


@pytest.mark.task("22.1", points=2)
def test_an_event_joins_the_newest_sample_until_that_is_old_enough(impl):
    """Two events 999 ms apart, which are forgotten together, and two 1,000 ms apart, which are not."""
    for apart, kept in ((999, 30), (1000, 20)):
        rate = rate_of(impl, (10, 0), (20, apart))
        window = rate.window_ms(11_000)
        same(rate.per_second(11_000) * window / 1000, kept, f"10 at 0 and 20 at {apart} ms: what is left at 11,000 ms")


@pytest.mark.task("22.1", points=2)
def test_a_sample_is_forgotten_when_its_last_event_is_too_old(impl):
    """Events at 0 and 500 ms in one sample, seen 10,999 and 11,000 ms after the second."""
    rate = rate_of(impl, (10, 0), (10, 500))
    assert rate.per_second(11_499) > 0, "the sample's last event is 10,999 ms old: it still counts, and you say 0"
    found = rate.per_second(11_500)
    assert found == 0, f"the sample's last event is 11,000 ms old: it is forgotten, and the rate is 0, not {found}"


@pytest.mark.task("22.1", points=2)
def test_the_window_reaches_back_to_the_oldest_sample_and_has_ten_at_least(impl):
    """One event at 0, and the window at moments up to 10,999 ms; no event at all."""
    for now, wanted in ((0, 10_000), (400, 10_400), (1000, 10_000), (5500, 10_500), (10_000, 10_000), (10_999, 10_999)):
        found = rate_of(impl, (1, 0)).window_ms(now)
        assert found == wanted, f"the only event was at 0: the window at {now} ms has {wanted} ms, and you say {found}"
    found = impl.SampledRate(SAMPLES, SAMPLE_MS).window_ms(7)
    assert found == 10_000, f"nothing has come: the window has 10,000 ms, and you say {found}"


@pytest.mark.task("22.1", points=3)
def test_a_long_history_has_kafkas_rate(impl, chance):
    """600 events with pauses from 0 to 14 s; after each the rate and the window."""
    mine, theirs, now = impl.SampledRate(SAMPLES, SAMPLE_MS), rates.SampledRate(), 0
    for number in range(600):
        now += chance.choice((0, 1, 40, 500, 999, 1000, 1001, 3000, 14_000))
        value = chance.choice((1, 100, 2500))
        mine.record(value, now)
        theirs.record(value, now)
        about = f"after event {number + 1}, at {now} ms"
        same(mine.window_ms(now), theirs.window_ms(now), f"{about}, the window in ms")
        same(mine.per_second(now), theirs.per_second(now), f"{about}, the rate a second")


# --- task 22.2 --------------------------------------------------------------------------------------------------------


@pytest.mark.task("22.2", points=1)
def test_a_rate_up_to_its_limit_is_not_throttled(impl):
    """A rate of 0, one below the limit, and one at it."""
    for rate in (0, 499, 500):
        found = impl.throttle_time_ms(rate, 500, 10_000)
        assert found == 0, f"{rate} a second at a limit of 500: no throttle time, and you say {found}"


@pytest.mark.task("22.2", points=2)
def test_the_throttle_time_is_what_the_limit_needs_to_earn_the_rest(impl):
    """Twice the limit, a tenth more, and half of it more; results of 0.5, 0.375 and 21.4 ms."""
    table = ((1000, 500, 10_000, 10_000), (550, 500, 10_000, 1000), (3, 2, 10_400, 5200))
    for rate, limit, window, wanted in (*table, (544, 512, 8, 1), (536, 512, 8, 0), (501.07, 500, 10_000, 21)):
        found = impl.throttle_time_ms(rate, limit, window)
        about = f"{rate} a second at a limit of {limit}, window {window} ms"
        assert found == wanted, f"{about}: {wanted} ms, and you say {found}"


@pytest.mark.task("22.2", points=2)
def test_no_throttle_time_is_longer_than_its_bound(impl):
    """A bound of one second, and of what four bytes hold; a throttle time below the bound."""
    for rate, longest, wanted in ((1000, 1000, 1000), (510, 1000, 200), (10**12, LONGEST_MS, LONGEST_MS)):
        found = impl.throttle_time_ms(rate, 500, 10_000, longest)
        assert found == wanted, (
            f"{rate} a second at a limit of 500, at most {longest} ms: {wanted}, and you say {found}"
        )
    found = impl.throttle_time_ms(10**12, 500, 10_000)
    assert found == LONGEST_MS, f"without another bound {LONGEST_MS} ms is the longest, and you say {found}"


# --- task 22.3 --------------------------------------------------------------------------------------------------------


@pytest.mark.task("22.3", points=1)
def test_a_new_bucket_is_full_whatever_the_limit_is(impl):
    """New buckets with limits of 5 and 70, at 0 and at 900,000 ms; with three samples of two seconds."""
    for samples, sample_ms, limit, now, wanted in (
        (11, 1000, 5, 0, 55),
        (11, 1000, 70, 900_000, 770),
        (3, 2000, 5, 0, 30),
    ):
        found = impl.TokenBucket(samples, sample_ms).tokens(limit, now)
        same(found, wanted, f"a new bucket, {samples} samples of {sample_ms} ms, limit {limit}: its tokens")


@pytest.mark.task("22.3", points=2)
def test_a_bucket_earns_its_limit_and_is_full_some_time(impl):
    """50 of 110 tokens are taken: what there is one second, two and a half and an hour later."""
    bucket = impl.TokenBucket(SAMPLES, SAMPLE_MS)
    bucket.take(50, 10, 1000)
    for now, wanted in ((1000, 60), (2000, 70), (3500, 85), (3_600_000, 110)):
        same(bucket.tokens(10, now), wanted, f"60 tokens at 1,000 ms, 10 a second: tokens at {now} ms")


@pytest.mark.task("22.3", points=2)
def test_what_is_taken_may_leave_a_debt(impl):
    """150 of 110 tokens are taken, and then 5 more."""
    bucket = impl.TokenBucket(SAMPLES, SAMPLE_MS)
    bucket.take(150, 10, 0)
    same(bucket.tokens(10, 0), -40, "150 of 110 tokens are taken: tokens left")
    bucket.take(5, 10, 1000)
    same(bucket.tokens(10, 1000), -35, "a second later it has earned 10, and 5 more are taken: tokens left")


@pytest.mark.task("22.3", points=2)
def test_a_debt_and_nothing_else_makes_a_client_wait(impl):
    """A debt of 40 at 10 a second, as it becomes smaller; an empty bucket, and a full one."""
    bucket = impl.TokenBucket(SAMPLES, SAMPLE_MS)
    found = bucket.throttle_time_ms(10, 0)
    assert found == 0, f"a full bucket: no throttle time, and you say {found}"
    bucket.take(150, 10, 0)
    for now, wanted in ((0, 4000), (1500, 2500), (3999, 1), (4000, 0), (9000, 0)):
        found = bucket.throttle_time_ms(10, now)
        assert found == wanted, (
            f"40 tokens were missing at 0, 10 a second: {wanted} ms at {now} ms, and you say {found}"
        )
    bucket = impl.TokenBucket(SAMPLES, SAMPLE_MS)
    bucket.take(99.0015, 9, 0)
    found = bucket.throttle_time_ms(9, 0)
    assert found == 0, f"0.0015 tokens are missing, 9 a second: 0.17 ms are 0, and you say {found}"
    bucket.take(0.0045, 9, 0)
    found = bucket.throttle_time_ms(9, 0)
    assert found == 1, f"0.006 tokens are missing, 9 a second: 0.67 ms are 1, and you say {found}"


@pytest.mark.task("22.3", points=1)
def test_a_clock_that_steps_back_earns_and_costs_nothing(impl):
    """60 tokens at 5,000 ms, seen at 4,000 ms and at 5,000 ms again."""
    bucket = impl.TokenBucket(SAMPLES, SAMPLE_MS)
    bucket.take(50, 10, 5000)
    for now in (4000, 5000):
        same(bucket.tokens(10, now), 60, f"60 tokens at 5,000 ms: tokens at {now} ms, asked in this order")


@pytest.mark.task("22.3", points=3)
def test_a_long_history_has_kafkas_tokens(impl, chance):
    """600 prices with pauses from 0 to 14 s, and a limit that changes; after each the tokens and the throttle time."""
    mine, theirs, now, limit = impl.TokenBucket(SAMPLES, SAMPLE_MS), rates.TokenBucket(), 0, 10
    for number in range(600):
        now += chance.choice((0, 1, 40, 500, 999, 1000, 3000, 14_000))
        limit = chance.choice((limit, limit, limit, 5, 10, 35))
        price = chance.choice((1, 4, 30, 150))
        mine.take(price, limit, now)
        theirs.take(price, limit, now)
        about = f"after price {number + 1}, at {now} ms and a limit of {limit}"
        same(mine.tokens(limit, now), theirs.tokens(limit, now), f"{about}, the tokens")
        same(
            mine.throttle_time_ms(limit, now), theirs.throttle_time_ms(limit, now), f"{about}, the throttle time in ms"
        )


# --- task 22.4 --------------------------------------------------------------------------------------------------------


def charged(counts, sharing, value, now=0, limit=1000):
    return counts.charge(sharing, limit, value, now)


@pytest.mark.task("22.4", points=3)
def test_a_client_is_throttled_for_its_own_use_alone(impl):
    """alice uses three times what she may; then bob with the same client id, and alice with another one."""
    counts = impl.Counts(SAMPLES, SAMPLE_MS)
    found = charged(counts, ALICE, 30_000)
    assert found == 20_000, f"30,000 at once at a limit of 1,000 a second: 20,000 ms, and you say {found}"
    for sharing in (BOB, ("alice", "report"), ("alice", ""), ("", "loader")):
        found = charged(counts, sharing, 10_000)
        assert found == 0, f"alice with loader has used too much, and {sharing} is throttled for {found} ms"


@pytest.mark.task("22.4", points=2)
def test_what_is_shared_is_counted_together(impl):
    """Two requests of 6,000 that share a count, and a third one later."""
    counts = impl.Counts(SAMPLES, SAMPLE_MS)
    found = [charged(counts, ("alice", ""), 6000), charged(counts, ("alice", ""), 6000)]
    assert found == [0, 2000], f"twice 6,000 at a limit of 1,000 a second: 0 and 2,000 ms, and you say {found}"
    found = charged(counts, ("alice", ""), 1, now=20_000)
    assert found == 0, f"20 s later all of it is forgotten, and you say {found}"


@pytest.mark.task("22.4", points=1)
def test_without_a_limit_nothing_is_counted(impl):
    """30,000 without a limit, and 1 with one a moment later."""
    counts = impl.Counts(SAMPLES, SAMPLE_MS)
    found = [charged(counts, ALICE, 30_000, limit=None), charged(counts, ALICE, 1)]
    assert found == [0, 0], f"30,000 without a limit, and 1 with a limit of 1,000: never throttled, and you say {found}"


@pytest.mark.task("22.4", points=1)
def test_the_bound_of_the_counts_holds_for_every_throttle_time(impl):
    """Counts with a bound of one second, and three samples of two seconds."""
    found = charged(impl.Counts(SAMPLES, SAMPLE_MS, 1000), ALICE, 30_000)
    assert found == 1000, f"30,000 at once, and at most 1,000 ms: 1,000, and you say {found}"
    found = charged(impl.Counts(3, 2000), ALICE, 5000)
    assert found == 1000, f"5,000 at once, three samples of 2 s, a limit of 1,000 a second: 1,000, and you say {found}"
