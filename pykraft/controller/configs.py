"""Changing settings: the plans for it, with every refusal that a client may meet.

A request may name many resources. Each is judged alone: all that is asked for it is done, or nothing. What is written
is one ConfigRecord for each setting that changes; for a broker also for one that keeps its value, so that brokers take
notice. What a resource comes to as a whole is checked, not only what is new: two settings may contradict each other.

An incremental change may also add to a list or take from it; where the setting has no value yet, the list is its
default. The older request replaces everything, so what it does not name is taken away.

``min.insync.replicas`` has more rules in a cluster that keeps eligible leader replicas (`elr`).

Follows org.apache.kafka.controller.ConfigurationControlManager and kafka.server.ControllerConfigurationValidator.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pykraft.common.core import Steps
from pykraft.common.errors import ConfigError, ErrorCode, KafkaError
from pykraft.common.settings.broker_config import (
    LIVE_BROKER_CONFIG,
    REPLICATION_QUOTA_CONFIG,
    check_connection_limits,
    check_dynamic,
)
from pykraft.common.settings.config import as_text
from pykraft.common.settings.group_config import BROKER_GROUP_CONFIG, check_group_settings
from pykraft.common.settings.tls_config import store_key
from pykraft.common.settings.topic_config import (
    LOG_CONFIG,
    broker_names,
    check_topic_settings,
)
from pykraft.controller.partitions.elr import check_min_isr_change, clearing_records
from pykraft.controller.partitions.topics import check_topic_name
from pykraft.controller.result import MAX_RECORDS_PER_REQUEST, Result, VersionedRecord
from pykraft.metadata.image import MetadataImage
from pykraft.metadata.settings import NodeLayers, broker_number, node_layers
from pykraft.protocol.messages.configs import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    Operation,
    ResourceType,
)
from pykraft.protocol.messages.records import ConfigRecord

LONGEST_VALUE = (1 << 15) - 1
_SERVED = (ResourceType.TOPIC, ResourceType.BROKER, ResourceType.GROUP)

Changes = dict[str, str | None]
"""New values by name; None takes a setting away."""


class ConfigControl:
    """Plans changes of settings."""

    def __init__(self, node_id: int, properties: Mapping[str, str]) -> None:
        """`properties` is the file of this node, whose defaults its topics are checked against."""
        self._node_id = node_id
        self._properties = properties
        self._known_layers: tuple[MetadataImage, NodeLayers] | None = None

    # --- the two requests ---------------------------------------------------------------------------------------------

    def incremental_alter_configs(
        self, image: MetadataImage, request: IncrementalAlterConfigsRequest
    ) -> Steps[Result[IncrementalAlterConfigsResponse]]:
        def changes(resource: Any) -> Changes:
            present = image.config_of(resource.resource_type, resource.resource_name)
            return {config.name: _changed(resource.resource_type, config, present) for config in resource.configs}

        result_type = IncrementalAlterConfigsResponse.Result
        records, results = yield from self._plan_all(image, request.resources, changes, result_type)
        return Result([] if request.validate_only else records, IncrementalAlterConfigsResponse(responses=results))

    def alter_configs(self, image: MetadataImage, request: AlterConfigsRequest) -> Steps[Result[AlterConfigsResponse]]:
        def changes(resource: Any) -> Changes:
            present = image.config_of(resource.resource_type, resource.resource_name)
            wanted = {config.name: config.value for config in resource.configs}
            return wanted | {name: None for name in sorted(present) if name not in wanted}

        records, results = yield from self._plan_all(image, request.resources, changes, AlterConfigsResponse.Result)
        return Result([] if request.validate_only else records, AlterConfigsResponse(responses=results))

    def _plan_all(
        self,
        image: MetadataImage,
        resources: Sequence[Any],
        changes: Callable[[Any], Changes],
        result_type: Callable[..., Any],
    ) -> Steps[tuple[list[VersionedRecord], list[Any]]]:
        records: list[VersionedRecord] = []
        results: dict[tuple[int, str], Any] = {}
        times_named = Counter((resource.resource_type, resource.resource_name) for resource in resources)
        for resource in resources:
            key = kind, name = resource.resource_type, resource.resource_name
            result = results[key] = result_type(resource_type=kind, resource_name=name)
            try:
                if kind not in _SERVED:
                    raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"resources of type {kind} have no settings here")
                if times_named[key] > 1:
                    raise KafkaError(ErrorCode.INVALID_REQUEST, f"the request names {_called(kind, name)} twice")
                records += self._plan(image, kind, name, changes(resource))
            except KafkaError as error:
                result.error_code, result.error_message = error.code, error.detail
            yield
        if image.keeps_elr:
            records += clearing_records(records)
        if len(records) > MAX_RECORDS_PER_REQUEST:  # what voids ELRs must be in the same batch
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION, f"{len(records)} settings at once; {MAX_RECORDS_PER_REQUEST} are allowed"
            )
        return records, list(results.values())

    # --- one resource -------------------------------------------------------------------------------------------------

    def _plan(self, image: MetadataImage, kind: int, name: str, changes: Changes) -> list[VersionedRecord]:
        present = image.config_of(kind, name)
        if image.keeps_elr:
            check_min_isr_change(kind, name, changes)
        for key, value in changes.items():
            if value is not None and len(value) > LONGEST_VALUE:
                raise KafkaError(
                    ErrorCode.INVALID_CONFIG, f"the value of {key} is longer than the {LONGEST_VALUE} that are allowed"
                )
        merged = {key: value for key, value in {**present, **changes}.items() if value is not None}
        if kind == ResourceType.TOPIC:
            self._check_topic(image, name, merged)
        elif kind == ResourceType.GROUP:
            self._check_group(name, merged)
        else:
            self._check_broker(image, name, merged)
        return [
            (ConfigRecord(resource_type=kind, resource_name=name, name=key, value=value), 0)
            for key, value in changes.items()
            if value != present.get(key) or kind == ResourceType.BROKER
        ]

    def _layers(self, image: MetadataImage) -> NodeLayers:
        """What this node says of its topics' settings: the same for all topics of a request."""
        if self._known_layers is None or self._known_layers[0] is not image:
            self._known_layers = image, node_layers(image, self._node_id, self._properties)
        return self._known_layers[1]

    def _check_topic(self, image: MetadataImage, name: str, settings: Mapping[str, str]) -> None:
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "topics have no settings in common: a topic must be named")
        check_topic_name(name)
        try:
            check_topic_settings(settings, *self._layers(image))
        except ConfigError as error:
            raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error
        if name not in image.topic_ids:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}")

    def _check_group(self, name: str, settings: Mapping[str, str]) -> None:
        """A group need not exist: its settings wait for it."""
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "groups have no settings in common: a group must be named")
        try:
            check_group_settings(settings, BROKER_GROUP_CONFIG.resolve(self._properties))
        except ConfigError as error:
            raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error

    def _check_broker(self, image: MetadataImage, name: str, settings: Mapping[str, str]) -> None:
        broker_id = broker_number(name) if name else self._node_id
        if broker_id < 0:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the number of a broker is at least 0")
        static = node_layers(image, self._node_id, self._properties).static
        stores = {each: key for each in settings if (key := store_key(each)) is not None}
        try:
            check_dynamic(settings, is_for_all=not name)
            for each, key in stores.items():
                key.read(settings[each], each)
            check_topic_settings({}, settings, static)
            check_connection_limits(LIVE_BROKER_CONFIG.resolve(settings, self._properties))
            REPLICATION_QUOTA_CONFIG.resolve(settings)
        except ConfigError as error:
            raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from error
        if broker_id not in {*image.brokers, *image.controllers, self._node_id}:
            raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"there is no broker {name}")


