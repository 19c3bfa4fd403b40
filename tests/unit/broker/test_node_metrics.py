"""The figures of a whole node in virtual time. Broker 2, which the test plays, is the other replica."""

from __future__ import annotations

from typing import Any

import pytest

from pykraft.broker import node_metrics
from pykraft.broker.replication.topic_metrics import BrokerTopicMetrics
from pykraft.common.errors import ErrorCode
from pykraft.common.metrics import Histogram, Meter, Metrics
from pykraft.common.prometheus import exposition, parse
from pykraft.common.types import TopicPartition, Uuid
from pykraft.protocol.api import ListenerKind
from pykraft.protocol.messages.admin import DeleteTopicsRequest
from pykraft.protocol.messages.offsets import OffsetCommitRequest
from pykraft.records.builder import RecordBatchBuilder
from tests.harness.asking import batch as batch_of
from tests.harness.lone_node import LoneNode
from tests.harness.transactional_node import GROUPS, TransactionalNode

T = TopicPartition("t", 0)


def batch() -> bytes:
    """A producer's batch of one record."""
    return batch_of(1)


def figures(node: LoneNode) -> dict[str, float]:
    """By name and labels, as a reader of the text gets them."""
    return {
        " ".join([each.name, *(f"{key}={value}" for key, value in each.labels)]): each.value
        for each in parse(exposition(node.node.metrics))
    }


def values(node: LoneNode, *names: str) -> list[float]:
    found = figures(node)
    return [found[name] for name in names]


# --- replicas ---------------------------------------------------------------------------------------------------------


def test_a_partition_without_its_follower_is_under_replicated_and_then_below_its_minimum() -> None:
    names = [
        f"kafka_server_replicamanager_{name}"
        for name in (
            "underreplicatedpartitions",
            "atminisrpartitioncount",
            "underminisrpartitioncount",
            "isrshrinks_total",
        )
    ]
    node = LoneNode(broker_session_timeout_ms="3600000", replica_lag_time_max_ms="1000")
    node.join(2)
    topic = node.create(replicas=(1, 2), min_insync_replicas="2")
    assert values(node, *names) == [0, 1, 0, 0]
    node.produce(topic, batch(), acks=1)
    node.run(3000)
    assert values(node, *names) == [1, 0, 1, 1]
    assert figures(node)["kafka_cluster_partition_underminisr topic=t partition=0"] == 1
    node.fetch(topic, 1, follower=2)
    node.run(100)
    assert values(node, *names) == [0, 1, 0, 1]
    assert figures(node)["kafka_server_replicamanager_isrexpands_total"] == 1


def test_requests_that_wait_are_in_the_purgatory() -> None:
    node = LoneNode()
    topic = node.create()
    name = "kafka_server_delayedoperationpurgatory_purgatorysize delayedoperation=Fetch"
    assert figures(node)[name] == 0
    waiting = node.fetch(topic, 0, max_wait_ms=500)
    node.run(0)
    assert figures(node)[name] == 1
    node.run(600)
    assert waiting.kept
    assert figures(node)[name] == 0


def test_what_comes_in_and_goes_out_is_counted_by_topic_and_in_all() -> None:
    node = LoneNode(broker_session_timeout_ms="3600000")
    node.join(2)
    first, second = node.create("t", (1, 2)), node.create("u")
    records = batch()
    size = len(records)
    node.produce(first, records, acks=1)
    node.produce(second, records, acks=1)
    node.run(50)
    node.fetch(second, 0)
    node.fetch(first, 0, follower=2)
    node.run(50)
    kind = "kafka_server_brokertopicmetrics_"
    found = figures(node)
    assert found[f"{kind}bytesin_total topic=t"] == found[f"{kind}bytesin_total topic=u"] == size
    assert found[f"{kind}bytesin_total"] == 2 * size
    assert found[f"{kind}messagesin_total"] == 2
    assert found[f"{kind}totalproducerequests_total"] == 2
    assert (found[f"{kind}bytesout_total"], found[f"{kind}replicationbytesout_total"]) == (size, size)
    node.ask(
        DeleteTopicsRequest(topics=[DeleteTopicsRequest.Topic(name="u")], timeout_ms=1000), ListenerKind.CONTROLLER
    )
    node.run(200)
    found = figures(node)
    assert f"{kind}bytesin_total topic=u" not in found
    assert found[f"{kind}bytesin_total"] == 2 * size


def test_a_request_that_fails_for_a_reason_of_its_own_is_counted_and_the_bytes_of_a_batch_that_is_too_large() -> None:
    """What may happen to any client, such as an unknown topic, is no failure: so does Kafka count."""
    node = LoneNode()
    small = node.create("small", max_message_bytes="10")
    compacted = node.create("compacted", cleanup_policy="compact")
    builder = RecordBatchBuilder()
    builder.append(1, None, b"without a key")
    records = bytes(builder.build())
    answers = [node.produce(topic, records, acks=1) for topic in (small, compacted, Uuid(bytes(15) + b"\x07"))]
    node.run(50)
    codes = [answer.value.response.responses[0].partition_responses[0].error_code for answer in answers]
    assert codes == [ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_RECORD, ErrorCode.UNKNOWN_TOPIC_ID]
    found, kind = figures(node), "kafka_server_brokertopicmetrics_"
    assert found[f"{kind}failedproducerequests_total"] == 1
    assert found[f"{kind}failedproducerequests_total topic=compacted"] == 1
    assert found[f"{kind}bytesrejected_total topic=small"] == found[f"{kind}bytesrejected_total"] == len(records)
    assert f"{kind}failedfetchrequests_total" not in found


