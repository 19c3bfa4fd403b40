"""What a user of kafka-python brings along: each name of its producer, consumer and admin client is served, accepted
with a warning, or answered with one sentence that says what to write instead."""

from __future__ import annotations

import inspect
import logging
import pickle
import warnings
from collections.abc import Iterator

import pytest

import pykraft
from pykraft import errors
from pykraft.admin import Admin
from pykraft.client import without_effect
from pykraft.client.administration.admin import NewPartitions, NewTopic
from pykraft.client.administration.configs import ConfigResource, ConfigResourceType, new_configs
from pykraft.client.config import admin_config, consumer_config, producer_config
from pykraft.client.consuming.consumer_record import ConsumerRecord, deserialized
from pykraft.client.habits import OF_ADMIN, OF_CONSUMER, OF_PRODUCER, ByName
from pykraft.client.producing.accumulator import RecordMetadata
from pykraft.common.errors import ConfigError, ErrorCode, KafkaError
from pykraft.consumer import Consumer
from pykraft.producer import Producer, RecordFuture

with warnings.catch_warnings():  # it reads its schemas in a way that is deprecated
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka
    import kafka.admin
    import kafka.errors

CLIENTS = [
    (kafka.KafkaProducer, Producer, OF_PRODUCER, producer_config),
    (kafka.KafkaConsumer, Consumer, OF_CONSUMER, consumer_config),
    (kafka.KafkaAdminClient, Admin, OF_ADMIN, admin_config),
]
OF_ITS_OWN = {
    "DEFAULT_CONFIG",
    "DEPRECATED_CONFIGS",
    "DEFAULT_SESSION_TIMEOUT_MS_PRE_KIP_735",
    "max_usable_produce_magic",
}
"""Names of kafka-python's classes that no program calls."""
NOWHERE = {"bootstrap_servers": "127.0.0.1:1"}


@pytest.fixture(autouse=True)
def nothing_was_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(without_effect, "_warned", set())


@pytest.fixture
def admin() -> Iterator[Admin]:
    with Admin(**NOWHERE) as client:
        yield client


def names_of(client: type) -> list[str]:
    return [name for name in dir(client) if not name.startswith("_") and name not in OF_ITS_OWN]


@pytest.mark.parametrize(("theirs", "ours", "habits"), [each[:3] for each in CLIENTS])
def test_every_call_of_kafka_python_is_there_or_says_what_to_call(theirs: type, ours: type, habits: object) -> None:
    missing = [name for name in names_of(theirs) if not hasattr(ours, name) and name not in habits.calls]  # type: ignore[attr-defined]
    assert missing == []
    stale = [name for name in habits.calls if hasattr(ours, name)]  # type: ignore[attr-defined]
    assert stale == [], "a call that is there needs no sentence"


@pytest.mark.parametrize(("theirs", "ours", "habits"), [each[:3] for each in CLIENTS])
def test_every_argument_of_kafka_python_is_taken_or_says_what_to_write(
    theirs: type, ours: type, habits: object
) -> None:
    missing = []
    for name in names_of(theirs):
        if not callable(getattr(ours, name, None)):
            continue
        taken = inspect.signature(getattr(ours, name)).parameters.keys()
        known = habits.arguments.get(name, {})  # type: ignore[attr-defined]
        wanted = inspect.signature(getattr(theirs, name)).parameters.keys() - {"self"}
        missing += [(name, each) for each in wanted if each not in taken and each not in known]
        stale = [each for each, instead in known.items() if " " not in instead and instead not in taken]
        assert stale == [], f"{name} has no such argument"
    assert missing == []


