"""A node with quotas in its metadata: who is throttled, for how long, and what is counted for whom."""

from __future__ import annotations

import math
from typing import Any

import pytest

from pykraft.broker.requests import quota_managers
from pykraft.broker.requests.quota_managers import IDLE_MS, ClientQuotas, sanitized
from pykraft.broker.requests.quotas import Used, is_exempt
from pykraft.broker.settings.config import read_node_config
from pykraft.common.errors import ErrorCode
from pykraft.common.metrics import Metrics
from pykraft.protocol.api import ListenerKind
from pykraft.protocol.messages.admin import DeleteTopicsRequest
from pykraft.protocol.messages.brokers import AlterPartitionRequest
from pykraft.protocol.messages.cluster import MetadataRequest
from pykraft.protocol.messages.data import FetchRequest, ProduceRequest
from pykraft.protocol.messages.quorum import VoteRequest
from pykraft.protocol.schema import Request
from tests.harness import asking
from tests.harness.asking import grow
from tests.harness.controllers import make, new_topic
from tests.harness.lone_node import PROPERTIES, REQUEST_BYTES, LoneNode
from tests.harness.quotas import Parts, alter, described, described_by, image_of

BROKER, CONTROLLER = ListenerKind.BROKER, ListenerKind.CONTROLLER
ALICE, BOB = "User:alice", "User:bob"
PRODUCER, CONSUMER = "producer_byte_rate", "consumer_byte_rate"
REQUEST, MUTATION = "request_percentage", "controller_mutation_rate"
PRODUCE, METADATA = ProduceRequest.api, MetadataRequest.api
EXCEEDED = ErrorCode.THROTTLING_QUOTA_EXCEEDED


def quotas_of(*quotas: tuple[Parts, dict[str, float]]) -> ClientQuotas:
    """Quotas that hold, at a time of which the caller says how late it is."""
    found = ClientQuotas(read_node_config(PROPERTIES).values, Metrics(), dict, lambda: 0)
    found.follow(image_of(*quotas))
    return found


def produced(quotas: ClientQuotas, size: int, now: int, principal: str = ALICE, client_id: str = "a") -> int:
    """For how long the client of a produce of this size is throttled."""
    context = LoneNode.context(ProduceRequest(), principal=principal, client_id=client_id)
    return quotas.record(context, Used(size, 50, 0), now)


# --- bytes ------------------------------------------------------------------------------------------------------------


def test_a_producer_is_throttled_until_its_rate_is_back_at_its_quota() -> None:
    quotas = quotas_of(({"user": "alice"}, {PRODUCER: 1000.0}))
    assert produced(quotas, 10_000, 0) == 0
    assert produced(quotas, 3_000, 0) == 3000
    assert produced(quotas, 1, 20_000) == 0, "eleven seconds later nothing of it is left"


def test_each_client_is_charged_for_itself_alone() -> None:
    quotas = quotas_of(({"user": "alice"}, {PRODUCER: 1000.0}), ({"user": "bob"}, {PRODUCER: 1000.0}))
    assert produced(quotas, 50_000, 0) == 40_000
    assert produced(quotas, 9_000, 0, BOB) == 0
    assert produced(quotas, 2_000, 0, BOB) == 1000


def test_the_client_ids_of_a_user_share_its_quota_and_have_their_own_of_a_default() -> None:
    shared = quotas_of(({"user": "alice"}, {PRODUCER: 1000.0}))
    assert produced(shared, 10_000, 0, client_id="a") == 0
    assert produced(shared, 1_000, 0, client_id="b") == 1000
    apart = quotas_of(({"user": "alice", "client-id": None}, {PRODUCER: 1000.0}))
    assert produced(apart, 10_000, 0, client_id="a") == 0
    assert produced(apart, 1_000, 0, client_id="b") == 0


def test_the_quota_of_a_user_and_client_id_goes_before_that_of_the_user_and_this_before_defaults() -> None:
    quotas = quotas_of(
        ({"user": "alice", "client-id": "fast"}, {PRODUCER: 10_000.0}),
        ({"user": "alice"}, {PRODUCER: 1000.0}),
        ({"user": None}, {PRODUCER: 100.0}),
        ({"client-id": "fast"}, {PRODUCER: 1.0}),
    )
    assert produced(quotas, 20_000, 0, client_id="fast") == 0
    assert produced(quotas, 20_000, 0, client_id="slow") == 10_000
    assert produced(quotas, 2_000, 0, BOB, "fast") == 10_000


