"""Three nodes in processes, one of them with its directory on a small volume, which a producer fills.

The node stops with a sentence, the others go on, and what was acknowledged is there: before, and after the node has
come back with more space. Where no volume may be mounted, a limit of the process keeps each file below this many bytes:
to it that is a disk which refuses to write, too.
"""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pykraft import Admin, Cluster, Consumer, Producer, TopicPartition
from pykraft.client.administration.admin import NewTopic
from tests.harness.waiting import wait_until

SMALL_BYTES = 3 << 20
VALUE = b"x" * 50_000
MORE = "size=200m"


@contextmanager
def small_volume(folder: Path) -> Iterator[Callable[[], None] | None]:
    """A volume of a few megabytes at this folder, and what makes it larger; None where nothing may be mounted."""
    folder.mkdir(parents=True)
    mount = shutil.which("mount")
    command = [mount or "", "-t", "tmpfs", "-o", f"size={SMALL_BYTES}", "tmpfs", str(folder)]
    if mount is None or sys.platform != "linux" or subprocess.run(command, capture_output=True, check=False).returncode:
        yield None
        return
    try:
        yield lambda: subprocess.run([mount, "-o", f"remount,{MORE}", str(folder)], check=True) and None
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def limit_files(pid: int, size: int) -> None:
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


@pytest.mark.limit(120)
def test_a_node_whose_disk_is_full_stops_and_the_others_go_on(tmp_path: Path) -> None:
    directory = tmp_path / "cluster"
    with small_volume(directory / "node-3") as enlarge, Cluster(3, mode="processes", directory=directory) as cluster:
        if enlarge is None:
            limit_files(cluster._nodes[3].pid, SMALL_BYTES)  # type: ignore[union-attr]
        topic = NewTopic("full", replica_assignments={0: [3, 1, 2]}, topic_configs={"min.insync.replicas": "2"})
        with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
            admin.create_topics([topic])
            sent = fill_up(cluster)
        assert set(cluster.failures()) == {3}
        said = str(cluster.failures()[3])
        assert f"the log directory {directory / 'node-3'} has failed (" in said and "it was the only one" in said
        assert ("No space left on device" if enlarge else "File too large") in said
        assert values(cluster, sent) == sent
        if enlarge is not None:
            enlarge()
        cluster.restart(3)
        with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
            wait_until(lambda: len(isr(admin)) == 3, "the node has caught up")
        assert values(cluster, sent) == sent
        assert sorted(cluster.alive) == [1, 2, 3]


def fill_up(cluster: Cluster) -> list[bytes]:
    """Produce until the node has stopped, and some more; what was acknowledged, in order."""
    sent: list[bytes] = []
    after = 0
    with Producer(bootstrap_servers=cluster.bootstrap_servers, acks="all") as producer:
        while after < 5:
            value = b"%06d" % len(sent) + VALUE
            assert producer.send("full", value=value).result(60).offset == len(sent)
            sent.append(value)
            after += 3 in cluster.failures()
            assert len(sent) * len(VALUE) < 20 * SMALL_BYTES, "the disk does not fill up"
    return sent


def values(cluster: Cluster, expected: list[bytes]) -> list[bytes]:
    """As many records as are expected, from the start."""
    found: list[bytes] = []
    with Consumer(bootstrap_servers=cluster.bootstrap_servers) as consumer:
        consumer.assign([TopicPartition("full", 0)])
        consumer.seek_to_beginning()
        wait_until(lambda: bool(found.extend(read(consumer)) or len(found) >= len(expected)), "all is read")
    return found


def read(consumer: Consumer) -> list[bytes]:
    return [record.value or b"" for some in consumer.poll(200).values() for record in some]


def isr(admin: Admin) -> tuple[int, ...]:
    return admin.describe_topics(["full"])["full"].partitions[0].isr
