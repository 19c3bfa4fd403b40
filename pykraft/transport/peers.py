"""All requests that a node, or a client, has under way, without the sockets they travel on.

For each peer and channel there is one connection, opened when there is something to send. It is greeted (ApiVersions),
then requests go out in order and are answered in order. What can go wrong has two names for the sender:

* DISCONNECTED: the connection broke, or could not be made. Everything that was under way on it fails. The next attempt
  waits a while, longer each time. A request may wait for that, or fail at once (`Outbound.waits_for_connection`).
* TIMED_OUT: no answer came in time. The connection is given up with it, since it is not known which answer would come
  next; the receiver may still carry out what it was sent.

Where a login is needed (`login_of`), it comes first. If it fails, the connection is closed, `refused_logins` says why,
and the next attempt waits like any other.

A response may tell its client that it is throttled (KIP-219). A client sends nothing to that node until the time is
over, on whatever channel. Nodes take no notice of it: among themselves Kafka's brokers are not throttled.

A callback that raises is its sender's own fault: the others are called all the same, if the owner sets `on_error`. What
a peer sends closes its connection at worst.

A peer without anything under way is forgotten: when its connection was idle for `MAX_IDLE_MS`, which closes it, or when
it has no connection, and its failures need not be remembered any more.

A `Wire` moves the bytes: a socket, or the simulator's network. The peer hands it what to send, and it tells the peer
when it is connected, when bytes have come, and when it is closed.

Follows org.apache.kafka.clients.{NetworkClient,ClusterConnectionStates,InFlightRequests}.
"""

import struct
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Any, Protocol

from pykraft.common.core import Failure, Outbound
from pykraft.common.errors import ProtocolError
from pykraft.common.timer import Backoff, Timer, TimerTask
from pykraft.common.types import Endpoint, Node
from pykraft.security.login import SaslLogin
from pykraft.security.mechanism import Salting
from pykraft.security.scram import compute
from pykraft.transport.client_channel import ClientChannel, Meant, MisroutedError, UnsupportedVersion, wants_answer
from pykraft.transport.client_login import LoginExchange, LoginFailed

RECONNECT_BACKOFF_MS = 50
RECONNECT_BACKOFF_MAX_MS = 1000
CONNECT_TIMEOUT_MS = 10_000
MAX_IDLE_MS = 540_000
"""`connections.max.idle.ms` of Kafka's clients: nine minutes, one less than a broker's."""
_MOST_SALTED = 100
FAILURES_REMEMBERED_MS = 10 * RECONNECT_BACKOFF_MAX_MS
"""After the pause before the next attempt. A sender that comes back later than that is in no hurry."""


class Wire(Protocol):
    """A stream of bytes to one address."""

    def send(self, parts: Sequence[Any]) -> None:
        """Send these, in order, sooner or later. OSError or EOFError: it is broken."""
        ...

    def close(self) -> None: ...


class Dialer(Protocol):
    """Opens wires."""

    def dial(self, endpoint: Endpoint, peer: "Peer") -> Wire:
        """Begin to connect; `peer.connected`, `received` and `closed` tell what becomes of it, and are not called from
        within this call. Bytes that come belong into ``peer.channel.frames``. OSError: there is no way to begin."""
        ...


class _Waiting:
    """A request that is not answered yet, and the task that gives it up."""

    __slots__ = ("outbound", "task")

    def __init__(self, outbound: Outbound) -> None:
        self.outbound = outbound
        self.task: TimerTask | None = None


