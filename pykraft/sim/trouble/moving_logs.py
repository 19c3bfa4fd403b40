"""What is drawn for the seeds in which logs move: their starts, and what is between their starts and their ends.

Two topics are there besides. The log of one is shortened by retention and by DeleteRecords, the other one's is
compacted; an administrator changes now and then which of both it is. Segments take a few records, retention and the
cleaner look all the time, producers are forgotten after seconds. The logs of the coordinators are compacted, too, in
segments as small.

All of it is done with settings that Kafka has. Only what keeps a promise to a producer is not drawn so small: a log
remembers a producer for longer than this producer tries to deliver a batch, as it must be in Kafka.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from pykraft.sim.trouble.drawn import Drawn

MOVING_SEEDS, MOVING_PERIOD = range(6650, 6750), 12_800
"""Of each 12,800 seeds these have logs that move: half of them with groups beside it, as their draw is, half with a
bank."""

_DELIVERY_MS, _REQUEST_MS = 2_000, 800
_FORGET_MS = (4_000, 6_000)
"""A producer tries for `_DELIVERY_MS`, and a request of its may come twice; after this a log forgets it."""
_CLEANING = {
    "crash_cleaning": 1.5,
    "crash_within_step": 0.5,
    "crash_leader": 0.4,
    "crash": 0.4,
    "power_loss": 0.15,
    "partition": 0.4,
    "stall": 0.3,
}
"""Trouble that all these histories have."""
_ELSE = 0.2
"""How likely each kind of trouble is that the seed has besides."""
FOREVER = 1 << 60


@dataclass(frozen=True)
class MovingLogKnobs:
    """The draw of a seed in which logs move. Times are milliseconds."""

    partitions: int
    keys: int
    """So many keys each partition has, at most."""
    shortened: Mapping[str, object]
    """Settings of the topic that begins with ``cleanup.policy=delete``."""
    compacted: Mapping[str, object]
    internal: Mapping[str, object]
    """Settings that the administrator gives the topics of the coordinators."""
    write_every_ms: int
    rest_ms: int
    """For so long a producer writes nothing, now and then: perhaps longer than a log remembers it."""
    tombstones: float
    every_ms: int
    """How often the administrator deletes records, or changes a policy."""
    policy_changes: float
    """How often it is the policy that is changed."""
    read_again_ms: int
    """How often a reader begins again at the log's start."""


def draw_moving_logs(seed: int) -> MovingLogKnobs | None:
    if seed % MOVING_PERIOD not in MOVING_SEEDS:
        return None
    random = Random(f"moving logs {seed}")
    return MovingLogKnobs(
        partitions=random.choice((1, 1, 2)),
        keys=random.choice((2, 5, 20)),
        shortened=_topic(random) | {"cleanup.policy": "delete"},
        compacted=_topic(random) | {"cleanup.policy": "compact"},
        internal={
            "internal.segment.bytes": random.choice((3_000, 6_000)),
            "segment.ms": random.choice((300, 1_000, FOREVER)),
        },
        write_every_ms=random.choice((10, 30, 60)),
        rest_ms=random.choice((500, 7_000)),
        tombstones=random.choice((0.1, 0.4)),
        every_ms=random.choice((100, 300)),
        policy_changes=random.choice((0.0, 0.3, 0.6)),
        read_again_ms=random.choice((300, 1_500)),
    )


def _topic(random: Random) -> dict[str, object]:
    return {
        "min.insync.replicas": 2,
        "internal.segment.bytes": random.choice((500, 1_500, 4_000)),
        "segment.ms": random.choice((200, 1_000, FOREVER)),
        "index.interval.bytes": random.choice((0, 100)),
        "retention.ms": random.choice((300, 1_500, FOREVER)),
        "retention.bytes": random.choice((-1, 2_000, 8_000)),
        "min.cleanable.dirty.ratio": random.choice((0.01, 0.01, 0.5)),
        "min.compaction.lag.ms": random.choice((0, 0, 300)),
        "delete.retention.ms": random.choice((0, 200, 1_000)),
        "file.delete.delay.ms": random.choice((0, 100, 60_000)),
    }


