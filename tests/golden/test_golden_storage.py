"""Apache Kafka's own files: read in full, and written again byte for byte.

The files were written by Kafka 4.2.0-rc1 (see README.md here). Three things are proven with them:

* what pykraft reads in each file is what Kafka's dump tool reads in it (`dumps`);
* a log that gets the same batches, as leader or as follower, writes the same files, but for the bytes that
  `MAY_DIFFER` lists with a reason;
* a batch without compression that is rebuilt from its records is the same batch.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pykraft.common.settings.config import Config
from pykraft.common.types import METADATA_TOPIC_ID, TopicPartition, Uuid
from pykraft.records.batch import RecordBatch, batches
from pykraft.records.builder import RecordBatchBuilder
from pykraft.records.compression import Compression
from pykraft.records.markers import read_marker
from pykraft.records.record import Record
from pykraft.sim.world.disk import MemoryFileSystem
from pykraft.storage.disk import checkpoint
from pykraft.storage.disk.filesystem import OsFileSystem
from pykraft.storage.index import OffsetIndex, TimeIndex
from pykraft.storage.log import UnifiedLog
from pykraft.storage.producer_state import AppendOrigin, decode_snapshot
from pykraft.storage.transaction_index import TransactionIndex
from pykraft.storage.upkeep.log_loader import LogLoader
from pykraft.storage.upkeep.log_manager import LogManager, parse_directory
from tests.golden.dumps import DATA, GOLDEN, LOG_START, NODE1, DumpedBatch, Section, sections
from tests.harness.log_laws import check
from tests.harness.storage import NEVER_MS, Inline, ManualClock, settings

SECTIONS = list(sections())
LOG_FOLDERS = sorted({path.parent for path in GOLDEN.rglob("0*.log")} - {LOG_START})
WRITTEN_MS = 1_795_155_300_000
"""About when the files were written: no record is from the future then."""

# Each topic's settings, as make_golden.py made it.
SMALL = {"index_interval_bytes": 64}
SETTINGS: dict[str, dict[str, int]] = {
    "golden": {**SMALL, "segment_bytes": 1 << 20, "segment_index_bytes": 1024},
    "golden-txn": SMALL,
}

MAY_DIFFER = {
    "cleaner-offset-checkpoint": "not made before there is something in it; Kafka made it, empty",
    "recovery-point-offset-checkpoint": "the order of the lines: by partition here, that of a hash table there",
    "replication-offset-checkpoint": "the order of the lines, as above",
    "meta.properties": "the second line is the date in Kafka's file; the order of keys is that of a hash table",
    ".lock": "empty, and locked while the directory is in use",
    "leader-epoch-checkpoint": "of a log without a record, not made; Kafka wrote the epoch, and forgets it at its next "
    "start. Of every other log it is equal",
}
"""All other files of logs and log directory are equal byte for byte."""

NOT_STORAGE = {"quorum-state": "the quorum's", "bootstrap.checkpoint": "the quorum's, but its batches are read here"}


def ids(value: Any) -> str:
    return value.relative_to(GOLDEN).as_posix() if isinstance(value, pathlib.Path) else str(value)


# --- reading ----------------------------------------------------------------------------------------------------------


def all_batches(path: pathlib.Path) -> list[tuple[int, RecordBatch]]:
    """(position, batch) of everything in the file; nothing is left over."""
    data = path.read_bytes()
    found, position = [], 0
    for some in batches(memoryview(data)):
        found.append((position, some))
        position += some.size
    assert position == len(data), f"{len(data) - position} bytes at the end of {path.name} are no batch"
    return found


def batch_row(position: int, some: RecordBatch) -> dict[str, str]:
    """The batch in the dump tool's words."""
    horizon = some.delete_horizon_ms
    values = {
        "baseOffset": some.base_offset,
        "lastOffset": some.last_offset,
        "count": some.count,
        "baseSequence": some.base_sequence,
        "lastSequence": some.last_sequence,
        "producerId": some.producer_id,
        "producerEpoch": some.producer_epoch,
        "partitionLeaderEpoch": some.partition_leader_epoch,
        "isTransactional": str(some.is_transactional).lower(),
        "isControl": str(some.is_control).lower(),
        "deleteHorizonMs": "OptionalLong.empty" if horizon is None else f"OptionalLong[{horizon}]",
        "position": position,
        "CreateTime": some.max_timestamp,
        "size": some.size,
        "magic": some.magic,
        "compresscodec": some.compression.name.lower(),
        "crc": some.crc,
        "isvalid": str(some.is_valid).lower(),
    }
    return {name: str(value) for name, value in values.items()}


