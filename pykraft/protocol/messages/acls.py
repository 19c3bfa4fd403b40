"""Messages about rules of access: DescribeAcls, CreateAcls, DeleteAcls.

A rule is a resource (its type, its name, and whether the name is meant literally or as a prefix), a principal, a host,
an operation, and whether that is allowed or denied (`common.acl` has the codes). Any broker lists the rules. Changes go
by it to the active controller. Where nothing is wrong, DescribeAcls and CreateAcls have an empty error message, and
DeleteAcls has none, as in Kafka.
"""

from pykraft.common.acl import PatternType
from pykraft.common.errors import KafkaError
from pykraft.protocol.listeners import BOTH
from pykraft.protocol.schema import Array, Request, Response, Struct, field, int8, int16, int32, string


class DescribeAclsRequest(Request, api=29, versions=(1, 3), flexible=2, listeners=BOTH):
    """Which rules does this filter find? Null, and the codes of ANY, let all through."""

    resource_type_filter: int8
    resource_name_filter: string | None
    pattern_type_filter: int8 = field(default=PatternType.LITERAL)
    principal_filter: string | None
    host_filter: string | None
    operation: int8
    permission_type: int8

    def refusal(self, error: KafkaError) -> "DescribeAclsResponse":
        return DescribeAclsResponse(error_code=error.code, error_message=error.detail or None, resources=[])


class DescribeAclsResponse(Response, to=DescribeAclsRequest):
    """The rules, by the resources that they are about."""

    class Resource(Struct):
        class Acl(Struct):
            principal: string
            host: string
            operation: int8
            permission_type: int8

        resource_type: int8
        resource_name: string
        pattern_type: int8 = field(default=PatternType.LITERAL)
        acls: Array[Acl]

    throttle_time_ms: int32 = field(default=0)
    error_code: int16 = field(default=0)
    error_message: string | None = field(default="")
    resources: Array[Resource]


class CreateAclsRequest(Request, api=30, versions=(1, 3), flexible=2, listeners=BOTH, forwardable=True):
    """Let these rules hold."""

    class Creation(Struct):
        resource_type: int8
        resource_name: string
        resource_pattern_type: int8 = field(default=PatternType.LITERAL)
        principal: string
        host: string
        operation: int8
        permission_type: int8

    creations: Array[Creation]

    def refusal(self, error: KafkaError) -> "CreateAclsResponse":
        """The error for each rule."""
        result = CreateAclsResponse.Result
        return CreateAclsResponse(
            results=[result(error_code=error.code, error_message=error.detail or None) for _ in self.creations]
        )


class CreateAclsResponse(Response, to=CreateAclsRequest):
    """What became of each rule, in the order of the request."""

    class Result(Struct):
        error_code: int16 = field(default=0)
        error_message: string | None = field(default="")

    throttle_time_ms: int32 = field(default=0)
    results: Array[Result]


class DeleteAclsRequest(Request, api=31, versions=(1, 3), flexible=2, listeners=BOTH, forwardable=True):
    """Remove the rules that these filters find."""

    class Filter(Struct):
        resource_type_filter: int8
        resource_name_filter: string | None
        pattern_type_filter: int8 = field(default=PatternType.LITERAL)
        principal_filter: string | None
        host_filter: string | None
        operation: int8
        permission_type: int8

    filters: Array[Filter]

    def refusal(self, error: KafkaError) -> "DeleteAclsResponse":
        """The error for each filter."""
        result = DeleteAclsResponse.FilterResult
        return DeleteAclsResponse(
            filter_results=[
                result(error_code=error.code, error_message=error.detail or None, matching_acls=[])
                for _ in self.filters
            ]
        )


class DeleteAclsResponse(Response, to=DeleteAclsRequest):
    """The rules that each filter has found and removed, in the order of the request."""

    class FilterResult(Struct):
        class MatchingAcl(Struct):
            error_code: int16 = field(default=0)
            error_message: string | None = field(default=None)
            resource_type: int8
            resource_name: string
            pattern_type: int8 = field(default=PatternType.LITERAL)
            principal: string
            host: string
            operation: int8
            permission_type: int8

        error_code: int16 = field(default=0)
        error_message: string | None = field(default=None)
        matching_acls: Array[MatchingAcl]

    throttle_time_ms: int32 = field(default=0)
    filter_results: Array[FilterResult]
