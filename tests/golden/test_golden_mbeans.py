"""The metrics of a node have the names and tags that Kafka's metrics have.

`kafka-mbeans.txt` lists the MBeans of a Kafka 4.2.1 that served a producer and a group: for each its group, type, name
(or its attributes, if it has no name) and the keys of its tags. tests/judges/test_java_mbeans.py asks Kafka again.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pykraft import Cluster, Consumer, Producer
from pykraft.common.metrics import OWN, Metrics
from pykraft.runtime.threaded import NodeThread
from tests.golden.dumps import GOLDEN

TEXTS = {"kafka.server:type=raft-metrics,name=current-state by state"}
"""A text in Kafka, and a label here."""


def names(metrics: Metrics) -> Iterator[str]:
    """As the lines of the file."""
    for family in metrics.families():
        if family.group != OWN:
            for tags in family.metrics:
                keys = ",".join(sorted(key for key, _ in tags))
                name = f"{family.group}:type={family.kind},name={family.name}"
                yield f"{name} by {keys}" if keys else name


@pytest.fixture(scope="module")
def ours() -> set[str]:
    """Of a node that has served a producer and a group."""
    with Cluster(1) as cluster:
        cluster.create_topic("t", partitions=1)
        with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            producer.send("t", b"x")
        settings = {"bootstrap_servers": cluster.bootstrap_servers, "auto_offset_reset": "earliest"}
        with Consumer("t", group_id="g", **settings) as consumer:
            while not consumer.poll(1000):
                continue
            consumer.commit()
        node = cluster._nodes[1]
        assert isinstance(node, NodeThread)
        return node.call(lambda served: set(names(served.metrics))).result()


def test_each_metric_is_one_of_kafkas(ours: set[str]) -> None:
    theirs = set((GOLDEN / "kafka-mbeans.txt").read_text().splitlines())
    assert ours - theirs == TEXTS
    assert len(ours) > 70
