"""How a node authenticates the clients of its listeners: PLAIN's users are in its file, SCRAM's in its metadata.

A credential that was changed holds as soon as this node's own image has it, for connections that come after.

An unknown user is asked for a SCRAM proof like any other (`security.scram.unknown_user`). The secret from which its
salt follows is the key of one of the cluster's own credentials: all nodes have it, and no client but its owner does.

Follows org.apache.kafka.common.security.scram.internals.ScramServerCallbackHandler.
"""

from collections.abc import Callable, Mapping
from functools import partial
from random import Random

from pykraft.broker.settings.config import NodeConfig
from pykraft.broker.settings.sasl_config import CONNECTION_FAILED_AUTHENTICATION_DELAY_MS, SaslListener
from pykraft.broker.settings.socket_config import CONNECTIONS_MAX_IDLE_MS
from pykraft.metadata.image import MetadataImage
from pykraft.protocol.messages.records import UserScramCredentialRecord
from pykraft.security.mechanism import SaslServer
from pykraft.security.plain import PlainServer
from pykraft.security.scram import (
    MIN_ITERATIONS,
    ScramCredential,
    ScramMechanism,
    ScramServer,
    unknown_user,
)
from pykraft.transport.authentication import Authentication

_Credentials = Mapping[tuple[str, int], UserScramCredentialRecord]


class ScramUsers:
    """The users of an image, and those that there are not."""

    def __init__(self, image: Callable[[], MetadataImage], cluster_id: str) -> None:
        self._image = image
        self._cluster_id = cluster_id
        self._known: _Credentials | None = None
        """Those for which the secret was found."""
        self._secret = b""
        self._iterations = MIN_ITERATIONS

    def credential(self, mechanism: ScramMechanism, user: str) -> tuple[ScramCredential, bool]:
        """What a user is asked with, and whether there is such a user."""
        credentials = self._image().scram_credentials
        if credentials is not self._known:
            self._follow(credentials)
        found = credentials.get((user, mechanism))
        other = unknown_user(mechanism, user, self._secret, self._iterations)  # also if there is one: in the same time
        asked_with = found or other
        keys = bytes(asked_with.stored_key), bytes(asked_with.server_key)
        return ScramCredential(bytes(asked_with.salt), *keys, asked_with.iterations), found is not None

    def _follow(self, credentials: _Credentials) -> None:
        first = min(credentials, default=None)
        if first is None:  # then there is no user to hide
            self._secret, self._iterations = self._cluster_id.encode(), MIN_ITERATIONS
        else:
            record = credentials[first]
            self._secret, self._iterations = bytes(record.server_key), record.iterations
        self._known = credentials


def authentications(
    config: NodeConfig, image: Callable[[], MetadataImage], cluster_id: str, random: Random
) -> dict[str, Authentication]:
    """By the names of the listeners that have SASL. The `random` draws nonces, which no client must foresee."""
    users = ScramUsers(image, cluster_id)
    return {
        name: Authentication(
            mechanisms=listener.mechanisms,
            begin=partial(_begin, listener, users, random),
            max_receive_bytes=listener.max_receive_bytes,
            failure_delay_ms=config.values[CONNECTION_FAILED_AUTHENTICATION_DELAY_MS],
            max_ms=config.values[CONNECTIONS_MAX_IDLE_MS],
        )
        for name, listener in config.sasl_listeners.items()
    }


def _begin(listener: SaslListener, users: ScramUsers, random: Random, mechanism: str) -> SaslServer:
    scram = ScramMechanism.named(mechanism)
    if scram is None:
        return PlainServer(listener.passwords)
    return ScramServer(scram, partial(users.credential, scram), random)
