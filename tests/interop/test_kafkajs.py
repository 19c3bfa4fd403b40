"""kafkajs, unmodified: a client of another family, with older versions of the messages than all others.

It only writes here, and ours reads what it wrote; its groups are judged apart. Node.js and npm must be there; kafkajs
is fetched once into the user's cache.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
from collections import Counter
from typing import Any

import pytest

from pykraft import Cluster, Consumer, TopicPartition
from tests.harness.apache_kafka import Unavailable
from tests.interop.members import kafkajs

COUNT = 40
LIMIT_S = 120
SCRIPT = pathlib.Path(__file__).with_name("kafkajs.js")


@pytest.fixture(scope="module")
def modules() -> pathlib.Path:
    """The folder that has kafkajs, as node looks for it."""
    try:
        return kafkajs()
    except Unavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="module")
def told(cluster: Cluster, modules: pathlib.Path) -> dict[str, Any]:
    command = ["node", str(SCRIPT), cluster.bootstrap_servers, "from-node", str(COUNT)]
    environment = {**os.environ, "NODE_PATH": str(modules), "KAFKAJS_NO_PARTITIONER_WARNING": "1"}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as node:
        try:
            out, err = node.communicate(timeout=LIMIT_S)
        finally:
            node.kill()
    assert node.returncode == 0, err
    lines = [json.loads(line) for line in out.splitlines()]
    return {name: value for line in lines for name, value in line.items()}


def test_what_it_wrote_is_read_in_order_under_both_codecs(cluster: Cluster, told: dict[str, Any]) -> None:
    assert told["created"] is True
    partitions = [TopicPartition("from-node", number) for number in range(3)]
    found = []
    with Consumer(bootstrap_servers=cluster.bootstrap_servers) as consumer:
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        while len(found) < 2 * COUNT - 1:
            polled = consumer.poll(LIMIT_S * 1000)
            assert polled, f"{len(found)} records have come"
            found += [record for records in polled.values() for record in records]
    by_key: dict[bytes, list[bytes]] = {}
    for record in found:
        by_key.setdefault(record.key, []).append(record.value)
        assert record.headers == [("codec", record.value[:1])]
    expected = {
        b"%d" % key: [b"%d:%d" % (codec, place) for codec in (0, 1) for place in range(key, COUNT, 7)]
        for key in range(7)
    }
    gone = Counter(value for values in expected.values() for value in values)
    gone.subtract(record.value for record in found)
    (first,) = +gone
    assert {key: [value for value in values if value != first] for key, values in expected.items()} == by_key


def test_offsets_and_deleted_records_are_told(told: dict[str, Any]) -> None:
    assert sum(int(each["high"]) for each in told["offsets"]) == 2 * COUNT
    assert {each["partition"]: each["low"] for each in told["left"]} == {0: "1", 1: "0", 2: "0"}


def test_cluster_settings_and_topics_are_told(cluster: Cluster, told: dict[str, Any]) -> None:
    assert [broker["nodeId"] for broker in told["cluster"]["brokers"]] == [1, 2, 3]
    assert [entry["configValue"] for entry in told["settings"]] == ["2"]
    assert "from-node" in told["topics"] and "from-node-gone" not in told["topics"]
