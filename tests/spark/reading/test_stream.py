"""The plan of a stream, without Spark: offsets as JSON, how far a batch goes, and what was lost."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft.common.errors import ConfigError, ErrorCode, KafkaError
from pykraft.common.types import TopicPartition, Uuid
from pykraft.protocol.messages.cluster import MetadataRequest, MetadataResponse
from pykraft.protocol.messages.data import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    FetchRequest,
    ListOffsetsRequest,
    ListOffsetsResponse,
)
from pykraft.spark import brokers as cluster
from pykraft.spark.options import stream_options
from pykraft.spark.reading.fetch import OffsetRange, PartitionFetch
from pykraft.spark.reading.offsets import OURS, StreamOffset
from pykraft.spark.reading.stream import StreamPlanner, rate_limited
from tests.spark.reading.test_fetch import log
from tests.spark.scripted_broker import T0, TOPIC_ID, ScriptedBroker

T1, T2, U0 = TopicPartition("t", 1), TopicPartition("t", 2), TopicPartition("u", 0)
OTHER_ID = Uuid(bytes(range(16, 32)))


class Topics:
    """What the broker says there is: the offsets [first, end) of each partition, and the ids of the topics. A record
    at offset n has the timestamp 1000 + n. `later` is what it says from the second look on."""

    def __init__(self, offsets: dict[TopicPartition, tuple[int, int]], ids: dict[str, Uuid] | None = None) -> None:
        self.offsets = offsets
        self.ids = ids or {}
        self.later: Topics | None = None
        self.broker: ScriptedBroker
        self._looks = 0

    def __call__(self, request: Any) -> Any:
        match request:
            case MetadataRequest():
                self._looks += 1
                if self.later is not None and self._looks > 1:
                    self.offsets, self.ids = self.later.offsets, self.later.ids
                return self._metadata(request)
            case ListOffsetsRequest():
                return self._list_offsets(request)
        return None

    def _metadata(self, request: MetadataRequest) -> MetadataResponse:
        existing = {partition.topic for partition in self.offsets}
        names = sorted(existing) if request.topics is None else [topic.name or "" for topic in request.topics]
        return MetadataResponse(
            brokers=[MetadataResponse.Broker(node_id=1, host=self.broker.host, port=self.broker.port)],
            topics=[
                MetadataResponse.Topic(
                    name=name,
                    topic_id=self.ids.get(name, TOPIC_ID),
                    error_code=0 if name in existing else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    partitions=[
                        MetadataResponse.Topic.Partition(partition_index=each.partition, leader_id=1, leader_epoch=5)
                        for each in self.offsets
                        if each.topic == name
                    ],
                )
                for name in names
            ],
        )

    def _list_offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        def found(partition: TopicPartition, mark: int) -> int:
            if partition not in self.offsets:
                return -1
            first, end = self.offsets[partition]
            named = {EARLIEST_TIMESTAMP: first, LATEST_TIMESTAMP: end}
            return named.get(mark, max(first, mark - 1000) if mark - 1000 < end else -1)

        return ListOffsetsResponse(
            topics=[
                ListOffsetsResponse.Topic(
                    name=topic.name,
                    partitions=[
                        ListOffsetsResponse.Topic.Partition(
                            partition_index=part.partition_index,
                            error_code=self._error(TopicPartition(topic.name, part.partition_index)),
                            offset=found(TopicPartition(topic.name, part.partition_index), part.timestamp),
                        )
                        for part in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    def _error(self, partition: TopicPartition) -> ErrorCode:
        return ErrorCode.NONE if partition in self.offsets else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class Rig:
    """A planner whose cluster is `topics`, which a test may change."""

    def __init__(self, topics: Topics, **said: str) -> None:
        self.topics = topics
        self.broker = ScriptedBroker(script=topics)
        topics.broker = self.broker
        what = {} if {"subscribePattern", "assign"} & said.keys() else {"subscribe": "t"}
        patience = {"kafka.default.api.timeout.ms": "1000", "kafka.retry.backoff.ms": "1"}
        self.said = {"kafka.bootstrap.servers": self.broker.address, **patience, **what, **said}
        self.slept: list[float] = []
        self.planner = StreamPlanner(stream_options(self.said), self.slept.append)

    def __enter__(self) -> Rig:
        return self

    def __exit__(self, *error: Any) -> None:
        self.planner.close()
        self.broker.__exit__(None, None, None)

    def batch(self, start: StreamOffset, limit: int | None = None) -> tuple[StreamOffset, list[tuple[str, int, int]]]:
        """The end of the next batch, and its ranges as (partition, first, end). Both offsets go through JSON, as in
        Spark."""
        end = again(self.planner.latest_offset(again(start), limit))
        return end, [(str(each.partition), each.start, each.end) for each in self.planner.ranges(again(start), end)]


def again(offset: StreamOffset) -> StreamOffset:
    return StreamOffset.of_json(json.loads(json.dumps(offset.as_json())))


@pytest.fixture(autouse=True)
def _little_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "UNKNOWN_TOPIC_S", 0.05)


def at(offsets: dict[TopicPartition, int], topic_id: Uuid = TOPIC_ID) -> StreamOffset:
    return StreamOffset(offsets, {partition.topic: topic_id for partition in offsets})


# --- offsets as JSON --------------------------------------------------------------------------------------------------

OFFSETS = st.dictionaries(
    st.builds(TopicPartition, st.sampled_from(["a", "b.c", "D_e-f"]), st.integers(0, 11)), st.integers(0, 1 << 62)
)
IDS = st.dictionaries(st.sampled_from(["a", "b.c"]), st.binary(min_size=16, max_size=16).map(Uuid))


@given(st.builds(StreamOffset, OFFSETS, IDS, st.none() | OFFSETS))
def test_an_offset_survives_json(offset: StreamOffset) -> None:
    assert again(offset) == offset
    shuffled = StreamOffset(dict(reversed(offset.offsets.items())), offset.topic_ids, offset.began)
    assert json.dumps(shuffled.as_json()) == json.dumps(offset.as_json()), "Spark compares offsets as text"


def test_an_offset_is_that_of_sparks_own_source_and_one_key_more() -> None:
    offset = StreamOffset({T1: 5, T0: 3}, {"t": TOPIC_ID}, {T0: 0})
    found = offset.as_json()
    ours = found.pop(OURS)
    assert json.dumps(found, separators=(",", ":")) == '{"t":{"0":3,"1":5}}'
    assert ours == {"topicIds": {"t": "AQIDBAUGBwgJCgsMDQ4PEA"}, "began": {"t": {"0": 0}}}
    assert StreamOffset.of_json(json.loads('{"t":{"0":3,"1":5}}')) == StreamOffset({T0: 3, T1: 5})


@pytest.mark.parametrize(
    "text",
    ['{"index": 3}', "[]", '{"t": {"0": -1}}', '{"t": {"x": 1}}', '{"@pykraft": {"topicIds": {"t": "no"}}}', "3"],
)
def test_an_offset_of_another_source_is_one_sentence(text: str) -> None:
    with pytest.raises(ConfigError, match="is not one of this source, like") as refused:
        StreamOffset.of_json(json.loads(text))
    assert "\n" not in str(refused.value)


# --- where a query begins ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({}, {T0: 30, T1: 40}),
        ({"startingOffsets": "latest"}, {T0: 30, T1: 40}),
        ({"startingOffsets": "earliest"}, {T0: 10, T1: 0}),
        ({"startingOffsets": '{"t": {"0": -2, "1": -1}}'}, {T0: 10, T1: 40}),
        ({"startingOffsets": '{"t": {"0": 12, "1": 40}}'}, {T0: 12, T1: 40}),
        ({"startingOffsets": '{"t": {"0": 3, "1": 99}}', "failOnDataLoss": "false"}, {T0: 10, T1: 40}),
        ({"startingTimestamp": "1020", "startingOffsets": "earliest"}, {T0: 20, T1: 20}),
        ({"startingOffsetsByTimestamp": '{"t": {"0": 1011, "1": 1000}}'}, {T0: 11, T1: 0}),
        ({"startingTimestamp": "1035", "startingOffsetsByTimestampStrategy": "latest"}, {T0: 30, T1: 35}),
        ({"assign": '{"t": [1]}'}, {T1: 40}),
        ({"subscribePattern": "nothing"}, {}),
    ],
)
def test_a_query_begins_where_the_options_say(said: dict[str, str], expected: dict[TopicPartition, int]) -> None:
    with Rig(Topics({T0: (10, 30), T1: (0, 40)}), **said) as rig:
        first = rig.planner.initial_offset()
        assert first.offsets == expected and first.is_beginning
        rig.topics.offsets = {T0: (10, 60), T1: (0, 60)}
        assert rig.planner.initial_offset() == first, "Spark asks twice"


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ({"startingOffsets": '{"t": {"0": 3, "1": 1}}'}, "startingOffsets asks for offset 3 of t-0, which has"),
        ({"startingOffsets": '{"t": {"0": 12}}'}, "startingOffsets does not name t-1; it must name exactly"),
        ({"startingTimestamp": "1035"}, "startingTimestamp: t-0 has no record as young as 1035"),
        ({"subscribe": "t,nowhere"}, "there is no topic 'nowhere' on 127.0.0.1:"),
    ],
)
def test_a_beginning_that_does_not_exist_is_one_sentence(said: dict[str, str], sentence: str) -> None:
    with Rig(Topics({T0: (10, 30), T1: (0, 40)}), **said) as rig:
        with pytest.raises((ConfigError, KafkaError)) as refused:
            rig.planner.initial_offset()
        assert sentence in str(refused.value) and "\n" not in str(refused.value)


# --- batches ----------------------------------------------------------------------------------------------------------


def test_each_batch_reads_what_came_since_the_last_one() -> None:
    with Rig(Topics({T0: (0, 3), T1: (0, 0)}), startingOffsets="earliest") as rig:
        end, ranges = rig.batch(rig.planner.initial_offset())
        assert ranges == [("t-0", 0, 3)]
        rig.topics.offsets = {T0: (0, 5), T1: (0, 2)}
        end, ranges = rig.batch(end)
        assert ranges == [("t-0", 3, 5), ("t-1", 0, 2)]
        assert not rig.broker.asked_for(FetchRequest), "records are not the driver's business"


def test_an_offset_without_news_is_the_same_json() -> None:
    """Or Spark would run a batch without rows for it."""
    with Rig(Topics({T0: (0, 3)}), startingOffsets="earliest") as rig:
        for start in (rig.planner.initial_offset(), at({T0: 3})):
            end, _ = rig.batch(start)
            assert json.dumps(rig.planner.latest_offset(end, None).as_json()) == json.dumps(end.as_json())
        empty = Rig(Topics({T0: (0, 0)}))
        with empty:
            start = empty.planner.initial_offset()
            assert empty.batch(start) == (start, [])


def test_new_partitions_are_read_from_their_first_offset() -> None:
    with Rig(Topics({T0: (0, 3)})) as rig:
        start = rig.planner.initial_offset()
        rig.topics.offsets = {T0: (0, 4), T1: (0, 7), T2: (0, 0)}
        end, ranges = rig.batch(start)
        assert ranges == [("t-0", 3, 4), ("t-1", 0, 7)]
        assert end.offsets == {T0: 4, T1: 7, T2: 0}


def test_new_topics_of_a_pattern_are_read_from_their_first_offset() -> None:
    with Rig(Topics({T0: (0, 3)}), subscribePattern="^[tu]$") as rig:
        start = rig.planner.initial_offset()
        rig.topics.offsets = {T0: (0, 3), U0: (0, 2), TopicPartition("v", 0): (0, 9)}
        end, ranges = rig.batch(start)
        assert ranges == [("u-0", 0, 2)]
        assert set(end.topic_ids) == {"t", "u"}


def test_a_topic_of_a_pattern_that_is_deleted_after_it_was_listed_is_forgotten() -> None:
    """It was not read yet, so there is nothing to lose."""
    topics = Topics({T0: (0, 3), U0: (0, 0)})

    def deletes(request: Any) -> Any:
        if isinstance(request, ListOffsetsRequest):
            topics.offsets = {T0: (0, 3)}
        return topics(request)

    with Rig(topics, subscribePattern=".", startingOffsets="earliest") as rig:
        rig.broker.script = deletes
        end, ranges = rig.batch(at({T0: 1}))
        assert (set(end.offsets), ranges) == ({T0}, [("t-0", 1, 3)])


def test_a_first_batch_that_is_planned_again_begins_where_it_began() -> None:
    """Spark writes down where a batch ends only. When it asks again for the latest offset, there is a later one."""
    with Rig(Topics({T0: (0, 3)})) as rig:
        start = rig.planner.initial_offset()
        rig.topics.offsets = {T0: (0, 9)}
        end, ranges = rig.batch(start)
        assert ranges == [("t-0", 3, 9)]
    with Rig(Topics({T0: (0, 20)})) as restarted:
        start = restarted.planner.initial_offset()
        assert start.offsets == {T0: 20}
        assert [(each.start, each.end) for each in restarted.planner.ranges(start, end)] == [(3, 9)]
        following, ranges = restarted.batch(end)
        assert ranges == [("t-0", 9, 20)]
        assert following.began is None


def test_long_ranges_are_cut_as_in_a_batch_query() -> None:
    with Rig(Topics({T0: (0, 9)}), startingOffsets="earliest", minPartitions="3") as rig:
        _, ranges = rig.batch(rig.planner.initial_offset())
        assert ranges == [("t-0", 0, 3), ("t-0", 3, 6), ("t-0", 6, 9)]


def test_the_isolation_level_says_how_far_a_stream_goes() -> None:
    with Rig(Topics({T0: (0, 3)}), isolationLevel="read_committed") as rig:
        rig.batch(rig.planner.initial_offset())
        assert {request.isolation_level for request, _ in rig.broker.asked_for(ListOffsetsRequest)} == {1}


def test_brokers_without_topic_ids_are_read_all_the_same() -> None:
    with Rig(Topics({T0: (0, 3)}), startingOffsets="earliest") as rig:
        rig.broker.versions[MetadataRequest.api] = (0, 9)
        end, ranges = rig.batch(rig.planner.initial_offset())
        assert (end.topic_ids, ranges) == ({}, [("t-0", 0, 3)])


# --- limits -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limit", "sizes", "expected"),
    [
        (10, (100, 100), [5, 5]),
        (10, (300, 100), [7, 2]),
        (10, (1000, 1), [9, 1]),
        (1, (10, 10, 10), [1, 1, 1]),
        (50, (10, 10), [10, 10]),
        (10, (0, 30), [0, 10]),
        (100, (29, 71), [28, 71]),
        (10, (), []),
    ],
)
def test_a_limit_is_shared_in_proportion(limit: int, sizes: tuple[int, ...], expected: list[int]) -> None:
    """The 28 of 29 is Spark's own: 100 * (29 / 100.0) is a little less than 29 in doubles."""
    begins = {TopicPartition("t", number): 7 for number in range(len(sizes))}
    ends = {TopicPartition("t", number): 7 + size for number, size in enumerate(sizes)}
    assert [end - 7 for end in rate_limited(limit, begins, ends).values()] == expected


