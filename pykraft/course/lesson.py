"""A notebook's helper: it asks, it judges, and in the end it cleans up and counts.

The reader predicts (`predict`), sees what happened, and compares (`answer`). A guess is kept until the reader changes
it, also when its cell runs again or the kernel starts again. What the text says is not left standing as text: each
claim is a condition over what was measured a moment ago (`claim`), and its verdict is printed. The words of a verdict
never change, so a test can compare them; the numbers behind it are shown beside them, in a form that is not compared,
unless the claim does not hold: then they are what one wants to know. There are three kinds of claims, for not
everything can be known equally well:

* an *invariant* is a law: an order, a hash, a high watermark. It HOLDS or DOES NOT HOLD, everywhere and always;
* a *statistical* claim compares two measurements by their ratio. The ratio must reach a margin, 1.5 if nothing else is
  said, in the best of three attempts: what is closer than that, this machine cannot tell from chance;
* a *hardware* claim is about this machine, and often about folklore. Both verdicts are results. It says on which
  machines it fails, and why. A notebook has one at most.

Where the kernel's counters show that a claim cannot be measured, it is NOT MEASURABLE HERE, with the reason.

An error in a background thread does not fail the cell that runs meanwhile. So the last cell is `finish`: it closes what
the lesson has to `watch`, and raises if a claim of the first two kinds did not hold, if a node or a thread has died, or
if threads, connections, child processes or files are left that were not there at the beginning.

A reader runs a cell again, to see it once more or by mistake. Then what the cell said and opened the last time is taken
back: its claims count no more, what it watched is closed, and a `fresh_topic` is fresh again.
"""

import gc
import html
import textwrap
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from pykraft.client.administration.admin import NewTopic, UnknownTopicError
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.course.asking.picture_guess import PictureGuess
from pykraft.course.asking.question_file import asked, is_measured, questions, right_letter, scales
from pykraft.course.asking.questions import Option, Question, in_drawn_order, in_written_order
from pykraft.course.kernel import Obstacle
from pykraft.course.machine import Machine, Measurement, measure
from pykraft.course.progress import guesses, note
from pykraft.course.resources import Resources
from pykraft.course.shown_source import shown_source
from pykraft.course.syllabus import SEED, entry
from pykraft.surroundings import Shown, Told, current_cell, is_headless, pick, profile, show

if TYPE_CHECKING:
    from pykraft.cluster import Cluster

T = TypeVar("T")
SKIP = "skip"
INVARIANT, STATISTICAL, HARDWARE = "invariant", "statistical", "hardware"
HOLDS, FAILS, UNKNOWN = "HOLDS", "DOES NOT HOLD", "NOT MEASURABLE HERE"
MARGIN = 1.5
ATTEMPTS = 3
COLUMNS = 100
"""Of a verdict in a terminal; on a page it is as wide as the page."""
_WRAPS = "white-space:normal;overflow-wrap:anywhere"
_PATIENCE_S = 15.0
_CLOSED = "everything is closed, nothing was left behind"


class LessonError(Told, AssertionError):
    """What the last cell found: a claim that does not hold, or something that died or was left behind."""


class WrongPrediction(Told, ValueError):  # noqa: N818 (not its content is wrong)
    """A prediction that cannot be noted or judged; the text says what to do."""


class Claim(NamedTuple):
    """What was stated, of which kind, and what came out."""

    text: str
    kind: str
    verdict: str


@dataclass
class _Run:
    """One run of a cell: what it has claimed, and what it has opened."""

    number: int
    claims: list[Claim] = field(default_factory=list)
    watched: list[Any] = field(default_factory=list)


_latest: list["Lesson"] = []
"""The lesson that this kernel has begun last, if any."""


def notebook(number: str, form: int = 1) -> "Lesson":
    """The helper of one notebook, such as "00"; call it in the first cell, before anything is started. If you start
    again in the middle, you need no second cluster: it closes what the first run has opened. With `form=2` a notebook
    declares that it has the second form: tests hold it to that, and its predictions must be questions with buttons."""
    known = entry(number)
    while _latest:
        _latest.pop().abandon()
    lesson = Lesson(number, form)
    _latest.append(lesson)
    show(
        Shown(
            f"Notebook {number}: {known.title} Seed {lesson.seed}.",
            f"<b>Notebook {number}</b>: {html.escape(known.title)} <small>Seed {lesson.seed}.</small>",
        )
    )
    return lesson


