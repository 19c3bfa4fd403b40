"""The topics of the groups that have storms, who writes to them, and who takes away topics, rights and members.

* A `TopicChanger` makes the topic that stays, gives it more partitions, and makes and deletes others beside it. What
  was acknowledged to it must be so in the end. No name is used twice. When the storm is over and the groups are quiet,
  that topic gets one more partition: no member comes or goes then, so the groups must notice by themselves.
* A `RightsChanger` denies the right to read a group or a topic, and gives it back soon.
* An `Expeller` removes members of the consumer group, as an administrator does it.
* A `StormWriter` writes to every partition that there is.
* A `Seeker` (`workloads.seeking`) reads the topic that every history has.
"""

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from pykraft.broker.broker import Broker
from pykraft.client.administration.acls import AclCalls
from pykraft.client.administration.admin import AdminCalls, NewPartitions, NewTopic
from pykraft.client.api_driver import ApiHandler
from pykraft.client.config import PRODUCER_CONFIG, client_config
from pykraft.client.producing.accumulator import RecordMetadata
from pykraft.client.producing.producer import Outgoing, ProducerCore
from pykraft.common.acl import (
    WILDCARD,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    PatternType,
)
from pykraft.common.core import FOREVER, Poll, Promise, merge
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import TopicIdPartition, TopicPartition
from pykraft.metadata.image import MetadataImage
from pykraft.protocol.messages.groups import ConsumerGroupHeartbeatRequest
from pykraft.sim.laws.invariants import require
from pykraft.sim.laws.storm_group_laws import StormConsumerGroupLaws
from pykraft.sim.laws.watcher import Watcher
from pykraft.sim.trouble.group_storms import NAMES, PATTERN, StormKnobs
from pykraft.sim.workloads.scripted import Script, Scripted
from pykraft.sim.workloads.seeking import Seeker
from pykraft.sim.workloads.settling import Nodes, missing_in_topics
from pykraft.sim.workloads.storm_groups import STAYING, VISITORS, wanted
from pykraft.sim.workloads.workload import TOPIC
from pykraft.sim.world.encoders import encode
from pykraft.transport.server_channel import ServerChannel
from pykraft.transport.server_connection import RequestChannel, ServerConnection

_PATIENCE_MS = 2_000
_AFTER_MS = 200
_QUIET_MS = 2_500
"""For so long after the storm no topic changes."""
_LEAVE_EPOCH = -1
_PRINCIPAL = "User:member"
_MEMBER = "-member-"
"""The hosts of members have this in their names."""


class MembersHaveNames(ServerConnection):
    """A connection whose client is the user "member", if it is one: all others are super users."""

    def __init__(self, channel: ServerChannel, stream: Any, requests: RequestChannel) -> None:
        super().__init__(channel, stream, requests)
        if _MEMBER in stream.client:
            channel.principal = _PRINCIPAL


class _Changer(Scripted):
    """One that changes something again and again."""

    def __init__(self, servers: str, knobs: StormKnobs, watcher: Watcher, random: Random) -> None:
        super().__init__(servers, random)
        self._knobs = knobs
        self._watcher = watcher

    def poll(self, now: int) -> Poll:
        found = super().poll(now)
        return merge([found, Poll(now)]) if self._is_due() else found

    @property
    def _deadline_ms(self) -> int:
        return self._now + _PATIENCE_MS


