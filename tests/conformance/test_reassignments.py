"""AlterPartitionReassignments and ListPartitionReassignments: what is refused, what is listed, how it ends."""

from __future__ import annotations

from typing import Any

from pykraft.protocol.messages.cluster import MetadataRequest
from pykraft.protocol.messages.reassignments import (
    AlterPartitionReassignmentsRequest,
    ListPartitionReassignmentsRequest,
)
from tests.conformance.dialogue import Dialogue
from tests.harness.asking import batch, delete, fetch, grow, produce, reassign, reassignments, versions

METADATA = 12
ALTER = 1


def told(talk: Dialogue, topic: str, replicas: list[int], in_sync: list[int], number: int = 0) -> None:
    """Wait until broker 1 knows these replicas, and these of them in sync (in any order); write down what it knows."""
    asked = [MetadataRequest.Topic(name=topic)]
    found: Any = None

    def is_so(answer: Any) -> bool:
        nonlocal found
        found = next(each for each in answer.topics[0].partitions if each.partition_index == number)
        return list(found.replica_nodes) == replicas and sorted(found.isr_nodes) == in_sync

    talk.until(1, MetadataRequest(topics=asked, allow_auto_topic_creation=False), METADATA, is_so)
    talk.say(f"{topic}: leader {found.leader_id} epoch {found.leader_epoch}, {replicas}, in sync {in_sync}")


def until_all_have_moved(talk: Dialogue) -> None:
    talk.until(1, reassignments(), 0, lambda answer: not answer.topics)


def test_each_version_moves_a_partition(talk: Dialogue) -> None:
    talk.topic("move-versions", [[1, 2]])
    talk.to().ask(produce("move-versions", batch(3), acks=-1), 9)
    for version, target in zip(versions(AlterPartitionReassignmentsRequest), ([3, 1], [2, 3]), strict=True):
        talk.to().ask(reassign(("move-versions", 0, target)), version)
        until_all_have_moved(talk)
        told(talk, "move-versions", target, sorted(target))
    for version in versions(ListPartitionReassignmentsRequest):
        talk.to().ask(reassignments(("move-versions", [0])), version)
    talk.to(2).ask(fetch("move-versions", 0), 11)
    talk.wait_for_leader("move-versions", 0, 2)


def test_a_target_of_replicas_that_are_in_sync_is_reached_at_once(talk: Dialogue) -> None:
    talk.topic("move-order", [[1, 2, 3]])
    for target in ([2, 1, 3], [3, 1], [1], [1]):
        talk.to().ask(reassign(("move-order", 0, target)), ALTER, str(target))
        talk.to().ask(reassignments(("move-order", [0])), 0)
        told(talk, "move-order", target, sorted(target))


def test_targets_that_are_not_allowed(talk: Dialogue) -> None:
    talk.topic("move-refused", [[1, 2]])
    for says, target in {
        "no replica": [],
        "one broker twice": [1, 1],
        "a broker that is not there": [1, 9],
        "a broker that cannot be": [-1],
        "nothing to cancel": None,
    }.items():
        talk.to().ask(reassign(("move-refused", 0, target)), ALTER, says)
    talk.to().ask(reassign(("move-refused", 1, [1]), ("move-refused", 0, [1, 2]), ("move-nowhere", 0, None)), ALTER)
    for target in ([1], [1, 2, 3], [2, 1], [9, 9], [7]):
        asked = reassign(("move-refused", 0, target), allow_replication_factor_change=False)
        talk.to().ask(asked, ALTER, f"as many replicas, {target}")
    talk.to().ask(reassign(), ALTER, "nothing")
    told(talk, "move-refused", [2, 1], [1, 2])


def test_what_is_listed(talk: Dialogue) -> None:
    talk.topic("move-listed", [[1], [2]])
    for says, asked in {
        "all": reassignments(),
        "one that does not move": reassignments(("move-listed", [0])),
        "one that is not there": reassignments(("move-listed", [7]), ("move-nowhere", [0])),
        "no partition": reassignments(("move-listed", [])),
        "no topic": ListPartitionReassignmentsRequest(topics=[]),
    }.items():
        talk.to().ask(asked, 0, says)


def test_controllers_answer_to_nothing_as_brokers_do(talk: Dialogue) -> None:
    talk.to_controller().ask(reassign(), ALTER)
    talk.to_controller().ask(ListPartitionReassignmentsRequest(topics=[]), 0)


def test_a_fetch_of_a_broker_that_is_no_replica(talk: Dialogue) -> None:
    talk.topic("move-fetched", [[1, 2]])
    talk.to().ask(produce("move-fetched", batch(1), acks=-1), 9)
    for epoch in (-1, 0, 1):
        place = {"fetch_offset": 0, "current_leader_epoch": epoch}
        talk.to().ask(fetch("move-fetched", place, replica_id=3), 11, f"epoch {epoch}")


def test_a_reassignment_waits_for_a_broker_that_is_gone(talk: Dialogue) -> None:
    """Each topic goes another way while broker 3 cannot follow."""
    names = ("move-on", "move-back", "move-else", "move-all", "move-kept", "move-away")
    for name in names:
        talk.topic(name, [[1, 2]])
    talk.to(3).close()
    talk.server.kill(3)
    try:
        for name in names:
            talk.to().ask(reassign((name, 0, [3, 1])), ALTER, name)
        talk.to().ask(reassignments(*((name, [0]) for name in sorted(names))), 0)
        talk.to().ask(reassign(("move-back", 0, None)), ALTER, "cancelled")
        talk.to().ask(reassign(("move-back", 0, None)), ALTER, "cancelled again")
        talk.to().ask(reassign(("move-else", 0, [2])), ALTER, "elsewhere")
        talk.to().ask(reassign(("move-all", 0, [3, 1, 2])), ALTER, "all of them")
        talk.to().ask(reassign(("move-kept", 0, [3]), allow_replication_factor_change=False), ALTER, "fewer")
        talk.to().ask(reassign(("move-kept", 0, [2, 3]), allow_replication_factor_change=False), ALTER, "as many")
        talk.to().ask(grow(("move-kept", 2, [[1, 2]])), 3, "it has three replicas")
        talk.to().ask(grow(("move-kept", 2, [[1, 2, 3]])), 3, "it has three replicas")
        talk.to().ask(delete("move-away"), 6)
        talk.to().ask(reassignments(*((name, [0]) for name in sorted(names))), 0)
        told(talk, "move-back", [1, 2], [1, 2])
        talk.to().ask(reassign(("move-else", 0, None)), ALTER, "cancelled, if it goes on")
    finally:
        talk.server.restart(3)
    until_all_have_moved(talk)
    talk.say("broker 3 is back")
    for name, replicas in {"move-on": [3, 1], "move-all": [3, 1], "move-kept": [2, 3]}.items():
        told(talk, name, replicas, sorted(replicas))
