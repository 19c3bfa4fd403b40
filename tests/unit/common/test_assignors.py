"""The assignors: small groups by hand, and the laws that hold for every group.

Kafka's own classes are the judge of the exact results: tests/interop/test_java_assignors.py.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft.common.assignors import ASSIGNORS, MemberSubscription, assignor
from pykraft.common.assignors.sticky import Claim, decode_claim, encode_claim
from pykraft.common.types import TopicPartition

Members = dict[str, MemberSubscription]
STICKY = ("sticky", "cooperative-sticky")
TOPICS = ("t", "u", "v")


def assign(name: str, partitions: Mapping[str, int], members: Mapping[str, MemberSubscription]) -> dict[str, str]:
    """The result as text: "t-0 t-1" for each member."""
    assignment = assignor(name).assign(partitions, members)
    return {member_id: " ".join(map(str, assigned)) for member_id, assigned in assignment.items()}


def member(topics: str, owned: str = "", generation: int = -1, instance_id: str | None = None) -> MemberSubscription:
    """A member that says what it owns in the subscription and in sticky's user data."""
    pairs = [each.rsplit("-", 1) for each in owned.split()]
    partitions = [TopicPartition(topic, int(number)) for topic, number in pairs]
    data = encode_claim(partitions, generation) if partitions or generation >= 0 else None
    return MemberSubscription(topics.split(), partitions, generation, None, instance_id, data)


@pytest.mark.parametrize(
    ("name", "a", "b"),
    [
        ("range", "t-0 t-1 u-0 u-1", "t-2 u-2"),
        ("roundrobin", "t-0 t-2 u-1", "t-1 u-0 u-2"),
        ("sticky", "t-0 t-2 u-1", "t-1 u-0 u-2"),
        ("cooperative-sticky", "t-0 t-2 u-1", "t-1 u-0 u-2"),
    ],
)
def test_two_members_share_two_topics_of_three_partitions(name: str, a: str, b: str) -> None:
    assert assign(name, {"t": 3, "u": 3}, {"b": member("t u"), "a": member("t u")}) == {"a": a, "b": b}


@pytest.mark.parametrize("name", ["range", "roundrobin"])
def test_static_members_come_first_by_instance_id(name: str) -> None:
    members = {"a": member("t"), "b": member("t", instance_id="z"), "c": member("t", instance_id="y")}
    assert assign(name, {"t": 3}, members) == {"c": "t-0", "b": "t-1", "a": "t-2"}


def test_roundrobin_skips_members_that_do_not_subscribe() -> None:
    members = {"a": member("t u"), "b": member("u"), "c": member("t u")}
    assert assign("roundrobin", {"t": 3, "u": 3}, members) == {"a": "t-0 t-2 u-2", "b": "u-0", "c": "t-1 u-1"}


def test_when_a_member_leaves_sticky_gives_only_its_partitions_away() -> None:
    members = {"a": member("t", "t-0 t-3", 1), "c": member("t", "t-2 t-5", 1)}
    assert assign("sticky", {"t": 6}, members) == {"a": "t-0 t-3 t-1", "c": "t-2 t-5 t-4"}


def test_cooperative_sticky_gives_a_moving_partition_only_after_its_owner_has_revoked_it() -> None:
    members = {"a": member("t", "t-0 t-1 t-2 t-3", 1), "b": member("t")}
    assert assign("cooperative-sticky", {"t": 4}, members) == {"a": "t-0 t-1", "b": ""}
    members = {"a": member("t", "t-0 t-1", 2), "b": member("t", "", 2)}
    assert assign("cooperative-sticky", {"t": 4}, members) == {"a": "t-0 t-1", "b": "t-2 t-3"}


@pytest.mark.parametrize("name", STICKY)
def test_of_two_claims_the_higher_generation_wins(name: str) -> None:
    members = {"a": member("t", "t-0", 1), "b": member("t", "t-0", 2)}
    assert assign(name, {"t": 2}, members) == {"a": "t-1", "b": "t-0"}


def test_two_claims_of_one_generation_are_both_void() -> None:
    members = {"a": member("t", "t-0 t-1", 1), "b": member("t", "t-1", 1), "c": member("t", "t-2", 1)}
    assert assign("sticky", {"t": 3}, members) == {"a": "t-0", "b": "t-1", "c": "t-2"}
    assert assign("cooperative-sticky", {"t": 3}, members) == {"a": "t-0", "b": "", "c": "t-2"}


@pytest.mark.parametrize("name", STICKY)
def test_a_deleted_topic_is_forgotten(name: str) -> None:
    members = {"a": member("t", "gone-0 t-0 t-7", 1), "b": member("t")}
    assert assign(name, {"t": 2}, members) == {"a": "t-0", "b": "t-1"}


