"""What is left out of a history is not there, the rest of its trouble comes as before, and a line names it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import pytest

from pykraft.sim.bugs.planting import bugs, planted, put, put_back
from pykraft.sim.cluster import SimulatedCluster
from pykraft.sim.search.shrinker import Failure, Shrinker, runner
from pykraft.sim.trouble.knobs import draw
from pykraft.sim.trouble.omissions import NOTHING, Omissions
from pykraft.sim.world.mishaps import AGAIN, LATE, SILENT, Mishap
from pykraft.simulation import Simulation
from pykraft.storage.producer_state import ProducerEntry
from pykraft.story.explanation import explain
from pykraft.story.history_names import read_name, scene_name

CUT = "a_follower_cut_to_its_high_watermark"
SEED = bugs()[CUT].seed
STORMY, STEPS = 93, 500
"""A history whose weather is bad from the beginning, and its steps before the first fault."""
LOST = 49
"""A history in which a producer sends a batch again, since one message of a follower was lost."""
LOST_NAME = (
    "seed-49,no-clock_skew_ms,no-consumer-0,no-consumer-1,no-producer-0,until-730,"
    "no-weather,silent-node-3-to-node-1-89-0"
)


@cache
def begun(omitted: Omissions) -> SimulatedCluster:
    """The beginning of the stormy history."""
    cluster = SimulatedCluster(STORMY, replace(draw(STORMY), omitted=omitted))
    cluster.begin()
    while cluster.scheduler.steps < STEPS:
        cluster.step()
    return cluster


@pytest.fixture
def takes_every_sequence() -> Iterator[None]:
    """Planted: a broker appends what a producer sends again, and looks at no sequence number."""
    with put_back():
        put(ProducerEntry, "duplicate_of", lambda self, batch: None)
        put(ProducerEntry, "_check_sequence", lambda self, batch: None)
        yield


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


def test_the_beginning_is_the_same_where_all_that_befalls_its_messages_is_named() -> None:
    whole = begun(NOTHING)
    named = frozenset(whole.network.mishaps.came)
    assert {mishap.kind for mishap in named} == {LATE, AGAIN}
    assert begun(Omissions(messages=named)).trace == whole.trace


def test_a_member_that_is_left_out_does_not_begin_and_the_others_do() -> None:
    whole, less = begun(NOTHING), begun(Omissions(clients=frozenset({"classic-member-1"})))
    assert less.clients_that_began == tuple(name for name in whole.clients_that_began if name != "classic-member-1")
    assert "classic-member-1" in whole.clients_that_began


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
    late = Mishap(LATE, "node-1", "teller-0.1", 37, 50_233)
    clients = frozenset({"producer-0", "teller-0.2"})
    omitted = Omissions(frozenset({"crash", "ghost"}), frozenset({3}), clients, 1_000, frozenset({late}))
    knobs = replace(draw(7), omitted=omitted)
    name = scene_name(7, knobs)
    history = read_name(name)
    assert history is not None and history.knobs == knobs
    assert Simulation(7, replace(knobs, omitted=replace(omitted, faults=frozenset()))).origin.endswith(
        "seed 7 · no-crash · no-ghost · no-producer-0 · no-teller-0~2 · until-1000 "
        "· no-weather · late-node-1-to-teller-0~1-37-50233"
    )


@pytest.mark.long
@pytest.mark.limit(900)
def test_a_history_is_shrunk_to_one_crash_and_one_producer() -> None:
    with planted(CUT):
        shrinker = Shrinker(runner(SEED, draw(SEED)), NOTHING)
        list(shrinker.shrink())
    assert shrinker.failure.faults == ((1, "crash"),)
    assert shrinker.failure.clients == ("admin", "producer-0")


@pytest.mark.costly
@pytest.mark.usefixtures("takes_every_sequence")
def test_the_line_of_a_history_with_one_lost_message_replays_it_and_tells_of_it() -> None:
    history = read_name(LOST_NAME)
    assert history is not None
    lines, is_sound = explain(LOST, history.knobs)
    told = "\n".join(lines)
    assert not is_sound and "It breaks the law Producer Order" in told
    assert "message omission: one Fetch response from node 3 to node 1 is lost, and its connection is silent" in told
    assert f"/{LOST_NAME}/{LOST}" in told


@pytest.mark.long
@pytest.mark.limit(900)
@pytest.mark.usefixtures("takes_every_sequence")
def test_a_history_is_shrunk_to_one_lost_message_of_which_none_can_be_left_out() -> None:
    run = runner(LOST, draw(LOST))
    shrinker = Shrinker(run, NOTHING)
    whole = shrinker.failure
    list(shrinker.shrink())
    small, omitted = shrinker.failure, shrinker.omitted
    assert (len(whole.messages), len(small.messages), small.messages[0].kind) == (8, 1, SILENT)
    assert (whole.law, whole.law) == (small.law, "Producer Order")
    assert (len(whole.clients), len(small.clients)) == (6, 3) and not small.faults and not small.kinds
    history = read_name(LOST_NAME)
    assert history is not None and history.knobs.omitted == omitted
    for less in without_one(small, omitted):
        found = run(less)
        assert found is None or found.law != small.law, less


def without_one(small: Failure, omitted: Omissions) -> Iterator[Omissions]:
    """The same without one of the things that are left in it."""
    assert omitted.messages is not None
    yield from (replace(omitted, clients=omitted.clients | {name}) for name in small.clients)
    yield from (replace(omitted, messages=omitted.messages - {message}) for message in small.messages)
    yield from (replace(omitted, faults=omitted.faults | {number}) for number, _ in small.faults)
    yield from (replace(omitted, kinds=omitted.kinds | {kind}) for kind in small.kinds)
