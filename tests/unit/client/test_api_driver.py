"""The driver of calls: which node is asked, what is asked again, and what ends a call. Coordinators most of all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

import pytest

from pykraft.client.api_driver import Answers, ApiDriver, ApiHandler, key_answer
from pykraft.client.errors import ClientTimeoutError
from pykraft.client.lookups import LookupStrategy
from pykraft.common.core import Failure, Outbound, Promise
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import TopicPartition
from pykraft.protocol.messages.cluster import (
    GROUP_COORDINATOR,
    TRANSACTION_COORDINATOR,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from pykraft.protocol.messages.logs import DeleteRecordsRequest, DeleteRecordsResponse
from tests.harness.scripted import HOST, Script, knowing, settings

PAUSE_MS = 200
"""Longer than the first pause before a retry, whatever the dice say."""
Names = Sequence[str]


class Asking:
    """An API about names, which their coordinators answer: DeleteRecords stands for it, with names as topics."""

    def __init__(self, seed: int = 1, **given: object) -> None:
        config = settings("admin", **given)
        self.driver = ApiDriver(config, knowing(config, {"t": [(1, 0), (2, 0), (1, 0)]}, seed), Random(1))
        self.script = Script(self.driver)

    def handler(self, lookup: LookupStrategy[str] | None = None, **given: Any) -> ApiHandler[str, int]:
        return ApiHandler(
            what="the names {} were not asked for",
            lookup=lookup or self.driver.group_coordinators,
            request=request,
            read=read,
            channel="coordinator",
            **given,
        )

    def ask(self, *names: str, for_ms: int = 60_000) -> Promise[dict[str, int] | KafkaError]:
        return self.driver.ask_all(self.handler(), names, self.script.now + for_ms)

    def ask_each(self, *names: str, for_ms: int = 60_000) -> Promise[Answers[str, int] | KafkaError]:
        return self.driver.ask_each(self.handler(), names, self.script.now + for_ms)

    def found(self, **nodes: int | ErrorCode) -> None:
        """A broker that speaks version 4 or newer answers the lookup."""
        self.script.answer(FindCoordinatorRequest, coordinators(**nodes))

    def find(self, **nodes: int | ErrorCode) -> list[Outbound]:
        """The coordinators are looked up and found; what is sent to them."""
        self.script.poll()
        self.found(**nodes)
        return self.script.poll()


def request(names: Names) -> DeleteRecordsRequest:
    return DeleteRecordsRequest(topics=[DeleteRecordsRequest.Topic(name=name) for name in names])


def read(names: Names, response: DeleteRecordsResponse) -> Iterator[tuple[str, int | KafkaError]]:
    for topic in response.topics:
        (answer,) = topic.partitions
        yield key_answer(topic.name, answer.error_code, answer.low_watermark)


def answer(**names: int | ErrorCode) -> DeleteRecordsResponse:
    """Each name's value or error."""
    topic = DeleteRecordsResponse.Topic
    return DeleteRecordsResponse(
        topics=[
            topic(
                name=name,
                partitions=[
                    topic.Partition(error_code=value)
                    if isinstance(value, ErrorCode)
                    else topic.Partition(low_watermark=value)
                ],
            )
            for name, value in names.items()
        ]
    )


def coordinators(**nodes: int | ErrorCode) -> FindCoordinatorResponse:
    """Each name's broker, which listens on port 9000 + its id, or error."""
    coordinator = FindCoordinatorResponse.Coordinator
    return FindCoordinatorResponse(
        coordinators=[
            coordinator(key=name, error_code=node)
            if isinstance(node, ErrorCode)
            else coordinator(key=name, node_id=node, host=HOST, port=9000 + node)
            for name, node in nodes.items()
        ]
    )


def asked(outbound: Outbound) -> tuple[int, list[str]]:
    """(broker, names) of a request."""
    return outbound.destination.id, [topic.name for topic in outbound.request.topics]


# --- coordinators: the lookup -----------------------------------------------------------------------------------------


def test_any_broker_is_asked_for_the_coordinator_and_then_the_coordinator() -> None:
    some = Asking()
    promise = some.ask("a")
    (lookup,) = some.script.poll()
    assert (lookup.request.key_type, list(lookup.request.coordinator_keys)) == (GROUP_COORDINATOR, ["a"])
    assert lookup.channel == "metadata"
    some.found(a=7)
    (outbound,) = some.script.poll()
    assert (outbound.destination.port, outbound.channel) == (9007, "coordinator"), "the metadata know no broker 7"
    some.script.answer(outbound, answer(a=5))
    assert promise.value == {"a": 5}


