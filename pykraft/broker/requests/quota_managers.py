"""What each client has used, compared with its quota in the metadata: a manager for each kind of quota.

::

    kind                counted                                      a client above its quota
    ------------------  -------------------------------------------  ---------------------------------------
    Produce             bytes of its Produce requests                is throttled after the answer
    Fetch               bytes of its Fetch responses                 gets no records, and is throttled
    Request             the time of its handlers, in percent         is throttled, for one sample at most
    ControllerMutation  partitions made and deleted                  is refused (old versions: is throttled)

Bytes and time are a `SampledRate`, changes a `TokenBucket` (`common.quotas.rates`). `metadata.client_quotas` says which
clients share a count, and which quota is theirs. What nodes ask each other is exempt.

A fetch is counted before it is answered. If it is too much, its bytes are taken back and the answer is empty. So a
reader never gets more than its quota, but a batch that alone is larger than ten seconds' worth never comes. That is why
a fetch brings ten seconds' worth at most.

Only a client that has a quota has a count here. A client may call itself anything, so counts must not pile up: one that
was not used for an hour is dropped, as in Kafka. Beyond `MOST_SENSORS` it goes as soon as it tells no more than a new
one would.

Follows kafka.server.{ClientQuotaManager,ClientRequestQuotaManager,ControllerMutationQuotaManager} and
kafka.server.metadata.ClientQuotaMetadataManager.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from heapq import heappop, heappush
from itertools import islice

from pykraft.broker.requests.quotas import Used
from pykraft.broker.settings.quota_config import controller_windows, windows
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.metrics import Metrics, Series
from pykraft.common.quotas.entities import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
)
from pykraft.common.quotas.rates import SampledRate, TokenBucket
from pykraft.common.settings.config import LARGEST, Config
from pykraft.common.types import LeaderAndEpoch, OffsetAndEpoch
from pykraft.metadata.client_quotas import ClientQuotasImage, QuotaTable, Sharing, connection_rates, quota_tables
from pykraft.protocol.messages.data import ProduceRequest
from pykraft.protocol.messages.records import ClientQuotaRecord, EndTransactionRecord
from pykraft.raft.log.listener import CommittedBatch
from pykraft.transport.server_channel import RequestContext

IDLE_MS = 3_600_000
"""A count that was not used for so long is dropped."""
MOST_SENSORS = 10_000
"""Of one kind. Beyond it a count is dropped that tells no more than a new one."""
MOST_SERIES = 1000
"""Of one metric: a reader gets those that were used last."""
_THROTTLES = 2, 30_000
"""The samples of the average throttle time, as Kafka's other metrics have them."""
_US_PER_PERCENT = 10_000
"""A handler that works for a hundredth of a second in each second needs one percent of a thread."""
_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_")
_RECORDS_OF_QUOTAS = frozenset((ClientQuotaRecord, EndTransactionRecord))


class Sensor:
    """What one client has used, or several that share a quota."""

    __slots__ = ("bucket", "rate", "rested", "throttles", "used")

    def __init__(self, rate: SampledRate, bucket: TokenBucket | None) -> None:
        self.rate = rate
        self.bucket = bucket
        self.throttles: SampledRate | None = None
        """For how long it was throttled, if ever."""
        self.used = 0
        """When it was last counted into."""
        self.rested = 0
        """From then on it tells no more than a new one."""


