"""The reader's desk: buttons for every step of the game, and the code that runs, to be accused and mended.

`accuse` shows the files: choose one, a function in it, and the line. `mend` has the function as text, to be changed and
tried. `desk` has both, and everything before them, for any of the ten cases. Without a page, or without a reader in
front of it, the game solves itself in a few seeds, and says so without showing the line.
"""

import html
from collections.abc import Callable
from typing import Any

from pykraft.course.lessons.find_the_bug.cases import CASES
from pykraft.course.lessons.find_the_bug.certificate import certificate
from pykraft.course.lessons.find_the_bug.code import SUSPECTS, numbered, short
from pykraft.course.lessons.find_the_bug.game import HINT_COSTS, SEEDS, Game, GameError
from pykraft.course.lessons.find_the_bug.replay import play, tell
from pykraft.course.lessons.find_the_bug.score import board_of, note_points, noted_points
from pykraft.sim.bugs.rewriting import functions_of
from pykraft.sim.laws.names import LAWS
from pykraft.surroundings import Shown, is_headless, is_notebook

HEADLESS_SEEDS = 1
_MONO = "font-family:var(--jp-code-font-family,monospace);font-size:13px"


def accuse(game: Game) -> object:
    """Choose the line that is wrong. Each wrong guess costs points."""
    if is_headless() or not is_notebook():
        game.solve(HEADLESS_SEEDS)
        return Shown(f"{len(SUSPECTS)} files to choose from. The wrong line was named at the first attempt.")
    return _Accusation(game).widget


def mend(game: Game) -> object:
    """Change the function, and try it in a hundred seeds. Each patch that breaks a law costs points."""
    if is_headless() or not is_notebook():
        return Shown(str(game.verdict))
    return _Mending(game).widget


def desk(number: int = 1) -> object:
    """All steps of a case, with buttons; without a page the board of points."""
    if is_headless() or not is_notebook():
        return board_of(noted_points())
    return _Desk(number).widget


class _Line:
    """A line that says what came of the last click, and how far a long run is."""

    def __init__(self, game: Game) -> None:
        import ipywidgets

        self.game = game
        self.widget: Any = ipywidgets.HTML()

    def say(self, words: str, is_bad: bool = False) -> None:
        sign = "✘ " if is_bad else ""
        points = f" &nbsp; <b>{self.game.points} points</b>"
        self.widget.value = f"<div style='line-height:1.4'>{sign}{html.escape(words)}{points}</div>"

    def doing(self, verb: str) -> None:
        """Tell from now on how far the game is."""

        def tell_progress(done: int, of: int, words: str) -> None:
            share = f" of {of}" if of else ""
            self.say(f"{verb}: {done}{share} · {words}")

        self.game.on_progress = tell_progress
        self.say(f"{verb} …")

    def guarded(self, click: Callable[[], None]) -> None:
        """Do it, and say what is wrong if it cannot be done."""
        try:
            click()
        except GameError as reason:
            self.say(f"{str(reason)[:1].upper()}{str(reason)[1:]}.", is_bad=True)


def _button(words: str, on_click: Callable[[], None], line: _Line, style: str = "", tooltip: str = "") -> Any:
    import ipywidgets

    button: Any = ipywidgets.Button(
        description=words, button_style=style, tooltip=tooltip, layout=ipywidgets.Layout(width="auto")
    )

    def clicked(_: object) -> None:
        button.disabled = True
        try:
            line.guarded(on_click)
        finally:
            button.disabled = False

    button.on_click(clicked)
    return button


class _Accusation:
    """Two menus and a list of lines."""

    def __init__(self, game: Game, line: _Line | None = None, on_named: Callable[[], None] = lambda: None) -> None:
        from ipywidgets import Dropdown, HBox, Layout, Select, VBox

        self._game, self._on_named = game, on_named
        self.line = line or _Line(game)
        wide = Layout(width="98%")
        files = [(f"{short(module)}: {what}", module) for module, what in SUSPECTS.items()]
        self.file: Any = Dropdown(options=files, layout=wide)
        self.function: Any = Dropdown(layout=wide)
        self.lines: Any = Select(rows=18, layout=Layout(width="98%", height="360px"))
        self.lines.add_class("pykraft-code")
        self.file.observe(lambda _: self._show_functions(), "value")
        self.function.observe(lambda _: self._show_lines(), "value")
        self.button = _button("This line is wrong", self._name, self.line, "danger")
        parts = [_style(), self.file, self.function, self.lines, HBox([self.button]), self.line.widget]
        self.widget = VBox(parts)
        self._show_functions()
        if line is None:
            self.line.say("Choose a file, a function and a line. What you see is the code that runs.")

    def _show_functions(self) -> None:
        names = list(functions_of(self.file.value))
        self.function.options = names
        self.function.value = names[0]
        self._show_lines()

    def _show_lines(self) -> None:
        if self.function.value is None:
            return
        found = numbered(self._game.case.bug, self.file.value, self.function.value)
        self.lines.options = [(f"{number:4}  {text}".replace(" ", "\u00a0"), number) for number, text in found]
        self.lines.value = None

    def _name(self) -> None:
        if self.lines.value is None:
            raise GameError("choose a line first")
        if self._game.name(self.file.value, self.lines.value):
            self.line.say(f"✔ Line {self.lines.value} is the wrong one. Now mend it.")
            self._on_named()
        else:
            self.line.say(f"Line {self.lines.value} is as it should be.", is_bad=True)


