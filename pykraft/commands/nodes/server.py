"""``server FILE``: run the node that a properties file describes, as kafka-server-start.sh does.

The node runs in the foreground until it gets SIGTERM or SIGINT, and then stops in order: it hands its partitions over,
and closes its logs. At a second signal it hands nothing over. ``--override`` gives a setting another value than the
file does.

What it does it tells on standard output, or in a file (``--log-file``). A file that is full becomes FILE.1, and FILE.1
becomes FILE.2, and so on up to ``--log-file-count``; then the oldest is deleted.

The exit status is 0 if it has stopped in order. It is 1, with a sentence on standard error, if it could not start (a
setting, a port that is taken, a directory that is not formatted or in use), or if it had to stop (its disk has failed
or is full). A node that has stopped for lack of room starts again when there is some.
"""

import argparse
import logging
import os
import queue
import signal
import sys
import threading
from contextlib import suppress
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path
from random import Random

from pykraft.commands.common import CommandError, add_network, pairs, say, tell, write_nowhere
from pykraft.commands.nodes.fault import FaultFile
from pykraft.commands.nodes.node_config import read_config
from pykraft.common.trace import TraceEvent, TraceSink
from pykraft.controller.features import UnsupportedFeatureError
from pykraft.runtime.clock import MonotonicClock
from pykraft.runtime.garbage import Freezer
from pykraft.runtime.threaded import NodeThread
from pykraft.storage.disk.checkpoint import DamagedFileError
from pykraft.storage.upkeep.log_manager import DirectoryInUseError

_CHECK_S = 0.2
_FOR_EACH_BATCH = frozenset({"append", "high_watermark", "metadata_append", "metadata_high_watermark"})


class _PrintedJournal:
    """A node in a process of its own tells on standard output what it does; but not of each batch, of which there may
    be thousands in a second."""

    def emit(self, event: TraceEvent) -> None:
        if event.name in _FOR_EACH_BATCH:
            return
        try:
            say(event)
            sys.stdout.flush()
        except OSError:  # the reader of our output has hung up, or the disk is full: no reason for a node to stop
            write_nowhere()


class _LogFile(RotatingFileHandler):
    """The files that a node tells in. One that cannot be written is given up: no reason for a node to stop."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 (logging's name)
        tell(f"pykraft: {self.baseFilename} cannot be written any more: {sys.exc_info()[1]}")
        self.is_given_up = True

    is_given_up = False


class _FiledJournal:
    """The same in a file, each line with the time of the day."""

    def __init__(self, file: _LogFile) -> None:
        self._file = file

    def emit(self, event: TraceEvent) -> None:
        if event.name in _FOR_EACH_BATCH or self._file.is_given_up:
            return
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._file.handle(logging.makeLogRecord({"msg": f"{now} {event}"}))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "exit status: 0 stopped in order, 1 could not start or had to stop, with a sentence that says why"
    parser.add_argument("file", type=Path, help="server.properties")
    parser.add_argument(
        "--override", action="append", default=[], metavar="KEY=VALUE", help="in place of the file's; may be repeated"
    )
    parser.add_argument("--log-file", type=Path, metavar="FILE", help="tell what it does here (default: in the output)")
    parser.add_argument("--log-file-bytes", type=int, default=10_000_000, metavar="N", help="how large (10000000)")
    parser.add_argument("--log-file-count", type=int, default=5, metavar="N", help="older files that are kept (5)")
    parser.add_argument("--faults", type=Path, metavar="FILE", help="take faults from here, which 'fault FILE' writes")
    add_network(parser)
    parser.add_argument("--stop-with-parent", action="store_true", help="stop when standard input ends")


def run(options: argparse.Namespace) -> int:
    """Run the node until a signal stops it."""
    freezer = Freezer()
    freezer.begin()
    try:
        return _serve(options)
    except (DamagedFileError, DirectoryInUseError, UnsupportedFeatureError) as error:
        raise CommandError(str(error)) from None
    finally:
        freezer.end()


def _serve(options: argparse.Namespace) -> int:
    config = read_config(options.file, pairs("--override", options.override))
    node = NodeThread(config, MonotonicClock(), Random(), _journal(options), network=options.network)
    wishes: queue.SimpleQueue[bool] = queue.SimpleQueue()  # to stop: with handing over, without
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: wishes.put(True))
    if options.stop_with_parent:
        threading.Thread(target=_wait_for_end_of_input, args=(wishes,), daemon=True).start()
    node.start()
    if node.metrics_endpoint is not None:
        tell(f"metrics are at http://{node.metrics_endpoint}/metrics")
    faults = None if options.faults is None else FaultFile(options.faults, config.node_id, node.call)
    is_second = False
    while node.is_running:
        if faults is not None:
            faults.look()
        with suppress(queue.Empty):
            hand_over = wishes.get(timeout=_CHECK_S) and not is_second
            node.begin_stop(hand_over)
            is_second = True
    node.stop()
    if node.failure is not None:
        raise node.failure
    return 0


def _journal(options: argparse.Namespace) -> TraceSink:
    if options.log_file is None:
        return _PrintedJournal()
    if options.log_file_bytes < 1 or options.log_file_count < 1:
        raise CommandError("--log-file-bytes and --log-file-count must be at least 1")
    try:
        file = _LogFile(
            options.log_file, maxBytes=options.log_file_bytes, backupCount=options.log_file_count, encoding="utf-8"
        )
    except OSError as error:
        raise CommandError(f"--log-file {options.log_file} cannot be written: {error.strerror}") from None
    return _FiledJournal(file)


def _wait_for_end_of_input(wishes: "queue.SimpleQueue[bool]") -> None:
    while os.read(0, 4096):  # not sys.stdin: its lock would be held when the interpreter ends
        continue
    wishes.put(False)
