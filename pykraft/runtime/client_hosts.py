"""Where the core of a client runs: on a thread of its own with real sockets, or wherever a program wants it to run.

Outside of `hosted_by` a producer, a consumer and an administrator get a `ClientThread` each. Inside of it they get what
is handed in: a host in a simulated network, for instance (`pykraft.sim.world.client_host`). So a command of Kafka's
tools runs unchanged against a simulated cluster, in that cluster's time.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from random import Random
from typing import Any, Protocol, TypeVar

from pykraft.common.core import Promise
from pykraft.common.errors import KafkaError
from pykraft.runtime.client_loop import ClientCore
from pykraft.runtime.client_thread import ClientThread

T = TypeVar("T")
OnEnd = Callable[[BaseException | None], None]


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

    def random(self) -> Random:
        """The chance of the next client."""

    def start(self, core: ClientCore, client_id: str, random: Random, on_end: OnEnd) -> ClientHost: ...


_hosts: ContextVar[ClientHosts | None] = ContextVar("hosts of clients", default=None)


@contextmanager
def hosted_by(hosts: ClientHosts) -> Iterator[None]:
    """The clients that this thread makes in this block run on these hosts."""
    token = _hosts.set(hosts)
    try:
        yield
    finally:
        _hosts.reset(token)


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
