"""Rules of access in words: ``allow alice READ TOPIC flights``.

A name that ends with ``...`` is a prefix, after ``from`` comes a host, and ``*`` is everyone. For lessons and tests:
Kafka has no such words.
"""

from pykraft.common.acl import (
    WILDCARD,
    AclBinding,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    PatternType,
)


def rule(text: str) -> AclBinding:
    """The rule that these words mean. KeyError or ValueError if they mean none."""
    words = text.split()
    host = words.pop() if words[-2] == "from" else WILDCARD
    permission, who, operation, kind, name = words[:5]
    return AclBinding(
        AclResourceType[kind],
        name.removesuffix("..."),
        PatternType.PREFIXED if name.endswith("...") else PatternType.LITERAL,
        f"User:{who}",
        host,
        AclOperation[operation],
        AclPermissionType[permission.upper()],
    )
