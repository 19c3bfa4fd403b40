"""DescribeConfigs, IncrementalAlterConfigs, AlterConfigs and ListConfigResources.

Versions: DescribeConfigs 1 to 4, IncrementalAlterConfigs 0 to 1, AlterConfigs 0 to 2, ListConfigResources 0 to 1.
Behaviour to know:

* A node describes its topics and itself from its own image and properties file, so what a broker that lags says may be
  a moment old. Another broker's settings it does not know: who asks for them has come to the wrong one.
* Changes go to the active controller. Before, a broker refuses what it need not be asked about: a resource or a setting
  that is named twice, null values, another broker's settings.
* Resources are topics and brokers. Loggers, subscriptions of clients' metrics, and groups have no settings here.
* A setting is documented in one sentence of pykraft's, if that is asked for.

Follows kafka.server.{ConfigHelper,ConfigAdminManager} and kafka.server.KafkaApis.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from pykraft.common.core import Promise
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.controller.topics import check_topic_name
from pykraft.metadata.image import MetadataImage
from pykraft.metadata.settings import (
    NodeLayers,
    Setting,
    broker_number,
    describe_all_brokers,
    describe_broker,
    describe_topic,
    node_layers,
)
from pykraft.protocol.messages.configs import (
    AlterConfigsRequest,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
    Operation,
    ResourceType,
)
from pykraft.server.apis.errors import error_response
from pykraft.server.apis.forwarding import ForwardingApis
from pykraft.server.config import NODE_CONFIG, NodeConfig
from pykraft.transport.server_channel import RequestContext

_SERVED = (ResourceType.TOPIC, ResourceType.BROKER)
_FIRST_LIST_OF_ALL_TYPES = 1

_Known = dict[tuple[frozenset[str], tuple[tuple[str, str], ...]], list[DescribeConfigsResponse.Result.Config]]
"""The descriptions in one answer, by what is wanted and a topic's own settings: most topics have the same."""


