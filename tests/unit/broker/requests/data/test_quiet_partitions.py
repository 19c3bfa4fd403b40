"""Quiet partitions of a follower's fetch session: which a fetch does not look at, and what makes them loud again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from pykraft.broker.replication.fetching import FetchPlace
from pykraft.broker.replication.partition import Partition
from pykraft.broker.requests.data.fetch_sessions import CachedPartition, FetchSession, Reader
from pykraft.broker.requests.dispatch import Answer
from pykraft.common.acl import AclOperation, AclResourceType
from pykraft.common.core import Promise
from pykraft.common.errors import ErrorCode
from pykraft.common.types import TopicPartition
from pykraft.protocol.api import ListenerKind
from pykraft.protocol.messages.admin import CreateTopicsRequest, DeleteTopicsRequest
from pykraft.protocol.messages.brokers import BrokerHeartbeatRequest
from pykraft.protocol.messages.data import INITIAL_EPOCH, NO_SESSION, FetchRequest, FetchResponse, ProduceRequest
from pykraft.protocol.messages.logs import DeleteRecordsRequest
from tests.harness.controllers import new_topic
from tests.harness.lone_node import LoneNode
from tests.harness.storage import TOPIC_ID, at, batch
from tests.unit.broker.replication.test_partition import append, broker, fetched, image, partition, registration
from tests.unit.broker.requests.test_authorization import CLIENT, Denies

# --- one partition ----------------------------------------------------------------------------------------------------

ASKED = ("", TOPIC_ID, 0)
LAG_MS = 1000


def in_sync() -> Partition:
    """Broker 1 leads; the others have its three records, and have asked for more."""
    led = partition()
    append(led, 3)
    for replica in (2, 3):
        fetched(replica, 3, led, now=10)
    return led


def without_news(led: Partition, replica: int = 2, offset: int = 3, leader_epoch: int = 5, start: int = 0) -> bool:
    return led.follower_without_news(replica, offset, leader_epoch, start) is not None


def quiet(led: Partition, replica: int = 2) -> FetchSession:
    """A session of the follower in which the partition is quiet."""
    asked = FetchRequest.Topic.Partition(partition=0, fetch_offset=3, partition_max_bytes=1)
    reader = Reader("User:f", is_follower=True, uses_topic_ids=True, replica_id=replica)
    session = FetchSession(1, reader, {ASKED: CachedPartition(asked, 3, 0)}, now=10)
    follower = led.follower_without_news(replica, 3, 5, 0)
    assert follower is not None
    session.rest(ASKED, follower, FetchPlace(led.topic_partition, 3, 1, 5, 5))
    assert not session.loud
    return session


@pytest.mark.parametrize(
    ("event", "answer", "is_quiet"),
    [
        pytest.param(lambda led: None, {}, True, id="it has everything and knows that"),
        pytest.param(append, {}, False, id="there is a record more"),
        pytest.param(lambda led: (append(led), fetched(2, 4, led)), {"offset": 4}, False, id="not all is committed"),
        pytest.param(lambda led: fetched(2, 2, led), {"offset": 2}, False, id="it lacks a record"),
        pytest.param(lambda led: None, {"start": -1}, False, id="it was not told where the log begins"),
        pytest.param(lambda led: led.log.increase_log_start(1), {}, False, id="the log begins later by now"),
        pytest.param(lambda led: None, {"leader_epoch": 4}, False, id="it asked in another leader epoch"),
        pytest.param(lambda led: None, {"leader_epoch": -1}, False, id="it asked in no leader epoch"),
        pytest.param(lambda led: None, {"replica": 4}, False, id="it is no replica"),
        pytest.param(
            lambda led: led.update(registration(isr=(1, 3), change=2), image(), 0), {}, False, id="it is not in sync"
        ),
        pytest.param(
            lambda led: led.set_image(image(broker(1), broker(2, fenced=True))), {}, False, id="its broker is fenced"
        ),
        pytest.param(
            lambda led: led.set_image(image(broker(1), replace(broker(2), epoch=103))),
            {},
            False,
            id="another process of its broker is registered",
        ),
        pytest.param(
            lambda led: led.update(registration(leader=2, epoch=6, change=2), image(), 0),
            {"leader_epoch": 6},
            False,
            id="it leads by now",
        ),
    ],
)
def test_a_follower_has_no_news_left_only_if_each_fetch_would_say_the_same(
    event: Callable[[Partition], object], answer: dict[str, int], is_quiet: bool
) -> None:
    led = in_sync()
    event(led)
    assert without_news(led, **answer) is is_quiet


@pytest.mark.parametrize(
    "event",
    [
        pytest.param(lambda led: led.update(registration(epoch=6, change=2), image(), 20), id="a leader epoch"),
        pytest.param(lambda led: led.update(registration(epoch=6, change=2, leader=3), image(), 20), id="a leader"),
        pytest.param(lambda led: led.update(registration(isr=(1, 3), change=2), image(), 20), id="an ISR"),
        pytest.param(lambda led: led.update(registration(replicas=(1, 3), change=2), image(), 20), id="replicas"),
        pytest.param(lambda led: led.set_image(image()), id="a broker"),
        pytest.param(lambda led: fetched(2, 3, led, now=20), id="a fetch of another session"),
        pytest.param(quiet, id="another session, in which it is quiet now"),
    ],
)
def test_a_quiet_partition_is_loud_again_after(event: Callable[[Partition], object]) -> None:
    led = in_sync()
    session = quiet(led)
    event(led)
    assert list(session.loud) == [ASKED] and session.has_missed_news


def test_a_session_that_has_forgotten_a_quiet_partition_hears_nothing_of_it_any_more() -> None:
    led = in_sync()
    session = quiet(led)
    session.update({}, [ASKED])
    assert not session.partitions and led.followers[2].quiet is None
    session.last_used = 5000
    led.end_quiet()
    assert not session.loud and led.followers[2].last_caught_up == 10


def test_a_quiet_follower_has_been_caught_up_until_its_sessions_last_fetch() -> None:
    led = in_sync()
    session = quiet(led)
    session.last_used = 5000
    assert led.followers[2].last_caught_up == 5000 and led.followers[3].last_caught_up == 10
    assert led.propose_shrinking(90_000) is None, "nobody lacks anything"
    led.end_quiet()
    append(led)
    session.last_used = 9000
    assert led.followers[2].last_caught_up == 5000, "a later fetch does not tell that it has the record"
    fetched(3, 4, led, now=5500)
    assert led.propose_shrinking(5000 + LAG_MS) is None
    proposal = led.propose_shrinking(5001 + LAG_MS)
    assert proposal is not None and [replica for replica, _ in proposal.isr] == [1, 3]


# --- in a node --------------------------------------------------------------------------------------------------------


class Followed:
    """Node 1 leads a topic; broker 2, played by the test, follows it in a fetch session and has it all."""

    def __init__(self, partitions: int = 3, **settings: Any) -> None:
        self.node = LoneNode(broker_session_timeout_ms="600000", replica_lag_time_max_ms=str(LAG_MS), **settings)
        self.node.join(2)
        topic = new_topic("t", assignment={number: [1, 2] for number in range(partitions)})
        self.node.ask(CreateTopicsRequest(topics=[topic], timeout_ms=1000), ListenerKind.CONTROLLER)
        self.node.run(200)
        image = self.node.node.loader.image
        self.topic_id, self.broker_epoch = image.topic_ids["t"], image.brokers[2].epoch
        self.session_id, self.epoch = NO_SESSION, INITIAL_EPOCH
        self.take(self.fetch(dict.fromkeys(range(partitions), 0)))
        self.take(self.fetch())

    @property
    def session(self) -> FetchSession:
        (session,) = self.node.broker.fetch_sessions.sessions
        return session  # type: ignore[no-any-return]

    @property
    def loud(self) -> list[int]:
        return sorted(number for _, _, number in self.session.loud)

    def partition(self, number: int = 0) -> Partition:
        return self.node.broker.replicas.partitions[TopicPartition("t", number)]  # type: ignore[no-any-return]

    def fetch(self, named: dict[int, int] | None = None, max_wait_ms: int = 0, log_start: int = 0) -> Promise[Answer]:
        """The session's next fetch, which names these partitions with these offsets."""
        part = FetchRequest.Topic.Partition
        parts = [
            part(
                partition=number,
                fetch_offset=offset,
                current_leader_epoch=0,
                log_start_offset=log_start,
                partition_max_bytes=1 << 20,
            )
            for number, offset in (named or {}).items()
        ]
        request = FetchRequest(
            replica_state=FetchRequest.ReplicaState(replica_id=2, replica_epoch=self.broker_epoch),
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=1 << 20,
            topics=[FetchRequest.Topic(topic_id=self.topic_id, partitions=parts)] if parts else [],
            session_id=self.session_id,
            session_epoch=self.epoch,
        )
        self.epoch += 1
        return self.node.handle(request, principal=CLIENT)

    def take(self, answer: Promise[Answer]) -> dict[int, Any]:
        """What each partition of the answer says."""
        if not answer.kept:
            self.node.run()  # it takes more than one turn
        response: Any = answer.value.response
        assert response.error_code == ErrorCode.NONE
        self.session_id = response.session_id
        return {part.partition_index: part for topic in response.responses for part in topic.partitions}

    def produce(self, number: int = 0) -> Promise[Answer]:
        topic = ProduceRequest.Topic
        part = topic.Partition(index=number, records=memoryview(bytearray(batch().buffer)))
        data = [topic(topic_id=self.topic_id, partition_data=[part])]
        return self.node.handle(ProduceRequest(acks=-1, timeout_ms=60_000, topic_data=data))

    def replicate(self, number: int = 0, offset: int = 1) -> None:
        """The follower has the record, and knows that it is committed."""
        for named in ({number: offset}, None):
            self.take(self.fetch(named))
        assert not self.loud


