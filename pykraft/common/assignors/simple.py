"""The two assignors without memory: range and roundrobin.

With members A and B and the topics t and u of three partitions each:

    range       A: t-0 t-1 u-0 u-1    B: t-2 u-2         per topic: the same numbers together, but A has more
    roundrobin  A: t-0 t-2 u-1        B: t-1 u-0 u-2     over all topics: balanced, but t and u are cut differently

Follows org.apache.kafka.clients.consumer.{RangeAssignor,RoundRobinAssignor}.
"""

from collections.abc import Collection, Mapping
from itertools import cycle, pairwise

from pykraft.common.assignors.members import Assignment, MemberSubscription, in_order, subscribed
from pykraft.common.types import TopicPartition


class RangeAssignor:
    """Cuts each topic into one contiguous range per subscriber. The first ones get the remainder, one each."""

    name = "range"
    is_cooperative = False

    def user_data(self, owned: Collection[TopicPartition], generation: int) -> bytes | None:
        return None

    def assign(self, partitions: Mapping[str, int], members: Mapping[str, MemberSubscription]) -> Assignment:
        assignment: Assignment = {member_id: [] for member_id in members}
        ordered = in_order(members)
        for topic, count in subscribed(partitions, members).items():
            subscribers = [member_id for member_id in ordered if topic in members[member_id].topics]
            for member_id, numbers in zip(subscribers, ranges(count, len(subscribers)), strict=True):
                assignment[member_id] += [TopicPartition(topic, number) for number in numbers]
        return assignment


def ranges(partitions: int, subscribers: int) -> list[range]:
    """The partition numbers of each subscriber.

    >>> ranges(7, 3)
    [range(0, 3), range(3, 5), range(5, 7)]
    """
    quota, remainder = divmod(partitions, subscribers)
    starts = [index * quota + min(index, remainder) for index in range(subscribers + 1)]
    return [range(start, end) for start, end in pairwise(starts)]


class RoundRobinAssignor:
    """Deals out all partitions, sorted by topic and number, and skips members that do not subscribe to the topic."""

    name = "roundrobin"
    is_cooperative = False

    def user_data(self, owned: Collection[TopicPartition], generation: int) -> bytes | None:
        return None

    def assign(self, partitions: Mapping[str, int], members: Mapping[str, MemberSubscription]) -> Assignment:
        assignment: Assignment = {member_id: [] for member_id in members}
        turns = cycle(in_order(members))
        for topic, count in subscribed(partitions, members).items():
            for number in range(count):
                member_id = next(each for each in turns if topic in members[each].topics)
                assignment[member_id].append(TopicPartition(topic, number))
        return assignment
