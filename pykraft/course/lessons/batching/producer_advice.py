"""Advice of common guides about producers, and what puts each piece to the test: notebook 09.

::

    advice = producer_advice(cluster)                  # by its sentence
    plan, measure = advice["Make batch.size larger"]
    plan.rule                                          # what counts as an answer, before anything is measured
    plan.run(measure, seed=2013).finding

What can be counted is counted: requests, batches, bytes, and the virtual time of a `VirtualProducer`, in which nodes
and network are never busy. Such a number is the same in each pair. Only the garbage collector is looked at in a live
load on `cluster`, client and broker in this process together: how much of its processor time are the pauses?
"""

import gc
import itertools
import time
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from pykraft.course.experiment import FEWEST_PAIRS, Experiment
from pykraft.course.rigs.virtual_producer import VirtualProducer
from pykraft.datasets import flight_statuses
from pykraft.producer import Producer

if TYPE_CHECKING:
    from pykraft.cluster import Cluster

Measure = Callable[[str], float]
_ROWS = 200
_LIVE_RECORDS, _RECORD_BYTES = 800, 100
_numbers = itertools.count(1)
_TIMEOUT_S = 60


class Advice(NamedTuple):
    """An experiment about one sentence of a guide, and what measures one of its arms."""

    plan: Experiment
    measure: Measure


def producer_advice(cluster: "Cluster") -> dict[str, Advice]:
    """What guides say, by the sentence. The live measurement needs a `cluster` in this process."""
    return {**_about_batches(), **_about_partitions(), **_about_compression(), **_about_the_collector(cluster)}


def _counted(what: str, arms: dict[str, dict[str, Any]], load: dict[str, Any], **plan: Any) -> Advice:
    """An experiment about the `what` of a producer with each arm's settings, after it has sent `load`.

    Both arms are counted once: a count is the same in each pair, so the fewest pairs do.
    """

    @cache
    def measure(arm: str) -> float:
        producer = VirtualProducer(**arms[arm])
        producer.send(**load)
        if what == "latency_ms":
            return producer.latency_ms(0.99)
        return float(len(producer.batches) if what == "batches" else getattr(producer, what))

    first, second = arms
    return Advice(Experiment(compared=(first, second), pairs=FEWEST_PAIRS, **plan), measure)


def _about_batches() -> dict[str, Advice]:
    sizes = {f"{kb} KB": {"batch_size": kb << 10} for kb in (16, 256)}
    patient = {name: {**settings, "linger_ms": 50} for name, settings in sizes.items()}
    steady = {"records": 400, "records_per_s": 1000}
    flood = {"records": 1000, "records_per_s": 20_000}
    return {
        "Make batch.size larger": _counted(
            "requests", sizes, steady,
            claim="At 1,000 records a second, 16 KB needs at least 2 times the requests of 256 KB.",
            holds_if="at least 2 times", prediction=1, unit="requests",
            because="in five milliseconds a batch gets five records of a hundred bytes, so it is never full",
            held="linger.ms=5, records of 100 bytes, one partition",
        ),
        "Make batch.size larger, at 20,000 records/s": _counted(
            "requests", patient, flood,
            claim="At 20,000 records a second, 16 KB needs at least 2 times the requests of 256 KB.",
            holds_if="at least 2 times", prediction=7, unit="requests",
            because="in fifty milliseconds a hundred kilobytes come, and a batch of sixteen is full long before",
            held="linger.ms=50, records of 100 bytes, one partition",
        ),
        "Raise linger.ms for throughput": _counted(
            "requests", {"0 ms": {"linger_ms": 0}, "20 ms": {"linger_ms": 20}}, steady,
            claim="At 1,000 records a second, linger.ms=0 needs at least 5 times the requests of 20.",
            holds_if="at least 5 times", prediction=10, unit="requests",
            because="a batch that waits for twenty milliseconds gets the records of all that time, one each ms",
            held="batch.size=16384, records of 100 bytes, one partition",
        ),
        "Set linger.ms=0 for the lowest latency": _counted(
            "latency_ms", {"5 ms": {"linger_ms": 5}, "0 ms": {"linger_ms": 0}}, steady,
            claim="At 1,000 records a second, the slowest take at least 1.5 times as long with 5 ms as with 0.",
            holds_if="at least 1.5 times", prediction=1, unit="ms",
            because="with five requests under way a record waits for one of them to be answered instead",
            held="99th percentile, a round trip of 10 ms, records of 100 bytes, one partition",
        ),
    }  # fmt: skip