@pytest.mark.costly
def test_a_fetch_of_an_idle_session_looks_at_none_of_a_thousand_partitions() -> None:
    followed = Followed(partitions=1000)
    assert len(followed.session.partitions) == 1000 and not followed.loud
    followed.node.time_slice.length = 4  # items in one turn: a fetch that looked at each would need hundreds of turns
    waiting = followed.fetch(max_wait_ms=500)
    assert not waiting.kept and followed.session.is_waiting and not followed.loud
    followed.produce(7)
    assert list(followed.take(waiting)) == [7]
    assert followed.loud == [7]
    assert followed.take(followed.fetch({7: 1}))[7].high_watermark == 1
    assert followed.take(followed.fetch()) == {} and not followed.loud


def test_a_waiting_fetch_is_answered_with_the_record_of_a_quiet_partition_and_acks_all_after_the_next() -> None:
    followed = Followed()
    waiting = followed.fetch(max_wait_ms=500)
    produced = followed.produce(1)
    answer = followed.take(waiting)
    assert list(answer) == [1] and len(answer[1].records) > 0
    assert not produced.kept
    followed.take(followed.fetch({1: 1}))
    assert produced.kept and followed.partition(1).log.high_watermark == 1


def test_a_waiting_fetch_hears_of_a_second_partition_also_if_the_first_had_nothing_for_it() -> None:
    followed = Followed()
    waiting = followed.fetch(max_wait_ms=500)
    followed.partition(2).end_quiet()
    followed.partition(2).end_quiet()
    assert followed.loud == [2] and not waiting.kept
    followed.produce(2)
    assert list(followed.take(waiting)) == [2]


