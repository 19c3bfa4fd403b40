"""A topic gets more partitions while it is written and read: by our Admin, and by librdkafka's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin import NewPartitions as TheirNewPartitions

from pykraft import Admin, Cluster, Consumer, KafkaError, NewPartitions, NewTopic, Producer
from pykraft.client.producing.partitioner import partition_of_key
from tests.harness.waiting import wait_until

KEYS = [b"key-%d" % number for number in range(40)]
SOON = {"metadata_max_age_ms": 300}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(2) as running:
        yield running


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[Admin]:
    with cluster.admin() as admin:
        yield admin


def written(cluster: Cluster, topic: str) -> dict[bytes, int]:
    """Where a producer that begins now puts each key."""
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        futures = {key: producer.send(topic, b"", key=key) for key in KEYS}
        return {key: future.result(30).partition for key, future in futures.items()}


def test_a_key_goes_on_in_another_partition_and_its_old_record_stays(cluster: Cluster, admin: Admin) -> None:
    admin.create_topics([NewTopic("grown", 2, 2)])
    assert written(cluster, "grown") == {key: partition_of_key(key, 2) for key in KEYS}
    admin.create_partitions({"grown": 3})
    cluster.wait_until_known("grown", 3)
    assert len(admin.describe_topics(["grown"])["grown"].partitions) == 3
    assert written(cluster, "grown") == {key: partition_of_key(key, 3) for key in KEYS}
    expected: dict[bytes, list[int]] = {key: [partition_of_key(key, 2), partition_of_key(key, 3)] for key in KEYS}
    assert any(old != new for old, new in expected.values())
    found: dict[bytes, list[int]] = {key: [] for key in KEYS}
    with Consumer("grown", bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        for _ in range(2 * len(KEYS)):
            record = next(iter(consumer))
            assert record.key is not None
            found[record.key].append(record.partition)
    assert {key: sorted(places) for key, places in found.items()} == {
        key: sorted(places) for key, places in expected.items()
    }


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_that_is_running_takes_over_the_new_partitions(cluster: Cluster, admin: Admin, protocol: str) -> None:
    topic = f"grown-under-{protocol}"
    admin.create_topics([NewTopic(topic, 1, 2)])
    settings: dict[str, Any] = {"bootstrap_servers": cluster.bootstrap_servers, "group_id": topic, **SOON}
    with Consumer(topic, group_protocol=protocol, **settings) as consumer:

        def owns(count: int) -> bool:
            consumer.poll(100)
            return len(consumer.assignment()) == count

        wait_until(lambda: owns(1), "the member owns the one partition")
        admin.create_partitions({topic: 4})
        wait_until(lambda: owns(4), "the member owns the new ones too")


def test_another_librarys_admin_adds_partitions_where_it_wants_them(cluster: Cluster, admin: Admin) -> None:
    admin.create_topics([NewTopic("grown-by-theirs", 1, 1)])
    theirs = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    wanted = TheirNewPartitions("grown-by-theirs", 3, replica_assignment=[[2], [1]])
    theirs.create_partitions([wanted])["grown-by-theirs"].result(30)
    cluster.wait_until_known("grown-by-theirs", 3)
    partitions = admin.describe_topics(["grown-by-theirs"])["grown-by-theirs"].partitions
    assert [partition.replicas for partition in partitions[1:]] == [(2,), (1,)]


def test_a_topic_cannot_shrink_and_the_message_says_why(admin: Admin) -> None:
    admin.create_topics([NewTopic("fixed", 3, 1)])
    with pytest.raises(KafkaError, match="INVALID_PARTITIONS: fixed: topic fixed has 3 partitions: 2 are not more"):
        admin.create_partitions({"fixed": NewPartitions(2)})
