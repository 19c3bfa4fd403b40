"""A topic's settings, changed while it is written to: they hold on every replica, under the next leader, and after all
nodes have been killed.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from pykraft import Cluster, ConfigResource, ConfigResourceType, ErrorCode, KafkaError, Producer
from pykraft.records.batch import RecordBatch, batches
from tests.harness.asking import PATIENT
from tests.harness.waiting import wait_until

NAME = "t"
TOPIC = ConfigResource(ConfigResourceType.TOPIC, NAME)
QUICK = {
    "log.initial.task.delay.ms": "300",
    "log.retention.check.interval.ms": "300",
    "log.cleaner.backoff.ms": "200",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(3, properties=PATIENT | QUICK) as running:
        with running.admin() as admin:
            admin.create_topic(NAME, 1, 3, {"min.insync.replicas": 2, "internal.segment.bytes": 2000})
        running.wait_until(lambda view: len(view.isr(NAME, 0)) == 3, what="the topic is there")
        yield running


def change(cluster: Cluster, **settings: object) -> None:
    """Every broker knows it, when this returns."""
    values = {name.replace("_", "."): value for name, value in settings.items()}
    with cluster.admin() as admin:
        admin.incremental_alter_configs({TOPIC: values})

    def know_it() -> bool:
        images = [cluster._running(node).node.loader.image for node in cluster.alive]  # type: ignore[union-attr]
        own = [image.config_of(TOPIC.resource_type, NAME) for image in images]
        return all(each.get(name) == str(value) for each in own for name, value in values.items())

    wait_until(know_it, f"all know {values}")


def send(cluster: Cluster, *records: tuple[bytes | None, bytes]) -> ErrorCode:
    """Whether all in-sync replicas have them; or why not."""
    with Producer(bootstrap_servers=cluster.bootstrap_servers, acks="all", linger_ms=50) as producer:
        for future in [producer.send(NAME, value, key=key, partition=0) for key, value in records]:
            try:
                future.result(30)
            except KafkaError as error:
                return error.code
    return ErrorCode.NONE


def stored(cluster: Cluster, node: int) -> list[RecordBatch]:
    folder = cluster.partition_directory(node, NAME, 0)
    data = b"".join(file.read_bytes() for file in sorted(folder.glob("*.log")))
    return list(batches(memoryview(data)))


def replicas(cluster: Cluster) -> list[list[tuple[int, str, int]]]:
    """Of each live node's batches the base offset, the codec and how many records are left."""
    return [[(b.base_offset, b.compression.name, b.count) for b in stored(cluster, node)] for node in cluster.alive]


def are_equal(cluster: Cluster) -> bool:
    return len({tuple(each) for each in replicas(cluster)}) == 1


def test_a_codec_and_a_limit_hold_for_every_replica_and_under_the_next_leader(cluster: Cluster) -> None:
    assert send(cluster, (b"k", b"plain")) is ErrorCode.NONE
    change(cluster, compression_type="zstd", max_message_bytes=500)
    assert send(cluster, (b"k", b"packed")) is ErrorCode.NONE
    assert send(cluster, (b"k", bytes(1000))) is ErrorCode.MESSAGE_TOO_LARGE
    leader = cluster.describe().leader(NAME, 0)
    assert leader is not None
    cluster.kill(leader)
    cluster.wait_until(lambda view: view.leader(NAME, 0) not in (None, leader), what="another leads")
    assert send(cluster, (b"k", b"packed by another")) is ErrorCode.NONE
    assert send(cluster, (b"k", bytes(1000))) is ErrorCode.MESSAGE_TOO_LARGE
    cluster.restart(leader)
    cluster.wait_until(lambda view: len(view.isr(NAME, 0)) == 3, what="it is back")
    wait_until(lambda: are_equal(cluster), "all replicas are equal")
    assert [codec for _, codec, _ in replicas(cluster)[0]] == ["NONE", "ZSTD", "ZSTD"]


def test_the_cleaner_begins_on_every_replica_and_records_need_keys_from_then_on(cluster: Cluster) -> None:
    change(cluster, cleanup_policy="compact", min_cleanable_dirty_ratio=0.01, max_message_bytes=5000)
    assert send(cluster, (None, b"no key")) is ErrorCode.INVALID_RECORD
    for number in range(8):
        assert send(cluster, (b"k%d" % (number % 2), Random(number).randbytes(1500))) is ErrorCode.NONE

    def is_compacted() -> bool:
        # The first value of each key goes; the last segment is never touched.
        return all(sum(count for _, _, count in each) < 11 for each in replicas(cluster))

    wait_until(is_compacted, "every replica is compacted")
    change(cluster, cleanup_policy="delete")
    assert send(cluster, (None, Random(9).randbytes(1500))) is ErrorCode.NONE


def test_settings_survive_the_death_of_all_nodes(cluster: Cluster) -> None:
    change(cluster, message_timestamp_type="LogAppendTime", max_message_bytes=600)
    for node in (1, 2, 3):
        cluster.kill(node)
    for node in (1, 2, 3):
        cluster.restart(node, wait=False)
    cluster.wait_until(lambda view: len(view.isr(NAME, 0)) == 3, what="all are back")
    assert send(cluster, (b"k", bytes(range(256)) * 4)) is ErrorCode.MESSAGE_TOO_LARGE
    assert send(cluster, (b"k", b"stamped")) is ErrorCode.NONE
    wait_until(lambda: all(stored(cluster, node)[-1].uses_log_append_time for node in (1, 2, 3)), "all have it")


def test_old_segments_go_on_every_replica_when_less_is_to_be_kept(cluster: Cluster) -> None:
    with cluster.admin() as admin:
        admin.incremental_alter_configs({TOPIC: {"message.timestamp.type": None, "max.message.bytes": None}})

    def segments() -> list[int]:
        return [len(list(cluster.partition_directory(node, NAME, 0).glob("*.log"))) for node in (1, 2, 3)]

    assert min(segments()) > 1
    change(cluster, retention_bytes=1)
    wait_until(lambda: segments() == [1, 1, 1], "one segment is left")
