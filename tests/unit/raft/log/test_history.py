"""One history for all that read the metadata log: its newest snapshot, then the batches that follow."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from pykraft.broker.settings.stored_settings import stored_settings
from pykraft.common.core import finish
from pykraft.common.types import LeaderAndEpoch, OffsetAndEpoch
from pykraft.metadata.image import TOPIC_RESOURCE, MetadataImage
from pykraft.metadata.loader import MetadataLoader
from pykraft.protocol.messages.control import (
    ControlRecord,
    ControlRecordType,
    KRaftVersionRecord,
    LeaderChangeMessage,
    encode_control_record,
)
from pykraft.protocol.messages.records import (
    ConfigRecord,
    FeatureLevelRecord,
    MetadataRecord,
    NoOpRecord,
    PartitionChangeRecord,
    RemoveTopicRecord,
    TopicRecord,
    encode_metadata_record,
)
from pykraft.raft.log.history import HistoryReader, Snapshot, SnapshotFolder
from pykraft.raft.log.listener import CommittedBatch
from pykraft.raft.log.replicated_log import ReplicatedLog
from pykraft.raft.log.snapshot import BOOTSTRAP_SNAPSHOT, encode_snapshot, snapshot_name
from pykraft.raft.log.state_machine import CommitReader, ControlRecords
from pykraft.raft.log.voters import NO_VOTERS, VoterSet
from pykraft.records.batch import RecordBatch, batches
from pykraft.records.builder import RecordBatchBuilder
from pykraft.sim.world.disk import MemoryFileSystem
from pykraft.storage.disk.checkpoint import DamagedFileError
from tests.harness.quorum import FOLDER, fresh_disk, open_metadata_log, replica, voter_set
from tests.unit.metadata.test_image import T, U, partition

EPOCH = 3


def data_batch(offset: int, *records: MetadataRecord) -> bytes:
    builder = RecordBatchBuilder(offset, leader_epoch=EPOCH)
    for record in records:
        builder.append(1, None, encode_metadata_record(record, record.versions[1]))
    return bytes(builder.build())


def control_batch(offset: int, *records: tuple[ControlRecordType, ControlRecord]) -> bytes:
    builder = RecordBatchBuilder(offset, leader_epoch=EPOCH, control=True)
    for kind, record in records:
        builder.append(1, *encode_control_record(kind, record))
    return bytes(builder.build())


def voters_batch(offset: int, *ids: int) -> bytes:
    return control_batch(offset, (ControlRecordType.KRAFT_VOTERS, voter_set(ids).to_record()))


def idle(first: int, count: int) -> bytes:
    """Batches of one record each that changes nothing."""
    return b"".join(data_batch(offset, NoOpRecord()) for offset in range(first, first + count))


def snapshot_bytes(voters: VoterSet = NO_VOTERS, *records: MetadataRecord) -> bytes:
    values = [encode_metadata_record(record, record.versions[1]) for record in records]
    return encode_snapshot(voters, values, epoch=EPOCH, timestamp=1, last_timestamp=1)


def disk_with(start: int, log: bytes, snapshots: dict[int, bytes]) -> MemoryFileSystem:
    """A log that begins at `start`, and snapshots by offset; that of offset 0 is of epoch 0."""
    filesystem = fresh_disk()
    filesystem.write(f"{FOLDER}/{start:020d}.log", log)
    for offset, data in snapshots.items():
        name = snapshot_name(OffsetAndEpoch(offset, EPOCH if offset else 0))
        filesystem.write(f"{FOLDER}/{name}", data)
    return filesystem


def what_is_read(reader: HistoryReader, end_offset: int) -> list[int | OffsetAndEpoch]:
    """The ids of snapshots, and the base offsets of batches."""
    found: list[int | OffsetAndEpoch] = []
    for each in reader.read(end_offset):
        found += [each.id] if isinstance(each, Snapshot) else [batch.base_offset for batch in each]
    return found


# --- the reader -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "snapshots", "read"),
    [
        (0, [], [0, 1, 2, 3, 4]),
        (0, [0], [BOOTSTRAP_SNAPSHOT, 0, 1, 2, 3, 4]),
        (0, [0, 2, 3], [OffsetAndEpoch(3, EPOCH), 3, 4]),
        (2, [2], [OffsetAndEpoch(2, EPOCH), 2, 3, 4]),
        (2, [0, 4], [OffsetAndEpoch(4, EPOCH), 4]),
        (2, [5], [OffsetAndEpoch(5, EPOCH)]),
    ],
)
def test_a_reader_begins_with_the_newest_snapshot_and_goes_on_in_the_log_from_its_offset(
    start: int, snapshots: list[int], read: list[int | OffsetAndEpoch]
) -> None:
    data = dict.fromkeys(snapshots, snapshot_bytes())
    log = open_metadata_log(disk_with(start, idle(start, 5 - start), data))
    reader = HistoryReader(log)
    assert what_is_read(reader, log.end_offset) == read
    assert what_is_read(reader, log.end_offset) == []
    assert reader.next_offset == 5


def test_a_snapshot_is_read_before_a_high_watermark_is_known_and_batches_are_not() -> None:
    reader = HistoryReader(open_metadata_log(disk_with(2, idle(2, 5), {4: snapshot_bytes()})))
    assert what_is_read(reader, 2) == [OffsetAndEpoch(4, EPOCH)]
    assert what_is_read(reader, 4) == []
    assert what_is_read(reader, 6) == [4, 5]


def test_a_reader_that_the_log_has_overtaken_goes_on_with_the_newest_snapshot() -> None:
    filesystem = disk_with(0, idle(0, 10), {0: snapshot_bytes()})
    log = open_metadata_log(filesystem)
    ahead, behind, behind_all = (HistoryReader(log) for _ in range(3))
    what_is_read(ahead, 8)
    what_is_read(behind, 3)
    filesystem.write(f"{FOLDER}/{snapshot_name(OffsetAndEpoch(7, EPOCH))}", snapshot_bytes())
    log.update_high_watermark(10)
    log.unified.increase_log_start(6)
    assert what_is_read(ahead, 10) == [8, 9]
    for reader in (behind, behind_all):
        assert what_is_read(reader, 10) == [OffsetAndEpoch(7, EPOCH), 7, 8, 9]


@pytest.mark.parametrize("snapshots", [[], [0], [0, 6]])
def test_a_log_that_begins_after_its_newest_snapshot_is_damaged(snapshots: list[int]) -> None:
    filesystem = disk_with(7, idle(7, 3), dict.fromkeys(snapshots, snapshot_bytes()))
    complaint = f"the metadata log in {FOLDER} begins at offset 7, and what was before it is in no snapshot"
    with pytest.raises(DamagedFileError, match=re.escape(complaint)):
        open_metadata_log(filesystem)


def test_only_a_whole_file_under_a_snapshots_name_is_one() -> None:
    filesystem = disk_with(0, idle(0, 5), {3: snapshot_bytes()})
    for name in ("4-3.checkpoint", f"{4:020d}-{3:010d}.checkpoint.part", f"{4:020d}-{3:010d} (copy).checkpoint"):
        filesystem.write(f"{FOLDER}/{name}", b"anything")
    log = open_metadata_log(filesystem)
    assert what_is_read(HistoryReader(log), 5) == [OffsetAndEpoch(3, EPOCH), 3, 4]
    newest = f"{FOLDER}/{4:020d}-{3:010d}.checkpoint"
    data = snapshot_bytes(NO_VOTERS, NoOpRecord())
    footer = data[sum(batch.size for batch in list(batches(memoryview(data)))[:-1]) :]
    for damaged in (data[:-1], data + b"\0", b"", footer, data.removesuffix(footer)):
        filesystem.write(newest, damaged)
        with pytest.raises(
            DamagedFileError, match=re.escape(f"{newest} is damaged: it has no footer, ends in a batch")
        ):
            what_is_read(HistoryReader(log), 5)


def test_a_snapshot_with_a_record_of_tomorrow_is_named() -> None:
    data = encode_snapshot(NO_VOTERS, [b"\x01\x63\x07"], epoch=EPOCH, timestamp=1, last_timestamp=1)
    log = open_metadata_log(disk_with(2, idle(2, 1), {2: data}))
    with pytest.raises(DamagedFileError, match=r"0002-0000000003\.checkpoint is damaged: metadata records with key 99"):
        CommitReader(log, MetadataLoader()).deliver(3)


# --- every reader, wherever the log begins ----------------------------------------------------------------------------

LEADER = (ControlRecordType.LEADER_CHANGE, LeaderChangeMessage(leader_id=1, voters=[], granting_voters=[]))
VERSION = (ControlRecordType.KRAFT_VERSION, KRaftVersionRecord(kraft_version=1))


def config(topic: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name=topic, name="retention.ms", value=value)


STEPS: list[bytes] = []
for step in (
    lambda offset: control_batch(offset, LEADER, VERSION, (ControlRecordType.KRAFT_VOTERS, voter_set([1]).to_record())),
    lambda offset: data_batch(offset, FeatureLevelRecord(name="metadata.version", feature_level=29)),
    lambda offset: data_batch(offset, TopicRecord(name="t", topic_id=T), partition(T, 0), partition(T, 1)),
    lambda offset: data_batch(offset, config("t", "7")),
    lambda offset: voters_batch(offset, 1, 2),
    lambda offset: data_batch(offset, PartitionChangeRecord(partition_id=1, topic_id=T, leader=2)),
    lambda offset: data_batch(offset, TopicRecord(name="u", topic_id=U), partition(U, 0), config("u", "8")),
    lambda offset: data_batch(offset, RemoveTopicRecord(topic_id=T)),
    lambda offset: voters_batch(offset, 1, 2, 3),
    lambda offset: data_batch(offset, config("u", "9")),
    lambda offset: control_batch(offset, LEADER),
):
    STEPS.append(step(RecordBatch(memoryview(STEPS[-1])).next_offset if STEPS else 0))
ENDS = [RecordBatch(memoryview(batch)).next_offset for batch in STEPS]


def whole_log() -> ReplicatedLog:
    return open_metadata_log(disk_with(0, b"".join(STEPS), {}))


def image_at(offset: int) -> MetadataImage:
    """Of the whole log, read up to there."""
    loader = MetadataLoader()
    CommitReader(whole_log(), loader).deliver(offset)
    return loader.image


def voters_at(count: int) -> VoterSet:
    """Of the first `count` steps."""
    return ControlRecords(open_metadata_log(disk_with(0, b"".join(STEPS[:count]), {}))).voters


def log_from(count: int) -> ReplicatedLog:
    """The log without its first `count` steps: those are in a snapshot."""
    records = [record for record, _ in image_at(ENDS[count - 1]).to_records()]
    data = snapshot_bytes(voters_at(count), *records)
    return open_metadata_log(disk_with(ENDS[count - 1], b"".join(STEPS[count:]), {ENDS[count - 1]: data}))


@pytest.mark.parametrize("count", range(1, len(STEPS)))
def test_each_reader_finds_the_same_in_a_log_that_begins_with_a_snapshot(count: int) -> None:
    whole, log = whole_log(), log_from(count)
    assert log.start_offset == ENDS[count - 1]
    assert ControlRecords(log).voters == ControlRecords(whole).voters == voter_set([1, 2, 3])
    assert not ControlRecords(log).update(), "it has read everything"
    loader = MetadataLoader()
    CommitReader(log, loader).deliver(log.end_offset)
    assert loader.image == image_at(whole.end_offset)
    assert loader.image.topic_ids == {"u": U} and loader.image.config_of(TOPIC_RESOURCE, "u") == {"retention.ms": "9"}
    known = stored_settings(log)
    assert (known.topic_ids, known.configs) == (loader.image.topic_ids, loader.image.configs)
    assert not any(topic.partitions for topic in known.topics.values()), "it reads settings only"


# --- Raft's own -------------------------------------------------------------------------------------------------------


def test_a_truncation_ends_at_the_voters_of_the_snapshot() -> None:
    log = open_metadata_log(disk_with(7, idle(7, 2) + voters_batch(9, 1, 2), {7: snapshot_bytes(voter_set([1]))}))
    control = ControlRecords(log)
    assert (control.voters, control.history.latest_offset) == (voter_set([1, 2]), 9)
    control.truncate_to(9)
    assert (control.voters, control.history.latest_offset) == (voter_set([1]), 6)
    control.truncate_to(7)
    assert (control.voters, control.history.latest_offset) == (voter_set([1]), 6)
    assert control.update() and control.voters == voter_set([1, 2]), "it reads again what comes after the cut"


def test_voters_of_a_snapshot_replace_those_that_the_log_had() -> None:
    filesystem = disk_with(0, voters_batch(0, 1, 2) + idle(1, 5), {})
    log = open_metadata_log(filesystem)
    control = ControlRecords(log)
    newest = snapshot_name(OffsetAndEpoch(9, EPOCH))
    filesystem.write(f"{FOLDER}/{newest}", snapshot_bytes(voter_set([2, 3])))
    log.unified.truncate_fully(9)
    assert control.update()
    assert (control.voters, control.history.latest_offset) == (voter_set([2, 3]), 8)


@pytest.mark.parametrize("offset", [5, 6, 7, 8, 9])
def test_voters_of_a_copied_snapshot_replace_those_that_were_not_committed(offset: int) -> None:
    log = voters_batch(0, 1, 2) + idle(1, 5) + voters_batch(6, 1, 2, 3) + idle(7, 1)
    raft = replica(1, voters=[1, 2], filesystem=disk_with(0, log, {}))
    raft.start(1000)
    assert raft.replica.control_records.voters == voter_set([1, 2, 3])
    assert raft.replica.begin_snapshot_fetch(OffsetAndEpoch(offset, EPOCH))
    data = snapshot_bytes(voter_set([2, 4]))
    assert finish(raft.replica.append_to_snapshot(memoryview(data), len(data)))
    control = raft.replica.control_records
    assert (control.voters, control.history.latest_offset) == (voter_set([2, 4]), offset - 1)
    raft.replica.append_fetched(memoryview(idle(offset, 1) + voters_batch(offset + 1, 4)))
    assert (control.voters, control.history.latest_offset) == (voter_set([4]), offset + 1)


def test_a_leader_whose_voters_are_in_a_snapshot_does_not_write_them_again() -> None:
    raft = replica(1, voters=[1], filesystem=disk_with(7, idle(7, 2), {7: snapshot_bytes(voter_set([1]))}))
    raft.start(1000)
    assert raft.leads(raft.replica.epoch)
    (first,) = raft.replica.log.batches_between(9, 99)
    assert first.is_control and first.count == 1


# --- listeners --------------------------------------------------------------------------------------------------------


class Diary:
    """A listener that writes down what it hears, in order."""

    def __init__(self) -> None:
        self.heard: list[tuple[object, ...]] = []

    def handle_commit(self, batch: CommittedBatch) -> None:
        self.heard.append(("commit", batch.base_offset))

    def handle_load_snapshot(self, snapshot: OffsetAndEpoch, batches: Sequence[CommittedBatch]) -> None:
        names = [record.name for batch in batches for record in batch.records if isinstance(record, TopicRecord)]
        self.heard.append(("snapshot", snapshot, names))

    def handle_leader_change(self, leader: LeaderAndEpoch) -> None:
        self.heard.append(("leader", leader))


def test_a_listener_gets_the_snapshot_first_and_the_committed_batches_after_it() -> None:
    diary = Diary()
    data = snapshot_bytes(NO_VOTERS, TopicRecord(name="t", topic_id=T))
    reader = CommitReader(open_metadata_log(disk_with(2, idle(2, 5), {4: data})), diary)
    assert reader.next_offset == -1
    reader.deliver(2)
    assert diary.heard == [("snapshot", OffsetAndEpoch(4, EPOCH), ["t"])] and reader.next_offset == 4
    reader.deliver(6)
    assert diary.heard[1:] == [("commit", 4), ("commit", 5)] and reader.next_offset == 6


def test_a_leader_on_a_snapshot_hears_that_it_leads_when_its_own_first_record_is_committed() -> None:
    raft = replica(1, voters=[1], filesystem=disk_with(7, idle(7, 2), {8: snapshot_bytes(voter_set([1]))}))
    diary = Diary()
    raft.register(diary)
    raft.start(1000)
    raft.poll(1000)
    assert diary.heard == [
        ("snapshot", OffsetAndEpoch(8, EPOCH), []),
        ("commit", 8),
        ("commit", 9),
        ("leader", LeaderAndEpoch(1, raft.replica.epoch)),
    ]


def test_a_listener_of_a_loader_hears_what_it_hears_when_the_image_has_it() -> None:
    loader, seen = MetadataLoader(), []

    class Reader(Diary):
        def handle_commit(self, batch: CommittedBatch) -> None:
            seen.append((batch.last_offset, loader.image.provenance.offset))

        def handle_load_snapshot(self, snapshot: OffsetAndEpoch, batches: Sequence[CommittedBatch]) -> None:
            seen.append((snapshot.offset - 1, loader.image.provenance.offset))

    reader = Reader()
    loader.add_listener(reader)
    CommitReader(open_metadata_log(disk_with(2, idle(2, 3), {3: snapshot_bytes()})), loader).deliver(5)
    loader.handle_leader_change(LeaderAndEpoch(1, 4))
    assert seen == [(2, 2), (3, 3), (4, 4)]
    assert reader.heard == [("leader", LeaderAndEpoch(1, 4))]


def test_the_folder_knows_its_newest_snapshot_by_epoch_and_offset() -> None:
    filesystem = fresh_disk()
    folder = SnapshotFolder(filesystem, FOLDER)
    assert folder.newest_id() is None and folder.newest() is None
    for place in (OffsetAndEpoch(9, 1), OffsetAndEpoch(5, 2), OffsetAndEpoch(4, 2)):
        filesystem.write(f"{FOLDER}/{snapshot_name(place)}", snapshot_bytes())
    assert folder.newest_id() == OffsetAndEpoch(5, 2)
    assert SnapshotFolder(filesystem, "/nowhere").newest_id() is None
