"""A client whose work is a script (a generator): it asks, waits for the answer, pauses, and begins again."""

from abc import ABC, abstractmethod
from collections.abc import Generator
from random import Random
from typing import Any

from pykraft.common.core import FOREVER, Poll, Promise, merge
from pykraft.sim.workloads.workload import admin_core

_PAUSES_MS = (1, 30)

Script = Generator["Promise[Any] | int", Any, Any]
"""What a client does. It yields a promise, whose value it is sent, or for how long it pauses."""


class Scripted(ABC):
    """A client that follows a script again and again. It is a RequestManager."""

    def __init__(self, bootstrap_servers: str, random: Random) -> None:
        self._metadata, self._driver = admin_core(bootstrap_servers, random)
        self._random = random
        self._script: Script | None = None
        self._awaited: Promise[Any] | None = None
        self._now = self._next_at = 0
        self.is_active = True

    @abstractmethod
    def _life(self) -> Script:
        """What it does."""

    @property
    def is_waiting(self) -> bool:
        """It is in the middle of its script."""
        return self._script is not None

    def poll(self, now: int) -> Poll:
        self._now = now
        while self._is_due():
            self._go_on()
        return merge([Poll(self._deadline()), self._driver.poll(now), self._metadata.poll(now)])

    def _deadline(self) -> int:
        is_idle = self._awaited is not None or not (self.is_active or self.is_waiting)
        return FOREVER if is_idle else max(self._now, self._next_at)

    def _is_due(self) -> bool:
        has_work = self.is_active or self.is_waiting
        return has_work and self._now >= self._next_at and (self._awaited is None or self._awaited.kept)

    def _go_on(self) -> None:
        answer = None if self._awaited is None else self._awaited.value
        self._awaited = None
        if self._script is None:
            self._script = self._life()
        try:
            wanted = self._script.send(answer)
        except StopIteration:
            self._script = None
            wanted = self._pause_ms()
        if isinstance(wanted, Promise):
            self._awaited = wanted
        else:
            self._next_at = self._now + wanted

    def _pause_ms(self) -> int:
        return self._random.randint(*_PAUSES_MS)
