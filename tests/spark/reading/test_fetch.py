"""Fetching a range of offsets from brokers that move, break, lie and forget, each said by a script."""

from __future__ import annotations

import itertools
import time
from typing import Any

import pytest

from pykraft.client.errors import ClientTimeoutError
from pykraft.common.errors import CorruptRecordError, ErrorCode, KafkaError
from pykraft.protocol.messages.cluster import ApiVersionsRequest, MetadataRequest
from pykraft.protocol.messages.data import FetchRequest, FetchResponse, ListOffsetsRequest
from pykraft.records.batch import RecordBatch
from pykraft.spark import brokers as cluster
from pykraft.spark.brokers import Brokers
from pykraft.spark.options import ReadOptions, read_options
from pykraft.spark.reading.fetch import OffsetRange
from pykraft.spark.source import rows
from tests.spark.batches import encoded, raw_batch
from tests.spark.scripted_broker import CLOSE, T0, ScriptedBroker, fetch_offset
from tests.unit.records.test_visibility import ended, written


def log(count: int = 10, per_batch: int = 2, first: int = 0) -> list[RecordBatch]:
    """Batches with the records `first`, `first + 1`, ...: the value of each is its offset."""
    return [
        raw_batch(encoded((n, 0, None, b"%d" % (base + n), ()) for n in range(per_batch)), per_batch, base)
        for base in range(first, first + count, per_batch)
    ]


def options(broker: ScriptedBroker, **more: str) -> ReadOptions:
    """Options with little patience."""
    said = {"kafka.bootstrap.servers": broker.address, "assign": '{"t": [0]}', "kafka.retry.backoff.ms": "1"}
    patience = {"kafka.default.api.timeout.ms": "1000", "kafka.fetch.max.wait.ms": "1"}
    return read_options({**said, **patience, **{name.replace("__", "."): value for name, value in more.items()}})


def values(broker: ScriptedBroker, start: int = 0, end: int = 10, **more: str) -> list[int]:
    """The values of the records in this range, in the order read."""
    offsets = OffsetRange(T0, start, end)
    return [int(value.as_py()) for table in rows(options(broker, **more), ["value"], offsets) for value in table[0]]


FETCH_OF_4 = FetchRequest(
    topics=[FetchRequest.Topic(topic="t", partitions=[FetchRequest.Topic.Partition(partition=0, fetch_offset=4)])]
)


def once(answer: Any, of: type = FetchRequest) -> Any:
    """A script that answers the first request of this kind so, and the others as usual."""
    left = iter([answer])
    return lambda request: next(left, None) if isinstance(request, of) else None


# --- the way through a range ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("start", "end"), [(0, 10), (1, 9), (2, 3), (3, 4), (9, 10), (0, 1)])
def test_exactly_the_asked_offsets_are_read(start: int, end: int) -> None:
    with ScriptedBroker(log()) as broker:
        assert values(broker, start, end) == list(range(start, end))


def test_one_fetch_brings_what_fits_and_the_next_goes_on_behind_it() -> None:
    batches = log()

    def only_one(request: Any) -> Any:
        if not isinstance(request, FetchRequest):
            return None
        found = next(batch for batch in batches if batch.next_offset > fetch_offset(request))
        return broker.fetch(request, records=bytes(found.buffer))

    with ScriptedBroker(batches, script=only_one) as broker:
        assert values(broker, 1, 9) == list(range(1, 9))
        assert [fetch_offset(request) for request, _ in broker.asked_for(FetchRequest)] == [1, 2, 4, 6, 8]


def test_a_torn_batch_at_the_end_is_fetched_again() -> None:
    batches = log()
    cuts = itertools.chain([1, 30, 61, 100, 200], itertools.repeat(10_000))

    def torn(request: Any) -> Any:
        if not isinstance(request, FetchRequest):
            return None
        wanted = [bytes(batch.buffer) for batch in batches if batch.next_offset > fetch_offset(request)]
        return broker.fetch(request, records=wanted[0] + b"".join(wanted[1:])[: next(cuts)])

    with ScriptedBroker(batches, script=torn) as broker:
        assert values(broker) == list(range(10))


