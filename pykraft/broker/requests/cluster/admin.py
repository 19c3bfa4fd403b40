"""What clients ask of the active controller, mostly by way of a broker: topics, leaders, replicas, settings, brokers.

Versions: CreateTopics 2 to 7, CreatePartitions 0 to 3, DeleteTopics 1 to 6, ElectLeaders 0 to 2,
AlterPartitionReassignments 0 to 1, ListPartitionReassignments 0, IncrementalAlterConfigs 0 to 1, AlterConfigs 0 to 2,
UpdateFeatures 0 to 2, UnregisterBroker 0, UnregisterController 0. Only the active controller does what is asked; the
others answer NOT_CONTROLLER.

The principal is the client's, also if a broker has forwarded the request. What it may not do is answered here, and the
controller is asked for the rest. Behaviour to know:

* CreateTopics needs CREATE on the cluster, or on each topic. The answer has the new topic's settings and size for a
  client that has DESCRIBE_CONFIGS on it; others find TOPIC_AUTHORIZATION_FAILED in their place.
* CreatePartitions needs ALTER on each topic.
* DeleteTopics needs DELETE on the cluster, or on each topic. To a client without DESCRIBE on a topic, the answer hides
  the name that belongs to an id, and whether a topic of that name exists.
* ElectLeaders needs ALTER on the cluster.
* AlterPartitionReassignments needs ALTER on the cluster, ListPartitionReassignments DESCRIBE.
* Changes of settings need ALTER_CONFIGS on the topic or group, and on the cluster for all other resources.
* UpdateFeatures needs ALTER on the cluster.
* UnregisterBroker and UnregisterController need ALTER on the cluster.
* A client that has used up its quota of changes to topics is refused (THROTTLING_QUOTA_EXCEEDED), topic by topic, and
  reads for how long; in older versions, which do not know this error, it is only throttled (KIP-599).
* A topic or resource that a request names twice is refused, with or without the right to it.

Follows kafka.server.ControllerApis.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

from pykraft.broker.requests.authorizer import Authorizer, allows_on_cluster, check_cluster, check_configs
from pykraft.broker.requests.cluster.controller import ask
from pykraft.broker.requests.dispatch import Handled, Handlers
from pykraft.broker.requests.long_answers import Long
from pykraft.broker.requests.quota_managers import ClientQuotas, MutationQuota
from pykraft.common.acl import AclOperation, AclResourceType
from pykraft.common.core import Promise
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.settings.config import Config
from pykraft.common.types import METADATA_TOPIC, ZERO_UUID, Uuid
from pykraft.controller.config import DELETE_TOPIC_ENABLE
from pykraft.controller.controller import QuorumController
from pykraft.controller.result import check_size
from pykraft.metadata.image import MetadataImage
from pykraft.protocol.messages.admin import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    UnregisterBrokerRequest,
    UnregisterControllerRequest,
)
from pykraft.protocol.messages.configs import AlterConfigsRequest, IncrementalAlterConfigsRequest, ResourceType
from pykraft.protocol.messages.elections import ElectLeadersRequest
from pykraft.protocol.messages.features import UpdateFeaturesRequest
from pykraft.protocol.messages.reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from pykraft.transport.server_channel import RequestContext

_STRICT_CREATE_TOPICS, _STRICT_CREATE_PARTITIONS, _STRICT_DELETE_TOPICS = 6, 3, 5
"""From these versions on a client whose quota is used up is refused."""
_KEPT = frozenset(ResourceType) - {ResourceType.BROKER_LOGGER}
"""The kinds of resource whose settings the controller keeps."""


class AdminApis:
    """Authorizes clients' requests, and passes them to this node's controller."""

    def __init__(
        self, controller: QuorumController, config: Config, authorizer: Authorizer, quotas: ClientQuotas
    ) -> None:
        self._controller = controller
        self._quotas = quotas
        self._config = config
        self._authorizer = authorizer

    def _allowed(self, context: RequestContext, operation: AclOperation, names: Collection[str]) -> Collection[str]:
        """Those of these topics that the client may do this to."""
        return self._authorizer.allowed(context, operation, AclResourceType.TOPIC, names)

    def _quota(self, context: RequestContext, strict_from: int) -> MutationQuota | None:
        """What the client may change in topics; None: anything."""
        return self._quotas.mutations(context, strict_from) if self._quotas.limits_mutations else None

    # --- making topics ------------------------------------------------------------------------------------------------

    def create_topics(self, request: CreateTopicsRequest, context: RequestContext, now: int) -> Promise[Any]:
        check_size(request)
        if not self._controller.is_active:
            return ask(self._controller, request, now)
        times_named = Counter(topic.name for topic in request.topics)
        names = {name for name, times in times_named.items() if times == 1 and name != METADATA_TOPIC}
        may_create: Collection[str] = names
        if not allows_on_cluster(self._authorizer, context, AclOperation.CREATE):
            may_create = self._allowed(context, AclOperation.CREATE, names)
        may_see = self._allowed(context, AclOperation.DESCRIBE_CONFIGS, names)
        refused = names.difference(may_create)
        error = KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"{context.principal} is not allowed CREATE on it")
        unheard = request.replace(topics=[topic for topic in request.topics if topic.name in refused])
        rest = request.replace(topics=[topic for topic in request.topics if topic.name not in refused])

        def completed(response: CreateTopicsResponse) -> Long:
            made = [topic if topic.error_code or topic.name in may_see else _hidden(topic) for topic in response.topics]
            return Long(response.replace(topics=[*made, *unheard.refusal(error).topics]))

        quota = self._quota(context, _STRICT_CREATE_TOPICS)
        return ask(self._controller, rest, now, quota).map(completed)

    # --- more partitions ----------------------------------------------------------------------------------------------

    def create_partitions(self, request: CreatePartitionsRequest, context: RequestContext, now: int) -> Promise[Any]:
        check_size(request)
        if not self._controller.is_active:
            return ask(self._controller, request, now)
        times_named = Counter(topic.name for topic in request.topics)
        names = {name for name, times in times_named.items() if times == 1}
        refused = names.difference(self._allowed(context, AclOperation.ALTER, names))
        error = KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"{context.principal} is not allowed ALTER on it")
        unheard = request.replace(topics=[topic for topic in request.topics if topic.name in refused])
        rest = request.replace(topics=[topic for topic in request.topics if topic.name not in refused])
        quota = self._quota(context, _STRICT_CREATE_PARTITIONS)
        return ask(self._controller, rest, now, quota).map(
            lambda response: Long(response.replace(results=[*unheard.refusal(error).results, *response.results]))
        )

    # --- deleting topics ----------------------------------------------------------------------------------------------

    def delete_topics(self, request: DeleteTopicsRequest, context: RequestContext, now: int) -> Promise[Any]:
        check_size(request)
        may_delete_all = allows_on_cluster(self._authorizer, context, AclOperation.DELETE)
        quota = self._quota(context, _STRICT_DELETE_TOPICS)
        if may_delete_all or not self._config[DELETE_TOPIC_ENABLE] or not self._controller.is_active:
            return ask(self._controller, request, now, quota).map(Long)
        wanted = [*request.topics, *(DeleteTopicsRequest.Topic(name=name) for name in request.topic_names)]
        refused = self._not_to_be_deleted(wanted, context)
        rest = request.replace(
            topics=[topic for topic in wanted if (topic.name, topic.topic_id) not in refused], topic_names=()
        )
        return ask(self._controller, rest, now, quota).map(
            lambda response: Long(response.replace(responses=[*response.responses, *refused.values()]))
        )

    def _not_to_be_deleted(
        self, wanted: Sequence[DeleteTopicsRequest.Topic], context: RequestContext
    ) -> dict[tuple[str | None, Uuid], DeleteTopicsResponse.Topic]:
        """What this client is answered about the topics that it may not delete, by what named them. What is named twice
        or not at all, or is not there, the controller refuses."""
        image = self._controller.image
        times_named = Counter((topic.name, topic.topic_id) for topic in wanted)
        names = {(name, topic_id): _meant(image, name, topic_id) for name, topic_id in times_named}
        known = {name for name in names.values() if name is not None}
        may_see = self._allowed(context, AclOperation.DESCRIBE, known)
        may_delete = self._allowed(context, AclOperation.DELETE, known)
        refused = {}
        for (given_name, topic_id), name in names.items():
            if name is None or times_named[given_name, topic_id] > 1:
                continue
            is_free = name in may_delete
            if given_name is not None:
                is_free = name in may_see and (is_free or name not in image.topic_ids)
            if not is_free:
                refused[given_name, topic_id] = DeleteTopicsResponse.Topic(
                    name=name if name in may_see else given_name,
                    topic_id=topic_id,
                    error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                    error_message=f"{context.principal} is not allowed DELETE on it",
                )
        return refused

    # --- reassignments ------------------------------------------------------------------------------------------------

    def alter_reassignments(
        self, request: AlterPartitionReassignmentsRequest, context: RequestContext, now: int
    ) -> Handled:
        check_cluster(self._authorizer, context, AclOperation.ALTER)
        if not request.topics:
            return AlterPartitionReassignmentsResponse(responses=[])  # any controller can say so
        return ask(self._controller, request, now).map(Long)

    def list_reassignments(
        self, request: ListPartitionReassignmentsRequest, context: RequestContext, now: int
    ) -> Handled:
        check_cluster(self._authorizer, context, AclOperation.DESCRIBE)
        if request.topics is not None and not request.topics:
            return ListPartitionReassignmentsResponse(topics=[])
        return ask(self._controller, request, now).map(Long)

    # --- elections ----------------------------------------------------------------------------------------------------

    def elect_leaders(self, request: ElectLeadersRequest, context: RequestContext, now: int) -> Promise[Any]:
        check_cluster(self._authorizer, context, AclOperation.ALTER)
        return ask(self._controller, request, now).map(Long)

    # --- changing settings --------------------------------------------------------------------------------------------

    def alter_configs(
        self, request: IncrementalAlterConfigsRequest | AlterConfigsRequest, context: RequestContext, now: int
    ) -> Promise[Any]:
        if not self._controller.is_active:
            return ask(self._controller, request, now)
        check_size(request)
        resources: Sequence[Any] = request.resources
        times_named = Counter((resource.resource_type, resource.resource_name) for resource in resources)
        rest: list[Any] = []
        refused: list[Any] = []
        for resource in resources:
            try:
                key = kind, name = resource.resource_type, resource.resource_name
                if times_named[key] == 1 and kind in _KEPT:
                    operation = AclOperation.ALTER_CONFIGS
                    check_configs(self._authorizer, context, operation, ResourceType(kind), name)
                rest.append(resource)
            except KafkaError as error:
                refused += request.replace(resources=[resource]).refusal(error).responses
        return ask(self._controller, request.replace(resources=rest), now).map(
            lambda response: Long(response.replace(responses=[*refused, *response.responses]))
        )

    # --- levels of features -------------------------------------------------------------------------------------------

    def update_features(self, request: UpdateFeaturesRequest, context: RequestContext, now: int) -> Promise[Any]:
        check_cluster(self._authorizer, context, AclOperation.ALTER)
        return ask(self._controller, request, now)

    # --- nodes --------------------------------------------------------------------------------------------------------

    def unregister(
        self, request: UnregisterBrokerRequest | UnregisterControllerRequest, context: RequestContext, now: int
    ) -> Promise[Any]:
        check_cluster(self._authorizer, context, AclOperation.ALTER)
        return ask(self._controller, request, now)


HANDLERS: Handlers = {
    CreateTopicsRequest: AdminApis.create_topics,
    CreatePartitionsRequest: AdminApis.create_partitions,
    DeleteTopicsRequest: AdminApis.delete_topics,
    ElectLeadersRequest: AdminApis.elect_leaders,
    AlterPartitionReassignmentsRequest: AdminApis.alter_reassignments,
    ListPartitionReassignmentsRequest: AdminApis.list_reassignments,
    IncrementalAlterConfigsRequest: AdminApis.alter_configs,
    AlterConfigsRequest: AdminApis.alter_configs,
    UpdateFeaturesRequest: AdminApis.update_features,
    UnregisterBrokerRequest: AdminApis.unregister,
    UnregisterControllerRequest: AdminApis.unregister,
}


def _hidden(topic: CreateTopicsResponse.Topic) -> CreateTopicsResponse.Topic:
    """A new topic in the answer to a client that may not see its settings."""
    return topic.replace(
        topic_config_error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        num_partitions=-1,
        replication_factor=-1,
        configs=[],
    )


def _meant(image: MetadataImage, name: str | None, topic_id: Uuid) -> str | None:
    """The name of the topic that a request means. None if it names it in both ways or in none, or by an id that is
    not there."""
    if topic_id == ZERO_UUID:
        return name
    topic = image.topics.get(topic_id) if name is None else None
    return None if topic is None else topic.name
