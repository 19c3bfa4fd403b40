"""Lab 17: which member of a group gets which partition, when members come and go?"""

from typing import NamedTuple

Partition = tuple[str, int]


class Member(NamedTuple):
    """What a member says as it joins: the topics that it reads, the partitions that it had, and since
    which generation. A new member has none, and says generation -1."""

    topics: frozenset[str]
    owned: tuple[Partition, ...] = ()
    generation: int = -1


# --- task 17.1: deal ---
def deal(
    partitions: list[Partition], assignment: dict[str, list[Partition]], members: dict[str, Member]
) -> dict[str, list[Partition]]:
    """The assignment with these partitions dealt out, to the one with the fewest at a time."""
    raise NotImplementedError("Task 17.1: for each partition, who reads its topic, and has the fewest?")


# --- end of task 17.1 ---


# --- task 17.2: who keeps what ---
def kept(counts: dict[str, int], members: dict[str, Member]) -> dict[str, list[Partition]]:
    """What each member may keep. `counts` has the number of partitions of each topic."""
    raise NotImplementedError("Task 17.2: collect the claims of each partition, then decide")


# --- end of task 17.2 ---


# --- task 17.3: balance ---
def balance(
    assignment: dict[str, list[Partition]],
    members: dict[str, Member],
) -> dict[str, list[Partition]]:
    """The assignment, moved until no move makes it more even."""
    raise NotImplementedError("Task 17.3: find the best move, make it, and look again")


# --- end of task 17.3 ---


# --- task 17.4: sticky, and cooperative ---
def sticky(counts: dict[str, int], members: dict[str, Member]) -> dict[str, list[Partition]]:
    """The partitions of each member: balanced, and as few as possible have moved."""
    raise NotImplementedError("Task 17.4: keep, deal out what is free, balance")


def cooperative(counts: dict[str, int], members: dict[str, Member]) -> dict[str, list[Partition]]:
    """The same, without the partitions that another member has to give up first."""
    raise NotImplementedError("Task 17.4: take what sticky() says, without what another may be reading")


# --- end of task 17.4 ---
