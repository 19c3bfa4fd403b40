"""Dialogues in which a group changes its protocol: clients that are upgraded and downgraded one by one.

A classic member is given its id by the coordinator, and is called a or b here. Members with ids of their own, z and y,
speak the other protocol. `range` assigns by instance id and then by member id, so that both coordinators give the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

from pykraft.common.errors import ErrorCode
from pykraft.common.types import Uuid
from tests.harness.group_dialogue import Talk

ANSWERS = Path(__file__).parent / "migrations.txt"
"""What Apache Kafka answers: its topics' ids, which the hash of a group's topics depends on, and each dialogue."""
_HEADLINE = "=== "

PROPERTIES = {
    "offsets.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "group.consumer.max.size": "3",
}
Dialogue = Callable[[Talk], None]


def _alone(talk: Talk, who: str = "a", *topics: str, **fields: Any) -> None:
    """A classic group of one member, which has all partitions of orders."""
    topics = topics or ("orders",)
    if "instance" not in fields:
        talk.join(who, *topics, **fields)
    talk.join(who, *topics, **fields)
    talk.sync(who, given={who: "orders 0 1 2 3"}, instance=fields.get("instance"))


def one_by_one_there_and_back(talk: Talk) -> None:
    _alone(talk)
    talk.look()
    talk.heartbeat("z", 0, "", "orders")
    talk.look()
    talk.sync("a")
    talk.beat("a", generation=9)
    talk.beat("a")
    talk.join("a", "orders", owns="orders 0 1 2 3")
    talk.beat("a")
    talk.sync("a")
    talk.heartbeat("z", 2, "")
    talk.beat("a")
    talk.join("a", "orders", owns="orders 0 1")
    talk.sync("a")
    talk.beat("a")
    talk.heartbeat("z", 2, "")
    talk.commit("a", 1)
    talk.commit("a", 2)
    talk.commit("a", 2, version=8)
    talk.commit("z", 2)
    talk.commit("z", 2, version=8)
    talk.look()
    talk.heartbeat("z", -1)
    talk.look()
    talk.beat("a")
    talk.commit("a", 2)
    talk.join("a", "orders", owns="orders 0 1")
    talk.sync("a", given={"a": "orders 0 1 2 3"})
    talk.look()
    talk.heartbeat("z", 0, "", "orders", "people")
    talk.look()


def a_group_is_upgraded_while_a_member_waits_to_join(talk: Talk) -> None:
    _alone(talk, instance="i1")
    talk.begin_join("b", "orders", instance="i2")
    talk.until_rebalancing(2)
    talk.heartbeat("z", 0, "", "orders")
    talk.joined("b")
    talk.look()
    talk.join("b", "orders", instance="i2")
    talk.join("a", "orders", owns="orders 0 1 2 3", instance="i1")
    talk.sync("a", instance="i1")
    talk.join("a", "orders", owns="orders 0 1", instance="i1")
    talk.sync("a", instance="i1")
    talk.beat("b", instance="i2")
    talk.join("b", "orders", instance="i2")
    talk.sync("b", instance="i2")
    talk.heartbeat("z", 3, "")
    talk.beat("a", instance="i1")
    talk.beat("a", instance="i2")
    talk.beat("a", instance="i9")
    talk.look()


def a_group_is_upgraded_while_a_member_waits_for_its_assignment(talk: Talk) -> None:
    _alone(talk, instance="i1")
    talk.begin_join("b", "orders", "people", instance="i2")
    talk.until_rebalancing(2)
    talk.begin_join("a", "orders", owns="orders 0 1 2 3", instance="i1")
    talk.joined("a", "b")
    talk.sync("b", instance="i2", waits=True)
    talk.look()
    talk.heartbeat("z", 0, "", "people")
    talk.synced("b")
    talk.sync("a", instance="i1", given={"a": "orders 0 1", "b": "orders 2 3"})
    talk.look()
    talk.join("b", "orders", "people", instance="i2")
    talk.sync("b", instance="i2")
    talk.join("a", "orders", owns="orders 0 1 2 3", instance="i1")
    talk.join("a", "orders", owns="orders 0 1", instance="i1")
    talk.beat("b", instance="i2")
    talk.look()


def groups_that_cannot_be_upgraded(talk: Talk) -> None:
    talk.join("a", "orders", protocol_type="connect")
    talk.join("a", "orders", protocol_type="connect")
    talk.sync("a", given={"a": "orders 0"}, protocol_type="connect")
    talk.heartbeat("z", 0, "", "orders")
    talk.look()
    talk.leave("a")
    talk.join("b", "orders", metadata=b"\xff")
    talk.join("b", "orders", metadata=b"\xff")
    talk.sync("b", given={"b": "orders 0"})
    talk.heartbeat("z", 0, "", "orders")
    talk.leave("b")
    talk.join("c", "orders")
    talk.join("c", "orders")
    talk.sync("c", given={"c": "orders 0"}, user_data=b"custom")
    talk.heartbeat("z", 0, "", "orders")
    talk.heartbeat("z", 3, "", "orders")
    talk.heartbeat("z", -1)
    talk.look()


def a_group_that_is_too_large_is_not_upgraded(talk: Talk) -> None:
    _alone(talk, "a", instance="i1")
    for number, name in enumerate(("b", "c", "d"), 2):
        talk.begin_join(name, "orders", instance=f"i{number}")
        talk.until_rebalancing(number)
    talk.begin_join("a", "orders", instance="i1")
    talk.joined("a", "b", "c", "d")
    talk.heartbeat("z", 0, "", "orders")
    talk.leave(instances={"i2": "b"})
    talk.heartbeat("z", 0, "", "orders")


def classic_members_join_a_consumer_group(talk: Talk) -> None:
    talk.heartbeat("z", 0, "", "orders")
    talk.join("a", "orders", protocol_type="connect")
    talk.join("a", "orders", metadata=b"\0", version=3)
    talk.join("a", "orders")
    talk.beat("a", generation=0)
    talk.join("a", "orders", session_ms=10_000)
    talk.sync("a")
    talk.beat("a")
    talk.heartbeat("z", 1, "orders 0 1 2 3")
    talk.heartbeat("z", 1, "orders 0 1")
    talk.beat("a")
    talk.join("a", "orders", session_ms=10_000)
    talk.sync("a", protocol_name="roundrobin")
    talk.sync("a", protocol_type="connect")
    talk.sync("a", generation=7)
    talk.sync("a", instance="i1")
    talk.sync("z", generation=2)
    talk.beat("z", generation=2)
    talk.beat("unknown", generation=2)
    talk.sync("a")
    talk.join("b", "orders", protocols="roundrobin")
    talk.join("b", "people", protocols="sticky range", protocol_version=0, version=3)
    talk.sync("b")
    talk.join("c", "people", named=True)
    talk.look()
    talk.leave("b", "unknown")
    talk.leave("a", "z")
    talk.look()
    talk.join("c", "orders", named=True)


def the_last_member_of_the_new_protocol_leaves(talk: Talk) -> None:
    talk.heartbeat("z", 0, "", "orders", "people")
    talk.join("a", "orders", named=True, protocols="range roundrobin")
    talk.join("b", "orders", named=True, protocols="roundrobin range", instance="i2")
    talk.heartbeat("z", 1, "people 0 1, orders 0")
    talk.join("a", "orders", named=True, protocols="range roundrobin")
    talk.sync("a")
    talk.look()
    talk.leave("z")
    talk.look()
    talk.beat("a")
    talk.begin_join("a", "orders", named=True, protocols="range roundrobin")
    talk.begin_join("b", "orders", named=True, protocols="roundrobin range", instance="i2")
    talk.joined("a", "b")
    talk.look()


def a_static_member_comes_back_by_the_classic_protocol(talk: Talk) -> None:
    talk.heartbeat("z", 0, "", "orders", instance_id="i1")
    talk.join("a", "people", named=True)
    talk.sync("a")
    talk.heartbeat("z", 1, "orders 0 1 2 3", instance_id="i1")
    talk.look()
    talk.join("b", "orders", instance="i1")
    talk.look()
    talk.sync("b", instance="i1")
    talk.beat("a")
    talk.beat("z", generation=2, instance="i1")
    talk.look()


def a_static_member_comes_back_with_other_topics(talk: Talk) -> None:
    talk.heartbeat("z", 0, "", "orders", instance_id="i1")
    talk.join("a", "people", named=True)
    talk.sync("a")
    talk.join("b", "people", instance="i1")
    talk.look()
    talk.sync("b", instance="i1")
    talk.beat("a")


def a_static_member_with_a_pattern_comes_back_by_the_classic_protocol(talk: Talk) -> None:
    talk.heartbeat("y", 0, "", "people")
    talk.heartbeat("z", 0, "", subscribed_topic_regex="no such.*", instance_id="i1")
    talk.until_resolved()
    talk.join("b", "orders", instance="i1")
    talk.sync("b", instance="i1")
    talk.look()
    talk.join("b", "orders", named=False, instance="i1")
    talk.heartbeat("x", 0, "", "orders", instance_id="i1")
    talk.beat("b", instance="i1")
    talk.look()


def a_classic_member_is_silent(talk: Talk) -> None:
    talk.heartbeat("z", 0, "", "orders")
    talk.join("a", "orders", named=True, session_ms=1000)
    talk.sync("a")
    talk.until_gone("a", after_ms=1000)
    talk.look()


def a_classic_member_does_not_ask_for_its_partitions(talk: Talk) -> None:
    talk.heartbeat("z", 0, "", "orders")
    talk.join("a", "orders", named=True, rebalance_ms=1000)
    talk.until_gone("a", after_ms=1000)
    talk.look()


def a_classic_member_does_not_join_again(talk: Talk) -> None:
    talk.heartbeat("z", 0, "", "orders")
    talk.join("a", "orders", named=True, rebalance_ms=2000)
    talk.sync("a")
    talk.heartbeat("y", 0, "", "orders")
    talk.beat("a")
    talk.sync("a")
    talk.until_gone("a", after_ms=2000)
    talk.look()


def a_member_does_not_revoke_and_the_group_is_downgraded(talk: Talk) -> None:
    talk.heartbeat("z", 0, "", "orders", rebalance_timeout_ms=1000)
    talk.join("a", "orders", named=True)
    talk.sync("a")
    talk.heartbeat("z", 1, "orders 0 1 2 3")
    talk.until_gone("z", after_ms=1000)
    talk.look()
    talk.heartbeat("z", 1, "orders 0 1 2 3")
    talk.beat("a")
    talk.join("a", "orders", named=True)


def no_group_changes_its_protocol(talk: Talk) -> None:
    _alone(talk)
    talk.heartbeat("z", 0, "", "orders")
    talk.look()
    talk.leave("a")
    talk.heartbeat("z", 0, "", "orders", instance_id="i1")
    talk.join("b", "orders", named=True)
    talk.join("c", "orders", instance="i1")
    talk.look()
    talk.leave(instances={"i1": "c"})
    talk.look()


ALLOWED: list[Dialogue] = [
    one_by_one_there_and_back,
    a_group_is_upgraded_while_a_member_waits_to_join,
    a_group_is_upgraded_while_a_member_waits_for_its_assignment,
    groups_that_cannot_be_upgraded,
    a_group_that_is_too_large_is_not_upgraded,
    classic_members_join_a_consumer_group,
    the_last_member_of_the_new_protocol_leaves,
    a_static_member_comes_back_by_the_classic_protocol,
    a_static_member_comes_back_with_other_topics,
    a_static_member_with_a_pattern_comes_back_by_the_classic_protocol,
    a_classic_member_is_silent,
    a_classic_member_does_not_ask_for_its_partitions,
    a_classic_member_does_not_join_again,
    a_member_does_not_revoke_and_the_group_is_downgraded,
]
"""With the policy `bidirectional`, the default."""
FORBIDDEN: list[Dialogue] = [no_group_changes_its_protocol]
"""With the policy `disabled`."""
DISABLED = {"group.consumer.migration.policy": "disabled"}


def at_random(seed: int, steps: int = 60, others: Sequence[str] = ("~x", "~y", "~z")) -> Dialogue:
    """One classic member and others of the newer protocol come, go and err. There is one classic member, as several
    would wait for each other; the others have ids that come after all that a coordinator gives."""

    def dialogue(talk: Talk) -> None:
        random = Random(seed)
        topics = {who: ["orders"] for who in ("a", *others)}
        for _ in range(steps):
            who = random.choice(["a", "a", "a", *topics])
            if random.random() < 0.1:
                topics[who] = random.choice([["orders"], ["people"], ["orders", "people"]])
            if who == "a":
                _classic_step(talk, random, topics[who])
            else:
                _consumer_step(talk, random, who, topics[who])
            if talk.error is ErrorCode.UNKNOWN_MEMBER_ID:
                talk.forget(who)
            elif talk.error in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.ILLEGAL_GENERATION):
                talk.epochs.pop(who, None)
            talk.look()

    dialogue.__name__ = f"at_random_{seed}"
    return dialogue


def _classic_step(talk: Talk, random: Random, topics: list[str]) -> None:
    if talk.state == "Empty":  # Kafka forgets such a group without a record, if a member with an id wants to join it
        talk.forget("a")
    step = random.choices(["join", "sync", "beat", "leave", "commit"], [6, 4, 4, 1, 1])[0]
    if step == "join" or "a" not in talk.epochs:
        owns = random.choice([talk.owned.get("a", ""), ""])
        talk.join("a", *topics, owns=owns)
    elif step == "sync":
        talk.sync("a", given={"a": "orders 0 1 2 3" if "orders" in topics else "people 0 1"})
    elif step == "beat":
        talk.beat("a")
    elif step == "commit":
        talk.commit("a", talk.epochs["a"])
    else:
        talk.leave("a")
        talk.forget("a")


def _consumer_step(talk: Talk, random: Random, who: str, topics: list[str]) -> None:
    static = {"instance_id": "i1"} if who == "~x" else {}
    if who not in talk.epochs:
        talk.heartbeat(who, 0, "", *topics, **static)
        return
    epoch = random.choices([talk.epochs[who], talk.epochs[who] - 1, 0, -1, -2], [20, 2, 1, 6, 1])[0]
    owns = random.choice([talk.owned.get(who, ""), "", None])
    if epoch < 0:
        talk.heartbeat(who, epoch, None, **static)
        talk.forget(who)
    elif epoch == 0:
        talk.heartbeat(who, 0, "", *topics, **static)
    else:
        talk.heartbeat(who, epoch, owns, *(topics if random.random() < 0.2 else ()), **static)


def read_answers() -> tuple[dict[str, Uuid], dict[str, list[str]]]:
    """The ids of Apache Kafka's topics, and the lines of each dialogue."""
    head, *sections = ANSWERS.read_text().split(_HEADLINE)
    ids = dict(line.split() for line in head.splitlines())
    answers = {}
    for section in sections:
        name, *lines = section.rstrip("\n").splitlines()
        answers[name] = lines
    return {name: Uuid.parse(text) for name, text in ids.items()}, answers


def without_hashes(lines: Sequence[str]) -> list[str]:
    """Topics of another cluster have other ids, so other hashes."""
    return [line.rpartition(" ")[0] if line.startswith("# group epoch") else line for line in lines]


def write_answers(ids: Mapping[str, Uuid], answers: Mapping[str, list[str]]) -> None:
    head = [f"{name} {topic_id}" for name, topic_id in sorted(ids.items())]
    sections = [[f"{_HEADLINE}{name}", *lines, ""] for name, lines in sorted(answers.items())]
    ANSWERS.write_text("\n".join(line for lines in [head, *sections] for line in lines))
