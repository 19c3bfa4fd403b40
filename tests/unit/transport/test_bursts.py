"""Bursts of a connection: which requests are served together, when their answers leave, and what never changes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft.common.core import Promise
from pykraft.protocol.api import apis
from pykraft.protocol.header import encode_request
from pykraft.protocol.messages.cluster import ApiVersionsRequest, MetadataResponse
from pykraft.protocol.schema import Request
from pykraft.protocol.wire import Variable
from pykraft.transport.pace import MAX_BURST_REQUESTS
from pykraft.transport.server_channel import InboundRequest, RequestContext
from pykraft.transport.server_connection import MAX_HELD_BYTES, WITH_RECORDS, Answer, QueuedRequest, ServerConnection
from tests.unit.transport.test_server_connection import ANSWERS, FETCH, METADATA, PRODUCE, StepSlice, Story, pipe

VERSIONS = {FETCH.api: 12, ApiVersionsRequest.api: 4}
QUARTER = MetadataResponse(brokers=[], topics=[], cluster_id="c" * (MAX_HELD_BYTES // 4))
"""A quarter of what may be held, and a few bytes."""


class Prompt(Story):
    """A node that answers at once, but for the requests whose numbers the test names."""

    def __init__(self, connections: int = 1, capacity: int = 10) -> None:
        super().__init__(connections, capacity)
        self.how: dict[int, Callable[[], Answer | Promise[Answer]]] = {}
        """What happens to a request instead, by its number."""
        self.handled: list[tuple[str, int]] = []
        """The connections and numbers of the requests that were handled."""
        self.contexts: dict[int, RequestContext] = {}
        self.takes_ms = 0

    def handle(self, inbound: InboundRequest, now: int) -> Any:
        number = inbound.context.correlation_id
        self.contexts[number] = inbound.context
        self.handled.append((inbound.context.connection_id, number))
        self.now += self.takes_ms
        if number in self.how:
            return self.how[number]()
        return Answer(ANSWERS[inbound.context.api_key])

    def later(self) -> Promise[Answer]:
        """What `how` says of a request whose answer the test gives."""
        number = self.handled[-1][1]
        promise: Promise[Answer] = Promise()
        self.promises[number] = self.contexts[number], promise
        promise.on_abandoned(lambda: self.abandoned.append(number))
        return promise

    def pipeline(self, *requests: Request, connection: ServerConnection | None = None) -> None:
        """All of these come at once."""
        stream = pipe(connection or self.connection)
        stream.bring(stream_of(*requests))
        (connection or self.connection).go_on()
        self.turn()


def frame(request: Request, number: int) -> bytes:
    return b"".join(encode_request(request, VERSIONS.get(request.api, 9), number, "test"))


def stream_of(*requests: Request) -> bytes:
    return b"".join(frame(request, number) for number, request in enumerate(requests, 1))


def hangs_up() -> Answer:
    return Answer(None, hang_up=True)


def raises() -> Answer:
    raise ValueError("planted")


def throttled() -> Answer:
    return Answer(ANSWERS[METADATA.api], charge=lambda _: 300)


def with_records() -> Answer:
    return Answer(ANSWERS[FETCH.api])


# --- which answers leave together -------------------------------------------------------------------------------------

SEVEN = [METADATA] * 7
FOURTH: dict[str, tuple[list[Request], Callable[[Prompt], Callable[[], Any]] | None, list[list[int]]]] = {
    "is answered at once": (SEVEN, lambda _: lambda: Answer(ANSWERS[METADATA.api]), [[1, 2, 3, 4, 5, 6, 7]]),
    "is promised": (SEVEN, lambda story: story.later, [[1, 2, 3]]),
    "is a fetch that is parked": ([*SEVEN[:3], FETCH, *SEVEN[:3]], lambda story: story.later, [[1, 2, 3]]),
    "is a produce that waits for replicas": (
        [*SEVEN[:3], PRODUCE, *SEVEN[:3]],
        lambda story: story.later,
        [[1, 2, 3]],
    ),
    "has a kept promise": (
        SEVEN,
        lambda _: lambda: Promise.of(Answer(ANSWERS[METADATA.api])),
        [[1, 2, 3, 4, 5, 6, 7]],
    ),
    "is answered with records": ([*SEVEN[:3], FETCH, *SEVEN[:3]], lambda _: with_records, [[1, 2, 3], [4], [5, 6, 7]]),
    "is throttled": (SEVEN, lambda _: throttled, [[1, 2, 3, 4]]),
    "wants no answer": (SEVEN, lambda _: lambda: Answer(None), [[1, 2, 3, 5, 6, 7]]),
    "makes the node hang up": (SEVEN, lambda _: hangs_up, [[1, 2, 3]]),
}


@pytest.mark.parametrize(("requests", "how", "sends"), FOURTH.values(), ids=FOURTH.keys())
def test_of_seven_pipelined_requests_the_fourth(
    requests: list[Request], how: Callable[[Prompt], Callable[[], Any]], sends: list[list[int]]
) -> None:
    story = Prompt()
    story.how[4] = how(story)
    story.pipeline(*requests)
    assert story.pipe.sends == sends


def carries_records(structure: Any) -> bool:
    """Whether a structure, or one in it, has a field of Kafka's type RECORDS."""
    elements = [field.wire.element for field in structure.fields]
    is_direct = any(isinstance(each, Variable) and each.kind == "records" for each in elements)
    return is_direct or any(carries_records(each) for each in elements if hasattr(each, "fields"))


