"""Nodes of Apache Kafka all of whose connections have TLS: broker 2 in a cluster of ours, or one alone.

files = files_of_both(directory, "SASL_SSL")
with (
    Cluster(1, security="SASL_SSL", timeouts="kafka", properties=shared(files), directory=directory) as cluster,
    JavaBroker(cluster, files),
):
"""

from __future__ import annotations

import pathlib
import subprocess
from collections.abc import Mapping, Sequence

from pykraft import Cluster
from pykraft.common.settings.config import format_properties, parse_properties
from pykraft.runtime.secure_files import MECHANISM, ClusterSecurity, SecureFiles
from tests.harness.apache_kafka import QUICK_START, ApacheKafka, free_ports, java_command
from tests.harness.asking import PATIENT

_SHARED = ("super.users", "listener.name.controller.plain.sasl.jaas.config", "authorizer.class.name")
_OF_THE_CLUSTER = ("listener.security.protocol.map", "controller.quorum.voters", "inter.broker.listener.name")


def files_of_both(directory: pathlib.Path, security: ClusterSecurity) -> SecureFiles:
    """The files of nodes 1 and 2, to be made before the cluster that has only node 1."""
    return SecureFiles(directory / "security", [1, 2], security)


def shared(files: SecureFiles) -> dict[str, str]:
    """What node 1 has in its file, so that it knows node 2."""
    return {name: value for name, value in files.node_properties(1).items() if name in _SHARED}


class JavaBroker(ApacheKafka):
    """It serves when the constructor returns."""

    def __init__(self, cluster: Cluster, files: SecureFiles) -> None:
        self._cluster, self._files = cluster, files
        super().__init__(1, PATIENT, heap="256m", java_options=QUICK_START)

    def _write_properties(self, node: int, properties: Mapping[str, str]) -> None:
        super()._write_properties(node, properties)
        ours = self._cluster.properties(1)
        file = self.folder(node) / "server.properties"
        address = f"{self._files.security}://{self.address(node)}"
        values = {
            **parse_properties(file.read_text()),
            **self._files.node_properties(2),
            **{name: value for name, value in ours.items() if name in (*_SHARED[2:], *_OF_THE_CLUSTER)},
            "process.roles": "broker",
            "node.id": "2",
            "listeners": address,
            "advertised.listeners": address,
        }
        file.write_text(format_properties(values))

    def _format(self) -> None:
        done = subprocess.run(
            java_command(
                self.version,
                "kafka.tools.StorageTool",
                *("format", "-t", self._cluster.cluster_id, "-c", str(self.folder(1) / "server.properties")),
            ),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr


def secured_kafka(
    files: SecureFiles,
    java_options: Sequence[str] = QUICK_START,
    heap: str = "512m",
    ports: Sequence[int] = (),
    more: Mapping[str, str] | None = None,
    levels: Sequence[str] = (),
    starts: bool = True,
) -> ApacheKafka:
    """Node 1 of Apache Kafka, broker and controller, with the certificates and passwords of a cluster of ours, and with
    `more` properties. `levels` are options that choose the features of the new cluster."""
    broker, controller = ports = ports or free_ports(2)
    name = files.security
    properties = {
        **files.node_properties(1),
        "listeners": f"{name}://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"{name}://127.0.0.1:{broker}",
        "inter.broker.listener.name": name,
        "listener.security.protocol.map": f"{name}:{name},CONTROLLER:{name}",
        **(more or {}),
    }
    return ApacheKafka(
        1,
        properties,
        heap=heap,
        java_options=java_options,
        format_options=[*credentials(files), *levels],
        ports=ports,
        starts=starts,
    )


def credentials(files: SecureFiles) -> list[str]:
    """What `storage format` takes, so that the metadata begin with the users' passwords."""
    passwords = {} if files.passwords is None else files.passwords
    each = [f"{MECHANISM}=[name={user},password={password}]" for user, password in passwords.items()]
    return [part for credential in each for part in ("--add-scram", credential)]
