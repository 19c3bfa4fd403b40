"""Strangers: hosts that connect to brokers, and cannot prove who they are or do not mean to.

Some are clients like any other, with a certificate or a password that is wrong (`Asker`). They must never be answered,
and must hear why, by name. Others keep to no protocol (`Stranger`), and never get further than the
beginning of a handshake or a login::

    silent       connects, and says nothing
    plain        sends a request to a listener that expects TLS or a login
    trickles     sends its handshake a byte at a time
    leaves       closes the connection in the middle of its handshake
    early        asks for metadata before it has logged in
    half         begins a login, and does not go on
    dawdles      begins it a byte at a time

What such a stranger gets back is at most what a handshake has, and one answer to ApiVersions or to SaslHandshake.
"""

from contextlib import suppress
from random import Random
from typing import Any

from pykraft.common.core import Outbound, Poll
from pykraft.common.types import Endpoint, Node
from pykraft.protocol.header import encode_request
from pykraft.protocol.messages.cluster import ApiVersionsRequest, MetadataRequest
from pykraft.protocol.messages.sasl import SaslHandshakeRequest
from pykraft.protocol.schema import Request, Response
from pykraft.sim.laws.invariants import require
from pykraft.sim.world.network import End, Network
from pykraft.sim.world.scheduler import US_PER_MS, Scheduler
from pykraft.sim.world.tls import StandInEngine, TlsSide
from pykraft.transport.frames import FrameReader
from pykraft.transport.tls_session import TlsError, TlsSession

_TRICKLE_US = 40 * US_PER_MS
_DAWDLE_US = 200 * US_PER_MS
_PATIENCE_MS = 1_000
_ALERT = 21
_ANSWERED = ("early", "half", "dawdles")
"""What begins with a request that any stranger is answered."""
_METADATA = MetadataRequest(topics=None)
_VERSIONS = ApiVersionsRequest(client_software_name="stranger", client_software_version="1")


class Asker:
    """Asks one broker after the other for metadata; a client's core. It is a RequestManager."""

    def __init__(self, brokers: list[Node], every_ms: int) -> None:
        self._brokers = brokers
        self._every_ms = every_ms
        self._next = 1

    def poll(self, now: int) -> Poll:
        if now < self._next:
            return Poll(self._next)
        self._next = now + self._every_ms
        self._brokers = [*self._brokers[1:], self._brokers[0]]
        return Poll(self._next, [Outbound("stranger", self._brokers[0], _METADATA, self._on_answer, _PATIENCE_MS)])

    def _on_answer(self, result: object, now: int) -> None:
        require(not isinstance(result, Response), f"a client that has not proved who it is was answered with {result}")


class Stranger:
    """A host that keeps to no protocol."""

    is_up = True
    stalled_until_us = 0

    def __init__(
        self,
        name: str,
        kinds: list[str],
        addresses: list[Endpoint],
        mechanism: str,
        side: TlsSide | None,
        scheduler: Scheduler,
        network: Network,
        random: Random,
    ) -> None:
        """`side` is what it shows and believes, where there is TLS. Each time it is one of the `kinds`."""
        self.name = name
        self.mechanism = mechanism
        self.side = side
        self.scheduler = scheduler
        self.network = network
        self.random = random
        self._kinds = kinds
        self._addresses = addresses
        self.visits = 0
        """How often it has come."""

    def come(self, every_ms: int) -> None:
        """Connect now, and again and again."""
        _Visit(self, self.random.choice(self._kinds), self.random.choice(self._addresses))
        self.visits += 1
        pause_ms = self.random.expovariate(1 / every_ms)
        self.scheduler.after(round(pause_ms * US_PER_MS) + 1, lambda: self.come(every_ms))

    def accept(self, endpoint: Endpoint, end: End) -> Any:
        raise AssertionError(f"{self.name} does not listen")


class _Visit:
    """One connection of a stranger: the receiver of what comes."""

    def __init__(self, stranger: Stranger, kind: str, address: Endpoint) -> None:
        self._stranger = stranger
        self._random = stranger.random
        self._kind = kind
        self._frames, self._answers = FrameReader(1 << 20), 0
        self._session: TlsSession | None = None
        if stranger.side is not None and kind != "plain":
            engine = StandInEngine(stranger.side, False, stranger.random, address.host)
            self._session = TlsSession(engine, self._frames)
        self._end = stranger.network.connect(stranger, address, self)

    # --- what comes ---------------------------------------------------------------------------------------------------

    def connected(self) -> None:
        if self._kind == "silent":
            return
        if self._kind == "plain":
            self._send(b"".join(encode_request(_METADATA, 12, 1, self._stranger.name)))
        elif self._session is None:
            self._begin()
        else:
            self._session.shake_hands()
            hello = self._session.engine.take()
            if self._kind == "trickles":
                self._trickle(hello)
            elif self._kind == "leaves" and self._random.random() < 0.5:
                self._leave_within(hello)
            else:
                self._send(hello)

    def received(self, data: bytes) -> None:
        session = self._session
        if self._kind == "plain" and self._stranger.side is not None:
            require(data[0] == _ALERT, f"bytes that are no TLS were answered with {data[:20]!r}")
            return
        if session is None:
            self._frames.feed(data)
        else:
            was_established = session.is_established
            with suppress(TlsError):
                session.received(data)
            if self._kind == "leaves":
                self._leave_within(session.engine.take())
                return
            self._send(session.engine.take())
            if session.is_established and not was_established:
                self._begin()
        while (frame := self._frames.next_frame()) is not None:
            self._answers += 1
            require(
                self._answers == 1 and self._kind in _ANSWERED,
                f"a stranger ({self._kind}) was answered with {bytes(frame[:40])!r}",
            )

    def closed(self) -> None:
        """Let it be."""

    # --- what it does -------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """The connection is made: what is no login follows, or half of one."""
        if self._kind == "early":
            self._ask(_VERSIONS, 3)
            self._ask(_METADATA, 12)
        elif self._kind in ("half", "dawdles"):
            self._ask(SaslHandshakeRequest(mechanism=self._stranger.mechanism), 1)

    def _ask(self, request: Request, version: int) -> None:
        data = b"".join(encode_request(request, version, 1, self._stranger.name))
        if self._kind == "dawdles":
            self._dawdle(data)
        else:
            self._send(self._sealed(data))

    def _sealed(self, data: bytes) -> bytes:
        if self._session is None:
            return data
        self._session.engine.seal(memoryview(data))
        return self._session.engine.take()

    def _send(self, data: bytes) -> None:
        with suppress(OSError):
            self._end.send([data])

    def _leave_within(self, data: bytes) -> None:
        self._send(data[: self._random.randrange(len(data) + 1)])
        self._end.close()

    def _dawdle(self, rest: bytes) -> None:
        if rest and self._end.is_open:
            self._send(self._sealed(rest[:1]))
            self._stranger.scheduler.after(_DAWDLE_US, lambda: self._dawdle(rest[1:]))

    def _trickle(self, rest: bytes) -> None:
        if rest and self._end.is_open:
            self._send(rest[:1])
            self._stranger.scheduler.after(_TRICKLE_US, lambda: self._trickle(rest[1:]))


def kinds_of(has_tls: bool, has_sasl: bool) -> list[str]:
    """What a stranger may be at such a listener."""
    found = ["silent", "plain"] if has_tls or has_sasl else []
    return found + ["trickles", "leaves"] * has_tls + ["early", "half", "dawdles"] * has_sasl
