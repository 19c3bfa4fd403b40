"""When a node writes a snapshot of its metadata, what is in it, and what a start makes of it."""

from __future__ import annotations

from random import Random

import pytest

from pykraft.common.core import finish
from pykraft.common.types import OffsetAndEpoch, Uuid
from pykraft.metadata.loader import MetadataLoader
from pykraft.protocol.messages.records import (
    BeginTransactionRecord,
    EndTransactionRecord,
    TopicRecord,
    encode_metadata_record,
)
from pykraft.raft.log.history import Snapshot, read_snapshot
from pykraft.raft.log.snapshot import BATCH_RECORDS, BOOTSTRAP_SNAPSHOT, encode_snapshot
from pykraft.raft.log.voters import NO_VOTERS
from pykraft.sim.world.disk import MemoryFileSystem
from tests.harness.lone_node import LoneNode

BYTES = "metadata_log_max_record_bytes_between_snapshots"
INTERVAL = "metadata_log_max_snapshot_interval_ms"
IDLE = "metadata_max_idle_interval_ms"
OFTEN = {BYTES: "500"}


def ids(node: LoneNode) -> list[OffsetAndEpoch]:
    return [found for found in node.node.raft.replica.log.snapshots.ids() if found != BOOTSTRAP_SNAPSHOT]


def newest(node: LoneNode) -> Snapshot:
    found = node.node.raft.replica.log.snapshots.newest()
    assert found is not None
    return found


def test_a_snapshot_is_written_when_enough_was_committed_since_the_last() -> None:
    node = LoneNode(**OFTEN)
    before = len(ids(node))
    for number in range(12):
        node.create(f"t{number}")
    assert len(ids(node)) >= before + 2
    assert len(ids(LoneNode())) == 0


def test_an_idle_node_writes_one_each_interval() -> None:
    node = LoneNode(**{INTERVAL: "10000", IDLE: "500"})
    node.run(35_000)
    assert len(ids(node)) == 3


@pytest.mark.costly
def test_the_interval_0_is_never() -> None:
    seldom = {"broker_heartbeat_interval_ms": "60000", "broker_session_timeout_ms": "600000"}
    node = LoneNode(**{INTERVAL: "0", IDLE: "60000"}, **seldom)
    node.run(4 * 3_600_000)
    assert ids(node) == []


def test_what_is_in_it_is_the_image_and_the_voters_and_when_its_last_record_was_written() -> None:
    node = LoneNode(**OFTEN)
    node.create("t")
    node.run(200)
    found, loader = newest(node), MetadataLoader()
    finish(loader.handle_load_snapshot(found.id, found.decoded()))
    image = node.node.loader.image
    assert "t" in loader.image.topic_ids or loader.image.provenance.offset < image.provenance.offset
    assert found.voters == node.node.raft.replica.control_records.voters
    assert node.node.raft.replica.log.snapshots.timestamp(found.id) == node.clock.time_ms()


@pytest.mark.parametrize("power", [False, True], ids=["killed", "power lost"])
def test_a_start_reads_the_newest_snapshot_and_what_follows(power: bool) -> None:
    node = LoneNode(**OFTEN, metadata_max_retention_bytes="0", internal_metadata_log_segment_bytes="2000")
    for number in range(12):
        node.create(f"t{number}")
    before = node.node.loader.image
    assert node.node.raft.replica.log.start_offset > 0
    node.node.abandon()
    if power:
        node.filesystem.crash_power(Random(1))
    else:
        node.filesystem.crash_process()
    again = LoneNode(node.filesystem, **OFTEN)
    assert again.node.raft.replica.log.start_offset > 0
    assert again.node.loader.image.topics.keys() == before.topics.keys()
    assert again.node.loader.image.configs == before.configs


def test_there_is_none_while_a_metadata_transaction_is_open() -> None:
    node = LoneNode(**{BYTES: "1"})
    raft, controller = node.node.raft, node.node.controller
    assert controller is not None
    node.run(200)
    before = ids(node)

    def append(*records: tuple[object, int]) -> None:
        values = [encode_metadata_record(record, version) for record, version in records]  # type: ignore[arg-type]
        raft.append(raft.leader_and_epoch.epoch, values, node.now)
        node.run(200)

    append((BeginTransactionRecord(name="t"), 0))
    append((TopicRecord(name="t", topic_id=Uuid(bytes(15) + b"\x07")), 0))
    assert ids(node) == before
    append((EndTransactionRecord(), 0))
    assert len(ids(node)) == len(before) + 1
    loader, found = MetadataLoader(), newest(node)
    finish(loader.handle_load_snapshot(found.id, found.decoded()))
    assert "t" in loader.image.topic_ids


@pytest.mark.parametrize("count", [0, 1, BATCH_RECORDS, BATCH_RECORDS + 1, 3 * BATCH_RECORDS])
def test_a_batch_of_a_snapshot_has_a_bounded_number_of_records(count: int) -> None:
    filesystem = MemoryFileSystem()
    filesystem.make_directory("/s")
    value = encode_metadata_record(TopicRecord(name="t", topic_id=Uuid(bytes(15) + b"\x01")), 0)
    data = encode_snapshot(NO_VOTERS, [value] * count, epoch=3, timestamp=1, last_timestamp=1)
    filesystem.write("/s/x", data)
    found = read_snapshot(filesystem, "/s/x")
    assert found is not None
    sizes = [len(batch.records) for batch in found.decoded()]
    assert sum(sizes) == count and max(sizes, default=0) <= BATCH_RECORDS
    offsets = [offset for batch in found.batches for offset in (batch.base_offset, batch.next_offset)]
    assert offsets == sorted(offsets) and offsets[0] == 0
