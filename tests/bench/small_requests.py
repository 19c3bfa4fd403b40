"""Small requests: what one request costs a broker, beside a server that does nothing but send back what came.

ApiVersions is answered from memory; a Produce of one record of 100 bytes goes through everything that a large one goes
through. Each is sent one at a time, and ten at a time on ten connections. The load is written in C; both take one core.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.bench import raw
from tests.bench.load_generator import NO_COMPILER, LoadGenerator, load_generator
from tests.bench.rows import Row, beside, progress
from tests.bench.sides import APACHE, OURS, Side, fresh_topic, leaders, sides, warm_up, why_without_apache

SECONDS = 1.0
ROUNDS = 5
WARM_UP_S = 6.0
UNIT = "requests/s"
RECORD_BYTES = 100
LOADS = {"one at a time": (1, 1), "10 at a time on 10 connections": (10, 10)}
"""Requests under way on a connection, and connections."""

Load = Callable[[Side], float]


def measure() -> list[Row]:
    with load_generator() as generator:
        if generator is None:
            return [
                row
                for how in LOADS
                for row in (
                    Row(f"ApiVersions, {how}", UNIT, None, raw.ECHO, None, note=NO_COMPILER),
                    Row(f"ApiVersions, {how}", UNIT, None, APACHE, None, note=NO_COMPILER),
                    Row(f"Produce of 100 B, {how}", UNIT, None, APACHE, None, note=NO_COMPILER),
                )
            ]
        with sides(nodes=1) as both, raw.other_side("echo") as port:
            return _measured(generator, both, Side(raw.ECHO, f"{raw.HOST}:{port}"))


def _measured(generator: LoadGenerator, both: list[Side], echo: Side) -> list[Row]:
    rows: list[Row] = []
    missing = why_without_apache()
    for how, (depth, connections) in LOADS.items():

        def versions(side: Side, depth: int = depth, connections: int = connections) -> float:
            return generator.versions(SECONDS, depth, [side.bootstrap_servers] * connections).requests_per_second

        def produce(side: Side, depth: int = depth, connections: int = connections) -> float:
            with fresh_topic(side) as topic:
                targets = leaders(side, topic) * connections
                return generator.produce(
                    SECONDS, depth, topic, targets, acks=-1, records=1, record_bytes=RECORD_BYTES
                ).requests_per_second

        name = f"ApiVersions, {how}"
        runs = in_turn([*both, echo], versions)
        progress(f"{name}: {runs[OURS][-1]:,.0f} requests/s")
        rows.append(beside(name, UNIT, runs[OURS], raw.ECHO, runs[raw.ECHO]))
        rows.append(beside(name, UNIT, runs[OURS], APACHE, runs.get(APACHE, ()), note=missing))
        runs = in_turn(both, produce)
        rows.append(beside(f"Produce of 100 B, {how}", UNIT, runs[OURS], APACHE, runs.get(APACHE, ()), note=missing))
    return rows


def in_turn(sides: list[Side], load: Load) -> dict[str, list[float]]:
    """The figures of each side; every round asks all of them."""
    for side in sides:
        warm_up(side, load, WARM_UP_S)
    runs: dict[str, list[float]] = {side.name: [] for side in sides}
    for _ in range(ROUNDS):
        for side in sides:
            runs[side.name].append(load(side))
    return runs
