"""What is drawn for the seeds in which strangers send requests: clients that are not ours.

They speak the protocol as it is declared, every API in every version, on both kinds of listeners
(`sim.foreign.client`). Some have all rights. Others have none, so the nodes have an authorizer. Beside them
there is a cluster with groups, or a bank, with less of all else, so that there is time for the strangers.

No request of a stranger comes twice, and no connection breaks: then a connection that a node closes is the node's own
doing, and the law can ask why. Links are cut and clogged, nodes and disks fail as ever.
"""

from dataclasses import dataclass, replace
from random import Random
from typing import Any

from pykraft.sim.trouble.drawn import Drawn

FOREIGN_SEEDS, FOREIGN_PERIOD = range(8050, 8150), 12_800
"""Of each 12,800 seeds these have strangers: the first half with the groups of their draw, the second with a bank."""

_LONGEST_STORM_MS = 4_000
_COORDINATORS = 1.0
"""How likely the node of a coordinator crashes: only a coordinator that loads reads what a stranger has written."""
_SEGMENT_BYTES = 1 << 20
"""Of the metadata log: a segment must hold what one request of a stranger makes, whatever it is."""


@dataclass(frozen=True)
class ForeignKnobs:
    """The draw of a seed with strangers. Times are milliseconds."""

    with_rights: int
    without_rights: int
    """So many strangers may do everything, and so many may do nothing."""
    every_ms: int
    """From one request of a stranger to its next, at most."""
    patience_ms: int
    """A stranger hangs up if an answer takes longer."""
    at_once: int
    """So many requests a stranger sends before it waits for their answers, at most."""
    edges: float
    """How often a field has a value at the edge of its type."""
    records: float
    """How often a stranger with rights writes to the coordinators' topics."""


def draw_foreigners(seed: int) -> ForeignKnobs | None:
    if seed % FOREIGN_PERIOD not in FOREIGN_SEEDS:
        return None
    random = Random(f"foreigners {seed}")
    return ForeignKnobs(
        with_rights=random.choice((1, 2, 2)),
        without_rights=random.choice((1, 1, 2)),
        every_ms=random.choice((3, 10, 20)),
        patience_ms=random.choice((100, 1_000, 4_000)),
        at_once=random.choice((1, 1, 4)),
        edges=random.choice((0.05, 0.2, 0.5)),
        records=random.choice((0.05, 0.2)),
    )


def foreign_changes(knobs: Drawn, foreign: ForeignKnobs) -> dict[str, Any]:
    """What the draw of such a seed has instead of what it would have otherwise."""
    faults = dict(knobs.faults)
    if "crash_coordinator" in faults:
        faults["crash_coordinator"] = _COORDINATORS
    return {
        "brokers": min(3, knobs.brokers),
        "partitions": min(2, knobs.partitions),
        "producers": knobs.producers[:1],
        "consumers": knobs.consumers[:1],
        "records_per_s": 20,
        "properties": {**knobs.properties, **_properties(min(3, knobs.brokers))},
        "faults": faults,
        "ghost": 0.0,
        "breaks": 0.0,
        "storm_until_ms": min(_LONGEST_STORM_MS, knobs.storm_until_ms),
        "transactions": _small(knobs.transactions),
        "foreign": foreign,
    }


def _small(bank: Any) -> Any:
    """A bank of one teller and one copier."""
    return None if bank is None else replace(bank, tellers=1, copiers=1)


def _properties(replicas: int) -> dict[str, int]:
    """Of each node: the coordinators' topics are small, and take members that have little time."""
    return {
        "internal.metadata.log.segment.bytes": _SEGMENT_BYTES,
        "offsets.topic.num.partitions": 2,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.num.partitions": 2,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": 1,
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": 100,
        "group.min.session.timeout.ms": 100,
        "group.initial.rebalance.delay.ms": 50,
        "group.consumer.min.session.timeout.ms": 100,
        "group.consumer.session.timeout.ms": 600,
        "group.consumer.min.heartbeat.interval.ms": 10,
        "group.consumer.heartbeat.interval.ms": 100,
        "request.timeout.ms": 1_000,
    }
