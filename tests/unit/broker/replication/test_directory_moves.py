"""A replica moves between the log directories of a whole node in virtual time: it is written, killed, and fails."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from pykraft.broker.replication import directory_moves
from pykraft.common.errors import ErrorCode
from pykraft.common.types import TopicPartition, Uuid
from pykraft.protocol.api import ListenerKind
from pykraft.protocol.messages.admin import DeleteTopicsRequest
from pykraft.protocol.messages.configs import IncrementalAlterConfigsRequest, ResourceType
from pykraft.protocol.messages.logs import AlterReplicaLogDirsRequest, DescribeLogDirsRequest
from pykraft.records.batch import batches
from pykraft.sim.world.disk import Crash, MemoryFileSystem
from tests.harness.lone_node import LoneNode
from tests.harness.storage import batch

PATHS = ("/a", "/b")
PARTITION = TopicPartition("t", 0)


SETTINGS = {
    "log_dirs": ",".join(PATHS),
    "metadata_log_dir": "/meta",
    "broker_session_timeout_ms": "1000",
    "broker_heartbeat_interval_ms": "300",
}


def node_with(filesystem: MemoryFileSystem | None = None) -> LoneNode:
    return LoneNode(filesystem, **SETTINGS)


def filled(count: int = 20, **configs: str) -> tuple[LoneNode, Uuid]:
    node = node_with()
    topic_id = node.create(**configs)
    node.run()
    for _ in range(count):
        node.produce(topic_id, batch(2, size=50).buffer)
    node.run()
    return node, topic_id


def alter(node: LoneNode, path: str, topic: str = "t", partition: int = 0) -> ErrorCode:
    directory = AlterReplicaLogDirsRequest.Directory
    asked = directory(path=path, topics=[directory.Topic(name=topic, partitions=[partition])])
    # The answer is there at once: what follows is up to the test.
    answer = node.handle(AlterReplicaLogDirsRequest(dirs=[asked]))
    response: Any = answer.value.response
    return ErrorCode.of(response.results[0].partitions[0].error_code)


def place(node: LoneNode) -> str:
    found = node.broker.logs.manager_of(PARTITION)
    return "" if found is None else str(found.directory)


def noted(node: LoneNode, topic_id: Uuid) -> Uuid:
    found: Uuid = node.node.loader.image.topics[topic_id].partitions[0].directory_of(1)
    return found


def described(node: LoneNode) -> dict[str, list[tuple[bool, int]]]:
    """(whether it is a future log, its lag) of what is in each directory."""
    results = node.handle(DescribeLogDirsRequest(topics=None)).value.response.results  # type: ignore[union-attr]
    return {
        result.log_dir: [(each.is_future_key, each.offset_lag) for topic in result.topics for each in topic.partitions]
        for result in results
    }


def records(node: LoneNode, topic_id: Uuid) -> list[tuple[int, int]]:
    """(base offset, last offset) of the batches that a consumer reads."""
    answer: Any = node.fetch(topic_id, 0).value.response
    data = answer.responses[0].partitions[0].records
    whole = data if isinstance(data, bytes | memoryview) else data.read(0, len(data))
    return [(each.base_offset, each.last_offset) for each in batches(memoryview(whole))]


def test_a_replica_moves_while_it_is_written_and_the_controller_names_the_new_directory_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(directory_moves, "SLICE_BYTES", 300)
    node, topic_id = filled()
    before = records(node, topic_id)
    assert place(node) == "/a"
    assert alter(node, "/b") is ErrorCode.NONE
    assert described(node) == {"/a": [(False, 0)], "/b": [(True, 40)]}
    count = 0
    while place(node) == "/a":
        node.produce(topic_id, batch(1).buffer)
        node.run(10)
        count += 1
        is_named = noted(node, topic_id) == node.broker.logs.ids["/b"]
        assert is_named or place(node) == "/a", "the swap came before the controller named the directory"
        assert count < 1_000
    file = f"/b/t-0/{0:020d}.log"
    assert node.filesystem.durable_size(file) == node.filesystem.size(file), "the old log goes: the new one must stay"
    node.produce(topic_id, batch(1).buffer)
    node.run()
    assert not node.broker.moves.moves
    assert described(node) == {"/a": [], "/b": [(False, 0)]}
    assert records(node, topic_id) == before + [(40 + n, 40 + n) for n in range(count + 1)]
    (old,) = (name for name in node.filesystem.list("/a") if name.startswith("t-"))
    assert old.endswith("-delete")
    node.node.close()
    again = node_with(node.filesystem)
    assert place(again) == "/b" and again.broker.logs.logs[PARTITION].log_end_offset == 41 + count


@pytest.mark.parametrize(
    ("path", "topic", "partition", "error"),
    [
        ("/nowhere", "t", 0, ErrorCode.LOG_DIR_NOT_FOUND),
        ("/b", "t", 7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("/a", "t", 0, ErrorCode.NONE),
    ],
)
def test_what_cannot_be_moved(path: str, topic: str, partition: int, error: ErrorCode) -> None:
    node, _ = filled(1)
    assert alter(node, path, topic, partition) is error
    assert not node.broker.moves.moves


def test_a_broker_that_moves_nothing_keeps_no_count_of_what_it_may_copy() -> None:
    node, _ = filled(1)
    moves = node.broker.moves
    before = dict(vars(moves))
    moves.poll(node.now + 5_000)
    assert vars(moves) == before


def test_a_failed_directory_takes_no_replica() -> None:
    node, _ = filled(1)
    other = node.create("u", partitions=1)
    node.run()
    node.filesystem.failed_folders.add("/b")
    node.produce(other, batch(1).buffer)
    node.run()
    assert list(node.broker.logs.failures) == ["/b"]
    assert alter(node, "/b") is ErrorCode.KAFKA_STORAGE_ERROR


def test_a_log_that_is_not_there_yet_is_made_where_it_was_asked_for() -> None:
    node, _ = filled(1)
    assert alter(node, "/a", "later", 0) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    node.create("later")
    node.run()
    assert node.broker.logs.manager_of(TopicPartition("later", 0)).directory == "/a"


def test_a_move_back_is_asked_for_before_the_move_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory_moves, "SLICE_BYTES", 300)
    node, topic_id = filled()
    alter(node, "/b")
    node.run(2)
    assert alter(node, "/a") is ErrorCode.NONE
    node.run(300)
    assert place(node) == "/a" and described(node) == {"/a": [(False, 0)], "/b": []}
    assert len(records(node, topic_id)) == 20


def test_a_truncation_is_followed_by_the_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory_moves, "SLICE_BYTES", 1500)
    node, _ = filled()
    alter(node, "/b")
    node.run(3)
    log = node.broker.logs.logs[PARTITION]
    future = node.broker.moves.moves[PARTITION].future
    assert future.log_end_offset > 10
    log.truncate_to(8)
    assert future.log_end_offset == 8


def test_a_move_copies_no_more_bytes_a_second_than_it_may() -> None:
    node = node_with()
    kind = IncrementalAlterConfigsRequest.Resource
    limit = kind.Config(name="replica.alter.log.dirs.io.max.bytes.per.second", config_operation=0, value="1000")
    resource = kind(resource_type=ResourceType.BROKER, resource_name="1", configs=[limit])
    node.ask(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False))
    topic_id = node.create()
    node.run()
    for _ in range(30):
        node.produce(topic_id, batch(1, size=50).buffer)
    node.run(1_000)
    size = node.broker.logs.logs[PARTITION].size
    assert alter(node, "/b") is ErrorCode.NONE
    node.run(1_000)
    future = node.broker.moves.moves[PARTITION].future
    assert 1_000 <= future.size <= 2_400 < size


@pytest.mark.parametrize("failing", PATHS)
def test_a_directory_that_fails_in_the_middle_of_a_move_ends_it(failing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory_moves, "SLICE_BYTES", 300)
    node, topic_id = filled()
    alter(node, "/b")
    node.run(2)
    node.filesystem.failed_folders.add(failing)
    node.run(300)
    assert not node.broker.moves.moves
    assert list(node.broker.logs.failures) == [failing]
    partition = node.node.loader.image.topics[topic_id].partitions[0]
    assert partition.leader == (1 if failing == "/b" else -1)
    assert place(node) == ("/a" if failing == "/b" else "")


def test_a_move_with_a_copy_is_gone_when_its_topic_is_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory_moves, "SLICE_BYTES", 300)
    node, _ = filled(file_delete_delay_ms="0")
    alter(node, "/b")
    node.run(2)
    asked = DeleteTopicsRequest.Topic(name="t")
    node.ask(DeleteTopicsRequest(topics=[asked], timeout_ms=1000), ListenerKind.CONTROLLER)
    node.run(3000)
    assert not node.broker.moves.moves
    assert not [name for path in PATHS for name in node.filesystem.list(path) if name.startswith("t-")]


def crashed_while_moving(step: int, power: bool) -> bool:
    """Crash before this change of the disks since the move was asked for, and look at what the next start makes of it.
    Whether the move was over before."""
    node, topic_id = filled(6)
    node.filesystem.sync_all()
    node.filesystem.crash_after(step)
    is_over = False
    try:
        alter(node, "/b")
        node.run(900)
        is_over = place(node) == "/b"
    except Crash:
        pass
    if power:
        node.filesystem.crash_power(Random(step))
    else:
        node.filesystem.crash_process()
    again = node_with(node.filesystem)
    again.run(3_000)  # it may register when the session of its life before is over
    assert again.broker.logs.logs[PARTITION].log_end_offset == 12, step
    assert len(records(again, topic_id)) == 6, step
    assert not again.broker.moves.moves, step
    assert noted(again, topic_id) == again.broker.logs.ids[place(again)], step
    kept = [name for path in PATHS for name in again.filesystem.list(path) if name[:3] == "t-0"]
    kinds = sorted(name.rpartition("-")[2] for name in kept if not name.endswith("-delete"))
    assert kinds in (["0"], ["0", "stray"]), (step, kept)
    return is_over


@pytest.mark.parametrize("step", [7, 13, 17, 20, 23])
def test_a_move_survives_a_crash(step: int) -> None:
    crashed_while_moving(step, power=False)


@pytest.mark.long
@pytest.mark.parametrize("power", [False, True])
def test_a_move_survives_a_crash_at_every_step(power: bool) -> None:
    step = 0
    while not crashed_while_moving(step, power):
        step += 1
    assert step > 20


def test_a_log_that_was_about_to_move_stays_though_the_other_directory_has_failed_at_the_next_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The metadata name the other directory before the swap, and the process dies in between."""

    def rename_or_die(old: str, new: str) -> None:
        if new == "/b/t-0":
            raise Crash
        MemoryFileSystem.rename(node.filesystem, old, new)

    node, topic_id = filled()
    monkeypatch.setattr(node.filesystem, "rename", rename_or_die)
    with pytest.raises(Crash):
        alter(node, "/b")
        node.run(1_000)
    assert noted(node, topic_id) == node.broker.logs.ids["/b"] and place(node) == "/a"
    node.filesystem.crash_process()
    node.filesystem.failed_folders.add("/b")
    again = node_with(node.filesystem)
    again.run(3_000)
    assert place(again) == "/a" and again.filesystem.exists("/a/t-0"), "it was not set aside"
    assert len(records(again, topic_id)) == 20
    assert noted(again, topic_id) == again.broker.logs.ids["/a"]


def test_a_copy_that_was_away_while_its_log_was_truncated_is_truncated_before_the_move_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(directory_moves, "SLICE_BYTES", 1500)
    node, topic_id = filled()
    alter(node, "/b")
    node.run(3)
    assert node.broker.moves.moves[PARTITION].future.log_end_offset > 10
    node.filesystem.failed_folders.add("/b")
    node.run(100)
    node.filesystem.crash_process()
    again = node_with(node.filesystem)
    again.run(3_000)
    log = again.broker.logs.logs[PARTITION]
    log.truncate_to(8)  # as a follower of another leader would
    for _ in range(20):
        again.produce(topic_id, batch(1, size=50).buffer)
    again.run()
    written = records(again, topic_id)
    again.filesystem.crash_process()
    again.filesystem.failed_folders.clear()
    last = node_with(again.filesystem)
    last.run(5_000)
    assert place(last) == "/b" and not last.broker.moves.moves
    assert records(last, topic_id) == written