class Peer:
    """One connection, and what waits for it."""

    def __init__(self, peers: "Peers", endpoint: Endpoint, is_to_controller: bool = False) -> None:
        self._peers = peers
        self.endpoint = endpoint
        self.is_to_controller = is_to_controller
        """The listener there is that of the controllers."""
        self.channel = ClientChannel(peers.client_id)
        self._node: Node | None = None
        """Which node this address is that of, as the latest request has it."""
        self._wire: Wire | None = None
        self._unsent: deque[_Waiting] = deque()
        self._unanswered: deque[_Waiting] = deque()
        self._attempts = 0
        self._retry_at = 0
        self._last_used = 0
        self._connect_task: TimerTask | None = None

    def send(self, outbound: Outbound, now: int) -> None:
        """Queue a request, and send it if that is possible now."""
        waiting = _Waiting(outbound)
        if not outbound.waits_for_connection and self._wire is None and now < self._retry_at:
            self._peers.done(waiting, Failure.DISCONNECTED)
            return
        waiting.task = self._peers.timer.at(now + outbound.timeout_ms, lambda then: self._give_up(waiting, then))
        self._unsent.append(waiting)
        self._node = outbound.destination
        self._last_used = now
        self._advance(now)

    def _advance(self, now: int) -> None:
        """Connect or send, whatever is next."""
        if not self._unsent:
            return
        try:
            if now < self._peers.held_until(self.endpoint):
                self._peers.timer.at(self._peers.held_until(self.endpoint), self._advance)
            elif self._wire is not None:
                while self._unsent and self.channel.is_ready:
                    self._send_next(self._wire)
            elif now >= self._retry_at:
                self._connect(now)
            else:
                self._peers.timer.at(self._retry_at, self._advance)
        except (OSError, EOFError):
            self.closed(now)

    def _connect(self, now: int) -> None:
        self.channel = ClientChannel(self._peers.client_id, self._peers.begin_login(self.is_to_controller))
        self._connect_task = self._peers.timer.at(
            now + CONNECT_TIMEOUT_MS, lambda then: self.closed(then, Failure.TIMED_OUT)
        )
        self._wire = self._peers.dialer.dial(self.endpoint, self)

    def _send_next(self, wire: Wire) -> None:
        waiting = self._unsent.popleft()
        request = waiting.outbound.request
        try:
            parts = self.channel.send(waiting, request)
        except UnsupportedVersion:
            self._peers.done(waiting, Failure.UNSUPPORTED_VERSION)
            return
        if wants_answer(request):
            self._unanswered.append(waiting)
        else:
            self._peers.done(waiting, None)
        wire.send(parts)

    def _give_up(self, waiting: _Waiting, now: int) -> None:
        if waiting in self._unsent:
            self._unsent.remove(waiting)
            self._peers.done(waiting, Failure.TIMED_OUT)
        else:
            self.closed(now, Failure.TIMED_OUT)

    # --- what the wire tells ------------------------------------------------------------------------------------------

    def connected(self, now: int) -> None:
        """The wire is open."""
        self._send_greeting(self.channel.greet(None if self._node is None else self._peers.meant(self._node)), now)

    def _send_greeting(self, parts: Sequence[Any], now: int) -> None:
        assert self._wire is not None
        try:
            self._wire.send(parts)
        except (OSError, EOFError):
            self.closed(now)

    def received(self, now: int) -> None:
        """There are more bytes in the channel's frame reader. What a peer sends closes this connection at worst; an
        error in a callback is the callback's own, and is not caught here."""
        channel = self.channel
        self._last_used = now
        while channel is self.channel and self._wire is not None:
            try:
                answer = channel.next_response()
            except MisroutedError:
                self.closed(now)
                self._peers.on_misrouted()
                return
            except (ProtocolError, struct.error):
                self.closed(now)
                return
            except (LoginFailed, UnsupportedVersion) as failure:
                self._peers.note_refused_login(self.endpoint, str(failure))
                self.closed(now)
                return
            except Exception as error:
                self._peers.note_error(error)
                self.closed(now)
                return
            if channel.greeting_again is not None:
                parts, channel.greeting_again = channel.greeting_again, None
                self._send_greeting(parts, now)
            if channel.salting is not None:
                work, channel.salting = channel.salting, None
                self._peers.salt(work, partial(self._on_salted, channel))
            if channel.is_ready and self._connect_task is not None:
                self._attempts = 0
                self._peers.refused_logins.pop(self.endpoint, None)
                self._connect_task.cancel()
                self._connect_task = None
            if answer is None:
                break
            waiting, response = answer
            oldest = self._unanswered.popleft()
            assert oldest is waiting, "answers come in the order of their requests"
            self._peers.heed(self.endpoint, response, now)
            self._peers.done(waiting, response)
            self._peers.dispatch()  # now: what the response holds is a view of the connection's buffer
        self._advance(now)

    def _on_salted(self, channel: ClientChannel, result: bytes) -> None:
        """What a login needs is computed; the connection may be closed by then."""
        if channel is self.channel and self._wire is not None:
            self._send_greeting(channel.salted(result), self._peers.now)

    def closed(self, now: int, failure: Failure = Failure.DISCONNECTED) -> None:
        """The connection is over: all that is under way fails."""
        self.close()
        self._retry_at = now + self._peers.backoff.pause_ms(self._attempts)
        self._attempts += 1
        failed = [*self._unanswered, *self._unsent]
        self._unanswered.clear()
        self._unsent.clear()
        for waiting in failed:
            self._peers.done(waiting, failure)

    # --- its end ------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._wire is not None:
            self._wire.close()
        if self._connect_task is not None:
            self._connect_task.cancel()
        self._wire = self._connect_task = None

    def is_forgettable(self, now: int) -> bool:
        """Whether nothing is under way, and nothing about this peer is worth remembering."""
        if self._unsent or self._unanswered:
            return False
        if self._wire is not None:
            return now - self._last_used >= MAX_IDLE_MS
        return now - self._retry_at >= FAILURES_REMEMBERED_MS


