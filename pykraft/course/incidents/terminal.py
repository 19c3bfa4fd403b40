"""The terminal of an incident: a line is one of Kafka's commands, or a word for what an operator does by hand.

::

    kafka-topics --describe --topic orders
    bin/kafka-configs.sh --describe --entity-type brokers --entity-name 2
    restart-broker 3

Kafka's commands are pykraft's own (`pykraft.commands`), run in this process by `pykraft.cli`. Their clients live in the
incident's world (`pykraft.runtime.client_thread`), so a command takes virtual time. ``--bootstrap-server`` may be left
out. Where Kafka's tools want a file of JSON, the JSON itself is said, in quotes: there are no files here, and a line
that came with a link cannot read yours.
"""

import io
import shlex
import tempfile
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from pykraft.course.incidents.world import World
from pykraft.runtime.client_thread import hosted_by

COMMANDS = (
    "topics", "configs", "consumer-groups", "get-offsets", "delete-records", "console-consumer", "leader-election",
    "reassign-partitions", "log-dirs", "metadata-quorum", "groups", "broker-api-versions", "cluster", "features",
    "transactions",
)  # fmt: skip
"""Kafka's tools that the terminal has, without ``kafka-``."""
_VERBS_OF_OTHER_NAME = {"console-consumer": "consume"}
_JSON = ("--offset-json-file", "--reassignment-json-file", "--topics-to-move-json-file")
_CONFIG = "--command-config"
_FILES = (_CONFIG, "--add-config-file", "--formatter-config", "--consumer.config")
_HARMLESS = ("--topic", "--offset", "--add-config", "--formatter-property")
_BROKERS, _CONTROLLERS = "--bootstrap-server", "--bootstrap-controller"
_READ_MS, _READ_RECORDS = 2_000, 20
_MOST_LINES = 60


class Verb(NamedTuple):
    """Something that an operator does by hand."""

    usage: str
    about: str
    act: Callable[[list[str]], str]
    """Does it, with the words after the verb; what the terminal says. ValueError: it cannot be done."""


PropertiesFile = Callable[[Path], str]
"""Writes what a properties file speaks of into a folder; the text of the file."""


class Terminal:
    """Runs lines in a world."""

    def __init__(
        self, world: World, verbs: Mapping[str, Verb], files: Mapping[str, PropertiesFile] | None = None
    ) -> None:
        """`files` are those that ``--command-config`` may name."""
        self._world, self.verbs, self._files = world, verbs, files or {}

    def run(self, line: str) -> str:
        """What a line prints."""
        try:
            words = shlex.split(line)
        except ValueError as error:
            return f"the line cannot be read: {error}"
        if not words:
            return ""
        name = words[0].rpartition("/")[2].removesuffix(".sh")
        if name == "help":
            return self._help()
        if name in self.verbs:
            try:
                return self.verbs[name].act(words[1:])
            except ValueError as error:
                return str(error)
        bare = name.removeprefix("kafka-")
        if bare not in COMMANDS:
            return f"{name}: no such command here. `help` lists what there is."
        try:
            return self._tool(bare, words[1:])
        except ValueError as error:
            return str(error)

    def _help(self) -> str:
        tools = [f"kafka-{name}" for name in COMMANDS]
        rows = ["  ".join(tools[at : at + 4]) for at in range(0, len(tools), 4)]
        by_hand = [f"{verb.usage:<24}{verb.about}" for verb in self.verbs.values()]
        files = [f"Files for {_CONFIG}:", *self._files] if self._files else []
        return "\n".join(["Kafka's commands (each has --help):", *rows, "By hand:", *by_hand, *files])

    def _tool(self, bare: str, words: list[str]) -> str:
        cli = import_module("pykraft.cli")  # by its name, as it loads its verbs: some of them are about this course
        with tempfile.TemporaryDirectory() as folder:
            said = [_VERBS_OF_OTHER_NAME.get(bare, bare), *self._prepared(bare, words, Path(folder))]
            out, errors = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True), io.StringIO()
            with hosted_by(self._world.hosts), redirect_stdout(out), redirect_stderr(errors):
                cli.main(said)
            out.seek(0)
            text = out.read() + errors.getvalue().replace(f"{folder}/", "")
        own = f"{cli.program_name()} {said[0]}"
        lines = [line.rstrip() for line in text.replace(own, f"kafka-{bare}").rstrip().splitlines()]
        if len(lines) > _MOST_LINES:
            lines = [*lines[:_MOST_LINES], f"... and {len(lines) - _MOST_LINES} lines more"]
        return "\n".join(lines).removeprefix("pykraft: ")

    def _prepared(self, bare: str, words: list[str], folder: Path) -> list[str]:
        """The words with the address of this cluster in them, and with files for what is JSON. ValueError: a word names
        a file."""
        found: list[str] = []
        rest = [part for word in words for part in _parted(word)]
        where = _BROKERS
        while rest:
            word = rest.pop(0)
            if word in (_BROKERS, _CONTROLLERS):
                where = word
                del rest[:1]
            elif word in _JSON and rest:
                file = folder / f"given-{len(found)}.json"
                file.write_text(rest.pop(0), encoding="utf-8")
                found += [word, str(file)]
            elif word == _CONFIG and rest and rest[0] in self._files:
                name = rest.pop(0)
                file = folder / name
                file.write_text(self._files[name](folder), encoding="utf-8")
                found[:0] = [word, str(file)]  # before the verb, wherever it was typed
            elif _may_name_a_file(word):
                there = f"; {_CONFIG} takes {', '.join(self._files)}" if self._files and word == _CONFIG else ""
                raise ValueError(f"{word}: there are no files here{there}; say the settings themselves")
            else:
                found.append(word)
        if bare == "console-consumer":
            found = _ended(found)
        address = self._world.servers if where == _BROKERS else self._world.controller_servers
        return [where, address, *found]


def _parted(word: str) -> list[str]:
    """``--option=value`` as two words, of those options that are looked at here."""
    name, equals, value = word.partition("=")
    return [name, value] if equals and name in (*_JSON, _BROKERS, _CONTROLLERS, _CONFIG) else [word]


def _may_name_a_file(word: str) -> bool:
    """Whether this is an option of a file, or short for one."""
    name = word.partition("=")[0]
    is_short = len(name) > len("--x") and name not in _HARMLESS
    return name in (*_FILES, *_JSON) or (is_short and any(each.startswith(name) for each in (*_FILES, *_JSON)))


def _ended(words: list[str]) -> list[str]:
    """A console consumer that ends: Ctrl+C is not typed here."""
    found = list(words)
    if "--timeout-ms" not in words:
        found += ["--timeout-ms", str(_READ_MS)]
    if "--max-messages" not in words:
        found += ["--max-messages", str(_READ_RECORDS)]
    return found