def test_a_coordinator_that_is_known_is_not_looked_up_again() -> None:
    some = Asking()
    some.ask("a")
    some.script.answer(some.find(a=2)[0], answer(a=5))
    some.ask("a", "b")
    sent = some.script.poll()
    assert [type(outbound.request) for outbound in sent] == [DeleteRecordsRequest, FindCoordinatorRequest]
    assert asked(sent[0]) == (2, ["a"])
    assert list(sent[1].request.coordinator_keys) == ["b"]


def test_transactional_ids_have_coordinators_of_their_own() -> None:
    some = Asking()
    some.ask("a")
    some.find(a=2)
    some.driver.ask_all(some.handler(some.driver.transaction_coordinators), ["a"], 60_000)
    (lookup,) = some.script.poll()
    assert lookup.request.key_type == TRANSACTION_COORDINATOR


def test_names_of_one_coordinator_go_into_one_request() -> None:
    some = Asking()
    promise = some.ask("a", "b", "c", "a")
    sent = some.find(a=2, b=3, c=2)
    assert [asked(outbound) for outbound in sent] == [(2, ["a", "c"]), (3, ["b"])]
    some.script.answer(sent[0], answer(a=1, c=3))
    assert not promise.kept
    some.script.answer(sent[1], answer(b=2))
    assert promise.value == {"a": 1, "b": 2, "c": 3}


@pytest.mark.parametrize("version", range(7))
def test_brokers_of_every_version_find_coordinators(version: int) -> None:
    """Up to version 3 a lookup has one key, from version 4 on all of them (KIP-699)."""
    some = Asking()
    some.ask("a", "b", "c")
    lookups = 0
    while some.script.poll() and some.script.has_asked(FindCoordinatorRequest):
        lookups += 1
        lookup = some.script.outbound(FindCoordinatorRequest)
        read = FindCoordinatorRequest.decode(lookup.request.to_bytes(version), version, 0)
        if version < 4:
            written = FindCoordinatorResponse(node_id=ord(read.key), host=HOST, port=9000)
        else:
            written = coordinators(**{key: ord(key) for key in read.coordinator_keys})
        some.script.answer(lookup, FindCoordinatorResponse.decode(written.to_bytes(version), version, 0))
    assert lookups == (3 if version < 4 else 1)
    assert sorted(map(asked, some.script.sent)) == [(97, ["a"]), (98, ["b"]), (99, ["c"])]


@pytest.mark.parametrize(
    "error",
    [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS],
    ids=lambda error: error.name,
)
def test_a_coordinator_that_is_not_there_yet_is_looked_up_again_after_a_pause(error: ErrorCode) -> None:
    some = Asking()
    some.ask("a", "b")
    sent = some.find(a=2, b=error)
    assert sent == [], "the pause is the call's"
    sent = some.script.poll(PAUSE_MS)
    assert asked(sent[0]) == (2, ["a"])
    assert list(sent[1].request.coordinator_keys) == ["b"]


@pytest.mark.parametrize("seed", range(5))
def test_a_lookup_without_an_answer_goes_to_another_broker(seed: int) -> None:
    some = Asking(seed)
    some.ask("a")
    destinations = set()
    for _ in range(3):
        (lookup,) = some.script.poll(2000)
        destinations.add(lookup.destination.id)
        some.script.fail(lookup)
    assert destinations == {1, 2, 3}


def test_a_name_that_may_not_be_looked_up_has_its_error_and_the_others_their_values() -> None:
    some = Asking()
    promise = some.ask_each("a", "b")
    (outbound,) = some.find(a=ErrorCode.GROUP_AUTHORIZATION_FAILED, b=2)
    some.script.answer(outbound, answer(b=5))
    assert not isinstance(promise.value, KafkaError)
    assert str(promise.value["a"]) == "GROUP_AUTHORIZATION_FAILED: a: not allowed on this group"
    assert promise.value["b"] == 5


def test_it_ends_a_call_that_is_answered_as_a_whole() -> None:
    some = Asking()
    promise = some.ask("a", "b")
    some.find(a=2, b=ErrorCode.INVALID_GROUP_ID)
    assert isinstance(promise.value, KafkaError) and promise.value.code is ErrorCode.INVALID_GROUP_ID
    assert some.script.sent == []


def test_a_broker_that_finds_no_coordinators_is_an_error() -> None:
    some = Asking()
    promise = some.ask("a")
    some.script.poll()
    some.script.fail(FindCoordinatorRequest, Failure.UNSUPPORTED_VERSION)
    assert str(promise.value) == (
        "UNSUPPORTED_VERSION: the names a were not asked for: the broker does not speak this API"
    )


