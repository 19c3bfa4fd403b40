"""What 10,000 partitions cost the controllers: a snapshot of the metadata, and another active controller.

A *snapshot* is written and loaded as a node does it, in this process: the image becomes records, the records a file
that is synced; the file becomes records, the records an image. The partitions have three replicas each.

A *failover* needs no partition moved. The cluster has three controllers and one broker, each a process of its own, and
the partitions are on that broker. The active controller is killed; a moment later the broker is asked to change a
setting, which it forwards as soon as there is another active controller. Measured is the time from the kill to the
answer. The timeouts are those of a lesson: a controller is missed after `controller.quorum.fetch.timeout.ms`, and then
comes the election. What the partitions add is the difference to the row with ten of them.
"""

from __future__ import annotations

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
from tests.bench.rows import Row, beside, progress
from tests.harness.waiting import wait_until

PARTITIONS = 10_000
FEW = 10
PER_TOPIC = 100
ROUNDS = 5
KILLS = 3
FAILOVER_S = 1.0
SESSIONS = {"broker.session.timeout.ms": 9000, "broker.heartbeat.interval.ms": 500}
"""The broker is not to be fenced while it makes thousands of logs."""
SNAPSHOT = OffsetAndEpoch(20_000, 3)
_PATIENCE_S = 300.0


def measure() -> list[Row]:
    return [*snapshots(PARTITIONS), *failovers(FEW), *failovers(PARTITIONS)]


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


def _wait_until_led(admin: Admin, partitions: int) -> None:
    def are_led() -> bool:
        topics = admin.describe_topics().values()
        return sum(each.leader >= 0 for topic in topics for each in topic.partitions) >= partitions

    wait_until(are_led, "all partitions are led", _PATIENCE_S)


def _is_caught_up(admin: Admin) -> bool:
    quorum = admin.describe_quorum()
    return all(voter.log_end_offset >= quorum.high_watermark for voter in quorum.voters)
