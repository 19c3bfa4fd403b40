"""Brokers as the controller sees them: registration, heartbeats, fencing, controlled shutdown."""

from __future__ import annotations

from typing import Any

import pytest

from pykraft.common.core import FOREVER
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import UNASSIGNED_DIRECTORY, Uuid
from pykraft.controller.features import NEW_CLUSTER
from pykraft.controller.heartbeats import BrokerHeartbeats, BrokerState
from pykraft.metadata.image import BrokerRegistration
from pykraft.protocol.messages.admin import UnregisterBrokerRequest
from pykraft.protocol.messages.brokers import (
    AllocateProducerIdsRequest,
    BrokerHeartbeatRequest,
    SecuredEndpoint,
    SupportedFeature,
)
from pykraft.protocol.messages.records import RegisterBrokerRecord, UnregisterBrokerRecord
from tests.harness.controllers import NOBODY, SESSION_MS, WITHOUT_ELR, ControllerScript, new_topic, registration
from tests.harness.quorum import directory_id

LAST_IN_SYNC = pytest.mark.parametrize(
    ("levels", "isr", "eligible"),
    [(WITHOUT_ELR, (1,), ()), (NEW_CLUSTER, (), (1,))],
    ids=["stays in the ISR", "becomes eligible"],
)
"""What becomes of the last replica in sync when its broker goes."""


def test_a_broker_registers_fenced_and_its_epoch_is_the_offset_of_its_record() -> None:
    script = ControllerScript()
    epoch = script.register(1)
    assert script.image.brokers[1].fenced
    batch = next(b for b in script.heard.batches if any(isinstance(r, RegisterBrokerRecord) for r in b.records))
    place = [isinstance(record, RegisterBrokerRecord) for record in batch.records].index(True)
    assert epoch == script.image.brokers[1].epoch == batch.base_offset + place


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"cluster_id": "another"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"broker_id": -1}, ErrorCode.INVALID_REGISTRATION),
        ({"listeners": []}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": []}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": [directory_id(107)] * 2}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": [UNASSIGNED_DIRECTORY]}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": [directory_id(number) for number in range(200, 1201)]}, ErrorCode.INVALID_REGISTRATION),
        (
            {"listeners": [SecuredEndpoint(name="A", host="h", port=1, security_protocol=0)] * 1001},
            ErrorCode.INVALID_REGISTRATION,
        ),
        (
            {"features": [SupportedFeature(name="f", min_supported_version=1, max_supported_version=1)] * 1001},
            ErrorCode.INVALID_REGISTRATION,
        ),
        ({"log_dirs": [directory_id(107), directory_id(99)]}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": [directory_id(107), directory_id(102)]}, ErrorCode.INVALID_REGISTRATION),  # it is broker 2's
        (
            {"listeners": [SecuredEndpoint(name="A", host="h", port=1, security_protocol=4)]},
            ErrorCode.INVALID_REGISTRATION,
        ),
        (
            {"listeners": [SecuredEndpoint(name="A", host="h", port=1, security_protocol=-1)]},
            ErrorCode.INVALID_REGISTRATION,
        ),
        (
            {"listeners": [SecuredEndpoint(name="", host="h", port=1, security_protocol=0)]},
            ErrorCode.INVALID_REGISTRATION,
        ),
        ({"features": []}, ErrorCode.INVALID_REGISTRATION),
        ({"broker_id": 2, "log_dirs": []}, ErrorCode.DUPLICATE_BROKER_REGISTRATION),
        (
            {
                "features": [
                    SupportedFeature(name="metadata.version", min_supported_version=1, max_supported_version=28)
                ]
            },
            ErrorCode.UNSUPPORTED_VERSION,
        ),
    ],
)
def test_a_registration_is_refused(fields: dict[str, Any], error: ErrorCode) -> None:
    script = ControllerScript()
    script.bring_up(2)
    outcome = script.controller.answer(registration(1).replace(**fields), script.now)
    assert outcome.value.error is not None and outcome.value.error.code is error
    assert list(script.image.brokers) == [2]


def test_a_directory_goes_to_another_broker_only_when_its_own_has_another_one() -> None:
    script = ControllerScript()
    script.bring_up(1)
    moved = registration(2, log_dirs=[directory_id(101)])
    with pytest.raises(KafkaError):
        script.answered(script.controller.answer(moved, script.now))
    script.run(SESSION_MS)
    script.register(1, life=2, log_dirs=[directory_id(111)])
    script.answered(script.controller.answer(moved, script.now))
    assert script.image.brokers[2].directories == (directory_id(101),)


