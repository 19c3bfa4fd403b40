"""A client with a thread that sends and receives for it, and a lock that it shares with the client's user.

The cores of a client (producer, consumer, admin) are pure. This thread polls them, sends what they want sent, and
brings them the answers; the user's thread calls them, too: it appends records, takes records, seeks. One lock keeps the
two apart. The thread holds it between two waits for the network, never while it waits.

`changed` is notified after every step, so whoever waits for metadata, memory or records looks again.

An address may be wrong, and whoever waits may wait for a minute before a call says so. That nobody has answered at any
of the addresses for five seconds is therefore logged, once, as a warning; unless somebody has set up logging, Python
prints it to standard error.
"""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from random import Random
from types import TracebackType
from typing import Self, TypeVar

from pykraft.common.core import Promise
from pykraft.common.errors import KafkaError
from pykraft.network.selector import Told
from pykraft.runtime.client_loop import ClientCore, ClientLoop

T = TypeVar("T")
MAX_WAIT_MS = 1000
SILENCE_MS = 5000
"""After so long it is said that nobody answers."""

_logger = logging.getLogger(__name__)


class ClientClosedError(RuntimeError):
    """The client was closed, or its thread has died; the cause says why."""


class ClientThread:
    """Sends and receives for one client."""

    def __init__(
        self,
        core: ClientCore,
        client_id: str,
        random: Random,
        on_end: Callable[[BaseException | None], None] = lambda failure: None,
    ) -> None:
        """`on_end` is called when the client ends, with what it died of: who waits for an answer will get none."""
        self._core = core
        self._client_id = client_id
        self._on_end = on_end
        self._loop = ClientLoop(core, client_id, random)
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self._waiting: set[Future[object]] = set()
        self._closing = False
        self._has_complained = False
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=f"pykraft-client-{client_id}", daemon=True)
        self._thread.start()

    @property
    def now(self) -> int:
        return self._loop.now

    @property
    def is_running(self) -> bool:
        return not self._closing and self.failure is None

    @property
    def is_own(self) -> bool:
        """Whether this is called on the client's thread: from a callback."""
        return threading.current_thread() is self._thread

    def check(self) -> None:
        """ClientClosedError if nothing will ever be sent again."""
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
        """Ask the core for a promise and wait until it is kept; raises the KafkaError that was promised. Whoever asks
        gives the promise a deadline."""
        future: Future[object] = Future()
        with self.lock:
            self.check()
            promise = question(self.now)
            self._waiting.add(future)
            promise.then(future.set_result)
        self.wake()
        try:
            result = future.result()
        finally:
            with self.lock:
                self._waiting.discard(future)
        if isinstance(result, KafkaError):
            raise result
        return result  # type: ignore[return-value]

    def _run(self) -> None:
        try:
            deadline = 0
            while not self._closing:
                ready = self._loop.wait(min(deadline - self.now, MAX_WAIT_MS))
                with self.lock:
                    deadline = self._step(ready)
        except BaseException as error:  # kept, and raised to whoever uses the client
            self.failure = error
        finally:
            self._release()

    def _step(self, ready: list[Told]) -> int:
        """One step, and what those who wait may have waited for; returns when to do it again."""
        deadline = self._loop.step(ready)
        self.changed.notify_all()
        self._complain_of_silence(self.now)
        return deadline

    def _complain_of_silence(self, now: int) -> None:
        since = self._core.metadata.unheard_since
        if since is not None and now - since >= SILENCE_MS and not self._has_complained:
            self._has_complained = True
            addresses = ", ".join(map(str, self._core.metadata.bootstrap))
            sentence = "%s: nobody has answered at %s for %d seconds; is the address right, and a broker running?"
            _logger.warning(sentence, self._client_id, addresses, SILENCE_MS // 1000)

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


class ClosesOnExit:
    """``with Producer(...) as producer:`` closes it at the end."""

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
