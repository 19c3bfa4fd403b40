"""The stages of the network on real sockets, turned by hand: what is queued, who is muted, who has to go."""

from __future__ import annotations

import errno
import importlib.util
import os
import pathlib
import select
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pykraft.common.core import Promise
from pykraft.common.metrics import Metrics
from pykraft.common.timer import Timer
from pykraft.network import selector as selector_module
from pykraft.network import socket_server
from pykraft.network.connection_quotas import ConnectionLimits, ConnectionQuotas
from pykraft.network.selector import Selector, Stream
from pykraft.network.socket_server import Acceptor, Processor, SocketOptions
from pykraft.protocol.api import ListenerKind
from pykraft.protocol.header import encode_request
from pykraft.protocol.messages.cluster import ApiVersionsRequest, ApiVersionsResponse, MetadataRequest
from pykraft.protocol.messages.data import FetchRequest, ProduceRequest, ProduceResponse
from pykraft.storage.disk.filesystem import OsFileSystem
from pykraft.transport.frames import FrameReader
from pykraft.transport.pace import Pace
from pykraft.transport.request_metrics import RequestMetrics
from pykraft.transport.server_channel import InboundRequest
from pykraft.transport.server_connection import Answer, QueuedRequest, RequestChannel, ServerConnection
from tests.harness.waiting import wait_until

OPTIONS = SocketOptions(
    max_request_bytes=1 << 20,
    send_buffer_bytes=-1,
    receive_buffer_bytes=-1,
    backlog=50,
    max_idle_ms=1000,
    queued_max_requests=2,
    max_file_number=1 << 20,
)


PRODUCE = b"".join(encode_request(ProduceRequest(acks=-1, timeout_ms=1, topic_data=[]), 9, 0, "test"))


class Slow:
    """The owner of a socket that takes long to read, and notes when it was called."""

    def __init__(self, name: str, called: list[str]) -> None:
        self._name = name
        self._called = called

    def on_ready(self, events: int) -> None:
        self._called.append(self._name)
        end = time.perf_counter() + selector_module.MAX_TELLING_S
        while time.perf_counter() < end:
            continue


def test_sockets_that_take_long_to_read_leave_the_thread_time_for_its_other_work_and_come_first_next_time() -> None:
    selector, called = Selector(), list[str]()
    pairs = [socket.socketpair() for _ in range(3)]
    for name, (mine, theirs) in zip("abc", pairs, strict=True):
        selector.watch(mine, 0, selector_module.READ, Slow(name, called))
        theirs.send(b"x")
    selector.tell(selector.wait(5))
    assert len(called) == 1
    for _ in range(5):
        selector.tell(selector.wait(5))
    assert sorted(called[:3]) == sorted(called[3:]) == ["a", "b", "c"], "none is forgotten, and none is starved"
    for each in (each for pair in pairs for each in pair):
        each.close()
    selector.close()


class Server:
    """The stages of a listener, and its connections."""

    def __init__(self, options: SocketOptions = OPTIONS, limits: ConnectionLimits | None = None) -> None:
        self.selector = Selector()
        self.timer = Timer()
        self.now = 0
        self.requests = RequestChannel(
            options.queued_max_requests, Pace(self.timer, lambda: self.now), RequestMetrics(Metrics(), lambda: 0)
        )
        self.processor = Processor(self.selector, self.requests, options)
        self.quotas = ConnectionQuotas(limits or ConnectionLimits(), ["PLAINTEXT", "INTERNAL"], "INTERNAL")
        self.acceptor, self.internal = (
            Acceptor(self.selector, self.processor, name, ListenerKind.BROKER, self.quotas, lambda: self.now)
            for name in ("PLAINTEXT", "INTERNAL")
        )
        self.port = self.acceptor.bind("127.0.0.1", 0, options)
        self.internal_port = self.internal.bind("127.0.0.1", 0, options)
        self.callers: list[socket.socket] = []

    def turn(self, times: int = 3) -> None:
        """Look at all sockets so often."""
        for _ in range(times):
            self.selector.tell(self.selector.wait(0.01))

    def dial(self, port: int = 0) -> socket.socket:
        """A new connection, as far as the system is concerned."""
        caller = socket.create_connection(("127.0.0.1", port or self.port), timeout=10)
        self.callers.append(caller)
        self.turn()
        return caller

    def call(self) -> socket.socket:
        """A new connection, which the server has accepted."""
        before = self.processor._accepted
        caller = socket.create_connection(("127.0.0.1", self.port), timeout=10)
        self.callers.append(caller)
        wait_until(lambda: self.turn(1) or self.processor._accepted > before, "it is accepted")
        return caller

    def ask(self, caller: socket.socket, count: int = 1) -> None:
        request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
        for number in range(count):
            caller.sendall(b"".join(encode_request(request, 3, number, "test")))
        self.turn()

    def answer(self) -> QueuedRequest:
        """Answer the request that has waited longest, as a node does."""
        queued = self.requests.receive()
        assert queued is not None
        queued.connection.respond(queued, Answer(ApiVersionsResponse(api_keys=[])))
        self.requests.feed()
        self.turn()
        return queued

    def close(self) -> None:
        self.acceptor.close()
        self.internal.close()
        self.processor.close(reset=True)
        self.selector.close()
        for caller in self.callers:
            caller.close()


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


