"""Requests on their way out, over wires that a script pulls: in order, in time, and each with one outcome."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from pykraft.common.core import Failure, Node, Outbound
from pykraft.common.errors import ErrorCode
from pykraft.common.types import Endpoint
from pykraft.protocol.api import ListenerKind
from pykraft.protocol.messages.admin import CreateTopicsRequest
from pykraft.protocol.messages.cluster import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    MetadataRequest,
    MetadataResponse,
)
from pykraft.protocol.messages.data import ProduceRequest
from pykraft.transport.client_channel import Meant
from pykraft.transport.peers import (
    CONNECT_TIMEOUT_MS,
    FAILURES_REMEMBERED_MS,
    MAX_IDLE_MS,
    RECONNECT_BACKOFF_MAX_MS,
    Peer,
    Peers,
)
from pykraft.transport.server_channel import InboundRequest, ServerChannel
from pykraft.transport.server_connection import Answer

HERE = Node(1, "127.0.0.1", 9092)
TIMEOUT_MS = 30_000


class Cable:
    """A wire whose other end is a server's channel; what is sent arrives when the script says so."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.server = ServerChannel("c", "PLAINTEXT", ListenerKind.BROKER, "127.0.0.1", 1 << 20)
        self.is_closed = False
        self.breaks = False
        self.throttle_ms = 0
        """What the server's answers tell."""

    def send(self, parts: Sequence[Any]) -> None:
        if self.breaks:
            raise ConnectionResetError
        self.server.frames.feed(b"".join(bytes(part) for part in parts))

    def close(self) -> None:
        self.is_closed = True

    def taken(self) -> list[InboundRequest]:
        """The requests that have come; they are answered, for only then the next one is read."""
        found = []
        while (request := self.server.next_request()) is not None:
            assert isinstance(request, InboundRequest)
            found.append(request)
            answer: Any = None
            if isinstance(request.message, ApiVersionsRequest):
                keys = [(3, 0, 12), (0, 3, 13), (18, 0, 4)]
                answer = ApiVersionsResponse(
                    api_keys=[
                        ApiVersionsResponse.ApiVersion(api_key=key, min_version=low, max_version=high)
                        for key, low, high in keys
                    ]
                )
            elif isinstance(request.message, MetadataRequest):
                answer = MetadataResponse(brokers=[], topics=[], cluster_id=str(request.context.correlation_id))
                answer.throttle_time_ms = self.throttle_ms
            parts, _ = Answer(answer).encode(request.context)
            self.server.done(request.context)
            self.peer.channel.frames.feed(b"".join(map(bytes, parts)))
        return found


class Cables:
    """Dials; keeps every cable there was."""

    def __init__(self) -> None:
        self.all: list[Cable] = []
        self.is_cut = False

    def dial(self, endpoint: Endpoint, peer: Peer) -> Cable:
        if self.is_cut:
            raise ConnectionRefusedError
        self.all.append(Cable(peer))
        return self.all[-1]


class Story:
    def __init__(self, is_of_node: bool = False) -> None:
        self.cables = Cables()
        self.peers = Peers(self.cables, "client", Random(1), is_of_node)
        self.told: list[tuple[int, object, int]] = []
        self.sent = 0

    def send(
        self,
        request: Any,
        now: int = 0,
        timeout_ms: int = TIMEOUT_MS,
        to: Node = HERE,
        waits_for_connection: bool = True,
    ) -> int:
        """Send it; the number under which its end will be told."""
        number = self.sent
        self.sent += 1
        tell = lambda result, then: self.told.append((number, result, then))  # noqa: E731
        self.peers.send(Outbound("main", to, request, tell, timeout_ms, waits_for_connection), now)
        return number

    @property
    def cable(self) -> Cable:
        return self.cables.all[-1]

    def connect(self, now: int = 0) -> None:
        """The wire opens, and the greeting is answered."""
        self.cable.peer.connected(now)
        assert [type(one.message) for one in self.cable.taken()] == [ApiVersionsRequest]
        self.cable.peer.received(now)

    def poll(self, now: int) -> int:
        deadline = self.peers.poll(now)
        self.peers.dispatch()
        return deadline


METADATA = MetadataRequest(topics=None)