def test_an_id_that_is_alive_is_not_given_to_another_process_until_its_session_is_over() -> None:
    script = ControllerScript()
    script.bring_up(1)
    with pytest.raises(KafkaError) as refused:
        script.register(1, life=2)
    assert refused.value.code is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    before = script.image.brokers[1].epoch
    script.run(SESSION_MS)
    assert script.register(1, life=2) > before
    assert script.image.brokers[1].fenced
    with pytest.raises(KafkaError) as refused:
        script.register(1, life=3)
    assert refused.value.code is ErrorCode.DUPLICATE_BROKER_REGISTRATION, "a registration begins a session, too"


def test_the_same_process_may_register_twice_and_stays_what_it_is() -> None:
    script = ControllerScript()
    epoch = script.register(1)
    script.heartbeat(1)
    assert script.register(1) == epoch
    assert not script.image.brokers[1].fenced


def test_a_process_that_is_stopping_and_registers_again_goes_on_stopping() -> None:
    script = ControllerScript()
    script.bring_up(1, 2)
    script.create(new_topic("t", assignment={0: [1, 2]}))
    script.heartbeat(1, want_shut_down=True)
    script.register(1)
    assert script.image.brokers[1].in_controlled_shutdown


def test_who_takes_an_id_before_the_old_process_is_fenced_does_not_take_what_that_one_led() -> None:
    """The session is over, and no record says so yet. The new process may lack what the old one had not synced."""
    script = ControllerScript()
    script.bring_up(1, 2)
    script.create(new_topic("t", assignment={0: [1, 2]}))
    script.run(SESSION_MS - 300)
    script.heartbeat(2)
    assert script.partition("t").leader == 1 and not script.image.brokers[1].fenced
    script.now += 300
    epoch = script.register(1, life=2)
    assert (script.partition("t").leader, script.partition("t").isr) == (2, (2,))
    records = [(batch.base_offset + n, each) for batch in script.heard.batches for n, each in enumerate(batch.records)]
    (*_, offset) = [offset for offset, each in records if isinstance(each, RegisterBrokerRecord)]
    assert epoch == script.image.brokers[1].epoch == offset, "its epoch is its record's place, whatever came before it"


def forget(script: ControllerScript, broker_id: int) -> None:
    script.answered(script.controller.answer(UnregisterBrokerRequest(broker_id=broker_id), script.now))


def test_a_broker_is_unregistered_after_others_lead_what_it_led() -> None:
    script = ControllerScript()
    script.bring_up(1, 2)
    script.create(new_topic("t", assignment={0: [1, 2], 1: [2, 1]}), new_topic("alone", assignment={0: [1]}))
    offset = script.image.provenance.offset
    forget(script, 1)
    assert list(script.image.brokers) == [2]
    assert [
        (each.leader, each.isr, each.replicas) for each in (script.partition("t", 0), script.partition("t", 1))
    ] == [
        (2, (2,), (1, 2)),
        (2, (2,), (2, 1)),
    ]
    assert script.partition("alone").leader == NOBODY
    records = [each for batch in script.heard.batches if batch.last_offset > offset for each in batch.records]
    assert isinstance(records[-1], UnregisterBrokerRecord)


def test_a_broker_that_is_unregistered_and_lives_registers_anew_when_it_is_restarted() -> None:
    script = ControllerScript()
    script.bring_up(1, 2)
    script.create(new_topic("t", assignment={0: [1, 2]}), new_topic("alone", assignment={0: [1]}))
    epoch = script.image.brokers[1].epoch
    forget(script, 1)
    late = BrokerHeartbeatRequest(
        broker_id=1, broker_epoch=epoch, current_metadata_offset=0, want_fence=False, want_shut_down=False
    )
    with pytest.raises(KafkaError, match="STALE_BROKER_EPOCH"):
        script.answered(script.controller.answer(late, script.now))
    script.run(2 * SESSION_MS)  # no session is left that could end
    assert script.register(1, life=2) > epoch
    script.heartbeat(1)
    assert script.partition("alone").leader == 1
    t = script.partition("t")
    assert (t.isr, t.eligible_leader_replicas) == ((), (2,)), "it has to catch up first"


def test_a_broker_that_is_not_registered_cannot_be_unregistered() -> None:
    script = ControllerScript()
    script.bring_up(1)
    before = script.image.provenance
    for broker_id in (2, -1):
        with pytest.raises(KafkaError, match=f"BROKER_ID_NOT_REGISTERED: no broker {broker_id} is registered"):
            forget(script, broker_id)
    assert script.image.provenance == before


def test_a_heartbeat_that_changes_nothing_leaves_nothing_in_the_log() -> None:
    script = ControllerScript()
    script.bring_up(1)
    script.register(2)
    before = script.image.provenance
    script.heartbeat(1)
    script.heartbeat(2, current_metadata_offset=0)
    assert script.image.provenance == before


