"""What is drawn for the seeds whose groups have trouble of their own: rights, members and topics come and go.

Two kinds of group read topics of their own: a consumer group (KIP-848), and in half of the seeds a classic one. A group
subscribes by name, by a pattern that its clients match, or by a pattern that its coordinator matches. Topics that match
come and go, and the topic that stays gets more partitions.

Members lose what they need to stay. Rules of access take a group's or a topic's rights away for a moment. A second
process begins with the instance id of a static member. An administrator expels members. Some members ask for an
assignor or a pattern that the coordinator refuses. Listeners are slow and heartbeats are frequent, so all of this meets
members in each of their states.

A classic group has no static members here. A static leader that comes back takes the topics that it finds for those
that it has assigned (KIP-814), so a group may never hear of what was made in between. So it is in Kafka.

Another consumer seeks all the time, also while its position is being looked up or validated.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from pykraft.broker.settings.authorizer_config import STANDARD_AUTHORIZER
from pykraft.sim.trouble.clients import CLASSIC, CONSUMER, GroupKnobs, draw_group, group_faults

GROUP_STORM_SEEDS = range(45_000, 45_200)
"""These seeds have them."""
_GENERAL_SEEDS = range(100)
_OTHER_FAULTS = ("crash", "crash_leader", "crash_controller", "stall", "clog", "partition", "disk_error")
NAMES, PATTERN, COORDINATOR_PATTERN = "names", "pattern", "coordinator pattern"
_WAYS = {CLASSIC: (NAMES, PATTERN, PATTERN), CONSUMER: (NAMES, PATTERN, COORDINATOR_PATTERN, COORDINATOR_PATTERN)}
_AUTHORIZED = {
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": "User:ANONYMOUS",
    "allow.everyone.if.no.acl.found": "true",
}
"""Members may do everything to what no rule is about. All other clients, and the nodes, are super users."""
_EACH_CHANGE = {"internal.metadata.max.fetch.size.in.bytes": 1, "controller.quorum.append.linger.ms": 0}
"""A broker fetches the metadata one change at a time, so it lags behind a controller that changes much."""


@dataclass(frozen=True)
class StormKnobs:
    """The draw of such a seed. Times are milliseconds."""

    ways: Mapping[str, str]
    """How each group subscribes, by its id: `NAMES`, `PATTERN` or `COORDINATOR_PATTERN`."""
    partitions: int
    """So many has the topic that stays, at first."""
    most_partitions: int
    most_visitors: int
    """So many topics that come and go are there at once, at most."""
    topic_every_ms: int
    denied_ms: tuple[int, int]
    """For how long a right is taken away."""
    allowed_ms: tuple[int, int]
    """And how long it is until the next one."""
    expel_every_ms: int
    write_every_ms: int
    seek_every_ms: int
    slow_ms: int
    """For so long a member's listener takes, at most."""
    refused: float
    """How many members ask for what the coordinator refuses."""


def draw_group_storms(seed: int, draw_of: Callable[[int], Any]) -> Any:
    """The knobs of such a seed; `draw_of` gives those of a general one."""
    random = Random(f"group storms {seed}")
    base = draw_of(random.choice(_GENERAL_SEEDS))
    protocols = (CONSUMER, CLASSIC) if random.random() < 0.5 else (CONSUMER,)
    groups = tuple(_restless(draw_group(random, base.brokers, protocol), random) for protocol in protocols)
    storms = StormKnobs(
        ways={group.group_id: random.choice(_WAYS[group.protocol]) for group in groups},
        partitions=random.randint(1, 2),
        most_partitions=random.randint(3, 5),
        most_visitors=random.randint(1, 3),
        topic_every_ms=random.choice((150, 300, 600)),
        denied_ms=random.choice(((5, 60), (20, 200))),
        allowed_ms=random.choice(((100, 600), (300, 1_500))),
        expel_every_ms=random.choice((60, 150, 400)),
        write_every_ms=random.choice((20, 40)),
        seek_every_ms=random.choice((5, 20, 60)),
        slow_ms=random.choice((10, 60, 150)),
        refused=random.choice((0.0, 0.1)),
    )
    kinds = random.sample(_OTHER_FAULTS, random.randint(1, 3))
    each_change = _EACH_CHANGE if random.random() < 0.5 else {}
    return replace(
        base,
        partitions=1,
        properties={**base.properties, **_AUTHORIZED, **each_change},
        producers=base.producers[:1],
        consumers=base.consumers[:1],
        records_per_s=20,
        groups=groups,
        storms=storms,
        faults={**dict.fromkeys(kinds, 1.0), **group_faults(groups)},
        fault_every_ms=random.choice((250, 500, 1_000)),
        late_to_clients=random.choice((0.0, 0.02, 0.08)),
        storm_from_ms=1_000,
        storm_until_ms=8_000,
        swarm=("group storms", *(f"{group.protocol}: {storms.ways[group.group_id]}" for group in groups)),
    )


def _restless(group: GroupKnobs, random: Random) -> GroupKnobs:
    """The same group with more static members, frequent heartbeats and metadata that are never old."""
    interval_ms = random.choice((10, 30, 80))
    ages_ms = random.choice((300, 1_000))
    settings: dict[str, object] = {**group.settings, "metadata.max.age.ms": ages_ms}
    settings["max.partition.fetch.bytes"] = 1 << 20
    properties, static = dict(group.properties), random.choice((0, 1, 2))
    if group.protocol == CONSUMER:
        properties["group.consumer.heartbeat.interval.ms"] = interval_ms
        properties["group.consumer.regex.refresh.interval.ms"] = 10_000
    return replace(
        group,
        members=random.randint(2, 3),
        static_members=static if group.protocol == CONSUMER else 0,
        settings=settings,
        event_every_ms=random.choice((80, 200, 500)),
        restart_ms=(0, 200),
        replaced=0.9,
        properties=properties,
        crash_coordinator=random.choice((0.2, 1.0)),
    )
