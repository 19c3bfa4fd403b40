"""What a leader checks before it appends a producer's batch, and what it repairs.

The checksum tells that the bytes are those the producer sent; the checks here, that they are a batch. They look at the
header, and at each record (`records.overview`). The header is not believed:

====================================  ==================================================================================
the header says                       the leader
====================================  ==================================================================================
how many records there are            refuses another number of them, and bytes after the last one
the largest timestamp                 writes the records' own there if it is another one; -1 if all are smaller
that a broker stamped the records     clears the mark; refuses the batch if no time is there, or if it stamps itself
which offsets the records have        refuses a compressed batch whose offset deltas are not 0, 1, 2 and so on
====================================  ==================================================================================

Where nothing is to be repaired, the batch is appended unchanged. Where its header is changed, attributes that mean
nothing are cleared, too. With ``message.timestamp.type=LogAppendTime`` the batch is marked and gets the broker's time.
With a ``compression.type`` that is not the producer's the records are decoded, numbered and packed again, as Kafka's
producer would write them. Kafka does not look at the offset deltas of a batch that is not compressed, so they stay.

Some settings refuse single records: ``max.decompressed.message.bytes`` those of a compressed batch that are longer (and
with them the batch), ``cleanup.policy`` with compact those without a key,
``message.timestamp.before.max.ms`` and ``message.timestamp.after.max.ms`` those that are too old or too young. Only
where the overview shows that there may be some, the records are gone through one by one. The answer names those that
are wrong, ten thousand at most.

The answers are Apache Kafka's. A wrong checksum or length gets CORRUPT_MESSAGE, a header or a record that contradicts
itself INVALID_RECORD. What Kafka does not expect gets UNKNOWN_SERVER_ERROR: compressed data that cannot be read,
compressed records that are not numbered, negative timestamps where records are packed again. Lz4 whose blocks refer to
one another cannot be read by Kafka's clients, so it is refused, too.

A few bytes can decompress to much. A stream is read in chunks, so that costs time, but no memory. (A block of snappy
does: 22 times its size at most. So does a batch that is packed again: it is held as a whole.) The time is bounded by a
limit for each batch, because the whole node waits for it, and by a *budget* for all batches of one request together
(`UnpackBudget`). A batch that decompresses to more than 32 MiB, 131,072 records or 262,144 headers is answered
MESSAGE_TOO_LARGE, at which Kafka's producer sends it in pieces; so is what would bring the request to more than 256
MiB. (Of the shortest records as many fit into a batch of a megabyte that is not compressed.) Between batches the work
pauses when it has taken as long as one turn of the node should. Kafka has no such bounds; its handlers are threads.

Follows org.apache.kafka.storage.internals.log.{LogValidator,UnifiedLog} and
org.apache.kafka.common.requests.ProduceRequest.
"""

from collections.abc import Iterable, Iterator

from pykraft.common.core import Steps, finish
from pykraft.common.errors import CorruptRecordError, ErrorCode, InvalidRecordsError, KafkaError, RecordError
from pykraft.records.batch import (
    CODEC_MASK,
    CONTROL,
    CURRENT_MAGIC,
    HEADER_BYTES,
    LENGTH_OFFSET,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC_OFFSET,
    RecordBatch,
    batches,
)
from pykraft.records.compression import Compression, decompress_chunks, has_linked_blocks
from pykraft.records.filtering import repacked
from pykraft.records.overview import (
    LONGEST_RECORD_BYTES,
    RECORDS_PER_TURN,
    Chunk,
    Overview,
    RecordFacts,
    invalid_record,
    overview,
    record_facts,
)
from pykraft.records.record import NO_TIMESTAMP, Record, decode_records, encode_record, wrapped
from pykraft.storage.append_rules import AppendRules

MAX_BATCH_BYTES = 32 << 20
"""No batch may decompress to more: gzip takes a tenth of a second for it."""
MAX_UNPACKED_BYTES = 256 << 20
"""The batches of one request may decompress to no more, all together."""
BYTES_PER_TURN = 1 << 20
"""After this many bytes of records other requests have their turn."""
MAX_RECORDS = 1 << 17
"""Nor to more records."""
_BLAMED = 3
"""As many records are named in the answer's sentence; the list has more."""
_LISTED = 10_000
_OLDEST_BATCH_BYTES = 14
"""The shortest length that a batch of any format could have."""
_LONGEST_BATCH_BYTES = (1 << 31) - 1 - LOG_OVERHEAD
"""The longest that 31 bits can tell together with what is in front of it. Kafka's sum of both overflows."""
_LARGEST_TIMESTAMP = (1 << 63) - 1