def test_a_broker_is_unfenced_when_it_has_applied_its_own_registration() -> None:
    script = ControllerScript()
    epoch = script.register(1)
    behind = script.heartbeat(1, current_metadata_offset=epoch - 1)
    assert (behind.is_caught_up, behind.is_fenced) == (False, True)
    there = script.heartbeat(1, current_metadata_offset=epoch)
    assert (there.is_caught_up, there.is_fenced) == (True, False)
    assert not script.image.brokers[1].fenced


@pytest.mark.parametrize("change", [{"broker_epoch": 0}, {"broker_epoch": 1 << 40}, {"broker_id": 9}])
def test_a_heartbeat_of_another_process_is_refused(change: dict[str, int]) -> None:
    script = ControllerScript()
    script.bring_up(1)
    with pytest.raises(KafkaError) as refused:
        script.heartbeat(1, **change)
    assert refused.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_a_silent_broker_is_fenced_when_its_session_is_over_and_not_before() -> None:
    script = ControllerScript()
    script.bring_up(1, 2)
    assert script.create(new_topic("t", assignment={0: [1, 2]})) == {"t": ErrorCode.NONE}
    last = script.now
    script.heartbeat(1)
    script.run(5000)
    script.heartbeat(2)
    script.run(last + SESSION_MS - 1 - script.now)
    assert not script.image.brokers[1].fenced
    script.heartbeat(2)
    assert script.image.brokers[1].fenced
    assert not script.image.brokers[2].fenced
    assert (script.partition("t").leader, script.partition("t").isr) == (2, (2,))


@LAST_IN_SYNC
def test_a_fenced_broker_that_is_heard_again_is_unfenced_and_may_lead(
    levels: dict[str, int], isr: tuple[int, ...], eligible: tuple[int, ...]
) -> None:
    script = ControllerScript(levels=levels)
    script.bring_up(1)
    script.create(new_topic("t"))
    script.run(SESSION_MS + 10)
    t = script.partition("t")
    assert (t.leader, t.isr, t.eligible_leader_replicas) == (NOBODY, isr, eligible)
    script.heartbeat(1)
    assert script.partition("t").leader == 1
    assert script.partition("t").leader_epoch == 2


def test_a_broker_that_came_back_as_another_process_leads_nothing_at_first() -> None:
    script = ControllerScript()
    script.bring_up(1, 2)
    script.create(new_topic("t", assignment={0: [1, 2]}))
    script.run(SESSION_MS - 100)
    script.heartbeat(2)
    script.run(101)
    before = script.partition("t")
    script.register(1, life=2)
    assert (before.leader, script.partition("t").leader) == (2, 2)
    assert script.partition("t").isr == (2,)


def test_a_follower_that_is_fenced_counts_no_more_as_in_sync_and_its_leader_stays() -> None:
    script = ControllerScript()
    script.bring_up(1, 2, 3)
    script.create(new_topic("t", assignment={0: [1, 2, 3]}), new_topic("u", assignment={0: [1, 3]}))
    before = script.partition("u")
    script.run(SESSION_MS - 300)
    for alive in (1, 3):
        script.heartbeat(alive)
    script.run(300)
    assert script.image.brokers[2].fenced
    assert (script.partition("t").leader, script.partition("t").isr) == (1, (1, 3))
    assert script.partition("u") == before


# --- the table of heartbeats ------------------------------------------------------------------------------------------


def broker(fenced: bool = False, leaving: bool = False) -> BrokerRegistration:
    return BrokerRegistration(1, 100, Uuid(bytes(16)), {}, {}, {}, None, fenced, leaving, ())


def asks(**fields: Any) -> BrokerHeartbeatRequest:
    return BrokerHeartbeatRequest(
        broker_id=1, broker_epoch=100, current_metadata_offset=100, want_fence=False, want_shut_down=False
    ).replace(**fields)


