"""Kafka's log of committed and aborted transactions, written again by a node: clients' batches come by Produce, markers
by WriteTxnMarkers. Each file is Kafka's, byte for byte."""

from __future__ import annotations

import pytest

from pykraft.common.errors import ErrorCode
from pykraft.common.types import TopicPartition
from pykraft.records.batch import RecordBatch, batches
from pykraft.records.markers import read_marker
from tests.golden.dumps import DATA
from tests.harness.storage import copied
from tests.harness.transactional_node import NONE, TransactionalNode, produced_error

FOLDER = DATA / "golden-txn-0"
VERSION_OF_ITS_CLIENT = 10


def golden_batches() -> list[RecordBatch]:
    return list(batches(memoryview((FOLDER / f"{0:020}.log").read_bytes())))


def test_a_node_that_gets_the_same_requests_writes_the_same_files() -> None:
    node = TransactionalNode()
    node.topic = node.lone.create("golden-txn", index_interval_bytes="64")
    place = TopicPartition("golden-txn", 0)
    for some in golden_batches():
        node.lone.clock.now_ms = some.base_timestamp
        if some.is_control:
            ending = read_marker(some)
            marker = (some.producer_id, some.producer_epoch, ending.committed)
            written = node.markers(marker, places=(place,), version=1, coordinator_epoch=ending.coordinator_epoch)
            assert written == {(some.producer_id, place): NONE}
        else:
            sent = copied(some)
            sent.assign(0, -1)  # as a client sends it
            answer = node.produce(sent, VERSION_OF_ITS_CLIENT, "golden-tx", topic="golden-txn")
            node.answer(node.asked())
            assert produced_error(answer) is ErrorCode.NONE
    log = node.log(place)
    assert log.last_stable_offset == 16
    log.close()
    names = sorted(name for name in node.lone.filesystem.list(log.directory) if name.startswith("0"))
    assert names == sorted(path.name for path in FOLDER.glob("0*"))
    for name in names:
        assert node.lone.filesystem.read(f"{log.directory}/{name}") == (FOLDER / name).read_bytes(), name


@pytest.mark.parametrize("isolation_level", [0, 1])
def test_a_reader_of_committed_data_is_told_of_kafkas_two_aborts(isolation_level: int) -> None:
    node = TransactionalNode()
    for some in golden_batches():
        assert node.log().append_as_follower(some.buffer) == 1
    node.log().update_high_watermark(16)
    fetched = node.lone.fetch(node.topic, 0, isolation_level=isolation_level).value.response
    part = fetched.responses[0].partitions[0]  # type: ignore[union-attr]
    aborted = [(each.producer_id, each.first_offset) for each in part.aborted_transactions or ()]
    assert aborted == ([(5, 4), (5, 12)] if isolation_level else [])
