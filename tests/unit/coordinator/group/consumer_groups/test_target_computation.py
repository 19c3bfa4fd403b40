"""Targets of large groups are computed beside the heartbeats, a slice of time at a time."""

from __future__ import annotations

from random import Random

import pytest

from pykraft.common.time_slice import LONG_STEPS, ClockSlice
from pykraft.runtime.clock import SystemClock
from pykraft.sim.world.slices import SeededSlice
from tests.harness.consumer_groups import ConsumerGroupScript


class Interrupted:
    """Every computation is a long one, and every slice has this many steps."""

    def __init__(self, steps: int = 1) -> None:
        self.steps = self._left = steps
        self.slices = 0

    def begin(self) -> None:
        self.slices += 1
        self._left = self.steps

    def is_over(self) -> bool:
        self._left -= 1
        return self._left <= 0

    def is_long(self, steps: int) -> bool:
        return True


def script(steps: int = 1) -> ConsumerGroupScript:
    return ConsumerGroupScript({"orders": 4, "people": 2}, time_slice=Interrupted(steps))


def test_the_first_member_of_a_large_group_begins_without_partitions_and_gets_them_when_they_are_computed() -> None:
    said = script()
    assert said.join("a", "orders") == "epoch 1:"
    assert said.said == ["member a", "group epoch 1", "target epoch 1", "group epoch 2", "current a 0->1 STABLE"]
    assert said.group.state_name == "Assigning"
    assert said.heartbeat("a", 1) == "epoch 1", "the target is not there yet"
    said.pass_time(100)
    assert said.said == ["target a: orders 0 1 2 3", "target epoch 2"]
    assert said.heartbeat("a", 1) == "epoch 2: orders 0 1 2 3"
    assert said.group.state_name == "Stable"


def test_a_computation_takes_many_slices_and_other_heartbeats_come_between() -> None:
    said = script()
    said.join("a", "orders", "people")
    beats = 0
    while said.group.target_epoch < 2:
        said.pass_time(1)
        assert said.heartbeat("a", 1) in ("epoch 1", "epoch 2: orders 0 1 2 3, people 0 1")
        beats += 1
    assert beats > 10


def test_a_target_is_written_only_for_the_epoch_that_it_was_computed_for() -> None:
    said = script()
    said.join("a", "orders")
    said.pass_time(3)
    assert said.join("b", "orders") == "epoch 1:", "the first target is still under way"
    assert said.group.group_epoch == 3
    written: list[str] = []
    while said.group.target_epoch < 3:
        said.pass_time(1)
        written += said.said
    assert written == ["target a: orders 0 1", "target b: orders 2 3", "target epoch 3"]


def test_a_target_is_not_written_for_a_subscription_that_has_changed_meanwhile() -> None:
    said = script()
    said.join("a", "orders")
    said.pass_time(3)
    assert said.heartbeat("a", 1, subscribed_topic_names=["people"]) == "epoch 1"
    written: list[str] = []
    while said.group.target_epoch < 3:
        said.pass_time(1)
        written += said.said
    assert written == ["target a: people 0 1", "target epoch 3"]


def test_a_static_member_that_is_replaced_meanwhile_gets_the_target_and_its_ghost_gets_none() -> None:
    """The group's epoch does not rise when a static member comes back under another id."""
    said = script()
    said.join("a", "orders", instance_id="i")
    said.pass_time(100)
    said.heartbeat("a", 1, instance_id="i")
    said.join("b", "orders")
    said.leave("a", -2, instance_id="i")
    said.pass_time(3)
    said.join("heir", "orders", instance_id="i")
    said.pass_time(100)
    assert said.group.target_assignment.keys() == {"b", "heir"}
    held = [numbers for target in said.group.target_assignment.values() for numbers in target.values()]
    assert sorted(n for numbers in held for n in numbers) == [0, 1, 2, 3]


