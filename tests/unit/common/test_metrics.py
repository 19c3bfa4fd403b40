"""The registry of metrics, and its text for Prometheus."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft.common.core import finish
from pykraft.common.metrics import CLUSTER, NETWORK, QUANTILES, Histogram, Metrics
from pykraft.common.prometheus import Sample, exposition, exposition_in_steps, parse


def samples(metrics: Metrics) -> dict[str, float]:
    """By name and labels, as they stand in the text."""
    return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in lines(metrics)}


def lines(metrics: Metrics) -> list[str]:
    return [line for line in exposition(metrics).splitlines() if not line.startswith("#")]


# --- histograms -------------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 1 << 50), min_size=1, max_size=200))
def test_a_quantile_is_within_an_eighth_of_the_value_that_has_its_rank(values: list[int]) -> None:
    histogram = Histogram()
    for value in values:
        histogram.record(value)
    ranked = sorted(values)
    for quantile, found in zip(QUANTILES, histogram.quantiles(), strict=True):
        rank = next(n for n in range(1, len(ranked) + 1) if n >= quantile * len(ranked))
        assert abs(found - ranked[rank - 1]) <= ranked[rank - 1] / 8
    assert (histogram.count, histogram.sum) == (len(values), sum(values))


def test_quantiles_are_of_the_last_two_minutes_and_the_count_of_all_time() -> None:
    metrics = Metrics()
    histogram = metrics.histogram("RequestMetrics", "TotalTimeMs", NETWORK, request="Fetch")
    now = 60_000
    metrics.tick(now)
    histogram.record(1000)
    metrics.tick(now + 59_999)
    metrics.tick(now + 60_000)
    histogram.record(2)
    assert [round(value / 1000) for value in histogram.quantiles()] == [0, 1, 1, 1, 1, 1]
    metrics.tick(now + 120_000)
    assert histogram.quantiles() == [2] * len(QUANTILES)
    metrics.tick(now + 180_000)
    assert histogram.quantiles() == [0] * len(QUANTILES)
    assert (histogram.count, histogram.sum) == (2, 1002)


def test_values_are_shown_in_their_unit() -> None:
    histogram = Histogram(unit=1_000_000)
    histogram.record(2_000_000)
    assert histogram.sum == 2
    assert histogram.quantiles()[0] == pytest.approx(2, rel=1 / 8)


# --- text -------------------------------------------------------------------------------------------------------------


def registry() -> Metrics:
    """One metric of each kind."""
    metrics = Metrics()
    metrics.gauge("ReplicaManager", "UnderReplicatedPartitions", lambda: 3)
    metrics.meter("BrokerTopicMetrics", "BytesInPerSec", topic='a"\\\n-b').mark(1 << 60)
    metrics.meter("BrokerTopicMetrics", "BytesInPerSec").mark(7)
    metrics.gauge("KafkaRequestHandlerPool", "RequestHandlerAvgIdlePercent", lambda: 0.1 + 0.2)
    metrics.gauge("raft-metrics", "current-leader", lambda: -1)
    metrics.series("Partition", "UnderMinIsr", lambda: [({"topic": "t", "partition": "0"}, 1)], CLUSTER)
    metrics.histogram("RequestMetrics", "TotalTimeMs", NETWORK, request="Fetch").record(100)
    return metrics


def test_names_follow_from_kafkas_by_a_rule() -> None:
    found = samples(registry())
    assert found["kafka_server_replicamanager_underreplicatedpartitions"] == 3
    assert found["kafka_server_brokertopicmetrics_bytesin_total"] == 7
    assert found[r'kafka_server_brokertopicmetrics_bytesin_total{topic="a\"\\\n-b"}'] == 1 << 60
    assert found["kafka_server_raft_metrics_current_leader"] == -1
    assert found['kafka_cluster_partition_underminisr{topic="t",partition="0"}'] == 1
    assert found['kafka_network_requestmetrics_totaltimems_count{request="Fetch"}'] == 1
    assert 'kafka_network_requestmetrics_totaltimems{request="Fetch",quantile="0.999"}' in found


def test_each_family_says_once_what_it_is() -> None:
    text = exposition(registry())
    assert text.count("# TYPE kafka_server_brokertopicmetrics_bytesin_total counter\n") == 1
    assert "# TYPE kafka_network_requestmetrics_totaltimems summary\n" in text
    assert (
        "# HELP kafka_network_requestmetrics_totaltimems kafka.network:type=RequestMetrics,name=TotalTimeMs\n" in text
    )
    assert "# TYPE kafka_server_replicamanager_underreplicatedpartitions gauge\n" in text


def test_the_text_is_made_a_family_at_a_time_so_that_others_come_between() -> None:
    metrics, read = Metrics(), list[int]()
    for number in range(20):
        metrics.gauge("t", f"n{number}", lambda number=number: read.append(number) or 0)
    steps = exposition_in_steps(metrics)
    for count in range(1, 21):
        next(steps)
        assert len(read) == count
    assert finish(exposition_in_steps(metrics)) == exposition(metrics)


def test_prometheus_own_parser_reads_what_ours_reads() -> None:
    theirs = pytest.importorskip("prometheus_client.parser")
    text = exposition(registry())
    found = {
        (sample.name, frozenset(sample.labels.items()), sample.value, family.type)
        for family in theirs.text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert {(each.name, frozenset(each.labels), each.value, each.kind) for each in parse(text)} == found


@given(st.dictionaries(st.from_regex(r"[a-z_]{1,5}", fullmatch=True), st.text(max_size=8), max_size=3), st.floats())
def test_what_is_written_is_read(labels: dict[str, str], value: float) -> None:
    metrics = Metrics()
    metrics.series("t", "n", lambda: [(labels, value)], "g")
    (found,) = parse(exposition(metrics))
    assert found == Sample("g_t_n", tuple(labels.items()), pytest.approx(value, nan_ok=True), "gauge")


@pytest.mark.parametrize("line", ["no value", "n{a=b} 1", 'n{a="b} 1', "1n 1", "n  1", "<html>"])
def test_what_is_no_sample_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match=r"this is no line|could not convert"):
        parse(f"# TYPE n gauge\n{line}\n")


def test_a_registry_is_read_in_the_order_of_names() -> None:
    names = [f"m{number}" for number in range(20)]
    Random(1).shuffle(names)
    metrics = Metrics()
    for name in names:
        metrics.meter("t", name)
    assert [name for _, name, _ in metrics.read()] == sorted(names)


def test_a_gauge_that_raises_is_left_out_and_told() -> None:
    metrics, told = Metrics(), []

    def raising() -> float:
        raise ValueError("planted")

    metrics.gauge("Kind", "broken", raising)
    metrics.gauge("Kind", "whole", lambda: 3)
    metrics.series("Kind", "series", lambda: [({"a": "1"}, raising())])
    with pytest.raises(ValueError, match="planted"):
        list(metrics.families())
    metrics.on_error = told.append
    assert {family.name: list(family.metrics.values()) for family in metrics.families()} == {
        "broken": [],
        "series": [],
        "whole": [3.0],
    }
    assert len(told) == 2