@given(st.integers(1, 1 << 62), st.lists(st.integers(0, 1 << 61), max_size=9))
def test_a_limited_batch_gets_on_and_stays_within_its_limit(limit: int, sizes: list[int]) -> None:
    begins = {TopicPartition("t", number): number for number in range(len(sizes))}
    ends = {partition: first + sizes[first] for partition, first in begins.items()}
    limited = rate_limited(limit, begins, ends)
    read = {partition: limited[partition] - begins[partition] for partition in ends}
    assert all(
        (count > 0) == (ends[each] > begins[each]) and limited[each] <= ends[each] for each, count in read.items()
    )
    assert sum(read.values()) <= limit * (1 + 1e-9) + len(sizes)


def test_the_latest_offset_is_known_when_a_batch_is_limited() -> None:
    with Rig(Topics({T0: (0, 100)}), startingOffsets="earliest") as rig:
        _, ranges = rig.batch(rig.planner.initial_offset(), limit=30)
        assert ranges == [("t-0", 0, 30)]
        assert rig.planner.latest is not None and rig.planner.latest.offsets == {T0: 100}


def test_a_query_with_a_target_ends_there() -> None:
    with Rig(Topics({T0: (0, 10)}), startingOffsets="earliest") as rig:
        rig.planner.fix_target()
        rig.topics.offsets = {T0: (0, 50), T1: (0, 50)}
        start = StreamOffset({T0: 0}, {"t": TOPIC_ID})
        read = []
        while (end := rig.planner.latest_offset(start, 4)) != start:
            read += [(each.start, each.end) for each in rig.planner.ranges(start, end)]
            start = end
        assert read == [(0, 4), (4, 8), (8, 10)]


