"""The log directory of a node."""

from __future__ import annotations

import errno
import re
from random import Random
from typing import Any

import pytest

from pykraft.common.settings.config import Config
from pykraft.common.types import TopicIdPartition, TopicPartition, Uuid
from pykraft.sim.world.disk import MemoryFile, MemoryFileSystem
from pykraft.storage.disk.checkpoint import DamagedFileError, read_offsets, read_partition_metadata
from pykraft.storage.upkeep import log_manager
from pykraft.storage.upkeep.log_manager import DirectoryInUseError, LogManager, lock_directory, parse_directory
from tests.harness.log_laws import all_batches, check
from tests.harness.storage import (
    LOGS,
    ByHand,
    ManualClock,
    at,
    batch,
    disk,
    fill,
    produced,
    settings,
    started,
    tiny,
)

FLIGHTS, PLANES = TopicPartition("flights", 0), TopicPartition("planes", 3)
FIRST, SECOND = Uuid(b"\x01" * 16), Uuid(b"\x02" * 16)


def manager(filesystem: MemoryFileSystem, **fields: Any) -> LogManager:
    """A started log manager."""
    return started(filesystem, tiny(), **fields)


def filled(filesystem: MemoryFileSystem, **fields: Any) -> LogManager:
    """One with twenty batches of flights, replicated up to 30."""
    found = manager(filesystem, **fields)
    log = found.get_or_create(FLIGHTS, FIRST)
    fill(log, 20)
    log.update_high_watermark(30)
    return found


def restarted(filesystem: MemoryFileSystem, **fields: Any) -> LogManager:
    """The manager of the next process."""
    filesystem.crash_process()
    return manager(filesystem, **fields)


@pytest.mark.parametrize(
    ("name", "partition"),
    [
        ("flights-0", FLIGHTS),
        ("a-b-12", TopicPartition("a-b", 12)),
        ("__cluster_metadata-0", TopicPartition("__cluster_metadata", 0)),
        ("flights", None),
        ("-1", None),
        ("flights-", None),
        ("flights--1", TopicPartition("flights-", 1)),
        ("flights-x", None),
        ("flights-²", None),
        ("flights-0.0ad3-delete", None),
        ("flights-0.0ad3-stray", None),
        ("flights-0.0ad3-future", None),
        ("meta.properties", None),
    ],
)
def test_a_folders_name_tells_its_partition(name: str, partition: TopicPartition | None) -> None:
    assert parse_directory(name) == partition


def test_a_log_directory_is_used_by_one_process() -> None:
    filesystem = MemoryFileSystem()
    lock = lock_directory(filesystem, "/new/logs")
    with pytest.raises(DirectoryInUseError, match="/new/logs is in use by this process: stop that node first"):
        lock_directory(filesystem, "/new/logs")
    lock.release()
    lock_directory(filesystem, "/new/logs").release()


def test_an_orderly_stop_and_start() -> None:
    filesystem = disk()
    first = filled(filesystem)
    assert first.previous_broker_epoch == -1
    first.close(broker_epoch=15)
    assert filesystem.exists(f"{LOGS}/.kafka_cleanshutdown")
    second = restarted(filesystem)
    assert second.previous_broker_epoch == 15 and not second.lost_bytes
    assert not filesystem.exists(f"{LOGS}/.kafka_cleanshutdown"), "the next stop may be none"
    log = second.logs[FLIGHTS]
    assert (log.log_end_offset, log.high_watermark, log.recovery_point, log.topic_id) == (39, 30, 39, FIRST)
    check(log)
    assert restarted(filesystem).previous_broker_epoch == -1