@pytest.mark.parametrize(
    ("failure", "is_doubted"),
    [(Failure.UNSUPPORTED_VERSION, False), (Failure.DISCONNECTED, True), (Failure.TIMED_OUT, True)],
    ids=lambda value: str(getattr(value, "name", value)),
)
def test_a_broker_that_does_not_speak_an_api_is_alive_all_the_same(failure: Failure, is_doubted: bool) -> None:
    some = Asking()
    some.ask("a")
    some.script.poll()
    some.script.fail(FindCoordinatorRequest, failure)
    later = 1_001_000  # a second after `knowing` heard of the cluster
    asked_for_metadata = some.driver.metadata.poll(later).requests
    assert bool(asked_for_metadata) == is_doubted


@pytest.mark.parametrize("response", [FindCoordinatorResponse(), coordinators(a=-1)], ids=["no list", "no node"])
def test_an_answer_without_a_node_is_an_error(response: FindCoordinatorResponse) -> None:
    some = Asking()
    promise = some.ask("a")
    some.script.poll()
    some.script.answer(FindCoordinatorRequest, response)
    assert str(promise.value) == "UNKNOWN_SERVER_ERROR: a: the answer names no coordinator"


def test_the_last_obstacle_of_a_lookup_is_in_the_message() -> None:
    some = Asking()
    promise = some.ask("a", for_ms=1000)
    some.find(a=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    some.script.poll(PAUSE_MS)
    some.script.poll(1000)
    assert isinstance(promise.value, ClientTimeoutError)
    assert promise.value.detail == "the names a were not asked for: a: there is no coordinator at the moment"


# --- coordinators: what is remembered ---------------------------------------------------------------------------------


def known(error: ErrorCode | Failure) -> bool:
    """Whether the coordinator of a name is still known after it has answered so."""
    some = Asking()
    some.ask("a")
    (outbound,) = some.find(a=2)
    some.script.answer(outbound, error if isinstance(error, Failure) else answer(a=error))
    assert some.script.poll() == [], "there is a pause"
    (again,) = some.script.poll(PAUSE_MS)
    return not isinstance(again.request, FindCoordinatorRequest)


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        Failure.DISCONNECTED,
        Failure.TIMED_OUT,
    ],
    ids=lambda error: error.name,
)
def test_a_coordinator_that_is_none_any_more_or_does_not_answer_is_looked_up_again(error: ErrorCode | Failure) -> None:
    assert not known(error)


@pytest.mark.parametrize(
    "error",
    [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.CONCURRENT_TRANSACTIONS],
    ids=lambda error: error.name,
)
def test_a_coordinator_that_cannot_answer_yet_is_asked_again(error: ErrorCode) -> None:
    assert known(error)


def test_the_next_call_does_not_ask_a_coordinator_that_kept_silent_until_the_last_one_was_late() -> None:
    some = Asking()
    some.ask("a", for_ms=1000)
    (outbound,) = some.find(a=2)
    some.script.poll(1000)
    some.script.fail(outbound, Failure.TIMED_OUT)
    some.ask("a")
    (asked,) = some.script.poll()
    assert isinstance(asked.request, FindCoordinatorRequest)


def test_an_old_coordinators_answer_does_not_take_the_new_one_away() -> None:
    some = Asking()
    some.ask("a")
    (slow,) = some.find(a=2)
    some.ask("a")
    (quick,) = some.script.poll()
    some.script.answer(quick, answer(a=ErrorCode.NOT_COORDINATOR))
    some.script.poll(PAUSE_MS)
    some.found(a=3)
    some.script.answer(slow, answer(a=ErrorCode.NOT_COORDINATOR))
    assert [asked(outbound) for outbound in some.script.poll(PAUSE_MS)] == [(3, ["a"]), (3, ["a"])]


def test_a_refusal_that_does_not_pass_is_no_reason_to_forget_a_coordinator() -> None:
    some = Asking()
    promise = some.ask("a")
    some.script.answer(some.find(a=2)[0], answer(a=ErrorCode.GROUP_AUTHORIZATION_FAILED))
    assert isinstance(promise.value, KafkaError)
    some.ask("a")
    assert [asked(outbound) for outbound in some.script.poll()] == [(2, ["a"])]


# --- what is asked again ----------------------------------------------------------------------------------------------


