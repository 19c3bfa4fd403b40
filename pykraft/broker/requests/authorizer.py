"""Access rights: the Authorizer port, and the questions that handlers ask of it.

Every handler is handed the authorizer, and asks for each resource that its request names: this principal, this
operation, this resource. Which question an API asks, when, and what the response says after a no, is Kafka's protocol
as much as the bytes are; each handler follows kafka.server.KafkaApis or kafka.server.ControllerApis in that. A request
that came in an envelope is asked about with its client's principal and address.

A node allows everything unless its file names an authorizer, which then goes by the rules in the metadata log
(`standard_authorizer`).

Follows org.apache.kafka.server.authorizer.Authorizer and kafka.server.AuthHelper.
"""

from collections.abc import Collection
from typing import Protocol

from pykraft.common.acl import CLUSTER_NAME, SUPPORTED_OPERATIONS, AclOperation, AclResourceType
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.protocol.messages.configs import ResourceType
from pykraft.transport.server_channel import RequestContext


class Authorizer(Protocol):
    """Answers for one principal, which is in the context, at a time."""

    @property
    def allows_all(self) -> bool:
        """Whether every answer is yes. Handlers of records look at this first, and then need not ask."""
        ...

    def allows(
        self, context: RequestContext, operation: AclOperation, resource_type: AclResourceType, name: str
    ) -> bool:
        """Whether the principal may do this to that resource."""
        ...

    def allowed(
        self, context: RequestContext, operation: AclOperation, resource_type: AclResourceType, names: Collection[str]
    ) -> Collection[str]:
        """Those of these resources that the principal may do this to."""
        ...

    def allows_some(self, context: RequestContext, operation: AclOperation, resource_type: AclResourceType) -> bool:
        """Whether there may be any resource of this type that the principal may do this to."""
        ...


class AllowAll:
    """The authorizer of a node that has none."""

    allows_all = True

    def allows(
        self, context: RequestContext, operation: AclOperation, resource_type: AclResourceType, name: str
    ) -> bool:
        return True

    def allowed(
        self, context: RequestContext, operation: AclOperation, resource_type: AclResourceType, names: Collection[str]
    ) -> Collection[str]:
        return frozenset(names)  # of a list the question "is it one of them" would be slow

    def allows_some(self, context: RequestContext, operation: AclOperation, resource_type: AclResourceType) -> bool:
        return True


def allows_on_cluster(authorizer: Authorizer, context: RequestContext, operation: AclOperation) -> bool:
    """Whether the principal may do this to the cluster."""
    return authorizer.allows(context, operation, AclResourceType.CLUSTER, CLUSTER_NAME)


def check_cluster(authorizer: Authorizer, context: RequestContext, operation: AclOperation) -> None:
    """KafkaError(CLUSTER_AUTHORIZATION_FAILED) unless the principal may do this to the cluster."""
    if not allows_on_cluster(authorizer, context, operation):
        raise KafkaError(
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            f"{context.principal} is not allowed {operation.name} on the cluster",
        )


_OF_CONFIGS = {
    ResourceType.TOPIC: (AclResourceType.TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ResourceType.GROUP: (AclResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
}
"""The settings of all other kinds of resource are the cluster's."""


def check_configs(
    authorizer: Authorizer, context: RequestContext, operation: AclOperation, kind: ResourceType, name: str
) -> None:
    """KafkaError unless the principal may do this to the settings of a resource. The error code says what kind of
    resource access control takes it for."""
    if kind not in _OF_CONFIGS:
        check_cluster(authorizer, context, operation)
        return
    resource_type, code = _OF_CONFIGS[kind]
    if not authorizer.allows(context, operation, resource_type, name):
        kind_name = resource_type.name.lower()
        raise KafkaError(code, f"{context.principal} is not allowed {operation.name} on {kind_name} {name}")


def authorized_operations(
    authorizer: Authorizer, context: RequestContext, resource_type: AclResourceType, name: str
) -> int:
    """What the principal may do to a resource, as a bit set: bit n for operation n (KIP-430)."""
    return sum(
        1 << operation
        for operation in SUPPORTED_OPERATIONS[resource_type]
        if authorizer.allows(context, operation, resource_type, name)
    )
