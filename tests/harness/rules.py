"""Short ways to write rules of access, the records that set them, and the requests about them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

from pykraft.common.acl import (
    WILDCARD,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    PatternType,
)
from pykraft.common.types import Uuid
from pykraft.controller.access.acls import fields_of
from pykraft.protocol.messages.acls import CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest
from pykraft.protocol.messages.records import AccessControlEntryRecord

ALLOW, DENY = AclPermissionType.ALLOW, AclPermissionType.DENY
EVERY = AclBindingFilter()
"""Finds all rules."""


def rule(text: str) -> AclBinding:
    """A rule in words: ``allow alice READ TOPIC flights``. A name that ends with ``...`` is a prefix; after ``from``
    comes the host; ``*`` is everyone."""
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


def records(rules: Iterable[AclBinding]) -> dict[Uuid, AccessControlEntryRecord]:
    """The rules as an image has them."""
    found = [AccessControlEntryRecord(id=id_of(each), **fields_of(each)) for each in rules]
    return {record.id: record for record in found}


def id_of(each: AclBinding) -> Uuid:
    return Uuid(hashlib.sha256(repr(each).encode()).digest()[:16])


def create_acls(*rules: AclBinding) -> CreateAclsRequest:
    return CreateAclsRequest(
        creations=[
            CreateAclsRequest.Creation(resource_pattern_type=each.pattern_type, **_without_pattern_type(each))
            for each in rules
        ]
    )


def _without_pattern_type(each: AclBinding) -> dict[str, Any]:
    return {name: value for name, value in fields_of(each).items() if name != "pattern_type"}


def _filter_fields(wanted: AclBindingFilter) -> dict[str, Any]:
    return {
        "resource_type_filter": wanted.resource_type,
        "resource_name_filter": wanted.resource_name,
        "pattern_type_filter": wanted.pattern_type,
        "principal_filter": wanted.principal,
        "host_filter": wanted.host,
        "operation": wanted.operation,
        "permission_type": wanted.permission_type,
    }


def describe_acls(wanted: AclBindingFilter = EVERY) -> DescribeAclsRequest:
    return DescribeAclsRequest(**_filter_fields(wanted))


def delete_acls(*filters: AclBindingFilter | AclBinding) -> DeleteAclsRequest:
    wanted = [AclBindingFilter(*each) for each in filters]
    return DeleteAclsRequest(filters=[DeleteAclsRequest.Filter(**_filter_fields(each)) for each in wanted])


def described(response: Any) -> set[AclBinding]:
    """The rules in an answer of DescribeAcls."""
    return {
        AclBinding(
            AclResourceType(resource.resource_type),
            resource.resource_name,
            PatternType(resource.pattern_type),
            each.principal,
            each.host,
            AclOperation(each.operation),
            AclPermissionType(each.permission_type),
        )
        for resource in response.resources
        for each in resource.acls
    }