@pytest.mark.parametrize("name", ASSIGNORS)
def test_groups_without_members_or_without_known_topics_are_assigned_nothing(name: str) -> None:
    assert assign(name, {"t": 3}, {}) == {}
    assert assign(name, {}, {"a": member("t")}) == {"a": ""}
    assert assign(name, {"u": 3, "t": 0}, {"a": member("t"), "b": member("")}) == {"a": "", "b": ""}


def test_a_partition_that_has_to_move_goes_back_to_the_member_that_had_it_before() -> None:
    """`c` missed a generation. Without its claim u-0 goes to `b`, the first of the lightest; Kafka 4.2.1 agrees."""
    members = {"a": member("t u", "u-0", 2), "b": member("u", "", 1), "c": member("u", "u-0", 1)}
    assert assign("sticky", {"t": 1, "u": 1}, members) == {"a": "t-0", "b": "", "c": "u-0"}
    members["c"] = member("u", "", 1)
    assert assign("sticky", {"t": 1, "u": 1}, members) == {"a": "t-0", "b": "u-0", "c": ""}


def test_a_partition_does_not_move_back_to_a_member_that_no_longer_subscribes_to_it() -> None:
    """Kafka 4.2.1 gives it to that member. Here `a` missed a generation and has left u."""
    members = {"a": member("t", "u-0 u-1 u-2", 1), "b": member("u", "u-0 u-1 u-2", 2), "c": member("u t", "t-0", 2)}
    assert assign("sticky", {"t": 1, "u": 3}, members) == {"a": "t-0", "b": "u-1 u-2", "c": "u-0"}


def test_the_names_are_kafkas_and_another_is_refused_with_them() -> None:
    assert [(each.name, each.is_cooperative) for each in ASSIGNORS.values()] == [
        ("range", False),
        ("roundrobin", False),
        ("sticky", False),
        ("cooperative-sticky", True),
    ]
    with pytest.raises(ValueError, match=r"'fair'.*range, roundrobin, sticky, cooperative-sticky"):
        assignor("fair")


# User data

OWNED = [TopicPartition("t", 1), TopicPartition("t", 0)]
USER_DATA = bytes.fromhex("00000001 0001 74 00000002 00000001 00000000 00000007")


@pytest.mark.parametrize(
    ("name", "first", "later"),
    [
        ("range", None, None),
        ("roundrobin", None, None),
        ("sticky", None, USER_DATA),
        ("cooperative-sticky", struct.pack(">i", -1), struct.pack(">i", 7)),
    ],
)
def test_user_data_before_and_after_the_first_assignment(name: str, first: bytes | None, later: bytes | None) -> None:
    assert assignor(name).user_data([], -1) == first
    assert assignor(name).user_data(OWNED, 7) == later


@pytest.mark.parametrize(
    ("data", "claim"),
    [
        (USER_DATA, Claim(OWNED, 7)),
        (USER_DATA[:-4], Claim(OWNED, -1)),
        (USER_DATA[:-5], Claim((), -1)),
        (b"", Claim((), -1)),
        (struct.pack(">ii", -1, 3), Claim((), -1)),
        (struct.pack(">ihi", 1, -5, 3), Claim((), -1)),
        (struct.pack(">ihi", 1, 0, -1), Claim((), -1)),
        (struct.pack(">ihi", 1, 0, 2**31 - 1), Claim((), -1)),
    ],
)
def test_user_data_that_cannot_be_read_claim_nothing(data: bytes, claim: Claim) -> None:
    assert decode_claim(data) == claim


def test_cooperative_sticky_reads_an_older_members_generation_from_its_user_data() -> None:
    old = MemberSubscription(["t"], [TopicPartition("t", 0)], user_data=struct.pack(">i", 3))
    members = {"a": member("t", "t-0", 2), "b": old}
    assert assign("cooperative-sticky", {"t": 2}, members) == {"a": "t-1", "b": "t-0"}


# Laws


@st.composite
def groups(draw: st.DrawFn, equal: bool = False) -> tuple[dict[str, int], Members]:
    """Partition counts and members; what they own can contradict itself."""
    random = draw(st.randoms(use_true_random=True))  # one draw for the whole group: many small ones take seconds
    partitions = {topic: random.randint(0, 7) for topic in random.sample(TOPICS, random.randint(1, 3))}
    every = [TopicPartition(topic, number) for topic in TOPICS for number in range(8)]
    topics = random.sample(TOPICS, random.randint(1, 3))
    members = {}
    for member_id in random.sample("abcdef", random.randint(1, 6)):
        if not equal:
            topics = random.sample(TOPICS, random.randint(0, 3))
        owned = random.sample(every, random.randint(0, 8))
        members[member_id] = said(MemberSubscription(topics), owned, random.choice([-1, 1, 2]))
    return partitions, members


def said(subscription: MemberSubscription, owned: Sequence[TopicPartition], generation: int) -> MemberSubscription:
    data = encode_claim(owned, generation)
    return subscription._replace(owned=owned, generation=generation, user_data=data)


