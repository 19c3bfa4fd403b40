"""What a user hands in wrongly is refused in the call that brings it, in a sentence; the client is as it was."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import pykraft
from pykraft import Admin, Consumer, KafkaError, Producer, TopicPartition
from pykraft.client.administration.admin import new_topic
from pykraft.client.arguments import (
    milliseconds,
    record_headers,
    topic_name,
    topic_names,
    topic_partition,
    whole_number,
)
from pykraft.client.config import ADMIN_CONFIG, bootstrap_endpoints, client_config
from pykraft.common.errors import ConfigError, ErrorCode
from pykraft.common.types import Endpoint
from pykraft.runtime import client_thread
from tests.harness.waiting import wait_until

NOBODY = "127.0.0.1:1"
T0 = TopicPartition("t", 0)


@pytest.mark.parametrize(
    ("read", "argument", "error", "said"),
    [
        (topic_name, None, TypeError, "a topic is named by a str, not by None"),
        (topic_name, b"t", TypeError, "not by b't'"),
        (topic_name, "t" * 250, KafkaError, "INVALID_TOPIC_EXCEPTION: 't{20}...': the topic's name is not allowed"),
        (topic_name, "\udc80", KafkaError, r"'\\udc80': the topic's name"),
        (topic_names, "flights", TypeError, r"come in a list: \['flights'\], not 'flights'"),
        (topic_names, ["t", 5], TypeError, "not by 5"),
        (topic_partition, "t-0", TypeError, r"TopicPartition\(topic, number\), not 't-0'"),
        (topic_partition, ("t", "0"), TypeError, "the number of a partition is a whole number, not '0'"),
        (topic_partition, ("t", -1), ValueError, "0 or more"),
        (whole_number, 1.5, TypeError, "a whole number, not 1.5"),
        (whole_number, 1 << 63, ValueError, "at most 9223372036854775807, not 9223372036854775808"),
        (milliseconds, "1", TypeError, "it is a number of milliseconds, not '1'"),
        (milliseconds, float("nan"), TypeError, "not nan"),
        (new_topic, "t", TypeError, r"a topic is made of NewTopic\(name, .*\), not of 't'"),
        (record_headers, [("name", "text")], TypeError, r"bytes or None, not \('name', 'text'\)"),
        (record_headers, {"ab": b"1"}, TypeError, "not 'ab'"),
        (record_headers, [("\udc80", b"1")], ValueError, r"'\\udc80' has half a character"),
    ],
)
def test_a_wrong_argument_is_named(read: Any, argument: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        read("it", argument) if read in (whole_number, milliseconds) else read(argument)


@pytest.mark.parametrize("client", [Producer, Consumer, Admin])
def test_an_address_or_a_dict_out_of_place_is_told_where_it_belongs(client: Any) -> None:
    name = client.__name__
    with pytest.raises(TypeError, match=rf"as in {name}\(\*\*settings\)$"):
        client({"bootstrap.servers": NOBODY})
    with pytest.raises(TypeError, match=rf"^{name}\('{NOBODY}'\): .* {name}\(bootstrap_servers='{NOBODY}'\)$"):
        client(NOBODY)


def test_a_partition_as_text_is_refused_before_anything_is_connected() -> None:
    with Producer(bootstrap_servers=NOBODY) as producer, pytest.raises(TypeError, match="whole number, not '0'"):
        producer.send("t", b"", partition="0")  # type: ignore[arg-type]


def test_dir_lists_what_there_is_and_nothing_else() -> None:
    assert dir(pykraft) == sorted([*pykraft.__all__, "__version__"])


def test_a_right_one_is_taken_as_it_is() -> None:
    assert topic_names(("a", "b/c")) == ["a", "b/c"], "whether a name is allowed is for the brokers to say"
    assert topic_partition(("t", 0)) == T0
    assert record_headers([("name", b"1"), ("name", None)]) == [("name", b"1"), ("name", None)]
    assert record_headers([("né", b"")]) == [("né", b"")]
    assert record_headers(None) == []


@pytest.fixture
def producer() -> Iterator[Producer]:
    with Producer(bootstrap_servers=NOBODY, max_block_ms=0) as producer:
        yield producer


@pytest.mark.parametrize(
    "arguments",
    [
        {"topic": None},
        {"topic": "\udc80"},
        {"topic": "t", "headers": [("name", "text")]},
        {"topic": "t", "timestamp_ms": -5},
        {"topic": "t", "timestamp_ms": 1.5},
        {"topic": "t", "timestamp_ms": 1 << 70},
        {"topic": "t", "value": "text"},
    ],
)
def test_a_producer_survives(producer: Producer, arguments: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError, KafkaError)):
        producer.send(**arguments)
    with pytest.raises(KafkaError, match="no broker has answered"):
        producer.send("t", b"")


@pytest.mark.parametrize(
    "mistake",
    [
        lambda consumer: consumer.subscribe("flights"),
        lambda consumer: consumer.subscribe([None]),
        lambda consumer: consumer.assign(["t-0"]),
        lambda consumer: consumer.assign([("t", "0")]),
        lambda consumer: (consumer.assign([T0]), consumer.seek(T0, 1 << 70)),
        lambda consumer: (consumer.assign([T0]), consumer.seek(T0, 1.5)),
        lambda consumer: consumer.offsets_for_times({T0: 1.5}),
        lambda consumer: consumer.end_offsets([("t", 1 << 40)]),
        lambda consumer: consumer.partitions_for_topic(b"t"),
        lambda consumer: (consumer.assign([T0]), consumer.poll(max_records=0)),
        lambda consumer: (consumer.assign([T0]), consumer.poll(max_records=1.5)),
        lambda consumer: (consumer.assign([T0]), consumer.poll("1000")),
        lambda consumer: Consumer("t", consumer_timeout_ms="1000"),
        lambda consumer: consumer.poll(),
    ],
)
def test_a_consumer_survives(mistake: Callable[[Consumer], object]) -> None:
    with Consumer(bootstrap_servers=NOBODY) as consumer:
        with pytest.raises((TypeError, ValueError)):
            mistake(consumer)
        consumer.assign([T0])
        assert consumer.poll(50) == {}


def test_a_consumer_that_reads_nothing_says_so() -> None:
    said = r"reads nothing yet: assign\(\) partitions or subscribe\(\) to topics"
    with Consumer(bootstrap_servers=NOBODY) as consumer, pytest.raises(ValueError, match=said):
        consumer.poll(1000)


@pytest.mark.parametrize(
    "mistake",
    [
        lambda admin: admin.create_topic("t", "3"),
        lambda admin: admin.create_topic("t", 1 << 40),
        lambda admin: admin.create_topic(b"t"),
        lambda admin: admin.create_topics("t"),
        lambda admin: admin.create_topics(["t"]),
        lambda admin: admin.delete_topics("flights"),
        lambda admin: admin.describe_topics("flights"),
        lambda admin: admin.delete_records({T0: 1 << 70}),
        lambda admin: admin.list_offsets({T0: "latest"}),
        lambda admin: admin.list_offsets({"t-0": -1}),
        lambda admin: admin.describe_configs(["t"]),
        lambda admin: admin.incremental_alter_configs({"t": {"retention.ms": 1}}),
    ],
)
def test_an_administrator_survives(mistake: Callable[[Admin], object]) -> None:
    with Admin(bootstrap_servers=NOBODY, default_api_timeout_ms=50) as admin:
        with pytest.raises((TypeError, KafkaError)) as refused:
            mistake(admin)
        assert "REQUEST_TIMED_OUT" not in str(refused.value)
        with pytest.raises(KafkaError) as late:
            admin.list_topics()
        assert late.value.code is ErrorCode.REQUEST_TIMED_OUT


@pytest.mark.parametrize(
    "settings",
    [
        {"request_timeout_ms": 1 << 40, "delivery_timeout_ms": 1 << 41},
        {"max_request_size": 1 << 31},
        {"delivery_timeout_ms": 1 << 31},
        {"batch_size": 1 << 31},
    ],
)
def test_a_setting_that_fits_no_request_is_refused(settings: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="at most 2147483647"):
        Producer(bootstrap_servers=NOBODY, **settings)


def test_a_security_protocol_is_one_of_four_and_a_store_of_java_is_refused() -> None:
    for protocol in ("PLAINTEXT", "SSL", "ssl"):
        Producer(bootstrap_servers=NOBODY, security_protocol=protocol).close()
    with pytest.raises(ConfigError, match=r"but must be one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"):
        Producer(bootstrap_servers=NOBODY, security_protocol="TLS")
    with pytest.raises(ConfigError, match=r"ssl\.truststore\.type is JKS, but must be PEM: `keytool -importkeystore"):
        Producer(bootstrap_servers=NOBODY, security_protocol="SSL", ssl_truststore_location="trust.jks")
    with pytest.raises(ConfigError, match=r"the truststore in no/trust\.pem cannot be read: No such file"):
        Producer(
            bootstrap_servers=NOBODY,
            security_protocol="SSL",
            ssl_truststore_type="PEM",
            ssl_truststore_location="no/trust.pem",
        )


@pytest.mark.parametrize(
    ("name", "said"), [("c" * 32768, "but must be text of at most 32767 bytes"), ("\ud800", "must be text without NUL")]
)
def test_a_client_has_a_name_that_can_be_sent(name: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Producer(bootstrap_servers=NOBODY, client_id=name)


def test_an_address_may_be_written_as_a_brokers_listener() -> None:
    config = client_config(ADMIN_CONFIG, {"bootstrap_servers": "PLAINTEXT://a:1,b:2, X://[::1]:3"})
    assert bootstrap_endpoints(config) == [Endpoint("a", 1), Endpoint("b", 2), Endpoint("::1", 3)]


# --- an address at which nothing listens
# ------------------------------------------------------------------------------------


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_thread, "SILENCE_MS", 0)


@pytest.mark.usefixtures("impatient")
def test_a_wrong_address_is_named_once_and_before_a_call_gives_up(caplog: pytest.LogCaptureFixture) -> None:
    admin = Admin(bootstrap_servers=f"{NOBODY},localhost:1", client_id="me", default_api_timeout_ms=500)
    with admin, pytest.raises(KafkaError):
        admin.describe_cluster()
    said = (
        r"me, after 0 seconds: no broker has answered at 127\.0\.0\.1:1( \(Connection refused\))?,"
        r" localhost:1( \(.*\))?: is the address right, and a broker running\?"
    )
    assert [bool(re.fullmatch(said, message)) for message in caplog.messages] == [True]


@pytest.mark.parametrize(
    ("address", "reason"),
    [(NOBODY, "Connection refused"), ("no.such.host.invalid:9092", "the name of this host cannot be resolved")],
)
def test_a_call_that_gives_up_says_why_no_broker_was_reached(address: str, reason: str) -> None:
    with Admin(bootstrap_servers=address, default_api_timeout_ms=300) as admin, pytest.raises(KafkaError) as refused:
        admin.list_topics()
    assert f"no broker has answered at {address} ({reason}): is the address right" in str(refused.value)
    with Producer(bootstrap_servers=address, max_block_ms=300) as producer, pytest.raises(KafkaError) as refused:
        producer.send("t", b"x")
    assert f"no broker has answered at {address} ({reason}): is the address right" in str(refused.value)


def test_a_client_that_expects_an_answer_gives_up_before_its_calls_do() -> None:
    with Admin(bootstrap_servers=NOBODY) as admin, pytest.raises(KafkaError, match="no broker has answered at"):
        admin.expect_an_answer(300)
        admin.list_topics()
    with Producer(bootstrap_servers=NOBODY) as producer, pytest.raises(KafkaError, match="no broker has answered at"):
        producer.expect_an_answer(300)
        producer.send("t", b"x")


def test_a_record_that_waits_for_a_broker_keeps_no_processor_busy() -> None:
    with Producer(bootstrap_servers=NOBODY, max_block_ms=1500) as producer, pytest.raises(KafkaError):
        began = time.process_time()
        producer.send("t", b"x")
    assert time.process_time() - began < 0.5


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("client", [Producer, Consumer])
def test_every_client_names_it(client: type[Producer | Consumer], caplog: pytest.LogCaptureFixture) -> None:
    with client(bootstrap_servers=NOBODY):
        wait_until(lambda: bool(caplog.messages), "the address is named")


def test_to_subscribe_to_nothing_is_to_read_nothing() -> None:
    with Consumer(bootstrap_servers=NOBODY) as consumer:
        consumer.subscribe(["t"])
        consumer.subscribe([])
        consumer.assign([T0])
        assert consumer.assignment() == {T0}
