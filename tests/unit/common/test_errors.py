"""The error table: complete, and what it tells clients is what other clients were told."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from pykraft.common.errors import (
    ConfigError,
    CorruptRecordError,
    ErrorCode,
    KafkaError,
)
from tests.harness.others import module

# Where kafka-python says otherwise, and why it is not right.
DIFFERS = {ErrorCode.CORRUPT_MESSAGE: "Java's CorruptRecordException is a RetriableException"}


def known_to_kafka_python() -> dict[int, Any]:
    classes = [found for _, found in inspect.getmembers(module("kafka.errors"), inspect.isclass)]
    return {found.errno: found for found in classes if isinstance(found.__dict__.get("errno"), int)}


def test_the_table_has_every_code_of_kafka_4_4_once() -> None:
    assert [code.value for code in ErrorCode] == list(range(-1, 137))
    assert set(known_to_kafka_python()) <= {code.value for code in ErrorCode}
    assert len({code.text for code in ErrorCode}) == len(ErrorCode)


@pytest.mark.parametrize("code", [code for code in ErrorCode if code.value in known_to_kafka_python()])
def test_a_code_is_retriable_where_kafka_python_says_so(code: ErrorCode) -> None:
    theirs = known_to_kafka_python()[code.value]
    agrees = (code.retriable, code.refreshes_metadata) == (theirs.retriable, theirs.invalid_metadata)
    assert agrees != (code in DIFFERS), f"{code.name}: kafka-python's {theirs.__name__} says otherwise"


def test_what_refreshes_metadata_is_retriable() -> None:
    assert all(code.retriable for code in ErrorCode if code.refreshes_metadata)


def test_a_code_that_a_newer_peer_made_up_reads_as_an_unknown_error() -> None:
    assert ErrorCode.of(6) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert ErrorCode.of(999) is ErrorCode.UNKNOWN_SERVER_ERROR


def test_an_error_says_what_is_wrong_with_this_very_request() -> None:
    assert (
        str(KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION)) == "INVALID_TOPIC_EXCEPTION: the topic's name is not allowed"
    )
    error = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "node 3 leads")
    assert str(error) == "NOT_LEADER_OR_FOLLOWER: node 3 leads" and error.retriable


def test_damaged_records_are_answered_with_their_own_code() -> None:
    error = CorruptRecordError("a batch fails its checksum")
    assert error.code is ErrorCode.CORRUPT_MESSAGE and isinstance(error, KafkaError)
    assert issubclass(ConfigError, ValueError)