def test_all_responses_with_records_are_known() -> None:
    responses = [api.request.response for api in apis.values()]
    assert {response for response in responses if carries_records(response)} == WITH_RECORDS


def test_what_follows_a_promise_is_a_burst_of_its_own() -> None:
    story = Prompt()
    story.how[4] = story.later
    story.pipeline(*SEVEN)
    assert [number for _, number in story.handled] == [1, 2, 3, 4]
    story.answer(4)
    assert story.pipe.sends == [[1, 2, 3], [4], [5, 6, 7]]


def test_a_request_that_comes_alone_is_answered_alone() -> None:
    story = Prompt()
    for number in range(1, 4):
        story.bring(METADATA)
        assert story.pipe.sends[-1] == [number]


def test_a_burst_has_at_most_eight_requests() -> None:
    story = Prompt()
    story.pipeline(*[METADATA] * 19)
    assert [len(sent) for sent in story.pipe.sends] == [MAX_BURST_REQUESTS, MAX_BURST_REQUESTS, 3]


def test_answers_leave_when_64_kb_of_them_are_held() -> None:
    story = Prompt()
    story.how = dict.fromkeys(range(1, 8), lambda: Answer(QUARTER))
    story.pipeline(*SEVEN)
    assert story.pipe.sends == [[1, 2, 3, 4], [5, 6, 7]]


def test_an_answer_waits_at_most_two_milliseconds_for_the_next_request_of_its_burst() -> None:
    story = Prompt()
    story.takes_ms = 1
    story.pipeline(*SEVEN)
    assert story.pipe.sends == [[1, 2, 3], [4, 5, 6], [7]]
    slow = Prompt()
    slow.takes_ms = 5
    slow.pipeline(*SEVEN)
    assert slow.pipe.sends == [[1, 2], [3, 4], [5, 6], [7]], "a request that has begun is not interrupted"


def test_a_request_that_has_not_come_whole_is_not_waited_for() -> None:
    story = Prompt()
    data = stream_of(*SEVEN)
    story.pipe.bring(data[:-1])
    story.connection.go_on()
    story.turn()
    assert story.pipe.sends == [[1, 2, 3, 4, 5, 6]]
    story.pipe.bring(data[-1:])
    story.connection.go_on()
    story.turn()
    assert story.pipe.sends[1:] == [[7]]


def test_a_large_request_is_read_after_the_answers_before_it_have_left() -> None:
    story = Prompt()
    story.pace.time_slice = StepSlice()
    large = METADATA.replace(topics=[type(METADATA).Topic(name=f"topic-{number}") for number in range(2000)])
    story.pipeline(METADATA, METADATA, large, METADATA)
    assert story.pipe.sends == [[1, 2]] and story.requests.large
    while story.requests.large:
        story.turn()
    story.turn()
    assert story.pipe.sends == [[1, 2], [3, 4]]


UNKNOWN = bytearray(frame(ApiVersionsRequest(client_software_name="x", client_software_version="1"), 3))
UNKNOWN[6:8] = (99).to_bytes(2, "big")


def test_what_the_channel_itself_refuses_keeps_its_place_in_the_burst() -> None:
    story = Prompt()
    story.pipe.bring(frame(METADATA, 1) + frame(METADATA, 2) + bytes(UNKNOWN) + frame(METADATA, 4))
    story.connection.go_on()
    story.turn()
    assert story.pipe.sends == [[1, 2, 3, 4]]


# --- an end within a burst --------------------------------------------------------------------------------------------

ENDS: dict[str, tuple[bytes, Callable[[], Answer] | None]] = {
    "it claims an impossible size": (b"\xff\xff\xff\xff", None),
    "it cannot be read": (b"\0\0\0\x0c" + (3).to_bytes(2, "big") + (9).to_bytes(2, "big") + b"\xff" * 8, None),
    "the node hangs up": (frame(METADATA, 3), hangs_up),
    "the node raises": (frame(METADATA, 3), raises),
}


