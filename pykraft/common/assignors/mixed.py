"""Sticky assignment for a group whose members subscribe to different topics.

No quota is known beforehand here: what a member can get depends on what the others subscribe to. So the assignment is
improved step by step:

1. A member keeps what it owns, except partitions of topics that it no longer subscribes to.
2. Each unassigned partition goes to its subscriber with the fewest partitions. Topics with few subscribers come first,
   because they leave the least choice.
3. While a partition's owner has at least two partitions more than another subscriber of the topic, it moves to the one
   with the fewest. New partitions are tried first; old ones move only if balance needs them too.
4. If old ones have moved and the assignment is no better balanced than before step 3, step 3 is taken back.

An assignment is balanced if no single move narrows the difference between two members. If step 3 would move a
partition of t from A to B after another one of t has moved from B to A, that one moves back instead.

Follows org.apache.kafka.clients.consumer.internals.AbstractStickyAssignor.GeneralAssignmentBuilder, without racks.
"""

from collections.abc import Mapping, Sequence, Set
from itertools import combinations

from pykraft.common.assignors.members import Assignment
from pykraft.common.types import TopicPartition


def assign_mixed(
    partitions: Mapping[str, int],
    subscriptions: Mapping[str, Set[str]],
    owned: Assignment,
    previous: Mapping[TopicPartition, str],
) -> Assignment:
    """The assignment. `previous` names members that owned a partition before its present owner did."""
    return _Balancer(partitions, subscriptions, previous).assign(owned)


class _Balancer:
    """One computation: the assignment so far, and the partitions that have moved."""

    def __init__(
        self,
        partitions: Mapping[str, int],
        subscriptions: Mapping[str, Set[str]],
        previous: Mapping[TopicPartition, str],
    ) -> None:
        self._subscriptions = subscriptions
        self._previous = previous
        self._subscribers = {
            topic: [member_id for member_id in subscriptions if topic in subscriptions[member_id]]
            for topic in partitions
        }
        topics = sorted(partitions, key=lambda topic: (len(self._subscribers[topic]), topic))
        self._partitions = [TopicPartition(topic, n) for topic in topics for n in range(partitions[topic])]
        self._movable = [each for each in self._partitions if len(self._subscribers[each.topic]) > 1]
        movable_topics = {partition.topic for partition in self._movable}
        self._balanced_members = [each for each in subscriptions if not movable_topics.isdisjoint(subscriptions[each])]
        self._assignment: Assignment = {}
        self._owner: dict[TopicPartition, str] = {}
        self._moves: dict[TopicPartition, tuple[str, str]] = {}

    def assign(self, owned: Assignment) -> Assignment:
        for member_id, partitions in owned.items():
            self._assignment[member_id] = [each for each in partitions if each.topic in self._subscriptions[member_id]]
            self._owner |= dict.fromkeys(self._assignment[member_id], member_id)
        some_revoked = self._assignment != owned
        unassigned = [partition for partition in self._partitions if partition not in self._owner]
        first_time = not self._owner
        for partition in unassigned:
            self._give(partition, self._lightest(partition.topic))
        before = {member_id: [*partitions] for member_id, partitions in self._assignment.items()}
        if not some_revoked:
            self._balance([partition for partition in unassigned if len(self._subscribers[partition.topic]) > 1])
        moved = self._balance(self._movable)
        if moved and not first_time and self._imbalance(self._assignment) >= self._imbalance(before):
            return before
        return self._assignment

    def _balance(self, partitions: Sequence[TopicPartition]) -> bool:
        """Move these partitions while that helps; whether one has moved."""
        moved = False
        while not self._is_balanced() and self._offer_each(partitions):
            moved = True
        return moved

    def _offer_each(self, partitions: Sequence[TopicPartition]) -> bool:
        """Move each partition that has a better owner, until all is balanced; whether one has moved."""
        moved = False
        for partition in partitions:
            new_owner = self._better_owner(partition)
            if new_owner is not None:
                self._move(self._really_to_move(partition, new_owner), new_owner)
                moved = True
                if self._is_balanced():
                    break
        return moved

    def _is_balanced(self) -> bool:
        sizes = [self._size(member_id) for member_id in self._balanced_members]
        if max(sizes, default=0) - min(sizes, default=0) <= 1:
            return True
        heaviest: dict[str, int] = {}
        for partition in self._movable:
            heaviest[partition.topic] = max(heaviest.get(partition.topic, 0), self._size(self._owner[partition]))
        return all(self._size(self._lightest(topic)) >= size - 1 for topic, size in heaviest.items())

    def _better_owner(self, partition: TopicPartition) -> str | None:
        """Its previous owner if that has two partitions less than the present one, else the lightest that has."""
        limit = self._size(self._owner[partition]) - 1
        previous = self._previous.get(partition)
        if previous is not None and partition.topic in self._subscriptions[previous] and self._size(previous) < limit:
            return previous
        lightest = self._lightest(partition.topic)
        return lightest if self._size(lightest) < limit else None

    def _really_to_move(self, partition: TopicPartition, new_owner: str) -> TopicPartition:
        """This one, or one of its topic that has moved the other way before: that one moves back."""
        source, _ = self._moves.get(partition, (self._owner[partition], ""))
        opposite = [
            each for each, move in self._moves.items() if each.topic == partition.topic and move == (new_owner, source)
        ]
        return min(opposite, default=partition)

    def _move(self, partition: TopicPartition, new_owner: str) -> None:
        old_owner = self._owner[partition]
        source, _ = self._moves.pop(partition, (old_owner, ""))
        if source != new_owner:
            self._moves[partition] = (source, new_owner)
        self._assignment[old_owner].remove(partition)
        self._give(partition, new_owner)

    def _give(self, partition: TopicPartition, member_id: str) -> None:
        self._assignment[member_id].append(partition)
        self._owner[partition] = member_id

    def _size(self, member_id: str) -> int:
        return len(self._assignment[member_id])

    def _lightest(self, topic: str) -> str:
        """The topic's subscriber with the fewest partitions; of several, the first by id."""
        return min(self._subscribers[topic], key=lambda member_id: (self._size(member_id), member_id))

    def _imbalance(self, assignment: Assignment) -> int:
        """The differences between all pairs of members, added up."""
        return sum(
            abs(len(assignment[one]) - len(assignment[other])) for one, other in combinations(self._balanced_members, 2)
        )