def test_a_group_whose_members_leave_meanwhile_gets_no_target() -> None:
    said = script()
    said.join("a", "orders")
    said.pass_time(2)
    said.leave("a")
    said.pass_time(100)
    assert said.group.target_epoch == 1 and said.group.target_assignment == {}


def test_a_coordinator_that_takes_over_computes_the_target_at_the_next_heartbeat() -> None:
    said = script()
    said.join("a", "orders")
    said.pass_time(2)
    said.restart()
    assert said.heartbeat("a", 1) == "epoch 1"
    said.pass_time(100)
    assert said.heartbeat("a", 1) == "epoch 2: orders 0 1 2 3"


def test_a_small_group_gets_its_target_with_the_heartbeat_however_busy_the_machine_is() -> None:
    time_slice = ClockSlice(SystemClock())
    assert time_slice.is_over(), "it has never begun"
    said = ConsumerGroupScript({"orders": 4}, time_slice=time_slice)
    assert said.join("a", "orders") == "epoch 1: orders 0 1 2 3"
    assert not time_slice.is_long(LONG_STEPS - 1)
    assert time_slice.is_long(LONG_STEPS)


@pytest.mark.costly
@pytest.mark.parametrize("seed", range(20))
def test_whatever_comes_between_every_member_has_its_part_in_the_end_and_no_partition_has_two_owners(seed: int) -> None:
    random = Random(seed)
    said = ConsumerGroupScript(
        {f"t{number}": random.randint(1, 3) for number in range(6)}, time_slice=SeededSlice(random, 0.3)
    )
    epochs: dict[str, int] = {}

    def beat(member: str) -> None:
        answer = said.heartbeat(member, epochs[member], said.text_of_partitions(said.group.members[member].assigned))
        assert answer.startswith("epoch "), answer
        epochs[member] = int(answer.split()[1].rstrip(":"))

    def owners() -> list[tuple[str, int]]:
        return [
            (str(topic), number)
            for member in said.group.members.values()
            for topic, numbers in member.assigned.items()
            for number in numbers
        ]

    for _ in range(60):
        member = f"m{random.randrange(5)}"
        match random.randrange(4):
            case 0 if member not in epochs:
                names = random.sample(sorted(said.topics.names()), random.randint(1, 6))
                epochs[member] = int(said.join(member, *names).split()[1].rstrip(":"))
            case 1 if member in epochs and random.random() < 0.2:
                said.leave(member)
                del epochs[member]
            case 2 if random.random() < 0.1:
                said.grow("t1", 4)
            case _ if member in epochs:
                beat(member)
        said.pass_time(random.randrange(4))
        if "g" in said.groups:
            assert len(owners()) == len(set(owners()))
    for _ in range(20):
        for member in sorted(epochs):
            beat(member)
        said.pass_time(50)
    if epochs:
        assert said.group.state_name == "Stable"
        named = frozenset[str]().union(*(member.subscribed_topic_names for member in said.group.members.values()))
        topics = [said.topics.named(name) for name in named]
        assert len(owners()) == sum(topic.partitions for topic in topics if topic is not None)


def test_a_step_towards_a_target_looks_at_the_topics_of_one_member_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    said = ConsumerGroupScript({f"t{number}": 1 for number in range(300)}, time_slice=Interrupted())
    names = sorted(said.topics.names())
    for number in range(5):
        said.join(f"m{number}", *names[number:])
    said.create("another", 1)  # what was remembered of the topics is forgotten
    lookups = 0
    named = said.topics.named

    def counted(name: str) -> object:
        nonlocal lookups
        lookups += 1
        return named(name)

    monkeypatch.setattr(said.topics, "named", counted)
    a_step = []
    for _ in said.manager._steps_to_target(said.group):
        a_step.append(lookups)
        lookups = 0
    assert len(a_step) > 5 * len(names)
    assert max(a_step) <= len(names) < sum(a_step)
