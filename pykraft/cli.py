"""The command line: ``python -m pykraft``.

::

    python -m pykraft up --nodes 3 --port 9092

    python -m pykraft storage random-uuid
    python -m pykraft storage format -t CLUSTER_ID -c server.properties
    python -m pykraft server server.properties

    python -m pykraft topics --bootstrap-server HOST:PORT --list
    python -m pykraft reassign-partitions --bootstrap-server HOST:PORT --list
    python -m pykraft configs --bootstrap-server HOST:PORT --describe --topic NAME
    python -m pykraft produce --bootstrap-server HOST:PORT --topic NAME
    python -m pykraft consume --bootstrap-server HOST:PORT --topic NAME --from-beginning
    python -m pykraft get-offsets --bootstrap-server HOST:PORT
    python -m pykraft groups --bootstrap-server HOST:PORT --list
    python -m pykraft consumer-groups --bootstrap-server HOST:PORT --describe --all-groups
    python -m pykraft transactions --bootstrap-server HOST:PORT list

    python -m pykraft leader-election --bootstrap-server HOST:PORT --election-type preferred --all-topic-partitions
    python -m pykraft features --bootstrap-server HOST:PORT describe
    python -m pykraft metadata-quorum --bootstrap-server HOST:PORT describe --status
    python -m pykraft acls --bootstrap-server HOST:PORT --list
    python -m pykraft cluster list-endpoints --bootstrap-server HOST:PORT
    python -m pykraft broker-api-versions --bootstrap-server HOST:PORT

    python -m pykraft producer-perf-test --bootstrap-server HOST:PORT --topic NAME --num-records N ...
    python -m pykraft consumer-perf-test --bootstrap-server HOST:PORT --topic NAME --num-records N
    python -m pykraft e2e-latency --bootstrap-server HOST:PORT --topic NAME --num-records N ...
    python -m pykraft verifiable-producer --bootstrap-server HOST:PORT --topic NAME
    python -m pykraft verifiable-consumer --bootstrap-server HOST:PORT --topic NAME --group-id GROUP

    python -m pykraft delete-records --bootstrap-server HOST:PORT --offset-json-file FILE
    python -m pykraft log-dirs --bootstrap-server HOST:PORT --describe

    python -m pykraft dump-log --files FILE,... --print-data-log

    python -m pykraft metrics --server HOST:PORT

    python -m pykraft fault FILE --api Produce --drop answer --count 1
    python -m pykraft completion bash|zsh|fish
    python -m pykraft demo NOTEBOOK
    python -m pykraft simulate SEED
    python -m pykraft course build|status|grade|binder

All but the first and the last five are Kafka's shell tools, with their options: kafka-storage.sh,
kafka-server-start.sh, kafka-topics.sh, kafka-configs.sh, kafka-console-producer.sh, kafka-console-consumer.sh,
kafka-get-offsets.sh, kafka-consumer-groups.sh, kafka-transactions.sh, kafka-acls.sh, kafka-leader-election.sh,
kafka-features.sh, kafka-metadata-quorum.sh, kafka-cluster.sh, kafka-broker-api-versions.sh,
kafka-producer-perf-test.sh, kafka-consumer-perf-test.sh, kafka-delete-records.sh, kafka-log-dirs.sh,
kafka-reassign-partitions.sh, kafka-dump-log.sh, kafka-groups.sh, kafka-e2e-latency.sh, kafka-verifiable-producer.sh,
kafka-verifiable-consumer.sh. Without --bootstrap-server they connect to what the environment variable
PYKRAFT_BOOTSTRAP says, else to 127.0.0.1:9092. The clients work with Apache Kafka as well, and Kafka's tools with a
pykraft node.

A verb is a module of `pykraft.commands` (`commands.verbs` has the table), and only the one that is asked for is
loaded. A user's mistake is one sentence on standard error and exit code 1.
"""

import argparse
import io
import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import NoReturn

from pykraft import __version__
from pykraft.commands.common import CommandError, tell, write_nowhere
from pykraft.commands.verbs import COMMANDS, module_of
from pykraft.common.errors import ConfigError, KafkaError
from pykraft.extras import ExtraNotInstalledError

