"""Lab 22: how much has a client used, and how long must it wait?"""

LONGEST_MS = (1 << 31) - 1
"""A response has four bytes for the throttle time."""


# --- task 22.1: a sampled rate ---
class SampledRate:
    """How much came in the last samples. All times are milliseconds."""

    def __init__(self, samples: int, sample_ms: int) -> None:
        """Nothing has come."""
        raise NotImplementedError("Task 22.1: what must you remember of a sample?")

    def record(self, value: float, now: int) -> None:
        """This much comes now."""
        raise NotImplementedError("Task 22.1: does the newest sample take it?")

    def window_ms(self, now: int) -> int:
        """The time that the samples stand for; what is too old is forgotten first."""
        raise NotImplementedError("Task 22.1: forget first, then measure")

    def per_second(self, now: int) -> float:
        """How much came in a second, on average over the window."""
        raise NotImplementedError("Task 22.1: all that the samples hold, over the window")


# --- end of task 22.1 ---


# --- task 22.2: the throttle time ---
def throttle_time_ms(
    per_second: float,
    limit: float,
    window_ms: int,
    longest_ms: int = LONGEST_MS,
) -> int:
    """How long nothing may come, so that the rate is back at the limit."""
    raise NotImplementedError("Task 22.2: how much is too much, and when has the limit earned it?")


# --- end of task 22.2 ---


# --- task 22.3: a token bucket ---
class TokenBucket:
    """Tokens that come at the rate of the limit. All times are milliseconds."""

    def __init__(self, samples: int, sample_ms: int) -> None:
        """It is full, whatever the limit is."""
        raise NotImplementedError("Task 22.3: a bucket that is full for any limit")

    def tokens(self, limit: float, now: int) -> float:
        """How many tokens there are now."""
        raise NotImplementedError("Task 22.3: what was earned since the last look?")

    def take(self, value: float, limit: float, now: int) -> None:
        """Something happens that costs this many tokens."""
        raise NotImplementedError("Task 22.3: the price, also where there is too little")

    def throttle_time_ms(self, limit: float, now: int) -> int:
        """How long nothing may happen, so that no token is missing."""
        raise NotImplementedError("Task 22.3: only a debt makes a client wait")


# --- end of task 22.3 ---


# --- task 22.4: whose count it is ---
class Counts:
    """What has been used, by whose quota it is."""

    def __init__(self, samples: int, sample_ms: int, longest_ms: int = LONGEST_MS) -> None:
        """Nothing has been used."""
        raise NotImplementedError("Task 22.4: one count for each sharer, and none yet")

    def charge(self, sharing: tuple[str, str], limit: float | None, value: float, now: int) -> int:
        """Count this for a user and a client id; for how many milliseconds its client is throttled."""
        raise NotImplementedError("Task 22.4: find the count, record, and ask how long")


# --- end of task 22.4 ---