@pytest.mark.parametrize("is_stuck", [False, True], ids=["the socket has room", "the socket is full"])
@pytest.mark.parametrize(("bad", "how"), ENDS.values(), ids=ENDS.keys())
def test_a_request_that_ends_its_connection_takes_no_answer_along(
    bad: bytes, how: Callable[[], Answer] | None, is_stuck: bool
) -> None:
    story = Prompt()
    story.requests.on_error = lambda error: None
    story.pipe.is_stuck = is_stuck
    if how is not None:
        story.how[3] = how
    story.pipe.bring(frame(METADATA, 1) + frame(METADATA, 2) + bad + frame(METADATA, 4))
    story.connection.go_on()
    story.turn()
    story.connection.go_on()
    assert story.pipe.is_closed is not is_stuck and story.pipe.is_watched_for_room is is_stuck
    leave(story)
    assert story.pipe.answered() == [1, 2] and story.pipe.is_closed
    assert (story.handled[-1][1] == 3) is (how is not None), "nothing is handled after it"


def leave(story: Prompt) -> None:
    """The socket has room again."""
    pipe = story.pipe
    pipe.is_stuck = False
    pipe.sent += b"".join(pipe.output)
    pipe.output.clear()
    if not pipe.is_closed:
        story.connection.go_on()
        story.turn()


def test_answers_that_cannot_be_sent_before_a_promise_abandon_it() -> None:
    story = Prompt()
    story.how[3] = story.later
    story.pipe.is_broken = True
    story.pipeline(*SEVEN)
    assert story.abandoned == [3] and story.pipe.is_closed and story.pipe.answered() == []


def test_answers_that_leave_late_are_watched_while_the_next_one_is_promised() -> None:
    story = Prompt()
    story.how[3] = story.later
    story.pipe.is_stuck = True
    story.pipeline(*SEVEN)
    assert story.pipe.is_watched_for_room and list(story.promises) == [3]
    leave(story)
    assert story.pipe.answered() == [1, 2]


def test_a_client_that_is_refused_again_and_again_and_reads_nothing_fills_no_memory() -> None:
    story = Prompt()
    story.pipe.is_stuck = True
    story.pipe.bring(bytes(UNKNOWN) * 10_000)
    story.connection.go_on()
    assert len(story.pipe.sends) == 1
    assert MAX_HELD_BYTES <= sum(map(len, story.pipe.output)) < MAX_HELD_BYTES + 100


def test_a_client_that_has_sent_all_and_closes_its_half_gets_the_answers_of_the_burst() -> None:
    story = Prompt()
    story.pipe.bring(stream_of(*SEVEN))
    story.pipe.bring(b"")
    story.connection.go_on()
    story.turn()
    assert story.pipe.sends == [[1, 2, 3, 4, 5, 6, 7]] and story.pipe.is_closed


def test_answers_of_a_burst_that_do_not_leave_keep_the_next_request_out() -> None:
    story = Prompt()
    story.pipe.is_stuck = True
    story.pipeline(*[METADATA] * 12)
    assert len(story.handled) == MAX_BURST_REQUESTS and not len(story.requests)
    leave(story)
    assert story.pipe.answered() == list(range(1, 13))


# --- fairness ---------------------------------------------------------------------------------------------------------


def test_a_connection_with_a_thousand_requests_gives_way_after_its_burst() -> None:
    story = Prompt(connections=3)
    many, *others = story.connections
    pipe(many).bring(stream_of(*[METADATA] * 1000))
    for connection in others:
        pipe(connection).bring(stream_of(*[METADATA] * 10))
    for connection in story.connections:
        connection.go_on()
    story.turn()
    names = [name for name, _ in story.handled]
    assert names[: 3 * MAX_BURST_REQUESTS] == ["c0"] * 8 + ["c1"] * 8 + ["c2"] * 8
    assert names[24:44] == ["c0"] * 8 + ["c1"] * 2 + ["c2"] * 2 + ["c0"] * 8
    assert names.count("c0") == 1000


def test_a_burst_takes_no_place_in_the_queue_that_another_connection_has() -> None:
    story = Prompt(connections=3, capacity=1)
    for connection in story.connections:
        pipe(connection).bring(stream_of(*[METADATA] * 10))
        connection.go_on()
    assert len(story.requests) == 1
    story.turn()
    assert [pipe(connection).answered() for connection in story.connections] == [list(range(1, 11))] * 3
    assert story.requests.room == 1 and not story.requests.starved


# --- laws -------------------------------------------------------------------------------------------------------------

