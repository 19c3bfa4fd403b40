"""Which member of a classic consumer group reads which partition: the four strategies that Kafka brings.

In the classic protocol the coordinator does not assign partitions. It collects what each member subscribes to, and one
member, the leader, runs an assignor and sends the result back. An assignor is a pure function of two mappings: topics
with their partition counts, and members with their subscriptions.

- `range` cuts each topic into contiguous ranges. Topics of equal size are cut alike, so joins find their keys together.
- `roundrobin` deals out all partitions of all topics, one member after the other.
- `sticky` balances as roundrobin does, and moves as few partitions as it can.
- `cooperative-sticky` assigns as sticky does, but leaves a partition that has to move out of its result: the old owner
  revokes it first, and the next rebalance, which follows at once, gives it to the new owner (KIP-429).

`members` states the one thing they all look at; `simple`, `sticky`, `equal` and `mixed` hold the strategies.

Follows org.apache.kafka.clients.consumer.{RangeAssignor,RoundRobinAssignor,StickyAssignor,CooperativeStickyAssignor}.
"""

from pykraft.common.assignors.members import Assignor, MemberSubscription
from pykraft.common.assignors.simple import RangeAssignor, RoundRobinAssignor
from pykraft.common.assignors.sticky import CooperativeStickyAssignor, StickyAssignor

__all__ = ["ASSIGNORS", "Assignor", "MemberSubscription", "assignor"]

ASSIGNORS: dict[str, Assignor] = {
    each.name: each for each in (RangeAssignor(), RoundRobinAssignor(), StickyAssignor(), CooperativeStickyAssignor())
}


def assignor(name: str) -> Assignor:
    """The assignor of this name, as `partition.assignment.strategy` lists them; ValueError if there is none."""
    if name not in ASSIGNORS:
        raise ValueError(f"there is no assignor {name!r}: partition.assignment.strategy takes {', '.join(ASSIGNORS)}")
    return ASSIGNORS[name]