def _about_compression() -> dict[str, Advice]:
    rows = [event.value for event in flight_statuses(_ROWS)]
    codecs = {codec: {"compression_type": codec, "linger_ms": 20} for codec in ("none", "lz4")}
    return {
        said: _counted(
            "bytes_per_record", codecs, {"records": _ROWS, "records_per_s": rate, "values": rows},
            claim=f"At {rate:,} rows a second, a row takes at least 2 times the bytes without lz4.",
            holds_if="at least 2 times", prediction=prediction, unit="bytes a row", because=because,
            held="rows of the flights as JSON, linger.ms=20, one partition",
        )
        for said, rate, prediction, because in (
            ("Turn compression on", 1000, 4,
             "twenty rows of one table repeat their names and most of their values"),
            ("Turn compression on, at 20 records/s", 20, 1,
             "a batch has one row, which says nothing twice but its quotes"),
        )
    }  # fmt: skip


def _about_partitions() -> dict[str, Advice]:
    arms = {f"{count} partition{'s' * (count > 1)}": {"partitions": count, "linger_ms": 20} for count in (1, 50)}
    return {
        "More partitions, more throughput": _counted(
            "batches", arms, {"records": 400, "records_per_s": 1000},
            claim="With one broker, 1 partition needs at least 1.5 times the batches of 50.",
            holds_if="at least 1.5 times", prediction=0.1, unit="batches",
            because="a record waits for others of its own partition only, so batches are smaller and more",
            held="one producer, one broker, linger.ms=20, 1,000 records of 100 bytes a second",
        ),
    }  # fmt: skip


def _about_the_collector(cluster: "Cluster") -> dict[str, Advice]:
    plan = Experiment(
        claim="All the time that records take is at most 5 times the time of the collector's pauses.",
        compared=("all", "pauses"), holds_if="at most 5 times", prediction=50, unit="ms for 1,000 records",
        because="most objects are freed by their reference counts, and the collector has only cycles to find",
        held="one producer, one broker, records of 100 bytes, as fast as they go", pairs=FEWEST_PAIRS,
    )  # fmt: skip
    return {"Tune the garbage collector": Advice(plan, _Bench(cluster).measure)}


class _Bench:
    """A live load on a cluster in this process, and how much of it the garbage collector takes."""

    def __init__(self, cluster: "Cluster") -> None:
        self._cluster = cluster
        self._topic = f"advice-{next(_numbers)}"
        cluster.create_topic(self._topic, 1, 1)

    def measure(self, arm: str) -> float:
        """Milliseconds of processor time that 1,000 records take: all of them, or those of the collector's pauses."""
        pauses: list[float] = []

        def on_collection(phase: str, _: object) -> None:
            pauses.append(time.process_time() * (1 if phase == "stop" else -1))

        gc.freeze()  # what the notebook has made before is not the records' garbage
        gc.callbacks.append(on_collection)
        try:
            all_s = self._send()
        finally:
            gc.callbacks.remove(on_collection)
            gc.unfreeze()
        return (all_s if arm == "all" else sum(pauses)) * 1e6 / _LIVE_RECORDS

    def _send(self) -> float:
        """Send the records; the seconds of processor time that this takes, in all threads together."""
        value = bytes(_RECORD_BYTES)
        with Producer(bootstrap_servers=self._cluster.bootstrap_servers) as producer:
            producer.send(self._topic, value).result(_TIMEOUT_S)
            before = time.process_time()
            for _ in range(_LIVE_RECORDS):
                producer.send(self._topic, value)
            producer.flush()
            return time.process_time() - before
