"""`pykraft up`: a cluster in one command, as a shell runs it and an unmodified client uses it."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from confluent_kafka.admin import AdminClient

from pykraft import Consumer, Producer
from pykraft.common.errors import KafkaError
from tests.harness.waiting import wait_until

LIMIT_S = 60
REFUSAL = "INVALID_TOPIC_EXCEPTION"


def free_ports(count: int) -> int:
    """The first of so many neighbouring ports that are free."""
    for first in range(20_000, 30_000, 100):
        sockets = [socket.socket() for _ in range(count)]
        try:
            for n, sock in enumerate(sockets):
                sock.bind(("127.0.0.1", first + n))
        except OSError:
            continue
        else:
            return first
        finally:
            for sock in sockets:
                sock.close()
    raise AssertionError("no free ports")


@contextmanager
def up(*said: object) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A cluster that runs, and where it says it is."""
    command = [sys.executable, "-m", "pykraft", "up", *map(str, said)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("ready at "), (line, process.stderr and process.stderr.read())
            yield process, line.removeprefix("ready at ").partition(";")[0]
        finally:
            process.kill()


def test_a_topic_is_asked_for_by_name_and_numbers() -> None:
    for text in ("", "a:b", "a:0", "a:1:2:3"):
        command = [sys.executable, "-m", "pykraft", "up", "--topic", text]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        assert f"{text!r} must be NAME, NAME:PARTITIONS or NAME:PARTITIONS:REPLICAS" in done.stderr


def refusal(*said: object) -> str:
    command = [sys.executable, "-m", "pykraft", "up", *map(str, said)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    return done.stderr


def test_three_brokers_stand_on_the_ports_after_the_one_that_was_asked_for_and_leave_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = free_ports(3)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with up("--nodes", 3, "--port", port, "--network", "staged") as (process, servers):
        kafkas_threads = 3 * 2 * (1 + 3 + 8)  # of each role: acceptor, network threads, handlers
        assert len(psutil.Process(process.pid).threads()) > kafkas_threads
        assert servers == ",".join(f"127.0.0.1:{port + n}" for n in range(3))
        brokers = AdminClient({"bootstrap.servers": servers}).list_topics(timeout=LIMIT_S).brokers.values()
        assert sorted(broker.port for broker in brokers) == [port, port + 1, port + 2]
        assert len(list(tmp_path.iterdir())) == 1
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT_S) == 0
    assert list(tmp_path.iterdir()) == []


def test_data_stay_where_they_were_asked_for_and_settings_hold(tmp_path: Path) -> None:
    port = free_ports(1)
    said = ("--port", port, "--data", tmp_path / "kept", "--override", "num.partitions=4")
    with up(*said) as (process, servers):
        with Producer(bootstrap_servers=servers) as producer:
            producer.send("made-on-first-use", b"kept", partition=3).result(LIMIT_S)
        process.send_signal(signal.SIGINT)
        assert process.wait(LIMIT_S) == 0
    earliest = {"auto_offset_reset": "earliest"}
    with up(*said) as (_, servers), Consumer("made-on-first-use", bootstrap_servers=servers, **earliest) as consumer:
        assert next(consumer).value == b"kept"


def test_others_are_let_in_topics_are_made_faults_are_taken_and_all_is_said_to_a_program(tmp_path: Path) -> None:
    """127.0.0.2 stands for another address of this machine: it is listened on by 0.0.0.0 alone."""
    port, faults = free_ports(1), tmp_path / "faults.json"
    said = ("--port", port, "--host", "0.0.0.0", "--advertise", "127.0.0.2", "--json", "--faults", faults)
    command = [sys.executable, "-m", "pykraft", "up", *map(str, said), "--topic", "one", "--topic", "two:3:1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert json.loads(process.stdout.readline()) == {"bootstrap_servers": f"127.0.0.1:{port}"}
            metadata = AdminClient({"bootstrap.servers": f"127.0.0.2:{port}"}).list_topics(timeout=LIMIT_S)
            assert [str(broker) for broker in metadata.brokers.values()] == [f"127.0.0.2:{port}/1"]
            topics = {name: len(topic.partitions) for name, topic in metadata.topics.items()}
            internal = {"__consumer_offsets": 3, "__transaction_state": 3}  # made at the start, in the background
            assert {"one": 1, "two": 3}.items() <= topics.items() <= {"one": 1, "two": 3, **internal}.items()
            added = [sys.executable, "-m", "pykraft", "fault", str(faults), "--api", "Produce", "--error", REFUSAL]
            subprocess.run(added, check=True, capture_output=True, timeout=LIMIT_S)
            with Producer(bootstrap_servers=f"127.0.0.2:{port}", retries=0) as producer:

                def is_refused() -> bool:
                    try:
                        producer.send("one", b"x").result(LIMIT_S)
                    except KafkaError as error:
                        return error.code.name == REFUSAL
                    return False

                wait_until(is_refused, "the fault is met")
        finally:
            process.kill()


def test_a_port_that_is_taken_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        said = refusal("--port", port)
    assert said == f"pykraft: port {port} is taken by another program (Address already in use)\n"


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        (("--nodes", 0), "nodes=0: a cluster has at least one broker"),
        (
            ("--port", 65_535, "--nodes", 2),
            "port=65535: the brokers' ports, 2 from this one on, lie between 1 and 65535",
        ),
        (
            ("--host", "0.0.0.0", "--advertise", "no.such.host.invalid"),
            "advertise='no.such.host.invalid': this machine must find that host itself, for the brokers reach each"
            " other there, too",
        ),
        (("--override", "no.such=1"), "properties has no.such, which is no setting of a node: leave it out"),
    ],
)
def test_a_mistake_is_one_sentence(said: tuple[object, ...], answer: str) -> None:
    assert refusal(*said) == f"pykraft: {answer}\n"