def test_gaps_that_cleaning_left_are_stepped_over() -> None:
    batches = [
        raw_batch(encoded([(1, 0, None, b"1", ())]), 1, 0, last_offset_delta=3),
        raw_batch(b"", 0, 4, last_offset_delta=2),
        raw_batch(encoded([(0, 0, None, b"9", ()), (4, 0, None, b"13", ())]), 2, 9, last_offset_delta=5),
    ]
    with ScriptedBroker(batches) as broker:
        assert values(broker, 0, 15) == [1, 9, 13]
        assert values(broker, 2, 9) == []
        assert values(broker, 0, 13) == [1, 9]


def test_a_range_whose_end_is_in_a_gap_ends() -> None:
    with ScriptedBroker([raw_batch(encoded([(0, 0, None, b"0", ())]), 1, last_offset_delta=9)]) as broker:
        assert values(broker, 5, 10) == []


def test_what_comes_before_the_asked_offset_is_left_out() -> None:
    with ScriptedBroker(log()) as broker:
        whole = b"".join(bytes(batch.buffer) for batch in broker.batches)
        broker.script = lambda request: (
            broker.fetch(request, records=whole) if isinstance(request, FetchRequest) else None
        )
        assert values(broker, 5, 10) == [5, 6, 7, 8, 9]


def test_records_that_are_not_committed_yet_are_waited_for() -> None:
    with ScriptedBroker(log()) as broker:
        empty = [b"", b"", None]
        broker.script = lambda request: (
            broker.fetch(request, records=empty.pop(0)) if isinstance(request, FetchRequest) and empty else None
        )
        assert values(broker) == list(range(10))


def test_patience_ends_with_one_sentence() -> None:
    with ScriptedBroker(log(4)) as broker, pytest.raises(ClientTimeoutError) as failed:
        values(broker, 0, 5)
    assert "reading t-0 from offset 4 on failed for 1 s, at last because" in str(failed.value)
    assert "shows the offsets before 4 only" in str(failed.value)


# --- versions ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(FetchRequest.versions[0], FetchRequest.versions[1] + 1))
def test_every_version_of_fetch_will_do(version: int) -> None:
    with ScriptedBroker(log()) as broker:
        broker.versions[FetchRequest.api] = (4, version)
        assert values(broker) == list(range(10))
        request, used = broker.asked_for(FetchRequest)[0]
        assert used == version
        assert request.topics[0].topic == ("t" if version < 13 else "")


def test_an_old_broker_is_greeted_again_in_version_0() -> None:
    with ScriptedBroker(log()) as broker:
        broker.versions[ApiVersionsRequest.api] = (0, 0)
        assert values(broker) == list(range(10))


def test_a_broker_that_cannot_fetch_is_one_sentence() -> None:
    with ScriptedBroker(log()) as broker:
        broker.versions[FetchRequest.api] = (0, 3)
        with pytest.raises(KafkaError, match="broker 1 cannot be fetched from: the server does not speak"):
            values(broker)


# --- leaders that move, connections that break ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    ],
)
def test_an_answer_that_may_be_better_later_is_asked_for_again_with_fresh_metadata(code: ErrorCode) -> None:
    with ScriptedBroker(log()) as broker:
        kinds: list[type] = []

        def refuse(request: Any) -> Any:
            """Refuse until a refusal was followed by a question about the metadata."""
            kinds.append(type(request))
            first = kinds.index(FetchRequest) if FetchRequest in kinds else len(kinds)
            if isinstance(request, FetchRequest) and MetadataRequest not in kinds[first:]:
                return broker.fetch(request, records=b"", error_code=code)
            return None

        broker.script = refuse
        assert values(broker) == list(range(10))
        assert kinds.count(FetchRequest) > 1


def test_a_partition_is_read_where_its_leader_is() -> None:
    with ScriptedBroker(log()) as leader, ScriptedBroker(log()) as other:
        other.script = lambda request: leader.usual(request) if isinstance(request, MetadataRequest) else None
        assert values(other) == list(range(10))
        assert not other.asked_for(FetchRequest)