_INTERRUPTED = 130
_SCRIPTS = {"console-producer": "produce", "console-consumer": "consume", "server-start": "server"}
"""Kafka's scripts whose verbs here have other names."""


class _Parser(argparse.ArgumentParser):
    """Argparse, but a mistake is one sentence."""

    def error(self, message: str) -> NoReturn:
        raise CommandError(f"{message} ({self.prog} --help shows what can be said)")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    if arguments is None:
        _prepare_streams()
    code = _run(sys.argv[1:] if arguments is None else arguments)
    try:
        sys.stdout.flush()
    except OSError as error:
        write_nowhere()
        return code or _refusal(error)
    return code


def _run(said: Sequence[str]) -> int:
    try:
        _check_verb(said)
        parser = _parser(said)
        options, unknown = parser.parse_known_args(said)
        if unknown:
            command = _parsers_below(parser)[options.command]
            command.error(_unknown(command, unknown))
        code: int = import_module(module_of(options.command)).run(options)
        return code
    except (CommandError, ConfigError, KafkaError, ExtraNotInstalledError, OSError) as error:
        return _refusal(error)
    except KeyboardInterrupt:
        return _INTERRUPTED
    except SystemExit:  # --help was said, and has been answered
        return 0


def _check_verb(said: Sequence[str]) -> None:
    """CommandError names the nearest command, also for a script of Kafka's."""
    if not said or said[0].startswith("-") or said[0] in COMMANDS:
        return
    bare = said[0].removesuffix(".sh").removeprefix("kafka-")
    nearest = [_SCRIPTS[bare]] if bare in _SCRIPTS else get_close_matches(bare, COMMANDS, 1)
    meant = f"did you mean {nearest[0]}?" if nearest else f"there are {', '.join(COMMANDS)}"
    raise CommandError(f"there is no command {said[0]}: {meant} ({program_name()} --help lists them)")


def _unknown(command: argparse.ArgumentParser, unknown: Sequence[str]) -> str:
    """What is wrong with words that the command does not know, and which option may be meant."""
    below = [each for parser in _parsers_below(command).values() for each in parser._actions]
    options = [name for action in (*command._actions, *below) for name in action.option_strings]
    slips = [word.partition("=")[0] for word in unknown if word.startswith("-")]
    nearest = [match for slip in slips[:1] for match in get_close_matches(slip, options, 1)]
    meant = f". Did you mean {nearest[0]}?" if nearest else ""
    return f"unrecognized arguments: {' '.join(unknown)}{meant}"


def _parsers_below(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Those of its verbs, if it has some."""
    found = [action.choices for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return {name: each for choices in found for name, each in choices.items()}


def program_name() -> str:
    """How this was started: what is typed again."""
    return "pykraft" if Path(sys.argv[0]).name == "pykraft" else "python -m pykraft"


def _refusal(error: Exception) -> int:
    if not isinstance(error, BrokenPipeError):  # else the reader of our output has seen enough
        tell(f"pykraft: {error}")
    return 1


def _prepare_streams() -> None:
    """A process that was started without standard streams (``<&-``, ``>&-``, ``2>&-``) reads nothing and writes
    nowhere. A character that the terminal cannot show is no reason to stop."""
    if sys.stdin is None:
        sys.stdin = open(os.devnull)  # noqa: SIM115 (until the process ends)
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    if sys.stderr is None:  # to print, None is standard output
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def _parser(said: Sequence[str]) -> argparse.ArgumentParser:
    parser = _Parser(prog=program_name(), description="A complete small Kafka, to learn from.")
    parser.add_argument("--version", action="version", version=f"pykraft {__version__}")
    commands = parser.add_subparsers(required=True, dest="command", metavar="COMMAND")
    for name, meaning in COMMANDS.items():
        command = commands.add_parser(name, help=meaning, description=meaning[0].upper() + meaning[1:] + ".")
        if name in said[:1]:
            import_module(module_of(name)).add_arguments(command)
    return parser