def record_row(some: RecordBatch, record: Record) -> dict[str, str]:
    sequence = some.base_sequence
    values = {
        "offset": record.offset,
        "CreateTime": record.timestamp,
        "keySize": -1 if record.key is None else len(record.key),
        "valueSize": -1 if record.value is None else len(record.value),
        "sequence": -1 if sequence < 0 else sequence + record.offset - some.base_offset,
    }
    return {name: str(value) for name, value in values.items()}


@pytest.mark.parametrize("section", [each for each in SECTIONS if each.path.suffix in (".log", ".checkpoint")], ids=str)
def test_every_batch_and_record_reads_as_kafka_reads_it(section: Section) -> None:
    ours = all_batches(section.path)
    assert len(ours) == len(section.batches)
    for (position, some), dumped in zip(ours, section.batches, strict=True):
        assert batch_row(position, some) == dumped.fields
        records = list(some.records())
        assert [record_row(some, record) for record in records] == [each.fields for each in dumped.records]
        assert [[name for name, _ in record.headers] for record in records] == [
            each.header_keys for each in dumped.records
        ]
        if section.path.parent.name.startswith("golden"):
            check_content(some, records, dumped)


def check_content(some: RecordBatch, records: list[Record], dumped: DumpedBatch) -> None:
    """Key and value of the golden topics are text."""
    if some.is_control:
        ended = read_marker(some)
        kind = "COMMIT" if ended.committed else "ABORT"
        assert dumped.records[0].content == f"endTxnMarker: {kind} coordinatorEpoch: {ended.coordinator_epoch}"
        return
    for record, each in zip(records, dumped.records, strict=True):
        assert record.key is not None and record.value is not None
        assert each.content == f"key: {record.key.decode()} payload: {record.value.decode()}"
        assert not record.headers or record.headers == [("h", b"x"), ("n", None)]


INDEXES: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    ".index": (OffsetIndex, ("offset", "position")),
    ".timeindex": (TimeIndex, ("timestamp", "offset")),
}


@pytest.mark.parametrize("section", [each for each in SECTIONS if each.path.suffix in INDEXES], ids=str)
def test_every_index_entry_reads_as_kafka_reads_it(section: Section) -> None:
    kind, names = INDEXES[section.path.suffix]
    index = kind(copied(section.path.parent), f"/{section.path.parent.name}/{section.path.name}", 0, 10 << 20)
    assert [dict(zip(names, map(str, index[n]), strict=True)) for n in range(len(index))] == section.entries


def test_every_aborted_transaction_reads_as_kafka_reads_it() -> None:
    (section,) = [each for each in SECTIONS if each.path.suffix == ".txnindex"]
    index = TransactionIndex(copied(section.path.parent), f"/{section.path.parent.name}/{section.path.name}")
    names = ("producerId", "firstOffset", "lastOffset", "lastStableOffset")
    ours = [{"version": "0", **dict(zip(names, map(str, each), strict=True))} for each in index.entries]
    assert ours == section.entries and len(ours) == 2


@pytest.mark.parametrize("section", [each for each in SECTIONS if each.path.suffix == ".snapshot"], ids=str)
def test_every_producer_snapshot_reads_as_kafka_reads_it(section: Section) -> None:
    ours = []
    for entry in decode_snapshot(section.path.read_bytes()):
        (last,) = entry.batches
        assert entry.transaction_first_offset is None
        values = {
            "producerId": entry.producer_id,
            "producerEpoch": entry.epoch,
            "coordinatorEpoch": entry.coordinator_epoch,
            "currentTxnFirstOffset": "OptionalLong.empty",
            "lastTimestamp": entry.last_timestamp,
            "firstSequence": last.first_sequence,
            "lastSequence": entry.last_sequence,
            "lastOffset": entry.last_offset,
            "offsetDelta": last.offset_delta,
            "timestamp": last.timestamp,
        }
        ours.append({name: str(value) for name, value in values.items()})
    assert ours == section.entries and ours


def test_the_small_files_say_what_they_should() -> None:
    system = OsFileSystem()
    home = str(DATA)
    golden, transactions = TopicPartition("golden", 0), TopicPartition("golden-txn", 0)
    for name in (checkpoint.RECOVERY_POINT_CHECKPOINT, checkpoint.HIGH_WATERMARK_CHECKPOINT):
        offsets = checkpoint.read_offsets(system, f"{home}/{name}")
        assert len(offsets) == 6 and (offsets[golden], offsets[transactions]) == (100, 16)
    assert checkpoint.read_offsets(system, f"{home}/{checkpoint.LOG_START_CHECKPOINT}") == {}
    assert checkpoint.read_offsets(system, f"{home}/{checkpoint.CLEANER_CHECKPOINT}") == {}
    assert checkpoint.read_clean_shutdown(system, home) == 15
    assert checkpoint.read_meta_properties(system, home) == checkpoint.MetaProperties(
        "MkU3OEVBNTcwNTJENDM2Qk", 1, Uuid.parse("R45kede2TAyQft8Y2ympmA")
    )
    for folder in LOG_FOLDERS:
        topic_id = checkpoint.read_partition_metadata(system, str(folder))
        assert (topic_id == METADATA_TOPIC_ID) == folder.name.endswith("__cluster_metadata-0")


