"""Asking for settings and changing them, in Python's words.

The settings of topics and groups and the defaults of all brokers any broker knows. Those of one broker only that broker
itself tells and changes, so such a question goes there.

Follows org.apache.kafka.clients.admin.{Config,ConfigEntry,AlterConfigOp}.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self, TypeVar

from pykraft.client.api_driver import ADMIN_CHANNEL, ApiDriver, ApiHandler, Read, converted
from pykraft.client.lookups import ANY_BROKER, BrokerStrategy
from pykraft.common.core import Promise
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.settings.config import as_text
from pykraft.protocol.messages.configs import (
    ConfigSource,
    ConfigType,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
    Operation,
)
from pykraft.protocol.messages.configs import ResourceType as ConfigResourceType
from pykraft.protocol.schema import Request

V = TypeVar("V")

__all__ = [
    "AlterConfigOp",
    "ConfigCalls",
    "ConfigEntry",
    "ConfigResource",
    "ConfigResourceType",
    "ConfigSource",
    "Operation",
]


class _Resource(NamedTuple):
    resource_type: ConfigResourceType
    name: str


class ConfigResource(_Resource):
    """Whose settings: ``ConfigResource(ConfigResourceType.TOPIC, "flights")``; GROUP with a group id; BROKER with an id
    as its name, or with none for the defaults of all brokers. The type may be given by its name. `configs` are new
    settings, for `Admin.alter_configs`; two resources are equal whatever they bring."""

    configs: "Mapping[str, object] | None"

    def __new__(
        cls, resource_type: "ConfigResourceType | str | int", name: str, configs: "Mapping[str, object] | None" = None
    ) -> Self:
        found = super().__new__(cls, resource_kind(resource_type), name)
        found.configs = configs
        return found

    def __getnewargs__(self) -> tuple[Any, ...]:
        return *self, self.configs


def resource_kind(given: ConfigResourceType | str | int) -> ConfigResourceType:
    """The type of a resource, which may be given by its name. ValueError if there is none like it."""
    if not isinstance(given, str):
        return ConfigResourceType(given)
    kinds = ConfigResourceType.__members__
    if given.upper() not in kinds:
        raise ValueError(f"a resource is one of {', '.join(kinds)}, not {given!r}")
    return kinds[given.upper()]


def config_resource(resource: Any) -> ConfigResource:
    """A resource, also as a plain pair."""
    if not isinstance(resource, tuple) or len(resource) != 2:
        raise TypeError(f"settings are those of a ConfigResource(ConfigResourceType, name), not of {resource!r}")
    return resource if isinstance(resource, ConfigResource) else ConfigResource(*resource)


def new_configs(resource: ConfigResource) -> Mapping[str, object]:
    """The settings that a resource brings. TypeError if it brings none."""
    if not resource.configs:
        raise TypeError(f"{resource!r} brings no settings: ConfigResource(type, name, {{'retention.ms': 60000}})")
    return resource.configs


class ConfigSynonym(NamedTuple):
    """A place that says something of a setting."""

    name: str
    value: str | None
    source: ConfigSource


class ConfigEntry(NamedTuple):
    """One setting. `synonyms`, the strongest place first, and `documentation` are empty unless they were asked for."""

    name: str
    value: str | None
    source: ConfigSource
    is_read_only: bool
    is_sensitive: bool
    type: ConfigType
    synonyms: tuple[ConfigSynonym, ...]
    documentation: str | None

    @property
    def is_default(self) -> bool:
        return self.source is ConfigSource.DEFAULT


class AlterConfigOp(NamedTuple):
    """A change of one setting. APPEND and SUBTRACT are for lists."""

    name: str
    value: object = None
    operation: Operation = Operation.SET


ConfigChanges = Mapping[str, object] | Sequence[AlterConfigOp]
"""New values by name, None to go back to the default; or the operations one by one."""


class ConfigCalls:
    """Each method asks one thing; `deadline` is when to give up. Promises bring the answer or the KafkaError."""

    def __init__(self, driver: ApiDriver) -> None:
        self._driver = driver
        self._lookup = BrokerStrategy(driver.metadata, _broker_of)
        self._lookup_of_changes = self._lookup
        if driver.metadata.of_controllers:  # the active one changes the settings of all
            self._lookup_of_changes = BrokerStrategy(driver.metadata, lambda resource: ANY_BROKER)

    def describe_configs(
        self, resources: Iterable[ConfigResource], include_synonyms: bool, include_documentation: bool, deadline: int
    ) -> "Promise[dict[ConfigResource, dict[str, ConfigEntry]] | KafkaError]":
        """The settings of each resource, by name."""

        def request(asked: Sequence[ConfigResource]) -> DescribeConfigsRequest:
            return DescribeConfigsRequest(
                resources=[
                    DescribeConfigsRequest.Resource(resource_type=kind, resource_name=name, configuration_keys=None)
                    for kind, name in asked
                ],
                include_synonyms=include_synonyms,
                include_documentation=include_documentation,
            )

        def read(
            asked: Sequence[ConfigResource], response: DescribeConfigsResponse
        ) -> Iterator[tuple[ConfigResource, dict[str, ConfigEntry] | KafkaError]]:
            for result in response.results:
                yield _resource(result), _refusal(result) or {c.name: _entry(c) for c in result.configs}

        handler = self._handler("to describe settings", request, read, self._lookup)
        return self._driver.ask_all(handler, map(config_resource, resources), deadline)

    def incremental_alter_configs(
        self, changes: Mapping[ConfigResource, ConfigChanges], validate_only: bool, deadline: int
    ) -> "Promise[KafkaError | None]":
        """Change these settings of these resources, and leave their others."""
        resource_type = IncrementalAlterConfigsRequest.Resource

        def request(asked: Sequence[ConfigResource]) -> IncrementalAlterConfigsRequest:
            return IncrementalAlterConfigsRequest(
                resources=[
                    resource_type(
                        resource_type=resource.resource_type,
                        resource_name=resource.name,
                        configs=[
                            resource_type.Config(
                                name=change.name,
                                config_operation=change.operation,
                                value=None if change.value is None else setting_text(change.value),
                            )
                            for change in operations(changes[resource])
                        ],
                    )
                    for resource in asked
                ],
                validate_only=validate_only,
            )

        def read(
            asked: Sequence[ConfigResource], response: IncrementalAlterConfigsResponse
        ) -> Iterator[tuple[ConfigResource, KafkaError | None]]:
            for result in response.responses:
                yield _resource(result), _refusal(result)

        handler = self._handler("to change settings", request, read, self._lookup_of_changes)
        return converted(self._driver.ask_all(handler, map(config_resource, changes), deadline), lambda done: None)

    def list_config_resources(
        self, types: Sequence[ConfigResourceType], deadline: int
    ) -> "Promise[list[ConfigResource] | KafkaError]":
        """The resources of these types that may have settings; no types are all types."""

        def read(response: ListConfigResourcesResponse) -> list[ConfigResource]:
            if response.error_code:
                raise KafkaError(ErrorCode.of(response.error_code))
            return [
                ConfigResource(ConfigResourceType(each.resource_type), each.resource_name)
                for each in response.config_resources
                if each.resource_type in set(ConfigResourceType)
            ]

        request = ListConfigResourcesRequest(resource_types=types)
        return self._driver.ask_any("to list the resources with settings", request, read, deadline)

    def _handler(
        self,
        what: str,
        request: Callable[[Sequence[ConfigResource]], Request],
        read: Read[ConfigResource, V],
        lookup: BrokerStrategy[ConfigResource],
    ) -> ApiHandler[ConfigResource, V]:
        return ApiHandler(what=what, lookup=lookup, request=request, read=read, channel=ADMIN_CHANNEL)


def operations(changes: ConfigChanges) -> list[AlterConfigOp]:
    """The changes one by one."""
    if not isinstance(changes, Mapping):
        return list(changes)
    return [
        AlterConfigOp(name, value, Operation.DELETE if value is None else Operation.SET)
        for name, value in changes.items()
    ]


def setting_text(value: object) -> str:
    """A value as brokers read it; a list is one with commas."""
    return as_text(tuple(map(str, value)) if isinstance(value, list | tuple) else value)


def _broker_of(resource: ConfigResource) -> int:
    is_of_one = resource.resource_type is ConfigResourceType.BROKER and resource.name.isdecimal()
    return int(resource.name) if is_of_one else ANY_BROKER


def _resource(result: DescribeConfigsResponse.Result | IncrementalAlterConfigsResponse.Result) -> ConfigResource:
    return ConfigResource(ConfigResourceType(result.resource_type), result.resource_name)


def _refusal(result: DescribeConfigsResponse.Result | IncrementalAlterConfigsResponse.Result) -> KafkaError | None:
    """The error in the result of one resource."""
    if not result.error_code:
        return None
    error, resource = ErrorCode.of(result.error_code), _resource(result)
    named = f"{resource.resource_type.name.lower()} {resource.name}".strip()
    return _RefusedError(error, f"{named}: {result.error_message or error.text}")


class _RefusedError(KafkaError):
    """That a topic is not known is an answer, not a reason to ask again."""

    @property
    def retriable(self) -> bool:
        return super().retriable and self.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _entry(config: DescribeConfigsResponse.Result.Config) -> ConfigEntry:
    return ConfigEntry(
        config.name,
        config.value,
        ConfigSource(config.config_source),
        config.read_only,
        config.is_sensitive,
        ConfigType(config.config_type),
        tuple(ConfigSynonym(s.name, s.value, ConfigSource(s.source)) for s in config.synonyms),
        config.documentation,
    )
