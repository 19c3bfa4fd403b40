"""Fetch sessions in a broker: what is answered and what is left out, what ends a session, and which one is evicted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random
from typing import Any

import pytest

from pykraft.broker.replication.fetching import FetchPlace, FetchResult
from pykraft.broker.requests.data import fetch_sessions
from pykraft.broker.requests.data.fetch_sessions import MIN_EVICTION_MS, FetchContext, FetchSessionCache, Reader
from pykraft.common.acl import AclOperation, AclResourceType
from pykraft.common.core import Promise
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.metrics import Metrics
from pykraft.common.types import ZERO_UUID, OffsetAndEpoch, TopicPartition, Uuid
from pykraft.protocol.messages.data import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION, FetchRequest, next_session_epoch
from tests.harness.asking import batch
from tests.harness.lone_node import LoneNode
from tests.unit.broker.requests.test_authorization import CLIENT, Denies

CONSUMER = Reader("User:c", is_follower=False, uses_topic_ids=False)
FOLLOWER = Reader("User:f", is_follower=True, uses_topic_ids=False)
BY_ID = CONSUMER._replace(uses_topic_ids=True)
UNKNOWN_ID, WRONG_EPOCH, WRONG_NAMING = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
)
RECORDS = {"records": b"records", "size": 7}
DIVERGING = {"diverging": OffsetAndEpoch(1, 1)}
FAILED = {"error": ErrorCode.NOT_LEADER_OR_FOLLOWER, "high_watermark": -1, "log_start_offset": -1}


class Talk:
    """A cache, and readers of partitions 0, 1, ... of one topic."""

    def __init__(self, slots: int = 1000) -> None:
        self.now = 0
        self.metrics = Metrics()
        self.cache = FetchSessionCache(slots, Random(1), self.metrics)
        self.logs: dict[int, dict[str, Any]] = {}
        """What partitions give, if it is not an empty log."""

    def context(
        self, session: int, epoch: int, wanted: Iterable[int], forgotten: Iterable[int], reader: Reader
    ) -> FetchContext:
        request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[], session_id=session, session_epoch=epoch)
        part = FetchRequest.Topic.Partition
        named = {("t", ZERO_UUID, n): part(partition=n, fetch_offset=0, partition_max_bytes=1) for n in wanted}
        return self.cache.context(request, named, [("t", ZERO_UUID, n) for n in forgotten], reader, self.now)

    def fetch(
        self,
        session: int,
        epoch: int,
        wanted: Iterable[int] = (),
        forgotten: Iterable[int] = (),
        reader: Reader = CONSUMER,
    ) -> tuple[int, list[int]]:
        """(session id, partitions) of the answer."""
        return self.answer(self.context(session, epoch, wanted, forgotten, reader))

    def answer(self, context: FetchContext) -> tuple[int, list[int]]:
        if context.error is not ErrorCode.NONE:
            raise KafkaError(context.error)
        answered = [asked[2] for asked in context.wanted if context.note(asked, self.result(asked[2]))]
        return context.session_id(self.now), answered

    def result(self, number: int) -> FetchResult:
        place = FetchPlace(TopicPartition("t", number), 0, 1, -1, -1)
        said = {"high_watermark": 0, "log_start_offset": 0, **self.logs.get(number, {})}
        return FetchResult(place, **said)

    def begin(self, *wanted: int, reader: Reader = CONSUMER) -> int:
        """A full fetch; the session's id."""
        return self.fetch(NO_SESSION, INITIAL_EPOCH, wanted, reader=reader)[0]

    def refusal(self, *arguments: Any, **fields: Any) -> ErrorCode:
        with pytest.raises(KafkaError) as refused:
            self.fetch(*arguments, **fields)
        return refused.value.code

    def sizes(self) -> list[int]:
        return sorted(session.size for session in self.cache._sessions.values())

    def evictions(self) -> float:
        figures = {name: value for _, name, value in self.metrics.read()}
        assert figures["NumIncrementalFetchSessions"] == len(self.cache)
        assert figures["NumIncrementalFetchPartitionsCached"] == sum(self.sizes())
        return figures["IncrementalFetchSessionEvictionsPerSec"]


# --- one session ------------------------------------------------------------------------------------------------------

