"""The states of a member on its way to its target, row by row; and the laws of the whole, with members that come, go,
change their minds, lose responses and lose their coordinator."""

from __future__ import annotations

import contextlib
import dataclasses
from collections import Counter
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import Uuid
from pykraft.coordinator.group.config import ConsumerGroupConfig
from pykraft.coordinator.group.consumer_groups.consumer_group_member import (
    ConsumerGroupMember,
    MemberState,
    assignment_of,
)
from pykraft.coordinator.group.consumer_groups.reconciliation import Heard, Target, reconcile
from pykraft.coordinator.group.topics import Assignment
from tests.harness.consumer_groups import GROUP, ConsumerGroupScript, owned_partitions

STABLE, UNREVOKED, UNRELEASED = MemberState.STABLE, MemberState.UNREVOKED_PARTITIONS, MemberState.UNRELEASED_PARTITIONS
T = Uuid(bytes(15) + b"\1")


def some(*partitions: int) -> Assignment:
    return {T: frozenset(partitions)} if partitions else {}


# (state, has, revoking), (target, owned by others, what the member says it owns) -> (state, epoch, has, revoking)
ROWS: list[tuple[str, Any, Any, Any]] = [
    ("nothing changes", (STABLE, some(1), some()), (some(1), (), None), (STABLE, 2, some(1), some())),
    ("a free one is added", (STABLE, some(1), some()), (some(1, 2), (), None), (STABLE, 2, some(1, 2), some())),
    ("a taken one is awaited", (STABLE, some(1), some()), (some(1, 2), (2,), None), (UNRELEASED, 2, some(1), some())),
    (
        "what is free is added at once",
        (STABLE, some(), some()),
        (some(1, 2), (2,), None),
        (UNRELEASED, 2, some(1), some()),
    ),
    ("one is to be revoked", (STABLE, some(1, 2), some()), (some(1), (), None), (UNREVOKED, 1, some(1), some(2))),
    (
        "revoking comes first",
        (STABLE, some(1, 2), some()),
        (some(1, 3), (), some(1, 2)),
        (UNREVOKED, 1, some(1), some(2)),
    ),
    (
        "a member that owns it no more need not revoke it",
        (STABLE, some(1, 2), some()),
        (some(1, 3), (), some(1)),
        (STABLE, 2, some(1, 3), some()),
    ),
    (
        "it has not said that it revoked",
        (UNREVOKED, some(1), some(2)),
        (some(1), (), None),
        (UNREVOKED, 1, some(1), some(2)),
    ),
    (
        "it still owns what it is to revoke",
        (UNREVOKED, some(1), some(2)),
        (some(1), (), some(1, 2)),
        (UNREVOKED, 1, some(1), some(2)),
    ),
    ("it has revoked", (UNREVOKED, some(1), some(2)), (some(1), (), some(1)), (STABLE, 2, some(1), some())),
    (
        "it may have back what it was to revoke",
        (UNREVOKED, some(1), some(2)),
        (some(1, 2), (2,), some(1)),
        (STABLE, 2, some(1, 2), some()),
    ),
    (
        "the wait is over",
        (UNRELEASED, some(1), some()),
        (some(1, 2), (), None),
        (STABLE, 2, some(1, 2), some()),
    ),
    (
        "the wait goes on",
        (UNRELEASED, some(1), some()),
        (some(1, 2), (2,), None),
        (UNRELEASED, 2, some(1), some()),
    ),
    (
        "while it waits, the target moves away",
        (UNRELEASED, some(1), some()),
        (some(2), (2,), None),
        (UNREVOKED, 1, some(), some(1)),
    ),
]