def test_what_does_not_belong_there_is_left_alone_and_told() -> None:
    filesystem = disk()
    filled(filesystem).close(broker_epoch=15)
    filesystem.write(f"{LOGS}/notes.txt", b"mine")
    filesystem.write(f"{LOGS}/file-0", b"no folder")
    filesystem.make_directory(f"{LOGS}/lost+found")
    inside = ["00000000000000000000.log.bak", "12.log", "README", "a.snapshot"]
    for name in inside:
        filesystem.write(f"{LOGS}/flights-0/{name}", b"mine, too")
    again = restarted(filesystem)
    assert sorted(again.unknown) == ["file-0", *(f"flights-0/{name}" for name in inside), "lost+found", "notes.txt"]
    assert filesystem.read(f"{LOGS}/notes.txt") == b"mine" and filesystem.exists(f"{LOGS}/lost+found")
    assert all(filesystem.read(f"{LOGS}/flights-0/{name}") == b"mine, too" for name in inside)
    assert not again.lost_bytes and again.logs[FLIGHTS].log_end_offset == 39
    assert restarted(disk()).unknown == []


def test_checkpoints_say_what_is_so() -> None:
    filesystem = disk()
    found = filled(filesystem)
    found.get_or_create(PLANES, SECOND).append_as_leader(batch(4), 0)
    found.logs[FLIGHTS].log_start_offset = 12
    found.logs[FLIGHTS].flush()
    found.write_checkpoints()
    assert read_offsets(filesystem, f"{LOGS}/replication-offset-checkpoint") == {FLIGHTS: 30, PLANES: 0}
    assert read_offsets(filesystem, f"{LOGS}/recovery-point-offset-checkpoint") == {FLIGHTS: 39, PLANES: 0}
    assert read_offsets(filesystem, f"{LOGS}/log-start-offset-checkpoint") == {FLIGHTS: 12}
    again = restarted(filesystem)
    assert (again.logs[FLIGHTS].log_start_offset, again.logs[FLIGHTS].high_watermark) == (12, 30)
    assert again.logs[PLANES].log_end_offset == 4


def test_a_log_is_made_once() -> None:
    found = manager(disk())
    log = found.get_or_create(FLIGHTS, FIRST)
    assert found.get_or_create(FLIGHTS, FIRST) is log and list(found.logs) == [FLIGHTS]


def test_a_topics_own_settings_hold_for_its_logs() -> None:
    def config_for(topic: str) -> Config:
        return settings(segment_bytes=1234) if topic == "planes" else settings()

    found = manager(disk(), config_for=config_for)
    assert found.get_or_create(PLANES, SECOND).config.as_dict()["segment.bytes"] == 1234
    assert found.get_or_create(FLIGHTS, FIRST).config.as_dict()["segment.bytes"] == 1 << 30


def test_a_log_is_deleted_at_once_and_its_bytes_later() -> None:
    filesystem, background, clock = disk(), ByHand(), ManualClock()
    found = filled(filesystem, background=background, clock=clock)
    background.run()
    found.delete(FLIGHTS)
    (doomed,) = [name for name in filesystem.list(LOGS) if name.endswith("-delete")]
    assert found.logs == {} and not filesystem.exists(f"{LOGS}/flights-0")
    assert doomed.startswith("flights-0.") and len(doomed) == len("flights-0.") + 32 + len("-delete")
    for waited_ms, is_there in ((59_999, True), (1, False)):
        clock.now_ms += waited_ms
        found.empty_trash()
        background.run()
        assert filesystem.exists(f"{LOGS}/{doomed}") == is_there


@pytest.mark.parametrize("length", [1, 213, 214, 249])
def test_a_deleted_log_has_a_name_that_a_folder_may_have(length: int) -> None:
    """A topic may be called with 249 characters, a folder with 255; the number and the unique part are never cut."""
    filesystem = disk()
    found = manager(filesystem, background=ByHand())
    long = [TopicPartition("a" * length, number) for number in (0, 12345)]
    for key in long:
        found.get_or_create(key, FIRST)
    found.delete_all(long)
    doomed = [name for name in filesystem.list(LOGS) if name.endswith("-delete")]
    endings = [re.fullmatch(r"a+(-[0-9]+)\.[0-9a-f]{32}-delete", name) for name in doomed]
    assert sorted(ending.group(1) for ending in endings if ending) == ["-0", "-12345"]
    assert [len(name) <= 255 for name in doomed] == [True, True]
    assert restarted(filesystem).unknown == []
    assert not any(name.endswith("-delete") for name in filesystem.list(LOGS))


