"""A question with buttons: the reader guesses before the run, and reads a sentence about that guess after it.

::

    nb.predict(
        "loss",
        none=("none: all are read back", "Each was on two in-sync replicas before the producer heard of it."),
        last=("the last few", "They would be lost with acks=1: the leader alone has them."),
        all=("all since the leader died", "The producer sends them again; only the offsets differ."),
    )
    ...
    nb.answer("loss", "none" if not lost else "last")

Each option has a key, its text, and a sentence that says why it is right or what it overlooks. The author writes the
expected option first; the page draws their order from the notebook's seed and calls them a, b, c, d. So b is not always
right, and all readers in a room see the same letters.

A reader gets buttons. A guess is kept in the reader's progress file: it is there again when the cell runs again, in the
next kernel and on the next day, until the reader chooses another option. A click leads on (`lead_on`), so that the next
Shift+Enter runs the cell below and does not ask again. The answer says what was guessed and what happened: it appears
under the cell that settles the question, and under the buttons, where a late guess is answered too.

A headless run gets the options as a list, and the answer folded: that is what a notebook is committed with.
"""

import html
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, NamedTuple

from pykraft.course.asking.lead_on import lead_on, run_to
from pykraft.surroundings import Shown, is_headless, is_notebook, show

LETTERS = "abcdefgh"
AGAIN = "To choose another one, run this cell again."


class Option(NamedTuple):
    """One possible answer, by the letter that the page gives it."""

    letter: str
    key: str
    text: str
    sentence: str


def in_drawn_order(options: Mapping[str, tuple[str, str]], chance: Random) -> tuple[Option, ...]:
    """The options as the page shows them: shuffled, and lettered in their new order."""
    keys = list(options)
    chance.shuffle(keys)
    return tuple(Option(letter, key, *options[key]) for letter, key in zip(LETTERS, keys, strict=False))


def in_written_order(options: Mapping[str, tuple[str, str]]) -> tuple[Option, ...]:
    """The options as their file has them; there the keys are the letters."""
    return tuple(Option(key, key, *option) for key, option in options.items())


def folded(answer: str, is_measured: bool = False) -> Shown:
    """An answer where no reader has guessed: on GitHub it opens at a click, in a terminal it is a line. What differs
    from run to run has no place in the line."""
    line = "The answer is on the page: it was measured." if is_measured else f"Answer: {answer}"
    return Shown(line, f"<details><summary>Answer</summary>{html.escape(answer)}</details>")


class Question:
    """One prediction of one reader: the options, the guess, and what turned out."""

    def __init__(
        self,
        options: tuple[Option, ...],
        on_judged: Callable[[bool], None],
        asked: str = "",
        *,
        name: str = "",
        guess: str = "",
        on_guess: Callable[[Option], None] = lambda option: None,
        may_lead_on: Callable[[], bool] = lambda: True,
    ) -> None:
        """`on_judged` is called when guess and outcome are both known, with whether they are the same. `asked` is the
        question in words, if the page is to show it above the options; `name` is its name in the cells. `guess` is the
        text of an option that was chosen earlier. `on_guess` is called when one is chosen, and after it `may_lead_on`,
        which says whether the page may lead on to the next cell."""
        self.options = options
        self.asked = asked
        self.name = name
        self.guess = next((option for option in options if option.text == guess), None)
        self.right: Option | None = None
        self._on_judged = on_judged
        self._on_guess = on_guess
        self._may_lead_on = may_lead_on
        self._buttons: _Buttons | None = None

    def option(self, name: str) -> Option | None:
        """The option with this letter or key."""
        return next((option for option in self.options if name in (option.key, option.letter)), None)

    def show(self) -> None:
        """Put the question on the page."""
        if is_notebook() and not is_headless():
            self._buttons = _Buttons(self)
            show(self._buttons.widget)
            return
        lines = [self.asked] if self.asked else []
        lines += [f"{option.letter})  {option.text}" for option in self.options]
        items = "".join(f"<li>{option.letter}) {html.escape(option.text)}</li>" for option in self.options)
        show(Shown("\n".join(lines), f"{self.heading}<ul style='list-style:none'>{items}</ul>"))

    @property
    def heading(self) -> str:
        """The question as a line of a page; empty if it has none."""
        return f"<b>{html.escape(self.asked)}</b>" if self.asked else ""

    def choose(self, option: Option) -> None:
        """The reader guesses. After the answer it is too late to change one's mind, but not to guess."""
        if self.guess is None or self.right is None:
            self.guess = option
            self._on_guess(option)
            self._judge(leads_on=self.right is None and self._may_lead_on())

    def settle(self, right: Option, is_measured: bool = False) -> None:
        """What turned out. A guess is answered here as well: its buttons may have left the screen by now."""
        self.right = right
        self._judge()
        if is_headless():
            show(folded(f"{right.letter}) {right.text}. {right.sentence}".strip(), is_measured))
        elif self.verdict:
            show(Shown(self.verdict, html.escape(self.verdict)))

    def _judge(self, leads_on: bool = False) -> None:
        if self.guess is not None and self.right is not None:
            self._on_judged(self.guess == self.right)
        if self._buttons is not None:
            self._buttons.refresh(leads_on)

    @property
    def verdict(self) -> str:
        """The guess, its sentence, and the right option with its own; nothing unless both are known."""
        if self.guess is None or self.right is None:
            return ""
        if self.guess == self.right:
            return f"✔ {self.guess.letter}) is right. {self.guess.sentence}".strip()
        return (
            f"✘ You said {self.guess.letter}): {self.guess.sentence} "
            f"It is {self.right.letter}) {self.right.text}. {self.right.sentence}"
        ).strip()


class _Buttons:
    """The question as widgets: a button for each letter with the option's text beside it, and a line below."""

    def __init__(self, question: Question) -> None:
        from ipywidgets import HTML, Button, HBox, Layout, VBox

        self._question = question
        self.buttons = []
        rows = []
        for option in question.options:
            button: Any = Button(tooltip=option.text, layout=Layout(width="4em", flex="none"))
            button.on_click(lambda _, option=option: question.choose(option))
            self.buttons.append(button)
            rows.append(HBox([button, HTML(html.escape(option.text))]))  # a button would cut a long text
        self._line: Any = HTML()
        heading = [HTML(question.heading)] if question.asked else []
        self.widget = VBox([*heading, *rows, self._line])
        self.refresh()

    def refresh(self, leads_on: bool = False) -> None:
        """Mark the guess by a sign and a word, not by colour alone."""
        guess, right = self._question.guess, self._question.right
        for option, button in zip(self._question.options, self.buttons, strict=True):
            button.description = f"→ {option.letter}" if option == guess else option.letter
            button.button_style = "primary" if option == guess else ""
            button.disabled = guess is not None and right is not None
        if self._question.verdict:
            line = f"{self._question.verdict} {AGAIN}"
        elif right is not None:
            line = "This has run already; you can still guess."
        elif guess is not None:
            line = f"You say {guess.letter}). Run on to see."
        else:
            line = "What do you expect? Choose, then run on."
        is_waiting = guess is not None and right is None and self._question.name
        way = f" &nbsp; {run_to(self._question.name)}" if is_waiting else ""
        self._line.value = html.escape(line) + way + (lead_on() if leads_on else "")
