"""A node that makes mistakes: ``python -m tests.live.planted_node BUG,BUG FILE --stop-with-parent``, in place of
``python -m pykraft server FILE --stop-with-parent``.

The mistakes are those that the simulator is tried with (tests.sim.planted), and those here. To stand still is none: it
lets a test kill the node at a place that it goes by in less than a millisecond.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable

from pykraft.cli import main
from pykraft.sim.bugs.planting import bug, plant, put
from pykraft.storage import log, segment_files
from pykraft.storage.disk.filesystem import FileSystem
from pykraft.storage.log import UnifiedLog
from pykraft.storage.upkeep.log_loader import LogLoader

LONGEST_STAND_S = 60.0
STANDS_STILL = "stands still, and waits for its end"
"""This it prints when it does."""


@bug
def only_what_was_synced_survives() -> None:
    """A start cuts each log at its recovery point, as if the system and not the process had died."""
    load = LogLoader.load

    def load_and_cut(self: LogLoader) -> UnifiedLog:
        loaded = load(self)
        if not self.clean and not self.topic_partition.topic.startswith("__"):
            loaded.truncate_to(self.recovery_point)
        return loaded

    put(LogLoader, "load", load_and_cut)


@bug
def an_unfinished_cleaning_is_taken_for_whole() -> None:
    """A start renames what the cleaner was writing, as if it had been whole."""

    def finish(filesystem: FileSystem, directory: str) -> None:
        for name in filesystem.list(directory):
            if name.endswith(".log" + segment_files.CLEANED_SUFFIX):
                base = int(name.partition(".")[0])
                segment_files.begin_swap(filesystem, directory, base)

    put(segment_files, "_take_back_cleaning", finish)


@bug
def a_swap_is_taken_back() -> None:
    """A start removes what was to be swapped, as if the segments that it was made of were still there."""

    def take_back(filesystem: FileSystem, directory: str) -> None:
        for name in filesystem.list(directory):
            if name.endswith((segment_files.CLEANED_SUFFIX, segment_files.SWAP_SUFFIX)):
                filesystem.remove(f"{directory}/{name}")

    put(segment_files, "_finish_cleaning", take_back)


# --- standing still ---------------------------------------------------------------------------------------------------

Swap = Callable[[FileSystem, str, int], None]


def stand_still() -> None:
    """Do nothing more until the process is killed. If it is not, it ends."""
    sys.stderr.write(f"{STANDS_STILL}\n")
    threading.Event().wait(LONGEST_STAND_S)
    os._exit(1)


@bug
def it_stands_still_before_the_old_segments_go() -> None:
    """The cleaned segment is named ``.swap``, and the segments that it was made of have their names."""
    begin_swap: Swap = segment_files.begin_swap

    def begin_and_stand_still(filesystem: FileSystem, directory: str, base_offset: int) -> None:
        begin_swap(filesystem, directory, base_offset)
        stand_still()

    put(log, "begin_swap", begin_and_stand_still)


@bug
def it_stands_still_after_the_old_segments_went() -> None:
    """The cleaned segment is named ``.swap``, and the segments that it was made of are named ``.deleted``."""
    put(log, "finish_swap", lambda *_: stand_still())


if __name__ == "__main__":
    for name in sys.argv[1].split(","):
        plant(name)
    sys.exit(main(["server", *sys.argv[2:]]))
