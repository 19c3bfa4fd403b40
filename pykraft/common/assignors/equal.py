"""Sticky assignment for a group in which all members subscribe to the same topics: the common case, and a simple one.

Every partition suits every member, so a balanced assignment is known beforehand. With P partitions and M members each
member gets P // M, the minimum quota, and P % M members get one more:

1. A member keeps what it owns, up to the higher quota while there are members left for that, else up to the lower one.
2. What is left over goes round the members below the minimum quota, then to those that have exactly that.

Follows org.apache.kafka.clients.consumer.internals.AbstractStickyAssignor.ConstrainedAssignmentBuilder, without racks.
"""

from collections import deque
from collections.abc import Mapping, Set

from pykraft.common.assignors.members import Assignment
from pykraft.common.types import TopicPartition


def assign_equal(
    partitions: Mapping[str, int], owned: Assignment, contested: Set[TopicPartition]
) -> tuple[Assignment, dict[TopicPartition, str]]:
    """The assignment, and the new owner of each partition that another member has to revoke first.

    `partitions` is sorted by topic. `owned` names every member; `contested` partitions had two owners.
    """
    if not owned:
        return {}, {}
    minimum, above_minimum = divmod(sum(partitions.values()), len(owned))
    assignment: Assignment = {}
    revoked: dict[TopicPartition, str] = {}
    for member_id, claimed in owned.items():
        kept = sorted(
            (partition for partition in claimed if partition not in contested),
            key=lambda partition: (partition.partition, partition.topic),
        )
        quota = minimum
        if len(kept) > minimum and above_minimum > 0:
            quota += 1
            above_minimum -= 1
        assignment[member_id] = kept[:quota]
        revoked |= dict.fromkeys(kept[quota:], member_id)

    moving: dict[TopicPartition, str] = {}
    below = deque(sorted(each for each in owned if len(assignment[each]) < minimum))
    exact = deque(sorted(each for each in owned if len(assignment[each]) == minimum))
    for partition in _unassigned(partitions, assignment):
        member_id = (below or exact).popleft()
        assignment[member_id].append(partition)
        if len(assignment[member_id]) <= minimum:
            (below if len(assignment[member_id]) < minimum else exact).append(member_id)
        if partition in contested or revoked.get(partition, member_id) != member_id:
            moving[partition] = member_id
    return assignment, moving


def _unassigned(partitions: Mapping[str, int], assignment: Assignment) -> list[TopicPartition]:
    assigned = {partition for kept in assignment.values() for partition in kept}
    every = (TopicPartition(topic, number) for topic, count in partitions.items() for number in range(count))
    return [partition for partition in every if partition not in assigned]
