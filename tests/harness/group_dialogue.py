"""A dialogue of members of both protocols with one group, held with pykraft's coordinator or with Apache Kafka.

A dialogue is a function that takes a `Talk`. Each line that a `Talk` writes down is what a member says or hears; at the
end come the records. What two coordinators must have different is left out: the ids that they give to members
are replaced by the members' names, times are dropped, and where Kafka takes members in the order of a hash table (the
records of one kind, the leader of several members), the order is by name.

``REWRITE_ANSWERS=1`` writes down what Apache Kafka says; every run compares pykraft's coordinator with that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Protocol

from pykraft.common.core import Promise
from pykraft.common.errors import ErrorCode, KafkaError, ProtocolError
from pykraft.common.settings.config import ConfigDef
from pykraft.common.types import Uuid
from pykraft.coordinator.group.config import GROUP_KEYS, consumer_group_config
from pykraft.coordinator.group.consumer_groups.consumer_group_member import MemberState
from pykraft.coordinator.group.consumer_protocol import read_assignment, read_subscription
from pykraft.coordinator.group.shard import GroupShard
from pykraft.coordinator.group.topics import TopicInfo
from pykraft.coordinator.result import CoordinatorResult
from pykraft.protocol.messages.coordinators import (
    GROUP_RECORDS,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    CoordinatorRecord,
    decode_coordinator_record,
    encode_coordinator_record,
)
from pykraft.protocol.messages.groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    DescribeGroupsRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OwnedPartitions,
    SyncGroupRequest,
)
from pykraft.protocol.messages.offsets import OffsetCommitRequest
from tests.harness.consumer_groups import CLIENT, KINDS, START_MS, TopicsInTest
from tests.harness.waiting import wait_until

RACK = "cellar"
TOPICS = {"orders": 4, "people": 2}
GROUP_METADATA, REGULAR_EXPRESSION = 2, 16
MEMBER_TOMBSTONES = [8, 7, 5]
"""In this order they delete one member."""
NEWEST = {
    JoinGroupRequest: 9,
    SyncGroupRequest: 5,
    HeartbeatRequest: 4,
    LeaveGroupRequest: 5,
    OffsetCommitRequest: 9,
    ConsumerGroupHeartbeatRequest: 1,
    ConsumerGroupDescribeRequest: 1,
    DescribeGroupsRequest: 6,
}


class Side(Protocol):
    """A coordinator to talk to. Each speaker has at most one question open."""

    ids: Mapping[str, Uuid]
    """Of the topics."""

    def send(self, speaker: str, request: Any, version: int) -> None: ...

    def receive(self, speaker: str) -> Any:
        """The answer to the speaker's question, when it comes."""
        ...

    def pass_time(self, ms: int) -> None:
        """Where time is virtual, let it pass."""
        ...

    def records(self, group_id: str) -> Sequence[CoordinatorRecord]: ...