@pytest.mark.parametrize(
    ("state", "request_", "leads", "others_know", "after"),
    [
        (broker(fenced=True), asks(), False, True, BrokerState.UNFENCED),
        (broker(fenced=True), asks(current_metadata_offset=99), False, True, BrokerState.FENCED),
        (broker(fenced=True), asks(want_fence=True), False, True, BrokerState.FENCED),
        (broker(fenced=True), asks(want_shut_down=True), False, True, BrokerState.SHUTDOWN_NOW),
        (broker(), asks(), True, True, BrokerState.UNFENCED),
        (broker(), asks(want_fence=True), True, True, BrokerState.FENCED),
        (broker(), asks(want_fence=True, want_shut_down=True), True, True, BrokerState.SHUTDOWN_NOW),
        (broker(fenced=True), asks(want_fence=True, want_shut_down=True), True, True, BrokerState.SHUTDOWN_NOW),
        (broker(leaving=True), asks(want_fence=True, want_shut_down=True), True, True, BrokerState.CONTROLLED_SHUTDOWN),
        (broker(), asks(want_shut_down=True), False, True, BrokerState.SHUTDOWN_NOW),
        (broker(), asks(want_shut_down=True), True, True, BrokerState.CONTROLLED_SHUTDOWN),
        (broker(leaving=True), asks(want_shut_down=True), True, True, BrokerState.CONTROLLED_SHUTDOWN),
        (broker(leaving=True), asks(want_shut_down=True), False, False, BrokerState.CONTROLLED_SHUTDOWN),
        (broker(leaving=True), asks(want_shut_down=True), False, True, BrokerState.SHUTDOWN_NOW),
        (broker(leaving=True), asks(), False, True, BrokerState.SHUTDOWN_NOW),
    ],
)
def test_what_becomes_of_a_broker(
    state: BrokerRegistration, request_: BrokerHeartbeatRequest, leads: bool, others_know: bool, after: BrokerState
) -> None:
    heartbeats = BrokerHeartbeats(SESSION_MS)
    heartbeats.begin([1, 2], 0)
    for offset in (50, 60):  # who asks again waits for nothing more
        heartbeats.begin_shutdown(1, offset)
    heartbeats.begin_shutdown(3, 50)
    heartbeats.touch(2, 0, 50 if others_know else 49)
    assert heartbeats.next_state(state, request_, leads, active=[2, 3]) is after, "3 was never heard of"


def test_the_next_session_to_end_is_that_of_who_was_silent_longest() -> None:
    heartbeats = BrokerHeartbeats(SESSION_MS)
    assert heartbeats.next_expiry([]) == FOREVER
    heartbeats.begin([1, 2, 3], 0)
    heartbeats.touch(1, 500, 0)
    heartbeats.touch(2, 400, 0)
    assert heartbeats.next_expiry([1, 2]) == 400 + SESSION_MS
    assert heartbeats.stale([1, 2, 3], SESSION_MS) == [3]


def test_controlled_shutdown_moves_leaderships_first_and_lets_go_when_everybody_knows() -> None:
    script = ControllerScript()
    script.bring_up(1, 2)
    script.create(new_topic("t", assignment={0: [1, 2]}))
    script.heartbeat(2)
    first = script.heartbeat(1, want_shut_down=True)
    assert (first.is_fenced, first.should_shut_down) == (False, False)
    assert (script.partition("t").leader, script.partition("t").isr) == (2, (2,))
    moved = script.image.provenance.offset
    assert not script.heartbeat(1, want_shut_down=True).should_shut_down, "broker 2 has not applied it yet"
    script.heartbeat(2, current_metadata_offset=moved)
    last = script.heartbeat(1, want_shut_down=True)
    assert last.should_shut_down and script.image.brokers[1].fenced


def test_a_broker_that_may_stop_has_its_id_until_its_session_is_over() -> None:
    """As in Apache Kafka: its next process waits, too, unless another controller was elected."""
    script = ControllerScript()
    script.bring_up(1)
    assert script.heartbeat(1, want_shut_down=True).should_shut_down and script.image.brokers[1].fenced
    with pytest.raises(KafkaError) as refused:
        script.register(1, life=2)
    assert refused.value.code is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    script.run(SESSION_MS)
    script.register(1, life=2)


@LAST_IN_SYNC
def test_the_only_broker_in_sync_may_go_and_nobody_leads_then(
    levels: dict[str, int], isr: tuple[int, ...], eligible: tuple[int, ...]
) -> None:
    """A partition without another in-sync replica is left without a leader, and its broker may go."""
    script = ControllerScript(levels=levels)
    script.bring_up(1)
    script.create(new_topic("t"))
    script.heartbeat(1, want_shut_down=True)
    t = script.partition("t")
    assert (t.leader, t.isr, t.eligible_leader_replicas) == (NOBODY, isr, eligible)
    assert script.heartbeat(1, want_shut_down=True).should_shut_down


def test_producer_ids_are_given_in_blocks_that_nobody_gets_twice() -> None:
    script = ControllerScript()
    script.bring_up(1, 2)
    blocks = []
    for broker_id in (1, 2, 1):
        request = AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=script.image.brokers[broker_id].epoch)
        response = script.answered(script.controller.answer(request, script.now))
        blocks.append((response.producer_id_start, response.producer_id_len))
    assert blocks == [(0, 1000), (1000, 1000), (2000, 1000)]
    stale = AllocateProducerIdsRequest(broker_id=1, broker_epoch=0)
    with pytest.raises(KafkaError) as refused:
        script.answered(script.controller.answer(stale, script.now))
    assert refused.value.code is ErrorCode.STALE_BROKER_EPOCH
