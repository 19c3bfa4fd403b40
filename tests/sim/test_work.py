"""Histories in which work takes time: turns are short, a busy broker is not fenced, and a node holds no more than its
clients have open. No law is broken, and each planted bug breaks one."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from pykraft.common.time_slice import SLICE_US
from pykraft.protocol.messages.groups import DescribeGroupsRequest
from pykraft.sim.bugs import work
from pykraft.sim.bugs.planting import Bug, bugs
from pykraft.sim.trouble.knobs import draw
from pykraft.sim.trouble.work import WORK_SEEDS
from pykraft.sim.world.disk import MemoryFileSystem
from pykraft.sim.world.scheduler import Scheduler
from pykraft.sim.world.work import COSTS_US, WorkMeter, WorkSlice, elements
from tests.sim.floors import Floors, check_deaths, check_recorded, hold_floors
from tests.sim.histories import in_processes
from tests.sim.planted import first_death

FLOORS = Floors(
    short=WORK_SEEDS[:1],
    long=WORK_SEEDS,
    short_floors={"burdens": 10},
    long_floors={"burdens": 2_000, "long_turns": 2_000, "acknowledged": 20_000, "crashes": 60},
)
EARLY = [
    bugs()[name]
    for name in (
        "a_request_that_is_never_interrupted",
        "a_session_table_without_an_end",
    )
]
"""They die in the first thousand events, and cost little."""


@pytest.mark.long
@pytest.mark.limit(3600)
def test_no_law_is_broken_though_work_takes_time(request: pytest.FixtureRequest) -> None:
    hold_floors(FLOORS, request)


@pytest.mark.long
@pytest.mark.limit(1800)
def test_each_planted_bug_dies_in_its_recorded_history(request: pytest.FixtureRequest) -> None:
    check_deaths(work, WORK_SEEDS, request)


def test_what_costs_too_much_time_or_memory_dies_early() -> None:
    deaths = in_processes(first_death, [(each.name, [each.seed]) for each in EARLY])
    check_recorded(dict[Bug, object](zip(EARLY, deaths, strict=True)))  # type: ignore[arg-type]


def test_the_seeds_have_slow_machines_many_clients_and_quiet_histories() -> None:
    knobs = [draw(seed).work for seed in WORK_SEEDS]
    found = [each for each in knobs if each is not None]
    assert len(found) == len(WORK_SEEDS)
    assert {each.slowness for each in found} == {1, 2, 4}
    quiet = sum(each.is_quiet for each in found)
    assert 30 < quiet < 70
    assert all(not draw(seed).faults for seed, each in zip(WORK_SEEDS, found, strict=True) if each.is_quiet)
    assert draw(WORK_SEEDS.start - 1).work is None and draw(WORK_SEEDS.stop).work is None


# --- the meter --------------------------------------------------------------------------------------------------------


class Metered:
    """A meter with a disk and a clock of its own."""

    def __init__(self, slowness: int = 1) -> None:
        self.scheduler = Scheduler()
        self.disk = MemoryFileSystem()
        self.meter = WorkMeter(self.scheduler, self.disk, slowness)
        self.turns: list[tuple[int, Counter[str]]] = []
        self.meter.on_turn = lambda spent_us, done: self.turns.append((spent_us, Counter(done)))
        self.meter.begin_turn()


def test_a_node_is_busy_for_as_long_as_its_turn_has_cost() -> None:
    metered = Metered(slowness=2)
    metered.meter.add("request", 3)
    metered.disk.make_directory("/data")
    metered.meter.end_turn()
    ((spent_us, done),) = metered.turns
    assert (done["request"], done["turn"]) == (3, 1) and done["change"] > 0
    assert spent_us == 2 * (3 * COSTS_US["request"] + COSTS_US["turn"] + done["change"] * COSTS_US["change"])
    assert metered.meter.is_busy and metered.meter.busy_until_us == spent_us
    metered.scheduler.skip(spent_us)
    assert not metered.meter.is_busy and metered.meter.spent_us == 0


def test_a_slice_ends_by_the_work_that_was_done_in_it() -> None:
    metered = Metered()
    time_slice = WorkSlice(metered.meter)
    time_slice.begin()
    steps = 1
    while not time_slice.is_over():
        steps += 1
    assert steps == SLICE_US / COSTS_US["step"]
    time_slice.begin()
    assert not time_slice.is_over() and not time_slice.is_long(steps=10)


def test_the_elements_of_a_message_are_those_of_all_its_lists() -> None:
    count = Random(1).randint(5, 50)
    assert elements(DescribeGroupsRequest(groups=["g"] * count)) == count
