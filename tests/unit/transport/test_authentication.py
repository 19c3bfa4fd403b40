"""The server's side of a login: what each request does in each state, limits of memory and time, and lies."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from pykraft.common.errors import ErrorCode
from pykraft.common.metrics import Metrics
from pykraft.common.timer import Timer
from pykraft.protocol.api import ListenerKind
from pykraft.protocol.header import decode_response, encode_request
from pykraft.protocol.messages.admin import DeleteTopicsRequest
from pykraft.protocol.messages.cluster import ApiVersionsRequest, ApiVersionsResponse, MetadataRequest
from pykraft.protocol.messages.data import ProduceRequest
from pykraft.protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from pykraft.protocol.schema import Request
from pykraft.protocol.security_protocol import SecurityProtocol
from pykraft.security.mechanism import PLAIN, SaslServer
from pykraft.security.plain import PlainServer
from pykraft.security.scram import ScramClient, ScramMechanism, ScramServer, compute, new_credential, unknown_user
from pykraft.transport.authentication import Authentication, AuthenticationState, SaslServerChannel
from pykraft.transport.pace import Pace
from pykraft.transport.request_metrics import RequestMetrics
from pykraft.transport.server_channel import InboundRequest
from pykraft.transport.server_connection import Answer, RequestChannel, ServerConnection
from tests.unit.transport.test_server_connection import Pipe

DELAY_MS, MAX_MS, MAX_BYTES = 100, 60_000, 2000
SHA_256 = ScramMechanism.SCRAM_SHA_256
CREDENTIAL = new_credential(SHA_256, b"secret", 4096, Random(1))
GOOD, BAD = b"\0alice\0secret", b"\0alice\0wrong"
VERSIONS = ApiVersionsRequest(client_software_name="test", client_software_version="1")
METADATA = MetadataRequest(topics=[])


def begin(mechanism: str) -> SaslServer:
    if mechanism == PLAIN:
        return PlainServer({"alice": "secret"})

    def credential(user: str) -> Any:
        is_known = user == "alice"
        return (CREDENTIAL if is_known else unknown_user(SHA_256, user, b"s", 4096)), is_known

    return ScramServer(SHA_256, credential, Random(5))


HOW = Authentication((PLAIN, "SCRAM-SHA-256"), begin, MAX_BYTES, DELAY_MS, MAX_MS)


class Login:
    """One connection to a listener with SASL, and a node that says who asks it."""

    def __init__(self, channel: Callable[..., SaslServerChannel] = SaslServerChannel) -> None:
        self.now = 0
        self.timer = Timer()
        pace = Pace(self.timer, lambda: self.now)
        self.requests = RequestChannel(10, pace, RequestMetrics(Metrics(), lambda: self.now * 1_000_000))
        kind, by = ListenerKind.BROKER, SecurityProtocol.SASL_PLAINTEXT
        self.channel = channel("c", "CLIENTS", kind, "127.0.0.1", 1 << 20, by, HOW)
        self.pipe = Pipe(self.channel.frames)
        self.connection = ServerConnection(self.channel, self.pipe, self.requests)
        self.served: list[tuple[str, str]] = []
        """The requests that have reached the node, and whose they were."""
        self._read = 0

    def handle(self, inbound: InboundRequest, now: int) -> Answer:
        self.served.append((type(inbound.message).__name__, inbound.context.principal))
        if isinstance(inbound.message, ApiVersionsRequest):
            return Answer(ApiVersionsResponse(api_keys=[]))
        return Answer(None)

    def bring(self, data: bytes) -> bytes:
        """Bytes come; what is answered."""
        self.pipe.bring(data)
        self.connection.go_on()
        while (queued := self.requests.receive()) is not None:
            queued.connection.serve(queued, self, self.now)
        return self.answered()

    def answered(self) -> bytes:
        found = self.pipe.sent[self._read :]
        self._read = len(self.pipe.sent)
        return found

    def say(self, request: Request, version: int | None = None) -> Any:
        """A request comes; the response, or None."""
        number = request.versions[1] if version is None else version
        frame = self.bring(b"".join(encode_request(request, number, 7, "test")))
        return decode(request, number, frame)

    def pass_time(self, milliseconds: int) -> bytes:
        self.now += milliseconds
        self.timer.expire(self.now)
        return self.answered()

    def shake(self, mechanism: str = PLAIN, version: int = 1) -> Any:
        return self.say(SaslHandshakeRequest(mechanism=mechanism), version)

    @property
    def is_open(self) -> bool:
        return self.connection.is_open


def decode(request: Request, version: int, frame: bytes) -> Any:
    if not frame:
        return None
    correlation_id, response = decode_response(request.response, version, memoryview(frame)[4:])
    assert correlation_id == 7
    return response


def token(data: bytes = GOOD) -> SaslAuthenticateRequest:
    return SaslAuthenticateRequest(auth_bytes=data)


# --- the table --------------------------------------------------------------------------------------------------------

INITIAL, SENT, AUTHENTICATING, COMPLETE = "initial", "versions sent", "authenticating", "complete"
SERVED, FAILS, GOES_ON = "served", "fails", "goes on"
ILLEGAL = int(ErrorCode.ILLEGAL_SASL_STATE)


def in_state(state: str) -> Login:
    login = Login()
    if state == SENT:
        login.say(VERSIONS)
    if state in (AUTHENTICATING, COMPLETE):
        login.shake()
    if state == COMPLETE:
        assert login.say(token()).error_code == 0
    assert login.channel.authentication_state.value == state
    login.served.clear()
    return login


TABLE: list[tuple[str, Request, str | int]] = [
    (INITIAL, VERSIONS, SERVED),
    (INITIAL, SaslHandshakeRequest(mechanism=PLAIN), GOES_ON),
    (INITIAL, token(), FAILS),
    (INITIAL, METADATA, FAILS),
    (SENT, VERSIONS, FAILS),
    (SENT, SaslHandshakeRequest(mechanism=PLAIN), GOES_ON),
    (SENT, token(), FAILS),
    (SENT, METADATA, FAILS),
    (AUTHENTICATING, VERSIONS, ILLEGAL),
    (AUTHENTICATING, SaslHandshakeRequest(mechanism=PLAIN), ILLEGAL),
    (AUTHENTICATING, token(), GOES_ON),
    (AUTHENTICATING, METADATA.replace(topics=[MetadataRequest.Topic(name="t")]), FAILS),
    (AUTHENTICATING, DeleteTopicsRequest(topics=[], timeout_ms=1), FAILS),
    (AUTHENTICATING, ProduceRequest(acks=0, timeout_ms=1, topic_data=[]), FAILS),
    (COMPLETE, VERSIONS, SERVED),
    (COMPLETE, SaslHandshakeRequest(mechanism=PLAIN), SERVED),
    (COMPLETE, token(), SERVED),
    (COMPLETE, METADATA, SERVED),
]
"""A number is the error in the answer that comes before the end. A request without an error of its own, such as
Metadata, has it for each of its topics."""


@pytest.mark.parametrize(
    ("state", "request_", "outcome"), TABLE, ids=[f"{row[0]}: {type(row[1]).__name__}" for row in TABLE]
)
def test_each_request_does_in_each_state_what_the_table_says(state: str, request_: Request, outcome: str | int) -> None:
    login = in_state(state)
    answer = login.say(request_)
    if outcome == SERVED:
        who = "User:alice" if state == COMPLETE else "User:ANONYMOUS"
        assert login.served == [(type(request_).__name__, who)]
        return
    assert not login.served, "the node has not seen it"
    if outcome == GOES_ON:
        assert answer.error_code == 0
        assert login.is_open
        return
    assert answer is None
    assert login.is_open, "until the delay is over"
    late = decode(request_, request_.versions[1], login.pass_time(DELAY_MS))
    assert not login.is_open
    if isinstance(outcome, int):
        assert late.error_code == outcome


def test_every_state_has_a_row_for_each_kind_of_request() -> None:
    kinds = {"ApiVersionsRequest", "SaslHandshakeRequest", "SaslAuthenticateRequest", "MetadataRequest"}
    states = {state.value for state in AuthenticationState} - {AuthenticationState.FAILED.value}
    shown = {(state, type(request).__name__) for state, request, _ in TABLE}
    assert {(state, kind) for state in states for kind in kinds} <= shown


# --- the exchanges ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(3))
def test_a_password_is_right_or_wrong_in_each_version(version: int) -> None:
    right, wrong = Login(), Login()
    assert right.shake().mechanisms == [PLAIN, "SCRAM-SHA-256"]
    answer = right.say(token(), version)
    assert (answer.error_code, answer.auth_bytes, answer.session_lifetime_ms) == (0, b"", 0)
    wrong.shake()
    assert wrong.say(token(BAD), version) is None
    assert not wrong.pass_time(DELAY_MS - 1) and wrong.is_open
    late = decode(token(), version, wrong.pass_time(1))
    assert late.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert late.error_message == "Authentication failed: Invalid username or password"
    assert not wrong.is_open


def test_after_the_old_handshake_tokens_come_as_they_are() -> None:
    right, wrong = Login(), Login()
    right.shake(version=0)
    assert right.bring(size(GOOD)) == bytes(4)
    assert right.channel.principal == "User:alice"
    wrong.shake(version=0)
    assert wrong.bring(size(BAD)) == b""
    assert wrong.pass_time(DELAY_MS) == b""
    assert not wrong.is_open


def size(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


@pytest.mark.parametrize("version", [0, 1])
def test_scram_takes_two_tokens(version: int) -> None:
    for password, is_right in (("secret", True), ("wrong", False)):
        login, client = Login(), ScramClient(SHA_256, "alice", password, Random(3))
        login.shake("SCRAM-SHA-256", version)

        def send(data: bytes, login: Login = login) -> bytes:
            if version == 0:
                return login.bring(size(data))[4:]
            answer = login.say(token(data))
            return b"" if answer is None else bytes(answer.auth_bytes)

        work: Any = client.evaluate(send(client.first()))
        answer = send(client.go_on(compute(work)))
        assert answer.startswith(b"v=") is is_right
        late = login.pass_time(DELAY_MS)
        assert login.is_open is login.channel.is_authenticated is is_right
        assert (b"due to invalid credentials with SASL mechanism SCRAM-SHA-256" in late) is (
            not is_right and version == 1
        )


def test_a_mechanism_that_is_not_enabled_is_answered_with_those_that_are() -> None:
    for version in (0, 1):
        login = Login()
        assert login.shake("GSSAPI", version) is None
        late = decode(SaslHandshakeRequest(mechanism=""), version, login.pass_time(DELAY_MS))
        assert late.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert late.mechanisms == [PLAIN, "SCRAM-SHA-256"]
        assert not login.is_open


def test_versions_that_are_not_known_may_be_asked_again() -> None:
    login = Login()
    frame = b"".join(encode_request(VERSIONS, 4, 7, "test"))
    unknown = frame[:6] + (99).to_bytes(2, "big") + frame[8:]
    answer = login.bring(unknown)
    assert int.from_bytes(answer[8:10], "big") == ErrorCode.UNSUPPORTED_VERSION
    assert not login.served
    login.say(VERSIONS, 0)
    assert login.served == [("ApiVersionsRequest", "User:ANONYMOUS")]


def test_what_comes_together_is_taken_in_order_and_nothing_before_the_proof() -> None:
    for password, served in ((GOOD, [("MetadataRequest", "User:alice")]), (BAD, [])):
        login = Login()
        requests = SaslHandshakeRequest(mechanism=PLAIN), token(password), METADATA
        parts = [part for each in requests for part in encode_request(each, each.versions[1], 7, "test")]
        login.bring(b"".join(parts))
        login.pass_time(DELAY_MS)
        assert login.served == served
        assert login.is_open is bool(served)


# --- limits -----------------------------------------------------------------------------------------------------------


def test_a_stranger_may_send_few_bytes_at_once_and_a_client_that_is_known_many() -> None:
    login = Login()
    login.bring((MAX_BYTES + 1).to_bytes(4, "big") + b"x")
    login.pass_time(DELAY_MS)
    assert not login.is_open
    login = in_state(COMPLETE)
    many = METADATA.replace(topics=[MetadataRequest.Topic(name="t" * 200) for _ in range(30)])
    login.say(many)
    assert login.served == [("MetadataRequest", "User:alice")]


def test_a_stranger_has_a_limited_time_however_slowly_it_goes_on() -> None:
    slow, quick, gone = Login(), in_state(COMPLETE), Login()
    slow.shake()
    slow.pass_time(MAX_MS - 1)
    slow.bring(size(b"\0")[:4])
    assert slow.is_open
    slow.pass_time(1)
    quick.pass_time(MAX_MS)
    assert (slow.is_open, quick.is_open) == (False, True)
    gone.connection.close()
    assert not len(gone.timer), "a connection that is closed leaves nothing behind"


def test_a_login_that_has_failed_reads_nothing_more() -> None:
    login = Login()
    login.shake()
    login.say(token(BAD))
    for _ in range(3):
        login.bring(b"".join(encode_request(token(), 2, 7, "test")))
    assert not login.served and not login.channel.is_authenticated
    login.pass_time(DELAY_MS)
    assert not login.is_open


@pytest.mark.parametrize(("said", "counted"), [(GOOD, [True]), (BAD, [False])])
def test_a_login_is_counted_as_it_ends(said: bytes, counted: list[bool]) -> None:
    login, seen = Login(), []
    login.channel.count_login = seen.append
    login.shake()
    login.say(token(said))
    assert seen == counted


HOSTILE = [
    b"\x00" * 8,
    b"\xff" * 100,
    size(b""),
    size(b"x"),
    size(b"\x00\x11"),
    size(b"\x00\x12\x00\x03" + b"\xff" * 9),
]


@pytest.mark.parametrize("data", HOSTILE)
def test_what_is_no_request_ends_the_connection_and_nothing_else(data: bytes) -> None:
    login = Login()
    login.bring(data)
    login.pass_time(DELAY_MS)
    assert not login.served
    assert not login.is_open


def fuzzed(dice: Random) -> bytes:
    """A login with a wrong password, some of it changed: bytes, sizes, order, repetitions."""
    client = ScramClient(SHA_256, dice.choice(["alice", "nobody", "a,="]), "wrong", dice)
    requests: list[tuple[Request, int]] = [
        (VERSIONS, dice.randint(0, 4)),
        (SaslHandshakeRequest(mechanism=dice.choice([PLAIN, "SCRAM-SHA-256", "", "GSSAPI"])), dice.randint(0, 1)),
        (token(dice.choice([BAD, client.first(), b"", dice.randbytes(20)])), dice.randint(0, 2)),
        (token(dice.choice([b"c=biws,r=x,p=AAAA", b"v=", b"\0" * 50])), 2),
        (METADATA, 12),
    ]
    if dice.random() < 0.3:
        dice.shuffle(requests)
    data = bytearray()
    for request, version in requests:
        frame = bytearray(b"".join(encode_request(request, version, 7, "test")))
        if dice.random() < 0.3:
            frame[dice.randrange(len(frame))] = dice.randrange(256)
        if dice.random() < 0.1:
            del frame[dice.randrange(len(frame)) :]
        data += frame * (1 + (dice.random() < 0.1))
    return bytes(data)


def strangers(count: int, channel: Callable[..., SaslServerChannel] = SaslServerChannel) -> set[str]:
    """What the node was asked by this many strangers. An error that nothing expected is raised: nothing takes it."""
    dice = Random(2026)
    served = set()
    for number in range(count):
        login, data = Login(channel), fuzzed(dice)
        position = 0
        while position < len(data) and login.is_open:
            step = dice.choice([1, 3, 50, len(data)])
            login.bring(data[position : position + step])
            position += step
        login.pass_time(DELAY_MS)
        served |= {name for name, _ in login.served}
        assert not login.channel.is_authenticated, f"exchange {number}"
    return served


@pytest.mark.parametrize("count", [300, pytest.param(100_000, marks=pytest.mark.long)])
def test_no_stranger_gets_in_or_raises_anything_by_whatever_it_sends(count: int) -> None:
    assert strangers(count) == {"ApiVersionsRequest"}


# --- planted ----------------------------------------------------------------------------------------------------------


class LetsRequestsThrough(SaslServerChannel):
    """Hands what is no part of a login to the node, as on a listener without SASL."""

    def _before_tokens(self, frame: memoryview, recorder: Any) -> Any:
        if int.from_bytes(frame[:2], "big") == MetadataRequest.api:
            context, message = self._read(frame)
            self._in_hand = context
            assert isinstance(message, Request)
            return InboundRequest(context, message)
        return super()._before_tokens(frame, recorder)


def test_a_channel_that_lets_requests_through_before_the_proof_is_found() -> None:
    login = Login(LetsRequestsThrough)
    login.say(METADATA)
    assert login.served == [("MetadataRequest", "User:ANONYMOUS")], "so the table's rows for Metadata would fail"
    assert "MetadataRequest" in strangers(300, LetsRequestsThrough)