def _called(kind: int, name: str) -> str:
    return f"{ResourceType(kind).name.lower()} {name or '(all)'}"


def _changed(kind: int, config: Any, present: Mapping[str, str]) -> str | None:
    """The value of a setting after the change."""
    value: str | None = config.value
    match config.config_operation:
        case Operation.SET:
            return value
        case Operation.DELETE:
            return None
        case Operation.APPEND | Operation.SUBTRACT:
            default = _default_list(kind, config.name)
            parts = [part for part in present.get(config.name, default).split(",") if part]
            named = (value or "").split(",")
            if config.config_operation == Operation.APPEND:
                return ",".join([*parts, *(part for part in dict.fromkeys(named) if part not in parts)])
            return ",".join(part for part in parts if part not in named)
    raise KafkaError(ErrorCode.INVALID_REQUEST, f"{config.config_operation} is no operation on {config.name}")


def _default_list(kind: int, name: str) -> str:
    """The default of a list; KafkaError if the setting is no list."""
    if kind == ResourceType.TOPIC:
        key = LOG_CONFIG.keys.get(name)
    elif kind == ResourceType.GROUP:
        key = None
    else:
        key = next((key for key in LOG_CONFIG.keys.values() if name in {n.name for n in broker_names(key)}), None)
        key = key or LIVE_BROKER_CONFIG.keys.get(name)
    if key is None or key.kind != "list":
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{name} is no list, so nothing can be added to it or taken from it")
    return as_text(key.default)
