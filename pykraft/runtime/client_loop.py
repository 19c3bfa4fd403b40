"""One client on real sockets: the step that brings its core and the network together.

The cores of a client are pure. One step hands them what has come, lets them act, and sends what they want sent. The
steps are taken by a thread of the client's own (`client_thread`), or by the thread that wants an answer
(`BlockingClient`).
"""

from collections.abc import Callable
from random import Random
from typing import Protocol, TypeVar

from pykraft.client.errors import AuthenticationError
from pykraft.client.metadata import ClusterMetadata
from pykraft.common.core import FOREVER, Promise, RequestManager
from pykraft.common.errors import KafkaError
from pykraft.common.settings.tls_config import TlsSettings
from pykraft.common.timer import Backoff
from pykraft.common.types import Endpoint
from pykraft.network.client import NetworkClient, SocketWire, WireMaker
from pykraft.network.selector import Selector, Told
from pykraft.runtime.clock import MonotonicClock

T = TypeVar("T")
_LONGEST_WAIT_MS = 100
"""How often a blocking client looks at what it waits for, also if nothing comes."""


class ClientCore(RequestManager, Protocol):
    """A producer, a consumer, a reader or an admin client without a thread."""

    metadata: ClusterMetadata


class ClientLoop:
    """The sockets and the clock of one client."""

    def __init__(self, core: ClientCore, client_id: str, random: Random) -> None:
        make_wire = client_wires(core.metadata.tls)
        self._core = core
        self._clock = MonotonicClock()
        self._selector = Selector()
        self._network = NetworkClient(self._selector, client_id, random, make_wire=make_wire)
        self._network.backoff = Backoff(random, *core.metadata.reconnect_backoff_ms)
        self._network.login_of = lambda _: core.metadata.login
        self._network.meant = core.metadata.meant
        self._network.on_misrouted = core.metadata.rebootstrap

    @property
    def now(self) -> int:
        return self._clock.now()

    def wake(self) -> None:
        """Let `wait` return now. This alone may be called from any thread."""
        self._selector.wakeup()

    def wait(self, timeout_ms: int) -> list[Told]:
        """Wait until a socket is ready, at most for this long; what is ready is for `step`."""
        return self._selector.wait(timeout_ms / 1000)

    def step(self, ready: list[Told], due: int = 0) -> int:
        """Hear, let the core act, send; returns when to do it again. A caller that has not used the core since it had
        nothing to do until `due` passes `due`: then the core is left alone until a whole answer has come."""
        now = self._network.now = self.now
        answers = self._network.answers
        self._selector.tell(ready)
        network_deadline = self._network.poll(now)
        self._network.dispatch()
        if now < due and self._network.answers == answers:
            return min(due, network_deadline)
        poll = self._core.poll(now)
        for outbound in poll.requests:
            self._network.send(outbound, now)
        failed_at_once = self._network.dispatch()
        return now if failed_at_once else min(poll.deadline, network_deadline, self._network.timer.deadline)

    def refusal(self, endpoint: Endpoint) -> str | None:
        """Why there is no connection to this address, if the last attempt to make one failed."""
        return self._network.refusals.get(endpoint)

    def check_login(self) -> None:
        """AuthenticationError if a node has not let this client in."""
        for endpoint, reason in self._network.refused_logins.items():
            raise AuthenticationError(f"{endpoint}: {reason}")

    def close(self) -> None:
        """Close all connections."""
        self._network.close()
        self._selector.close()


class BlockingClient:
    """A client for a program that does one thing after the other: its sockets are looked at while it waits."""

    def __init__(self, core: ClientCore, client_id: str, random: Random) -> None:
        self._loop = ClientLoop(core, client_id, random)
        self._deadline = 0

    @property
    def now(self) -> int:
        return self._loop.now

    def wake(self) -> None:
        """The core was called: it may have something to send."""
        self._deadline = 0

    def send(self) -> None:
        """Send what the core wants to, and wait for nothing."""
        self.wake()
        self._step(0)

    def _step(self, until: int) -> None:
        """Wait for the network until this time, at most for a moment, and go on."""
        wait_ms = min(self._deadline, until) - self.now
        self._deadline = self._loop.step(self._loop.wait(max(0, min(wait_ms, _LONGEST_WAIT_MS))), self._deadline)

    def wait_until(self, condition: Callable[[], bool], until: int, check: Callable[[], object] = lambda: None) -> bool:
        """Wait for a condition on the core; whether it came true in time. `check` may raise why it never will."""
        self.wake()
        while not condition():
            if self.now >= until:
                return False
            self._step(until)
            self._loop.check_login()
            check()
        return True

    def ask(self, question: "Callable[[int], Promise[T | KafkaError]]", check: Callable[[], object]) -> T:
        """Ask the core for a promise and wait until it is kept; raises the KafkaError that was promised. The caller
        gives the promise a deadline; `check` may raise sooner why it will not be kept."""
        promise = question(self.now)
        try:
            self.wait_until(lambda: promise.kept, FOREVER, check)
        finally:
            promise.abandon()
        result = promise.value
        if isinstance(result, KafkaError):
            raise result
        return result

    def refusal(self, endpoint: Endpoint) -> str | None:
        """Why there is no connection to this address, if the last attempt to make one failed."""
        return self._loop.refusal(endpoint)

    def close(self) -> None:
        """Close all connections. What is under way is not waited for."""
        self._loop.close()


def client_wires(settings: TlsSettings | None) -> WireMaker:
    """What opens a client's sockets; without settings they have no TLS. ConfigError: a file cannot be read."""
    if settings is None:
        return SocketWire
    from pykraft.network import tls

    return tls.dialing(tls.client_context(settings, "this client"))
