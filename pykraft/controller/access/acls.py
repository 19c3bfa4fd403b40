"""Rules of access (ACLs) come and go: the plans for it, with every refusal that a client may meet.

A rule has no name. It is what it says, and a random id in the metadata log. To create a rule that is there already
changes nothing and is no error. What a request creates or deletes becomes true together; a rule or filter that is
refused leaves the others as they are.

A filter is compared with every rule, unless it says everything of the one rule that it means. That takes long for
thousands of filters or rules, so both plans are `Steps`.

Follows org.apache.kafka.controller.AclControlManager and kafka.server.AclApis.
"""

from collections.abc import Iterator
from random import Random

from pykraft.common.acl import (
    CLUSTER_NAME,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    PatternType,
)
from pykraft.common.core import Steps
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import Uuid
from pykraft.controller.result import MAX_RECORDS_PER_REQUEST, Result, VersionedRecord
from pykraft.metadata.acls import Acls, binding, changes
from pykraft.metadata.address_range import parse_address_range
from pykraft.metadata.image import MetadataImage
from pykraft.metadata.versions import IV_4_4_1_RANGES_OF_ADDRESSES, METADATA_VERSION, version_of_level
from pykraft.protocol.acl_fields import fields_of_rule, filter_in, rule_of_creation
from pykraft.protocol.messages.acls import (
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from pykraft.protocol.messages.records import AccessControlEntryRecord, RemoveAccessControlEntryRecord

_MatchingAcl = DeleteAclsResponse.FilterResult.MatchingAcl


class AclControl:
    """Plans new rules and removals."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._followed: Acls | None = {}
        """Those of the image that was looked at last; None if that was broken off."""
        self._ids: dict[AclBinding, Uuid] = {}
        """The same rules, and their ids."""

    def create_acls(self, image: MetadataImage, request: CreateAclsRequest) -> Steps[Result[CreateAclsResponse]]:
        """One record for each rule that is new."""
        yield from self._follow(image)
        records: list[VersionedRecord] = []
        results: list[CreateAclsResponse.Result] = []
        fresh: set[AclBinding] = set()
        for creation in request.creations:
            result = CreateAclsResponse.Result()
            results.append(result)
            rule = rule_of_creation(creation)
            try:
                _check_rule(rule)
                _check_host(rule.host, image)
            except KafkaError as error:
                result.error_code, result.error_message = error.code, error.detail
            else:
                if rule not in self._ids and rule not in fresh:
                    fresh.add(rule)
                    records.append((_record(self._new_id(image), rule), 0))
            yield
        return Result(records, CreateAclsResponse(results=results))

    def delete_acls(self, image: MetadataImage, request: DeleteAclsRequest) -> Steps[Result[DeleteAclsResponse]]:
        """One record for each rule that some filter finds. KafkaError(POLICY_VIOLATION) if they find more than one
        request may delete."""
        yield from self._follow(image)
        found: dict[Uuid, AclBinding] = {}
        results: list[DeleteAclsResponse.FilterResult] = []
        named = 0
        for wanted in request.filters:
            result = DeleteAclsResponse.FilterResult(matching_acls=[])
            results.append(result)
            try:
                matching = yield from self._matching(filter_in(wanted))
            except KafkaError as error:
                result.error_code, result.error_message = error.code, error.detail
                continue
            named += len(matching)
            if named > MAX_RECORDS_PER_REQUEST:
                raise KafkaError(
                    ErrorCode.POLICY_VIOLATION,
                    f"the filters find more rules than the {MAX_RECORDS_PER_REQUEST} that one request may delete",
                )
            found.update((self._ids[rule], rule) for rule in matching)
            result.matching_acls = [_MatchingAcl(**fields_of_rule(rule)) for rule in matching]
            yield
        records: list[VersionedRecord] = [(RemoveAccessControlEntryRecord(id=key), 0) for key in found]
        return Result(records, DeleteAclsResponse(filter_results=results))

    def _matching(self, wanted: AclBindingFilter) -> Steps[list[AclBinding]]:
        """The rules that a filter finds."""
        _check_filter(wanted)
        exact = wanted.exact
        if exact is not None:
            return [exact] if exact in self._ids else []
        found = []
        for rule in self._ids:
            if wanted.matches(rule):
                found.append(rule)
            yield
        return found

    def _follow(self, image: MetadataImage) -> Steps[None]:
        """Take up the rules of this image. If a plan was dropped in the middle of that, it begins from nothing."""
        if image.acls is self._followed:
            return
        before, self._followed = self._followed, None
        if before is None:
            before, self._ids = {}, {}
        gone, come = changes(before, image.acls)
        for record in gone:
            self._ids.pop(binding(record), None)
            yield
        for record in come:
            self._ids[binding(record)] = record.id
            yield
        self._followed = image.acls

    def _new_id(self, image: MetadataImage) -> Uuid:
        while True:
            found = Uuid.random(self._random)
            if found not in image.acls:
                return found


def _record(key: Uuid, rule: AclBinding) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(id=key, **fields_of_rule(rule))


def _check_rule(rule: AclBinding) -> None:
    """KafkaError(INVALID_REQUEST) unless there may be such a rule."""
    for message in _faults(rule):
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)


def _check_host(host: str, image: MetadataImage) -> None:
    """KafkaError unless a rule may be about this host: an address, a range of addresses, or all."""
    if not host:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Host pattern cannot be null or empty")
    if "/" not in host:
        return
    if image.features.get(METADATA_VERSION, 0) < IV_4_4_1_RANGES_OF_ADDRESSES:
        level = version_of_level(IV_4_4_1_RANGES_OF_ADDRESSES)
        assert level is not None
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"CIDR-based ACL host patterns require metadata version {level.name} or higher.",
        )
    try:
        parse_address_range(host)
    except ValueError as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Invalid CIDR notation '{host}': {error}") from None


def _faults(rule: AclBinding) -> Iterator[str]:
    """What is wrong with a rule, in Kafka's order and words."""
    if rule.resource_type is AclResourceType.CLUSTER and rule.resource_name != CLUSTER_NAME:
        yield f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    if not rule.resource_name:
        yield "Invalid empty resource name"
    if rule.resource_type in (AclResourceType.UNKNOWN, AclResourceType.ANY):
        yield f"Invalid resourceType {rule.resource_type.name}"
    if rule.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        yield f"Invalid patternType {rule.pattern_type.name}"
    if rule.operation in (AclOperation.UNKNOWN, AclOperation.ANY):
        yield f"Invalid operation {rule.operation.name}"
    if rule.permission_type not in (AclPermissionType.DENY, AclPermissionType.ALLOW):
        yield f"Invalid permissionType {rule.permission_type.name}"
    if ":" not in rule.principal:
        missing = "no colon is present separating the principal type from the principal name"
        yield f"Could not parse principal from `{rule.principal}` ({missing})"


def _check_filter(wanted: AclBindingFilter) -> None:
    """KafkaError(INVALID_REQUEST) if a filter has a code that is not known."""
    if AclResourceType.UNKNOWN in (wanted.resource_type, wanted.pattern_type):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Unknown patternFilter.")
    if AclOperation.UNKNOWN in (wanted.operation, wanted.permission_type):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Unknown entryFilter.")