def test_what_comes_between_the_target_and_the_beginning_is_no_loss() -> None:
    with Rig(Topics({T0: (0, 10)})) as rig:
        rig.planner.fix_target()
        rig.topics.offsets = {T0: (0, 12), T1: (0, 5)}
        start = rig.planner.initial_offset()
        assert start.offsets == {T0: 12, T1: 5}
        assert rig.batch(start) == (start, [])
        assert not rig.slept, "it does not even look like one"


# --- losses -----------------------------------------------------------------------------------------------------------

LOSSES: list[Any] = [
    pytest.param(
        Topics({T0: (0, 8)}), "t-1 does not exist any more: this query had read it up to offset 5", [("t-0", 5, 8)]
    ),
    pytest.param(
        Topics({T0: (0, 8), T1: (0, 3)}),
        "t-1 ends at offset 3, but this query had read it up to offset 5",
        [("t-0", 5, 8)],
    ),
    pytest.param(
        Topics({T0: (0, 8), T1: (2, 9)}, {"t": OTHER_ID}),
        "topic t was deleted and created again: of the deleted one, this query had read t-0 up to offset 5",
        [("t-0", 0, 8), ("t-1", 2, 9)],
    ),
    pytest.param(
        Topics({T0: (0, 8), T1: (0, 5), T2: (4, 6)}),
        "t-2 is new and begins at offset 4: the records before were deleted",
        [("t-0", 5, 8), ("t-2", 4, 6)],
    ),
]


