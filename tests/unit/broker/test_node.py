"""A whole node in virtual time: acks 0, 1 and all, requests that wait, and the moments at which they are answered."""

from __future__ import annotations

from typing import Any

import pytest

from pykraft.broker.requests.dispatch import Answer
from pykraft.common.core import Promise, finish
from pykraft.common.errors import ErrorCode
from pykraft.common.types import METADATA_TOPIC, METADATA_TOPIC_ID, TopicPartition
from pykraft.controller.features import NEW_CLUSTER
from pykraft.protocol.api import ListenerKind
from pykraft.protocol.messages.brokers import BrokerHeartbeatRequest
from pykraft.protocol.messages.cluster import MetadataRequest, MetadataResponse
from pykraft.protocol.messages.configs import ResourceType
from pykraft.protocol.messages.data import FetchRequest
from pykraft.protocol.messages.records import ConfigRecord, PartitionChangeRecord
from pykraft.protocol.messages.transactions import InitProducerIdRequest
from pykraft.raft.log.listener import CommittedBatch
from pykraft.storage.log import UnifiedLog
from tests.harness.asking import SET, change
from tests.harness.controllers import WITHOUT_ELR
from tests.harness.lone_node import LoneNode
from tests.harness.storage import batch, produced


def error_of(answer: Promise[Answer]) -> ErrorCode:
    response: Any = answer.value.response
    return ErrorCode.of(response.responses[0].partition_responses[0].error_code)


def read(answer: Promise[Answer]) -> Any:
    response: Any = answer.value.response
    return response.responses[0].partitions[0]


@pytest.fixture
def pair() -> tuple[LoneNode, Any]:
    """Node 1 leads a topic whose follower is broker 2, played by the test; min.insync.replicas is 2."""
    lone = LoneNode(broker_session_timeout_ms="60000", replica_lag_time_max_ms="1000")
    lone.join(2)
    return lone, lone.create(replicas=(1, 2), min_insync_replicas="2")


def test_acks_one_is_answered_at_once_and_acks_all_when_the_follower_has_it(pair: tuple[LoneNode, Any]) -> None:
    lone, topic = pair
    assert error_of(lone.produce(topic, batch().buffer, acks=1)) is ErrorCode.NONE
    waiting = lone.produce(topic, batch().buffer, acks=-1)
    lone.run(100)
    assert not waiting.kept
    lone.fetch(topic, 1, follower=2)
    assert not waiting.kept
    lone.fetch(topic, 2, follower=2)
    assert error_of(waiting) is ErrorCode.NONE
    assert waiting.value.response.responses[0].partition_responses[0].base_offset == 1  # type: ignore[union-attr]


def test_acks_zero_is_never_answered_and_its_failure_hangs_up(pair: tuple[LoneNode, Any]) -> None:
    lone, topic = pair
    assert lone.produce(topic, batch().buffer, acks=0).value == Answer(None)
    spoilt = bytearray(batch().buffer)
    spoilt[-1] ^= 1
    assert lone.produce(topic, spoilt, acks=0).value.hang_up
    assert error_of(lone.produce(topic, spoilt, acks=1)) is ErrorCode.CORRUPT_MESSAGE
    assert error_of(lone.produce(topic, batch().buffer, acks=2)) is ErrorCode.INVALID_REQUIRED_ACKS


def test_what_is_not_replicated_in_time_is_answered_so_and_stays_in_the_log(pair: tuple[LoneNode, Any]) -> None:
    lone, topic = pair
    waiting = lone.produce(topic, batch().buffer, timeout_ms=300)
    lone.run(299)
    assert not waiting.kept
    lone.run(1)
    assert error_of(waiting) is ErrorCode.REQUEST_TIMED_OUT
    lone.fetch(topic, 1, follower=2)
    assert read(lone.fetch(topic, 0)).high_watermark == 1