class Peers:
    """All connections that a node, or a client, has opened."""

    def __init__(self, dialer: Dialer, client_id: str, random: Random, is_of_node: bool = False) -> None:
        self.dialer = dialer
        self.client_id = client_id
        self.backoff = Backoff(random, RECONNECT_BACKOFF_MS, RECONNECT_BACKOFF_MAX_MS)
        self.timer = Timer()
        self.now = 0
        self.nonces = random
        """Draws what no server must foresee."""
        self.login_of: Callable[[bool], SaslLogin | None] = lambda is_to_controller: None
        """What is logged in with, to controllers and to others; None: nothing."""
        self.compute: Callable[[Salting, Callable[[bytes], None]], None] = lambda work, then: then(compute(work))
        """Does milliseconds of work for a login; a node has it done elsewhere."""
        self.refused_logins: dict[Endpoint, str] = {}
        """Why an address has not let this client in, for those that have not done so since."""
        self.on_refused_login: Callable[[Endpoint, str], None] = lambda endpoint, reason: None
        self._salted: dict[Salting, bytes] = {}
        """What was computed lately: all connections to a cluster need the same."""
        self._peers: dict[tuple[str, Endpoint], Peer] = {}
        self._is_of_node = is_of_node
        self._held_until: dict[Endpoint, int] = {}
        """When the nodes that have throttled this client may be sent something again."""
        self.answers = 0
        """How many requests have had their answer or failure handed out."""
        self._sweep_at = 0
        self._done: deque[tuple[Outbound, object]] = deque()
        self.meant: Callable[[Node], Meant | None] = lambda node: None
        """Which broker a new connection to this node is to reach; None: whichever there is."""
        self.on_misrouted: Callable[[], object] = lambda: None
        """Hears that there was another."""
        self.on_error: Callable[[Exception], None] | None = None
        """Hears of what a callback has raised; None: it is raised to the caller."""

    def __len__(self) -> int:
        return len(self._peers)

    def send(self, outbound: Outbound, now: int) -> None:
        """Put a request on its way; ``outbound.on_response`` is called from `dispatch`."""
        key = (outbound.channel, outbound.destination.endpoint)
        if key not in self._peers:
            self._peers[key] = Peer(self, key[1], outbound.is_to_controller)
        self._peers[key].send(outbound, now)

    def poll(self, now: int) -> int:
        """Give up what is late, connect again where it is time; returns when to be called again."""
        self.now = now
        self.timer.expire(now)
        if now >= self._sweep_at:
            self._sweep(now)
        return self.timer.deadline

    def begin_login(self, is_to_controller: bool) -> LoginExchange | None:
        """The login of a new connection, if it needs one."""
        login = self.login_of(is_to_controller)
        return None if login is None else LoginExchange(login, self.nonces)

    def salt(self, work: Salting, then: Callable[[bytes], None]) -> None:
        """Compute this, once, and go on."""
        known = self._salted.get(work)
        if known is not None:
            then(known)
            return

        def keep(result: bytes) -> None:
            if len(self._salted) >= _MOST_SALTED:
                self._salted.clear()
            self._salted[work] = result
            then(result)

        self.compute(work, keep)

    def note_refused_login(self, endpoint: Endpoint, reason: str) -> None:
        """This address does not let this client in."""
        self.refused_logins[endpoint] = reason
        self.on_refused_login(endpoint, reason)

    def _sweep(self, now: int) -> None:
        """Forget the peers that are not needed any more. A node polls often enough for that, so there is no timer."""
        self._sweep_at = now + FAILURES_REMEMBERED_MS
        for key, peer in list(self._peers.items()):
            if peer.is_forgettable(now):
                peer.close()
                del self._peers[key]
        connected = {endpoint for _, endpoint in self._peers}
        self.refused_logins = {each: why for each, why in self.refused_logins.items() if each in connected}
        self._held_until = {endpoint: until for endpoint, until in self._held_until.items() if now < until}

    def heed(self, endpoint: Endpoint, response: Any, now: int) -> None:
        """Keep the time for which a node says that it throttles this client."""
        if response.tells_throttling and response.throttle_time_ms > 0 and not self._is_of_node:
            self._held_until[endpoint] = max(self.held_until(endpoint), now + response.throttle_time_ms)

    def held_until(self, endpoint: Endpoint) -> int:
        """Before this time nothing is sent to this address."""
        return self._held_until.get(endpoint, 0)

    def done(self, waiting: _Waiting, result: object) -> None:
        """A request has its response, or a `Failure`; `dispatch` hands it to the sender."""
        if waiting.task is not None:
            waiting.task.cancel()
        self._done.append((waiting.outbound, result))

    @property
    def has_news(self) -> bool:
        """There is something for `dispatch` to tell."""
        return bool(self._done)

    def dispatch(self) -> bool:
        """Tell the senders what came of their requests; whether there was anything to tell."""
        had_any = bool(self._done)
        while self._done:
            self.answers += 1
            outbound, result = self._done.popleft()
            try:
                outbound.on_response(result, self.now)
            except Exception as error:
                self.note_error(error)
        return had_any

    def note_error(self, error: Exception) -> None:
        """Give an error that nothing expected to the owner, or raise it."""
        if self.on_error is None:
            raise error
        self.on_error(error)

    def close(self) -> None:
        """Close every connection; no callback is called."""
        for peer in self._peers.values():
            peer.closed(self.now)
        self._done.clear()
        self._peers = {}
