"""What a log remembers of its producers: the sequence rules, epochs, markers, and the snapshot's bytes."""

from __future__ import annotations

import pytest

from pykraft.common.errors import CorruptRecordError, ErrorCode, KafkaError
from pykraft.records.batch import RecordBatch
from pykraft.sim.world.disk import MemoryFileSystem
from pykraft.storage.producer_state import (
    AppendOrigin,
    BatchMetadata,
    ProducerEntry,
    ProducerStateManager,
    decode_snapshot,
)
from pykraft.storage.verification_state import AppendCheck
from tests.harness.storage import NEVER_MS, NOW_MS, at, marker, open_log, produced

CLIENT, COORDINATOR, REPLICATION = AppendOrigin.CLIENT, AppendOrigin.COORDINATOR, AppendOrigin.REPLICATION
TOP = 0x7FFFFFFF


def manager(filesystem: MemoryFileSystem | None = None, expiration_ms: int = NEVER_MS) -> ProducerStateManager:
    filesystem = filesystem or MemoryFileSystem()
    filesystem.make_directory("/d")
    return ProducerStateManager(filesystem, "/d", expiration_ms)


def put(state: ProducerStateManager, some: RecordBatch, origin: AppendOrigin = CLIENT) -> None:
    """Append a batch where the state ends."""
    at(state.map_end_offset, some)
    state.apply(state.plan([some], origin), some.next_offset)


def answer(state: ProducerStateManager, some: RecordBatch, origin: AppendOrigin = CLIENT) -> ErrorCode:
    """What an append of the batch is answered; the state stays as it is."""
    before = dict(state.producers)
    try:
        at(state.map_end_offset, some)
        if origin is CLIENT and state.duplicate_of(some):
            return ErrorCode.DUPLICATE_SEQUENCE_NUMBER
        state.plan([some], origin)
    except KafkaError as error:
        return error.code
    finally:
        assert state.producers == before
    return ErrorCode.NONE


OK, GAP, DUPLICATE = ErrorCode.NONE, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.DUPLICATE_SEQUENCE_NUMBER
FENCED = ErrorCode.INVALID_PRODUCER_EPOCH


@pytest.mark.parametrize(
    ("history", "epoch", "sequence", "count", "code"),
    [
        # a producer that the log does not know may begin anywhere
        ([], 0, 0, 3, OK),
        ([], 0, 700, 3, OK),
        ([], 9, 0, 3, OK),
        # the next sequence number, and no other
        ([(0, 0, 3)], 0, 3, 1, OK),
        ([(0, 0, 3)], 0, 4, 1, GAP),
        ([(0, 0, 3)], 0, 2, 1, GAP),
        ([(0, 0, 3)], 0, 0, 2, GAP),
        ([(0, 0, 3)], 0, 1, 2, GAP),
        ([(0, 0, 3)], 0, 0, 4, GAP),
        # a repeated batch is the same one: first and last sequence number
        ([(0, 0, 3)], 0, 0, 3, DUPLICATE),
        ([(0, n, 1) for n in range(5)], 0, 0, 1, DUPLICATE),
        ([(0, n, 1) for n in range(5)], 0, 4, 1, DUPLICATE),
        ([(0, n, 1) for n in range(6)], 0, 1, 1, DUPLICATE),
        ([(0, n, 1) for n in range(6)], 0, 0, 1, GAP),
        # numbers wrap to zero
        ([(0, TOP - 1, 2)], 0, 0, 1, OK),
        ([(0, TOP - 1, 2)], 0, TOP, 1, GAP),
        ([(0, TOP - 1, 4)], 0, 2, 1, OK),
        ([(0, TOP - 1, 4)], 0, TOP - 1, 4, DUPLICATE),
        ([(0, TOP, 1)], 0, 1, 1, GAP),
        # a new epoch begins at zero, an old one is fenced
        ([(0, 0, 3)], 1, 0, 1, OK),
        ([(0, 0, 3)], 1, 3, 1, GAP),
        ([(0, 0, 3), (1, 0, 2)], 1, 2, 1, OK),
        ([(0, 0, 3), (1, 0, 3)], 1, 0, 3, DUPLICATE),
        ([(0, 0, 1), (0, 1, 1), (1, 0, 1)], 1, 1, 1, OK),  # what has this number is of the epoch before
        ([(0, 0, 3), (1, 0, 2)], 0, 3, 1, FENCED),
        ([(0, 0, 3), (1, 0, 2)], 0, 0, 3, FENCED),
    ],
)
def test_a_sequence_number_follows_the_last_one(
    history: list[tuple[int, int, int]], epoch: int, sequence: int, count: int, code: ErrorCode
) -> None:
    state = manager()
    for past_epoch, past_sequence, past_count in history:
        put(state, produced(7, past_sequence, past_count, epoch=past_epoch))
    assert answer(state, produced(7, sequence, count, epoch=epoch)) is code


