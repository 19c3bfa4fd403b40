"""What makes a cluster on this machine secure: an authority of its own, and a certificate for each node and client.

All listeners have TLS: those of clients, those between brokers and the controllers'. How a client proves its name
depends on the security protocol.

========  =============================================================================================================
SSL       each client and each node shows a certificate; one for ``CN=alice`` makes ``User:alice``
SASL_SSL  each client and each node logs in with a password; only the nodes have certificates
========  =============================================================================================================

With SASL_SSL clients and brokers log in by SCRAM-SHA-512: the cluster's metadata have their credentials. A node that
starts has no metadata yet, and asks the controllers for them; so nodes log in to the controllers by PLAIN.

The nodes and ``admin`` are super users. Without an authorizer that says nothing yet; with one, no other principal may
do anything before there are rules::

    Cluster(security="SSL", properties={"authorizer.class.name": STANDARD_AUTHORIZER})

The files are in the cluster's directory: ``security/admin.pem`` and the like, and next to each the settings that Java's
clients and librdkafka's take.
"""

import os
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import SystemRandom
from typing import Any, Literal, get_args

from pykraft.broker.startup.first_credentials import parse_add_scram
from pykraft.common.settings.config import format_properties, parse_properties
from pykraft.protocol.messages.records import UserScramCredentialRecord
from pykraft.runtime.authority import CertificateAuthority
from pykraft.security.jaas import PLAIN_MODULE, SCRAM_MODULE, as_jaas
from pykraft.security.mechanism import PLAIN

ClusterSecurity = Literal["SSL", "SASL_SSL"]
"""The security protocol of all listeners."""
ADMIN = "admin"
MECHANISM = "SCRAM-SHA-512"
"""How the clients of a cluster with SASL_SSL log in."""
_HOSTS = ("127.0.0.1", "localhost")
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_PASSWORD_BYTES = 18
_MAPPING = "RULE:^CN=([^,]+)$/$1/,DEFAULT"


def listener_with(security: ClusterSecurity | None) -> str:
    """The brokers' listener, which is named like its protocol. ValueError if a cluster cannot have this security."""
    if security is not None and security not in get_args(ClusterSecurity):
        raise ValueError(f'security={security!r}: must be "SSL" or "SASL_SSL", or be left out')
    return security or "PLAINTEXT"


class Passwords(Mapping[str, str]):
    """By the names of their users; kept in a file that only this user of the machine can read.

    Each is 144 random bits in base 64, so it needs no quotes in any file of settings."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._known = parse_properties(file.read_text(encoding="utf-8")) if file.exists() else {}

    def __getitem__(self, name: str) -> str:
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)

    def __repr__(self) -> str:
        return f"Passwords({', '.join(self._known)})"

    def keep(self, name: str, password: str) -> None:
        """Write down the password of a user."""
        self._known[name] = password
        write_private(self._file, format_properties(self._known))


def new_password() -> str:
    return secrets.token_urlsafe(_PASSWORD_BYTES)


def write_private(file: Path, text: str) -> None:
    """Write a file that only this user can read."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "w", encoding="utf-8") as opened:
        os.fchmod(descriptor, 0o600)
        opened.write(text)


