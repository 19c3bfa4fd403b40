"""Each planted bug dies of a broken law in one of the hundred histories, with no script of its own.

A short run goes through one recorded history of each bug, but for those that die late. A long one searches all hundred,
from the recorded one on.
"""

from __future__ import annotations

import pytest

from pykraft.common.types import OffsetAndEpoch
from pykraft.metadata.acls import AclIndex
from pykraft.raft.log.replicated_log import ReplicatedLog
from pykraft.sim.bugs import groups, limits, quorum, replication, tables, transactions
from pykraft.sim.bugs.planting import Bug, bugs, planted, planted_now, put
from pykraft.sim.bugs.recorded import PARTS, RECORDED
from pykraft.sim.laws.names import LAWS
from tests.sim.floors import check_recorded
from tests.sim.histories import SEEDS, in_processes
from tests.sim.planted import LATE, Death, first_death

MODULES = [module.__name__ for module in (groups, limits, quorum, replication, tables, transactions)]
"""The other modules' bugs are looked for where their kind of history is tested."""
HERE = [bug for bug in bugs().values() if bug.module in MODULES]
MOST_LETTERS = 150


def search(found: list[Bug], is_long: bool) -> dict[Bug, Death | None]:
    """By bug: how the first history that finds it fails; None if there is none."""
    work = []
    for bug in found:
        first = bug.seed % len(SEEDS)
        seeds = range(bug.seed - first, bug.seed - first + len(SEEDS))
        work.append((bug.name, [*seeds[first:], *seeds[:first]] if is_long else [bug.seed]))
    return dict(zip(found, in_processes(first_death, work), strict=True))


@pytest.fixture(scope="module")
def deaths(request: pytest.FixtureRequest) -> dict[Bug, Death | None]:
    is_long = request.config.getoption("--long")
    return search([bug for bug in HERE if is_long or bug.name not in LATE], is_long)


@pytest.mark.limit(900)
@pytest.mark.parametrize(
    "bug", [pytest.param(bug, id=bug.name, marks=[pytest.mark.long] * (bug.name in LATE)) for bug in HERE]
)
def test_a_planted_bug_dies_in_its_recorded_history(bug: Bug, deaths: dict[Bug, Death | None]) -> None:
    check_recorded({bug: deaths[bug]})


# --- the table --------------------------------------------------------------------------------------------------------


def test_a_part_a_law_and_a_seed_are_recorded_for_each_bug() -> None:
    assert RECORDED.keys() == bugs().keys()
    assert {bug.part for bug in bugs().values()} == PARTS.keys(), "each part has a bug"
    assert all(bug.law in LAWS for bug in bugs().values())
    assert all(bug.law != "Sleeping Rooms" for bug in bugs().values()), "first_death leaves out the audit"
    assert len(bugs()) >= 40


def test_the_law_that_a_late_bug_breaks_is_broken_by_another_bug_in_every_run() -> None:
    in_long_runs = {f"pykraft.sim.bugs.{name}" for name in ("answers", "directories", "disks", "sides", "work")}
    early = [bug for bug in bugs().values() if bug.module not in in_long_runs and bug.name not in LATE]
    assert bugs().keys() >= LATE
    assert {bugs()[name].law for name in LATE} <= {bug.law for bug in early}


def test_each_bug_is_told_in_one_sentence() -> None:
    for bug in bugs().values():
        assert bug.sentence.endswith(".") and ". " not in bug.sentence and len(bug.sentence) < MOST_LETTERS, bug


# --- planting ---------------------------------------------------------------------------------------------------------


def test_a_bug_is_there_while_it_is_planted_and_gone_after() -> None:
    before = vars(ReplicatedLog)["is_up_to_date"]
    with planted("a_vote_for_a_stale_log") as bug:
        assert (bug.law, planted_now()) == ("Leader Completeness", (bug.name,))
        assert ReplicatedLog.is_up_to_date(object(), OffsetAndEpoch(0, 0))  # type: ignore[arg-type]
    assert vars(ReplicatedLog)["is_up_to_date"] is before
    assert planted_now() == ()


def test_bugs_are_taken_out_in_the_reverse_order_also_after_an_error() -> None:
    remove, add = AclIndex._remove, AclIndex._add
    with pytest.raises(ZeroDivisionError), planted("a_denial_that_does_not_go_first"):
        with planted("a_rule_that_is_removed_and_still_counts"):
            assert len(planted_now()) == 2
        assert AclIndex._remove is not remove
        raise ZeroDivisionError
    assert (AclIndex._remove, AclIndex._add) == (remove, add)


def test_only_what_is_there_can_be_replaced() -> None:
    with pytest.raises(AttributeError):
        put(AclIndex, "no_such_method", None)
    with pytest.raises(KeyError):
        planted("no_such_bug").__enter__()
