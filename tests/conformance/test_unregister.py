"""UnregisterBroker: a broker is forgotten while it lives, and registers again.

Broker 7 is only a name: it registers and sends heartbeats, and nobody listens at its address.
"""

from __future__ import annotations

from typing import Any

from pykraft.common.types import Uuid
from pykraft.protocol.messages.admin import UnregisterBrokerRequest
from pykraft.protocol.messages.brokers import (
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
    SecuredEndpoint,
    SupportedFeature,
)
from pykraft.protocol.messages.cluster import ApiVersionsRequest, DescribeClusterRequest
from tests.conformance.dialogue import Dialogue, Speaker
from tests.conformance.test_quorum import controller, leader, other
from tests.harness.asking import create, delete, describe_partitions, new_topic
from tests.harness.connection import Connection

NAME = 7
LED, FOLLOWED = "unregister-led", "unregister-followed"


def register(talk: Dialogue) -> int:
    """The broker that is only a name registers, and is unfenced; its epoch."""
    with Connection(talk.server.address(1)) as connection:
        cluster_id = connection.ask(DescribeClusterRequest(), 2).cluster_id
        spoken = connection.ask(ApiVersionsRequest(client_software_name="n", client_software_version="1"), 4)
    features = [
        SupportedFeature(name=each.name, min_supported_version=each.min_version, max_supported_version=each.max_version)
        for each in spoken.supported_features
    ]
    request = BrokerRegistrationRequest(
        broker_id=NAME,
        cluster_id=cluster_id,
        incarnation_id=Uuid(bytes(15) + b"\x07"),
        listeners=[SecuredEndpoint(name="PLAINTEXT", host="127.0.0.1", port=9, security_protocol=0)],
        features=features,
        log_dirs=[Uuid(b"unregister-dir" + bytes(2))],
    )
    with Connection(talk.server.controller_address(leader(talk)[0])) as connection:
        answer = connection.ask(request, 4)
        assert not answer.error_code
        epoch: int = answer.broker_epoch
        assert not connection.ask(heartbeat(epoch), 1).is_fenced
    talk.until(1, DescribeClusterRequest(), 2, lambda found: len(found.brokers) == 4)
    return epoch


def heartbeat(epoch: int) -> BrokerHeartbeatRequest:
    """From a broker that has seen all there is."""
    return BrokerHeartbeatRequest(
        broker_id=NAME, broker_epoch=epoch, current_metadata_offset=1 << 40, want_fence=False, want_shut_down=False
    )


def forget(speaker: Speaker, broker_id: int, says: str = "") -> Any:
    return speaker.ask(UnregisterBrokerRequest(broker_id=broker_id), 0, says or f"broker {broker_id}")


def test_a_broker_that_is_not_registered(talk: Dialogue) -> None:
    for broker_id in (9, -1):
        forget(talk.to(), broker_id)
        forget(controller(talk), broker_id)
        forget(other(talk), broker_id)


def test_a_broker_that_lives_is_forgotten_and_registers_again(talk: Dialogue) -> None:
    epoch = register(talk)
    for name, replicas in {LED: [NAME, 1], FOLLOWED: [1, NAME]}.items():
        talk.to().ask(create(new_topic(name, assignments=[(0, replicas)])), 7)

    def known(answer: Any) -> bool:
        return not any(topic.error_code for topic in answer.topics)

    talk.until(1, describe_partitions(LED, FOLLOWED), 0, known)
    talk.to().ask(describe_partitions(LED, FOLLOWED), 0, "while it is registered")
    controller(talk).ask(heartbeat(epoch), 1)
    forget(talk.to(), NAME)
    talk.until(1, DescribeClusterRequest(include_fenced_brokers=True), 2, lambda answer: len(answer.brokers) == 3)
    talk.to().ask(describe_partitions(LED, FOLLOWED), 0, "after that")
    controller(talk).ask(heartbeat(epoch), 1, "with its epoch")
    forget(talk.to(), NAME, "again")
    talk.to().ask(create(new_topic("unregister-new", assignments=[(0, [1, NAME])])), 7, "with a replica on it")
    assert register(talk) > epoch
    forget(controller(talk), NAME)
    talk.to().ask(delete(LED, FOLLOWED), 6)
