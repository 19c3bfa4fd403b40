"""``server FILE``: run the node that a properties file describes, as kafka-server-start.sh does.

The node runs in the foreground until it gets SIGTERM or SIGINT, and then stops in order; at a second one it hands
nothing over. What it does it tells on standard output.
"""

import argparse
import os
import queue
import signal
import sys
import threading
from contextlib import suppress
from pathlib import Path
from random import Random

from pykraft.commands.common import CommandError, say, tell, write_nowhere
from pykraft.commands.node_config import read_config
from pykraft.common.trace import TraceEvent
from pykraft.controller.features import UnsupportedFeatureError
from pykraft.runtime.clock import MonotonicClock
from pykraft.runtime.threaded import NodeThread
from pykraft.storage.checkpoint import DamagedFileError
from pykraft.storage.log_manager import DirectoryInUseError

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
        except OSError:  # who read it has hung up, or the disk is full: no reason for a node to stop
            write_nowhere()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, help="server.properties")
    parser.add_argument("--stop-with-parent", action="store_true", help="stop when standard input ends")


def run(options: argparse.Namespace) -> int:
    """Run the node until it is told to stop."""
    try:
        return _serve(options)
    except (DamagedFileError, DirectoryInUseError, UnsupportedFeatureError) as error:
        raise CommandError(str(error)) from None


def _serve(options: argparse.Namespace) -> int:
    node = NodeThread(read_config(options.file), MonotonicClock(), Random(), _PrintedJournal())
    wishes: queue.SimpleQueue[bool] = queue.SimpleQueue()  # to stop: with handing over, without
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: wishes.put(True))
    if options.stop_with_parent:
        threading.Thread(target=_wait_for_end_of_input, args=(wishes,), daemon=True).start()
    node.start()
    if node.metrics_endpoint is not None:
        tell(f"metrics are at http://{node.metrics_endpoint}/metrics")
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
