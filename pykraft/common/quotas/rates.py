"""How fast something happens: a rate over sliding samples, and a bucket of tokens.

`SampledRate` counts into samples of one second each, and keeps eleven of them. The rate is what the samples hold,
divided by the time since the oldest began, which counts as ten whole seconds at least. So a client that was quiet may
use ten seconds' worth at once. After that it gets exactly its rate. How long a client has to wait until its rate is
back at a limit is `throttle_time_ms`::

    10,000 bytes in a window of 10 s at a limit of 500 a second:   (1000 - 500) / 500 * 10 s = 10 s

A sample goes when its *last* event is eleven seconds old, and not when its first is. So the window may reach back a
little further.

`TokenBucket` gains tokens at the rate of the limit, and holds as many as come in eleven seconds. Whatever happens takes
tokens, also when there are too few: then the count is below zero, and nothing more may happen until it has come back to
zero. A single large burst so has its full price, where a sampled rate forgets it after eleven seconds (KIP-599).

Follows org.apache.kafka.common.metrics.stats.{SampledStat,Rate,TokenBucket}, org.apache.kafka.server.quota.QuotaUtils
and kafka.server.ControllerMutationQuotaManager.
"""

from math import floor, inf

SAMPLES = 11
SAMPLE_MS = 1000
LONGEST_THROTTLE_MS = (1 << 31) - 1
"""A response has four bytes for it."""


class SampledRate:
    """Events of a value each: how much a second, and how much each on average, over the last samples."""

    __slots__ = ("_at", "_most", "_sample_ms", "_samples")

    def __init__(self, samples: int = SAMPLES, sample_ms: int = SAMPLE_MS) -> None:
        self._most = samples
        self._sample_ms = sample_ms
        self._samples: list[list[float]] = []
        """Each sample: when it began, when its last event was, the sum of the values, how many there are."""
        self._at = 0
        """The sample that is counted into. The one after it, in a ring, is the oldest: one more is kept than counts."""

    def record(self, value: float, now: int) -> None:
        """Something happened."""
        samples = self._samples
        if not samples:
            samples.append([now, now, 0.0, 0])
        sample = samples[self._at]
        if now - sample[0] >= self._sample_ms:
            sample = self._next(now)
        sample[1] = now
        sample[2] += value
        sample[3] += 1

    def _next(self, now: int) -> list[float]:
        self._at = (self._at + 1) % (self._most + 1)
        if self._at == len(self._samples):
            self._samples.append([now, now, 0.0, 0])
        else:
            self._samples[self._at][:] = now, now, 0.0, 0
        return self._samples[self._at]

    def _forget(self, now: int) -> None:
        """Empty the samples whose last event is too old."""
        oldest = now - self._most * self._sample_ms
        for sample in self._samples:
            if sample[1] <= oldest:
                sample[:] = now, now, 0.0, 0

    def window_ms(self, now: int) -> int:
        """The time that the samples stand for."""
        self._forget(now)
        elapsed_ms = int(now - min((sample[0] for sample in self._samples), default=now))
        missing = self._most - 1 - elapsed_ms // self._sample_ms
        return max(elapsed_ms + max(0, missing) * self._sample_ms, 1)

    def per_second(self, now: int) -> float:
        """How much of the value a second."""
        window_ms = self.window_ms(now)
        return sum(sample[2] for sample in self._samples) * 1000 / window_ms

    def average(self, now: int) -> float | None:
        """How much of the value in each event; None if there was none."""
        self._forget(now)
        count = sum(sample[3] for sample in self._samples)
        return sum(sample[2] for sample in self._samples) / count if count else None

    def throttle_time_ms(self, limit: float, now: int) -> int:
        """How long nothing may happen until the rate is back at the limit."""
        rate = self.per_second(now)
        if not rate > limit:
            return 0
        return milliseconds((rate - limit) / limit * self.window_ms(now)) if limit else LONGEST_THROTTLE_MS


class TokenBucket:
    """Tokens that come at a rate, up to what comes in all samples together."""

    __slots__ = ("_full_s", "_tokens", "_updated")

    def __init__(self, samples: int = SAMPLES, sample_ms: int = SAMPLE_MS) -> None:
        self._full_s = samples * sample_ms / 1000
        self._tokens = inf
        """A bucket that is new is full, whatever its limit is."""
        self._updated = 0

    def tokens(self, limit: float, now: int) -> float:
        """How many there are, at this many new ones a second."""
        more = limit * max(0, now - self._updated) / 1000
        self._tokens = min(self._full_s * limit, self._tokens + more)
        self._updated = max(now, self._updated)
        return self._tokens

    def take(self, value: float, limit: float, now: int) -> None:
        """Something happens that has this price."""
        self._tokens = min(self._full_s * limit, self.tokens(limit, now) - value)

    def throttle_time_ms(self, limit: float, now: int) -> int:
        """How long nothing may happen until there are no tokens missing."""
        tokens = self.tokens(limit, now)
        return milliseconds(-tokens / limit * 1000) if tokens < 0 else 0


def milliseconds(exact: float) -> int:
    """Rounded as Java does, and as large as a response can say."""
    return floor(min(exact, LONGEST_THROTTLE_MS) + 0.5)
