"""Changes of settings as the controller plans them: what is written, and each refusal by its error code.

Apache Kafka's answers to the same questions are in tests/conformance/answers/configs.txt; here are those that it takes
a controller without a broker in front to ask, and what happens to the image.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.controller import configs
from pykraft.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE
from pykraft.protocol.messages.admin import DeleteTopicsRequest
from pykraft.protocol.messages.records import ConfigRecord
from tests.harness.asking import APPEND, BROKER, DELETE, SET, SUBTRACT, TOPIC, Change, change, replace_all
from tests.harness.controllers import ControllerScript, make, new_topic

NONE, REFUSED = ErrorCode.NONE, ErrorCode.INVALID_CONFIG


class Configs(ControllerScript):
    """A controller with broker 1 and topic t, that is asked to change settings."""

    def __init__(self, **settings: str) -> None:
        super().__init__()
        self.bring_up(1)
        self._first_offset = self.image.provenance.offset + 1
        self.create(new_topic("t", configs={name.replace("_", "."): value for name, value in settings.items()}))

    def change(self, name: str, *changes: Change, kind: int = TOPIC, validate_only: bool = False) -> ErrorCode:
        request = change((kind, name, changes), validate_only=validate_only)
        response = self.answered(self.controller.answer(request, self.now))
        return ErrorCode.of(response.responses[0].error_code)

    def replace_all(self, name: str, *settings: tuple[str, str | None], kind: int = TOPIC) -> ErrorCode:
        response = self.answered(self.controller.answer(replace_all((kind, name, settings)), self.now))
        return ErrorCode.of(response.responses[0].error_code)

    def settings(self, name: str = "t", kind: int = TOPIC_RESOURCE) -> dict[str, str]:
        return dict(self.image.config_of(kind, name))

    def written(self) -> list[ConfigRecord]:
        """Of the topic that was created, and of what was changed since."""
        batches = [batch for batch in self.heard.batches if batch.last_offset >= self._first_offset]
        return [record for batch in batches for record in batch.records if isinstance(record, ConfigRecord)]


# --- what is written --------------------------------------------------------------------------------------------------


def test_a_record_is_written_for_each_setting_that_changes_and_only_for_those() -> None:
    script = Configs(retention_ms="1")
    before = len(script.written())
    assert script.change("t", ("retention.ms", SET, "1"), ("segment.ms", SET, "2"), ("flush.ms", DELETE, None)) is NONE
    assert [(record.name, record.value) for record in script.written()[before:]] == [("segment.ms", "2")]
    assert script.settings() == {"retention.ms": "1", "segment.ms": "2"}


def test_brokers_are_told_even_if_nothing_changes() -> None:
    script = Configs()
    for _ in range(2):
        assert script.change("", ("log.retention.ms", SET, "7"), kind=BROKER) is NONE
    assert [(record.resource_name, record.value) for record in script.written()] == [("", "7"), ("", "7")]
    assert script.settings("", BROKER_RESOURCE) == {"log.retention.ms": "7", "min.insync.replicas": "1"}


def test_the_older_request_takes_away_what_it_does_not_name() -> None:
    script = Configs(retention_ms="1", segment_ms="2")
    assert script.replace_all("t", ("retention.ms", "3"), ("flush.ms", "4")) is NONE
    assert script.settings() == {"retention.ms": "3", "flush.ms": "4"}
    assert script.replace_all("t") is NONE
    assert script.settings() == {}


def test_what_is_only_validated_is_not_written() -> None:
    script = Configs()
    assert script.change("t", ("retention.ms", SET, "1"), validate_only=True) is NONE
    assert script.change("t", ("retention.ms", SET, "x"), validate_only=True) is REFUSED
    assert script.written() == []


def test_each_resource_gets_all_that_is_asked_for_it_or_nothing() -> None:
    script = Configs()
    script.create(new_topic("u"))
    bad = [("retention.ms", SET, "1"), ("segment.bytes", SET, "1")]
    request = change((TOPIC, "t", bad), (TOPIC, "u", bad[:1]), (TOPIC, "v", bad[:1]))
    response = script.answered(script.controller.answer(request, script.now))
    codes = [ErrorCode.of(result.error_code) for result in response.responses]
    assert codes == [REFUSED, NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert (script.settings("t"), script.settings("u")) == ({}, {"retention.ms": "1"})


def test_the_settings_of_a_topic_go_when_it_goes() -> None:
    script = Configs(retention_ms="1")
    script.delete(DeleteTopicsRequest.Topic(name="t"))
    script.create(new_topic("t"))
    assert script.settings() == {}


@pytest.mark.parametrize(
    ("present", "operation", "value", "result"),
    [
        (None, APPEND, "compact", "delete,compact"),
        ("compact", APPEND, "delete", "compact,delete"),
        ("compact,delete", APPEND, "delete,compact", "compact,delete"),
        ("compact,delete", SUBTRACT, "compact", "delete"),
        ("compact", SUBTRACT, "delete", "compact"),
        (None, SUBTRACT, "delete", ""),
        ("compact", SUBTRACT, "compact,delete", ""),
    ],
)
def test_a_list_grows_and_shrinks(present: str | None, operation: int, value: str, result: str) -> None:
    script = Configs(**{"cleanup_policy": present} if present else {})
    assert script.change("t", ("cleanup.policy", operation, value)) is NONE
    assert script.settings() == {"cleanup.policy": result}


def test_a_list_of_brokers_begins_with_its_default() -> None:
    script = Configs()
    assert script.change("1", ("log.cleanup.policy", APPEND, "compact"), kind=BROKER) is NONE
    assert script.settings("1", BROKER_RESOURCE) == {"log.cleanup.policy": "delete,compact"}


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "name", "changes", "error"),
    [
        (TOPIC, "t", [("no.such", SET, "1")], REFUSED),
        (TOPIC, "t", [("cleanup.policy", APPEND, "burn")], REFUSED),
        (TOPIC, "t", [("cleanup.policy", APPEND, "")], REFUSED),
        (TOPIC, "t", [("retention.ms", APPEND, "1")], REFUSED),
        (TOPIC, "t", [("no.such", SUBTRACT, "1")], REFUSED),
        (TOPIC, "t", [("retention.ms", SET, "9" * 20)], REFUSED),
        (TOPIC, "t", [("max.message.bytes", SET, str(1 << 31))], REFUSED),
        (TOPIC, "t", [("min.compaction.lag.ms", SET, "2"), ("max.compaction.lag.ms", SET, "1")], REFUSED),
        (TOPIC, "t", [("compression.gzip.level", SET, "0")], REFUSED),
        (TOPIC, "t", [("remote.storage.enable", SET, "true")], REFUSED),
        (TOPIC, "t", [("leader.replication.throttled.replicas", SET, "1" * 32768)], REFUSED),
        (TOPIC, "t", [("retention.ms", 9, "1")], ErrorCode.INVALID_REQUEST),
        (TOPIC, "", [("retention.ms", SET, "1")], ErrorCode.INVALID_REQUEST),
        (TOPIC, "a/b", [], ErrorCode.INVALID_TOPIC_EXCEPTION),
        (TOPIC, "nowhere", [("retention.ms", SET, "1")], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (BROKER, "9", [("log.retention.ms", SET, "1")], ErrorCode.BROKER_ID_NOT_REGISTERED),
        (BROKER, "one", [("log.retention.ms", SET, "1")], ErrorCode.INVALID_REQUEST),
        (BROKER, "-1", [("log.retention.ms", SET, "1")], ErrorCode.INVALID_REQUEST),
        (BROKER, "9" * 5000, [("log.retention.ms", SET, "1")], ErrorCode.INVALID_REQUEST),
        (BROKER, str(1 << 31), [("log.retention.ms", SET, "1")], ErrorCode.INVALID_REQUEST),
        (BROKER, "1", [("retention.ms", SET, "1")], ErrorCode.INVALID_REQUEST),
        (BROKER, "", [("log.retention.hours", SET, "1")], ErrorCode.INVALID_REQUEST),
        (BROKER, "", [("node.id", SET, "1")], ErrorCode.INVALID_REQUEST),
        (BROKER, "", [("num.io.threads", SET, "0")], ErrorCode.INVALID_REQUEST),
        (BROKER, "", [("log.retention.ms", SET, "x")], ErrorCode.INVALID_REQUEST),
        (BROKER, "", [("log.retention.ms", APPEND, "1")], REFUSED),
        (3, "t", [], ErrorCode.UNSUPPORTED_VERSION),
        (16, "t", [], ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_a_change_is_refused(kind: int, name: str, changes: Sequence[Change], error: ErrorCode) -> None:
    script = Configs()
    assert script.change(name, *changes, kind=kind) is error
    assert script.written() == []


def test_two_settings_may_contradict_each_other_though_they_were_set_one_after_the_other() -> None:
    script = Configs(min_compaction_lag_ms="2")
    assert script.change("t", ("max.compaction.lag.ms", SET, "1")) is REFUSED
    assert script.change("t", ("max.compaction.lag.ms", SET, "1"), ("min.compaction.lag.ms", DELETE, None)) is NONE


def test_a_resource_may_be_named_once() -> None:
    script = Configs()
    one = (TOPIC, "t", [("retention.ms", SET, "1")])
    response = script.answered(script.controller.answer(change(one, one), script.now))
    assert [result.error_code for result in response.responses] == [ErrorCode.INVALID_REQUEST]


def test_a_request_may_not_change_more_than_fits_into_one_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(configs, "MAX_RECORDS_PER_REQUEST", 2)
    script = Configs()
    names = ("retention.ms", "segment.ms", "flush.ms")
    with pytest.raises(KafkaError) as refused:
        script.change("t", *((name, SET, "1") for name in names))
    assert refused.value.code is ErrorCode.POLICY_VIOLATION
    assert script.change("t", *((name, SET, "1") for name in names[:2])) is NONE


def test_a_new_topic_is_told_the_defaults_of_all_brokers() -> None:
    script = Configs()
    script.change("", ("log.retention.ms", SET, "77"), kind=BROKER)
    request = make(new_topic("u", configs={"segment.ms": "5"}))
    (topic,) = script.answered(script.controller.answer(request, script.now)).topics
    told = {config.name: (config.value, config.config_source) for config in topic.configs}
    assert (told["retention.ms"], told["segment.ms"], told["flush.ms"][1]) == (("77", 3), ("5", 1), 5)


def test_only_the_active_controller_changes_settings() -> None:
    script = Configs()
    script.controller.handle_leader_change(script.raft.leader_and_epoch._replace(leader_id=2))
    with pytest.raises(KafkaError) as refused:
        script.change("t", ("retention.ms", SET, "1"))
    assert refused.value.code is ErrorCode.NOT_CONTROLLER
