"""What each API says to a client that may not do something: a row an API and a denial.

The authorizer denies a client one thing, and allows it and the nodes all else. So a row also shows that the API asks
exactly that question: another one would be allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, NamedTuple

import pytest

from pykraft.broker.coordination.coordinators import GROUP_TOPIC
from pykraft.common.acl import CLUSTER_NAME, AclOperation, AclResourceType
from pykraft.common.errors import ErrorCode
from pykraft.common.types import ZERO_UUID, Uuid
from pykraft.coordinator.transaction.config import TRANSACTION_TOPIC
from pykraft.protocol.api import ListenerKind, apis
from pykraft.protocol.messages.admin import (
    CreateTopicsRequest,
    DeleteTopicsRequest,
    UnregisterBrokerRequest,
    UnregisterControllerRequest,
)
from pykraft.protocol.messages.brokers import (
    AllocateProducerIdsRequest,
    AlterPartitionRequest,
    AssignReplicasToDirsRequest,
    BrokerHeartbeatRequest,
    ControllerRegistrationRequest,
    EnvelopeRequest,
)
from pykraft.protocol.messages.cluster import (
    CONTROLLER_ENDPOINTS,
    GROUP_COORDINATOR,
    TRANSACTION_COORDINATOR,
    DescribeClusterRequest,
    FindCoordinatorRequest,
    MetadataRequest,
)
from pykraft.protocol.messages.configs import (
    AlterConfigsRequest,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
    ListConfigResourcesRequest,
    Operation,
    ResourceType,
)
from pykraft.protocol.messages.data import FetchRequest, ListOffsetsRequest, OffsetForLeaderEpochRequest, ProduceRequest
from pykraft.protocol.messages.groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListGroupsRequest,
    SyncGroupRequest,
)
from pykraft.protocol.messages.logs import DeleteRecordsRequest, DescribeLogDirsRequest
from pykraft.protocol.messages.offsets import OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest
from pykraft.protocol.messages.quorum import (
    AddRaftVoterRequest,
    BeginQuorumEpochRequest,
    DescribeQuorumRequest,
    EndQuorumEpochRequest,
    FetchSnapshotRequest,
    RemoveRaftVoterRequest,
    UpdateRaftVoterRequest,
    VoteRequest,
)
from pykraft.protocol.messages.sasl import AlterUserScramCredentialsRequest, DescribeUserScramCredentialsRequest
from pykraft.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    ListTransactionsRequest,
    TxnOffsetCommitRequest,
    WriteTxnMarkersRequest,
)
from pykraft.protocol.schema import Request
from pykraft.transport.server_channel import RequestContext
from tests.harness.asking import batch, describe_partitions, elect, grow, keep, reassign, reassignments, update
from tests.harness.controllers import make, new_topic, registration
from tests.harness.lone_node import LoneNode
from tests.harness.quotas import alter as alter_quotas
from tests.harness.quotas import described_by
from tests.harness.rules import EVERY, create_acls, delete_acls, describe_acls, rule
from tests.harness.storage import produced

BROKER, CONTROLLER = ListenerKind.BROKER, ListenerKind.CONTROLLER
CLIENT = "User:client"
TOPIC_REFUSED, GROUP_REFUSED, CLUSTER_REFUSED, TRANSACTIONAL_ID_REFUSED = 29, 30, 31, 53
SOME = "any resource of this type"

SERVED_TO_ALL = {(BROKER, "ApiVersions"), (CONTROLLER, "ApiVersions")}
"""A client must ask this before it has said who it is."""
SERVED_TO_ALL |= {(kind, name) for kind in ListenerKind for name in ("SaslHandshake", "SaslAuthenticate")}
"""These are how it says so."""
SHOWS_WHAT_IT_MAY = {(BROKER, "ListGroups"), (BROKER, "ListTransactions")}
"""Refuse no client, and leave out what it may not see: they have a test of their own."""

Question = tuple[AclOperation, AclResourceType, str]


class Denies:
    """Denies the client these things, whatever it is; nodes may do everything."""

    allows_all = False

    def __init__(self) -> None:
        self.denied: tuple[Question, ...] = ()

    def allows(
        self, context: RequestContext, operation: AclOperation, resource_type: AclResourceType, name: str
    ) -> bool:
        return context.principal != CLIENT or (operation, resource_type, name) not in self.denied

    def allowed(
        self, context: RequestContext, operation: AclOperation, resource_type: AclResourceType, names: Collection[str]
    ) -> Collection[str]:
        return [name for name in names if self.allows(context, operation, resource_type, name)]

    def allows_some(self, context: RequestContext, operation: AclOperation, resource_type: AclResourceType) -> bool:
        return self.allows(context, operation, resource_type, SOME)


def cluster(operation: AclOperation) -> Question:
    return operation, AclResourceType.CLUSTER, CLUSTER_NAME


def topic(operation: AclOperation, name: str = "t") -> Question:
    return operation, AclResourceType.TOPIC, name


# --- the requests -----------------------------------------------------------------------------------------------------


def metadata(*names: str, **fields: Any) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequest.Topic(name=name) for name in names], **fields)


def metadata_by_id(topic_id: Uuid) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequest.Topic(name=None, topic_id=topic_id)])


def delete(name: str | None, topic_id: Uuid = ZERO_UUID) -> DeleteTopicsRequest:
    return DeleteTopicsRequest(topics=[DeleteTopicsRequest.Topic(name=name, topic_id=topic_id)], timeout_ms=1000)


def delete_records() -> DeleteRecordsRequest:
    kind = DeleteRecordsRequest.Topic
    parts = [kind.Partition(partition_index=0, offset=0)]
    return DeleteRecordsRequest(topics=[kind(name=name, partitions=parts) for name in ("t", "u")], timeout_ms=0)


def describe(kind: ResourceType, name: str) -> DescribeConfigsRequest:
    resource = DescribeConfigsRequest.Resource(resource_type=kind, resource_name=name, configuration_keys=["x"])
    return DescribeConfigsRequest(resources=[resource])


def change(kind: ResourceType, name: str) -> IncrementalAlterConfigsRequest:
    resource = IncrementalAlterConfigsRequest.Resource
    setting = "retention.ms" if kind is ResourceType.TOPIC else "log.retention.ms"
    config = resource.Config(name=setting, config_operation=Operation.SET, value="1000")
    return IncrementalAlterConfigsRequest(
        resources=[resource(resource_type=kind, resource_name=name, configs=[config])]
    )


def replace(kind: ResourceType, name: str) -> AlterConfigsRequest:
    return AlterConfigsRequest(
        resources=[AlterConfigsRequest.Resource(resource_type=kind, resource_name=name, configs=[])]
    )


def find(kind: int, *keys: str) -> FindCoordinatorRequest:
    return FindCoordinatorRequest(key=keys[0], key_type=kind, coordinator_keys=keys)


ADD_VOTER = AddRaftVoterRequest(timeout_ms=10_000, voter_id=9, voter_directory_id=Uuid(bytes(16)), listeners=[])
REMOVE_VOTER = RemoveRaftVoterRequest(voter_id=9, voter_directory_id=Uuid(bytes(16)))
UPDATE_VOTER = UpdateRaftVoterRequest(
    voter_id=1,
    voter_directory_id=Uuid(bytes(16)),
    listeners=[],
    kraft_version_feature=UpdateRaftVoterRequest.KRaftVersionFeature(min_supported_version=0, max_supported_version=1),
)
HEARTBEAT = BrokerHeartbeatRequest(
    broker_id=7, broker_epoch=0, current_metadata_offset=0, want_fence=False, want_shut_down=False
)
ENVELOPE = EnvelopeRequest(request_data=b"", request_principal=b"", client_host_address=b"")


# --- what a response says ---------------------------------------------------------------------------------------------


def error(response: Any) -> Any:
    return response.error_code


def topics(response: Any) -> Any:
    return [(topic.name, topic.error_code) for topic in response.topics]


def topics_and_ids(response: Any) -> Any:
    return [(topic.name, topic.topic_id == ZERO_UUID, topic.error_code) for topic in response.topics]


def results(response: Any) -> Any:
    return [(result.resource_name, result.error_code) for result in response.responses]


class Row(NamedTuple):
    """`request` is made from the id of the topic t."""

    name: str
    kind: ListenerKind
    request: Callable[[Uuid], Request]
    denied: tuple[Question, ...]
    look: Callable[[Any], Any]
    seen: Any
    version: int | None = None


def rows() -> list[Row]:
    return [
        *of_cluster(),
        *of_transactions(),
        *of_records(),
        *of_groups(),
        *of_transactional_records(),
        *of_brokers_and_tools(),
        *of_admins(BROKER),
        *of_admins(CONTROLLER),
        *of_nodes(),
    ]


def of_cluster() -> list[Row]:
    describe_t, create_new = topic(AclOperation.DESCRIBE), topic(AclOperation.CREATE, "new")
    both = MetadataRequest(topics=None)
    missing, paged = metadata("new", "u"), describe_partitions("t", "u")
    topic_bits = metadata("t", include_topic_authorized_operations=True)
    cluster_bits = metadata(include_cluster_authorized_operations=True)
    create, see, alter = map(cluster, (AclOperation.CREATE, AclOperation.DESCRIBE, AclOperation.ALTER))

    def bits(response: Any) -> Any:
        return response.cluster_authorized_operations

    def bits_of_topic(response: Any) -> Any:
        return response.topics[0].topic_authorized_operations

    def keys(response: Any) -> Any:
        return [(found.key, found.error_code) for found in response.coordinators]

    of_group = (AclOperation.DESCRIBE, AclResourceType.GROUP, "g")
    of_transaction = (AclOperation.DESCRIBE, AclResourceType.TRANSACTIONAL_ID, "x")
    group, transaction = GROUP_COORDINATOR, TRANSACTION_COORDINATOR
    at_controller = DescribeClusterRequest(endpoint_type=CONTROLLER_ENDPOINTS)
    asked = DescribeClusterRequest(include_cluster_authorized_operations=True)
    asked_there = at_controller.replace(include_cluster_authorized_operations=True)
    seen = [("t", True, TOPIC_REFUSED), ("u", False, 0)]
    by_id = [(None, False, TOPIC_REFUSED)]
    made_by_others = [("new", TOPIC_REFUSED), ("u", 0)]
    return [
        Row("a topic that is hidden", BROKER, lambda _: metadata("t", "u"), (describe_t,), topics_and_ids, seen),
        Row("a hidden topic by id", BROKER, metadata_by_id, (describe_t,), topics_and_ids, by_id),
        Row("partitions, hidden", BROKER, lambda _: paged, (describe_t,), topics_and_ids, [*reversed(seen)]),
        Row("all partitions", BROKER, lambda _: describe_partitions(), (describe_t,), topics, [("u", 0)]),
        Row("bits of a paged topic", BROKER, lambda _: paged, (topic(AclOperation.WRITE),), bits_of_topic, 0xDE8),
        Row("all topics", BROKER, lambda _: both, (describe_t,), topics, [("u", 0)]),
        Row("all topics, once", BROKER, lambda _: metadata(), (describe_t,), topics, [("u", 0)], 0),
        Row("a new topic", BROKER, lambda _: missing, (create, create_new), topics, made_by_others),
        Row("bits of a topic", BROKER, lambda _: topic_bits, (topic(AclOperation.WRITE),), bits_of_topic, 0xDE8),
        Row("bits of the cluster", BROKER, lambda _: cluster_bits, (alter,), bits, 0x1F20, 10),
        Row("bits of a hidden cluster", BROKER, lambda _: cluster_bits, (see,), bits, 0, 10),
        Row("described bits", BROKER, lambda _: asked, (alter,), bits, 0x1F20),
        Row("described bits, hidden", BROKER, lambda _: asked, (see,), bits, 0),
        Row("a described controller", CONTROLLER, lambda _: at_controller, (alter,), error, CLUSTER_REFUSED),
        Row("described bits there", CONTROLLER, lambda _: asked_there, (cluster(AclOperation.CREATE),), bits, 0x1F80),
        Row("described bits there, hidden", CONTROLLER, lambda _: asked_there, (see,), bits, 0),
        Row("a group", BROKER, lambda _: find(group, "g"), (of_group,), error, GROUP_REFUSED, 3),
        Row("groups", BROKER, lambda _: find(group, "g", "h"), (of_group,), keys, [("g", GROUP_REFUSED), ("h", 15)]),
        Row(
            "transactional ids",
            BROKER,
            lambda _: find(transaction, "w", "x"),
            (of_transaction,),
            keys,
            [("w", 15), ("x", TRANSACTIONAL_ID_REFUSED)],
        ),
    ]


def of_transactions() -> list[Row]:
    """Requests for the transactional id x, which a broker without __transaction_state does not coordinate."""
    write, describe = (
        (operation, AclResourceType.TRANSACTIONAL_ID, "x") for operation in (AclOperation.WRITE, AclOperation.DESCRIBE)
    )
    read_group = (AclOperation.READ, AclResourceType.GROUP, "g")
    kind = AddPartitionsToTxnRequest.Topic
    topics = [kind(name=name, partitions=[0]) for name in ("t", "u")]
    add = AddPartitionsToTxnRequest(v3_and_below_transactional_id="x", v3_and_below_topics=topics)
    transaction = AddPartitionsToTxnRequest.Transaction
    several = AddPartitionsToTxnRequest(
        transactions=[transaction(transactional_id="x", producer_id=0, producer_epoch=0, topics=[])]
    )
    offsets = AddOffsetsToTxnRequest(transactional_id="x", producer_id=0, producer_epoch=0, group_id="g")
    end = EndTxnRequest(transactional_id="x", producer_id=0, producer_epoch=0, committed=True)
    shown = DescribeTransactionsRequest(transactional_ids=["w", "x"])

    def partitions(response: Any) -> Any:
        results = response.results_by_topic_v3_and_below
        return [(topic.name, topic.results_by_partition[0].partition_error_code) for topic in results]

    def states(response: Any) -> Any:
        return [(state.transactional_id, state.error_code) for state in response.transaction_states]

    all_refused = [("t", TRANSACTIONAL_ID_REFUSED), ("u", TRANSACTIONAL_ID_REFUSED)]
    one_refused = [("t", TOPIC_REFUSED), ("u", ErrorCode.OPERATION_NOT_ATTEMPTED)]
    may_act = (cluster(AclOperation.CLUSTER_ACTION),)
    hidden = [("w", ErrorCode.NOT_COORDINATOR), ("x", TRANSACTIONAL_ID_REFUSED)]
    return [
        Row("partitions of a transaction", BROKER, lambda _: add, (write,), partitions, all_refused, 3),
        Row("one partition", BROKER, lambda _: add, (topic(AclOperation.WRITE),), partitions, one_refused, 3),
        Row("partitions of several", BROKER, lambda _: several, may_act, error, CLUSTER_REFUSED),
        Row("offsets of a transaction", BROKER, lambda _: offsets, (write,), error, TRANSACTIONAL_ID_REFUSED),
        Row("offsets of a group", BROKER, lambda _: offsets, (read_group,), error, GROUP_REFUSED),
        Row("the end of a transaction", BROKER, lambda _: end, (write,), error, TRANSACTIONAL_ID_REFUSED),
        Row("transactions", BROKER, lambda _: shown, (describe,), states, hidden),
    ]


def of_records() -> list[Row]:
    """Requests for partition 0 of the topics t and u, or of t alone by its id."""

    def named(kind: Any, field: str, **parts: Any) -> list[Any]:
        return [kind(**{field: name}, **parts) for name in ("t", "u")]

    def produce(t: Uuid, by_id: bool = False) -> Request:
        part = ProduceRequest.Topic.Partition(index=0, records=memoryview(bytearray(batch())))
        alone = [ProduceRequest.Topic(topic_id=t, partition_data=[part])]
        topics = alone if by_id else named(ProduceRequest.Topic, "name", partition_data=[part])
        return ProduceRequest(acks=1, timeout_ms=1000, topic_data=topics)

    def fetch(t: Uuid, by_id: bool = False, replica_id: int = -1) -> Request:
        part = FetchRequest.Topic.Partition(partition=0, partition_max_bytes=1)
        alone = [FetchRequest.Topic(topic_id=t, partitions=[part])]
        topics = alone if by_id else named(FetchRequest.Topic, "topic", partitions=[part])
        state = FetchRequest.ReplicaState(replica_id=replica_id)
        return FetchRequest(replica_id=replica_id, replica_state=state, max_wait_ms=0, topics=topics)

    def list_offsets(_: Uuid) -> Request:
        part = ListOffsetsRequest.Topic.Partition(partition_index=0, timestamp=-1)
        return ListOffsetsRequest(replica_id=-1, topics=named(ListOffsetsRequest.Topic, "name", partitions=[part]))

    def epochs(_: Uuid) -> Request:
        topic_type = OffsetForLeaderEpochRequest.Topic
        parts = [topic_type.Partition(partition=0, leader_epoch=0)]
        return OffsetForLeaderEpochRequest(topics=named(topic_type, "topic", partitions=parts))

    def sent(response: Any) -> Any:
        return [(each.name, each.partition_responses[0].error_code) for each in response.responses]

    def fetched(response: Any) -> Any:
        return [(each.topic, each.partitions[0].error_code) for each in response.responses]

    def found(response: Any) -> Any:
        return [(each.name, each.partitions[0].error_code) for each in response.topics]

    def ended(response: Any) -> Any:
        return [(each.topic, each.partitions[0].error_code) for each in response.topics]

    write, read, see = (
        topic(operation) for operation in (AclOperation.WRITE, AclOperation.READ, AclOperation.DESCRIBE)
    )
    act = cluster(AclOperation.CLUSTER_ACTION)
    one, both = [("t", TOPIC_REFUSED), ("u", 0)], [("t", TOPIC_REFUSED), ("u", TOPIC_REFUSED)]
    by_id = [("", TOPIC_REFUSED)]
    return [
        Row("producing", BROKER, produce, (write,), sent, one, 12),
        Row("producing by id", BROKER, lambda t: produce(t, True), (write,), sent, by_id),
        Row("fetching", BROKER, fetch, (read,), fetched, one, 12),
        Row("fetching by id", BROKER, lambda t: fetch(t, True), (read,), fetched, by_id),
        Row("fetching as a replica", BROKER, lambda t: fetch(t, replica_id=2), (act,), fetched, both, 12),
        Row("offsets", BROKER, list_offsets, (see,), found, one),
        Row("epochs", BROKER, epochs, (see, act), ended, one),
    ]


def of_transactional_records() -> list[Row]:
    """Without __consumer_offsets and __transaction_state there is no coordinator for a client that may ask for one."""
    transactional_id = (AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, "x")
    group, read = (AclOperation.READ, AclResourceType.GROUP, "g"), topic(AclOperation.READ)
    both = cluster(AclOperation.ALTER), cluster(AclOperation.CLUSTER_ACTION)
    group_refused = ErrorCode.GROUP_AUTHORIZATION_FAILED

    def produce(_: Uuid) -> Request:
        records = memoryview(bytearray(produced(7, 0, transactional=True).buffer))
        part = ProduceRequest.Topic.Partition(index=0, records=records)
        topics = [ProduceRequest.Topic(name="t", partition_data=[part])]
        return ProduceRequest(transactional_id="x", acks=1, timeout_ms=1000, topic_data=topics)

    def commit(_: Uuid) -> Request:
        kind = TxnOffsetCommitRequest.Topic
        part = kind.Partition(partition_index=0, committed_offset=0, committed_metadata=None)
        topics = [kind(name=name, partitions=[part]) for name in ("t", "u")]
        return TxnOffsetCommitRequest(
            transactional_id="x", group_id="g", producer_id=7, producer_epoch=0, topics=topics
        )

    def mark(_: Uuid) -> Request:
        kind = WriteTxnMarkersRequest.Marker
        topics = [kind.Topic(name="t", partition_indexes=[0])]
        marker = kind(producer_id=7, producer_epoch=0, transaction_result=True, topics=topics, coordinator_epoch=0)
        return WriteTxnMarkersRequest(markers=[marker])

    def show(_: Uuid) -> Request:
        kind = DescribeProducersRequest.Topic
        return DescribeProducersRequest(topics=[kind(name=name, partition_indexes=[0]) for name in ("t", "u")])

    def appended(response: Any) -> Any:
        return response.responses[0].partition_responses[0].error_code

    def marked(response: Any) -> Any:
        return response.markers[0].topics[0].partitions[0].error_code

    def parts(response: Any) -> Any:
        return [each.partitions[0].error_code for each in response.topics]

    away = ErrorCode.NOT_COORDINATOR
    return [
        Row("a transactional batch", BROKER, produce, (transactional_id,), appended, TRANSACTIONAL_ID_REFUSED, 12),
        Row("transactional offsets", BROKER, commit, (transactional_id,), parts, [TRANSACTIONAL_ID_REFUSED] * 2, 5),
        Row("transactional offsets of a group", BROKER, commit, (group,), parts, [group_refused] * 2, 5),
        Row("transactional offsets of a topic", BROKER, commit, (read,), parts, [TOPIC_REFUSED, away], 5),
        Row("markers", BROKER, mark, both, marked, CLUSTER_REFUSED),
        Row("producers", BROKER, show, (read,), parts, [TOPIC_REFUSED, 0]),
    ]


def of_groups() -> list[Row]:
    """Without __consumer_offsets there is no coordinator: a client that may ask is answered NOT_COORDINATOR."""
    read, see, delete = (
        (operation, AclResourceType.GROUP, "g")
        for operation in (AclOperation.READ, AclOperation.DESCRIBE, AclOperation.DELETE)
    )
    refused = ErrorCode.GROUP_AUTHORIZATION_FAILED
    commit = OffsetCommitRequest.Topic
    offsets = [commit(name="t", partitions=[commit.Partition(partition_index=0, committed_offset=0)])]
    fetch = OffsetFetchRequest.Topic(name="t", partition_indexes=[0])
    join = JoinGroupRequest(group_id="g", session_timeout_ms=10_000, protocol_type="consumer", protocols=[])

    def row(name: str, request: Request, denied: Question, look: Callable[[Any], Any], seen: Any) -> Row:
        return Row(name, BROKER, lambda _: request, (denied,), look, seen)

    def parts(response: Any) -> Any:
        return [(each.name, each.partitions[0].error_code) for each in response.topics]

    def groups(response: Any) -> Any:
        return [each.error_code for each in response.groups]

    return [
        row("a member joins", join, read, error, refused),
        row("a member asks for its assignment", sync(), read, error, refused),
        row("a member lives", beat(), read, error, refused),
        row("a member leaves", LeaveGroupRequest(group_id="g"), read, error, refused),
        row("offsets are committed", OffsetCommitRequest(group_id="g", topics=offsets), read, parts, [("t", refused)]),
        Row(
            "offsets in a topic are committed",
            BROKER,
            lambda _: OffsetCommitRequest(group_id="g", topics=offsets),
            (topic(AclOperation.READ),),
            parts,
            [("t", ErrorCode.TOPIC_AUTHORIZATION_FAILED)],
            version=9,
        ),
        Row(
            "committed offsets are looked at",
            BROKER,
            lambda _: OffsetFetchRequest(group_id="g", topics=[fetch]),
            (see,),
            error,
            refused,
            version=7,
        ),
        row("a member of a consumer group lives", live(), read, error, refused),
        row("it names a topic", live(), topic(AclOperation.DESCRIBE), error, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        row("a consumer group is described", ConsumerGroupDescribeRequest(group_ids=["g"]), see, groups, [refused]),
        row("offsets are forgotten", OffsetDeleteRequest(group_id="g", topics=[]), delete, error, refused),
        row("a group is described", DescribeGroupsRequest(groups=["g"]), see, groups, [refused]),
        row(
            "a group is deleted",
            DeleteGroupsRequest(groups_names=["g"]),
            delete,
            lambda response: [each.error_code for each in response.results],
            [refused],
        ),
    ]


def sync() -> Request:
    named = {"protocol_type": "consumer", "protocol_name": "range"}
    return SyncGroupRequest(group_id="g", generation_id=1, member_id="m", assignments=[], **named)


def live() -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=1000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )


def beat() -> Request:
    return HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


def of_brokers_and_tools() -> list[Row]:
    def low_watermarks(response: Any) -> Any:
        return [(t.name, t.partitions[0].error_code, t.partitions[0].low_watermark) for t in response.topics]

    def directories(response: Any) -> Any:
        return response.error_code, len(response.results)

    def producer(response: Any) -> Any:
        return response.error_code, response.producer_id, response.producer_epoch

    idempotent = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
    transactional = idempotent.replace(transactional_id="x")
    may_not_write = (cluster(AclOperation.IDEMPOTENT_WRITE), topic(AclOperation.WRITE, SOME))
    may_not_commit = (AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, "x")
    see_cluster, see_configs = cluster(AclOperation.DESCRIBE), cluster(AclOperation.DESCRIBE_CONFIGS)
    gone = [("t", TOPIC_REFUSED, -1), ("u", 0, 0)]
    none = (CLUSTER_REFUSED, -1, -1)
    return [
        Row("records", BROKER, lambda _: delete_records(), (topic(AclOperation.DELETE),), low_watermarks, gone),
        Row(
            "a replica's disk",
            BROKER,
            lambda _: keep("/", ("t", [0])),
            (cluster(AclOperation.ALTER),),
            lambda response: [each.error_code for topic in response.results for each in topic.partitions],
            [CLUSTER_REFUSED],
        ),
        Row("disks", BROKER, lambda _: DescribeLogDirsRequest(), (see_cluster,), directories, (CLUSTER_REFUSED, 0)),
        Row("a producer id", BROKER, lambda _: idempotent, may_not_write, producer, none),
        Row(
            "a transactional id",
            BROKER,
            lambda _: transactional,
            (may_not_commit,),
            producer,
            (TRANSACTIONAL_ID_REFUSED, -1, -1),
        ),
        Row("SCRAM", BROKER, lambda _: DescribeUserScramCredentialsRequest(users=None), (see_cluster,), error, 31),
        Row("resources", BROKER, lambda _: ListConfigResourcesRequest(), (see_configs,), error, CLUSTER_REFUSED),
        Row("quotas", BROKER, lambda _: described_by(), (see_configs,), error, CLUSTER_REFUSED),
    ]


def of_admins(kind: ListenerKind) -> list[Row]:
    """The same answers, whether a client asks the controller itself or has a broker forward what it asks."""

    def described(response: Any) -> Any:
        return [(result.resource_name, result.error_code, len(result.configs)) for result in response.results]

    def deleted(response: Any) -> Any:
        return [(result.name, result.error_code) for result in response.responses]

    def grown(response: Any) -> Any:
        return [(result.name, result.error_code) for result in response.results]

    def moved(response: Any) -> Any:
        answers = [(each.partition_index, each.error_code) for topic in response.responses for each in topic.partitions]
        return response.error_code, answers

    def elected(response: Any) -> Any:
        return response.error_code

    def rule_made(response: Any) -> Any:
        return [result.error_code for result in response.results]

    def rules_found(response: Any) -> Any:
        return [(result.error_code, len(result.matching_acls)) for result in response.filter_results]

    def quotas_set(response: Any) -> Any:
        return [entry.error_code for entry in response.entries]

    def made(response: Any) -> Any:
        (topic,) = response.topics
        shown = topic.num_partitions, topic.replication_factor, len(topic.configs)
        return topic.error_code, topic.topic_config_error_code, *shown

    fresh = make(new_topic("new", assignment={0: [1]}))
    several = CreateTopicsRequest(topics=[*fresh.topics, new_topic("v"), new_topic("w"), new_topic("w")])
    may_not_create = (cluster(AclOperation.CREATE), topic(AclOperation.CREATE, "new"))
    no_delete = (cluster(AclOperation.DELETE), topic(AclOperation.DELETE))
    no_sight = (*no_delete, topic(AclOperation.DESCRIBE), topic(AclOperation.DESCRIBE, "nowhere"))
    move_t = reassign(("t", 0, [1]))
    grow_t, alter_cluster = topic(AclOperation.ALTER), cluster(AclOperation.ALTER)
    unregister, unregister_controller = (
        UnregisterBrokerRequest(broker_id=9),
        UnregisterControllerRequest(controller_id=9),
    )
    describe_t, alter_t = topic(AclOperation.DESCRIBE_CONFIGS), topic(AclOperation.ALTER_CONFIGS)
    describe_all, alter_all = cluster(AclOperation.DESCRIBE_CONFIGS), cluster(AclOperation.ALTER_CONFIGS)
    of_group = (AclOperation.DESCRIBE_CONFIGS, AclResourceType.GROUP, "g")
    topic_kind, broker_kind, group_kind = ResourceType.TOPIC, ResourceType.BROKER, ResourceType.GROUP
    see_quorum = cluster(AclOperation.DESCRIBE)
    hidden = topic(AclOperation.DESCRIBE_CONFIGS, "new")
    mixed = [("v", 0), ("w", 42), ("new", TOPIC_REFUSED)]
    t_refused, all_refused = [("t", TOPIC_REFUSED)], [("", CLUSTER_REFUSED)]
    quorum = DescribeQuorumRequest(topics=[])
    alice = rule("allow alice READ TOPIC t")
    password_kind = AlterUserScramCredentialsRequest.Upsertion
    secret = password_kind(name="alice", mechanism=1, iterations=4096, salt=b"s", salted_password=b"p")
    password = AlterUserScramCredentialsRequest(deletions=[], upsertions=[secret])
    of_alice = alter_quotas(({"user": "alice"}, {"request_percentage": 1.0}), validate_only=True)
    return [
        Row("settings of a topic", kind, lambda _: describe(topic_kind, "t"), (describe_t,), described, [("t", 29, 0)]),
        Row("of brokers", kind, lambda _: describe(broker_kind, ""), (describe_all,), described, [("", 31, 0)]),
        Row("of a group", kind, lambda _: describe(group_kind, "g"), (of_group,), described, [("g", 30, 0)]),
        Row("a change", kind, lambda _: change(topic_kind, "t"), (alter_t,), results, t_refused),
        Row("a change of brokers", kind, lambda _: change(broker_kind, ""), (alter_all,), results, all_refused),
        Row("a replacement", kind, lambda _: replace(topic_kind, "t"), (alter_t,), results, t_refused),
        Row("a replacement of brokers", kind, lambda _: replace(broker_kind, ""), (alter_all,), results, all_refused),
        Row("a new topic", kind, lambda _: several, may_not_create, topics, mixed),
        Row("a new topic, unseen", kind, lambda _: fresh, (hidden,), made, (0, TOPIC_REFUSED, -1, -1, 0)),
        Row("more partitions", kind, lambda _: grow(("t", 9), ("u", 0)), (grow_t,), grown, [*t_refused, ("u", 37)]),
        Row("levels", kind, lambda _: update(("group.version", 1)), (alter_cluster,), error, CLUSTER_REFUSED),
        Row("a reassignment", kind, lambda _: move_t, (cluster(AclOperation.ALTER),), moved, (31, [(0, 31)])),
        Row("reassignments", kind, lambda _: reassignments(), (see_quorum,), error, CLUSTER_REFUSED),
        Row("elections", kind, lambda _: elect(0, ("t", [0])), (alter_cluster,), elected, CLUSTER_REFUSED),
        Row("forgetting a broker", kind, lambda _: unregister, (alter_cluster,), error, CLUSTER_REFUSED),
        Row("forgetting a controller", kind, lambda _: unregister_controller, (alter_cluster,), error, CLUSTER_REFUSED),
        Row("deleting", kind, lambda _: delete("t"), no_delete, deleted, t_refused),
        Row("deleting by id", kind, lambda t: delete(None, t), no_delete, deleted, t_refused),
        Row("deleting the unseen", kind, lambda _: delete("t"), no_sight, deleted, t_refused),
        Row("deleting the unseen by id", kind, lambda t: delete(None, t), no_sight, deleted, [(None, TOPIC_REFUSED)]),
        Row("what is not there", kind, lambda _: delete("nowhere"), no_sight, deleted, [("nowhere", TOPIC_REFUSED)]),
        Row("rules", kind, lambda _: describe_acls(), (see_quorum,), error, CLUSTER_REFUSED),
        Row("a new rule", kind, lambda _: create_acls(alice), (alter_cluster,), rule_made, [CLUSTER_REFUSED]),
        Row("no more rules", kind, lambda _: delete_acls(EVERY), (alter_cluster,), rules_found, [(CLUSTER_REFUSED, 0)]),
        Row("a password", kind, lambda _: password, (alter_cluster,), rule_made, [CLUSTER_REFUSED]),
        Row("a quota", kind, lambda _: of_alice, (alter_all,), quotas_set, [CLUSTER_REFUSED]),
        Row("the quorum", kind, lambda _: quorum, (see_quorum,), error, CLUSTER_REFUSED),
        Row("a new voter", kind, lambda _: ADD_VOTER, (alter_cluster,), error, CLUSTER_REFUSED),
        Row("a voter that goes", kind, lambda _: REMOVE_VOTER, (alter_cluster,), error, CLUSTER_REFUSED),
    ]


def of_nodes() -> list[Row]:
    fetch = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[])
    producer_ids = AllocateProducerIdsRequest(broker_id=1, broker_epoch=0)
    alter = AlterPartitionRequest(broker_id=1, broker_epoch=0, topics=[])
    requests = [
        *(VoteRequest(topics=[]), BeginQuorumEpochRequest(topics=[]), EndQuorumEpochRequest(topics=[]), fetch),
        *(FetchSnapshotRequest(topics=[]), UPDATE_VOTER),
        *(registration(7), HEARTBEAT, alter, producer_ids, ENVELOPE),
        ControllerRegistrationRequest(controller_id=7, incarnation_id=Uuid(bytes(16)), listeners=[], features=[]),
        AssignReplicasToDirsRequest(broker_id=7, broker_epoch=0, directories=[]),
    ]
    denied = (cluster(AclOperation.CLUSTER_ACTION),)
    return [
        Row(type(request).__name__, CONTROLLER, lambda _, r=request: r, denied, error, CLUSTER_REFUSED)
        for request in requests
    ]


ROWS = rows()


def answered(row: Row, denied: tuple[Question, ...]) -> Any:
    """What the client sees if it is denied this."""
    denies = Denies()
    lone = LoneNode(authorizer=denies)
    topic_id = lone.create("t")
    lone.create("u")
    denies.denied = denied
    return row.look(lone.ask(row.request(topic_id), row.kind, row.version, CLIENT))


@pytest.mark.costly
@pytest.mark.parametrize("row", ROWS, ids=[f"{row.kind.value}: {row.name}" for row in ROWS])
def test_a_client_is_told_what_it_may_not_do(row: Row) -> None:
    assert answered(row, row.denied) == row.seen
    assert answered(row, ()) != row.seen, "the answer has nothing to do with what is denied"


def test_each_api_that_is_served_has_a_row() -> None:
    shown = {(row.kind, type(row.request(ZERO_UUID)).__name__.removesuffix("Request")) for row in ROWS}
    served = {(kind, api.name) for kind in ListenerKind for api in apis.values() if kind in api.listeners}
    assert shown | SERVED_TO_ALL | SHOWS_WHAT_IT_MAY == served


# --- what is asked, of whom -------------------------------------------------------------------------------------------


def test_one_of_two_permissions_to_make_or_delete_topics_is_enough() -> None:
    denies = Denies()
    lone = LoneNode(authorizer=denies)
    lone.create("t")
    denies.denied = (cluster(AclOperation.CREATE), cluster(AclOperation.DELETE))
    made = lone.ask(make(new_topic("new", assignment={0: [1]})), principal=CLIENT)
    gone = lone.ask(delete("t"), principal=CLIENT)
    denies.denied = (topic(AclOperation.CREATE, "other"), topic(AclOperation.DELETE, "new"))
    made_too = lone.ask(make(new_topic("other", assignment={0: [1]})), principal=CLIENT)
    gone_too = lone.ask(delete("new"), principal=CLIENT)
    codes = [made.topics[0].error_code, made_too.topics[0].error_code]
    assert codes + [response.responses[0].error_code for response in (gone, gone_too)] == [0, 0, 0, 0]


def test_a_client_is_told_what_it_may_do_to_topics_that_are_not_there_but_not_to_hidden_ones() -> None:
    denies = Denies()
    lone = LoneNode(authorizer=denies, auto_create_topics_enable="false")
    lone.create("t")
    denies.denied = (topic(AclOperation.DESCRIBE), topic(AclOperation.CREATE, "nowhere"))
    asked = metadata("t", "nowhere", "*", include_topic_authorized_operations=True)
    answer = lone.ask(asked, principal=CLIENT)
    told = {found.name: (found.error_code, found.topic_authorized_operations) for found in answer.topics}
    assert told == {"t": (TOPIC_REFUSED, -(1 << 31)), "nowhere": (3, 0xDD8), "*": (17, 0xDF8)}


def test_lists_leave_out_what_a_client_may_not_see() -> None:
    denies = Denies()
    lone = LoneNode(authorizer=denies)
    for name in (GROUP_TOPIC, TRANSACTION_TOPIC):
        lone.create(name, cleanup_policy="compact")
    lone.create("t")
    lone.run(100)
    for name in ("g", "g", "h"):  # the first question finds the coordinator loading
        lone.ask(live().replace(group_id=name))
        lone.ask(InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=1000))
        lone.run(100)

    def seen() -> tuple[list[str], list[str]]:
        groups = lone.ask(ListGroupsRequest(), principal=CLIENT).groups
        transactions = lone.ask(
            ListTransactionsRequest(state_filters=[], producer_id_filters=[]), principal=CLIENT
        ).transaction_states
        return sorted(each.group_id for each in groups), sorted(each.transactional_id for each in transactions)

    may_not_see = (
        (AclOperation.DESCRIBE, AclResourceType.GROUP, "g"),
        (AclOperation.DESCRIBE, AclResourceType.TRANSACTIONAL_ID, "h"),
    )
    denies.denied = may_not_see
    assert seen() == (["g", "h"], ["g"]), "the right to describe the cluster shows all groups"
    denies.denied = (*may_not_see, cluster(AclOperation.DESCRIBE))
    assert seen() == (["h"], ["g"])


def test_a_pattern_stands_for_the_topics_that_its_member_may_describe() -> None:
    denies = Denies()
    lone = LoneNode(authorizer=denies)
    lone.create(GROUP_TOPIC, cleanup_policy="compact")
    for name in ("open", "hidden"):
        lone.create(name)
    lone.run(100)
    denies.denied = (topic(AclOperation.DESCRIBE, "hidden"),)
    seen = []
    for principal, group in ((CLIENT, "mine"), ("User:other", "yours")):
        join = live().replace(group_id=group, subscribed_topic_names=None, subscribed_topic_regex="open|hidden")
        epoch = lone.ask(join, principal=principal).member_epoch
        lone.run(100)
        lone.ask(live().replace(group_id=group, member_epoch=epoch, topic_partitions=None), principal=principal)
        described = lone.ask(ConsumerGroupDescribeRequest(group_ids=[group]), principal="User:other").groups[0]
        parts = described.members[0].assignment.topic_partitions
        seen.append(sorted(part.topic_name for part in parts))
    assert seen == [["open"], ["hidden", "open"]]


def test_a_topic_that_a_client_asks_about_is_made_only_if_the_client_may_make_it() -> None:
    denies = Denies()
    lone = LoneNode(authorizer=denies)
    denies.denied = (cluster(AclOperation.CREATE), topic(AclOperation.CREATE, "mine"))
    lone.ask(metadata("mine", "yours"), principal=CLIENT)
    assert sorted(lone.node.loader.image.topic_ids) == ["yours"]


class Notes(Denies):
    """Denies nothing, and notes who wants to create or act for the cluster, and what for."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[object, ...]] = []

    def allows(
        self, context: RequestContext, operation: AclOperation, resource_type: AclResourceType, name: str
    ) -> bool:
        if operation in (AclOperation.CREATE, AclOperation.CLUSTER_ACTION):
            who = context.principal, context.client_address, context.client_id
            self.seen.append((context.kind, *who, operation, name))
        return True