def moving_properties(seed: int, brokers: int, has_bank: bool) -> dict[str, int | float]:
    """Of each node."""
    random = Random(f"moving properties {seed}")
    coordination = {
        "offsets.topic.num.partitions": 1,
        "offsets.topic.replication.factor": min(3, brokers),
        "transaction.state.log.num.partitions": 1,
        "transaction.state.log.replication.factor": min(3, brokers),
        "transaction.state.log.min.isr": random.choice((1, 2)),
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": 100,
        "request.timeout.ms": 500,
        "transactional.id.expiration.ms": random.choice((600, 1_500)),
        "transaction.remove.expired.transaction.cleanup.interval.ms": 100,
    }
    return {
        **({} if has_bank else coordination),
        "log.initial.task.delay.ms": random.choice((0, 100)),
        "log.retention.check.interval.ms": random.choice((30, 200)),
        "log.cleaner.backoff.ms": random.choice((5, 50)),
        "log.cleaner.min.cleanable.ratio": 0.01,
        "log.cleaner.delete.retention.ms": random.choice((0, 200, 1_000)),
        "log.cleaner.io.max.bytes.per.second": random.choice((20_000, 100_000, 1e300)),
        "producer.id.expiration.ms": random.choice(_FORGET_MS),
        "producer.id.expiration.check.interval.ms": random.choice((100, 1_000)),
    }


def moving_changes(seed: int, knobs: Drawn, moving: MovingLogKnobs) -> dict[str, Any]:
    """What the draw of such a seed has instead of what it would have otherwise: less of all else."""
    others = {kind: _ELSE for kind in knobs.faults if kind != "crash_coordinator"}
    coordinators = {kind: weight for kind, weight in knobs.faults.items() if kind == "crash_coordinator"}
    return {
        "partitions": 1,
        "properties": {
            **knobs.properties,
            **moving_properties(seed, knobs.brokers, knobs.transactions is not None),
            "replica.fetch.wait.max.ms": 100,
            "replica.fetch.max.bytes": 1 << 20,
            "replica.fetch.response.max.bytes": 10 << 20,
        },
        "producers": tuple(map(impatient, knobs.producers[:1])),
        "records_per_s": 20,
        "faults": {**others, **_CLEANING, **coordinators},
        "ghost": 0.0,
        "clock_skew_ms": Random(f"clocks {seed}").choice((0, 10)),
        "background_us": Random(f"background {seed}").choice((100, 5_000, 50_000)),
        "brokers": min(3, knobs.brokers),
        "storm_from_ms": 1_000,
        "storm_until_ms": 8_000,
        "fault_every_ms": Random(f"pace {seed}").choice((100, 200, 400)),
        "restart_ms": Random(f"restarts {seed}").choice(((0, 100), (300, 2_500), (1_000, 3_000))),
        "admin_every_ms": 0,
        "level_changes": 0.0,
        "features": {},
        "transactions": _small(knobs.transactions),
        "moving": moving,
    }


def _small(bank: Any) -> Any:
    """A bank of one teller and one copier, whose producers are as impatient as the others."""
    return None if bank is None else replace(bank, tellers=1, copiers=1, producer=impatient(bank.producer))


def impatient(settings: Mapping[str, object]) -> dict[str, object]:
    """These settings of a producer, with a delivery that is over before a log forgets the producer."""
    return {**settings, "request.timeout.ms": _REQUEST_MS, "delivery.timeout.ms": _DELIVERY_MS}


def producer_settings(random: Random) -> dict[str, object]:
    """Of a producer that writes to the two topics."""
    return {
        "batch.size": random.choice((1, 300, 2_000)),
        "linger.ms": random.choice((0, 5, 50)),
        "compression.type": random.choice(("none", "none", "lz4")),
        "max.in.flight.requests.per.connection": random.choice((1, 5)),
        "request.timeout.ms": random.choice((300, 800)),
        "delivery.timeout.ms": _DELIVERY_MS,
        "retry.backoff.ms": random.choice((5, 100)),
        "metadata.max.age.ms": random.choice((1_000, 300_000)),
    }


def transaction_settings(random: Random) -> dict[str, object]:
    """Of one that writes in transactions, besides."""
    return {**producer_settings(random), "transaction.timeout.ms": random.choice((300, 1_000))}