def test_producers_do_not_see_each_other() -> None:
    state = manager()
    put(state, produced(7, 0, 3))
    assert answer(state, produced(8, 0, 3)) is OK


def test_a_repeated_batch_is_told_where_it_had_gone() -> None:
    state = manager()
    put(state, produced(1, 0, 10))
    put(state, produced(7, 0, 3, timestamp=500))
    put(state, produced(7, 3, 2))
    known = state.duplicate_of(produced(7, 0, 3))
    assert known == BatchMetadata(last_sequence=2, last_offset=12, offset_delta=2, timestamp=502)
    assert (known.first_offset, known.first_sequence) == (10, 0)
    assert state.duplicate_of(produced(7, 0, 2)) is None
    assert state.duplicate_of(produced(7, 0, 3, epoch=1)) is None


def test_five_batches_are_kept() -> None:
    state = manager()
    for sequence in range(8):
        put(state, produced(7, sequence))
    assert [kept.last_sequence for kept in state.producers[7].batches] == [3, 4, 5, 6, 7]


@pytest.mark.parametrize(
    ("origin", "epoch", "sequence", "code"),
    [
        (COORDINATOR, 1, 99, OK),
        (COORDINATOR, 0, 0, FENCED),
        (REPLICATION, 1, 99, OK),
        (REPLICATION, 0, 99, OK),
        (AppendOrigin.RAFT_LEADER, 1, 99, OK),
    ],
)
def test_who_appends_decides_how_much_is_checked(
    origin: AppendOrigin, epoch: int, sequence: int, code: ErrorCode
) -> None:
    state = manager()
    put(state, produced(7, 0, epoch=1))
    assert answer(state, produced(7, sequence, epoch=epoch), origin) is code


def test_several_batches_are_checked_one_after_the_other() -> None:
    state = manager()
    chunk = [at(0, produced(7, 0, 2)), at(2, produced(7, 2, 1)), at(3, produced(8, 5, 1))]
    update = state.plan(chunk, CLIENT)
    assert state.producers == {} and sorted(update.entries) == [7, 8]
    assert update.entries[7].last_sequence == 2
    with pytest.raises(KafkaError) as refused:
        state.plan([at(0, produced(7, 0, 2)), at(2, produced(7, 3, 1))], CLIENT)
    assert refused.value.code is GAP


# --- transactions -----------------------------------------------------------------------------------------------------


def test_the_oldest_open_transaction_holds_back_readers_of_committed_data() -> None:
    state = manager()
    put(state, produced(1, 0, 2))
    assert state.first_unstable_offset is None
    put(state, produced(7, 0, 2, transactional=True))
    put(state, produced(8, 0, 2, transactional=True))
    put(state, produced(7, 2, 2, transactional=True))
    assert state.first_unstable_offset == 2
    put(state, marker(7, committed=True), COORDINATOR)
    assert state.first_unstable_offset == 2, "the marker may still be lost"
    state.on_high_watermark(8)
    assert state.first_unstable_offset == 2
    state.on_high_watermark(9)
    assert state.first_unstable_offset == 4
    put(state, marker(8, committed=False), COORDINATOR)
    state.on_high_watermark(10)
    assert state.first_unstable_offset is None


def test_a_marker_tells_what_it_ends() -> None:
    state = manager()
    put(state, produced(7, 0, 2, transactional=True))
    put(state, produced(8, 0, 2, transactional=True))
    update = state.plan([at(4, marker(7, committed=False))], COORDINATOR)
    (completed,) = update.completed
    assert completed._asdict() == {
        "producer_id": 7,
        "first_offset": 0,
        "last_offset": 4,
        "aborted": True,
        "last_stable_offset": 2,
    }
    assert state.plan([at(4, marker(9, committed=False))], COORDINATOR).completed == []


