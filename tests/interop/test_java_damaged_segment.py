"""A segment in the middle of a log is damaged after an orderly stop: what Apache Kafka makes of it, and what we do.

No crash does that; a disk or a hand does. What follows the damaged segment was synced and is whole, so it stays, with a
gap in the offsets before it.
"""

from __future__ import annotations

import pathlib
import shutil

import confluent_kafka
import confluent_kafka.admin
import pytest

from pykraft.common.types import TopicPartition
from tests.harness.apache_kafka import QUICK_START, ApacheKafka
from tests.harness.log_laws import all_batches
from tests.harness.storage import open_directory, settings
from tests.interop.test_java_directories import needs_java

__all__ = ["needs_java"]
pytestmark = pytest.mark.limit(300)

TOPIC, COUNT, PATIENCE_S = "damaged", 100, 60.0
CONFIG = {"internal.segment.bytes": "20000", "retention.ms": "-1"}
OURS = settings(internal_segment_bytes=20_000, retention_ms=-1)


def sizes(folder: pathlib.Path) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in sorted(folder.glob("*.log"))}


def damage(folder: pathlib.Path) -> str:
    """Half of the second segment is gone, and its index, too."""
    log = sorted(folder.glob("*.log"))[1]
    with open(log, "r+b") as file:
        file.truncate(log.stat().st_size // 2)
    log.with_suffix(".index").unlink()
    return log.name


@pytest.mark.long
def test_what_follows_a_damaged_segment_stays_as_in_apache_kafka(tmp_path: pathlib.Path) -> None:
    with ApacheKafka(java_options=QUICK_START) as kafka:
        admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})
        new = confluent_kafka.admin.NewTopic(TOPIC, 1, 1, config=CONFIG)
        for future in admin.create_topics([new]).values():
            future.result(PATIENCE_S)
        producer = confluent_kafka.Producer({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})
        for number in range(COUNT):
            producer.produce(TOPIC, str(number).ljust(1000, "."), partition=0)
            producer.flush(PATIENCE_S)
        kafka.stop()
        folder = kafka.data(1) / f"{TOPIC}-0"
        before = sizes(folder)
        name = damage(folder)
        shutil.copytree(kafka.data(1), tmp_path / "ours")
        kafka.restart(1)
        theirs = sizes(folder)
    manager = open_directory(tmp_path / "ours", OURS)
    found = [batch.base_offset for batch in all_batches(manager.logs[TopicPartition(TOPIC, 0)])]
    manager.abandon()
    assert len(before) >= 5 and theirs[name] < before[name]
    assert {key: size for key, size in theirs.items() if key != name} == {
        key: size for key, size in before.items() if key != name
    }
    assert sizes(tmp_path / "ours" / f"{TOPIC}-0") == theirs
    assert found == sorted(found) and found[-1] == COUNT - 1
