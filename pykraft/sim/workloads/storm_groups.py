"""A group whose members lose their rights, their instance ids and their topics, and what its users do about it.

The members subscribe by name or by a pattern, and read topics that come and go. Their listeners are slow. A program
that hears that it may not read, or that another one has its instance id, ends; perhaps it closes its consumer before.

Each static member has a *twin* besides: a second process that begins with the same ``group.instance.id`` while the
first one lives, and again after that. So one of the two is refused or fenced.
"""

import re
from collections.abc import Callable, Generator, Sequence
from random import Random
from typing import Any

from pykraft.client.consuming.group_part import ListenerCall
from pykraft.client.consuming.subscription import SubscriptionPattern
from pykraft.common.errors import ErrorCode
from pykraft.common.types import TopicPartition
from pykraft.metadata.image import MetadataImage
from pykraft.protocol.messages.groups import ConsumerGroupHeartbeatRequest
from pykraft.sim.laws.invariants import PartitionHistory
from pykraft.sim.laws.storm_group_laws import StormClassicGroupLaws, StormConsumerGroupLaws, TopicNames
from pykraft.sim.trouble.clients import CLASSIC
from pykraft.sim.trouble.group_storms import COORDINATOR_PATTERN, NAMES, PATTERN, StormKnobs
from pykraft.sim.workloads.group_members import TAKEN, ClassicMember, ConsumerMember, GroupMember
from pykraft.sim.workloads.group_workload import GroupWorkload, Place
from pykraft.sim.world.dice import next_dice

STAYING = "s"
"""The topic that stays, and gets more partitions."""
VISITORS = "s-"
"""Topics that come and go have this prefix and a number."""
TOPICS = rf"{STAYING}|{VISITORS}\d+"
"""The pattern that all of them match, and no other topic of a history."""
_UNREADABLE = "s("
_UNKNOWN_ASSIGNOR = "no-such-assignor"
_REFUSED = TAKEN | {
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.UNSUPPORTED_ASSIGNOR,
    ErrorCode.INVALID_REGULAR_EXPRESSION,
}
_CLOSES = 0.5
"""How many of the programs that end by an error close their consumer before."""


def wanted(image: MetadataImage, way: str) -> list[TopicPartition]:
    """The partitions of all topics that a group subscribes to in this way."""
    pattern = re.escape(STAYING) if way == NAMES else TOPICS
    topics = [topic for topic in image.topics.values() if re.fullmatch(pattern, topic.name)]
    return sorted(TopicPartition(topic.name, number) for topic in topics for number in topic.partitions)


class _StormMember(GroupMember):
    """What the members of both protocols do here."""

    ends_by = _REFUSED

    def __init__(self, way: str, pattern: str, slow_ms: int, topics: TopicNames, random: Random, *about: Any) -> None:
        """`way` says how it subscribes, `pattern` to what."""
        self._way = way
        self._pattern = pattern
        self._slow_ms = slow_ms
        self._topics = topics
        self._dice = random
        self._is_closing = False
        super().__init__(*about)

    def _subscribe(self, topic: str) -> None:
        if self._way == NAMES:
            super()._subscribe(topic)
        elif self._way == PATTERN:
            self.core.subscribe_pattern(re.compile(self._pattern))
        else:
            self.core.subscribe_coordinator_pattern(SubscriptionPattern(self._pattern))

    def _history(self, key: TopicPartition) -> PartitionHistory:
        return self._topics.history(key)

    def _listen(self, call: ListenerCall, now: int) -> Generator[tuple[int, int], int, int]:
        until = now + self._dice.randint(0, self._slow_ms)
        while now < until:
            now = yield until, until
        return (yield from super()._listen(call, now))

    def _end_by_error(self, now: int) -> None:
        if self._is_closing or self._dice.random() >= _CLOSES:
            self._end()
            return
        self._is_closing = self.is_leaving = True
        self._user = self._close(now)
        self._wait = next(self._user)


class ClassicStormMember(_StormMember, ClassicMember):
    """A member of a classic group."""


class ConsumerStormMember(_StormMember, ConsumerMember):
    """A member of a consumer group (KIP-848)."""

    def _on_send(self, request: Any) -> Callable[[Any], None] | None:
        if isinstance(request, ConsumerGroupHeartbeatRequest):
            assert isinstance(self._laws, StormConsumerGroupLaws)
            self._laws.check_join(request, list(self.core.subscription.partitions))
        return super()._on_send(request)


class StormGroup(GroupWorkload):
    """The members of such a group, and what befalls them."""

    strikes = ("crash", "leave", "leave", "leave", "join", "join", "cut", "nap")
    laws: StormClassicGroupLaws | StormConsumerGroupLaws

    def __init__(
        self, storms: StormKnobs, newest_image: Callable[[], MetadataImage | None], topics: TopicNames, *about: Any
    ) -> None:
        super().__init__(*about)
        self._storms = storms
        self._newest_image = newest_image
        self._topics = topics
        self._way = storms.ways[self.group_id]
        self._not_owned_since: int | None = None
        static = [place for place in self._places if place.instance_id is not None]
        self._places += [Place(len(self._places) + n, twin.instance_id) for n, twin in enumerate(static)]

    def _make_member(self, settings: dict[str, object], random: Random, on_end: Callable[[], None]) -> GroupMember:
        dice, way, pattern = next_dice(random), self._way, TOPICS
        if not self._is_over and dice.random() < self._storms.refused and self._knobs.protocol != CLASSIC:
            if way == COORDINATOR_PATTERN and dice.random() < 0.5:
                pattern = _UNREADABLE
            else:
                settings["group.remote.assignor"] = _UNKNOWN_ASSIGNOR
        kind = ClassicStormMember if self._knobs.protocol == CLASSIC else ConsumerStormMember
        about = settings, self._knobs.commits, self.topic, self._watcher, self.laws, random, on_end
        return kind(way, pattern, self._storms.slow_ms, self._topics, dice, *about)

    def places(self, partitions: int) -> list[TopicPartition]:
        image = self._newest_image()
        return [] if image is None else wanted(image, self._way)

    def missing(self, partitions: Sequence[TopicPartition]) -> str | None:
        owned = sorted(key for member in self.members for key in member.core.subscription.partitions)
        now = self._scheduler.now
        if owned == list(partitions):
            self._not_owned_since = None
        else:
            self._not_owned_since = now if self._not_owned_since is None else self._not_owned_since
            self.laws.check_owners(owned, partitions, now - self._not_owned_since)
        return super().missing(partitions)