class OurSide:
    """One shard of pykraft's coordinator, with the smallest runtime there can be."""

    def __init__(
        self, ids: Mapping[str, Uuid], properties: Mapping[str, str], log: Sequence[CoordinatorRecord] = ()
    ) -> None:
        self.ids = ids
        self.now = 0
        self.log = list(log)
        self.takes_records = True
        self._due: dict[str, tuple[int, Any]] = {}
        self._answers: dict[str, tuple[Any, int]] = {}
        self.topics = TopicsInTest({})
        for name, count in TOPICS.items():
            self.topics.take(TopicInfo(ids[name], name, count, ((RACK,),) * count))
        self._config = ConfigDef(GROUP_KEYS).resolve(properties)
        self.restart()

    def _new_shard(self) -> GroupShard:
        return GroupShard(
            timer=self,
            config=self._config,
            topics=self.topics,
            config_of=lambda _: consumer_group_config(self._config, {}),
            random=Random(1),
            time_ms=lambda: START_MS + self.now,
        )

    def restart(self) -> None:
        """Another coordinator loads the log."""
        self._due.clear()
        self.shard = self._new_shard()
        for record in self.log:
            self.shard.replay(record, -1)
        self.shard.on_loaded(self.now)

    # --- the timer ----------------------------------------------------------------------------------------------------

    def schedule(self, key: str, delay_ms: int, plan: Any) -> None:
        self._due[key] = (self.now + delay_ms, plan)

    def cancel(self, key: str) -> None:
        self._due.pop(key, None)

    def is_scheduled(self, key: str) -> bool:
        return key in self._due

    def pass_time(self, ms: int) -> None:
        end = self.now + ms
        while self._due:
            key = min(self._due, key=lambda key: (self._due[key][0], key))
            due, plan = self._due[key]
            if due > end:
                break
            self.now = max(self.now, due)
            del self._due[key]
            self._write(plan(self.now))
        self.now = end

    # --- the runtime --------------------------------------------------------------------------------------------------

    def _write(self, result: CoordinatorResult[Any]) -> Any:
        if result.records and not self.takes_records:
            error = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            if result.on_end is not None:
                result.on_end(error, self.now)
            if isinstance(result.response, Promise):
                return result.response
            raise error
        for record in result.records:
            decoded = decode_coordinator_record(GROUP_RECORDS, *encode_coordinator_record(record))
            self.log.append(decoded)
            if result.is_replayed:
                self.shard.replay(decoded, -1)
        if result.after is not None:
            result.after(self.now)
        if result.on_end is not None and (more := result.on_end(None, self.now)) is not None:
            self._write(more)
        return result.response

    def send(self, speaker: str, request: Any, version: int) -> None:
        try:
            answer = self._write(self._plan(request, version))
        except KafkaError as error:
            answer = request.refusal(error)
        self._answers[speaker] = answer, version
        self.pass_time(0)

    def _plan(self, request: Any, version: int) -> CoordinatorResult[Any]:
        shard = self.shard
        match request:
            case JoinGroupRequest():
                return shard.join(request, version, *CLIENT, self.now)
            case SyncGroupRequest():
                return shard.sync(request)
            case HeartbeatRequest():
                return shard.heartbeat(request)
            case LeaveGroupRequest():
                return shard.leave(request)
            case OffsetCommitRequest():
                return shard.commit(request, version)
            case ConsumerGroupHeartbeatRequest():
                return shard.consumer.heartbeat(request, *CLIENT, version, self.now)
            case ConsumerGroupDescribeRequest():
                return CoordinatorResult(request.response(groups=shard.consumer.describe(request.group_ids)))
        assert isinstance(request, DescribeGroupsRequest)
        return CoordinatorResult(
            request.response(groups=[shard.describe(group, version, shard) for group in request.groups])
        )

    def receive(self, speaker: str) -> Any:
        answer, version = self._answers.pop(speaker)
        if isinstance(answer, Promise):
            assert answer.kept, f"{speaker} waits for an answer"
            answer = answer.value
        return type(answer).decode(answer.to_bytes(version), version)

    def records(self, group_id: str) -> Sequence[CoordinatorRecord]:
        return self.log


