"""May this node open that directory? Asked before the first byte of it is changed.

A cluster has feature levels: ``metadata.version``, ``transaction.version`` and others, and ``kraft.version`` of Raft's
own. A level is a promise about what records mean, so a node that does not have a level of its cluster must not take
part in it. A running node hears of levels in the metadata log (`controller.features.check_supported`); but a directory
that another node wrote, Apache Kafka's for one, is asked before: it is refused as it is, and can go on where it came
from.

The levels are where they were written last: in the history of the metadata log (`raft.log.history`), or, if there was
no first start yet, in ``bootstrap.checkpoint``. The reading changes nothing: no file is made, locked, cut or recovered.

Follows org.apache.kafka.controller.FeatureControlManager and
org.apache.kafka.raft.internals.KRaftControlRecordStateMachine.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from itertools import takewhile

from pykraft.common.errors import CorruptRecordError
from pykraft.common.types import METADATA_TOPIC
from pykraft.controller.features import (
    KRAFT_VERSION,
    METADATA_VERSION,
    NEW_CLUSTER,
    SUPPORTED_FEATURES,
    UnsupportedFeatureError,
    level_records,
    levels_in,
    levels_to_run_at,
)
from pykraft.controller.result import VersionedRecord
from pykraft.protocol.messages.control import KRaftVersionRecord
from pykraft.protocol.messages.records import FRAME_VERSION, FeatureLevelRecord, decode_metadata_record
from pykraft.raft.log.history import (
    HistoryReader,
    Snapshot,
    SnapshotFolder,
    control_records,
    damage_named,
    read_snapshot,
)
from pykraft.records.batch import LARGEST_OFFSET, RecordBatch
from pykraft.records.compression import Compression
from pykraft.storage.disk.checkpoint import BOOTSTRAP_CHECKPOINT, DamagedFileError
from pykraft.storage.disk.filesystem import FileSystem
from pykraft.storage.file_records import FileRecords
from pykraft.storage.index import OffsetIndex
from pykraft.storage.segment_files import INDEX_SUFFIX, LOG_SUFFIX, base_offset_of

_FRAME = bytes([FRAME_VERSION, FeatureLevelRecord.record_key, 0])
"""How the value of a FeatureLevelRecord begins."""


def check_levels(filesystem: FileSystem, directory: str) -> None:
    """`directory` is the one that the metadata log is stored in. UnsupportedFeatureError, with each feature by name and
    level, if its cluster runs what this node does not; DamagedFileError if what was before the log's start is in no
    snapshot."""
    log = UnopenedLog(filesystem, f"{directory}/{METADATA_TOPIC}-0")
    with damage_named(directory):
        levels = _levels(filesystem, directory, log)
    lacking = [f"{name} at level {level}" for name, level in sorted(levels.items()) if not _is_supported(name, level)]
    if lacking:
        supported = ", ".join(f"{name} {low} to {high}" for name, (low, high) in sorted(SUPPORTED_FEATURES.items()))
        raise UnsupportedFeatureError(
            f"the cluster whose metadata are in {directory} runs {', '.join(lacking)}; this node supports {supported}, "
            "and no other feature above level 0: change them where it runs, with Apache Kafka's kafka-features.sh"
        )


def first_records(filesystem: FileSystem, directory: str) -> list[VersionedRecord]:
    """What the directory was formatted with, for the metadata log of a new cluster: the levels of its features and
    whatever else ``bootstrap.checkpoint`` has, such as settings and SCRAM credentials. DamagedFileError if it has no
    level of the metadata."""
    path = f"{directory}/{BOOTSTRAP_CHECKPOINT}"
    bootstrap = read_snapshot(filesystem, path)
    if bootstrap is None:
        return level_records(NEW_CLUSTER)
    with damage_named(path):
        found = [
            decode_metadata_record(record.value or b"")
            for batch in bootstrap.batches
            if not batch.is_control
            for record in batch.records()
        ]
    if METADATA_VERSION not in levels_in(found):
        raise DamagedFileError(f"{path} is damaged: it has no level of {METADATA_VERSION}")
    return found


def _is_supported(name: str, level: int) -> bool:
    low, high = levels_to_run_at(name)
    return low <= level <= high


class UnopenedLog:
    """The metadata log as its files have it, each up to its first damaged batch. Reading begins with the batch that is
    asked for first: what is before it is not read, as far as the names of the files and the ``.index`` tell."""

    def __init__(self, filesystem: FileSystem, directory: str) -> None:
        names = sorted(filesystem.list(directory)) if filesystem.exists(directory) else []
        bases = {name: base_offset_of(name) for name in names if name.endswith(LOG_SUFFIX)}
        files = {base: f"{directory}/{name}" for name, base in bases.items() if base is not None}
        self.start_offset = min(files, default=0)
        self.snapshots = SnapshotFolder(filesystem, directory)
        self._filesystem = filesystem
        self._paths = dict(sorted(files.items()))
        self._batches: Iterator[RecordBatch] | None = None

    def batches_between(self, offset: int, end_offset: int) -> list[RecordBatch]:
        """The next one, if there is one: the files are read once, from the first to the last."""
        if self._batches is None:
            first = max((base for base in self._paths if base <= offset), default=0)
            paths = [path for base, path in self._paths.items() if base >= first]
            self._batches = _whole_batches(self._filesystem, paths, first, offset)
        for batch in self._batches:
            if offset < batch.next_offset <= end_offset:
                return [batch]
        return []


def _whole_batches(
    filesystem: FileSystem, paths: Sequence[str], base_offset: int, offset: int
) -> Iterator[RecordBatch]:
    """The batches of these files; of the first one, which begins at `base_offset`, not many before `offset`."""
    for path in paths:
        with closing(FileRecords(filesystem.open(path))) as records, suppress(CorruptRecordError):
            position = _position_before(filesystem, records, base_offset, offset) if path == paths[0] else 0
            yield from takewhile(lambda batch: batch.is_valid, (batch for _, batch in records.batches(position)))


def _position_before(filesystem: FileSystem, records: FileRecords, base_offset: int, offset: int) -> int:
    """Where reading for `offset` may begin: at the batch of the last index entry below it; 0 if there is none, or it
    does not lead to its batch."""
    path = records.path.removesuffix(LOG_SUFFIX) + INDEX_SUFFIX
    data = filesystem.read(path) if filesystem.exists(path) else b""
    entries = list(OffsetIndex.entry.iter_unpack(data[: len(data) // OffsetIndex.entry.size * OffsetIndex.entry.size]))
    relative, position = max((entry for entry in entries if entry[0] < offset - base_offset), default=(0, 0))
    return position if position and records.has_batch_up_to(base_offset + relative, position) else 0


def _levels(filesystem: FileSystem, directory: str, log: UnopenedLog) -> dict[str, int]:
    """The levels by feature; what was never written is left out."""
    levels: dict[str, int] = {}
    reader = HistoryReader(log)
    for found in reader.read(LARGEST_OFFSET):
        _note(found.batches if isinstance(found, Snapshot) else found, levels)
    if not levels.keys() - {KRAFT_VERSION}:
        bootstrap = read_snapshot(filesystem, f"{directory}/{BOOTSTRAP_CHECKPOINT}")
        _note(bootstrap.batches if bootstrap else (), levels)
    if reader.next_offset:
        levels.setdefault(KRAFT_VERSION, 0)
    return levels


def _note(batches: Iterable[RecordBatch], levels: dict[str, int]) -> None:
    """Remember the levels that are set in the batches."""
    for batch in batches:
        if batch.is_control:
            for _, message in control_records(batch):
                if isinstance(message, KRaftVersionRecord):
                    levels[KRAFT_VERSION] = message.kraft_version
        # Most batches set none: then the bytes tell faster than the records. (Records to come may be unreadable.)
        elif batch.compression is not Compression.NONE or _FRAME in bytes(batch.buffer):
            for record in batch.records():
                if (record.value or b"").startswith(_FRAME):
                    level, _ = decode_metadata_record(record.value or b"")
                    assert isinstance(level, FeatureLevelRecord)
                    levels[level.name] = level.feature_level
