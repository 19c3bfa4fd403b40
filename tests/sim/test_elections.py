"""Histories with elections of all kinds, ordered and held, most of them with eligible leader replicas: no law is
broken, and each planted bug breaks one."""

from __future__ import annotations

from typing import Any

import pytest

from pykraft.common.errors import ConfigError
from pykraft.common.types import ZERO_UUID, OffsetAndEpoch, TopicIdPartition
from pykraft.metadata.image import MetadataImage, PartitionRegistration, TopicImage
from pykraft.metadata.versions import ELR_VERSION
from pykraft.protocol.messages.brokers import RECOVERING
from pykraft.sim.bugs import elections
from pykraft.sim.laws.election_laws import ElectionLaws, check_elr
from pykraft.sim.laws.invariants import PartitionHistory, ReplicaLog, Violation
from pykraft.sim.trouble.elections import ELECTION_SEEDS
from pykraft.simulation import Simulation
from tests.sim.floors import Floors, check_deaths, hold_floors

FLOORS = Floors(
    short=(404, 408, 426),
    long=ELECTION_SEEDS,
    short_floors={"preferred_elections": 2, "last_known_elections": 1, "elr_elections": 1},
    long_floors={"preferred_elections": 25, "unclean_elections": 2, "last_known_elections": 5, "elr_elections": 15},
)


@pytest.mark.limit(3600)
def test_no_law_is_broken_and_leaders_are_elected_in_every_way(request: pytest.FixtureRequest) -> None:
    hold_floors(FLOORS, request)


@pytest.mark.limit(900)
def test_each_planted_bug_dies_in_its_recorded_history(request: pytest.FixtureRequest) -> None:
    check_deaths(elections, ELECTION_SEEDS, request)


# --- the laws themselves ----------------------------------------------------------------------------------------------

KEY = TopicIdPartition(ZERO_UUID, "t", 0)


def image(offset: int, **fields: Any) -> MetadataImage:
    """A topic with one partition on brokers 1 and 2."""
    partition = {"isr": (1,), "leader": 1, "leader_epoch": offset, "partition_epoch": offset} | fields
    registration = PartitionRegistration(replicas=(1, 2), directories=(ZERO_UUID,) * 2, **partition)
    return MetadataImage(
        provenance=OffsetAndEpoch(offset, 1),
        features={ELR_VERSION: 1},
        topics={ZERO_UUID: TopicImage("t", ZERO_UUID, {0: registration})},
    )


def test_what_was_acknowledged_may_be_gone_only_after_an_unclean_election() -> None:
    history = PartitionHistory(KEY)
    laws = ElectionLaws(lambda key: history)
    laws.note(1, image(1, isr=(1, 2)))
    laws.note(1, image(2, isr=(), leader=-1, eligible_leader_replicas=(1, 2)))
    laws.note(2, image(3, isr=(2,), leader=2, eligible_leader_replicas=(1,)))
    with pytest.raises(Violation, match="offset 0 was acknowledged, but only 0 records are committed"):
        history.acknowledge(0, b"lost")
    laws.note(2, image(4, leader=-1))
    laws.note(2, image(5, isr=(1,), leader=1, leader_recovery_state=RECOVERING))
    history.acknowledge(0, b"lost")
    assert (laws.eligible, laws.unclean, laws.preferred) == (1, 1, 0)
    laws.note(2, image(6, isr=(1, 2), leader=2))
    laws.note(2, image(7, isr=(1, 2), leader=1))
    assert laws.preferred == 1


@pytest.mark.parametrize(("lossy", "is_lost"), [((), False), ((2,), False), ((1,), True)])
def test_the_last_known_leader_loses_only_what_its_disk_has_lost(lossy: tuple[int, ...], is_lost: bool) -> None:
    history = PartitionHistory(KEY)
    laws = ElectionLaws(lambda key: history, lossy)
    laws.note(1, image(1, isr=(), leader=-1, last_known_leader=(1,)))
    laws.note(1, image(2, isr=(1,), leader=1, leader_recovery_state=RECOVERING))
    laws.note(1, image(3, isr=(), leader=-1, leader_recovery_state=RECOVERING, last_known_leader=(1,)))
    laws.note(1, image(4, isr=(1,), leader=1, leader_recovery_state=RECOVERING))
    laws.note(2, image(2, isr=(1,), leader=1, leader_recovery_state=RECOVERING))
    assert history.is_lost == is_lost
    laws.note(1, image(5, isr=(2,), leader=2, leader_recovery_state=RECOVERING))
    assert history.is_lost, "broker 2 was not the last leader"
    assert (laws.last_known, laws.unclean) == (2, 1)


def test_a_member_of_the_elr_has_everything_that_is_committed() -> None:
    history = PartitionHistory(KEY)
    full, empty = ReplicaLog("of broker 1"), ReplicaLog("of broker 2")
    full.ends, full.epochs, full.hashes = [3], [0], [b"hash"]
    history.log.ends, history.log.hashes = [3], [b"hash"]
    eligible = image(1, isr=(), leader=-1, eligible_leader_replicas=(1, 2))
    check_elr(eligible, {KEY: history}, lambda broker, key: {1: full}.get(broker))
    check_elr(image(1), {KEY: history}, lambda broker, key: empty)
    with pytest.raises(Violation, match=r"broker 2 is eligible to lead, and its log ends at 0; committed .* up to 3"):
        check_elr(eligible, {KEY: history}, lambda broker, key: {1: full, 2: empty}.get(broker))
    history.is_lost = True
    check_elr(eligible, {KEY: history}, lambda broker, key: empty)


def test_a_simulated_cluster_has_the_features_that_it_is_given() -> None:
    run = Simulation(1, is_calm=True, features={ELR_VERSION: 1})
    nodes = run.at(1500).nodes.values()
    assert any(machine.node is not None and machine.node.loader.image.keeps_elr for machine in nodes)
    with pytest.raises(ConfigError, match=r"eligible\.leader\.replicas\.version must be 0 to 1"):
        Simulation(1, features={ELR_VERSION: 2})
