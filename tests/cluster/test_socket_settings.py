"""The settings of the socket server, on real sockets: what a client sees of each."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from pykraft import Cluster
from pykraft.broker.settings.config import read_node_config
from pykraft.broker.startup.storage_format import format_directories
from pykraft.common.errors import ConfigError
from pykraft.common.trace import RingBuffer
from pykraft.runtime.clock import MonotonicClock
from pykraft.runtime.threaded import NodeThread
from pykraft.storage.disk.filesystem import OsFileSystem
from tests.harness.apache_kafka import free_ports
from tests.harness.socket_settings import IDS, OF_TWO_LISTENERS, SCENES, Scene, many_connections, two_listeners


@pytest.mark.parametrize(("properties", "scene", "seen"), SCENES, ids=IDS)
def test_a_client_sees_what_the_setting_says(properties: dict[str, str], scene: Scene, seen: str) -> None:
    with Cluster(nodes=1, properties=properties) as cluster:
        assert scene(cluster.bootstrap_servers) == seen


@pytest.mark.parametrize(
    ("properties", "scene", "seen"),
    [pytest.param(*row, marks=[pytest.mark.long] if row[1] is many_connections else []) for row in OF_TWO_LISTENERS],
)
def test_a_client_sees_the_limits_of_each_listener(
    properties: dict[str, str], scene: Scene, seen: tuple[str, str], tmp_path: Path
) -> None:
    own, other, quorum = (f"127.0.0.1:{port}" for port in free_ports(3))
    properties = properties | two_listeners(own, other, quorum)
    properties |= {"process.roles": "broker,controller", "node.id": "1", "log.dirs": str(tmp_path)}
    config = read_node_config({**properties, "controller.listener.names": "CONTROLLER"})
    assert config.unknown == ()
    format_directories(config, "pykraftReferenceQuorum", OsFileSystem(), Random(1), 0)
    node = NodeThread(config, MonotonicClock(), Random(1), RingBuffer())
    node.start()
    try:
        assert (scene(own), scene(other)) == seen
    finally:
        node.kill()


@pytest.mark.parametrize(
    ("properties", "sentence"),
    [
        ({"max.connections.per.ip": "0"}, "every connection would be closed: name the hosts that may connect"),
        ({"max.connections.per.ip.overrides": "10"}, "has '10', but must be a list of host:limit"),
        ({"max.connections.per.ip.overrides": "a:1,b:x"}, "has 'b:x', but must be a list of host:limit"),
        ({"max.connections": "-1"}, "max.connections is '-1', but must be a whole number of at least 0"),
        ({"listener.name.plaintext.max.connections": "x"}, "listener.name.plaintext.max.connections is 'x', but must"),
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
