"""DescribeAcls, CreateAcls, DeleteAcls 1 to 3: rules of access, on brokers and controllers.

Every node lists the rules as its own image has them. New rules and removals are the active controller's; a broker
passes them on to it. Behaviour to know:

* DescribeAcls needs DESCRIBE on the cluster, the others ALTER.
* On a node without an authorizer they are SECURITY_DISABLED: the rules would have no effect.
* A code of 0 (UNKNOWN) anywhere in a request closes the connection, as in Kafka, whose requests do not read then.

Follows kafka.server.AclApis.
"""

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

from pykraft.broker.requests.authorizer import Authorizer, check_cluster
from pykraft.broker.requests.cluster.controller import ask
from pykraft.broker.requests.dispatch import CloseConnection, Handled, Handlers
from pykraft.broker.requests.forwarding import ForwardingApis
from pykraft.broker.requests.long_answers import Long
from pykraft.broker.turns.slices import ItemByItem
from pykraft.common.acl import (
    AclBinding,
    AclOperation,
)
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.controller.controller import QuorumController
from pykraft.controller.result import check_size
from pykraft.metadata.acls import binding
from pykraft.metadata.image import MetadataImage
from pykraft.protocol.acl_fields import filter_in
from pykraft.protocol.messages.acls import (
    CreateAclsRequest,
    DeleteAclsRequest,
    DescribeAclsRequest,
    DescribeAclsResponse,
)
from pykraft.protocol.messages.records import AccessControlEntryRecord
from pykraft.transport.server_channel import RequestContext

_AT_ONCE = 200
_Resource = DescribeAclsResponse.Resource


class AclApis:
    """Lists the rules of this node's image."""

    def __init__(self, image: Callable[[], MetadataImage], authorizer: Authorizer) -> None:
        self._image = image
        self._authorizer = authorizer

    def describe(self, request: DescribeAclsRequest, context: RequestContext, now: int) -> Handled:
        check_cluster(self._authorizer, context, AclOperation.DESCRIBE)
        if _has_unknown_codes((request,)):
            return CloseConnection("a filter has a code of 0")
        check_has_authorizer(self._authorizer)
        wanted = filter_in(request)
        found: dict[tuple[Any, ...], _Resource] = {}

        def look_at(records: list[AccessControlEntryRecord], now: int) -> None:
            for rule in map(binding, records):
                if wanted.matches(rule):
                    _add(found, rule)

        def respond(_: list[None], now: int) -> Long:
            return Long(DescribeAclsResponse(resources=list(found.values())))

        records = iter(self._image().acls.values())
        return ItemByItem(list(iter(lambda: list(islice(records, _AT_ONCE)), [])), look_at, respond)


HANDLERS: Handlers = {DescribeAclsRequest: AclApis.describe}


def _add(found: dict[tuple[Any, ...], _Resource], rule: AclBinding) -> None:
    pattern = rule.resource_type, rule.resource_name, rule.pattern_type
    resource = found.get(pattern)
    if resource is None:
        kind, name, pattern_type = pattern
        resource = found[pattern] = _Resource(
            resource_type=int(kind), resource_name=name, pattern_type=int(pattern_type), acls=[]
        )
    resource.acls.append(  # type: ignore[attr-defined]
        _Resource.Acl(
            principal=rule.principal,
            host=rule.host,
            operation=int(rule.operation),
            permission_type=int(rule.permission_type),
        )
    )


class AclChangeApis:
    """Passes new rules and removals to this node's controller."""

    def __init__(self, controller: QuorumController, authorizer: Authorizer) -> None:
        self._controller = controller
        self._authorizer = authorizer

    def change(self, request: CreateAclsRequest | DeleteAclsRequest, context: RequestContext, now: int) -> Handled:
        check_size(request)
        check_cluster(self._authorizer, context, AclOperation.ALTER)
        if _has_unknown_codes(_parts(request)):
            return CloseConnection("a rule or a filter has a code of 0")
        check_has_authorizer(self._authorizer)
        return ask(self._controller, request, now).map(Long)


CHANGE_HANDLERS: Handlers = {CreateAclsRequest: AclChangeApis.change, DeleteAclsRequest: AclChangeApis.change}


class AclForwardingApis:
    """Passes new rules and removals on to the active controller."""

    def __init__(self, forwarding: ForwardingApis) -> None:
        self._forwarding = forwarding

    def forward(self, request: CreateAclsRequest | DeleteAclsRequest, context: RequestContext, now: int) -> Handled:
        check_size(request)
        if _has_unknown_codes(_parts(request)):
            return CloseConnection("a rule or a filter has a code of 0")
        return self._forwarding.forward(request, context, now)


FORWARDING_HANDLERS: Handlers = {
    CreateAclsRequest: AclForwardingApis.forward,
    DeleteAclsRequest: AclForwardingApis.forward,
}


def check_has_authorizer(authorizer: Authorizer) -> None:
    """KafkaError(SECURITY_DISABLED) if rules would have no effect here."""
    if authorizer.allows_all:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")


def _parts(request: CreateAclsRequest | DeleteAclsRequest) -> Sequence[Any]:
    return request.creations if isinstance(request, CreateAclsRequest) else request.filters


def _has_unknown_codes(parts: Sequence[Any]) -> bool:
    """Whether one of these rules or filters has a code of 0."""
    return any(0 in (*_kinds(part), part.operation, part.permission_type) for part in parts)


def _kinds(part: Any) -> tuple[int, int]:
    if isinstance(part, CreateAclsRequest.Creation):
        return part.resource_type, part.resource_pattern_type
    return part.resource_type_filter, part.pattern_type_filter