def test_transactions_that_end_in_one_append_end_one_after_the_other() -> None:
    """A follower gets both markers at once: the first is as stable as it was on the leader, and no more."""
    state = manager()
    chunk = [
        at(0, produced(7, 0, 1, transactional=True)),
        at(1, produced(8, 0, 1, transactional=True)),
        at(2, marker(7, committed=False)),
        at(3, produced(7, 1, 1, transactional=True)),
        at(4, marker(8, committed=False)),
        at(5, marker(7, committed=True)),
    ]
    completed = state.plan(chunk, REPLICATION).completed
    one_by_one = []
    for some in chunk:
        one_by_one += state.replay(some)
    assert [each.last_stable_offset for each in completed] == [1, 3, 6]
    assert completed == one_by_one


def test_within_a_transaction_every_batch_is_transactional() -> None:
    state = manager()
    put(state, produced(7, 0, transactional=True))
    assert answer(state, produced(7, 1)) is ErrorCode.INVALID_TXN_STATE
    assert answer(state, produced(7, 1, transactional=True)) is OK
    put(state, marker(7, committed=True), COORDINATOR)
    assert answer(state, produced(7, 1)) is OK


def test_what_its_leader_has_taken_ends_a_transaction_that_the_leader_had_forgotten() -> None:
    state = manager()
    replayed = [at(0, produced(7, 0, transactional=True)), at(1, produced(7, 1)), at(2, produced(8, 0))]
    update = state.plan(replayed, REPLICATION)
    state.apply(update, 3)
    assert state.first_unstable_offset is None and update.completed == []
    ended = [at(3, produced(8, 1, transactional=True)), at(4, marker(8, committed=True))]
    assert [each.last_stable_offset for each in state.plan(ended, REPLICATION).completed] == [5]


@pytest.mark.parametrize(
    ("epoch", "coordinator_epoch", "origin", "code"),
    [
        (1, 5, COORDINATOR, OK),
        (1, 6, COORDINATOR, OK),
        (2, 5, COORDINATOR, OK),
        (0, 5, COORDINATOR, FENCED),
        (1, 4, COORDINATOR, ErrorCode.TRANSACTION_COORDINATOR_FENCED),
        (0, 4, REPLICATION, OK),
    ],
)
def test_a_marker_is_fenced_by_both_epochs(
    epoch: int, coordinator_epoch: int, origin: AppendOrigin, code: ErrorCode
) -> None:
    state = manager()
    put(state, marker(7, committed=True, epoch=1, coordinator_epoch=5), COORDINATOR)
    some = marker(7, committed=True, epoch=epoch, coordinator_epoch=coordinator_epoch)
    assert answer(state, some, origin) is code


def test_a_marker_keeps_the_sequence_and_one_with_a_new_epoch_fences_it() -> None:
    state = manager()
    put(state, produced(7, 0, 3, transactional=True))
    put(state, marker(7, committed=True), COORDINATOR)
    assert answer(state, produced(7, 3, 1)) is OK and answer(state, produced(7, 0, 3)) is DUPLICATE
    put(state, marker(7, committed=False, epoch=1), COORDINATOR)
    assert state.producers[7].batches == ()
    assert answer(state, produced(7, 3, 1)) is FENCED
    assert answer(state, produced(7, 3, 1, epoch=1)) is GAP
    assert answer(state, produced(7, 0, 1, epoch=1)) is OK


def test_a_control_batch_without_its_marker_changes_nothing() -> None:
    """Cleaning leaves such batches."""
    state = manager()
    emptied = marker(7, committed=True)
    emptied.count = 0
    put(state, emptied, REPLICATION)
    assert state.producers == {} and state.map_end_offset == 1


def test_silent_producers_are_forgotten_but_not_with_an_open_transaction() -> None:
    state = manager(expiration_ms=100)
    put(state, produced(1, 0, timestamp=1000))
    put(state, produced(2, 0, timestamp=1001))
    put(state, produced(3, 0, timestamp=1000, transactional=True))
    state.remove_expired(now_ms=1100)
    assert sorted(state.producers) == [2, 3]


# --- snapshots --------------------------------------------------------------------------------------------------------


def test_a_verification_that_no_append_came_for_is_forgotten() -> None:
    state = manager(expiration_ms=1000)
    first = state.start_verification(7, 0, 0, False, NOW_MS)
    assert state.start_verification(7, 1, 0, False, NOW_MS + 500) is first, "there is one for each producer"
    state.remove_expired(NOW_MS + 999)
    assert state.verifications.of(7) is first
    state.remove_expired(NOW_MS + 1000)
    assert state.verifications.of(7) is None
    assert state.start_verification(7, 1, 0, False, NOW_MS + 1000) is not first


