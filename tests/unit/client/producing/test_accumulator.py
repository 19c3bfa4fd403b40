"""Records on their way into batches: when a batch is full, when it is due, in which order batches leave."""

from __future__ import annotations

import pytest

from pykraft.client.producing.accumulator import ProducerBatch, RecordAccumulator, RecordMetadata
from pykraft.common.core import FOREVER
from pykraft.records.batch import RecordBatch, batches
from pykraft.records.builder import RecordBatchBuilder
from pykraft.records.compression import Compression
from pykraft.records.encoded import EncodedRecordBatch
from tests.harness.scripted import partition, settings

T0, T1 = partition("t-0"), partition("t-1")


def accumulator(**given: object) -> RecordAccumulator:
    return RecordAccumulator(settings("producer", **{"linger_ms": 10, "batch_size": 200, **given}))


def add(
    target: RecordAccumulator, value: bytes = b"v", key: object = T0, now: int = 0, told: list | None = None
) -> bool:
    on_delivery = None if told is None else lambda metadata, error: told.append((metadata, error))
    return target.append(key, 1000 + now, None, value, (), on_delivery, now)


def test_a_batch_waits_for_linger_ms() -> None:
    some = accumulator(linger_ms=10)
    assert add(some, now=5), "the sender must know of the first record's time"
    assert not add(some, now=7), "but not of those that follow it"
    assert some.deadline() == 15
    assert some.ready(14) == []
    assert some.ready(15) == [T0]


def test_without_lingering_it_is_ready_at_once() -> None:
    some = accumulator(linger_ms=0)
    add(some, now=5)
    assert some.ready(5) == [T0]


def test_a_full_batch_does_not_wait() -> None:
    some = accumulator(batch_size=200)
    while not add(some, bytes(20)) or some.peek(T0).size < 100:  # type: ignore[union-attr]
        assert some.ready(0) == []
    assert some.ready(0) == [T0]
    first = some.take(T0)
    assert first.size <= 200
    second = some.peek(T0)
    assert second is not None and second.count == 1, "the record that did not fit begins the next"
    assert some.ready(0) == []


def test_a_record_larger_than_a_batch_has_one_for_itself() -> None:
    some = accumulator(batch_size=200)
    add(some)
    add(some, bytes(1000))
    add(some)
    assert [some.take(T0).count for _ in range(3)] == [1, 1, 1]


def test_flushing_makes_everything_ready() -> None:
    some = accumulator()
    add(some)
    add(some, key=T1)
    some.flushes = 1
    assert some.ready(0) == [T0, T1]


def test_partitions_are_batched_alone() -> None:
    some = accumulator()
    add(some, now=1)
    add(some, key=T1, now=4)
    assert some.ready(11) == [T0]
    assert some.ready(14) == [T0, T1]
    assert some.has_unsent
    for key in (T0, T1):
        some.take(key)
    assert not some.has_unsent
    assert some.deadline() == FOREVER


def test_used_up_memory_makes_everything_ready_and_lets_nothing_in() -> None:
    some = accumulator(buffer_memory=300, batch_size=1000)
    add(some, bytes(100))
    assert some.has_room(100)
    assert add(some, bytes(150), key=T1)
    assert not some.has_room(1)
    assert some.ready(0) == [T0, T1]
    taken = some.take(T0)
    assert not some.has_room(1), "it is under way, and may have to be sent again"
    some.release(taken)
    assert some.has_room(1)


def test_one_record_is_let_in_however_large() -> None:
    some = accumulator(buffer_memory=10)
    assert some.has_room(10_000)


def test_memory_comes_back_to_the_last_byte() -> None:
    some = accumulator(batch_size=100)
    for number in range(50):
        add(some, bytes(number))
    for batch in some.take_all():
        some.release(batch)
    assert some.used_bytes == 0


# --- one batch --------------------------------------------------------------------------------------------------------


def filled(count: int = 3, codec: str = "none", told: list | None = None, size: int = 10) -> ProducerBatch:
    some = accumulator(batch_size=100_000, compression_type=codec)
    for number in range(count):
        add(some, b"%d" % number * size, now=number, told=told)
    return some.take(T0)


@pytest.mark.parametrize("codec", [codec.name.lower() for codec in Compression])
def test_a_finished_batch_is_one_of_kafkas(codec: str) -> None:
    batch = filled(codec=codec)
    batch.finish(7, 2, 40)
    (found,) = batches(memoryview(batch.data or b""))
    assert found.is_valid
    assert (found.producer_id, found.producer_epoch, found.base_sequence) == (7, 2, 40)
    assert found.compression is Compression.named(codec)
    assert [(r.offset, r.timestamp, r.value) for r in found.records()] == [
        (n, 1000 + n, b"%d" % n * 10) for n in range(3)
    ]


def test_each_record_is_told_its_place() -> None:
    told: list[tuple[RecordMetadata, None]] = []
    filled(told=told).deliver(500, -1)
    assert told == [(RecordMetadata("t", 0, 500 + n, 1000 + n), None) for n in range(3)]


def test_the_time_of_the_append_is_told_if_the_broker_says_so() -> None:
    told: list[tuple[RecordMetadata, None]] = []
    filled(told=told).deliver(500, 99)
    assert [metadata.timestamp for metadata, _ in told] == [99, 99, 99]