@pytest.mark.parametrize(("theirs", "ours", "read"), [(each[0], each[1], each[3]) for each in CLIENTS])
def test_every_setting_of_kafka_python_works_or_is_answered_in_a_sentence(
    theirs: type, ours: type, read: object, caplog: pytest.LogCaptureFixture
) -> None:
    of_the_class = inspect.signature(ours.__init__).parameters.keys()  # type: ignore[misc]
    refused = set()
    for name, default in theirs.DEFAULT_CONFIG.items():  # type: ignore[attr-defined]
        if name == "bootstrap_servers" or name in of_the_class:
            continue
        value = default if default is not None else "x"
        try:
            read({**NOWHERE, name: value})  # type: ignore[operator]
        except ConfigError as error:
            assert "no setting of this client; it has" not in str(error), name
            assert "Did you mean" not in str(error), name
            refused.add(name)
    assert refused >= {"ssl_context", "kafka_client", "ssl_certfile"}
    assert refused <= {
        *("ssl_context", "kafka_client", "ssl_certfile", "ssl_keyfile", "ssl_crlfile", "ssl_ciphers", "proxy_url"),
        *("socks5_proxy", "sasl_oauth_token_provider", "default_offset_commit_callback"),
        *("partition_assignment_strategy", "enable_auto_commit"),  # objects as values; without a group
        "compression_type",  # "x" is none
    }


@pytest.mark.parametrize(
    ("given", "name", "value"),
    [
        ({"sasl_plain_username": "ann"}, "sasl_username", "ann"),
        ({"sasl_plain_password": "secret"}, "sasl_password", "[hidden]"),
        ({"ssl_cafile": "ca.pem"}, "ssl_truststore_location", "ca.pem"),
        ({"ssl_cafile": "ca.pem"}, "ssl_truststore_type", "PEM"),
        ({"ssl_check_hostname": False}, "ssl_endpoint_identification_algorithm", ""),
        ({"ssl_check_hostname": True}, "ssl_endpoint_identification_algorithm", "https"),
        ({"linger_ms": 7}, "linger_ms", 7),
        ({"bootstrap_servers": ["a:1", "b:2"]}, "bootstrap_servers", ("a:1", "b:2")),
    ],
)
def test_a_client_shows_its_settings_under_our_names(given: dict[str, object], name: str, value: object) -> None:
    with Producer(**{**NOWHERE, **given}) as producer:  # type: ignore[arg-type]
        assert producer.config[name] == value


def test_two_names_of_one_setting_must_agree() -> None:
    with pytest.raises(ConfigError, match=r"sasl\.plain\.username and sasl\.username are both set"):
        producer_config({**NOWHERE, "sasl_username": "a", "sasl_plain_username": "b"})


def test_a_version_of_the_protocol_is_accepted_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            producer_config({**NOWHERE, "api_version": (2, 5)})
    assert [record.getMessage() for record in caplog.records] == [
        "without effect on this client: api.version (each broker says which versions it speaks)"
    ]


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda admin: admin.metrics(), "clients keep no metrics"),
        (lambda admin: admin.describe_groups(["g"]), r"call describe_consumer_groups\(group_ids\)"),
        (lambda admin: admin.create_topics(new_topics=[], raise_errors=False), "leave raise_errors out"),
        (lambda admin: admin.create_topics([], 5000), "validate_only is True or False, not 5000"),
        (lambda admin: admin.create_topics(topics=[], new_topics=[]), "are the same argument"),
        (lambda admin: admin.create_topics([], timeout_ms=-1), "timeout_ms is 0 or more"),
        (lambda admin: admin.alter_configs([ConfigResource("TOPIC", "t")]), "brings no settings"),
        (lambda admin: admin.nonsense(), "'Admin' object has no attribute 'nonsense'$"),
    ],
)
def test_what_cannot_be_served_is_answered_in_a_sentence(admin: Admin, call: object, sentence: str) -> None:
    with pytest.raises((AttributeError, TypeError, ValueError), match=sentence):
        call(admin)  # type: ignore[operator]


def test_a_client_answers_whether_it_has_a_call(admin: Admin) -> None:
    assert not hasattr(admin, "metrics")
    assert not admin.bootstrap_connected()


def test_a_resource_is_named_by_a_word_and_may_bring_settings() -> None:
    resource = ConfigResource("topic", "flights", {"retention.ms": 1})
    assert resource == ConfigResource(ConfigResourceType.TOPIC, "flights") == (2, "flights")
    assert new_configs(resource) == {"retention.ms": 1}
    assert new_configs(pickle.loads(pickle.dumps(resource))) == {"retention.ms": 1}
    with pytest.raises(ValueError, match=r"one of TOPIC, BROKER, .*, not 'TOPICS'"):
        ConfigResource("TOPICS", "flights")


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (kafka.admin.NewTopic, NewTopic),
        (kafka.admin.NewPartitions, NewPartitions),
        (kafka.admin.ConfigResource, ConfigResource),
    ],
)
def test_what_is_handed_to_an_admin_client_has_the_same_arguments(theirs: type, ours: type) -> None:
    wanted = list(inspect.signature(theirs.__init__).parameters)[1:]  # type: ignore[misc]
    assert list(inspect.signature(ours).parameters)[: len(wanted)] == wanted


