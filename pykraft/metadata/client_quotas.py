"""Which quota counts for a client, by the quotas in the metadata, and which quotas a filter finds.

Of the entities that mean a client the most specific one that has a quota counts. Kafka looks in this order::

    user        client id     the quota is shared by
    ----------  ------------  ------------------------------------
    alice       loader        -
    alice       the default   each client id of alice has its own
    alice                     all client ids of alice
    the default loader        each user has its own
    the default the default   each user and client id has its own
    the default               each user has its own
                loader        all users with this client id
                the default   each client id has its own

What is shared is one count: `Sharing` names it, as the tags of Kafka's metrics do. A client without a client id has no
quota by client id.

Follows org.apache.kafka.image.ClientQuotasImage and the DefaultQuotaCallback of kafka.server.ClientQuotaManager.
"""

from collections.abc import Iterable, Iterator, Mapping
from math import isnan
from typing import NamedTuple

from pykraft.common.core import Steps
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.quotas.entities import (
    CLIENT_ID,
    CONNECTION_CREATION_RATE,
    ENTITY_TYPES,
    IP,
    QUOTAS_OF_CLIENTS,
    USER,
    EntityKey,
    entity_parts,
)
from pykraft.protocol.messages.quotas import DescribeClientQuotasRequest, DescribeClientQuotasResponse, MatchType
from pykraft.protocol.messages.records import ClientQuotaRecord

ClientQuotasImage = Mapping[tuple[EntityKey, str], ClientQuotaRecord]
"""By entity and key."""
_LOOKED_AT_ONCE = 100


class Sharing(NamedTuple):
    """Whose use is counted together; an empty name is left open."""

    user: str
    client_id: str


class QuotaTable:
    """The quotas of users and client ids under one key."""

    def __init__(self) -> None:
        self._limits: dict[tuple[str | None, str | None], float] = {}
        """By user and client id: None is the default, and an empty name means that the entity has no such part."""

    def __bool__(self) -> bool:
        return bool(self._limits)

    def add(self, user: str | None, client_id: str | None, limit: float) -> None:
        self._limits[user, client_id] = limit

    def find(self, user: str, client_id: str) -> tuple[Sharing, float | None]:
        """Whose use counts for this client, and the limit of that; None: there is no limit."""
        shared = self._sharing(user, client_id)
        return shared, self._limit(*shared)

    def _sharing(self, user: str, client_id: str) -> Sharing:
        limits = self._limits
        if (client_id and (user, client_id) in limits) or (user, None) in limits:
            return Sharing(user, client_id)
        if (user, "") in limits:
            return Sharing(user, "")
        if (client_id and (None, client_id) in limits) or (None, None) in limits:
            return Sharing(user, client_id)
        return Sharing(user, "") if (None, "") in limits else Sharing("", client_id)

    def _limit(self, user: str, client_id: str) -> float | None:
        if user and client_id:
            return self._first((user, client_id), (user, None), (None, client_id), (None, None))
        if user:
            return self._first((user, ""), (None, ""))
        return self._first(("", client_id), ("", None)) if client_id else None

    def _first(self, *entities: tuple[str | None, str | None]) -> float | None:
        return next((self._limits[entity] for entity in entities if entity in self._limits), None)


def quota_tables(quotas: ClientQuotasImage) -> dict[str, QuotaTable]:
    """The quotas of users and client ids, by key."""
    tables = {key: QuotaTable() for key in QUOTAS_OF_CLIENTS}
    for (entity, key), record in quotas.items():
        parts = entity_parts(entity)
        if key in tables and IP not in parts:
            tables[key].add(parts.get(USER, ""), parts.get(CLIENT_ID, ""), record.value)
    return tables


def connection_rates(quotas: ClientQuotasImage) -> dict[str | None, int]:
    """How many connections a second each address may make; None is the default. NaN lets none come: it becomes the
    whole number 0, as in Kafka."""
    return {
        entity_parts(entity)[IP]: 0 if isnan(record.value) else int(record.value)
        for (entity, key), record in quotas.items()
        if key == CONNECTION_CREATION_RATE and IP in entity_parts(entity)
    }


# --- what a filter finds ----------------------------------------------------------------------------------------------


class QuotaFilter:
    """Which entities are meant. KafkaError if the filter says nothing that can be meant."""

    def __init__(self, components: Iterable[DescribeClientQuotasRequest.Component], strict: bool) -> None:
        self._strict = strict
        self._exact: dict[str, str | None] = {}
        self._types: set[str] = set()
        for component in components:
            self._add(component)
        asked = {*self._exact, *self._types}
        if IP in asked and len(asked) > 1:
            raise _invalid(
                "Invalid entity filter component combination. IP filter component should not be used with user or "
                "clientId filter component."
            )

    def _add(self, component: DescribeClientQuotasRequest.Component) -> None:
        kind, match = component.entity_type, component.match
        if not kind:
            raise _invalid("Invalid empty entity type.")
        if kind in self._exact or kind in self._types:
            raise _invalid(f"Entity type {kind} cannot appear more than once in the filter.")
        if kind not in ENTITY_TYPES:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
        if component.match_type == MatchType.EXACT:
            if match is None:
                raise _invalid("Request specified MATCH_TYPE_EXACT, but set match string to null.")
            self._exact[kind] = match
        elif component.match_type == MatchType.DEFAULT:
            if match is not None:
                raise _invalid("Request specified MATCH_TYPE_DEFAULT, but also specified a match string.")
            self._exact[kind] = None
        elif component.match_type == MatchType.SPECIFIED:
            if match is not None:
                raise _invalid("Request specified MATCH_TYPE_SPECIFIED, but also specified a match string.")
            self._types.add(kind)
        else:
            raise _invalid(f"Unknown match type {component.match_type}")

    def matches(self, entity: EntityKey) -> bool:
        parts = entity_parts(entity)
        if self._strict and len(parts) != len(self._exact) + len(self._types):
            return False
        return self._types <= parts.keys() and all(
            kind in parts and parts[kind] == name for kind, name in self._exact.items()
        )


def describe_quotas(quotas: ClientQuotasImage, wanted: QuotaFilter) -> Steps[list[DescribeClientQuotasResponse.Entry]]:
    """The quotas of the entities that the filter means, in order."""
    kind = DescribeClientQuotasResponse.Entry
    found: dict[EntityKey, list[DescribeClientQuotasResponse.Entry.Value]] = {}
    for number, ((entity, key), record) in enumerate(quotas.items()):
        if wanted.matches(entity):
            found.setdefault(entity, []).append(kind.Value(key=key, value=record.value))
        if not number % _LOOKED_AT_ONCE:
            yield
    return [kind(entity=list(_named(kind.Entity, entity)), values=values) for entity, values in sorted(found.items())]


def _named(
    kind: type[DescribeClientQuotasResponse.Entry.Entity], entity: EntityKey
) -> Iterator[DescribeClientQuotasResponse.Entry.Entity]:
    for entity_type, name in entity_parts(entity).items():
        yield kind(entity_type=entity_type, entity_name=name)


def _invalid(detail: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, detail)