def test_a_new_connection_says_which_broker_it_is_for_and_hears_that_another_is_there() -> None:
    story, heard = Story(), list[str]()
    story.peers.meant = lambda node: Meant("cluster", node.id)
    story.peers.on_misrouted = lambda: heard.append("misrouted")
    number = story.send(METADATA)
    story.cable.peer.connected(0)
    greeting: Any = story.cable.server.next_request()
    assert (greeting.message.cluster_id, greeting.message.node_id) == ("cluster", HERE.id)
    refusal = ApiVersionsResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED, api_keys=[])
    story.cable.peer.channel.frames.feed(b"".join(map(bytes, Answer(refusal).encode(greeting.context)[0])))
    story.cable.peer.received(5)
    story.poll(5)
    assert heard == ["misrouted"] and story.cable.is_closed
    assert story.told == [(number, Failure.DISCONNECTED, 5)]


def test_nothing_is_dialled_before_there_is_something_to_send_and_one_wire_serves_all() -> None:
    story = Story()
    assert not story.cables.all
    for _ in range(3):
        story.send(METADATA)
    assert len(story.cables.all) == 1
    story.connect()
    assert len(story.cable.taken()) == 3
    story.cable.peer.received(5)
    assert [number for number, _, _ in story.told] == [0, 1, 2]
    answers = [result.cluster_id for _, result, _ in story.told if isinstance(result, MetadataResponse)]
    assert answers == sorted(answers) and len(set(answers)) == 3, "each got its own answer, in order"


def test_requests_of_two_channels_travel_apart() -> None:
    story = Story()
    for channel in ("main", "fetch"):
        story.peers.send(Outbound(channel, HERE, METADATA, lambda result, now: None, TIMEOUT_MS), 0)
    assert len(story.cables.all) == 2


def test_a_produce_without_acknowledgement_ends_when_it_was_sent() -> None:
    story = Story()
    number = story.send(ProduceRequest(acks=0, timeout_ms=1, topic_data=[]))
    story.connect()
    story.peers.dispatch()
    assert story.told == [(number, None, 0)]


def test_what_the_server_does_not_speak_fails_alone() -> None:
    story = Story()
    story.send(METADATA)
    unknown = story.send(CreateTopicsRequest(topics=[], timeout_ms=1, validate_only=False))
    story.send(METADATA)
    story.connect()
    assert len(story.cable.taken()) == 2
    story.cable.peer.received(1)
    results = {number: result for number, result, _ in story.told}
    assert results.pop(unknown) is Failure.UNSUPPORTED_VERSION
    assert len(results) == 2 and all(isinstance(result, MetadataResponse) for result in results.values())


@pytest.mark.parametrize("breaks_at", ["dial", "connect", "send", "answer"])
def test_all_that_was_under_way_on_a_broken_wire_fails_once(breaks_at: str) -> None:
    story = Story()
    story.cables.is_cut = breaks_at == "dial"
    story.send(METADATA)
    if breaks_at == "connect":
        story.cable.peer.closed(0)
    elif breaks_at == "send":
        story.cable.breaks = True
        story.cable.peer.connected(0)
    elif breaks_at == "answer":
        story.connect()
        story.send(METADATA)
        story.cable.peer.closed(0)
    story.poll(0)
    assert [result for _, result, _ in story.told] == [Failure.DISCONNECTED] * story.sent
    story.poll(100_000)
    assert len(story.told) == story.sent


def test_attempts_to_reach_the_dead_come_at_growing_distances_and_the_living_resets_them() -> None:
    story = Story()
    story.cables.is_cut = True
    pauses = []
    now = 0
    for _ in range(12):
        story.send(METADATA, now)
        story.poll(now)
        peer = next(iter(story.peers._peers.values()))
        pauses.append(peer._retry_at - now)
        now = peer._retry_at
    assert pauses[0] < 100 and max(pauses) <= 1.2 * RECONNECT_BACKOFF_MAX_MS
    assert sum(pauses[-3:]) > 5 * sum(pauses[:3])
    story.cables.is_cut = False
    story.send(METADATA, now)
    story.connect(now)
    story.cable.peer.closed(now)
    assert peer._retry_at - now < 100


def test_a_request_during_the_pause_waits_for_its_end_and_then_goes() -> None:
    story = Story()
    story.send(METADATA)
    story.cable.peer.closed(0)
    story.send(METADATA, 1)
    assert len(story.cables.all) == 1
    story.poll(2000)
    assert len(story.cables.all) == 2


