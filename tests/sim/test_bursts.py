"""Bursts in simulated histories: clients that do not wait for their answers, nodes that find several requests at once,
and a seed that cuts the bursts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from pykraft.sim.trouble.knobs import SLICE_SEEDS, Knobs, calm, draw
from pykraft.sim.world.hosts import SimulatedNode, SimulatedStream
from pykraft.sim.world.slices import SeededBursts
from pykraft.simulation import Simulation
from pykraft.transport.pace import MAX_BURST_REQUESTS
from tests.unit.transport.test_server_connection import correlation_ids

SEED = 901
STEPS = 3_000
HASTY = {
    "batch.size": 1,
    "linger.ms": 0,
    "max.in.flight.requests.per.connection": 5,
}
"""A producer that sends each record by itself, and does not wait."""
BOLD = {**HASTY, "max.in.flight.requests.per.connection": 20}
"""One that numbers nothing, and so may have more under way."""


def hasty() -> Knobs:
    """Three producers of a topic without followers, and a node that is busy up to 15 ms when something comes."""
    knobs = calm(draw(SEED))
    topic = {**knobs.topic, "min.insync.replicas": 1}
    busy = {"records_per_s": 1000, "busy_us": 15_000, "slice_ends": 0.05}
    one = {"brokers": 1, "controllers": 0, "topic": topic, "groups": ()}
    return replace(knobs, **one, producers=(BOLD, HASTY, HASTY), has_plain_producer=True, **busy)


class Watch:
    """What each connection has sent, and how many answers were held at the end of a node's turn."""

    def __init__(self) -> None:
        self.sends: dict[SimulatedStream, list[list[int]]] = {}
        self.bursts: Counter[int] = Counter()
        """How many sends had so many answers."""
        self.held = 0

    def begin(self, patch: pytest.MonkeyPatch) -> None:
        send, poll = SimulatedStream.send, SimulatedNode._poll

        def note(stream: SimulatedStream, parts: Sequence[Any]) -> None:
            ids = correlation_ids(b"".join(parts))
            self.bursts[len(ids)] += 1
            self.sends.setdefault(stream, []).append(ids)
            send(stream, parts)

        def look(node: SimulatedNode, now: int) -> int:
            deadline = poll(node, now)
            self.held += sum(len(stream.connection._held) for stream in self.sends)
            return deadline

        patch.setattr(SimulatedStream, "send", note)
        patch.setattr(SimulatedNode, "_poll", look)


@pytest.fixture(scope="module")
def watch() -> Iterator[Watch]:
    watch = Watch()
    with pytest.MonkeyPatch.context() as patch:
        watch.begin(patch)
        Simulation(SEED, hasty()).at(STEPS)
        yield watch


def test_a_seed_draws_bursts_of_one_request_to_eight() -> None:
    bursts = SeededBursts(Random(1), 500)
    assert {bursts.requests() for _ in range(200)} == set(range(1, MAX_BURST_REQUESTS + 1))
    busy = [bursts.busy_us() for _ in range(200)]
    assert min(busy) < 50 and 450 < max(busy) <= 500
    assert not SeededBursts(Random(1), 0).busy_us()


def test_of_the_seeds_those_that_interrupt_requests_find_bursts_of_them() -> None:
    assert all(draw(seed).busy_us for seed in SLICE_SEEDS) and not any(draw(seed).busy_us for seed in range(100))


def test_a_history_has_bursts_of_every_length_and_no_longer_ones(watch: Watch) -> None:
    assert sorted(watch.bursts) == list(range(1, MAX_BURST_REQUESTS + 1)), watch.bursts


def test_each_client_gets_its_answers_in_the_order_of_its_requests(watch: Watch) -> None:
    for sends in watch.sends.values():
        sent = [number for ids in sends for number in ids]
        assert all(earlier < later for earlier, later in pairwise(sent)), sent


def test_no_answer_is_held_beyond_a_nodes_turn(watch: Watch) -> None:
    assert watch.held == 0
