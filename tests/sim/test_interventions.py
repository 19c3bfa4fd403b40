"""What a person does to a simulated cluster happens in the next step, stays until it is undone, and breaks no law."""

from __future__ import annotations

import pytest

from pykraft.sim.cluster import SimulatedCluster
from pykraft.sim.interventions import Cut, Delay, Deliver, Drop, Heal, Impossible, Kill, Restart
from pykraft.sim.world.network import InFlight
from pykraft.sim.world.scheduler import US_PER_MS

SEED = 7
"""Three brokers that are controllers, too."""
BUSY = 1_000


@pytest.fixture
def cluster() -> SimulatedCluster:
    return begun()


def begun() -> SimulatedCluster:
    cluster = SimulatedCluster(SEED)
    cluster.begin()
    run(cluster, BUSY)
    return cluster


def run(cluster: SimulatedCluster, steps: int) -> None:
    for _ in range(steps):
        cluster.step()


def run_ms(cluster: SimulatedCluster, milliseconds: int) -> None:
    until = cluster.scheduler.now + milliseconds
    while cluster.scheduler.now < until:
        cluster.step()


def message(cluster: SimulatedCluster) -> InFlight:
    """One that is on its way, the last that will arrive."""
    while not (found := [f for f in cluster.network.in_flight() if f.piece.data and f.due_us is not None]):
        cluster.step()
    return max(found, key=lambda flight: flight.due_us or 0)


def numbers(cluster: SimulatedCluster) -> list[int]:
    return [flight.piece.number for flight in cluster.network.in_flight()]


def test_a_killed_node_stays_down_until_it_is_restarted(cluster: SimulatedCluster) -> None:
    steps, now = cluster.scheduler.steps, cluster.scheduler.now_us
    cluster.intervene(Kill(2))
    assert (cluster.scheduler.steps, cluster.scheduler.now_us) == (steps + 1, now)
    run_ms(cluster, 8_000)
    assert not cluster.nodes[2].is_up
    assert not cluster.describe(2).is_alive
    assert cluster.describe(2).partitions, "it is shown as it was last seen"
    cluster.intervene(Restart(2))
    while not cluster.is_settled:
        cluster.step()
    assert cluster.nodes[2].is_up


def test_a_node_can_be_killed_before_its_first_start() -> None:
    cluster = SimulatedCluster(SEED)
    cluster.begin()
    cluster.intervene(Kill(1))
    run(cluster, BUSY)
    assert cluster.nodes[1].life == 0
    assert not cluster.describe(1).is_alive


def test_a_link_that_was_cut_stays_cut_also_after_the_storm(cluster: SimulatedCluster) -> None:
    cluster.intervene(Cut(1, 2))
    run_ms(cluster, 8_000)
    assert cluster.network.cut_links == {("node-1", "node-2"), ("node-2", "node-1")}
    assert not cluster.is_settled
    cluster.intervene(Heal(2, 1))
    while not cluster.is_settled:
        cluster.step()
    assert not cluster.network.cut_links


def test_a_delivered_message_arrives_at_once_and_those_before_it_on_its_connection(cluster: SimulatedCluster) -> None:
    flight = message(cluster)
    before = [piece.number for piece in flight.end.arrivals if piece.number <= flight.piece.number]
    now = cluster.scheduler.now_us
    cluster.intervene(Deliver(flight.piece.number))
    assert cluster.scheduler.now_us == now
    assert not set(before) & set(numbers(cluster))
    run(cluster, 200)


def test_a_delayed_message_arrives_that_much_later(cluster: SimulatedCluster) -> None:
    flight = message(cluster)
    number = flight.piece.number
    assert flight.due_us is not None
    cluster.intervene(Delay(number, 40))
    due = flight.due_us + 40 * US_PER_MS
    assert next(f.due_us for f in cluster.network.in_flight() if f.piece.number == number) == due
    while cluster.network.last_delivered is None or cluster.network.last_delivered.piece.number != number:
        assert cluster.scheduler.now_us <= due
        cluster.step()
    assert cluster.scheduler.now_us == due


def test_a_dropped_message_never_arrives(cluster: SimulatedCluster) -> None:
    flight = message(cluster)
    lost = {piece.number for piece in flight.end.arrivals}
    cluster.intervene(Drop(flight.piece.number))
    assert not lost & set(numbers(cluster))
    for _ in range(1_000):
        cluster.step()
        delivered = cluster.network.last_delivered
        assert delivered is None or delivered.piece.number not in lost


def test_the_same_interventions_give_the_same_history() -> None:
    digests = set()
    for _ in range(2):
        cluster = begun()
        cluster.intervene(Drop(message(cluster).piece.number))
        for act in (Kill(1), Cut(2, 3), Heal(2, 3), Restart(1)):
            cluster.intervene(act)
            run(cluster, 200)
        digests.add(cluster.report().digest)
    assert len(digests) == 1


@pytest.mark.parametrize(
    ("act", "why"),
    [
        (Kill(9), "there is no node 9; there are 1, 2, 3"),
        (Restart(1), "node 1 runs: kill it first"),
        (Cut(1, 1), "node 1 cannot be cut off from itself"),
        (Cut(1, "nobody"), "there is no client 'nobody'"),
        (Heal(1, 2), "are not cut apart"),
        (Deliver(1), "message 1 is not on its way"),
        (Delay(1, 0), "a delay of 0 ms: it is 1 ms to"),
    ],
)
def test_what_cannot_be_done_changes_nothing_and_says_why(cluster: SimulatedCluster, act: object, why: str) -> None:
    steps, trace = cluster.scheduler.steps, len(cluster.trace)
    with pytest.raises(Impossible, match=why):
        cluster.intervene(act)  # type: ignore[arg-type]
    assert (cluster.scheduler.steps, len(cluster.trace)) == (steps, trace)


def test_over_a_cut_link_nothing_is_delivered_by_hand(cluster: SimulatedCluster) -> None:
    while not (found := [f for f in cluster.network.in_flight() if f.piece.data and f.link == ("node-1", "node-2")]):
        cluster.step()
    cluster.intervene(Cut(1, 2))
    with pytest.raises(Impossible, match="the link from node-1 to node-2 is cut: heal it first"):
        cluster.intervene(Deliver(found[0].piece.number))
    run_ms(cluster, 10)
    held = next(f for f in cluster.network.in_flight() if f.piece.number == found[0].piece.number)
    assert held.due_us is None
    cluster.intervene(Drop(found[0].piece.number))