class TopicChanger(_Changer):
    """Makes topics, deletes them, and gives them more partitions."""

    def __init__(self, replicas: int, settings: Mapping[str, str], *about: Any) -> None:
        super().__init__(*about)
        self._replicas = replicas
        self._settings = settings
        self._begun = 0
        self._visitors: list[str] = []
        self._deleted: set[str] = set()
        self._promised: dict[str, int] = {}
        """The partitions of each topic whose creation was acknowledged, at least."""
        self.is_over = self.is_done = False
        """The storm is over; and the topic that stays has got its last partition."""

    @property
    def is_made(self) -> bool:
        """The topic that stays is there."""
        return STAYING in self._promised

    def _life(self) -> Script:
        calls = AdminCalls(self._driver)
        if not self.is_made:
            yield from self._make(calls, STAYING, self._knobs.partitions)
            yield self._pause_ms()
            return
        if self.is_over:
            yield _QUIET_MS
            self.is_done = yield from self._grow(calls, STAYING, self._knobs.most_partitions + 1)
            self.is_active = not self.is_done
            return
        yield self._random.randint(1, 2 * self._knobs.topic_every_ms)
        kinds = ["grow"] + ["make"] * (len(self._visitors) < self._knobs.most_visitors) + ["delete"]
        kind = self._random.choice(kinds)
        if kind == "make":
            self._begun += 1
            yield from self._make(calls, f"{VISITORS}{self._begun}", self._random.randint(1, 2))
        elif kind == "grow":
            name = self._random.choice((STAYING, STAYING, *self._visitors))
            yield from self._grow(calls, name, self._knobs.most_partitions)
        elif self._visitors:
            name = self._visitors.pop(self._random.randrange(len(self._visitors)))
            answer = yield calls.delete_topics([name], 1_000, self._deadline_ms)
            if not isinstance(answer, KafkaError) or answer.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                self._deleted.add(name)
            self._promised.pop(name)

    def _make(self, calls: AdminCalls, name: str, partitions: int) -> Script:
        topic = NewTopic(name, partitions, self._replicas, {}, dict(self._settings))
        answer = yield calls.create_topics([topic], False, 1_000, self._deadline_ms)
        if not isinstance(answer, KafkaError) or answer.code is ErrorCode.TOPIC_ALREADY_EXISTS:
            self._promised[name] = partitions
            if name != STAYING:
                self._visitors.append(name)

    def _grow(self, calls: AdminCalls, name: str, most: int) -> Script:
        """One more partition, if there are not so many; returns whether it was acknowledged."""
        image = self._watcher.newest_image()
        topic = None if image is None else image.topic_named(name)
        if topic is None or len(topic.partitions) >= most:
            return topic is not None
        count = len(topic.partitions) + 1
        answer = yield calls.create_partitions({name: NewPartitions(count)}, False, 1_000, self._deadline_ms)
        if not isinstance(answer, KafkaError):
            self._promised[name] = max(self._promised[name], count)
            self._watcher.progress.partitions_added += 1
        return not isinstance(answer, KafkaError)

    def check(self, image: MetadataImage) -> None:
        """What was acknowledged is so."""
        for name, partitions in self._promised.items():
            topic = image.topic_named(name)
            require(topic is not None, f"the topic {name} was acknowledged, and is not there")
            count = 0 if topic is None else len(topic.partitions)
            require(count >= partitions, f"{name} has {count} partitions; acknowledged were {partitions}")
        back = self._deleted & image.topic_ids.keys()
        require(not back, f"topics are there whose deletion was acknowledged: {sorted(back)}")


class RightsChanger(_Changer):
    """Takes a right away, and gives it back."""

    def __init__(self, groups: Sequence[str], *about: Any) -> None:
        super().__init__(*about)
        named = [(AclResourceType.GROUP, group_id) for group_id in groups] * 2 + [(AclResourceType.TOPIC, STAYING)]
        self._rules = [
            AclBinding(*each, PatternType.LITERAL, _PRINCIPAL, WILDCARD, AclOperation.READ, AclPermissionType.DENY)
            for each in named
        ]
        self.is_over = False

    def _life(self) -> Script:
        calls = AclCalls(self._driver)
        if not self.is_over:
            yield self._random.randint(*self._knobs.allowed_ms)
            rule = self._random.choice(self._rules)
            answer = yield calls.create_acls([rule], self._deadline_ms)
            self._watcher.progress.rights_denied += not isinstance(answer, KafkaError)
            yield self._random.randint(*self._knobs.denied_ms)
        while self.has_denied:
            yield calls.delete_acls([AclBindingFilter(principal=_PRINCIPAL)], self._deadline_ms)
            yield self._pause_ms()
        if self.is_over:
            yield _AFTER_MS  # a request to deny something may arrive late

    @property
    def has_denied(self) -> bool:
        """A rule is there."""
        image = self._watcher.newest_image()
        return image is not None and bool(image.acls)


class Expeller(_Changer):
    """Removes one member of a consumer group after another."""

    def __init__(self, laws: StormConsumerGroupLaws, *about: Any) -> None:
        super().__init__(*about)
        self._laws = laws

    def _life(self) -> Script:
        yield self._random.randint(1, 2 * self._knobs.expel_every_ms)
        members = self._laws.member_ids
        if members and self.is_active:
            answer = yield self._expel(self._random.choice(members))
            self._watcher.progress.members_expelled += not isinstance(answer, KafkaError)

    def _expel(self, member_id: str) -> Promise[Any]:
        group_id = self._laws.group_id
        request = ConsumerGroupHeartbeatRequest(group_id=group_id, member_id=member_id, member_epoch=_LEAVE_EPOCH)
        handler: ApiHandler[str, Any] = ApiHandler(
            what="{}: the member was not removed",
            lookup=self._driver.group_coordinators,
            request=lambda asked: request,
            read=lambda asked, response: [(group_id, _checked(response))],
            channel="groups",
            is_retried=False,
        )
        return self._driver.ask_all(handler, [group_id], self._deadline_ms)


def _checked(response: Any) -> Any:
    return KafkaError(ErrorCode.of(response.error_code)) if response.error_code else response


