"""The second form of a notebook: the reader types little, sees a picture at once, and guesses before each run.

A notebook declares it in its first code cell, ``nb = notebook("00", form=2)``. Then, besides what `form` asks:

* half of the code cells have at most five lines, nine in ten at most twelve, and there are at most 22. Those that
  only claim are not counted: they are read, and there are at most four. A statement counts as many lines as its text
  fills, so it does not matter how it is broken to fit into a narrow cell;
* at most a fifth of the code lines draw, claim or ask: the rest is what the reader would type;
* a picture is within the first screen;
* each option of a prediction has its sentence, and the right ones are spread over the letters. In a file of questions
  (`question_file`) the right one may go without: the claim after it says why.

Every notebook keeps it: `FIRST_FORM`, the list of those that did not, is empty, and nothing joins it.
"""

import ast
import io
import math
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from random import Random
from statistics import median
from typing import Any

from pykraft import viz
from pykraft.course.asking.question_file import questions, right_letter
from pykraft.course.asking.questions import in_drawn_order
from pykraft.course.syllabus import SEED

FIRST_FORM: tuple[str, ...] = ()
"""Notebooks that do not keep this measure: none is left."""

CODE_CELLS = 22
MEDIAN_LINES, LONG_LINES, LONG_SHARE = 5, 12, 0.1
SHOWING_SHARE = 0.2
SCREEN_LINES = 45
WORDS_IN_A_LINE = 16
COLUMNS = 104
"""Of a notebook's cell in JupyterLab; tests/notebooks/test_claim_lines.py holds the notebooks to it."""
_NO_TEXT = (tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.COMMENT, tokenize.ENDMARKER)
SVG = "image/svg+xml"
_ASKS = ("predict", "answer", "claim")
_DRAWS = frozenset(viz.__all__)


def is_second_form(notebook: Any) -> bool:
    """Whether the notebook declares it."""
    return any(re.search(r"\bnotebook\(.*\bform=2\)", cell.source) for cell in _code(notebook)[:1])


def second_form_problems(notebook: Any, number: str) -> Iterator[str]:
    """All that keeps a notebook from the second form, in words; `number` is the notebook's, which its seed needs."""
    yield from _size_problems(notebook)
    yield from _picture_problems(notebook)
    yield from _question_problems(notebook, number)