def test_what_was_still_to_be_deleted_goes_at_the_next_start() -> None:
    filesystem = disk()
    filled(filesystem, background=ByHand()).delete(FLIGHTS)
    assert any(name.endswith("-delete") for name in filesystem.list(LOGS))
    restarted(filesystem)
    assert not any(name.endswith("-delete") for name in filesystem.list(LOGS))


def test_a_log_that_was_set_aside_is_known_and_left_alone() -> None:
    filesystem = disk()
    stray = filled(filesystem).set_aside([FLIGHTS])
    again = restarted(filesystem)
    assert again.unknown == [] and again.logs == {} and filesystem.exists(stray[0])


def test_another_incarnation_of_a_topic_begins_anew() -> None:
    filesystem = disk()
    found = filled(filesystem)
    found.logs[FLIGHTS].log_start_offset = 12
    found.write_checkpoints()
    found = restarted(filesystem)
    log = found.get_or_create(FLIGHTS, SECOND)
    marks = (log.log_start_offset, log.high_watermark, log.log_end_offset, log.recovery_point)
    assert marks == (0, 0, 0, 0) and log.topic_id == SECOND
    assert read_partition_metadata(filesystem, log.directory) == SECOND
    fill(log, 20)
    log = restarted(filesystem).logs[FLIGHTS]
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (0, 0, 39)


@pytest.mark.parametrize("clean", [True, False])
def test_a_log_that_was_put_there_by_hand_keeps_its_gaps_whatever_the_stop_before_was(clean: bool) -> None:
    filesystem = disk()
    found = manager(filesystem)
    if clean:
        found.close(1)
    folder = f"{LOGS}/{FLIGHTS}"
    filesystem.make_directory(folder)
    for base in (0, 100, 200):
        data = b"".join(bytes(at(base + number, batch(1), 0).buffer) for number in range(3))
        filesystem.write(f"{folder}/{base:020d}.log", data)
    expected = [base + number for base in (0, 100, 200) for number in range(3)]
    for crash in ("process", "power", "process"):
        found = restarted(filesystem)
        log = found.logs[FLIGHTS]
        assert [each.base_offset for each in all_batches(log)] == expected and not found.lost_bytes
        expected.append(log.append_as_leader(batch(1), 0).first_offset)
        log.flush()
        if crash == "power":
            filesystem.crash_power(Random(1))


def test_a_transaction_whose_records_were_deleted_does_not_keep_a_log_from_opening() -> None:
    """A start after an orderly stop does not know of it any more, and takes from its producer what is outside of it. A
    start after a kill reads the segment from its beginning."""
    filesystem = disk()
    found = manager(filesystem)
    log = found.get_or_create(FLIGHTS, FIRST)
    log.append_as_leader(produced(7, 0, transactional=True), 0)
    log.update_high_watermark(1)
    log.increase_log_start(1)
    found.write_log_starts()
    found.close(1)
    log = restarted(filesystem).logs[FLIGHTS]
    log.append_as_leader(produced(7, 0, epoch=1), 0)
    found = restarted(filesystem)
    assert found.logs[FLIGHTS].log_end_offset == 2 and found.logs[FLIGHTS].producer_state.first_unstable_offset is None


def test_an_orderly_stop_syncs_the_snapshot_that_a_killed_process_wrote() -> None:
    filesystem = disk()
    found = manager(filesystem, background=ByHand())
    log = found.get_or_create(FLIGHTS, FIRST)
    log.append_as_leader(produced(7, 0, 2), 0)
    log.roll(2)
    found = restarted(filesystem)
    log = found.logs[FLIGHTS]
    log.append_as_leader(batch(), 0)
    log.truncate_to(2)  # the producers' state is that of the snapshot
    snapshot = f"{log.directory}/{2:020d}.snapshot"
    assert 7 in log.producer_state.producers and not filesystem.durable_size(snapshot)
    found.close(1)
    assert filesystem.durable_size(snapshot) == filesystem.size(snapshot) > 0