@given(groups(), st.sampled_from([*ASSIGNORS]))
def test_each_partition_has_one_owner_and_the_owner_subscribes_to_it(
    group: tuple[dict[str, int], Members], name: str
) -> None:
    partitions, members = group
    assignment = assignor(name).assign(partitions, members)
    assert assignment.keys() == members.keys()
    given_out = [partition for assigned in assignment.values() for partition in assigned]
    assert len({*given_out}) == len(given_out)
    assert all(each.topic in members[one].topics for one, assigned in assignment.items() for each in assigned)
    subscribed = {topic for each in members.values() for topic in each.topics}
    wanted = {TopicPartition(t, n) for t, count in partitions.items() if t in subscribed for n in range(count)}
    withheld = wanted.difference(given_out)
    assert {*given_out} <= wanted
    assert not withheld or name == "cooperative-sticky"
    assert withheld <= {partition for each in members.values() for partition in each.owned}


@given(groups())
def test_cooperative_sticky_gives_away_no_partition_that_a_member_still_has(
    group: tuple[dict[str, int], Members],
) -> None:
    partitions, members = group
    assignment = assignor("cooperative-sticky").assign(partitions, members)
    for member_id, assigned in assignment.items():
        for partition in {*assigned}.difference(members[member_id].owned):
            assert not [each for each in members if partition in members[each].owned]


@given(groups(equal=True), st.sampled_from(["roundrobin", "sticky"]))
def test_members_with_equal_subscriptions_differ_by_at_most_one_partition(
    group: tuple[dict[str, int], Members], name: str
) -> None:
    sizes = [len(assigned) for assigned in assignor(name).assign(*group).values()]
    assert max(sizes) - min(sizes) <= 1


@given(groups())
def test_sticky_leaves_no_move_that_would_narrow_a_difference(group: tuple[dict[str, int], Members]) -> None:
    partitions, members = group
    assignment = assignor("sticky").assign(partitions, members)
    for owner, assigned in assignment.items():
        for other, subscription in members.items():
            if len(assigned) > len(assignment[other]) + 1:
                assert not {each.topic for each in assigned}.intersection(subscription.topics), (owner, other)


def settled(
    partitions: Mapping[str, int], members: Members, name: str
) -> tuple[Members, dict[str, list[TopicPartition]]]:
    """The group as it rejoins after it has received its assignment."""
    assignment = assignor("sticky").assign(partitions, members)
    return {each: said(members[each], owned, 5) for each, owned in assignment.items()}, assignment


@given(groups(), st.sampled_from(STICKY))
def test_a_group_that_has_not_changed_keeps_its_assignment(group: tuple[dict[str, int], Members], name: str) -> None:
    partitions, members = group
    members, assignment = settled(partitions, members, name)
    again = assignor(name).assign(partitions, members)
    assert {each: {*assigned} for each, assigned in again.items()} == {each: {*was} for each, was in assignment.items()}


@given(groups(equal=True), st.data())
def test_when_a_member_leaves_the_others_keep_all_they_have(
    group: tuple[dict[str, int], Members], data: st.DataObject
) -> None:
    partitions, members = group
    members, assignment = settled(partitions, members, "sticky")
    del members[data.draw(st.sampled_from(sorted(members)))]
    for member_id, assigned in assignor("sticky").assign(partitions, members).items():
        assert {*assignment[member_id]} <= {*assigned}


@given(groups(equal=True))
def test_when_a_member_joins_partitions_move_only_to_it(group: tuple[dict[str, int], Members]) -> None:
    partitions, members = group
    members, assignment = settled(partitions, members, "sticky")
    members["new"] = MemberSubscription(next(iter(members.values())).topics)
    now = assignor("sticky").assign(partitions, members)
    assert all({*now[member_id]} <= {*assigned} for member_id, assigned in assignment.items())


@given(groups(), st.lists(st.sampled_from("xyz"), unique=True))
def test_cooperative_sticky_is_complete_after_one_more_rebalance(
    group: tuple[dict[str, int], Members], joining: list[str]
) -> None:
    partitions, members = group
    members, _ = settled(partitions, members, "sticky")
    members |= {each: MemberSubscription(TOPICS) for each in joining}
    first = assignor("cooperative-sticky").assign(partitions, members)
    members = {each: said(members[each], owned, 6) for each, owned in first.items()}
    second = assignor("cooperative-sticky").assign(partitions, members)
    members = {each: said(members[each], owned, 7) for each, owned in second.items()}
    assert {each: {*owned} for each, owned in assignor("sticky").assign(partitions, members).items()} == {
        each: {*owned} for each, owned in second.items()
    }


@given(groups())
def test_user_data_come_back(group: tuple[dict[str, int], Members]) -> None:
    for each in group[1].values():
        claim = decode_claim(encode_claim(each.owned, each.generation))
        assert (sorted(claim.partitions), claim.generation) == (sorted(each.owned), each.generation)
