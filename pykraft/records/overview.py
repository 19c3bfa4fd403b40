"""What the records of a batch say together, found without decoding any of them.

A leader asks four things of the records that a producer sends. Do their fields fill the batch? Which timestamps do they
have? Are they numbered 0, 1, 2 and so on? Has each a key? It asks this of every record of every batch, so this is the
inner loop of producing. There are two ways through it:

* `RecordReader` reads field after field, and if the batch is compressed, chunk after chunk of the stream. It reads
  whatever Kafka reads, and refuses what Kafka refuses.
* `walk.go_over` reads *regular* records, written as Kafka's clients write them. It is compiled, if it can be, and then
  a hundred times as fast. It stops at the first record that is not regular, or is cut, and the reader takes that one.

Kafka has two ways, too, and they differ in what they refuse. If a compressed batch is to be appended unchanged, Kafka
does not compare the length of a record with its fields (`is_strict` is False). So it appends a batch whose lengths lead
nowhere, and every consumer fails at it. In all other batches the fields must fill the record. (Kafka 4.4 refuses a
negative length everywhere.)

A few kilobytes can hold a hundred million headers, so a stream with more than MAX_HEADERS is refused. Kafka has no such
bound.

Follows org.apache.kafka.common.record.DefaultRecord (`readFrom` and `readPartiallyFrom`) and DefaultRecordBatch.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from pykraft.common.core import Steps, finish
from pykraft.common.errors import CorruptRecordError, ErrorCode, KafkaError
from pykraft.records.varint import decode_varint, decode_varlong
from pykraft.records.walk import go_over

RECORDS_PER_TURN = 5000
"""After this many records, looked at or packed again, other requests have their turn."""
MAX_HEADERS = 1 << 18
"""A compressed batch may not have more headers, in all its records together."""
LONGEST_RECORD_BYTES = (1 << 31) - 1
"""A length is an int32."""
_SHORTEST = 6
"""The shortest length of a record: one byte each for attributes, timestamp delta, offset delta, the lengths of key and
value, and the number of headers."""
_LONGEST_VARINT, _LONGEST_VARLONG = 5, 10
_LONGEST_HEAD = 3 * _LONGEST_VARINT + 1 + _LONGEST_VARLONG
"""Bytes of a record's length, attributes, timestamp delta, offset delta and the length of its key, at most."""
_LONGEST_PAUSE = 1000
"""At most this many records are read field after field before the next is tried as a regular record."""

Chunk = bytes | memoryview


@dataclass(slots=True)
class Overview:
    """What a batch's records say together."""

    smallest_delta: int = 1 << 63
    largest_delta: int = -1 << 63
    """Of their timestamps, after the batch's base timestamp."""
    without_key: int = 0
    """How many records have no key."""
    headers: int = 0
    """How many headers all records have."""
    is_numbered: bool = True
    """Whether the offset deltas are 0, 1, 2 and so on."""
    is_regular: bool = True
    """Whether each record is written as Kafka's clients write it."""

    def note_delta(self, delta: int) -> None:
        """Take note of a record's timestamp delta."""
        if delta < self.smallest_delta:
            self.smallest_delta = delta
        if delta > self.largest_delta:
            self.largest_delta = delta


class RecordFacts(NamedTuple):
    """What a leader asks of one record."""

    offset_delta: int
    timestamp_delta: int
    has_key: bool


def overview(chunks: Iterable[Chunk], count: int, *, is_strict: bool = True, is_stream: bool = True) -> Steps[Overview]:
    """Go over the `count` records in a batch's uncompressed data, which come in chunks; `is_stream` says whether they
    are decompressed as they come. Pauses after every few thousand records.

    Raises the KafkaError that a producer is to get if these are not `count` records: nearly always INVALID_RECORD.
    """
    found = Overview()
    coming = map(bytes, chunks)  # of a batch that is not compressed a copy, made at once
    chunk = next(coming, b"")
    position, number = yield from _regular(chunk, 0, 0, count, found)
    if is_stream and found.headers > MAX_HEADERS:
        raise _too_many_headers()
    if number == count and position == len(chunk) and not is_stream:
        return found
    reader = RecordReader(coming, chunk, position, is_strict=is_strict, is_stream=is_stream)
    others = pause = next_try = 0
    while number < count:
        facts = reader.read(number, count)
        found.note_delta(facts.timestamp_delta)
        found.without_key += not facts.has_key
        found.is_numbered = found.is_numbered and facts.offset_delta == number
        found.is_regular = False
        number += 1
        if number >= next_try:  # where many are not regular, it would be in vain to try at each
            first = number
            reader.position, number = yield from _regular(reader.chunk, reader.position, number, count, found)
            pause = 0 if number > first else min(2 * pause + 1, _LONGEST_PAUSE)
            next_try = number + pause
        if is_stream and found.headers + reader.headers > MAX_HEADERS:
            raise _too_many_headers()
        others += 1
        if others % RECORDS_PER_TURN == 0:
            yield
    reader.check_end(count)
    found.headers += reader.headers
    return found


def look_over(chunks: Iterable[Chunk], count: int, *, is_strict: bool = True, is_stream: bool = True) -> Overview:
    """The same at once."""
    return finish(overview(chunks, count, is_strict=is_strict, is_stream=is_stream))


def record_facts(
    chunks: Iterable[Chunk],
    count: int,
    *,
    is_strict: bool = True,
    is_stream: bool = True,
    longest_bytes: int = LONGEST_RECORD_BYTES,
) -> Iterator[RecordFacts]:
    """The same records one by one. One of more than `longest_bytes` is INVALID_RECORD."""
    reader = RecordReader(iter(chunks), b"", 0, is_strict=is_strict, is_stream=is_stream, longest_bytes=longest_bytes)
    for number in range(count):
        yield reader.read(number, count)
    reader.check_end(count)