def test_a_request_that_does_not_wait_fails_at_once_during_the_pause_and_dials_after_it() -> None:
    """Who looks for the next leader must not stand before the dead one's port."""
    story = Story()
    story.send(METADATA)
    story.cable.peer.closed(0)
    waits = story.send(METADATA, 1)
    does_not = story.send(METADATA, 1, waits_for_connection=False)
    assert not story.told[1:] and story.peers.has_news
    story.poll(1)
    assert story.told[1:] == [(does_not, Failure.DISCONNECTED, 1)] and len(story.cables.all) == 1
    story.poll(2000)
    story.connect(2000)
    assert len(story.cables.all) == 2 and [type(one.message) for one in story.cable.taken()] == [MetadataRequest]
    story.cable.peer.received(2000)
    assert [number for number, _, _ in story.told] == [0, does_not, waits]
    story.cable.peer.closed(3000)
    again = story.send(METADATA, 9000, waits_for_connection=False)
    assert len(story.cables.all) == 3, "the pause is over"
    story.connect(9000)
    story.cable.taken()
    story.cable.peer.received(9000)
    story.poll(9000)
    assert story.told[-1][0] == again and isinstance(story.told[-1][1], MetadataResponse)


def test_who_does_not_answer_in_time_is_given_up_with_all_behind_it() -> None:
    story = Story()
    first = story.send(METADATA, 0, timeout_ms=100)
    second = story.send(METADATA, 0)
    story.connect()
    assert story.poll(50) == 100
    story.poll(100)
    assert story.told == [(first, Failure.TIMED_OUT, 100), (second, Failure.TIMED_OUT, 100)]
    assert story.cable.is_closed


def test_who_is_not_sent_in_time_fails_alone_and_a_wire_that_never_opens_is_given_up() -> None:
    story = Story()
    first = story.send(METADATA, 0, timeout_ms=100)
    second = story.send(METADATA, 0)
    story.poll(100)
    assert story.told == [(first, Failure.TIMED_OUT, 100)] and not story.cable.is_closed
    story.poll(CONNECT_TIMEOUT_MS)
    assert story.told[1:] == [(second, Failure.TIMED_OUT, CONNECT_TIMEOUT_MS)] and story.cable.is_closed


@pytest.mark.parametrize("rubbish", [b"\xff\xff\xff\xff", b"\0\0\0\4\0\0\0\x09", b"\0\0\0\6\0\0\0\0\0\0"])
def test_rubbish_from_a_server_breaks_its_connection_and_nothing_else(rubbish: bytes) -> None:
    story = Story()
    story.send(METADATA)
    story.cable.peer.connected(0)
    story.cable.peer.channel.frames.feed(rubbish)
    story.cable.peer.received(0)
    story.poll(0)
    assert [result for _, result, _ in story.told] == [Failure.DISCONNECTED] and story.cable.is_closed


def test_an_error_of_who_is_told_is_not_taken_for_one_of_the_wire() -> None:
    story = Story()

    def stumble(result: object, now: int) -> None:
        raise ZeroDivisionError

    story.peers.send(Outbound("main", HERE, METADATA, stumble, TIMEOUT_MS), 0)
    story.connect()
    story.cable.taken()
    with pytest.raises(ZeroDivisionError):
        story.cable.peer.received(0)
    assert not story.cable.is_closed


# --- a client that is throttled ---------------------------------------------------------------------------------------


def throttled(is_of_node: bool = False) -> Story:
    """At time 100 an answer throttles the client for 500 ms."""
    story = Story(is_of_node)
    story.send(METADATA)
    story.connect()
    story.cable.throttle_ms = 500
    assert len(story.cable.taken()) == 1
    story.cable.peer.received(100)
    story.cable.throttle_ms = 0
    return story


def test_a_client_sends_nothing_to_a_node_that_throttles_it_until_the_time_is_over() -> None:
    story = throttled()
    held = [story.send(METADATA, 101), story.send(METADATA, 300)]
    assert story.poll(599) == 600 and not story.cable.taken()
    story.poll(600)
    assert len(story.cable.taken()) == 2
    story.cable.peer.received(601)
    story.send(METADATA, 602)
    assert len(story.cable.taken()) == 1, "that was all"
    assert [number for number, _, _ in story.told[1:]] == held


def test_a_throttled_client_may_send_to_other_nodes_but_not_on_another_channel() -> None:
    story = throttled()
    first = story.cable
    story.send(METADATA, 101, to=Node(2, "127.0.0.1", 9093))
    story.connect(101)
    assert len(story.cable.taken()) == 1
    story.peers.send(Outbound("fetch", HERE, METADATA, lambda result, now: None, TIMEOUT_MS), 102)
    assert len(story.cables.all) == 2
    story.poll(600)
    story.connect(600)
    assert len(story.cable.taken()) == 1 and story.cable is not first


def test_a_new_connection_does_not_end_the_time() -> None:
    story = throttled()
    story.cable.peer.closed(101)
    story.send(METADATA, 200)
    story.poll(599)
    assert len(story.cables.all) == 1
    story.poll(600)
    story.connect(600)
    assert len(story.cable.taken()) == 1


