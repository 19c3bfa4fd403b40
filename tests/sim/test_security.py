"""Histories with TLS and logins: the laws of clusters hold, clients and servers are who they are, and strangers hold
up no other client. Each planted bug breaks a law in the history that is recorded for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from pykraft.sim.cluster import SimulatedCluster
from pykraft.sim.laws.security_laws import NAMES
from pykraft.sim.trouble.security import SECURITY_SEEDS
from pykraft.sim.world.tls import StandInEngine
from pykraft.simulation import SimulationFailed
from pykraft.transport.authentication import AuthenticationState, SaslServerChannel
from pykraft.transport.server_channel import ServerChannel
from pykraft.transport.tls_session import ServerSession, TlsSession
from tests.sim.histories import in_processes

SHORT = (12_854,)
"""Logins over TLS, certificates of clients, and some of nodes that go bad."""
MANY = 10
"""How often each reason is heard in a long run, at least."""


def outcome(seed: int) -> tuple[Counter[str], int, int, int]:
    """(reasons for which clients were refused, verified connections, visits of strangers, records acknowledged)."""
    cluster = SimulatedCluster(seed)
    report = cluster.run()
    laws, strangers = cluster.security.laws, cluster.security.strangers
    return laws.refused, laws.verified, sum(each.visits for each in strangers), report.progress.acknowledged


@pytest.mark.limit(3600)
def test_no_law_is_broken_while_strangers_come_and_go(request: pytest.FixtureRequest) -> None:
    is_long = request.config.getoption("--long")
    found = in_processes(outcome, SECURITY_SEEDS if is_long else SHORT)
    refused: Counter[str] = sum((reasons for reasons, *_ in found), Counter())
    assert all(verified >= 10 and visits >= 10 and written >= 50 for _, verified, visits, written in found), found
    if is_long:
        assert all(refused[name] >= MANY for name in NAMES), refused
    else:
        assert len(refused) >= 5 and refused["wrong password"] >= 5, refused


def test_no_other_history_has_security() -> None:
    assert all(SimulatedCluster(seed).network.credentials is None for seed in (0, 6400, 12_799, 12_900))


# --- planted bugs -----------------------------------------------------------------------------------------------------

BUGS: dict[str, tuple[Callable[[], None], int, str]] = {}
"""By name: what plants it, the seed of its history, and what the law says of it."""


def bug(seed: int, said: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    def add(plant: Callable[[], None]) -> Callable[[], None]:
        BUGS[plant.__name__] = plant, seed, said
        return plant

    return add


@bug(12_813, "which shows Certificate(")
def an_outgoing_connection_that_is_not_verified() -> None:
    check = StandInEngine._check
    StandInEngine._check = (  # type: ignore[method-assign]
        lambda self, shown, hostname="": check(self, shown) if self._is_server else None
    )


@bug(12_831, "has not proved who it is, and is connected for")
def bytes_of_a_handshake_that_keep_a_connection_alive() -> None:
    TlsSession.active_since = lambda self, before, now: now  # type: ignore[method-assign]


@bug(12_854, "has not logged in, and API 17 is handled")
def a_request_that_is_handled_before_the_login() -> None:
    before = SaslServerChannel.next_request

    def early(self: SaslServerChannel, recorder: Any = None) -> Any:
        if self.authentication_state is AuthenticationState.VERSIONS_SENT:
            return ServerChannel.next_request(self, recorder)
        return before(self, recorder)

    SaslServerChannel.next_request = early  # type: ignore[method-assign]


@bug(12_813, "counts as User:ANONYMOUS")
def a_certificate_whose_name_is_lost() -> None:
    ServerSession.established = lambda self: None  # type: ignore[method-assign]


@bug(12_822, "has not proved who it is, and is connected for")
def a_login_that_may_take_for_ever() -> None:
    SaslServerChannel.authentication_ms = property(lambda self: 0, lambda self, value: None)  # type: ignore[assignment]


def death(name: str) -> str | None:
    """How the history ends with this bug; None if it ends well."""
    plant, seed, _ = BUGS[name]
    plant()
    try:
        outcome(seed)
    except SimulationFailed as failure:
        return str(failure)
    return None


@pytest.mark.limit(300)
def test_each_planted_bug_breaks_a_law() -> None:
    for name, how in zip(BUGS, in_processes(death, list(BUGS)), strict=True):
        assert how is not None and "Violation: " in how and BUGS[name][2] in how, f"{name}: {how}"