Step = tuple[dict[int, dict[str, Any]], Sequence[int], Sequence[int], list[int]]
"""What the partitions give from now on, which are named, which are forgotten; which are answered."""


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param([({}, [], [], []), ({}, [], [], [])], id="nothing changes"),
        pytest.param([({1: {"high_watermark": 5}}, [], [], [1]), ({}, [], [], [])], id="a high watermark"),
        pytest.param([({1: {"log_start_offset": 5}}, [], [], [1]), ({}, [], [], [])], id="a log start offset"),
        pytest.param([({1: {"last_stable_offset": 5}}, [], [], [])], id="a last stable offset alone is no news"),
        pytest.param([({1: RECORDS}, [], [], [1]), ({}, [], [], [1]), ({1: {}}, [1], [], [])], id="records"),
        pytest.param(
            [({1: FAILED}, [], [], [1]), ({}, [], [], [1]), ({1: {}}, [], [], [1]), ({}, [], [], [])], id="an error"
        ),
        pytest.param([({1: DIVERGING}, [], [], [1]), ({}, [], [], [1])], id="it diverges"),
        pytest.param([({1: DIVERGING}, [], [], [1]), ({1: {}}, [1], [], [1]), ({}, [], [], [])], id="it has truncated"),
        pytest.param([({}, [1], [], [])], id="named as it was"),
        pytest.param([({}, [7], [], [7]), ({}, [], [], [])], id="one is added"),
        pytest.param([({1: RECORDS}, [], [1], []), ({}, [1], [], [1])], id="one is forgotten, and taken back"),
        pytest.param([({1: RECORDS}, [1], [1], []), ({}, [], [], [])], id="named and forgotten"),
        pytest.param([({}, [], [9], [])], id="what is not there is forgotten"),
        pytest.param(
            [
                ({0: RECORDS, 1: RECORDS}, [], [], [0, 1]),
                ({2: RECORDS}, [], [], [2, 0, 1]),
                ({0: {}}, [], [], [2, 1]),
                ({0: RECORDS}, [], [], [0, 2, 1]),
            ],
            id="partitions that gave records are read last",
        ),
    ],
)
def test_an_answer_has_the_partitions_with_news(steps: Sequence[Step]) -> None:
    talk = Talk()
    session, answered = talk.fetch(NO_SESSION, INITIAL_EPOCH, [0, 1, 2])
    assert session > 0 and answered == [0, 1, 2]
    for epoch, (logs, wanted, forgotten, expected) in enumerate(steps, 1):
        talk.logs |= logs
        assert talk.fetch(session, epoch, wanted, forgotten) == (session, expected), f"epoch {epoch}"


def test_each_request_has_the_next_epoch_and_others_change_nothing() -> None:
    talk = Talk()
    session = talk.begin(0)
    for epoch in (2, 7, -2):
        assert talk.refusal(session, epoch, [1]) is WRONG_EPOCH
    assert talk.refusal(session ^ 1, 1) is UNKNOWN_ID
    assert talk.fetch(session, 1) == (session, [])
    assert talk.refusal(session, 1) is WRONG_EPOCH
    assert talk.sizes() == [1]


@pytest.mark.parametrize(
    ("epoch", "following"), [(INITIAL_EPOCH, 1), (1, 2), ((1 << 31) - 2, (1 << 31) - 1), ((1 << 31) - 1, 1), (-1, -1)]
)
def test_after_the_last_epoch_comes_the_first_again(epoch: int, following: int) -> None:
    assert next_session_epoch(epoch) == following


def test_a_full_fetch_closes_the_session_that_it_names() -> None:
    talk = Talk()
    first = talk.begin(0)
    second, answered = talk.fetch(first, INITIAL_EPOCH, [0])
    assert second not in (first, NO_SESSION) and answered == [0]
    assert talk.refusal(first, 1) is UNKNOWN_ID
    assert talk.fetch(second, FINAL_EPOCH, [0]) == (NO_SESSION, [0])
    assert talk.refusal(second, 1) is UNKNOWN_ID
    assert len(talk.cache) == 0
    assert talk.fetch(77, FINAL_EPOCH, [0]) == (NO_SESSION, [0]), "there was none"


def test_a_session_ends_with_its_last_partition() -> None:
    talk = Talk()
    session = talk.begin(0)
    assert talk.fetch(session, 1, [], [0]) == (NO_SESSION, [])
    assert len(talk.cache) == 0


def test_names_and_ids_do_not_mix() -> None:
    talk = Talk()
    for first, then in ((CONSUMER, BY_ID), (BY_ID, CONSUMER)):
        session = talk.begin(0, reader=first)
        assert talk.refusal(session, 1, reader=then) is WRONG_NAMING
        assert talk.fetch(session, 1, reader=first) == (session, [])


def test_a_session_is_its_principals_alone() -> None:
    talk = Talk()
    session = talk.begin(0)
    stranger = CONSUMER._replace(principal="User:stranger")
    assert talk.refusal(session, 1, reader=stranger) is UNKNOWN_ID
    for epoch in (INITIAL_EPOCH, FINAL_EPOCH):
        talk.fetch(session, epoch, [0], reader=stranger)
    assert talk.fetch(session, 1) == (session, []), "the stranger could not close it"