def test_without_an_answer_no_offset_is_known() -> None:
    told: list[tuple[RecordMetadata, None]] = []
    filled(told=told).deliver(-1, -1)
    assert [metadata.offset for metadata, _ in told] == [-1, -1, -1]


def test_each_record_is_told_of_the_failure() -> None:
    told: list[tuple[None, Exception]] = []
    error = RuntimeError("no")
    filled(told=told).fail(error)
    assert told == [(None, error)] * 3


@pytest.mark.parametrize("is_sent", [False, True])
def test_a_batch_is_split_into_smaller_ones_that_hold_the_same(is_sent: bool) -> None:
    told: list[tuple[RecordMetadata, None]] = []
    batch = filled(20, told=told, codec="gzip")
    if is_sent:
        batch.finish(7, 0, 0)
    parts = list(batch.split(200))
    assert len(parts) > 2
    offset = 0
    for part in parts:
        assert part.size <= 200
        assert part.created == batch.created, "its time is not longer than its parent's"
        part.finish(8, 0, offset)
        assert RecordBatch(memoryview(part.data or b"")).count == part.count
        part.deliver(offset, -1)
        offset += part.count
    assert [(metadata.offset, metadata.timestamp) for metadata, _ in told] == [(n, 1000 + n) for n in range(20)]


# --- again ------------------------------------------------------------------------------------------------------------


def sent(some: RecordAccumulator, sequence: int) -> ProducerBatch:
    batch = some.take(T0)
    batch.finish(1, 0, sequence)
    batch.attempts += 1
    return batch


def test_what_comes_back_goes_to_the_front_in_its_old_order() -> None:
    some = accumulator(batch_size=1)
    for number in range(4):
        add(some, b"%d" % number)
    first, second, third = (sent(some, number) for number in range(3))
    for batch in (third, first, second):
        some.put_back(batch)
    fourth = some.peek(T0)
    assert fourth is first
    assert [some.take(T0) for _ in range(3)] == [first, second, third]
    assert some.peek(T0).sequence == -1  # type: ignore[union-attr]


def test_what_comes_back_waits_for_its_pause_though_it_is_full() -> None:
    some = accumulator(batch_size=1)
    add(some)
    batch = sent(some, 0)
    batch.not_before = 130
    some.put_back(batch)
    assert some.ready(129) == []
    assert some.deadline() == 130
    assert some.ready(130) == [T0]


def test_records_are_not_added_to_a_batch_that_was_sent() -> None:
    some = accumulator(batch_size=10_000)
    add(some)
    batch = sent(some, 0)
    some.put_back(batch)
    add(some)
    assert (batch.count, some.take(T0), some.take(T0).count) == (1, batch, 1)


# --- batches that another process has encoded -------------------------------------------------------------------------


def encoded(*values: bytes) -> EncodedRecordBatch:
    builder = RecordBatchBuilder(compression=Compression.GZIP)
    for value in values:
        builder.append(1000, None, value)
    return EncodedRecordBatch(bytes(builder.build()), transactional=True)


def test_an_encoded_batch_keeps_its_place_and_no_record_is_added_to_it() -> None:
    some = accumulator(transactional_id="t")
    add(some, b"1")
    some.append_encoded(T0, encoded(b"2", b"3"), None, now=0)
    add(some, b"4")
    found = [some.take(T0) for _ in range(3)]
    assert [batch.count for batch in found] == [1, 2, 1]
    for number, batch in enumerate(found):
        batch.finish(7, 1, number)
        (sent,) = batches(memoryview(batch.data or b""))
        assert (sent.producer_id, sent.base_sequence, sent.is_transactional) == (7, number, True)


def test_an_encoded_batch_takes_memory_until_it_is_released() -> None:
    some, batch = accumulator(transactional_id="t", buffer_memory=200), encoded(b"2" * 100)
    some.append_encoded(T0, batch, None, now=0)
    assert some.used_bytes == batch.size and not some.has_room(200)
    some.release(some.take(T0))
    assert some.used_bytes == 0


def test_an_encoded_batch_that_is_too_large_is_split_as_another_one() -> None:
    some = accumulator(transactional_id="t")
    some.append_encoded(T0, encoded(*(b"%d" % number for number in range(10))), None, now=0)
    whole = some.take(T0)
    whole.finish(7, 1, 0)
    parts = list(whole.split(120))
    assert len(parts) == 2
    for part in parts:
        part.finish(7, 1, 0)
    found = [record.value for part in parts for record in RecordBatch(memoryview(part.data or b"")).records()]
    assert found == [b"%d" % number for number in range(10)]


def test_an_encoded_batch_tells_only_of_its_failure() -> None:
    told: list[tuple[None, Exception]] = []
    some, error = accumulator(transactional_id="t"), RuntimeError("no")
    for _ in range(2):
        some.append_encoded(T0, encoded(b"2", b"3"), lambda place, why: told.append((place, why)), now=0)
    some.take(T0).deliver(7, -1)
    assert not told
    some.take(T0).fail(error)
    assert told == [(None, error)] * 2
