"""When a history has ended, the nodes are asked what they hold, each fence is tried, and the metadata log is read a
second time; and what it seldom comes to is supposed. Some short histories end soundly; then each mistake is made in
them, and named. In long runs each bug dies in a whole history.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import replace

import pytest

from pykraft.common.types import OffsetAndEpoch, Uuid
from pykraft.metadata.image import ConfigResource
from pykraft.sim.bugs import answers, seldom
from pykraft.sim.bugs.planting import bugs, planted
from pykraft.sim.cluster import SimulatedCluster
from pykraft.sim.laws.held_laws import HeldLaws
from pykraft.sim.laws.invariants import Violation
from pykraft.sim.laws.names import LAWS, law_of
from pykraft.sim.laws.plain_metadata import check_plainly
from pykraft.sim.laws.replay_laws import check_epochs
from pykraft.sim.laws.supposed_logs import _check_prefixes, _check_producer_snapshot
from pykraft.sim.report import SimulationFailed
from pykraft.sim.trouble.knobs import draw
from pykraft.sim.world.disk import MemoryFileSystem
from pykraft.storage.producer_state import ProducerEntry, ProducerStateManager
from tests.sim.floors import check_deaths

GROUPS, BANK, SNAPSHOTS, ELECTIONS = 0, 114, 200, 401
"""A history with consumer groups, one with a bank whose transactions raise the epoch, one whose metadata log begins
later and later, and one that is short."""
STORM_MS = 500
END = {
    "a_timestamp_that_is_looked_for_behind_itself": GROUPS,
    "settings_that_outlive_their_topic": GROUPS,
    "offsets_that_are_deleted_while_members_read_on": GROUPS,
    "a_commit_acknowledged_after_an_abort": BANK,
    "a_marker_of_the_coordinator_before": BANK,
    **dict.fromkeys(
        (
            "a_deleted_topic_that_a_snapshot_does_not_tell",
            "a_setting_that_a_snapshot_does_not_tell",
            "a_last_known_leader_that_a_snapshot_forgets",
            "a_reassignment_cancelled_without_any_original_in_sync",
            "a_leader_whose_directory_is_offline",
            "a_truncation_to_the_high_watermark_that_is_refused",
            "voters_that_outlive_their_record",
            "a_commit_before_a_record_of_its_epoch",
            "a_producer_that_expires_within_its_transaction",
            "a_snapshot_of_producers_without_their_coordinators",
            "an_aborted_list_that_stops_at_its_own_marker",
            "a_log_start_that_is_no_news",
            "a_lost_answer_taken_for_a_refusal",
            "a_directory_that_is_told_once",
        ),
        ELECTIONS,
    ),
    "a_late_transaction_that_undoes_a_commit": GROUPS,
    "a_pending_offset_that_outlives_its_topic": GROUPS,
    "a_static_member_that_comes_again_with_nothing": GROUPS,
    "a_revocation_without_an_end": GROUPS,
    "a_new_topic_that_no_pattern_meets": GROUPS,
    "a_generation_that_an_empty_group_forgets": BANK,
    "a_cleaner_that_begins_within_an_aborted_transaction": BANK,
    "a_log_that_begins_in_another_epoch_and_passes": SNAPSHOTS,
}
"""Bugs that the end of any history of that kind finds."""


@pytest.fixture(scope="module")
def settled() -> Callable[[int], SimulatedCluster]:
    """The cluster of a history that has ended soundly, after a short storm; one for all tests."""
    known: dict[int, SimulatedCluster] = {}

    def run(seed: int) -> SimulatedCluster:
        if seed not in known:
            known[seed] = SimulatedCluster(seed, replace(draw(seed), storm_until_ms=STORM_MS))
            known[seed].run()
        return known[seed]

    return run


@pytest.mark.parametrize("name", END)
def test_the_end_of_a_history_finds_what_no_client_of_it_meets(
    name: str, settled: Callable[[int], SimulatedCluster]
) -> None:
    cluster = settled(END[name])
    cluster._check_end()
    with planted(name) as bug, pytest.raises(Violation) as failure:
        cluster._check_end()
    assert law_of(failure.value) == bug.law in LAWS


def test_a_copy_that_is_not_truncated_with_its_log_is_found() -> None:
    """A broker looks up what to do at a truncation when it begins: so this mistake is there from then on."""
    with planted("a_copy_that_its_log_leaves_behind") as bug, pytest.raises(SimulationFailed) as failure:
        SimulatedCluster(ELECTIONS, replace(draw(ELECTIONS), storm_until_ms=STORM_MS)).run()
    assert failure.value.law == bug.law


def test_the_image_is_held_against_a_second_reading_of_the_log(settled: Callable[[int], SimulatedCluster]) -> None:
    cluster = settled(GROUPS)
    node = cluster.nodes[1].node
    assert node is not None
    image, batches = node.loader.image, list(cluster.watcher.metadata.all_batches())
    check_plainly(image, batches)
    left = {ConfigResource(2, "deleted"): {"retention.ms": "1"}}
    for wrong in (
        replace(image, configs={**image.configs, **left}),
        replace(image, topic_ids={}, topics={}),
        replace(image, next_producer_id=image.next_producer_id + 1),
        replace(image, brokers={key: replace(each, fenced=not each.fenced) for key, each in image.brokers.items()}),
    ):
        with pytest.raises(Violation):
            check_plainly(wrong, batches)


def test_a_replica_that_is_not_in_the_image_is_found(settled: Callable[[int], SimulatedCluster]) -> None:
    machine = settled(GROUPS).nodes[1]
    HeldLaws().look(machine)
    assert machine.node is not None and machine.node.broker is not None
    partition = next(iter(machine.node.broker.replicas.partitions.values()))
    known = partition.key
    partition.key = known._replace(topic_id=Uuid(bytes(16)))
    try:
        with pytest.raises(Violation, match="the metadata give it no such replica"):
            HeldLaws().look(machine)
    finally:
        partition.key = known


def test_an_epoch_without_a_record_is_found_in_a_truncated_log(settled: Callable[[int], SimulatedCluster]) -> None:
    machine = settled(GROUPS).nodes[1]
    assert machine.node is not None and machine.node.broker is not None
    log = next(each.log for each in machine.node.broker.replicas.partitions.values() if each.log.log_end_offset)
    known = list(log.epochs.entries)
    ends = [*(entry.start_offset for entry in known[1:]), log.log_end_offset]
    epochs = [entry.epoch for entry in known]
    check_epochs("a log", log, ends, epochs)
    with pytest.raises(Violation, match="knows the epochs"):
        check_epochs("a log", log, ends[:-1], epochs[:-1])


def test_a_leader_whose_only_snapshot_is_of_a_later_epoch_may_send_it_to_a_log_that_it_could_judge(
    settled: Callable[[int], SimulatedCluster],
) -> None:
    node = settled(GROUPS).nodes[1].node
    assert node is not None
    log = copy(node.raft.replica.log)
    log._ids = [OffsetAndEpoch(log.end_offset, log.epochs[-1].epoch + 1)]
    _check_prefixes("a log", log)


def test_a_producer_may_have_the_highest_coordinator_epoch_that_there_is() -> None:
    state = ProducerStateManager(MemoryFileSystem(), "", 1 << 62)
    state.producers[7] = ProducerEntry(7, 0, (), coordinator_epoch=(1 << 31) - 1)
    _check_producer_snapshot("a log", state)


def test_a_group_in_a_partition_where_nobody_looks_for_it_breaks_no_law(
    settled: Callable[[int], SimulatedCluster],
) -> None:
    cluster = settled(GROUPS)
    coordinators = [each.node.broker.groups for each in cluster.nodes.values() if each.node and each.node.broker]
    shards = [(each, number) for each in coordinators for number in each.runtime.active_partitions()]
    coordinator, number = next(each for each in shards if each[0].runtime.active(each[1]).groups)
    groups = coordinator.runtime.active(number).groups
    name = next(each for each in map(str, range(99)) if coordinator.partition_of(each) != number)
    groups[name] = next(iter(groups.values()))
    try:
        cluster.watcher.questions.check(cluster.nodes)
    finally:
        del groups[name]


@pytest.mark.long
@pytest.mark.limit(900)
def test_each_bug_dies_in_a_whole_history(request: pytest.FixtureRequest) -> None:
    check_deaths(answers, range(100, 120), request)
    check_deaths(seldom, range(400, 420), request)


def test_each_bug_of_the_end_is_one_that_is_recorded() -> None:
    recorded = {each.name for each in bugs().values() if each.module in (answers.__name__, seldom.__name__)}
    assert END.keys() <= recorded
