"""The users of a `Cluster` with SASL_SSL: each gets a password on the spot, and every broker learns it first."""

import time
from pathlib import Path

from pykraft.admin import Admin
from pykraft.client.administration.scram import UserScramCredentialUpsertion
from pykraft.client.errors import AuthenticationError
from pykraft.common.errors import ConfigError
from pykraft.common.settings.config import parse_properties
from pykraft.runtime.secure_files import ADMIN, MECHANISM, SecureFiles, new_password

_TIMEOUT_S = 10.0
_PAUSE_S = 0.02


def add_user(files: SecureFiles, name: str, bootstrap_servers: str) -> None:
    """Give this user a password, and wait until it can log in to each of these brokers. AuthenticationError: it cannot
    after ten seconds; KafkaError: the cluster does not take it."""
    password = new_password()
    with Admin(bootstrap_servers=bootstrap_servers, **files.client_settings(ADMIN)) as admin:
        admin.alter_user_scram_credentials([UserScramCredentialUpsertion(name, MECHANISM, password)])
    assert files.passwords is not None
    files.passwords.keep(name, password)
    settings = files.client_settings(name)
    deadline = time.monotonic() + _TIMEOUT_S
    for server in bootstrap_servers.split(","):
        while True:
            try:
                with Admin(bootstrap_servers=server, **settings) as client:
                    client.describe_cluster()
                break
            except AuthenticationError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_PAUSE_S)


def check_secured_before(directory: Path, listener: str) -> None:
    """ConfigError if a cluster was here before with another security: its log has no credentials, or its quorum other
    addresses."""
    for file in sorted(directory.glob("node-*.properties")):
        mapped = parse_properties(file.read_text()).get("listener.security.protocol.map", "")
        before = mapped.rpartition(":")[2]
        if before and before != listener:
            raise ConfigError(
                f"{directory} holds a cluster whose listeners have {before}, and not {listener}: start it with these,"
                " or use another directory"
            )
