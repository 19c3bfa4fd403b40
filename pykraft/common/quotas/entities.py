"""The words of quotas: what is limited, and for whom.

A quota is a number under a key, such as ``producer_byte_rate``. It belongs to an *entity*: a user, a client id, both
together, or an address. Each of these may be a *default*, which counts for all that have no quota of their own::

    {"user": "alice"}                        alice, whatever client id she uses
    {"user": "alice", "client-id": None}     each client id of alice that has none of its own
    {"client-id": "loader"}                  this client id, if its user has no quota
    {"ip": None}                             each address that has none of its own

Follows org.apache.kafka.common.quota.ClientQuotaEntity and org.apache.kafka.server.config.QuotaConfig.
"""

from collections.abc import Iterable, Mapping

USER = "user"
CLIENT_ID = "client-id"
IP = "ip"
ENTITY_TYPES = (USER, CLIENT_ID, IP)

PRODUCER_BYTE_RATE = "producer_byte_rate"
CONSUMER_BYTE_RATE = "consumer_byte_rate"
REQUEST_PERCENTAGE = "request_percentage"
CONTROLLER_MUTATION_RATE = "controller_mutation_rate"
CONNECTION_CREATION_RATE = "connection_creation_rate"

QUOTAS_OF_CLIENTS: Mapping[str, str] = {
    PRODUCER_BYTE_RATE: "long",
    CONSUMER_BYTE_RATE: "long",
    REQUEST_PERCENTAGE: "double",
    CONTROLLER_MUTATION_RATE: "double",
}
"""The keys of users and client ids, and the kind of number that each may have."""
QUOTAS_OF_ADDRESSES: Mapping[str, str] = {CONNECTION_CREATION_RATE: "int"}

EntityKey = tuple[tuple[str, bool, str], ...]
"""An entity: the (type, whether it has a name, name) of its parts, in order of the types."""


def entity_key(parts: Iterable[tuple[str, str | None]]) -> EntityKey:
    """The entity of these parts, in whatever order they come."""
    return tuple(sorted((kind, name is not None, name or "") for kind, name in parts))


def entity_parts(key: EntityKey) -> dict[str, str | None]:
    """The type and name of each part; a default has no name."""
    return {kind: name if is_named else None for kind, is_named, name in key}