def test_other_quotas_hold_at_once_and_what_was_counted_stays() -> None:
    quotas = quotas_of(({"user": "alice"}, {PRODUCER: 1000.0}))
    assert produced(quotas, 10_000, 0) == 0
    quotas.follow(image_of(({"user": "alice"}, {PRODUCER: 500.0})))
    assert produced(quotas, 0, 0) == 10_000
    quotas.follow({})
    assert not quotas.is_active
    assert produced(quotas, 1 << 40, 0) == 0


def test_the_samples_are_as_many_and_as_long_as_the_nodes_file_says() -> None:
    properties = {**PROPERTIES, "quota.window.num": "3", "quota.window.size.seconds": "2"}
    quotas = ClientQuotas(read_node_config(properties).values, Metrics(), dict, lambda: 0)
    quotas.follow(image_of(({"user": "alice"}, {PRODUCER: 1000.0, REQUEST: 1.0})))
    assert produced(quotas, 4_000, 0) == 0
    assert produced(quotas, 1_000, 0) == 1000
    context = LoneNode.context(MetadataRequest(topics=[]), principal=ALICE)
    assert quotas.record(context, Used(10, 10, 10_000_000), 0) == 2000, "one sample at most"


@pytest.mark.parametrize("limit", [0.0001, 1e308, math.inf, math.nan])
def test_no_quota_breaks_a_node(limit: float) -> None:
    quotas = quotas_of(({"user": "alice"}, dict.fromkeys((PRODUCER, CONSUMER, REQUEST, MUTATION), limit)))
    context = LoneNode.context(FetchRequest(topics=[]), principal=ALICE)
    for now in (0, 0, 700, 30_000):
        assert (produced(quotas, 1000, now) > 0) is (limit < 1)
        assert (quotas.record_fetch(context, 1000, now) > 0) is (limit < 1)
        assert 0 <= quotas.most_fetched_bytes(context) < 1 << 31
        if not limit < 1:
            quotas.mutations(context, 0).charge(1000)


# --- the time of handlers ---------------------------------------------------------------------------------------------


def test_a_client_whose_handlers_need_too_much_time_is_throttled_for_a_second_at_most() -> None:
    quotas = quotas_of(({"user": "alice"}, {REQUEST: 5.0}))
    context = LoneNode.context(MetadataRequest(topics=[]), principal=ALICE)
    assert quotas.record(context, Used(10, 10, 500_000), 0) == 0, "5 percent of ten seconds"
    assert quotas.record(context, Used(10, 10, 20_000), 0) == 400
    assert quotas.record(context, Used(10, 10, 5_000_000), 0) == 1000


def test_a_produce_that_wants_no_answer_is_charged_its_bytes_and_not_its_time() -> None:
    quotas = quotas_of(({"user": "alice"}, {REQUEST: 0.1, PRODUCER: 1000.0}))
    context = LoneNode.context(ProduceRequest(), principal=ALICE)
    assert quotas.record(context, Used(9_000, 0, 5_000_000), 0) == 0
    assert quotas.record(context, Used(2_000, 0, 5_000_000), 0) == 1000


def test_what_nodes_ask_each_other_is_exempt() -> None:
    quotas = quotas_of(({"user": None}, {REQUEST: 0.0001, PRODUCER: 1.0, CONSUMER: 1.0}))
    follower = FetchRequest(replica_state=FetchRequest.ReplicaState(replica_id=2), topics=[])
    old_follower = FetchRequest(replica_id=2, topics=[])
    for request, kind, expected in (
        (VoteRequest(topics=[]), CONTROLLER, True),
        (AlterPartitionRequest(broker_id=1, broker_epoch=0, topics=[]), CONTROLLER, True),
        (FetchRequest(topics=[]), CONTROLLER, True),
        (follower, BROKER, True),
        (old_follower, BROKER, True),
        (FetchRequest(topics=[]), BROKER, False),
        (MetadataRequest(topics=[]), BROKER, False),
        (make(), CONTROLLER, False),
    ):
        context = LoneNode.context(request, kind)
        assert is_exempt(context, request) is expected, request
        throttle_ms = quotas.record(context, Used(1000, 1000, 5_000_000, is_exempt(context, request)), 0)
        assert (throttle_ms == 0) is expected, request


