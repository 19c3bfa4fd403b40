"""The words of access control: what may be done, and to what kind of thing.

A question to the authorizer is an operation on a resource: may this principal WRITE to the TOPIC called t? The codes
are those of the wire, and of the records in the metadata log. Whatever belongs to the cluster as a whole is asked of
one resource, the CLUSTER called `CLUSTER_NAME`.

A *rule* (an ACL) allows or denies a principal such an operation, on one resource or on all whose names begin alike. An
`AclBinding` is one rule, an `AclBindingFilter` describes the rules to list or to remove. A code that is not known here
reads as UNKNOWN, as in Kafka: such a rule grants nothing, and such a filter finds nothing.

Follows org.apache.kafka.common.acl.{AclBinding,AclBindingFilter,AclOperation,AclPermissionType},
org.apache.kafka.common.resource.{PatternType,Resource,ResourceType} and
org.apache.kafka.security.authorizer.AclEntry.
"""

from enum import IntEnum
from typing import NamedTuple


class AclOperation(IntEnum):
    """What a principal wants to do. ANY is for filters; ALL in a rule means every operation."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15

    @classmethod
    def _missing_(cls, value: object) -> "AclOperation":
        return cls.UNKNOWN


class AclResourceType(IntEnum):
    """What kind of thing it is done to. (The kinds of resource that have settings are
    `protocol.messages.configs.ResourceType`.)"""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7

    @classmethod
    def _missing_(cls, value: object) -> "AclResourceType":
        return cls.UNKNOWN


class PatternType(IntEnum):
    """How the name in a rule is meant: as the whole name (`WILDCARD` for all names), or as the beginning of names. ANY
    and MATCH are for filters; MATCH finds all rules that apply to a resource of the filter's name."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4

    @classmethod
    def _missing_(cls, value: object) -> "PatternType":
        return cls.UNKNOWN


class AclPermissionType(IntEnum):
    """Whether a rule denies or allows. ANY is for filters."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3

    @classmethod
    def _missing_(cls, value: object) -> "AclPermissionType":
        return cls.UNKNOWN


WILDCARD = "*"
"""As the name of a LITERAL rule: every resource of the type. As the host of a rule: every host."""
ANY_PRINCIPAL = "User:*"
"""As the principal of a rule: every principal."""
CLUSTER_NAME = "kafka-cluster"
"""The name of the one resource of type CLUSTER."""

SUPPORTED_OPERATIONS = {
    AclResourceType.TOPIC: (
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.CREATE,
        AclOperation.DELETE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    AclResourceType.GROUP: (
        AclOperation.READ,
        AclOperation.DELETE,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    AclResourceType.CLUSTER: (
        AclOperation.CREATE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.CLUSTER_ACTION,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
        AclOperation.IDEMPOTENT_WRITE,
    ),
    AclResourceType.TRANSACTIONAL_ID: (AclOperation.DESCRIBE, AclOperation.WRITE, AclOperation.TWO_PHASE_COMMIT),
    AclResourceType.DELEGATION_TOKEN: (AclOperation.DESCRIBE,),
    AclResourceType.USER: (AclOperation.CREATE_TOKENS, AclOperation.DESCRIBE_TOKENS),
}
"""What can be done to a resource. Of topics, groups and the cluster a client may ask what it is allowed (KIP-430)."""


class AclBinding(NamedTuple):
    """One rule: `principal` from `host` may, or may not, do `operation` to the resources that the first three name."""

    resource_type: AclResourceType
    resource_name: str
    pattern_type: PatternType
    principal: str
    host: str
    operation: AclOperation
    permission_type: AclPermissionType

    @property
    def pattern(self) -> "AclBindingFilter":
        """The filter that finds all rules about the same resources."""
        return AclBindingFilter(self.resource_type, self.resource_name, self.pattern_type)


class AclBindingFilter(NamedTuple):
    """Which rules are meant: every field that says ANY or None lets all of them through."""

    resource_type: AclResourceType = AclResourceType.ANY
    resource_name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission_type: AclPermissionType = AclPermissionType.ANY

    @property
    def exact(self) -> AclBinding | None:
        """The one rule that it can find, if it says everything of it."""
        name, principal, host = self.resource_name, self.principal, self.host
        is_open = AclOperation.ANY in (self.resource_type, self.operation, self.permission_type)
        if is_open or name is None or principal is None or host is None:
            return None
        if self.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
            return None
        return AclBinding(
            self.resource_type, name, self.pattern_type, principal, host, self.operation, self.permission_type
        )

    def matches(self, rule: AclBinding) -> bool:
        """Whether it finds this rule."""
        return (
            self.resource_type in (AclResourceType.ANY, rule.resource_type)
            and self.operation in (AclOperation.ANY, rule.operation)
            and self.permission_type in (AclPermissionType.ANY, rule.permission_type)
            and self.principal in (None, rule.principal)
            and self.host in (None, rule.host)
            and self._names(rule)
        )

    def _names(self, rule: AclBinding) -> bool:
        wanted, name = self.pattern_type, self.resource_name
        if wanted not in (PatternType.ANY, PatternType.MATCH, rule.pattern_type):
            return False
        if name is None or name == rule.resource_name:
            # A prefix that is the whole name applies to it as well.
            return True
        if wanted is not PatternType.MATCH:
            return False
        if rule.pattern_type is PatternType.PREFIXED:
            return name.startswith(rule.resource_name)
        return rule.resource_name == WILDCARD
