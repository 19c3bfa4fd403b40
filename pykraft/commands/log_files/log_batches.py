"""Printing batches: the ``.log`` files of segments, and the metadata's snapshots, which have the same form.

One line for each batch, what its header says; in deep iteration one more for each record, with a bar in front::

    baseOffset: 0 lastOffset: 2 count: 3 ... position: 0 CreateTime: 1795155267673 size: 121 magic: 2 ... isvalid: true
    | offset: 0 CreateTime: 1795155267671 keySize: 3 valueSize: 10 sequence: 0 headerKeys: [] key: 0-0 payload: ...

The scan goes from length to length, as every reader of a log does, and ends before a batch that is cut off: what
follows then is counted. A batch that fails its checksum is shown like any other, ``isvalid: false`` tells.

Follows kafka.tools.DumpLogSegments.dumpLog and org.apache.kafka.common.record.FileLogInputStream.
"""

import struct
from collections.abc import Iterator
from pathlib import PurePath

from pykraft.commands.common import say
from pykraft.commands.log_files.log_decoders import Decoder, control_record_text
from pykraft.commands.log_files.read_only import ReadOnlyFile, open_file
from pykraft.common.errors import CorruptRecordError
from pykraft.records.batch import (
    CURRENT_MAGIC,
    HEADER_BYTES,
    LARGEST_SEQUENCE,
    LOG_OVERHEAD,
    MAGIC_OFFSET,
    NO_SEQUENCE,
    RecordBatch,
)
from pykraft.records.record import Record
from pykraft.storage.disk.checkpoint import BOOTSTRAP_CHECKPOINT
from pykraft.storage.segment_files import LOG_SUFFIX

_OFFSET_AND_LENGTH = struct.Struct(">qi")
_UP_TO_MAGIC = MAGIC_OFFSET + 1


def batches_from(file: ReadOnlyFile, position: int, end: int) -> Iterator[tuple[int, RecordBatch]]:
    """(position, batch) of the whole batches in this part of a file. CorruptRecordError where none can begin."""
    if position < 0:  # as a damaged index may say
        raise CorruptRecordError(f"there is no byte {position} in {file.path}")
    while position + _UP_TO_MAGIC < end:
        head = file.read(position, _UP_TO_MAGIC)
        size = LOG_OVERHEAD + _OFFSET_AND_LENGTH.unpack_from(head)[1]
        if size < HEADER_BYTES:
            raise CorruptRecordError(f"the batch at byte {position} claims {size} bytes, its header has {HEADER_BYTES}")
        if position + size > end:
            return
        magic = int.from_bytes(head[MAGIC_OFFSET:], signed=True)
        if magic < CURRENT_MAGIC:  # a newer one than ours is shown, as Kafka's tool does
            raise CorruptRecordError(f"the batch at byte {position} has magic {magic}, not {CURRENT_MAGIC}")
        yield position, RecordBatch(memoryview(file.read(position, size)))
        position += size


