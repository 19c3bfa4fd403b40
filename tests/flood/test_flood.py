"""No flood of requests holds up a node's other clients, or makes it grow.

Requests filled to the decoder's limits, made from the declarations, go to a node with much state; see `judge` for the
laws. A sample is tried in each run, and judged by the CPU time of the node's longest turn, so that a busy machine does
not fail it. With ``--long`` everything is tried on full state, with long names, too, and is judged by the clock.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pykraft.protocol.api import ListenerKind
from pykraft.protocol.messages.cluster import DescribeClusterRequest
from tests.flood.generator import MOST
from tests.flood.judge import TITLE, Bench, Row, bench
from tests.flood.order import floods, sample
from tests.flood.prepared import FULL, SMALL
from tests.flood.scenes import QUICK, SCENES
from tests.flood.watched_node import PLANTED

EVERY = 7
"""A sample has one array in so many."""
MODERATE = 1000
PATIENCE_S, PLANTED_PATIENCE_S = 60.0, 3.0
_FOUND = {
    "a turn of 300 ms": "turn of 3",
    "300 MiB more": "growth of",
    "an exception in a handler": "fault",
    "no answer": "no answer",
    "the end": "has died",
}


@pytest.fixture(scope="module")
def node() -> Iterator[Bench]:
    with bench(SMALL) as made:
        yield made


def assert_lawful(rows: list[Row], by_clock: bool) -> None:
    """AssertionError with a table of those that broke a law."""
    assert rows
    bad = [f"{row}\n{'':>12}{'; '.join(broken)}" for row in rows if (broken := row.broken(by_clock))]
    assert not bad, "\n".join(["", TITLE, *bad])


@pytest.mark.limit(300)
def test_a_sample_of_floods_breaks_no_law(node: Bench) -> None:
    assert_lawful([node.flood(flood) for flood in sample(EVERY)], by_clock=False)


@pytest.mark.limit(300)
def test_small_requests_that_ask_for_much_break_no_law(node: Bench) -> None:
    rows = [scene(node)._replace(name=name) for name, scene in SCENES.items() if name.startswith(QUICK)]
    assert_lawful(rows, by_clock=False)


@pytest.mark.limit(300)
@pytest.mark.survives_faults
@pytest.mark.parametrize(
    "mistake",
    [pytest.param(name, marks=[pytest.mark.long] if name in ("no answer", "the end") else []) for name in PLANTED],
)
def test_a_node_that_makes_a_mistake_is_found(node: Bench, mistake: str) -> None:
    node.patience_s = PLANTED_PATIENCE_S
    try:
        row = node.measure(mistake, DescribeClusterRequest(), 2, 0, client_id=mistake)
    finally:
        node.patience_s = PATIENCE_S
    assert any(_FOUND[mistake] in found for found in row.broken(by_clock=False)), row
    assert not node.measure("nothing", DescribeClusterRequest(), 2, 0).broken(by_clock=False)


@pytest.mark.long
@pytest.mark.limit(3600)
def test_no_flood_breaks_a_law() -> None:
    with bench(FULL) as full:
        rows = [scene(full)._replace(name=name) for name, scene in SCENES.items()]
        rows += [full.flood(flood) for flood in floods(ListenerKind, [MODERATE, MOST])]
    assert_lawful(rows, by_clock=True)
