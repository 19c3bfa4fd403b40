"""A cluster whose nodes have several log directories: a replica moves, a disk is lost, and clients go on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pykraft import Admin, Cluster, Consumer, Producer
from pykraft.cli import main
from pykraft.common.errors import ErrorCode
from pykraft.common.types import TopicPartition
from tests.harness.asking import PATIENT
from tests.harness.waiting import wait_until

KEY = TopicPartition("flights", 0)
SETTINGS = {**PATIENT, "replica.high.watermark.checkpoint.interval.ms": 200}


def fill(cluster: Cluster, count: int) -> None:
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for number in range(count):
            producer.send("flights", value=b"%d" % number, partition=0)


def values(cluster: Cluster, count: int) -> list[int]:
    found: list[int] = []

    def has_all() -> bool:
        found.extend(int(each.value) for some in consumer.poll(200).values() for each in some)
        return len(found) >= count

    with Consumer(bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([KEY])
        wait_until(has_all, "all are read")
    return found


@pytest.mark.long
def test_a_replica_moves_and_a_broker_outlives_the_loss_of_a_directory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (
        Cluster(3, properties=SETTINGS, directory=tmp_path, log_dirs=2) as cluster,
        Admin(bootstrap_servers=cluster.bootstrap_servers) as admin,
    ):
        admin.create_topic("flights", 3, 3)
        fill(cluster, 100)
        assert cluster.partition_directory(1, *KEY).parent == cluster.log_directories(1)[0]
        other = cluster.log_directories(1)[1]
        partition = {"topic": "flights", "partition": 0, "replicas": [1, 2, 3], "log_dirs": [str(other), "any", "any"]}
        file = tmp_path / "plan.json"
        file.write_text(json.dumps({"version": 1, "partitions": [partition]}))
        arguments = ["--bootstrap-server", cluster.bootstrap_servers, "--reassignment-json-file", str(file)]
        assert main(["reassign-partitions", *arguments, "--execute"]) == 0
        assert f"Successfully started moving log directory to {other} for replica flights-0" in capsys.readouterr().out

        def is_over() -> bool:
            main(["reassign-partitions", *arguments, "--verify"])
            return "flights-0-1 completed successfully" in capsys.readouterr().out

        wait_until(is_over, "the replica has moved")
        described = admin.describe_log_dirs([1])[1]
        assert [path for path, each in described.items() if KEY in each.replicas] == [str(other)]
        fill(cluster, 100)
        assert sorted(values(cluster, 200)) == sorted([*range(100)] * 2)
        other.rename(tmp_path / "lost")
        wait_until(
            lambda: admin.describe_log_dirs([1])[1][str(other)].error is ErrorCode.KAFKA_STORAGE_ERROR,
            "the directory is offline",
        )

        def isr(number: int) -> list[int]:
            return sorted(admin.describe_topics(["flights"])["flights"].partitions[number].isr)

        wait_until(lambda: isr(0) == [2, 3], "the replica in it has left the ISR")
        assert isr(2) == [1, 2, 3], "a replica in another directory"
        fill(cluster, 100)
        assert len(values(cluster, 300)) == 300
        assert cluster.alive == [1, 2, 3]