class QuotaManager:
    """The counts of one kind."""

    def __init__(self, samples: int, sample_ms: int, longest_ms: int | None = None) -> None:
        """No throttling is longer than `longest_ms`."""
        self.samples, self.sample_ms = samples, sample_ms
        self._longest_ms = longest_ms
        self.table = QuotaTable()
        self.sensors: dict[Sharing, Sensor] = {}
        """The one that was used last comes last."""
        self._throttled: list[int] = []
        """A heap: when each throttling ends."""

    def find(self, context: RequestContext, now: int) -> tuple[Sensor, float] | None:
        """The count and the limit of this client; None if nothing limits it."""
        _, _, user = context.principal.partition(":")
        shared, limit = self.table.find(user, context.client_id or "")
        if limit is None:
            return None
        sensor = self.sensors.pop(shared, None)
        if sensor is None:
            self._drop_idle(now)
            sensor = self._new()
        sensor.used, sensor.rested = now, now + self.samples * self.sample_ms
        self.sensors[shared] = sensor
        return sensor, limit

    def _new(self) -> Sensor:
        return Sensor(SampledRate(self.samples, self.sample_ms), None)

    def _drop_idle(self, now: int) -> None:
        """A count will be added: drop up to two of the oldest."""
        for shared, sensor in list(islice(self.sensors.items(), 2)):
            is_superfluous = len(self.sensors) >= MOST_SENSORS and sensor.rested <= now
            if not is_superfluous and now - sensor.used < IDLE_MS:
                return
            del self.sensors[shared]

    def record(self, context: RequestContext, value: float, now: int) -> int:
        """Count this; for how many milliseconds the client is to be throttled."""
        found = self.find(context, now)
        if found is None:
            return 0
        sensor, limit = found
        sensor.rate.record(value, now)
        throttle_ms = sensor.rate.throttle_time_ms(limit, now)
        return throttle_ms if self._longest_ms is None else min(throttle_ms, self._longest_ms)

    def take_back(self, context: RequestContext, value: float, now: int) -> None:
        """What was counted just now did not happen."""
        found = self.find(context, now)
        if found is not None:
            found[0].rate.record(-value, now)

    def note_throttling(self, context: RequestContext, throttle_ms: int, now: int) -> None:
        """The client is throttled for the sake of this quota."""
        found = self.find(context, now)
        if found is not None:
            sensor, _ = found
            if sensor.throttles is None:
                sensor.throttles = SampledRate(*_THROTTLES)
            sensor.throttles.record(throttle_ms, now)
        if self.throttled(now) < MOST_SENSORS:
            heappush(self._throttled, now + throttle_ms)

    def throttled(self, now: int) -> int:
        """How many connections are throttled for the sake of this quota, `MOST_SENSORS` at most. Those that were closed
        count until their time is over, as in Kafka."""
        while self._throttled and self._throttled[0] <= now:
            heappop(self._throttled)
        return len(self._throttled)

    def most_at_once(self, context: RequestContext) -> float | None:
        """What may be counted at once if nothing was before; more would surely be throttled. None: anything."""
        _, _, user = context.principal.partition(":")
        _, limit = self.table.find(user, context.client_id or "")
        return None if limit is None else limit * (self.samples - 1) * self.sample_ms / 1000

    # --- metrics ------------------------------------------------------------------------------------------------------

    def series(self, read: Callable[[Sharing, Sensor], float | None]) -> Series:
        """A figure of each count."""
        for shared in list(islice(reversed(self.sensors), MOST_SERIES)):
            value = read(shared, self.sensors[shared])
            if value is not None:
                yield {"user": sanitized(shared.user), "client-id": shared.client_id}, value


class MutationQuotaManager(QuotaManager):
    """The counts of changes to the cluster: tokens (KIP-599)."""

    def _new(self) -> Sensor:
        return Sensor(SampledRate(), TokenBucket(self.samples, self.sample_ms))


class MutationQuota:
    """What one request may still change."""

    def __init__(
        self,
        manager: MutationQuotaManager,
        context: RequestContext,
        is_strict: bool,
        now: Callable[[], int],
    ) -> None:
        """A strict one refuses what comes after the tokens are used up. One that is not lets all pass, and has the
        client wait."""
        self._manager = manager
        self._context = context
        self._is_strict = is_strict
        self._now = now
        self._throttled_until = 0

    def charge(self, partitions: int) -> None:
        """So many partitions are to be made or deleted. KafkaError(THROTTLING_QUOTA_EXCEEDED) if they may not be."""
        now = self._now()
        found = self._manager.find(self._context, now)
        if found is None:
            return
        sensor, limit = found
        assert sensor.bucket is not None
        missing_ms = sensor.bucket.throttle_time_ms(limit, now)
        if self._is_strict and missing_ms:
            self._throttled_until = now + missing_ms
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, ErrorCode.THROTTLING_QUOTA_EXCEEDED.text)
        sensor.rate.record(partitions, now)
        sensor.bucket.take(partitions, limit, now)
        missing_ms = sensor.bucket.throttle_time_ms(limit, now)
        sensor.rested += missing_ms
        if not self._is_strict:
            self._throttled_until = now + missing_ms

    def throttle_time_ms(self) -> int:
        """For how long the client has to wait from now on."""
        now = self._now()
        throttle_ms = max(0, self._throttled_until - now)
        if throttle_ms:
            self._manager.note_throttling(self._context, throttle_ms, now)
        return throttle_ms


