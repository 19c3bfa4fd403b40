"""Every setting of Kafka's clients is known: it works here, or it is accepted with one warning."""

from __future__ import annotations

import logging
import pathlib

import pytest

from pykraft.client import without_effect
from pykraft.client.config import (
    ADMIN_BOOTSTRAP_SERVERS,
    ADMIN_CONFIG,
    CONSUMER_CONFIG,
    LINGER_MS,
    PRODUCER_CONFIG,
    admin_config,
    client_config,
    producer_config,
)
from pykraft.client.habits import WITHOUT_EFFECT_HERE
from pykraft.common.errors import ConfigError

# Recorded from Apache Kafka 4.4.0; tests/judges/test_java_client_settings.py asks it again.
RECORDED = pathlib.Path(__file__).with_name("settings_of_kafka_4.4.0.txt")
OF_KAFKA = [line.split() for line in RECORDED.read_text().splitlines()]
DEFINITIONS = {"producer": PRODUCER_CONFIG, "consumer": CONSUMER_CONFIG, "admin": ADMIN_CONFIG}
SERVERS = {"bootstrap.servers": "127.0.0.1:1"}


@pytest.fixture(autouse=True)
def nothing_was_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(without_effect, "_warned", set())


@pytest.mark.parametrize("client", DEFINITIONS)
def test_every_setting_of_a_client_of_kafka_works_or_is_accepted_with_a_reason(client: str) -> None:
    works = DEFINITIONS[client].keys
    names = {name for of, name, _ in OF_KAFKA if of == client}
    assert len(names) > 90
    assert sorted(names - works.keys() - without_effect.WITHOUT_EFFECT.keys()) == []


def test_nothing_is_accepted_that_no_client_of_kafka_has_or_that_works_in_all_that_have_it() -> None:
    of_kafka = {name for _, name, _ in OF_KAFKA}
    of_kafka_python = {name for names in WITHOUT_EFFECT_HERE.values() for name in names}
    assert sorted(without_effect.WITHOUT_EFFECT.keys() - of_kafka) == sorted(of_kafka_python)
    for name in sorted(without_effect.WITHOUT_EFFECT.keys() - of_kafka_python):
        assert [of for of, each, _ in OF_KAFKA if each == name and name not in DEFINITIONS[of].keys], name


def test_what_has_no_effect_is_warned_of_in_one_line_and_once(caplog: pytest.LogCaptureFixture) -> None:
    given = {**SERVERS, "send.buffer.bytes": "1", "group_id": "g", "linger_ms": 7}
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert producer_config(given)[LINGER_MS] == 7
    assert caplog.messages == [
        "without effect on this client: group.id (another kind of client has it); "
        "send.buffer.bytes (the operating system chooses the sizes of buffers)"
    ]


def test_a_file_for_java_is_good_for_every_client(caplog: pytest.LogCaptureFixture) -> None:
    """As `kafka-topics --command-config` takes it: what a producer or a consumer is configured with."""
    file = {**SERVERS, "acks": "all", "group.id": "test-consumer-group", "key.serializer": "org.example.Serializer"}
    with caplog.at_level(logging.WARNING):
        assert admin_config(file)[ADMIN_BOOTSTRAP_SERVERS] == ("127.0.0.1:1",)
    assert len(caplog.messages) == 1


@pytest.mark.parametrize("client", DEFINITIONS)
def test_a_slip_is_refused_and_the_nearest_setting_named_also_of_those_without_effect(client: str) -> None:
    for slip, meant in (("send.bufer.bytes", "send.buffer.bytes"), ("client_idd", "client.id")):
        with pytest.raises(ConfigError, match=f"is no setting of this client. Did you mean {meant}?"):
            client_config(DEFINITIONS[client], {**SERVERS, slip: "1", "acks": "all"})


def test_what_a_transaction_would_rely_on_is_refused_and_its_default_accepted() -> None:
    name = "transaction.two.phase.commit.enable"
    with pytest.raises(ConfigError, match="must be false: two-phase commit is not built"):
        producer_config({**SERVERS, name: True})
    producer_config({**SERVERS, name: False})
