"""Metadata and DescribeCluster: how a client finds its way."""

from __future__ import annotations

from typing import Any

from pykraft.common.types import ZERO_UUID, Uuid
from pykraft.protocol.messages.cluster import DescribeClusterRequest, MetadataRequest
from pykraft.protocol.schema import Request
from tests.conformance.dialogue import Dialogue
from tests.conformance.transcript import lines_of
from tests.harness.asking import versions
from tests.harness.connection import Connection

NOBODY = Uuid(bytes(15) + b"\xee")


def metadata(*topics: str | Uuid | tuple[str | None, Uuid], create: bool = False, **fields: Any) -> MetadataRequest:
    """Ask for topics by name, by id, or by both."""
    topic_type = MetadataRequest.Topic
    parts = [
        each if isinstance(each, tuple) else (None, each) if isinstance(each, Uuid) else (each, ZERO_UUID)
        for each in topics
    ]
    asked = [topic_type(name=name, topic_id=topic_id) for name, topic_id in parts]
    return MetadataRequest(topics=asked, allow_auto_topic_creation=create, **fields)


def test_each_version_tells_who_leads(talk: Dialogue) -> None:
    talk.topic("metadata-versions", [(1, 2), (2, 3), (3, 1)])
    for version in versions(MetadataRequest):
        talk.to().ask(metadata("metadata-versions", create=True), version)


def test_each_node_tells_the_same(talk: Dialogue) -> None:
    talk.topic("metadata-nodes", [(1, 2), (2, 3)])
    for node in (1, 2, 3):
        talk.to(node).ask(metadata("metadata-nodes"), 12)


def test_all_topics(talk: Dialogue) -> None:
    """Other cases have made other topics: only ours is looked at."""
    talk.topic("metadata-all")
    for version in versions(MetadataRequest):
        everything: Request = MetadataRequest(topics=None if version else [], allow_auto_topic_creation=version < 4)
        with Connection(talk.server.address(1)) as connection:
            answer = connection.ask(everything, version)
        answer.topics = [topic for topic in answer.topics if topic.name == "metadata-all"]
        talk.say(f"version {version}")
        talk.write(*(f"  {line}" for line in lines_of(answer, version, talk.names)))


def test_no_topic(talk: Dialogue) -> None:
    for version in (1, 4, 9, 12, 13):
        talk.to().ask(metadata(create=version < 4), version)


def test_topics_that_are_not_there(talk: Dialogue) -> None:
    for version in (4, 8, 9, 12, 13):
        talk.to().ask(metadata("metadata-nowhere"), version)
    for says, name in {
        "a slash": "a/b",
        "nothing": "",
        "a dot": ".",
        "250 letters": "a" * 250,
        "the metadata topic": "__cluster_metadata",
    }.items():
        for create in (False, True):
            talk.to().ask(metadata(name, create=create), 12, f"{says}, create={create}")


def test_topics_by_id(talk: Dialogue) -> None:
    topic_id = talk.topic("metadata-id")
    for version in (10, 11, 12, 13):
        named = None if version >= 10 else ""
        talk.to().ask(metadata((named, topic_id)), version)
    for version in (12, 13):
        talk.to().ask(metadata((None, NOBODY)), version, "an unknown id")
        talk.to().ask(metadata((None, ZERO_UUID)), version, "no name and the id zero")
        talk.to().ask(metadata(("", topic_id)), version, "an empty name and an id")
        talk.to().ask(metadata(("metadata-id", topic_id)), version, "both")
        talk.to().ask(metadata(("metadata-id", NOBODY)), version, "a name and another's id")
        talk.to().ask(metadata("metadata-id", (None, topic_id)), version, "a name and then an id")


def test_a_topic_may_be_asked_for_twice(talk: Dialogue) -> None:
    topic_id = talk.topic("metadata-twice")
    talk.to().ask(metadata("metadata-twice", "metadata-twice", "metadata-nowhere", "metadata-nowhere"), 9)
    talk.to().ask(metadata((None, topic_id), (None, topic_id)), 12, "by its id")


def test_operations_are_told_on_demand(talk: Dialogue) -> None:
    talk.topic("metadata-operations")
    both = {"include_cluster_authorized_operations": True, "include_topic_authorized_operations": True}
    for version in (8, 10, 11):
        talk.to().ask(metadata("metadata-operations", **both), version)


def test_a_topic_is_made_on_the_way(talk: Dialogue) -> None:
    talk.to().ask(metadata("metadata-auto"), 12, "not wanted")
    talk.to().ask(metadata("metadata-auto", create=True), 12, "wanted")

    def made(answer: Any) -> bool:
        topic = answer.topics[0]
        return not topic.error_code and all(not p.error_code and p.leader_id >= 0 for p in topic.partitions)

    answer = talk.until(1, metadata("metadata-auto", create=True), 12, made)
    topic = answer.topics[0]
    talk.write(f"{len(topic.partitions)} partitions of {len(topic.partitions[0].replica_nodes)} replicas")


def test_each_version_describes_the_brokers(talk: Dialogue) -> None:
    for version in versions(DescribeClusterRequest):
        talk.to().ask(DescribeClusterRequest(), version)
        talk.to().ask(DescribeClusterRequest(include_cluster_authorized_operations=True), version, "with operations")


def test_each_version_describes_the_controllers(talk: Dialogue) -> None:
    for version in (1, 2):
        talk.to_controller().ask(DescribeClusterRequest(endpoint_type=2), version)


def test_endpoints_are_of_a_kind(talk: Dialogue) -> None:
    for version in (1, 2):
        for kind in (0, 2, 3):
            talk.to().ask(DescribeClusterRequest(endpoint_type=kind), version, f"kind {kind} of a broker")
        for kind in (0, 1, 3):
            talk.to_controller().ask(
                DescribeClusterRequest(endpoint_type=kind), version, f"kind {kind} of a controller"
            )
    talk.to_controller().ask(DescribeClusterRequest(), 0, "of a controller")


def test_fenced_brokers_are_told_on_demand(talk: Dialogue) -> None:
    for wanted in (False, True):
        talk.to().ask(DescribeClusterRequest(include_fenced_brokers=wanted), 2, f"{wanted}")