def test_answers_by_name_say_so_when_they_are_read_as_a_list() -> None:
    answer = ByName({"flights": 1})
    with pytest.raises(TypeError, match=r"a dict, not a list: take \['flights'\], or list\(answer.values\(\)\)"):
        answer[0]  # type: ignore[index]
    with pytest.raises(KeyError):
        answer["trains"]
    assert answer == {"flights": 1}


def test_a_future_has_the_calls_of_kafka_python() -> None:
    seen: list[object] = []
    future = RecordFuture(b"key", None)
    future.add_callback(seen.append).add_both(seen.append).add_callback(lambda name, place: seen.append(name), "named")
    assert (future.is_done, future.succeeded(), future.failed(), future.value) == (False, False, False, None)
    future.settle(RecordMetadata("flights", 1, 7, 99), None)
    place = future.get()
    assert (future.is_done, future.succeeded(), future.failed(), future.value) == (True, True, False, place)
    assert (place.topic_partition, place.offset) == (("flights", 1), 7)
    assert (place.serialized_key_size, place.serialized_value_size) == (3, -1)
    assert seen == [place, place, "named"]


def test_a_future_that_failed_says_whether_the_error_may_pass() -> None:
    seen: list[object] = []
    future = RecordFuture().add_both(lambda name, error: seen.append(name), "named")
    future.settle(None, error := KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert (future.succeeded(), future.failed(), future.retriable(), future.value) == (False, True, True, None)
    assert seen == ["named"]
    assert future.exception() is error


def test_a_record_knows_the_sizes_that_it_had_in_the_log() -> None:
    raw = ConsumerRecord("flights", 0, 7, 99, 0, b"key", None, [], -1)
    assert (raw.serialized_key_size, raw.serialized_value_size) == (3, -1)
    read = deserialized(raw, "a longer key", 17)
    assert (read.key, read.value, read.serialized_key_size, read.serialized_value_size) == ("a longer key", 17, 3, -1)
    assert read == raw._replace(key="a longer key", value=17)
    assert repr(read) == repr(raw._replace(key="a longer key", value=17))


def test_close_of_kafka_python_with_a_position_is_no_timeout_of_zero_seconds() -> None:
    consumer: Consumer = Consumer(**NOWHERE)
    with pytest.raises(TypeError, match=r"write close\(autocommit=False\)"):
        consumer.close(False)
    consumer.close()


@pytest.mark.parametrize("name", ["KafkaProducer", "KafkaConsumer", "KafkaAdminClient"])
def test_a_client_under_its_name_in_kafka_python_says_ours(name: str) -> None:
    with pytest.raises(ImportError, match=f"pykraft has no {name}: import {name.removeprefix('Kafka')[:5]}"):
        getattr(pykraft, name)


def exceptions() -> list[tuple[str, object]]:
    of_protocol = [
        (name, getattr(each, "errno", None)) for name, each in vars(kafka.errors).items() if isinstance(each, type)
    ]
    old = {"IncompatibleBrokerVersion", "InvalidFetchRequestError", "NoError", "UnrecognizedBrokerVersion"}
    return [(name, number) for name, number in of_protocol if isinstance(number, int) and name not in old]


def test_every_exception_of_the_protocol_in_kafka_python_says_its_code() -> None:
    found = exceptions()
    assert len(found) > 80
    for name, number in found:
        if name in errors.__all__:
            continue
        with pytest.raises(ImportError, match=rf"ErrorCode\.{ErrorCode(number).name}$"):
            getattr(errors, name)


@pytest.mark.parametrize("name", ["KafkaTimeoutError", "NoBrokersAvailable", "KafkaConfigurationError"])
def test_an_exception_of_the_client_says_what_to_catch(name: str) -> None:
    with pytest.raises(ImportError, match=f"pykraft.errors has no {name}: catch "):
        getattr(errors, name)
    assert not hasattr(errors, "nonsense")
