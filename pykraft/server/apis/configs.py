"""DescribeConfigs and ListConfigResources: what a node knows of settings.

Versions: DescribeConfigs 1 to 4, ListConfigResources 0 to 1. Behaviour to know:

* A node describes its topics and itself from its own image and properties file, so what a broker that lags says may be
  a moment old. A broker does not know another broker's settings: a request for them has come to the wrong one.
* Resources are topics, brokers, groups and subscriptions to clients' metrics, which have Kafka's defaults. Loggers have
  no settings here.
* A group need not exist to have settings. Only groups with settings of their own are listed.
* A setting is documented in one sentence of pykraft's, if that is asked for.
* DescribeConfigs needs DESCRIBE_CONFIGS on each topic or group, and on the cluster for all other resources;
  ListConfigResources needs it on the cluster.

Follows kafka.server.ConfigHelper and kafka.server.KafkaApis.
"""

from collections.abc import Callable, Collection, Mapping, Sequence

from pykraft.common.acl import AclOperation
from pykraft.common.core import Steps
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.controller.topics import check_topic_name
from pykraft.metadata.image import MetadataImage
from pykraft.metadata.settings import (
    NodeLayers,
    Setting,
    broker_number,
    describe_all_brokers,
    describe_broker,
    describe_client_metrics,
    describe_group,
    describe_topic,
    node_layers,
)
from pykraft.protocol.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
    ResourceType,
)
from pykraft.server.apis.dispatch import Handlers
from pykraft.server.authorizer import Authorizer, check_cluster, check_configs
from pykraft.server.config import NODE_CONFIG, NodeConfig
from pykraft.server.turns import PARTS_PER_TURN
from pykraft.transport.server_channel import RequestContext

_FIRST_LIST_OF_ALL_TYPES = 1

_Known = dict[tuple[frozenset[str], tuple[tuple[str, str], ...]], list[DescribeConfigsResponse.Result.Config]]
"""The descriptions in one answer, by what is wanted and a topic's own settings: most topics have the same."""


