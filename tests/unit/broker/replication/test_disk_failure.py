"""A whole node in virtual time whose disk fails: what it was doing is not acknowledged, it stops with a sentence."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from pykraft.broker.requests.dispatch import Answer
from pykraft.common.core import Promise
from pykraft.common.errors import ErrorCode
from pykraft.common.types import TopicPartition, Uuid
from pykraft.protocol.messages.logs import DescribeLogDirsRequest
from pykraft.sim.world.disk import MemoryFileSystem
from pykraft.storage.upkeep.log_manager import DirectoryInUseError, LogDirectoryFailedError
from tests.harness.lone_node import LoneNode
from tests.harness.storage import batch, read_batches
from tests.unit.broker.requests.data.test_delete_records import delete, first_error, said
from tests.unit.broker.test_node import error_of

PARTITION = TopicPartition("t", 0)
EIO = OSError(errno.EIO, "it fails")


def filled(**settings: str) -> tuple[LoneNode, Uuid]:
    node = LoneNode(**settings)
    topic_id = node.create()
    assert error_of(node.produce(topic_id, batch(2).buffer, acks=1)) is ErrorCode.NONE
    return node, topic_id


def restarted(disk: MemoryFileSystem, **settings: str) -> LoneNode:
    """A node on the disk of one that died, once the controller has given that one up."""
    node = LoneNode(disk, **settings)
    node.run(20_000)
    return node


def stops(node: LoneNode) -> str:
    """The sentence with which the node stops."""
    with pytest.raises(LogDirectoryFailedError) as failure:
        node.run()
    node.node.abandon()
    return str(failure.value)


def test_what_the_disk_did_not_take_is_answered_so_and_the_node_stops() -> None:
    node, topic_id = filled()
    assert offline_directories(node) == 0
    node.filesystem.fail_after(0, EIO)
    assert error_of(node.produce(topic_id, batch(2).buffer, acks=1)) is ErrorCode.KAFKA_STORAGE_ERROR
    assert error_of(node.produce(topic_id, batch(2).buffer, acks=1)) is ErrorCode.KAFKA_STORAGE_ERROR, "it is offline"
    assert offline_directories(node) == 1
    assert first_error(node.fetch(topic_id, 0)) is ErrorCode.KAFKA_STORAGE_ERROR
    assert said(delete(node, 1)) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    described: Promise[Answer] = node.handle(DescribeLogDirsRequest())
    response: Any = described.value.response
    assert ErrorCode.of(response.results[0].error_code) is ErrorCode.KAFKA_STORAGE_ERROR
    assert stops(node) == "the log directory /data has failed (it fails), and it was the only one"


def offline_directories(node: LoneNode) -> float:
    return next(value for _, name, value in node.node.metrics.read() if name == "OfflineLogDirectoryCount")


def test_a_full_disk_is_named() -> None:
    node, topic_id = filled()
    node.filesystem.capacity_bytes = 0
    assert error_of(node.produce(topic_id, batch(2).buffer, acks=-1)) is ErrorCode.KAFKA_STORAGE_ERROR
    assert "/data has failed (no space is left on the disk)" in stops(node)


def test_what_was_acknowledged_is_there_when_the_disk_works_again() -> None:
    node, topic_id = filled()
    node.filesystem.fail_after(0, EIO, torn_bytes=30)
    node.produce(topic_id, batch(2).buffer, acks=1)
    stops(node)
    node.filesystem.crash_process()
    again = restarted(node.filesystem)
    log = again.broker.logs.logs[PARTITION]
    assert (log.log_end_offset, len(read_batches(log))) == (2, 1)
    assert error_of(again.produce(topic_id, batch(2).buffer, acks=1)) is ErrorCode.NONE


def test_a_deletion_that_could_not_be_written_down_is_not_acknowledged() -> None:
    node, _ = filled()
    node.filesystem.fail_after(0, EIO)
    assert said(delete(node, 1)) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    assert "/data has failed" in stops(node)


def test_what_is_done_from_time_to_time_may_fail_too() -> None:
    node, _ = filled()
    node.filesystem.fail_after(0, EIO, for_good=True)
    with pytest.raises(LogDirectoryFailedError, match="the log directory /data has failed"):
        node.run(20_000)
    node.node.abandon()


def two_directories() -> LoneNode:
    return LoneNode(log_dirs="/data", metadata_log_dir="/meta")


def test_the_metadata_log_apart_is_not_touched_by_a_failure_of_the_other_directory() -> None:
    node = two_directories()
    topic_id = node.create()
    before = {name: node.filesystem.read(f"/meta/__cluster_metadata-0/{name}") for name in metadata_logs(node)}
    node.filesystem.fail_after(0, EIO)
    assert error_of(node.produce(topic_id, batch(2).buffer, acks=1)) is ErrorCode.KAFKA_STORAGE_ERROR
    assert stops(node).startswith("the log directory /data has failed")
    assert before == {name: node.filesystem.read(f"/meta/__cluster_metadata-0/{name}") for name in metadata_logs(node)}
    node.filesystem.crash_process()
    again = restarted(node.filesystem, log_dirs="/data", metadata_log_dir="/meta")
    assert error_of(again.produce(topic_id, batch(2).buffer, acks=1)) is ErrorCode.NONE


def metadata_logs(node: LoneNode) -> list[str]:
    return [name for name in node.filesystem.list("/meta/__cluster_metadata-0") if name.endswith(".log")]


@pytest.mark.parametrize("settings", [{"metadata_log_dir": "/other"}, {"log_dirs": "/other"}])
def test_each_of_two_directories_is_for_one_node(settings: dict[str, str]) -> None:
    node = two_directories()
    fields = {"log_dirs": "/data", "metadata_log_dir": "/meta", **settings}
    for name in ("meta.properties", "bootstrap.checkpoint"):
        if node.filesystem.exists(f"/data/{name}"):
            node.filesystem.make_directory("/other")
            node.filesystem.write(f"/other/{name}", node.filesystem.read(f"/data/{name}"))
    with pytest.raises(DirectoryInUseError, match=r"the log directory /(data|meta) is in use by"):
        LoneNode(node.filesystem, **fields)


def test_nothing_goes_without_the_metadata_log() -> None:
    node = two_directories()
    path = "/meta/__cluster_metadata-0/00000000000000000000.log"
    node.filesystem.fail_after(0, OSError(errno.EIO, "it fails", path))
    with pytest.raises(LogDirectoryFailedError) as failure:
        node.create()
    assert str(failure.value) == (
        f"the log directory /meta has failed (it fails: {path}), and nothing goes without the metadata log"
    )
    node.node.abandon()


def test_a_node_does_not_start_on_a_disk_that_fails_and_holds_no_lock_then() -> None:
    node, topic_id = filled()
    node.node.abandon()
    for count in range(10_000):
        disk = node.filesystem
        disk.fail_after(count, EIO)
        try:
            again = LoneNode(disk)
        except LogDirectoryFailedError as failure:
            assert "/data has failed (it fails)" in str(failure)
            disk.crash_process() if count % 2 else disk.spare()
            continue
        break
    disk.spare()
    again.run(20_000)
    assert error_of(again.produce(topic_id, batch(2).buffer, acks=1)) is ErrorCode.NONE
    assert again.broker.logs.logs[PARTITION].log_end_offset == 4