class ClientQuotas:
    """All quotas of a node: the Quotas port, and what handlers of fetches and of changes ask. It is a listener of the
    node's loader."""

    def __init__(
        self, config: Config, metrics: Metrics, image: Callable[[], ClientQuotasImage], now: Callable[[], int]
    ):
        self._image, self._now = image, now
        samples, sample_ms = windows(config)
        self._produce = QuotaManager(samples, sample_ms)
        self._fetch = QuotaManager(samples, sample_ms)
        self._request = QuotaManager(samples, sample_ms, longest_ms=sample_ms)
        self._mutations = MutationQuotaManager(*controller_windows(config))
        self._exempt = SampledRate(*_THROTTLES)
        self._by_key = {
            PRODUCER_BYTE_RATE: self._produce,
            CONSUMER_BYTE_RATE: self._fetch,
            REQUEST_PERCENTAGE: self._request,
            CONTROLLER_MUTATION_RATE: self._mutations,
        }
        self._followed: ClientQuotasImage = {}
        self.limits_fetches = False
        """Whether any client has a quota of fetched bytes."""
        self.limits_mutations = False
        """Whether any client has a quota of changes to topics."""
        self.on_change: list[Callable[[], None]] = []
        """Called when other quotas hold."""
        self._tell(metrics)

    @property
    def is_active(self) -> bool:
        """Whether any client has a quota."""
        return any(manager.table for manager in self._by_key.values())

    @property
    def connection_rates(self) -> Mapping[str | None, int]:
        """How many connections a second each address may make; None is the default."""
        return connection_rates(self._followed)

    # --- the loader tells ---------------------------------------------------------------------------------------------

    def handle_commit(self, batch: CommittedBatch) -> None:
        """A node that starts reads very many batches: the image is asked for only if quotas may have changed."""
        if not _RECORDS_OF_QUOTAS.isdisjoint(map(type, batch.records)):
            self.follow(self._image())

    def handle_load_snapshot(self, snapshot: OffsetAndEpoch, batches: Sequence[CommittedBatch]) -> None:
        self.follow(self._image())

    def handle_leader_change(self, leader: LeaderAndEpoch) -> None:
        """Quotas hold under every leader."""

    def follow(self, quotas: ClientQuotasImage) -> None:
        """These hold from now on. What was counted stays."""
        if quotas is self._followed:
            return
        self._followed = quotas
        for key, table in quota_tables(quotas).items():
            self._by_key[key].table = table
        self.limits_fetches = bool(self._fetch.table)
        self.limits_mutations = bool(self._mutations.table)
        for callback in self.on_change:
            callback()

    # --- what clients use ---------------------------------------------------------------------------------------------

    def record(self, context: RequestContext, used: Used, now: int) -> int:
        """Count a request that is answered; for how many milliseconds its client is throttled."""
        percent = used.handling_us / _US_PER_PERCENT
        if used.is_exempt:
            self._exempt.record(percent, now)
            return 0
        of_bytes = of_time = 0
        if context.api_key == ProduceRequest.api:
            of_bytes = self._produce.record(context, used.request_bytes, now)
        if used.response_bytes or context.api_key != ProduceRequest.api:  # without an answer none could be told
            of_time = self._request.record(context, percent, now)
        if of_bytes > of_time:
            self._produce.note_throttling(context, of_bytes, now)
        elif of_time:
            self._request.note_throttling(context, of_time, now)
        return max(of_bytes, of_time)

    def most_fetched_bytes(self, context: RequestContext) -> int:
        """How much this client may fetch at once."""
        most = self._fetch.most_at_once(context)
        return LARGEST["int"] if most is None else int(min(LARGEST["int"], most))

    def record_fetch(self, context: RequestContext, size_bytes: int, now: int) -> int:
        """Count a response to a fetch. If its client is to be throttled for a time, it does not get it."""
        throttle_ms = self._fetch.record(context, size_bytes, now)
        if throttle_ms:
            self._fetch.take_back(context, size_bytes, now)
            self._fetch.note_throttling(context, throttle_ms, now)
        return throttle_ms

    def mutations(self, context: RequestContext, strict_from: int) -> MutationQuota:
        """What this request may change, where requests of lower versions than `strict_from` are never refused."""
        return MutationQuota(self._mutations, context, context.api_version >= strict_from, self._now)

    # --- metrics ------------------------------------------------------------------------------------------------------

    def _tell(self, metrics: Metrics) -> None:
        """Kafka's metrics of quotas."""

        def per_second(shared: Sharing, sensor: Sensor) -> float:
            return sensor.rate.per_second(self._now())

        def throttle_time(shared: Sharing, sensor: Sensor) -> float | None:
            return None if sensor.throttles is None else sensor.throttles.average(self._now())

        def tokens(shared: Sharing, sensor: Sensor) -> float | None:
            _, limit = self._mutations.table.find(*shared)
            return None if limit is None or sensor.bucket is None else sensor.bucket.tokens(limit, self._now())

        def tell(kind: str, manager: QuotaManager, **figures: Callable[[Sharing, Sensor], float | None]) -> None:
            for name, read in (*figures.items(), ("throttle-time", throttle_time)):
                metrics.series(kind, name.replace("_", "-"), partial(manager.series, read))
            metrics.gauge(kind, "queue-size", lambda: manager.throttled(self._now()))

        tell("Produce", self._produce, byte_rate=per_second)
        tell("Fetch", self._fetch, byte_rate=per_second)
        tell("Request", self._request, request_time=per_second)
        tell("ControllerMutation", self._mutations, mutation_rate=per_second, tokens=tokens)
        metrics.gauge("Request", "exempt-request-time", lambda: self._exempt.per_second(self._now()))


def sanitized(user: str) -> str:
    """A user as Kafka's metrics name it: like a part of a URL."""
    return "".join(chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in user.encode())