def is_hung_up(caller: socket.socket) -> bool:
    caller.settimeout(0.01)
    try:
        return caller.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionResetError:
        return True


def test_one_request_of_a_connection_is_queued_at_a_time(server: Server) -> None:
    caller = server.call()
    server.ask(caller, 3)
    assert len(server.requests) == 1
    for number in range(3):
        assert server.answer().inbound.context.correlation_id == number
    assert len(server.requests) == 0


def test_a_batch_that_waits_for_its_replicas_does_not_open_the_door_for_a_flood(server: Server) -> None:
    """While a Produce request waits, nothing else is taken, and what comes stays in the caller's socket."""
    caller = server.call()
    produce = waiting_produce(server, caller)
    flood = b"".join(encode_request(MetadataRequest(topics=[]), 9, 1, "x" * 30_000))
    caller.settimeout(0.01)
    sent = 0
    with pytest.raises(TimeoutError):
        while sent < 1 << 28:
            sent += caller.send(flood[sent % len(flood) :])
            server.turn(1)
    assert server.requests.receive() is None and len(produce.connection.channel.frames._buffer) < 1 << 20
    produce.connection.respond(produce, Answer(ProduceResponse(responses=[])))
    wait_until(lambda: server.turn(1) or len(server.requests), "the next request is read")
    following = server.requests.receive()
    assert following is not None and following.inbound.context.correlation_id == 1


def waiting_produce(server: Server, caller: socket.socket) -> QueuedRequest:
    """A Produce request that waits for its replicas."""
    caller.sendall(PRODUCE)
    wait_until(lambda: server.turn(1) or len(server.requests), "it has come")
    produce = server.requests.receive()
    assert produce is not None
    return produce


def answered(server: Server, request: QueuedRequest) -> None:
    request.connection.respond(request, Answer(ProduceResponse(responses=[])))
    server.turn()


def test_who_has_sent_all_and_says_so_still_gets_the_answers(server: Server) -> None:
    caller = server.call()
    produce = waiting_produce(server, caller)
    caller.shutdown(socket.SHUT_WR)
    server.turn()
    answered(server, produce)
    caller.settimeout(10)
    assert caller.recv(1 << 16)[4:8] == bytes(4), "the correlation id"
    assert is_hung_up(caller), "and nothing is owed any more"


@pytest.mark.parametrize(
    "bad",
    [
        b"\0\0\0\x08" + (0).to_bytes(2, "big") + (99).to_bytes(2, "big") + bytes(4),
        b"\0\0\0\x0c" + (0).to_bytes(2, "big") + (9).to_bytes(2, "big") + b"\xff" * 8,
    ],
    ids=["a version that is not served", "a request that cannot be read"],
)
def test_what_cannot_be_read_does_not_take_the_answers_before_it_along(server: Server, bad: bytes) -> None:
    caller = server.call()
    produce = waiting_produce(server, caller)
    caller.sendall(bad)
    server.turn()
    assert produce.connection.is_open
    answered(server, produce)
    caller.settimeout(10)
    assert caller.recv(1 << 16)[4:8] == bytes(4)
    assert is_hung_up(caller)


def test_a_caller_who_resets_while_a_request_is_in_hand_is_not_told_of_again_and_again(server: Server) -> None:
    caller = server.call()
    server.ask(caller)
    caller.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    caller.close()
    server.turn()
    assert not server.selector.wait(0.05), "nothing is wanted of it, so nothing is reported"
    server.answer()
    server.turn()
    assert not len(server.processor), "and when the answer does not get through it is closed"


