"""Logs from outside, on a live cluster: records are deleted and stay so, a directory is described and has one node."""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from random import Random

import pytest

from pykraft import (
    Admin,
    Cluster,
    ConfigResource,
    ConfigResourceType,
    Consumer,
    KafkaError,
    Producer,
    TopicPartition,
)
from pykraft.broker.settings.config import read_node_config
from pykraft.common.errors import ErrorCode
from pykraft.common.settings.config import format_properties
from pykraft.common.settings.topic_config import RETENTION_MS
from pykraft.common.trace import Silence
from pykraft.runtime.clock import MonotonicClock
from pykraft.runtime.threaded import NodeThread
from pykraft.storage.disk.checkpoint import CLEAN_SHUTDOWN
from pykraft.storage.upkeep.log_manager import DirectoryInUseError, LogDirectoryFailedError
from tests.harness.asking import PATIENT
from tests.harness.waiting import wait_until

FLIGHTS = TopicPartition("flights", 0)


def pykraft(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pykraft", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def fill(cluster: Cluster, count: int) -> None:
    with Producer(bootstrap_servers=cluster.bootstrap_servers, acks="all", linger_ms=0) as producer:
        for number in range(count):
            producer.send("flights", value=b"%d" % number).result(30)


def test_records_are_deleted_on_every_replica_and_stay_so(tmp_path: Path) -> None:
    with Cluster(3, properties=PATIENT) as cluster, Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.create_topic("flights", 1, 3)
        fill(cluster, 10)
        assert admin.delete_records({FLIGHTS: 6}) == {FLIGHTS: 6}
        with pytest.raises(KafkaError) as refused:
            admin.delete_records({FLIGHTS: 11})
        assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
        file = tmp_path / "offsets.json"
        file.write_text(json.dumps({"partitions": [{"topic": "flights", "partition": 0, "offset": 7}], "version": 1}))
        said = pykraft("delete-records", "--bootstrap-server", cluster.bootstrap_servers, "--offset-json-file", file)
        assert said.stdout.splitlines() == [
            "Executing records delete operation",
            "Records delete operation completed:",
            "partition: flights-0\tlow_watermark: 7",
        ], said.stderr
        for node in (1, 2, 3):
            cluster.kill(node)
            cluster.restart(node)
            wait_until(lambda: admin.list_offsets({FLIGHTS: -2})[FLIGHTS].offset == 7, "the log begins at 7")
        with Consumer(bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest") as consumer:
            consumer.assign([FLIGHTS])
            consumer.seek(FLIGHTS, 2)
            found: list[bytes | None] = []
            wait_until(
                lambda: bool(
                    found.extend(record.value for some in consumer.poll(100).values() for record in some)
                    or len(found) >= 3
                ),
                "what is left is read",
            )
        assert found == [b"7", b"8", b"9"]


def test_settings_that_were_taken_back_while_a_node_was_away_are_not_those_of_its_logs() -> None:
    """It opens its logs with the settings that it knew, and then hears of others."""
    with Cluster(3, properties=PATIENT) as cluster, Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.create_topic("flights", 1, 3, {"retention.ms": "7"})

        def retention_ms() -> int:
            node = cluster._nodes[3]
            assert isinstance(node, NodeThread) and node.node.broker is not None
            found: int = node.node.broker.logs.logs[FLIGHTS].config[RETENTION_MS]
            return found

        cluster.wait_until(lambda view: 3 in view.replicas("flights", 0))
        assert retention_ms() == 7
        cluster.kill(3)
        admin.incremental_alter_configs({ConfigResource(ConfigResourceType.TOPIC, "flights"): {"retention.ms": None}})
        cluster.restart(3)
        assert retention_ms() == 7 * 86_400_000


def test_a_log_directory_is_described_and_is_one_nodes(tmp_path: Path) -> None:
    with Cluster(1) as cluster, Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.create_topic("flights", 2, 1)
        fill(cluster, 3)
        directory = str(cluster.node_directory(1))
        described = admin.describe_log_dirs([1])[1][directory]
        size = sum(file.stat().st_size for file in cluster.node_directory(1).glob("flights-*/*.log"))
        assert sum(replica.size for replica in described.replicas.values()) == size > 0
        assert described.total_bytes > described.usable_bytes > 0
        said = pykraft("log-dirs", "--bootstrap-server", cluster.bootstrap_servers, "--describe")
        printed = json.loads(said.stdout.splitlines()[-1])
        assert [part["partition"] for part in printed["brokers"][0]["logDirs"][0]["partitions"]] == [
            "flights-0",
            "flights-1",
        ]
        file = tmp_path / "second.properties"
        file.write_text(format_properties(cluster.properties(1)))
        second = pykraft("server", file)
        holder = f"process {os.getpid()}" if sys.platform == "linux" else "another process"
        assert second.returncode == 1
        assert second.stderr.splitlines() == [
            f"pykraft: the log directory {directory} is in use by {holder}: "
            "stop that node first, or use another directory"
        ]
        with pytest.raises(DirectoryInUseError, match="in use by this process"):
            NodeThread(read_node_config(cluster.properties(1)), MonotonicClock(), Random(), Silence())
        assert cluster.describe().nodes[1] is not None
        with pytest.raises(DirectoryInUseError):
            NodeThread(read_node_config(cluster.properties(1)), MonotonicClock(), Random(), Silence())


def test_a_node_whose_disk_fails_while_it_stops_does_not_say_that_it_has_closed_its_logs(tmp_path: Path) -> None:
    with Cluster(1, directory=tmp_path) as cluster:
        cluster.stop(1)
        directory = cluster.node_directory(1)
        assert (directory / CLEAN_SHUTDOWN).exists()
        node = NodeThread(read_node_config(cluster.properties(1)), MonotonicClock(), Random(), Silence())
        began, may_end = threading.Event(), threading.Event()

        def sync() -> None:
            began.set()
            may_end.wait(30)
            raise OSError(errno.EIO, "it fails", str(directory / "flights-0/00000000000000000000.log"))

        node.start()
        node.call(lambda inner: inner._background.submit(sync, lambda _: None)).result(30)
        assert began.wait(30)
        node.begin_stop(hand_over=False)
        threading.Timer(0.1, may_end.set).start()
        wait_until(lambda: not node.is_running, "the node has ended")
        assert isinstance(node.failure, LogDirectoryFailedError)
        assert not (directory / CLEAN_SHUTDOWN).exists()
        cluster.restart(1)


def test_what_the_metadata_do_not_know_is_kept_aside(tmp_path: Path) -> None:
    """As Apache Kafka keeps it: a broker whose metadata were lost must not delete its data for that."""
    with Cluster(3, properties=PATIENT, directory=tmp_path) as cluster:
        with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
            admin.create_topic("flights", 2, 3)
            fill(cluster, 10)
            folders = [cluster.partition_directory(3, "flights", number) for number in range(2)]
            files = [(folder / f"{0:020d}.log").read_bytes() for folder in folders]
            assert any(files)
            cluster.kill(3)
            admin.delete_topics(["flights"])
            admin.create_topic("flights", 1, 3)
        for _ in range(2):
            cluster.restart(3)
            kept = sorted(folders[0].parent.glob("*-stray"))
            names = [re.sub(r"[0-9a-f]{32}", "unique", folder.name) for folder in kept]
            assert names == ["flights-0.unique-stray", "flights-1.unique-stray"]
            assert [(folder / f"{0:020d}.log").read_bytes() for folder in kept] == files
            assert not list(folders[0].parent.glob("*-delete"))
            cluster.kill(3)


@pytest.mark.parametrize("length", [213, 214, 249])
def test_a_topic_with_a_long_name_is_made_and_deleted_and_its_nodes_start_again(tmp_path: Path, length: int) -> None:
    """The folder of a deleted log has a longer name than the topic, and a disk has a limit."""
    with Cluster(1, directory=tmp_path) as cluster:
        with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
            admin.create_topic("a" * length, 2, 1)
            wait_until(lambda: len(list(tmp_path.rglob("aaa*"))) == 2, "the logs are there")
            admin.delete_topics(["a" * length])
            wait_until(lambda: len(list(tmp_path.rglob("aaa*-delete"))) == 2, "their folders are renamed")
        cluster.stop(1)
        cluster.restart(1)
        wait_until(lambda: not list(tmp_path.rglob("aaa*")), "what was deleted is removed")
        assert cluster.alive == [1]
