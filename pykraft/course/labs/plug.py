"""The learner's code in the place of pykraft's own, in a cluster that runs.

A place is named by its path, such as ``pykraft.client.producing.producer.partition_of_key``; `plugged` puts something
else there for as long as a block lasts. A lab's nodes and clients are threads of this process, so they use it then.

A node must not die of a learner's mistake. Every call goes through a `Plug`, which counts it and lets pykraft's own
code answer when the learner's raises; the first such error is kept and shown. A *wrong* answer goes through: what it
does to the cluster is what the lab wants to show.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from importlib import import_module
from inspect import isfunction
from typing import Any

from pykraft.surroundings import Shown, show


@dataclass
class Plug:
    """The learner's code in one place: how often it was called, and what it raised first."""

    name: str
    code: Callable[..., Any]
    original: Callable[..., Any]
    verdicts: tuple[type[Exception], ...] = ()
    """What the code raises on purpose, because the place says no by raising it."""
    calls: int = 0
    errors: int = 0
    first_error: str = ""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.calls += 1
        try:
            return self.code(*args, **kwargs)
        except self.verdicts:
            raise
        except (Exception, SystemExit) as error:  # the learner's, whatever it is
            self.errors += 1
            self.first_error = self.first_error or f"{type(error).__name__}: {error}"
            return self.original(*args, **kwargs)


def owner_and_name(place: str) -> tuple[Any, str]:
    """The module or class that has an attribute, and the attribute's name. AttributeError if there is none."""
    path, _, name = place.rpartition(".")
    parts = path.split(".")
    for length in range(len(parts), 0, -1):
        try:
            owner: Any = import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            owner = getattr(owner, part)
        getattr(owner, name)
        return owner, name
    raise AttributeError(f"there is no {place}")


@contextmanager
def plugged(
    code: Mapping[str, Callable[..., Any]], verdicts: tuple[type[Exception], ...] = ()
) -> Iterator[dict[str, Plug]]:
    """Put each function in its place, such as ``{"pykraft.client.producing.producer.partition_of_key": mine}``; yields
    the plugs by place. In a class the place is a method's, and the function gets the object first. `verdicts` are
    exceptions that are no mistake: they reach the caller."""
    plugs: dict[str, Plug] = {}
    places = []
    try:
        for place, function in code.items():
            owner, name = owner_and_name(place)
            original = getattr(owner, name)
            plug = plugs[place] = Plug(place, function, original, verdicts)
            places.append((owner, name, original))
            setattr(owner, name, _as_method(plug) if isinstance(owner, type) else plug)
        yield plugs
    finally:
        for owner, name, original in reversed(places):
            setattr(owner, name, original)


def _as_method(plug: Plug) -> Callable[..., Any]:
    """A function, since only functions are bound to the object they are looked up on."""

    def method(*args: Any, **kwargs: Any) -> Any:
        return plug(*args, **kwargs)

    return method


@contextmanager
def counted_calls(module: Any, functions: Mapping[str, Sequence[str]]) -> Iterator[dict[str, int]]:
    """Count the calls of a module's functions, also those among themselves; `functions` are the names by task. Yields
    the calls by task, which go up meanwhile."""
    calls = dict.fromkeys(functions, 0)

    def counting(task: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            calls[task] += 1
            return function(*args, **kwargs)

        return call

    places = [
        (owner, name, getattr(owner, name), task)
        for task, names in functions.items()
        for wanted in names
        for owner, name in _counted_places(module, wanted)
    ]
    try:
        for owner, name, function, task in places:
            setattr(owner, name, counting(task, function))
        yield calls
    finally:
        for owner, name, function, _ in places:
            setattr(owner, name, function)


def _counted_places(module: Any, name: str) -> list[tuple[Any, str]]:
    """A function of the module; of a class its public methods, and if it has none, how it is made."""
    found = getattr(module, name)
    if not isinstance(found, type):
        return [(module, name)]
    methods = [each for each, value in vars(found).items() if isfunction(value) and not each.startswith("_")]
    return [(found, each) for each in methods or ["__init__"]]


@dataclass(frozen=True)
class Bound:
    """What a number should be where more than one value is right."""

    words: str
    holds: Callable[[Any], bool]

    def __str__(self) -> str:
        return self.words


def at_least(least: float) -> Bound:
    return Bound(f"at least {least:,}", lambda number: bool(number >= least))


def at_most(most: float) -> Bound:
    return Bound(f"at most {most:,}", lambda number: bool(number <= most))


Compared = Mapping[str, tuple[Any, Any]]
"""By its name, what came and what should have come: a value, or a `Bound`."""


@dataclass(frozen=True)
class Outcome:
    """What became of a cluster that ran on the learner's code."""

    compared: Compared
    """The numbers by which the learner's code is judged."""
    lines: tuple[str, ...]
    plugs: tuple[Plug, ...]
    figure: Any = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    """The numbers behind the lines."""
    calls: Mapping[str, int] = field(default_factory=dict)
    """For each task, how often the learner's code for it was called."""

    @property
    def agrees(self) -> bool:
        """Whether the cluster did what it should, and the learner's code never raised."""
        return not self.disagreements and not any(plug.errors for plug in self.plugs)

    @property
    def disagreements(self) -> list[str]:
        """Each number that is not what it should be, in words."""
        return [
            f"{name}: {_number(came)}, and should be {_number(wanted)}"
            for name, (came, wanted) in self.compared.items()
            if not (wanted.holds(came) if isinstance(wanted, Bound) else came == wanted)
        ]

    @property
    def verdict(self) -> str:
        """What a live run ends with: whether the code agreed, and if not, with which number."""
        if self.agrees:
            return "Your code agreed."
        wrong = [*self.disagreements, *(f"{plug.name}: your code raised" for plug in self.plugs if plug.errors)]
        return f"Your code did not agree. {'; '.join(wrong)}."

    @property
    def text(self) -> str:
        called = [f"task {task} {_times(calls)}" for task, calls in self.calls.items()]
        tasks = [f"Your code was called: {', '.join(called)}."] if called else []
        driven = [f"{plug.name}: your code was called {_times(plug.calls)}" for plug in self.plugs]
        failed = [
            f"{plug.name}: your code raised {_times(plug.errors)}, first {plug.first_error}; pykraft's own answered"
            for plug in self.plugs
            if plug.errors
        ]
        return "\n".join([*self.lines, *tasks, *driven, *failed])

    def __repr__(self) -> str:
        return "\n\n".join([self.text, *([self.figure.text] if self.figure is not None else []), self.verdict])

    def _ipython_display_(self) -> None:
        # Outputs of their own, since of one a page shows a single form: JupyterLab would show an SVG without the words,
        # and GitHub takes pictures out of HTML.
        show(Shown(self.text))
        if self.figure is not None:
            show(self.figure)
        show(Shown(self.verdict))


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def _number(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value)