class Lesson:
    """One run of one notebook."""

    def __init__(self, number: str, form: int = 1) -> None:
        self.number = number
        self.form = form
        self.seed = SEED
        """What all chance in the course begins with."""
        self._started = time.monotonic()
        self._options: dict[str, tuple[str, dict[str, str]]] = {}
        self._questions: dict[str, Question] = {}
        self._marks: dict[str, PictureGuess] = {}
        self._cells: dict[str, int] = {}
        """The name of a question -> the run of a cell that has asked it."""
        self._runs: dict[str, _Run] = {}
        """The text of a cell -> its last run."""
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

    def predict(self, name: str, choice: str = SKIP, **options: str | tuple[str, str]) -> None:
        """Note what the reader expects: one of the options, or "skip". In a headless run everything is skipped. Without
        options they are those of the notebook's file (`question_file`), in its order. Options with a sentence each, as
        in ``yes=("it does", "Each replica has it.")``, are a `Question` with buttons; `choice` may be its letter or its
        key. WrongPrediction for anything that is no option."""
        if not options and (written := questions(self.number).get(name)):
            self._ask(name, choice, in_written_order(written))
            return
        if not options:
            raise WrongPrediction(f"predict({name!r}): give the options, as in a='yes', b='no'")
        choice = str(choice).strip().lower()
        asked = {key: option for key, option in options.items() if isinstance(option, tuple)}
        if asked and len(asked) == len(options):
            self._ask(name, choice, in_drawn_order(asked, self.random(f"options of {name}")))
            return
        if self.form > 1:
            raise WrongPrediction(f"predict({name!r}): each option needs a sentence, as in yes=('it does', 'Because.')")
        texts = {key: option if isinstance(option, str) else option[0] for key, option in options.items()}
        if choice != SKIP and choice not in texts:
            raise WrongPrediction(f"predict({name!r}, {choice!r}): choose one of {', '.join(texts)}, or {SKIP}")
        choice = SKIP if is_headless() else choice
        self._questions.pop(name, None)
        self._options[name] = (choice, texts)
        marks = {key: "→" if key == choice else " " for key in texts}
        lines = [f"{marks[key]} {key})  {text}" for key, text in texts.items()]
        last = "You skip this one." if choice == SKIP else f"You say {choice}."
        items = "".join(
            f"<li>{'<b>' * (key == choice)}{key}) {html.escape(text)}{'</b>' * (key == choice)}</li>"
            for key, text in texts.items()
        )
        show(Shown("\n".join([*lines, last]), f"<ul style='list-style:none'>{items}</ul>{last}"))

    def _ask(self, name: str, choice: str, drawn: tuple[Option, ...]) -> None:
        """A question with buttons. A guess that was made earlier is chosen already."""
        cell = self._cells[name] = current_cell()[1]
        question = self._questions[name] = Question(
            drawn,
            lambda is_right: self._note_prediction(name, is_right),
            asked(self.number, name),
            name=name,
            guess="" if is_headless() else guesses(self.number).get(name, ""),
            on_guess=lambda option: note("notebooks", self.number, guesses={name: option.text}),
            may_lead_on=lambda: self._all_guessed_in(cell),
        )
        chosen = question.option(choice)
        if choice != SKIP and chosen is None:
            letters = ", ".join(option.letter for option in drawn)
            raise WrongPrediction(f"predict({name!r}, {choice!r}): choose one of {letters}, or {SKIP}")
        if chosen is not None and not is_headless():
            question.choose(chosen)
        question.show()

    def _all_guessed_in(self, cell: int) -> bool:
        """Whether a run of a cell has no question left to be guessed."""
        return all(self._questions[name].guess for name, asker in self._cells.items() if asker == cell)

    def mark(self, name: str, known: Mapping[str, float] | None = None) -> None:
        """Ask for a number on a picture: its words and its scale are in the notebook's file of questions. `known` are
        the bars that are drawn above it. WrongPrediction if the file has no such question."""
        scale = scales(self.number).get(name)
        if scale is None:
            raise WrongPrediction(f"mark({name!r}): the notebook's file of questions has no scale of this name")
        kept = "" if is_headless() else guesses(self.number).get(name, "")
        question = self._marks[name] = PictureGuess(
            scale,
            known or {},
            guess=float(kept) if kept else None,
            on_guess=lambda value: note("notebooks", self.number, guesses={name: f"{value:g}"}),
            on_judged=lambda is_right: self._note_prediction(name, is_right),
        )
        question.show()

    def _note_prediction(self, name: str, is_right: bool) -> None:
        note("notebooks", self.number, predictions={name: "right" if is_right else "wrong"})

    def answer(self, name: str, right: str | float | None = None) -> None:
        """Tell which option was right, beside what was predicted. The notebook's file says which; where the machine
        decides, and on a picture, `right` is what was measured. Of a question in the cell itself it is the key or the
        letter. For a reader without a guess nothing is shown, so that it can still be made. WrongPrediction if nothing
        was asked."""
        if name in self._marks and isinstance(right, int | float):
            self._marks[name].settle(right)
            return
        if name in self._questions:
            measured = is_measured(self.number, name)
            letter = right if isinstance(right, str) else right_letter(self.number, name, right)
            outcome = self._questions[name].option(letter or "")
            if outcome is None:
                keys = ", ".join(option.key for option in self._questions[name].options)
                raise WrongPrediction(f"answer({name!r}, {right!r}): the options are {keys}")
            self._questions[name].settle(outcome, measured)
            return
        if name not in self._options or not isinstance(right, str):
            raise WrongPrediction(f"answer({name!r}): nothing was predicted under that name: run the cell that asks")
        choice, options = self._options[name]
        guessed = {SKIP: "You skipped it.", right: "You said so."}.get(
            choice, f"You said {choice}) {options.get(choice)}."
        )
        text = f"It is {right}) {options[right]}. {guessed}"
        show(Shown(text, html.escape(text)))
        if choice != SKIP:
            self._note_prediction(name, choice == right)

    # --- judging ------------------------------------------------------------------------------------------------------

    def claim(
        self,
        text: str,
        condition: bool | Callable[[], bool | float],
        detail: object = "",
        *,
        kind: str = INVARIANT,
        margin: float = MARGIN,
        fails_on: str = "",
        unless: Obstacle | None = None,
    ) -> None:
        """State something, and whether it is so. `detail` shows the numbers behind it.

        The condition is True or False, or a function that returns one of the two. For a statistical claim it is a
        function that measures a ratio, which must reach `margin`. A claim about hardware says in `fails_on` on which
        machines it fails, and why: "flash memory: no arm has to move". `unless` is what keeps a claim from being
        measured, with the kernel's counters; a function is not called then.
        """
        _check_claim(kind, condition, fails_on, unless)
        if unless is not None:
            verdict, detail = UNKNOWN, unless
        elif kind == STATISTICAL:
            holds, ratio, attempt = _best(condition, margin)
            verdict = HOLDS if holds else FAILS
            numbers = (
                f"{ratio:.2f} times; {margin:g} times are asked for, in {ATTEMPTS} attempts; this was number {attempt}"
            )
            detail = f"{detail}; {numbers}" if detail != "" else numbers
        else:
            verdict = HOLDS if _truth(condition) else FAILS
        self._run().claims.append(Claim(text, kind, verdict))
        said = [str(detail)] * (detail != "") + [f"It fails on {fails_on}."] * (fails_on != "")
        beside = f"<br><small>{html.escape(' '.join(said))}</small>" if said else ""
        is_told = detail != "" and (verdict == UNKNOWN or (verdict == FAILS and kind != HARDWARE))
        plain = f"{verdict}  {text}" + (f" ({detail})" if is_told else "")
        page = f"<b>{verdict}</b> &nbsp;{html.escape(text)}{beside}"
        show(Shown(_in_lines(plain, len(verdict) + 2), f'<div style="{_WRAPS}">{page}</div>'))

    @property
    def claims(self) -> tuple[Claim, ...]:
        """What was claimed so far."""
        return tuple(claim for run in self._runs.values() for claim in run.claims)

    # --- cells that run again -----------------------------------------------------------------------------------------

    def _run(self) -> _Run:
        """This run of the cell that runs now. What an earlier one has claimed and opened is taken back first."""
        cell, number = current_cell()
        earlier = self._runs.get(cell)
        if earlier is not None and earlier.number == number:
            return earlier
        if earlier is not None:
            del self._runs[cell]  # its place is behind those that have run since
            for problem in _closed(earlier):
                show(Shown(f"From the last time this cell ran: {problem}"))
        run = self._runs[cell] = _Run(number)
        return run

    @staticmethod
    def fresh_topic(cluster: "Cluster", topic: NewTopic | str) -> None:
        """Create the topic (by its name alone: with one partition) and wait until its brokers know it. If there is one
        of its name, that one is deleted: this cell has run before, or the controller changed while it was made, so that
        the first attempt made it and the second one was answered."""
        wanted = NewTopic(topic, 1, min(3, len(cluster.broker_ids))) if isinstance(topic, str) else topic
        with cluster.admin() as admin:
            while True:
                try:
                    admin.create_topics([wanted])
                    break
                except KafkaError as error:
                    if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                        raise
                with suppress(UnknownTopicError):
                    admin.delete_topics([wanted.name])
        cluster.wait_until_known(wanted.name, max(1, wanted.num_partitions))

    # --- showing ------------------------------------------------------------------------------------------------------

    def source(self, thing: object, docstring: bool = True) -> None:
        """Show the real code of a function, a method or a class."""
        show(shown_source(thing, docstring))

    # --- size and chance ----------------------------------------------------------------------------------------------

    @property
    def profile(self) -> str:
        """ "small" on Binder and in tests, else "full"; the environment variable PYKRAFT_PROFILE decides."""
        return profile()

    def pick(self, small: T, full: T) -> T:
        """One of the two, by the profile."""
        return pick(small, full)

    def random(self, name: str) -> Random:
        """A generator of chance: the same one in every run, another one for every name."""
        return Random(f"{self.seed}/{self.number}/{name}")

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
        for run in self._runs.values():
            run.watched = [other for other in run.watched if other is not thing]
        self._run().watched.append(thing)
        return thing

    def finish(self, *, killed: Iterable[int] = ()) -> None:
        """Close everything; LessonError if something is not as it should be. `killed` are the nodes that are meant to
        be dead by now."""
        problems = [
            f"this does not hold: {claim.text}"
            for claim in self.claims
            if claim.verdict == FAILS and claim.kind != HARDWARE
        ]
        if not self.claims:
            problems.append("nothing was claimed")
        problems += self._dead_nodes(set(killed))
        problems += self._close_all()
        threading.excepthook = self._hook
        problems += self._crashes
        if not problems:
            problems += self._left_behind()
        if problems:
            raise LessonError("; ".join(problems))
        count = len(self.claims)
        text = f"{count} claim{'s' * (count != 1)} checked, {_CLOSED}."
        show(Shown(text, text))
        note("notebooks", self.number, finished=time.strftime("%Y-%m-%d %H:%M"))

    def _dead_nodes(self, killed: set[int]) -> list[str]:
        """Nodes that ended without a kill or a stop, with an error or without."""
        found = []
        for thing in (thing for run in self._runs.values() for thing in run.watched):
            dead = set(getattr(thing, "node_ids", ())) - set(getattr(thing, "alive", ())) - killed
            found += [
                f"node {node_id} does not run any more (if you have killed it: nb.finish(killed=[{node_id}]))"
                for node_id in sorted(dead)
            ]
        return found

    def _close_all(self) -> list[str]:
        """Close what is open, the youngest first; what went wrong."""
        return [problem for run in reversed(self._runs.values()) for problem in _closed(run)]

    def abandon(self) -> None:
        """Close what is open, and judge nothing."""
        self._close_all()
        if threading.excepthook == self._note_crash:
            threading.excepthook = self._hook

    def _left_behind(self) -> list[str]:
        """What is there now and was not at the start; threads and sockets are given a moment to end."""
        gc.collect()  # an error that was caught may hold on to itself, and to what its cell had in hand
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
            self.abandon()