class ConfigApis:
    """Answers about settings."""

    def __init__(self, config: NodeConfig, image: Callable[[], MetadataImage], authorizer: Authorizer) -> None:
        self._config = config
        self._image = image
        self._authorizer = authorizer

    # --- describing ---------------------------------------------------------------------------------------------------

    def describe_configs(
        self, request: DescribeConfigsRequest, context: RequestContext, now: int
    ) -> Steps[DescribeConfigsResponse]:
        types = {resource.resource_type for resource in request.resources}
        if not types <= set(ResourceType):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"there are no resources of type {max(types)}")
        layers = node_layers(self._image(), self._config.node_id, self._config.properties)
        known: _Known = {}
        results = []
        for number, each in enumerate(request.resources, 1):
            results.append(self._result(request, each, context, layers, known))
            if number % PARTS_PER_TURN == 0:
                yield
        return DescribeConfigsResponse(results=results)

    def _result(
        self,
        request: DescribeConfigsRequest,
        resource: DescribeConfigsRequest.Resource,
        context: RequestContext,
        layers: NodeLayers,
        known: _Known,
    ) -> DescribeConfigsResponse.Result:
        result = DescribeConfigsResponse.Result(
            resource_type=resource.resource_type, resource_name=resource.resource_name, configs=[]
        )
        wanted = frozenset(resource.configuration_keys or ())
        try:
            kind = ResourceType(resource.resource_type)
            check_configs(self._authorizer, context, AclOperation.DESCRIBE_CONFIGS, kind, resource.resource_name)
            if kind is ResourceType.TOPIC:
                own = self._settings_of(resource.resource_name)
                key = wanted, tuple(sorted(own.items()))
                if key not in known:
                    known[key] = _described(describe_topic(own, layers), wanted, request)
                result.configs = known[key]
            elif kind is ResourceType.GROUP:
                result.configs = _described(self._settings_of_group(resource.resource_name), wanted, request)
            elif kind is ResourceType.CLIENT_METRICS:
                result.configs = _described(self._settings_of_client_metrics(resource.resource_name), wanted, request)
            else:
                settings = self._settings_of_brokers(kind, resource.resource_name, layers)
                result.configs = _described(settings, wanted, request)
        except KafkaError as error:
            result.error_code, result.error_message = error.code, error.detail or None
        return result

    def _settings_of(self, topic: str) -> Mapping[str, str]:
        """A topic's own settings."""
        check_topic_name(topic)
        if topic not in self._image().topic_ids:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {topic}")
        return self._image().config_of(ResourceType.TOPIC, topic)

    def _settings_of_group(self, group_id: str) -> list[Setting]:
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the name of the group is empty")
        own = self._image().config_of(ResourceType.GROUP, group_id)
        return describe_group(own, self._config.properties)

    def _settings_of_client_metrics(self, subscription: str) -> list[Setting]:
        if not subscription:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the name of the subscription is empty")
        return describe_client_metrics(self._image().config_of(ResourceType.CLIENT_METRICS, subscription))

    def _settings_of_brokers(self, kind: ResourceType, name: str, layers: NodeLayers) -> list[Setting]:
        if kind is not ResourceType.BROKER:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{kind.name} resources have no settings here")
        if not name:
            return describe_all_brokers(layers)
        check_is_here(self._config, name)
        return describe_broker(NODE_CONFIG, self._config.properties, layers)

    # --- listing ------------------------------------------------------------------------------------------------------

    def list_config_resources(
        self, request: ListConfigResourcesRequest, context: RequestContext, now: int
    ) -> ListConfigResourcesResponse:
        check_cluster(self._authorizer, context, AclOperation.DESCRIBE_CONFIGS)
        resource = ListConfigResourcesResponse.Resource
        asked = set(request.resource_types) or set(ResourceType)
        if context.api_version < _FIRST_LIST_OF_ALL_TYPES:
            asked = {ResourceType.CLIENT_METRICS}
        if not asked <= set(ResourceType):
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
        image = self._image()
        found = []
        if ResourceType.GROUP in asked:
            groups = sorted(name for kind, name in image.configs if kind == ResourceType.GROUP)
            found += [resource(resource_name=name, resource_type=ResourceType.GROUP) for name in groups]
        if ResourceType.BROKER in asked:
            brokers = [broker_id for broker_id, broker in sorted(image.brokers.items()) if not broker.fenced]
            found += [resource(resource_name=str(number), resource_type=ResourceType.BROKER) for number in brokers]
        if ResourceType.TOPIC in asked:
            topics = sorted(image.topic_ids)
            found += [resource(resource_name=name, resource_type=ResourceType.TOPIC) for name in topics]
        return ListConfigResourcesResponse(config_resources=found)


HANDLERS: Handlers = {
    DescribeConfigsRequest: ConfigApis.describe_configs,
    ListConfigResourcesRequest: ConfigApis.list_config_resources,
}


def check_is_here(config: NodeConfig, name: str) -> None:
    """KafkaError(INVALID_REQUEST) unless this node is the broker of that name."""
    if broker_number(name) != config.node_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"this is broker {config.node_id}, not {name}")


def _described(
    settings: Sequence[Setting], wanted: Collection[str], request: DescribeConfigsRequest
) -> list[DescribeConfigsResponse.Result.Config]:
    config_type = DescribeConfigsResponse.Result.Config
    return [
        config_type(
            name=setting.name,
            value=setting.value,
            read_only=setting.is_read_only,
            config_source=setting.source,
            is_sensitive=setting.is_sensitive,
            synonyms=[
                config_type.Synonym(name=place.name, value=place.value, source=place.source) for place in setting.places
            ]
            if request.include_synonyms
            else [],
            config_type=setting.type,
            documentation=setting.meaning if request.include_documentation else None,
        )
        for setting in settings
        if not wanted or setting.name in wanted
    ]
