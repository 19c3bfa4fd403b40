"""What a client knows of the cluster: when it asks, whom, and how answers are put together."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from pykraft.client.metadata import ClusterMetadata
from pykraft.common.core import FOREVER, Failure
from pykraft.common.errors import ErrorCode
from pykraft.common.types import Endpoint, Node, TopicPartition, Uuid
from pykraft.protocol.messages.cluster import MetadataRequest
from pykraft.protocol.messages.data import LeaderIdAndEpoch, NodeEndpoint
from tests.harness.scripted import BOOTSTRAP, HOST, Script, described, partition, settings, topic_id

T0 = partition("t-0")


def fresh(*bootstrap: Endpoint, seed: int = 1) -> tuple[ClusterMetadata, Script]:
    config = settings("producer", retry_backoff_ms=100, metadata_max_age_ms=300_000)
    metadata = ClusterMetadata(config, bootstrap or [BOOTSTRAP], Random(seed))
    return metadata, Script(metadata)


def test_the_first_question_goes_to_a_bootstrap_server() -> None:
    metadata, script = fresh()
    metadata.add_topic("t")
    (outbound,) = script.poll()
    assert outbound.destination.endpoint == BOOTSTRAP
    assert [topic.name for topic in script.asked(MetadataRequest).topics or ()] == ["t"]


def test_a_connection_to_a_known_broker_is_for_that_broker_until_another_is_found_there() -> None:
    metadata, script = fresh()
    metadata.add_topic("t")
    (outbound,) = script.poll()
    assert metadata.meant(outbound.destination) is None, "a bootstrap address may be any broker's"
    script.answer(MetadataRequest, described({"t": [(1, 0)]}).replace(cluster_id="mine"))
    assert metadata.meant(metadata.brokers[1]) == ("mine", 1)
    broker = metadata.brokers[1]

    metadata.rebootstrap()
    assert metadata.meant(broker) is None
    assert (metadata.brokers, metadata.topics) == ({}, {})
    (outbound,) = script.poll(100)
    assert outbound.destination.id < 0
    assert [topic.name for topic in script.asked(MetadataRequest).topics or ()] == ["t"]


def test_it_is_known_since_when_nobody_has_ever_answered() -> None:
    metadata, script = fresh(BOOTSTRAP, Endpoint(HOST, 2))
    assert metadata.unheard_since is None, "nothing was asked"
    metadata.add_topic("t")
    script.poll()
    since = script.now
    for _ in range(3):
        script.answer(MetadataRequest, Failure.DISCONNECTED)
        script.poll(100)
    assert metadata.unheard_since == since < script.now
    assert list(metadata.bootstrap) == [BOOTSTRAP, Endpoint(HOST, 2)]
    script.answer(MetadataRequest, described({"t": [(1, 0)]}))
    metadata.request_update()
    script.poll(100)
    assert script.asked(MetadataRequest) and metadata.unheard_since is None, "a broker answered once"


def test_one_question_is_under_way_at_a_time_and_then_there_is_a_pause() -> None:
    metadata, script = fresh()
    metadata.add_topic("t")
    script.poll()
    metadata.add_topic("u")
    assert script.poll(10_000) == []
    script.answer(MetadataRequest, described({"t": [(1, 0)]}))
    assert script.poll(99) == []
    assert script.deadline == script.now + 1
    script.poll(1)
    assert [topic.name for topic in script.asked(MetadataRequest).topics or ()] == ["t", "u"]


def test_what_is_known_is_asked_again_when_it_is_old() -> None:
    metadata, script = fresh()
    metadata.add_topic("t")
    script.poll()
    script.answer(MetadataRequest, described({"t": [(1, 0)]}))
    assert script.poll(299_999) == []
    assert script.deadline == script.now + 1
    assert len(script.poll(1)) == 1


def test_a_topic_without_a_leader_is_asked_about_again() -> None:
    metadata, script = fresh()
    metadata.add_topic("t")
    for leaders in (None, (1, 0)):
        script.poll(100)
        script.answer(MetadataRequest, described({"t": [leaders]}))
    assert script.poll(100) == []
    assert metadata.leader_of(T0) == Node(1, HOST, 9001)


def test_a_topic_that_is_not_there_is_asked_about_again() -> None:
    metadata, script = fresh()
    metadata.add_topic("t")
    script.poll()
    script.answer(MetadataRequest, described({}, errors={"t": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}))
    assert metadata.partitions_of("t") is None
    assert len(script.poll(100)) == 1


def test_a_topic_that_is_not_allowed_is_not() -> None:
    metadata, script = fresh()
    metadata.add_topic("a/b")
    script.poll()
    script.answer(MetadataRequest, described({}, errors={"a/b": ErrorCode.INVALID_TOPIC_EXCEPTION}))
    assert script.poll(100) == []
    assert metadata.topics["a/b"].error is ErrorCode.INVALID_TOPIC_EXCEPTION


# --- whom to ask ------------------------------------------------------------------------------------------------------


def test_known_brokers_are_asked_once_there_are_some() -> None:
    metadata, script = fresh()
    metadata.add_topic("t")
    script.poll()
    script.answer(MetadataRequest, described({"t": [(1, 0)]}))
    asked = {metadata.any_node().id for _ in range(50)}
    assert asked == {1, 2, 3}


def test_a_failure_loses_nothing_that_is_known() -> None:
    metadata, script = fresh()
    metadata.add_topic("t")
    script.poll()
    script.answer(MetadataRequest, described({"t": [(1, 0)]}))
    metadata.request_update()
    script.poll(100)
    script.fail(MetadataRequest)
    assert metadata.leader_of(T0) == Node(1, HOST, 9001)
    assert len(script.poll(100)) == 1, "and it is asked again"


def test_after_a_failure_the_bootstrap_addresses_count_again() -> None:
    """All known brokers may be gone, and others there in their place."""
    metadata, script = fresh()
    metadata.add_topic("t")
    script.poll()
    script.answer(MetadataRequest, described({"t": [(1, 0)]}, brokers=[1]))
    destinations = set()
    metadata.request_update()
    for _ in range(30):
        (outbound,) = script.poll(100)
        destinations.add(outbound.destination.endpoint.port)
        script.fail(MetadataRequest)
    assert destinations == {9000, 9001}


def test_who_has_not_answered_is_not_asked_again_while_there_are_others() -> None:
    metadata, script = fresh()
    metadata.add_topic("t")
    script.poll()
    script.answer(MetadataRequest, described({"t": [(1, 0)]}))
    metadata.has_failed(Node(1, HOST, 9001))
    assert {metadata.any_node().id for _ in range(50)} == {2, 3}
    for node in (2, 3):
        metadata.has_failed(metadata.brokers[node])
    assert {metadata.any_node().endpoint for _ in range(50)} == {BOOTSTRAP}
    metadata.has_failed(Node(-1, *BOOTSTRAP))
    assert {metadata.any_node().port for _ in range(50)} >= {9001, 9002, 9003}, (
        "no broker answers, so all are tried again"
    )


def test_the_death_of_the_only_bootstrap_server_is_survived() -> None:
    """Node 1 is the only address that was given, and dies; nodes 2 and 3 were told of, and are asked."""
    metadata, script = fresh(Endpoint(HOST, 9001))
    metadata.add_topic("t")
    script.poll()
    script.answer(MetadataRequest, described({"t": [(1, 0)]}))
    metadata.request_update()
    for _ in range(20):
        (outbound,) = script.poll(100)
        if outbound.destination.port != 9001:
            break
        script.fail(MetadataRequest)
    assert outbound.destination.port in (9002, 9003)
    script.answer(MetadataRequest, described({"t": [(2, 1)]}, brokers=[2, 3]))
    assert metadata.leader_of(T0) == Node(2, HOST, 9002)
    assert {metadata.any_node().id for _ in range(50)} == {2, 3}


# --- merging ----------------------------------------------------------------------------------------------------------


def heard(*answers: Sequence[tuple[int, int] | None]) -> ClusterMetadata:
    """Metadata after these answers about topic t."""
    metadata, script = fresh()
    metadata.add_topic("t")
    for leaders in answers:
        metadata.request_update()
        script.poll(100)
        script.answer(MetadataRequest, described({"t": leaders}))
    return metadata


def test_a_newer_leader_epoch_wins() -> None:
    metadata = heard([(1, 5)], [(2, 6)])
    assert metadata.leader_of(T0) == Node(2, HOST, 9002)
    assert metadata.leader_epoch(T0) == 6


def test_an_older_leader_epoch_is_not_believed() -> None:
    """The broker that was asked lags behind."""
    metadata = heard([(2, 6)], [(1, 5)])
    assert metadata.leader_of(T0) == Node(2, HOST, 9002)
    assert metadata.leader_epoch(T0) == 6


def test_each_partition_is_compared_alone() -> None:
    metadata = heard([(2, 6), (1, 3)], [(1, 5), (3, 4)])
    assert [metadata.leader_epoch(TopicPartition("t", n)) for n in (0, 1)] == [6, 4]


def test_a_topic_made_again_begins_with_epoch_0() -> None:
    metadata, script = fresh()
    metadata.add_topic("t")
    script.poll()
    script.answer(MetadataRequest, described({"t": [(2, 6)]}))
    metadata.request_update()
    script.poll(100)
    again = described({"t": [(1, 0)]})
    again.topics[0].topic_id = Uuid(b"another id of t!")
    script.answer(MetadataRequest, again)
    assert metadata.leader_epoch(T0) == 0
    assert metadata.topic_id("t") == Uuid(b"another id of t!")


def test_a_topic_that_is_gone_leads_nowhere() -> None:
    metadata, script = fresh()
    metadata.add_topic("t")
    script.poll()
    script.answer(MetadataRequest, described({"t": [(2, 6)]}))
    metadata.request_update()
    script.poll(100)
    script.answer(MetadataRequest, described({}, errors={"t": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}))
    assert metadata.leader_of(T0) is None
    assert metadata.partitions_of("t") is None


# --- leaders that come with a refusal (KIP-951) -------------------------------------------------------------


def told(leader: int, epoch: int) -> tuple[LeaderIdAndEpoch, list[NodeEndpoint]]:
    endpoint = NodeEndpoint(node_id=leader, host=HOST, port=9000 + leader)
    return LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch), [endpoint]


def test_a_leader_that_is_told_is_believed_if_it_is_newer() -> None:
    metadata = heard([(1, 5)])
    metadata.learn_leader(T0, *told(4, 5))
    assert metadata.leader_of(T0) == Node(1, HOST, 9001)
    metadata.learn_leader(T0, *told(4, 6))
    assert metadata.leader_of(T0) == Node(4, HOST, 9004), "a broker that was not known before"
    metadata.learn_leader(T0, *told(-1, 7))
    assert metadata.leader_epoch(T0) == 6


def test_of_unknown_topics_nothing_is_learnt() -> None:
    metadata, _ = fresh()
    metadata.learn_leader(T0, *told(4, 6))
    assert metadata.leader_of(T0) is None


def test_a_topic_that_a_late_broker_does_not_know_gets_no_partition_from_a_refusal() -> None:
    """Else a producer would believe that it has this one partition, and put every key there."""
    metadata = heard([(1, 5), (2, 5), (3, 5)])
    metadata.learn(described({}, errors={"t": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}))
    metadata.learn_leader(T0, *told(4, 6))
    assert metadata.partitions_of("t") is None
    metadata.learn(described({"t": [(1, 5)]}))
    metadata.learn_leader(partition("t-1"), *told(4, 6))
    assert metadata.partitions_of("t") == [0]


def test_what_is_not_known() -> None:
    metadata = heard([(1, 5)])
    assert metadata.leader_of(partition("t-1")) is None
    assert metadata.leader_of(partition("u-0")) is None
    assert metadata.leader_epoch(partition("u-0")) == -1
    assert metadata.partitions_of("u") is None
    assert metadata.topic_id("t") == topic_id("t")
    assert metadata.topic_id("u") == Uuid(bytes(16))


def test_a_client_that_wants_no_topic_asks_for_the_brokers_and_sleeps() -> None:
    _, script = fresh()
    script.poll()
    assert script.asked(MetadataRequest).topics == []
    assert script.deadline == FOREVER


# --- all topics -------------------------------------------------------------------------------------------------------


def test_a_client_that_wants_all_topics_learns_which_come_and_which_go() -> None:
    metadata, script = fresh()
    metadata.want_all_topics(True)
    script.poll()
    assert script.asked(MetadataRequest).topics is None
    assert not metadata.knows_all_topics
    script.answer(MetadataRequest, described({"t": [(1, 0)], "u": [(1, 0)]}))
    assert metadata.knows_all_topics
    assert sorted(metadata.topics) == ["t", "u"]
    metadata.add_topic("v")
    script.poll(100)
    script.answer(MetadataRequest, described({"u": [(1, 0)]}))
    assert {name: topic.error for name, topic in metadata.topics.items()} == {
        "u": ErrorCode.NONE,
        "v": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


def test_an_answer_about_some_topics_does_not_pass_for_one_about_all() -> None:
    metadata, script = fresh()
    metadata.add_topic("t")
    script.poll()
    metadata.want_all_topics(True)
    script.answer(MetadataRequest, described({"t": [(1, 0)]}))
    assert not metadata.knows_all_topics
    script.poll(100)
    assert script.asked(MetadataRequest).topics is None