def test_a_log_whose_id_was_lost_gets_it_back() -> None:
    filesystem = disk()
    filled(filesystem).close(1)
    filesystem.remove(f"{LOGS}/flights-0/partition.metadata")
    found = restarted(filesystem)
    log = found.logs[FLIGHTS]
    assert log.topic_id is None
    assert found.get_or_create(FLIGHTS, FIRST) is log and log.topic_id == FIRST and log.log_end_offset == 39
    assert read_partition_metadata(filesystem, log.directory) == FIRST


def test_a_truncation_is_written_down_before_the_log_goes_on() -> None:
    filesystem = disk()
    found = filled(filesystem)
    log = found.logs[FLIGHTS]
    log.flush()
    found.write_checkpoints()
    before = filesystem.operations
    log.truncate_to(35)
    untold = filesystem.operations - before
    assert read_offsets(filesystem, f"{LOGS}/recovery-point-offset-checkpoint") == {FLIGHTS: log.log_end_offset}
    log.truncate_to(20)
    assert read_offsets(filesystem, f"{LOGS}/replication-offset-checkpoint") == {FLIGHTS: log.log_end_offset}
    fill(log, 3)
    before = filesystem.operations
    log.truncate_to(log.log_end_offset - 1)
    assert filesystem.operations - before < untold, "what was not claimed need not be taken back"


def test_a_start_takes_back_what_the_checkpoints_claim_too_much() -> None:
    filesystem = disk()
    filled(filesystem)
    for name in ("recovery-point", "replication"):
        filesystem.write(f"{LOGS}/{name}-offset-checkpoint", b"0\n2\nflights 0 5000\ngone 1 7\n")
    restarted(filesystem)
    assert read_offsets(filesystem, f"{LOGS}/recovery-point-offset-checkpoint") == {FLIGHTS: 39}
    assert read_offsets(filesystem, f"{LOGS}/replication-offset-checkpoint") == {FLIGHTS: 39}


@pytest.mark.parametrize("name", ["recovery-point-offset-checkpoint", "replication-offset-checkpoint"])
def test_a_damaged_checkpoint_is_refused_by_name(name: str) -> None:
    filesystem = disk()
    filesystem.write(f"{LOGS}/{name}", b"nonsense")
    with pytest.raises(DamagedFileError, match=f"{LOGS}/{name} is damaged"):
        manager(filesystem)


def test_folders_and_files_of_others_are_left_alone() -> None:
    filesystem = disk()
    filesystem.make_directory(f"{LOGS}/__cluster_metadata-0")
    filesystem.make_directory(f"{LOGS}/my-backup-delete")
    filesystem.make_directory(f"{LOGS}/lost+found")
    filesystem.write(f"{LOGS}/bootstrap.checkpoint", b"x")
    before = filesystem.list(LOGS)
    found = manager(filesystem, not_mine=frozenset({"__cluster_metadata-0"}))
    assert found.logs == {} and filesystem.list(LOGS) == before


def test_bytes_that_a_crash_tore_off_are_counted() -> None:
    filesystem = disk()
    filled(filesystem)
    last = max(name for name in filesystem.list(f"{LOGS}/flights-0") if name.endswith(".log"))
    file = filesystem.open(f"{LOGS}/flights-0/{last}")
    file.append(b"torn")
    assert list(restarted(filesystem).lost_bytes.values()) == [4]


def test_the_gap_that_kafkas_cleaner_left_between_two_segments_is_no_loss() -> None:
    """What was compacted was synced first, and a mark says up to where it was. Ours leaves no such gap."""
    filesystem = disk()
    filesystem.make_directory(f"{LOGS}/{FLIGHTS}")
    for offset in (0, 10, 20):
        content = bytes(at(offset, batch(3)).buffer)
        filesystem.write(f"{LOGS}/{FLIGHTS}/{offset:020d}.log", content)
    compacted = tiny(cleanup_policy=["compact"])
    filesystem.write(f"{LOGS}/cleaner-offset-checkpoint", b"0\n1\nflights 0 20\n")
    log = restarted(filesystem, config_for=lambda topic: compacted).logs[FLIGHTS]
    assert [segment.base_offset for segment in log.segments] == [0, 10, 20]
    assert log.log_end_offset == 23


