"""What a worker keeps from one task for the next: how many connections and requests a row of tasks needs."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pykraft.common.errors import CorruptRecordError, ErrorCode
from pykraft.common.types import Uuid
from pykraft.protocol.messages.cluster import MetadataRequest
from pykraft.protocol.messages.data import FetchRequest
from pykraft.spark import worker
from pykraft.spark.reading.fetch import OffsetRange, PartitionFetch
from pykraft.spark.worker import Shelf
from tests.spark.reading.test_fetch import damaged, log, options, raw_batch
from tests.spark.scripted_broker import CLOSE, T0, TOPIC_ID, ScriptedBroker, fetch_offset


@pytest.fixture
def shelf() -> Iterator[Shelf]:
    shelf = Shelf()
    yield shelf
    shelf.close()


def offsets_of(
    broker: ScriptedBroker, shelf: Shelf, start: int, end: int, topic_id: Uuid | None = None, **more: str
) -> list[int]:
    """The base offsets of the batches that a task reads."""
    fetch = PartitionFetch(options(broker, **more), OffsetRange(T0, start, end, topic_id), shelf)
    return [batch.base_offset for batches in fetch.batches() for batch in batches]


def test_a_second_task_asks_for_records_alone(shelf: Shelf) -> None:
    with ScriptedBroker(log()) as broker:
        assert offsets_of(broker, shelf, 0, 10, TOPIC_ID) == [0, 2, 4, 6, 8]
        asked, connections = len(broker.asked), len(broker._connections)
        assert offsets_of(broker, shelf, 4, 8, TOPIC_ID) == [4, 6]
        assert [type(request) for request, _ in broker.asked[asked:]] == [FetchRequest]
        assert len(broker._connections) == connections


def test_without_a_shelf_each_task_closes_its_connections() -> None:
    with ScriptedBroker(log()) as broker:
        nothing = Shelf(keeps=False)
        assert offsets_of(broker, nothing, 0, 10) == offsets_of(broker, nothing, 0, 10)
        assert len(broker.asked_for(MetadataRequest)) == 2


@pytest.mark.parametrize("start", [0, 4, 8])
def test_a_task_may_go_back(shelf: Shelf, start: int) -> None:
    """A batch of the stream is repeated, or another query reads the same topic."""
    with ScriptedBroker(log()) as broker:
        offsets_of(broker, shelf, 4, 10)
        assert offsets_of(broker, shelf, start, 10) == list(range(start, 10, 2))


def test_what_came_beyond_a_range_is_not_taken_for_the_next_range(shelf: Shelf) -> None:
    """The answer to the first task has everything; the log has other records when the second one reads."""
    with ScriptedBroker(log()) as broker:
        assert offsets_of(broker, shelf, 0, 2) == [0]
        broker.batches = log(10, per_batch=5)
        assert offsets_of(broker, shelf, 0, 10) == [0, 5]


def test_other_settings_have_other_connections(shelf: Shelf) -> None:
    with ScriptedBroker(log()) as broker:
        offsets_of(broker, shelf, 0, 10)
        offsets_of(broker, shelf, 0, 10, kafka__check__crcs="false")
        assert len(broker.asked_for(MetadataRequest)) == 2


def test_connections_that_were_kept_for_long_are_made_again(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "KEPT_MS", -1)
    with ScriptedBroker(log()) as broker:
        assert offsets_of(broker, shelf, 0, 10) == offsets_of(broker, shelf, 0, 10)
        assert len(broker.asked_for(MetadataRequest)) == 2


def test_a_topic_that_was_created_again_is_looked_up_again(shelf: Shelf) -> None:
    """The range was planned for the new one; the client that is kept knows the old one."""
    with ScriptedBroker(log()) as broker:
        new_id = Uuid(bytes(range(2, 18)))
        assert offsets_of(broker, shelf, 0, 10, TOPIC_ID) == [0, 2, 4, 6, 8]

        def created_again(request: Any) -> Any:
            if not isinstance(request, MetadataRequest):
                return None
            answer: Any = broker.metadata(request)
            for topic in answer.topics:
                topic.topic_id = new_id
            return answer

        broker.script = created_again
        assert offsets_of(broker, shelf, 0, 10, new_id) == [0, 2, 4, 6, 8]


def test_a_connection_that_was_closed_meanwhile_is_made_again(shelf: Shelf) -> None:
    with ScriptedBroker(log()) as broker:
        offsets_of(broker, shelf, 0, 10)
        is_open = iter([False])
        broker.script = lambda request: None if next(is_open, True) else CLOSE
        assert offsets_of(broker, shelf, 0, 10) == [0, 2, 4, 6, 8]


def test_a_leader_that_is_none_any_more_is_looked_up_again(shelf: Shelf) -> None:
    with ScriptedBroker(log()) as broker:
        offsets_of(broker, shelf, 0, 10)
        refusals = iter([broker.fetch])

        def deposed(request: Any) -> Any:
            refuse = next(refusals, None) if isinstance(request, FetchRequest) else None
            return refuse and refuse(request, records=b"", error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)

        broker.script = deposed
        assert offsets_of(broker, shelf, 0, 10) == [0, 2, 4, 6, 8]
        assert len(broker.asked_for(MetadataRequest)) == 2


def test_after_an_error_and_after_a_reader_that_had_enough_nothing_is_kept(shelf: Shelf) -> None:
    batches = log()
    batches[4] = damaged(batches[4])
    with ScriptedBroker(batches) as broker:
        with pytest.raises(CorruptRecordError):
            offsets_of(broker, shelf, 0, 10)
        broker.batches = log()
        few = PartitionFetch(options(broker), OffsetRange(T0, 0, 12), shelf).batches()
        assert next(few)
        few.close()  # with a fetch of the rest under way
        broker.batches = [*log(), raw_batch(b"", 0, 10, last_offset_delta=1)]
        assert offsets_of(broker, shelf, 0, 12) == [0, 2, 4, 6, 8, 10]
        assert len(broker.asked_for(MetadataRequest)) == 3
        assert fetch_offset(broker.asked_for(FetchRequest)[-1][0]) == 0


def test_outside_of_a_task_nothing_is_kept_and_the_collector_sees_everything() -> None:
    frozen = gc.get_freeze_count()
    worker.settle()
    assert gc.get_freeze_count() == frozen
    assert worker.shelf() is not worker.shelf()


def test_the_collector_leaves_alone_what_workers_have_imported(spark: SparkSession) -> None:
    """It runs after each task."""
    frozen = spark.sparkContext.parallelize(range(2), 2).map(lambda _: gc.get_freeze_count()).collect()
    assert all(count > 10_000 for count in frozen), frozen
