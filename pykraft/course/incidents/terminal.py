"""The terminal of an incident: a line is one of Kafka's commands, or a word for what an operator does by hand.

::

    kafka-topics --describe --topic orders
    bin/kafka-configs.sh --describe --entity-type brokers --entity-name 2 --all | grep unclean
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
from difflib import get_close_matches
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
OTHER_TOOLS = (
    "acls", "client-metrics", "console-producer", "console-share-consumer", "consumer-perf-test", "delegation-tokens",
    "dump-log", "jmx", "metadata-shell", "producer-perf-test", "replica-verification", "run-class", "server-start",
    "server-stop", "share-groups", "storage", "streams-application-reset", "streams-groups", "verifiable-consumer",
    "verifiable-producer",
)  # fmt: skip
"""Tools of Kafka that the terminal does not have: it says so, and takes none of them for a slip."""
_VERBS_OF_OTHER_NAME = {"console-consumer": "consume"}
_JSON = ("--offset-json-file", "--reassignment-json-file", "--topics-to-move-json-file")
_CONFIG = "--command-config"
_FILES = (_CONFIG, "--add-config-file", "--formatter-config", "--consumer.config")
_HARMLESS = ("--topic", "--offset", "--add-config", "--formatter-property")
_BROKERS, _CONTROLLERS = "--bootstrap-server", "--bootstrap-controller"
_VERB_FIRST = ("cluster",)
"""Tools whose verb comes before the address."""
_READ_MS, _READ_RECORDS = 2_000, 20
_MOST_LINES = 60
_COLUMNS = 4
_GREP = "after `|` this terminal has only grep: `| grep TEXT`, with -i (in any case) or -v (lines without it)"


class Verb(NamedTuple):
    """Something that an operator does by hand."""

    usage: str
    about: str
    act: Callable[[list[str]], str]
    """Does it, with the words after the verb; what the terminal says. ValueError: it cannot be done."""


class _Answer(NamedTuple):
    """What a command prints. A `|` does not hold back its errors."""

    text: str = ""
    errors: str = ""


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
            words, *filters = _piped(line)
        except ValueError as error:
            return f"the line cannot be read: {error}"
        try:
            greps = [_grep(each) for each in filters]
        except ValueError as error:
            return str(error)
        answer = self._answer(words) if words else _Answer()
        lines = [line for line in answer.text.splitlines() if all(is_shown(line) for is_shown in greps)]
        lines += answer.errors.splitlines()
        if len(lines) > _MOST_LINES:
            lines = [*lines[:_MOST_LINES], f"... and {len(lines) - _MOST_LINES} lines more"]
        return "\n".join(lines)

    def _answer(self, words: list[str]) -> _Answer:
        """What a command prints. The first word is its name."""
        name = words[0].rpartition("/")[2].removesuffix(".sh")
        if name == "help":
            return _Answer(self._help())
        if name in self.verbs:
            try:
                return _Answer(self.verbs[name].act(words[1:]))
            except ValueError as error:
                return _Answer(errors=str(error))
        bare = name.removeprefix("kafka-")
        if bare not in COMMANDS:
            return _Answer(errors=self._refusal(name))
        try:
            return self._tool(bare, words[1:])
        except ValueError as error:
            return _Answer(errors=str(error))

    def _refusal(self, name: str) -> str:
        """What is said of a command that is not here."""
        if name.removeprefix("kafka-") in OTHER_TOOLS:
            return f"{name} is a tool of Kafka's that this terminal does not have. `help` lists what there is."
        nearest = get_close_matches(name, [*self.verbs, *(f"kafka-{each}" for each in COMMANDS)], 1)
        meant = f" Did you mean {nearest[0]}?" if nearest else ""
        return f"{name}: no such command here.{meant} `help` lists what there is."

    def _help(self) -> str:
        tools = [f"kafka-{name}" for name in COMMANDS]
        width = max(map(len, tools)) + 2
        rows = [tools[at : at + _COLUMNS] for at in range(0, len(tools), _COLUMNS)]
        lines = ["".join(f"{tool:<{width}}" for tool in row).rstrip() for row in rows]
        widest = max(len(verb.usage) for verb in self.verbs.values()) + 2 if self.verbs else 0
        by_hand = [f"{verb.usage:<{widest}}{verb.about}" for verb in self.verbs.values()]
        files = [f"Files for {_CONFIG}:", *self._files] if self._files else []
        head = "Kafka's commands (each has --help; `| grep TEXT` leaves the lines that have it):"
        return "\n".join([head, *lines, "By hand:", *by_hand, *files])

    def _tool(self, bare: str, words: list[str]) -> _Answer:
        cli = import_module("pykraft.cli")  # by its name, as it loads its verbs: some of them are about this course
        with tempfile.TemporaryDirectory() as folder:
            said = [_VERBS_OF_OTHER_NAME.get(bare, bare), *self._prepared(bare, words, Path(folder))]
            out, errors = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True), io.StringIO()
            with hosted_by(self._world.hosts), redirect_stdout(out), redirect_stderr(errors):
                cli.main(said)
            out.seek(0)
            printed, wrong = out.read(), errors.getvalue().replace(f"{folder}/", "")
        own = f"{cli.program_name()} {said[0]}"
        answer = _Answer(*(_renamed(text, own, f"kafka-{bare}") for text in (printed, wrong)))
        return answer._replace(errors=answer.errors.removeprefix("pykraft: "))

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
                raise ValueError(self._no_file(word.partition("=")[0]))
            else:
                found.append(word)
        if bare == "console-consumer":
            found = _ended(found)
        address = self._world.servers if where == _BROKERS else self._world.controller_servers
        if bare in _VERB_FIRST:
            is_verb = bool(found) and not found[0].startswith("-")
            return [found[0], where, address, *found[1:]] if is_verb else found
        return [where, address, *found]

    def _no_file(self, option: str) -> str:
        """What is said of an option that names a file, or could."""
        if option == _CONFIG and self._files:
            return f"{option}: there are no files here but these: {', '.join(self._files)}"
        if option == _CONFIG:
            return f"{option}: there are no files here, and this cluster needs none"
        if option in _FILES:
            return f"{option}: there are no files here; say the settings themselves"
        if option in _JSON:
            return f"{option} needs the JSON itself, in single quotes: there are no files here"
        meant = next(each for each in (*_FILES, *_JSON) if each.startswith(option))
        return f"{option} may be short for {meant}, and there are no files here; write the option in full"


def _piped(line: str) -> list[list[str]]:
    """The words of a line, parted at each `|` that is not in quotes. ValueError: a quote is open."""
    reader = shlex.shlex(line, posix=True, punctuation_chars="|")
    reader.whitespace_split, reader.commenters = True, ""
    found: list[list[str]] = [[]]
    for word in reader:
        if word and not word.strip("|"):
            found.append([])
        else:
            found[-1].append(word)
    return found


def _grep(words: list[str]) -> Callable[[str], bool]:
    """Whether `grep` with these words leaves a line. ValueError: it is no grep that the terminal knows."""
    flags = {letter for word in words[1:-1] for letter in word.removeprefix("-")}
    if len(words) < 2 or words[0] != "grep" or any(word[:1] != "-" for word in words[1:-1]) or flags - {"i", "v"}:
        raise ValueError(_GREP)
    text = words[-1].casefold() if "i" in flags else words[-1]

    def is_shown(line: str) -> bool:
        return (text in (line.casefold() if "i" in flags else line)) is not ("v" in flags)

    return is_shown


def _renamed(text: str, own: str, name: str) -> str:
    """The text with Kafka's name of a tool; what hangs under a usage is moved to the left with it."""
    found, hangs = [], 0
    for line in text.rstrip().splitlines():
        if line.startswith(f"usage: {own}"):
            hangs = len(own) - len(name)
        elif not line.startswith(" "):
            hangs = 0
        found.append(line.replace(own, name).removeprefix(" " * hangs).rstrip())
    return "\n".join(found)


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
