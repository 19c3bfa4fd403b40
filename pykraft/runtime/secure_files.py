"""What makes a cluster on this machine secure: an authority of its own, and a certificate for each node and client.

All listeners have TLS, and all ask for a certificate: those of clients, those between brokers and the controllers'. So
each node and each client is a principal. A certificate for ``CN=alice`` makes ``User:alice``.

The nodes and ``admin`` are super users. Without an authorizer that says nothing yet; with one, nobody else may do
anything before there are rules::

    Cluster(security="SSL", properties={"authorizer.class.name": STANDARD_AUTHORIZER})

The files are in the cluster's directory: ``security/admin.pem`` and the like, and next to each the settings that Java's
clients and librdkafka's take.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, get_args

from pykraft.common.settings.config import format_properties
from pykraft.runtime.authority import CertificateAuthority

ClusterSecurity = Literal["SSL"]
"""The security protocol of all listeners."""
ADMIN = "admin"
_HOSTS = ("127.0.0.1", "localhost")
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_MAPPING = "RULE:^CN=([^,]+)$/$1/,DEFAULT"


def listener_with(security: ClusterSecurity | None) -> str:
    """The brokers' listener, which is named like its protocol. ValueError if a cluster cannot have this security."""
    if security is not None and security not in get_args(ClusterSecurity):
        raise ValueError(f'security={security!r}: must be "SSL", or be left out')
    return security or "PLAINTEXT"


class SecureFiles:
    """The authority of one cluster, and what it has signed."""

    def __init__(self, folder: Path, node_ids: Sequence[int]) -> None:
        """Make what is not there yet. ConfigError: there is no ``openssl``."""
        self.folder = folder
        self._authority = CertificateAuthority(folder)
        self._node_ids = node_ids

    def node_properties(self, node_id: int) -> dict[str, str]:
        """What a node has in its file besides."""
        nodes = [f"User:node-{each}" for each in self._node_ids]
        return {
            **self._stores(f"node-{node_id}"),
            "ssl.client.auth": "required",
            "ssl.principal.mapping.rules": _MAPPING,
            "super.users": ";".join([*nodes, f"User:{ADMIN}"]),
        }

    def client_settings(self, name: str) -> dict[str, str]:
        """The settings of a client that is ``User:NAME``."""
        return {"security.protocol": "SSL", **self._stores(name)}

    def _stores(self, name: str) -> dict[str, str]:
        if not _NAME.fullmatch(name):
            raise ValueError(
                f"{name!r} must be of letters, digits, dots, underscores and dashes to be in a certificate"
            )
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self._authority.issue(name, f"/CN={name}", _HOSTS)),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self._authority.certificate),
        }

    def write_client_files(self, name: str) -> tuple[Path, Path]:
        """Files with these settings, for Java (and for pykraft's commands), and for librdkafka."""
        settings = self.client_settings(name)
        keystore = settings["ssl.keystore.location"]
        java, librdkafka = self.folder / f"{name}.properties", self.folder / f"{name}.librdkafka"
        java.write_text(format_properties(settings), encoding="utf-8")
        librdkafka.write_text(
            format_properties(
                {
                    "security.protocol": "ssl",
                    "ssl.ca.location": settings["ssl.truststore.location"],
                    "ssl.certificate.location": keystore,
                    "ssl.key.location": keystore,
                }
            ),
            encoding="utf-8",
        )
        return java, librdkafka
