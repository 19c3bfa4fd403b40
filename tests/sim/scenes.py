"""What happens seldom in a history, as a scene of one node: after each turn the audit polls its rooms that sleep."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from pykraft.broker.coordination.coordinators import GROUP_TOPIC, InternalLog
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import METADATA_TOPIC, METADATA_TOPIC_ID, ReplicaKey, Uuid
from pykraft.controller.directories import DirectoryControl
from pykraft.controller.features import KRAFT_VERSION, NEW_CLUSTER
from pykraft.coordinator import committed_view
from pykraft.coordinator.group.shard import GroupShard
from pykraft.coordinator.transaction.config import TRANSACTION_TOPIC
from pykraft.coordinator.transaction.shard import TransactionShard
from pykraft.protocol.api import ListenerKind
from pykraft.protocol.messages.admin import CreateTopicsRequest
from pykraft.protocol.messages.brokers import AssignReplicasToDirsRequest
from pykraft.protocol.messages.data import FetchRequest, FetchResponse, ListOffsetsRequest, ListOffsetsResponse
from pykraft.protocol.messages.features import UpdateFeaturesRequest
from pykraft.protocol.messages.quorum import (
    FetchSnapshotRequest,
    ListenerEndpoint,
    SnapshotId,
    UpdateRaftVoterRequest,
    VoteRequest,
    VoteResponse,
)
from pykraft.protocol.messages.transactions import InitProducerIdRequest, WriteTxnMarkersRequest
from pykraft.protocol.schema import Request
from pykraft.sim.laws.sleep_laws import SleepAudit
from tests.harness.controllers import new_topic
from tests.harness.lone_node import LoneNode
from tests.harness.storage import batch
from tests.harness.transactional_node import TransactionalNode
from tests.unit.broker.replication import test_directory_moves as directory_moves
from tests.unit.broker.requests.cluster.test_acls import ROOT, TOO_FEW_VOTERS, describe_acls, guarded
from tests.unit.coordinator.test_committed_reads import commit, fetch, replicate
from tests.unit.coordinator.transaction.test_transactions import Transactions

STATIC = {**NEW_CLUSTER, KRAFT_VERSION: 0}
"""The voters are those of the settings."""
ELSEWHERE = Uuid(bytes(15) + b"d")
Scene = Callable[[pytest.MonkeyPatch], None]


def once(patch: pytest.MonkeyPatch, owner: type, name: str, error: Exception) -> None:
    """The next call of this method raises."""
    method = getattr(owner, name)

    def fail(*arguments: Any, **named: Any) -> Any:
        patch.setattr(owner, name, method)
        raise error

    patch.setattr(owner, name, fail)


def audited(lone: LoneNode) -> None:
    """A turn of a node that survives faults, and what is audited after it."""
    lone.node.poll(lone.now)
    audit: SleepAudit = lone._audit
    audit.check(lone.node, lambda: (lone.journal.count, lone.filesystem.operations), lone.now)


class LeaderOfThree:
    """Node 1 has a snapshot, and leads a quorum whose other voters the test plays."""

    def __init__(self) -> None:
        alone = LoneNode(levels=STATIC, metadata_log_max_record_bytes_between_snapshots="200")
        for number in range(8):
            alone.create(f"t{number}")
        alone.run(100)
        alone.filesystem.crash_process()
        voters = "1@node:9093,2@two:9193,3@three:9293"
        self.lone = LoneNode(
            alone.filesystem, controller_quorum_voters=voters, controller_quorum_fetch_timeout_ms="499"
        )
        self.raft = self.lone.node.raft.replica
        for _ in range(100):
            if self.raft.leader is not None:
                break
            self.lone.run(50)
            self.vote()
        assert self.raft.leader is not None, "the votes were granted"
        self.voter = ReplicaKey(2, Uuid(bytes(15) + b"2"))

    def vote(self) -> None:
        sent, self.lone.sent = self.lone.sent, []
        for outbound in sent:
            if isinstance(outbound.request, VoteRequest):
                epoch = outbound.request.topics[0].partitions[0].replica_epoch
                topic = VoteResponse.Topic
                granted = topic.Partition(partition_index=0, leader_epoch=epoch, vote_granted=True)
                response = VoteResponse(topics=[topic(topic_name=METADATA_TOPIC, partitions=[granted])])
                outbound.on_response(response, self.lone.now)

    def fetch(self) -> None:
        """Voter 2 has everything: the epoch's first record is committed."""
        topic = FetchRequest.Topic
        log = self.raft.log
        part = topic.Partition(
            partition=0,
            current_leader_epoch=self.raft.epoch,
            fetch_offset=log.end_offset,
            last_fetched_epoch=log.last_epoch,
            partition_max_bytes=1 << 20,
            replica_directory_id=self.voter.directory_id,
        )
        state = FetchRequest.ReplicaState(replica_id=2)
        asked = [topic(topic_id=METADATA_TOPIC_ID, partitions=[part])]
        self.ask(FetchRequest(replica_state=state, max_wait_ms=0, topics=asked))

    def ask(self, request: Request) -> None:
        """Voter 2 asks, when the next thing that the leader would do is to resign."""
        assert self.raft.leader is not None
        for _ in range(1_000):
            if self.lone.node.raft.room.due == self.raft.leader.check_quorum_deadline:
                break
            self.lone.run(1)
        answer: Any = self.lone.handle(request, ListenerKind.CONTROLLER).value.response
        assert not answer.error_code, answer
        self.lone.poll()


