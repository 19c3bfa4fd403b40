"""IncrementalAlterConfigs and AlterConfigs on a broker's listener.

Versions: IncrementalAlterConfigs 0 to 1, AlterConfigs 0 to 2. Changes go to the active controller. Before, the broker
refuses what it need not be asked about: a resource or a setting that is named twice, null values, another broker's
settings, and kinds of resource that have no settings here.

Follows kafka.server.ConfigAdminManager.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from pykraft.broker.requests.cluster.configs import check_is_here
from pykraft.broker.requests.dispatch import Handled, Handlers
from pykraft.broker.requests.forwarding import ForwardingApis
from pykraft.broker.settings.config import NodeConfig
from pykraft.broker.turns.slices import ItemByItem
from pykraft.common.errors import ConfigError, ErrorCode, KafkaError
from pykraft.common.settings.broker_config import CORDONED_LOG_DIRS, check_cordoned
from pykraft.protocol.messages.configs import (
    AlterConfigsRequest,
    IncrementalAlterConfigsRequest,
    Operation,
    ResourceType,
)
from pykraft.protocol.schema import Response
from pykraft.transport.server_channel import RequestContext

_SERVED = (ResourceType.TOPIC, ResourceType.BROKER, ResourceType.GROUP)


class ConfigChangeApis:
    """Passes changes of settings on to the controller, without those that it refuses itself."""

    def __init__(self, config: NodeConfig, forwarding: ForwardingApis) -> None:
        self._config = config
        self._forwarding = forwarding

    def alter(
        self, request: IncrementalAlterConfigsRequest | AlterConfigsRequest, context: RequestContext, now: int
    ) -> ItemByItem:
        """Refuse what can be refused here, and pass the rest on; the answers come in the order of the request."""
        resources: Sequence[Any] = request.resources
        times_named = Counter((resource.resource_type, resource.resource_name) for resource in resources)
        return ItemByItem(
            resources,
            lambda resource, _: self._refusal(resource, times_named),
            lambda refusals, now: self._pass_on(request, refusals, context, now),
            is_write=True,
        )

    def _pass_on(
        self,
        request: IncrementalAlterConfigsRequest | AlterConfigsRequest,
        refusals: list[KafkaError | None],
        context: RequestContext,
        now: int,
    ) -> Handled:
        resources: Sequence[Any] = request.resources
        rest = [resource for resource, refusal in zip(resources, refusals, strict=True) if refusal is None]

        def completed(response: Any) -> ItemByItem:
            decided = {(result.resource_type, result.resource_name): result for result in response.responses}

            def result_of(refused: tuple[Any, KafkaError | None], now: int) -> Any:
                resource, error = refused
                result = decided.get((resource.resource_type, resource.resource_name))
                if result is None or error is not None:
                    missing = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the controller said nothing of it")
                    (result,) = request.replace(resources=[resource]).refusal(error or missing).responses
                return result

            def respond(results: list[Any], now: int) -> Response:
                whole: Response = type(request).response(responses=results)
                return whole

            return ItemByItem(list(zip(resources, refusals, strict=True)), result_of, respond)

        if not rest:
            return completed(type(request).response(responses=[]))
        return self._forwarding.pass_on(request.replace(resources=rest), context, now, completed)

    def _refusal(self, resource: Any, times_named: Counter[tuple[int, str]]) -> KafkaError | None:
        """What is wrong with a resource that is refused."""
        try:
            if times_named[resource.resource_type, resource.resource_name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "the request names this resource twice")
            _check_names_and_values(resource.configs)
            if resource.resource_type not in _SERVED:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST, f"resources of type {resource.resource_type} have no settings here"
                )
            if resource.resource_type == ResourceType.BROKER and resource.resource_name:
                check_is_here(self._config, resource.resource_name)
                self._check_cordoned(resource.configs)
        except KafkaError as error:
            return error.with_traceback(None)  # of ten thousand, their frames are what garbage collection looks at
        return None

    def _check_cordoned(self, configs: Sequence[Any]) -> None:
        """The controller does not know which log directories there are."""
        for config in configs:
            if config.name == CORDONED_LOG_DIRS.name and config.value:
                try:
                    check_cordoned(CORDONED_LOG_DIRS.read(config.value), self._config.log_dirs)
                except ConfigError as error:
                    raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from error


HANDLERS: Handlers = {
    IncrementalAlterConfigsRequest: ConfigChangeApis.alter,
    AlterConfigsRequest: ConfigChangeApis.alter,
}


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