def delete_records(followed: Followed) -> None:
    topic = DeleteRecordsRequest.Topic
    part = topic.Partition(partition_index=0, offset=1)
    followed.node.handle(DeleteRecordsRequest(topics=[topic(name="t", partitions=[part])], timeout_ms=60_000))


def delete_old_segments(followed: Followed) -> None:
    followed.partition().log.delete_segments(1)


@pytest.mark.parametrize("delete", [delete_records, delete_old_segments])
def test_a_follower_hears_where_the_log_begins_in_the_fetch_that_waits(delete: Callable[[Followed], None]) -> None:
    followed = Followed()
    followed.produce()
    followed.replicate()
    waiting = followed.fetch(max_wait_ms=500)
    delete(followed)
    assert followed.loud == [0]
    followed.node.run(501)
    assert followed.take(waiting)[0].log_start_offset == 1
    followed.take(followed.fetch({0: 1}, log_start=1))
    assert followed.partition().low_watermark == 1
    followed.take(followed.fetch())
    assert not followed.loud


def test_a_follower_hears_at_once_of_a_topic_that_was_deleted() -> None:
    followed = Followed()
    waiting = followed.fetch(max_wait_ms=5000)
    topic = DeleteTopicsRequest.Topic(topic_id=followed.topic_id)
    followed.node.ask(DeleteTopicsRequest(topics=[topic], timeout_ms=1000), ListenerKind.CONTROLLER)
    errors = {ErrorCode.of(part.error_code) for part in followed.take(waiting).values()}
    assert errors == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_a_partition_of_a_follower_out_of_sync_is_looked_at_in_each_fetch_until_it_is_back() -> None:
    followed = Followed(partitions=1)
    fence = BrokerHeartbeatRequest(
        broker_id=2,
        broker_epoch=followed.broker_epoch,
        current_metadata_offset=-1,
        want_fence=True,
        want_shut_down=False,
    )
    followed.node.ask(fence, ListenerKind.CONTROLLER)
    assert followed.partition().isr_state.isr == {1}
    for _ in range(3):
        followed.take(followed.fetch())
        assert followed.loud == [0]
    followed.node.heartbeat(2)
    followed.take(followed.fetch())
    followed.node.run()
    assert followed.partition().isr_state.isr == {1, 2}
    followed.take(followed.fetch())
    assert not followed.loud


