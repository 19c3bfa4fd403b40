"""The command line as a shell runs it: processes, pipes, files, signals, and a cluster of which a node is dead."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pykraft import Cluster
from pykraft.cli import main
from tests.harness.waiting import wait_until

LIMIT_S = 60


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(2, controllers=1) as running:
        yield running


def command(cluster: Cluster, verb: str, *arguments: object) -> list[str]:
    reached = ("--bootstrap-server", cluster.bootstrap_servers)
    return [sys.executable, "-m", "pykraft", verb, *reached, *map(str, arguments)]


def run(cluster: Cluster, verb: str, *arguments: object, words: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(cluster, verb, *arguments), input=words, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )


def make_topic(cluster: Cluster, name: str) -> str:
    with cluster.admin() as admin:
        admin.create_topic(name, 1, 2)
    return name


def test_what_one_process_sends_another_one_prints_as_it_comes(cluster: Cluster) -> None:
    topic = make_topic(cluster, "piped")
    reader = subprocess.Popen(
        command(cluster, "consume", "--topic", topic, "--from-beginning"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with reader:
        assert reader.stdout is not None
        for word in ("one", "two"):  # the second is sent when the first has been printed
            assert run(cluster, "produce", "--topic", topic, words=f"{word}\n").returncode == 0
            assert reader.stdout.readline().decode() == f"{word}\n"
        reader.send_signal(signal.SIGINT)
        rest, complaints = reader.communicate(timeout=LIMIT_S)
    assert (reader.returncode, rest, complaints) == (0, b"", b"Processed a total of 2 messages\n")


def test_who_has_seen_enough_may_hang_up(cluster: Cluster) -> None:
    topic = make_topic(cluster, "hung-up")
    line = "more than a pipe holds " * 10
    assert run(cluster, "produce", "--topic", topic, words=f"{line}\n" * 5000).returncode == 0
    reader = subprocess.Popen(
        command(cluster, "consume", "--topic", topic, "--from-beginning"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with reader:
        assert reader.stdout is not None
        assert reader.stderr is not None
        assert reader.stdout.readline().decode() == f"{line}\n"
        reader.stdout.close()
        complaints = reader.stderr.read().decode()
        assert reader.wait(LIMIT_S) == 1
    assert "Traceback" not in complaints
    assert complaints.count("\n") == 1  # how many records it had been


def test_settings_come_from_a_file_and_from_the_line(cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("client.id=from-a-file\nrequest.timeout.ms=0\n")
    refused = run(cluster, "topics", "--list", "--command-config", file)
    assert refused.returncode == 1
    assert "request.timeout.ms is '0'" in refused.stderr
    mended = run(cluster, "topics", "--list", "--command-config", file, "--command-property", "request.timeout.ms=9000")
    assert (mended.returncode, mended.stderr) == (0, "")


def test_options_that_are_settings_under_other_names_have_their_effect(cluster: Cluster, tmp_path: Path) -> None:
    topic = make_topic(cluster, "named")
    reader, formatter = tmp_path / "reader.properties", tmp_path / "formatter.properties"
    reader.write_text("parse.key=true\nkey.separator=:\n")
    formatter.write_text("print.key=true\nkey.separator=!\n")
    said = "--batch-size 1 --timeout 0 --max-block-ms 9000 --request-timeout-ms 8000 --producer-property client.id=me"
    sent = run(cluster, "produce", "--topic", topic, *said.split(), "--reader-config", reader, words="a:b\nc:d\n")
    assert (sent.returncode, sent.stderr) == (0, "")
    limits = "--from-beginning --max-messages 2 --consumer-property client.id=me"
    found = run(cluster, "consume", "--topic", topic, *limits.split(), "--formatter-config", formatter)
    assert found.stdout == "a!b\nc!d\n"
    refused = run(cluster, "produce", "--topic", topic, "--max-block-ms", "long")
    assert "max.block.ms is 'long', but must be a whole number" in refused.stderr


def test_partitions_that_cannot_lose_a_replica_are_shown(cluster: Cluster) -> None:
    with cluster.admin() as admin:
        admin.create_topic("thin", 1, 2, configs={"min.insync.replicas": 2})
        admin.create_topic("thick", 1, 2)
        topic_id = admin.describe_topics(["thick"])["thick"].topic_id
    at, under = (run(cluster, "topics", "--describe", f"--{which}-min-isr-partitions") for which in ("at", "under"))
    assert [line.split("\t")[1] for line in at.stdout.splitlines()] == ["Topic: thin"]
    assert (under.returncode, under.stdout) == (0, "")
    assert run(cluster, "topics", "--describe", "--topic-id", topic_id).stdout.startswith("Topic: thick\t")
    refused = run(cluster, "topics", "--describe", "--topic-id", "nobody")
    assert refused.stderr == "pykraft: there is no topic with the id nobody\n"


def test_a_dump_of_a_running_nodes_log_shows_what_was_sent(cluster: Cluster) -> None:
    topic = make_topic(cluster, "dumped")
    assert run(cluster, "produce", "--topic", topic, words="for the dump\n").returncode == 0
    logs = sorted(Path(cluster.directory).rglob(f"{topic}-0/*.log"))
    assert len(logs) == 2
    for log in logs:
        done = subprocess.run(
            [sys.executable, "-m", "pykraft", "dump-log", "--files", str(log), "--print-data-log"],
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=True,
        )
        assert done.stdout.splitlines()[-1].endswith(" payload: for the dump")


def test_output_is_utf_8_wherever_it_goes(cluster: Cluster) -> None:
    topic = make_topic(cluster, "worded")
    assert run(cluster, "produce", "--topic", topic, words="Grüße\n").returncode == 0
    done = subprocess.run(
        command(cluster, "consume", "--topic", topic, "--from-beginning", "--max-messages", 1),
        capture_output=True,
        timeout=LIMIT_S,
        check=True,
        env={**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    )
    assert done.stdout.decode() == "Grüße\n"


def test_what_a_dead_node_leaves_behind_is_shown(cluster: Cluster) -> None:
    """The last test here: afterwards there is only one broker."""
    topic = make_topic(cluster, "bereaved")
    create = ("topics", "--create", "--topic", "lone", "--replica-assignment", "2")
    wait_until(lambda: run(cluster, *create).returncode == 0, "node 2 is not fenced")
    cluster.kill(2)

    def shown(which: str) -> list[str]:
        lines = run(cluster, "topics", "--describe", which).stdout.splitlines()
        return [line.strip().split("\t")[0] for line in lines]

    wait_until(lambda: f"Topic: {topic}" in shown("--under-replicated-partitions"), f"{topic} lacks a replica")
    wait_until(lambda: "Topic: lone" in shown("--unavailable-partitions"), "lone has no leader")
    assert f"Topic: {topic}" not in shown("--unavailable-partitions")
    told = run(cluster, "get-offsets", "--topic", f"lone|{topic}")
    assert told.stdout == f"{topic}:0:0\n"
    assert told.stderr == "Skip getting offsets for topic-partition lone-0 due to error: it has no leader\n"


# --- in this process, which is quicker --------------------------------------------------------------------------------


@pytest.fixture
def run_here(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[..., list[str]]]:
    """Runs a command, and returns the lines that it prints."""

    def run(verb: str, *arguments: object) -> list[str]:
        assert main([verb, "--bootstrap-server", cluster.bootstrap_servers, *map(str, arguments)]) == 0
        return capsys.readouterr().out.splitlines()

    before = signal.getsignal(signal.SIGTERM)
    yield run
    signal.signal(signal.SIGTERM, before)


def events(lines: list[str]) -> list[dict[str, object]]:
    """The lines of JSON, without their times."""
    found = [json.loads(line) for line in lines]
    assert all(isinstance(each.pop("timestamp"), int) for each in found)
    return found


def test_what_verifiable_clients_say_is_what_kafkas_say(cluster: Cluster, run_here: Callable[..., list[str]]) -> None:
    """Recorded from kafka-verifiable-producer.sh, kafka-verifiable-consumer.sh and kafka-groups.sh of 4.4.0."""
    topic, place = make_topic(cluster, "vp"), {"topic": "vp", "partition": 0}
    said = ("--max-messages", 3, "--repeating-keys", 2, "--value-prefix", 7)
    *begun, end = events(run_here("verifiable-producer", "--topic", topic, *said))
    assert begun == [
        {"name": "startup_complete"},
        {"name": "producer_send_success", "key": "0", "value": "7.0", "offset": 0, **place},
        {"name": "producer_send_success", "key": "1", "value": "7.1", "offset": 1, **place},
        {"name": "producer_send_success", "key": "0", "value": "7.2", "offset": 2, **place},
        {"name": "shutdown_complete"},
    ]
    assert end.pop("avg_throughput")
    assert end == {"name": "tool_data", "sent": 3, "acked": 3, "target_throughput": -1}
    of_group = ("--group-id", "vg", "--max-messages", 3, "--verbose")
    assert events(run_here("verifiable-consumer", "--topic", topic, *of_group)) == [
        {"name": "startup_complete"},
        {"name": "partitions_assigned", "partitions": [place]},
        {"name": "record_data", "key": "0", "value": "7.0", **place, "offset": 0},
        {"name": "record_data", "key": "1", "value": "7.1", **place, "offset": 1},
        {"name": "record_data", "key": "0", "value": "7.2", **place, "offset": 2},
        {"name": "records_consumed", "count": 3, "partitions": [{**place, "count": 3, "minOffset": 0, "maxOffset": 2}]},
        {"name": "offsets_committed", "offsets": [{**place, "offset": 3}], "success": True},
        {"name": "partitions_revoked", "partitions": [place]},
        {"name": "shutdown_complete"},
    ]
    titles = f"{'GROUP':<20} {'TYPE':<20} {'PROTOCOL':<20}"
    row = f"{'vg':<20} {'Classic':<20} {'consumer':<20} "
    assert run_here("groups", "--list", "--consumer") == [titles, row]
    assert run_here("groups", "--list", "--share") == [titles]
    (as_json,) = run_here("groups", "--list", "--json")
    assert json.loads(as_json) == {"groups": [{"group": "vg", "type": "Classic", "protocol": "consumer"}]}


def test_the_latency_from_a_producer_to_a_consumer_is_measured_record_by_record(
    run_here: Callable[..., list[str]],
) -> None:
    sizes = ("--record-size", 10, "--record-key-size", 2, "--num-headers", 1, "--record-header-key-size", 3)
    said = ("--topic", "e2e", "--num-records", 5, "--producer-acks", "all", *sizes)
    first, second, average, percentiles = run_here("e2e-latency", *said)
    assert first == 'Topic "e2e" does not exist. Will create topic with 1 partition(s) and replication factor = 1'
    assert re.fullmatch(r"0\t[\d.]+", second)
    assert re.fullmatch(r"Avg latency: \d+\.\d{4} ms", average)
    assert re.fullmatch(r"Percentiles: 50th = \d+, 99th = \d+, 99\.9th = \d+", percentiles)
