"""A node that makes one mistake: ``python -m tests.live.planted_node BUG FILE --stop-with-parent``, in place of
``python -m pykraft server FILE --stop-with-parent``.

The mistakes are those that the simulator is tried with (tests.sim.planted), and those here.
"""

from __future__ import annotations

import sys

from pykraft.cli import main
from pykraft.storage import segment_files
from pykraft.storage.filesystem import FileSystem
from pykraft.storage.log import UnifiedLog
from pykraft.storage.log_loader import LogLoader
from tests.sim.planted import bug, plant, put


@bug
def only_what_was_synced_survives() -> None:
    """A start cuts each log at its recovery point, as if the system and not the process had died."""
    load = LogLoader.load

    def load_and_cut(self: LogLoader) -> UnifiedLog:
        log = load(self)
        if not self.clean and not self.topic_partition.topic.startswith("__"):
            log.truncate_to(self.recovery_point)
        return log

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


if __name__ == "__main__":
    plant(sys.argv[1])
    sys.exit(main(["server", *sys.argv[2:]]))
