"""The feed of notebook 24's pipeline, and the pipeline from the command line."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from pykraft import Cluster, Consumer, TopicPartition
from pykraft.course.lessons.structured_streaming.flight_stream import TOPIC, FlightFeed, compared, new_topic
from pykraft.datasets import flights
from tests.harness.tree import ROOT


def values(servers: str, partitions: int) -> set[bytes | None]:
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        every = [TopicPartition(TOPIC, number) for number in range(partitions)]
        consumer.assign(every)
        ends = consumer.end_offsets(every)
        found = []
        while sum(consumer.position(one) for one in every) < sum(ends.values()):
            found += [record.value for some in consumer.poll(500).values() for record in some]
    assert len(found) == len(set(found)), "a flight was sent twice"
    return set(found)


def test_a_feed_sends_each_flight_once_and_another_one_goes_on_where_it_ended() -> None:
    with Cluster(nodes=1) as cluster:
        with cluster.admin() as admin:
            admin.create_topics([new_topic(TOPIC)])
        feed = FlightFeed(cluster.bootstrap_servers, per_second=5_000, limit=900)
        feed.wait(300)
        feed.close()
        assert 300 <= feed.sent <= feed.limit == 900
        rest = FlightFeed(cluster.bootstrap_servers, per_second=50_000, limit=900, first=feed.sent)
        rest.wait(900)
        rest.close()
        assert (rest.sent, rest.is_running) == (900, False)
        assert values(cluster.bootstrap_servers, 3) == {flight.value for flight in flights(900)}


@pytest.mark.long
def test_the_pipeline_runs_from_the_command_line_and_tells_each_batch(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "datasets" / "pipeline.py"), "--flights", "3000", "--per-second", "10000"]
    done = subprocess.run(
        [*command, "--folder", str(tmp_path)], check=False, capture_output=True, text=True, timeout=280, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr[-2000:]
    told = re.findall(
        r"^(table|alerts) +batch +(\d+): +([\d,]+) rows, .* rows/s, lag +[\d,]+, .*", done.stdout, re.MULTILINE
    )
    for name in ("table", "alerts"):
        assert sum(int(rows.replace(",", "")) for who, _, rows in told if who == name) == 3_000
    assert list((tmp_path / "delays").glob("*.parquet"))


def test_the_comparison_of_two_sinks_counts_what_is_there_twice() -> None:
    default = {(0, offset): 2 if offset < 3 else 1 for offset in range(20)}
    figure = compared(default, dict.fromkeys(default, 1))
    assert figure.title == "After the crash 3 alerts are there twice; with exactlyOnce none"
    assert "14 of 20 alerts" in figure.text and "more than once: 0 (2 times), 1 (2 times), 2 (2 times)" in figure.text
