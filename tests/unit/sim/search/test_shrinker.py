"""A failing history becomes as small as it can be while the same law is broken."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from pykraft.sim.search.shrinker import Failure, Run, Shrinker, left_out
from pykraft.sim.trouble.omissions import NOTHING, Omissions
from pykraft.sim.world.mishaps import LATE, Mishap

MESSAGES = tuple(Mishap(LATE, "node-1", "node-2", number, 1_000) for number in range(1, 41))
FAULTS = tuple((number, "crash" if number % 3 else "stall") for number in range(1, 31))
CLIENTS = ("admin", "producer-0", "producer-1", "consumer-0")


def run_of(needed: Omissions, law: str = "Log Matching", needs_ms: int = 1_200) -> Run:
    """A history that fails as long as it has what is `needed`: faults, kinds of weather, and clients."""

    def run(omitted: Omissions) -> Failure | None:
        until_ms = 5_000 if omitted.until_ms is None else omitted.until_ms
        if until_ms < needs_ms or omitted.kinds & needed.kinds or omitted.clients & needed.clients:
            return None
        faults = tuple(each for each in FAULTS if each[0] not in omitted.faults and each[1] not in omitted.kinds)
        if not needed.faults <= {number for number, _ in faults}:
            return Failure("Recovery", 9, 5_000, faults, frozenset(), ())  # another law: it must not count
        kinds = frozenset(kind for _, kind in faults) | {"ghost", "straggler"} - omitted.kinds
        clients = tuple(name for name in CLIENTS if name not in omitted.clients)
        return Failure(law, 100, 2_000, faults, kinds, clients)

    return run


NEEDED = Omissions(faults=frozenset({7, 22}), kinds=frozenset({"ghost"}), clients=frozenset({"admin", "producer-1"}))


def test_only_what_the_law_needs_is_left() -> None:
    shrinker = Shrinker(run_of(NEEDED), NOTHING)
    words = list(shrinker.shrink())
    small = shrinker.failure
    assert small.faults == ((7, "crash"), (22, "crash"))
    assert small.kinds == {"crash", "ghost"} and small.clients == ("admin", "producer-1")
    assert 1_200 <= (shrinker.omitted.until_ms or 0) <= 1_250
    assert words[0] == f"the storm ends after {shrinker.omitted.until_ms:,} ms"
    assert "stall" in words and "straggler" in words and "consumer-0" in words
    assert shrinker.tries < 90


def needs_messages(needed: frozenset[Mishap], tried: list[Omissions]) -> Run:
    """A history that fails as long as these messages are late. It has the others, too, and no fault."""

    def run(omitted: Omissions) -> Failure | None:
        tried.append(omitted)
        left = tuple(each for each in MESSAGES if omitted.messages is None or each in omitted.messages)
        has_weather = omitted.messages is not None or "straggler" not in omitted.kinds
        if not needed.issubset(left) or not has_weather:
            return None
        kinds = frozenset({"straggler"} if omitted.messages is None else ())
        return Failure("Durability", 100, 2_000, (), kinds, tuple({"admin"} - omitted.clients), left)

    return run


def test_only_the_messages_that_the_law_needs_are_left() -> None:
    needed, tried = frozenset((MESSAGES[6], MESSAGES[31])), list[Omissions]()
    shrinker = Shrinker(needs_messages(needed, tried), NOTHING)
    words = list(shrinker.shrink())
    assert shrinker.omitted.messages == needed and shrinker.failure.messages == (MESSAGES[6], MESSAGES[31])
    assert "message 1 from node-1 to node-2 is late by 1 ms" not in words and "what befalls 10 messages" in words
    assert len(tried) == shrinker.tries < 40


def test_no_history_is_run_twice() -> None:
    tried: list[Omissions] = []
    list(Shrinker(needs_messages(frozenset(MESSAGES[:3]), tried), NOTHING).shrink())
    assert len(tried) == len(set(tried))


def test_a_cluster_that_does_not_recover_keeps_those_without_whom_none_does() -> None:
    def run(omitted: Omissions) -> Failure:
        clients = ("admin", "producer-0", "consumer-0", "g", "classic-member-1")
        return Failure("Recovery", 9, 5_000, (), frozenset(), tuple(set(clients) - omitted.clients))

    shrinker = Shrinker(run, NOTHING)
    list(shrinker.shrink())
    assert shrinker.omitted.clients == {"consumer-0", "g"}


def test_nothing_more_can_be_left_out() -> None:
    run = run_of(NEEDED)
    shrinker = Shrinker(run, NOTHING)
    list(shrinker.shrink())
    again = Shrinker(run, shrinker.omitted)
    assert list(again.shrink()) == [] and again.omitted == shrinker.omitted


def test_any_set_of_faults_that_is_needed_is_found() -> None:
    random = Random(5)
    for _ in range(100):
        needed = set(random.sample(range(40), random.randrange(6)))
        left = set(range(40))

        def fails_without(gone: Sequence[int], needed: set[int] = needed, left: set[int] = left) -> bool:
            if needed & set(gone):
                return False
            left.difference_update(gone)
            return True

        list(left_out(range(40), fails_without))
        assert left == needed


def test_a_sound_history_cannot_be_shrunk() -> None:
    with pytest.raises(ValueError, match="no law is broken"):
        Shrinker(run_of(NEEDED), Omissions(clients=frozenset({"admin"})))