# --- a client that hangs up -------------------------------------------------------------------------------------------

FETCH = b"".join(encode_request(FetchRequest(max_wait_ms=60_000, min_bytes=1, topics=[]), 12, 0, "test"))


class Parking:
    """A node that answers nothing."""

    def __init__(self) -> None:
        self.abandoned = 0

    def handle(self, inbound: InboundRequest, now: int) -> Promise[Answer]:
        promise: Promise[Answer] = Promise()
        promise.on_abandoned(self._count)
        return promise

    def _count(self) -> None:
        self.abandoned += 1

    def serve(self, server: Server) -> ServerConnection:
        """Take the next request, and leave it unanswered."""
        wait_until(lambda: server.turn(1) or len(server.requests), "it has come")
        queued = server.requests.receive()
        assert queued is not None
        queued.connection.serve(queued, self, 0)
        return queued.connection


RESET = struct.pack("ii", 1, 0)
needs_epoll = pytest.mark.skipif(not selector_module.HAS_EPOLL, reason="only epoll reports a client that hangs up")


def closes(caller: socket.socket) -> None:
    caller.close()


def resets(caller: socket.socket) -> None:
    caller.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    caller.close()


def sends_more_and_closes(caller: socket.socket) -> None:
    caller.sendall(FETCH + FETCH)
    caller.close()


def ends(caller: socket.socket) -> None:
    caller.shutdown(socket.SHUT_WR)


@needs_epoll
@pytest.mark.parametrize("leaves", [closes, resets, sends_more_and_closes, ends])
def test_a_client_that_leaves_while_its_fetch_waits_is_noticed_at_once(
    server: Server, leaves: Callable[[socket.socket], None]
) -> None:
    node = Parking()
    caller = server.call()
    caller.sendall(FETCH)
    connection = node.serve(server)
    server.turn()
    assert connection.is_open
    leaves(caller)
    wait_until(lambda: server.turn(1) or not len(server.processor), "the connection is closed")
    assert node.abandoned == 1 and not connection.is_open
    assert not server.selector.wait(0.05)


@needs_epoll
def test_a_reset_is_noticed_while_a_write_waits(server: Server) -> None:
    node = Parking()
    caller = server.call()
    caller.sendall(PRODUCE)
    node.serve(server)
    caller.sendall(FETCH)
    server.turn()
    resets(caller)
    wait_until(lambda: server.turn(1) or not len(server.processor), "the connection is closed")
    assert node.abandoned == 1


@pytest.mark.parametrize("request_", [PRODUCE, FETCH])
def test_an_idle_connection_is_closed_with_what_it_waits_for(server: Server, request_: bytes) -> None:
    node = Parking()
    server.call().sendall(request_)
    node.serve(server)
    server.processor.close_idle(1000)
    assert node.abandoned == 0
    server.processor.close_idle(1001)
    assert node.abandoned == 1 and not len(server.processor)


def test_a_half_closed_connection_with_a_write_that_waits_does_not_keep_the_selector_busy(server: Server) -> None:
    node = Parking()
    caller = server.call()
    caller.sendall(PRODUCE + PRODUCE)
    connection = node.serve(server)
    caller.shutdown(socket.SHUT_WR)
    server.turn()
    assert connection.is_open and not server.selector.wait(0.05)


# --- throttling -------------------------------------------------------------------------------------------------------


def test_a_throttled_client_is_answered_at_once_and_read_again_when_the_time_is_over(server: Server) -> None:
    caller = server.call()
    server.ask(caller, 2)
    queued = server.requests.receive()
    assert queued is not None
    queued.connection.respond(queued, Answer(ApiVersionsResponse(api_keys=[]), lambda _: 500))
    caller.settimeout(10)
    assert caller.recv(1 << 16)[4:8] == bytes(4), "the correlation id"
    server.ask(caller, 1)
    server.timer.expire(499)
    server.turn()
    assert not len(server.requests)
    server.timer.expire(500)
    following = server.requests.receive()
    assert following is not None and following.inbound.context.correlation_id == 1


