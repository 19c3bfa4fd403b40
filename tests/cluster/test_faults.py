"""Faults on purpose: what clients, ours and unmodified ones, make of them."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from typing import Any

import confluent_kafka
import confluent_kafka.admin
import pytest

from pykraft import Cluster, Consumer, Producer
from pykraft.common.errors import KafkaError
from tests.harness import others

LIMIT_S = 60


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(3) as running:
        yield running


@pytest.fixture
def topic(cluster: Cluster, request: pytest.FixtureRequest) -> str:
    name: str = request.node.originalname
    cluster.create_topic(name)
    return name


def values(cluster: Cluster, topic: str) -> list[bytes | None]:
    """All records of the topic's one partition."""
    with cluster.admin() as admin:
        (end,) = {offset.offset for offset in admin.list_offsets({(topic, 0): -1}).values()}
    with Consumer(topic, bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        return [next(consumer).value for _ in range(end)]


def send_ours(cluster: Cluster, topic: str, **settings: Any) -> None:
    with Producer(bootstrap_servers=cluster.bootstrap_servers, **settings) as producer:
        producer.send(topic, b"one").result(LIMIT_S)


def send_librdkafka(cluster: Cluster, topic: str, **settings: Any) -> None:
    failures: list[object] = []
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap_servers, **settings})
    producer.produce(topic, b"one", on_delivery=lambda error, _: failures.append(error))
    assert producer.flush(LIMIT_S) == 0
    assert failures == [None]


def send_kafka_python(cluster: Cluster, topic: str, **settings: Any) -> None:
    producer = others.module("kafka").KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, **settings)
    producer.send(topic, b"one").get(LIMIT_S)
    producer.close()


CLIENTS = [send_ours, send_librdkafka, send_kafka_python]


@pytest.mark.parametrize("send", CLIENTS)
@pytest.mark.parametrize("said", [{"error": "NOT_LEADER_OR_FOLLOWER"}, {"drop": "request"}], ids=["refused", "lost"])
def test_a_client_sends_again_what_was_refused_or_lost(cluster: Cluster, send: Any, said: dict[str, Any]) -> None:
    topic = f"again-{send.__name__}-{next(iter(said))}"
    cluster.create_topic(topic)
    with cluster.fault("Produce", topic=topic, count=2, **said) as fault:
        send(cluster, topic)
    assert [(caught.api, caught.topics) for caught in fault.caught] == [("Produce", {topic})] * 2
    assert values(cluster, topic) == [b"one"]


@pytest.mark.parametrize("send", CLIENTS)
def test_an_acknowledgement_that_is_lost_makes_a_second_record_unless_the_producer_is_idempotent(
    cluster: Cluster, send: Any
) -> None:
    name = "enable.idempotence" if send is send_librdkafka else "enable_idempotence"
    for idempotent, expected in ((False, [b"one", b"one"]), (True, [b"one"])):
        topic = f"lost-{send.__name__}-{idempotent}"
        cluster.create_topic(topic)
        with cluster.fault("Produce", topic=topic, count=1, drop="answer") as fault:
            send(cluster, topic, **{name: idempotent})
        assert fault.is_over
        assert values(cluster, topic) == expected


def test_a_request_may_be_late(cluster: Cluster, topic: str) -> None:
    began = time.monotonic()
    with cluster.fault("Produce", topic=topic, delay_ms=400, count=1):
        send_ours(cluster, topic)
    assert time.monotonic() - began >= 0.4
    assert values(cluster, topic) == [b"one"]


def test_a_fetch_in_a_session_is_about_all_its_topics_and_followers_are_left_alone(
    cluster: Cluster, topic: str
) -> None:
    with Consumer(topic, bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        send_ours(cluster, topic)
        assert next(consumer).value == b"one"  # from here on the session names no topic any more
        with cluster.fault("Fetch", topic=topic, drop="request") as fault:
            send_ours(cluster, topic, acks="all")  # needs two followers, which fetch
            cluster.wait_until(lambda _: not consumer.poll(0) and bool(fault.caught), what="a fetch was lost")
        assert fault.caught[0].topics == {topic}
        assert fault.caught[0].client_id.startswith("pykraft-consumer")


def test_an_error_that_no_client_survives_reaches_who_sent(cluster: Cluster, topic: str) -> None:
    with cluster.fault("Produce", error="TOPIC_AUTHORIZATION_FAILED"), pytest.raises(KafkaError) as refused:
        send_ours(cluster, topic)
    assert "TOPIC_AUTHORIZATION_FAILED" in str(refused.value)


def test_nodes_together_catch_as_many_as_were_asked_for_also_one_that_was_started_again(cluster: Cluster) -> None:
    with cluster.fault("ApiVersions", client_id="counted", count=5) as fault:
        cluster.restart(2)
        senders = [
            threading.Thread(target=send_librdkafka, args=(cluster, f"counted-{n}"), kwargs={"client.id": "counted"})
            for n in range(3)
        ]
        for n in range(3):
            cluster.create_topic(f"counted-{n}", partitions=3)
        for sender in senders:
            sender.start()
        for sender in senders:
            sender.join(LIMIT_S)
    assert len(fault.caught) == 5
    assert {caught.client_id for caught in fault.caught} == {"counted"}


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ({"api": "Prduce"}, "api='Prduce': there is no such api; did you mean 'Produce'?"),
        ({"api": "Vote"}, "api='Vote': there is no such api"),
        ({"api": "EndTxn", "topic": "t"}, "topic='t': a request of EndTxn names no topic"),
        ({"error": "NOT_LEADER"}, "error='NOT_LEADER': there is no such error; did you mean 'NOT_LEADER_OR_FOLLOWER'?"),
        ({"drop": "answers"}, "drop='answers': there is no such drop; did you mean 'answer'?"),
        ({"drop": "answer", "error": "NETWORK_EXCEPTION"}, "a request that is lost gets no answer, so say one of them"),
        ({"count": 0}, "count=0: must be a whole number, and at least 1"),
        ({"delay_ms": 0.5}, "delay_ms=0.5: must be a whole number, and at least 0"),
    ],
)
def test_a_mistake_is_one_sentence(cluster: Cluster, said: dict[str, Any], sentence: str) -> None:
    refused = pytest.raises(ValueError, match=re.escape(sentence))
    with refused, cluster.fault(**{"api": "Produce", **said}):
        pass


def test_an_answer_to_metadata_with_an_error_names_the_brokers_and_its_topics_have_the_error(
    cluster: Cluster, topic: str
) -> None:
    """As in Kafka: a client that knows no broker any more could not ask again."""
    with cluster.fault("Metadata", error="LEADER_NOT_AVAILABLE", client_id="asks") as met:
        admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "client.id": "asks"})
        told = admin.list_topics(topic, timeout=LIMIT_S)
    assert met.caught and len(told.brokers) == 3
    assert told.topics[topic].error.name() == "LEADER_NOT_AVAILABLE"
