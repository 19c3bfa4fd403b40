"""May this node open that directory? Asked before the first byte of it is changed.

A cluster has feature levels: ``metadata.version``, ``transaction.version`` and others, and ``kraft.version`` of Raft's
own. A level is a promise about what records mean, so a node that does not have a level of its cluster must not take
part in it. A running node hears of levels in the metadata log (`controller.features.check_supported`); but a directory
that another node wrote, Apache Kafka's for one, is asked before: it is refused as it is, and can go on where it came
from.

The levels are where they were written last: in the metadata log, in a snapshot beside it, or, if there was no first
start yet, in ``bootstrap.checkpoint``. The reading changes nothing: no file is made, locked, cut or recovered.

Follows org.apache.kafka.controller.FeatureControlManager and
org.apache.kafka.raft.internals.KRaftControlRecordStateMachine.
"""

from collections.abc import Iterator

from pykraft.common.errors import CorruptRecordError, ProtocolError
from pykraft.common.types import METADATA_TOPIC
from pykraft.controller.features import KRAFT_VERSION, SUPPORTED_FEATURES, UnsupportedFeatureError
from pykraft.metadata.image import FeatureRange
from pykraft.protocol.messages.control import KRaftVersionRecord, decode_control_record
from pykraft.protocol.messages.records import FRAME_VERSION, FeatureLevelRecord, decode_metadata_record
from pykraft.raft.snapshot import SNAPSHOT_SUFFIX
from pykraft.records.batch import RecordBatch, batches
from pykraft.records.compression import Compression
from pykraft.storage.checkpoint import BOOTSTRAP_CHECKPOINT, DamagedFileError
from pykraft.storage.file_records import FileRecords
from pykraft.storage.filesystem import FileSystem
from pykraft.storage.segment_files import LOG_SUFFIX, base_offset_of

_FRAME = bytes([FRAME_VERSION, FeatureLevelRecord.record_key, 0])
"""How the value of a FeatureLevelRecord begins."""


def check_levels(filesystem: FileSystem, directory: str) -> None:
    """`directory` is the one that the metadata log is stored in. UnsupportedFeatureError, with each feature by name and
    level, if its cluster runs what this node does not."""
    folder = f"{directory}/{METADATA_TOPIC}-0"
    listed = filesystem.list(folder) if filesystem.exists(folder) else []
    names = [name for name in listed if not name.endswith(LOG_SUFFIX) or base_offset_of(name) is not None]
    logs = [name for name in names if name.endswith(LOG_SUFFIX)]
    if logs and int(logs[0].removesuffix(LOG_SUFFIX)):
        raise UnsupportedFeatureError(
            f"the metadata log in {directory} begins at offset {int(logs[0].removesuffix(LOG_SUFFIX))}, and what was "
            "before it stands in a snapshot: this node reads metadata logs from offset 0 only"
        )
    levels = _levels(filesystem, directory, names)
    lacking = [f"{name} at level {level}" for name, level in sorted(levels.items()) if not _is_supported(name, level)]
    if lacking:
        supported = ", ".join(f"{name} {low} to {high}" for name, (low, high) in sorted(SUPPORTED_FEATURES.items()))
        raise UnsupportedFeatureError(
            f"the cluster whose metadata are in {directory} runs {', '.join(lacking)}; this node supports {supported}, "
            "and no other feature above level 0: change them where it runs, with Apache Kafka's kafka-features.sh"
        )


def _is_supported(name: str, level: int) -> bool:
    low, high = SUPPORTED_FEATURES.get(name, FeatureRange(0, 0))
    return low <= level <= high


def _levels(filesystem: FileSystem, directory: str, names: list[str]) -> dict[str, int]:
    """The levels by feature; what was never written is left out."""
    folder = f"{directory}/{METADATA_TOPIC}-0"
    levels: dict[str, int] = {}
    has_records = False
    for name in names:
        if name.endswith(SNAPSHOT_SUFFIX):
            _note_file(filesystem, f"{folder}/{name}", levels)
    for name in names:
        if name.endswith(LOG_SUFFIX):
            for batch in _batches_of_log(filesystem, f"{folder}/{name}"):
                has_records = True
                _note(batch, levels)
    bootstrap = f"{directory}/{BOOTSTRAP_CHECKPOINT}"
    if not levels.keys() - {KRAFT_VERSION} and filesystem.exists(bootstrap):
        _note_file(filesystem, bootstrap, levels)
    if has_records:
        levels.setdefault(KRAFT_VERSION, 0)
    return levels


def _batches_of_log(filesystem: FileSystem, path: str) -> Iterator[RecordBatch]:
    """The batches up to the first that is damaged."""
    records = FileRecords(filesystem.open(path))
    try:
        for _, batch in records.batches():
            if not batch.is_valid:
                return
            yield batch
    except CorruptRecordError:
        return
    finally:
        records.close()


def _note_file(filesystem: FileSystem, path: str, levels: dict[str, int]) -> None:
    """Remember the levels of a snapshot, which is whole or damaged."""
    data = memoryview(filesystem.read(path))
    try:
        found = list(batches(data))
        if sum(batch.size for batch in found) != len(data) or not all(batch.is_valid for batch in found):
            raise CorruptRecordError("it ends within a batch, or one fails its checksum")
        for batch in found:
            _note(batch, levels)
    except (CorruptRecordError, ProtocolError) as error:
        raise DamagedFileError(f"{path} is damaged: {error}") from error


def _note(batch: RecordBatch, levels: dict[str, int]) -> None:
    """Remember the levels that are set in the batch."""
    if batch.is_control:
        for record in batch.records():
            _, message = decode_control_record(record.key or b"", record.value or b"")
            if isinstance(message, KRaftVersionRecord):
                levels[KRAFT_VERSION] = message.kraft_version
    # Most batches set none: then the bytes tell faster than the records. (Records of levels to come may be unreadable.)
    elif batch.compression is not Compression.NONE or _FRAME in bytes(batch.buffer):
        for record in batch.records():
            if (record.value or b"").startswith(_FRAME):
                level, _ = decode_metadata_record(record.value or b"")
                assert isinstance(level, FeatureLevelRecord)
                levels[level.name] = level.feature_level
