"""What the two measuring commands count, and the lines that they make of it; Kafka's tools print the same lines
(tests/interop/test_cluster_tools.py)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pykraft.cli import main
from pykraft.commands.records.producer_perf_test import Statistics, percentiles

SEND = "producer-perf-test --topic t --throughput -1"
SERVED = "--bootstrap-server 127.0.0.1:1"
READ = f"consumer-perf-test {SERVED}"


def test_each_interval_is_a_line_and_all_together_are_the_last_one() -> None:
    statistics = Statistics(records=4, interval_ms=1000, now_ms=0.0)
    lines = [
        line
        for latency_ms, now_ms in ((5, 100.0), (15, 1000.0), (30, 1100.0), (10, 2500.0))
        for line in statistics.record(latency_ms, size=1 << 20, now_ms=now_ms)
    ]
    assert lines == [
        "2 records sent, 2.0 records/sec (2.00 MB/sec), 10.0 ms avg latency, 15.0 ms max latency.",
        "2 records sent, 1.3 records/sec (1.33 MB/sec), 20.0 ms avg latency, 30.0 ms max latency.",
    ]
    assert statistics.total(now_ms=4000.0) == (
        "4 records sent, 1.000000 records/sec (1.00 MB/sec), 15.00 ms avg latency, 30.00 ms max latency, 15 ms 50th,"
        " 30 ms 95th, 30 ms 99th, 30 ms 99.9th."
    )


def test_the_records_after_the_warm_up_are_a_sum_of_their_own() -> None:
    steady = Statistics(records=2, interval_ms=10, now_ms=0.0, what=" steady state")
    assert next(iter(steady.record(1, 1, 20.0))) == "In steady state."
    warming = Statistics(records=2, interval_ms=10, now_ms=0.0)
    warming.prints = False
    assert not list(warming.record(1, 1, 20.0))
    assert steady.total(20.0).startswith("1 steady state records sent, 50.000000 records/sec")


def test_a_percentile_is_the_latency_that_so_many_records_did_not_exceed() -> None:
    assert percentiles(range(1000, 0, -1), (0.5, 0.95, 0.99, 0.999)) == [501, 951, 991, 1000]
    assert percentiles([], (0.5, 0.999)) == [0, 0]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (f"{SEND} {SERVED} --num-records 0 --record-size 1", "--num-records is 0, but must be greater than zero"),
        (f"{SEND} {SERVED} --num-records 1 --record-size 0", "--record-size is 0, but must be greater than zero"),
        (f"{SEND} {SERVED} --num-records 1", "one of the arguments --record-size --payload-file"),
        (f"{SEND} {SERVED} --num-records 1 --record-size 1 --payload-monotonic", "not allowed with argument"),
        (f"{SEND} {SERVED} --num-records 1 --record-size 1 --warmup-records 1", "--warmup-records must be smaller"),
        (f"{SEND} {SERVED} --num-records 1 --payload-file nowhere", "nowhere cannot be read: No such file"),
        (f"{SEND} {SERVED} --num-records 1 --record-size 1 --command-property acks", "acks is no KEY=VALUE"),
        (f"{READ} --topic t --num-records 0", "--num-records is 0, but must be greater than zero"),
        (f"{READ} --include ( --num-records 1", "( is no regular expression"),
        (f"{READ} --num-records 1", "one of the arguments --topic --include is required"),
    ],
)
def test_a_mistake_is_one_sentence(line: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(line.split()) == 1
    complaint = capsys.readouterr().err
    assert complaint.count("\n") == 1
    assert words in complaint


def test_an_empty_file_of_values_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "values").touch()
    assert main([*f"{SEND} {SERVED} --num-records 1 --payload-file".split(), str(tmp_path / "values")]) == 1
    assert re.search(r"values is empty", capsys.readouterr().err)
