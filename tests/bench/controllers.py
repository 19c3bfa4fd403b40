"""What 10,000 partitions cost the controllers: a snapshot of the metadata, and another active controller.

A *snapshot* is written and loaded as a node does it, in this process: the image becomes records, the records a file
that is synced; the file becomes records, the records an image. The partitions have three replicas each.

A *failover* needs no partition moved. The cluster has three controllers and one broker, each a process of its own, and
the partitions are on that broker. The active controller is killed; a moment later the broker is asked to change a
setting, which it forwards as soon as there is another active controller. Measured is the time from the kill to the
answer. The timeouts are those of a lesson: a controller is missed after `controller.quorum.fetch.timeout.ms`, and then
comes the election. What the partitions add is the difference to the row with ten of them.

The same is asked of Apache Kafka beside ours, in turn: three nodes each, which are brokers and controllers, with the
same timeouts. The node of the active controller is killed, and a broker of another node is asked.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from pathlib import Path
from random import Random

from pykraft import Admin, Cluster, ConfigResource, ConfigResourceType
from pykraft.common.core import finish
from pykraft.common.types import OffsetAndEpoch, Uuid
from pykraft.metadata.delta import MetadataDelta
from pykraft.metadata.image import EMPTY_IMAGE, MetadataImage, PartitionRegistration
from pykraft.metadata.loader import MetadataLoader
from pykraft.metadata.snapshot_generator import snapshot_of_image
from pykraft.protocol.messages.records import TopicRecord
from pykraft.raft.log.history import read_snapshot
from pykraft.raft.log.snapshot import snapshot_name, write_snapshot
from pykraft.raft.log.voters import NO_VOTERS
from pykraft.storage.disk.filesystem import OsFileSystem
from pykraft.timeouts import LESSON
from tests.bench.rows import Row, beside, progress
from tests.bench.sides import APACHE, HEAP, why_without_apache
from tests.harness import apache_kafka
from tests.harness.apache_kafka import ApacheKafka
from tests.harness.waiting import wait_until

PARTITIONS = 10_000
FEW = 10
PER_TOPIC = 100
ROUNDS = 5
KILLS = 3
KILLS_BESIDE = 5
FAILOVER_S = 1.0
SESSIONS = {"broker.session.timeout.ms": 9000, "broker.heartbeat.interval.ms": 500}
"""The broker is not to be fenced while it makes thousands of logs."""
SNAPSHOT = OffsetAndEpoch(20_000, 3)
_PATIENCE_S = 300.0


def measure() -> list[Row]:
    return [*snapshots(PARTITIONS), *failovers(FEW), *failovers(PARTITIONS), failover_beside()]


def snapshots(partitions: int) -> list[Row]:
    image = image_of(partitions)
    filesystem = OsFileSystem()
    writes, loads = [], []
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / snapshot_name(SNAPSHOT))
        for _ in range(ROUNDS):
            began = time.perf_counter()
            write_snapshot(filesystem, path, snapshot_of_image(image, NO_VOTERS, SNAPSHOT.epoch, 0, 0))
            writes.append(time.perf_counter() - began)
            began = time.perf_counter()
            found = read_snapshot(filesystem, path)
            assert found is not None
            loader = MetadataLoader()
            finish(loader.handle_load_snapshot(found.id, found.decoded()))
            loads.append(time.perf_counter() - began)
            assert loader.image.topics == image.topics
        size_mb = Path(path).stat().st_size / 1e6
    note = f"{size_mb:.1f} MB"
    return [
        beside(f"{partitions:,} partitions, a snapshot is written", "s", writes, "", (), note=note),
        beside(f"{partitions:,} partitions, a snapshot is loaded", "s", loads, "", (), note=note),
    ]


def image_of(partitions: int) -> MetadataImage:
    """Topics of a hundred partitions with three replicas each."""
    random = Random(1)
    delta = MetadataDelta(EMPTY_IMAGE)
    for number in range(partitions // PER_TOPIC):
        topic_id = Uuid.random(random)
        delta.replay(TopicRecord(name=f"topic-{number}", topic_id=topic_id))
        for partition in range(PER_TOPIC):
            replicas = tuple(1 + (partition + each) % 5 for each in range(3))
            registration = PartitionRegistration(
                replicas=replicas,
                directories=tuple(Uuid(bytes(15) + bytes([100 + replica])) for replica in replicas),
                isr=replicas,
                leader=replicas[0],
                leader_epoch=0,
                partition_epoch=0,
            )
            delta.replay(registration.to_record(topic_id, partition))
    return delta.apply(OffsetAndEpoch(SNAPSHOT.offset - 1, SNAPSHOT.epoch))


def failovers(partitions: int) -> list[Row]:
    found = []
    with Cluster(1, controllers=3, mode="processes", properties=SESSIONS) as cluster, cluster.admin() as admin:
        for number in range(max(1, partitions // PER_TOPIC)):
            admin.create_topic(f"topic-{number}", min(PER_TOPIC, partitions), 1)
        _wait_until_led(admin, partitions)
        for number in range(KILLS):
            leader = admin.describe_quorum().leader_id
            began = time.monotonic()
            cluster.kill(leader)
            change = {ConfigResource(ConfigResourceType.TOPIC, "topic-0"): {"retention.ms": 1_000_000 + number}}
            admin.incremental_alter_configs(change)
            found.append(time.monotonic() - began)
            progress(f"{partitions:,} partitions: another active controller after {found[-1]:.2f} s")
            cluster.restart(leader)
            wait_until(lambda: _is_caught_up(admin), "the controller that was killed has caught up", _PATIENCE_S)
    return [beside(f"{partitions:,} partitions, another active controller", "s", found, "", (), at_most=FAILOVER_S)]


def failover_beside() -> Row:
    """Ours and Apache Kafka's, one after the other."""
    properties = {name: str(value) for name, value in {**LESSON, **SESSIONS}.items()}
    ours: list[float] = []
    theirs: list[float] = []
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(Cluster(3, mode="processes", properties=properties))
        runs: list[tuple[Cluster | ApacheKafka, list[float]]] = [(cluster, ours)]
        if not apache_kafka.available():
            runs.append((stack.enter_context(ApacheKafka(3, properties, heap=HEAP)), theirs))
        for nodes, _ in runs:
            with Admin(bootstrap_servers=nodes.bootstrap_servers) as admin:
                admin.create_topic("topic-0", 1, 3)
        for number in range(KILLS_BESIDE):
            for nodes, found in runs:
                found.append(_failover(nodes, number))
    return beside(
        "another active controller, three combined nodes", "s", ours, APACHE, theirs, note=why_without_apache()
    )