def test_a_follower_that_lags_leaves_the_isr_and_acks_all_is_refused_before_the_append(
    pair: tuple[LoneNode, Any],
) -> None:
    lone, topic = pair
    waiting = lone.produce(topic, batch().buffer, timeout_ms=60_000)
    lone.run(2000)
    partition = next(iter(lone.broker.replicas.partitions.values()))
    assert partition.isr_state.isr == {1}
    assert lone.node.loader.image.topics[topic].partitions[0].isr == (1,)
    assert not waiting.kept, "under min.insync.replicas the high watermark stands still"
    assert error_of(lone.produce(topic, batch().buffer)) is ErrorCode.NOT_ENOUGH_REPLICAS
    assert partition.log.log_end_offset == 1
    assert error_of(lone.produce(topic, batch().buffer, acks=1)) is ErrorCode.NONE
    lone.fetch(topic, 2, follower=2)
    lone.run(100)
    assert lone.node.loader.image.topics[topic].partitions[0].isr == (1, 2), "it has caught up, and is back"
    assert error_of(waiting) is ErrorCode.NONE


def test_a_consumer_sees_what_is_committed_and_a_follower_what_there_is(pair: tuple[LoneNode, Any]) -> None:
    lone, topic = pair
    lone.produce(topic, batch(3).buffer, acks=1)
    assert len(read(lone.fetch(topic, 0)).records) == 0
    assert len(read(lone.fetch(topic, 0, follower=2)).records) > 0
    lone.fetch(topic, 3, follower=2)
    assert len(read(lone.fetch(topic, 0)).records) > 0


def test_a_fetch_waits_for_enough_bytes_or_until_its_time_is_up(pair: tuple[LoneNode, Any]) -> None:
    lone, topic = pair
    late = lone.fetch(topic, 0, max_wait_ms=400)
    woken = lone.fetch(topic, 0, max_wait_ms=400)
    lone.run(100)
    assert not late.kept and not woken.kept
    lone.produce(topic, batch().buffer, acks=1)
    assert not woken.kept, "it is not committed"
    lone.fetch(topic, 1, follower=2)
    assert len(read(woken).records) > 0
    patient = lone.fetch(topic, 1, max_wait_ms=400, min_bytes=1)
    greedy = lone.fetch(topic, 0, max_wait_ms=400, min_bytes=100_000)
    lone.run(399)
    assert not patient.kept and not greedy.kept
    lone.run(1)
    assert len(read(patient).records) == 0 and len(read(greedy).records) > 0
    assert len(lone.broker.replicas.fetches) == 0


