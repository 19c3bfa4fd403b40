"""What a broker does with its logs from time to time, called by nothing but time passing."""

from __future__ import annotations

from typing import Any

import pytest

from pykraft.common.settings.topic_config import RETENTION_MS
from pykraft.common.types import TopicPartition
from tests.harness.compaction import records
from tests.harness.log_laws import all_batches
from tests.harness.lone_node import LoneNode
from tests.harness.storage import NOW_MS

PARTITION = TopicPartition("t", 0)
SMALL = {"internal_segment_bytes": "300"}
FOUR_WEEKS_MS = 28 * 86_400_000


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


@pytest.mark.costly
def test_nothing_is_deleted_before_the_metadata_say_what_is_to_be_kept() -> None:
    """A broker opens its logs before it hears of any settings. By the defaults it would delete what is older than a
    week: of topics that keep everything, and of compacted ones."""
    node = LoneNode()
    settings = {"kept": {"retention_ms": "-1"}, "compacted": {"cleanup_policy": "compact"}, "short": {}}
    for name, own in settings.items():
        topic_id = node.create(name, **SMALL, **own)
        for _ in range(9):
            node.produce(topic_id, records(("key", "x" * 200), timestamp=NOW_MS - FOUR_WEEKS_MS).buffer)
    node.run(6000)  # the high watermarks are written down
    node.node.abandon()
    node.filesystem.crash_process()

    def first_offsets() -> dict[str, int]:
        return {name: again.broker.logs.logs[TopicPartition(name, 0)].log_start_offset for name in settings}

    again = LoneNode(node.filesystem, cut_off=True)
    again.run(60_000)
    assert not again.broker.is_open and first_offsets() == {"kept": 0, "compacted": 0, "short": 0}
    again.cut_off = False
    again.run(40_000)
    assert again.broker.is_open and first_offsets() == {"kept": 0, "compacted": 0, "short": 9}


def test_a_log_is_opened_with_its_topics_own_settings() -> None:
    node = LoneNode()
    topic_id = node.create("t", index_interval_bytes="0", retention_ms="-1")
    for _ in range(5):
        node.produce(topic_id, records(("key", "x")).buffer)
    indexed = len(node.broker.logs.logs[PARTITION].active_segment.offset_index)
    node.filesystem.crash_process()
    log = LoneNode(node.filesystem, cut_off=True).broker.logs.logs[PARTITION]
    assert len(log.active_segment.offset_index) == indexed == 4
    assert log.config[RETENTION_MS] == -1


def test_logs_are_compacted() -> None:
    node = LoneNode(log_cleaner_backoff_ms="5000", log_cleaner_min_cleanable_ratio="0.1")
    log = filled(node, cleanup_policy="compact")
    node.run(6000)
    left = [record for each in all_batches(log) for record in each.records()]
    assert len(left) < 12 and left[-1].offset == 39
    assert node.broker.logs.cleaners[0].first_dirty[PARTITION] > 30


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
    assert list(node.broker.logs.cleaners[0].uncleanable) == [PARTITION]


@pytest.mark.parametrize("log", ["t-0", "__cluster_metadata-0"])
def test_what_a_start_cuts_off_is_told(log: str) -> None:
    node = LoneNode()
    filled(node)
    node.node.abandon()
    node.filesystem.crash_process()
    path = f"/data/{log}/" + max(name for name in node.filesystem.list(f"/data/{log}") if name.endswith(".log"))
    whole = node.filesystem.read(path)
    node.filesystem.write(path, whole + bytes(100))
    told = [event.fields for event in LoneNode(node.filesystem).journal.events if event.name == "log_cut"]
    assert told == [{"partition": log, "bytes": 100}]
    assert node.filesystem.read(path).startswith(whole)


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


def test_a_start_tells_what_it_found_in_the_directory_and_what_a_crash_took() -> None:
    node = LoneNode()
    log = filled(node)
    node.filesystem.crash_process()
    node.filesystem.write("/data/notes.txt", b"mine")
    node.filesystem.write(f"{log.directory}/notes.txt", b"mine")
    node.filesystem.open(f"{log.directory}/{log.active_segment.base_offset:020d}.log").append(b"torn")
    again = LoneNode(node.filesystem)
    told = {event.name: event.fields for event in again.journal.events if event.name in ("unknown_files", "log_cut")}
    assert told == {
        "unknown_files": {"directory": "/data", "names": ["notes.txt", "t-0/notes.txt"]},
        "log_cut": {"partition": "t-0", "bytes": 4},
    }
