"""`__consumer_offsets` has fewer replicas in sync than min.insync.replicas: nothing more is committed, and an
administrator sees what was."""

from __future__ import annotations

from collections.abc import Iterator

import confluent_kafka
import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from pykraft import Cluster
from pykraft.coordinator.runtime import partition_for
from tests.harness import apache_kafka
from tests.harness.kafka_tools import run_tool

pytestmark = pytest.mark.limit(120)

TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
PROPERTIES = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "2",
    "offsets.commit.timeout.ms": "1000",
    "min.insync.replicas": "2",
}
COMMITTED, PENDING = 7, 8
AT_ONCE_S = 0.9
"""Less than offsets.commit.timeout.ms."""


def commit(servers: str, offset: int) -> None:
    settings = {"bootstrap.servers": servers, "group.id": "g", "enable.auto.commit": False}
    consumer = confluent_kafka.Consumer(settings)
    try:
        consumer.commit(offsets=[TopicPartition("t", 0, offset)], asynchronous=False)
    finally:
        consumer.close()


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    """A broker whose group has an offset that is committed, and a later one that is not."""
    with Cluster(2, controllers=1, properties=PROPERTIES) as cluster:
        cluster.create_topic("t", partitions=1, replication_factor=2)
        commit(cluster.bootstrap_servers, COMMITTED)
        coordinator = cluster.describe().leader("__consumer_offsets", partition_for("g", 1))
        assert coordinator is not None
        address = cluster.bootstrap_servers.split(",")[coordinator - 1]
        cluster.kill(next(node for node in cluster.broker_ids if node != coordinator))
        with pytest.raises(KafkaException):
            commit(address, PENDING)
        yield address


def test_librdkafka_reads_the_committed_offset_at_once(servers: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    admin.list_topics("t", timeout=10)
    asked = ConsumerGroupTopicPartitions("g", [TopicPartition("t", 0)])
    found = admin.list_consumer_group_offsets([asked])["g"].result(AT_ONCE_S)
    assert [place.offset for place in found.topic_partitions] == [COMMITTED]
    described = admin.describe_consumer_groups(["g"])["g"].result(AT_ONCE_S)
    assert (described.state.name, described.members) == ("EMPTY", [])
    listed = admin.list_consumer_groups().result(AT_ONCE_S)
    assert [group.group_id for group in listed.valid] == ["g"]


@pytest.mark.long
def test_kafkas_tool_describes_the_group(servers: str) -> None:
    if reason := apache_kafka.available():
        pytest.skip(reason)
    (told,) = run_tool(TOOL, [["--bootstrap-server", servers, "--describe", "--group", "g"]])
    (row,) = [line.split() for line in told.out.splitlines() if line.startswith("g ")]
    assert row[:4] == ["g", "t", "0", str(COMMITTED)], told
