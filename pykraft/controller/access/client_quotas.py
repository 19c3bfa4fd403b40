"""Quotas are set and removed: the plan for it, with every refusal that a client may meet.

A request names entities, and for each of them keys with a new value or none. An entity that is refused leaves the
others as they are. A value that holds already, and one that is removed and was not there, make no record. Kafka checks
that a value is above 0, fits the kind of number of its key, and is whole where that is. NaN passes all these checks, so
it is a quota that nothing exceeds.

Follows org.apache.kafka.controller.ClientQuotaControlManager.
"""

from collections.abc import Iterator, Mapping
from ipaddress import ip_address

from pykraft.common.core import Steps
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.quotas.entities import (
    ENTITY_TYPES,
    IP,
    QUOTAS_OF_ADDRESSES,
    QUOTAS_OF_CLIENTS,
    EntityKey,
    entity_key,
)
from pykraft.common.settings.config import LARGEST
from pykraft.controller.result import MAX_RECORDS_PER_REQUEST, Result, VersionedRecord
from pykraft.metadata.image import MetadataImage
from pykraft.protocol.messages.quotas import AlterClientQuotasRequest, AlterClientQuotasResponse, altered
from pykraft.protocol.messages.records import ClientQuotaRecord

_KINDS = {"int": "an INT", "long": "a LONG"}
_FRACTION = 1e-6
"""A smaller one is taken for a whole number."""

Parts = dict[str, str | None]


def alter_client_quotas(
    image: MetadataImage, request: AlterClientQuotasRequest
) -> Steps[Result[AlterClientQuotasResponse]]:
    """The records that set and remove what is new. With `validate_only` there are none."""
    records: list[VersionedRecord] = []
    results: dict[EntityKey, AlterClientQuotasResponse.Entry] = {}
    for entry in request.entries:
        parts: Parts = {part.entity_type: part.entity_name for part in entry.entity}
        entity = entity_key(parts.items())
        try:
            changes = _changes(entry, parts)
            if entity in results:
                raise _invalid(f"Ignoring duplicate entity {_shown(parts)}")
            _check_entity(parts)
            planned = list(_records(image, entity, parts, changes))
            if len(records) + len(planned) > MAX_RECORDS_PER_REQUEST:
                raise KafkaError(ErrorCode.POLICY_VIOLATION, f"{MAX_RECORDS_PER_REQUEST} changes at once are allowed")
            records += planned
            results[entity] = altered(entry)
        except KafkaError as error:
            results[entity] = altered(entry, error.code, error.detail)
        yield
    return Result([] if request.validate_only else records, AlterClientQuotasResponse(entries=list(results.values())))


def _changes(entry: AlterClientQuotasRequest.Entry, parts: Parts) -> dict[str, float | None]:
    """The new value of each key, None if it is to go."""
    changes: dict[str, float | None] = {}
    for op in entry.ops:
        if op.key in changes:
            raise _invalid(f"Duplicate quota key {op.key} not updating quota for this entity {_shown(parts)}")
        changes[op.key] = None if op.remove else op.value
    return changes


def _check_entity(parts: Parts) -> None:
    """KafkaError unless there may be such an entity."""
    if not parts:
        raise _invalid("Invalid empty client quota entity")
    for kind, name in parts.items():
        if kind not in ENTITY_TYPES:
            raise _invalid(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise _invalid(f"Empty {kind} not supported")
    if IP in parts:
        if len(parts) > 1:
            raise _invalid("Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId")
        if parts[IP] is not None and not _is_address(parts[IP]):
            raise _invalid(f"{parts[IP]} is not a valid IP or resolvable host.")


def _is_address(name: str | None) -> bool:
    try:
        ip_address(name or "")
    except ValueError:
        return False
    return True


def _records(
    image: MetadataImage, entity: EntityKey, parts: Parts, changes: Mapping[str, float | None]
) -> Iterator[VersionedRecord]:
    """What changes. KafkaError if a value is refused."""
    known = QUOTAS_OF_ADDRESSES if IP in parts else QUOTAS_OF_CLIENTS
    kind = ClientQuotaRecord.Entity
    named = [kind(entity_type=entity_type, entity_name=name) for entity_type, name in sorted(parts.items())]
    for key, value in changes.items():
        current = image.client_quotas.get((entity, key))
        if value is None:
            if current is not None:
                yield ClientQuotaRecord(entity=named, key=key, value=0.0, remove=True), 0
            continue
        _check_value(known, key, value)
        if current is None or not _is_same(current.value, value):
            yield ClientQuotaRecord(entity=named, key=key, value=value), 0


def _is_same(one: float, other: float) -> bool:
    return one == other or (one != one and other != other)  # NaN differs from itself


def _check_value(known: Mapping[str, str], key: str, value: float) -> None:
    if key not in known:
        raise _invalid(f"Invalid configuration key {key}")
    if value <= 0:
        raise _invalid(f"Quota {key} must be greater than 0")
    kind = known[key]
    if kind == "double":
        return
    if value > float(LARGEST[kind]):
        raise _invalid(f"Proposed value for {key} is too large for {_KINDS[kind]}.")
    if value % 1.0 > _FRACTION:
        raise _invalid(f"{key} cannot be a fractional value.")


def _shown(parts: Parts) -> str:
    """An entity as Kafka writes it."""
    entries = ", ".join(f"{kind}={'null' if name is None else name}" for kind, name in parts.items())
    return f"ClientQuotaEntity(entries={{{entries}}})"


def _invalid(detail: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, detail)
