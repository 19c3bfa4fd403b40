"""Eligible leader replicas: which replicas are kept as eligible, which of them lead, and what voids them (KIP-966)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import ZERO_UUID
from pykraft.controller import configs
from pykraft.controller.partitions.elr import safety_records
from pykraft.controller.partitions.partition_change import Election, ElrRules, plan_partition_change
from pykraft.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE, ConfigResource, PartitionRegistration
from pykraft.metadata.versions import ELR_VERSION
from pykraft.protocol.messages.brokers import RECOVERED, RECOVERING
from pykraft.protocol.messages.configs import IncrementalAlterConfigsRequest
from pykraft.protocol.messages.elections import ElectionType
from pykraft.protocol.messages.features import SAFE_DOWNGRADE
from pykraft.protocol.messages.records import ConfigRecord
from tests.harness.asking import DELETE, SET, change, elect, replace_all, update
from tests.harness.controllers import NOBODY, SESSION_MS, WITHOUT_ELR, ControllerScript, new_topic

ONLINE, PREFERRED, UNCLEAN = Election.ONLINE, Election.PREFERRED, Election.UNCLEAN
MIN_ISR = "min.insync.replicas"


# --- one partition ----------------------------------------------------------------------------------------------------


def registration(
    isr: Sequence[int], leader: int, elr: Sequence[int] = (), last_known: Sequence[int] = (), state: int = RECOVERED
) -> PartitionRegistration:
    return PartitionRegistration(
        replicas=(1, 2, 3),
        directories=(ZERO_UUID,) * 3,
        isr=tuple(isr),
        leader=leader,
        leader_epoch=4,
        partition_epoch=9,
        leader_recovery_state=state,
        eligible_leader_replicas=tuple(elr),
        last_known_leader=tuple(last_known),
    )


def after(
    before: PartitionRegistration,
    isr: Sequence[int] | None,
    alive: set[int],
    election: Election = ONLINE,
    min_isr: int = 2,
    lost: Sequence[int] = (),
) -> PartitionRegistration:
    plan = plan_partition_change(
        ZERO_UUID,
        0,
        before,
        new_isr=isr,
        may_lead=alive.__contains__,
        election=election,
        elr_rules=ElrRules(min_isr, frozenset(lost)),
    )
    return before if plan is None else before.merge(plan[0])  # type: ignore[arg-type]


FULL = registration([1, 2, 3], 1)
EMPTY = registration([], NOBODY, elr=[1, 2], last_known=[2])


@pytest.mark.parametrize(
    ("before", "isr", "alive", "election", "expected"),
    [
        # (ISR, leader, ELR, last known leader)
        (FULL, [1, 2], {1, 2}, ONLINE, ((1, 2), 1, (), ())),  # the ISR is large enough
        (FULL, [1], {1}, ONLINE, ((1,), 1, (2, 3), ())),
        (registration([1, 2], 1), [2], {2}, ONLINE, ((2,), 2, (1,), ())),
        (registration([1], 1, [2]), [], {2, 3}, ONLINE, ((2,), 2, (1,), ())),  # the eligible one leads at once
        (registration([1], 1, [2]), [], {3}, ONLINE, ((), NOBODY, (1, 2), (1,))),
        (registration([1], 1, [2]), [], {3}, UNCLEAN, ((3,), 3, (), ())),
        (registration([1], 1, [2]), [1, 3], {1, 3}, ONLINE, ((1, 3), 1, (), ())),  # it is large enough again
        (registration([1], 1, [2]), [1], {1, 2}, ONLINE, ((1,), 1, (2,), ())),
        (EMPTY, None, {2}, ONLINE, ((2,), 2, (1,), ())),
        (EMPTY, None, {1, 2}, ONLINE, ((1,), 1, (2,), ())),  # the order of the assignment
        (EMPTY, None, {1, 2}, PREFERRED, ((1,), 1, (2,), ())),
        (EMPTY, None, {3}, ONLINE, ((), NOBODY, (1, 2), (2,))),  # it is not eligible
        (EMPTY, None, {3}, PREFERRED, ((), NOBODY, (1, 2), (2,))),
        (EMPTY, None, {3}, UNCLEAN, ((3,), 3, (), ())),
    ],
)
def test_who_leads_and_who_stays_eligible(
    before: PartitionRegistration,
    isr: Sequence[int] | None,
    alive: set[int],
    election: Election,
    expected: tuple[tuple[int, ...], int, tuple[int, ...], tuple[int, ...]],
) -> None:
    found = after(before, isr, alive, election)
    assert (found.isr, found.leader, found.eligible_leader_replicas, found.last_known_leader) == expected
    is_unclean = found.leader == 3
    assert found.leader_recovery_state == (RECOVERING if is_unclean else RECOVERED)


def test_a_broker_that_may_have_lost_records_is_neither_in_sync_nor_eligible() -> None:
    found = after(registration([1], 1, [2]), [], {3}, lost=[1])
    assert (found.isr, found.eligible_leader_replicas, found.last_known_leader) == ((), (2,), (1,))
    found = after(found, None, {1, 3}, lost=[2])
    assert (found.isr, found.eligible_leader_replicas) == ((1,), ()), (
        "no replica is eligible: the last known leader leads"
    )
    assert (found.leader, found.leader_recovery_state, found.last_known_leader) == (1, RECOVERING, ())


def test_the_last_known_leader_leads_only_when_nobody_is_eligible_and_only_if_there_is_one() -> None:
    assert after(registration([], NOBODY, [2], [1]), None, {1, 3}).leader == NOBODY
    assert after(registration([], NOBODY, [], [1, 3]), None, {1, 3}).leader == NOBODY
    assert after(registration([], NOBODY, [], [1]), None, {2, 3}).leader == NOBODY
    assert after(registration([], NOBODY, [], [3]), None, {1, 3}).leader == 3


def test_without_the_feature_what_is_left_of_it_goes_and_the_isr_does_not_become_empty() -> None:
    before = registration([1], 1, [2])
    plan = plan_partition_change(ZERO_UUID, 0, before, new_isr=[], may_lead={3}.__contains__)
    assert plan is not None
    found = before.merge(plan[0])  # type: ignore[arg-type]
    assert (found.isr, found.leader, found.eligible_leader_replicas) == ((1,), NOBODY, ())


REPLICAS = st.sets(st.integers(1, 4))


@given(
    st.sets(st.integers(1, 4)),
    REPLICAS,
    REPLICAS,
    REPLICAS,
    REPLICAS,
    st.integers(1, 4),
    st.sampled_from(list(Election)),
)
def test_whatever_is_planned_the_elr_holds_those_that_the_high_watermark_has_not_left_behind(
    isr: set[int], elr: set[int], new_isr: set[int], alive: set[int], lost: set[int], min_isr: int, election: Election
) -> None:
    before = PartitionRegistration(
        replicas=(1, 2, 3, 4),
        directories=(ZERO_UUID,) * 4,
        isr=tuple(sorted(isr)),
        leader=min(isr, default=NOBODY),
        leader_epoch=1,
        partition_epoch=1,
        eligible_leader_replicas=tuple(sorted(elr - isr)),
    )
    found = after(before, sorted(new_isr - lost), alive - lost, election, min_isr, sorted(lost))
    in_sync, eligible = set(found.isr), set(found.eligible_leader_replicas)
    assert not in_sync & eligible
    assert not (in_sync | eligible) & lost
    assert eligible <= isr | elr, "only those that were in sync, or eligible, stay eligible"
    if len(new_isr - lost) >= min_isr:
        assert not eligible
    if found.leader != NOBODY:
        assert found.leader in in_sync and found.leader in alive
    if found.leader_recovery_state == RECOVERING:
        assert not eligible and in_sync == {found.leader}
    elif not new_isr - lost and in_sync:
        assert in_sync <= isr | elr, "a clean leader from outside of the ISR was eligible"


# --- the controller ---------------------------------------------------------------------------------------------------


def cluster(min_isr: int = 2, topic: Mapping[str, str] | None = None) -> ControllerScript:
    """Brokers 1 to 3, and a topic "t" on all of them that broker 1 leads."""
    script = ControllerScript({MIN_ISR: str(min_isr)})
    script.bring_up(1, 2, 3)
    script.create(new_topic("t", assignment={0: [1, 2, 3]}, configs=topic or {}))
    return script


def state(script: ControllerScript) -> tuple[tuple[int, ...], int, tuple[int, ...]]:
    partition = script.partition("t")
    return partition.isr, partition.leader, partition.eligible_leader_replicas


def silence(script: ControllerScript, *alive: int) -> None:
    """Time passes until all others are fenced."""
    for _ in range(4):
        script.run(SESSION_MS // 3)
        for broker_id in alive:
            script.heartbeat(broker_id)


def come_back(script: ControllerScript, broker_id: int, previous_broker_epoch: int = -1, life: int = 2) -> None:
    script.register(broker_id, life=life, previous_broker_epoch=previous_broker_epoch)
    script.heartbeat(broker_id)


def test_a_new_cluster_keeps_elrs_and_has_one_min_insync_replicas_in_its_log() -> None:
    script = ControllerScript({MIN_ISR: "2"})
    assert script.image.keeps_elr
    assert script.image.config_of(BROKER_RESOURCE, "") == {MIN_ISR: "2"}
    assert ControllerScript().image.config_of(BROKER_RESOURCE, "") == {MIN_ISR: "1"}, "the default"


def test_a_cluster_that_is_formatted_without_elrs_has_no_setting_of_all_brokers() -> None:
    script = ControllerScript({MIN_ISR: "2"}, WITHOUT_ELR)
    assert not script.image.keeps_elr and not script.image.configs


@pytest.mark.parametrize(("is_clean", "state_after"), [(True, RECOVERED), (False, RECOVERING)])
def test_with_one_min_insync_replica_the_last_broker_leads_again_however_it_ended(
    is_clean: bool, state_after: int
) -> None:
    script = cluster(min_isr=1)
    silence(script, 1)
    assert state(script) == ((1,), 1, ())
    silence(script, 2)
    assert state(script) == ((), NOBODY, (1,)), "broker 2 lacks what broker 1 has acknowledged alone"
    come_back(script, 1, script.image.brokers[1].epoch if is_clean else -1)
    assert state(script) == ((1,), 1, ())
    assert script.partition("t").leader_recovery_state == state_after


def test_a_replica_that_leaves_a_large_isr_is_not_eligible_and_one_that_leaves_a_small_one_is() -> None:
    script = cluster()
    silence(script, 1)
    assert state(script) == ((1,), 1, (3,)), "broker 2 was fenced first: then there were two in sync still"


def test_the_last_leader_is_not_waited_for_if_an_eligible_replica_is_alive() -> None:
    script = cluster()
    silence(script, 1)
    come_back(script, 3, script.image.brokers[3].epoch)
    silence(script, 3)
    assert state(script) == ((3,), 3, (1,))


def test_an_elr_member_that_stopped_in_order_stays_eligible_and_one_that_did_not_leaves() -> None:
    script = cluster()
    silence(script, 1)
    assert not script.heartbeat(1, want_shut_down=True).should_shut_down
    assert state(script) == ((), NOBODY, (1, 3))
    assert script.partition("t").last_known_leader == (1,)
    silence(script)
    come_back(script, 2)
    assert state(script) == ((), NOBODY, (1, 3)), "it was not eligible"
    come_back(script, 3)
    assert state(script) == ((), NOBODY, (1,)), "its disk may have lost something"
    come_back(script, 1, script.image.brokers[1].epoch)
    assert state(script) == ((1,), 1, ())
    assert script.partition("t").last_known_leader == ()
    assert script.partition("t").leader_recovery_state == RECOVERED
    assert script.alter("t", [1, 2]).error_code == ErrorCode.NONE


def test_an_epoch_of_an_older_life_is_no_proof() -> None:
    script = cluster()
    silence(script, 1)
    old = script.image.brokers[3].epoch
    come_back(script, 3, old)
    assert state(script) == ((1,), 1, (3,))
    silence(script, 1)
    come_back(script, 3, old, life=3)
    assert state(script) == ((1,), 1, ())


def test_if_nobody_is_eligible_the_last_known_leader_leads_as_after_an_unclean_election() -> None:
    script = cluster()
    silence(script, 1)
    silence(script)
    for broker_id in (2, 3):
        come_back(script, broker_id)
        assert script.partition("t").leader == NOBODY
    come_back(script, 1)
    assert state(script) == ((1,), 1, ())
    assert script.partition("t").leader_recovery_state == RECOVERING


def test_a_broker_that_registers_before_its_session_is_noticed_to_be_over_is_not_in_sync() -> None:
    script = cluster(min_isr=3)
    script.run(SESSION_MS - 300)
    for other in (1, 3):
        script.heartbeat(other)
    script.now += 300
    script.register(2, life=2)
    assert state(script) == ((1, 3), 1, ()), "and, because it did not stop in order, it is not eligible"


def test_an_unclean_election_clears_the_elr() -> None:
    script = cluster()
    silence(script, 1)
    silence(script)
    come_back(script, 3)
    script.answered(script.controller.answer(elect(ElectionType.UNCLEAN, ("t", [0])), script.now))
    assert state(script) == ((3,), 3, ())
    assert script.partition("t").leader_recovery_state == RECOVERING


# --- min.insync.replicas ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("own", "isr", "elr"),
    [({}, [1], (2, 3)), ({MIN_ISR: "1"}, [1], ()), ({MIN_ISR: "3"}, [1, 2], (3,)), ({MIN_ISR: "9"}, [1, 2], (3,))],
)
def test_the_smallest_isr_is_that_of_the_topic_but_no_more_than_it_has_replicas(
    own: dict[str, str], isr: Sequence[int], elr: tuple[int, ...]
) -> None:
    script = cluster(topic=own)
    script.alter("t", isr)
    assert state(script) == (tuple(isr), 1, elr)


@pytest.mark.parametrize(
    ("kind", "name", "is_void"),
    [(TOPIC_RESOURCE, "t", True), (TOPIC_RESOURCE, "u", False), (BROKER_RESOURCE, "", True)],
)
def test_elrs_are_void_when_their_smallest_isr_changes(kind: int, name: str, is_void: bool) -> None:
    script = cluster()
    script.create(new_topic("u", assignment={0: [1, 2, 3]}))
    script.alter("t", [1])
    before = script.partition("t")
    script.configure(kind, name, {MIN_ISR: "1", "unclean.leader.election.enable": "false"})
    after = script.partition("t")
    assert after.eligible_leader_replicas == (() if is_void else (2, 3))
    assert after.partition_epoch == before.partition_epoch + is_void
    assert after.leader_epoch == before.leader_epoch
    assert script.loader.image.topics == script.image.topics


def test_another_setting_leaves_them_as_they_are() -> None:
    script = cluster()
    script.alter("t", [1])
    script.configure(TOPIC_RESOURCE, "t", {"retention.ms": "1"})
    assert state(script) == ((1,), 1, (2, 3))


@pytest.mark.parametrize(
    ("request_", "sentence"),
    [
        (change((BROKER_RESOURCE, "1", [(MIN_ISR, SET, "1")])), "one broker has no min.insync.replicas of its own"),
        (change((BROKER_RESOURCE, "1", [(MIN_ISR, DELETE, None)])), "one broker has no min.insync.replicas of its own"),
        (change((BROKER_RESOURCE, "", [(MIN_ISR, DELETE, None)])), "of all brokers must stay"),
        (replace_all((BROKER_RESOURCE, "", [("log.retention.ms", "1")])), "of all brokers must stay"),
    ],
)
def test_all_brokers_keep_the_same_min_insync_replicas(request_: IncrementalAlterConfigsRequest, sentence: str) -> None:
    script = cluster()
    (result,) = script.answered(script.controller.answer(request_, script.now)).responses
    assert result.error_code == ErrorCode.INVALID_CONFIG and sentence in result.error_message
    without = ControllerScript({MIN_ISR: "2"}, WITHOUT_ELR)
    without.bring_up(1)
    (result,) = without.answered(without.controller.answer(request_, without.now)).responses
    assert result.error_code == ErrorCode.NONE


def test_before_a_cluster_that_is_there_keeps_elrs_its_brokers_give_up_their_own_settings() -> None:
    script = ControllerScript({MIN_ISR: "2"}, WITHOUT_ELR)
    script.bring_up(1, 2)
    script.configure(BROKER_RESOURCE, "2", {MIN_ISR: "1"})
    script.create(new_topic("t", assignment={0: [1, 2]}))

    def written() -> list[tuple[str, str | None]]:
        records = [record for record, _ in safety_records(script.image, {MIN_ISR: "2"})]
        return [(each.resource_name, each.value) for each in records if isinstance(each, ConfigRecord)]

    assert written() == [("", "2"), ("2", None)]
    assert script.answered(script.controller.answer(update((ELR_VERSION, 1)), script.now)).error_code == ErrorCode.NONE
    assert script.image.keeps_elr and not written()
    assert script.image.configs == {ConfigResource(BROKER_RESOURCE, ""): {MIN_ISR: "2"}}
    script.alter("t", [1])
    assert state(script) == ((1,), 1, (2,))


def test_a_cluster_that_no_longer_keeps_elrs_forgets_those_that_it_has() -> None:
    script = cluster()
    script.alter("t", [1])
    script.answered(script.controller.answer(update((ELR_VERSION, 0, SAFE_DOWNGRADE)), script.now))
    assert state(script) == ((1,), 1, (2, 3)), "until the partition changes"
    script.alter("t", [1, 2])
    assert state(script) == ((1, 2), 1, ())
    silence(script)
    assert script.partition("t").leader == NOBODY and len(script.partition("t").isr) == 1, "it does not become empty"


@pytest.mark.parametrize(("is_clean", "expected"), [(True, ((1,), 1, ())), (False, ((), NOBODY, (2,)))])
def test_a_cluster_that_no_longer_keeps_elrs_still_elects_from_one_that_alone_tells_who_has_everything(
    is_clean: bool, expected: tuple[tuple[int, ...], int, tuple[int, ...]]
) -> None:
    script = cluster()
    script.alter("t", [1, 2])
    silence(script, 1)
    silence(script)
    assert state(script) == ((), NOBODY, (1, 2))
    assert script.update((ELR_VERSION, 0, SAFE_DOWNGRADE)) is ErrorCode.NONE
    come_back(script, 3)
    assert state(script) == ((), NOBODY, (1, 2)), "it was not eligible"
    come_back(script, 1, script.image.brokers[1].epoch if is_clean else -1)
    assert state(script) == expected
    come_back(script, 2, script.image.brokers[2].epoch)
    leader = 1 if is_clean else 2
    assert state(script) == ((leader,), leader, ())
    assert script.partition("t").leader_recovery_state == RECOVERED
    assert script.partition("t").last_known_leader == (), "who led last is known again"


def test_the_elr_is_in_what_a_snapshot_holds() -> None:
    script = cluster()
    silence(script, 1)
    silence(script)
    partition = script.partition("t")
    record = partition.to_record(ZERO_UUID, 0)
    assert PartitionRegistration.from_record(type(record).decode(record.to_bytes(2), 2)) == partition


def test_a_change_of_min_insync_replicas_and_what_voids_the_elrs_fit_into_one_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script = cluster()
    monkeypatch.setattr(configs, "MAX_RECORDS_PER_REQUEST", 1)
    with pytest.raises(KafkaError) as refused:
        script.configure(TOPIC_RESOURCE, "t", {MIN_ISR: "1"})
    assert refused.value.code is ErrorCode.POLICY_VIOLATION
    monkeypatch.setattr(configs, "MAX_RECORDS_PER_REQUEST", 2)
    script.configure(TOPIC_RESOURCE, "t", {MIN_ISR: "1"})
