"""What the members of a consumer group subscribe to, indexed.

A heartbeat that changes a subscription asks for the topics of the whole group. Sixty members with ten thousand topics
each have six hundred thousand names between them; but most groups have one subscription that all members share. So the
index has two levels::

    subscription (a set of names)    how many members have it
    name                             how many of these subscriptions contain it

A member that comes with a subscription that others have changes one count. Equal subscriptions are one object: to
compare two of them, or to look one up, costs nothing. Kafka counts the members of each name (`subscribedTopicNames`).

What a subscription comes to in this cluster, the ids of its topics and the group's metadata hash, is remembered until
the topics change.

Follows org.apache.kafka.coordinator.group.modern.ModernGroup.
"""

from collections import Counter
from collections.abc import Mapping, Sequence, Set

from pykraft.common.types import Uuid
from pykraft.coordinator.group.consumer_groups.consumer_group_member import ConsumerGroupMember
from pykraft.coordinator.group.consumer_groups.subscription_patterns import NOT_RESOLVED, ResolvedPattern
from pykraft.coordinator.group.topics import Topics, metadata_hash, topic_ids

Names = frozenset[str]
Members = Sequence[ConsumerGroupMember]


class Subscriptions:
    """The subscriptions of one group's members."""

    def __init__(self) -> None:
        self.patterns: Counter[str] = Counter()
        """How many members subscribe to each pattern."""
        self._members: Counter[Names] = Counter()
        self._same: dict[Names, Names] = {}
        """Each subscription by itself: the one object that stands for all equal ones."""
        self._names: Counter[str] = Counter()
        self._seen_in: tuple[Topics, int] | None = None
        """The topics, and their version, for which the rest is remembered."""
        self._ids: dict[tuple[Names, Names], frozenset[Uuid]] = {}
        self._hash: tuple[set[str], int] | None = None

    def __eq__(self, other: object) -> bool:
        """Whether the members subscribe to the same. What is remembered of the cluster does not count."""
        if not isinstance(other, Subscriptions):
            return NotImplemented
        return (self._members, self._names, self.patterns) == (other._members, other._names, other.patterns)

    __hash__ = None  # type: ignore[assignment]  # it changes

    # --- members come and go ------------------------------------------------------------------------------------------

    def shared(self, names: Names) -> Names:
        """The same names, as the object that the group's members with this subscription have."""
        return self._same.get(names, names)

    def add(self, member: ConsumerGroupMember) -> None:
        names = member.subscribed_topic_names
        if not self._members[names]:
            self._same[names] = names
            self._names.update(names)
        self._members[names] += 1
        if member.subscribed_topic_regex:
            self.patterns[member.subscribed_topic_regex] += 1

    def remove(self, member: ConsumerGroupMember) -> None:
        names, pattern = member.subscribed_topic_names, member.subscribed_topic_regex
        self._members[names] -= 1
        if not self._members[names]:
            del self._members[names], self._same[names]
            self._names.subtract(names)
            for name in names:
                if not self._names[name]:
                    del self._names[name]
        if pattern:
            self.patterns[pattern] -= 1
            if not self.patterns[pattern]:
                del self.patterns[pattern]

    # --- what they come to --------------------------------------------------------------------------------------------

    def __contains__(self, name: str) -> bool:
        """Whether a member names this topic."""
        return name in self._names

    def has_any(self, names: Set[str]) -> bool:
        """Whether a member names one of these topics. Looks at the fewer: these names, or those of the members."""
        return not self._names.keys().isdisjoint(names)

    def names_with(self, without: Members = (), plus: Members = ()) -> set[str]:
        """The names that members subscribe to; how it would be with other members."""
        change: Counter[Names] = Counter(member.subscribed_topic_names for member in plus)
        change.subtract(member.subscribed_topic_names for member in without)
        names = set(self._names)
        gone = [each for each, by in change.items() if self._members[each] and self._members[each] + by <= 0]
        if gone:
            lost: Counter[str] = Counter()
            for each in gone:
                lost.update(each)
            names.difference_update(name for name, count in lost.items() if self._names[name] <= count)
        for each, by in change.items():
            if by > 0 and not self._members[each]:
                names |= each
        return names

    def patterns_with(self, without: Members = (), plus: Members = ()) -> Counter[str]:
        """How many members subscribe to each pattern; how it would be with other members."""
        patterns = self.patterns.copy()
        patterns.subtract(member.subscribed_topic_regex for member in without if member.subscribed_topic_regex)
        patterns.update(member.subscribed_topic_regex for member in plus if member.subscribed_topic_regex)
        return +patterns

    # --- in this cluster ----------------------------------------------------------------------------------------------

    def topic_ids(
        self, member: ConsumerGroupMember, patterns: Mapping[str, ResolvedPattern], topics: Topics
    ) -> frozenset[Uuid]:
        """The existing topics that a member subscribes to. A pattern that is not resolved yet matches none."""
        self._look_at(topics)
        by_pattern = patterns.get(member.subscribed_topic_regex or "", NOT_RESOLVED).topics
        key = (member.subscribed_topic_names, by_pattern)
        found = self._ids.get(key)
        if found is None:
            found = self._ids[key] = topic_ids(key[0] | by_pattern, topics)
        return found

    def metadata_hash(self, names: set[str], topics: Topics) -> int:
        """The hash of the group, if its members subscribe to these topics."""
        self._look_at(topics)
        if self._hash is None or self._hash[0] != names:
            self._hash = names, metadata_hash(names, topics)
        return self._hash[1]

    def _look_at(self, topics: Topics) -> None:
        """Forget what was so before the topics changed, and subscriptions that members have no more."""
        if self._seen_in != (topics, topics.version):
            self._seen_in = topics, topics.version
            self._ids, self._hash = {}, None
        elif len(self._ids) > 2 * len(self._members) + 2:
            self._ids = {key: ids for key, ids in self._ids.items() if key[0] in self._same}
