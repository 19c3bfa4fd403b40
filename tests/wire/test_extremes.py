"""Messages that are well formed and absurd: each number at its limits, each text empty, long or null, each list empty
or doubled. They are answered like any other, or refused."""

from __future__ import annotations

import copy
import struct
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pykraft.common.errors import ErrorCode
from pykraft.common.types import ZERO_UUID, Uuid
from pykraft.protocol.api import ListenerKind
from pykraft.protocol.messages.quorum import BeginQuorumEpochRequest, EndQuorumEpochRequest, VoteRequest
from pykraft.protocol.schema import Request, Struct
from tests.harness.asking import APPEND, BROKER, SET, TOPIC, change, create, describe, new_topic
from tests.harness.connection import Connection
from tests.wire.ammunition import TOPIC as TARGET
from tests.wire.ammunition import requests, shoot
from tests.wire.conftest import Target

NUMBERS = (0, 1, -1, -2, 2**15 - 1, -(2**15), 2**31 - 1, -(2**31), 2**63 - 1, -(2**63))
TEXTS = (None, "", "a/b", ".", "x" * 249, "x" * 300, "\0", "größe", "__cluster_metadata")
OCTETS = (None, b"", b"\0", b"\xff" * 100)
KINDS = pytest.mark.parametrize("kind", list(ListenerKind), ids=lambda kind: kind.value)


def replacements(value: object) -> tuple[object, ...]:
    """What may stand there instead, as far as Python's types tell."""
    match value:
        case bool():
            return (not value,)
        case int():
            return NUMBERS
        case Uuid():
            return (ZERO_UUID, Uuid(bytes(15) + b"\1"), Uuid(b"\xff" * 16))
        case str():
            return TEXTS
        case bytes() | memoryview():
            return OCTETS
        case list() | tuple():
            return ([], [*value, *value], None)
        case None:
            return ("", b"", [])
    return ()


def places(message: Struct) -> Iterator[tuple[Callable[[Struct], Struct], str, object]]:
    """(how to get to a structure from the message, a field of it, its value), through all that is nested."""
    for field in message.fields:
        value = getattr(message, field.name)
        yield (lambda whole: whole), field.name, value
        inner = value[0] if isinstance(value, list | tuple) and value else value
        if isinstance(inner, Struct):
            for get, name, deeper in places(inner):
                yield _through(field.name, isinstance(value, list | tuple), get), name, deeper


def _through(name: str, is_list: bool, get: Callable[[Struct], Struct]) -> Callable[[Struct], Struct]:
    def walk(whole: Struct) -> Struct:
        value: Any = getattr(whole, name)
        return get(value[0] if is_list else value)

    return walk


def absurd(request: Request) -> Iterator[tuple[str, Request]]:
    """(what is changed, the request with one field changed)"""
    for get, name, value in places(request):
        for instead in replacements(value):
            changed = copy.deepcopy(request)
            setattr(get(changed), name, instead)
            yield f"{name}={instead!r:.40}", changed


@KINDS
@pytest.mark.parametrize("newest", [True, False], ids=["newest version", "oldest version"])
def test_an_absurd_field_is_answered_or_closes_the_connection(node: Target, kind: ListenerKind, newest: bool) -> None:
    sent = 0
    for request in requests(node.topic_id)[kind]:
        low, high = type(request).versions
        for _, changed in absurd(request):
            try:
                frame = Connection.frame(changed, high if newest else low)
            except (ValueError, TypeError, OverflowError, AttributeError, struct.error):
                continue  # it does not fit into the field
            shoot(node.listeners[kind.value], frame)
            sent += 1
        node.serves()
    assert sent > 300
    node.cluster.wait_until(lambda view: view.active_controller == 1, what="the quorum has a leader (again)")


def test_an_epoch_that_leaves_none_for_the_next_election_is_refused(node: Target) -> None:
    with Connection(node.controller) as connection:
        for request in requests(node.topic_id)[ListenerKind.CONTROLLER]:
            if isinstance(request, VoteRequest | BeginQuorumEpochRequest | EndQuorumEpochRequest):
                changed: Any = copy.deepcopy(request)
                partition = changed.topics[0].partitions[0]
                setattr(partition, "replica_epoch" if isinstance(request, VoteRequest) else "leader_epoch", 2**31 - 1)
                answer = connection.ask(changed, 1)
                assert answer.topics[0].partitions[0].error_code == ErrorCode.INVALID_REQUEST


def test_more_partitions_than_a_sum_can_hold_are_refused(node: Target) -> None:
    """The largest number and one more, in one request."""
    most = new_topic("most", 2**31 - 1, 1)
    with Connection(node.broker) as connection:
        for topics in ([most, new_topic("one", 1, 1)], [most, new_topic("more", 2**31 - 1, 1)], [most]):
            answer = connection.ask(create(*topics, validate_only=True), 7)
            errors = {topic.name: topic.error_code for topic in answer.topics}
            assert errors["most"] in (ErrorCode.INVALID_PARTITIONS, ErrorCode.POLICY_VIOLATION)
            assert len(errors) == len(topics)


@KINDS
def test_a_number_of_any_length_is_no_broker(node: Target, kind: ListenerKind) -> None:
    """Python reads no number of more than 4300 digits."""
    setting = [("log.retention.ms", SET, "1")]
    with Connection(node.listeners[kind.value]) as connection:
        for digits in (11, 5000, 32_767):
            (told,) = connection.ask(describe((BROKER, "9" * digits)), 1).results
            (changed,) = connection.ask(change((BROKER, "9" * digits, setting)), 0).responses
            assert (told.error_code, changed.error_code) == (ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST)


@KINDS
def test_a_refusal_may_be_of_the_longest_text_there_is(node: Target, kind: ListenerKind) -> None:
    """What is refused is quoted, and the answer must still fit into its fields, which are no longer than the text."""
    long, number = "x" * 32_767, "retention.ms"
    with Connection(node.listeners[kind.value]) as connection:
        for request in (
            create(new_topic("a", 1, 1, configs=[(number, long)])),
            create(new_topic("a", 1, 1, configs=[(long, "1")])),
            create(new_topic(long, 1, 1), new_topic(long, 1, 1)),
        ):
            assert all(topic.error_code for topic in connection.ask(request, 2).topics)
        for resources in (
            [(TOPIC, TARGET, [(number, SET, long)])],
            [(TOPIC, TARGET, [(long, SET, "1")])],
            [(TOPIC, TARGET, [(long, APPEND, "1")])],
            [(TOPIC, long, [(number, SET, "1")])] * 2,
            [(BROKER, "", [(long, SET, "1"), ("y" + long[1:], SET, "1")])],
            [(BROKER, long, [("log.retention.ms", SET, "1")])],
        ):
            changed = connection.ask(change(*resources), 0)
            assert all(result.error_code for result in changed.responses)