def test_no_golden_file_is_left_unread() -> None:
    """Each file is read by a test above or below; a new one must find its reader."""
    dumped = {section.path for section in SECTIONS}
    beside_logs = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")  # each is compared with what we write
    for path in sorted([*DATA.rglob("*"), *NODE1.rglob("*")]):
        if path.is_dir() or path in dumped or path.name in NOT_STORAGE:
            continue
        known = path.suffix in beside_logs and path.parent in LOG_FOLDERS
        known = known or path.name in {"partition.metadata", "leader-epoch-checkpoint", ".kafka_cleanshutdown"}
        known = known or path.name.endswith("offset-checkpoint") or path.name == "meta.properties"
        known = known or (path.suffix == ".checkpoint" and bool(all_batches(path)))
        assert known, f"who reads {path.relative_to(GOLDEN)}?"


@pytest.mark.parametrize("folder", LOG_FOLDERS, ids=ids)
def test_a_log_that_kafka_wrote_is_opened_as_if_it_were_ours(folder: pathlib.Path) -> None:
    for clean in (True, False):
        log = opened(copied(folder), folder, clean=clean)
        end = max((some.next_offset for _, some in all_batches(next(folder.glob("*.log")))), default=0)
        assert log.log_end_offset == end
        check(log)


# --- writing ----------------------------------------------------------------------------------------------------------


def copied(folder: pathlib.Path) -> MemoryFileSystem:
    """A disk with the folder as it is."""
    filesystem = MemoryFileSystem()
    filesystem.make_directory(f"/{folder.name}")
    for path in folder.iterdir():
        filesystem.write(f"/{folder.name}/{path.name}", path.read_bytes())
    return filesystem


def config_of(topic: str) -> Config:
    return settings(**SETTINGS.get(topic, {}))


def partition_of(folder: pathlib.Path) -> TopicPartition:
    found = parse_directory(folder.name.removeprefix("node1"))
    assert found is not None
    return found


def opened(filesystem: MemoryFileSystem, folder: pathlib.Path, clean: bool = True) -> UnifiedLog:
    partition = partition_of(folder)
    return LogLoader(
        filesystem=filesystem,
        directory=f"/{folder.name}",
        config=config_of(partition.topic),
        clock=ManualClock(WRITTEN_MS),
        background=Inline(),
        topic_partition=partition,
        topic_id=checkpoint.read_partition_metadata(OsFileSystem(), str(folder)),
        clean=clean,
        producer_id_expiration_ms=NEVER_MS,
    ).load()


def golden_batches(folder: pathlib.Path) -> list[RecordBatch]:
    data = bytearray((folder / f"{0:020d}.log").read_bytes())
    return list(batches(memoryview(data)))


def lead(log: UnifiedLog, some: list[RecordBatch]) -> None:
    """Append the batches as they came to Kafka: from clients, coordinators and the controller, without their place."""
    topic = log.topic_partition.topic
    if topic != "__cluster_metadata":
        log.epochs.assign(0, 0)  # a partition notes the epoch as it begins to lead
    for each in some:
        epoch = each.partition_leader_epoch
        each.assign(0, -1)
        origin = AppendOrigin.CLIENT
        if topic == "__cluster_metadata":
            origin = AppendOrigin.RAFT_LEADER
        elif topic.startswith("__") or each.is_control:
            origin = AppendOrigin.COORDINATOR
        log.append_as_leader(each, epoch, origin)


def follow_one_by_one(log: UnifiedLog, some: list[RecordBatch]) -> None:
    for each in some:
        log.append_as_follower(each.buffer)


def follow_at_once(log: UnifiedLog, some: list[RecordBatch]) -> None:
    log.append_as_follower(memoryview(b"".join(each.buffer for each in some)))


WAYS = [lead, follow_one_by_one, follow_at_once]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("folder", LOG_FOLDERS, ids=ids)
def test_a_log_that_gets_the_same_batches_writes_the_same_files(
    folder: pathlib.Path, way: Callable[[UnifiedLog, list[RecordBatch]], None]
) -> None:
    filesystem = MemoryFileSystem()
    log = opened(filesystem, folder, clean=False)
    way(log, golden_batches(folder))
    log.close()
    ours = {name: filesystem.read(f"/{folder.name}/{name}") for name in filesystem.list(f"/{folder.name}")}
    theirs = {path.name: path.read_bytes() for path in folder.iterdir() if is_storages(path)}
    if log.log_end_offset == 0:
        assert "leader-epoch-checkpoint" in MAY_DIFFER
        assert theirs.pop("leader-epoch-checkpoint") == b"0\n1\n0 0\n"
    assert sorted(ours) == sorted(theirs)
    for name, content in theirs.items():
        assert ours[name] == content, f"{name} differs"


