"""Plants a named bug into this process, and takes it out again.

::

    with planted("a_vote_for_a_stale_log"):
        Simulation(39).run()        # SimulationFailed: Leader Completeness

A bug replaces functions of the nodes' code, so it holds for every cluster of the process. Objects that were made under
a bug keep what it has done to them: a cluster that was begun before is not to be used after.
"""

import pkgutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, TypeVar

from pykraft.sim.bugs.recorded import RECORDED, Recorded

_NO_BUGS = ("planting", "recorded", "rewriting")
"""The modules of this package that have none."""
_INHERITED = object()
_MISSING = Recorded("", "", 0)
P = TypeVar("P", bound=Callable[[], None])

_bugs: dict[str, "Bug"] = {}
_replaced: list[tuple[Any, str, object]] = []
"""What was put where: the owner, the name, and what was there."""
_planted: list[str] = []


@dataclass(frozen=True)
class Bug:
    """A mistake, and how it was seen to die."""

    name: str
    plant: Callable[[], None]
    """Makes the mistake from now on."""

    @property
    def sentence(self) -> str:
        return " ".join((self.plant.__doc__ or "").split())

    @property
    def module(self) -> str:
        return self.plant.__module__

    @property
    def is_recorded(self) -> bool:
        return self.name in RECORDED

    @property
    def part(self) -> str:
        """What of Kafka it breaks: one of `recorded.PARTS`."""
        return RECORDED.get(self.name, _MISSING).part

    @property
    def law(self) -> str:
        """The name of the law that it breaks, as `pykraft.sim.laws.names` has it."""
        return RECORDED.get(self.name, _MISSING).law

    @property
    def seed(self) -> int:
        """The seed of a history in which it dies."""
        return RECORDED.get(self.name, _MISSING).seed


def bug(plant: P) -> P:
    """Register a function that makes a mistake, under its own name."""
    _bugs[plant.__name__] = Bug(plant.__name__, plant)
    return plant


def bugs() -> dict[str, Bug]:
    """All of them, by name."""
    _import_all()
    return _bugs


@cache
def _import_all() -> None:
    package = import_module(__package__)
    for found in pkgutil.iter_modules(package.__path__):
        if found.name not in _NO_BUGS:
            import_module(f"{__package__}.{found.name}")


def put(owner: Any, name: str, function: Any) -> None:
    """Replace a method or a function; AttributeError if there is none of that name any more."""
    getattr(owner, name)
    _replaced.append((owner, name, vars(owner).get(name, _INHERITED)))
    setattr(owner, name, function)


def plant(name: str) -> None:
    """Make this mistake from now on, until the process ends. KeyError if there is none of that name."""
    bugs()[name].plant()
    _planted.append(name)


def planted_now() -> tuple[str, ...]:
    """The mistakes that this process makes now."""
    return tuple(_planted)


@contextmanager
def put_back() -> Iterator[None]:
    """What is put somewhere meanwhile is taken away at the end."""
    before = len(_replaced)
    try:
        yield
    finally:
        while len(_replaced) > before:
            owner, attribute, was = _replaced.pop()
            if was is _INHERITED:
                delattr(owner, attribute)
            else:
                setattr(owner, attribute, was)


@contextmanager
def planted(name: str) -> Iterator[Bug]:
    """Make this mistake for a while."""
    already = len(_planted)
    try:
        with put_back():
            plant(name)
            yield bugs()[name]
    finally:
        del _planted[already:]