SCRIPT = [METADATA, PRODUCE, FETCH, METADATA, PRODUCE, METADATA]


def served(pieces: list[bytes], burst_requests: Callable[[], int], later: set[int]) -> Prompt:
    """A connection over which these pieces came, one after the other; promises are kept after each."""
    story = Prompt()
    story.pace.burst_requests = burst_requests
    story.how = dict.fromkeys(later, story.later)
    for piece in pieces:
        story.pipe.bring(piece)
        story.connection.go_on()
        story.turn()
        assert story.pipe.answered() == [number for _, number in story.handled if number not in story.promises]
        for number in list(story.promises):
            story.answer(number)
    while story.promises:
        story.answer(min(story.promises))
    return story


@pytest.mark.costly
@pytest.mark.parametrize("later", [set(), {3}, {2, 5}], ids=["all at once", "a fetch waits", "two produces wait"])
def test_a_client_hears_the_same_wherever_its_stream_is_cut(later: set[int]) -> None:
    """In bursts as one after the other; and after each piece each answer that is ready has left."""
    data = stream_of(*SCRIPT)
    expected = served([data], lambda: 1, later)
    assert [len(sent) for sent in expected.pipe.sends] == [1] * len(SCRIPT)
    for cut in range(len(data) + 1):
        for pieces in ([data[:cut], data[cut:]], [data[:cut], data[cut : cut + 1], data[cut + 1 :]]):
            story = served([piece for piece in pieces if piece], lambda: MAX_BURST_REQUESTS, later)
            assert story.pipe.sent == expected.pipe.sent, cut


@given(st.integers(0, 1 << 32))
def test_an_answer_that_is_ready_never_waits_for_one_that_is_not_and_order_stays(seed: int) -> None:
    """Whatever is answered at once or promised, and however the seed cuts the bursts."""
    random = Random(seed)
    story = Prompt(capacity=random.randint(1, 3))
    story.pace.burst_requests = lambda: random.randint(1, MAX_BURST_REQUESTS)
    total = random.randint(1, 40)
    requests = [random.choice(SCRIPT) for _ in range(total)]
    story.how = {at: big for at, request in enumerate(requests, 1) if request is METADATA and random.random() < 0.5}
    story.how |= {number: story.later for number in range(1, total + 1) if random.random() < 0.2}
    coming = deque(frame(request, number) for number, request in enumerate(requests, 1))
    while coming or story.promises or story.pipe.output:
        move = random.choice(["come", "come", "keep", "stick"])
        if move == "come" and coming:
            count = random.randint(1, min(12, len(coming)))
            story.pipe.bring(b"".join(coming.popleft() for _ in range(count)))
            story.connection.go_on()
            story.turn()
        elif move == "keep" and story.promises:
            story.answer(min(story.promises))
        elif move == "stick" and random.random() < 0.5:
            story.pipe.is_stuck = True
        else:
            leave(story)
        assert not story.connection._held
        ready = [number for _, number in story.handled if number not in story.promises]
        assert [number for sent in story.pipe.sends for number in sent] == ready == sorted(ready)
        assert sum(map(len, story.pipe.output)) <= 2 * MAX_HELD_BYTES
    assert story.pipe.answered() == list(range(1, total + 1))


def big() -> Answer:
    return Answer(QUARTER)


# --- planted bugs -----------------------------------------------------------------------------------------------------


def an_answer_kept_while_a_promise_waits(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ServerConnection, "_flush", lambda connection: None)


def two_answers_swapped(patch: pytest.MonkeyPatch) -> None:
    may_hold = ServerConnection._may_hold

    def swap(connection: ServerConnection, request: QueuedRequest) -> bool:
        is_held = may_hold(connection, request)
        connection._held[-2:] = reversed(connection._held[-2:])
        return is_held

    patch.setattr(ServerConnection, "_may_hold", swap)


def a_burst_without_end(patch: pytest.MonkeyPatch) -> None:
    may_hold = ServerConnection._may_hold

    def go_on(connection: ServerConnection, request: QueuedRequest) -> bool:
        connection._burst_left = MAX_BURST_REQUESTS
        return may_hold(connection, request)

    patch.setattr(ServerConnection, "_may_hold", go_on)


@pytest.mark.parametrize(
    ("plant", "finder"),
    [
        (an_answer_kept_while_a_promise_waits, test_what_follows_a_promise_is_a_burst_of_its_own),
        (two_answers_swapped, lambda: test_a_client_hears_the_same_wherever_its_stream_is_cut(set())),
        (a_burst_without_end, test_a_connection_with_a_thousand_requests_gives_way_after_its_burst),
    ],
)
def test_a_planted_bug_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], finder: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        finder()