def is_storages(path: pathlib.Path) -> bool:
    """Of the metadata log's folder, the quorum writes the snapshots and its state."""
    return path.suffix != ".checkpoint" and path.name not in NOT_STORAGE


def test_a_log_directory_that_gets_the_same_batches_is_the_same_directory() -> None:
    """Through the log manager: what it writes beside the logs at an orderly stop."""
    filesystem = MemoryFileSystem()
    filesystem.make_directory("/logs")
    manager = LogManager(
        filesystem=filesystem,
        directory="/logs",
        config_for=config_of,
        clock=ManualClock(WRITTEN_MS),
        background=Inline(),
        random=None,  # type: ignore[arg-type]  # nothing is deleted
        producer_id_expiration_ms=NEVER_MS,
    )
    manager.start()
    for folder in LOG_FOLDERS:
        topic_id = checkpoint.read_partition_metadata(OsFileSystem(), str(folder))
        if folder.parent == DATA and topic_id not in (None, METADATA_TOPIC_ID):
            assert topic_id is not None
            log = manager.get_or_create(partition_of(folder), topic_id)
            lead(log, golden_batches(folder))
            log.update_high_watermark(log.log_end_offset)
    manager.close(broker_epoch=15)
    checkpoint.write_meta_properties(
        filesystem,
        "/logs",
        checkpoint.MetaProperties("MkU3OEVBNTcwNTJENDM2Qk", 1, Uuid.parse("R45kede2TAyQft8Y2ympmA")),
    )
    names = {path.name for path in DATA.iterdir() if not path.is_dir()} - set(NOT_STORAGE)
    assert set(filesystem.list("/logs")) - {folder.name for folder in LOG_FOLDERS} == names - {
        "cleaner-offset-checkpoint"
    }
    for name in sorted(names - set(MAY_DIFFER)):
        assert filesystem.read(f"/logs/{name}") == (DATA / name).read_bytes(), f"{name} differs"
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        assert lines(filesystem.read(f"/logs/{name}")) == lines((DATA / name).read_bytes())
    ours, theirs = lines(filesystem.read("/logs/meta.properties")), lines((DATA / "meta.properties").read_bytes())
    assert ours == [line for line in theirs if not line.startswith("#Fri")]


def lines(content: bytes) -> list[str]:
    return sorted(content.decode().splitlines())


# --- building ---------------------------------------------------------------------------------------------------------


def every_batch() -> Iterator[tuple[str, RecordBatch]]:
    for path in sorted([*GOLDEN.rglob("0*.log"), *GOLDEN.rglob("*.checkpoint")]):
        for position, some in all_batches(path):
            yield f"{path.parent.name}/{path.name}:{position}", some


@pytest.mark.parametrize("way", ["same bytes", "same records"])
def test_a_batch_that_is_built_anew_is_the_same_batch(way: str) -> None:
    """Every byte where there is no codec; what other compressors make of the same records is their own affair."""
    built_anew = 0
    for name, some in every_batch():
        builder = RecordBatchBuilder(
            base_offset=some.base_offset,
            compression=some.compression,
            producer_id=some.producer_id,
            producer_epoch=some.producer_epoch,
            base_sequence=some.base_sequence,
            leader_epoch=some.partition_leader_epoch,
            transactional=some.is_transactional,
            control=some.is_control,
        )
        for record in some.records():
            builder.append(record.timestamp, record.key, record.value, record.headers)
        again = RecordBatch(memoryview(builder.build()))
        if way == "same bytes" and some.compression is Compression.NONE:
            assert again.buffer == some.buffer, f"{name} differs"
            built_anew += 1
        elif way == "same records":
            assert list(again.records()) == list(some.records()), f"{name} differs"
            assert header_without_length_and_crc(again) == header_without_length_and_crc(some)
            built_anew += 1
    assert built_anew > 100


def header_without_length_and_crc(some: RecordBatch) -> bytes:
    return bytes(some.buffer[:8]) + bytes(some.buffer[12:17]) + bytes(some.buffer[21:61])


def test_the_golden_data_hold_every_codec_and_kind_of_batch() -> None:
    found = [some for _, some in every_batch()]
    assert {some.compression for some in found} == set(Compression)
    kinds = {(some.is_control, some.is_transactional) for some in found}
    assert kinds == {(False, False), (True, False), (True, True), (False, True)}
