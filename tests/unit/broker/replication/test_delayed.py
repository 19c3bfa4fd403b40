"""What waits for many partitions: each change costs the partition that has changed, and is never missed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import pytest

from pykraft.broker.replication import delayed
from pykraft.broker.replication.fetching import FetchParams, FetchPlace
from pykraft.broker.replication.partition import Partition
from pykraft.common.core import Promise
from pykraft.common.errors import ErrorCode
from pykraft.common.types import TopicPartition, Uuid
from pykraft.protocol.api import ListenerKind
from pykraft.protocol.messages.admin import CreateTopicsRequest, DeleteTopicsRequest
from pykraft.protocol.messages.data import FetchRequest, ProduceRequest
from pykraft.storage.answers import Isolation
from tests.harness.controllers import new_topic
from tests.harness.lone_node import LoneNode
from tests.harness.storage import batch

FETCHES, PARTITIONS = 10, 40
RECORDS = bytes(batch(5).buffer)


class Parked:
    """A node with a topic, and fetches of all its partitions that wait for `min_bytes`."""

    def __init__(self, min_bytes: int, fetches: int = FETCHES, partitions: int = PARTITIONS) -> None:
        self.node = LoneNode()
        self.topic_id = self.create("t", partitions)
        self.partitions = partitions
        self.answers = [self.fetch(min_bytes) for _ in range(fetches)]

    def fetch(self, min_bytes: int) -> Promise[Any]:
        topic = FetchRequest.Topic
        parts = [topic.Partition(partition=n, partition_max_bytes=1 << 20) for n in range(self.partitions)]
        topics = [topic(topic_id=self.topic_id, partitions=parts)]
        return self.node.handle(FetchRequest(max_wait_ms=1000, min_bytes=min_bytes, max_bytes=1 << 20, topics=topics))

    def create(self, name: str, partitions: int) -> Uuid:
        topic = new_topic(name, assignment={number: [1] for number in range(partitions)})
        self.node.ask(CreateTopicsRequest(topics=[topic], timeout_ms=1000), ListenerKind.CONTROLLER)
        self.node.run()
        return self.node.node.loader.image.topic_ids[name]

    def produce(self, partition: int) -> Promise[Any]:
        topic = ProduceRequest.Topic
        part = topic.Partition(index=partition, records=memoryview(bytearray(RECORDS)))
        data = [topic(topic_id=self.topic_id, partition_data=[part])]
        return self.node.handle(ProduceRequest(acks=1, timeout_ms=500, topic_data=data))

    @property
    def answered(self) -> int:
        return sum(answer.kept for answer in self.answers)


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Partition]]:
    """The partitions that waiting fetches look at."""
    looked: list[Partition] = []
    available_bytes = delayed.available_bytes

    def count(partition: Partition, *rest: Any) -> int | None:
        looked.append(partition)
        return available_bytes(partition, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(delayed, "available_bytes", count)
        yield looked


def test_an_append_costs_a_waiting_fetch_one_look_however_many_partitions_it_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parked = Parked(min_bytes=1 << 19)
    with counted(monkeypatch) as looked:
        parked.produce(7)
    assert parked.answered == 0
    assert FETCHES <= len(looked) <= 2 * FETCHES, "an append, and a high watermark that rises"
    assert {partition.key.partition for partition in looked} == {7}


def test_the_bytes_of_all_partitions_count_together() -> None:
    parked = Parked(min_bytes=4 * len(RECORDS))
    for partition in (3, 8, 3):
        parked.produce(partition)
    parked.node.run()
    assert parked.answered == 0
    parked.produce(39)
    parked.node.run()
    assert parked.answered == FETCHES
    for answer in parked.answers:
        topics = answer.value.response.responses
        given = {part.partition_index: len(part.records) for topic in topics for part in topic.partitions}
        assert {number: size for number, size in given.items() if size} == {
            3: 2 * len(RECORDS),
            8: len(RECORDS),
            39: len(RECORDS),
        }


def test_a_fetch_that_finds_less_than_it_wants_waits_for_the_rest() -> None:
    parked = Parked(min_bytes=1, fetches=0, partitions=3)
    parked.produce(1)
    waiting, content = parked.fetch(2 * len(RECORDS)), parked.fetch(1)
    assert content.kept and not waiting.kept
    parked.produce(2)
    parked.node.run()
    assert waiting.kept


def test_a_partition_that_goes_is_news_for_a_fetch_that_waits_for_others_too() -> None:
    parked = Parked(min_bytes=1 << 19)
    request = DeleteTopicsRequest(
        topics=[DeleteTopicsRequest.Topic(name=None, topic_id=parked.topic_id)], timeout_ms=1000
    )
    parked.node.ask(request, ListenerKind.CONTROLLER)
    parked.node.run()
    assert parked.answered == FETCHES
    codes = {part.error_code for topic in parked.answers[0].value.response.responses for part in topic.partitions}
    assert ErrorCode.UNKNOWN_TOPIC_OR_PARTITION in codes


def places(partitions: int) -> list[FetchPlace]:
    return [FetchPlace(TopicPartition("t", number), 0, 3 * len(RECORDS), 0, -1) for number in range(partitions)]


def test_what_a_fetch_remembers_is_what_a_new_one_finds() -> None:
    parked = Parked(min_bytes=1, fetches=0, partitions=6)
    replicas, random = parked.node.broker.replicas, Random(7)
    params = FetchParams(Isolation.HIGH_WATERMARK, 1 << 20, min_bytes=12 * len(RECORDS))
    waiting = delayed.DelayedFetch(replicas=replicas, places=places(6), params=params)
    found = [waiting.has_enough()]
    while not found[-1]:
        partition = random.randrange(6)
        parked.produce(partition)
        found.append(waiting.has_enough(TopicPartition("t", partition)))
        again = delayed.DelayedFetch(replicas=replicas, places=places(6), params=params)
        assert again.has_enough() == found[-1]
    assert len(found) > 12, "a partition with more than its own limit counts up to that"


def test_a_partition_that_is_not_held_back_any_more_is_noticed_with_the_next_change_anywhere() -> None:
    parked = Parked(min_bytes=1, fetches=0, partitions=3)
    parked.produce(1)
    held = {1}
    params = FetchParams(
        Isolation.LOG_END, 1 << 20, min_bytes=1, holds_back=lambda partition, _: partition.key.partition in held
    )
    waiting = delayed.DelayedFetch(replicas=parked.node.broker.replicas, places=places(3), params=params)
    assert not waiting.has_enough()
    held.clear()
    assert waiting.has_enough(TopicPartition("t", 0))


def test_a_fetch_that_waits_on_after_it_was_read_looks_at_all_partitions_again() -> None:
    parked = Parked(min_bytes=1, fetches=0, partitions=3)
    params = FetchParams(Isolation.LOG_END, 1 << 20, min_bytes=1)
    waiting = delayed.DelayedFetch(replicas=parked.node.broker.replicas, places=places(3), params=params)
    assert not waiting.has_enough()
    parked.produce(1)  # while a long read went on
    again = delayed.DelayedFetch(replicas=parked.node.broker.replicas, places=places(3), params=params)
    assert again.has_enough(TopicPartition("t", 0))


def test_a_produce_that_waits_for_many_partitions_looks_at_the_one_that_has_changed() -> None:
    looked: list[TopicPartition] = []

    class Waiting(delayed.DelayedProduce):
        def _decide(self, result: delayed.ProduceResult) -> None:
            looked.append(result.topic_partition)
            if result.topic_partition in replicated:
                result.error = ErrorCode.NONE

    every = [TopicPartition("t", number) for number in range(PARTITIONS)]
    replicated: set[TopicPartition] = set()
    waiting = Waiting(LoneNode().broker.replicas, [delayed.ProduceResult(place, None) for place in every])
    assert not waiting.is_decided() and len(looked) == PARTITIONS
    looked.clear()
    for place in every:
        replicated.add(place)
        assert waiting.try_complete(place) == (place == every[-1])
    assert looked == every and waiting.promise.kept