def test_a_disk_that_has_failed_is_not_said_to_be_in_order() -> None:
    filesystem = disk()
    found = filled(filesystem)
    found.fail(OSError(errno.EIO, "it fails"))  # it may have lost what it was asked to sync, and answer the next call
    with pytest.raises(OSError, match="it fails"):
        found.close(broker_epoch=15)
    assert restarted(filesystem).previous_broker_epoch == -1


def test_an_abandoned_manager_writes_nothing() -> None:
    filesystem = disk()
    found = filled(filesystem)
    before = filesystem.operations
    found.abandon()
    assert filesystem.operations == before
    with pytest.raises(OSError):
        found.logs[FLIGHTS].append_as_leader(batch(1), 0)


@pytest.mark.parametrize("one_by_one", [500, 0])
def test_what_a_crash_left_is_on_the_disk_once_the_logs_are_open(
    one_by_one: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_manager, "_SYNCED_ONE_BY_ONE", one_by_one)
    filesystem = disk()
    end = filled(filesystem).logs[FLIGHTS].log_end_offset
    restarted(filesystem)
    for seed in range(5):
        filesystem.crash_power(Random(seed))
        log = manager(filesystem).logs[FLIGHTS]
        assert log.log_end_offset == end
        check(log)


def test_logs_that_are_made_together_are_there_after_a_loss_of_power() -> None:
    filesystem = disk()
    found = manager(filesystem)
    found.create_all([TopicIdPartition(FIRST, "flights", number) for number in range(5)])
    fill(found.logs[FLIGHTS], 5)
    found.logs[FLIGHTS].flush()
    filesystem.crash_power(Random(1))
    again = manager(filesystem)
    assert len(again.logs) == 5 and again.logs[FLIGHTS].topic_id == FIRST
    assert again.logs[FLIGHTS].log_end_offset > 5


@pytest.mark.parametrize("one_by_one", [500, 0])
def test_logs_that_were_closed_in_order_are_on_the_disk_however_many(
    one_by_one: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_manager, "_SYNCED_ONE_BY_ONE", one_by_one)
    filesystem = disk()
    found = manager(filesystem)
    found.create_all([TopicIdPartition(FIRST, "flights", number) for number in range(5)])
    for number, log in enumerate(found.logs.values()):
        fill(log, 20 * number, leader_epoch=number)
    ends = {key: log.log_end_offset for key, log in found.logs.items()}
    found.close(broker_epoch=15)
    before = filesystem.operations
    for seed in range(5):
        filesystem.crash_power(Random(seed))
        again = manager(filesystem)
        assert again.previous_broker_epoch == 15 and not again.lost_bytes
        assert {key: log.log_end_offset for key, log in again.logs.items()} == ends
        for log in again.logs.values():
            assert log.producer_state.snapshot_offsets()[-1:] == [log.log_end_offset][: log.log_end_offset]
            check(log)
        again.close(broker_epoch=15)
    assert filesystem.operations - before < 5 * 30, "what has not changed is not written again"


def test_of_many_logs_each_is_not_synced_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_manager, "_SYNCED_ONE_BY_ONE", 4)
    filesystem = disk()
    found = manager(filesystem, config_for=lambda topic: settings())
    found.create_all([TopicIdPartition(FIRST, "flights", number) for number in range(5)])
    for log in found.logs.values():
        fill(log, 3)
    synced: list[str] = []
    sync = MemoryFile.sync
    monkeypatch.setattr(MemoryFile, "sync", lambda file: synced.append(file.path) or sync(file))
    found.close(broker_epoch=15)
    assert synced == []
