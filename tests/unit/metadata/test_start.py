"""How much of its metadata log a node reads when it starts: the newest snapshot, and what follows it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from time import process_time

import pytest

from pykraft.common.types import OffsetAndEpoch
from pykraft.metadata.snapshot_generator import snapshot_of_image
from pykraft.protocol.messages.records import NoOpRecord, encode_metadata_record
from pykraft.raft.log.replicated_log import Verdict
from pykraft.raft.log.snapshot import snapshot_name, write_snapshot
from pykraft.records.builder import RecordBatchBuilder
from pykraft.sim.world.disk import MemoryFile, MemoryFileSystem
from pykraft.storage.disk.checkpoint import DamagedFileError
from tests.harness.lone_node import LoneNode

LOG = "/data/__cluster_metadata-0"
IDLE = {"metadata_max_idle_interval_ms": "500", "metadata_log_max_snapshot_interval_ms": "10000"}
MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
MOST_BYTES = 50_000
"""Of snapshots and indexes, and of the log of a few seconds, which four readers read."""


@contextmanager
def counted_reads(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, int]]:
    """How many bytes of each file of the metadata log were read."""
    counts: dict[str, int] = {}
    read_piece, read_file = MemoryFile.read, MemoryFileSystem.read

    def count(path: str, data: bytes) -> bytes:
        if path.startswith(LOG):
            counts[path] = counts.get(path, 0) + len(data)
        return data

    with monkeypatch.context() as patch:
        patch.setattr(MemoryFile, "read", lambda file, at, length: count(file.path, read_piece(file, at, length)))
        patch.setattr(MemoryFileSystem, "read", lambda disk, path: count(path, read_file(disk, path)))
        yield counts


def closed(node: LoneNode) -> None:
    node.node.close()


def killed(node: LoneNode) -> None:
    node.node.abandon()
    node.filesystem.crash_process()


def without_power(node: LoneNode) -> None:
    node.node.abandon()
    node.filesystem.crash_power(Random(1))


@pytest.mark.costly
@pytest.mark.parametrize(
    ("end", "segment_bytes"),
    [(closed, "1073741824"), (killed, "1073741824"), (without_power, "1073741824"), (without_power, "20000")],
)
def test_a_start_reads_the_newest_snapshot_and_what_follows_however_long_the_log_is(
    end: Callable[[LoneNode], None], segment_bytes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {**IDLE, "internal_metadata_log_segment_bytes": segment_bytes}
    node = LoneNode(**settings)
    topic = node.create("t")
    node.run(10 * MINUTE_MS + 5_000)
    log = node.node.raft.replica.log
    size, log_end, epochs = log.unified.size, log.end_offset, list(log.unified.epochs.entries)
    end(node)
    with counted_reads(monkeypatch) as counts:
        again = LoneNode(node.filesystem, **settings)
    assert sum(counts.values()) < MOST_BYTES < size, counts
    log = again.node.raft.replica.log
    assert log.end_offset > log_end
    assert log.unified.epochs.entries[:-1] == epochs, "what is before the snapshot is known all the same"
    assert topic in again.node.loader.image.topics
    place = OffsetAndEpoch(log_end - 900, epochs[-1].epoch)
    assert log.validate(*place) == (Verdict.VALID, place)


@pytest.mark.costly
def test_the_indexes_after_such_a_start_are_those_of_a_log_that_was_read_through() -> None:
    node = LoneNode(**IDLE)
    node.run(3 * MINUTE_MS + 5_000)
    killed(node)
    files = [f"{LOG}/{0:020d}{suffix}" for suffix in (".index", ".timeindex")]
    LoneNode(node.filesystem, **IDLE).node.abandon()
    tail_read = [node.filesystem.read(path) for path in files]
    for path in files:
        node.filesystem.remove(path)
    LoneNode(node.filesystem, **IDLE).node.abandon()
    all_read = [node.filesystem.read(path) for path in files]
    assert [len(data) for data in tail_read] == [len(data) for data in all_read] and tail_read == all_read


def break_epochs(disk: MemoryFileSystem) -> None:
    disk.write(f"{LOG}/leader-epoch-checkpoint", b"0\n0\n")


def break_index(disk: MemoryFileSystem) -> None:
    disk.write(f"{LOG}/{0:020d}.index", Random(1).randbytes(800))


def remove_index(disk: MemoryFileSystem) -> None:
    disk.remove(f"{LOG}/{0:020d}.index")


@pytest.mark.costly
@pytest.mark.parametrize("spoil", [break_epochs, break_index, remove_index])
def test_if_what_leads_to_the_snapshot_is_damaged_the_whole_log_is_read(
    spoil: Callable[[MemoryFileSystem], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    node = LoneNode(**IDLE)
    node.run(3 * MINUTE_MS)
    log = node.node.raft.replica.log
    size, epoch = log.unified.size, log.last_epoch
    killed(node)
    spoil(node.filesystem)
    with counted_reads(monkeypatch) as counts:
        again = LoneNode(node.filesystem, **IDLE)
    assert sum(counts.values()) > size
    assert again.node.raft.replica.log.unified.epochs.entries[0] == (epoch, 0)


def test_the_log_is_on_the_disk_before_its_snapshot_is() -> None:
    """A broker's log is not synced as it grows. Without power it has at least what its snapshot takes for there."""
    node = LoneNode(**IDLE)
    log = node.node.raft.replica.log
    log.unified.flush = log.sync = lambda: None  # type: ignore[method-assign]
    node.run(MINUTE_MS + 5_000)
    newest, path = log.newest_snapshot, f"{LOG}/{0:020d}.log"
    assert newest is not None and newest.offset < log.end_offset
    last = log.unified.segments[0].find(newest.offset - 1)
    assert last is not None and last.end <= node.filesystem.durable_size(path) < log.unified.size