@pytest.mark.parametrize(
    "request_", [make(new_topic("new", assignment={0: [1]})), metadata("new")], ids=["asked", "met"]
)
def test_the_controller_asks_for_the_client_of_what_a_broker_forwards(request_: Request) -> None:
    notes = Notes()
    lone = LoneNode(authorizer=notes)
    notes.seen.clear()
    lone.ask(request_, principal=CLIENT, address="10.0.0.7")
    assert "new" in lone.node.loader.image.topic_ids
    at_controller = [question[1:] for question in notes.seen if question[0] is CONTROLLER]
    assert ("User:test", "127.0.0.1", "test", AclOperation.CLUSTER_ACTION, CLUSTER_NAME) in at_controller
    assert [question for question in at_controller if question[3] is AclOperation.CREATE] == [
        (CLIENT, "10.0.0.7", "test", AclOperation.CREATE, CLUSTER_NAME)
    ]


@pytest.mark.costly
def test_a_resource_that_is_named_twice_is_refused_as_that_whoever_asks() -> None:
    denies = Denies()
    lone = LoneNode(authorizer=denies)
    denies.denied = (topic(AclOperation.ALTER_CONFIGS), cluster(AclOperation.CREATE), topic(AclOperation.CREATE))
    (resource,) = change(ResourceType.TOPIC, "t").resources
    twice = IncrementalAlterConfigsRequest(resources=[resource, resource])
    assert results(lone.ask(twice, CONTROLLER, principal=CLIENT)) == [("t", 42)]
    assert topics(lone.ask(make(new_topic("t"), new_topic("t")), CONTROLLER, principal=CLIENT)) == [("t", 42)]


def test_one_of_two_rights_is_enough_to_write_markers() -> None:
    markers = next(row for row in ROWS if row.name == "markers")
    for one in markers.denied:
        assert answered(markers, (one,)) == ErrorCode.NONE