def _failover(nodes: Cluster | ApacheKafka, number: int) -> float:
    """Seconds from the kill of the active controller to the answer of another node's broker."""
    addresses = nodes.bootstrap_servers.split(",")
    with Admin(bootstrap_servers=nodes.bootstrap_servers) as admin:
        leader = admin.describe_quorum().leader_id
    with Admin(bootstrap_servers=addresses[leader % len(addresses)]) as admin:  # ids count from 1
        admin.describe_quorum()
        began = time.monotonic()
        nodes.kill(leader)
        change = {ConfigResource(ConfigResourceType.TOPIC, "topic-0"): {"retention.ms": 1_000_000 + number}}
        admin.incremental_alter_configs(change)
        took = time.monotonic() - began
        progress(f"{type(nodes).__name__}: another active controller after {took:.2f} s")
        nodes.restart(leader)
        wait_until(lambda: _is_caught_up(admin), "the controller that was killed has caught up", _PATIENCE_S)
    return took


def _wait_until_led(admin: Admin, partitions: int) -> None:
    def are_led() -> bool:
        topics = admin.describe_topics().values()
        return sum(each.leader >= 0 for topic in topics for each in topic.partitions) >= partitions

    wait_until(are_led, "all partitions are led", _PATIENCE_S)


def _is_caught_up(admin: Admin) -> bool:
    quorum = admin.describe_quorum()
    return all(voter.log_end_offset >= quorum.high_watermark for voter in quorum.voters)