# --- a whole node -----------------------------------------------------------------------------------------------------


def node_with(*quotas: tuple[Parts, dict[str, float | None]], **settings: Any) -> LoneNode:
    lone = LoneNode(**settings)
    response = lone.ask(alter(*quotas))
    assert [entry.error_code for entry in response.entries] == [0] * len(quotas)
    return lone


def fetch_of(topic: Any, **fields: Any) -> FetchRequest:
    part = FetchRequest.Topic.Partition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topics = [FetchRequest.Topic(topic_id=topic, partitions=[part])]
    return FetchRequest(**{"max_wait_ms": 0, "min_bytes": 1, "topics": topics, **fields})


def produce(lone: LoneNode, topic: Any, principal: str = ALICE, **fields: Any) -> Any:
    part = ProduceRequest.Topic.Partition(index=0, records=memoryview(bytearray(asking.batch(1))))
    data = [ProduceRequest.Topic(topic_id=topic, partition_data=[part])]
    request = ProduceRequest(**{"acks": 1, "timeout_ms": 500, "topic_data": data, **fields})
    return lone.ask(request, principal=principal)


def test_a_node_charges_its_clients_as_soon_as_there_is_a_quota_and_no_longer() -> None:
    lone = LoneNode()
    topic = lone.create()
    assert produce(lone, topic).throttle_time_ms == 0
    lone.ask(alter(({"user": "alice"}, {PRODUCER: 1.0})))
    assert produce(lone, topic).throttle_time_ms == (REQUEST_BYTES - 10) * 1000
    assert produce(lone, topic, BOB).throttle_time_ms == 0
    lone.ask(alter(({"user": "alice"}, {PRODUCER: None})))
    assert produce(lone, topic).throttle_time_ms == 0


def test_a_node_that_starts_again_has_its_quotas_from_the_log_and_from_a_snapshot() -> None:
    lone = node_with(({"user": "alice"}, {PRODUCER: 1.0}))
    lone.create()
    lone.node.abandon()
    again = LoneNode(lone.filesystem)
    assert again.node.client_quotas.is_active
    assert described(again.ask(described_by())) == {(("user", "alice"),): {PRODUCER: 1.0}}


def test_a_reader_above_its_quota_gets_no_records_and_its_bytes_are_taken_back() -> None:
    lone = node_with(({"user": "alice"}, {CONSUMER: 60.0}))
    topic = lone.create()
    for _ in range(4):
        produce(lone, topic, BOB)
    first = lone.ask(fetch_of(topic), principal=ALICE)
    assert first.throttle_time_ms == 0
    size = len(first.responses[0].partitions[0].records)
    assert 0 < size <= 600
    second = lone.ask(fetch_of(topic), principal=ALICE)
    assert second.throttle_time_ms > 0
    assert not second.responses
    for _ in range(3):
        again = lone.ask(fetch_of(topic), principal=ALICE)
        assert 0 < again.throttle_time_ms <= second.throttle_time_ms, "what it did not get is not counted"
    assert lone.ask(fetch_of(topic), principal=BOB).throttle_time_ms == 0
    lone.run(12_000)
    third = lone.ask(fetch_of(topic), principal=ALICE)
    assert third.throttle_time_ms == 0, "the empty answers counted for nothing"
    assert len(third.responses[0].partitions[0].records) == size


def test_a_fetch_brings_ten_seconds_worth_at_most() -> None:
    lone = node_with(({"user": "alice"}, {CONSUMER: 500.0}))
    topic = lone.create()
    for _ in range(100):
        produce(lone, topic, BOB)
    refused = lone.ask(fetch_of(topic, min_bytes=1 << 20), principal=ALICE)
    assert 0 <= refused.throttle_time_ms < 200, "what is around the records is too much"
    lone.run(refused.throttle_time_ms)
    (answer,) = lone.ask(fetch_of(topic, min_bytes=1 << 20), principal=ALICE).responses[0].partitions
    assert 4000 < len(answer.records) <= 5000
    assert len(lone.ask(fetch_of(topic), principal=BOB).responses[0].partitions[0].records) > 6000


