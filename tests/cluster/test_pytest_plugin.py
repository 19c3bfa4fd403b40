"""The fixtures for other people's tests, in a project of its own that has three unmodified clients."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from tests.harness.tree import ROOT

IS_FOUND_BY_ITSELF = bool(entry_points(group="pytest11", name="pykraft"))
PLUGIN = () if IS_FOUND_BY_ITSELF else ("-p", "pykraft.pytest_plugin")
"""An environment that was set up before there was a plugin does not know its name."""
WITHOUT = ("-p", "no:cacheprovider", "-p", "no:nbval")
"""Our environment has nbval, a project like this one has not; it takes longer to load than the clients."""

THREE_CLIENTS = """
import asyncio
import time

import aiokafka
import confluent_kafka
import kafka as kafka_python
import pytest


def read(kafka, topic):
    settings = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"}
    consumer = confluent_kafka.Consumer(settings)
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    record = consumer.poll(30)
    begun = time.monotonic()
    consumer.close()
    print(f"closed after {time.monotonic() - begun:.2f} s")
    return record.value()


def test_librdkafka(kafka, kafka_topic):
    producer = confluent_kafka.Producer({"bootstrap.servers": kafka.bootstrap_servers})
    producer.produce(kafka_topic, b"one")
    producer.flush(30)
    assert read(kafka, kafka_topic) == b"one"


def test_kafka_python(kafka, kafka_topic):
    producer = kafka_python.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers)
    producer.send(kafka_topic, b"two").get(30)
    producer.close()
    assert read(kafka, kafka_topic) == b"two"


def test_aiokafka(kafka, kafka_topic):
    async def send():
        async with aiokafka.AIOKafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
            await producer.send_and_wait(kafka_topic, b"three")

    asyncio.run(send())
    assert read(kafka, kafka_topic) == b"three"


@pytest.mark.kafka(nodes=3)
@pytest.mark.kafka_topic(partitions=2, configs={"min.insync.replicas": 2})
@pytest.mark.parametrize("what", ["/ a name that no topic may have /"])
def test_another_cluster(kafka, kafka_topic, what):
    assert [len(kafka.describe().isr(kafka_topic, number)) for number in (0, 1)] == [3, 3]


def test_a_node_that_dies(kafka):
    kafka.kill(1)


@pytest.fixture
def syncs(monkeypatch):
    paths = []
    monkeypatch.setattr("os.fsync", paths.append)
    monkeypatch.setattr("pykraft.storage.disk.filesystem._sync_data", paths.append)
    return paths


WAITS = {"group.initial.rebalance.delay.ms", "controller.quorum.append.linger.ms"}


def test_nothing_waits(syncs, kafka, kafka_topic):
    assert not syncs
    assert {kafka.properties(1)[name] for name in WAITS} == {"0"}


@pytest.mark.kafka(properties={"group.initial.rebalance.delay.ms": 7})
def test_a_wait_that_the_mark_asks_for(kafka):
    assert [kafka.properties(1)[name] for name in sorted(WAITS)] == ["0", "7"]


@pytest.mark.kafka(timeouts="kafka", directory="kept")
def test_what_the_mark_keeps(syncs, kafka):
    assert syncs
    assert not WAITS & kafka.properties(1).keys()
"""
TWENTY = """
import confluent_kafka
import pytest


@pytest.mark.parametrize("number", range(20))
def test_one_of_twenty(kafka, kafka_topic, number):
    servers = kafka.bootstrap_servers
    producer = confluent_kafka.Producer({"bootstrap.servers": servers})
    producer.produce(kafka_topic, b"one")
    producer.flush(30)
    settings = {"bootstrap.servers": servers, "group.id": "g", "auto.offset.reset": "earliest"}
    consumer = confluent_kafka.Consumer(settings)
    consumer.subscribe([kafka_topic])
    assert consumer.poll(30).value() == b"one"
    consumer.close()
"""
ALL_SHARE_ONE = """
seen = []

def test_first(kafka, kafka_topic):
    seen.append((kafka, kafka_topic))

def test_second(kafka, kafka_topic):
    assert seen[0][0] is kafka
    assert seen[0][1] != kafka_topic
    assert kafka.network == "staged"
"""


def run(folder: Path, code: str, *said: str) -> str:
    """What pytest prints for a project with these tests."""
    (folder / "test_mine.py").write_text(code)
    command = [sys.executable, "-m", "pytest", *PLUGIN, *WITHOUT, "--durations=0", "-vvs", *said]
    environment = {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=100, check=False
    )
    return done.stdout + done.stderr


def test_three_unmodified_clients_find_a_broker_of_their_own(tmp_path: Path) -> None:
    for _ in range(4):  # a machine that does much else makes a run slow, a fixture that waits makes each slow
        said = run(tmp_path, THREE_CLIENTS)
        assert "8 passed" in said, said
        set_ups = [float(time) for time in re.findall(r"([\d.]+)s setup", said)]
        closes = [float(time) for time in re.findall(r"closed after ([\d.]+) s", said)]
        assert len(closes) == 3, said
        # Broker and topic; of the first one also the imports. librdkafka waits 2 s for a coordinator that is not there.
        if min(set_ups) < 0.2 and max(closes) < 1:
            return
    raise AssertionError(said)


@pytest.mark.long
@pytest.mark.parametrize(("scope", "limit_s"), [("function", 0.25), ("session", 0.2)])
def test_a_test_with_a_group_waits_for_little_but_librdkafka(tmp_path: Path, scope: str, limit_s: float) -> None:
    """librdkafka waits 100 ms before it asks for a new group's first offset. The quickest of twenty tests shows what is
    waited for in each, whatever else the machine does. With one cluster for all they take less than 4 s on a machine
    of their own."""
    for _ in range(4):
        said = run(tmp_path, TWENTY, "-o", f"kafka_scope={scope}")
        assert "20 passed" in said, said
        phases = [re.findall(rf"([\d.]+)s {phase}", said) for phase in ("setup", "call", "teardown")]
        if sum(min(map(float, times), default=0.0) for times in phases) < limit_s:
            return
    raise AssertionError(said)


def test_one_cluster_may_serve_a_whole_run(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nkafka_scope = session\nkafka_network = staged\n")
    assert "2 passed" in (said := run(tmp_path, ALL_SHARE_ONE)), said


MISTAKES = """
import pytest

@pytest.mark.kafka(3)
def test_by_position(kafka): ...

@pytest.mark.kafka(nodes=0)
def test_none(kafka): ...
"""


def test_a_mistake_is_one_sentence(tmp_path: Path) -> None:
    said = run(tmp_path, MISTAKES)
    assert "the mark kafka takes its arguments by name, as in kafka(nodes=3)" in said
    assert "ValueError: nodes=0: a cluster has at least one broker" in said
    said = run(tmp_path, MISTAKES, "-o", "kafka_scope=sesion")
    assert "kafka_scope is sesion, but must be one of session, package, module, class, function" in said