class BatchDump:
    """Prints batches and records, and remembers where offsets are missing."""

    def __init__(self, decoder: Decoder | None, is_deep: bool, with_metadata: bool, max_bytes: int | None) -> None:
        """Without a decoder keys and values are not printed."""
        self._decoder = decoder
        self._is_deep = is_deep
        self._with_metadata = with_metadata
        self._max_bytes = max_bytes
        self._gaps: dict[str, list[tuple[int, int]]] = {}

    def dump(self, path: str) -> None:
        """Print one file. CorruptRecordError where it cannot be read on."""
        with open_file(path) as file:
            say(_title(PurePath(path)))
            end = file.size if self._max_bytes is None else min(file.size, self._max_bytes)
            valid = 0
            last_offset = -1
            for position, batch in batches_from(file, 0, end):
                say(_batch_line(batch, position))
                if self._is_deep:
                    last_offset = self._dump_records(path, batch, last_offset)
                valid = position + batch.size
            if valid < file.size and self._max_bytes is None:
                say(f"Found {file.size - valid} invalid bytes at the end of {PurePath(path).name}")

    def _dump_records(self, path: str, batch: RecordBatch, last_offset: int) -> int:
        for record in batch.records():
            if last_offset not in (-1, record.offset - 1):
                self._gaps.setdefault(path, []).append((last_offset, record.offset))
            last_offset = record.offset
            parts, key, payload = [], None, None
            if self._with_metadata:
                parts.append(_record_text(batch, record))
                if batch.is_control:
                    parts.append(control_record_text(record))
            if self._decoder is not None and not batch.is_control:
                key, payload = self._decoder(record)
                parts += [] if key is None else [f"key: {key}"]
                parts += [] if payload is None else [f"payload: {payload}"]
            bar = "|" if self._with_metadata or key is not None else ""
            say(" ".join([bar, *parts]) if parts else "")
        return last_offset

    def complaints(self) -> Iterator[str]:
        """Where offsets do not follow one another: rightly in a log that was compacted, wrongly in any other."""
        for path, gaps in self._gaps.items():
            yield f"Non-consecutive offsets in {path}"
            yield from (f"  {first} is followed by {second}" for first, second in reversed(gaps))


def offset_in_name(path: PurePath) -> int:
    """The number that the file's name is. A log's own files have 20 digits; one that was copied may have any number for
    a name, as Kafka's tool has it. CorruptRecordError if it is none."""
    return _number(path.name.split(".")[0])


def _number(digits: str) -> int:
    if not (digits.isascii() and digits.isdecimal()):
        raise CorruptRecordError("its name says no offset")
    return int(digits)


def _title(path: PurePath) -> str:
    if path.suffix == LOG_SUFFIX:
        return f"Log starting offset: {offset_in_name(path)}"
    if path.name == BOOTSTRAP_CHECKPOINT:
        return "KRaft bootstrap snapshot"
    offset, _, epoch = path.name.split(".")[0].partition("-")
    return f"Snapshot end offset: {_number(offset)}, epoch: {_number(epoch)}"


def _batch_line(batch: RecordBatch, position: int) -> str:
    horizon = batch.delete_horizon_ms
    return (
        f"baseOffset: {batch.base_offset} lastOffset: {batch.last_offset} count: {batch.count} "
        f"baseSequence: {batch.base_sequence} lastSequence: {batch.last_sequence} "
        f"producerId: {batch.producer_id} producerEpoch: {batch.producer_epoch} "
        f"partitionLeaderEpoch: {batch.partition_leader_epoch} isTransactional: {_truth(batch.is_transactional)} "
        f"isControl: {_truth(batch.is_control)} "
        f"deleteHorizonMs: {'OptionalLong.empty' if horizon is None else f'OptionalLong[{horizon}]'} "
        f"position: {position} {_timestamp_type(batch)}: {batch.max_timestamp} size: {batch.size} "
        f"magic: {batch.magic} compresscodec: {batch.compression.name.lower()} crc: {batch.crc} "
        f"isvalid: {_truth(batch.is_valid)}"
    )


def _record_text(batch: RecordBatch, record: Record) -> str:
    sequence = NO_SEQUENCE
    if batch.base_sequence >= 0:
        sequence = (batch.base_sequence + record.offset - batch.base_offset) & LARGEST_SEQUENCE
    return (
        f"offset: {record.offset} {_timestamp_type(batch)}: {record.timestamp} keySize: {_size(record.key)} "
        f"valueSize: {_size(record.value)} sequence: {sequence} "
        f"headerKeys: [{','.join(name for name, _ in record.headers)}]"
    )


def _timestamp_type(batch: RecordBatch) -> str:
    return "LogAppendTime" if batch.uses_log_append_time else "CreateTime"


def _size(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _truth(value: bool) -> str:
    return "true" if value else "false"