def _code(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def _lines(source: str) -> int:
    """The lines that its statements would fill, and its comments."""
    lines, first, count = source.splitlines(), 0, 0
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.NEWLINE:
                words = " ".join(" ".join(lines[(first or token.start[0]) - 1 : token.end[0]]).split())
                count, first = count + math.ceil(len(words) / COLUMNS), 0
            elif token.type == tokenize.COMMENT and not first:
                count += 1
            elif token.type not in _NO_TEXT:
                first = first or token.start[0]
    except (tokenize.TokenError, SyntaxError):  # a magic
        return _written_lines(source)
    return count


def _written_lines(source: str) -> int:
    return sum(bool(line.strip()) for line in source.splitlines())


# --- what the reader types --------------------------------------------------------------------------------------------


def _size_problems(notebook: Any) -> Iterator[str]:
    cells = [cell for cell in _code(notebook) if "nb.claim(" not in cell.source]
    sizes = [_lines(cell.source) for cell in cells]
    if len(cells) > CODE_CELLS:
        yield f"{len(cells)} code cells, more than {CODE_CELLS}"
    if sizes and median(sizes) > MEDIAN_LINES:
        yield f"half of the code cells have more than {MEDIAN_LINES} lines: the median is {median(sizes):g}"
    long = [size for size in sizes if size > LONG_LINES]
    if len(long) > LONG_SHARE * len(sizes):
        yield f"more than one code cell in ten has over {LONG_LINES} lines: {long}"
    showing, written = (sum(count(cell.source) for cell in cells) for count in (_showing_lines, _written_lines))
    if showing > SHOWING_SHARE * written:
        yield f"{showing} of {written} code lines draw, claim or ask, more than a fifth"


def _showing_lines(source: str) -> int:
    """The lines of statements that draw, claim or ask."""
    lines = source.splitlines()
    return sum(
        _lines("\n".join(lines[statement.lineno - 1 : statement.end_lineno]))
        for statement in _statements(source)
        if _shows(statement)
    )


def _statements(source: str) -> list[ast.stmt]:
    try:
        return ast.parse(source).body
    except SyntaxError:
        return []  # a magic


def _shows(statement: ast.stmt) -> bool:
    """Whether a statement is a call of a drawing function or of one that asks."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call):
        return False
    function = call.func
    if isinstance(function, ast.Attribute):
        return isinstance(function.value, ast.Name) and (function.value.id, function.attr) in {
            ("nb", name) for name in _ASKS
        }
    return isinstance(function, ast.Name) and function.id in _DRAWS


# --- what the reader sees ---------------------------------------------------------------------------------------------


def _picture_problems(notebook: Any) -> Iterator[str]:
    height = 0
    for cell in notebook.cells:
        height += _height(cell)
        if any(SVG in output.get("data", {}) for output in cell.get("outputs", ())):
            if height > SCREEN_LINES:
                yield f"the first picture comes after {height} lines, and a screen has {SCREEN_LINES}"
            return
    yield "there is no picture"


def _height(cell: Any) -> int:
    """About how many lines of a screen a cell takes, without its pictures."""
    if cell.cell_type == "code":
        texts = [output.get("text", "") or output.get("data", {}).get("text/plain", "") for output in cell.outputs]
        shown = [text for text, output in zip(texts, cell.outputs, strict=True) if SVG not in output.get("data", {})]
        return 1 + len(cell.source.splitlines()) + sum(len(text.splitlines()) for text in shown)
    blocks = [block for block in re.split(r"\n\s*\n|\n(?=[-*\d])", cell.source) if block.strip()]
    return sum(math.ceil(len(block.split()) / WORDS_IN_A_LINE) + (1 if block[0] != "#" else 2) for block in blocks)


# --- what the reader is asked -----------------------------------------------------------------------------------------


def _question_problems(notebook: Any, number: str) -> Iterator[str]:
    letters = []
    written = questions(number)
    for cell in _code(notebook):
        for statement in _statements(cell.source):
            if not _shows(statement) or "nb.predict(" not in ast.unparse(statement):
                continue
            name, options = _options(statement)
            if options:
                drawn = in_drawn_order(options, Random(f"{SEED}/{number}/options of {name}"))
                letters += [option.letter for option in drawn if option.key == next(iter(options))]
                right = None
            else:
                options = written.get(name, {})
                right = right_letter(number, name) or _unanswered(options)
                letters += [right] if right else []
            yield from _option_problems(name, options, right)
    for letter, count in Counter(letters).items():
        if len(letters) > 1 and count > math.ceil(len(letters) / 2):
            yield f"{count} of {len(letters)} right answers are {letter}: give a prediction another name"


def _unanswered(options: dict[str, tuple[str, str]]) -> str | None:
    """The only option without a sentence: the right one."""
    silent = [letter for letter, (_, sentence) in options.items() if not sentence]
    return silent[0] if len(silent) == 1 else None


def _options(statement: ast.stmt) -> tuple[str, dict[str, tuple[str, str]]]:
    """A prediction's name and its options, the expected one first. What is no text with a sentence is left empty."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call):
        return "", {}
    name = ast.literal_eval(call.args[0]) if call.args else ""
    found = {}
    for keyword in call.keywords:
        try:
            value = ast.literal_eval(keyword.value)
        except ValueError:
            value = ("", "")
        found[str(keyword.arg)] = value if isinstance(value, tuple) and len(value) == 2 else (str(value), "")
    return str(name), found


def _option_problems(name: str, options: dict[str, tuple[str, str]], right: str | None = None) -> Iterator[str]:
    """`right` is the option of a file that needs no sentence: the claim after it says why."""
    if not 3 <= len(options) <= 4:
        yield f"prediction {name!r} has {len(options)} options, not three or four"
    for key, (text, sentence) in options.items():
        if key == right and text and not sentence:
            continue
        if not text or not sentence.endswith((".", "!", "?")) or len(sentence.split()) < 4:
            yield f"option {key!r} of prediction {name!r} has no sentence that answers it"