@pytest.mark.parametrize(("topics", "sentence", "ranges"), LOSSES)
def test_a_loss_ends_the_query_with_one_sentence(topics: Topics, sentence: str, ranges: object) -> None:
    with Rig(topics) as rig:
        with pytest.raises(KafkaError) as refused:
            rig.planner.latest_offset(at({T0: 5, T1: 5}), None)
        assert sentence in str(refused.value)
        assert "failOnDataLoss=false goes on with the records that are there" in str(refused.value)
        assert rig.slept == [1.0, 1.0, 1.0]


@pytest.mark.parametrize(("topics", "sentence", "ranges"), LOSSES)
def test_or_the_query_goes_on_with_the_records_that_are_there(
    topics: Topics, sentence: str, ranges: object, caplog: pytest.LogCaptureFixture
) -> None:
    with Rig(topics, failOnDataLoss="false") as rig, caplog.at_level(logging.WARNING):
        end, found = rig.batch(at({T0: 5, T1: 5}))
        assert found == ranges
        assert caplog.text.count(sentence) == 1
        assert rig.batch(end) == (end, []), "the loss is over"
        assert len(rig.slept) == 3


@pytest.mark.parametrize("has_target", [True, False])
@pytest.mark.parametrize(("topics", "sentence", "ranges"), LOSSES)
def test_a_loss_that_the_next_look_does_not_see_is_none(
    topics: Topics, sentence: str, ranges: object, has_target: bool
) -> None:
    """A broker that just started shows old metadata."""
    stale = Topics(topics.offsets, topics.ids)
    stale.later = Topics({T0: (0, 6), T1: (0, 6)})
    with Rig(stale) as rig:
        if has_target:
            rig.planner.fix_target()
        _, found = rig.batch(at({T0: 5, T1: 5}))
        assert found == [("t-0", 5, 6), ("t-1", 5, 6)]