@pytest.mark.costly
def test_a_damaged_newest_snapshot_is_refused_by_name_even_if_an_older_one_is_there() -> None:
    """So does Kafka: the log may not reach back to the older one."""
    node = LoneNode(**IDLE)
    node.run(3 * MINUTE_MS)
    snapshots = node.node.raft.replica.log.snapshots
    newest = snapshots.ids()[-1]
    closed(node)
    path = f"{LOG}/{snapshot_name(newest)}"
    data = bytearray(node.filesystem.read(path))
    data[len(data) // 2] ^= 1
    node.filesystem.remove(path)
    node.filesystem.write(path, bytes(data))
    with pytest.raises(DamagedFileError, match=rf"{snapshot_name(newest)} is damaged: .*checksum"):
        LoneNode(node.filesystem, **IDLE)


# --- thirty days ------------------------------------------------------------------------------------------------------


def idle_for(node: LoneNode, hours: int) -> None:
    """What a quorum without requests leaves in this time: a NoOpRecord each 500 ms, a snapshot each hour, and what is
    too old or too much is deleted. The same code as in a node that runs writes it; its timers are left out."""
    replica, image = node.node.raft.replica, node.node.loader.image
    log, epoch = replica.log, replica.epoch
    value, voters = encode_metadata_record(NoOpRecord(), 0), replica.control_records.voters
    for _ in range(hours):
        for _ in range(HOUR_MS // 500):
            node.clock.now_ms += 500
            builder = RecordBatchBuilder(log.end_offset, leader_epoch=epoch)
            builder.append(node.clock.now_ms, None, value)
            log.append_as_leader(builder.build(), epoch)
        log.update_high_watermark(log.end_offset)
        assert log.sync_before_snapshot()()
        now_ms, snapshot = node.clock.now_ms, OffsetAndEpoch(log.end_offset, epoch)
        data = snapshot_of_image(image, voters, epoch, now_ms, now_ms)
        write_snapshot(log.snapshots.filesystem, log.snapshots.path(snapshot), data)
        log.add_snapshot(snapshot)
        log.clean(now_ms, 100 << 20, 7 * 24 * HOUR_MS)


@pytest.mark.costly
@pytest.mark.parametrize(
    ("end", "days"),
    [
        (without_power, 0.25),
        pytest.param(closed, 30, marks=pytest.mark.long),
        pytest.param(without_power, 30, marks=pytest.mark.long),
    ],
)
@pytest.mark.limit(900)
def test_a_quorum_that_was_idle_for_days_starts_in_less_than_two_seconds(
    end: Callable[[LoneNode], None], days: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = LoneNode()
    topic = node.create("t")
    idle_for(node, int(24 * days))
    log = node.node.raft.replica.log
    assert log.end_offset > days * 172_800 and log.unified.size < 105 << 20
    end(node)
    before = process_time()
    again = LoneNode(node.filesystem)
    assert process_time() - before < 2.0
    again.run(20_000)
    assert topic in again.node.loader.image.topics and again.broker.is_open
    again.node.close()
    with counted_reads(monkeypatch) as counts:
        LoneNode(node.filesystem)
    assert sum(counts.values()) < MOST_BYTES + log.unified.size / 100, "of the log, and of each index three times"
