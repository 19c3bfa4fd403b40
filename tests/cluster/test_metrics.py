"""The metrics of a node, as a scraper, a user of the command line, and a client that has counted see them."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress

import confluent_kafka
import pytest

from pykraft import Cluster
from pykraft.cli import main
from pykraft.common.prometheus import parse
from tests.harness.waiting import wait_until

LINE = re.compile(
    r'[a-z_][a-z0-9_]*(\{[a-z_][a-z0-9_]*="([^"\\\n]|\\[\\"n])*"(,[a-z_][a-z0-9_]*="([^"\\\n]|\\[\\"n])*")*\})? '
    r"(NaN|[+-]Inf|-?[0-9]+(\.[0-9]+)?(e[+-][0-9]+)?)"
)
"""What Prometheus' text format allows, without a time; and no capital letter is used."""
MESSAGES = 500
REQUESTS = "kafka_network_requestmetrics"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


_FAR_TOO_MUCH = 64 << 20


@pytest.fixture(scope="module")
def port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def cluster(port: int) -> Iterator[Cluster]:
    with Cluster(1, properties={"pykraft.metrics.listener": port}) as started:
        started.create_topic("t", partitions=1)
        yield started


def scraped(port: int) -> str:
    """By curl; or as a scraper would, where there is none."""
    url = f"http://127.0.0.1:{port}/metrics"
    curl = shutil.which("curl")
    assert curl is not None, "curl reads the metrics"
    return subprocess.run([curl, "-sSf", url], check=True, capture_output=True, text=True, timeout=20).stdout


def figures(port: int) -> dict[str, float]:
    """By name and labels."""
    return {
        sample.name + "".join(f" {key}={value}" for key, value in sample.labels): sample.value
        for sample in parse(scraped(port))
    }


# --- the endpoint -----------------------------------------------------------------------------------------------------


def test_curl_and_prometheus_own_parser_read_the_metrics(cluster: Cluster, port: int) -> None:
    text = scraped(port)
    lines = [line for line in text.splitlines() if not line.startswith("# ")]
    assert [line for line in lines if not LINE.fullmatch(line)] == []
    assert len(lines) == len({line.rsplit(" ", 1)[0] for line in lines}), "a metric is there twice"
    typed = re.findall(r"^# TYPE (\S+) (?:counter|gauge|summary)$", text, re.MULTILINE)
    assert len(typed) == len(set(typed)) == text.count("# HELP ")
    theirs = pytest.importorskip("prometheus_client.parser")
    found = {sample.name for family in theirs.text_string_to_metric_families(text) for sample in family.samples}
    assert found == {sample.name for sample in parse(text)}


