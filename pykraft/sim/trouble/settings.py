"""What is drawn for the seeds in which settings change all the time: of a topic, of brokers, of a group, and levels.

A topic with one to five replicas is there besides. An administrator changes its ``min.insync.replicas``, whether it
allows unclean elections, and its retention; the same settings of all brokers, or of one; the session timeout and the
heartbeat interval of a consumer group; and the levels of features. In some of these histories one broker is of an older
release for its first lives: as long as it is registered, no level may be higher than it supports.

Half of these seeds have a consumer group (or none, and then its feature may go). The others have elections of all
kinds: there the brokers' defaults may allow unclean elections, which would cost a group its offsets.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from pykraft.common.settings.topic_config import UNCLEAN_LEADER_ELECTION_ENABLE
from pykraft.metadata.versions import ELR_VERSION, GROUP_VERSION, KRAFT_VERSION, METADATA_VERSION, TRANSACTION_VERSION
from pykraft.sim.trouble.clients import CONSUMER, draw_group
from pykraft.sim.trouble.drawn import Drawn

SETTING_SEEDS, SETTING_PERIOD = range(6750, 6850), 12_800
"""Of each 12,800 seeds these have settings that change. The second half has elections, by their draw."""

UNCLEAN = UNCLEAN_LEADER_ELECTION_ENABLE.name
_HAS_GROUP = 0.7
_HAS_OLD_BROKER = 0.4
_ROUGH = 0.6
"""Of how many of the histories with elections brokers fall one after the other, and stay away for seconds."""
_LEADERS_FALL = {"crash": 1.0, "crash_leader": 2.0, "stop": 0.5}
_MIXED = {"crash": 0.5, "crash_leader": 1.0, "stop": 0.5, "crash_controller": 0.5, "stall": 0.3}
OLD_LEVELS: Mapping[str, tuple[int, int]] = {
    METADATA_VERSION: (7, 29),
    KRAFT_VERSION: (0, 1),
    GROUP_VERSION: (0, 1),
    TRANSACTION_VERSION: (0, 2),
    ELR_VERSION: (0, 1),
}
"""What a broker of an older release supports: Kafka 4.2's."""
SHORTEST_HEARTBEAT_MS, SHORTEST_SESSION_MS = 10, 100


@dataclass(frozen=True)
class SettingKnobs:
    """The draw of a seed in which settings change. Times are milliseconds."""

    replicas: int
    """Of the topic."""
    every_ms: int
    """How often the administrator changes something."""
    kinds: Mapping[str, float]
    """What it changes, and how likely each is compared to the others."""
    features: tuple[str, ...]
    """Whose levels it changes."""
    allows_default_unclean: bool
    """The brokers' defaults may allow unclean elections."""
    old_broker: int
    """The id of the broker of an older release; 0 for none."""
    old_lives: int
    """In this many of its lives it is of that release."""
    group_id: str
    """The consumer group whose settings change; nothing where there is none."""


def draw_settings(seed: int, has_elections: bool) -> SettingKnobs | None:
    if seed % SETTING_PERIOD not in SETTING_SEEDS:
        return None
    random = Random(f"settings {seed}")
    brokers = random.choice((3, 3, 4, 5))
    has_group = not has_elections and random.random() < _HAS_GROUP
    features = [METADATA_VERSION, TRANSACTION_VERSION, ELR_VERSION, KRAFT_VERSION]
    if not has_group:
        features.append(GROUP_VERSION)
    kinds = {"topic": 3.0, "all_brokers": 1.0, "broker": 0.5, "features": random.choice((0.3, 1.0))}
    return SettingKnobs(
        replicas=min(brokers, random.choice((1, 2, 3, 3, 4, 5))),
        every_ms=random.choice((30, 100, 250)),
        kinds=kinds | ({"group": 1.0} if has_group else {}),
        features=tuple(random.sample(features, random.randint(1, len(features)))),
        allows_default_unclean=has_elections,
        old_broker=random.randint(1, brokers) if random.random() < _HAS_OLD_BROKER else 0,
        old_lives=random.choice((1, 2, 1 << 30)),
        group_id="consumers" if has_group else "",
    )


def brokers_of(settings: SettingKnobs, seed: int) -> int:
    """How many brokers there are."""
    return max(settings.replicas, settings.old_broker, Random(f"settings {seed}").choice((3, 3, 4, 5)))


def setting_changes(seed: int, knobs: Drawn, settings: SettingKnobs) -> dict[str, Any]:
    """What the draw of such a seed has instead of what it would have otherwise."""
    brokers, random = brokers_of(settings, seed), Random(f"group of settings {seed}")
    groups = (draw_group(random, brokers, CONSUMER),) if settings.group_id else ()
    loses_power = settings.replicas > 1 and ELR_VERSION not in settings.features
    elections = knobs.elections
    is_rough = elections is not None and random.random() < _ROUGH
    faults = {
        kind: weight
        for kind, weight in knobs.faults.items()
        if kind != "crash_coordinator" and (loses_power or kind != "power_loss")
    }
    faults |= {"crash_coordinator": max(group.crash_coordinator for group in groups)} if groups else {}
    return {
        "brokers": brokers,
        "partitions": 1,
        "properties": {
            **knobs.properties,
            "unclean.leader.election.interval.ms": random.choice((100, 500)),
            "replica.fetch.max.bytes": 1 << 20,
            "replica.fetch.response.max.bytes": 10 << 20,
        },
        "faults": _LEADERS_FALL if is_rough else _MIXED | faults,
        "fault_every_ms": random.choice((150, 300)) if is_rough else random.choice((150, 300, 600)),
        "restart_ms": (500, 4_000) if is_rough else random.choice(((0, 100), (50, 1500), (500, 2500))),
        "records_per_s": 30,
        "storm_from_ms": 1_000,
        "storm_until_ms": 7_000,
        "admin_every_ms": 0,
        "level_changes": 0.0,
        "transactions": None,
        "groups": groups,
        "ghost": 0.0,
        "features": {name: level for name, level in knobs.features.items() if name == ELR_VERSION},
        "elections": elections and replace(elections, allows_unclean=False, orders_unclean=False),
        "topic": {name: value for name, value in knobs.topic.items() if name != UNCLEAN},
        "settings": settings,
    }
