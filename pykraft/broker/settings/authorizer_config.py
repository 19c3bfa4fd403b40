"""The settings of access control, under Kafka's names: the authorizer, its super users, its default.

Follows org.apache.kafka.server.config.ServerConfigs and org.apache.kafka.metadata.authorizer.StandardAuthorizer.
"""

from collections.abc import Collection, Mapping
from typing import Any

from pykraft.common.errors import ConfigError
from pykraft.common.settings.config import Config, Key, boolean, string

STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def _class_name(text: str) -> str:
    if text not in ("", STANDARD_AUTHORIZER):
        raise ValueError(text)
    return text


def _principals(text: str) -> tuple[str, ...]:
    found = tuple(part.strip() for part in text.split(";"))
    if not all(":" in part for part in found if part):
        raise ValueError(text)
    return tuple(part for part in found if part)


AUTHORIZER_CLASS_NAME: Key[str] = Key(
    "authorizer.class.name",
    "",
    _class_name,
    f"{STANDARD_AUTHORIZER}, or empty for no authorizer",
    "who says what each client may do; without it every client may do everything",
    "string",
)
SUPER_USERS: Key[tuple[str, ...]] = Key(
    "super.users",
    (),
    _principals,
    "principals with semicolons between them: User:NAME;User:NAME",
    "who may do everything, whatever the rules say: User:NAME;User:NAME",
    "string",
)
ALLOW_EVERYONE_IF_NO_ACL_FOUND = boolean(
    "allow.everyone.if.no.acl.found", False, "whether every client may do everything to a resource without rules"
)
EARLY_START_LISTENERS = string(
    "early.start.listeners",
    "",
    "which listeners serve before the rules of access are loaded: NAME, ...; by default the controllers'",
)

AUTHORIZER_KEYS: list[Key[Any]] = [
    AUTHORIZER_CLASS_NAME,
    SUPER_USERS,
    ALLOW_EVERYONE_IF_NO_ACL_FOUND,
    EARLY_START_LISTENERS,
]


def late_listeners(
    config: Config, properties: Mapping[str, str], listeners: Collection[str], controllers: Collection[str]
) -> frozenset[str]:
    """The listeners of this node that wait for the rules of access. ConfigError names one that there is not."""
    early = set(controllers)
    if EARLY_START_LISTENERS.name in properties:
        early = {name.strip().upper() for name in config[EARLY_START_LISTENERS].split(",")} - {""}
    for name in sorted(early.difference(listeners, controllers)):
        raise ConfigError(
            f"early.start.listeners has {name}, but must name listeners of this node or of the controllers: "
            + ", ".join(sorted({*listeners, *controllers}))
        )
    return frozenset(listeners) - early