def only_batch(data: memoryview | None) -> RecordBatch:
    """The one batch that a produce request may hold for a partition. The beginning of another is passed over behind it,
    as in any piece of a log; CorruptRecordError if what is there can begin none."""
    if data is None:
        raise invalid_record("the records are null")
    if len(data) > MAGIC_OFFSET and data[MAGIC_OFFSET] in (0, 1):
        _check_beginning(data)
        raise invalid_record("the records are in a message format older than 2")
    found = list(batches(data))
    if not found:
        _check_beginning(data)
    if len(found) != 1:
        raise invalid_record(f"a partition's records are {len(found)} batches instead of one")
    if found[0].size != len(data):
        _check_beginning(data[found[0].size :])
    return found[0]


def _check_beginning(data: memoryview) -> None:
    """Judge what is too short for a batch by as much of a header as there is of it."""
    length = int.from_bytes(data[LENGTH_OFFSET:LOG_OVERHEAD], "big", signed=True)
    if len(data) >= LOG_OVERHEAD and length < _OLDEST_BATCH_BYTES:
        raise CorruptRecordError(f"{len(data)} bytes claim to begin a batch with a length of {length}")
    if len(data) > MAGIC_OFFSET:
        if data[MAGIC_OFFSET] > CURRENT_MAGIC:
            raise CorruptRecordError(f"{len(data)} bytes claim to begin a batch with magic {data[MAGIC_OFFSET]}")
        if length > _LONGEST_BATCH_BYTES:
            raise _unexpected(f"a batch claims a length of {length}; {_LONGEST_BATCH_BYTES} is the largest")


class UnpackBudget:
    """How many bytes the batches of one request may still decompress to, how many were looked at in this turn, and how
    many wrong records its answer may still list."""

    __slots__ = ("left_bytes", "left_errors", "turn_bytes")

    def __init__(self) -> None:
        self.left_bytes = MAX_UNPACKED_BYTES
        self.left_errors = _LISTED
        self.turn_bytes = 0

    @property
    def is_turn_over(self) -> bool:
        """Whether enough was done for one turn of the node."""
        return self.turn_bytes >= BYTES_PER_TURN

    def pause_if_due(self) -> Steps[None]:
        """Let others have their turn, if this one is over."""
        if self.is_turn_over:
            yield
            self.turn_bytes = 0


def validation(batch: RecordBatch, rules: AppendRules, now_ms: int, budget: UnpackBudget) -> Steps[RecordBatch]:
    """Check a producer's batch; KafkaError says what is wrong, InvalidRecordsError that some of the records must not be
    appended. Returns what is to be appended, with a header that tells the truth of its records: the batch, repaired in
    place, or another one with the same records in the codec that the log is to have."""
    _check_header(batch, rules)
    is_compressed = bool(batch.attributes & CODEC_MASK)
    is_packed_again = rules.codec is not None and rules.codec != batch.attributes & CODEC_MASK
    is_strict = is_packed_again or not is_compressed
    if is_compressed:
        chunks = yield from _measured(batch, budget)
    else:
        chunks = (batch.buffer[HEADER_BYTES:],)
        budget.turn_bytes += batch.size - HEADER_BYTES
    found = yield from overview(chunks, batch.count, is_strict=is_strict, is_stream=is_compressed)
    longest_bytes = rules.max_decompressed_bytes if is_compressed else LONGEST_RECORD_BYTES
    if longest_bytes < MAX_BATCH_BYTES or _may_be_wrong(found, batch, rules, now_ms):
        yield from budget.pause_if_due()
        facts = record_facts(
            _chunks(batch), batch.count, is_strict=is_strict, is_stream=is_compressed, longest_bytes=longest_bytes
        )
        max_timestamp = yield from _check_one_by_one(facts, batch, rules, now_ms)
    else:
        max_timestamp = max(NO_TIMESTAMP, batch.base_timestamp + found.largest_delta)
    if rules.codec is not None and is_packed_again:
        yield from budget.pause_if_due()
        batch = yield from _packed_again(batch, found, rules.codec, rules.levels.get(rules.codec))
        if batch.size > rules.max_message_bytes:
            raise _larger_than_allowed(batch, rules)
    elif is_compressed and not found.is_numbered:
        raise _unexpected(f"the offset deltas of {batch.count} compressed records are not 0, 1, 2 and so on")
    if rules.uses_append_time:
        batch.stamp(now_ms)
    else:
        batch.set_max_timestamp(max_timestamp)
    return batch


