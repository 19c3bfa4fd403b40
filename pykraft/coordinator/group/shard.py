"""One shard of the group coordinator: the groups and offsets whose records are in one partition of __consumer_offsets.

It brings together what is kept elsewhere: classic groups (`classic`), consumer groups (`consumer_heartbeat`, and
`classic_members` for those of their members that speak the classic protocol), committed offsets (`offsets`), and one
table of groups by name, because a name belongs to one group of one kind. Requests that are about a group as a whole, or
about its offsets, are handled here; those of members in the modules of their kind.

A client that commits offsets for a group without members (an administrator, or a consumer that assigns itself its
partitions) needs no group. One is made for it all the same, a *simple* group: classic, without a protocol type, empty.

Follows org.apache.kafka.coordinator.group.{GroupCoordinatorShard,OffsetMetadataManager}.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from random import Random
from typing import Any, TypeVar

from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.settings.config import Config
from pykraft.common.settings.java_text import java_length
from pykraft.common.time_slice import ENDLESS, TimeSlice
from pykraft.common.types import ZERO_UUID, TopicPartition, Uuid
from pykraft.coordinator.group import config as keys
from pykraft.coordinator.group import offsets as offset_records
from pykraft.coordinator.group.classic_groups.classic import ClassicGroups
from pykraft.coordinator.group.classic_groups.classic_group import ClassicGroup, ClassicState, tombstone
from pykraft.coordinator.group.config import ConsumerGroupConfig
from pykraft.coordinator.group.consumer_groups.classic_members import ClassicMembers
from pykraft.coordinator.group.consumer_groups.consumer_group_records import CONSUMER_GROUP_RECORD_TYPES
from pykraft.coordinator.group.consumer_groups.consumer_heartbeat import ConsumerGroupManager
from pykraft.coordinator.group.consumer_groups.pattern_refresh import Describable, all_of
from pykraft.coordinator.group.offsets import OffsetStore
from pykraft.coordinator.group.topics import Topics
from pykraft.coordinator.result import CoordinatorResult, CoordinatorTimer
from pykraft.protocol.messages.coordinators import (
    CoordinatorRecord,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
)
from pykraft.protocol.messages.groups import (
    DeleteGroupsResponse,
    DescribeGroupsResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    LeaveGroupRequest,
    LeaveGroupResponse,
    ListGroupsResponse,
    SyncGroupRequest,
)
from pykraft.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from pykraft.protocol.messages.transactions import TxnOffsetCommitRequest, TxnOffsetCommitResponse

_FIRST_GROUP_NOT_FOUND = 9
"""From this version of OffsetCommit on a group that is not there is called so."""
_FIRST_TRANSACTIONAL_OF_GROUPS = 6
"""From this version of TxnOffsetCommit on it has the errors of OffsetCommit."""
_FIRST_DESCRIBE_NOT_FOUND = 6
_EXPIRE_OFFSETS = "expire-offsets"
_MINUTE_MS = 60_000
_OFFSETS_A_TURN = 2_000
"""About so many offsets are looked at for their age in one turn: a few milliseconds."""
_PAUSE_MS = 1
_DEAD = ClassicState.DEAD.value

T = TypeVar("T")


class GroupShard:
    """The state machine of one partition."""

    def __init__(
        self,
        *,
        timer: CoordinatorTimer,
        config: Config,
        topics: Topics,
        config_of: Callable[[str], ConsumerGroupConfig],
        random: Random,
        time_ms: Callable[[], int],
        time_slice: TimeSlice = ENDLESS,
    ) -> None:
        """`config_of` knows what holds for one consumer group, `topics` what topics there are. `time_slice` says when
        long work has to make room for other work."""
        self._timer = timer
        self._config = config
        self._time_ms = time_ms
        self.groups: dict[str, Any] = {}
        self.offsets = OffsetStore()
        self.classic = ClassicGroups(groups=self.groups, timer=timer, config=config, random=random, time_ms=time_ms)
        self.consumer = ConsumerGroupManager(
            self.groups, topics, timer, config_of, random, time_ms, self.classic, time_slice
        )
        self._classic_members = ClassicMembers(self.consumer)

    # --- the runtime tells --------------------------------------------------------------------------------------------

    def replay(self, record: CoordinatorRecord, producer_id: int) -> None:
        key, value = record.key, record.value
        if isinstance(key, OffsetCommitKey):
            self.offsets.replay(key, value, producer_id)
            if value is not None and key.group not in self.groups:
                self.classic.make(key.group)  # a simple group
        elif record.record_type in CONSUMER_GROUP_RECORD_TYPES:
            self.consumer.replay(record.record_type, key, value)
        elif isinstance(key, GroupMetadataKey):
            if isinstance(value, GroupMetadataValue):
                self.groups[key.group] = ClassicGroup.from_record(key.group, value)
            else:
                self.groups.pop(key.group, None)

    def replay_marker(self, producer_id: int, is_commit: bool) -> None:
        self.offsets.replay_marker(producer_id, is_commit)

    def on_loaded(self, now: int) -> None:
        self.classic.on_loaded()
        self.consumer.on_loaded(now)
        self._schedule_expiry()

    def on_unloaded(self) -> None:
        self.classic.on_unloaded()

    # --- members that speak the classic protocol ----------------------------------------------------------------------

    def join(
        self,
        request: JoinGroupRequest,
        version: int,
        client_id: str,
        client_host: str,
        now: int,
        describable: Describable = all_of,
    ) -> CoordinatorResult[Any]:
        """Let a member into a group; the response may be a promise. An empty consumer group makes room for a classic
        one."""
        group = self.consumer.find(request.group_id)
        if group is None or group.is_empty:
            return self.classic.join(request, version, client_id, client_host)
        return self._classic_members.join(group, request, version, client_id, client_host, now, describable)

    def sync(self, request: SyncGroupRequest) -> CoordinatorResult[Any]:
        """Give a member its assignment; the response may be a promise."""
        group = self.consumer.find(request.group_id)
        return self.classic.sync(request) if group is None else self._classic_members.sync(group, request)

    def heartbeat(self, request: HeartbeatRequest) -> CoordinatorResult[HeartbeatResponse]:
        """Note that a member lives."""
        group = self.consumer.find(request.group_id)
        return self.classic.heartbeat(request) if group is None else self._classic_members.heartbeat(group, request)

    def leave(self, request: LeaveGroupRequest) -> CoordinatorResult[LeaveGroupResponse]:
        """Remove members."""
        group = self.consumer.find(request.group_id)
        return self.classic.leave(request) if group is None else self._classic_members.leave(group, request)

    # --- committed offsets --------------------------------------------------------------------------------------------

    def commit(self, request: OffsetCommitRequest, version: int) -> CoordinatorResult[OffsetCommitResponse]:
        """Keep these offsets. KafkaError refuses all; an offset whose text is too long is refused alone."""
        group = self._group_for_commit(request, version)
        expire_ms = offset_records.NO_EXPIRY
        if request.retention_time_ms >= 0:
            expire_ms = self._time_ms() + request.retention_time_ms
        records: list[CoordinatorRecord] = []
        topic_type = OffsetCommitResponse.Topic
        topics = []
        for topic in request.topics:
            answers = self._commit_topic(
                request.group_id, topic, topic.topic_id, expire_ms, records, topic_type.Partition
            )
            topics.append(topic_type(name=topic.name, topic_id=topic.topic_id, partitions=answers))

        def after(now: int) -> None:
            if isinstance(group, ClassicGroup):
                self.classic.refresh_session(group, request.member_id)

        return CoordinatorResult(OffsetCommitResponse(topics=topics), records, after)

    def _commit_topic(
        self,
        group_id: str,
        topic: Any,
        topic_id: Uuid,
        expire_ms: int,
        records: list[CoordinatorRecord],
        answer: Callable[..., T],
    ) -> list[T]:
        """Add the records that commit this topic's offsets; what to answer for each partition, made by `answer`. A
        request may have ten thousand of them, so what is the same for all is looked up once."""
        now_ms = self._time_ms()
        longest = self._config[keys.OFFSET_METADATA_MAX_BYTES]
        record_of = offset_records.commit_records(group_id, topic.name, now_ms, expire_ms, topic_id)
        answers = []
        for partition in topic.partitions:
            metadata = partition.committed_metadata or ""
            number, code = partition.partition_index, ErrorCode.NONE
            if java_length(metadata) > longest:
                code = ErrorCode.OFFSET_METADATA_TOO_LARGE
            else:
                offset, epoch = partition.committed_offset, partition.committed_leader_epoch
                records.append(record_of(number, offset, epoch, metadata))
            answers.append(answer(partition_index=number, error_code=code))
        return answers

    def commit_transactional(
        self, request: TxnOffsetCommitRequest, version: int
    ) -> CoordinatorResult[TxnOffsetCommitResponse]:
        """Keep these offsets until the transaction ends. KafkaError refuses all; an offset whose text is too long is
        refused alone."""
        self._check_transactional_commit(request, version)
        records: list[CoordinatorRecord] = []
        topic_type = TxnOffsetCommitResponse.Topic
        topics = []
        for topic in request.topics:
            answers = self._commit_topic(
                request.group_id, topic, topic.topic_id, offset_records.NO_EXPIRY, records, topic_type.Partition
            )
            topics.append(topic_type(name=topic.name, topic_id=topic.topic_id, partitions=answers))
        return CoordinatorResult(TxnOffsetCommitResponse(topics=topics), records)

    def _check_transactional_commit(self, request: TxnOffsetCommitRequest, version: int) -> None:
        """KafkaError unless this client may commit for the group. One that names no member may: so did all clients up
        to version 2."""
        group = self.groups.get(request.group_id)
        member_id, instance_id = request.member_id, request.group_instance_id
        generation = request.generation_id_or_member_epoch
        knows_groups = version >= _FIRST_TRANSACTIONAL_OF_GROUPS
        if group is None:
            if generation >= 0:
                code = ErrorCode.GROUP_ID_NOT_FOUND if knows_groups else ErrorCode.ILLEGAL_GENERATION
                raise KafkaError(code, f"there is no group {request.group_id}")
        elif isinstance(group, ClassicGroup):
            check_classic_commit(group, member_id, instance_id, generation, is_transactional=True)
        else:
            try:
                group.validate_offset_commit(member_id, instance_id, generation, True, version)
            except KafkaError as error:
                if error.code is ErrorCode.STALE_MEMBER_EPOCH and not knows_groups:
                    raise KafkaError(ErrorCode.ILLEGAL_GENERATION, error.detail) from error
                raise

    def _group_for_commit(self, request: OffsetCommitRequest, version: int) -> Any:
        """The group, after it was asked whether this client may commit for it."""
        group = self.groups.get(request.group_id)
        generation = request.generation_id_or_member_epoch
        if group is None:
            if generation >= 0:
                code = (
                    ErrorCode.GROUP_ID_NOT_FOUND if version >= _FIRST_GROUP_NOT_FOUND else ErrorCode.ILLEGAL_GENERATION
                )
                raise KafkaError(code, f"there is no group {request.group_id}")
            return None
        if isinstance(group, ClassicGroup):
            check_classic_commit(group, request.member_id, request.group_instance_id, generation)
        else:
            group.validate_offset_commit(request.member_id, request.group_instance_id, generation, False, version)
        return group

    def fetch(
        self, asked: OffsetFetchRequest.Group, require_stable: bool, most: int | None = None
    ) -> OffsetFetchResponse.Group | list[OffsetFetchRequest.Group.Topic]:
        """The offsets that the group has committed: those asked for, or all. If all are more than `most`, what comes is
        only which ones there are, so that they can be asked for in pieces."""
        self._check_fetch(asked)
        topic_type = OffsetFetchResponse.Group.Topic
        if asked.topics is None:
            by_topic: dict[str, list[int]] = {}
            for place in sorted(self.offsets.of(asked.group_id)):
                by_topic.setdefault(place.topic, []).append(place.partition)
            wanted = [OffsetFetchRequest.Group.Topic(name=name, partition_indexes=p) for name, p in by_topic.items()]
            if most is not None and len(self.offsets.of(asked.group_id)) > most:
                return wanted
        else:
            wanted = list(asked.topics)
        return OffsetFetchResponse.Group(
            group_id=asked.group_id,
            topics=[
                topic_type(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partitions=[
                        self._fetched(
                            asked.group_id, TopicPartition(topic.name, number), topic.topic_id, require_stable
                        )
                        for number in topic.partition_indexes
                    ],
                )
                for topic in wanted
            ],
        )

    def _check_fetch(self, asked: OffsetFetchRequest.Group) -> None:
        """From version 9 on a member of a consumer group says so, and is fenced if it is none any more."""
        group = self.groups.get(asked.group_id)
        if asked.member_id is None and asked.member_epoch < 0:
            return
        if group is None or isinstance(group, ClassicGroup):
            return  # it has committed nothing, or has members that need not say so
        group.validate_offset_fetch(asked.member_id, asked.member_epoch)

    def _fetched(
        self, group_id: str, place: TopicPartition, topic_id: Uuid, require_stable: bool
    ) -> OffsetFetchResponse.Group.Topic.Partition:
        answer_type = OffsetFetchResponse.Group.Topic.Partition
        if require_stable and self.offsets.is_unstable(group_id, place):
            return answer_type(partition_index=place.partition, error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT)
        offset = self.offsets.of(group_id).get(place)
        if offset is None or ZERO_UUID != offset.topic_id != topic_id != ZERO_UUID:  # of another topic of this name
            return answer_type(partition_index=place.partition)
        return answer_type(
            partition_index=place.partition,
            committed_offset=offset.offset,
            committed_leader_epoch=offset.leader_epoch,
            metadata=offset.metadata,
        )

    def delete_offsets(self, request: OffsetDeleteRequest) -> CoordinatorResult[OffsetDeleteResponse]:
        """Forget offsets in topics that the group does not read."""
        group = self._existing(request.group_id)
        if not group.is_empty and isinstance(group, ClassicGroup) and not group.uses_consumer_protocol:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP, f"{request.group_id} has members that are no consumers")
        forgotten = []
        topics = []
        for topic in request.topics:
            is_read = group.is_subscribed_to(topic.name)
            error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if is_read else ErrorCode.NONE
            places = [TopicPartition(topic.name, partition.partition_index) for partition in topic.partitions]
            if not is_read:
                forgotten += [place for place in places if self.offsets.has(request.group_id, place)]
            topics.append(
                OffsetDeleteResponse.Topic(
                    name=topic.name,
                    partitions=[
                        OffsetDeleteResponse.Topic.Partition(partition_index=place.partition, error_code=error)
                        for place in places
                    ],
                )
            )
        records = offset_records.tombstones(request.group_id, forgotten)
        return CoordinatorResult(OffsetDeleteResponse(topics=topics), records)

    def groups_in_turns(self) -> Iterator[Sequence[str]]:
        """The groups that have offsets now, as many at a time as are looked at in one turn."""
        left: Sequence[str] = self.offsets.groups()
        while left:
            some = self._groups_of_a_turn(left)
            yield left[:some]
            left = left[some:]

    def _groups_of_a_turn(self, groups: Sequence[str]) -> int:
        """How many of these groups have about as many offsets as are looked at in one turn: the first ones."""
        some, size = 0, 0
        while some < len(groups) and size < _OFFSETS_A_TURN:
            size += 1 + len(self.offsets.of(groups[some]))
            some += 1
        return some

    def forget_topics(
        self, topics: Mapping[str, Collection[Uuid]], groups: Sequence[str] | None = None
    ) -> CoordinatorResult[None]:
        """Topics of these names and ids were deleted: their offsets, in these groups or in all, are of no use. An
        offset that was committed by name is taken for one of theirs."""
        records = []
        for group_id in self.offsets.groups() if groups is None else groups:
            places = [
                place
                for place in self.offsets.places_of(group_id)
                if place.topic in topics
                and (
                    self.offsets.is_unstable(group_id, place)  # a transaction commits by name
                    or self.offsets.of(group_id)[place].topic_id in (ZERO_UUID, *topics[place.topic])
                )
            ]
            records += offset_records.tombstones(group_id, places)
        return CoordinatorResult(None, records, is_atomic=False)

    def _schedule_expiry(self, left: Sequence[str] = ()) -> None:
        """Look for what is old from time to time; at groups that are `left` from the last time a moment later. A shard
        may hold a thousand groups of five hundred offsets, and meanwhile nothing else would be answered."""

        def expire(now: int) -> CoordinatorResult[None]:
            groups = left or sorted(self.groups)
            some = self._groups_of_a_turn(groups)
            result = self.expire_offsets(groups[:some])
            self._schedule_expiry(groups[some:])
            return result

        interval_ms = self._config[keys.OFFSETS_RETENTION_CHECK_INTERVAL_MS]
        self._timer.schedule(_EXPIRE_OFFSETS, _PAUSE_MS if left else interval_ms, expire)

    def expire_offsets(self, group_ids: Sequence[str] | None = None) -> CoordinatorResult[None]:
        """Forget offsets that are too old, and groups that have neither members nor offsets: of these groups, or of
        all."""
        records = []
        for group_id in sorted(self.groups) if group_ids is None else group_ids:
            if group_id not in self.groups:
                continue
            group = self.groups[group_id]
            old = self._expired(group_id, group)
            records += offset_records.tombstones(group_id, old)
            if group.is_empty and len(old) == len(self.offsets.of(group_id)) and not self.offsets.has_pending(group_id):
                records += self._tombstones(group)
        return CoordinatorResult(None, records, is_atomic=False)

    def _expired(self, group_id: str, group: Any) -> list[TopicPartition]:
        """Offsets of a group with members do not grow old, unless no member reads their topic any more."""
        retention_ms = self._config[keys.OFFSETS_RETENTION_MINUTES] * _MINUTE_MS
        base_ms = None
        if isinstance(group, ClassicGroup) and group.is_empty and group.protocol_type is not None:
            base_ms = group.state_timestamp if group.state_timestamp >= 0 else None
        expired = self.offsets.expired(group_id, base_ms, self._time_ms(), retention_ms)
        if group.is_empty:
            return sorted(expired)
        if isinstance(group, ClassicGroup) and (
            group.subscribed_topics is None or group.state is not ClassicState.STABLE
        ):
            return []
        return sorted(place for place in expired if not group.is_subscribed_to(place.topic))

    # --- groups -------------------------------------------------------------------------------------------------------

    def _existing(self, group_id: str) -> Any:
        group = self.groups.get(group_id)
        if group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no group {group_id}")
        return group

    def _tombstones(self, group: Any) -> list[CoordinatorRecord]:
        return [tombstone(group.group_id)] if isinstance(group, ClassicGroup) else group.tombstones()

    def delete_groups(self, group_ids: Sequence[str]) -> CoordinatorResult[list[DeleteGroupsResponse.Result]]:
        """Forget groups without members, and their offsets."""
        results = []
        records = []
        for group_id in group_ids:
            group = self.groups.get(group_id)
            error = ErrorCode.NONE
            if group is None:
                error = ErrorCode.GROUP_ID_NOT_FOUND
            elif not group.is_empty:
                error = ErrorCode.NON_EMPTY_GROUP
            else:
                records += offset_records.tombstones(group_id, self.offsets.places_of(group_id))
                records += self._tombstones(group)
            results.append(DeleteGroupsResponse.Result(group_id=group_id, error_code=error))
        return CoordinatorResult(results, records)

    def describe(self, group_id: str, version: int, live: "GroupShard") -> DescribeGroupsResponse.Group:
        """What this classic group is like. One that is not there is called dead. This shard says whether it is there;
        its members are those of the `live` shard, because no record holds members that are about to join."""
        group_type = DescribeGroupsResponse.Group
        group = self._seen(group_id, live)
        if not isinstance(group, ClassicGroup):
            if version < _FIRST_DESCRIBE_NOT_FOUND:
                return group_type(group_id=group_id, group_state=_DEAD)
            message = f"Group {group_id} not found." if group is None else f"Group {group_id} is not a classic group."
            return group_type(
                group_id=group_id, group_state=_DEAD, error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message=message
            )
        is_stable = group.state is ClassicState.STABLE
        return group_type(
            group_id=group_id,
            group_state=group.state_name,
            protocol_type=group.protocol_type or "",
            protocol_data=(group.protocol_name or "") if is_stable else "",
            members=[
                group_type.Member(
                    member_id=member.member_id,
                    group_instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    member_metadata=member.metadata(group.protocol_name) if is_stable else b"",
                    member_assignment=member.assignment,
                )
                for member in group.members.values()
            ],
        )

    def _seen(self, group_id: str, live: "GroupShard") -> Any:
        """The group as readers see it: what the records say, and of a classic group what it is at the moment."""
        group = self.groups.get(group_id)
        newest = live.groups.get(group_id)
        return newest if isinstance(group, ClassicGroup) and isinstance(newest, ClassicGroup) else group

    def listed(
        self, states: Collection[str], types: Collection[str], live: "GroupShard"
    ) -> list[ListGroupsResponse.Group]:
        """The groups with one of these states and types, in small letters; empty: all. `live` as in `describe`."""
        found = []
        for group_id in sorted(self.groups):
            group = self._seen(group_id, live)
            is_wanted = not states or group.state_name.lower() in states
            if is_wanted and (not types or group.group_type in types):
                found.append(
                    ListGroupsResponse.Group(
                        group_id=group_id,
                        protocol_type=group.protocol_type or "",
                        group_state=group.state_name,
                        group_type=group.group_type,
                    )
                )
        return found


def check_classic_commit(
    group: ClassicGroup, member_id: str, instance_id: str | None, generation: int, *, is_transactional: bool = False
) -> None:
    """KafkaError unless this client may commit offsets for the group. A transaction's commit need not name a member,
    and is taken in every state of the group."""
    if generation < 0 and group.is_empty:
        return
    if generation >= 0 or member_id or instance_id is not None:
        group.validate(member_id, instance_id)
        if generation != group.generation:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION, f"the generation is {group.generation}")
    elif not is_transactional:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"{group.group_id} has members: only they may commit")
    if group.state is ClassicState.COMPLETING_REBALANCE and not is_transactional:
        # The member knows its generation, but not yet what it may read in it.
        raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
