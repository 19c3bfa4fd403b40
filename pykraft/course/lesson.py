"""A notebook's helper: it asks, it judges, and in the end it cleans up and counts.

The reader predicts (`predict`), sees what happened, and compares (`answer`). What the text says is not left standing
as text: each claim is a condition over what was measured a moment ago (`claim`), and its verdict is printed as
``HOLDS`` or ``DOES NOT HOLD``. The words of a verdict never change, so a test can compare them; the numbers behind it
are shown beside them, in a form that is not compared.

An error in a background thread does not fail the cell that runs meanwhile. So the last cell is `finish`: it closes what
the lesson was told to `watch`, and raises if a claim did not hold, if a node or a thread has died, or if threads,
connections, child processes or files are left that were not there at the beginning.
"""

import html
import sys
import threading
import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, TypeVar

from pykraft.course.machine import Machine, Measurement, measure
from pykraft.course.resources import Resources

T = TypeVar("T")
SKIP = "skip"
_PATIENCE_S = 15.0
_TITLES = {"00": "What happens to one record?"}


class LessonError(AssertionError):
    """What the last cell found: a claim that does not hold, or something that died or was left behind."""


class _Shown:
    """Something with a stable text, and a page's form of it that may tell more."""

    def __init__(self, text: str, markup: str) -> None:
        self._text = text
        self._markup = markup

    def __repr__(self) -> str:
        return self._text

    def _repr_html_(self) -> str:
        return self._markup


def notebook(number: str) -> "Lesson":
    """The helper of one notebook, such as "00"; call it in the first cell, before anything is started."""
    if number not in _TITLES:
        raise ValueError(f"there is no notebook {number!r}; there are {', '.join(sorted(_TITLES))}")
    lesson = Lesson(number)
    _show(_Shown(f"Notebook {number}: {_TITLES[number]}", f"<b>Notebook {number}</b>: {_TITLES[number]}"))
    return lesson


