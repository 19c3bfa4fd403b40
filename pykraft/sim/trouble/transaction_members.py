"""What is drawn for the seeds whose transactions are those of group members, and whose group reads what is committed.

The bank is there as in other seeds. Its copiers are members of a consumer group (KIP-848), so their transactions commit
offsets with the epoch of a member. A second group reads the bank with ``isolation.level=read_committed``, with either
protocol, and its members come and go.
"""

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

from pykraft.sim.trouble.clients import CLASSIC, CONSUMER, draw_group
from pykraft.sim.trouble.swarms import BANKS

MEMBERS = "members of transactions"
TRANSACTION_MEMBER_SEEDS = range(44_000, 44_100)
"""These seeds have them."""
_BANK_SEEDS = range(100, 200)
_HEARTBEAT = "group.consumer.heartbeat.interval.ms"
_LINGER, _MOST_LINGER_MS = "group.coordinator.append.linger.ms", 5
"""Members that commit all the time keep a batch open for this long; with an open batch a cluster has not settled."""
_LEADS = 0.4
"""How often one of the faults that look for leaders and coordinators comes besides."""


def draw_transaction_members(seed: int, draw_of: Callable[[int], Any]) -> Any:
    """The knobs of such a seed; `draw_of` gives those of a seed with a bank."""
    random = Random(f"members of transactions {seed}")
    base = draw_of(random.choice(_BANK_SEEDS))
    readers = draw_group(random, base.brokers, random.choice((CONSUMER, CONSUMER, CLASSIC)))
    readers = replace(readers, settings={**readers.settings, "isolation.level": "read_committed"})
    session_ms = readers.session_ms
    heartbeat_ms = readers.properties.get(_HEARTBEAT, session_ms // random.choice((2, 3, 6)))
    times = {
        "group.consumer.min.session.timeout.ms": 100,
        "group.consumer.min.heartbeat.interval.ms": 10,
        "group.consumer.session.timeout.ms": session_ms,
        _HEARTBEAT: heartbeat_ms,
    }
    bank = replace(
        base.transactions,
        copiers=random.randint(2, 3),
        group={
            "group.protocol": CONSUMER,
            "group.remote.assignor": random.choice((None, "uniform", "range")),
            "max.poll.interval.ms": heartbeat_ms + random.choice((400, 1000, 3000)),
            "max.poll.records": random.choice((1, 10, 500)),
            "default.api.timeout.ms": random.choice((500, 2000, 10_000)),
        },
        properties={**base.transactions.properties, **times},
    )
    knobs = base.properties.items()
    leads = random.choice(("side_cut", "coordinator_cut", "cascade")) if random.random() < _LEADS else ""
    return replace(
        base,
        partitions=random.randint(2, 3),
        properties={name: min(value, _MOST_LINGER_MS) if name == _LINGER else value for name, value in knobs},
        transactions=bank,
        groups=(readers,),
        producers=base.producers[:1],
        consumers=base.consumers[:1],
        records_per_s=20,
        faults={**base.faults, **({leads: 1.0} if leads else {})},
        swarm=("members of transactions", leads) if leads else ("members of transactions",),
    )


def draw_bank(name: str, random: Random, draw_of: Callable[[int], Any]) -> Any:
    """The knobs of a seed of this bank, or of one with members of transactions, for a kind that changes them."""
    if name == MEMBERS:
        return draw_transaction_members(random.choice(TRANSACTION_MEMBER_SEEDS), draw_of)
    return draw_of(random.choice(BANKS[name].seeds))
