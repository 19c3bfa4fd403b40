"""Scripts with expected output: each .txt file in tests/datadriven is a test, and a dialogue of nodes to read.

A script opens with its title and says in prose which rule it shows. Blocks follow. A block is some lines of commands, a
line ``----``, and what the nodes say; it ends at the first blank line. Lines that begin with ``#`` are prose::

    # A vote is given once in an epoch

    voters 1 2 3
    ----
    ok

    # Voter 1 hears of no leader.
    timeout 1
    ----
    1  is prospective in epoch 0
    ...

tests.datadriven.vocabulary says what the commands mean. A block without any output has ``ok``.

A script passes if every block has the output that it had when the script was written. After a change that is meant to
change what nodes say, rewrite the scripts, and read the difference as you would read a change of the code: each line of
it is a message or a state that is another one now::

    python -m pytest tests/datadriven --rewrite
    git diff tests/datadriven

A new script is written in the same way: title, prose and commands, each with ``----`` and a blank line after it. For
each there is a planted bug, the rule broken, after which its output must be another one (tests.datadriven.planted).

The form is that of etcd-io/raft's testdata.
"""

from __future__ import annotations

import difflib
import pathlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pytest

FOLDER = "datadriven"
SEPARATOR = "----"
NOTHING = "ok"

Run = Callable[[str], Sequence[str]]
"""Does what one line says; the output."""


class MalformedScriptError(Exception):
    """A script that is none; the message says what is wrong, and where."""


class ChangedOutput(Exception):  # noqa: N818 (it tells what happened)
    """The output is not what the script says; the message is the difference."""


@dataclass(frozen=True)
class Block:
    """Commands, and the output that the script has for them."""

    line: int
    commands: Sequence[str]
    output: Sequence[str]


def parse(text: str) -> Iterator[str | Block]:
    """The lines of prose, as they are, and the blocks. MalformedScriptError if it has no title, or a block no line
    with ``----``."""
    lines = text.splitlines()
    if not lines or not lines[0].startswith("# ") or len(lines) < 2 or not lines[1].startswith("#"):
        raise MalformedScriptError("line 1: a script opens with its title and some prose, in lines that begin with #")
    number = 0
    while number < len(lines):
        if not lines[number].strip() or lines[number].startswith("#"):
            yield lines[number]
            number += 1
            continue
        end = next((n for n in range(number, len(lines)) if not lines[n].strip()), len(lines))
        block = lines[number:end]
        if SEPARATOR not in block:
            raise MalformedScriptError(f"line {number + 1}: the commands have no line {SEPARATOR} after them")
        at = block.index(SEPARATOR)
        yield Block(number + 1, block[:at], block[at + 1 :])
        number = end


def play(text: str, run: Run) -> str:
    """The script with the output that its commands have now."""
    lines: list[str] = []
    for part in parse(text):
        if isinstance(part, str):
            lines.append(part)
            continue
        output: list[str] = []
        for offset, command in enumerate(part.commands):
            try:
                output += run(command)
            except Exception as error:
                raise MalformedScriptError(f"line {part.line + offset}, {command!r}: {error!r}") from error
        lines += [*part.commands, SEPARATOR, *(output or [NOTHING])]
    return "\n".join(lines) + "\n"


class Script(pytest.Item):
    """One script as a test."""

    def runtest(self) -> None:
        from tests.datadriven.dialogue import Dialogue  # here, for only this suite needs whole nodes

        before = self.path.read_text()
        after = play(before, Dialogue().run)
        if self.config.getoption("--rewrite"):
            self.path.write_text(after)
        elif before != after:
            name = self.path.name
            raise ChangedOutput("\n".join(difference(before, after, name)))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: object = None) -> str:
        if isinstance(excinfo.value, ChangedOutput | MalformedScriptError):
            return f"{self.path.name}: {excinfo.value}"
        return str(super().repr_failure(excinfo))

    def reportinfo(self) -> tuple[pathlib.Path, int, str]:
        return self.path, 0, self.path.stem


def difference(before: str, after: str, name: str) -> Iterator[str]:
    """A unified diff, and what to do if it is meant."""
    yield from difflib.unified_diff(before.splitlines(), after.splitlines(), name, f"{name} as it is now", lineterm="")
    yield f"If that is meant: python -m pytest tests/{FOLDER} --rewrite, and read the difference"


class ScriptFile(pytest.File):
    """A file that holds one script."""

    def collect(self) -> Iterator[Script]:
        yield Script.from_parent(self, name="script")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="write what the nodes say now into the scripts")


def pytest_collect_file(file_path: pathlib.Path, parent: pytest.Collector) -> ScriptFile | None:
    if file_path.suffix == ".txt" and file_path.parent.name == FOLDER:
        return ScriptFile.from_parent(parent, path=file_path)
    return None
