"""Rules of access (ACLs) and filters as the fields of messages and records, and back.

A rule is an `AclBinding` (`common.acl`). Messages have its parts under names of their own: a creation calls the kind of
its pattern ``resource_pattern_type``, a filter calls it ``pattern_type_filter``; an answer has a resource and its
entries apart. A code that is not known becomes UNKNOWN.

Follows org.apache.kafka.common.requests.{CreateAclsRequest,DeleteAclsRequest,DeleteAclsResponse,DescribeAclsRequest}.
"""

from typing import Any

from pykraft.common.acl import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    PatternType,
)
from pykraft.protocol.messages.acls import CreateAclsRequest


def fields_of_rule(rule: AclBinding) -> dict[str, Any]:
    """A rule as the fields of a record, or of an answer."""
    return {name: value if isinstance(value, str) else int(value) for name, value in rule._asdict().items()}


def rule_in(resource: Any, entry: Any) -> AclBinding:
    """The rule that a resource and an entry make; where both are in one message, it is given twice."""
    return AclBinding(
        AclResourceType(resource.resource_type),
        resource.resource_name,
        PatternType(resource.pattern_type),
        entry.principal,
        entry.host,
        AclOperation(entry.operation),
        AclPermissionType(entry.permission_type),
    )


def creation_of(rule: AclBinding) -> CreateAclsRequest.Creation:
    """A rule as it is asked for."""
    fields = fields_of_rule(rule)
    return CreateAclsRequest.Creation(resource_pattern_type=fields.pop("pattern_type"), **fields)


def rule_of_creation(creation: CreateAclsRequest.Creation) -> AclBinding:
    """The rule that is asked for."""
    return AclBinding(
        AclResourceType(creation.resource_type),
        creation.resource_name,
        PatternType(creation.resource_pattern_type),
        creation.principal,
        creation.host,
        AclOperation(creation.operation),
        AclPermissionType(creation.permission_type),
    )


def fields_of_filter(wanted: AclBindingFilter) -> dict[str, Any]:
    """A filter as the fields of a request."""
    return {
        "resource_type_filter": wanted.resource_type,
        "resource_name_filter": wanted.resource_name,
        "pattern_type_filter": wanted.pattern_type,
        "principal_filter": wanted.principal,
        "host_filter": wanted.host,
        "operation": wanted.operation,
        "permission_type": wanted.permission_type,
    }


def filter_in(request: Any) -> AclBindingFilter:
    """The filter in a request, or in a part of one."""
    return AclBindingFilter(
        AclResourceType(request.resource_type_filter),
        request.resource_name_filter,
        PatternType(request.pattern_type_filter),
        request.principal_filter,
        request.host_filter,
        AclOperation(request.operation),
        AclPermissionType(request.permission_type),
    )
