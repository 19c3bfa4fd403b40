"""Messages about settings: DescribeConfigs, IncrementalAlterConfigs, AlterConfigs, ListConfigResources.

A resource is whose settings are meant: a type and a name. For BROKER the name is a broker's id, or nothing for the
defaults of all brokers. A broker describes what it knows itself; changes go by it to the active controller.
"""

from enum import IntEnum

from pykraft.common.errors import KafkaError
from pykraft.protocol.listeners import BOTH, BROKER
from pykraft.protocol.schema import Array, Request, Response, Struct, boolean, field, int8, int16, int32, string


class ResourceType(IntEnum):
    """The kinds of resource that have settings (org.apache.kafka.common.config.ConfigResource.Type)."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigSource(IntEnum):
    """Where the value of a setting comes from."""

    UNKNOWN = 0
    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    CLIENT_METRICS = 7
    GROUP = 8

    @classmethod
    def _missing_(cls, value: object) -> "ConfigSource":
        """Newer brokers know more."""
        return cls.UNKNOWN


class ConfigType(IntEnum):
    """What the values of a setting are."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9

    @classmethod
    def _missing_(cls, value: object) -> "ConfigType":
        return cls.UNKNOWN


class Operation(IntEnum):
    """What is to be done to a setting; the last two are for lists."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class DescribeConfigsRequest(Request, api=32, versions=(1, 4), flexible=4, listeners=BOTH):
    """Which settings hold for these resources? `configuration_keys` names some; null or none at all means all."""

    class Resource(Struct):
        resource_type: int8
        resource_name: string
        configuration_keys: Array[string] | None

    resources: Array[Resource]
    include_synonyms: boolean = field(default=False)
    include_documentation: boolean = field(default=False, since=3)

    def refusal(self, error: KafkaError) -> "DescribeConfigsResponse":
        """Each resource gets the error."""
        return DescribeConfigsResponse(
            results=[
                DescribeConfigsResponse.Result(
                    error_code=error.code,
                    error_message=error.detail or None,
                    resource_type=resource.resource_type,
                    resource_name=resource.resource_name,
                    configs=[],
                )
                for resource in self.resources
            ]
        )


class DescribeConfigsResponse(Response, to=DescribeConfigsRequest):
    """The settings. The synonyms of one are all the places that say something of it, the strongest first."""

    class Result(Struct):
        class Config(Struct):
            class Synonym(Struct):
                name: string
                value: string | None
                source: int8

            name: string
            value: string | None
            read_only: boolean
            config_source: int8 = field(default=-1)
            is_sensitive: boolean
            synonyms: Array[Synonym]
            config_type: int8 = field(default=0, since=3)
            documentation: string | None = field(default=None, since=3)

        error_code: int16 = field(default=0)
        error_message: string | None = field(default=None)
        resource_type: int8
        resource_name: string
        configs: Array[Config]

    throttle_time_ms: int32 = field(default=0)
    results: Array[Result]


class IncrementalAlterConfigsRequest(Request, api=44, versions=(0, 1), flexible=1, listeners=BOTH, forwardable=True):
    """Change some settings of these resources, and leave the others (KIP-339)."""

    class Resource(Struct):
        class Config(Struct):
            name: string
            config_operation: int8
            value: string | None

        resource_type: int8
        resource_name: string
        configs: Array[Config]

    resources: Array[Resource]
    validate_only: boolean

    def refusal(self, error: KafkaError) -> "IncrementalAlterConfigsResponse":
        """Each resource gets the error."""
        return IncrementalAlterConfigsResponse(
            responses=[
                IncrementalAlterConfigsResponse.Result(
                    error_code=error.code,
                    error_message=error.detail or None,
                    resource_type=resource.resource_type,
                    resource_name=resource.resource_name,
                )
                for resource in self.resources
            ]
        )


class IncrementalAlterConfigsResponse(Response, to=IncrementalAlterConfigsRequest):
    """What became of each resource: all that was asked for it, or nothing."""

    class Result(Struct):
        error_code: int16 = field(default=0)
        error_message: string | None = field(default=None)
        resource_type: int8
        resource_name: string

    throttle_time_ms: int32 = field(default=0)
    responses: Array[Result]


class AlterConfigsRequest(Request, api=33, versions=(0, 2), flexible=2, listeners=BOTH, forwardable=True):
    """Let these be the settings of the resources: what is not named is taken away. The older way; two clients that use
    it at once undo each other's changes."""

    class Resource(Struct):
        class Config(Struct):
            name: string
            value: string | None

        resource_type: int8
        resource_name: string
        configs: Array[Config]

    resources: Array[Resource]
    validate_only: boolean

    def refusal(self, error: KafkaError) -> "AlterConfigsResponse":
        """Each resource gets the error."""
        return AlterConfigsResponse(
            responses=[
                AlterConfigsResponse.Result(
                    error_code=error.code,
                    error_message=error.detail or None,
                    resource_type=resource.resource_type,
                    resource_name=resource.resource_name,
                )
                for resource in self.resources
            ]
        )


class AlterConfigsResponse(Response, to=AlterConfigsRequest):
    """What became of each resource."""

    class Result(Struct):
        error_code: int16 = field(default=0)
        error_message: string | None = field(default=None)
        resource_type: int8
        resource_name: string

    throttle_time_ms: int32 = field(default=0)
    responses: Array[Result]


class ListConfigResourcesRequest(Request, api=74, versions=(0, 1), flexible=0, listeners=BROKER):
    """Which resources are there that may have settings (KIP-1142)? No types are all types; version 0 asks for
    subscriptions of clients' metrics only."""

    resource_types: Array[int8] = field(default=(), since=1)


class ListConfigResourcesResponse(Response, to=ListConfigResourcesRequest):
    """Their names."""

    class Resource(Struct):
        resource_name: string
        resource_type: int8 = field(default=ResourceType.CLIENT_METRICS, since=1)

    throttle_time_ms: int32 = field(default=0)
    error_code: int16 = field(default=0)
    config_resources: Array[Resource]
