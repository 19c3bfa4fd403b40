"""Histories whose transactions are those of members of a consumer group, while another group reads what is committed:
no law is broken, and each planted bug breaks one. So it is with cuts that part the clients, and with cascades."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from pykraft.common.types import TopicPartition
from pykraft.sim.bugs import sides
from pykraft.sim.laws.committed_group_laws import CommittedConsumerGroupLaws
from pykraft.sim.laws.invariants import Violation
from pykraft.sim.laws.names import law_of
from pykraft.sim.laws.transaction_laws import Ledger, Outcome
from pykraft.sim.trouble.knobs import draw
from pykraft.sim.trouble.one_sided import ONE_SIDED, ONE_SIDED_SEEDS
from pykraft.sim.trouble.transaction_members import TRANSACTION_MEMBER_SEEDS
from tests.sim.floors import Floors, check_deaths, hold_floors

MEMBERS = Floors(
    short=TRANSACTION_MEMBER_SEEDS[:1],
    long=TRANSACTION_MEMBER_SEEDS,
    short_floors={"member_commits": 5, "committed": 20},
    long_floors={"member_commits": 1_500, "member_commits_refused": 500, "committed": 3_000, "elections": 100},
)
SIDES = Floors(
    short=ONE_SIDED_SEEDS[:1],
    long=ONE_SIDED_SEEDS,
    short_floors={"client_cuts": 1},
    long_floors={"client_cuts": 150, "falls": 80, "truncations": 80, "acknowledged": 20_000},
)


@pytest.mark.long
@pytest.mark.limit(3600)
@pytest.mark.parametrize("floors", [MEMBERS, SIDES], ids=["members of transactions", "one side"])
def test_no_law_is_broken(floors: Floors, request: pytest.FixtureRequest) -> None:
    hold_floors(floors, request)


@pytest.mark.long
@pytest.mark.limit(1800)
def test_each_planted_bug_dies_in_its_recorded_history(request: pytest.FixtureRequest) -> None:
    check_deaths(sides, (*TRANSACTION_MEMBER_SEEDS, *ONE_SIDED_SEEDS), request)


def test_the_seeds_have_members_of_both_kinds_and_every_kind_of_cut() -> None:
    members = [draw(seed) for seed in TRANSACTION_MEMBER_SEEDS]
    assert all(each.transactions is not None and each.transactions.has_consumer_group for each in members)
    assert {group.protocol for each in members for group in each.groups} == {"classic", "consumer"}
    assert all(group.settings["isolation.level"] == "read_committed" for each in members for group in each.groups)
    kinds = Counter(kind for seed in ONE_SIDED_SEEDS for kind in draw(seed).faults)
    assert all(kinds[kind] > 30 for kind in ONE_SIDED), kinds


# --- what the laws say ------------------------------------------------------------------------------------------------

PLACE = TopicPartition("bank", 0)


class Reading:
    """A group that reads one partition: a record of each transfer that is named, and a marker after it."""

    def __init__(self, *outcomes: Outcome) -> None:
        self.ledger = Ledger()
        self.values: list[bytes | None] = []
        for number, outcome in enumerate(outcomes):
            transfer = self.ledger.begin(f"teller-{number}")
            self.values += [self.ledger.write(transfer, 0), b"a marker"]
            transfer.outcome = outcome
        self.laws = CommittedConsumerGroupLaws("readers", False, lambda _: "bank")
        self.laws.ledger = lambda: self.ledger
        history: Any = SimpleNamespace(values=self.values)
        self.laws.history = lambda _: history

    def read(self, offset: int) -> None:
        self.laws.read(PLACE, offset)


def test_a_group_may_pass_over_markers_and_aborted_records_and_no_committed_one() -> None:
    group = Reading(Outcome.COMMITTED, Outcome.ABORTED, Outcome.COMMITTED, Outcome.COMMITTED)
    group.read(0)
    group.read(4)
    group.laws.check_passed()
    with pytest.raises(Violation, match=r"goes on at 7, and has not read .* at 6") as found:
        group.laws._pass_over(PLACE, 7)
    assert law_of(found.value) == "No Record Skipped"


def test_a_group_is_not_shown_an_aborted_record() -> None:
    with pytest.raises(Violation, match="its transfer is aborted") as found:
        Reading(Outcome.ABORTED).read(0)
    assert law_of(found.value) == "Atomic Reads"


def test_a_record_whose_end_was_unknown_when_it_was_passed_must_not_be_read_by_others() -> None:
    group = Reading(Outcome.UNKNOWN, Outcome.COMMITTED)
    group.read(2)
    group.laws.check_passed()
    group.ledger.read(PLACE, group.values[0] or b"")
    with pytest.raises(Violation, match="the bank's reader has"):
        group.laws.check_passed()