class SecureFiles:
    """The authority of one cluster, what it has signed, and the passwords."""

    def __init__(self, folder: Path, node_ids: Sequence[int], security: str = "SSL", host: str = _HOSTS[0]) -> None:
        """Make what is not there yet. Certificates name `host` besides this machine. ConfigError: there is no
        ``openssl``."""
        self.folder = folder
        self.security = security
        self._authority = CertificateAuthority(folder)
        self._node_ids = node_ids
        self._hosts = tuple(dict.fromkeys((*_HOSTS, host)))
        self.passwords = Passwords(folder / "passwords") if security != "SSL" else None
        if self.passwords is not None:
            for name in {*self._nodes, ADMIN} - self.passwords.keys():
                self.passwords.keep(name, new_password())

    @property
    def _nodes(self) -> list[str]:
        return [f"node-{each}" for each in self._node_ids]

    def node_properties(self, node_id: int, is_broker: bool = True) -> dict[str, str]:
        """What a node has in its file besides."""
        own = {
            **self._keystore(f"node-{node_id}"),
            **self._truststore(),
            "super.users": ";".join(f"User:{each}" for each in (*self._nodes, ADMIN)),
        }
        if self.passwords is None:
            return {**own, "ssl.client.auth": "required", "ssl.principal.mapping.rules": _MAPPING}
        return {**own, **self._logins(self.passwords, f"node-{node_id}", is_broker)}

    def _logins(self, passwords: Passwords, node: str, is_broker: bool) -> dict[str, str]:
        controllers, scram = "listener.name.controller", f"{MECHANISM.lower()}.sasl.jaas.config"
        of_broker = {f"listener.name.{self.security.lower()}.{scram}": as_jaas(SCRAM_MODULE, node, passwords[node])}
        users = {f"user_{name}": passwords[name] for name in (*self._nodes, ADMIN)}
        options = {"username": node, "password": passwords[node], **users}
        plain = " ".join(f'{option}="{value}"' for option, value in options.items())
        return {
            "sasl.enabled.mechanisms": MECHANISM,
            "sasl.mechanism.inter.broker.protocol": MECHANISM,
            "sasl.mechanism.controller.protocol": PLAIN,
            f"{controllers}.sasl.enabled.mechanisms": f"{PLAIN},{MECHANISM}",
            f"{controllers}.{PLAIN.lower()}.sasl.jaas.config": f"{PLAIN_MODULE} required {plain};",
            f"{controllers}.{scram}": f"{SCRAM_MODULE} required;",
            **(of_broker if is_broker else {}),
        }

    def first_credentials(self) -> list[UserScramCredentialRecord]:
        """What the metadata of a new cluster begin with, so that brokers can log in to each other."""
        if self.passwords is None:
            return []
        texts = [f"{MECHANISM}=[name={name},password={password}]" for name, password in self.passwords.items()]
        return parse_add_scram(texts, SystemRandom())

    def lacks_user(self, name: str) -> bool:
        """Whether a client of this name needs a password first (`cluster_users.add_user`)."""
        _check(name)
        return self.passwords is not None and name not in self.passwords

    def client_settings(self, name: str) -> dict[str, Any]:
        """The settings of a client that is ``User:NAME``. ValueError: no client can have that name, or with SASL_SSL no
        user has it."""
        if self.lacks_user(name):
            raise ValueError(f"there is no user {name!r}: Cluster.client_settings({name!r}) makes one")
        if self.passwords is None:
            return {"security.protocol": self.security, **self._keystore(name), **self._truststore()}
        login = as_jaas(SCRAM_MODULE, name, self.passwords[name])
        return {
            "security.protocol": self.security,
            "sasl.mechanism": MECHANISM,
            "sasl.jaas.config": login,
            **self._truststore(),
        }

    def _keystore(self, name: str) -> dict[str, str]:
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self._authority.issue(name, f"/CN={name}", self._hosts)),
        }

    def _truststore(self) -> dict[str, str]:
        return {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self._authority.certificate)}

    def librdkafka_settings(self, name: str) -> dict[str, str]:
        """The same for librdkafka, and what is built on it."""
        settings = self.client_settings(name)
        own = {
            "security.protocol": self.security.lower(),
            "ssl.ca.location": settings["ssl.truststore.location"],
        }
        if self.passwords is not None:
            login = {"sasl.mechanism": MECHANISM, "sasl.username": name, "sasl.password": self.passwords[name]}
            return {**own, **login}
        keystore = settings["ssl.keystore.location"]
        return {**own, "ssl.certificate.location": keystore, "ssl.key.location": keystore}

    def write_client_files(self, name: str) -> tuple[Path, Path]:
        """Files with these settings, for Java (and for pykraft's commands), and for librdkafka."""
        java, librdkafka = self.folder / f"{name}.properties", self.folder / f"{name}.librdkafka"
        write_private(java, format_properties(self.client_settings(name)))
        write_private(librdkafka, format_properties(self.librdkafka_settings(name)))
        return java, librdkafka


def _check(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} must be of letters, digits, dots, underscores and dashes to name a secure client")
