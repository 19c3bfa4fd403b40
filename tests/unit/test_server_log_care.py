"""What a broker does with its logs from time to time, called by nothing but time passing."""

from __future__ import annotations

from typing import Any

from pykraft.common.types import TopicPartition
from tests.harness.compaction import records
from tests.harness.log_laws import all_batches
from tests.harness.lone_node import LoneNode
from tests.harness.storage import NOW_MS

PARTITION = TopicPartition("t", 0)
SMALL = {"internal_segment_bytes": "300"}


def filled(node: LoneNode, **configs: str) -> Any:
    """The log of a topic with forty records of three keys, in many segments."""
    topic_id = node.create("t", **SMALL, **configs)
    for number in range(40):
        node.produce(topic_id, records((f"key {number % 3}", "x" * 30), timestamp=NOW_MS).buffer)
    node.run()
    return node.broker.logs.logs[PARTITION]


def test_old_segments_are_deleted_and_their_files_later() -> None:
    node = LoneNode(log_initial_task_delay_ms="5000")
    log = filled(node, retention_bytes="500", file_delete_delay_ms="0")
    node.run(4000)
    assert log.log_start_offset == 0
    node.run(1500)
    assert 0 < log.log_start_offset < 40 and log.size < 1000
    node.run(1500)
    assert not [name for name in node.filesystem.list(log.directory) if name.endswith(".deleted")]


def test_old_segments_are_looked_for_half_a_minute_after_the_start_and_then_every_five_minutes() -> None:
    """As in Kafka: who produces what happened years ago has half a minute, unless the topic says retention.ms=-1."""
    node = LoneNode()
    topic_id = node.create("old", retention_ms="1000")
    log = node.broker.logs.logs[TopicPartition("old", 0)]
    node.produce(topic_id, records(("key", "x"), timestamp=NOW_MS - 5000).buffer)
    ends = []
    for until in (28_000, 4_000):
        node.run(until)
        ends.append(log.log_start_offset)
    assert ends == [0, 1]
    node.produce(topic_id, records(("key", "x"), timestamp=NOW_MS - 5000).buffer)
    for until in (290_000, 10_000):
        node.run(until)
        ends.append(log.log_start_offset)
    assert ends == [0, 1, 1, 2]


def test_logs_are_compacted() -> None:
    node = LoneNode(log_cleaner_backoff_ms="5000", log_cleaner_min_cleanable_ratio="0.1")
    log = filled(node, cleanup_policy="compact")
    node.run(6000)
    left = [record for each in all_batches(log) for record in each.records()]
    assert len(left) < 12 and left[-1].offset == 39
    assert node.broker.logs.cleaner.first_dirty[PARTITION] > 30


def test_a_log_that_the_cleaner_cannot_read_is_told_once() -> None:
    node = LoneNode(log_cleaner_backoff_ms="5000", log_cleaner_min_cleanable_ratio="0.1")
    log = filled(node, cleanup_policy="compact")
    path = f"{log.directory}/{0:020d}.log"
    data = bytearray(node.filesystem.read(path))
    data[-1] ^= 1
    node.filesystem.write(path, data)
    node.run(12_000)
    (told,) = [event for event in node.journal.events if event.name == "uncleanable"]
    assert told.fields["partition"] == "t-0" and "fails its checksum" in told.fields["reason"]
    assert list(node.broker.logs.cleaner.uncleanable) == [PARTITION]


def test_no_log_is_compacted_where_the_cleaner_is_off() -> None:
    node = LoneNode(log_cleaner_backoff_ms="1000", log_cleaner_enable="false")
    log = filled(node, cleanup_policy="compact")
    node.run(6000)
    assert sum(each.count for each in all_batches(log)) == 40


def test_logs_are_flushed() -> None:
    node = LoneNode(log_flush_scheduler_interval_ms="1000", log_initial_task_delay_ms="500")
    log = filled(node, flush_ms="0")
    node.run(1500)
    assert log.recovery_point == 40