def test_only_the_names_with_an_error_that_may_pass_are_asked_for_again() -> None:
    some = Asking()
    promise = some.ask_each("a", "b", "c")
    (outbound,) = some.find(a=2, b=2, c=2)
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    some.script.answer(outbound, answer(a=1, b=loading, c=ErrorCode.GROUP_AUTHORIZATION_FAILED))
    (again,) = some.script.poll(PAUSE_MS)
    assert asked(again) == (2, ["b"])
    some.script.answer(again, answer(b=2))
    assert not isinstance(promise.value, KafkaError)
    assert {name: value for name, value in promise.value.items() if name != "c"} == {"a": 1, "b": 2}


def test_pauses_grow() -> None:
    some = Asking()
    some.ask("a", for_ms=10**6)
    some.find(a=2)
    pauses = []
    for _ in range(8):
        some.script.answer(DeleteRecordsRequest, answer(a=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
        assert some.script.poll() == []
        pauses.append(some.script.deadline - some.script.now)
        some.script.poll(pauses[-1])
    assert 80 <= pauses[0] <= 120 and 160 <= pauses[1] <= 240 and 320 <= pauses[2] <= 480
    assert all(800 <= pause <= 1200 for pause in pauses[4:]), "retry.backoff.max.ms, give or take"


def test_what_an_answer_leaves_out_is_asked_for_again() -> None:
    some = Asking()
    promise = some.ask("a", "b")
    (outbound,) = some.find(a=2, b=2)
    some.script.answer(outbound, answer(a=1))
    (again,) = some.script.poll()
    assert asked(again) == (2, ["b"])
    some.script.answer(again, answer(b=2))
    assert promise.value == {"a": 1, "b": 2}


def test_what_an_answer_has_too_much_of_is_left_out() -> None:
    some = Asking()
    promise = some.ask("a", "b")
    sent = some.find(a=2, b=3)
    some.script.answer(sent[0], answer(a=1, z=26))
    some.script.answer(sent[1], answer(a=2, b=2))
    assert promise.value == {"a": 1, "b": 2}


def test_an_answer_that_says_nothing_is_no_reason_to_hurry() -> None:
    some = Asking()
    promise = some.ask("a", for_ms=1000)
    (outbound,) = some.find(a=2)
    some.script.answer(outbound, answer())
    assert some.script.poll() == []
    assert len(some.script.poll(PAUSE_MS)) == 1
    some.script.poll(1000)
    assert str(promise.value).endswith(f"{HOST}:9002: the answer leaves out what was asked for")


def test_an_attempt_has_request_timeout_ms_and_never_more_than_the_call() -> None:
    some = Asking(request_timeout_ms=500)
    some.ask("a", for_ms=600)
    (lookup,) = some.script.poll()
    assert lookup.timeout_ms == 500
    some.script.fail(lookup, Failure.TIMED_OUT)
    (again,) = some.script.poll(PAUSE_MS)
    assert again.timeout_ms == 400


def test_an_api_may_have_a_time_of_its_own() -> None:
    some = Asking(request_timeout_ms=500)
    some.driver.ask_all(some.handler(timeout_ms=5000), ["a"], 60_000)
    assert some.find(a=2)[0].timeout_ms == 5000


def test_values_are_told_as_they_come() -> None:
    some = Asking()
    seen: list[tuple[str, int | KafkaError]] = []
    some.driver.ask_each(some.handler(), ["a", "b"], 60_000, lambda name, value: seen.append((name, value)))
    sent = some.find(a=2, b=3)
    some.script.answer(sent[1], answer(b=2))
    assert seen == [("b", 2)]
    some.script.answer(sent[0], answer(a=1))
    assert seen == [("b", 2), ("a", 1)]


def test_partitions_of_one_leader_go_into_one_request() -> None:
    some = Asking()
    handler: ApiHandler[TopicPartition, int] = ApiHandler(
        what="{}",
        lookup=some.driver.leaders,
        request=lambda keys: request([f"{key}" for key in keys]),
        read=lambda keys, response: [],
        channel="metadata",
    )
    some.driver.ask_all(handler, [TopicPartition("t", number) for number in range(3)], 60_000)
    assert [asked(outbound) for outbound in some.script.poll()] == [(1, ["t-0", "t-2"]), (2, ["t-1"])]


def test_what_cannot_be_sent_is_refused_at_once() -> None:
    some = Asking()
    with pytest.raises(KafkaError, match=r"INVALID_REQUEST: the names .* were not asked for: this cannot be sent"):
        some.ask("half a character: \ud800")
    assert some.script.poll() == []