class ConfigApis:
    """Answers about settings."""

    def __init__(
        self, config: NodeConfig, image: Callable[[], MetadataImage], forwarding: ForwardingApis | None
    ) -> None:
        """`forwarding` is a broker's way to the controller."""
        self._config = config
        self._image = image
        self._forwarding = forwarding

    # --- describing ---------------------------------------------------------------------------------------------------

    def describe_configs(
        self, request: DescribeConfigsRequest, context: RequestContext, now: int
    ) -> Promise[DescribeConfigsResponse | None]:
        types = {resource.resource_type for resource in request.resources}
        if not types <= set(ResourceType):
            refused = KafkaError(ErrorCode.INVALID_REQUEST, f"there are no resources of type {max(types)}")
            refusal: Any = error_response(request, refused)
            return Promise.of(refusal)
        layers = node_layers(self._image(), self._config.node_id, self._config.properties)
        known: _Known = {}
        return Promise.of(
            DescribeConfigsResponse(results=[self._result(request, each, layers, known) for each in request.resources])
        )

    def _result(
        self,
        request: DescribeConfigsRequest,
        resource: DescribeConfigsRequest.Resource,
        layers: NodeLayers,
        known: _Known,
    ) -> DescribeConfigsResponse.Result:
        result = DescribeConfigsResponse.Result(
            resource_type=resource.resource_type, resource_name=resource.resource_name, configs=[]
        )
        wanted = frozenset(resource.configuration_keys or ())
        try:
            if resource.resource_type == ResourceType.TOPIC:
                own = self._settings_of(resource.resource_name)
                key = wanted, tuple(sorted(own.items()))
                if key not in known:
                    known[key] = _described(describe_topic(own, layers), wanted, request)
                result.configs = known[key]
            else:
                settings = self._settings_of_brokers(resource.resource_type, resource.resource_name, layers)
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

    def _settings_of_brokers(self, kind: int, name: str, layers: NodeLayers) -> list[Setting]:
        if kind != ResourceType.BROKER:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{ResourceType(kind).name} resources have no settings here")
        if not name:
            return describe_all_brokers(layers)
        self._check_is_here(name)
        return describe_broker(NODE_CONFIG, self._config.properties, layers)

    def _check_is_here(self, name: str) -> None:
        if broker_number(name) != self._config.node_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"this is broker {self._config.node_id}, not {name}")

    # --- changing -----------------------------------------------------------------------------------------------------

    def alter(
        self, request: IncrementalAlterConfigsRequest | AlterConfigsRequest, context: RequestContext, now: int
    ) -> Promise[Any]:
        """Refuse what can be refused here, and pass the rest on; the answers come in the order of the request."""
        assert self._forwarding is not None
        refused = self._refusals(request.resources)
        resources: Sequence[Any] = request.resources
        rest = [resource for resource in resources if id(resource) not in refused]
        answer: Promise[Any] = Promise()

        def on_answer(response: Any) -> None:
            decided = {(result.resource_type, result.resource_name): result for result in response.responses}
            results = []
            for resource in resources:
                result = decided.get((resource.resource_type, resource.resource_name))
                error = refused.get(id(resource))
                if result is None or error is not None:
                    missing = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the controller said nothing of it")
                    whole: Any = error_response(request.replace(resources=[resource]), error or missing)
                    result = whole.responses[0]
                results.append(result)
            answer.keep(type(request).response(responses=results))

        if rest:
            self._forwarding.forward(request.replace(resources=rest), context, now).then(on_answer)
        else:
            on_answer(type(request).response(responses=[]))
        return answer

    def _refusals(self, resources: Sequence[Any]) -> dict[int, KafkaError]:
        """What is wrong with each resource that is refused, by the identity of its entry in the request."""
        times_named = Counter((resource.resource_type, resource.resource_name) for resource in resources)
        refused = {}
        for resource in resources:
            try:
                if times_named[resource.resource_type, resource.resource_name] > 1:
                    raise KafkaError(ErrorCode.INVALID_REQUEST, "the request names this resource twice")
                _check_names_and_values(resource.configs)
                if resource.resource_type not in _SERVED:
                    raise KafkaError(
                        ErrorCode.INVALID_REQUEST, f"resources of type {resource.resource_type} have no settings here"
                    )
                if resource.resource_type == ResourceType.BROKER and resource.resource_name:
                    self._check_is_here(resource.resource_name)
            except KafkaError as error:
                refused[id(resource)] = error
        return refused

    # --- listing ------------------------------------------------------------------------------------------------------

    def list_config_resources(
        self, request: ListConfigResourcesRequest, context: RequestContext, now: int
    ) -> Promise[ListConfigResourcesResponse | None]:
        resource = ListConfigResourcesResponse.Resource
        asked = set(request.resource_types) or set(ResourceType)
        if context.api_version < _FIRST_LIST_OF_ALL_TYPES:
            asked = {ResourceType.CLIENT_METRICS}
        if not asked <= set(ResourceType):
            return Promise.of(
                ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, config_resources=[])
            )
        image = self._image()
        found = []
        if ResourceType.BROKER in asked:
            brokers = [broker_id for broker_id, broker in sorted(image.brokers.items()) if not broker.fenced]
            found += [resource(resource_name=str(number), resource_type=ResourceType.BROKER) for number in brokers]
        if ResourceType.TOPIC in asked:
            topics = sorted(image.topic_ids)
            found += [resource(resource_name=name, resource_type=ResourceType.TOPIC) for name in topics]
        return Promise.of(ListConfigResourcesResponse(config_resources=found))


def _check_names_and_values(configs: Sequence[Any]) -> None:
    if len({config.name for config in configs}) < len(configs):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a setting is named twice")
    nulls = [
        config.name
        for config in configs
        if config.value is None and getattr(config, "config_operation", Operation.SET) != Operation.DELETE
    ]
    if nulls:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"the value is null: {', '.join(nulls)}")


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
