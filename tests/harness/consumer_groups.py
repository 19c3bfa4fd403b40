"""A consumer group played as a dialogue: heartbeats go in, what the coordinator says comes out as text.

    script = ConsumerGroupScript({"orders": 4})
    script.join("a", "orders")          says  "epoch 1: orders 0 1 2 3"
    script.join("b", "orders")          says  "epoch 2:"
    script.heartbeat("a", 1)            says  "epoch 1: orders 0 1"
    script.heartbeat("a", 1, owns="orders 0 1")   ...

Around the manager is the smallest runtime there can be: a plan's records are encoded, decoded, replayed and kept in
`log` at once, and a timer is a table that `pass_time` walks through. Refusals are said by the name of their error.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from random import Random
from typing import Any

from pykraft.common.errors import KafkaError
from pykraft.common.settings.config import ConfigDef
from pykraft.common.time_slice import ENDLESS, TimeSlice
from pykraft.common.types import Uuid
from pykraft.coordinator.group.classic_groups.classic import ClassicGroups
from pykraft.coordinator.group.config import GROUP_KEYS, ConsumerGroupConfig
from pykraft.coordinator.group.consumer_groups.consumer_group import ConsumerGroup
from pykraft.coordinator.group.consumer_groups.consumer_group_member import MemberState, assignment_of
from pykraft.coordinator.group.consumer_groups.consumer_heartbeat import ConsumerGroupManager
from pykraft.coordinator.group.topics import Assignment, TopicInfo
from pykraft.coordinator.result import CoordinatorResult
from pykraft.protocol.messages.coordinators import (
    GROUP_RECORDS,
    CoordinatorRecord,
    decode_coordinator_record,
    encode_coordinator_record,
)
from pykraft.protocol.messages.groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    OwnedPartitions,
)

GROUP = "g"
CLIENT = ("conformance", "/127.0.0.1")
"""What `Connection` says, where it is said."""
START_MS = 1_000_000


class TopicsInTest:
    """The port `Topics` over a table that the test changes."""

    def __init__(self, partitions: Mapping[str, int]) -> None:
        self.version = 0
        self._topics: dict[str, TopicInfo] = {}
        self._names: dict[Uuid, str] = {}
        for name, count in partitions.items():
            self.put(name, count)

    def put(self, name: str, partitions: int, racks: tuple[tuple[str, ...], ...] = ()) -> None:
        self.version += 1
        topic_id = self._topics[name].topic_id if name in self._topics else Uuid(self.version.to_bytes(16, "big"))
        self._topics[name] = TopicInfo(topic_id, name, partitions, racks)
        self._names[topic_id] = name

    def take(self, topic: TopicInfo) -> None:
        self.version += 1
        self._topics[topic.name] = topic
        self._names[topic.topic_id] = topic.name

    def drop(self, name: str) -> None:
        self.version += 1
        del self._names[self._topics.pop(name).topic_id]

    def named(self, name: str) -> TopicInfo | None:
        return self._topics.get(name)

    def by_id(self, topic_id: Uuid) -> TopicInfo | None:
        name = self._names.get(topic_id, "")
        return self._topics.get(name)

    def names(self) -> Collection[str]:
        return self._topics.keys()


class TimerTable:
    """The port `CoordinatorTimer`: due times and plans by key."""

    def __init__(self, script: ConsumerGroupScript) -> None:
        self._script = script
        self.due: dict[str, tuple[int, Callable[[int], CoordinatorResult[None]]]] = {}

    def schedule(self, key: str, delay_ms: int, plan: Callable[[int], CoordinatorResult[None]]) -> None:
        self.due[key] = (self._script.now + delay_ms, plan)

    def cancel(self, key: str) -> None:
        self.due.pop(key, None)

    def is_scheduled(self, key: str) -> bool:
        return key in self.due


class ConsumerGroupScript:
    """One shard with one group that matters."""

    def __init__(
        self,
        topics: Mapping[str, int] | None = None,
        config: ConsumerGroupConfig | None = None,
        log: Collection[CoordinatorRecord] = (),
        time_slice: TimeSlice = ENDLESS,
    ) -> None:
        self.now = 0
        self.time_slice = time_slice
        self.topics = TopicsInTest(topics or {})
        self.config = config or ConsumerGroupConfig()
        self.groups: dict[str, Any] = {}
        self.log: list[CoordinatorRecord] = []
        self.said: list[str] = []
        """The records of the last plan, as text."""
        self._load()
        for record in log:
            self._keep(record)

    def _load(self) -> None:
        self.groups.clear()
        self.timer = TimerTable(self)
        random, time_ms = Random(1), lambda: START_MS + self.now
        settings = ConfigDef(GROUP_KEYS).resolve({})
        classic = ClassicGroups(groups=self.groups, timer=self.timer, config=settings, random=random, time_ms=time_ms)
        self.manager = ConsumerGroupManager(
            self.groups, self.topics, self.timer, lambda _: self.config, random, time_ms, classic, self.time_slice
        )

    # --- the runtime --------------------------------------------------------------------------------------------------

    def write(self, result: CoordinatorResult[Any]) -> Any:
        self.said = []
        for record in result.records:
            self._keep(record)
        if result.after is not None:
            result.after(self.now)
        return result.response

    def _keep(self, record: CoordinatorRecord) -> None:
        decoded = decode_coordinator_record(GROUP_RECORDS, *encode_coordinator_record(record))
        self.log.append(decoded)
        self.said.append(self.text_of(decoded))
        self.manager.replay(decoded.record_type, decoded.key, decoded.value)

    def restart(self) -> None:
        """Another coordinator loads the log, of which compaction has left the last record of each key."""
        records = {encode_coordinator_record(record)[0]: record for record in self.log}
        kept = [record for record in self.log if records[encode_coordinator_record(record)[0]] is record]
        self.log = []
        self._load()
        for record in kept:
            self._keep(record)
        self.manager.on_loaded(self.now)

    def pass_time(self, ms: int) -> None:
        """What falls due is done in order, at its time."""
        end = self.now + ms
        while self.timer.due:
            key = min(self.timer.due, key=lambda key: (self.timer.due[key][0], key))
            due, plan = self.timer.due[key]
            if due > end:
                break
            self.now = max(self.now, due)
            del self.timer.due[key]
            self.write(plan(self.now))
        self.now = end

    def settle(self) -> None:
        """What is due by now is done: patterns are resolved."""
        self.pass_time(0)

    def create(self, name: str, partitions: int) -> None:
        self.topics.put(name, partitions)
        self.manager.on_metadata_changed(created=[name])

    def grow(self, name: str, partitions: int) -> None:
        self.topics.put(name, partitions)
        self.manager.on_metadata_changed(changed=[name])

    def delete(self, name: str) -> None:
        self.topics.drop(name)
        self.manager.on_metadata_changed(changed=[name])

    # --- the dialogue -------------------------------------------------------------------------------------------------

    def request(self, member_id: str, epoch: int, owns: str | None = None, **fields: Any) -> Any:
        owned = None if owns is None else owned_partitions(self.assignment(owns))
        said = {"group_id": GROUP, "topic_partitions": owned, **fields}
        return ConsumerGroupHeartbeatRequest(member_id=member_id, member_epoch=epoch, **said)

    def send(self, request: ConsumerGroupHeartbeatRequest, version: int = 1) -> ConsumerGroupHeartbeatResponse:
        """KafkaError as the manager raises it."""
        response: ConsumerGroupHeartbeatResponse = self.write(
            self.manager.heartbeat(request, *CLIENT, version, self.now)
        )
        return response

    def heartbeat(self, member_id: str, epoch: int, owns: str | None = None, version: int = 1, **fields: Any) -> str:
        """Say one; what the coordinator says."""
        try:
            return self.answer(self.send(self.request(member_id, epoch, owns, **fields), version))
        except KafkaError as error:
            self.said = []
            return error.code.name

    def join(self, member_id: str, *names: str, **fields: Any) -> str:
        """A whole first heartbeat, that subscribes to these topics."""
        fields = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": list(names), **fields}
        return self.heartbeat(member_id, 0, "", **fields)

    def leave(self, member_id: str, epoch: int = -1, **fields: Any) -> str:
        return self.heartbeat(member_id, epoch, **fields)

    def answer(self, response: ConsumerGroupHeartbeatResponse) -> str:
        text = f"epoch {response.member_epoch}"
        if response.assignment is None:
            return text
        return f"{text}: {self.text_of_partitions(assignment_of(response.assignment.topic_partitions))}".rstrip()

    # --- what is to be seen -------------------------------------------------------------------------------------------

    @property
    def group(self) -> ConsumerGroup:
        group = self.groups[GROUP]
        assert isinstance(group, ConsumerGroup)
        return group

    def assignment(self, text: str) -> Assignment:
        """``orders 0 1, people 2`` as partitions."""
        partitions: dict[Uuid, frozenset[int]] = {}
        for part in filter(None, text.split(", ")):
            name, *numbers = part.split()
            topic = self.topics.named(name)
            assert topic is not None
            partitions[topic.topic_id] = frozenset(map(int, numbers))
        return partitions

    def text_of_partitions(self, assignment: Assignment) -> str:
        parts = []
        for topic_id in sorted(assignment):
            topic = self.topics.by_id(topic_id)
            name = topic.name if topic is not None else "deleted"
            parts.append(" ".join([name, *map(str, sorted(assignment[topic_id]))]))
        return ", ".join(sorted(parts))

    def text_of(self, record: CoordinatorRecord) -> str:
        """A record as one line: its kind, whose it is, and what it says."""
        kind = KINDS[record.record_type]
        key: Any = record.key
        value: Any = record.value
        whose = getattr(key, "member_id", "") or getattr(key, "regular_expression", "")
        line = f"{kind} {whose}".strip()
        if value is None:
            return f"no {line}"
        if record.record_type in (3, 6):
            return f"{line} {value.epoch if record.record_type == 3 else value.assignment_epoch}"
        if record.record_type == 7:
            return f"{line}: {self.text_of_partitions(assignment_of(value.topic_partitions))}".rstrip(": ")
        if record.record_type == 8:
            has = self.text_of_partitions(assignment_of(value.assigned_partitions))
            gives = self.text_of_partitions(assignment_of(value.partitions_pending_revocation))
            epochs = f"{value.previous_member_epoch}->{value.member_epoch}"
            revokes = f" revokes {gives}" if gives else ""
            return f"{line} {epochs} {MemberState.of(value.state).name}: {has}{revokes}".rstrip(": ")
        return f"{line}: {' '.join(value.topics)}".rstrip(": ") if record.record_type == 16 else line


KINDS = {3: "group epoch", 4: "topics", 5: "member", 6: "target epoch", 7: "target", 8: "current", 16: "pattern"}


def owned_partitions(assignment: Assignment) -> list[OwnedPartitions]:
    return [OwnedPartitions(topic_id=t, partitions=sorted(assignment[t])) for t in sorted(assignment)]