def _closed(run: _Run) -> list[str]:
    """Close what a run has opened, the youngest first; what went wrong."""
    problems = []
    while run.watched:
        try:
            _closer(run.watched.pop())()
        except Exception as error:
            problems.append(f"{type(error).__name__}: {error}")
    return problems


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


def _in_lines(verdict: str, indent: int) -> str:
    """A verdict in lines of at most `COLUMNS`; the second and later ones begin under the words of the claim."""
    return textwrap.fill(verdict, COLUMNS, subsequent_indent=" " * indent, break_on_hyphens=False)


def _check_claim(kind: str, condition: object, fails_on: str, unless: object) -> None:
    """ValueError or TypeError, in one sentence, for a claim that cannot be judged."""
    if kind not in (INVARIANT, STATISTICAL, HARDWARE):
        raise ValueError(f"kind={kind!r}: a claim is {INVARIANT}, {STATISTICAL} or about {HARDWARE}")
    if kind == STATISTICAL and not callable(condition):
        raise TypeError("a statistical claim needs a function that measures a ratio, since it may be called again")
    if (kind == HARDWARE) != bool(fails_on):
        raise ValueError("a claim about hardware, and no other, says where and why it fails: fails_on='flash: no arm'")
    if unless is not None and not isinstance(unless, Obstacle):
        raise TypeError("unless= takes an Obstacle, a reason with the kernel's counters: see pykraft.course.kernel")


def _truth(condition: object) -> bool:
    """TypeError for what is neither true nor false: a list, a text, or a generator would nearly always hold."""
    found = condition() if callable(condition) else condition
    if type(found).__name__ not in ("bool", "bool_"):  # Python's own, or numpy's
        raise TypeError(f"a claim takes True or False, and not a {type(found).__name__}: compare it with something")
    return bool(found)


def _best(ratio: Any, margin: float) -> tuple[bool, float, int]:
    """Whether one of the attempts reached the margin, the largest ratio, and how many attempts there were."""
    largest = float("-inf")
    for attempt in range(1, ATTEMPTS + 1):
        largest = max(largest, float(ratio()))
        if largest >= margin:
            return True, largest, attempt
    return False, largest, ATTEMPTS
