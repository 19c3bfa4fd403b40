"""A whole node in virtual time with several log directories: where logs go, what is described, what a failure takes."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

import pytest

from pykraft.broker.startup.storage_format import format_directories
from pykraft.common.errors import ConfigError, ErrorCode
from pykraft.common.types import TopicPartition, Uuid
from pykraft.protocol.messages.logs import DescribeLogDirsRequest
from pykraft.sim.world.disk import MemoryFileSystem
from pykraft.storage.disk.checkpoint import CLEAN_SHUTDOWN, read_meta_properties
from pykraft.storage.upkeep.log_manager import LogDirectoryFailedError
from tests.harness.lone_node import LoneNode
from tests.harness.storage import batch

PATHS = ("/a", "/b", "/c")


def node_with(filesystem: MemoryFileSystem | None = None, **settings: str) -> LoneNode:
    return LoneNode(filesystem, **{"log_dirs": ",".join(PATHS), **settings})


def directory_ids(node: LoneNode) -> dict[str, Uuid]:
    found = {path: read_meta_properties(node.filesystem, path) for path in PATHS}
    return {path: properties.directory_id for path, properties in found.items() if properties is not None}


def places(node: LoneNode) -> dict[str, list[str]]:
    """The logs in each directory, as the folders on the disk tell."""
    return {path: [name for name in node.filesystem.list(path) if name.startswith("t-")] for path in PATHS}


def noted(node: LoneNode, number: int, topic: str = "t") -> str | None:
    """In which directory the metadata place the replica."""
    found = node.node.loader.image.topic_named(topic)
    assert found is not None
    ids = {directory_id: path for path, directory_id in directory_ids(node).items()}
    return ids.get(found.partitions[number].directory_of(1))


def described(node: LoneNode) -> dict[str, Any]:
    return {result.log_dir: result for result in node.ask(DescribeLogDirsRequest(topics=None)).results}


def create(node: LoneNode, partitions: int, **configs: str) -> Uuid:
    topic_id = node.create(partitions=partitions, **configs)
    node.run()
    return topic_id


def error_of(answer: Any) -> ErrorCode:
    """Of the only partition that was asked for."""
    partition = answer.value.response.responses[0]
    partition = (getattr(partition, "partition_responses", None) or partition.partitions)[0]
    return ErrorCode.of(partition.error_code)


# --- placing ----------------------------------------------------------------------------------------------------------


def test_a_new_log_goes_to_the_directory_with_the_fewest_logs_and_the_controller_hears_of_it() -> None:
    node = node_with()
    create(node, 7)
    assert places(node) == {"/a": ["t-0", "t-3", "t-6"], "/b": ["t-1", "t-4"], "/c": ["t-2", "t-5"]}
    assert [noted(node, number) for number in range(7)] == ["/a", "/b", "/c", "/a", "/b", "/c", "/a"]
    registered = node.node.loader.image.brokers[1].directories
    assert sorted(registered) == sorted(directory_ids(node).values())


def test_each_directory_has_checkpoints_and_a_marker_of_its_own_and_all_open_again() -> None:
    node = node_with()
    topic_id = create(node, 3)
    for number in range(3):
        node.produce(topic_id, batch(number + 1).buffer, partition=number)
    node.run()
    node.node.close()
    for number, path in enumerate(PATHS):
        recovery = node.filesystem.read(f"{path}/recovery-point-offset-checkpoint").decode().splitlines()
        assert recovery == ["0", "1", f"t {number} {number + 1}"]
        assert node.filesystem.exists(f"{path}/{CLEAN_SHUTDOWN}")
    again = node_with(node.filesystem)
    assert again.broker.logs.previous_broker_epoch >= 0
    ends = {key.partition: log.log_end_offset for key, log in again.broker.logs.logs.items() if key.topic == "t"}
    assert ends == {0: 1, 1: 2, 2: 3}


def test_a_broker_that_stopped_in_order_in_some_directories_only_has_no_epoch_of_before() -> None:
    node = node_with()
    node.node.close()
    node.filesystem.remove(f"/b/{CLEAN_SHUTDOWN}")
    assert node_with(node.filesystem).broker.logs.previous_broker_epoch == -1


def test_each_directory_is_described_with_what_is_in_it() -> None:
    node = node_with()
    topic_id = create(node, 4)
    node.produce(topic_id, batch(5).buffer, partition=1)
    node.run()
    results = described(node)
    assert list(results) == list(PATHS)
    assert {
        path: [(each.partition_index, each.partition_size > 0) for topic in result.topics for each in topic.partitions]
        for path, result in results.items()
    } == {"/a": [(0, False), (3, False)], "/b": [(1, True)], "/c": [(2, False)]}
    assert all(result.total_bytes > result.usable_bytes > 0 for result in results.values())


def test_two_directories_with_one_id_are_refused() -> None:
    node = node_with()
    node.node.abandon()
    node.filesystem.crash_process()
    node.filesystem.write("/b/meta.properties", node.filesystem.read("/a/meta.properties"))
    with pytest.raises(ConfigError, match=r"/a and /b have the same directory\.id"):
        node_with(node.filesystem)


# --- a directory fails ------------------------------------------------------------------------------------------------


def test_a_directory_that_fails_takes_its_partitions_only() -> None:
    node = node_with(metadata_log_dir="/meta")
    topic_id = create(node, 3)
    for number in range(3):
        node.produce(topic_id, batch(2).buffer, partition=number)
    node.run()
    node.filesystem.failed_folders.add("/b")
    assert error_of(node.produce(topic_id, batch(1).buffer, partition=1)) is ErrorCode.KAFKA_STORAGE_ERROR
    assert error_of(node.fetch(topic_id, 0, partition=1)) is ErrorCode.KAFKA_STORAGE_ERROR
    node.run()
    assert error_of(node.fetch(topic_id, 0, partition=1)) is ErrorCode.KAFKA_STORAGE_ERROR
    for number in (0, 2):
        answer = node.produce(topic_id, batch(1).buffer, partition=number)
        node.run()
        assert error_of(answer) is ErrorCode.NONE
    image, ids = node.node.loader.image, dict(node.broker.logs.ids)
    assert sorted(image.brokers[1].directories) == sorted(ids[path] for path in ("/a", "/c"))
    assert [image.topics[topic_id].partitions[number].leader for number in range(3)] == [1, -1, 1]
    results = described(node)
    assert [ErrorCode.of(results[path].error_code).name for path in PATHS] == ["NONE", "KAFKA_STORAGE_ERROR", "NONE"]
    (failed,) = [event for event in node.journal.events if event.name == "log_directory_failed"]
    assert failed.fields["directory"] == "/b"


@pytest.mark.parametrize("chore", ["flush", "checkpoint", "retention", "background"])
def test_a_failure_in_a_chore_takes_the_directory_only(chore: str) -> None:
    settings = {
        "flush": {"log_flush_scheduler_interval_ms": "100", "log_initial_task_delay_ms": "100"},
        "checkpoint": {"replica_high_watermark_checkpoint_interval_ms": "100"},
        "retention": {"log_retention_check_interval_ms": "1000", "log_initial_task_delay_ms": "1000"},
        "background": {},
    }[chore]
    node = node_with(metadata_log_dir="/meta", **settings)
    topic_id = create(node, 3, flush_ms="1", internal_segment_bytes="200", retention_ms="1")
    for _ in range(4):
        node.produce(topic_id, batch(2, timestamp=1).buffer, partition=1)
    node.run(20)
    node.filesystem.failed_folders.add("/b")
    if chore == "background":
        node.node.fault_handler.handle_fault("background", OSError(errno.EIO, "it fails", "/b/t-1/0.log"))
    node.clock.now_ms += 10_000
    node.run(1_500)
    assert list(node.broker.logs.failures) == ["/b"]
    answer = node.produce(topic_id, batch(1).buffer, partition=2)
    node.run()
    assert error_of(answer) is ErrorCode.NONE


@pytest.mark.parametrize(("failing", "metadata"), [(("/meta",), "/meta"), (PATHS, "/meta"), (("/a",), "")])
def test_without_the_metadata_log_or_without_any_directory_the_node_stops(
    failing: tuple[str, ...], metadata: str
) -> None:
    node = node_with(metadata_log_dir=metadata)
    topic_id = create(node, 3)
    node.filesystem.failed_folders.update(failing)
    with pytest.raises(LogDirectoryFailedError):
        for number in range(3):
            node.produce(topic_id, batch(1).buffer, partition=number)
            node.run(1000)
        node.create("u", partitions=1)
        node.run(1000)


def cannot_be_read(filesystem: MemoryFileSystem) -> None:
    filesystem.failed_folders.add("/b")


def is_a_file(filesystem: MemoryFileSystem) -> None:
    filesystem.remove("/b")
    filesystem.write("/b", b"")


@pytest.mark.parametrize("directory", [cannot_be_read, is_a_file])
def test_a_directory_that_has_failed_before_the_start_is_left_out_and_its_logs_are_not_made_elsewhere(
    directory: Callable[[MemoryFileSystem], None],
) -> None:
    node = node_with(metadata_log_dir="/meta")
    topic_id = create(node, 3)
    ids = dict(node.broker.logs.ids)
    node.node.close()
    node.filesystem.crash_process()
    directory(node.filesystem)
    again = node_with(node.filesystem, metadata_log_dir="/meta")
    again.run(10_000)
    assert sorted(again.node.loader.image.brokers[1].directories) == sorted(ids[path] for path in ("/a", "/c"))
    assert TopicPartition("t", 1) not in again.broker.logs.logs
    assert error_of(again.fetch(topic_id, 0, partition=1)) is ErrorCode.KAFKA_STORAGE_ERROR
    assert error_of(again.fetch(topic_id, 0, partition=2)) is ErrorCode.NONE
    again.create("u", partitions=2)
    again.run()
    held = [each.directory for each in again.broker.logs.online for key in each.logs if key.topic == "u"]
    assert held == ["/a", "/c"]


@pytest.mark.parametrize("directory", [cannot_be_read, is_a_file])
def test_a_broker_whose_last_but_one_directory_failed_before_its_start_does_not_claim_the_replicas_that_were_there(
    directory: Callable[[MemoryFileSystem], None],
) -> None:
    """It would lead them, and at its next start make empty logs for them in the directory that is left."""
    settings = {"log_dirs": "/a,/b", "metadata_log_dir": "/meta"}
    node = LoneNode(**settings)
    topic_id = create(node, 2)
    before = node.node.loader.image.topics[topic_id].partitions[1].directory_of(1)
    assert before == node.broker.logs.ids["/b"]
    node.node.close()
    files = node.filesystem
    files.crash_process()
    directory(files)
    for _ in range(2):
        node = LoneNode(files, **settings)
        node.run(10_000)
        partition = node.node.loader.image.topics[topic_id].partitions[1]
        assert (partition.directory_of(1), partition.has_leader) == (before, False)
        assert node.node.loader.image.topics[topic_id].partitions[0].has_leader
        assert TopicPartition("t", 1) not in node.broker.logs.logs
        node.node.close()
        files.crash_process()


def test_a_replaced_directory_comes_back_empty_under_a_new_id() -> None:
    node = node_with(metadata_log_dir="/meta")
    topic_id = create(node, 3)
    node.produce(topic_id, batch(2).buffer, partition=1)
    node.run()
    before = directory_ids(node)["/b"]
    node.node.close()
    node.filesystem.crash_process()
    node.filesystem.remove("/b")
    with pytest.raises(ConfigError, match="the directory /b is not formatted"):
        node_with(node.filesystem, metadata_log_dir="/meta")
    config, cluster_id = node.node.config, node.node.cluster_id
    made = format_directories(config, cluster_id, node.filesystem, node.node._random, 0, leaves_formatted=True)
    assert made == ["/b"]
    again = node_with(node.filesystem, metadata_log_dir="/meta")
    again.run(10_000)
    assert directory_ids(again)["/b"] != before
    assert again.broker.logs.logs[TopicPartition("t", 1)].log_end_offset == 0
    assert again.node.loader.image.topics[topic_id].partitions[1].directory_of(1) == directory_ids(again)["/b"]


def test_of_two_logs_of_one_partition_the_newer_one_is_kept() -> None:
    node = node_with()
    topic_id = create(node, 3)
    for _ in range(2):
        node.produce(topic_id, batch(2).buffer, partition=1)
        node.run()
    node.node.close()
    files = node.filesystem
    log = f"{0:020d}.log"
    for stale in ("/a", "/c"):
        files.make_directory(f"{stale}/t-1")
        for name in ("partition.metadata", "leader-epoch-checkpoint"):
            files.write(f"{stale}/t-1/{name}", files.read(f"/b/t-1/{name}"))
        files.write(f"{stale}/t-1/{log}", files.read(f"/b/t-1/{log}")[: -len(batch(2).buffer)])
    again = node_with(files)
    assert again.broker.logs.logs[TopicPartition("t", 1)].log_end_offset == 4
    assert [name.endswith("-stray") for path in ("/a", "/c") for name in files.list(path) if name[:3] == "t-1"] == [
        True,
        True,
    ]