def test_a_leader_that_moves_in_the_middle_is_followed() -> None:
    batches = log()
    with ScriptedBroker(batches) as old, ScriptedBroker(batches) as new:
        first_half = b"".join(bytes(batch.buffer) for batch in batches[:2])

        def serve_the_beginning(request: Any) -> Any:
            if isinstance(request, FetchRequest) and fetch_offset(request) == 0:
                return old.fetch(request, records=first_half)
            if isinstance(request, FetchRequest):
                return old.fetch(request, records=b"", error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
            moved = isinstance(request, MetadataRequest) and old.asked_for(FetchRequest)
            return new.usual(request) if moved else None

        old.script = serve_the_beginning
        assert values(old) == list(range(10))
        assert [fetch_offset(request) for request, _ in new.asked_for(FetchRequest)] == [4]


@pytest.mark.parametrize("breaks", [0, 1, 2])
def test_a_connection_that_breaks_is_opened_anew_and_no_record_comes_twice(breaks: int) -> None:
    batches = log()
    with ScriptedBroker(batches) as broker:
        left = [CLOSE] * breaks

        def one_batch_then_break(request: Any) -> Any:
            if not isinstance(request, FetchRequest):
                return None
            if fetch_offset(request) > 2 and left:
                return left.pop()
            found = next(batch for batch in batches if batch.next_offset > fetch_offset(request))
            return broker.fetch(request, records=bytes(found.buffer))

        broker.script = one_batch_then_break
        assert values(broker) == list(range(10))


@pytest.mark.parametrize("frame", [b"\0", bytes(3), bytes(100), b"\xff" * 60, b"HTTP/1.1 400 Bad Request\r\n\r\n"])
def test_an_answer_that_cannot_be_read_breaks_the_connection(frame: bytes) -> None:
    with ScriptedBroker(log(), script=once(frame)) as broker:
        assert values(broker) == list(range(10))


@pytest.mark.parametrize("when", [ApiVersionsRequest, MetadataRequest])
@pytest.mark.parametrize("frame", [b"\0", bytes(3), b"\xff" * 60])
def test_so_does_one_in_the_beginning(frame: bytes, when: type) -> None:
    with ScriptedBroker(log(), script=once(frame, of=when)) as broker:
        assert values(broker) == list(range(10))


def test_an_answer_about_another_partition_is_not_taken() -> None:
    with ScriptedBroker(log()) as broker:
        first = once(True)
        broker.script = lambda request: broker.fetch(request, partition_index=1) if first(request) else None
        assert values(broker) == list(range(10))


def test_nobody_at_the_address_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "FIRST_CONTACT_S", 0.1)
    with ScriptedBroker() as broker:
        gone = options(broker)
    with Brokers(gone.consumer, gone.patience_ms) as brokers, pytest.raises(KafkaError) as failed:
        brokers.partitions(["t"])
    assert f"no broker answers on {broker.address} (Connection refused)" in str(failed.value)


@pytest.mark.parametrize("host", ["a..b", "a" * 64 + ".example"])
def test_neither_is_a_name_that_no_host_can_have(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "FIRST_CONTACT_S", 0.1)
    with ScriptedBroker() as broker:
        said = options(broker, kafka__bootstrap__servers=f"{host}:9092")
    with Brokers(said.consumer, said.patience_ms) as brokers, pytest.raises(KafkaError) as failed:
        brokers.partitions(["t"])
    assert f"no broker answers on {host}:9092 (" in str(failed.value)


def test_a_leader_that_cannot_be_reached_is_named() -> None:
    """The usual mistake: the address to begin with is right, and the one that brokers advertise is not."""
    with ScriptedBroker() as gone:
        pass
    with ScriptedBroker(log()) as broker, pytest.raises(ClientTimeoutError) as failed:
        broker.script = lambda request: gone.usual(request) if isinstance(request, MetadataRequest) else None
        values(broker)
    assert f"at last because broker {gone.address} cannot be reached (Connection refused)" in str(failed.value)


def test_the_second_address_is_asked_if_the_first_is_silent() -> None:
    with ScriptedBroker() as gone:
        pass
    with ScriptedBroker(log()) as broker:
        assert values(broker, kafka__bootstrap__servers=f"{gone.address},{broker.address}") == list(range(10))


def test_a_topic_that_does_not_exist_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "UNKNOWN_TOPIC_S", 0.1)
    with ScriptedBroker() as broker:
        said = options(broker)
        with Brokers(said.consumer, said.patience_ms) as brokers, pytest.raises(KafkaError) as failed:
            brokers.partitions(["nowhere"])
    assert f"there is no topic 'nowhere' on {broker.address}" in str(failed.value)


def test_a_partition_that_has_no_leader_is_waited_for() -> None:
    with ScriptedBroker(log()) as broker:
        leaderless = [-1, -1]

        def elect_later(request: Any) -> Any:
            if isinstance(request, MetadataRequest) and leaderless:
                return broker.metadata(request, leader=leaderless.pop())
            return None

        broker.script = elect_later
        assert values(broker) == list(range(10))


