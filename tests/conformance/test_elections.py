"""ElectLeaders: elections that are not needed, that cannot be, and those that are held."""

from __future__ import annotations

from typing import Any

from pykraft.protocol.messages.cluster import MetadataRequest
from pykraft.protocol.messages.elections import ElectionType, ElectLeadersRequest
from tests.conformance.dialogue import Dialogue
from tests.harness.asking import BROKER, DELETE, SET, TOPIC, change, elect, replace_all, versions

PREFERRED, UNCLEAN = ElectionType.PREFERRED, ElectionType.UNCLEAN


def test_elections_that_are_not_needed(talk: Dialogue) -> None:
    talk.topic("elect-led", [[1, 2], [2, 1]])
    for version in versions(ElectLeadersRequest):
        talk.to().ask(elect(PREFERRED, ("elect-led", [0, 1])), version)
        if version:
            talk.to().ask(elect(UNCLEAN, ("elect-led", [1])), version, "unclean")


def test_what_is_asked_for_wrongly(talk: Dialogue) -> None:
    talk.topic("elect-here")
    for version in versions(ElectLeadersRequest):
        talk.to().ask(elect(PREFERRED, ("elect-here", [0, 1, -1]), ("elect-nowhere", [0])), version)
        talk.to().ask(elect(PREFERRED), version, "nothing")
        talk.to().ask(elect(PREFERRED, ("elect-here", []), ("", [0])), version, "no partition, and no name")
        if version:
            talk.to().ask(elect(2, ("elect-here", [0])), version, "an unknown type")
            talk.to().ask(elect(-1, ("elect-here", [0]), ("elect-nowhere", [1])), version, "a negative type")
            talk.to().ask(elect(2), version, "an unknown type of nothing")
    talk.to().ask(elect(PREFERRED, ("elect-here", [0, 0]), ("elect-here", [0])), 2, "twice")


def test_a_leader_stops_and_comes_back(talk: Dialogue) -> None:
    """The first replica of both topics is on node 3."""
    talk.topic("elect-moved", [[3, 1], [3, 2]])
    talk.topic("elect-alone", [[3]])

    def leads(answer: Any, moved: int, alone: int, in_sync: int) -> bool:
        topics = {topic.name: topic.partitions for topic in answer.topics}
        (lost,) = topics["elect-alone"]
        found = sorted(topics["elect-moved"], key=lambda partition: partition.partition_index)
        return (
            lost.leader_id == alone
            and found[0].leader_id == moved
            and all(len(partition.isr_nodes) == in_sync for partition in found)
        )

    topics = [MetadataRequest.Topic(name=name) for name in ("elect-moved", "elect-alone")]
    described = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
    asked = ("elect-moved", [0]), ("elect-alone", [0])
    talk.server.kill(3)
    try:
        talk.until(1, described, 12, lambda answer: leads(answer, moved=1, alone=-1, in_sync=1))
        talk.to().ask(elect(PREFERRED, *asked), 2, "node 3 is gone")
        talk.to().ask(elect(UNCLEAN, *asked), 2, "node 3 is gone")
    finally:
        talk.server.restart(3)
    talk.until(1, described, 12, lambda answer: leads(answer, moved=1, alone=3, in_sync=2))
    talk.to().ask(elect(PREFERRED, *asked), 2, "node 3 is back")
    talk.to().ask(elect(PREFERRED, ("elect-moved", [1, 1])), 2, "twice")
    talk.until(1, described, 12, lambda answer: leads(answer, moved=3, alone=3, in_sync=2))
    talk.to().ask(elect(PREFERRED, ("elect-moved", [0, 1])), 2, "it leads again")


def test_min_insync_replicas_where_eligible_leader_replicas_are_kept(talk: Dialogue) -> None:
    talk.topic("elect-settings", [[1, 2]])
    everywhere, own, of_topic = (BROKER, ""), (BROKER, "1"), (TOPIC, "elect-settings")
    name = "min.insync.replicas"
    for says, (kind, who), changes in (
        ("of one broker", own, [(name, SET, "1")]),
        ("of one broker, away", own, [(name, DELETE, None)]),
        ("of all brokers", everywhere, [(name, SET, "1")]),
        ("of all brokers, away", everywhere, [(name, DELETE, None)]),
        ("of a topic", of_topic, [(name, SET, "2")]),
        ("of a topic, away", of_topic, [(name, DELETE, None)]),
    ):
        talk.to().ask(change((kind, who, changes)), 1, says)
    talk.to().ask(replace_all((BROKER, "1", [])), 2, "all of one broker")
    talk.to().ask(replace_all((BROKER, "", [])), 2, "all of all brokers")
