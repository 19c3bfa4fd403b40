"""Lab 22: how much has a client used, and how long must it wait?"""

from math import floor, inf

LONGEST_MS = (1 << 31) - 1
"""A response has four bytes for the throttle time."""


# --- task 22.1: a sampled rate ---
class SampledRate:
    """How much came in the last samples. All times are milliseconds."""

    def __init__(self, samples: int, sample_ms: int) -> None:
        """Nothing has come."""
        self.samples = samples
        self.sample_ms = sample_ms
        self.known = []  # of each sample: when it began, when its last event was, how much came in it

    def record(self, value: float, now: int) -> None:
        """This much comes now."""
        if not self.known or now - self.known[-1][0] >= self.sample_ms:
            self.known.append([now, now, 0.0])
        self.known[-1][1] = now
        self.known[-1][2] += value

    def window_ms(self, now: int) -> int:
        """The time that the samples stand for; what is too old is forgotten first."""
        oldest = now - self.samples * self.sample_ms
        self.known = [sample for sample in self.known if sample[1] > oldest]
        elapsed = now - self.known[0][0] if self.known else 0
        missing = max(0, self.samples - 1 - elapsed // self.sample_ms)
        return elapsed + missing * self.sample_ms

    def per_second(self, now: int) -> float:
        """How much came in a second, on average over the window."""
        window_ms = self.window_ms(now)
        return sum(sample[2] for sample in self.known) * 1000 / window_ms


# --- end of task 22.1 ---


# --- task 22.2: the throttle time ---
def throttle_time_ms(per_second: float, limit: float, window_ms: int, longest_ms: int = LONGEST_MS) -> int:
    """How long nothing may come, so that the rate is back at the limit."""
    if per_second <= limit:
        return 0
    return floor(min((per_second - limit) / limit * window_ms, longest_ms) + 0.5)


# --- end of task 22.2 ---


# --- task 22.3: a token bucket ---
class TokenBucket:
    """Tokens that come at the rate of the limit. All times are milliseconds."""

    def __init__(self, samples: int, sample_ms: int) -> None:
        """It is full, whatever the limit is."""
        self.full_s = samples * sample_ms / 1000
        self.left = inf
        self.updated = 0

    def tokens(self, limit: float, now: int) -> float:
        """How many tokens there are now."""
        earned = limit * max(0, now - self.updated) / 1000
        self.left = min(self.full_s * limit, self.left + earned)
        self.updated = max(self.updated, now)
        return self.left

    def take(self, value: float, limit: float, now: int) -> None:
        """Something happens that costs this many tokens."""
        self.left = self.tokens(limit, now) - value

    def throttle_time_ms(self, limit: float, now: int) -> int:
        """How long nothing may happen, so that no token is missing."""
        return max(0, floor(-self.tokens(limit, now) / limit * 1000 + 0.5))


# --- end of task 22.3 ---


# --- task 22.4: whose count it is ---
class Counts:
    """What has been used, by whose quota it is."""

    def __init__(self, samples: int, sample_ms: int, longest_ms: int = LONGEST_MS) -> None:
        """Nothing has been used."""
        self.samples = samples
        self.sample_ms = sample_ms
        self.longest_ms = longest_ms
        self.rates = {}

    def charge(self, sharing: tuple[str, str], limit: float | None, value: float, now: int) -> int:
        """Count this for a user and a client id; for how many milliseconds its client is throttled."""
        if limit is None:
            return 0
        rate = self.rates.setdefault(sharing, SampledRate(self.samples, self.sample_ms))
        rate.record(value, now)
        return throttle_time_ms(rate.per_second(now), limit, rate.window_ms(now), self.longest_ms)


# --- end of task 22.4 ---