def test_a_session_that_goes_on_keeps_its_follower_in_sync_and_one_that_stops_does_not() -> None:
    followed = Followed(partitions=1)
    for _ in range(30):
        followed.take(followed.fetch())
        followed.node.run(100)
    assert not followed.loud
    followed.produce()
    followed.node.run(LAG_MS // 2 - 100)
    assert followed.partition().isr_state.isr == {1, 2}, "it was caught up a moment ago"
    followed.node.run(2 * LAG_MS)
    assert followed.partition().isr_state.isr == {1}


def test_news_that_comes_while_a_fetch_is_under_way_does_not_have_to_wait() -> None:
    followed = Followed()
    for number in (0, 1):
        followed.partition(number).end_quiet()
    followed.node.time_slice.length = 1
    fetching = followed.fetch(max_wait_ms=5000)
    assert not followed.session.is_waiting, "it is only begun"
    followed.produce(2)
    followed.node.run()
    assert followed.take(fetching) == {}, "it did not look there, and does not wait"
    followed.node.time_slice.length = 500
    assert list(followed.take(followed.fetch(max_wait_ms=5000))) == [2]


def test_another_process_of_the_follower_is_asked_for_its_epoch_in_each_partition() -> None:
    followed = Followed()
    followed.broker_epoch -= 1
    errors = {ErrorCode.of(part.error_code) for part in followed.take(followed.fetch()).values()}
    assert errors == {ErrorCode.NOT_LEADER_OR_FOLLOWER}


def test_a_follower_that_may_not_be_one_any_more_hears_so_of_each_partition() -> None:
    denies = Denies()
    followed = Followed(authorizer=denies)
    denies.denied = ((AclOperation.CLUSTER_ACTION, AclResourceType.CLUSTER, "kafka-cluster"),)
    errors = {ErrorCode.of(part.error_code) for part in followed.take(followed.fetch()).values()}
    assert errors == {ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    assert followed.loud == [0, 1, 2]


def test_a_follower_tells_its_leader_that_retention_has_moved_the_beginning_of_its_log() -> None:
    node = LoneNode()
    node.join(2)
    topic_id = node.create(replicas=(2, 1))
    node.run()
    part = FetchResponse.Topic.Partition

    def next_fetch(*answers: FetchResponse.Topic.Partition) -> list[int]:
        """The log start offsets that the fetch says, which is answered so."""
        (fetch,) = [each for each in node.sent if isinstance(each.request, FetchRequest)]
        node.sent.remove(fetch)
        topics = [FetchResponse.Topic(topic_id=topic_id, partitions=answers)] if answers else []
        fetch.on_response(FetchResponse(session_id=77, responses=topics), node.now)
        node.run()
        return [part.log_start_offset for topic in fetch.request.topics for part in topic.partitions]

    assert next_fetch(part(partition_index=0, high_watermark=1, records=at(0, batch()).buffer)) == [0]
    assert next_fetch() == [0] and next_fetch() == []
    node.broker.replicas.partitions[TopicPartition("t", 0)].log.delete_segments(1)
    assert next_fetch() == [], "it was under way"
    assert next_fetch() == [1]
