"""A pytest plugin for kafka-python's own integration tests: each of their brokers is a node of ours.

Their fixture starts a Kafka of its own from a folder that its archive does not have. Here it gets a cluster with the
same user, the same rules of access (none, and everything is allowed) and a certificate.
"""

from __future__ import annotations

import pathlib
import shutil
import sys
import tempfile
import types
from contextlib import ExitStack
from typing import Any

from pykraft import Admin, Cluster
from pykraft.broker.settings.authorizer_config import STANDARD_AUTHORIZER
from pykraft.cli import main
from pykraft.common.settings.config import format_properties
from pykraft.runtime.process import NodeProcess
from tests.harness.apache_kafka import CLUSTER_ID, free_ports
from tests.harness.sasl_nodes import client_login, sasl_nodes
from tests.harness.waiting import wait_until

# Their helpers begin with a module that the archive lacks; with our brokers they do not use it.
_missing = types.ModuleType("test.service")
_missing.__dict__.update(ExternalService=object, SpawnedService=object)
sys.modules["test.service"] = _missing

from test.integration import fixtures  # type: ignore[import-not-found]  # noqa: E402

PROPERTIES = {"authorizer.class.name": STANDARD_AUTHORIZER, "allow.everyone.if.no.acl.found": "true"}


class OurBroker(fixtures.KafkaFixture):  # type: ignore[misc]
    """A cluster of one node that listens as their tests want it."""

    def __init__(
        self, _: int, transport: str = "PLAINTEXT", sasl_mechanism: str | None = None, **settings: Any
    ) -> None:
        self.transport, self.sasl_mechanism = transport, sasl_mechanism
        self.partitions, self.replicas = settings.get("partitions", 4), 1
        self.host, self.zookeeper, self.child = "localhost", None, self
        self._folder = pathlib.Path(tempfile.mkdtemp(prefix="kafka-python-"))
        self._stack = ExitStack()
        self._stack.callback(shutil.rmtree, self._folder, ignore_errors=True)
        more = {**PROPERTIES, "num.partitions": str(self.partitions)}
        if transport == "SASL_PLAINTEXT":
            settings = {name.replace(".", "_"): value for name, value in more.items()}
            nodes = self._stack.enter_context(sasl_nodes(self._folder, super_users="User:node", **settings))
            address = nodes.address()
        else:
            address = self._start_cluster(more) if transport == "SSL" else self._start_node(more)
        self.port = int(address.rpartition(":")[2])

    def _start_cluster(self, more: dict[str, str]) -> str:
        """Whose certificate the tests believe; they show none."""
        more = {**more, "ssl.client.auth": "requested"}
        cluster = self._stack.enter_context(
            Cluster(1, security="SSL", properties=more, directory=self._folder / "data")
        )
        self.ssl_dir = str(self._folder)
        shutil.copy(cluster.client_settings()["ssl.truststore.location"], self._folder / "ca-cert")
        return cluster.bootstrap_servers

    def _start_node(self, more: dict[str, str]) -> str:
        """Without TLS and logins. Some tests name node 0, so it is that."""
        broker, controller = (f"127.0.0.1:{port}" for port in free_ports(2))
        values = {
            **more,
            "process.roles": "broker,controller",
            "node.id": "0",
            "listeners": f"PLAINTEXT://{broker},CONTROLLER://{controller}",
            "advertised.listeners": f"PLAINTEXT://{broker}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.quorum.bootstrap.servers": controller,
            "log.dirs": str(self._folder / "data"),
            "offsets.topic.replication.factor": "1",
            "super.users": "User:ANONYMOUS",
        }
        file = self._folder / "node.properties"
        file.write_text(format_properties(values))
        assert main(["storage", "format", "-t", CLUSTER_ID, "-c", str(file), "--standalone"]) == 0
        node = NodeProcess(0, file, self._folder / "node.out")
        self._stack.callback(node.kill)
        wait_until(lambda: node.is_ready, "the node serves")
        return broker

    @classmethod
    def instance(cls, *arguments: Any, **settings: Any) -> OurBroker:
        return cls(*arguments, **settings)

    def get_topic_names(self) -> list[str]:
        login = client_login(self.sasl_mechanism) if self.sasl_mechanism else {}
        with Admin(bootstrap_servers=f"{self.host}:{self.port}", **login) as admin:
            return list(admin.list_topics())

    def start(self) -> None:
        """It has been started."""

    def dump_logs(self) -> None:
        """A node that fails says so itself."""

    def close(self) -> None:
        self._stack.close()


fixtures.KafkaFixture = OurBroker
