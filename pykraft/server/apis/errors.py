"""The answer that says nothing but what went wrong, for each API.

Most requests are judged part by part by their handler. But sometimes there is one answer for the whole: the client may
not do this at all, the controller could not be reached in time. Then every part gets the same error, in the place where
this API's clients look for it.

Follows the getErrorResponse methods of org.apache.kafka.common.requests.*.
"""

from collections.abc import Callable
from typing import Any

from pykraft.common.errors import KafkaError
from pykraft.protocol.messages.admin import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from pykraft.protocol.messages.brokers import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    EnvelopeRequest,
    EnvelopeResponse,
)
from pykraft.protocol.messages.configs import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from pykraft.protocol.messages.quorum import DescribeQuorumRequest, DescribeQuorumResponse
from pykraft.protocol.messages.transactions import InitProducerIdRequest, InitProducerIdResponse
from pykraft.protocol.schema import Request, Response


def error_response(request: Request, error: KafkaError) -> Response:
    """Refuse the whole request."""
    return _BUILDERS[type(request)](request, error)


def _create_topics(request: CreateTopicsRequest, error: KafkaError) -> CreateTopicsResponse:
    return CreateTopicsResponse(
        topics=[
            CreateTopicsResponse.Topic(name=topic.name, error_code=error.code, error_message=error.detail or None)
            for topic in request.topics
        ]
    )


def _delete_topics(request: DeleteTopicsRequest, error: KafkaError) -> DeleteTopicsResponse:
    named = [(name, DeleteTopicsRequest.Topic.topic_id) for name in request.topic_names]
    return DeleteTopicsResponse(
        responses=[
            DeleteTopicsResponse.Topic(
                name=name, topic_id=topic_id, error_code=error.code, error_message=error.detail or None
            )
            for name, topic_id in [(topic.name, topic.topic_id) for topic in request.topics] + named
        ]
    )


def _describe_configs(request: DescribeConfigsRequest, error: KafkaError) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(
        results=[
            DescribeConfigsResponse.Result(
                error_code=error.code,
                error_message=error.detail or None,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                configs=[],
            )
            for resource in request.resources
        ]
    )


def _incremental_alter_configs(
    request: IncrementalAlterConfigsRequest, error: KafkaError
) -> IncrementalAlterConfigsResponse:
    result = IncrementalAlterConfigsResponse.Result
    return IncrementalAlterConfigsResponse(
        responses=[result(**_refusal(resource, error)) for resource in request.resources]
    )


def _alter_configs(request: AlterConfigsRequest, error: KafkaError) -> AlterConfigsResponse:
    result = AlterConfigsResponse.Result
    return AlterConfigsResponse(responses=[result(**_refusal(resource, error)) for resource in request.resources])


def _refusal(resource: Any, error: KafkaError) -> dict[str, Any]:
    return {
        "error_code": error.code,
        "error_message": error.detail or None,
        "resource_type": resource.resource_type,
        "resource_name": resource.resource_name,
    }


def _describe_quorum(request: DescribeQuorumRequest, error: KafkaError) -> DescribeQuorumResponse:
    return DescribeQuorumResponse(error_code=error.code, error_message=error.detail or None)


_BUILDERS: dict[type[Request], Callable[[Any, KafkaError], Response]] = {
    CreateTopicsRequest: _create_topics,
    DeleteTopicsRequest: _delete_topics,
    DescribeQuorumRequest: _describe_quorum,
    DescribeConfigsRequest: _describe_configs,
    IncrementalAlterConfigsRequest: _incremental_alter_configs,
    AlterConfigsRequest: _alter_configs,
    ListConfigResourcesRequest: lambda _, error: ListConfigResourcesResponse(
        error_code=error.code, config_resources=[]
    ),
    InitProducerIdRequest: lambda _, error: InitProducerIdResponse(error_code=error.code),
    BrokerRegistrationRequest: lambda _, error: BrokerRegistrationResponse(error_code=error.code),
    BrokerHeartbeatRequest: lambda _, error: BrokerHeartbeatResponse(error_code=error.code),
    AlterPartitionRequest: lambda _, error: AlterPartitionResponse(error_code=error.code),
    AllocateProducerIdsRequest: lambda _, error: AllocateProducerIdsResponse(error_code=error.code),
    EnvelopeRequest: lambda _, error: EnvelopeResponse(error_code=error.code),
}
