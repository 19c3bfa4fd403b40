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
    found = {name: list(some) for name, some in assignment.items()}
    for topic, number in partitions:
        readers = [name for name in sorted(members) if topic in members[name].topics]
        if readers:
            lightest = min(readers, key=lambda name: len(found[name]))
            found[lightest].append((topic, number))
    return found


# --- end of task 17.1 ---


# --- task 17.2: who keeps what ---
def kept(counts: dict[str, int], members: dict[str, Member]) -> dict[str, list[Partition]]:
    """What each member may keep. `counts` has the number of partitions of each topic."""
    claims = {}
    for name, member in members.items():
        for partition in member.owned:
            claims.setdefault(partition, []).append((member.generation, name))
    found = {name: [] for name in members}
    for (topic, number), claim in claims.items():
        newest = max(claim)[0]
        owners = [name for generation, name in claim if generation == newest]
        if number < counts.get(topic, 0) and len(owners) == 1:
            (owner,) = owners
            if topic in members[owner].topics:
                found[owner].append((topic, number))
    return found


# --- end of task 17.2 ---


# --- task 17.3: balance ---
def balance(assignment: dict[str, list[Partition]], members: dict[str, Member]) -> dict[str, list[Partition]]:
    """The assignment, moved until no move makes it more even."""
    found = {name: list(some) for name, some in assignment.items()}
    while True:
        moves = [
            (len(found[giver]) - len(found[taker]), giver, taker, partition)
            for giver in found
            for partition in found[giver]
            for taker in found
            if partition[0] in members[taker].topics
        ]
        best = max(moves, default=None)
        if best is None or best[0] < 2:
            return found
        _, giver, taker, partition = best
        found[giver].remove(partition)
        found[taker].append(partition)


# --- end of task 17.3 ---


# --- task 17.4: sticky, and cooperative ---
def sticky(counts: dict[str, int], members: dict[str, Member]) -> dict[str, list[Partition]]:
    """The partitions of each member: balanced, and as few as possible have moved."""
    had = kept(counts, members)
    taken = {partition for some in had.values() for partition in some}
    every = [(topic, number) for topic in sorted(counts) for number in range(counts[topic])]
    free = [partition for partition in every if partition not in taken]
    return balance(deal(free, had, members), members)


def cooperative(counts: dict[str, int], members: dict[str, Member]) -> dict[str, list[Partition]]:
    """The same, without the partitions that another member has to give up first."""
    had, found = kept(counts, members), {}
    for name, some in sticky(counts, members).items():
        others = {partition for other in members if other != name for partition in members[other].owned}
        found[name] = [each for each in some if each in had[name] or each not in others]
    return found


# --- end of task 17.4 ---
