"""What is drawn for clients: producers, consumers, and groups of them.

Batches are from one record to all that there are, timeouts are shorter and longer than what befalls the brokers, and
members of a group come and go: so each client meets its limits in some seed.
"""

from dataclasses import dataclass
from random import Random

CLASSIC = "classic"
CONSUMER = "consumer"
GROUPS = {CLASSIC: ("g", 0.36), CONSUMER: ("consumers", 0.36)}
"""By group protocol, the group's id, and how many of the seeds have such a group. Some have both."""


@dataclass(frozen=True)
class GroupKnobs:
    """The draw of one group. Times are milliseconds."""

    protocol: str
    group_id: str
    members: int
    static_members: int
    """So many of them have a group.instance.id."""
    settings: dict[str, object]
    """Of each member."""
    commits: str
    """How they commit: auto, sync or async."""
    event_every_ms: int
    restart_ms: tuple[int, int]
    replaced: float
    """How often another host comes where a member was."""
    crash_coordinator: float
    """How likely the coordinator's node crashes, compared to the other kinds of trouble."""
    properties: dict[str, int]
    """Of each node."""
    session_ms: int
    """Without a heartbeat for this long a member is removed."""
    crashes_at_end: bool
    """At the end of the storm a member and its coordinator's node crash together."""


def producer_settings(random: Random) -> dict[str, object]:
    return {
        "batch.size": random.choice((1, 300, 16_384)),
        "linger.ms": random.choice((0, 5, 50)),
        "compression.type": random.choice(("none", "none", "lz4")),
        "max.in.flight.requests.per.connection": random.choice((1, 2, 5)),
        "request.timeout.ms": random.choice((300, 800, 2000)),
        "delivery.timeout.ms": random.choice((4_000, 120_000)),
        "retry.backoff.ms": random.choice((5, 100)),
        "metadata.max.age.ms": random.choice((1_000, 300_000)),
    }


def consumer_settings(random: Random) -> dict[str, object]:
    return {
        "auto.offset.reset": "earliest",
        "fetch.max.wait.ms": random.choice((20, 500)),
        "max.partition.fetch.bytes": random.choice((1, 2_000, 1 << 20)),
        "request.timeout.ms": random.choice((500, 2000)),
        "retry.backoff.ms": random.choice((5, 100)),
        "isolation.level": random.choice(("read_uncommitted", "read_committed")),
    }


def draw_groups(seed: int, brokers: int) -> tuple[GroupKnobs, ...]:
    dice = {CLASSIC: Random(f"groups {seed}"), CONSUMER: Random(f"consumer groups {seed}")}
    return tuple(
        draw_group(dice[protocol], brokers, protocol) for protocol in GROUPS if _has_group(dice[protocol], protocol)
    )


def _has_group(random: Random, protocol: str) -> bool:
    return random.random() < GROUPS[protocol][1]


def draw_group(random: Random, brokers: int, protocol: str) -> GroupKnobs:
    members = random.randint(2, 4)
    session = random.choice((300, 600, 1500))
    heartbeat = session // random.choice((2, 3, 6))
    commits = random.choice(("auto", "auto", "sync", "async"))
    return GroupKnobs(
        protocol=protocol,
        group_id=GROUPS[protocol][0],
        members=members,
        static_members=random.choice((0, 0, 1, members)),
        settings={
            **consumer_settings(random),
            "group.protocol": random.choice((protocol,)),
            # A member hears of a rebalance by its heartbeat: with less time than that, no rebalance would have all.
            "max.poll.interval.ms": heartbeat + random.choice((400, 1000, 3000)),
            "max.partition.fetch.bytes": random.choice((1_000, 1 << 20)),
            "max.poll.records": random.choice((10, 500)),
            "default.api.timeout.ms": random.choice((500, 2000, 10_000)),
            "enable.auto.commit": commits == "auto",
            "auto.commit.interval.ms": random.choice((20, 100, 700)),
            "metadata.max.age.ms": random.choice((1_000, 300_000)),
            **(_classic if protocol == CLASSIC else _modern)(random, session, heartbeat),
        },
        commits=commits,
        event_every_ms=random.choice((300, 700, 1500)),
        restart_ms=random.choice(((0, 100), (50, 1000))),
        replaced=random.choice((0.2, 0.5, 0.9)),
        crash_coordinator=random.choice((0.2, 1.0, 3.0)),
        properties={
            "offsets.topic.num.partitions": random.choice((1, 2)),
            "offsets.topic.replication.factor": min(3, brokers),
            "offsets.commit.timeout.ms": random.choice((50, 500, 5000)),
            "group.min.session.timeout.ms": 100,
            "group.initial.rebalance.delay.ms": random.choice((0, 50, 500)),
            "min.insync.replicas": random.choice((1, 2)),
            "group.consumer.min.session.timeout.ms": 100,
            "group.consumer.min.heartbeat.interval.ms": 10,
            **(_times(session, heartbeat) if protocol == CONSUMER else {}),
        },
        session_ms=session,
        crashes_at_end=random.random() < 0.3,
    )


def _classic(random: Random, session: int, heartbeat: int) -> dict[str, object]:
    """What a classic member chooses itself."""
    strategies = (
        "range",
        "roundrobin",
        "sticky",
        "cooperative-sticky",
        "cooperative-sticky",
        "range,cooperative-sticky",
    )
    return {
        "session.timeout.ms": session,
        "heartbeat.interval.ms": heartbeat,
        "partition.assignment.strategy": random.choice(strategies),
    }


def _modern(random: Random, session: int, heartbeat: int) -> dict[str, object]:
    """What is left to choose for a member of a consumer group."""
    return {"group.remote.assignor": random.choice((None, "uniform", "range"))}


def _times(session: int, heartbeat: int) -> dict[str, int]:
    """The broker chooses the times of consumer groups."""
    return {"group.consumer.session.timeout.ms": session, "group.consumer.heartbeat.interval.ms": heartbeat}


def group_faults(groups: tuple[GroupKnobs, ...]) -> dict[str, float]:
    return {"crash_coordinator": max(group.crash_coordinator for group in groups)} if groups else {}