def test_a_broker_that_asks_for_a_pause_is_given_one_on_the_same_connection() -> None:
    """A client whose quota is used up gets an answer that is empty, and says for how long nothing more will come."""
    with ScriptedBroker(log()) as broker:
        came: list[float] = []

        def throttle(request: Any) -> Any:
            if not isinstance(request, FetchRequest):
                return None
            came.append(time.monotonic())
            return FetchResponse(throttle_time_ms=200) if len(came) < 3 else None

        broker.script = throttle
        assert values(broker) == list(range(10))
        assert len(broker.asked_for(ApiVersionsRequest)) == 2, "one connection to find the leader, and one to fetch"
    assert all(later - earlier > 0.195 for earlier, later in itertools.pairwise(came))
    assert len(came) == 3


def test_a_quota_that_stays_used_up_is_one_sentence() -> None:
    with ScriptedBroker(log()) as broker, pytest.raises(ClientTimeoutError, match="at last because the quota of this"):
        broker.script = lambda request: (
            FetchResponse(throttle_time_ms=100) if isinstance(request, FetchRequest) else None
        )
        values(broker)


# --- what is not right ------------------------------------------------------------------------------------------------


def damaged(batch: RecordBatch) -> RecordBatch:
    """The batch with one bit turned in its last value; its checksum is that of before."""
    octets = bytearray(batch.buffer)
    octets[-2] ^= 1
    return RecordBatch(memoryview(octets))


def test_a_batch_that_fails_its_checksum_is_refused() -> None:
    batches = log()
    batches[2] = damaged(batches[2])
    with ScriptedBroker(batches) as broker:
        assert values(broker, 0, 4) == [0, 1, 2, 3]
        with pytest.raises(CorruptRecordError, match=r"t-0: the batch at offset 4 fails its checksum"):
            values(broker)
        assert values(broker, kafka__check__crcs="false") == [0, 1, 2, 3, 4, 4, 6, 7, 8, 9]


def test_a_first_batch_that_is_cut_by_the_size_of_the_fetch_is_one_sentence() -> None:
    """Kafka sends a first batch whole since 0.10.1; others may not."""
    with ScriptedBroker(log()) as broker:
        broker.script = lambda request: (
            broker.fetch(request, records=bytes(broker.batches[0].buffer)[:70])
            if isinstance(request, FetchRequest)
            else None
        )
        with pytest.raises(KafkaError, match=r"a batch is larger than kafka\.max\.partition\.fetch\.bytes"):
            values(broker, kafka__max__partition__fetch__bytes="70")
        with pytest.raises(CorruptRecordError, match="t-0 at offset 0: what the broker sent does not go on from there"):
            values(broker)


def test_an_answer_from_another_part_of_the_log_does_not_turn_in_circles() -> None:
    with ScriptedBroker(log()) as broker:
        broker.script = lambda request: (
            broker.fetch(request, records=bytes(broker.batches[0].buffer))
            if isinstance(request, FetchRequest)
            else None
        )
        with pytest.raises(CorruptRecordError, match="t-0 at offset 2"):
            values(broker)


def out_of_range(broker: ScriptedBroker) -> None:
    """The log begins at its first batch: before, and behind its end, is nothing."""
    first, end = broker.batches[0].base_offset, broker.batches[-1].next_offset

    def script(request: Any) -> Any:
        if isinstance(request, FetchRequest) and not first <= fetch_offset(request) <= end:
            return broker.fetch(request, records=b"", error_code=ErrorCode.OFFSET_OUT_OF_RANGE)
        return None

    broker.script = script


def test_records_that_were_deleted_meanwhile_are_an_error() -> None:
    with ScriptedBroker(log(6, first=4)) as broker:
        out_of_range(broker)
        with pytest.raises(KafkaError) as failed:
            values(broker)
    assert "t-0 has the offsets from 4 to 10, and no longer offset 0" in str(failed.value)
    assert "failOnDataLoss=false" in str(failed.value)


@pytest.mark.parametrize(
    ("start", "end", "found"), [(0, 10, [4, 5, 6, 7, 8, 9]), (0, 3, []), (12, 14, []), (3, 6, [4, 5])]
)
def test_or_they_are_left_out(start: int, end: int, found: list[int]) -> None:
    with ScriptedBroker(log(6, first=4)) as broker:
        out_of_range(broker)
        assert values(broker, start, end, failOnDataLoss="false") == found


