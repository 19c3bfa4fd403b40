"""What the verbs of the command line share: mistakes, settings, names of topics, and clients.

Each verb is a module with two functions: ``add_arguments(parser)`` declares what it takes, and ``run(options)`` does
it and returns the exit code. Results go to standard output, everything else to standard error. A user's mistake is a
`CommandError`: one sentence, and exit code 1.

Names of options follow Kafka's tools. Those that talk to a cluster take ``--bootstrap-server``, some of them
``--bootstrap-controller`` instead (KIP-919), and the client's settings, from a file (``--command-config``) or one by
one (``--command-property``).
"""

import argparse
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pykraft.common.errors import KafkaError
from pykraft.common.settings.config import parse_properties

if TYPE_CHECKING:
    from pykraft.runtime.client_thread import ClosesOnExit

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})

_FIRST_ANSWER_MS = 8_000
BOOTSTRAP = "PYKRAFT_BOOTSTRAP"
"""The environment variable with the servers of commands that are not given any."""
_USUAL_SERVER = "127.0.0.1:9092"

TopicFilter = Callable[[str], bool]


class CommandError(Exception):
    """A user's mistake, or what kept a command from its work: one sentence."""


def say(line: object) -> None:
    """A line of the result."""
    print(line)  # noqa: T201 (this is a command's output)


def tell(line: object) -> None:
    """A line beside the result."""
    print(line, file=sys.stderr)  # noqa: T201


def write_nowhere() -> None:
    """Standard output is closed, or cannot be written: from now on that is no error."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def read_text(file: Path) -> str:
    """A file that the user names; CommandError if it cannot be read."""
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise CommandError(f"{file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise CommandError(f"{file} cannot be read: it is no text in UTF-8") from None


# --- settings ---------------------------------------------------------------------------------------------------------


class _Group(Protocol):
    def add_argument(self, *names: str, metavar: str, help: str, default: str | None) -> object: ...  # noqa: A002


def add_bootstrap_server(parser: argparse.ArgumentParser | _Group) -> None:
    """The option --bootstrap-server; `bootstrap_server` says what it is without it."""
    where = f"brokers to connect to first (${BOOTSTRAP}, else {_USUAL_SERVER})"
    parser.add_argument("--bootstrap-server", metavar="HOST:PORT,...", help=where, default=None)


def bootstrap_server(options: argparse.Namespace) -> str:
    """Where to connect first: what was said, else what the environment says, else Kafka's usual port here."""
    return str(options.bootstrap_server or os.environ.get(BOOTSTRAP) or _USUAL_SERVER)


def add_client_arguments(
    parser: argparse.ArgumentParser,
    also_config: Sequence[str] = (),
    also_property: Sequence[str] = (),
    also_controllers: Sequence[str] | None = None,
) -> None:
    """How a cluster is reached. `also_config` and `also_property` are older names of options, which Kafka's tools still
    take. With `also_controllers` (shorter names of that option) controllers can be asked instead of brokers."""
    either = parser.add_mutually_exclusive_group()
    add_bootstrap_server(either)
    if also_controllers is not None:
        either.add_argument(
            "--bootstrap-controller",
            *also_controllers,
            metavar="HOST:PORT,...",
            help="controllers to ask instead of brokers",
        )
    parser.add_argument(
        "--command-config", *also_config, type=Path, metavar="FILE", help="a properties file for the client"
    )
    parser.add_argument(
        "--command-property",
        *also_property,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting of the client; may be repeated",
    )


def add_network(parser: argparse.ArgumentParser) -> None:
    """The option --network of what runs nodes."""
    parser.add_argument(
        "--network",
        choices=("fused", "staged"),
        default="fused",
        help="one thread for each node, or Kafka's network threads and request handlers (fused)",
    )


def client_settings(options: argparse.Namespace) -> dict[str, Any]:
    """The settings for the client that the options ask for, with dots: as ``key_deserializer`` they would be arguments
    of the client itself."""
    settings = parse_properties(read_text(options.command_config)) if options.command_config else {}
    settings |= pairs("--command-property", options.command_property)
    named = {name.replace("_", "."): value for name, value in settings.items()}
    controllers = getattr(options, "bootstrap_controller", None)
    given = {"bootstrap.servers": options.bootstrap_server, "bootstrap.controllers": controllers}
    found = named | {name: value for name, value in given.items() if value is not None}
    if not found.keys() & given.keys():
        found["bootstrap.servers"] = bootstrap_server(options)
    return found


def pairs(option: str, texts: Sequence[str]) -> dict[str, str]:
    """Several KEY=VALUE."""
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise CommandError(f"{option} {text} is no KEY=VALUE")
        found[key.strip()] = value
    return found


@contextmanager
def answers(client: "ClosesOnExit") -> Iterator[None]:
    """What the cluster refuses, or does not answer in time, ends the command with its reason. That no broker is there
    at all is said after a few seconds: a client's calls would wait for a minute, as they should for a cluster that was
    there a moment ago."""
    client.expect_an_answer(_FIRST_ANSWER_MS)
    try:
        yield
    except KafkaError as error:
        raise CommandError(str(error)) from None


# --- tables -----------------------------------------------------------------------------------------------------------


def table(headers: Sequence[str], rows: Iterable[Iterable[object]]) -> list[str]:
    """The lines of a table: each column is as wide as its longest cell, with a tab after it."""
    cells = [list(headers), *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(headers))]
    return ["".join(f"{cell:<{width}}\t" for cell, width in zip(row, widths, strict=True)) for row in cells]


# --- topics -----------------------------------------------------------------------------------------------------------


def topic_filter(text: str | None) -> TopicFilter:
    """Which topics are meant: by a regular expression that must fit the whole name, a comma standing for "or"; None is
    all of them."""
    if text is None:
        return lambda name: True
    pattern = text.strip().replace(",", "|").replace(" ", "").strip("\"'")
    try:
        compiled = re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise CommandError(f"{text} is no regular expression: {error}") from None
    return lambda name: compiled.fullmatch(name) is not None
