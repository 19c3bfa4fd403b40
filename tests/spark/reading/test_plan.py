"""The plan: which offsets are read, resolved against the brokers, and cut into ranges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft.common.errors import ConfigError, ErrorCode, KafkaError
from pykraft.common.types import TopicPartition
from pykraft.protocol.messages.cluster import MetadataRequest
from pykraft.protocol.messages.data import FetchRequest, ListOffsetsRequest, ListOffsetsResponse
from pykraft.spark import brokers as cluster
from pykraft.spark.options import read_options
from pykraft.spark.reading.fetch import OffsetRange
from pykraft.spark.reading.plan import cut, plan
from tests.spark.batches import encoded, raw_batch
from tests.spark.scripted_broker import TOPIC_ID, ScriptedBroker

# --- cutting ----------------------------------------------------------------------------------------------------------


def ranges(*sizes: int) -> list[OffsetRange]:
    return [OffsetRange(TopicPartition("t", number), 100, 100 + size) for number, size in enumerate(sizes)]


def sizes(found: Sequence[OffsetRange]) -> list[list[int]]:
    """The lengths of the pieces of each partition."""
    by_partition: dict[TopicPartition, list[int]] = {}
    for offsets in found:
        by_partition.setdefault(offsets.partition, []).append(offsets.size)
    return list(by_partition.values())


@pytest.mark.parametrize(
    ("lengths", "min_partitions", "max_records", "expected"),
    [
        ((5, 0, 7), 0, 0, [[5], [7]]),
        ((), 9, 9, []),
        ((0,), 3, 0, []),
        ((5, 7), 2, 0, [[5], [7]]),
        ((1,), 3, 0, [[1]]),
        ((9,), 3, 0, [[3, 3, 3]]),
        ((10,), 4, 0, [[2, 2, 3, 3]]),
        ((100, 1), 3, 0, [[50, 50], [1]]),
        ((40, 20, 20), 4, 0, [[20, 20], [20], [20]]),
        ((10, 3), 0, 4, [[3, 3, 4], [3]]),
        ((8,), 0, 4, [[4, 4]]),
        ((3, 1), (1 << 31) - 1, 0, [[1, 1, 1], [1]]),
        ((100, 10), 8, 30, [[12, 13, 12, 13, 12, 13, 12, 13], [10]]),
    ],
)
def test_long_ranges_are_cut_in_proportion(
    lengths: Sequence[int], min_partitions: int, max_records: int, expected: list[list[int]]
) -> None:
    found = cut(ranges(*lengths), min_partitions, max_records)
    assert [sorted(parts) for parts in sizes(found)] == [sorted(parts) for parts in expected]


@given(
    lengths=st.lists(st.integers(0, 1 << 40), max_size=12),
    min_partitions=st.integers(0, 50),
    max_records=st.just(0) | st.integers(1 << 34, 1 << 41),
)
def test_cutting_neither_loses_nor_doubles_an_offset(lengths: list[int], min_partitions: int, max_records: int) -> None:
    whole = ranges(*lengths)
    found = cut(whole, min_partitions, max_records)
    for offsets in whole:
        parts = [part for part in found if part.partition == offsets.partition]
        edges = [offsets.start, *(part.end for part in parts)]
        assert [part.start for part in parts] == edges[:-1]
        assert edges[-1] == (offsets.end if parts else offsets.start)
        assert all(part.size > 0 and part.size <= (max_records or part.size) for part in parts)
        assert bool(parts) == bool(offsets.size)


@given(lengths=st.lists(st.integers(1000, 1 << 30), min_size=1, max_size=12), min_partitions=st.integers(1, 50))
def test_there_are_about_as_many_pieces_as_were_asked_for(lengths: list[int], min_partitions: int) -> None:
    found = cut(ranges(*lengths), min_partitions)
    assert abs(len(found) - max(min_partitions, len(lengths))) <= len(lengths)


# --- resolving --------------------------------------------------------------------------------------------------------


def broker(partitions: int = 2, first: int = 10, end: int = 30) -> ScriptedBroker:
    """Each partition has the offsets from `first` to `end`."""
    records = encoded((n, 0, None, b"", ()) for n in range(end - first))
    return ScriptedBroker([raw_batch(records, end - first, first)], partitions=partitions)


def planned(peer: ScriptedBroker, **said: str) -> list[tuple[int, int, int]]:
    """The ranges as (partition, start, end)."""
    patience = {"kafka.default.api.timeout.ms": "1000", "kafka.retry.backoff.ms": "1"}
    found = plan(read_options({"kafka.bootstrap.servers": peer.address, **patience, **said}))
    assert {offsets.partition.topic for offsets in found} <= {"t"}
    return [(offsets.partition.partition, offsets.start, offsets.end) for offsets in found]


BOTH = [(0, 10, 30), (1, 10, 30)]


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"subscribe": "t"}, BOTH),
        ({"subscribe": "t,t"}, BOTH),
        ({"subscribePattern": "^t$"}, BOTH),
        ({"subscribePattern": "[s-u]"}, BOTH),
        ({"subscribePattern": "x"}, []),
        ({"assign": '{"t": [1]}'}, [(1, 10, 30)]),
        ({"subscribe": "t", "startingOffsets": '{"t": {"0": 12, "1": -2}}'}, [(0, 12, 30), (1, 10, 30)]),
        ({"subscribe": "t", "endingOffsets": '{"t": {"0": 12, "1": -1}}'}, [(0, 10, 12), (1, 10, 30)]),
        ({"assign": '{"t": [0]}', "startingOffsets": '{"t": {"0": 30}}'}, []),
        ({"assign": '{"t": [0]}', "minPartitions": "4"}, [(0, 10, 15), (0, 15, 20), (0, 20, 25), (0, 25, 30)]),
        ({"assign": '{"t": [0]}', "startingOffsets": '{"t": {"0": 3}}', "failOnDataLoss": "false"}, [(0, 10, 30)]),
        ({"assign": '{"t": [0]}', "endingOffsets": '{"t": {"0": 99}}', "failOnDataLoss": "false"}, [(0, 10, 30)]),
        ({"assign": '{"t": [0]}', "startingOffsets": '{"t": {"0": 99}}', "failOnDataLoss": "false"}, []),
    ],
)
def test_both_ends_are_fixed_when_the_query_is_planned(said: dict[str, str], expected: list[Any]) -> None:
    with broker() as peer:
        assert planned(peer, **said) == expected
        assert not peer.asked_for(FetchRequest), "records are not the driver's business"


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ({"assign": '{"t": [0, 7]}'}, "assign names t-7, which does not exist"),
        (
            {"subscribe": "t", "startingOffsets": '{"t": {"0": 12}}'},
            "startingOffsets does not name t-1; it must name exactly the partitions that are read: t-0, t-1",
        ),
        ({"assign": '{"t": [0]}', "endingOffsets": '{"t": {"0": 12, "1": 12}}'}, "endingOffsets names t-1;"),
        (
            {"assign": '{"t": [0]}', "startingOffsets": '{"t": {"0": 3}}'},
            "startingOffsets asks for offset 3 of t-0, which has the offsets from 10 to 30 (failOnDataLoss=false",
        ),
        ({"assign": '{"t": [0]}', "endingOffsets": '{"t": {"0": 31}}'}, "endingOffsets asks for offset 31 of t-0"),
        ({"subscribe": "t,u"}, "there is no topic 'u' on 127.0.0.1:"),
        ({"subscribe": "t", "startingTimestamp": "5"}, "startingTimestamp: t-0 has no record as young as 5"),
    ],
)
def test_what_does_not_fit_the_topic_is_one_sentence(
    said: dict[str, str], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "UNKNOWN_TOPIC_S", 0.1)
    with broker() as peer, pytest.raises((ConfigError, KafkaError)) as refused:
        planned(peer, **said)
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_range_of_a_plan_is_of_the_topic_that_was_there_and_of_no_later_one_of_that_name() -> None:
    with broker() as peer:
        options = read_options({"kafka.bootstrap.servers": peer.address, "subscribe": "t"})
        assert {offsets.topic_id for offsets in plan(options)} == {TOPIC_ID}


def test_an_internal_topic_is_read_if_it_is_named_but_no_pattern_finds_it() -> None:
    def internal(request: Any) -> Any:
        if not isinstance(request, MetadataRequest):
            return None
        answer = peer.metadata(request)
        for topic in answer.topics:
            topic.is_internal = True
        return answer

    with broker() as peer:
        peer.script = internal
        assert planned(peer, subscribe="t") == BOTH
        assert planned(peer, subscribePattern="t") == []


def test_times_become_offsets() -> None:
    """Offset n has the time 1000 + n; where none is as young, the end counts for an end."""

    def by_time(request: Any) -> Any:
        if not isinstance(request, ListOffsetsRequest) or request.topics[0].partitions[0].timestamp < 0:
            return None
        found = [
            ListOffsetsResponse.Topic.Partition(
                partition_index=part.partition_index,
                offset=part.timestamp - 1000 if part.timestamp < 1030 else -1,
            )
            for part in request.topics[0].partitions
        ]
        return ListOffsetsResponse(topics=[ListOffsetsResponse.Topic(name="t", partitions=found)])

    with broker() as peer:
        peer.script = by_time
        assert planned(peer, subscribe="t", startingTimestamp="1020") == [(0, 20, 30), (1, 20, 30)]
        assert planned(peer, subscribe="t", endingTimestamp="1020") == [(0, 10, 20), (1, 10, 20)]
        assert planned(peer, subscribe="t", endingTimestamp="2000") == BOTH
        each = '{"t": {"0": 1012, "1": 1029}}'
        assert planned(peer, subscribe="t", startingOffsetsByTimestamp=each) == [(0, 12, 30), (1, 29, 30)]
        late = {"startingTimestamp": "2000", "startingOffsetsByTimestampStrategy": "latest"}
        assert planned(peer, subscribe="t", **late) == []


def test_the_isolation_level_says_what_the_end_is() -> None:
    with broker() as peer:
        planned(peer, subscribe="t", **{"kafka.isolation.level": "read_committed"})
        assert {request.isolation_level for request, _ in peer.asked_for(ListOffsetsRequest)} == {1}


def test_partitions_that_have_no_leader_yet_are_waited_for() -> None:
    with broker() as peer:
        refusals = [ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        peer.script = lambda request: (
            peer.metadata(request, error=refusals.pop()) if isinstance(request, MetadataRequest) and refusals else None
        )
        assert planned(peer, subscribe="t") == BOTH


def test_an_error_that_will_not_pass_is_not_waited_for() -> None:
    with broker() as peer:
        peer.script = lambda request: (
            peer.metadata(request, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            if isinstance(request, MetadataRequest)
            else None
        )
        with pytest.raises(KafkaError, match="topic 't': not allowed on this topic"):
            planned(peer, subscribe="t")
        assert len(peer.asked_for(MetadataRequest)) == 1
