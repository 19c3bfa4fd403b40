"""What is drawn for the seeds whose cluster has quotas, or rules of access, that change all the time."""

from dataclasses import dataclass
from random import Random

QUOTA_SEEDS, RULE_SEEDS, LIMIT_PERIOD = range(25_600, 25_650), range(25_650, 25_700), 51_200
"""Of each 51,200 seeds these have quotas, and these have an authorizer. They have no groups."""
QUOTA_SAMPLES = 3
"""Two seconds' worth come at once, so that a short history meets its quotas."""


@dataclass(frozen=True)
class LimitKnobs:
    """The draw of a seed with quotas, with rules of access, or with neither. How long it is from one change to the
    next, in milliseconds; None for no changes."""

    quotas_ms: tuple[int, int] | None = None
    rules_ms: tuple[int, int] | None = None


NO_LIMITS = LimitKnobs()


def draw_limits(seed: int) -> LimitKnobs:
    number, random = seed % LIMIT_PERIOD, Random(f"limits {seed}")
    if number in QUOTA_SEEDS:
        return LimitKnobs(quotas_ms=random.choice(((200, 800), (200, 1_500))))
    if number in RULE_SEEDS:
        return LimitKnobs(rules_ms=random.choice(((20, 100), (20, 300))))
    return NO_LIMITS
