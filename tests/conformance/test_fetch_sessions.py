"""Fetch sessions (KIP-227), request by request: what is answered, what is left out, and what ends a session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pykraft.common.types import ZERO_UUID, Uuid
from pykraft.protocol.messages.cluster import MetadataRequest
from pykraft.protocol.messages.data import FetchRequest, FetchResponse
from pykraft.protocol.messages.logs import DeleteRecordsRequest
from tests.conformance.dialogue import Dialogue, Speaker
from tests.harness.asking import batch, delete, produce
from tests.harness.connection import Connection

FORGOTTEN = FetchRequest.ForgottenTopic
LONG_MS = 10_000
RESPONSE_HEADER_BYTES = 5
"""Of a flexible version: the correlation id, no tagged fields."""


class Session:
    """A reader that counts the epochs of its session."""

    def __init__(self, speaker: Speaker, topic: str, version: int = 12, topic_id: Uuid = ZERO_UUID) -> None:
        self.speaker = speaker
        self.topic, self.topic_id = topic, topic_id
        self.version = version
        self.id = 0
        self.epoch = 0

    def request(self, offsets: dict[int, int], forgotten: Sequence[int] = (), **fields: Any) -> FetchRequest:
        """`offsets` by partition; other fields of the partitions stand in `each`."""
        each = {"partition_max_bytes": 1 << 20, **fields.pop("each", {})}
        topic, part = FetchRequest.Topic, FetchRequest.Topic.Partition
        parts = [part(**{"partition": number, "fetch_offset": offset, **each}) for number, offset in offsets.items()]
        topics = [topic(topic=self.topic, topic_id=self.topic_id, partitions=parts)] if parts else []
        gone = [FORGOTTEN(topic=self.topic, topic_id=self.topic_id, partitions=list(forgotten))] if forgotten else []
        said = {"session_id": self.id, "session_epoch": self.epoch, "max_wait_ms": 0, "min_bytes": 0, **fields}
        return FetchRequest(topics=topics, forgotten_topics_data=gone, **said)

    def ask(self, offsets: dict[int, int], forgotten: Sequence[int] = (), says: str = "", **fields: Any) -> Any:
        version = fields.pop("version", self.version)
        response = self.speaker.ask(self.request(offsets, forgotten, **fields), version, says)
        if not response.error_code:
            self.id = response.session_id
            self.epoch = self.epoch + 1 if self.id else 0
        return response


def append(talk: Dialogue, name: str, partition: int, count: int = 1) -> None:
    """Not written down."""
    with Connection(talk.server.address(1)) as connection:
        answer = connection.ask(produce(name, (partition, batch(count)), acks=-1), 9).responses[0]
        assert not answer.partition_responses[0].error_code, answer


def test_only_news_is_answered(talk: Dialogue) -> None:
    for version in (7, 12, 18):
        name = f"session-news-{version}"
        topic_id = talk.topic(name, [(1,), (1,), (1,)])
        append(talk, name, 0)
        session = Session(talk.to(), name, version, topic_id)
        session.ask({0: 1, 1: 0, 2: 0}, says="three partitions, one at its end")
        session.ask({}, says="nothing has changed")
        append(talk, name, 1)
        session.ask({}, says="records in one")
        session.ask({}, says="the same records again")
        session.ask({1: 1}, says="they were read")
        session.ask({}, says="nothing has changed")
        session.ask({2: 0}, says="one is named as it was")
        session.ask({2: 0}, says="one is named with another size", each={"partition_max_bytes": 7})
        session.ask({2: 5}, says="one is named with an offset beyond the end")
        session.ask({}, says="it is still there")
        session.ask({2: 0}, says="the offset is right again")
        session.ask({}, says="nothing has changed")


def test_a_log_start_that_moves_is_news(talk: Dialogue) -> None:
    talk.topic("session-start")
    append(talk, "session-start", 0, 3)
    session = Session(talk.to(), "session-start")
    session.ask({0: 3})
    part = DeleteRecordsRequest.Topic.Partition(partition_index=0, offset=2)
    topic = DeleteRecordsRequest.Topic(name="session-start", partitions=[part])
    with Connection(talk.server.address(1)) as connection:
        connection.ask(DeleteRecordsRequest(topics=[topic], timeout_ms=LONG_MS), 2)
    session.ask({}, says="two records were deleted")
    session.ask({}, says="nothing has changed")


def test_a_log_that_parts_is_news_each_time(talk: Dialogue) -> None:
    talk.topic("session-diverging")
    append(talk, "session-diverging", 0, 3)
    session = Session(talk.to(), "session-diverging")
    session.ask({0: 3})
    session.ask({0: 5}, each={"last_fetched_epoch": 0}, says="an offset beyond the epoch's end")
    session.ask({}, says="it is still so")


def test_partitions_are_forgotten_and_taken_back(talk: Dialogue) -> None:
    for version in (12, 18):
        name = f"session-forget-{version}"
        topic_id = talk.topic(name, [(1,), (1,)])
        session = Session(talk.to(), name, version, topic_id)
        session.ask({0: 0, 1: 0})
        append(talk, name, 1)
        session.ask({}, [1], says="forget one, which has records")
        session.ask({}, [1, 7], says="forget what is not there")
        session.ask({1: 0}, says="take it back")
        session.ask({1: 0}, [1], says="name it and forget it")
        session.ask({}, says="it is gone")
        session.ask({}, [0], says="forget the last one: the session ends")
        session.ask({0: 0}, says="and another one begins")
        session.ask({0: 0}, [0], says="name the last one and forget it")


def test_each_request_has_the_next_epoch(talk: Dialogue) -> None:
    talk.topic("session-epoch")
    session = Session(talk.to(), "session-epoch")
    session.ask({0: 0})
    for epoch in (2, 5, -2, 2**31 - 1):
        session.ask({}, session_epoch=epoch, says=f"epoch {epoch} in place of 1")
    session.ask({}, says="the right one")
    session.ask({}, session_epoch=1, says="the same one again")
    session.ask({}, session_id=session.id ^ 1, says="another id")
    session.ask({}, says="the right one")


def test_a_full_fetch_closes_the_session_that_it_names(talk: Dialogue) -> None:
    talk.topic("session-close")
    for epoch in (0, -1):
        session = Session(talk.to(), "session-close")
        session.ask({0: 0})
        closed, next_epoch = session.id, session.epoch
        session.ask({0: 0}, session_epoch=epoch, says=f"epoch {epoch} closes it")
        session.ask({0: 0}, session_id=closed, session_epoch=next_epoch, says="it is not there any more")


def test_a_session_may_begin_without_partitions(talk: Dialogue) -> None:
    talk.topic("session-empty")
    session = Session(talk.to(), "session-empty")
    session.ask({})
    session.ask({0: 0}, says="one is added")
    session.ask({}, says="nothing has changed")


def test_names_and_ids_do_not_mix(talk: Dialogue) -> None:
    topic_id = talk.topic("session-mixed")
    for first, then in ((12, 13), (13, 12)):
        session = Session(talk.to(), "session-mixed", first, topic_id)
        session.ask({0: 0})
        session.ask({}, version=then, says=f"begun with version {first}")
        session.ask({0: 0}, version=then, says="and with a partition")
        session.ask({}, says="as before")
    session = Session(talk.to(), "session-mixed", 7, topic_id)
    session.ask({0: 0})
    session.ask({}, version=12, says="both have names")


def test_what_is_unknown_is_news_each_time(talk: Dialogue) -> None:
    topic_id = talk.topic("session-unknown", [(1,), (2,)])
    for version in (12, 18):
        session = Session(talk.to(), "session-unknown", version, topic_id)
        session.ask({7: 0, 0: 0}, says="a partition that is not there")
        session.ask({}, says="again")
        session.ask({1: 0}, says="one that is led elsewhere")
        session.ask({}, says="again")
        session.ask({}, [7, 1], says="both are forgotten")
    nobody = Session(talk.to(), "", 18, Uuid(bytes(15) + b"\xee"))
    nobody.ask({0: 0}, says="an unknown id")
    nobody.ask({}, says="again")


def test_a_topic_is_deleted_under_a_session(talk: Dialogue) -> None:
    topic_id = talk.topic("session-deleted")
    by_name = Session(talk.to(), "session-deleted", 12)
    by_id = Session(talk.to(), "session-deleted", 18, topic_id)
    by_name.ask({0: 0})
    by_id.ask({0: 0})
    with Connection(talk.server.address(1)) as connection:
        connection.ask(delete("session-deleted"), 6)
    named = MetadataRequest(topics=[MetadataRequest.Topic(name="session-deleted")], allow_auto_topic_creation=False)
    talk.until(1, named, 12, lambda answer: answer.topics[0].error_code)
    by_name.ask({}, says="by name")
    by_id.ask({}, says="by id")


def test_partitions_that_gave_records_are_read_last(talk: Dialogue) -> None:
    talk.topic("session-fair", [(1,), (1,), (1,)])
    for partition in range(3):
        append(talk, "session-fair", partition)
    session = Session(talk.to(), "session-fair")
    session.ask({0: 1, 1: 1, 2: 1})
    session.ask({0: 0, 1: 0, 2: 0}, max_bytes=1, says="room for one batch")
    for _ in range(3):
        session.ask({}, max_bytes=1, says="room for one batch")
    session.ask({}, says="room for all")


def test_a_fetch_that_waits_ends_when_there_is_news(talk: Dialogue) -> None:
    talk.topic("session-wait", [(1,), (1,)])
    session = Session(talk.to(), "session-wait")
    session.ask({0: 0, 1: 0})
    session.ask({}, max_wait_ms=50, min_bytes=1, says="nothing comes")
    talk.to().tell(session.request({}, max_wait_ms=LONG_MS, min_bytes=1), 12, "until something comes")
    append(talk, "session-wait", 1)
    late(talk)


def test_a_fetch_that_waits_is_overtaken(talk: Dialogue) -> None:
    talk.topic("session-overtaken")
    session = Session(talk.to(), "session-overtaken")
    session.ask({0: 0})
    talk.to().tell(session.request({}, max_wait_ms=1000, min_bytes=1), 12, "until something comes")
    session.epoch += 1
    # Of the epoch after it; refused until the waiting one has come in.
    talk.until(1, session.request({}), 12, lambda answer: not answer.error_code)
    late(talk)
    session.epoch += 1
    session.ask({}, says="the session goes on")


def late(talk: Dialogue) -> None:
    """Write down the answer that was waited for."""
    talk.to().read(FetchResponse, 12, talk.to().connection.receive_frame(), RESPONSE_HEADER_BYTES)
