"""The levers of notebook 26: an experiment whose truth the reader sets, and some sentences to put to the test.

`draw_verdict` runs a real `Experiment` with an instrument of known effect and noise: how often is the verdict the
truth? `draw_sentence` measures both arms of a sentence about producers with pykraft's own code, on a simulated clock.
"""

from collections.abc import Callable, Mapping
from random import Random
from typing import Any, NamedTuple

from pykraft.course.experiment import Experiment, Outcome
from pykraft.course.rigs.virtual_producer import VirtualProducer
from pykraft.viz import Figure, bars

CLAIMED = 2
_SENDS_MS = 200
_KB = 1 << 10


def draw_verdict(true_percent: int, noise_percent: int, pairs: int, luck: int) -> Figure:
    """What the rule says of "A takes at least 2 times as long as B", where A takes `true_percent` of B."""
    return verdict(true_percent, noise_percent, pairs, luck).picture


def verdict(true_percent: int, noise_percent: int, pairs: int, luck: int) -> Outcome:
    """The outcome of an experiment with this truth, and this noise in each measurement."""
    chance = Random(f"{luck}/{true_percent}/{noise_percent}/{pairs}")
    truth = {"A": 10 * true_percent / 100, "B": 10.0}
    plan = Experiment(
        claim=f"A takes at least {CLAIMED} times as long as B.",
        compared=("A", "B"),
        holds_if=f"at least {CLAIMED} times",
        prediction=true_percent / 100,
        because="the truth is known here, since the lever sets it: noise alone can hide it",
        pairs=pairs,
    )
    return plan.run(lambda arm: truth[arm] * chance.lognormvariate(0, noise_percent / 100), seed=luck)


class Sentence(NamedTuple):
    """Two settings of a producer, and what of it is compared."""

    arms: Mapping[str, Mapping[str, Any]]
    what: str
    unit: str
    measure: Callable[[VirtualProducer], float]


def _median(producer: VirtualProducer) -> float:
    return producer.latency_ms()


def _slowest(producer: VirtualProducer) -> float:
    return producer.latency_ms(0.99)


def _requests(producer: VirtualProducer) -> float:
    return producer.requests


SENTENCES = {
    "linger.ms=0 has the lowest latency": Sentence(
        {"5 ms": {"linger_ms": 5}, "0 ms": {"linger_ms": 0}}, "the 99th percentile", "ms", _slowest
    ),
    "a larger batch.size saves requests": Sentence(
        {"16 KB": {"batch_size": 16 * _KB, "linger_ms": 20}, "256 KB": {"batch_size": 256 * _KB, "linger_ms": 20}},
        "all requests, with linger.ms=20", "requests", _requests,
    ),
    "one request in flight is slow": Sentence(
        {
            "five in flight": {},
            "one in flight": {"max_in_flight_requests_per_connection": 1},
        },
        "the median", "ms", _median,
    ),
    "an idempotent producer is slower": Sentence(
        {"without": {"enable_idempotence": False}, "idempotent": {}}, "the median", "ms", _median
    ),
}  # fmt: skip


def draw_sentence(sentence: str, records_per_s: int, round_trip_ms: int) -> Figure:
    """Both arms of this sentence, at this load on this network."""
    said = SENTENCES[sentence]
    found = {}
    for name, settings in said.arms.items():
        producer = VirtualProducer(round_trip_ms=round_trip_ms, **settings)
        producer.send(max(1, records_per_s * _SENDS_MS // 1000), records_per_s=records_per_s)
        found[name] = said.measure(producer)
    (first, one), (second, other) = found.items()
    title = f"“{sentence}”: {second} gives {other / one:.2f} times what {first} gives"
    note = f"{records_per_s:,} records a second, a round trip of {round_trip_ms} ms; {said.what}"
    return bars(found, title=title, note=note, unit=said.unit)