def test_a_topic_that_was_deleted_is_an_error_or_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "UNKNOWN_TOPIC_S", 0.05)

    def deleted(request: Any) -> Any:
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return broker.metadata(request, error=unknown) if isinstance(request, MetadataRequest) else None

    with ScriptedBroker(log(), script=deleted) as broker:
        with pytest.raises(KafkaError, match="there is no topic 't'"):
            values(broker)
        assert values(broker, failOnDataLoss="false") == []


def test_deleted_records_are_left_out_of_a_batch_that_is_partly_there() -> None:
    """DeleteRecords moves the log's first offset into a batch, and a broker sends whole batches."""

    def script(request: Any) -> Any:
        if isinstance(request, FetchRequest) and fetch_offset(request) < 5:
            return broker.fetch(request, records=b"", error_code=ErrorCode.OFFSET_OUT_OF_RANGE)
        return broker.offsets(request, first=5) if isinstance(request, ListOffsetsRequest) else None

    with ScriptedBroker(log(8, per_batch=4), script=script) as broker:
        assert values(broker, 2, 8, failOnDataLoss="false") == [5, 6, 7]


def test_of_a_log_that_has_become_shorter_as_much_is_read_as_there_is() -> None:
    """A topic that was deleted and made again while it was read: its end is no error of its broker, but waited for."""
    with ScriptedBroker(log(4)) as broker:
        assert values(broker, 0, 6, failOnDataLoss="false") == [0, 1, 2, 3]
        assert values(broker, 5, 6, failOnDataLoss="false") == []


def test_but_a_broker_that_answers_no_more_is_an_error_all_the_same() -> None:
    """Also where it has said before that there is nothing."""
    with ScriptedBroker(log(4)) as broker, pytest.raises(ClientTimeoutError):
        nothing = once(broker.fetch(FETCH_OF_4, records=b""))
        broker.script = lambda request: (
            nothing(request) or CLOSE if isinstance(request, FetchRequest) and fetch_offset(request) else None
        )
        values(broker, 0, 6, failOnDataLoss="false")


# --- transactions -----------------------------------------------------------------------------------------------------


def history() -> tuple[list[RecordBatch], list[tuple[int, int]]]:
    """Two producers whose transactions lie in one another, and one without: (batches, (producer, first offset) of those
    that were aborted). Offsets 2, 3 and 8, 9 are aborted; 4, 7, 10, 13 and 16 are markers."""
    batches = [
        written(1, 0),
        written(2, 2),
        ended(1, 4, True),
        written(1, 5),
        ended(2, 7, False),
        written(2, 8),
        ended(2, 10, False),
        written(2, 11),
        ended(1, 13, True),
        raw_batch(encoded([(0, 0, None, b"14", ()), (1, 0, None, b"15", ())]), 2, 14),
        ended(2, 16, True),
    ]
    return batches, [(2, 2), (2, 8)]


COMMITTED = [0, 1, 5, 6, 11, 12, 14, 15]
WRITTEN = [0, 1, 2, 3, 5, 6, 8, 9, 11, 12, 14, 15]


def read_history(start: int, end: int, isolation_level: str) -> list[int]:
    """The answer's list holds the transactions that overlap what was fetched."""
    batches, aborted = history()
    ends = {2: 7, 8: 10}

    def with_aborted(request: Any) -> Any:
        if not isinstance(request, FetchRequest):
            return None
        listed = [
            FetchResponse.Topic.Partition.AbortedTransaction(producer_id=producer, first_offset=first)
            for producer, first in reversed(aborted)
            if ends[first] >= fetch_offset(request)
        ]
        return broker.fetch(request, aborted_transactions=listed if request.isolation_level else None)

    with ScriptedBroker(batches, script=with_aborted) as broker:
        return values(broker, start, end, kafka__isolation__level=isolation_level)


@pytest.mark.parametrize("start", range(17))
def test_a_reader_of_committed_data_sees_no_aborted_record_wherever_it_begins(start: int) -> None:
    assert read_history(start, 17, "read_committed") == [offset for offset in COMMITTED if offset >= start]


def test_a_reader_of_everything_sees_aborted_records_but_no_marker() -> None:
    assert read_history(0, 17, "read_uncommitted") == WRITTEN
    assert read_history(4, 5, "read_uncommitted") == []
