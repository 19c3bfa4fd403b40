"""Settings on a node: asked for, changed while a topic is in use, and still there after a restart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from pykraft.common.errors import ErrorCode
from pykraft.common.types import TopicPartition, Uuid
from pykraft.protocol.api import ListenerKind
from pykraft.protocol.messages.admin import DeleteTopicsRequest
from pykraft.protocol.messages.configs import ListConfigResourcesRequest
from tests.harness.asking import BROKER, DELETE, SET, TOPIC, Change, change, describe, replace_all
from tests.harness.compaction import records
from tests.harness.log_laws import all_batches
from tests.harness.lone_node import LoneNode
from tests.harness.storage import NOW_MS, batch

PARTITION = TopicPartition("t", 0)


def alter(node: LoneNode, kind: int, name: str, *changes: Change) -> ErrorCode:
    """Ask the broker for it; what it says."""
    response = node.ask(change((kind, name, changes)))
    node.run()
    return ErrorCode.of(response.responses[0].error_code)


def put(node: LoneNode, name: str, value: str, topic: str = "t") -> None:
    assert alter(node, TOPIC, topic, (name, SET, value)) is ErrorCode.NONE


def told(node: LoneNode, kind: int, name: str, setting: str, **fields: bool) -> Any:
    (config,) = node.ask(describe((kind, name), only=[setting], **fields)).results[0].configs
    return config


def produce(node: LoneNode, topic_id: Uuid, records: Any) -> Any:
    """What becomes of these records."""
    answer = node.produce(topic_id, records)
    node.run()
    return answer.value.response.responses[0].partition_responses[0]


def appended(node: LoneNode, topic_id: Uuid, records: Any) -> ErrorCode:
    return ErrorCode.of(produce(node, topic_id, records).error_code)


# --- a change holds at once -------------------------------------------------------------------------------------------


def test_limits_and_codecs_hold_from_the_next_batch_on() -> None:
    node = LoneNode()
    topic_id = node.create()
    keyless = batch(2, timestamp=NOW_MS).buffer
    assert appended(node, topic_id, keyless) is ErrorCode.NONE
    for name, value, error in (
        ("max.message.bytes", "50", ErrorCode.MESSAGE_TOO_LARGE),
        ("max.message.bytes", "5000", ErrorCode.NONE),
        ("cleanup.policy", "compact", ErrorCode.INVALID_RECORD),
        ("cleanup.policy", "delete", ErrorCode.NONE),
        ("min.insync.replicas", "2", ErrorCode.NONE),  # no more than there are
        ("compression.type", "zstd", ErrorCode.NONE),
        ("message.timestamp.type", "LogAppendTime", ErrorCode.NONE),
    ):
        put(node, name, value)
        assert appended(node, topic_id, keyless) is error, (name, value)
    codecs = [each.compression.name for each in all_batches(node.broker.logs.logs[PARTITION])]
    assert codecs == ["NONE"] * 4 + ["ZSTD"] * 2
    assert produce(node, topic_id, keyless).log_append_time_ms == NOW_MS


def test_records_that_are_refused_are_named_in_the_answer() -> None:
    node = LoneNode()
    topic_id = node.create(cleanup_policy="compact")
    answer = produce(node, topic_id, batch(2).buffer)
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert "2 of 2 records" in answer.error_message
    assert [error.batch_index for error in answer.record_errors] == [0, 1]
    assert all("no key" in error.batch_index_error_message for error in answer.record_errors)


def test_segments_are_rolled_and_deleted_by_the_new_settings() -> None:
    node = LoneNode(log_retention_check_interval_ms="1000", log_initial_task_delay_ms="1000")
    topic_id = node.create()
    log = node.broker.logs.logs[PARTITION]
    for _ in range(6):
        appended(node, topic_id, batch(5, size=100, timestamp=NOW_MS - 1000).buffer)
    assert len(log.segments) == 1
    put(node, "internal.segment.bytes", "1000")
    for _ in range(6):
        appended(node, topic_id, batch(5, size=100, timestamp=NOW_MS - 1000).buffer)
    assert len(log.segments) > 3
    node.run(1500)
    assert log.log_start_offset == 0
    put(node, "retention.bytes", "1500")
    node.run(1500)
    assert 0 < log.log_start_offset < 60
    put(node, "retention.ms", "500")
    node.run(1500)
    assert log.log_start_offset == 60


def test_the_cleaner_begins_and_stops() -> None:
    node = LoneNode(log_cleaner_backoff_ms="1000", log_cleaner_min_cleanable_ratio="0.1")
    topic_id = node.create(internal_segment_bytes="300")
    log = node.broker.logs.logs[PARTITION]

    def write_and_wait() -> int:
        for number in range(20):
            appended(node, topic_id, records((f"key {number % 3}", "x" * 30), timestamp=NOW_MS).buffer)
        node.run(2500)
        return sum(each.count for each in all_batches(log))

    assert write_and_wait() == 20
    put(node, "cleanup.policy", "compact")
    left = write_and_wait()
    assert left < 15
    put(node, "cleanup.policy", "delete")
    assert write_and_wait() == left + 20


def test_fewer_replicas_demanded_let_the_high_watermark_rise() -> None:
    node = LoneNode()
    node.join(2)
    topic_id = node.create("t", replicas=(1, 2), min_insync_replicas="2")
    partition = node.broker.replicas.partitions[PARTITION]
    node.produce(topic_id, batch(1).buffer, acks=1)
    # Broker 2 never fetches; when its session is over, it leaves the ISR, and one replica is not enough.
    node.run(20_000)
    assert partition.is_under_min_isr and partition.log.high_watermark == 0
    put(node, "min.insync.replicas", "1")
    assert partition.log.high_watermark == 1


# --- the defaults of brokers ------------------------------------------------------------------------------------------


def test_all_topics_follow_their_broker_unless_they_say_otherwise() -> None:
    node = LoneNode(message_max_bytes="2000")
    ids = [node.create("t"), node.create("u", max_message_bytes="3000")]
    large = batch(2, size=600).buffer
    wrong = ErrorCode.MESSAGE_TOO_LARGE
    for name, value, expected in (
        (None, "", [ErrorCode.NONE] * 2),
        ("", "500", [wrong, ErrorCode.NONE]),
        ("1", "1500", [ErrorCode.NONE] * 2),
        ("1", "400", [wrong, ErrorCode.NONE]),
    ):
        if name is not None:
            assert alter(node, BROKER, name, ("message.max.bytes", SET, value)) is ErrorCode.NONE
        assert [appended(node, topic_id, large) for topic_id in ids] == expected, (name, value)
    made = node.create("v")
    assert appended(node, made, large) is wrong
    for name in ("", "1"):
        assert alter(node, BROKER, name, ("message.max.bytes", DELETE, None)) is ErrorCode.NONE
    assert appended(node, made, large) is ErrorCode.NONE
    assert told(node, TOPIC, "v", "max.message.bytes").config_source == 4


def test_another_brokers_settings_do_not_concern_this_one() -> None:
    node = LoneNode()
    node.join(2)
    topic_id = node.create()
    assert alter(node, BROKER, "2", ("message.max.bytes", SET, "50")) is ErrorCode.INVALID_REQUEST
    request = change((BROKER, "2", [("message.max.bytes", SET, "50")]))
    assert not node.ask(request, ListenerKind.CONTROLLER).responses[0].error_code
    node.run()
    assert appended(node, topic_id, batch(2).buffer) is ErrorCode.NONE


# --- it stays ---------------------------------------------------------------------------------------------------------


def test_settings_survive_a_restart() -> None:
    node = LoneNode()
    topic_id = node.create(compression_type="lz4")
    put(node, "max.message.bytes", "200")
    put(node, "compression.type", "gzip")
    assert alter(node, BROKER, "", ("log.message.timestamp.type", SET, "LogAppendTime")) is ErrorCode.NONE
    node.node.abandon()
    again = LoneNode(node.filesystem)
    assert appended(again, topic_id, batch(2, size=200).buffer) is ErrorCode.MESSAGE_TOO_LARGE
    assert produce(again, topic_id, batch(1).buffer).log_append_time_ms == NOW_MS
    (stored,) = all_batches(again.broker.logs.logs[PARTITION])
    assert stored.compression.name == "GZIP"
    assert told(again, TOPIC, "t", "max.message.bytes").value == "200"
    again.node.abandon()


def test_a_topic_made_again_has_none_of_the_old_settings() -> None:
    node = LoneNode()
    node.create(max_message_bytes="50")
    assert node.ask(replace_all((TOPIC, "t", [("max.message.bytes", "60")]))).responses[0].error_code == 0
    topics = [DeleteTopicsRequest.Topic(name="t")]
    node.ask(DeleteTopicsRequest(topics=topics, timeout_ms=1000), ListenerKind.CONTROLLER)
    node.run()
    assert appended(node, node.create(), batch(2, size=200).buffer) is ErrorCode.NONE


# --- what is described
# -----------------------------------------------------------------------------------------------------


def test_synonyms_and_documentation_are_told_if_they_are_asked_for() -> None:
    node = LoneNode()
    node.create(retention_ms="5")
    plain = told(node, TOPIC, "t", "retention.ms")
    assert (plain.value, list(plain.synonyms), plain.documentation) == ("5", [], None)
    whole = told(node, TOPIC, "t", "retention.ms", include_synonyms=True, include_documentation=True)
    assert [(s.name, s.value, s.source) for s in whole.synonyms] == [("retention.ms", "5", 1)]
    assert whole.documentation.startswith("segments whose records are all older")


def test_a_broker_tells_what_stands_in_its_file_and_what_cannot_be_changed() -> None:
    node = LoneNode(my_own="secret", log_retention_ms="7")
    assert (told(node, BROKER, "1", "my.own").value, told(node, BROKER, "1", "my.own").is_sensitive) == (None, True)
    assert [told(node, BROKER, "1", name).read_only for name in ("log.retention.ms", "node.id")] == [False, True]
    assert told(node, BROKER, "1", "log.retention.ms").config_source == 4


@pytest.mark.parametrize(
    ("types", "version", "names"),
    [((), 1, ["1", "t"]), ((TOPIC,), 1, ["t"]), ((BROKER,), 1, ["1"]), ((8, 16, 32), 1, []), ((), 0, [])],
)
def test_resources_are_listed(types: Sequence[int], version: int, names: list[str]) -> None:
    node = LoneNode()
    node.create()
    answer = node.ask(ListConfigResourcesRequest(resource_types=types), version=version)
    assert [resource.resource_name for resource in answer.config_resources] == names


def test_one_refusal_here_does_not_keep_the_rest_from_the_controller() -> None:
    node = LoneNode()
    node.create()
    good = [("retention.ms", SET, "1")]
    request = change((BROKER, "7", good), (TOPIC, "t", good), (TOPIC, "t2", [*good, *good]))
    answer = node.ask(request)
    codes = [(result.resource_name, ErrorCode.of(result.error_code)) for result in answer.responses]
    assert codes == [("7", ErrorCode.INVALID_REQUEST), ("t", ErrorCode.NONE), ("t2", ErrorCode.INVALID_REQUEST)]
