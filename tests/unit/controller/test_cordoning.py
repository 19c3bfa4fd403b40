"""Log directories that take no new replicas (KIP-1066), and controllers that are unregistered (KIP-1312)."""

from __future__ import annotations

import pytest

from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.controller.features import NEW_CLUSTER
from pykraft.metadata.versions import (
    IV_4_3_0_CORDONED_DIRECTORIES,
    IV_4_4_2_CONTROLLERS_UNREGISTER,
    METADATA_VERSION,
)
from pykraft.protocol.messages.admin import UnregisterControllerRequest
from pykraft.protocol.messages.brokers import ControllerRegistrationRequest, SecuredEndpoint
from tests.harness.asking import reassign
from tests.harness.controllers import ControllerScript, make, new_topic
from tests.harness.quorum import directory_id


def cluster(level: int) -> ControllerScript:
    """Brokers 1, 2 and 3 in a cluster at this metadata.version."""
    script = ControllerScript(levels={**NEW_CLUSTER, METADATA_VERSION: level})
    script.bring_up(1, 2, 3)
    return script


def cordon(script: ControllerScript, broker_id: int, *directories: int) -> None:
    script.heartbeat(broker_id, cordoned_log_dirs=[directory_id(number) for number in directories])


def refusal(script: ControllerScript, request: object) -> ErrorCode:
    """Of a request as a whole."""
    outcome = script.controller.answer(request, script.now)  # type: ignore[arg-type]
    with pytest.raises(KafkaError) as refused:
        script.answered(outcome)
    return refused.value.code


def created(script: ControllerScript, **fields: object) -> ErrorCode:
    answer = script.answered(script.controller.answer(make(new_topic("t", **fields)), script.now))  # type: ignore[arg-type]
    return ErrorCode.of(answer.topics[0].error_code)


def test_a_broker_whose_directories_are_all_cordoned_gets_no_new_replica_and_keeps_what_it_has() -> None:
    script = cluster(IV_4_3_0_CORDONED_DIRECTORIES)
    script.create(new_topic("old", assignment={0: [1, 2]}))
    cordon(script, 1, 101)
    assert script.image.brokers[1].is_cordoned
    assert (script.partition("old").leader, script.partition("old").isr) == (1, (1, 2))
    assert created(script, partitions=1, replication_factor=3) is ErrorCode.INVALID_REPLICATION_FACTOR
    assert created(script, assignment={0: [1, 2]}) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    moved = script.answered(script.controller.answer(reassign(("old", 0, [2, 1])), script.now))
    assert moved.responses[0].partitions[0].error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    script.create(new_topic("new", partitions=6, replication_factor=2))
    assert {replica for n in range(6) for replica in script.partition("new", n).replicas} == {2, 3}
    cordon(script, 1)
    assert created(script, partitions=1, replication_factor=3) is ErrorCode.NONE


def test_a_heartbeat_that_says_nothing_or_the_same_of_cordoned_directories_changes_nothing() -> None:
    script = cluster(IV_4_3_0_CORDONED_DIRECTORIES)
    cordon(script, 1, 101)
    end = script.image.provenance.offset
    cordon(script, 1, 101)
    script.heartbeat(1)
    cordon(script, 2)
    assert script.image.provenance.offset == end
    assert script.image.brokers[1].is_cordoned and not script.image.brokers[2].is_cordoned


def test_below_their_level_directories_are_not_cordoned() -> None:
    script = cluster(IV_4_3_0_CORDONED_DIRECTORIES - 1)
    end = script.image.provenance.offset
    cordon(script, 1, 101)
    assert not script.image.brokers[1].is_cordoned
    assert script.image.provenance.offset == end


# --- controllers ------------------------------------------------------------------------------------------------------


def register_controller(script: ControllerScript, controller_id: int) -> None:
    endpoint = SecuredEndpoint(name="CONTROLLER", host="h", port=1, security_protocol=0)
    request = ControllerRegistrationRequest(
        controller_id=controller_id,
        incarnation_id=directory_id(controller_id),
        zk_migration_ready=False,
        listeners=[endpoint],
        features=[],
    )
    script.answered(script.controller.answer(request, script.now))


def test_a_controller_is_unregistered_but_not_the_active_one() -> None:
    script = cluster(IV_4_4_2_CONTROLLERS_UNREGISTER)
    register_controller(script, 77)
    active = script.controller._node_id
    assert refusal(script, UnregisterControllerRequest(controller_id=78)) is ErrorCode.CONTROLLER_ID_NOT_REGISTERED
    assert refusal(script, UnregisterControllerRequest(controller_id=active)) is ErrorCode.INVALID_REQUEST
    assert 77 in script.image.controllers
    answer = script.answered(script.controller.answer(UnregisterControllerRequest(controller_id=77), script.now))
    assert answer.error_code == 0 and 77 not in script.image.controllers


def test_below_its_level_no_controller_is_unregistered() -> None:
    script = cluster(IV_4_4_2_CONTROLLERS_UNREGISTER - 1)
    register_controller(script, 77)
    assert refusal(script, UnregisterControllerRequest(controller_id=77)) is ErrorCode.UNSUPPORTED_VERSION
