"""The code that the reader of notebook 25 looks at: the files of the nodes, with the wrong line in one of them.

A debugger shows the code that runs, and marks nothing. So does this: the text of a file as it is on the disk, but for
the planted function. The files are the same for every bug, so their list gives nothing away. The file on the disk is
sound: a comparison of the two would show the line, and spoil the game.
"""

from typing import NamedTuple

from pykraft.sim.bugs.rewriting import functions_of, module_text, place_of
from pykraft.sim.bugs.wrong_lines import WRONG_LINES

SUSPECTS = {
    "pykraft.broker.replication.partition": "a replica of a partition: high watermark, ISR, acknowledgements",
    "pykraft.broker.replication.fetching": "what a leader gives to a follower that fetches",
    "pykraft.broker.replication.replica_fetcher": "a follower that fetches, appends and truncates",
    "pykraft.storage.leader_epoch_cache": "where each leader epoch begins in a log",
    "pykraft.storage.producer_state": "what a log knows of its producers and their transactions",
    "pykraft.raft.leader_state": "the active controller: what the quorum has committed",
    "pykraft.raft.quorum_state": "roles in the quorum, and votes",
    "pykraft.raft.log.replicated_log": "the metadata log of a node",
    "pykraft.controller.partitions.partition_change": "leader, ISR and ELR of a partition, as the controller decides",
    "pykraft.controller.partitions.replication_control": "what the controller does when a broker goes or comes",
    "pykraft.coordinator.group.consumer_groups.reconciliation": "how a member of a consumer group gets its partitions",
    "pykraft.coordinator.group.shard": "the group coordinator: joins, heartbeats, commits",
    "pykraft.broker.coordination.transaction_markers": "markers that end a transaction, and who must write them",
}
"""The files in which a wrong line may be, and what they do."""


class Place(NamedTuple):
    """One line of one file."""

    module: str
    line: int

    def __str__(self) -> str:
        return f"{short(self.module)} line {self.line}"


def short(module: str) -> str:
    """A module as a file: ``raft/leader_state.py``."""
    return module.removeprefix("pykraft.").replace(".", "/") + ".py"


def wrong_place(bug: str) -> Place:
    """Where the wrong line is."""
    wrong = WRONG_LINES[bug]
    return Place(wrong.module, wrong.line)


def running_text(bug: str, module: str) -> str:
    """The text of a module as it runs while the bug is planted."""
    text, wrong = module_text(module), WRONG_LINES[bug]
    if module != wrong.module:
        return text
    lines = text.splitlines()
    first, last = place_of(module, wrong.function)
    lines[first - 1 : last] = wrong.rewrite.text.splitlines()
    return "\n".join(lines) + "\n"


def running_function(bug: str, module: str, function: str) -> str:
    """The text of one function as it runs while the bug is planted."""
    first, last = place_of(module, function)
    return "\n".join(running_text(bug, module).splitlines()[first - 1 : last])


def function_at(place: Place) -> str | None:
    """The function that has this line; None if none has it."""
    found = (name for name, (first, last) in functions_of(place.module).items() if first <= place.line <= last)
    return next(found, None)


def numbered(bug: str, module: str, function: str) -> list[tuple[int, str]]:
    """The lines of a function with their numbers in the file."""
    first, _ = place_of(module, function)
    return list(enumerate(running_function(bug, module, function).splitlines(), first))
