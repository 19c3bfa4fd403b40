"""Exchanges that go wrong, byte by byte, on a listener with SASL; and what Apache Kafka answers to each of them.

`ANSWERS` was written down from Apache Kafka (tests/judges/test_sasl.py asks it again).
"""

from __future__ import annotations

import contextlib
import pathlib
import time
from collections.abc import Callable
from random import Random
from typing import Any

from pykraft.common.errors import ErrorCode
from pykraft.protocol.header import SIZE
from pykraft.protocol.messages.admin import CreateTopicsRequest
from pykraft.protocol.messages.cluster import (
    ApiVersionsRequest,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
)
from pykraft.protocol.messages.data import FetchRequest
from pykraft.protocol.messages.groups import HeartbeatRequest
from pykraft.protocol.messages.sasl import (
    AlterUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequest,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
)
from pykraft.protocol.schema import Request
from pykraft.security.mechanism import Salting
from pykraft.security.scram import ScramClient, ScramMechanism, compute
from tests.harness.connection import Closed, Connection
from tests.harness.sasl_nodes import ALICE, SECRET

VERSIONS = ApiVersionsRequest(client_software_name="n", client_software_version="1")
GOOD, BAD = f"\0{ALICE}\0{SECRET}".encode(), f"\0{ALICE}\0wrong".encode()
_NEWEST_OF_THE_JUDGE = {ApiVersionsRequest.api: 4, FetchRequest.api: 18}
"""Apache Kafka 4.2 answers no newer ones."""
Exchange = Callable[[Connection, list[str]], Any]


def tell(said: list[str], connection: Connection, request: Request, version: int | None = None) -> Any:
    """Ask, and note what is answered, or that the connection is closed; the answer."""
    name = type(request).__name__.removesuffix("Request")
    newest = min(request.versions[1], _NEWEST_OF_THE_JUDGE.get(request.api, request.versions[1]))
    try:
        answer = connection.ask(request, newest if version is None else version)
    except Closed:
        said.append(f"{name}: closed")
        raise
    said.append(f"{name}: {shown(answer)}")
    return answer


def shown(answer: Any) -> str:
    """What matters of an answer."""
    parts = [ErrorCode.of(getattr(answer, "error_code", 0)).name]
    for name in ("error_message", "mechanisms", "session_lifetime_ms"):
        value = getattr(answer, name, None)
        if isinstance(answer, FindCoordinatorResponse) and name == "error_message":
            continue  # Kafka's is that of the error, ours says which request came
        if value is not None:
            parts.append(f"{name}={sorted(value) if name == 'mechanisms' else value}")
    for name in ("topics", "results", "responses"):
        for each in getattr(answer, name, None) or ():
            who = getattr(each, "name", None) or getattr(each, "user", None) or ""
            message = getattr(each, "error_message", None)
            parts.append(f"{who} {ErrorCode.of(each.error_code).name}" + (f" {message}" if message else ""))
    return "; ".join(parts)


def token(data: bytes = GOOD) -> SaslAuthenticateRequest:
    return SaslAuthenticateRequest(auth_bytes=data)


def shake(mechanism: str = "PLAIN") -> SaslHandshakeRequest:
    return SaslHandshakeRequest(mechanism=mechanism)


def in_order(*steps: Any) -> Exchange:
    """Requests, each with its version if that is not the last one."""

    def run(connection: Connection, said: list[str]) -> None:
        for step in steps:
            request, version = step if isinstance(step, tuple) else (step, None)
            tell(said, connection, request, version)

    return run


def scram(user: str, password: str, change: Callable[[bytes], bytes] = bytes, header: bytes = b"n,,") -> Exchange:
    """A login by SCRAM; `change` spoils its last message."""

    def run(connection: Connection, said: list[str]) -> None:
        tell(said, connection, shake("SCRAM-SHA-256"))
        client = ScramClient(ScramMechanism.SCRAM_SHA_256, user, password, Random(1))
        first = header + client.first().removeprefix(b"n,,")
        work = client.evaluate(bytes(connection.ask(token(first), 2).auth_bytes))
        assert isinstance(work, Salting)
        tell(said, connection, token(change(client.go_on(compute(work)))))

    return run


def raw(*tokens: bytes) -> Exchange:
    """Tokens without requests around them, after the first handshake's version."""

    def run(connection: Connection, said: list[str]) -> None:
        tell(said, connection, shake(), 0)
        for data in tokens:
            connection.send_bytes(SIZE.pack(len(data)) + data)
            said.append(f"{bytes(connection.receive_frame())!r}")

    return run


def unknown_version(connection: Connection, said: list[str]) -> None:
    frame = bytearray(Connection.frame(VERSIONS, 4))
    frame[6:8] = (77).to_bytes(2, "big")
    connection.send_bytes(bytes(frame))
    said.append(f"version 77: {ErrorCode.of(int.from_bytes(connection.receive_frame()[4:6], 'big')).name}")
    tell(said, connection, VERSIONS, 0)


def of_bytes(data: bytes) -> Exchange:
    def run(connection: Connection, said: list[str]) -> None:
        connection.send_bytes(data)
        connection.receive_frame()

    return run


_Describe, _Alter = DescribeUserScramCredentialsRequest, AlterUserScramCredentialsRequest


def put(name: str, mechanism: int = 1, iterations: int = 4096) -> Any:
    return _Alter.Upsertion(
        name=name, mechanism=mechanism, iterations=iterations, salt=b"salt", salted_password=b"salted"
    )


