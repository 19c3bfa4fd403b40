"""The MBeans that Kafka registers while it serves a producer and a group: those in tests/golden/kafka-mbeans.txt.

``REWRITE_ANSWERS=1`` writes down what this Kafka has.
"""

from __future__ import annotations

import os
import re

import pytest

from pykraft import Admin, Consumer, NewTopic, Producer
from tests.golden.dumps import GOLDEN
from tests.harness import apache_kafka
from tests.harness.apache_kafka import QUICK_START, ApacheKafka, free_ports

pytestmark = pytest.mark.limit(180)

FILE = GOLDEN / "kafka-mbeans.txt"
TOOL = "org.apache.kafka.tools.JmxTool"
ATTRIBUTE = re.compile(r"(kafka\.[a-z.]+):(.+):([^:=]+)=.*")
OFTEN = 0.9
"""The share of the lines that every run has. Some MBeans come and go with what clients do."""


def options(port: int) -> list[str]:
    """JMX without a password, on this machine only."""
    said = {
        "com.sun.management.jmxremote.port": port,
        "com.sun.management.jmxremote.rmi.port": port,
        "com.sun.management.jmxremote.host": "127.0.0.1",
        "com.sun.management.jmxremote.authenticate": "false",
        "com.sun.management.jmxremote.ssl": "false",
        "java.rmi.server.hostname": "127.0.0.1",
    }
    return [*QUICK_START, *(f"-D{name}={value}" for name, value in said.items())]


def lines(told: str) -> set[str]:
    """What the tool printed, in the form of the file."""
    found = set()
    for line in told.splitlines():
        match = ATTRIBUTE.fullmatch(line)
        if match is not None and all("=" in part for part in match[2].split(",")):
            tags = dict(part.split("=", 1) for part in match[2].split(","))
            name = f"{match[1]}:type={tags.pop('type')},name={tags.pop('name', match[3])}"
            found.add(f"{name} by {','.join(sorted(tags))}" if tags else name)
    return found


def test_kafka_has_these_mbeans() -> None:
    if reason := apache_kafka.available():
        pytest.skip(reason)
    (port,) = free_ports(1)
    with ApacheKafka(java_options=options(port)) as kafka:
        with Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("t", 1, 1)])
        with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
            producer.send("t", b"x")
        settings = {"bootstrap_servers": kafka.bootstrap_servers, "auto_offset_reset": "earliest"}
        with Consumer("t", group_id="g", **settings) as consumer:
            while not consumer.poll(1000):
                continue
            consumer.commit()
            url = f"service:jmx:rmi:///jndi/rmi://127.0.0.1:{port}/jmxrmi"
            told = kafka.tool(TOOL, "--jmx-url", url, "--one-time", "--report-format", "properties", timeout_s=60)
    found = lines(told)
    if os.environ.get("REWRITE_ANSWERS"):
        FILE.write_text("".join(f"{line}\n" for line in sorted(found)))
    known = set(FILE.read_text().splitlines())
    assert len(known & found) >= OFTEN * len(known), sorted(known ^ found)