def test_a_session_of_a_throttled_reader_goes_on_as_if_it_had_not_asked() -> None:
    lone = node_with(({"user": "alice"}, {CONSUMER: 60.0}))
    topic = lone.create()
    for _ in range(4):
        produce(lone, topic, BOB)
    first = lone.ask(fetch_of(topic, session_id=0, session_epoch=0), principal=ALICE)
    assert first.session_id > 0
    again = fetch_of(topic, session_id=first.session_id, session_epoch=1, topics=[])
    second = lone.ask(again, principal=ALICE)
    assert (second.session_id, second.responses) == (first.session_id, [])
    assert second.throttle_time_ms > 0
    lone.run(12_000)
    third = lone.ask(again.replace(session_epoch=2), principal=ALICE)
    assert len(third.responses[0].partitions[0].records) > 0


def test_a_throttled_fetch_that_names_all_partitions_begins_no_session() -> None:
    lone = node_with(({"user": "alice"}, {CONSUMER: 1.0}))
    topic = lone.create()
    produce(lone, topic, BOB)
    answer = lone.ask(fetch_of(topic, session_id=0, session_epoch=0), principal=ALICE)
    assert answer.throttle_time_ms > 0
    assert answer.session_id == 0
    assert len(lone.broker.fetch_sessions) == 0


def test_a_follower_is_not_throttled_whatever_its_quota_is() -> None:
    lone = node_with(({"user": None}, {CONSUMER: 1.0, REQUEST: 0.0001}), broker_session_timeout_ms="60000")
    lone.join(2)
    topic = lone.create(replicas=(1, 2))
    produce(lone, topic, ALICE)
    state = FetchRequest.ReplicaState(replica_id=2)
    answer = lone.ask(fetch_of(topic, replica_state=state), principal="User:test")
    assert answer.throttle_time_ms == 0
    assert len(answer.responses[0].partitions[0].records) > 0


# --- changes to the cluster -------------------------------------------------------------------------------------------


def topics_of(*sizes: int, first: int = 0) -> Any:
    return make(
        *(
            new_topic(f"t{number}", assignment={part: [1] for part in range(size)})
            for number, size in enumerate(sizes, first)
        )
    )


@pytest.mark.parametrize("kind", ListenerKind, ids=lambda kind: kind.value)
def test_topics_beyond_the_quota_are_refused_one_by_one_until_the_tokens_are_back(kind: ListenerKind) -> None:
    lone = node_with(({"user": "alice"}, {MUTATION: 1.0}))
    response = lone.ask(topics_of(10, 10, 10), kind, principal=ALICE)
    assert [topic.error_code for topic in response.topics] == [0, 0, EXCEEDED]
    assert 8_900 <= response.throttle_time_ms <= 9000, "nine tokens are missing"
    assert lone.ask(topics_of(1, first=5), kind, principal=BOB).topics[0].error_code == 0
    lone.run(9000)
    assert lone.ask(topics_of(10, first=2), kind, principal=ALICE).topics[0].error_code == 0


def test_more_partitions_and_deleted_topics_take_tokens_too() -> None:
    lone = node_with(({"user": "alice"}, {MUTATION: 1.0}))
    lone.ask(topics_of(5, 6), principal=BOB)
    assert lone.ask(grow(("t0", 17)), principal=ALICE).results[0].error_code == 0
    refused = lone.ask(grow(("t0", 18)), principal=ALICE)
    assert refused.results[0].error_code == EXCEEDED
    assert refused.throttle_time_ms > 0
    gone = DeleteTopicsRequest(topics=[DeleteTopicsRequest.Topic(name="t1")], timeout_ms=1000)
    assert lone.ask(gone, principal=ALICE).responses[0].error_code == EXCEEDED
    lone.run(2000)
    assert lone.ask(gone, principal=ALICE).responses[0].error_code == 0
    assert lone.ask(gone.replace(topics=[DeleteTopicsRequest.Topic(name="t0")]), principal=ALICE).throttle_time_ms > 0