def validate(batch: RecordBatch, rules: AppendRules, now_ms: int) -> RecordBatch:
    """The same at once, for a request of this batch alone."""
    return finish(validation(batch, rules, now_ms, UnpackBudget()))


def _check_header(batch: RecordBatch, rules: AppendRules) -> None:
    if batch.base_offset != 0:
        raise invalid_record(f"the base offset is {batch.base_offset} instead of 0")
    if batch.size > rules.max_message_bytes:
        raise _larger_than_allowed(batch, rules)
    if not batch.is_valid:
        raise CorruptRecordError("the batch fails its checksum")
    if batch.count < 1 or batch.last_offset_delta != batch.count - 1:
        raise invalid_record(f"{batch.count} records, but the last has offset delta {batch.last_offset_delta}")
    if batch.attributes & CONTROL:
        raise invalid_record("clients may not write control records")
    if batch.has_producer_id and batch.base_sequence < 0:
        raise invalid_record(f"producer {batch.producer_id} sent sequence {batch.base_sequence}")


def _larger_than_allowed(batch: RecordBatch, rules: AppendRules) -> KafkaError:
    return _too_large(f"a batch of {batch.size} bytes; {rules.max_message_bytes} are allowed")


def _too_large(detail: str) -> KafkaError:
    return KafkaError(ErrorCode.MESSAGE_TOO_LARGE, detail)


def _unexpected(detail: str) -> KafkaError:
    """The answer to what Kafka's validator does not expect."""
    return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, detail)


# --- records ----------------------------------------------------------------------------------------------------------


def _chunks(batch: RecordBatch) -> Iterable[Chunk]:
    """The batch's records, uncompressed, in chunks; KafkaError when one cannot be had."""
    data = batch.buffer[HEADER_BYTES:]
    return _decompressed(batch, data) if batch.attributes & CODEC_MASK else (data,)


def _decompressed(batch: RecordBatch, data: memoryview) -> Iterator[Chunk]:
    if batch.count > MAX_RECORDS:
        raise _too_large(f"a batch of {batch.count} records; {MAX_RECORDS} are allowed")
    try:
        codec = batch.compression
        if codec is Compression.LZ4 and has_linked_blocks(data):
            raise CorruptRecordError("the lz4 data of a batch is in blocks that depend on one another")
        yield from decompress_chunks(codec, data)
    except CorruptRecordError as error:
        raise _unexpected(error.detail) from error


def _measured(batch: RecordBatch, budget: UnpackBudget) -> Steps[Iterable[Chunk]]:
    """The chunks of compressed records, once it is sure that they are not too much. Nearly always there is one. A
    longer stream is read twice: first for its length, in turns, then for its records."""
    chunks = iter(_chunks(batch))
    first = next(chunks, b"")
    size = len(first)
    budget.turn_bytes += size
    is_whole = True  # what `first` has is all there is
    try:
        for chunk in chunks:
            is_whole = is_whole and not chunk
            size += len(chunk)
            budget.turn_bytes += len(chunk)
            if size > MAX_BATCH_BYTES:
                break
            yield from budget.pause_if_due()
    except KafkaError:
        is_whole = False  # to be found again; but a record before that may be wrong, too, and that is the answer then
    budget.left_bytes -= size
    if size > MAX_BATCH_BYTES:
        raise _too_large(f"the batch decompresses to more than {MAX_BATCH_BYTES} bytes")
    if budget.left_bytes < 0:
        raise _too_large(f"the batches of the request decompress to more than {MAX_UNPACKED_BYTES} bytes")
    return (first,) if is_whole else _chunks(batch)


# --- single records that must not be appended -------------------------------------------------------------------------


def _may_be_wrong(found: Overview, batch: RecordBatch, rules: AppendRules, now_ms: int) -> bool:
    """Whether one of the records may be one that the topic's settings refuse. The answer may be yes where all are
    right, as a record without a timestamp is."""
    if batch.attributes & LOG_APPEND_TIME or (rules.wants_keys and found.without_key):
        return True
    if rules.uses_append_time:
        return False
    smallest, largest = batch.base_timestamp + found.smallest_delta, batch.base_timestamp + found.largest_delta
    # A sum that leaves 64 bits wraps, so it is no record's timestamp. It is outside these limits, too.
    return smallest < now_ms - rules.before_max_ms or largest > min(now_ms + rules.after_max_ms, _LARGEST_TIMESTAMP)