def test_a_follower_takes_every_marker_and_batch_that_its_leader_took() -> None:
    """The transaction's version is not in the log, nor what was verified."""
    log = open_log()
    assert log.append_as_follower(at(0, produced(7, 0, transactional=True)).buffer) == 1
    assert log.append_as_follower(at(1, marker(7, True)).buffer) == 1
    assert log.producer_state.first_unstable_offset == 0, "its marker may still be lost"
    log.update_high_watermark(2)
    assert log.producer_state.first_unstable_offset is None


def test_what_a_follower_is_sent_ends_a_verification_of_the_time_when_it_led() -> None:
    log = open_log()
    verification = log.start_verification(7, 0, 0, False)
    log.append_as_follower(at(0, produced(7, 0, transactional=True)).buffer)
    log.append_as_follower(at(1, marker(7, False)).buffer)
    late = AppendCheck(verification, needs_verification=True)
    with pytest.raises(KafkaError) as caught:
        log.append_as_leader(produced(7, 1, transactional=True), 0, check=late)
    assert caught.value.code is ErrorCode.INVALID_TXN_STATE


def test_a_log_that_begins_again_elsewhere_has_skipped_the_markers_that_end_verifications() -> None:
    log = open_log()
    log.append_as_follower(at(0, produced(8, 0)).buffer)
    verification = log.start_verification(7, 0, 0, False)
    log.truncate_to(0)
    assert log.producer_state.verifications.of(7) is verification, "a batch that was cut off comes again"
    log.truncate_fully(100)
    assert log.producer_state.verifications.of(7) is None


def test_a_snapshot_is_these_bytes() -> None:
    filesystem = MemoryFileSystem()
    state = manager(filesystem)
    put(state, produced(9, 0, 3, epoch=2, timestamp=1000, transactional=True))
    put(state, marker(4, committed=True, epoch=1, coordinator_epoch=6, timestamp=2000), COORDINATOR)
    state.take_snapshot()
    entries = (
        "0000000000000004 0001 ffffffff ffffffffffffffff 00000000 00000000000007d0 00000006 ffffffffffffffff"
        "0000000000000009 0002 00000002 0000000000000002 00000002 00000000000003ea ffffffff 0000000000000000"
    ).replace(" ", "")
    written = filesystem.read("/d/00000000000000000004.snapshot").hex()
    assert written[:4] == "0001" and written[12:20] == "00000002" and written[20:] == entries
    assert decode_snapshot(bytes.fromhex(written)) == [
        ProducerEntry(4, 1, (), 6, 2000, None),
        ProducerEntry(9, 2, (BatchMetadata(2, 2, 2, 1002),), -1, 1002, 0),
    ]


def test_a_snapshot_of_nobody_has_10_bytes_and_is_taken_once() -> None:
    filesystem = MemoryFileSystem()
    state = manager(filesystem)
    state.take_snapshot()
    assert filesystem.list("/d") == [], "of an empty log there is none"
    state.map_end_offset = 14
    state.take_snapshot()
    before = filesystem.operations
    state.take_snapshot()
    assert filesystem.operations == before
    assert filesystem.size("/d/00000000000000000014.snapshot") == 10


@pytest.mark.parametrize("position", range(56))
def test_every_byte_of_a_snapshot_is_guarded(position: int) -> None:
    filesystem = MemoryFileSystem()
    state = manager(filesystem)
    put(state, produced(9, 0))
    state.take_snapshot()
    data = bytearray(filesystem.read("/d/00000000000000000001.snapshot"))
    data[position] ^= 1
    with pytest.raises(CorruptRecordError):
        decode_snapshot(bytes(data))


@pytest.mark.parametrize("size", [0, 9, 10, 11, 55, 57])
def test_a_snapshot_of_a_wrong_size_is_refused(size: int) -> None:
    filesystem = MemoryFileSystem()
    state = manager(filesystem)
    put(state, produced(9, 0))
    state.take_snapshot()
    data = (filesystem.read("/d/00000000000000000001.snapshot") + b"\x00" * 9)[:size]
    with pytest.raises(CorruptRecordError):
        decode_snapshot(data)


def with_snapshots(*offsets: int) -> tuple[MemoryFileSystem, ProducerStateManager]:
    """A state with a producer per offset, and a snapshot at each of these."""
    filesystem = MemoryFileSystem()
    state = manager(filesystem)
    for offset in range(max(offsets)):
        put(state, produced(offset, 0, timestamp=NOW_MS))
        if offset + 1 in offsets:
            state.take_snapshot()
    return filesystem, state


