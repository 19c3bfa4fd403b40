"""What an administrator asks about quotas: to list and change how much users, client ids and addresses may use.

A `ClientQuotaEntity` says whose quota it is, and a `ClientQuotaFilter` which entities are meant. The default of a type
has the empty name, `DEFAULT` (see `common.quotas.entities`)::

    ClientQuotaEntity(user="alice")                          alice
    ClientQuotaEntity(user="alice", client_id=DEFAULT)       each client id of alice that has no quota of its own
    ClientQuotaFilter(user="alice")                          the same two, and all others of alice
    ClientQuotaFilter(user=True, strict=True)                every user and the default, but nothing by client id

Follows org.apache.kafka.common.quota.{ClientQuotaAlteration,ClientQuotaEntity,ClientQuotaFilter}.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from pykraft.client.api_driver import ApiDriver
from pykraft.common.core import Promise
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.quotas.entities import CLIENT_ID, IP, USER
from pykraft.protocol.messages.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    MatchType,
)

__all__ = ["DEFAULT", "ClientQuotaEntity", "ClientQuotaFilter", "QuotaCalls", "quota_changes", "quota_filter"]

DEFAULT = ""
"""The name of the default of a type."""
_TYPES = {"user": USER, "client_id": CLIENT_ID, "ip": IP}
_FIELDS = {kind: field for field, kind in _TYPES.items()}


class ClientQuotaEntity(NamedTuple):
    """Whose quota it is. What is None is no part of it."""

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None


class ClientQuotaFilter(NamedTuple):
    """Which entities are meant: True stands for every name and the default, None for no condition."""

    user: str | bool | None = None
    client_id: str | bool | None = None
    ip: str | bool | None = None
    strict: bool = False
    """Whether an entity may have no other parts than these."""


Quotas = dict[ClientQuotaEntity, dict[str, float]]
QuotaChanges = Mapping[ClientQuotaEntity, Mapping[str, float | None]]
"""The new value of each key; None takes it away."""


def quota_filter(wanted: Any) -> ClientQuotaFilter:
    """Which entities are meant; an entity means itself. TypeError if it does not say so."""
    if isinstance(wanted, ClientQuotaEntity):
        return ClientQuotaFilter(*wanted, strict=True)
    if not isinstance(wanted, ClientQuotaFilter):
        raise TypeError(f"entities are named by ClientQuotaFilter(user=..., client_id=..., ip=...), not by {wanted!r}")
    for part in wanted[:3]:
        if not (part is None or part is True or isinstance(part, str)):
            raise TypeError(f"the name of an entity is text, True or None, not {part!r}")
    return wanted


def quota_changes(changes: Mapping[Any, Mapping[str, Any]]) -> QuotaChanges:
    """What is to change. TypeError if it does not say so."""
    found: dict[ClientQuotaEntity, dict[str, float | None]] = {}
    for entity, values in changes.items():
        if not isinstance(entity, ClientQuotaEntity):
            raise TypeError(
                f"an entity is made of ClientQuotaEntity(user=..., client_id=..., ip=...), not of {entity!r}"
            )
        for name in entity:
            if not (name is None or isinstance(name, str)):
                raise TypeError(f"the name of an entity is text or None, not {name!r}")
        found[entity] = {}
        for key, value in values.items():
            if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
                raise TypeError(f"a quota is a number, and {key} is {value!r}")
            found[entity][key] = None if value is None else float(value)
    return found


class QuotaCalls:
    """Each method asks one thing; `deadline` is when to give up. Promises bring the answer or the KafkaError."""

    def __init__(self, driver: ApiDriver) -> None:
        self._driver = driver

    def describe(self, wanted: ClientQuotaFilter, deadline: int) -> "Promise[Quotas | KafkaError]":
        """The quotas of the entities that the filter means."""
        request = DescribeClientQuotasRequest(components=list(_components(wanted)), strict=wanted.strict)
        return self._driver.ask_any("to list quotas", request, _described, deadline)

    def alter(
        self, changes: QuotaChanges, validate_only: bool, deadline: int
    ) -> "Promise[dict[ClientQuotaEntity, KafkaError | None] | KafkaError]":
        """What became of each entity."""
        kind = AlterClientQuotasRequest.Entry
        entries = [
            kind(
                entity=[kind.Entity(entity_type=part, entity_name=name) for part, name in _parts(entity)],
                ops=[
                    kind.Op(key=key, value=0.0 if value is None else value, remove=value is None)
                    for key, value in values.items()
                ],
            )
            for entity, values in changes.items()
        ]
        request = AlterClientQuotasRequest(entries=entries, validate_only=validate_only)
        return self._driver.ask_any("to change quotas", request, _altered, deadline)


def _components(wanted: ClientQuotaFilter) -> Iterator[DescribeClientQuotasRequest.Component]:
    for field, kind in _TYPES.items():
        part = getattr(wanted, field)
        if part is None:
            continue
        match_type, match = MatchType.EXACT, part
        if part is True:
            match_type, match = MatchType.SPECIFIED, None
        elif part == DEFAULT:
            match_type, match = MatchType.DEFAULT, None
        yield DescribeClientQuotasRequest.Component(entity_type=kind, match_type=match_type, match=match)


def _parts(entity: ClientQuotaEntity) -> Iterator[tuple[str, str | None]]:
    for field, kind in _TYPES.items():
        name = getattr(entity, field)
        if name is not None:
            yield kind, None if name == DEFAULT else name


def _entity(parts: Any) -> ClientQuotaEntity:
    known = {part.entity_type: part.entity_name or DEFAULT for part in parts}
    return ClientQuotaEntity(**{_FIELDS[kind]: name for kind, name in known.items() if kind in _FIELDS})


def _described(response: DescribeClientQuotasResponse) -> Quotas:
    error = _error(response)
    if error is not None:
        raise error
    return {
        _entity(entry.entity): {value.key: value.value for value in entry.values} for entry in response.entries or ()
    }


def _altered(response: AlterClientQuotasResponse) -> dict[ClientQuotaEntity, KafkaError | None]:
    return {_entity(entry.entity): _error(entry) for entry in response.entries}


def _error(answer: Any) -> KafkaError | None:
    return KafkaError(ErrorCode.of(answer.error_code), answer.error_message or "") if answer.error_code else None
