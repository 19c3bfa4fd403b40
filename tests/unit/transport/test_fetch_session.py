"""The reader's side of a fetch session: what each fetch names, and what an answer means for the next one."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from pykraft.common.errors import ErrorCode
from pykraft.common.types import ZERO_UUID, TopicPartition, Uuid
from pykraft.protocol.messages.data import FetchRequest, FetchResponse
from pykraft.transport.fetch_session import FetchSessionHandler, Wanted

TOPIC_ID = Uuid(bytes(15) + b"\x01")
OTHER_ID = Uuid(bytes(15) + b"\x02")
SESSION = 77


def wanted(offsets: dict[int, int], topic_id: Uuid = TOPIC_ID, epoch: int = 5) -> dict[TopicPartition, Wanted]:
    return {TopicPartition("t", number): Wanted(topic_id, offset, 100, epoch) for number, offset in offsets.items()}


class Reader:
    """A handler, and what its last fetch said."""

    def __init__(self) -> None:
        self.handler = FetchSessionHandler()
        self.request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[])

    def ask(self, offsets: dict[int, int], topic_id: Uuid = TOPIC_ID, epoch: int = 5) -> None:
        self.request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[])
        self.handler.fill(self.request, wanted(offsets, topic_id, epoch))

    @property
    def said(self) -> tuple[int, int, dict[int, int], list[int]]:
        """(session id, epoch, offsets of the partitions named, partitions forgotten)."""
        named = {part.partition: part.fetch_offset for topic in self.request.topics for part in topic.partitions}
        forgotten = [number for topic in self.request.forgotten_topics_data for number in topic.partitions]
        return self.request.session_id, self.request.session_epoch, named, forgotten

    def hear(
        self, answered: Iterable[int], session_id: int = SESSION, error: int = 0, topic_id: Uuid = TOPIC_ID
    ) -> list[int] | None:
        part = FetchResponse.Topic.Partition
        topic = FetchResponse.Topic(topic_id=topic_id, partitions=[part(partition_index=n) for n in answered])
        response = FetchResponse(error_code=error, session_id=session_id, responses=[topic])
        answers = self.handler.take(response)
        if answers is None:
            return None
        assert all(key.topic == "t" for key, _ in answers)
        return [key.partition for key, _ in answers]

    def begin(self, *numbers: int) -> None:
        self.ask(dict.fromkeys(numbers, 0))
        assert self.hear(numbers) == list(numbers)


def test_a_fetch_names_what_is_new_and_what_is_altered_and_forgets_the_rest() -> None:
    reader = Reader()
    reader.ask({0: 0, 1: 0, 2: 0})
    assert reader.said == (0, 0, {0: 0, 1: 0, 2: 0}, [])
    assert reader.hear([0, 1, 2]) == [0, 1, 2]
    for epoch, offsets, named, forgotten in (
        (1, {0: 0, 1: 0, 2: 0}, {}, []),
        (2, {0: 0, 1: 7, 2: 0}, {1: 7}, []),
        (3, {1: 7, 2: 0}, {}, [0]),
        (4, {0: 0, 1: 7, 3: 1}, {0: 0, 3: 1}, [2]),
    ):
        reader.ask(offsets)
        assert reader.said == (SESSION, epoch, named, forgotten)
        assert reader.hear([]) == []


def test_another_leader_epoch_is_a_change() -> None:
    reader = Reader()
    reader.begin(0, 1)
    reader.ask({0: 0, 1: 0}, epoch=6)
    assert reader.said == (SESSION, 1, {0: 0, 1: 0}, [])


@pytest.mark.parametrize("session_id", [0, SESSION])
def test_without_a_session_each_fetch_names_everything(session_id: int) -> None:
    """The broker has no room for one, or ends it."""
    reader = Reader()
    reader.ask({0: 0})
    assert reader.hear([0], session_id) == [0]
    reader.ask({0: 0})
    assert reader.hear([0] if session_id == 0 else [], session_id=0) is not None
    reader.ask({0: 0})
    assert reader.said == (0, 0, {0: 0}, [])


@pytest.mark.parametrize(
    ("error", "session_id"),
    [
        (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0),
        (ErrorCode.INVALID_FETCH_SESSION_EPOCH, SESSION),
        (ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, SESSION),
        (ErrorCode.UNKNOWN_SERVER_ERROR, SESSION),
    ],
)
def test_after_a_refusal_it_begins_again_and_closes_the_session_if_there_is_one(
    error: ErrorCode, session_id: int
) -> None:
    reader = Reader()
    reader.begin(0, 1)
    reader.ask({0: 0, 1: 3})
    assert reader.hear([], 0, error) is None
    reader.ask({0: 0, 1: 3})
    assert reader.said == (session_id, 0, {0: 0, 1: 3}, [])


def test_a_lost_answer_ends_the_session() -> None:
    reader = Reader()
    reader.begin(0, 1)
    reader.ask({0: 0})
    reader.handler.reset()
    reader.ask({0: 0})
    assert reader.said == (SESSION, 0, {0: 0}, [])


def test_an_answer_that_does_not_fit_is_of_no_use() -> None:
    for is_incremental, answered, topic_id in (
        (False, [0], TOPIC_ID),  # one is missing: a throttled client may be answered so
        (False, [], TOPIC_ID),
        (False, [0, 1, 2], TOPIC_ID),
        (True, [2], TOPIC_ID),
        (True, [0], OTHER_ID),
    ):
        reader = Reader()
        if is_incremental:
            reader.begin(0, 1)
        reader.ask({0: 0, 1: 0})
        assert reader.hear(answered, topic_id=topic_id) is None
        reader.ask({0: 0, 1: 0})
        assert reader.said == (SESSION if is_incremental else 0, 0, {0: 0, 1: 0}, [])


def test_a_topic_made_again_begins_another_session() -> None:
    reader = Reader()
    reader.begin(0, 1)
    reader.ask({0: 0, 1: 0}, OTHER_ID)
    assert reader.said == (SESSION, 0, {0: 0, 1: 0}, [])
    assert reader.hear([0, 1], SESSION + 1, topic_id=OTHER_ID) == [0, 1]
    reader.ask({0: 0, 1: 0}, OTHER_ID)
    assert reader.said == (SESSION + 1, 1, {}, [])


def test_topics_without_ids_go_by_name() -> None:
    reader = Reader()
    reader.ask({0: 0}, ZERO_UUID)
    part = FetchResponse.Topic.Partition(partition_index=0)
    topic = FetchResponse.Topic(topic="t", partitions=[part])
    answers = reader.handler.take(FetchResponse(session_id=SESSION, responses=[topic]))
    assert answers == [(TopicPartition("t", 0), part)]
