"""The server-side assignors: which member of a consumer group shall have which partitions (KIP-848).

The coordinator computes a new target assignment whenever members, subscriptions or partition counts change, and each
member then moves towards its part at its own pace. So an assignor reads the last target assignment, not what members
own at the moment. It withholds nothing: reconciliation gives a partition only after its old owner has released it.

`range` cuts each topic into contiguous ranges, as it does in the classic protocol, and has no memory.

`uniform` balances the group, and moves as few partitions as that needs. If all members subscribe to the same topics, P
partitions and M members make a quota of P // M, and P % M members get one more. Each member keeps what it has up to its
quota, and what is left over fills the members below it, one after the other.

If subscriptions differ, there is no such quota, and uniform goes topic by topic. Topics with the most partitions per
subscriber come first: the later ones can make up for the differences that they leave.

1. Each unassigned partition goes to the topic's subscriber with the fewest partitions.
2. While two subscribers of a topic differ by two partitions or more, the one with the most hands one of the topic to
   the one with the fewest. A move can unbalance another topic, so all topics have up to 16 turns.

Step 2 does not look for chains of moves: with 9, 10 and 11 partitions on three members, none of two topics may have a
move that helps. Where a choice is arbitrary, members and topics come in the order of their ids; in Kafka the order is
that of a hash map.

With ten thousand topics an assignment takes a tenth of a second. So each assignor is `Steps`: it yields after each
topic of a member, and what runs it lets others come between.

Follows org.apache.kafka.coordinator.group.assignor.{RangeAssignor,UniformAssignor,UniformHomogeneousAssignmentBuilder,
UniformHeterogeneousAssignmentBuilder}.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heapify, heapreplace
from typing import NamedTuple

from pykraft.common.assignors.members import in_order
from pykraft.common.assignors.simple import ranges
from pykraft.common.core import Steps, finish
from pykraft.common.types import Uuid

MAX_ROUNDS = 16
"""How often uniform goes over all topics. Each round about halves the differences that are left."""

_PARTITIONS_A_STEP = 20

Assignment = dict[str, dict[Uuid, frozenset[int]]]
"""The partitions of each member, by member id and topic id. A topic without partitions is left out."""


class Member(NamedTuple):
    """A member as an assignor sees it. `assigned` is its part of the last target assignment."""

    instance_id: str | None
    topics: frozenset[Uuid]
    assigned: Mapping[Uuid, frozenset[int]]


Assignor = Callable[[Mapping[str, Member], Mapping[Uuid, int]], Steps[Assignment]]
"""From members and partition counts to the target assignment. A topic without a count is not assigned."""


def assign_range(members: Mapping[str, Member], partitions: Mapping[Uuid, int]) -> Steps[Assignment]:
    """Contiguous ranges of each topic: to the static members by instance id, then to the others by member id."""
    assignment: Assignment = {member_id: {} for member_id in members}
    ordered = in_order(members)
    for topic_id, count in sorted(partitions.items()):
        yield
        subscribers = [member_id for member_id in ordered if topic_id in members[member_id].topics]
        if not subscribers:
            continue
        for member_id, numbers in zip(subscribers, ranges(count, len(subscribers)), strict=True):
            if numbers:
                assignment[member_id][topic_id] = frozenset(numbers)
    return assignment


def assign_uniform(members: Mapping[str, Member], partitions: Mapping[Uuid, int]) -> Steps[Assignment]:
    """Balanced, with as few moves as that needs."""
    if len({member.topics for member in members.values()}) == 1:
        assigned = yield from _assign_homogeneous(members, partitions)
    else:
        assigned = yield from _Heterogeneous(members, partitions).assign()
    assignment: Assignment = {}
    for member_id, by_topic in assigned.items():
        ordered = assignment[member_id] = {}
        for topic_id in sorted(by_topic):
            yield
            if by_topic[topic_id]:
                ordered[topic_id] = frozenset(by_topic[topic_id])
    return assignment


ASSIGNORS_IN_STEPS: Mapping[str, Assignor] = {"uniform": assign_uniform, "range": assign_range}


def _at_once(assignor: Assignor) -> Callable[[Mapping[str, Member], Mapping[Uuid, int]], Assignment]:
    return lambda members, partitions: finish(assignor(members, partitions))


ASSIGNORS = {name: _at_once(assignor) for name, assignor in ASSIGNORS_IN_STEPS.items()}
"""The same without a pause."""


def _still_held(member: Member, partitions: Mapping[Uuid, int]) -> Steps[dict[Uuid, set[int]]]:
    """What the member has of the topics that it still subscribes to."""
    held = {}
    for topic_id in sorted(member.topics.intersection(member.assigned)):
        yield
        count = partitions.get(topic_id, 0)
        held[topic_id] = {number for number in member.assigned[topic_id] if number < count}
    return held


def _in_order(by_topic: Mapping[Uuid, Iterable[int]]) -> Steps[list[tuple[Uuid, int]]]:
    ordered: list[tuple[Uuid, int]] = []
    for topic_id in sorted(by_topic):
        yield
        ordered += [(topic_id, number) for number in sorted(by_topic[topic_id])]
    return ordered


def _assign_homogeneous(
    members: Mapping[str, Member], partitions: Mapping[Uuid, int]
) -> Steps[dict[str, dict[Uuid, set[int]]]]:
    topic_ids = next(iter(members.values())).topics.intersection(partitions)
    every = yield from _in_order({topic_id: range(partitions[topic_id]) for topic_id in topic_ids})
    assigned: dict[str, list[tuple[Uuid, int]]] = {}
    taken: set[tuple[Uuid, int]] = set()
    for member_id in sorted(members):
        held = yield from _still_held(members[member_id], partitions)
        assigned[member_id] = yield from _in_order(held)
        taken.update(assigned[member_id])
    unassigned = [partition for partition in every if partition not in taken]

    minimum, extra = divmod(len(every), len(members))
    room: dict[str, int] = {}
    for index, (member_id, has) in enumerate(assigned.items()):
        quota = minimum + (extra > 0)
        # One more goes first to members that have it already, and to others only if too few of those can follow.
        if len(has) < quota and len(members) - index > extra:
            quota = minimum
        extra -= quota - minimum
        unassigned += has[quota:]
        assigned[member_id] = has[:quota]
        room[member_id] = quota - len(assigned[member_id])

    start = 0
    for member_id, count in room.items():
        assigned[member_id] += unassigned[start : start + count]
        start += count
    found = {}
    for member_id, has in assigned.items():
        found[member_id] = yield from _by_topic(has)
    return found


def _by_topic(partitions: Sequence[tuple[Uuid, int]]) -> Steps[dict[Uuid, set[int]]]:
    found: dict[Uuid, set[int]] = {}
    for start in range(0, len(partitions), _PARTITIONS_A_STEP):
        yield
        for topic_id, number in partitions[start : start + _PARTITIONS_A_STEP]:
            found.setdefault(topic_id, set()).add(number)
    return found


class _Heterogeneous:
    """One computation for members with different subscriptions."""

    def __init__(self, members: Mapping[str, Member], partitions: Mapping[Uuid, int]) -> None:
        self._members = members
        self._partitions = partitions
        self._assigned: dict[str, dict[Uuid, set[int]]] = {}
        self._sizes: dict[str, int] = {}
        self._subscribers: dict[Uuid, list[str]] = {}

    def assign(self) -> Steps[dict[str, dict[Uuid, set[int]]]]:
        members = self._members
        for member_id in sorted(members):
            held = yield from _still_held(members[member_id], self._partitions)
            self._assigned[member_id] = held
            self._sizes[member_id] = sum(map(len, held.values()))
        for topic_id in sorted(self._partitions):
            yield
            found = [member_id for member_id in self._assigned if topic_id in members[member_id].topics]
            if found:
                self._subscribers[topic_id] = found
        topic_ids = sorted(self._subscribers, key=self._urgency)
        for topic_id in topic_ids:
            yield
            self._assign_the_unassigned(topic_id)
        for _ in range(MAX_ROUNDS):
            has_moved = False
            for topic_id in topic_ids:
                yield
                has_moved |= self._balance(topic_id)
            if not has_moved:
                break
        return self._assigned

    def _urgency(self, topic_id: Uuid) -> tuple[float, int, Uuid]:
        subscribers = len(self._subscribers[topic_id])
        return (-self._partitions[topic_id] / subscribers, subscribers, topic_id)

    def _assign_the_unassigned(self, topic_id: Uuid) -> None:
        lightest = _Lightest(self._by_size(topic_id))
        taken = {n for member_id in self._subscribers[topic_id] for n in self._held(member_id, topic_id)}
        for number in range(self._partitions[topic_id]):
            if number not in taken:
                self._give(lightest.take_one(), topic_id, number)

    def _balance(self, topic_id: Uuid) -> bool:
        """Hand partitions of this topic from its heaviest subscribers to its lightest; whether one has moved."""
        by_size = self._by_size(topic_id)
        lightest, givers = _Lightest(by_size), [member_id for _, member_id in by_size]
        if by_size[-1][0] - lightest.size <= 1:
            return False
        moved = False
        while givers:
            at = max(range(len(givers)), key=lambda index: (self._sizes[givers[index]], index))
            held = self._held(givers[at], topic_id)
            if not held:
                givers[at] = givers[-1]
                givers.pop()
            elif self._sizes[givers[at]] - lightest.size <= 1:
                break
            else:
                number = max(held)
                held.remove(number)
                self._sizes[givers[at]] -= 1
                self._give(lightest.take_one(), topic_id, number)
                moved = True
        return moved

    def _held(self, member_id: str, topic_id: Uuid) -> set[int]:
        return self._assigned[member_id].get(topic_id, set())

    def _give(self, member_id: str, topic_id: Uuid, number: int) -> None:
        self._assigned[member_id].setdefault(topic_id, set()).add(number)
        self._sizes[member_id] += 1

    def _by_size(self, topic_id: Uuid) -> list[tuple[int, str]]:
        """The topic's subscribers and how many partitions they have, the lightest first."""
        return sorted((self._sizes[member_id], member_id) for member_id in self._subscribers[topic_id])


class _Lightest:
    """The member with the fewest partitions; of several, the one that began with fewer."""

    def __init__(self, by_size: Sequence[tuple[int, str]]) -> None:
        self._heap = [(size, rank, member_id) for rank, (size, member_id) in enumerate(by_size)]
        heapify(self._heap)

    @property
    def size(self) -> int:
        return self._heap[0][0]

    def take_one(self) -> str:
        """The lightest member, which has one partition more from now on."""
        size, rank, member_id = self._heap[0]
        heapreplace(self._heap, (size + 1, rank, member_id))
        return member_id