@pytest.mark.parametrize(
    ("start", "end", "kept", "loaded"),
    [
        (0, 30, [10, 20, 30], 30),
        (0, 29, [10, 20], 20),
        (0, 20, [10, 20], 20),
        (0, 9, [], 0),
        (10, 25, [20], 20),
        (20, 25, [], 20),
    ],
)
def test_a_log_that_was_cut_goes_back_to_the_newest_snapshot_within_it(
    start: int, end: int, kept: list[int], loaded: int
) -> None:
    filesystem, state = with_snapshots(10, 20, 30)
    state.map_end_offset = 31
    state.truncate_and_reload(start, end, NOW_MS)
    assert state.snapshot_offsets() == kept
    assert state.map_end_offset == loaded
    assert sorted(state.producers) == (list(range(loaded)) if loaded in kept else [])
    assert manager(filesystem).snapshot_offsets() == kept


def test_a_log_that_was_not_cut_keeps_its_state() -> None:
    _, state = with_snapshots(10)
    put(state, produced(99, 0))
    state.truncate_and_reload(0, 11, NOW_MS)
    assert 99 in state.producers


def test_a_damaged_snapshot_is_removed_and_the_one_before_it_is_used() -> None:
    filesystem, _ = with_snapshots(10, 20)
    filesystem.write("/d/00000000000000000020.snapshot", b"torn")
    state = manager(filesystem)
    state.load_newest(0, 99, NOW_MS)
    assert (state.map_end_offset, state.snapshot_offsets()) == (10, [10])
    filesystem.write("/d/00000000000000000010.snapshot", b"")
    state.load_newest(0, 99, NOW_MS)
    assert (state.map_end_offset, state.snapshot_offsets(), state.producers) == (0, [], {})


def test_removed_snapshots_do_not_come_back_after_a_loss_of_power() -> None:
    filesystem, state = with_snapshots(10, 20)
    state.map_end_offset = 21
    state.truncate_and_reload(0, 15, NOW_MS)
    assert filesystem._root.entries["d"].unsynced == []  # type: ignore[union-attr]


def test_a_loaded_snapshot_leaves_out_who_expired() -> None:
    filesystem, _ = with_snapshots(2)
    state = manager(filesystem, expiration_ms=10)
    state.load_newest(0, 99, NOW_MS + 10)
    assert state.producers == {}
    state.load_newest(0, 99, NOW_MS + 9)
    assert sorted(state.producers) == [0, 1]


def test_a_reloaded_state_knows_open_transactions_and_the_last_batch() -> None:
    filesystem = MemoryFileSystem()
    state = manager(filesystem)
    put(state, produced(7, 0, 2, transactional=True))
    put(state, produced(7, 2, 2, transactional=True))
    state.take_snapshot()
    again = manager(filesystem)
    again.load_newest(0, 99, NOW_MS)
    assert again.first_unstable_offset == 0
    assert answer(again, produced(7, 2, 2, transactional=True)) is DUPLICATE
    assert answer(again, produced(7, 4, 1, transactional=True)) is OK


def test_a_reloaded_state_knows_the_first_batch_of_all() -> None:
    filesystem = MemoryFileSystem()
    state = manager(filesystem)
    put(state, produced(7, 0))
    state.take_snapshot()
    again = manager(filesystem)
    again.load_newest(0, 99, NOW_MS)
    assert answer(again, produced(7, 0)) is DUPLICATE


def test_strays_of_orderly_stops_are_removed_but_not_the_newest() -> None:
    _, state = with_snapshots(10, 15, 20, 25)
    state.remove_strays({0, 10, 20})
    assert state.snapshot_offsets() == [10, 20, 25]


def test_dropping_everything_drops_the_snapshots() -> None:
    _, state = with_snapshots(10, 20)
    state.truncate_fully(100)
    assert (state.snapshot_offsets(), state.map_end_offset, state.producers) == ([], 100, {})
    assert state.first_unstable_offset is None


def test_files_that_are_no_snapshots_are_left_alone() -> None:
    filesystem, _ = with_snapshots(10)
    filesystem.write("/d/notes.snapshot", b"")
    state = manager(filesystem)
    state.truncate_fully(0)
    assert filesystem.list("/d") == ["notes.snapshot"]