@pytest.mark.parametrize(("version", "is_strict"), [(5, False), (6, True)])
def test_a_version_that_does_not_know_the_error_is_throttled_instead(version: int, is_strict: bool) -> None:
    lone = node_with(({"user": "alice"}, {MUTATION: 1.0}))
    response = lone.ask(topics_of(20, 10), version=version, principal=ALICE)
    assert [topic.error_code for topic in response.topics] == [0, EXCEEDED if is_strict else 0]
    assert response.throttle_time_ms == pytest.approx(9000 if is_strict else 19_000, abs=100)


def test_a_request_that_is_only_validated_takes_tokens_as_in_kafka() -> None:
    lone = node_with(({"user": "alice"}, {MUTATION: 1.0}))
    lone.ask(topics_of(20).replace(validate_only=True), principal=ALICE)
    assert lone.ask(topics_of(1), principal=ALICE).topics[0].error_code == EXCEEDED


# --- memory and metrics -----------------------------------------------------------------------------------------------


def counts(quotas: ClientQuotas) -> int:
    return len(quotas._produce.sensors)


def test_a_count_that_was_not_used_for_an_hour_is_dropped() -> None:
    quotas = quotas_of(({"client-id": None}, {PRODUCER: 1000.0}))
    for number in range(100):
        produced(quotas, 1, number, client_id=f"c{number}")
    assert counts(quotas) == 100
    for number in range(60):
        produced(quotas, 1, IDLE_MS + 200, client_id=f"later {number}")
    assert counts(quotas) == 60


def test_a_flood_of_client_ids_takes_no_more_memory_than_those_of_a_few_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(quota_managers, "MOST_SENSORS", 100)
    quotas = quotas_of(({"client-id": None}, {PRODUCER: 1000.0}))
    most = 0
    for number in range(3000):
        produced(quotas, 20_000, 20 * number, client_id=f"c{number}")
        most = max(most, counts(quotas))
    assert most <= 11_000 // 20 + 2, "what tells more than a new count is kept"


def test_a_client_without_a_quota_has_no_count() -> None:
    quotas = quotas_of(({"user": "alice"}, {PRODUCER: 1000.0}))
    produced(quotas, 1, 0, BOB)
    assert counts(quotas) == 0


def test_metrics_have_the_names_and_tags_of_kafka() -> None:
    lone = node_with(
        ({"user": "a b~"}, {PRODUCER: 1.0, REQUEST: 50.0}),
        ({"client-id": "reader"}, {CONSUMER: 5.0}),
        ({"user": "alice"}, {MUTATION: 1.0}),
    )
    topic = lone.create()
    produce(lone, topic, "User:a b~")
    lone.ask(fetch_of(topic), principal=BOB, client_id="reader")
    lone.ask(topics_of(20, 1), principal=ALICE)
    found = {(kind, name): value for kind, name, value in lone.node.metrics.read()}
    for kind, name in (
        ("Produce", "byte-rate,user=a%20b%7E,client-id="),
        ("Produce", "throttle-time,user=a%20b%7E,client-id="),
        ("Fetch", "byte-rate,user=,client-id=reader"),
        ("Request", "request-time,user=a%20b%7E,client-id="),
        ("ControllerMutation", "mutation-rate,user=alice,client-id="),
        ("ControllerMutation", "tokens,user=alice,client-id="),
        ("Request", "exempt-request-time"),
        ("Fetch", "queue-size"),
    ):
        assert (kind, name) in found, name
    assert found["Produce", "queue-size"] == 1
    assert found["Produce", "byte-rate,user=a%20b%7E,client-id="] > 1
    assert found["ControllerMutation", "tokens,user=alice,client-id="] < 0


def test_a_user_is_named_as_java_encodes_it_for_an_address() -> None:
    assert sanitized("CN=a b,O=ä*~-_.") == "CN%3Da%20b%2CO%3D%C3%A4%2A%7E-_."


def test_requests_without_any_quota_are_not_looked_at() -> None:
    lone = LoneNode()
    assert not lone.node.client_quotas.is_active
    request: Request = MetadataRequest(topics=[])
    assert lone.handle(request).value.charge is None
    lone.ask(alter(({"ip": None}, {"connection_creation_rate": 5.0})))
    assert lone.handle(request).value.charge is None, "a quota of addresses is not that of a client"
