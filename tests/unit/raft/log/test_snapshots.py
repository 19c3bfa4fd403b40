"""Snapshots of the metadata log: the log's start moves on to them, and a replica that is behind it copies one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pykraft.common.errors import ErrorCode
from pykraft.common.types import OffsetAndEpoch, ReplicaKey
from pykraft.protocol.messages.quorum import FetchSnapshotRequest, FetchSnapshotResponse
from pykraft.raft import wire
from pykraft.raft.log.replicated_log import Verdict
from pykraft.raft.log.snapshot import BOOTSTRAP_SNAPSHOT, snapshot_name
from tests.harness.quorum import CLUSTER_ID, FOLDER, Quorum, key, open_metadata_log

PIECE = {"internal_metadata_max_fetch_size_in_bytes": 100}
"""Makes a snapshot come in several pieces."""


def quorum_with_snapshots(count: int = 20, **settings: Any) -> Quorum:
    """Three voters whose logs all begin at a snapshot with `count` levels, and go on for one record."""
    quorum = Quorum(**settings)
    quorum.elect()
    for number in range(count):
        quorum.append(number)
        quorum.elect()
    for node in quorum.voters:
        quorum.snapshot(node)
        assert quorum.clean(node)
    quorum.append(count)
    quorum.elect()
    return quorum


def names(quorum: Quorum, node: int) -> list[str]:
    found: list[str] = quorum.disks[node].list(FOLDER)
    return [name for name in found if "checkpoint" in name and name != "leader-epoch-checkpoint"]


# --- the log's start --------------------------------------------------------------------------------------------------


def test_the_log_begins_at_the_snapshot_when_older_ones_go_and_its_records_are_not_read_again() -> None:
    quorum = quorum_with_snapshots()
    for node in quorum.voters:
        log = quorum.rafts[node].replica.log
        newest = log.newest_snapshot
        assert newest is not None and newest.offset == log.start_offset > 0
        assert names(quorum, node) == [snapshot_name(newest)]
    quorum.kill(1)
    quorum.start(1)
    quorum.elect()
    assert quorum.heard[1].levels == list(range(21))
    assert quorum.heard[1].snapshots[-1].offset > 0


@pytest.mark.costly
@pytest.mark.parametrize(
    ("bytes_kept", "ms_kept", "goes"),
    [(0, -1, True), (1 << 20, -1, False), (-1, -1, False), (-1, 0, True), (-1, 1 << 42, False)],
)
def test_what_goes_is_more_or_older_than_is_kept(bytes_kept: int, ms_kept: int, goes: bool) -> None:
    quorum = Quorum()
    quorum.elect()
    quorum.append(1)
    quorum.elect()
    quorum.snapshot(1)
    log, time_ms = quorum.rafts[1].replica.log, quorum.rafts[1].replica.clock.time_ms()
    assert log.clean(now_ms=time_ms + 9, retention_bytes=bytes_kept, retention_ms=ms_kept) is goes
    assert (log.start_offset > 0) is goes


def test_the_newest_snapshot_stays_whatever_is_kept() -> None:
    quorum = quorum_with_snapshots()
    log = quorum.rafts[1].replica.log
    assert not log.clean(now_ms=1 << 40, retention_bytes=0, retention_ms=0)
    assert log.newest_snapshot is not None


# --- copying one ------------------------------------------------------------------------------------------------------


@pytest.mark.costly
@pytest.mark.parametrize("settings", [{}, PIECE], ids=["at once", "in pieces"])
@pytest.mark.parametrize("how", ["a new disk", "behind"])
def test_a_replica_that_is_behind_the_start_copies_a_snapshot_and_goes_on_from_there(
    how: str, settings: dict[str, int]
) -> None:
    quorum = Quorum(observers=(9,), **settings)
    quorum.elect()
    if how == "behind":
        quorum.append(0)
        quorum.elect()
    quorum.kill(9)
    first = 1 if how == "behind" else 0
    for number in range(first, 20):
        quorum.append(number)
        quorum.elect()
    for node in quorum.voters:
        quorum.snapshot(node)
        assert quorum.clean(node)
    if how == "a new disk":
        quorum.disks[9].remove(FOLDER)
        quorum.disks[9].make_directory(FOLDER)
    quorum.start(9)
    quorum.elect()
    quorum.append(20)
    quorum.elect()
    asked = [
        request for sender, _, request in quorum.asked if sender == 9 and isinstance(request, FetchSnapshotRequest)
    ]
    assert len(asked) > 3 if settings else len(asked) == 1
    assert quorum.heard[9].levels == list(range(21))
    assert quorum.rafts[9].replica.log.start_offset == quorum.rafts[quorum.leader].replica.log.start_offset
    assert not [name for name in names(quorum, 9) if name.endswith(".part")]
    assert quorum.rafts[9].replica.control_records.voters == quorum.rafts[1].replica.control_records.voters


def test_a_voter_that_copied_a_snapshot_can_be_elected_and_leads_on() -> None:
    quorum = Quorum()
    leader = quorum.elect()
    lost, other = (node for node in quorum.voters if node != leader)
    quorum.kill(lost)
    for number in range(5):
        quorum.append(number)
        quorum.run(200)
    for node in (leader, other):
        quorum.snapshot(node)
        quorum.clean(node)
    quorum.start(lost)
    quorum.elect()
    quorum.kill(leader)
    quorum.kill(other)
    quorum.start(other)
    quorum.elect()
    quorum.append(5)
    quorum.elect()
    assert quorum.heard[lost].levels == [0, 1, 2, 3, 4, 5]


def crash_before(quorum: Quorum, node: int, step: str) -> None:
    """Let `node` die while it copies a snapshot, when it is about to take this step."""

    class DiedError(Exception):
        pass

    disk = quorum.disks[node]
    original = getattr(disk, step)

    def dies(path: str, *others: Any) -> Any:
        if ("checkpoint" in path and "0000000000" in path) or step == "sync_directory":
            fetch = quorum.rafts[node].replica.snapshot_fetch
            if step == "remove" or fetch is None:
                raise DiedError
        return original(path, *others)

    setattr(disk, step, dies)
    with pytest.raises(DiedError):
        quorum.run(5_000)
    delattr(disk, step)


@pytest.mark.costly
@pytest.mark.parametrize("power", [False, True], ids=["killed", "power lost"])
@pytest.mark.parametrize("step", ["rename", "sync_directory"])
def test_a_crash_while_a_snapshot_is_put_in_place_leaves_the_old_log_or_the_new_one(step: str, power: bool) -> None:
    quorum = Quorum(observers=(9,))
    quorum.elect()
    quorum.append(0)
    quorum.elect()
    quorum.kill(9)
    for number in range(1, 6):
        quorum.append(number)
        quorum.elect()
    for node in quorum.voters:
        quorum.snapshot(node)
        quorum.clean(node)
    quorum.start(9)
    crash_before(quorum, 9, step)
    quorum.kill(9, power=power)
    quorum.start(9)
    quorum.elect()
    assert quorum.heard[9].levels == list(range(6))


def test_a_log_that_ends_before_its_newest_snapshot_begins_anew_there() -> None:
    """The crash came between the snapshot and the truncation."""
    quorum = quorum_with_snapshots()
    newest = quorum.rafts[1].replica.log.newest_snapshot
    assert newest is not None
    data = quorum.disks[1].read(f"{FOLDER}/{snapshot_name(newest)}")
    old = Quorum()
    old.elect()
    disk = old.disks[1]
    old.kill(1)
    disk.write(f"{FOLDER}/{snapshot_name(newest)}", data)
    disk.write(f"{FOLDER}/{newest.offset + 9:020d}-{newest.epoch:010d}.checkpoint.part", b"half a file")
    log = open_metadata_log(disk)
    assert (log.start_offset, log.end) == (newest.offset, newest)
    assert sorted(name for name in disk.list(FOLDER) if "checkpoint" in name) == sorted(
        [snapshot_name(newest), "leader-epoch-checkpoint"]
    )


def test_a_snapshot_that_a_crash_left_before_the_logs_start_does_not_hold_the_start_back() -> None:
    """The crash came after the log began again at a snapshot, and before the older snapshots went."""
    quorum = quorum_with_snapshots()
    log, disk = quorum.rafts[1].replica.log, quorum.disks[1]
    newest = log.newest_snapshot
    assert newest is not None
    log.begin_at(newest)
    older = newest._replace(offset=newest.offset - 1)
    disk.write(f"{FOLDER}/{snapshot_name(older)}", b"any")
    quorum.kill(1)
    assert names(quorum, 1) == [snapshot_name(older), snapshot_name(newest)]
    quorum.start(1)
    assert names(quorum, 1) == [snapshot_name(newest)]
    quorum.elect()
    quorum.append(20)
    quorum.elect()
    later = quorum.snapshot(1)
    assert quorum.clean(1) and names(quorum, 1) == [snapshot_name(later)]


def test_a_snapshot_that_is_written_while_a_later_one_is_copied_does_not_hold_the_start_back() -> None:
    """It was begun before the log began again, and was on the disk only afterwards."""
    quorum = quorum_with_snapshots()
    replica, disk = quorum.rafts[1].replica, quorum.disks[1]
    newest = replica.log.newest_snapshot
    assert newest is not None
    late = newest._replace(offset=newest.offset - 1)
    disk.write(f"{FOLDER}/{snapshot_name(late)}", b"any")
    replica.snapshot_written(late)
    assert names(quorum, 1) == [snapshot_name(newest)]
    later = quorum.snapshot(1)
    assert quorum.clean(1) and names(quorum, 1) == [snapshot_name(later)]


# --- what a leader answers --------------------------------------------------------------------------------------------


def fetch_snapshot(quorum: Quorum, snapshot: OffsetAndEpoch, position: int = 0, **fields: Any) -> FetchSnapshotResponse:
    raft = quorum.rafts[quorum.leader]
    replica = ReplicaKey(9, key(9).directory_id)
    request = wire.snapshot_request(CLUSTER_ID, replica, raft.replica.epoch, snapshot, position, 1 << 20)
    partition = request.topics[0].partitions[0]
    for name, value in fields.items():
        setattr(request if hasattr(request, name) else partition, name, value)
    return raft.service.fetch_snapshot(request, quorum.now)


def test_a_snapshot_comes_in_pieces_of_the_size_asked_for() -> None:
    quorum = quorum_with_snapshots()
    log = quorum.rafts[quorum.leader].replica.log
    assert log.newest_snapshot is not None
    data, position = b"", 0
    while True:
        answer = fetch_snapshot(quorum, log.newest_snapshot, position, max_bytes=77).topics[0].partitions[0]
        piece = bytes(answer.unaligned_records)
        assert (answer.error_code, answer.position) == (0, position) and 0 < len(piece) <= 77
        data += piece
        position += len(piece)
        if position == answer.size:
            break
    assert data == quorum.disks[quorum.leader].read(log.snapshots.path(log.newest_snapshot))


@pytest.mark.costly
@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"current_leader_epoch": 0}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"current_leader_epoch": 99}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"position": -1}, ErrorCode.POSITION_OUT_OF_RANGE),
        ({"position": 1 << 40}, ErrorCode.POSITION_OUT_OF_RANGE),
    ],
)
def test_what_cannot_be_read_has_its_error(fields: dict[str, Any], error: ErrorCode) -> None:
    quorum = quorum_with_snapshots()
    newest = quorum.rafts[quorum.leader].replica.log.newest_snapshot
    assert newest is not None
    assert fetch_snapshot(quorum, newest, **fields).topics[0].partitions[0].error_code == error


@pytest.mark.costly
@pytest.mark.parametrize("snapshot", [BOOTSTRAP_SNAPSHOT, OffsetAndEpoch(3, 1), OffsetAndEpoch(-1, -1)])
def test_a_snapshot_that_is_not_there_is_not_found(snapshot: OffsetAndEpoch) -> None:
    answer = fetch_snapshot(quorum_with_snapshots(), snapshot).topics[0].partitions[0]
    assert answer.error_code == ErrorCode.SNAPSHOT_NOT_FOUND


@pytest.mark.costly
@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"cluster_id": "another"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"max_bytes": 0}, ErrorCode.INVALID_REQUEST),
        ({"topics": []}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_request_that_makes_no_sense_is_refused_as_a_whole(fields: dict[str, Any], error: ErrorCode) -> None:
    assert fetch_snapshot(quorum_with_snapshots(), OffsetAndEpoch(3, 1), **fields).error_code == error


# --- what a follower believes -----------------------------------------------------------------------------------------


def longer(answer: Any) -> None:
    answer.size = len(answer.unaligned_records) - 1


def empty(answer: Any) -> None:
    answer.unaligned_records = b""


def of_another(answer: Any) -> None:
    answer.snapshot_id.end_offset += 1


def elsewhere(answer: Any) -> None:
    answer.position += 1


def damaged(answer: Any) -> None:
    data = bytearray(answer.unaligned_records)
    data[-5] ^= 1
    answer.unaligned_records = bytes(data)


def cut(answer: Any) -> None:
    answer.unaligned_records = answer.unaligned_records[:-10]
    answer.size -= 10


@pytest.mark.costly
@pytest.mark.parametrize("spoil", [longer, empty, of_another, elsewhere, damaged, cut])
def test_a_spoilt_piece_is_not_taken_and_the_copying_begins_anew(spoil: Callable[[Any], None]) -> None:
    quorum = Quorum(observers=(9,))
    quorum.elect()
    quorum.kill(9)
    for number in range(5):
        quorum.append(number)
        quorum.elect()
    for node in quorum.voters:
        quorum.snapshot(node)
        quorum.clean(node)
    leader = quorum.rafts[quorum.leader].service
    honest, spoilt = leader.fetch_snapshot, []

    def answers(request: FetchSnapshotRequest, now: int) -> FetchSnapshotResponse:
        response = honest(request, now)
        if len(spoilt) < 3:
            spoilt.append(1)
            spoil(response.topics[0].partitions[0])
        return response

    leader.fetch_snapshot = answers  # type: ignore[method-assign]
    quorum.start(9)
    quorum.elect()
    assert len(spoilt) == 3 and quorum.heard[9].levels == list(range(5))


def test_a_snapshot_below_what_is_decided_is_refused() -> None:
    quorum = quorum_with_snapshots()
    replica = next(quorum.rafts[node].replica for node in quorum.voters if node != quorum.leader)
    before = replica.log.end
    assert not replica.begin_snapshot_fetch(OffsetAndEpoch(replica.log.high_watermark - 1, replica.epoch))
    assert not replica.begin_snapshot_fetch(OffsetAndEpoch(replica.log.high_watermark + 9, replica.epoch + 1))
    assert replica.log.end == before and replica.snapshot_fetch is None


# --- prefixes ---------------------------------------------------------------------------------------------------------


def test_a_replica_is_sent_to_a_snapshot_where_the_log_cannot_judge_it() -> None:
    quorum = quorum_with_snapshots()
    log = quorum.rafts[quorum.leader].replica.log
    start, epoch = log.start_offset, log.last_epoch
    assert log.validate(0, 0).verdict is Verdict.SNAPSHOT
    assert log.validate(start - 1, epoch).verdict is Verdict.SNAPSHOT
    assert log.validate(start, epoch - 1).verdict is Verdict.SNAPSHOT
    assert log.validate(start, epoch).verdict is Verdict.VALID
    assert log.validate(start + 1, epoch + 1).verdict is Verdict.DIVERGING
    assert log.validate(start, epoch).place == (start, epoch)
