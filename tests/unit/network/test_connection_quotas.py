"""How fast connections may come: the rate against a list of all of them, and what the limit does to a crowd."""

from __future__ import annotations

from itertools import pairwise
from random import Random

from pytest import MonkeyPatch

from pykraft.network import connection_quotas
from pykraft.network.connection_quotas import ConnectionLimits, ConnectionQuotas, ConnectionRate, ListenerLimits


def accepted_at(limit: int, comes_at: list[int]) -> list[int]:
    """When an acceptor serves each connection, one after the other."""
    quotas = ConnectionQuotas(ConnectionLimits(creation_rate=limit), ["PLAINTEXT"])
    served: list[int] = []
    for wanted in comes_at:
        now = max(wanted, served[-1] if served else 0)
        served.append(now + quotas.wait_ms("PLAINTEXT", now))
    return served


def test_ten_seconds_worth_of_connections_come_at_once_and_the_next_ones_wait() -> None:
    """And for longer when a second is over, since what came at once counts until it is eleven seconds old."""
    served = accepted_at(5, [0] * 60)
    assert served[49] == 0
    waits = [after - before for before, after in pairwise(served[49:])]
    assert waits[:5] == [200] * 5 and waits[5:] == [1000] * 5


def test_in_the_long_run_no_more_come_than_the_limit_allows() -> None:
    for seed in range(5):
        random = Random(seed)
        limit = random.randint(1, 20)
        served = accepted_at(limit, sorted(random.randrange(60_000) for _ in range(60 * limit * 2)))
        in_the_middle = sum(1 for at in served if 20_000 <= at < 50_000)
        assert in_the_middle <= 30 * limit * 1.15, (seed, limit)


def test_a_wait_is_never_longer_than_a_second() -> None:
    assert accepted_at(0, [0] * 4) == [1000, 2000, 3000, 4000]
    rate = ConnectionRate()
    for _ in range(1000):
        rate.record(0)
    assert rate.wait_ms(1, 0) == 1000


def test_below_the_limit_nobody_waits_and_without_one_nothing_is_counted() -> None:
    comes = list(range(0, 60_000, 600))
    assert accepted_at(2, comes) == comes
    assert accepted_at((1 << 31) - 1, [0] * 10_000)[-1] == 0


def test_the_brokers_listener_is_protected_only_beside_another_one() -> None:
    any_number = {"INTERNAL": ListenerLimits()}
    limits = ConnectionLimits(connections=0, creation_rate=0, of_listeners=any_number)
    alone = ConnectionQuotas(limits, ["INTERNAL"], "INTERNAL")
    beside = ConnectionQuotas(limits, ["INTERNAL", "PLAINTEXT"], "INTERNAL")
    assert (alone.has_slot("INTERNAL"), beside.has_slot("INTERNAL"), beside.has_slot("PLAINTEXT")) == (0, 1, 0)
    assert beside.wait_ms("INTERNAL", 0) == 0 < beside.wait_ms("PLAINTEXT", 0)


def test_a_protected_listener_has_the_limits_of_the_broker_for_itself_unless_it_has_others() -> None:
    quotas = ConnectionQuotas(ConnectionLimits(connections=1, creation_rate=1), ["INTERNAL", "PLAINTEXT"], "INTERNAL")
    assert quotas.admit("PLAINTEXT", "a") and not quotas.has_slot("PLAINTEXT")
    assert quotas.has_slot("INTERNAL") and quotas.admit("INTERNAL", "b") and not quotas.has_slot("INTERNAL")
    quotas.release("INTERNAL", "b")
    assert quotas.has_slot("INTERNAL") and not quotas.has_slot("PLAINTEXT")
    assert [quotas.wait_ms("INTERNAL", 0) for _ in range(11)][9:] == [0, 1000]


def test_only_listeners_of_the_same_role_have_to_make_room() -> None:
    quotas = ConnectionQuotas(ConnectionLimits(connections=0), ["INTERNAL", "PLAINTEXT"], "INTERNAL")
    assert quotas.admit("INTERNAL", "a") and quotas.has_excess
    assert [quotas.is_exceeded(name) for name in ("PLAINTEXT", "INTERNAL", "CONTROLLER")] == [True, False, False]


def test_a_listener_waits_for_its_own_rate_and_for_the_brokers() -> None:
    of_listeners = {"SLOW": ListenerLimits(creation_rate=1), "FAST": ListenerLimits(creation_rate=100)}
    quotas = ConnectionQuotas(ConnectionLimits(creation_rate=2, of_listeners=of_listeners), ["SLOW", "FAST"])
    assert [quotas.wait_ms("SLOW", 0) for _ in range(11)] == [0] * 10 + [1000]
    assert [quotas.wait_ms("FAST", 0) for _ in range(10)] == [0] * 9 + [500], "twenty in all"


# --- by address -------------------------------------------------------------------------------------------------------


def of_addresses(rates: dict[str | None, int]) -> ConnectionQuotas:
    quotas = ConnectionQuotas(ConnectionLimits(), ["PLAINTEXT"])
    quotas.set_rates_of_addresses(rates)
    return quotas


def test_an_address_has_its_own_quota_or_the_default_and_is_counted_alone() -> None:
    quotas = of_addresses({"10.0.0.1": 2, "0:0::1": 1, None: 1})
    assert [quotas.throttle_address_ms("10.0.0.1", 0) for _ in range(22)] == [0] * 20 + [500] * 2
    assert [quotas.throttle_address_ms("10.0.0.2", 0) for _ in range(12)] == [0] * 10 + [1000] * 2
    assert quotas.throttle_address_ms("::1", 0) == 0


def test_a_quota_of_nothing_keeps_every_connection_for_a_second() -> None:
    quotas = of_addresses({None: 0})
    assert [quotas.throttle_address_ms("10.0.0.1", now) for now in (0, 700, 50_000)] == [1000] * 3


def test_what_is_not_served_does_not_count_so_a_crowd_does_not_lock_itself_out() -> None:
    quotas = of_addresses({None: 1})
    served = [now for now in range(0, 60_000, 50) if not quotas.throttle_address_ms("10.0.0.1", now)]
    assert 55 <= len(served) <= 72


def test_an_address_without_a_quota_is_not_counted_and_quotas_may_go() -> None:
    quotas = of_addresses({"10.0.0.1": 1})
    assert [quotas.throttle_address_ms("10.0.0.2", 0) for _ in range(1000)] == [0] * 1000
    assert not quotas._address_rates
    quotas.set_rates_of_addresses({})
    assert [quotas.throttle_address_ms("10.0.0.1", 0) for _ in range(1000)] == [0] * 1000


def test_the_rates_of_very_many_addresses_are_forgotten_when_they_tell_nothing(monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setattr(connection_quotas, "_MOST_ADDRESSES", 50)
    quotas = of_addresses({None: 1})
    for number in range(2000):
        quotas.throttle_address_ms(f"10.0.{number // 250}.{number % 250}", number * 100)
    assert len(quotas._address_rates) <= 12_000 // 100 + 2
    hour = of_addresses({None: 1})
    for number in range(3):
        hour.throttle_address_ms(f"10.0.0.{number}", number * 3_600_000)
    assert len(hour._address_rates) == 1