def invalid_record(detail: str) -> KafkaError:
    """The answer to a producer whose batch contradicts itself."""
    return KafkaError(ErrorCode.INVALID_RECORD, detail)


def _too_many_headers() -> KafkaError:
    return KafkaError(ErrorCode.MESSAGE_TOO_LARGE, f"a batch of more than {MAX_HEADERS} headers; send it in pieces")


# --- field after field ------------------------------------------------------------------------------------------------


class RecordReader:
    """Reads the records of a batch, one after the other. Of a stream it holds one chunk at a time."""

    __slots__ = (
        "_chunks",
        "_is_stream",
        "_is_strict",
        "_longest_bytes",
        "_passed_bytes",
        "chunk",
        "headers",
        "position",
    )

    def __init__(
        self,
        chunks: Iterator[Chunk],
        chunk: Chunk,
        position: int,
        *,
        is_strict: bool,
        is_stream: bool,
        longest_bytes: int = LONGEST_RECORD_BYTES,
    ) -> None:
        self._chunks = chunks
        self._longest_bytes = longest_bytes
        self._is_strict = is_strict
        self._is_stream = is_stream
        self._passed_bytes = 0
        """How long the chunks before this one were."""
        self.chunk = chunk
        self.position = position
        """Where in the chunk the next field begins; after its end if a field reaches into the next chunk."""
        self.headers = 0
        """How many there were."""

    def read(self, number: int, count: int) -> RecordFacts:
        """Read record `number` of `count`; KafkaError if it cannot be read, or if its fields do not fill it."""
        self._read_on(_LONGEST_HEAD)
        length, at = self._record_length(number, count)
        begin = self._passed_bytes + at
        try:
            timestamp_delta, at = decode_varlong(self.chunk, at + 1)  # after the attributes, which are unused
            offset_delta, at = decode_varint(self.chunk, at)
            key_length, self.position = decode_varint(self.chunk, at)
            self._pass(key_length)
            self._pass(self._number())  # the value
            self._pass_headers()
        except CorruptRecordError as error:
            begun = f"the batch announces {count} records, {number + 1} begin in it"
            raise invalid_record(f"record {number} cannot be read: {error.detail}; {begun}") from error
        size = self._passed_bytes + self.position - begin
        if self._is_strict and size != length:
            raise invalid_record(f"record {number} has a length of {length}, but its fields take {size} bytes")
        return RecordFacts(offset_delta, timestamp_delta, key_length >= 0)

    def check_end(self, count: int) -> None:
        """INVALID_RECORD unless the data end where the last record ends."""
        self._read_on(1)
        left = len(self.chunk) - self.position
        if left > 0:
            raise invalid_record(f"{left} bytes follow the last of {count} records")
        if left < 0:
            raise invalid_record(f"the last of {count} records lacks {-left} bytes")

    def _record_length(self, number: int, count: int) -> tuple[int, int]:
        """The length of the record that begins here, and where it ends."""
        try:
            length, end = decode_varint(self.chunk, self.position)
        except CorruptRecordError as error:
            if len(self.chunk) - self.position < _LONGEST_VARINT:
                raise invalid_record(f"the batch announces {count} records, {number} begin in it") from error
            # The one fault that Kafka's validator does not expect where nothing is compressed.
            code = ErrorCode.INVALID_RECORD if self._is_stream else ErrorCode.UNKNOWN_SERVER_ERROR
            raise KafkaError(code, f"the length of record {number}: {error.detail}") from error
        if length < (_SHORTEST if self._is_strict else 0):
            raise invalid_record(f"record {number} claims a length of {length}")
        if length > self._longest_bytes:
            raise invalid_record(f"record {number} has {length} bytes, {self._longest_bytes} are allowed")
        return length, end

    def _number(self) -> int:
        if len(self.chunk) - self.position < _LONGEST_VARINT:
            self._read_on(_LONGEST_VARINT)
        value, self.position = decode_varint(self.chunk, self.position)
        return value

    def _pass(self, length: int) -> None:
        if length > 0:
            self.position += length

    def _pass_headers(self) -> None:
        count = self._number()
        if count < 0:
            raise CorruptRecordError(f"it claims {count} headers")
        for _ in range(count):
            key_length = self._number()
            if key_length < 0:
                raise CorruptRecordError(f"the key of a header claims a length of {key_length}")
            self._pass(key_length)
            self._pass(self._number())
            self.headers += 1
            if self._is_stream and self.headers > MAX_HEADERS:
                raise _too_many_headers()

    def _read_on(self, wanted_bytes: int) -> None:
        """Hold this many bytes from the position on, if there are this many."""
        while len(self.chunk) - self.position < wanted_bytes and (chunk := next(self._chunks, None)) is not None:
            rest = bytes(self.chunk[self.position :])
            self._passed_bytes += len(self.chunk) - len(rest)
            self.position = max(0, self.position - len(self.chunk))
            self.chunk = b"".join((rest, chunk)) if rest else chunk


# --- regular records --------------------------------------------------------------------------------------------------


def _regular(chunk: Chunk, position: int, number: int, count: int, found: Overview) -> Steps[tuple[int, int]]:
    """Go over the regular records from record `number` at `position` on, with pauses. Returns where the next record
    begins, and its number."""
    while True:
        limit = min(count, number + RECORDS_PER_TURN)
        first = number
        position, number, smallest, largest, without_key, headers = go_over(bytes(chunk), position, number, limit)
        if number > first:
            found.smallest_delta = min(found.smallest_delta, smallest)
            found.largest_delta = max(found.largest_delta, largest)
            found.without_key += without_key
            found.headers += headers
        if number < limit or number == count:
            return position, number
        yield
