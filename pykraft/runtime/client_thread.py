"""A client with a thread that sends and receives for it, and a lock that it shares with the client's user.

The cores of a client (producer, consumer, admin) are pure. This thread polls them, sends what they want sent, and
brings them the answers; the user's thread calls them, too: it appends records, takes records, seeks. One lock keeps the
two apart. The thread holds it between two waits for the network, never while it waits.

`changed` is notified after every step, so threads that wait for metadata, memory or records look again.

An address may be wrong, and the application may wait for a minute before a call says so. If no address has answered for
five seconds, that is therefore logged, once, as a warning; unless the application has set up logging, Python prints it
to standard error. A call that gives up says the same: which addresses were tried, and why each did not work.

A program can let the cores of its clients run elsewhere (`hosted_by`): in a simulated network, for instance, and in its
time. So a command of Kafka's tools runs unchanged against a simulated cluster.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from random import Random
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from pykraft.client.errors import ClientTimeoutError
from pykraft.common.core import Promise
from pykraft.common.errors import KafkaError
from pykraft.common.types import Endpoint
from pykraft.network.inherited import end_in_child
from pykraft.network.selector import Told
from pykraft.runtime.client_loop import ClientCore, ClientLoop

T = TypeVar("T")
OnEnd = Callable[[BaseException | None], None]
MAX_WAIT_MS = 1000
SILENCE_MS = 5000
"""After this long the warning says that no broker answers."""
_LOOK_S = 0.2

_logger = logging.getLogger(__name__)


class ClientClosedError(RuntimeError):
    """The client was closed, or its thread has died; the cause says why."""


class ClientHost(Protocol):
    """What a client asks of the place in which its core runs; see `ClientThread` for each of these."""

    lock: Any
    first_answer_ms: int | None

    @property
    def now(self) -> int: ...

    @property
    def is_running(self) -> bool: ...

    @property
    def has_heard(self) -> bool: ...

    @property
    def is_own(self) -> bool: ...

    def check(self) -> None: ...

    def wake(self) -> None: ...

    def wait(self, timeout_ms: float) -> None: ...

    def wait_until(self, condition: Callable[[], bool], timeout_ms: float) -> bool: ...

    def ask(self, question: Callable[[int], Promise[T | KafkaError]]) -> T: ...

    def silence(self) -> str: ...

    def close(self) -> None: ...


class ClientHosts(Protocol):
    """Makes hosts."""

    @property
    def time_ms(self) -> int:
        """The time of day where they run."""

    def random(self) -> Random:
        """The chance of the next client."""

    def start(self, core: ClientCore, client_id: str, random: Random, on_end: OnEnd) -> ClientHost: ...


class ClientThread:
    """Sends and receives for one client."""

    def __init__(
        self,
        core: ClientCore,
        client_id: str,
        random: Random,
        on_end: Callable[[BaseException | None], None] = lambda failure: None,
    ) -> None:
        """`on_end` is called when the client ends, with what it died of: no answer will come any more."""
        self._core = core
        self._client_id = client_id
        self._on_end = on_end
        self._loop = ClientLoop(core, client_id, random)
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self._waiting: set[Future[object]] = set()
        self._closing = self._is_forked = False
        self._has_complained = False
        self.failure: BaseException | None = None
        self.first_answer_ms: int | None = None
        """How long a call waits at most if no broker has ever answered; None: for as long as it has time."""
        self._thread = threading.Thread(target=self._run, name=f"pykraft-client-{client_id}", daemon=True)
        self._thread.start()
        end_in_child(self, ClientThread._leave_to_parent)

    @property
    def now(self) -> int:
        return self._loop.now

    @property
    def is_running(self) -> bool:
        return not self._closing and not self._is_forked and self.failure is None

    @property
    def has_heard(self) -> bool:
        """Whether a broker has answered, ever."""
        with self.lock:
            return bool(self._core.metadata.version)

    @property
    def is_own(self) -> bool:
        """Whether this is called on the client's thread: from a callback."""
        return threading.current_thread() is self._thread

    def _leave_to_parent(self) -> None:
        """This process is a forked child. It has no thread that sends, and the one of the parent may hold the lock."""
        self._is_forked = True
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)

    def check(self) -> None:
        """ClientClosedError if nothing will ever be sent again."""
        if self._is_forked:
            raise ClientClosedError(
                "this client works only in the process that made it, and this is a forked child of that: make another "
                "client here"
            )
        if not self.is_running:
            raise ClientClosedError("this client is closed") from self.failure

    def wake(self) -> None:
        """Poll the core now: there is something to send."""
        self._loop.wake()

    def wait(self, timeout_ms: float) -> None:
        """Wait for a change of the core, with the lock held. ClientClosedError: there will be none. RuntimeError on the
        thread that makes the changes, which is the one that calls back: it would wait for itself."""
        if self.is_own:
            raise RuntimeError("a callback must not wait for its own client: it keeps the client from its work")
        self.check()
        self.changed.wait(max(0.0, min(timeout_ms / 1000, threading.TIMEOUT_MAX)))
        self.check()
        self._check_heard()

    def wait_until(self, condition: Callable[[], bool], timeout_ms: float) -> bool:
        """Wait for a condition on the core; whether it came true in time. Errors as for `wait`, which a callback gets
        even if there is nothing to wait for."""
        deadline = self.now + timeout_ms
        with self.lock:
            self.wake()
            while self.is_own or not condition():
                remaining = deadline - self.now
                if remaining <= 0:
                    return False
                self.wait(remaining)
            return True

    def ask(self, question: "Callable[[int], Promise[T | KafkaError]]") -> T:
        """Ask the core for a promise and wait until it is kept; raises the KafkaError that was promised. The caller
        gives the promise a deadline."""
        future: Future[object] = Future()
        with self.lock:
            self.check()
            promise = question(self.now)
            self._waiting.add(future)
            promise.then(future.set_result)
        self.wake()
        try:
            result = self._result(future)
        finally:
            with self.lock:
                self._waiting.discard(future)
        if isinstance(result, ClientTimeoutError) and (silence := self.silence()):
            raise ClientTimeoutError(f"{result.detail}; {silence}")
        if isinstance(result, KafkaError):
            raise result
        return result  # type: ignore[return-value]

    def _result(self, future: Future[object]) -> object:
        while True:
            with suppress(TimeoutError):
                return future.result(_LOOK_S)
            with self.lock:
                self._check_heard()

    def _check_heard(self) -> None:
        """AuthenticationError if a node has not let this client in; ClientTimeoutError if a first answer was to be
        expected by now."""
        self._loop.check_login()
        since = self._core.metadata.unheard_since
        if self.first_answer_ms is not None and since is not None and self.now - since >= self.first_answer_ms:
            raise ClientTimeoutError(self.silence())

    def _run(self) -> None:
        try:
            deadline = 0
            while not self._closing:
                ready = self._loop.wait(min(deadline - self.now, MAX_WAIT_MS))
                with self.lock:
                    deadline = self._step(ready)
        except BaseException as error:  # kept, and raised in the client's next call
            self.failure = error
        finally:
            self._release()

    def _step(self, ready: list[Told]) -> int:
        """One step, and what those who wait may have waited for; returns when to do it again."""
        deadline = self._loop.step(ready)
        self.changed.notify_all()
        self._complain_of_silence(self.now)
        return deadline

    def silence(self) -> str:
        """That no broker has ever answered, with the reason for each address; empty if one has."""
        if self._core.metadata.unheard_since is None:
            return ""
        if forbidding := self._core.metadata.forbidding:
            asked = ", ".join(sorted(map(str, forbidding)))
            return (
                f"the controllers at {asked} do not let this client ask them, as it has not the right ALTER on the "
                "cluster: connect as a principal that has it, or ask brokers (bootstrap.servers)"
            )
        tried = ", ".join(map(self._tried, self._core.metadata.bootstrap))
        node = "controller" if self._core.metadata.of_controllers else "broker"
        return f"no {node} has answered at {tried}: is the address right, and a {node} running?"

    def _tried(self, endpoint: Endpoint) -> str:
        """An address, and why it was of no use, if that is known."""
        if endpoint in self._core.metadata.wrong_listeners:
            if self._core.metadata.of_controllers:
                return f"{endpoint} (a broker's listener; bootstrap.controllers are controllers)"
            return f"{endpoint} (a controller's listener; clients need a broker's)"
        reason = self._loop.refusal(endpoint)
        return f"{endpoint} ({reason})" if reason else str(endpoint)

    def _complain_of_silence(self, now: int) -> None:
        since = self._core.metadata.unheard_since
        is_told_by_calls = self.first_answer_ms is not None
        if since is not None and now - since >= SILENCE_MS and not self._has_complained and not is_told_by_calls:
            self._has_complained = True
            _logger.warning("%s, after %d seconds: %s", self._client_id, SILENCE_MS // 1000, self.silence())

    def _release(self) -> None:
        with self.lock:
            self._loop.close()
            for future in self._waiting:
                if not future.done():
                    error = ClientClosedError("this client was closed while it waited")
                    error.__cause__ = self.failure
                    future.set_exception(error)
            self._on_end(self.failure)
            self.changed.notify_all()

    def close(self) -> None:
        """Stop, and close all connections. What is under way is not waited for; on the client's own thread nor is the
        end of that."""
        self._closing = True
        self._loop.wake()
        if not self.is_own:
            self._thread.join()


_hosts: ContextVar[ClientHosts | None] = ContextVar("hosts of clients", default=None)


@contextmanager
def hosted_by(hosts: ClientHosts) -> Iterator[None]:
    """The clients that this thread makes in this block run on these hosts."""
    token = _hosts.set(hosts)
    try:
        yield
    finally:
        _hosts.reset(token)


def time_of_day_ms() -> int:
    """The time of day, where the clients of this thread run."""
    hosts = _hosts.get()
    return time.time_ns() // 1_000_000 if hosts is None else hosts.time_ms


def client_random() -> Random:
    """The chance of a client that is made now."""
    hosts = _hosts.get()
    return Random() if hosts is None else hosts.random()


def start_client(core: ClientCore, client_id: str, random: Random, on_end: OnEnd = lambda failure: None) -> ClientHost:
    """Let a core run; `on_end` is called when it ends, with what it died of."""
    hosts = _hosts.get()
    return (
        ClientThread(core, client_id, random, on_end) if hosts is None else hosts.start(core, client_id, random, on_end)
    )


class ClosesOnExit:
    """``with Producer(...) as producer:`` closes it at the end."""

    _thread: ClientHost

    def expect_an_answer(self, timeout_ms: int) -> None:
        """Until a broker has answered for the first time, a call fails after this long, whatever time it has."""
        self._thread.first_answer_ms = timeout_ms

    def bootstrap_connected(self) -> bool:
        """Whether a broker has answered."""
        return self._thread.has_heard

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
