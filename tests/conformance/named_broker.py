"""A broker that is only a name: it registers and sends heartbeats, no server listens at its address, and a case says
what it fetches."""

from __future__ import annotations

from pykraft.common.types import Uuid
from pykraft.protocol.messages.brokers import (
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
    SecuredEndpoint,
    SupportedFeature,
)
from pykraft.protocol.messages.cluster import ApiVersionsRequest, DescribeClusterRequest
from tests.conformance.dialogue import Dialogue
from tests.conformance.test_quorum import leader
from tests.harness.connection import Connection


def register(talk: Dialogue, name: int, rack: str | None = None) -> int:
    """The broker with this id registers, and is unfenced; its epoch. Broker 1 knows it then."""
    with Connection(talk.server.address(1)) as connection:
        cluster_id = connection.ask(DescribeClusterRequest(), 2).cluster_id
        spoken = connection.ask(ApiVersionsRequest(client_software_name="n", client_software_version="1"), 4)
    features = [
        SupportedFeature(name=each.name, min_supported_version=each.min_version, max_supported_version=each.max_version)
        for each in spoken.supported_features
    ]
    request = BrokerRegistrationRequest(
        broker_id=name,
        cluster_id=cluster_id,
        incarnation_id=Uuid(bytes(15) + bytes([name])),
        listeners=[SecuredEndpoint(name="PLAINTEXT", host="127.0.0.1", port=9, security_protocol=0)],
        features=features,
        rack=rack,
        log_dirs=[Uuid(b"named broker" + bytes(3) + bytes([name]))],
    )
    with Connection(talk.server.controller_address(leader(talk)[0])) as connection:
        answer = connection.ask(request, 4)
        assert not answer.error_code
        epoch: int = answer.broker_epoch
        assert not connection.ask(heartbeat(name, epoch), 1).is_fenced
    talk.until(1, DescribeClusterRequest(), 2, lambda found: name in [each.broker_id for each in found.brokers])
    return epoch


def heartbeat(name: int, epoch: int) -> BrokerHeartbeatRequest:
    """From a broker that has seen all there is."""
    return BrokerHeartbeatRequest(
        broker_id=name, broker_epoch=epoch, current_metadata_offset=1 << 40, want_fence=False, want_shut_down=False
    )
