"""Short ways to write rules of access, the records that set them, and the requests about them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

from pykraft.common.acl import (
    AclBinding,
    AclBindingFilter,
    AclPermissionType,
)
from pykraft.common.types import Uuid
from pykraft.course.lessons.access.words import rule as rule
from pykraft.protocol.acl_fields import creation_of, fields_of_filter, fields_of_rule, rule_in
from pykraft.protocol.messages.acls import CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest
from pykraft.protocol.messages.records import AccessControlEntryRecord

ALLOW, DENY = AclPermissionType.ALLOW, AclPermissionType.DENY
EVERY = AclBindingFilter()
"""Finds all rules."""


def records(rules: Iterable[AclBinding]) -> dict[Uuid, AccessControlEntryRecord]:
    """The rules as an image has them."""
    found = [AccessControlEntryRecord(id=id_of(each), **fields_of_rule(each)) for each in rules]
    return {record.id: record for record in found}


def id_of(each: AclBinding) -> Uuid:
    return Uuid(hashlib.sha256(repr(each).encode()).digest()[:16])


def create_acls(*rules: AclBinding) -> CreateAclsRequest:
    return CreateAclsRequest(creations=[creation_of(each) for each in rules])


def describe_acls(wanted: AclBindingFilter = EVERY) -> DescribeAclsRequest:
    return DescribeAclsRequest(**fields_of_filter(wanted))


def delete_acls(*filters: AclBindingFilter | AclBinding) -> DeleteAclsRequest:
    wanted = [AclBindingFilter(*each) for each in filters]
    return DeleteAclsRequest(filters=[DeleteAclsRequest.Filter(**fields_of_filter(each)) for each in wanted])


def described(response: Any) -> set[AclBinding]:
    """The rules in an answer of DescribeAcls."""
    return {rule_in(resource, each) for resource in response.resources for each in resource.acls}
