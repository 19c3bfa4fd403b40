"""A lever of notebook 09: sentences of guides about producers, at the load that the reader sets.

Each sentence is an experiment whose two arms are counted once, since a `VirtualProducer` gives the same number each
time: node and network are never busy, and only waiting is seen. So a verdict here is about requests, batches and waits,
never about the speed of a machine.

The last sentence is about `send.buffer.bytes`. The simulated network has no socket buffers, so what is compared is the
most that was under way at a time, and the 128 KB that Kafka's producers ask the system for. A buffer that is larger
than what is under way cannot help.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

from pykraft.course.experiment import FEWEST_PAIRS, Experiment, Outcome
from pykraft.course.rigs.virtual_producer import VirtualProducer
from pykraft.viz import Figure, verdicts
from pykraft.viz.clients.batch_chart import SentBatch

BATCH, LINGER, NO_LINGER = "Make batch.size larger", "Raise linger.ms for throughput", "Set linger.ms=0 for latency"
PARTITIONS, BUFFER = "More partitions, more throughput", "Raise send.buffer.bytes, with large batches"
SEND_BUFFER_BYTES = 131_072
_SENDS_MS = 100
_FEWEST, _MOST = 20, 1000
_KB = 1 << 10


class Load(NamedTuple):
    """What a program sends, and how far away the broker is."""

    records_per_s: int
    record_bytes: int
    round_trip_ms: int

    def sent(self, **settings: Any) -> VirtualProducer:
        """A producer with these settings that has sent records for a moment."""
        producer = VirtualProducer(round_trip_ms=self.round_trip_ms, **settings)
        records = min(_MOST, max(_FEWEST, self.records_per_s * _SENDS_MS // 1000))
        producer.send(records, records_per_s=self.records_per_s, record_bytes=self.record_bytes)
        return producer


class _Sentence(NamedTuple):
    """Two arms, the unit of what is compared, and from which factor on the sentence holds."""

    arms: dict[str, dict[str, Any]]
    unit: str
    measure: Callable[[VirtualProducer], float]
    factor: float = 2


_SENTENCES = {
    BATCH: _Sentence(
        {"16 KB": {}, "256 KB": {"batch_size": 256 * _KB}}, "requests", lambda producer: producer.requests
    ),
    LINGER: _Sentence(
        {"0 ms": {"linger_ms": 0}, "20 ms": {"linger_ms": 20}}, "requests", lambda producer: producer.requests
    ),
    NO_LINGER: _Sentence(
        {"5 ms": {}, "0 ms": {"linger_ms": 0}}, "ms, 99th percentile", lambda producer: producer.latency_ms(0.99), 1.5
    ),
    PARTITIONS: _Sentence(
        {"1 partition": {"partitions": 1}, "8 partitions": {"partitions": 8}},
        "batches", lambda producer: len(producer.batches), 1.5,
    ),
}  # fmt: skip


def draw_guides(records_per_s: int, record_bytes: int, round_trip_ms: int) -> Figure:
    """Which sentences hold at this load."""
    outcomes = outcomes_of(Load(records_per_s, record_bytes, round_trip_ms))
    held = sum(outcome.verdict == "HOLDS" for outcome in outcomes.values())
    title = f"At {records_per_s:,} records a second {held} of {len(outcomes)} sentences hold"
    note = f"Records of {record_bytes:,} bytes, a round trip of {round_trip_ms} ms; nothing but the load was changed"
    return verdicts({said: outcome.finding for said, outcome in outcomes.items()}, title=title, note=note)


def outcomes_of(load: Load) -> dict[str, Outcome]:
    """What comes of each sentence."""
    send = cache(lambda settings: load.sent(**dict(settings)))
    found = {}
    for said, sentence in _SENTENCES.items():
        values = {arm: sentence.measure(send(tuple(settings.items()))) for arm, settings in sentence.arms.items()}
        found[said] = _judged(said, values, sentence.unit, sentence.factor)
    large = send((("batch_size", 256 * _KB),))
    values = {"under way": most_under_way(large.batches) / 1000, "128 KB": SEND_BUFFER_BYTES / 1000}
    found[BUFFER] = _judged(BUFFER, values, "KB", 1)
    return found


def most_under_way(sent: list[SentBatch]) -> int:
    """The bytes of the batches that were sent and not yet answered, when they were most."""
    return max(
        sum(other.size for other in sent if other.sent_ms <= batch.sent_ms < other.answered_ms) for batch in sent
    )


def _judged(said: str, values: dict[str, float], unit: str, factor: float) -> Outcome:
    first, second = values
    plan = Experiment(
        claim=f"{said}: {first} gives at least {factor:g} times as much as {second}.",
        compared=(first, second),
        holds_if=f"at least {factor:g} times",
        prediction=1,
        because="it depends on the load: whether batches fill before their linger or their round trip is over",
        unit=unit,
        pairs=FEWEST_PAIRS,
    )
    return plan.run(values.__getitem__)
