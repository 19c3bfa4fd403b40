"""What is left out of a history is not there, the rest of its trouble comes as before, and a line names it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pykraft.sim.bugs.planting import bugs, planted
from pykraft.sim.search.shrinker import Shrinker, runner
from pykraft.sim.trouble.knobs import draw
from pykraft.sim.trouble.omissions import NOTHING, Omissions
from pykraft.simulation import Simulation
from pykraft.story.history_names import read_name, scene_name

CUT = "a_follower_cut_to_its_high_watermark"
SEED = bugs()[CUT].seed


def test_a_history_without_a_fault_and_a_client_has_the_others_as_before() -> None:
    with planted(CUT):
        run = runner(SEED, draw(SEED))
        whole = run(NOTHING)
        assert whole is not None
        assert whole.faults == ((1, "crash"), (2, "stall")) and "consumer-0" in whole.clients
        less = run(Omissions(faults=frozenset({2}), clients=frozenset({"consumer-0"})))
    assert less is not None and less.law == whole.law == bugs()[CUT].law
    assert less.faults == ((1, "crash"),)
    assert less.clients == tuple(name for name in whole.clients if name != "consumer-0")


@pytest.mark.long
def test_a_masked_fault_leaves_all_the_others_their_kinds_and_times() -> None:
    """The seed has a loss of power, after which no others come for a while: nor do they if it is left out."""
    omitted = Omissions(faults=frozenset({2}), kinds=frozenset({"crash_controller"}))
    simulation = Simulation(81, replace(draw(81), omitted=omitted))
    while not simulation.cluster.is_storm_over:
        simulation.cluster.step()
    faults = simulation.cluster.faults
    assert [strike.kind for strike in faults.before] == [
        *("clog", "power_loss", "", "", "crash_controller", "clog", "crash_controller")
    ]
    assert [strike.kind for strike in faults.strikes] == ["clog", "", "", "", "", "clog", ""]
    assert [strike.now_ms for strike in faults.strikes] == [strike.now_ms for strike in faults.before]


def test_what_is_left_out_is_in_the_name_and_the_origin_of_a_history() -> None:
    omitted = Omissions(frozenset({"crash", "ghost"}), frozenset({3}), frozenset({"producer-0"}), 1_000)
    knobs = replace(draw(7), omitted=omitted)
    name = scene_name(7, knobs)
    history = read_name(name)
    assert history is not None and history.knobs == knobs
    assert Simulation(7, replace(knobs, omitted=replace(omitted, faults=frozenset()))).origin.endswith(
        "seed 7 · no-crash · no-ghost · no-producer-0 · until-1000"
    )


@pytest.mark.long
@pytest.mark.limit(900)
def test_a_history_is_shrunk_to_one_crash_and_one_producer() -> None:
    with planted(CUT):
        shrinker = Shrinker(runner(SEED, draw(SEED)), NOTHING)
        list(shrinker.shrink())
    assert shrinker.failure.faults == ((1, "crash"),)
    assert shrinker.failure.clients == ("admin", "producer-0")
