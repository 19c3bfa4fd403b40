"""Short ways to write requests about quotas. An entity is its parts: ``{"user": "alice", "client-id": None}``, where
None stands for the default."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pykraft.common.quotas.entities import entity_key
from pykraft.metadata.client_quotas import ClientQuotasImage
from pykraft.protocol.messages.quotas import AlterClientQuotasRequest, DescribeClientQuotasRequest, MatchType
from pykraft.protocol.messages.records import ClientQuotaRecord

Parts = Mapping[str, str | None]


def entry(parts: Parts, *ops: tuple[str, float | None]) -> AlterClientQuotasRequest.Entry:
    """These keys of one entity get these values; None takes one away."""
    kind = AlterClientQuotasRequest.Entry
    return kind(
        entity=[kind.Entity(entity_type=part, entity_name=name) for part, name in parts.items()],
        ops=[kind.Op(key=key, value=0.0 if value is None else value, remove=value is None) for key, value in ops],
    )


def alter(*changes: tuple[Parts, Mapping[str, float | None]], validate_only: bool = False) -> AlterClientQuotasRequest:
    return AlterClientQuotasRequest(
        entries=[entry(parts, *values.items()) for parts, values in changes], validate_only=validate_only
    )


def of(**parts: Any) -> list[DescribeClientQuotasRequest.Component]:
    """The parts of a filter: a name, "" for the default, True for any."""
    found = []
    for field, name in parts.items():
        match_type = MatchType.SPECIFIED if name is True else MatchType.EXACT if name else MatchType.DEFAULT
        match = name if match_type is MatchType.EXACT else None
        found.append(
            DescribeClientQuotasRequest.Component(
                entity_type=field.replace("_", "-"), match_type=match_type, match=match
            )
        )
    return found


def described_by(strict: bool = False, **parts: Any) -> DescribeClientQuotasRequest:
    return DescribeClientQuotasRequest(components=of(**parts), strict=strict)


def described(response: Any) -> dict[tuple[tuple[str, str | None], ...], dict[str, float]]:
    """What an answer lists, by entity."""
    assert not response.error_code, response
    return {
        tuple((part.entity_type, part.entity_name) for part in found.entity): {
            value.key: value.value for value in found.values
        }
        for found in response.entries
    }


def image_of(*quotas: tuple[Parts, Mapping[str, float]]) -> ClientQuotasImage:
    """The quotas as an image has them."""
    kind = ClientQuotaRecord.Entity
    return {
        (entity_key(parts.items()), key): ClientQuotaRecord(
            entity=[kind(entity_type=part, entity_name=name) for part, name in parts.items()], key=key, value=value
        )
        for parts, values in quotas
        for key, value in values.items()
    }
