"""An admin client that was given controllers (KIP-919): it asks the active one, and only what controllers are asked."""

from __future__ import annotations

from random import Random

import pytest

from pykraft.client.administration.admin import AdminCalls, NewTopic
from pykraft.client.administration.configs import ConfigCalls, ConfigResource, ConfigResourceType
from pykraft.client.api_driver import ApiDriver
from pykraft.client.config import admin_config
from pykraft.client.metadata import ClusterMetadata
from pykraft.common.core import Failure
from pykraft.common.errors import ConfigError, ErrorCode, KafkaError
from pykraft.protocol.messages.admin import UnregisterBrokerRequest, UnregisterBrokerResponse
from pykraft.protocol.messages.cluster import CONTROLLER_ENDPOINTS, DescribeClusterRequest, DescribeClusterResponse
from pykraft.protocol.messages.configs import DescribeConfigsRequest, IncrementalAlterConfigsRequest
from tests.harness.scripted import BOOTSTRAP, HOST, Script

LATER = 600_000
BROKER_3 = ConfigResource(ConfigResourceType.BROKER, "3")


def scripted() -> tuple[ClusterMetadata, ApiDriver, Script]:
    config = admin_config({"bootstrap_controllers": str(BOOTSTRAP)})
    metadata = ClusterMetadata(config, [BOOTSTRAP], Random(1), of_controllers=True)
    driver = ApiDriver(config, metadata, Random(1))
    return metadata, driver, Script(driver, metadata)


def controllers(active: int, error: ErrorCode = ErrorCode.NONE) -> DescribeClusterResponse:
    known = [DescribeClusterResponse.Broker(broker_id=number, host=HOST, port=9000 + number) for number in (1, 2, 3)]
    return DescribeClusterResponse(
        error_code=error, endpoint_type=CONTROLLER_ENDPOINTS, controller_id=active, brokers=known
    )


def test_the_controllers_are_asked_for_with_describe_cluster_of_a_version_that_can_name_them() -> None:
    metadata, _, script = scripted()
    metadata.request_update()
    (outbound,) = script.poll()
    asked = script.asked(DescribeClusterRequest)
    assert outbound.destination.endpoint == BOOTSTRAP
    assert (asked.endpoint_type, asked.versions) == (CONTROLLER_ENDPOINTS, (1, 2))
    script.answer(DescribeClusterRequest, controllers(active=2))
    assert metadata.controller == metadata.brokers[2]
    assert sorted(metadata.brokers) == [1, 2, 3]


def test_while_no_controller_is_active_they_are_asked_again() -> None:
    metadata, _, script = scripted()
    metadata.request_update()
    for active in (-1, 3):
        script.poll(100)
        script.answer(DescribeClusterRequest, controllers(active))
    assert script.poll(100) == [] and metadata.controller == metadata.brokers[3]


@pytest.mark.parametrize("told", [Failure.UNSUPPORTED_VERSION, controllers(-1, ErrorCode.MISMATCHED_ENDPOINT_TYPE)])
def test_the_address_of_a_broker_is_noticed(told: object) -> None:
    metadata, _, script = scripted()
    metadata.request_update()
    script.poll()
    script.answer(DescribeClusterRequest, told)
    assert metadata.wrong_listeners == {BOOTSTRAP} and metadata.unheard_since is not None


def test_a_controller_that_forbids_to_ask_it_is_noticed() -> None:
    metadata, _, script = scripted()
    metadata.request_update()
    script.poll()
    script.answer(DescribeClusterRequest, controllers(-1, ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    assert metadata.forbidding == {BOOTSTRAP} and not metadata.wrong_listeners


@pytest.mark.parametrize("error", [ErrorCode.NOT_CONTROLLER, ErrorCode.NOT_LEADER_OR_FOLLOWER])
def test_a_controller_that_is_not_active_any_more_leads_to_the_one_that_is(error: ErrorCode) -> None:
    _, driver, script = scripted()
    answer = AdminCalls(driver).unregister_broker(7, LATER)
    for active, code in ((1, error), (2, ErrorCode.NONE)):
        script.poll(1000)
        script.answer(DescribeClusterRequest, controllers(active))
        script.poll(1000)
        assert script.outbound(UnregisterBrokerRequest).destination.id == active
        script.answer(UnregisterBrokerRequest, UnregisterBrokerResponse(error_code=code))
    assert answer.kept and answer.value is None


def test_the_settings_of_a_node_are_asked_of_it_and_changed_by_the_active_controller() -> None:
    _, driver, script = scripted()
    calls = ConfigCalls(driver)
    calls.describe_configs([BROKER_3], False, False, LATER)
    calls.incremental_alter_configs({BROKER_3: {"log.retention.ms": 1}}, False, LATER)
    script.poll()
    script.answer(DescribeClusterRequest, controllers(active=2))
    script.poll(1000)
    assert script.outbound(DescribeConfigsRequest).destination.id == 3
    assert script.outbound(IncrementalAlterConfigsRequest).destination.id == 2


def test_what_controllers_are_not_asked_is_refused_at_once() -> None:
    _, driver, script = scripted()
    calls = AdminCalls(driver)
    with pytest.raises(KafkaError, match=r"to create topics: controllers are not asked for it: use bootstrap\.servers"):
        calls.create_topics([NewTopic("t")], False, 1000, LATER)
    with pytest.raises(KafkaError, match="UNSUPPORTED_ENDPOINT_TYPE"):
        calls.list_topics(LATER)
    with pytest.raises(ValueError, match="fenced brokers are listed by brokers"):
        calls.describe_cluster(LATER, include_fenced_brokers=True)
    assert not script.sent


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, r"bootstrap\.servers must be set, or bootstrap\.controllers"),
        ({"bootstrap_servers": "a:1", "bootstrap_controllers": "b:1"}, "are both set, but must not be"),
    ],
)
def test_an_admin_client_is_given_brokers_or_controllers(given: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        admin_config(given)