def test_a_fetch_that_waits_compares_offsets_and_reads_once(
    pair: tuple[LoneNode, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[int] = []
    read_log = UnifiedLog.read

    def counted(self: UnifiedLog, offset: int, *rest: Any) -> Any:
        reads.append(offset)
        return read_log(self, offset, *rest)

    monkeypatch.setattr(UnifiedLog, "read", counted)
    lone, topic = pair
    greedy = lone.fetch(topic, 0, follower=2, max_wait_ms=60_000, min_bytes=1000)
    for _ in range(20):
        assert not greedy.kept and not reads, "an append makes it compare offsets, no more"
        lone.produce(topic, batch(size=40).buffer, acks=1)
        if greedy.kept:
            break
    assert reads == [0] and len(read(greedy).records) >= 1000


def test_a_fetch_waits_for_as_many_bytes_as_lie_in_several_segments(pair: tuple[LoneNode, Any]) -> None:
    lone, _ = pair
    topic = lone.create("small", internal_segment_bytes="300")
    size = len(batch(size=40).buffer)
    for _ in range(2):
        lone.produce(topic, batch(size=40).buffer)
    greedy = [lone.fetch(topic, 2, max_wait_ms=60_000, min_bytes=count * size) for count in range(1, 9)]
    for number in range(9):
        assert [each.kept for each in greedy] == [count <= number for count in range(1, 9)]
        lone.produce(topic, batch(size=40).buffer)
    (partition,) = [each for each in lone.broker.replicas.partitions.values() if each.key.topic == "small"]
    assert len(partition.log._segments) > 3


@pytest.mark.costly
def test_the_fetches_and_produces_of_departed_clients_leave_and_cost_nothing(pair: tuple[LoneNode, Any]) -> None:
    lone, topic = pair
    replicas = lone.broker.replicas
    fetches = [lone.fetch(topic, 0, max_wait_ms=2**31 - 1) for _ in range(1000)]
    produces = [lone.produce(topic, batch().buffer, timeout_ms=2**31 - 1) for _ in range(10)]
    assert (len(replicas.fetches), len(replicas.produces)) == (1000, 10)
    tasks = len(lone.node.timer)
    for answer in (*fetches, *produces):
        answer.abandon()
    assert (len(replicas.fetches), len(replicas.produces)) == (0, 0)
    assert len(lone.node.timer) == tasks - 1010
    lone.fetch(topic, 10, follower=2)
    assert not any(answer.kept for answer in (*fetches, *produces))


def test_a_fetch_of_the_metadata_log_whose_observer_hung_up_is_forgotten() -> None:
    lone = LoneNode()
    log = lone.node.raft.replica.log
    request = FetchRequest(
        replica_state=FetchRequest.ReplicaState(replica_id=7),
        max_wait_ms=60_000,
        topics=[
            FetchRequest.Topic(
                topic=METADATA_TOPIC,
                topic_id=METADATA_TOPIC_ID,
                partitions=[
                    FetchRequest.Topic.Partition(
                        partition=0,
                        current_leader_epoch=lone.node.raft.replica.epoch,
                        fetch_offset=log.end_offset,
                        last_fetched_epoch=lone.node.raft.replica.epoch,
                        high_watermark=log.end_offset,
                    )
                ],
            )
        ],
    )
    answer = lone.handle(request, ListenerKind.CONTROLLER)
    assert not answer.kept and len(lone.node.raft.replica.parked) == 1
    answer.abandon()
    assert not lone.node.raft.replica.parked


def parks(lone: LoneNode) -> list[Promise[Any]]:
    """From now on the node parks every Metadata request; the promises of its handler."""
    parked: list[Promise[Any]] = []

    def park(*_: object) -> Promise[Any]:
        parked.append(Promise())
        return parked[-1]

    lone.node.dispatcher._handlers[ListenerKind.BROKER, MetadataRequest] = park
    return parked


def test_an_answer_that_is_abandoned_abandons_what_its_handler_waits_for() -> None:
    lone = LoneNode()
    parked = parks(lone)
    answers = [lone.handle(MetadataRequest()) for _ in range(2)]
    answers[0].abandon()
    assert [promise.abandoned for promise in parked] == [True, False]
    parked[1].keep(MetadataResponse(brokers=[], topics=[]))
    assert answers[1].value == Answer(MetadataResponse(brokers=[], topics=[]))


def test_a_request_that_is_abandoned_before_the_broker_is_open_is_never_handled() -> None:
    lone = LoneNode(cut_off=True)
    parked = parks(lone)
    early, late = [lone.handle(MetadataRequest()) for _ in range(2)]
    early.abandon()
    assert len(lone.node._early._waiting) == 1
    lone.cut_off = False
    lone.run(10_000)
    assert len(parked) == 1 and not lone.node._early._waiting
    late.abandon()
    assert parked[0].abandoned


def test_a_leadership_that_is_lost_ends_the_waiting(pair: tuple[LoneNode, Any]) -> None:
    lone, topic = pair
    produce = lone.produce(topic, batch().buffer, timeout_ms=60_000)
    fetch = lone.fetch(topic, 0, max_wait_ms=60_000, leader_epoch=0)
    content = lone.fetch(topic, 0, max_wait_ms=60_000)
    lone.broker.lifecycle.begin_shutdown(lone.now)
    lone.run(100)
    assert lone.node.loader.image.topics[topic].partitions[0].leader == 2
    assert error_of(produce) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert read(fetch).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert not content.kept, "a consumer that names no epoch may read from a follower as well"
    hint = produce.value.response.responses[0].partition_responses[0].current_leader  # type: ignore[union-attr]
    assert (hint.leader_id, hint.leader_epoch) == (2, 1)


def test_a_follower_whose_log_parts_from_ours_is_told_where(pair: tuple[LoneNode, Any]) -> None:
    lone, topic = pair
    lone.produce(topic, batch(3).buffer, acks=1)
    answer = read(lone.fetch(topic, 5, follower=2, last_epoch=0))
    assert (answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset) == (0, 3)
    assert len(answer.records) == 0
    partition = next(iter(lone.broker.replicas.partitions.values()))
    assert partition.followers[2].end_offset != 5, "what it does not share with us does not count"
    assert read(lone.fetch(topic, 9)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_what_a_follower_does_not_share_with_its_leader_does_not_count_within_the_leaders_log_either() -> None:
    """Offset 4 lies within the leader's log. The leader has a record of epoch 2 there, the follower one of epoch 0."""
    lone = LoneNode(broker_session_timeout_ms="1000", broker_heartbeat_interval_ms="100")
    lone.join(2)
    topic = lone.create(replicas=(1, 2))
    lone.produce(topic, batch(3).buffer, acks=1)
    lone.run(500)
    lone.cut_off = True
    lone.run(2000)  # both sessions expire, that of broker 2 first: broker 1 stays in the ISR, and leads no more
    lone.cut_off = False
    lone.run(2000)
    lone.heartbeat(2)
    partition = next(iter(lone.broker.replicas.partitions.values()))
    assert (partition.leader_epoch, partition.isr_state.isr) == (2, {1})
    lone.produce(topic, batch(2).buffer, acks=1)
    answer = read(lone.fetch(topic, 4, follower=2, last_epoch=0))
    assert (answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset) == (0, 3)
    assert partition.followers[2].end_offset == -1
    lone.run(100)
    assert partition.isr_state.maximal == {1}, "nor does such a fetch bring the follower into the ISR"
    lone.fetch(topic, 3, follower=2, last_epoch=0)
    assert partition.followers[2].end_offset == 3


@pytest.mark.parametrize(
    ("sequences", "last"),
    [
        ([(7, 0, 0), (7, 0, 1), (7, 0, 2)], ErrorCode.NONE),
        ([(7, 0, 0), (7, 0, 0)], ErrorCode.NONE),  # sent twice
        ([(7, 0, 0), (7, 0, 2)], ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        ([(7, 0, 5)], ErrorCode.NONE),  # an unknown producer may begin anywhere: its records may have been deleted
        ([(7, 1, 0), (7, 0, 1)], ErrorCode.INVALID_PRODUCER_EPOCH),
        ([(7, 0, 0), (7, 1, 1)], ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),  # a new epoch begins at 0
        ([(7, 0, 0), (7, 1, 0)], ErrorCode.NONE),
        ([(7, 0, n) for n in range(7)] + [(7, 0, 2)], ErrorCode.NONE),  # one of the last five
        ([(7, 0, n) for n in range(7)] + [(7, 0, 1)], ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
    ],
)
def test_the_sequence_rules(sequences: list[tuple[int, int, int]], last: ErrorCode) -> None:
    """Producer, epoch, sequence; all but the last are in order."""
    lone = LoneNode()
    topic = lone.create()
    errors = [error_of(lone.produce(topic, produced(p, n, epoch=epoch).buffer)) for p, epoch, n in sequences]
    assert errors == [ErrorCode.NONE] * (len(sequences) - 1) + [last]


def test_producer_ids_are_given_out_one_by_one() -> None:
    lone = LoneNode()
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
    first = lone.ask(request)
    while first.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        first = lone.ask(request)
    ids = [first.producer_id] + [lone.ask(request).producer_id for _ in range(3)]
    assert ids == list(range(ids[0], ids[0] + 4))


def test_a_node_that_crashed_has_what_it_had_acknowledged() -> None:
    lone = LoneNode()
    topic = lone.create()
    assert error_of(lone.produce(topic, produced(7, 0, 3).buffer)) is ErrorCode.NONE
    lone.filesystem.crash_process()
    again = LoneNode(lone.filesystem)
    again.run(10_000)  # the session of the process that is gone runs out
    assert error_of(again.produce(topic, produced(7, 0, 3).buffer)) is ErrorCode.NONE, "known: sent twice"
    assert error_of(again.produce(topic, produced(7, 3).buffer)) is ErrorCode.NONE
    partition = next(iter(again.broker.replicas.partitions.values()))
    assert (partition.log.log_end_offset, partition.leader_epoch) == (4, 2)


@pytest.mark.parametrize(("levels", "expected"), [(NEW_CLUSTER, 1), (WITHOUT_ELR, 2)])
def test_a_clusters_log_keeps_the_min_insync_replicas_of_its_first_file_if_it_keeps_eligible_replicas(
    levels: dict[str, int], expected: int
) -> None:
    first = LoneNode(levels=levels, min_insync_replicas="1")
    first.join(2)
    first.create(replicas=(1, 2))
    first.node.close()
    again = LoneNode(first.filesystem, min_insync_replicas="2")
    assert again.broker.replicas.partition(TopicPartition("t", 0)).min_insync_replicas == expected


def test_a_smaller_isr_is_never_known_before_the_larger_min_insync_replicas_that_came_first() -> None:
    node = LoneNode()
    node.join(2)
    topic_id = node.create(replicas=(1, 2))
    producing = node.produce(topic_id, batch(1).buffer, timeout_ms=60_000)
    image = node.node.loader.image
    fence = BrokerHeartbeatRequest(
        broker_id=2,
        broker_epoch=image.brokers[2].epoch,
        current_metadata_offset=image.provenance.offset,
        want_fence=True,
        want_shut_down=False,
    )
    for request in (change((ResourceType.TOPIC, "t", [("min.insync.replicas", SET, "2")])), fence):
        node.handle(request, ListenerKind.CONTROLLER)
    node.run()
    partition = node.node.loader.image.topics[topic_id].partitions[0]
    assert (partition.isr, partition.eligible_leader_replicas) == ((1,), (2,)), "2 may lead, and lacks the record"
    assert not producing.kept, error_of(producing).name
    assert node.broker.replicas.partition(TopicPartition("t", 0)).log.high_watermark == 0


def test_a_leader_that_was_replaced_commits_nothing_by_the_smaller_min_insync_replicas_that_came_later(
    pair: tuple[LoneNode, Any],
) -> None:
    lone, topic = pair
    producing = lone.produce(topic, batch().buffer, timeout_ms=60_000)
    loader, after = lone.node.loader, lone.node.loader.image.provenance
    smaller = PartitionChangeRecord(topic_id=topic, partition_id=0, isr=[1])
    replaced = PartitionChangeRecord(topic_id=topic, partition_id=0, isr=[2], leader=2)
    setting = ConfigRecord(resource_type=ResourceType.TOPIC, resource_name="t", name="min.insync.replicas", value="1")
    finish(loader.handle_commit(CommittedBatch(after.offset + 1, after.offset + 1, after.epoch, 0, [smaller], 0)))
    assert not producing.kept
    finish(
        loader.handle_commit(CommittedBatch(after.offset + 2, after.offset + 3, after.epoch, 0, [replaced, setting], 0))
    )
    assert error_of(producing) is ErrorCode.NOT_LEADER_OR_FOLLOWER
