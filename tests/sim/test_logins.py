"""Histories in which every connection begins with a login: those of clients, of brokers, and of controllers."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from pykraft.security.jaas import PLAIN_MODULE
from pykraft.security.login import SaslLogin
from pykraft.sim.cluster import SimulatedCluster
from pykraft.sim.trouble.knobs import draw
from pykraft.sim.world.client_hosts import SimulatedClient
from pykraft.transport.authentication import SaslServerChannel
from tests.sim.histories import in_processes

SEEDS = (3, 5, 8, 11)
LOGIN = SaslLogin("PLAIN", "someone", "secret")
USERS = f'{PLAIN_MODULE} required username="node" password="n" user_node="n" user_someone="secret";'
GUARDED = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "sasl.mechanism.controller.protocol": "PLAIN",
    "plain.sasl.jaas.config": USERS,
}


def logins(seed: int) -> tuple[Counter[str], int]:
    """Who has logged in, and how many records were acknowledged. The laws are kept, or this raises."""
    found: Counter[str] = Counter()
    evaluate = SaslServerChannel._evaluate

    def note(channel: SaslServerChannel, *arguments: object) -> bytes:
        answer = evaluate(channel, *arguments)  # type: ignore[arg-type]
        found[f"{channel.kind.value}: {channel.principal}"] += 1
        return answer

    knobs = draw(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SaslServerChannel, "_evaluate", note)
        patch.setattr(SimulatedClient, "login", LOGIN)
        report = SimulatedCluster(seed, replace(knobs, properties={**knobs.properties, **GUARDED})).run()
    return found, report.progress.acknowledged


@pytest.mark.long
@pytest.mark.limit(900)
def test_histories_keep_the_laws_when_every_connection_begins_with_a_login() -> None:
    for found, acknowledged in in_processes(logins, SEEDS):
        assert acknowledged > 100
        assert found["broker: User:someone"] and found["broker: User:node"] and found["controller: User:node"], found