# --- what the system refuses ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["setblocking", "setsockopt", "dup", "epoll"])
def test_a_socket_that_the_system_refuses_to_serve_is_closed_and_the_next_one_is_served(
    call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server(OPTIONS._replace(max_file_number=0 if call == "dup" else 1 << 20))
    before = os.listdir("/dev/fd")

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    class NoRoom:
        """An epoll without room for one more socket."""

        def __init__(self) -> None:
            self._poller = server.selector._poller

        def __getattr__(self, name: str) -> Any:
            return refuse if name == "register" else getattr(self._poller, name)

    try:
        with monkeypatch.context() as planted:
            planted.setattr(server.processor, "make_room", lambda: True)
            if call == "epoll":
                planted.setattr(server.selector, "_poller", NoRoom())
            else:
                planted.setattr(socket.socket, call, refuse)
            caller = socket.socket()
            socket.socket.connect(caller, ("127.0.0.1", server.port))
            server.turn()
        assert is_hung_up(caller)
        caller.close()
        assert not len(server.processor) and os.listdir("/dev/fd") == before
        server.processor._options = OPTIONS
        server.ask(server.call())
        assert len(server.requests) == 1
    finally:
        server.close()


# --- connections that come and go -------------------------------------------------------------------------------------


def test_who_sends_a_large_request_is_not_silent(server: Server) -> None:
    uploading, silent = server.call(), server.call()
    server.processor.now = 900
    uploading.sendall(PRODUCE[:20])
    server.turn()
    server.processor.close_idle(1500)
    assert is_hung_up(silent) and not is_hung_up(uploading)


def test_where_files_are_few_and_everybody_is_owed_an_answer_the_next_one_is_sent_away() -> None:
    free = [os.open(os.devnull, os.O_RDONLY) for _ in range(12)]
    for number in free:
        os.close(number)
    server = Server(OPTIONS._replace(max_file_number=free[-1], queued_max_requests=100))
    try:
        busy: list[socket.socket] = []
        while len(busy) == len(server.processor):
            assert len(busy) < 12, "some connection must be sent away"
            busy.append(socket.create_connection(("127.0.0.1", server.port), timeout=10))
            server.callers.append(busy[-1])
            server.ask(busy[-1])
        assert is_hung_up(busy.pop())
        assert len(server.processor) == len(busy) > 0
        assert not any(map(is_hung_up, busy))
    finally:
        server.close()


def test_a_full_queue_leaves_the_others_in_their_sockets_and_loses_none(server: Server) -> None:
    callers = [server.call() for _ in range(5)]
    for caller in callers:
        server.ask(caller)
    assert len(server.requests) == OPTIONS.queued_max_requests
    answered = {server.answer().connection for _ in callers}
    assert len(answered) == 5 and len(server.requests) == 0
    assert not any(map(is_hung_up, callers))


def test_what_is_refused_closes_its_own_connection_only(server: Server) -> None:
    rude, polite = server.call(), server.call()
    rude.sendall(b"\xff\xff\xff\xff")
    server.turn()
    assert is_hung_up(rude) and not is_hung_up(polite)
    server.ask(polite)
    assert len(server.requests) == 1


def test_who_was_silent_too_long_is_closed(server: Server) -> None:
    silent = server.call()
    server.processor.now = 900
    talking = server.call()
    server.processor.close_idle(1500)
    assert is_hung_up(silent) and not is_hung_up(talking)


def test_where_files_are_few_the_longest_silent_goes_and_who_waits_for_an_answer_stays() -> None:
    free = [os.open(os.devnull, os.O_RDONLY) for _ in range(30)]
    for number in free:
        os.close(number)
    server = Server(OPTIONS._replace(max_file_number=free[-1]))
    try:
        busy = server.call()
        server.ask(busy)
        callers = []
        for number in range(30):
            server.processor.now = number
            callers.append(server.call())
        assert not is_hung_up(busy)
        assert all(each.sock.fileno() < free[-1] for each in server.processor._sockets)
        hung_up = [is_hung_up(caller) for caller in callers]
        assert hung_up.index(False) == sum(hung_up) > 0, "the oldest have to go, and only they"
        assert not any(is_hung_up(caller) for caller in callers[-1:]), "who comes last is let in"
        server.answer()
        assert busy.recv(4)
    finally:
        server.close()


# --- streams ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def pair() -> Iterator[tuple[Stream, socket.socket]]:
    """A stream whose socket takes little at a time, and its other end."""
    near, far = socket.socketpair()
    near.setblocking(False)
    near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    with near, far:
        yield Stream(near, FrameReader(1 << 20)), far


def test_bytes_and_pieces_of_files_arrive_in_order_however_little_the_socket_takes(
    pair: tuple[Stream, socket.socket], tmp_path: pathlib.Path
) -> None:
    stream, far = pair
    content = os.urandom(700_000)
    (tmp_path / "log").write_bytes(content)
    file = OsFileSystem().open(str(tmp_path / "log"))
    parts = [
        b"head",
        file.region(10, 300_000),
        bytearray(b"and "),
        file.region(5, 70),
        b"",
        b"tail",
        file.region(0, 65_537),
    ]
    expected = b"head" + content[10:300_010] + b"and " + content[5:75] + b"tail" + content[:65_537]
    stream.send(parts)
    assert stream.output, "all of it fits: nothing waits, and nothing is tried here"
    found = bytearray()
    while len(found) < len(expected):
        found += far.recv(50_000)
        stream.flush()
    file.close()
    assert bytes(found) == expected and not stream.output


def test_a_piece_of_a_file_that_was_truncated_meanwhile_is_no_end_of_a_response(
    pair: tuple[Stream, socket.socket], tmp_path: pathlib.Path
) -> None:
    stream, far = pair
    (tmp_path / "log").write_bytes(bytes(300_000))
    file = OsFileSystem().open(str(tmp_path / "log"))
    stream.send([file.region(0, 300_000)])
    file.truncate(1000)
    with pytest.raises((OSError, EOFError)):
        while stream.output:
            far.recv(50_000)
            stream.flush()
    file.close()


def test_a_selector_that_waits_is_woken_from_another_thread() -> None:
    selector = Selector()
    waiting = threading.Thread(target=lambda: selector.tell(selector.wait(60)))
    waiting.start()
    selector.wakeup()
    waiting.join(10)
    assert not waiting.is_alive()
    selector.wakeup()
    selector.wakeup()
    selector.tell(selector.wait(0))
    assert not selector.wait(0), "wake-ups do not pile up"
    selector.close()


def test_where_the_system_has_no_epoll_sockets_are_read_and_written_all_the_same(
    pair: tuple[Stream, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(select, "epoll", raising=False)
    spec = importlib.util.spec_from_file_location("portable", selector_module.__file__)
    assert spec is not None and spec.loader is not None
    portable: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(portable)
    told: list[int] = []
    near, far = pair[0].sock, pair[1]
    selector = portable.Selector()
    stream = portable.WatchedStream(selector, near, FrameReader(1 << 20))
    stream.on_ready = told.append
    stream.watch_for(portable.READ | portable.RESET | portable.HANG_UP)
    assert not selector.wait(0)
    far.sendall(b"x")
    selector.wakeup()
    selector.tell(selector.wait(10))
    assert told == [portable.READ]
    stream.watch_for(portable.WRITE)
    selector.tell(selector.wait(10))
    assert told == [portable.READ, portable.WRITE]
    stream.watch_for(0)
    assert not selector.wait(0)
    selector.close()


def test_idle_connections_are_looked_for_when_the_first_may_be_too_old(server: Server) -> None:
    assert (
        server.processor.close_idle(0) == 1001
    )  # no connection is there: one that comes now is silent for too long then
    server.call()
    server.processor.now = 600
    server.call()
    assert server.processor.close_idle(600) == 1100  # the older one, but not more often than every half of the time
    assert server.processor.close_idle(1100) == 1601
    server.processor._options = OPTIONS._replace(max_idle_ms=-1)
    server.processor.close_idle(1 << 40)
    assert len(server.processor) == 1  # never


# --- as many as there may be ------------------------------------------------------------------------------------------


@pytest.fixture
def limited() -> Iterator[Callable[..., Server]]:
    servers: list[Server] = []

    def make(options: SocketOptions = OPTIONS, **limits: Any) -> Server:
        servers.append(Server(options, ConnectionLimits(**limits)))
        return servers[-1]

    yield make
    for server in servers:
        server.close()


def test_a_connection_that_is_one_too_many_waits_for_another_to_be_closed(limited: Callable[..., Server]) -> None:
    server = limited(connections=2)
    first, second = server.call(), server.call()
    third, fourth = server.dial(), server.dial()
    assert len(server.processor) == 2 and server.acceptor.is_holding and not is_hung_up(third)
    server.acceptor.go_on(0)
    assert len(server.processor) == 2
    first.close()
    server.turn()
    server.acceptor.go_on(0)
    server.turn()
    assert len(server.processor) == 2 and server.quotas.total == 2
    second.close()
    server.turn()
    server.acceptor.go_on(0)
    server.turn()
    server.ask(third)
    server.ask(fourth)
    assert len(server.requests) == 2 and not server.acceptor.is_holding


def test_the_brokers_own_listener_gets_a_connection_and_another_one_has_to_go(limited: Callable[..., Server]) -> None:
    server = limited(connections=2)
    silent = server.call()
    server.processor.now = 10
    talking = server.call()
    peer = server.dial(server.internal_port)
    assert server.quotas.has_excess and len(server.processor) == 3
    server.processor.close_excess(server.quotas)
    assert is_hung_up(silent) and not is_hung_up(talking) and not is_hung_up(peer)
    assert not server.quotas.has_excess


def test_an_address_has_its_number_of_connections_and_one_more_is_closed(limited: Callable[..., Server]) -> None:
    server = limited(per_ip=1, per_ip_overrides={"127.0.0.1": 2})
    first, second = server.call(), server.call()
    third = server.dial()
    assert is_hung_up(third) and not is_hung_up(first) and not is_hung_up(second)
    first.close()
    server.turn()
    server.ask(server.dial())
    assert len(server.requests) == 1 and server.quotas.total == 2


def test_connections_that_come_too_fast_wait(limited: Callable[..., Server]) -> None:
    server = limited(creation_rate=1)
    for _ in range(10):  # ten seconds' worth
        server.call()
    server.dial()
    assert server.acceptor.is_holding and server.acceptor.go_on(0) == 1000
    assert server.acceptor.go_on(999) == 1000 and len(server.processor) == 10
    server.acceptor.go_on(1000)
    assert len(server.processor) == 11


def test_an_address_above_its_rate_is_not_served_and_closed_a_second_later_and_others_come_in_meanwhile(
    server: Server,
) -> None:
    server.quotas.set_rates_of_addresses({"127.0.0.1": 1})
    for _ in range(10):  # ten seconds' worth
        server.call()
    refused = server.dial()
    server.ask(refused)
    assert len(server.processor) == 10
    assert not server.requests
    assert not is_hung_up(refused)
    assert server.acceptor.go_on(999) == 1000
    other = socket.create_connection(("127.0.0.1", server.port), timeout=10, source_address=("127.0.0.2", 0))
    server.callers.append(other)
    wait_until(lambda: server.turn(1) or len(server.processor) == 11, "an address without a quota is served")
    server.now = 1000
    server.acceptor.go_on(1000)
    assert is_hung_up(refused)
    assert not server.acceptor.is_holding
    assert server.quotas.total == 11, "what was not served is not counted"


def test_no_more_sockets_are_kept_than_the_server_has_files_for(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket_server, "_MOST_THROTTLED", 3)
    server.quotas.set_rates_of_addresses({None: 0})
    refused = [server.dial() for _ in range(5)]
    wait_until(lambda: server.turn(1) or len(server.acceptor._throttled) == 3, "all were accepted")
    assert [is_hung_up(each) for each in refused] == [True, True, False, False, False]
    server.acceptor.close()
    assert all(is_hung_up(each) for each in refused)


def test_a_socket_that_cannot_be_served_gives_its_place_back(limited: Callable[..., Server]) -> None:
    server = limited(OPTIONS._replace(max_file_number=0), connections=2)
    assert is_hung_up(server.dial()) and server.quotas.total == 0


def test_buffers_have_the_size_that_was_asked_for(limited: Callable[..., Server]) -> None:
    """The kernel doubles it, for its own bookkeeping."""
    server = limited(OPTIONS._replace(send_buffer_bytes=20_000, receive_buffer_bytes=30_000))
    server.call()
    (stream,) = server.processor._sockets
    sizes = [stream.sock.getsockopt(socket.SOL_SOCKET, name) for name in (socket.SO_SNDBUF, socket.SO_RCVBUF)]
    assert sizes in ([40_000, 60_000], [20_000, 30_000])


@pytest.mark.skipif(sys.platform != "linux", reason="other systems count the backlog in their own way")
def test_no_more_connections_wait_to_be_accepted_than_the_backlog_has_room_for(limited: Callable[..., Server]) -> None:
    server = limited(OPTIONS._replace(backlog=2))
    callers = [socket.socket() for _ in range(6)]
    try:
        for caller in callers:
            caller.setblocking(False)
            caller.connect_ex(("127.0.0.1", server.port))
        _, made, _ = select.select([], callers, [], 0.1)
        assert len(select.select([], callers, [], 0.1)[1]) == len(made) == 3  # Linux takes one more than is said
    finally:
        for caller in callers:
            caller.close()
