"""Messages about how much clients may use: DescribeClientQuotas, AlterClientQuotas.

A quota belongs to an *entity*: a user, a client id, both, or an address. An entity is a list of parts, each with a type
("user", "client-id", "ip") and a name; a null name is the default of its type. Any broker lists the quotas. Changes go
by it to the active controller.
"""

from enum import IntEnum

from pykraft.common.errors import KafkaError
from pykraft.common.quotas.entities import IP
from pykraft.protocol.listeners import BOTH, BROKER
from pykraft.protocol.schema import (
    Array,
    Request,
    Response,
    Struct,
    boolean,
    field,
    float64,
    int8,
    int16,
    int32,
    string,
)


class MatchType(IntEnum):
    """How a filter compares the names of one type."""

    EXACT = 0
    DEFAULT = 1
    SPECIFIED = 2
    """Every name, and the default."""


class DescribeClientQuotasRequest(Request, api=48, versions=(0, 1), flexible=1, listeners=BROKER):
    """Which quotas have entities with these parts? With `strict` an entity has no other parts."""

    class Component(Struct):
        entity_type: string
        match_type: int8
        match: string | None

    components: Array[Component]
    strict: boolean

    def refusal(self, error: KafkaError) -> "DescribeClientQuotasResponse":
        return DescribeClientQuotasResponse(
            error_code=error.code, error_message=error.detail or error.code.text, entries=None
        )


class DescribeClientQuotasResponse(Response, to=DescribeClientQuotasRequest):
    """The quotas, by entity; null after an error."""

    class Entry(Struct):
        class Entity(Struct):
            entity_type: string
            entity_name: string | None

        class Value(Struct):
            key: string
            value: float64

        entity: Array[Entity]
        values: Array[Value]

    throttle_time_ms: int32 = field(default=0)
    error_code: int16 = field(default=0)
    error_message: string | None = field(default=None)
    entries: Array[Entry] | None


class AlterClientQuotasRequest(Request, api=49, versions=(0, 1), flexible=1, listeners=BOTH, forwardable=True):
    """Set and remove quotas."""

    class Entry(Struct):
        class Entity(Struct):
            entity_type: string
            entity_name: string | None

        class Op(Struct):
            key: string
            value: float64
            remove: boolean

        entity: Array[Entity]
        ops: Array[Op]

    entries: Array[Entry]
    validate_only: boolean

    def refusal(self, error: KafkaError) -> "AlterClientQuotasResponse":
        """The error for each entity."""
        return AlterClientQuotasResponse(
            entries=[altered(entry, error.code, error.detail or error.code.text) for entry in self.entries]
        )


class AlterClientQuotasResponse(Response, to=AlterClientQuotasRequest):
    """What became of each entity."""

    class Entry(Struct):
        class Entity(Struct):
            entity_type: string
            entity_name: string | None

        error_code: int16 = field(default=0)
        error_message: string | None = field(default=None)
        entity: Array[Entity]

    throttle_time_ms: int32 = field(default=0)
    entries: Array[Entry]


def altered(
    entry: AlterClientQuotasRequest.Entry, error_code: int = 0, error_message: str | None = None
) -> AlterClientQuotasResponse.Entry:
    """What became of the entity of one entry. Each type of its parts comes once, an address last, as in Kafka."""
    kind = AlterClientQuotasResponse.Entry
    parts = {part.entity_type: part.entity_name for part in entry.entity}
    in_order = sorted(parts.items(), key=lambda part: (part[0] == IP, part[0]))
    return kind(
        error_code=error_code,
        error_message=error_message,
        entity=[kind.Entity(entity_type=entity_type, entity_name=name) for entity_type, name in in_order],
    )
