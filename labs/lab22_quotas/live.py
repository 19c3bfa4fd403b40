"""Lab 22 in a live cluster: your counts are in a broker's quota managers.

Two tenants have quotas of their own. The greedy one produces without a pause, and the modest one stays far below its
quota: what the first may write, and that the second is never throttled, your `Counts` say. Then a third client creates
topics with more partitions than its bucket has tokens, at once and after the throttle time: your `TokenBucket` refuses
it, and lets it pass. What passes through the connections is pykraft's, and so is the lookup of the quota.
"""

import time
from functools import partial

from pykraft import Cluster
from pykraft.client.administration.quotas import ClientQuotaEntity
from pykraft.common.errors import ErrorCode
from pykraft.course.labs.plug import Outcome, at_least, at_most, plugged
from pykraft.course.lessons.quotas.two_tenants import (
    Run,
    connect,
    exactly,
    produce,
    produce_request,
    run_chart,
    together,
)
from pykraft.metadata.client_quotas import quota_tables
from pykraft.protocol.header import SIZE, decode_response, encode_request
from pykraft.protocol.messages.admin import CreateTopicsRequest, CreateTopicsResponse

SAMPLES, RATE = 3, 2_000_000
SECONDS, PAUSE_S, LIMIT_S = 1.5, 0.01, 20.0
LARGE, SMALL = 50_000, 100
MUTATIONS, PARTITIONS, VERSION = 4, 14, 7
"""Four partitions a second, and 12 in a full bucket: a topic of 14 leaves a debt of two."""
SLACK_S = 0.05
RECORD = "pykraft.broker.requests.quota_managers.QuotaManager.record"
BUCKET = "pykraft.common.quotas.rates.TokenBucket."
QUOTAS = {
    ClientQuotaEntity(client_id="greedy"): {"producer_byte_rate": RATE},
    ClientQuotaEntity(client_id="modest"): {"producer_byte_rate": RATE},
    ClientQuotaEntity(client_id="builder"): {"controller_mutation_rate": MUTATIONS},
}


def run(work):
    """Let clients meet the quotas of a broker that counts with `work`; it agrees if they get what they should."""
    yours = Yours(work)
    windows = {"quota.window.num": SAMPLES, "controller.quota.window.num": SAMPLES}
    with Cluster(nodes=1, timeouts="kafka", properties=windows) as cluster, plugged(yours.places()) as plugs:
        cluster.create_topic("t", 1, 1)
        set_quotas(cluster)
        greedy, modest = produce_both(cluster)
        codes, waits = create_topics(cluster)
    wrongly = sum(answer.throttle_time_ms > 0 for answer in modest)
    seen = Run(RATE, SECONDS, greedy, modest, len(produce_request("t", "greedy", LARGE)))
    most = (RATE * (SECONDS + SAMPLES) + seen.request_bytes) / 1e6
    lines = (
        f"The greedy tenant wrote {seen.megabytes:g} MB in {SECONDS:g} s, and its quota is {RATE / 1e6:g} MB/s.",
        f"The modest tenant was throttled {wrongly} times in {len(modest)} requests.",
        f"Topics of {PARTITIONS} partitions, at once, again at once, and after {waits} ms: {', '.join(codes)}.",
    )
    facts = {"megabytes": seen.megabytes, "wrongly": wrongly, "codes": codes, "waits": waits}
    compared = {
        "megabytes that the greedy tenant wrote": (seen.megabytes, at_most(round(most, 1))),
        "megabytes that it may write at once": (seen.megabytes, at_least(RATE * (SAMPLES - 1) / 1e6)),
        "requests of the greedy tenant that were throttled": (
            sum(answer.throttle_time_ms > 0 for answer in greedy),
            at_least(1),
        ),
        "requests of the modest tenant that were throttled": (wrongly, 0),
        "what became of three topics": (codes, ["NONE", "THROTTLING_QUOTA_EXCEEDED", "NONE"]),
    }
    return Outcome(compared, lines, tuple(plugs.values()), run_chart(seen), facts)


class Yours:
    """Your counts in the place of pykraft's."""

    def __init__(self, work):
        self._work = work
        self._counts = {}
        """By the quota manager."""
        self._buckets = {}
        """By the id of pykraft's bucket, that bucket and yours."""

    def places(self):
        """Your code where a broker counts."""
        return {RECORD: self._record, BUCKET + "take": self._take, BUCKET + "throttle_time_ms": self._throttle_time_ms}

    def _record(self, manager, context, value, now):
        _, _, user = context.principal.partition(":")
        sharing, limit = manager.table.find(user, context.client_id or "")
        if manager not in self._counts:
            bounds = () if manager._longest_ms is None else (manager._longest_ms,)
            self._counts[manager] = self._work.Counts(manager.samples, manager.sample_ms, *bounds)
        return int(self._counts[manager].charge(tuple(sharing), limit, value, now))

    def _of(self, bucket):
        if id(bucket) not in self._buckets:
            self._buckets[id(bucket)] = bucket, self._work.TokenBucket(SAMPLES, 1000)
        return self._buckets[id(bucket)][1]

    def _take(self, bucket, value, limit, now):
        self._of(bucket).take(value, limit, now)

    def _throttle_time_ms(self, bucket, limit, now):
        return int(self._of(bucket).throttle_time_ms(limit, now))


def set_quotas(cluster):
    """Set the quotas, and wait until the broker knows them."""
    with cluster.admin() as admin:
        admin.alter_client_quotas(QUOTAS)
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        tables = quota_tables(cluster.call(1, lambda node: node.loader.image.client_quotas))
        if tables["controller_mutation_rate"].find("", "builder")[1] and tables["producer_byte_rate"]:
            return
        time.sleep(0.005)


def produce_both(cluster):
    """The answers to the greedy and to the modest tenant."""
    greedy, modest = [], []
    start = time.monotonic()
    work = (("greedy", LARGE, greedy, 0.0), ("modest", SMALL, modest, PAUSE_S))
    sent = [(produce_request("t", name, size), answers, pause_s) for name, size, answers, pause_s in work]
    together([partial(produce, cluster, *each, start, SECONDS) for each in sent])
    return greedy, modest


def create_topics(cluster):
    """Create three topics, the third after the throttle time: their error codes, and that time."""
    codes, wait_ms = [], 0
    for name in ("first", "second", "third"):
        if name == "third":
            time.sleep(min(LIMIT_S, wait_ms / 1000 + SLACK_S))
        wanted = CreateTopicsRequest.Topic(name=name, num_partitions=PARTITIONS, replication_factor=1)
        asked = CreateTopicsRequest(topics=[wanted], timeout_ms=10_000)
        with connect(cluster) as wire:  # a connection that was throttled would be muted
            wire.sendall(b"".join(encode_request(asked, VERSION, 1, "builder")))
            (size,) = SIZE.unpack(exactly(wire, SIZE.size))
            _, response = decode_response(CreateTopicsResponse, VERSION, memoryview(exactly(wire, size)))
        codes.append(ErrorCode.of(response.topics[0].error_code).name)
        wait_ms = response.throttle_time_ms
        if name == "second":
            told = wait_ms
    return codes, told
