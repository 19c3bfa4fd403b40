"""What is drawn for the seeds in which names are used again, and in which answers are late by seconds.

An answer that is late by a moment finds its asker waiting. One that is late by seconds finds that the topic, the group
or the assignment that it was about has gone, and that another one has its name. So these two go together.
"""

from dataclasses import dataclass
from random import Random

RECREATION_SEEDS, RECREATION_PERIOD = range(3200, 3300), 6400
"""Of each 6,400 seeds these have a topic that is deleted and made again under its name, and brokers' answers that are
late by seconds."""


LATE_SEEDS, LATE_PERIOD = range(3250, 3350), 6400
"""Of each 6,400 seeds these have brokers' answers to clients that are late by seconds: half of them with names that are
used again, half with a bank."""


@dataclass(frozen=True)
class RecreationKnobs:
    """The draw of a seed in which names are used again."""

    every_ms: int
    """How long the topic is there, on average."""
    write_every_ms: int
    partitions: int
    late: float
    """How often a broker's answer to another broker is late by seconds."""
    held: float
    """Of how many topics a follower hears when there is the next one."""
    late_commit_ms: int
    """How late a group's member sends some of its commits."""


def draw_recreations(seed: int) -> RecreationKnobs | None:
    if seed % RECREATION_PERIOD not in RECREATION_SEEDS:
        return None
    random = Random(f"recreations {seed}")
    return RecreationKnobs(
        every_ms=random.choice((50, 150, 300)),
        write_every_ms=random.choice((10, 30)),
        partitions=random.randint(1, 2),
        late=random.choice((0.0, 0.02, 0.1)),
        held=random.choice((0.3, 0.6)),
        late_commit_ms=random.choice((100, 500)),
    )


def draw_late_to_clients(seed: int) -> float:
    return Random(f"late to clients {seed}").choice((0.002, 0.01, 0.03)) if seed % LATE_PERIOD in LATE_SEEDS else 0.0


def recreation_properties(seed: int, brokers: int, recreations: RecreationKnobs | None) -> dict[str, int]:
    """A follower waits for an answer that is late, and stays in sync meanwhile."""
    if recreations is None:
        return {}
    lag_ms = Random(f"late answers {seed}").choice((1_000, 5_000))
    return {"replica.socket.timeout.ms": 10_000, "replica.lag.time.max.ms": lag_ms, **_coordination(brokers)}


def _coordination(brokers: int) -> dict[str, int]:
    """Where there is no group but the one that is deleted and made again."""
    return {
        "offsets.topic.num.partitions": 1,
        "offsets.topic.replication.factor": min(3, brokers),
        "offsets.commit.timeout.ms": 500,
        "group.min.session.timeout.ms": 100,
        "group.initial.rebalance.delay.ms": 0,
        "group.consumer.min.session.timeout.ms": 100,
        "group.consumer.session.timeout.ms": 1_000,
        "group.consumer.min.heartbeat.interval.ms": 10,
        "group.consumer.heartbeat.interval.ms": 300,
    }