def test_a_topic_that_was_created_again_is_not_noticed_without_its_id() -> None:
    """What the extra key is for: an offset of Spark's own source does not have it."""
    with Rig(Topics({T0: (0, 8)}, {"t": OTHER_ID})) as rig:
        end, found = rig.batch(StreamOffset({T0: 5}))
        assert found == [("t-0", 5, 8)]
        assert end.topic_ids == {"t": OTHER_ID}


def test_a_new_partition_that_is_gone_when_the_batch_is_read_is_a_loss() -> None:
    start, end = at({T0: 5}), StreamOffset({T0: 5, U0: 3}, {"t": TOPIC_ID, "u": OTHER_ID})
    gone = pytest.raises(KafkaError, match="u-0 was found by this query and does not exist any more")
    with Rig(Topics({T0: (0, 5)}), subscribePattern=".") as rig, gone:
        rig.planner.ranges(start, end)
    with Rig(Topics({T0: (0, 5)}), subscribePattern=".", failOnDataLoss="false") as rig:
        assert rig.planner.ranges(start, end) == []


@pytest.mark.parametrize("fails", [True, False])
def test_a_task_does_not_read_another_topic_of_the_same_name(fails: bool) -> None:
    planned = OffsetRange(T0, 0, 4, OTHER_ID)
    with ScriptedBroker(log()) as broker:
        said = {"kafka.bootstrap.servers": broker.address, "subscribe": "t", "failOnDataLoss": str(fails)}
        fetch = PartitionFetch(stream_options(said), planned)
        if fails:
            with pytest.raises(KafkaError, match="topic t was deleted and created again after this query was planned"):
                list(fetch.batches())
        else:
            assert list(fetch.batches()) == [[]]
        assert not broker.asked_for(FetchRequest)
