"""What brokers count, on a clock of our own: the counts are pykraft's, and no time passes.

`room` compares the two counts of Kafka for the same arrivals. `spent` says how much a client gets that sends without a
pause under one name or several. `which_quota` answers which of several quotas holds for a client, and with whom the
client shares it. A quota is given as an administrator gives it: an entity, and its bytes a second. Not in Kafka.
"""

from collections.abc import Mapping, Sequence
from heapq import heapify, heapreplace

from pykraft.broker.requests.quota_managers import QuotaManager
from pykraft.client.administration.quotas import DEFAULT, ClientQuotaEntity
from pykraft.common.quotas.rates import SAMPLE_MS, SAMPLES, SampledRate, TokenBucket
from pykraft.metadata.client_quotas import QuotaTable, Sharing
from pykraft.protocol.api import ListenerKind
from pykraft.protocol.messages.data import ProduceRequest
from pykraft.transport.server_channel import RequestContext

Quotas = Mapping[ClientQuotaEntity, float]
_STEP_MS = 250
_REQUEST_BYTES = 100_000


def room(limit: float, arrivals: Mapping[float, float], seconds: float) -> dict[str, list[tuple[float, float]]]:
    """How much may come at each moment before the client is throttled, by each count; below zero it is throttled.
    `arrivals` are amounts by second."""
    rate, bucket = SampledRate(), TokenBucket()
    left = sorted((round(second * 1000), amount) for second, amount in arrivals.items())
    found: dict[str, list[tuple[float, float]]] = {"sampled rate": [], "token bucket": []}
    for now in range(0, round(seconds * 1000) + 1, _STEP_MS):
        while left and left[0][0] <= now:
            moment, amount = left.pop(0)
            rate.record(amount, moment)
            bucket.take(amount, limit, moment)
        window_s = rate.window_ms(now) / 1000
        found["sampled rate"].append((now / 1000, (limit - rate.per_second(now)) * max(window_s, SAMPLES - 1)))
        found["token bucket"].append((now / 1000, bucket.tokens(limit, now)))
    return found


def quota_table(quotas: Quotas) -> QuotaTable:
    """The quotas as a broker looks them up."""
    table = QuotaTable()
    for entity, limit in quotas.items():
        user, client_id = (None if name == DEFAULT else name or "" for name in (entity.user, entity.client_id))
        table.add(user, client_id, limit)
    return table


def which_quota(quotas: Quotas, user: str, client_id: str) -> str:
    """The quota that holds for this client, and whose use is counted together."""
    shared, limit = quota_table(quotas).find(user, client_id)
    return "no quota" if limit is None else f"{limit / 1e6:g} MB/s for {_sharers(shared)}"


def _sharers(shared: Sharing) -> str:
    if shared.user and shared.client_id:
        return f"{shared.user} as {shared.client_id}"
    return f"{shared.user}, all client ids together" if shared.user else f"{shared.client_id}, all users together"


def spent(quotas: Quotas, user: str, client_ids: Sequence[str], seconds: float = 60) -> float:
    """The megabytes that a broker takes in this time from a user who sends requests of 100 kB under each of these
    client ids, and sends the next one as soon as the throttle time of the last one is over."""
    manager = QuotaManager(SAMPLES, SAMPLE_MS)
    manager.table = quota_table(quotas)
    total, next_at = 0, [(0, client_id) for client_id in client_ids]
    heapify(next_at)
    while next_at[0][0] < seconds * 1000:
        now, client_id = next_at[0]
        kind, api = ListenerKind.BROKER, ProduceRequest.api
        context = RequestContext(client_id, "PLAINTEXT", kind, f"User:{user}", client_id, "", api, 9, 0, _REQUEST_BYTES)
        throttle_ms = manager.record(context, _REQUEST_BYTES, now)
        total += _REQUEST_BYTES
        heapreplace(next_at, (now + max(1, throttle_ms), client_id))
    return total / 1e6