@pytest.mark.parametrize(("before", "given", "after"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_one_step_towards_a_target(before: Any, given: Any, after: Any) -> None:
    state, has, revoking = before
    target, taken, owned = given
    member = ConsumerGroupMember("a", 1, 0, state, assigned=has, pending_revocation=revoking)
    heard = Heard(owned, False, {T})
    reached = reconcile(member, Target(2, target), heard, lambda _, partition: 1 if partition in taken else -1)
    assert (reached.state, reached.member_epoch, reached.assigned, reached.pending_revocation) == after


def test_within_its_epoch_a_member_only_loses_what_it_unsubscribed_from() -> None:
    member = ConsumerGroupMember("a", 2, 1, STABLE, assigned=some(1))
    target = Target(2, some(1, 2))
    assert reconcile(member, target, Heard(None, False, ()), lambda *_: -1) is member
    assert reconcile(member, target, Heard(None, True, {T}), lambda *_: -1) is member
    dropped = reconcile(member, target, Heard(None, True, ()), lambda *_: -1)
    assert (dropped.state, dropped.assigned, dropped.pending_revocation) == (UNREVOKED, {}, some(1))
    gone = reconcile(member, target, Heard(some(), True, ()), lambda *_: -1)
    assert (gone.state, gone.assigned, gone.pending_revocation) == (STABLE, {}, {})


def test_a_member_in_a_state_of_the_future_must_give_up_everything() -> None:
    member = ConsumerGroupMember("a", 1, 0, MemberState.of(5), assigned=some(1))
    with pytest.raises(KafkaError) as refusal:
        reconcile(member, Target(2, some(1)), Heard(some(1), False, {T}), lambda *_: -1)
    assert refusal.value.code is ErrorCode.FENCED_MEMBER_EPOCH
    assert reconcile(member, Target(2, some(1)), Heard(some(), False, {T}), lambda *_: -1).state is STABLE


# --- the laws ---------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Consumer:
    """What a member's process knows: its epoch, what it was given, what it owns. It gives up at once what it must."""

    member_id: str
    topics: list[str]
    instance_id: str | None = None
    epoch: int = 0
    owned: Assignment = dataclasses.field(default_factory=dict)
    is_away: bool = False
    said_topics: bool = False


NAMES = ["orders", "people"]
MEMBERS = st.sampled_from("abcd")
SESSION_MS = ConsumerGroupConfig().session_timeout_ms


class AGroupOfConsumers(RuleBasedStateMachine):
    """Members a and b are static, c and d are not."""

    @initialize()
    def begin(self) -> None:
        self.script = ConsumerGroupScript({"orders": 3, "people": 2})
        self.consumers: dict[str, Consumer] = {}
        self.made = Counter[str]()

    def consumer(self, name: str) -> Consumer:
        if name not in self.consumers:
            instance_id = name if name in "ab" else None
            self.made[name] += 1
            member_id = f"{name}{self.made[name]}" if instance_id else name
            self.consumers[name] = Consumer(member_id, ["orders"], instance_id)
        return self.consumers[name]

    def send(self, name: str, is_lost: bool = False) -> None:
        """A heartbeat as a consumer sends it."""
        consumer = self.consumer(name)
        joins = consumer.epoch == 0
        request = self.script.request(consumer.member_id, consumer.epoch, instance_id=consumer.instance_id)
        request.topic_partitions = owned_partitions({} if joins else consumer.owned)
        if joins or not consumer.said_topics:
            request.subscribed_topic_names = consumer.topics
            request.rebalance_timeout_ms = 10_000
        try:
            response = self.script.send(request)
        except KafkaError as error:
            if error.code is ErrorCode.UNRELEASED_INSTANCE_ID:
                return
            assert error.code in (
                ErrorCode.FENCED_MEMBER_EPOCH,
                ErrorCode.UNKNOWN_MEMBER_ID,
                ErrorCode.FENCED_INSTANCE_ID,
                ErrorCode.GROUP_ID_NOT_FOUND,
            )
            consumer.epoch, consumer.owned, consumer.said_topics = 0, {}, False
            return
        if is_lost:
            return
        consumer.epoch, consumer.said_topics = response.member_epoch, True
        if response.assignment is not None:
            consumer.owned = assignment_of(response.assignment.topic_partitions)

    @rule(name=MEMBERS)
    def heartbeat(self, name: str) -> None:
        self.send(name)

    @rule(name=MEMBERS)
    def heartbeat_whose_response_is_lost(self, name: str) -> None:
        self.send(name, is_lost=True)

    @rule(name=MEMBERS)
    def heartbeat_whose_append_fails(self, name: str) -> None:
        """The plan is dropped: nothing has changed."""
        consumer = self.consumer(name)
        request = self.script.request(consumer.member_id, consumer.epoch, instance_id=consumer.instance_id)
        request.topic_partitions = owned_partitions({} if consumer.epoch == 0 else consumer.owned)
        request.subscribed_topic_names, request.rebalance_timeout_ms = consumer.topics, 10_000
        before = seen(self.script)
        with contextlib.suppress(KafkaError):
            self.script.manager.heartbeat(request, "c", "/h", 1, self.script.now)
        assert seen(self.script) == before

    @rule(name=MEMBERS, topics=st.lists(st.sampled_from(NAMES), unique=True))
    def subscribe(self, name: str, topics: list[str]) -> None:
        consumer = self.consumer(name)
        consumer.topics, consumer.said_topics = topics, False
        self.send(name)

    @rule(name=MEMBERS, for_a_while=st.booleans())
    def leave(self, name: str, for_a_while: bool) -> None:
        consumer = self.consumers.pop(name, None)
        if consumer is not None and consumer.epoch > 0:
            epoch = -2 if for_a_while and consumer.instance_id else -1
            self.script.leave(consumer.member_id, epoch, instance_id=consumer.instance_id)

    @rule(name=MEMBERS)
    def crash(self, name: str) -> None:
        self.consumers.pop(name, None)

    @rule(ms=st.sampled_from([1_000, 10_000, SESSION_MS]))
    def time_passes(self, ms: int) -> None:
        self.script.pass_time(ms)

    @rule(name=st.sampled_from(NAMES), partitions=st.integers(1, 5))
    def topics_change(self, name: str, partitions: int) -> None:
        topic = self.script.topics.named(name)
        if topic is None:
            self.script.create(name, partitions)
        elif partitions > topic.partitions:
            self.script.grow(name, partitions)
        else:
            self.script.delete(name)

    @rule()
    def the_coordinator_moves(self) -> None:
        """The records that compaction leaves hold the whole state."""
        before = seen(self.script)
        self.script.restart()
        assert seen(self.script) == before

    @invariant()
    def a_partition_has_at_most_one_owner(self) -> None:
        group = self.script.groups.get(GROUP)
        owners: Counter[tuple[Uuid, int]] = Counter()
        for member in group.members.values() if group is not None else ():
            for assignment in (member.assigned, member.pending_revocation):
                owners.update((topic_id, number) for topic_id, numbers in assignment.items() for number in numbers)
                for topic_id, numbers in assignment.items():
                    assert {group.owner_epoch(topic_id, number) for number in numbers} == {member.member_epoch}
        assert all(count == 1 for count in owners.values()), owners
        if group is not None:
            assert len(group._owner_epochs) == len(owners)

    def teardown(self) -> None:
        """The records hold the whole state. When nothing changes any more, every member reaches its target."""
        again = ConsumerGroupScript(log=self.script.log)
        assert seen(again) == seen(self.script)
        for name in sorted(self.consumers):
            self.send(name)
        self.script.pass_time(SESSION_MS)  # members that crashed are gone
        for _ in range(8):
            for name in sorted(self.consumers):
                self.send(name)
        group = self.script.groups.get(GROUP)
        if group is None or not self.consumers:
            return
        assert group.state == "Stable"
        for consumer in self.consumers.values():
            member = group.members[consumer.member_id]
            assert consumer.epoch == member.member_epoch == group.group_epoch
            assert consumer.owned == member.assigned == group.target_of(member)
        wanted = {name for consumer in self.consumers.values() for name in consumer.topics}
        topics = [topic for name in wanted if (topic := self.script.topics.named(name)) is not None]
        assert len(group._owner_epochs) == sum(topic.partitions for topic in topics)


def seen(script: ConsumerGroupScript) -> Any:
    """The state of the group, but for what is soft."""
    group = script.groups.get(GROUP)
    state = dict(vars(group)) if group is not None else {}
    state.pop("metadata_refresh_deadline_ms", None)
    return state


TestLaws = AGroupOfConsumers.TestCase
TestLaws.settings = settings(stateful_step_count=25)