def a_marker_of_a_group_that_cannot_be_replayed(patch: pytest.MonkeyPatch) -> None:
    lone = LoneNode(survives_faults=True)
    lone.create(GROUP_TOPIC, cleanup_policy="compact")
    lone.run(200)
    once(patch, GroupShard, "replay_marker", ValueError("a bug"))
    marker = WriteTxnMarkersRequest.Marker
    topic = marker.Topic(name=GROUP_TOPIC, partition_indexes=[0])
    ended = marker(producer_id=7, producer_epoch=0, transaction_result=True, topics=[topic], coordinator_epoch=1)
    lone.handle(WriteTxnMarkersRequest(markers=[ended]))
    audited(lone)


def a_decision_on_a_transaction_that_cannot_be_replayed(patch: pytest.MonkeyPatch) -> None:
    lone = LoneNode(survives_faults=True)
    lone.create(TRANSACTION_TOPIC, cleanup_policy="compact")
    init = InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=60_000)
    lone.ask(init)  # the coordinator asks the controller for producer ids first
    lone.run(200)
    once(patch, TransactionShard, "replay", ValueError("a bug"))
    lone.handle(init)
    audited(lone)


def a_commit_in_a_turn_with_other_requests(patch: pytest.MonkeyPatch) -> None:
    commit(TransactionalNode(), 5)


def a_view_whose_log_could_not_be_read(patch: pytest.MonkeyPatch) -> None:
    """A read asks for it again."""
    patch.setattr(committed_view, "MOST_PENDING", 10)
    node = TransactionalNode(group_replicas=(1, 2), replica_lag_time_max_ms="3600000")
    for number in range(25):
        commit(node, number)
    once(patch, InternalLog, "batches", KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "for a moment"))
    replicate(node)
    node.lone._audit = SleepAudit(Random(1), deep=1)  # what the poll does is to keep a promise
    fetch(node)


def markers_of_a_transaction_that_is_decided_at_once(patch: pytest.MonkeyPatch) -> None:
    t = Transactions()
    producer = t.producer()
    t.add_as_broker(producer, "t", "u")
    t.ended(producer)


def a_topic_of_groups_whose_logs_are_made_in_several_turns(patch: pytest.MonkeyPatch) -> None:
    _make_in_several_turns(GROUP_TOPIC)


def a_topic_of_transactions_whose_logs_are_made_in_several_turns(patch: pytest.MonkeyPatch) -> None:
    _make_in_several_turns(TRANSACTION_TOPIC)


def _make_in_several_turns(name: str) -> None:
    lone = LoneNode()
    lone.time_slice.length = 1
    topic = new_topic(name, assignment={number: [1] for number in range(5)})
    lone.ask(CreateTopicsRequest(topics=[topic], timeout_ms=1000), ListenerKind.CONTROLLER)
    lone.run(100)


def a_cluster_whose_voters_come_into_the_log(patch: pytest.MonkeyPatch) -> None:
    lone = LoneNode(levels=STATIC)
    topic = new_topic("t", assignment={0: [1]})
    lone.handle(CreateTopicsRequest(topics=[topic], timeout_ms=1000), ListenerKind.CONTROLLER)  # it lingers
    update = UpdateFeaturesRequest.Update(feature="kraft.version", max_version_level=1)
    answer = lone.ask(UpdateFeaturesRequest(feature_updates=[update], timeout_ms=1000), ListenerKind.CONTROLLER)
    assert not answer.error_code, answer


def a_voter_that_copies_a_snapshot(patch: pytest.MonkeyPatch) -> None:
    """The leader hears of it, and need not resign so soon."""
    leader = LeaderOfThree()
    snapshot = leader.raft.log.snapshots.newest_id()
    assert snapshot is not None
    topic = FetchSnapshotRequest.Topic
    part = topic.Partition(
        partition=0,
        current_leader_epoch=leader.raft.epoch,
        snapshot_id=SnapshotId(end_offset=snapshot.offset, epoch=snapshot.epoch),
        position=0,
        replica_directory_id=leader.voter.directory_id,
    )
    asked = [topic(name=METADATA_TOPIC, partitions=[part])]
    leader.ask(FetchSnapshotRequest(replica_id=2, max_bytes=10, topics=asked))