def test_a_node_is_not_held_up_by_what_another_one_tells() -> None:
    story = throttled(is_of_node=True)
    story.send(METADATA, 101)
    assert len(story.cable.taken()) == 1


# --- what is remembered -----------------------------------------------------------------------------------------------


@pytest.mark.costly
def test_after_ten_thousand_addresses_only_those_in_use_are_kept() -> None:
    """Most refuse the connection; every tenth answers, and is not needed again."""
    story = Story()
    story.send(METADATA, 0, timeout_ms=1 << 40)
    story.connect()
    waiting = story.cable
    most = 0
    for number in range(10_000):
        now = 1000 * number
        story.cables.is_cut = number % 10 != 0
        story.send(METADATA, now, to=Node(2, f"host-{number}", 9092))
        if not story.cables.is_cut:
            story.connect(now)
            story.cable.taken()
            story.cable.peer.received(now)
        story.poll(now)
        most = max(most, len(story.peers))
    assert len(story.told) == 10_000
    still_open = MAX_IDLE_MS // 10_000
    assert most <= 1 + still_open + 2 * FAILURES_REMEMBERED_MS // 1000 + 2
    story.poll(now + MAX_IDLE_MS)
    assert len(story.peers) == 1
    assert [cable for cable in story.cables.all if not cable.is_closed] == [waiting], "its answer may still come"


def test_an_idle_connection_is_closed_and_the_next_request_dials_without_a_pause() -> None:
    story = Story()
    story.send(METADATA, timeout_ms=200_000)
    story.connect()
    story.cable.taken()
    story.poll(100_000)
    story.cable.peer.received(100_000)
    story.poll(100_000 + MAX_IDLE_MS - 1)
    assert not story.cable.is_closed
    story.poll(100_000 + MAX_IDLE_MS + FAILURES_REMEMBERED_MS)
    assert story.cable.is_closed and not len(story.peers)
    story.send(METADATA, 1 << 30)
    assert len(story.cables.all) == 2


def test_a_connection_that_only_sends_what_is_not_answered_is_not_idle() -> None:
    story = Story()
    story.send(METADATA)
    story.connect()
    story.cable.taken()
    story.cable.peer.received(0)
    for minute in range(1, 20):
        story.send(ProduceRequest(acks=0, timeout_ms=1, topic_data=[]), 60_000 * minute)
        story.poll(60_000 * minute)
    assert not story.cable.is_closed and len(story.told) == 20


def test_failures_are_remembered_as_long_as_requests_come_at_the_pace_of_retries() -> None:
    story = Story()
    story.cables.is_cut = True
    now = 0
    for _ in range(30):
        story.send(METADATA, now)
        story.poll(now)
        now += 2 * RECONNECT_BACKOFF_MAX_MS
        story.poll(now - 1)
    story.send(METADATA, now)
    story.send(METADATA, now + 700)
    story.cables.is_cut = False
    story.poll(now + 700)
    assert not story.cables.all, "it still waits for most of a second"
    story.poll(now + 2 * RECONNECT_BACKOFF_MAX_MS)
    assert len(story.cables.all) == 1


def test_who_closes_calls_nobody_back() -> None:
    story = Story()
    story.send(METADATA)
    story.connect()
    story.peers.close()
    assert story.cable.is_closed and not story.peers.dispatch() and not story.told


def test_a_callback_that_raises_is_told_and_the_other_senders_hear_of_their_requests() -> None:
    story = Story()
    told: list[str] = []
    story.peers.on_error = lambda error: told.append(str(error))

    def raising(result: object, now: int) -> None:
        raise ValueError(f"planted at {now}")

    story.peers.send(Outbound("main", HERE, METADATA, raising, TIMEOUT_MS), 0)
    number = story.send(METADATA)
    story.connect()
    story.cable.taken()
    story.cable.peer.received(5)
    story.peers.dispatch()
    assert [each[0] for each in story.told] == [number] and len(told) == 1


def test_a_connection_knows_whether_the_listener_that_it_goes_to_is_the_controllers() -> None:
    story = Story()
    raft = Outbound("raft", HERE, METADATA, lambda result, now: None, TIMEOUT_MS, is_to_controller=True)
    story.peers.send(raft, 0)
    story.peers.send(Outbound("fetch", HERE, METADATA, lambda result, now: None, TIMEOUT_MS), 0)
    assert [cable.peer.is_to_controller for cable in story.cables.all] == [True, False]
