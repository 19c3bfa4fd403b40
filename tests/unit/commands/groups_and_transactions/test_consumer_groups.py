"""What ``consumer-groups`` makes of groups that a live cluster seldom shows, and how it reads times and files. That the
tables are those of Kafka's tool is tested beside it, on the same groups."""

from __future__ import annotations

import pytest

from pykraft.client.administration.group_offsets import CommittedOffsets
from pykraft.client.administration.groups import ConsumerGroupDescription, GroupState, GroupType, MemberDescription
from pykraft.client.consuming.commits import OffsetAndMetadata
from pykraft.commands.common import CommandError
from pykraft.commands.groups_and_transactions.group_resets import (
    csv_of,
    parse_duration,
    parse_moment,
    parse_plan,
    split_topics,
)
from pykraft.commands.groups_and_transactions.group_tables import (
    Complaint,
    members_tables,
    offsets_tables,
    states_tables,
)
from pykraft.common.errors import KafkaError
from pykraft.common.types import Node, TopicPartition

ZERO, ONE, TWO = (TopicPartition("t", number) for number in range(3))


def member(name: str, *partitions: TopicPartition) -> MemberDescription:
    return MemberDescription(name, None, None, f"client-{name}", "/h", partitions, None, None, None)


def group(state: GroupState, *members: MemberDescription) -> ConsumerGroupDescription:
    return ConsumerGroupDescription("g", GroupType.CLASSIC, state, Node(1, "h", 9092), "", tuple(members), None, None)


@pytest.mark.parametrize(
    ("state", "remark", "is_error"),
    [
        (GroupState.STABLE, "", False),
        (GroupState.EMPTY, "Consumer group 'g' has no active members.", False),
        (GroupState.DEAD, "Consumer group 'g' does not exist.", True),
        (GroupState.PREPARING_REBALANCE, "Warning: Consumer group 'g' is rebalancing.", False),
        (GroupState.COMPLETING_REBALANCE, "Warning: Consumer group 'g' is rebalancing.", False),
        (GroupState.ASSIGNING, "Warning: Consumer group 'g' is rebalancing.", False),
        (GroupState.RECONCILING, "Warning: Consumer group 'g' is rebalancing.", False),
    ],
)
def test_each_state_has_its_remark(state: GroupState, remark: str, is_error: bool) -> None:
    ((said, table),) = states_tables([group(state)], verbose=False)
    assert (said, isinstance(said, Complaint)) == (remark, is_error)
    assert (table == "") == is_error, "there is no table of a group that is gone"
    assert [said for said, _ in members_tables([group(state)], verbose=False)] == [remark]


def test_a_state_that_is_none_of_consumers_is_refused() -> None:
    with pytest.raises(KafkaError, match="Expected a valid consumer group state, but found 'NotReady'"):
        list(states_tables([group(GroupState.NOT_READY)], verbose=False))


def test_members_with_more_partitions_come_first_and_what_is_not_known_is_a_dash() -> None:
    committed: CommittedOffsets = {
        TWO: OffsetAndMetadata(3, "", 6),
        ONE: OffsetAndMetadata(5),
        TopicPartition("s", 0): OffsetAndMetadata(1),
    }
    small, large = member("a"), member("b", ZERO, ONE)
    ends = {ZERO: 9, TWO: 9}  # t-1 and s-0 have no leader
    ((_, table),) = offsets_tables([group(GroupState.STABLE, small, large)], {"g": committed}, ends, verbose=True)
    assert [line.split() for line in table.splitlines()[2:]] == [
        ["g", "t", "0", "-", "-", "9", "-", "b", "/h", "client-b"],
        ["g", "t", "1", "-", "5", "-", "-", "b", "/h", "client-b"],
        ["g", "s", "0", "-", "1", "-", "-", "-", "-", "-"],
        ["g", "t", "2", "6", "3", "9", "6", "-", "-", "-"],
    ]


def test_a_group_without_offsets_and_partitions_has_no_table_of_them() -> None:
    assert list(offsets_tables([group(GroupState.STABLE, member("a"))], {"g": {}}, {}, verbose=False)) == [("", "")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01T00:00:01.500", 1500),
        ("1970-01-01T00:00:01.500Z", 1500),
        ("1970-01-01T02:00:00.001+02:00", 1),
        ("1969-12-31T23:00:00.000-01", 0),
        ("1970-01-01T00:00:01", None),
        ("1970-02-30T00:00:00.000", None),
        ("1970-01-01", None),
        ("", None),
    ],
)
def test_moments_are_read_as_utc(text: str, expected: int | None) -> None:
    if expected is None:
        with pytest.raises(CommandError, match="--to-datetime"):
            parse_moment(text)
    else:
        assert parse_moment(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("P2D", 172_800_000),
        ("PT1H30M", 5_400_000),
        ("pt0.25s", 250),
        ("P1DT-1H", 82_800_000),
        ("-PT1M", -60_000),
        ("P", None),
        ("PT", None),
        ("P1DT", None),
        ("P1W", None),
        ("1H", None),
    ],
)
def test_durations_are_those_of_java(text: str, expected: int | None) -> None:
    if expected is None:
        with pytest.raises(CommandError, match="--by-duration"):
            parse_duration(text)
    else:
        assert parse_duration(text) == expected


def test_topics_are_split_from_their_partitions() -> None:
    assert split_topics(["t:0,2", "s"]) == ([ZERO, TWO], ["s"])


@pytest.mark.parametrize("group_id", [None, "g"])
@pytest.mark.parametrize("name", ["t", "a group's", 'one, "two"', "x" * 25, "ä"])
def test_a_plan_is_read_as_it_is_written(name: str, group_id: str | None) -> None:
    offsets = {ZERO: 4, ONE: 0}
    plan = {name: offsets} if group_id is None else {group_id: offsets}
    assert parse_plan(csv_of(plan, is_single_group=group_id is not None), group_id) == plan


def test_a_file_of_several_groups_serves_a_single_one_too() -> None:
    assert parse_plan("g,t,0,4\n\nother,t,1,5\n", "g") == {"g": {ZERO: 4}, "other": {ONE: 5}}


@pytest.mark.parametrize("line", ["t,0", "g,t,0,4,5", "g,t,zero,4", "g,t,0,-4", "g,t,0,9223372036854775808", "t,0,4"])
def test_a_line_that_cannot_be_read_is_named(line: str) -> None:
    with pytest.raises(CommandError, match="line 2 must have group,topic,partition,offset"):
        parse_plan(f"g,t,0,4\n{line}\n", None)