def a_voter_that_tells_what_it_is(patch: pytest.MonkeyPatch) -> None:
    leader = LeaderOfThree()
    leader.fetch()
    update = UpdateRaftVoterRequest
    leader.ask(
        update(
            current_leader_epoch=leader.raft.epoch,
            voter_id=2,
            voter_directory_id=leader.voter.directory_id,
            listeners=[ListenerEndpoint(name="CONTROLLER", host="two", port=9193)],
            kraft_version_feature=update.KRaftVersionFeature(min_supported_version=0, max_supported_version=1),
        )
    )


def a_follower_whose_log_ends_before_that_of_its_leader_begins(patch: pytest.MonkeyPatch) -> None:
    lone = LoneNode(broker_session_timeout_ms="600000")
    lone.join(2)
    topic_id = lone.create("t", (2, 1))
    lone.run(50)
    (fetch,) = [each for each in lone.sent if isinstance(each.request, FetchRequest)]
    topic = FetchResponse.Topic
    refused = topic.Partition(partition_index=0, high_watermark=-1, error_code=ErrorCode.OFFSET_OUT_OF_RANGE)
    fetch.on_response(FetchResponse(responses=[topic(topic_id=topic_id, partitions=[refused])]), lone.now)
    (question,) = [each for each in lone.poll().requests if isinstance(each.request, ListOffsetsRequest)]
    begins = ListOffsetsResponse.Topic
    part = begins.Partition(partition_index=0, offset=7, leader_epoch=0)
    question.on_response(ListOffsetsResponse(topics=[begins(name="t", partitions=[part])]), lone.now)
    lone.poll()


def a_replica_in_another_directory(patch: pytest.MonkeyPatch) -> None:
    """The metadata have it in a directory that was replaced since."""
    lone = LoneNode()
    topic_id = lone.create("t")
    _assign(lone, topic_id)
    lone.run(2_000)


def a_replica_that_moves_to_another_directory(patch: pytest.MonkeyPatch) -> None:
    lone, _ = directory_moves.filled()
    assert directory_moves.alter(lone, "/b") is ErrorCode.NONE
    lone.run(2_000)
    assert directory_moves.place(lone) == "/b"


def a_directory_that_fails(patch: pytest.MonkeyPatch) -> None:
    """The broker notices when it writes there."""
    lone, topic_id = directory_moves.filled()
    lone.filesystem.failed_folders.add(directory_moves.place(lone))
    lone.produce(topic_id, batch(1).buffer)
    lone.run(2_000)
    assert lone.broker.logs.failures


def a_replica_that_the_controller_does_not_move(patch: pytest.MonkeyPatch) -> None:
    """The broker reports it again after a while."""
    assign = DirectoryControl.assign_replicas

    def refuse(self: DirectoryControl, image: Any, request: AssignReplicasToDirsRequest) -> Any:
        if request.directories[0].id != ELSEWHERE:
            raise KafkaError(ErrorCode.STALE_BROKER_EPOCH)
        return assign(self, image, request)

    patch.setattr(DirectoryControl, "assign_replicas", refuse)
    lone = LoneNode()
    topic_id = lone.create("t")
    _assign(lone, topic_id)
    lone.run(2_000)


def _assign(lone: LoneNode, topic_id: Uuid) -> None:
    directory = AssignReplicasToDirsRequest.Directory
    topic = directory.Topic(topic_id=topic_id, partitions=[directory.Topic.Partition(partition_index=0)])
    lone.ask(
        AssignReplicasToDirsRequest(
            broker_id=1,
            broker_epoch=lone.broker.lifecycle.epoch,
            directories=[directory(id=ELSEWHERE, topics=[topic])],
        ),
        ListenerKind.CONTROLLER,
    )


def a_controller_that_could_not_register_before_the_leader_resigned(patch: pytest.MonkeyPatch) -> None:
    """The next leader hears of it when it is elected."""
    leader = LeaderOfThree()
    leader.lone.cut_off = True
    leader.fetch()
    for _ in range(3):
        leader.lone.run(500)
        leader.vote()
        leader.lone.poll()


def a_controller_that_leads_again_and_has_nothing_new_to_hear(patch: pytest.MonkeyPatch) -> None:
    leader = LeaderOfThree()
    leader.fetch()
    for _ in range(3):
        leader.lone.run(500)
        leader.vote()
        leader.lone.poll()
    leader.fetch()


def a_listener_that_waits_for_the_rules(patch: pytest.MonkeyPatch) -> None:
    """It looks for them again after a while."""
    lone = guarded(controller_quorum_voters=TOO_FEW_VOTERS, early_start_listeners="PLAINTEXT")
    lone.handle(describe_acls(), ListenerKind.CONTROLLER, principal=ROOT)
    lone.run(200)


def two_transactions_with_markers_for_one_broker(patch: pytest.MonkeyPatch) -> None:
    """The second one's are sent when those of the first are acknowledged."""
    t = Transactions()
    first, second = t.producer(), t.producer("another")
    t.add_as_broker(first, "t")
    t.add_as_broker(second, "t", name="another")
    t.ended(first)
    t.ended(second, name="another")
    t.marked()
