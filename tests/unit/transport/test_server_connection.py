"""One accepted connection over a byte stream that the test holds: throttling, hanging up, and promises that are
abandoned."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft.common.core import FOREVER, Promise
from pykraft.common.metrics import Metrics
from pykraft.common.timer import Timer
from pykraft.protocol.api import ListenerKind
from pykraft.protocol.header import encode_request
from pykraft.protocol.messages.cluster import MetadataRequest, MetadataResponse
from pykraft.protocol.messages.data import FetchRequest, FetchResponse, ProduceRequest, ProduceResponse
from pykraft.protocol.schema import Request
from pykraft.transport.frames import FrameReader
from pykraft.transport.pace import Pace
from pykraft.transport.request_metrics import RequestMetrics
from pykraft.transport.server_channel import InboundRequest, RequestContext, ServerChannel
from pykraft.transport.server_connection import Answer, RequestChannel, ServerConnection

METADATA = MetadataRequest(topics=None)
PRODUCE = ProduceRequest(acks=-1, timeout_ms=1, topic_data=[])
FETCH = FetchRequest(max_wait_ms=60_000, min_bytes=1, topics=[])
ANSWERS = {
    METADATA.api: MetadataResponse(brokers=[], topics=[]),
    PRODUCE.api: ProduceResponse(responses=[]),
    FETCH.api: FetchResponse(responses=[]),
}


class Pipe:
    """A byte stream that takes what it is given, and breaks when the test says so."""

    def __init__(self, frames: FrameReader) -> None:
        self._frames = frames
        self._unread: deque[bytes] = deque()
        self.output: list[bytes] = []
        self.sent = b""
        self.sends: list[list[int]] = []
        """The correlation ids of the answers in each `send`."""
        self.is_stuck = False
        self.is_broken = False
        self.has_memory = True
        self.is_closed = False
        self.is_readable = self.has_hung_up = self.has_ended = self.is_watched_for_room = False

    def bring(self, data: bytes) -> None:
        """More has come from the client; nothing is its end."""
        self._unread.append(data)
        self.is_readable = True
        self.has_hung_up = self.has_hung_up or not data

    def receive(self) -> bool:
        if not self.has_memory:
            raise MemoryError
        data = self._unread.popleft()
        self.is_readable = bool(self._unread)
        self._frames.feed(data)
        self.has_ended = not data
        return not self.has_ended

    def send(self, parts: Sequence[Any]) -> None:
        if self.is_broken:
            raise ConnectionResetError
        if not self.has_memory:
            raise MemoryError
        data = b"".join(map(bytes, parts))
        self.sends.append(correlation_ids(data))
        if self.is_stuck and data:
            self.output.append(data)
        else:
            self.sent += data

    def watch(self) -> None:
        assert not self.is_closed, "a closed stream is not watched"
        self.is_watched_for_room = bool(self.output)

    def close(self, reset: bool) -> None:
        assert not self.is_closed, "a stream is closed once"
        self.is_closed = True

    def answered(self) -> list[int]:
        """The correlation ids of the answers that were sent."""
        return correlation_ids(self.sent)


def correlation_ids(data: bytes) -> list[int]:
    """Of all answers in a stream."""
    found = []
    while data:
        size = int.from_bytes(data[:4], "big")
        found.append(int.from_bytes(data[4:8], "big"))
        data = data[4 + size :]
    return found


class Story:
    """Connections, the queue, and a node that promises every answer and keeps its promises when the test says so."""

    def __init__(self, connections: int = 1, capacity: int = 10) -> None:
        self.now = 1000
        self.timer = Timer()
        self.pace = Pace(self.timer, lambda: self.now)
        self.requests = RequestChannel(capacity, self.pace, RequestMetrics(Metrics(), lambda: self.now * 1_000_000))
        self.connections = []
        for number in range(connections):
            channel = ServerChannel(f"c{number}", "PLAINTEXT", ListenerKind.BROKER, "127.0.0.1", 1 << 20)
            self.connections.append(ServerConnection(channel, Pipe(channel.frames), self.requests))
        self.connection = self.connections[0]
        self.promises: dict[int, tuple[RequestContext, Promise[Answer]]] = {}
        """What is not answered yet, by its correlation id."""
        self.abandoned: list[int] = []
        self._sent = 0

    @property
    def pipe(self) -> Pipe:
        return pipe(self.connection)

    def bring(self, *requests: Request, connection: ServerConnection | None = None) -> None:
        """A client sends these, numbered 1, 2, ..., or without any its end; the node handles what is taken."""
        stream = pipe(connection or self.connection)
        if not requests:
            stream.bring(b"")
        for request in requests:
            self._sent += 1
            version = {FETCH.api: 12}.get(request.api, 9)
            stream.bring(b"".join(encode_request(request, version, self._sent, "test")))
        (connection or self.connection).go_on()
        self.turn()

    def turn(self) -> None:
        self.requests.read_large()
        while (queued := self.requests.receive()) is not None:
            queued.connection.serve(queued, self, self.now)
            self.requests.feed()

    def handle(self, inbound: InboundRequest, now: int) -> Promise[Answer]:
        promise: Promise[Answer] = Promise()
        number = inbound.context.correlation_id
        self.promises[number] = inbound.context, promise
        promise.on_abandoned(lambda: self.abandoned.append(number))
        return promise

    def answer(self, number: int, **how: Any) -> None:
        context, promise = self.promises.pop(number)
        promise.keep(Answer(ANSWERS[context.api_key], **how))
        self.turn()

    def pass_time(self, milliseconds: int) -> None:
        self.now += milliseconds
        self.timer.expire(self.now)
        self.turn()


def pipe(connection: ServerConnection) -> Pipe:
    assert isinstance(connection.stream, Pipe)
    return connection.stream


# --- throttling -------------------------------------------------------------------------------------------------------


def test_a_throttled_client_gets_its_answer_at_once_and_its_next_request_waits_for_the_time_to_pass() -> None:
    story = Story()
    story.bring(METADATA, METADATA)
    story.answer(1, charge=lambda _: 300)
    assert story.pipe.answered() == [1] and not story.promises
    story.pass_time(299)
    assert not story.promises, "one millisecond is left"
    assert story.timer.deadline == 1300
    story.pass_time(1)
    assert list(story.promises) == [2]
    story.answer(2)
    assert story.pipe.answered() == [1, 2] and story.timer.deadline == FOREVER


def test_nothing_is_read_from_a_throttled_client() -> None:
    story = Story()
    story.bring(PRODUCE)
    story.answer(1, charge=lambda _: 300)
    story.bring(METADATA)
    assert len(story.pipe._unread) == 1
    story.pass_time(300)
    assert list(story.promises) == [2]


def test_the_time_of_a_throttled_answer_begins_when_it_is_sent() -> None:
    story = Story()
    story.bring(METADATA, METADATA)
    story.pass_time(5000)
    story.answer(1, charge=lambda _: 300)
    story.pass_time(299)
    assert not story.promises
    story.pass_time(1)
    assert list(story.promises) == [2]


def test_a_throttled_connection_that_closes_is_left_alone_when_its_time_is_over() -> None:
    story = Story()
    story.bring(METADATA, METADATA)
    story.answer(1, charge=lambda _: 300)
    story.connection.close()
    story.pass_time(300)
    assert not story.promises and story.pipe.is_closed


def test_a_throttled_connection_that_closes_is_not_kept_until_its_time_is_over() -> None:
    """A client with a tiny quota may be throttled for weeks, and connect again and again."""
    story = Story()
    story.bring(METADATA)
    story.answer(1, charge=lambda _: 300)
    story.connection.close()
    assert story.timer.deadline == FOREVER


# --- a client that hangs up -------------------------------------------------------------------------------------------


def test_a_connection_that_closes_abandons_all_that_it_has_not_answered() -> None:
    story = Story()
    story.bring(PRODUCE, PRODUCE, PRODUCE)
    story.answer(1)
    assert list(story.promises) == [2], "the third waits in the stream"
    story.connection.close()
    story.connection.close()
    assert story.abandoned == [2] and story.pipe.is_closed
    story.answer(2)
    assert story.pipe.answered() == [1]


def breaks(story: Story) -> None:
    story.pipe.is_broken = True
    story.answer(1)


def has_no_memory_to_answer(story: Story) -> None:
    story.pipe.has_memory = False
    story.answer(1)


def sends_rubbish(story: Story) -> None:
    story.pipe.bring(b"\xff\xff\xff\xff")
    story.answer(1)


@pytest.mark.parametrize(
    "trouble",
    [breaks, lambda story: story.answer(1, hang_up=True), sends_rubbish, has_no_memory_to_answer],
    ids=["it breaks", "the node hangs up", "the client sends an impossible size", "the answer needs too much memory"],
)
def test_a_connection_that_cannot_go_on_is_closed(trouble: Callable[[Story], None]) -> None:
    story = Story()
    story.bring(PRODUCE)
    trouble(story)
    assert story.pipe.is_closed and not story.connection.is_open and not story.promises


@pytest.mark.parametrize("charge", [None, lambda _: 300], ids=["without quotas", "with quotas"])
def test_an_answer_that_cannot_be_encoded_for_want_of_memory_ends_its_connection_and_no_other(
    charge: Callable[[int], int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def encode(*_: object) -> list[bytes]:
        raise MemoryError

    story = Story(connections=2)
    story.bring(PRODUCE, PRODUCE)
    story.bring(METADATA, connection=story.connections[1])
    monkeypatch.setattr(ProduceResponse, "encode", encode)
    story.answer(1, charge=charge)
    assert story.pipe.is_closed and list(story.promises) == [3] and story.timer.deadline == FOREVER
    story.answer(3, charge=charge)
    assert pipe(story.connections[1]).answered() == [3]


def test_a_request_for_which_there_is_no_memory_ends_its_connection_and_no_other() -> None:
    story = Story(connections=2)
    story.pipe.has_memory = False
    story.bring(METADATA)
    assert story.pipe.is_closed and not story.promises
    story.bring(METADATA, connection=story.connections[1])
    story.answer(2)
    assert pipe(story.connections[1]).answered() == [2]


def test_a_client_that_hangs_up_leaves_its_fetch_and_whatever_it_sent_after_it() -> None:
    story = Story()
    story.bring(FETCH, METADATA)
    assert list(story.promises) == [1]
    story.bring()
    assert story.abandoned == [1] and story.pipe.is_closed


def test_a_client_that_hangs_up_before_its_fetch_is_handled_leaves_it_too() -> None:
    story = Story()
    story.pipe.bring(b"".join(encode_request(FETCH, 12, 1, "test")))
    story.connection.go_on()
    story.pipe.bring(b"")
    story.connection.go_on()
    assert story.connection.is_open, "the fetch may be answered at once"
    story.turn()
    assert story.abandoned == [1] and story.pipe.is_closed


@pytest.mark.parametrize("request_", [METADATA, PRODUCE], ids=["Metadata", "Produce"])
def test_a_client_that_closes_its_half_still_gets_the_answers_to_its_writes(request_: Request) -> None:
    story = Story()
    story.bring(FETCH, request_, request_)
    story.answer(1)
    story.bring()
    story.answer(2)
    assert story.connection.is_open
    story.answer(3)
    assert story.pipe.answered() == [1, 2, 3] and story.pipe.is_closed and not story.abandoned


def test_a_stream_that_finds_the_end_only_by_reading_is_closed_there() -> None:
    story = Story()
    story.bring(METADATA)
    story.pipe._unread.append(b"")
    story.pipe.is_readable = True
    story.answer(1)
    assert story.pipe.answered() == [1] and story.pipe.is_closed


def test_a_client_that_closes_its_half_while_the_queue_is_full_loses_no_request() -> None:
    story = Story(connections=2, capacity=1)
    first, second = story.connections
    pipe(first).bring(b"".join(encode_request(METADATA, 9, 1, "test")))
    pipe(second).bring(b"".join(encode_request(METADATA, 9, 2, "test")))
    pipe(second).bring(b"")
    first.go_on()
    second.go_on()
    second.go_on()
    assert len(story.requests) == 1 and second.is_open
    story.turn()
    story.answer(1)
    story.answer(2)
    assert pipe(second).answered() == [2] and pipe(second).is_closed and first.is_open


def test_nothing_is_read_while_the_queue_is_full() -> None:
    story = Story(connections=2, capacity=1)
    for connection in story.connections:
        for number in range(3):
            pipe(connection).bring(b"".join(encode_request(METADATA, 9, number, "test")))
        for _ in range(3):
            connection.go_on()
    assert [len(pipe(connection)._unread) for connection in story.connections] == [2, 3]


# --- the law ----------------------------------------------------------------------------------------------------------


@given(
    st.lists(st.sampled_from([METADATA, PRODUCE, FETCH]), min_size=1, max_size=12),
    st.integers(0, 1 << 32),
    st.sampled_from(["stays", "hangs up", "breaks"]),
)
def test_each_request_that_is_taken_is_answered_once_in_order_or_abandoned_once(
    requests: list[Request], seed: int, client: str
) -> None:
    """Whatever the node, the stream and the time do; and whenever the client goes, if it does."""
    story, random = Story(), Random(seed)
    pipe = story.pipe
    taken: set[int] = set()
    answered: list[int] = []
    coming = deque(requests)
    while story.connection.is_open and (coming or story.promises or pipe.output or story.timer.deadline < FOREVER):
        moves = ["pass time", "stick", "go"] + ["come"] * (3 * bool(coming)) + ["answer"] * (3 * bool(story.promises))
        move = random.choice(moves)
        if move == "come":
            story.bring(coming.popleft())
        elif move == "answer":
            answered.append(random.choice(sorted(story.promises)))
            story.answer(answered[-1], charge=random.choice([None, lambda _: 0, lambda _: 100]))
        elif move == "pass time":
            story.pass_time(100)
        elif move == "stick":
            pipe.is_stuck = not pipe.is_stuck
            if not pipe.is_stuck:
                pipe.sent += b"".join(pipe.output)
                pipe.output.clear()
                story.connection.go_on()
                story.turn()
        elif client == "hangs up" and random.random() < 0.3:
            coming.clear()
            client = "has hung up"
            story.bring()
        elif client == "breaks" and random.random() < 0.3:
            pipe.is_broken = True
        taken |= {*story.promises, *answered}
    story.connection.close()
    pipe.sent += b"".join(pipe.output)
    assert pipe.answered() == sorted(pipe.answered()) and set(pipe.answered()) <= set(answered)
    assert sorted([*story.abandoned, *answered]) == sorted(taken)
    if client == "stays":
        assert pipe.answered() == list(range(1, len(requests) + 1)) and not story.abandoned


# --- large requests ---------------------------------------------------------------------------------------------------

LARGE = MetadataRequest(topics=[MetadataRequest.Topic(name=f"topic-{number}") for number in range(2000)])


class StepSlice:
    """A slice that is over after one step."""

    def begin(self) -> None:
        pass

    def is_over(self) -> bool:
        return True

    def is_long(self, steps: int) -> bool:
        return False


def sliced(connections: int = 2, capacity: int = 10) -> Story:
    story = Story(connections, capacity)
    story.pace.time_slice = StepSlice()
    return story


def turns_until_read(story: Story, number: int = 1) -> int:
    for turns in range(1, 1000):
        story.turn()
        if number in story.promises:
            return turns
    raise AssertionError("it is never read")


def test_other_connections_are_served_between_two_slices_of_a_large_request() -> None:
    story = sliced()
    story.bring(LARGE)
    for number in range(2, 12):
        story.bring(METADATA, connection=story.connections[1])
        story.answer(number)
    assert not story.promises and story.requests.large
    assert turns_until_read(story) > 20
    assert not story.requests.large and story.requests.room == 10
    story.answer(1)
    assert story.pipe.answered() == [1]


def test_a_connection_takes_nothing_while_its_large_request_is_read() -> None:
    story = sliced()
    story.bring(LARGE, METADATA)
    story.connection.go_on()
    turns_until_read(story)
    assert list(story.promises) == [1]
    story.answer(1)
    story.answer(2)
    assert story.pipe.answered() == [1, 2]


def test_a_large_request_has_its_place_in_the_queue_while_it_is_read() -> None:
    story = sliced(capacity=1)
    story.bring(LARGE)
    story.bring(METADATA, connection=story.connections[1])
    assert not story.promises and story.requests.room == 0
    turns_until_read(story)
    story.turn()
    assert list(story.promises) == [1, 2]


def test_large_requests_of_several_connections_share_a_slice() -> None:
    one, three = sliced(), sliced(3)
    one.bring(LARGE)
    for connection in three.connections:
        three.bring(LARGE, connection=connection)
    assert turns_until_read(three, 3) > 2.5 * turns_until_read(one)


@pytest.mark.parametrize("turns", range(0, 60, 7))
def test_a_client_that_leaves_while_its_large_request_is_read_leaves_nothing_behind(turns: int) -> None:
    story = sliced(capacity=1)
    story.bring(LARGE)
    for _ in range(turns):
        story.turn()
    story.connection.close()
    story.bring(METADATA, connection=story.connections[1])
    assert list(story.promises) == [2] and not story.requests.large
    story.answer(2)
    assert story.requests.room == 1


def test_a_large_request_that_cannot_be_read_closes_its_connection_when_that_is_found() -> None:
    story = sliced()
    data = b"".join(encode_request(LARGE, 9, 1, "test"))
    body = data[4:-100]
    story.pipe.bring(len(body).to_bytes(4, "big") + body)
    story.connection.go_on()
    assert not story.pipe.is_closed
    for _ in range(200):
        story.turn()
    assert story.pipe.is_closed and not story.promises and not story.requests.large


def test_a_channel_without_slices_reads_a_large_request_at_once() -> None:
    story = Story()
    story.bring(LARGE)
    assert list(story.promises) == [1]
