"""Kafka's own __consumer_offsets: a shard that replays it knows the groups, and writes the same records."""

from __future__ import annotations

import pytest

from pykraft.common.types import TopicPartition
from pykraft.coordinator.group.classic_groups.classic_group import GROUP_METADATA, ClassicGroup, tombstone
from pykraft.coordinator.group.offsets import OFFSET_COMMIT, commit_record
from pykraft.coordinator.runtime import java_hash, partition_for
from pykraft.protocol.messages.coordinators import (
    GROUP_RECORDS,
    CoordinatorRecord,
    decode_coordinator_record,
    encode_coordinator_record,
)
from pykraft.records.batch import batches
from tests.golden.dumps import DATA
from tests.harness.lone_shard import lone_shard


def records(partition: int) -> list[tuple[bytes, bytes | None, int]]:
    """Key, value and producer id of each record of this partition that is no marker."""
    data = (DATA / f"__consumer_offsets-{partition}" / f"{0:020}.log").read_bytes()
    return [
        (record.key or b"", record.value, batch.producer_id if batch.is_transactional else -1)
        for batch in batches(memoryview(data))
        if not batch.is_control
        for record in batch.records()
    ]


ALL = [(partition, *record) for partition in (0, 1) for record in records(partition)]


def decoded(key: bytes, value: bytes | None) -> CoordinatorRecord:
    return decode_coordinator_record(GROUP_RECORDS, key, value)


def test_a_group_of_kafkas_is_known_with_its_offsets() -> None:
    state = lone_shard()
    for _, key, value, producer_id in ALL:
        state.replay(decoded(key, value), producer_id)
    group = state.groups["golden-classic"]
    assert isinstance(group, ClassicGroup)
    assert (group.state_name, group.generation, group.protocol_type) == ("Empty", 2, "consumer")
    assert state.offsets.of("golden-classic")[TopicPartition("golden-txn", 0)].offset == 11


def test_each_group_is_in_the_partition_that_its_name_says() -> None:
    for partition, key, value, _ in ALL:
        name = getattr(decoded(key, value).key, "group", None) or getattr(decoded(key, value).key, "group_id", "")
        assert partition_for(name, 2) == partition, name


def test_java_hashes_strings_so() -> None:
    assert [java_hash(text) for text in ("", "a", "golden", "polygenelubricants", "é😀")] == [
        0,
        97,
        -1240337143,
        -(1 << 31),
        1996812,
    ]
    assert partition_for("polygenelubricants", 50) == 0


@pytest.mark.parametrize(("key", "value"), [(k, v) for _, k, v, p in ALL if k[:2] in (b"\0\1", b"\0\2") and p < 0])
def test_a_record_of_kafkas_is_written_again_byte_for_byte(key: bytes, value: bytes | None) -> None:
    """The shard takes it in, and makes the record for what it knows then."""
    state = lone_shard()
    record = decoded(key, value)
    state.replay(record, -1)
    name = record.key.group  # type: ignore[attr-defined]
    if record.record_type == OFFSET_COMMIT:
        place = TopicPartition(record.key.topic, record.key.partition)  # type: ignore[attr-defined]
        again = commit_record(name, place, state.offsets.of(name)[place])
    elif value is None:
        again = tombstone(name)
    else:
        assert record.record_type == GROUP_METADATA
        group = state.groups[name]
        again = group.record(group.assignments())
    assert encode_coordinator_record(again) == (key, value)
