"""Controllers register with the active one, and what their registration is good for."""

from __future__ import annotations

from typing import Any

import pytest

from pykraft.common.errors import ErrorCode
from pykraft.controller.features import SUPPORTED_FEATURES
from pykraft.metadata.image import MIGRATING_DIRECTORY
from pykraft.protocol.api import ListenerKind
from pykraft.protocol.messages.brokers import ControllerRegistrationRequest, SecuredEndpoint, SupportedFeature
from pykraft.protocol.messages.cluster import CONTROLLER_ENDPOINTS, DescribeClusterRequest
from pykraft.protocol.messages.records import RegisterControllerRecord
from tests.harness.asking import update
from tests.harness.controllers import ControllerScript, incarnation
from tests.harness.lone_node import LoneNode

METADATA = "metadata.version"
REACHABLE = [SecuredEndpoint(name="CONTROLLER", host="h", port=1, security_protocol=0)]
UNSUPPORTED = ErrorCode.UNSUPPORTED_VERSION


def registered(node: LoneNode) -> RegisterControllerRecord:
    return node.node.loader.image.controllers[1]


def described(node: LoneNode) -> tuple[int, list[tuple[int, str, int]]]:
    """(error, controllers) as the controller's listener tells."""
    request = DescribeClusterRequest(endpoint_type=CONTROLLER_ENDPOINTS)
    answer = node.ask(request, ListenerKind.CONTROLLER)
    return answer.error_code, [(found.broker_id, found.host, found.port) for found in answer.brokers]


def test_a_controller_registers_its_endpoint_and_its_levels_and_is_found_by_that() -> None:
    node = LoneNode()
    record = registered(node)
    assert [(e.name, e.host, e.port) for e in record.end_points] == [("CONTROLLER", "node", 9093)]
    levels = {f.name: (f.min_supported_version, f.max_supported_version) for f in record.features}
    assert levels == SUPPORTED_FEATURES
    assert described(node) == (0, [(1, "node", 9093)])


def test_a_process_registers_once_and_the_next_one_replaces_it() -> None:
    node = LoneNode()
    first, end = registered(node).incarnation_id, node.node.loader.image.provenance.offset
    node.run(5_000)
    assert node.node.loader.image.provenance.offset == end, "it does not ask again"
    node.node.close()
    node.filesystem.crash_process()
    again = LoneNode(node.filesystem)
    again.run(1_000)
    assert registered(again).incarnation_id != first


def test_below_level_15_no_controller_registers_and_an_upgrade_lets_it() -> None:
    node = LoneNode(levels={METADATA: 14})
    assert not node.node.loader.image.controllers
    assert described(node) == (UNSUPPORTED, [])
    asked = ControllerRegistrationRequest(controller_id=9, incarnation_id=incarnation(9), listeners=[], features=[])
    assert node.ask(asked, ListenerKind.CONTROLLER).error_code == UNSUPPORTED
    assert node.ask(update((METADATA, 15)), ListenerKind.CONTROLLER).error_code == 0
    node.run(1_000)
    assert registered(node).controller_id == 1
    assert described(node) == (0, [(1, "node", 9093)])


@pytest.mark.parametrize(
    "fields",
    [
        {"controller_id": -1},
        {"listeners": []},
        {"listeners": [SecuredEndpoint(name="", host="h", port=1, security_protocol=0)]},
        {"listeners": [SecuredEndpoint(name="CONTROLLER", host="h", port=1, security_protocol=4)]},
        {"listeners": [SecuredEndpoint(name="CONTROLLER", host="h", port=1, security_protocol=0)] * 1001},
        {"features": [SupportedFeature(name="f", min_supported_version=1, max_supported_version=1)] * 1001},
    ],
)
def test_a_controller_that_cannot_be_reached_does_not_register(fields: dict[str, Any]) -> None:
    """Nodes of Apache Kafka would stop at a record with an unknown security protocol."""
    node = LoneNode()
    sound = ControllerRegistrationRequest(
        controller_id=9, incarnation_id=incarnation(9), listeners=REACHABLE, features=[]
    )
    assert node.ask(sound.replace(**fields), ListenerKind.CONTROLLER).error_code == ErrorCode.INVALID_REGISTRATION
    assert list(node.node.loader.image.controllers) == [1]
    assert node.ask(sound, ListenerKind.CONTROLLER).error_code == 0
    assert list(node.node.loader.image.controllers) == [1, 9]


def test_a_broker_tells_its_directories_when_the_level_comes_to_know_them() -> None:
    node = LoneNode(levels={METADATA: 16})
    before = node.node.loader.image.brokers[1]
    assert before.directories == ()
    node.create("old")
    assert node.ask(update((METADATA, 17)), ListenerKind.CONTROLLER).error_code == 0
    node.run(5_000)
    after, end = node.node.loader.image.brokers[1], node.node.loader.image.provenance.offset
    assert len(after.directories) == 1
    assert (after.epoch, after.incarnation_id, after.fenced) == (before.epoch, before.incarnation_id, False)
    node.run(5_000)
    assert node.node.loader.image.provenance.offset == end, "it does so once"
    image, topic_id = node.node.loader.image, node.create("new")
    assert image.topics[image.topic_ids["old"]].partitions[0].directories == (MIGRATING_DIRECTORY,)
    assert node.node.loader.image.topics[topic_id].partitions[0].directories == after.directories


@pytest.mark.parametrize(("highest", "error"), [(29, ErrorCode.NONE), (27, ErrorCode.INVALID_UPDATE_VERSION)])
def test_no_level_is_finalized_that_a_registered_controller_lacks(highest: int, error: ErrorCode) -> None:
    script = ControllerScript(levels={METADATA: 25})
    level = SupportedFeature(name=METADATA, min_supported_version=7, max_supported_version=highest)
    request = ControllerRegistrationRequest(
        controller_id=2, incarnation_id=incarnation(2), listeners=REACHABLE, features=[level]
    )
    script.answered(script.controller.answer(request, script.now))
    assert script.update((METADATA, 28)) is error


def test_a_voter_of_the_properties_that_has_not_registered_may_be_too_old() -> None:
    script = ControllerScript(levels={METADATA: 25}, static_voters=(1, 2))
    response = script.answered(script.controller.answer(update((METADATA, 28)), script.now))
    assert response.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert "controller 2 has not registered" in response.error_message
    features = [
        SupportedFeature(name=name, min_supported_version=low, max_supported_version=high)
        for name, (low, high) in SUPPORTED_FEATURES.items()
    ]
    request = ControllerRegistrationRequest(
        controller_id=2, incarnation_id=incarnation(2), listeners=REACHABLE, features=features
    )
    script.answered(script.controller.answer(request, script.now))
    assert script.update((METADATA, 28)) is ErrorCode.NONE


def test_below_level_15_controllers_are_not_asked_for() -> None:
    script = ControllerScript(levels={METADATA: 14}, static_voters=(1, 2))
    assert script.update((METADATA, 29)) is ErrorCode.NONE