class Talk:
    """One group, and what its members say and hear. A member's name stands for its id."""

    def __init__(self, side: Side, group_id: str) -> None:
        self._side = side
        self._group_id = group_id
        self._member_ids: dict[str, str] = {}
        self._former_ids: dict[str, str] = {}
        """What members with these ids were called."""
        self.epochs: dict[str, int] = {}
        """Of each member the epoch or the generation that it has heard last."""
        self.owned: dict[str, str] = {}
        """Of each member the partitions that it has heard of last."""
        self.error = ErrorCode.NONE
        """In the last answer."""
        self.state = ""
        """As a consumer group, at the last look."""
        self._leader = ""
        self._names = {topic_id: name for name, topic_id in side.ids.items()}
        self.lines: list[str] = []

    # --- the classic protocol -----------------------------------------------------------------------------------------

    def join(self, who: str, *topics: str, **fields: Any) -> None:
        """JoinGroup, and its answer. A member is named by the answer, unless the server knows it by its name."""
        self.begin_join(who, *topics, **fields)
        self.joined(who)

    def begin_join(
        self,
        who: str,
        *topics: str,
        owns: str = "",
        named: bool = False,
        protocols: str = "range",
        metadata: bytes | None = None,
        version: int = 9,
        protocol_version: int = 3,
        session_ms: int = 45_000,
        rebalance_ms: int = 60_000,
        instance: str | None = None,
        protocol_type: str = "consumer",
    ) -> None:
        """JoinGroup, whose answer waits."""
        if named:
            self._member_ids[who] = who
        part = ConsumerProtocolSubscription.TopicPartition
        owned = [part(topic=name, partitions=numbers) for name, numbers in _partitions(owns)]
        subscription = ConsumerProtocolSubscription(topics=list(topics), owned_partitions=owned)
        head = protocol_version.to_bytes(2, "big")
        data = head + subscription.to_bytes(protocol_version) if metadata is None else metadata
        request = JoinGroupRequest(
            group_id=self._group_id,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=self._member_ids.get(who, ""),
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequest.Protocol(name=name, metadata=data) for name in protocols.split()],
        )
        known = f" as {who}" if who in self._member_ids else ""
        static = f", {instance}" if instance else ""
        self.lines.append(f"> {who} joins{known}{static}: {' '.join(topics)}; it has {owns or 'nothing'}")
        self._side.send(who, request, version)

    def forget(self, who: str) -> None:
        """The member begins again, without an id."""
        member_id = self._member_ids.pop(who, "")
        if member_id not in ("", who):
            self._former_ids[member_id] = f"{who} number {len(self._former_ids)}"
        self.epochs.pop(who, None)
        self.owned.pop(who, None)

    def joined(self, *who: str) -> None:
        """The answers to these members' JoinGroup. Which one leads is not written down, if there are several."""
        members: list[str] = []
        for each in who:
            answer = self._side.receive(each)
            self.error = ErrorCode.of(answer.error_code)
            if answer.member_id:
                self._member_ids[each] = answer.member_id
            if not answer.error_code:
                self.epochs[each] = answer.generation_id
            if answer.leader and answer.leader == answer.member_id:
                self._leader = each
            members += [f"{m.member_id}: {self._subscription(m.metadata)}" for m in answer.members]
            text = f"  {each} hears {_error(answer)}, generation {answer.generation_id}"
            text += f", {answer.protocol_type or None} {answer.protocol_name or None}"
            if answer.skip_assignment:
                text += ", the assignment stays"
            leads = "" if len(who) > 1 else f", the leader is {answer.leader or 'nobody'}"
            self.lines.append(self._named(text + leads))
        self.lines += [f"  the leader knows {self._named(member)}" for member in sorted(map(self._named, members))]

    def sync(
        self,
        *who: str,
        given: Mapping[str, str] | None = None,
        waits: bool = False,
        user_data: bytes = b"",
        **fields: Any,
    ) -> None:
        """SyncGroup of these members; the leader brings along what the members are given."""
        order = [each for each in who if each != self._leader or len(who) == 1]
        order += [each for each in who if each not in order]
        for each in order:
            assignment = SyncGroupRequest.Assignment
            brings = [
                assignment(member_id=self._member_ids[name], assignment=_assignment(partitions, user_data))
                for name, partitions in (given or {}).items()
                if each == self._leader
            ]
            said = {"protocol_type": "consumer", "protocol_name": "range", **fields}
            request = SyncGroupRequest(
                group_id=self._group_id,
                generation_id=said.pop("generation", self.epochs.get(each, -1)),
                member_id=self._member_ids.get(each, each),
                group_instance_id=said.pop("instance", None),
                assignments=brings,
                **said,
            )
            self._side.send(each, request, NEWEST[SyncGroupRequest])
        if not waits:
            self.synced(*who)

    def synced(self, *who: str) -> None:
        """The answers to these members' SyncGroup."""
        for each in sorted(who):
            answer = self._side.receive(each)
            self.error = ErrorCode.of(answer.error_code)
            has = self._assignment(answer.assignment) if not answer.error_code else ""
            if not answer.error_code:
                self.owned[each] = has.partition(" (")[0].replace("no bytes", "")
            protocol = f"{answer.protocol_type or None} {answer.protocol_name or None}"
            self.lines += [f"> {each} syncs", f"  {each} hears {_error(answer)}, {protocol}: {has}".rstrip(": ")]

    def beat(self, who: str, generation: int | None = None, instance: str | None = None) -> None:
        """A classic heartbeat."""
        request = HeartbeatRequest(
            group_id=self._group_id,
            generation_id=self.epochs.get(who, -1) if generation is None else generation,
            member_id=self._member_ids.get(who, who),
            group_instance_id=instance,
        )
        answer = self._ask(who, request)
        self.error = ErrorCode.of(answer.error_code)
        self.lines += [f"> {who} beats in {request.generation_id}", f"  {who} hears {_error(answer)}"]

    def leave(self, *who: str, instances: Mapping[str, str] | None = None, version: int = 5) -> None:
        """LeaveGroup for these members; `instances` by their names, "" without a member id."""
        member_type = LeaveGroupRequest.Member
        members = [member_type(member_id=self._member_ids.get(each, each)) for each in who]
        for instance, each in (instances or {}).items():
            member_id = self._member_ids.get(each, each)
            members.append(member_type(member_id=member_id, group_instance_id=instance))
        answer = self._ask(who[0] if who else "admin", LeaveGroupRequest(group_id=self._group_id, members=members))
        told = [f"{m.member_id} {m.group_instance_id} {_error(m)}" for m in answer.members]
        names = ", ".join([*who, *(instances or {})])
        self.lines += [f"> {names} leaves by LeaveGroup", self._named(f"  {_error(answer)}: {', '.join(told)}")]

    # --- the other protocol -------------------------------------------------------------------------------------------

    def heartbeat(self, who: str, epoch: int, owns: str | None = None, *topics: str, **fields: Any) -> None:
        """ConsumerGroupHeartbeat. `topics` make it a whole one."""
        ids = self._side.ids
        owned = None
        if owns is not None:
            owned = [OwnedPartitions(topic_id=ids[name], partitions=numbers) for name, numbers in _partitions(owns)]
        said: dict[str, Any] = {"topic_partitions": owned, **fields}
        if topics:
            said |= {"subscribed_topic_names": list(topics)}
        if epoch == 0:
            said = {"rebalance_timeout_ms": 60_000, "server_assignor": "range"} | said
        self._member_ids[who] = who
        request = ConsumerGroupHeartbeatRequest(group_id=self._group_id, member_id=who, member_epoch=epoch, **said)
        answer = self._ask(who, request)
        shown = "" if owns is None else f"; it has {owns or 'nothing'}"
        self.lines.append(f"> {who} in epoch {epoch}{': ' if topics else ''}{' '.join(topics)}{shown}")
        self.error = ErrorCode.of(answer.error_code)
        if answer.error_code:
            self.lines.append(self._named(f"  {_error(answer)}: {answer.error_message or ''}".rstrip(": ")))
        else:
            text = f"  epoch {answer.member_epoch}"
            self.epochs[who] = answer.member_epoch
            if answer.assignment is not None:
                self.owned[who] = self._by_id(answer.assignment.topic_partitions)
                text += f": {self.owned[who]}"
            self.lines.append(text.rstrip())

    # --- both ---------------------------------------------------------------------------------------------------------

    def commit(self, who: str, epoch: int, version: int = 9) -> None:
        """OffsetCommit of one partition."""
        topic = OffsetCommitRequest.Topic
        part = topic.Partition(partition_index=0, committed_offset=1, committed_metadata="")
        request = OffsetCommitRequest(
            group_id=self._group_id,
            member_id=self._member_ids.get(who, who),
            generation_id_or_member_epoch=epoch,
            topics=[topic(name="orders", partitions=[part])],
        )
        self._side.send(who, request, version)
        answer = self._side.receive(who)
        said = ErrorCode.of(answer.topics[0].partitions[0].error_code).name
        self.lines += [f"> {who} commits in {epoch} by version {version}", f"  {who} hears {said}"]

    def look(self) -> None:
        """What the group looks like, as each kind of group."""
        new, old = self._described()
        while not new.error_code and not old.error_code:  # a change was committed between the two questions
            new, old = self._described()
        self.state = new.group_state
        self.lines.append(f"= as a consumer group: {_error(new)} {new.group_state} {new.group_epoch}")
        for member in sorted(new.members, key=lambda member: self._named(member.member_id)):
            has = self._by_name(member.assignment.topic_partitions)
            target = self._by_name(member.target_assignment.topic_partitions)
            kind = "classic" if member.member_type == 0 else "consumer"
            text = f"    {kind} {member.member_id} in {member.member_epoch}: has {has}; target {target}"
            self.lines.append(self._named(text))
        self.lines.append(f"= as a classic group: {_error(old)} {old.group_state} {old.protocol_data}".rstrip())
        for member in sorted(old.members, key=lambda member: self._named(member.member_id)):
            has = self._assignment(member.member_assignment)
            self.lines.append(self._named(f"    {member.member_id}: has {has}").rstrip())

    def _described(self) -> tuple[Any, Any]:
        new = self._ask("admin", ConsumerGroupDescribeRequest(group_ids=[self._group_id])).groups[0]
        old = self._ask("admin", DescribeGroupsRequest(groups=[self._group_id])).groups[0]
        return new, old

    def until_gone(self, who: str, after_ms: int) -> None:
        """The member is silent until the coordinator has removed it."""
        self._side.pass_time(after_ms)
        member_id = self._member_ids[who]

        def is_gone() -> bool:
            new = self._ask("admin", ConsumerGroupDescribeRequest(group_ids=[self._group_id])).groups[0]
            old = self._ask("admin", DescribeGroupsRequest(groups=[self._group_id])).groups[0]
            return member_id not in [member.member_id for member in (*new.members, *old.members)]

        wait_until(is_gone, f"{who} is removed", timeout_s=after_ms / 1000 + 20)
        self.lines.append(f"= {who} was silent for too long")

    def until_rebalancing(self, members: int) -> None:
        """So many members are in a classic group that waits for all to join: what was sent has arrived."""

        def is_so() -> bool:
            group = self._ask("admin", DescribeGroupsRequest(groups=[self._group_id])).groups[0]
            return group.group_state == "PreparingRebalance" and len(group.members) == members

        wait_until(is_so, f"{members} members rebalance")

    def until_resolved(self) -> None:
        """A pattern is resolved beside the heartbeats: wait for its record."""
        wait_until(
            lambda: any(record.record_type == REGULAR_EXPRESSION for record in self._side.records(self._group_id)),
            "the pattern is resolved",
        )

    def finish(self) -> list[str]:
        """All lines, with the records at the end."""
        kept = [
            (record.record_type, self._named(self._record(record))) for record in self._side.records(self._group_id)
        ]
        lines: list[str] = []
        while kept:  # records of one kind, and members that are removed together, have the order of a hash table
            removed: list[list[str]] = []
            while [kind for kind, text in kept[:3] if text.startswith("no ")] == MEMBER_TOMBSTONES:
                removed.append([text for _, text in kept[:3]])
                kept = kept[3:]
            lines += [text for texts in sorted(removed) for text in texts]
            count = next((i for i, (kind, _) in enumerate(kept) if kind != kept[0][0]), len(kept))
            lines += sorted(text for _, text in kept[:count])
            kept = kept[count:]
        return [*self.lines, *(f"# {line}".rstrip() for line in lines)]

    # --- as text ------------------------------------------------------------------------------------------------------

    def _ask(self, speaker: str, request: Any) -> Any:
        self._side.send(speaker, request, NEWEST[type(request)])
        return self._side.receive(speaker)

    def _named(self, text: str) -> str:
        named = {member_id: name for name, member_id in self._member_ids.items() if member_id != name}
        for member_id, name in (named | self._former_ids).items():
            text = text.replace(member_id, name)
        return text

    def _by_id(self, parts: Any) -> str:
        return _text((self._names[part.topic_id], part.partitions) for part in parts)

    def _by_name(self, parts: Any) -> str:
        return _text((part.topic_name, part.partitions) for part in parts)

    def _subscription(self, data: bytes) -> str:
        try:
            read = read_subscription(bytes(data))
        except ProtocolError:
            return f"{bytes(data).hex()}"
        owned = _text((part.topic, part.partitions) for part in read.owned_partitions)
        return f"{' '.join(read.topics)} ({data[1]}, owns {owned or 'nothing'})"

    @staticmethod
    def _assignment(data: bytes) -> str:
        if not data:
            return "no bytes"
        read = read_assignment(bytes(data))
        text = _text((part.topic, part.partitions) for part in read.assigned_partitions)
        return f"{text} ({data[1]}, {read.user_data!r})"

    def _record(self, record: CoordinatorRecord) -> str:
        key: Any = record.key
        value: Any = record.value
        if record.record_type not in (*KINDS, GROUP_METADATA):
            return f"record {record.record_type}"
        kind = KINDS.get(record.record_type, "classic group")
        whose = getattr(key, "member_id", "") or getattr(key, "regular_expression", "")
        head = f"{kind} {whose}".strip()
        if value is None:
            return f"no {head}"
        if record.record_type == GROUP_METADATA:
            return f"{head} {record.version}: {self._classic_group(value)}"
        match record.record_type:
            case 3:
                return f"{head} {value.epoch} {value.metadata_hash}"
            case 5:
                names = " ".join(sorted(value.subscribed_topic_names))
                fields = f"{value.instance_id} {value.rack_id} {value.client_id} {value.client_host}"
                says = f"{value.subscribed_topic_regex!r} {value.rebalance_timeout_ms} {value.server_assignor}"
                return f"{head}: {fields} [{names}] {says} {self._classic_member(value.classic_member_metadata)}"
            case 6:
                return f"{head} {value.assignment_epoch}"
            case 7:
                return f"{head}: {self._by_id(value.topic_partitions)}"
            case 8:
                has, gives = self._by_id(value.assigned_partitions), self._by_id(value.partitions_pending_revocation)
                epochs = f"{value.previous_member_epoch}->{value.member_epoch}"
                return f"{head} {epochs} {MemberState.of(value.state).name}: has {has}; revokes {gives}"
        return f"{head}: {' '.join(sorted(getattr(value, 'topics', ())))}"

    def _classic_member(self, metadata: Any) -> str:
        if metadata is None:
            return "consumer"
        protocols = [f"{p.name} {self._subscription(p.metadata)}" for p in metadata.supported_protocols]
        return f"classic {metadata.session_timeout_ms} {protocols}"

    def _classic_group(self, value: Any) -> str:
        leader = "one of them" if len(value.members) > 1 else value.leader
        members = sorted(
            self._named(f"{m.member_id} {m.group_instance_id} {m.client_id} {m.client_host} {m.rebalance_timeout} ")
            + f"{m.session_timeout} {self._subscription(m.subscription)}: {self._assignment(m.assignment)}"
            for m in value.members
        )
        return f"{value.protocol_type} {value.generation} {value.protocol}, the leader is {leader}, {members}"


def _error(answer: Any) -> str:
    return ErrorCode.of(answer.error_code).name


def _partitions(text: str) -> list[tuple[str, list[int]]]:
    """``orders 0 1, people 2``."""
    parts = [part.split() for part in text.split(", ") if part]
    return [(name, list(map(int, numbers))) for name, *numbers in parts]


def _text(parts: Any) -> str:
    return ", ".join(sorted(" ".join([name, *map(str, sorted(numbers))]) for name, numbers in parts))


def _assignment(text: str, user_data: bytes) -> bytes:
    part = ConsumerProtocolAssignment.TopicPartition
    parts = [part(topic=name, partitions=numbers) for name, numbers in _partitions(text)]
    return b"\0\3" + ConsumerProtocolAssignment(assigned_partitions=parts, user_data=user_data or None).to_bytes(3)