def test_the_answer_to_a_fetch_that_was_overtaken_is_refused() -> None:
    talk = Talk()
    session = talk.begin(0)
    waiting = talk.context(session, 1, [], [], CONSUMER)
    talk.logs[0] = RECORDS
    assert talk.fetch(session, 2) == (session, [0])
    assert waiting.error is WRONG_EPOCH


# --- eviction ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("there", "age_ms", "idle_ms", "newcomer", "is_evicted"),
    [
        ((CONSUMER, 2), 0, MIN_EVICTION_MS, (CONSUMER, 1), False),
        ((CONSUMER, 2), 0, MIN_EVICTION_MS + 1, (CONSUMER, 1), True),  # not used for long
        ((FOLLOWER, 2), 0, MIN_EVICTION_MS + 1, (CONSUMER, 1), True),
        ((CONSUMER, 2), 0, 0, (CONSUMER, 3), False),  # larger, but the old one is young
        ((CONSUMER, 2), MIN_EVICTION_MS + 1, 0, (CONSUMER, 3), True),
        ((CONSUMER, 2), MIN_EVICTION_MS + 1, 0, (CONSUMER, 2), False),  # no larger
        ((CONSUMER, 2), 0, 0, (FOLLOWER, 1), True),
        ((FOLLOWER, 2), MIN_EVICTION_MS + 1, 0, (CONSUMER, 3), False),
        ((FOLLOWER, 2), 0, 0, (FOLLOWER, 3), False),
        ((FOLLOWER, 2), MIN_EVICTION_MS + 1, 0, (FOLLOWER, 3), True),
    ],
)
def test_a_new_session_evicts_one_of_less_worth(
    there: tuple[Reader, int], age_ms: int, idle_ms: int, newcomer: tuple[Reader, int], is_evicted: bool
) -> None:
    talk = Talk(slots=1)
    reader, size = there
    session = talk.begin(*range(size), reader=reader)
    talk.now += age_ms
    assert talk.fetch(session, 1, reader=reader) == (session, [])
    talk.now += idle_ms
    reader, size = newcomer
    begun, answered = talk.fetch(NO_SESSION, INITIAL_EPOCH, range(size), reader=reader)
    assert len(answered) == size, "answered it is in any case"
    assert (begun != NO_SESSION, talk.evictions()) == (is_evicted, int(is_evicted))
    assert len(talk.cache) == 1


def test_a_session_whose_fetch_waits_is_not_evicted() -> None:
    talk = Talk(slots=1)
    session = talk.begin(0)
    results: Promise[list[FetchResult]] = Promise()
    waiting = talk.context(session, 1, [], [], CONSUMER)
    waiting.begin_wait(results, lambda _: None)
    talk.now += 2 * MIN_EVICTION_MS
    assert talk.begin(0, 1, reader=FOLLOWER) == NO_SESSION
    talk.logs[0] = RECORDS
    results.keep([])
    assert talk.answer(waiting) == (session, [0])
    assert talk.begin(0, 1, reader=FOLLOWER) != NO_SESSION


def test_a_client_that_hangs_up_while_it_waits_leaves_its_session_to_eviction() -> None:
    talk = Talk(slots=1)
    results: Promise[list[FetchResult]] = Promise()
    talk.context(talk.begin(0), 1, [], [], CONSUMER).begin_wait(results, lambda _: None)
    assert talk.begin(0, reader=FOLLOWER) == NO_SESSION
    results.abandon()
    assert talk.begin(0, reader=FOLLOWER) != NO_SESSION


def test_without_slots_there_are_no_sessions() -> None:
    talk = Talk(slots=0)
    assert talk.fetch(NO_SESSION, INITIAL_EPOCH, [0], reader=FOLLOWER) == (NO_SESSION, [0])


def test_a_session_does_not_grow_over_what_a_request_may_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_sessions, "MAX_REQUEST_ELEMENTS", 5)
    talk = Talk()
    session = talk.begin(0, 1, 2)
    assert talk.fetch(session, 1, [3, 4]) == (session, [3, 4])
    assert talk.refusal(session, 2, [5]) is UNKNOWN_ID
    assert len(talk.cache) == talk.evictions() == 0


def test_all_sessions_together_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_sessions, "MOST_PARTITIONS", 5)
    talk = Talk()
    session = talk.begin(0, 1, 2)
    assert talk.begin(0, 1, 2) == NO_SESSION
    assert talk.begin(0, 1) != NO_SESSION
    assert talk.refusal(session, 1, [3]) is UNKNOWN_ID
    assert talk.begin(0, 1, 2) != NO_SESSION and talk.evictions() == 0


# --- in a node --------------------------------------------------------------------------------------------------------


def parts(response: Any) -> list[tuple[int, int]]:
    """(error, high watermark) of each partition that is answered."""
    return [(part.error_code, part.high_watermark) for topic in response.responses for part in topic.partitions]


