"""``configs`` for users, client ids and addresses: their quotas, as kafka-configs.sh shows and changes them.

::

    configs ... --alter --add-config producer_byte_rate=1048576 --entity-type users --entity-name alice
    configs ... --alter --add-config request_percentage=50 --user alice --client-defaults
    configs ... --describe --entity-type users --entity-type clients
    configs ... --alter --delete-config connection_creation_rate --ip-defaults

A user and a client id may be named together. The empty name stands for the default. ``--describe`` shows the entities
that have just the parts that are named, with any name where none is given.

Follows kafka.admin.ConfigCommand.
"""

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from pykraft.admin import Admin
from pykraft.client.administration.quotas import DEFAULT, ClientQuotaEntity, ClientQuotaFilter
from pykraft.commands.common import CommandError, say
from pykraft.common.quotas.entities import QUOTAS_OF_ADDRESSES, QUOTAS_OF_CLIENTS
from pykraft.common.settings.java_text import parse_double

USERS, CLIENTS, IPS = "users", "clients", "ips"
QUOTA_ENTITIES = (USERS, CLIENTS, IPS)
_PARTS = {USERS: "user", CLIENTS: "client_id", IPS: "ip"}
_SHOWN = {"user": "user-principal", "client_id": "client-id", "ip": "ip"}


def check_quota_entity(kinds: Sequence[str]) -> None:
    """CommandError unless these kinds of entity may be named together."""
    if len(set(kinds)) < len(kinds):
        raise CommandError(f"each kind of entity is named once, not {', '.join(kinds)}")
    if len(kinds) > 1 and set(kinds) != {USERS, CLIENTS}:
        raise CommandError("only users and clients may be named together")


def describe_quotas(admin: Admin, kinds: Sequence[str], names: Sequence[str]) -> None:
    """Print the quotas of the entities that have just these parts; a kind without a name stands for all names."""
    parts: dict[str, Any] = dict.fromkeys((_PARTS[kind] for kind in kinds), True)
    parts |= {_PARTS[kind]: name for kind, name in zip(kinds, names, strict=False)}
    found = admin.describe_client_quotas(ClientQuotaFilter(**parts, strict=True))
    for entity, quotas in sorted(found.items(), key=lambda item: tuple(name or "" for name in item[0])):
        values = ", ".join(f"{key}={java_double(value)}" for key, value in sorted(quotas.items()))
        say(f"Quota configs for {_shown(entity)} are {values}")


def alter_quotas(
    admin: Admin, kinds: Sequence[str], names: Sequence[str], added: Mapping[str, str], deleted: Sequence[str]
) -> None:
    """Change the quotas of one entity."""
    _check_keys(kinds, [*added, *deleted])
    entity = ClientQuotaEntity(**{_PARTS[kind]: name for kind, name in zip(kinds, names, strict=True)})
    known = admin.describe_client_quotas(ClientQuotaFilter(*entity, strict=True)).get(entity, {})
    unknown = [key for key in deleted if key not in known]
    if unknown:
        raise CommandError(f"--delete-config names what is not set: {','.join(unknown)}")
    changes: dict[str, float | None] = {key: _number(key, text) for key, text in added.items()}
    admin.alter_client_quotas({entity: changes | dict.fromkeys(deleted)})
    if names[0] != DEFAULT:
        say(f"Completed updating config for {kinds[0][:-1]} {names[0]}.")
    else:
        say(f"Completed updating default config for {kinds[0]} in the cluster.")


def _check_keys(kinds: Sequence[str], keys: Iterable[str]) -> None:
    allowed = QUOTAS_OF_ADDRESSES if IPS in kinds else QUOTAS_OF_CLIENTS
    unknown = [key for key in keys if key not in allowed]
    if unknown:
        raise CommandError(f"{', '.join(unknown)}: {' and '.join(kinds)} have only {', '.join(allowed)}")


def _number(key: str, text: str) -> float:
    try:
        return parse_double(text)
    except ValueError:
        raise CommandError(f"{key} is {text!r}, but must be a number") from None


def _shown(entity: ClientQuotaEntity) -> str:
    parts = ((_SHOWN[field], name) for field, name in zip(entity._fields, entity, strict=True) if name is not None)
    return ", ".join(f"{kind} '{name}'" if name != DEFAULT else f"the default {kind}" for kind, name in parts)


def java_double(value: float) -> str:
    """A number as Java prints it: 1000000.0, and from ten million on 1.0E7."""
    if value != value or value in (float("inf"), float("-inf")):
        return "NaN" if value != value else f"{'-' if value < 0 else ''}Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    figures = "".join(map(str, digits))
    assert isinstance(exponent, int), value
    return f"{'-' if sign else ''}{figures[0]}.{figures[1:] or '0'}E{exponent + len(figures) - 1}"
