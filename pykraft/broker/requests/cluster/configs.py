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

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from pykraft.broker.requests.authorizer import Authorizer, check_cluster, check_configs
from pykraft.broker.requests.dispatch import Handlers
from pykraft.broker.settings.config import NODE_CONFIG, NodeConfig
from pykraft.broker.turns.slices import ItemByItem
from pykraft.common.acl import AclOperation
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.controller.partitions.topics import check_topic_name
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
from pykraft.transport.server_channel import RequestContext

_FIRST_LIST_OF_ALL_TYPES = 1


class _Configs(list[DescribeConfigsResponse.Result.Config]):
    """The settings of a resource in an answer, and their size."""

    def __init__(self, configs: Iterable[DescribeConfigsResponse.Result.Config]) -> None:
        super().__init__(configs)
        self.size_bytes = sum(map(_size, self))


_Known = dict[tuple[ResourceType, str | None, frozenset[str], tuple[tuple[str, str], ...]], _Configs]
"""The descriptions in one answer, by what is wanted and a resource's own settings: most topics have the same, and a
resource may be named again and again."""


class ConfigApis:
    """Answers about settings."""

    def __init__(self, config: NodeConfig, image: Callable[[], MetadataImage], authorizer: Authorizer) -> None:
        self._config = config
        self._image = image
        self._authorizer = authorizer

    # --- describing ---------------------------------------------------------------------------------------------------

    def describe_configs(self, request: DescribeConfigsRequest, context: RequestContext, now: int) -> ItemByItem:
        types = {resource.resource_type for resource in request.resources}
        if not types <= set(ResourceType):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"there are no resources of type {max(types)}")
        layers = node_layers(self._image(), self._config.node_id, self._config.properties)
        return ItemByItem(
            request.resources,
            partial(self._result, request, context, layers, {}),
            lambda results, _: DescribeConfigsResponse(results=results),
            weigh=lambda result: _weight(result.configs),
        )

    def _result(
        self,
        request: DescribeConfigsRequest,
        context: RequestContext,
        layers: NodeLayers,
        known: _Known,
        resource: DescribeConfigsRequest.Resource,
        now: int,
    ) -> DescribeConfigsResponse.Result:
        result = DescribeConfigsResponse.Result(
            resource_type=resource.resource_type, resource_name=resource.resource_name, configs=[]
        )
        wanted = frozenset(resource.configuration_keys or ())
        try:
            kind = ResourceType(resource.resource_type)
            check_configs(self._authorizer, context, AclOperation.DESCRIBE_CONFIGS, kind, resource.resource_name)
            own = self._own_settings(kind, resource.resource_name)
            name = resource.resource_name if kind is ResourceType.BROKER else None
            key = kind, name, wanted, tuple(sorted(own.items()))
            if key not in known:
                settings = self._settings(kind, resource.resource_name, own, layers)
                known[key] = _Configs(_described(settings, wanted, request))
            result.configs = known[key]
        except KafkaError as error:
            result.error_code, result.error_message = error.code, error.detail or None
        return result

    def _settings(self, kind: ResourceType, name: str, own: Mapping[str, str], layers: NodeLayers) -> list[Setting]:
        if kind is ResourceType.TOPIC:
            return describe_topic(own, layers)
        if kind is ResourceType.GROUP:
            return describe_group(own, self._config.properties)
        if kind is ResourceType.CLIENT_METRICS:
            return describe_client_metrics(own)
        if not name:
            return describe_all_brokers(layers)
        return describe_broker(NODE_CONFIG, self._config.properties, layers)

    def _settings_of(self, topic: str) -> Mapping[str, str]:
        """A topic's own settings."""
        check_topic_name(topic)
        if topic not in self._image().topic_ids:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {topic}")
        return self._image().config_of(ResourceType.TOPIC, topic)

    def _own_settings(self, kind: ResourceType, name: str) -> Mapping[str, str]:
        """What is set for this resource, if it is kept by its name; KafkaError if it has no settings here."""
        match kind:
            case ResourceType.TOPIC:
                return self._settings_of(name)
            case ResourceType.GROUP | ResourceType.CLIENT_METRICS:
                if not name:
                    whose = "group" if kind is ResourceType.GROUP else "subscription"
                    raise KafkaError(ErrorCode.INVALID_REQUEST, f"the name of the {whose} is empty")
                return self._image().config_of(kind, name)
            case ResourceType.BROKER:
                if name:
                    check_is_here(self._config, name)
                return {}
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{kind.name} resources have no settings here")

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


def _size(config: DescribeConfigsResponse.Result.Config) -> int:
    texts = [config.name, config.value, config.documentation]
    texts += [text for synonym in config.synonyms for text in (synonym.name, synonym.value)]
    return sum(len(text or "") + 4 for text in texts)


def _weight(configs: Sequence[Any]) -> int:
    return configs.size_bytes if isinstance(configs, _Configs) else 0


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
