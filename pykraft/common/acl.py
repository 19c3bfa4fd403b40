"""The words of access control: what may be done, and to what kind of thing.

A question to the authorizer is an operation on a resource: may this principal WRITE to the TOPIC called t? The codes
are those of the wire, and of the records in the metadata log. Whatever belongs to the cluster as a whole is asked of
one resource, the CLUSTER called `CLUSTER_NAME`.

Follows org.apache.kafka.common.acl.AclOperation, org.apache.kafka.common.resource.{Resource,ResourceType} and
org.apache.kafka.security.authorizer.AclEntry.
"""

from enum import IntEnum


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
}
"""What can be done to a resource, for the kinds of which a client may ask what it is allowed (KIP-430)."""