@pytest.mark.parametrize(
    ("request_head", "status"),
    [
        (b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", 200),
        (b"HEAD /metrics?a=b HTTP/1.0\r\n\r\n", 200),
        (b"GET / HTTP/1.1\r\n\r\n", 404),
        (b"POST /metrics HTTP/1.1\r\n\r\n", 405),
        (b"\x00\x00\x00\x12\x00\x12\r\n\r\n", 400),
        (b"A" * (8 << 10), 400),
    ],
)
def test_each_request_gets_its_status_and_the_end_of_the_connection(
    cluster: Cluster, port: int, request_head: bytes, status: int
) -> None:
    with socket.create_connection(("127.0.0.1", port), 10) as client:
        client.sendall(request_head)
        head = b""
        while b"\r\n" not in head and (data := client.recv(1 << 16)):
            head += data
    assert head.startswith(b"HTTP/1.1 %d " % status)


def test_a_request_that_does_not_end_is_cut_off_and_others_are_answered(cluster: Cluster, port: int) -> None:
    sent = 0
    with socket.create_connection(("127.0.0.1", port), 10) as client, suppress(BrokenPipeError, ConnectionResetError):
        while sent < _FAR_TOO_MUCH:
            sent += client.send(b"A" * 1000)
    assert sent < _FAR_TOO_MUCH
    assert "kafka_server_" in scraped(port)


def test_clients_that_say_nothing_keep_nobody_out(cluster: Cluster, port: int) -> None:
    silent = [socket.create_connection(("127.0.0.1", port), 10) for _ in range(40)]
    assert "kafka_server_" in scraped(port)
    for client in silent:
        client.close()


def test_a_port_in_use_is_said_in_one_sentence(port: int, cluster: Cluster) -> None:
    with pytest.raises(Exception, match=r"pykraft\.metrics\.listener cannot listen on 127.0.0.1"):
        Cluster(1, properties={"pykraft.metrics.listener": port})


def test_a_node_in_a_process_says_where_its_metrics_are() -> None:
    with Cluster(1, mode="processes", properties={"pykraft.metrics.listener": "0"}) as cluster:
        said = (cluster.directory / "node-1.out").read_text()
        (port,) = re.findall(r"^metrics are at http://127\.0\.0\.1:(\d+)/metrics$", said, re.MULTILINE)
        assert figures(int(port))["kafka_controller_kafkacontroller_activecontrollercount"] == 1


# --- what is counted --------------------------------------------------------------------------------------------------


def test_the_metrics_say_what_librdkafka_has_counted(cluster: Cluster, port: int) -> None:
    before = figures(port)
    seen: list[dict[str, int]] = []

    def keep(text: str) -> None:
        brokers = json.loads(text)["brokers"].values()
        seen.extend(broker["req"] for broker in brokers if broker["nodeid"] == 1)

    settings = {"bootstrap.servers": cluster.bootstrap_servers, "statistics.interval.ms": 100, "stats_cb": keep}
    producer = confluent_kafka.Producer({**settings, "acks": "all", "linger.ms": 0})
    for number in range(MESSAGES):
        producer.produce("t", value=b"%d" % number, partition=0)
        if number % 50 == 0:
            producer.flush(20)
    assert producer.flush(20) == 0
    known = len(seen)
    wait_until(lambda: producer.poll(0.1) >= 0 and len(seen) > known + 1, "librdkafka has counted all")
    after = figures(port)

    def grown(request: str, part: str = f"{REQUESTS}_totaltimems_count") -> float:
        name = f"{part} request={request}"
        return after.get(name, 0) - before.get(name, 0)

    assert grown("Produce") == seen[-1]["Produce"] > 0
    kind = "kafka_server_brokertopicmetrics_"
    for name in (f"{kind}messagesin_total", f"{kind}messagesin_total topic=t"):
        assert after[name] - before.get(name, 0) == MESSAGES
    batches = f"{kind}totalproducerequests_total topic=t"
    assert after[batches] - before.get(batches, 0) == seen[-1]["Produce"]
    assert grown("Produce", f"{REQUESTS}_localtimems_sum") > 0
    total = grown("Produce", f"{REQUESTS}_totaltimems_sum")
    parts = "requestqueuetimems", "localtimems", "remotetimems", "responsequeuetimems", "responsesendtimems"
    assert sum(grown("Produce", f"{REQUESTS}_{part}_sum") for part in parts) == pytest.approx(total)
    by_version = [
        value for name, value in after.items() if name.startswith(f"{REQUESTS}_requests_total request=Produce ")
    ]
    assert sum(by_version) == after[f"{REQUESTS}_totaltimems_count request=Produce"]


def test_a_node_without_work_is_idle(cluster: Cluster, port: int) -> None:
    found = figures(port)
    for name in (
        "kafka_network_socketserver_networkprocessoravgidlepercent",
        "kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent",
    ):
        assert 0 < found[name] <= 1


# --- the command ------------------------------------------------------------------------------------------------------


def test_the_command_prints_what_matches(cluster: Cluster, port: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["metrics", "--server", str(port), "--match", "partitioncount"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("kafka_server_replicamanager_partitioncount ") for line in lines)
    assert all(re.fullmatch(r"\S+ +\d+", line) for line in lines)


def test_the_command_shows_rates(cluster: Cluster, port: int, capsys: pytest.CaptureFixture[str]) -> None:
    began = time.monotonic()
    assert main(["metrics", "--server", f"127.0.0.1:{port}", "--match", "requests_total", "--interval", "0.2"]) == 0
    assert time.monotonic() - began >= 0.2
    assert all(re.fullmatch(r"\S+ +\d+  [0-9.e-]+/s", line) for line in capsys.readouterr().out.splitlines())


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--server", "1"], "does the node have pykraft.metrics.listener=127.0.0.1:1"),
        (["--server", "nowhere"], "must be host:port"),
        (["--server", "{port}", "--match", "("], "no regular expression"),
        (["--server", "{port}", "--match", "nothing"], "no metric of"),
        (["--server", "{port}", "--interval", "0"], "must be more than 0"),
        (["--server", "{kafka}"], "no metrics were read from"),
    ],
)
def test_a_mistake_is_one_sentence(
    cluster: Cluster, port: int, arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    kafka = cluster.bootstrap_servers
    assert main(["metrics", *(each.format(port=port, kafka=kafka) for each in arguments)]) == 1
    complaint = capsys.readouterr().err
    assert told in complaint
    assert complaint.count("\n") == 1
