"""The command line: ``python -m pykraft``.

::

    python -m pykraft storage random-uuid
    python -m pykraft storage format -t CLUSTER_ID -c server.properties
    python -m pykraft server server.properties
    python -m pykraft demo NOTEBOOK
    python -m pykraft simulate SEED

The first three are Kafka's kafka-storage.sh and kafka-server-start.sh. The node runs in the foreground until it gets
SIGTERM or SIGINT, and then stops in order; at a second one it hands nothing over. A user's mistake is one sentence on
standard error and exit code 1, and so is a law that a simulated history breaks.
"""

import argparse
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from random import Random

from pykraft.common.config import parse_properties
from pykraft.common.errors import ConfigError
from pykraft.common.trace import TraceEvent
from pykraft.common.types import Uuid
from pykraft.runtime.clock import MonotonicClock
from pykraft.runtime.threaded import NodeThread
from pykraft.server.config import NodeConfig, read_node_config
from pykraft.server.storage_format import AlreadyFormattedError, format_directories, parse_initial_controllers
from pykraft.simulation import Simulation, SimulationFailed
from pykraft.storage.filesystem import OsFileSystem
from pykraft.storage.log_manager import DirectoryInUseError

_CHECK_S = 0.2


class _PrintedJournal:
    """A node in a process of its own tells on standard output what it does."""

    def emit(self, event: TraceEvent) -> None:
        print(event, flush=True)  # noqa: T201 (this is a command's output)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    options = _parser().parse_args(arguments)
    try:
        code: int = options.run(options)
    except (ConfigError, AlreadyFormattedError, DirectoryInUseError, OSError) as error:
        print(f"pykraft: {error}", file=sys.stderr)  # noqa: T201
        return 1
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m pykraft", description="A complete small Kafka, to learn from.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    server = commands.add_parser("server", help="run the node that a properties file describes")
    server.add_argument("file", type=Path, help="server.properties")
    server.add_argument("--stop-with-parent", action="store_true", help="stop when standard input ends")
    server.set_defaults(run=_server)

    storage = commands.add_parser("storage", help="make a node's directories").add_subparsers(
        required=True, metavar="COMMAND"
    )
    form = storage.add_parser("format", help="make the directories that a properties file names")
    form.add_argument("-t", "--cluster-id", required=True, help="the cluster's id, the same for all its nodes")
    form.add_argument("-c", "--config", required=True, type=Path, help="server.properties")
    form.add_argument("-g", "--ignore-formatted", action="store_true", help="leave what is formatted already as it is")
    form.add_argument(
        "-I",
        "--initial-controllers",
        help="the first voters: id@host:port:directory-id,... (default: as the file says)",
    )
    form.set_defaults(run=_format)
    storage.add_parser("random-uuid", help="print a new cluster id").set_defaults(run=_random_uuid)

    demo = commands.add_parser("demo", help="run a notebook in the terminal")
    demo.add_argument("notebook", type=Path)
    demo.set_defaults(run=_demo)

    simulate = commands.add_parser("simulate", help="run simulated histories, and check the laws after every event")
    simulate.add_argument("seed", type=int, nargs="?", help="the history's seed (default: one that is drawn)")
    simulate.add_argument("--count", type=int, default=1, help="so many seeds from there on")
    simulate.add_argument("--trace", type=int, default=0, metavar="N", help="print the last N things that happened")
    simulate.set_defaults(run=_simulate)
    return parser


def _read(file: Path) -> NodeConfig:
    try:
        text = file.read_text()
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from None
    config = read_node_config(parse_properties(text))
    for key in config.unknown:
        print(f"pykraft: {file} sets {key}, which pykraft does not know and ignores", file=sys.stderr)  # noqa: T201
    return config


def _random_uuid(_: argparse.Namespace) -> int:
    print(Uuid.random(Random()))  # noqa: T201
    return 0


def _format(options: argparse.Namespace) -> int:
    config = _read(options.config)
    voters = None
    if options.initial_controllers:
        voters = parse_initial_controllers(options.initial_controllers, config.controller_listener)
    now = time.time_ns() // 1_000_000
    try:
        made = format_directories(config, options.cluster_id, OsFileSystem(), Random(), now, voters)
    except AlreadyFormattedError as error:
        if not options.ignore_formatted:
            raise AlreadyFormattedError(f"{error}. --ignore-formatted leaves it as it is") from None
        made = []
    for directory in made:
        print(f"formatted {directory} for node {config.node_id} of cluster {options.cluster_id}")  # noqa: T201
    return 0


def _simulate(options: argparse.Namespace) -> int:
    first = Random().randrange(1 << 32) if options.seed is None else options.seed
    failed = 0
    for seed in range(first, first + options.count):
        simulation = Simulation(seed)
        try:
            print(simulation.run(), flush=True)  # noqa: T201
        except SimulationFailed as failure:
            failed += 1
            print(failure, file=sys.stderr, flush=True)  # noqa: T201
        for event in simulation.trace[-options.trace :] if options.trace else ():
            print(event)  # noqa: T201
    return 1 if failed else 0


def _server(options: argparse.Namespace) -> int:
    node = NodeThread(_read(options.file), MonotonicClock(), Random(), _PrintedJournal())
    wishes: queue.SimpleQueue[bool] = queue.SimpleQueue()  # to stop: with handing over, without
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: wishes.put(True))
    if options.stop_with_parent:
        threading.Thread(target=_wait_for_end_of_input, args=(wishes,), daemon=True).start()
    node.start()
    is_second = False
    while node.is_running:
        with suppress(queue.Empty):
            hand_over = wishes.get(timeout=_CHECK_S) and not is_second
            node.begin_stop(hand_over)
            is_second = True
    node.stop()
    if node.failure is not None:
        raise node.failure
    return 0


def _wait_for_end_of_input(wishes: "queue.SimpleQueue[bool]") -> None:
    while os.read(0, 4096):  # not sys.stdin: its lock would be held when the interpreter ends
        continue
    wishes.put(False)


def _demo(options: argparse.Namespace) -> int:
    from pykraft.course.demo import run  # here: Jupyter's machinery takes a second to load

    return run(options.notebook)


if __name__ == "__main__":
    sys.exit(main())
