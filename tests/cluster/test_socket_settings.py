"""The settings of the socket server, on real sockets: what a client sees of each."""

from __future__ import annotations

import pytest

from pykraft import Cluster
from pykraft.common.errors import ConfigError
from tests.harness.socket_settings import IDS, SCENES, Scene


@pytest.mark.parametrize(("properties", "scene", "seen"), SCENES, ids=IDS)
def test_a_client_sees_what_the_setting_says(properties: dict[str, str], scene: Scene, seen: str) -> None:
    with Cluster(nodes=1, properties=properties) as cluster:
        assert scene(cluster.bootstrap_servers) == seen


@pytest.mark.parametrize(
    ("properties", "sentence"),
    [
        ({"max.connections.per.ip": "0"}, "every connection would be closed: name the hosts that may connect"),
        ({"max.connections.per.ip.overrides": "10"}, "has '10', but must be a list of host:limit"),
        ({"max.connections.per.ip.overrides": "a:1,b:x"}, "has 'b:x', but must be a list of host:limit"),
        ({"max.connections": "-1"}, "max.connections is '-1', but must be a whole number of at least 0"),
        ({"num.network.threads": "0"}, "num.network.threads is '0', but must be a whole number of at least 1"),
        ({"num.io.threads": "0"}, "num.io.threads is '0', but must be a whole number of at least 1"),
    ],
)
def test_a_setting_that_cannot_be_is_refused_in_one_sentence(properties: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        Cluster(nodes=1, properties=properties)


def test_a_host_that_has_no_address_is_refused_when_the_node_starts() -> None:
    with pytest.raises(ConfigError, match=r"has the host no\.such\.host\.invalid, whose name cannot be resolved"):
        Cluster(nodes=1, properties={"max.connections.per.ip.overrides": "no.such.host.invalid:3"})