def _check_one_by_one(facts: Iterable[RecordFacts], batch: RecordBatch, rules: AppendRules, now_ms: int) -> Steps[int]:
    """Look at each record; InvalidRecordsError if some must not be appended. Returns the largest timestamp."""
    is_marked = batch.uses_log_append_time
    wrong: list[RecordError] = []
    code = ErrorCode.INVALID_RECORD
    max_timestamp = NO_TIMESTAMP
    for number, (_, delta, has_key) in enumerate(facts):
        if number % RECORDS_PER_TURN == RECORDS_PER_TURN - 1:
            yield
        timestamp = batch.max_timestamp if is_marked else wrapped(batch.base_timestamp + delta)
        max_timestamp = max(max_timestamp, timestamp)
        if rules.wants_keys and not has_key:
            wrong.append(RecordError(number, "it has no key, but the topic is compacted"))
        elif not rules.uses_append_time and timestamp != NO_TIMESTAMP:
            if _is_far(timestamp, rules, now_ms):
                code = ErrorCode.INVALID_TIMESTAMP
                limits = f"{now_ms - rules.before_max_ms} and {now_ms + rules.after_max_ms}"
                wrong.append(RecordError(number, f"its timestamp {timestamp} is not between {limits}"))
        elif is_marked:
            code = ErrorCode.INVALID_TIMESTAMP
            wrong.append(RecordError(number, "only a broker says when a record was appended"))
        if len(wrong) == _LISTED:
            break
    if wrong:
        named = "; ".join(f"record {number}: {sentence}" for number, sentence in wrong[:_BLAMED])
        raise InvalidRecordsError(code, f"{len(wrong)} of {batch.count} records are refused: {named}", wrong)
    return max_timestamp


def _is_far(timestamp: int, rules: AppendRules, now_ms: int) -> bool:
    """Whether a record is too old or too young. Its age wraps at 64 bits, as in Java: the first moments that 64 bits
    can tell pass for the future."""
    age_ms = wrapped(now_ms - timestamp)
    return age_ms > rules.before_max_ms or wrapped(-age_ms) > rules.after_max_ms


# --- packing again ----------------------------------------------------------------------------------------------------


def _packed_again(batch: RecordBatch, found: Overview, codec: Compression, level: int | None) -> Steps[RecordBatch]:
    """The batch in another codec, as Kafka's producer would have written it."""
    unpacked = bytearray()
    for chunk in _chunks(batch):
        if unpacked:
            yield
        unpacked += chunk
    data = memoryview(unpacked)
    first_timestamp = next(_records(batch, data)).timestamp
    earliest, latest = batch.base_timestamp + found.smallest_delta, batch.base_timestamp + found.largest_delta
    is_written_so = (
        found.is_regular
        and not found.headers  # whose names may be no UTF-8
        and first_timestamp == batch.base_timestamp
        and earliest >= NO_TIMESTAMP
        and latest <= _LARGEST_TIMESTAMP
        and not batch.uses_log_append_time
    )
    if not is_written_so:
        data = yield from _encoded(_records(batch, data), first_timestamp)
    packed = yield from repacked(batch, data, codec, level, first_timestamp)
    return RecordBatch(memoryview(packed))


def _records(batch: RecordBatch, data: memoryview) -> Iterator[Record]:
    """The records one by one, numbered from 0: to hold all of them takes thirty times their bytes."""
    records = decode_records(data, batch.count, 0, batch.base_timestamp)
    if not batch.uses_log_append_time:
        return records
    return (record._replace(timestamp=batch.max_timestamp) for record in records)


def _encoded(records: Iterable[Record], base_timestamp: int) -> Steps[memoryview]:
    out = bytearray()
    for number, (_, timestamp, key, value, headers) in enumerate(records):
        if number % RECORDS_PER_TURN == RECORDS_PER_TURN - 1:
            yield
        if timestamp < NO_TIMESTAMP:
            raise _unexpected(f"record {number} has the negative timestamp {timestamp}, and would be packed again")
        encode_record(out, number, timestamp - base_timestamp, key, value, headers)
    return memoryview(out)
