"""Hosts in the simulated network for the clients that people use: `Admin`, `Consumer` and `Producer`.

A call of such a client waits for its answer. On a thread of its own it would sleep; here it lets the simulated world go
on, event by event, until the answer has come or the call's time is over. So a program that runs between two events of a
simulated history, a command of Kafka's tools for instance, takes virtual time and no other, and the same program in
the same history gets the same answers.
"""

from collections.abc import Callable
from contextlib import nullcontext
from random import Random
from typing import Any, TypeVar

from pykraft.client.errors import ClientTimeoutError
from pykraft.common.core import Promise
from pykraft.common.errors import KafkaError
from pykraft.runtime.client_loop import ClientCore
from pykraft.runtime.client_thread import ClientClosedError, ClientHost, OnEnd
from pykraft.sim.world.client_hosts import SimulatedClient
from pykraft.sim.world.hosts import EPOCH_MS
from pykraft.sim.world.network import Network
from pykraft.sim.world.scheduler import US_PER_MS, Scheduler

T = TypeVar("T")


class _CountingClient(SimulatedClient):
    """Counts its steps: after each, whatever the program waits for may have come."""

    steps = 0

    def step(self) -> None:
        self.steps += 1
        super().step()


class SimulatedClientHost:
    """The place of one client's core. Nothing else runs while the program does: `lock` locks nothing."""

    def __init__(self, host: _CountingClient, core: ClientCore, scheduler: Scheduler, on_end: OnEnd) -> None:
        self._host, self._core, self._scheduler, self._on_end = host, core, scheduler, on_end
        self.lock: Any = nullcontext()
        self.first_answer_ms: int | None = None
        self.is_running = True
        self.is_own = False

    @property
    def now(self) -> int:
        return self._scheduler.now

    @property
    def has_heard(self) -> bool:
        return bool(self._core.metadata.version)

    def check(self) -> None:
        if not self.is_running:
            raise ClientClosedError("this client is closed")

    def wake(self) -> None:
        """Poll the core now: there is something to send."""
        self._host.act(_nothing)

    def wait(self, timeout_ms: float) -> None:
        """Let the world go on until the client has taken a step, or for this long."""
        self.check()
        taken, until_us = self._host.steps, self._scheduler.now_us + round(timeout_ms * US_PER_MS)
        self._scheduler.at(until_us, _nothing)
        while self._host.steps == taken and self._scheduler.now_us < until_us:
            self._scheduler.run_next()
        self._check_heard()

    def wait_until(self, condition: Callable[[], bool], timeout_ms: float) -> bool:
        deadline = self.now + timeout_ms
        self.wake()
        while not condition():
            if self.now >= deadline:
                return False
            self.wait(deadline - self.now)
        return True

    def ask(self, question: Callable[[int], Promise[T | KafkaError]]) -> T:
        """The answer to a question; raises the KafkaError that it is."""
        self.check()
        found: list[T | KafkaError] = []
        question(self.now).then(found.append)
        self.wake()
        while not found:
            self._scheduler.run_next()
            self._check_heard()
        (answer,) = found
        if isinstance(answer, KafkaError):
            raise answer
        return answer

    def silence(self) -> str:
        """That no broker has ever answered; empty if one has."""
        if self._core.metadata.unheard_since is None:
            return ""
        return f"no broker has answered at {', '.join(map(str, self._core.metadata.bootstrap))}: does one run?"

    def _check_heard(self) -> None:
        since = self._core.metadata.unheard_since
        if self.first_answer_ms is not None and since is not None and self.now - since >= self.first_answer_ms:
            raise ClientTimeoutError(self.silence())

    def close(self) -> None:
        if self.is_running:
            self.is_running = False
            self._host.crash()
            self._on_end(None)


class SimulatedHosts:
    """Gives each client a host of its own in one simulated network. A `ClientHosts`."""

    def __init__(self, scheduler: Scheduler, network: Network, chance: str) -> None:
        """`chance` is what the clients' dice begin with."""
        self._scheduler, self._network, self._chance = scheduler, network, chance
        self._made = 0

    @property
    def time_ms(self) -> int:
        return EPOCH_MS + self._scheduler.now

    def random(self) -> Random:
        return Random(f"{self._chance} {self._made}")

    def start(self, core: ClientCore, client_id: str, random: Random, on_end: OnEnd) -> ClientHost:
        self._made += 1
        host = _CountingClient(f"{self._chance}-{self._made}", core, self._scheduler, self._network, random)
        return SimulatedClientHost(host, core, self._scheduler, on_end)


def _nothing() -> None:
    """Only time passes."""