class Lesson:
    """One run of one notebook."""

    def __init__(self, number: str) -> None:
        self.number = number
        self._started = time.monotonic()
        self._watched: list[Any] = []
        self._options: dict[str, tuple[str, dict[str, str]]] = {}
        self._claims: list[tuple[str, bool]] = []
        self._crashes: list[str] = []
        self._measured: list[Measurement] = []
        self._before = Resources.now()
        self._hook = threading.excepthook
        threading.excepthook = self._note_crash

    def _note_crash(self, crash: threading.ExceptHookArgs) -> None:
        """A thread died of an exception: the last cell tells."""
        name = "a thread" if crash.thread is None else f"thread {crash.thread.name}"
        self._crashes.append(f"{name} died: {crash.exc_type.__name__}: {crash.exc_value}")
        self._hook(crash)

    # --- asking -------------------------------------------------------------------------------------------------------

    def predict(self, name: str, choice: str = SKIP, **options: str) -> None:
        """Note what the reader expects: one of the options, or "skip". ValueError for anything else."""
        if not options:
            raise ValueError(f"predict({name!r}): give the options, as in a='yes', b='no'")
        choice = choice.strip().lower()
        if choice != SKIP and choice not in options:
            raise ValueError(f"predict({name!r}, {choice!r}): choose one of {', '.join(options)}, or {SKIP}")
        self._options[name] = (choice, options)
        marks = {key: "→" if key == choice else " " for key in options}
        lines = [f"{marks[key]} {key})  {text}" for key, text in options.items()]
        last = "You skip this one." if choice == SKIP else f"You say {choice}."
        items = "".join(
            f"<li>{'<b>' * (key == choice)}{key}) {html.escape(text)}{'</b>' * (key == choice)}</li>"
            for key, text in options.items()
        )
        _show(_Shown("\n".join([*lines, last]), f"<ul style='list-style:none'>{items}</ul>{last}"))

    def answer(self, name: str, right: str) -> None:
        """Tell which option was right, beside what was predicted."""
        if name not in self._options:
            raise ValueError(f"answer({name!r}): nothing was predicted under that name")
        choice, options = self._options[name]
        told = {SKIP: "You skipped it.", right: "You said so."}.get(
            choice, f"You said {choice}) {options.get(choice)}."
        )
        text = f"It is {right}) {options[right]}. {told}"
        _show(_Shown(text, html.escape(text)))

    # --- judging ------------------------------------------------------------------------------------------------------

    def claim(self, text: str, condition: bool | Callable[[], bool], detail: object = "") -> None:
        """State something, and whether it is so. `detail` shows the numbers behind it."""
        holds = bool(condition() if callable(condition) else condition)
        self._claims.append((text, holds))
        verdict = "HOLDS" if holds else "DOES NOT HOLD"
        beside = f"<br><small>{html.escape(str(detail))}</small>" if detail != "" else ""
        _show(_Shown(f"{verdict}  {text}", f"<b>{verdict}</b> &nbsp;{html.escape(text)}{beside}"))

    # --- measuring ----------------------------------------------------------------------------------------------------

    @property
    def machine(self) -> Machine:
        """What this runs on."""
        return Machine.here()

    def measure(self) -> Measurement:
        """Seconds since the first cell, and the memory of the kernel and its child processes now."""
        found = measure(time.monotonic() - self._started)
        self._measured.append(found)
        return found

    # --- closing ------------------------------------------------------------------------------------------------------

    def watch(self, thing: T) -> T:
        """Own a cluster, a client or a Spark session: `finish` closes it. What was watched last is closed first."""
        _closer(thing)
        self._watched.append(thing)
        return thing

    def finish(self, *, killed: Iterable[int] = ()) -> None:
        """Close everything; LessonError if something is not as it should be. `killed` are the nodes that are meant to
        be dead by now."""
        problems = [f"this does not hold: {text}" for text, holds in self._claims if not holds]
        if not self._claims:
            problems.append("nothing was claimed")
        problems += self._dead_nodes(set(killed))
        problems += self._close_all()
        threading.excepthook = self._hook
        problems += self._crashes
        if not problems:
            problems += self._left_behind()
        if problems:
            raise LessonError("; ".join(problems))
        count = len(self._claims)
        text = f"{count} claim{'s' * (count != 1)} checked, everything is closed, nothing was left behind."
        _show(_Shown(text, text))

    def _dead_nodes(self, killed: set[int]) -> list[str]:
        """Nodes that do not run though nobody wanted that: whether they failed loudly or just ended."""
        found = []
        for thing in self._watched:
            dead = set(getattr(thing, "node_ids", ())) - set(getattr(thing, "alive", ())) - killed
            found += [f"node {node_id} does not run any more" for node_id in sorted(dead)]
        return found

    def _close_all(self) -> list[str]:
        problems = []
        while self._watched:
            thing = self._watched.pop()
            try:
                _closer(thing)()
            except Exception as error:
                problems.append(f"{type(error).__name__}: {error}")
        return problems

    def _left_behind(self) -> list[str]:
        """What is there now and was not at the start; threads and sockets are given a moment to end."""
        deadline = time.monotonic() + _PATIENCE_S
        while (found := Resources.now().beyond(self._before)) and time.monotonic() < deadline:
            time.sleep(0.05)
        return found

    def __enter__(self) -> "Lesson":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.finish()
        else:
            self._close_all()
            threading.excepthook = self._hook


def _closer(thing: Any) -> Callable[[], object]:
    """How a thing is closed."""
    if type(thing).__module__.partition(".")[0] == "pyspark":
        from pykraft.spark import stop  # ends the JVM too

        return stop
    for name in ("close", "stop"):
        method = getattr(thing, name, None)
        if callable(method):
            return method  # type: ignore[no-any-return]
    raise TypeError(f"a {type(thing).__name__} cannot be watched: it has neither close() nor stop()")


def _show(shown: _Shown) -> None:
    """In a notebook as an output of its own, elsewhere as a line."""
    ipython = sys.modules.get("IPython")
    if ipython is not None and ipython.get_ipython() is not None:
        ipython.display.display(shown)
    else:
        print(shown)  # noqa: T201