class StormWriter:
    """A producer that writes to all partitions of these topics. It is a RequestManager."""

    def __init__(
        self,
        settings: dict[str, object],
        servers: str,
        every_ms: int,
        watcher: Watcher,
        time_ms: Callable[[], int],
        random: Random,
    ) -> None:
        own = {"delivery.timeout.ms": 2_500, "request.timeout.ms": 800, "linger.ms": 0, "metadata.max.age.ms": 300}
        said = {**settings, "bootstrap.servers": servers, **own}
        self._core = ProducerCore(client_config(PRODUCER_CONFIG, said), random, encode)
        self._every_ms = every_ms
        self._watcher = watcher
        self._time_ms = time_ms
        self._random = random
        self._next_at = 0
        self._number = 0
        self.is_writing = True

    @property
    def is_idle(self) -> bool:
        return self._core.is_idle

    def poll(self, now: int) -> Poll:
        if self.is_writing and now >= self._next_at:
            self._next_at = now + self._random.randint(1, 2 * self._every_ms)
            self._write(now)
        return merge([self._core.poll(now), Poll(self._next_at if self.is_writing else FOREVER)])

    def _write(self, now: int) -> None:
        image = self._watcher.newest_image()
        places = [] if image is None else wanted(image, PATTERN)
        if image is None or not places:
            return
        place = self._random.choice(places)
        known = self._core.metadata.partitions_of(place.topic)
        if known is not None and place.partition not in known:
            return  # this producer has not heard of the new partition yet
        self._number += 1
        value = f"storm {self._number}".encode()
        history = self._watcher.history_of(TopicIdPartition(image.topic_ids[place.topic], *place))

        def on_delivery(metadata: RecordMetadata | None, error: Exception | None) -> None:
            if metadata is not None and metadata.offset >= 0:
                history.acknowledge(metadata.offset, value)

        self._core.try_append(
            Outgoing(place.topic, None, value, (), place.partition, self._time_ms()), on_delivery, now
        )


class StormRoom:
    """The clients of a group storm that are no members: who makes topics, who writes, who takes rights away."""

    def __init__(
        self,
        knobs: StormKnobs,
        brokers: int,
        settings: Mapping[str, str],
        producer: dict[str, object],
        consumer: dict[str, object],
        laws: StormConsumerGroupLaws,
        servers: str,
        nodes: Nodes,
        watcher: Watcher,
        time_ms: Callable[[], int],
        dice: Callable[[str], Random],
    ) -> None:
        self._nodes = nodes
        self._watcher = watcher
        self.topics = TopicChanger(min(3, brokers), settings, servers, knobs, watcher, dice("topics of storms"))
        self.rights = RightsChanger(list(knobs.ways), servers, knobs, watcher, dice("rights of storms"))
        self.expeller = Expeller(laws, servers, knobs, watcher, dice("expeller"))
        self.writer = StormWriter(producer, servers, knobs.write_every_ms, watcher, time_ms, dice("storm writer"))
        place = TopicPartition(TOPIC, 0)
        self.seeker = Seeker(consumer, servers, [place], knobs.seek_every_ms, watcher, dice("seeker"))

    def clients(self) -> list[tuple[str, Any]]:
        """Each with its name."""
        return [
            ("topic-changer", self.topics),
            ("rights-changer", self.rights),
            ("expeller", self.expeller),
            ("storm-writer", self.writer),
            ("seeker", self.seeker),
        ]

    def end(self) -> None:
        """The storm is over: topics, rights and members stay."""
        self.rights.is_over = True
        self.expeller.is_active = False
        self.topics.is_over = True

    def pause(self) -> None:
        """Nothing more is written, once there is a record in every partition of the topic that stays."""
        self.seeker.is_seeking = False
        image = self._watcher.newest_image()
        if self.topics.is_done and image is not None:
            histories = [self._watcher.history(place) for place in wanted(image, NAMES)]
            self.writer.is_writing = self.writer.is_writing and not all(history.values for history in histories)

    def check(self, image: MetadataImage) -> None:
        self.topics.check(image)

    def missing(self, brokers: Sequence[tuple[int, Broker]]) -> str | None:
        """Why it has not settled; None if it has."""
        if not self.topics.is_done or self.topics.is_waiting or self.expeller.is_waiting:
            return "an administrator of the groups waits for an answer"
        if self.rights.has_denied:
            return "a right is still denied"
        if self.writer.is_writing or not self.writer.is_idle:
            return "a producer of the groups' topics waits for an answer"
        image = self._watcher.newest_image()
        assert image is not None
        names = sorted({place.topic for place in wanted(image, PATTERN)})
        topics = [topic for name in names if (topic := image.topic_named(name)) is not None]
        return missing_in_topics(self._nodes, topics) or self.seeker.missing
