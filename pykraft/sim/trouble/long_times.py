"""What is drawn for the seeds that live for days: every machine is suspended again and again, for minutes or for days.

The clock jumps, and nothing happens meanwhile (`Scheduler.skip`): so a week costs no more than a second. What wakes has
missed every deadline at once: sessions of brokers and of members are over, fetches and elections are overdue, open
transactions have timed out, transactional ids have expired (after a week, or in seconds where logs move), and a
producer goes on with the sequence number that it had.

The laws of records, groups and committed offsets have no expiry in mind, and those of producers have it only where logs
move. So the others are kept for longer than such a history lasts. And a consumer looks for its place for as long as
that: else it would tell its user of each sleep.
"""

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

from pykraft.sim.trouble.swarms import BANKS

LONG_TIME_SEEDS = range(40_000, 40_100)
"""These seeds live for days."""
_BANKS = ("groups", "bank", "bank", "elections", "snapshots", "logs that move")
_FOREVER_MS = (1 << 31) - 1
_KEPT = {
    "offsets.retention.minutes": 1_000_000,
    "offsets.retention.check.interval.ms": _FOREVER_MS,
    "log.retention.ms": -1,
}
_UNTIL_ENOUGH_STEPS = 1 << 40
"""The storm is over after a number of events: by the clock it would be after the first sleep."""
_MINUTE_MS = 60_000
SLEEPS_MS = (_MINUTE_MS, 60 * _MINUTE_MS, 24 * 60 * _MINUTE_MS, 3 * 24 * 60 * _MINUTE_MS)
MOST_MS = 20 * 24 * 60 * _MINUTE_MS
"""A history sleeps this long in all, at most. It is less than `_FOREVER_MS`."""


def draw_long_times(seed: int, draw_of: Callable[[int], Any]) -> Any:
    """The knobs of a seed that lives for days; `draw_of` gives those of a seed of a bank."""
    random = Random(f"long times {seed}")
    name = random.choice(_BANKS)
    base = draw_of(random.choice(BANKS[name].seeds))
    patient = {"default.api.timeout.ms": _FOREVER_MS}
    bank = base.transactions and replace(base.transactions, consumer={**base.transactions.consumer, **patient})
    others = [kind for kind in sorted(base.faults) if kind != "power_loss"]
    return replace(
        base,
        properties={**base.properties, **_KEPT, **_producers_kept(base)},
        consumers=tuple({**each, **patient} for each in base.consumers),
        transactions=bank,
        faults={"sleep": 1.0, **dict.fromkeys(random.sample(others, min(2, len(others))), 0.5)},
        fault_every_ms=random.choice((80, 150, 300)),
        straggler=0.0,
        late_to_clients=0.0,
        storm_from_ms=300,
        storm_until_ms=_UNTIL_ENOUGH_STEPS,
        swarm=("long times", name),
    )


def _producers_kept(base: Any) -> dict[str, int]:
    return {} if base.moving is not None else {"producer.id.expiration.ms": _FOREVER_MS}
