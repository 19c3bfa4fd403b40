"""The coordinator's assignors: small groups by hand, and the laws that hold for every group.

Kafka's own classes are the judge of the exact results: tests/interop/test_java_assignors.py.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft.common.types import Uuid
from pykraft.coordinator.group.assignors import ASSIGNORS, Assignment, Member

TOPICS = {letter: Uuid(letter.encode() * 16) for letter in "tuv"}
LETTERS = {topic_id: letter for letter, topic_id in TOPICS.items()}


def member(topics: str, assigned: str = "", instance_id: str | None = None) -> Member:
    """Topics are letters; `assigned` is text as "t0 t1 u0"."""
    held: dict[Uuid, frozenset[int]] = {}
    for letter, *number in assigned.split():
        held[TOPICS[letter]] = held.get(TOPICS[letter], frozenset()) | {int("".join(number))}
    return Member(instance_id, frozenset(TOPICS[letter] for letter in topics), held)


def assign(name: str, partitions: Mapping[str, int], members: Mapping[str, Member]) -> dict[str, str]:
    """The target assignment, each member's as text."""
    target = ASSIGNORS[name](members, {TOPICS[letter]: count for letter, count in partitions.items()})
    return {
        member_id: " ".join(f"{letter}{number}" for letter, number in pairs(target, member_id)) for member_id in target
    }


def pairs(assignment: Assignment, member_id: str) -> list[tuple[str, int]]:
    return sorted((LETTERS[topic], number) for topic, numbers in assignment[member_id].items() for number in numbers)


@pytest.mark.parametrize(("name", "a", "b"), [("range", "t0 t1 u0 u1", "t2 u2"), ("uniform", "t0 t1 t2", "u0 u1 u2")])
def test_two_members_share_two_topics_of_three_partitions(name: str, a: str, b: str) -> None:
    assert assign(name, {"t": 3, "u": 3}, {"b": member("tu"), "a": member("tu")}) == {"a": a, "b": b}


def test_range_gives_to_static_members_first_by_instance_id() -> None:
    members = {"a": member("t"), "b": member("t", instance_id="z"), "c": member("t", instance_id="y")}
    assert assign("range", {"t": 4}, members) == {"c": "t0 t1", "b": "t2", "a": "t3"}


def test_range_shares_each_topic_among_its_own_subscribers() -> None:
    members = {"a": member("t"), "b": member("tu"), "c": member("u")}
    assert assign("range", {"t": 3, "u": 3}, members) == {"a": "t0 t1", "b": "t2 u0 u1", "c": "u2"}


def test_uniform_takes_only_what_a_new_member_needs() -> None:
    members = {"a": member("t", "t0 t1 t2"), "b": member("t", "t3 t4 t5"), "c": member("t")}
    assert assign("uniform", {"t": 6}, members) == {"a": "t0 t1", "b": "t3 t4", "c": "t2 t5"}


def test_uniform_leaves_the_extra_partition_where_it_is() -> None:
    members = {"a": member("t", "t0"), "b": member("t", "t1 t2")}
    assert assign("uniform", {"t": 3}, members) == {"a": "t0", "b": "t1 t2"}


def test_uniform_gives_new_partitions_to_the_lightest_subscribers() -> None:
    members = {"a": member("t", "t0 t1 t2 t3"), "b": member("tu")}
    assert assign("uniform", {"t": 4, "u": 2}, members) == {"a": "t0 t1 t2", "b": "t3 u0 u1"}


@pytest.mark.parametrize("name", ASSIGNORS)
def test_groups_without_members_or_without_known_topics_are_assigned_nothing(name: str) -> None:
    assert assign(name, {"t": 3}, {}) == {}
    assert assign(name, {}, {"a": member("t", "t0")}) == {"a": ""}
    assert assign(name, {"u": 3, "t": 0}, {"a": member("t", "u0 t4"), "b": member("")}) == {"a": "", "b": ""}


# Laws


