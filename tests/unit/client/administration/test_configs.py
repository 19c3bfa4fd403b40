"""Settings as an administrator asks for them: who is asked, what is asked, and how the answers read."""

from __future__ import annotations

from random import Random
from typing import Any

from pykraft.client.administration.configs import (
    AlterConfigOp,
    ConfigCalls,
    ConfigResource,
    ConfigResourceType,
    ConfigSource,
    Operation,
)
from pykraft.client.api_driver import ApiDriver
from pykraft.client.errors import ClientTimeoutError
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import Node
from pykraft.protocol.messages.configs import (
    ConfigType,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tests.harness.scripted import Script, described, knowing, settings

TOPIC = ConfigResource(ConfigResourceType.TOPIC, "t")
BROKER_2 = ConfigResource(ConfigResourceType.BROKER, "2")
ALL_BROKERS = ConfigResource(ConfigResourceType.BROKER, "")


def scripted() -> tuple[ConfigCalls, Script]:
    config = settings("admin")
    driver = ApiDriver(config, knowing(config, {}), Random(1))
    return ConfigCalls(driver), Script(driver)


def told(request: Any, **values: str | None) -> DescribeConfigsResponse:
    """The answer that gives each resource these settings."""
    result = DescribeConfigsResponse.Result
    configs = [
        result.Config(
            name=name.replace("_", "."),
            value=value,
            read_only=False,
            config_source=1,
            is_sensitive=value is None,
            synonyms=[result.Config.Synonym(name="other", value="0", source=5)],
            config_type=5,
            documentation="what it is",
        )
        for name, value in values.items()
    ]
    return DescribeConfigsResponse(
        results=[
            result(resource_type=each.resource_type, resource_name=each.resource_name, configs=configs)
            for each in request.resources
        ]
    )


def changed(request: Any, error: ErrorCode = ErrorCode.NONE, message: str | None = None) -> Any:
    return IncrementalAlterConfigsResponse(
        responses=[
            IncrementalAlterConfigsResponse.Result(
                error_code=error,
                error_message=message,
                resource_type=each.resource_type,
                resource_name=each.resource_name,
            )
            for each in request.resources
        ]
    )


def test_one_broker_is_asked_for_its_own_settings_and_any_for_the_rest() -> None:
    ask, script = scripted()
    promise = ask.describe_configs([TOPIC, BROKER_2, ALL_BROKERS, TOPIC], True, False, 60_000)
    anybody, second = script.poll()
    assert [each.resource_name for each in anybody.request.resources] == ["t", ""]
    assert [each.resource_name for each in second.request.resources] == ["2"]
    assert (second.destination.id, second.request.include_synonyms) == (2, True)
    script.answer(second, told(second.request, node_id="2"))
    assert not promise.kept
    script.answer(anybody, told(anybody.request, retention_ms="5", secret=None))
    assert isinstance(promise.value, dict)
    assert set(promise.value) == {TOPIC, BROKER_2, ALL_BROKERS}
    entry = promise.value[TOPIC]["retention.ms"]
    assert (entry.value, entry.source, entry.is_default, entry.documentation) == (
        "5",
        ConfigSource.TOPIC,
        False,
        "what it is",
    )
    assert entry.synonyms == (("other", "0", ConfigSource.DEFAULT),)
    assert (promise.value[TOPIC]["secret"].value, promise.value[TOPIC]["secret"].is_sensitive) == (None, True)


def test_places_and_types_that_a_newer_broker_tells_are_unknown() -> None:
    ask, script = scripted()
    promise = ask.describe_configs([TOPIC], True, False, 60_000)
    script.poll()
    answer = told(script.asked(DescribeConfigsRequest), retention_ms="1")
    (setting,) = answer.results[0].configs
    setting.config_source, setting.config_type = 77, 88
    script.answer(DescribeConfigsRequest, answer)
    entry = promise.value[TOPIC]["retention.ms"]  # type: ignore[index, union-attr]
    assert (entry.source, entry.type) == (ConfigSource.UNKNOWN, ConfigType.UNKNOWN)


def test_changes_are_values_by_name_or_operations() -> None:
    ask, script = scripted()
    changes = {
        TOPIC: {"retention.ms": 5, "preallocate": True, "cleanup.policy": ["compact", "delete"], "flush.ms": None},
        ALL_BROKERS: [AlterConfigOp("log.cleanup.policy", "compact", Operation.APPEND)],
    }
    promise = ask.incremental_alter_configs(changes, True, 60_000)
    script.poll()
    request = script.asked(IncrementalAlterConfigsRequest)
    assert request.validate_only
    said = [[(c.name, c.config_operation, c.value) for c in each.configs] for each in request.resources]
    assert said == [
        [
            ("retention.ms", 0, "5"),
            ("preallocate", 0, "true"),
            ("cleanup.policy", 0, "compact,delete"),
            ("flush.ms", 1, None),
        ],
        [("log.cleanup.policy", 2, "compact")],
    ]
    script.answer(IncrementalAlterConfigsRequest, changed(request))
    assert promise.kept and promise.value is None


def test_a_refusal_names_the_resource_and_a_topic_that_is_not_there_is_not_asked_for_again() -> None:
    for error in (ErrorCode.INVALID_CONFIG, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
        ask, script = scripted()
        promise = ask.incremental_alter_configs({TOPIC: {"retention.ms": "x"}}, False, 60_000)
        script.poll()
        script.answer(
            IncrementalAlterConfigsRequest, changed(script.asked(IncrementalAlterConfigsRequest), error, "no")
        )
        assert isinstance(promise.value, KafkaError)
        assert str(promise.value) == f"{error.name}: topic t: no"


def test_a_broker_that_is_not_known_is_looked_for() -> None:
    config = settings("admin")
    metadata = knowing(config, {})
    driver = ApiDriver(config, metadata, Random(1))
    script = Script(driver)
    promise = ConfigCalls(driver).describe_configs([ConfigResource(ConfigResourceType.BROKER, "7")], False, False, 5000)
    assert script.poll() == []
    metadata.brokers = {broker.node_id: _node(broker) for broker in described({}, brokers=(7,)).brokers}
    (asked,) = script.poll(2000)
    assert asked.destination.id == 7 and isinstance(asked.request, DescribeConfigsRequest)
    script.poll(60_000)
    assert isinstance(promise.value, ClientTimeoutError)


def _node(broker: Any) -> Node:
    return Node(broker.node_id, broker.host, broker.port)


def test_nobody_is_asked_for_nothing() -> None:
    ask, script = scripted()
    assert ask.describe_configs([], False, False, 60_000).value == {}
    assert script.poll() == []


def test_the_first_error_is_the_answer_to_several_questions() -> None:
    ask, script = scripted()
    brokers = [ConfigResource(ConfigResourceType.BROKER, name) for name in ("1", "2", "3")]
    promise = ask.incremental_alter_configs({key: {"a": "b"} for key in brokers}, False, 60_000)
    first, second, third = script.poll()
    script.answer(third, changed(third.request))
    script.answer(first, changed(first.request, ErrorCode.INVALID_CONFIG, "first"))
    script.answer(second, changed(second.request, ErrorCode.INVALID_REQUEST, "second"))
    assert isinstance(promise.value, KafkaError) and promise.value.detail == "broker 1: first"