def alter(*upsertions: Any, drop: tuple[tuple[str, int], ...] = ()) -> AlterUserScramCredentialsRequest:
    deletions = [_Alter.Deletion(name=name, mechanism=mechanism) for name, mechanism in drop]
    return _Alter(deletions=deletions, upsertions=list(upsertions))


def credentials(connection: Connection, said: list[str]) -> None:
    """Each refusal, one user a request: several are answered in any order."""
    connection.ask(shake(), 1)
    connection.ask(token(), 2)
    for request in (
        alter(put("z", iterations=4095)),
        alter(put("z", iterations=16_385)),
        alter(put("z", 0)),
        alter(put("z", 3)),
        alter(put("")),
        alter(put("z"), put("z", 2)),
        alter(drop=(("z", 1),)),
        alter(drop=(("", 1),)),
        alter(drop=(("z", 9),)),
        alter(put("z"), drop=(("z", 1),)),
        alter(put("z", iterations=16_384)),
        alter(drop=(("z", 1),)),
    ):
        tell(said, connection, request)
    for users in (["nobody"], [ALICE, ALICE], [""]):
        tell(said, connection, _Describe(users=[_Describe.UserName(name=user) for user in users]))


SEQUENCES: dict[str, Exchange] = {
    "a request at once": in_order(MetadataRequest(topics=[])),
    "a token at once": in_order(token()),
    "versions twice": in_order(VERSIONS, VERSIONS),
    "a request after versions": in_order(VERSIONS, MetadataRequest(topics=[])),
    "a token after versions": in_order(VERSIONS, token()),
    "a version that is unknown": unknown_version,
    "a handshake twice": in_order(shake(), shake()),
    "versions after the handshake": in_order(shake(), VERSIONS),
    "a lookup after the handshake": in_order(shake(), (FindCoordinatorRequest(key="g"), 3)),
    "metadata after the handshake": in_order(shake(), (MetadataRequest(topics=[MetadataRequest.Topic(name="t")]), 9)),
    "a heartbeat after the handshake": in_order(
        shake(), (HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4)
    ),
    "a fetch after the handshake": in_order(shake(), FetchRequest(max_wait_ms=0, min_bytes=0, topics=[])),
    "a new topic after the handshake": in_order(
        shake(),
        CreateTopicsRequest(topics=[CreateTopicsRequest.Topic(name="t", assignments=[], configs=[])], timeout_ms=1),
    ),
    "a mechanism that is not enabled": in_order(shake("GSSAPI")),
    "one that there is not": in_order(shake("")),
    "one in small letters": in_order((shake("plain"), 0)),
    "a wrong password, version 0": in_order(shake(), (token(BAD), 0)),
    "a wrong password": in_order(VERSIONS, shake(), token(BAD)),
    "an unknown user": in_order(shake(), token(b"\0nobody\0secret")),
    "no user": in_order(shake(), token(b"\0\0secret")),
    "no password": in_order(shake(), token(b"\0alice\0")),
    "two parts": in_order(shake(), token(b"alice\0secret")),
    "no part": in_order(shake(), token(b"")),
    "another's name": in_order(shake(), token(b"bob" + GOOD)),
    "the right password": in_order(shake(), token()),
    "sasl after the login": in_order(shake(), token(), shake(), token(), (shake(), 0)),
    "tokens alone": raw(GOOD),
    "a wrong token alone": raw(BAD),
    "a proof of another password": scram(ALICE, "wrong"),
    "a replayed nonce": scram(ALICE, SECRET, lambda final: final.replace(b",r=", b",r=x")),
    "the right proof": scram(ALICE, SECRET),
    "no proof": scram(ALICE, SECRET, lambda final: final.partition(b",p=")[0]),
    "SCRAM of another form": in_order(shake("SCRAM-SHA-256"), token(b"n,,n=alice")),
    "SCRAM with a token": in_order(shake("SCRAM-SHA-256"), token(b"n,,n=alice,r=x,tokenauth=true")),
    "SCRAM by PLAIN": in_order(shake("SCRAM-SHA-512"), token()),
    "too many bytes": of_bytes(SIZE.pack(600_000) + bytes(10)),
    "negative bytes": of_bytes(SIZE.pack(-1)),
    "bytes of no request": of_bytes(SIZE.pack(8) + b"\x60abcdefg"),
    "an API that there is not": of_bytes(SIZE.pack(10) + (999).to_bytes(2, "big") + bytes(8)),
    "credentials": credentials,
}


def outcome(address: str, exchange: Exchange) -> str:
    """What a server answers, and whether the connection is open afterwards."""
    said: list[str] = []
    with Connection(address) as connection:
        try:
            exchange(connection, said)
        except Closed:
            if not said or not said[-1].endswith("closed"):
                said.append("closed")
        else:
            said.append("open" if is_open(connection) else "then closed")
    return "\n".join(f"  {line}" for line in said)


def is_open(connection: Connection) -> bool:
    """Whether the server has not hung up a moment later."""
    connection.sock.settimeout(0.3)
    with contextlib.suppress(TimeoutError):
        return bool(connection.sock.recv(1))
    return True


def answers(address: str) -> str:
    """What a server answers to all of them."""
    return "".join(f"{name}\n{outcome(address, exchange)}\n" for name, exchange in SEQUENCES.items())


def delay_ms(address: str, exchange: Exchange) -> float:
    """How long a server takes until it has closed the connection."""
    began = time.monotonic()
    outcome(address, exchange)
    return 1000 * (time.monotonic() - began)


ANSWERS = (pathlib.Path(__file__).parent / "sasl_answers.txt").read_text()