def test_a_waiting_fetch_of_a_session_is_answered_with_what_comes() -> None:
    node = LoneNode()
    topic_id = node.create()
    first = node.fetch(topic_id, 0, session_epoch=INITIAL_EPOCH).value.response
    assert first.session_id and parts(first) == [(0, 0)]
    incremental = {"session_id": first.session_id, "topics": [], "max_wait_ms": 5000}
    waiting = node.fetch(topic_id, 0, session_epoch=1, **incremental)
    node.run(4000)
    assert not waiting.kept
    node.produce(topic_id, batch(1))
    assert parts(waiting.value.response) == [(0, 1)]
    assert waiting.value.response.session_id == first.session_id
    moved = node.fetch(topic_id, 1, **{**incremental, "session_epoch": 2, "max_wait_ms": 0, "topics": []})
    assert parts(moved.value.response) == [(0, 1)], "it did not say that it has read them"


def test_a_waiting_fetch_without_news_is_answered_with_nothing() -> None:
    node = LoneNode()
    topic_id = node.create()
    session = node.fetch(topic_id, 0, session_epoch=INITIAL_EPOCH).value.response.session_id
    waiting = node.fetch(topic_id, 0, session_id=session, session_epoch=1, topics=[], max_wait_ms=300)
    node.run(301)
    response = waiting.value.response
    assert (response.error_code, response.session_id, parts(response)) == (0, session, [])


def test_a_client_that_hangs_up_may_go_on_with_a_full_fetch_only() -> None:
    node = LoneNode()
    topic_id = node.create()
    session = node.fetch(topic_id, 0, session_epoch=INITIAL_EPOCH).value.response.session_id
    node.fetch(topic_id, 0, session_id=session, session_epoch=1, topics=[], max_wait_ms=5000).abandon()
    assert len(node.broker.replicas.fetches) == 0
    lost = node.fetch(topic_id, 0, session_id=session, session_epoch=1, topics=[]).value.response
    assert (lost.error_code, lost.session_id, parts(lost)) == (WRONG_EPOCH, NO_SESSION, [])
    again = node.fetch(topic_id, 0, session_id=session, session_epoch=INITIAL_EPOCH).value.response
    assert again.session_id not in (NO_SESSION, session) and parts(again) == [(0, 0)]


def test_what_a_client_may_read_is_asked_at_each_fetch_of_its_session() -> None:
    denies = Denies()
    node = LoneNode(authorizer=denies)
    topic_id = node.create()
    node.produce(topic_id, batch(1))
    part = FetchRequest.Topic.Partition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        session_epoch=INITIAL_EPOCH,
        topics=[FetchRequest.Topic(topic_id=topic_id, partitions=[part])],
    )
    first = node.ask(request, principal=CLIENT)
    assert parts(first) == [(0, 1)]
    denies.denied = ((AclOperation.READ, AclResourceType.TOPIC, "t"),)
    incremental = request.replace(session_id=first.session_id, session_epoch=1, topics=[])
    assert parts(node.ask(incremental, principal=CLIENT)) == [(ErrorCode.TOPIC_AUTHORIZATION_FAILED, -1)]


@pytest.mark.parametrize(("denied", "is_follower"), [((), True), ((AclOperation.CLUSTER_ACTION,), False)])
def test_a_client_counts_as_a_follower_if_it_may_be_one(denied: tuple[AclOperation, ...], is_follower: bool) -> None:
    denies = Denies()
    denies.denied = tuple((operation, AclResourceType.CLUSTER, "kafka-cluster") for operation in denied)
    node = LoneNode(authorizer=denies)
    state = FetchRequest.ReplicaState(replica_id=2, replica_epoch=-1)
    request = FetchRequest(max_wait_ms=0, min_bytes=0, session_epoch=INITIAL_EPOCH, topics=[], replica_state=state)
    node.ask(request, principal=CLIENT)
    (session,) = node.broker.fetch_sessions._sessions.values()
    assert session.reader.is_follower is is_follower


def test_an_id_that_is_not_known_yet_is_resolved_when_it_is() -> None:
    node, other = LoneNode(), LoneNode()
    other.fetch(Uuid(bytes(15) + b"\xee"), 0, session_epoch=INITIAL_EPOCH)
    topic_id = other.create()  # both have the same dice, so the other's topic will have the same id
    first = node.fetch(topic_id, 0, session_epoch=INITIAL_EPOCH).value.response
    assert parts(first) == [(ErrorCode.UNKNOWN_TOPIC_ID, -1)]
    assert node.create() == topic_id
    then = node.fetch(topic_id, 0, session_id=first.session_id, session_epoch=1, topics=[]).value.response
    assert parts(then) == [(0, 0)]