class _Mending:
    """The function as text, and a button that tries it."""

    def __init__(self, game: Game, line: _Line | None = None, on_solved: Callable[[], None] = lambda: None) -> None:
        from ipywidgets import HBox, Layout, Textarea, VBox

        self._game, self._on_solved = game, on_solved
        self.line = line or _Line(game)
        self.text: Any = Textarea(layout=Layout(width="98%", height="300px"))
        self.text.add_class("pykraft-code")
        self.text.placeholder = "The function appears here once you have named its wrong line."
        self._load = _button("Show the function", self.load, self.line)
        self.button = _button(f"Try it in {SEEDS} seeds", self._try, self.line, "success")
        self.widget = VBox([_style(), self.text, HBox([self._load, self.button]), self.line.widget])
        if game.is_named:
            self.load()

    def load(self) -> None:
        self.text.value = self._game.text
        self.line.say("Change the function, then try it.")

    def _try(self) -> None:
        self._game.function  # noqa: B018 (GameError if the line is not named)
        if not self.text.value.strip():
            self.load()
            return
        self.line.doing("trying your patch")
        verdict = self._game.rewrite(self.text.value)
        if verdict.holds:
            note_points(self._game)
            self.line.say(f"✔ {verdict}")
            self._on_solved()
        else:
            self.line.say(str(verdict), is_bad=True)


class _Desk:
    """One case after the other."""

    def __init__(self, number: int) -> None:
        from ipywidgets import HTML, Dropdown, HBox, Layout, VBox

        titles = [(f"{case.number}  {case.title} ({case.difficulty})", case.number) for case in CASES.values()]
        self.choice: Any = Dropdown(options=titles, value=number, layout=Layout(width="420px"))
        self.choice.observe(lambda change: self._begin(change["new"]), "value")
        self.board: Any = HTML()
        self._body: Any = VBox()
        self._hbox, self._vbox, self._html = HBox, VBox, HTML
        self.widget = VBox([self.board, self.choice, self._body])
        self._begin(number)

    def _begin(self, number: int) -> None:
        self.game = game = Game(number)
        self.line = line = _Line(game)
        self._said: Any = self._html()
        self._hints: Any = self._html()
        self._certificate: Any = self._html()
        self._stage: Any = self._vbox()
        self._mending = _Mending(game, line, self._certify)
        self._accusation = _Accusation(game, line, self._mending.load)
        steps = self._hbox(
            [
                _button("1 Search seeds", self._search, line, "primary"),
                _button("2 Shrink", self._shrink, line),
                _button("3 Play", self._play, line),
                _button("4 Tell", self._tell, line),
                _button("Hint", self._hint, line, tooltip="costs " + ", ".join(map(str, HINT_COSTS))),
            ]
        )
        accuse_here = self._html("<b>5 Which line is wrong?</b>")
        mend_here = self._html(f"<b>6 Mend it: {SEEDS} seeds must pass</b>")
        parts = [self._accusation.widget, mend_here, self._mending.widget]
        above = [steps, line.widget, self._hints, self._said, self._stage]
        self._body.children = [*above, accuse_here, *parts, self._certificate]
        self.board.value = board_of(noted_points()).svg
        line.say("One line is wrong. Search seeds until a law breaks.")

    def _search(self) -> None:
        self.line.doing("searching")
        found = self.game.search()
        self._said.value = (
            f"<p><b>The law {html.escape(found.law)} is broken</b>: {html.escape(LAWS.get(found.law, ''))}.<br>"
            f"{html.escape(found.words)}</p>"
        )
        self.line.say(f"Seed {found.seed} breaks it in event {found.step:,}; {found.searched} searched.")

    def _shrink(self) -> None:
        self.line.doing("shrinking")
        left_out = ", ".join(self.game.shrink().words())
        self.line.say(f"Not needed: {left_out}." if left_out else "Nothing can be left out.")

    def _play(self) -> None:
        self.line.doing("simulating")
        player: Any = play(self.game)
        self._stage.children = [player.widget]
        self._player = player
        self.line.say("The player opens one second before the first wrong state; it ends there.")

    def _tell(self) -> None:
        self._said.value = f"<pre style='white-space:pre-wrap;{_MONO}'>{html.escape(repr(tell(self.game)))}</pre>"
        self.line.say("The last lines say what arrived in the step that broke the law.")

    def _hint(self) -> None:
        self.game.hint()
        self._hints.value = "".join(f"<div>▸ {html.escape(hint)}</div>" for hint in self.game.hints)
        self.line.say(f"{self.game.hints_left} hints are left.")

    def _certify(self) -> None:
        line = html.escape(certificate(self.game))
        self._certificate.value = (
            f"<p>Your certificate:</p><pre style='white-space:pre-wrap;word-break:break-all'>{line}</pre>"
        )
        self.board.value = board_of(noted_points()).svg


def _style() -> Any:
    import ipywidgets

    return ipywidgets.HTML(
        f"<style>.pykraft-code select,.pykraft-code textarea{{{_MONO};white-space:pre;overflow:auto}}</style>"
    )
