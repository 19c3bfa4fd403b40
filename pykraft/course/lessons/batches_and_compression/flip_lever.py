"""The first picture of notebook 03: a batch of which the reader flips any bit, and the check that notices it.

The damaged bytes go through the checks of a node that opens its log after a crash, in their order: what `batches` asks
of a length and a magic, the checksum, and whether the offset follows the one before (`LogSegment.continues`). The first
that says no is named. If none does, the picture says what a reader would get.
"""

from functools import lru_cache

from pykraft.common.errors import CorruptRecordError
from pykraft.course.lessons.batches_and_compression.batch_bytes import header_fields, made, record_fields
from pykraft.datasets import flights
from pykraft.records.batch import HEADER_BYTES, RecordBatch, batches
from pykraft.storage.log_segment import MAX_RELATIVE_OFFSET
from pykraft.viz import Figure, hexdump
from pykraft.viz.wire.hex_dump import Field

OFFSET, EPOCH = 12, 4
"""Where the batch lies in its log, and the leader's epoch."""
_VALUE_BYTES = 24


def draw_flip(byte: int, bit: int) -> Figure:
    """The batch with this bit flipped; bit 0 is the lowest one of its byte."""
    flipped = bytearray(sound())
    flipped[byte] ^= 1 << bit
    damaged = bytes(flipped)
    fields = [*header_fields(damaged), *(_as_damaged(field, damaged) for field in record_fields(sound(), HEADER_BYTES))]
    title = f"Byte {byte}, bit {bit}: {noticed(damaged)}"
    return hexdump(damaged, fields, title=title, note="Framed: the byte with the flipped bit.", marked={byte})


def _as_damaged(field: Field, damaged: bytes) -> Field:
    """The fields are where they were; of texts the damage shows."""
    if field.kind != "payload":
        return field
    return field._replace(meaning=damaged[field.start : field.end].decode(errors="replace"))


def noticed(data: bytes) -> str:
    """What a node says of a batch that is the next one at the offset `OFFSET`, in a segment that begins at 0."""
    try:
        found = list(batches(memoryview(data)))
    except CorruptRecordError as error:
        return str(error).partition(": ")[2]
    if not found:
        return "its length goes beyond the end of the file, as if it were cut off"
    (batch, *_) = found
    if not batch.is_valid:
        return "the checksum does not match"
    if batch.base_offset < OFFSET:
        return f"the checksum is right, but offset {batch.base_offset:,} does not follow {OFFSET - 1}"
    if batch.last_offset > MAX_RELATIVE_OFFSET:
        return f"the checksum is right, but offset {batch.base_offset:,} has no room in this segment"
    if batch.base_offset > OFFSET:
        return f"no check notices it, and a reader gets offset {batch.base_offset:,}"
    return f"no check notices it, and a reader gets leader epoch {batch.partition_leader_epoch:,}"


@lru_cache(maxsize=1)
def sound() -> bytes:
    """A batch of one flight, as a leader has it in its file."""
    ((key, value, timestamp),) = flights(1)
    batch = RecordBatch(memoryview(bytearray(made([(key, value[:_VALUE_BYTES], timestamp)]))))
    batch.assign(OFFSET, EPOCH)
    return bytes(batch.buffer)


LAST_BYTE = len(sound()) - 1