@st.composite
def groups(draw: st.DrawFn, equal: bool = False) -> tuple[dict[Uuid, int], dict[str, Member]]:
    """Partition counts, and members with a last target assignment: no partition has two owners."""
    random = draw(st.randoms(use_true_random=True))  # one draw for the whole group: many small ones take seconds
    partitions = {topic: random.randint(0, 7) for topic in random.sample(sorted(LETTERS), random.randint(1, 3))}
    ids = random.sample("abcdef", random.randint(1, 6))
    assigned: dict[str, dict[Uuid, frozenset[int]]] = {member_id: {} for member_id in ids}
    owners = [*ids, *random.choices([None, *ids], k=3)]
    for topic in sorted(LETTERS):
        for number in range(8):
            owner = random.choice(owners)
            if owner is not None:
                assigned[owner][topic] = assigned[owner].get(topic, frozenset()) | {number}
    subscriptions = [frozenset(random.sample(sorted(LETTERS), random.randint(0, 3))) for _ in ids]
    if equal:
        subscriptions = subscriptions[:1] * len(ids)
    return partitions, {
        each: Member(None, topics, assigned[each]) for each, topics in zip(ids, subscriptions, strict=True)
    }


def held(assignment: Mapping[Uuid, frozenset[int]]) -> set[tuple[Uuid, int]]:
    return {(topic, number) for topic, numbers in assignment.items() for number in numbers}


@given(groups(), st.sampled_from(sorted(ASSIGNORS)))
def test_each_partition_of_a_subscribed_topic_has_one_owner_that_subscribes_to_it(
    group: tuple[dict[Uuid, int], dict[str, Member]], name: str
) -> None:
    partitions, members = group
    target = ASSIGNORS[name](members, partitions)
    assert target.keys() == members.keys()
    assert all(members[member_id].topics.issuperset(assigned) for member_id, assigned in target.items())
    given_out = sorted(each for assigned in target.values() for each in held(assigned))
    subscribed = {topic for each in members.values() for topic in each.topics}
    assert given_out == sorted((topic, n) for topic in subscribed for n in range(partitions.get(topic, 0)))


@given(groups(equal=True))
def test_uniform_with_equal_subscriptions_is_balanced_and_moves_only_what_that_needs(
    group: tuple[dict[Uuid, int], dict[str, Member]],
) -> None:
    """A member can keep up to the lower quota, and as many members one more as there are partitions left for that."""
    partitions, members = group
    target = ASSIGNORS["uniform"](members, partitions)
    sizes = [len(held(assigned)) for assigned in target.values()]
    minimum, extra = divmod(sum(sizes), len(sizes))
    assert sorted(sizes) == [minimum] * (len(sizes) - extra) + [minimum + 1] * extra
    every = {each for assigned in target.values() for each in held(assigned)}
    had = [len(held(each.assigned) & every) for each in members.values()]
    can_stay = sum(min(count, minimum) for count in had) + min(extra, sum(count > minimum for count in had))
    stayed = sum(len(held(target[each]) & held(members[each].assigned)) for each in members)
    assert stayed == can_stay


@given(groups())
def test_uniform_leaves_no_two_subscribers_of_a_topic_two_apart_if_a_partition_of_it_can_move(
    group: tuple[dict[Uuid, int], dict[str, Member]],
) -> None:
    partitions, members = group
    target = ASSIGNORS["uniform"](members, partitions)
    for heavy, assigned in target.items():
        for light, subscription in members.items():
            if len(held(assigned)) > len(held(target[light])) + 1:
                assert subscription.topics.isdisjoint(assigned), (heavy, light)


@given(groups(), st.sampled_from(sorted(ASSIGNORS)))
def test_a_group_that_has_not_changed_keeps_its_target_assignment(
    group: tuple[dict[Uuid, int], dict[str, Member]], name: str
) -> None:
    partitions, members = group
    target = ASSIGNORS[name](members, partitions)
    again = {each: members[each]._replace(assigned=target[each]) for each in reversed(members)}
    assert ASSIGNORS[name](again, partitions) == target