@pytest.mark.parametrize(("error", "failed"), [(ErrorCode.OFFSET_OUT_OF_RANGE, 0), (ErrorCode.CORRUPT_MESSAGE, 1)])
def test_a_fetch_fails_for_what_a_client_need_not_expect(error: ErrorCode, failed: int) -> None:
    metrics = Metrics()
    BrokerTopicMetrics(metrics).not_fetched("t", error)
    found = {name: value for _, name, value in metrics.read()}
    assert found.get("FailedFetchRequestsPerSec", 0) == failed


def test_transactions_that_wait_for_a_leader_are_counted() -> None:
    found = figures(LoneNode())
    name = "kafka_coordinator_transaction_transactionmarkerchannelmanager_unknowndestinationqueuesize"
    assert found[name] == 0


def test_a_topic_that_comes_again_counts_from_zero_and_its_sum_goes_on() -> None:
    metrics = Metrics()
    topics = BrokerTopicMetrics(metrics)
    topics.produced("t", 3, 100)
    topics.forget("t")
    topics.forget("t")
    topics.produced("t", 1, 10)
    found = {name: value for _, name, value in metrics.read()}
    assert (found["MessagesInPerSec"], found["MessagesInPerSec,topic=t"]) == (4, 1)


def test_only_so_many_partitions_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_metrics, "MOST_SERIES", 3)
    node = LoneNode()
    for number in range(5):
        node.create(f"t{number}")
    assert sum(name.startswith("kafka_log_log_size ") for name in figures(node)) == 3


def test_the_log_of_a_partition_tells_its_size_and_its_ends() -> None:
    node = LoneNode()
    topic = node.create()
    node.produce(topic, batch())
    node.run(50)
    log = node.broker.replicas.partitions[T].log
    names = [f"kafka_log_log_{name} topic=t partition=0" for name in ("size", "logstartoffset", "logendoffset")]
    assert values(node, *names) == [log.size, 0, 1]


def test_a_flush_is_counted_and_a_flush_of_nothing_new_too() -> None:
    node = LoneNode(log_flush_interval_messages="1")
    topic = node.create()
    name = "kafka_log_logflushstats_logflushrateandtimems_count"
    (before,) = values(node, name)
    node.produce(topic, batch())
    node.run(50)
    assert values(node, name)[0] > before > 0


# --- quorum and controller --------------------------------------------------------------------------------------------


def test_the_only_controller_leads_and_counts_its_cluster() -> None:
    node = LoneNode(broker_session_timeout_ms="2000")
    node.join(2)
    node.create("t", (2,))
    kind = "kafka_controller_kafkacontroller_"
    names = [
        f"{kind}{name}"
        for name in (
            "activecontrollercount",
            "globaltopiccount",
            "offlinepartitionscount",
            "activebrokercount",
            "fencedbrokercount",
        )
    ]
    assert values(node, *names) == [1, 1, 0, 2, 0]
    node.run(4000)  # broker 2 sends no heartbeat
    assert values(node, *names) == [1, 1, 1, 1, 1]
    raft = "kafka_server_raft_metrics_"
    found = figures(node)
    assert found[f"{raft}current_state state=leader"] == 1
    assert found[f"{raft}current_leader"] == found[f"{raft}current_vote"] == 1
    assert found[f"{raft}high_watermark"] == found[f"{raft}log_end_offset"] > 0
    assert found[f"{kind}lastcommittedrecordoffset"] == found[f"{raft}high_watermark"] - 1


# --- groups -----------------------------------------------------------------------------------------------------------


def test_the_lag_of_a_group_is_what_it_has_still_to_read() -> None:
    node = TransactionalNode()
    for _ in range(5):
        node.lone.produce(node.topic, batch())
        node.lone.run(20)
    topic = OffsetCommitRequest.Topic
    part = topic.Partition(partition_index=0, committed_offset=2)
    request: Any = OffsetCommitRequest(group_id="g", topics=[topic(name="t", partitions=[part])])
    node.lone.ask(request, version=9)
    found = figures(node.lone)
    assert node.log(GROUPS).log_end_offset == 1
    assert found["pykraft_group_lag group=g topic=t partition=0"] == 3
    assert found["kafka_server_group_coordinator_metrics_group_count protocol=classic"] == 1
    manager = "kafka_coordinator_group_groupmetadatamanager_"
    assert [found[f"{manager}{name}"] for name in ("numgroups", "numgroupsempty", "numgroupsstable")] == [1, 1, 0]
    assert found[f"{manager}numoffsets"] == 1
    assert found["kafka_server_group_coordinator_metrics_num_partitions state=active"] == 1


def test_every_figure_of_a_node_has_a_kind_and_can_be_read() -> None:
    node = LoneNode()
    node.create()
    for family in node.node.metrics.families():
        is_of_clients = family.kind in ("Produce", "Fetch", "Request", "ControllerMutation")  # who has a quota
        assert family.metrics or is_of_clients or family.name in ("lag", "UnderMinIsr", "RequestsPerSec")
        assert all(isinstance(metric, Meter | Histogram | float) for metric in family.metrics.values())
