"""UnregisterBroker: a broker is forgotten while it lives, and registers again. UnregisterController, at a level that
does not know it.

Broker 7 is only a name: it registers and sends heartbeats, and no server listens at its address.
"""

from __future__ import annotations

from typing import Any

from pykraft.protocol.messages.admin import UnregisterBrokerRequest, UnregisterControllerRequest
from pykraft.protocol.messages.cluster import DescribeClusterRequest
from tests.conformance.dialogue import Dialogue, Speaker
from tests.conformance.named_broker import heartbeat, register
from tests.conformance.test_quorum import controller, leader, other
from tests.harness.asking import create, delete, describe_partitions, new_topic

NAME = 7
LED, FOLLOWED = "unregister-led", "unregister-followed"


def forget(speaker: Speaker, broker_id: int, says: str = "") -> Any:
    return speaker.ask(UnregisterBrokerRequest(broker_id=broker_id), 0, says or f"broker {broker_id}")


def test_a_broker_that_is_not_registered(talk: Dialogue) -> None:
    for broker_id in (9, -1):
        forget(talk.to(), broker_id)
        forget(controller(talk), broker_id)
        forget(other(talk), broker_id)


def test_a_broker_that_lives_is_forgotten_and_registers_again(talk: Dialogue) -> None:
    epoch = register(talk, NAME)
    for name, replicas in {LED: [NAME, 1], FOLLOWED: [1, NAME]}.items():
        talk.to().ask(create(new_topic(name, assignments=[(0, replicas)])), 7)

    def known(answer: Any) -> bool:
        return not any(topic.error_code for topic in answer.topics)

    talk.until(1, describe_partitions(LED, FOLLOWED), 0, known)
    talk.to().ask(describe_partitions(LED, FOLLOWED), 0, "while it is registered")
    controller(talk).ask(heartbeat(NAME, epoch), 1)
    forget(talk.to(), NAME)
    talk.until(1, DescribeClusterRequest(include_fenced_brokers=True), 2, lambda answer: len(answer.brokers) == 3)
    talk.to().ask(describe_partitions(LED, FOLLOWED), 0, "after that")
    controller(talk).ask(heartbeat(NAME, epoch), 1, "with its epoch")
    forget(talk.to(), NAME, "again")
    talk.to().ask(create(new_topic("unregister-new", assignments=[(0, [1, NAME])])), 7, "with a replica on it")
    assert register(talk, NAME) > epoch
    forget(controller(talk), NAME)
    talk.to().ask(delete(LED, FOLLOWED), 6)


def test_controllers_are_not_unregistered_below_their_level(talk: Dialogue) -> None:
    for says, controller_id in (("one that is not there", 9), ("the active one", leader(talk)[0])):
        for speaker in (talk.to(), controller(talk)):
            speaker.ask(UnregisterControllerRequest(controller_id=controller_id), 0, says)
