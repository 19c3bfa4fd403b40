"""The table of APIs: which requests pykraft knows, which of its two listeners serves them, and what it advertises.

A node has up to two kinds of listener. Clients and replicas talk to the broker listener; the quorum's own messages, and
those of brokers to the active controller, go to the controller listener. A request on the wrong one is not answered:
the connection is closed, as for a key or a version that nobody knows.

The ranges are those of Apache Kafka 4.2. What is advertised is served in full, and nothing is advertised that is not,
with one exception that Kafka makes, too. Produce is advertised from version 0 on, although versions below 3 are refused
since KIP-896: librdkafka before 2.11 takes a lowest version above 0 to mean that the broker cannot decompress, and
sends without compression (KAFKA-18659).

Follows org.apache.kafka.common.protocol.ApiKeys and org.apache.kafka.server.ApiVersionManager.
"""

from enum import Enum
from typing import NamedTuple

from pykraft.protocol.messages.admin import CreateTopicsRequest, DeleteTopicsRequest
from pykraft.protocol.messages.brokers import (
    AllocateProducerIdsRequest,
    AlterPartitionRequest,
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
    ControllerRegistrationRequest,
    EnvelopeRequest,
)
from pykraft.protocol.messages.cluster import (
    ApiVersionsRequest,
    DescribeClusterRequest,
    FindCoordinatorRequest,
    MetadataRequest,
)
from pykraft.protocol.messages.configs import (
    AlterConfigsRequest,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
    ListConfigResourcesRequest,
)
from pykraft.protocol.messages.data import (
    FetchRequest,
    ListOffsetsRequest,
    OffsetForLeaderEpochRequest,
    ProduceRequest,
)
from pykraft.protocol.messages.logs import DeleteRecordsRequest, DescribeLogDirsRequest
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
from pykraft.protocol.messages.transactions import InitProducerIdRequest
from pykraft.protocol.schema import Request


class ListenerKind(Enum):
    """Which of a node's two kinds of listener a connection came in by."""

    BROKER = "broker"
    CONTROLLER = "controller"


class Api(NamedTuple):
    """One API: its key and name, its request, the versions advertised, and the listeners that serve it."""

    key: int
    name: str
    request: type[Request]
    advertised: tuple[int, int]
    listeners: tuple[ListenerKind, ...]


_BROKER = (ListenerKind.BROKER,)
_CONTROLLER = (ListenerKind.CONTROLLER,)
_BOTH = (ListenerKind.BROKER, ListenerKind.CONTROLLER)
_NOBODY_YET = ()

# fmt: off
_TABLE = (
    Api(0,  "Produce",                ProduceRequest,                (0, 13), _BROKER),
    Api(1,  "Fetch",                  FetchRequest,                  (4, 18), _BOTH),
    Api(2,  "ListOffsets",            ListOffsetsRequest,            (1, 11), _BROKER),
    Api(3,  "Metadata",               MetadataRequest,               (0, 13), _BROKER),
    Api(10, "FindCoordinator",        FindCoordinatorRequest,        (0, 6),  _BROKER),
    Api(18, "ApiVersions",            ApiVersionsRequest,            (0, 4),  _BOTH),
    Api(19, "CreateTopics",           CreateTopicsRequest,           (2, 7),  _BOTH),
    Api(20, "DeleteTopics",           DeleteTopicsRequest,           (1, 6),  _BOTH),
    Api(21, "DeleteRecords",          DeleteRecordsRequest,          (0, 2),  _BROKER),
    Api(22, "InitProducerId",         InitProducerIdRequest,         (0, 5),  _BROKER),
    Api(23, "OffsetForLeaderEpoch",   OffsetForLeaderEpochRequest,   (2, 4),  _BROKER),
    Api(32, "DescribeConfigs",        DescribeConfigsRequest,        (1, 4),  _BOTH),
    Api(33, "AlterConfigs",           AlterConfigsRequest,           (0, 2),  _BOTH),
    Api(35, "DescribeLogDirs",        DescribeLogDirsRequest,        (1, 4),  _BROKER),
    Api(44, "IncrementalAlterConfigs", IncrementalAlterConfigsRequest, (0, 1), _BOTH),
    Api(52, "Vote",                   VoteRequest,                   (0, 2),  _CONTROLLER),
    Api(53, "BeginQuorumEpoch",       BeginQuorumEpochRequest,       (0, 1),  _CONTROLLER),
    Api(54, "EndQuorumEpoch",         EndQuorumEpochRequest,         (0, 1),  _CONTROLLER),
    Api(55, "DescribeQuorum",         DescribeQuorumRequest,         (0, 2),  _BOTH),
    Api(56, "AlterPartition",         AlterPartitionRequest,         (2, 3),  _CONTROLLER),
    Api(58, "Envelope",               EnvelopeRequest,               (0, 0),  _CONTROLLER),
    Api(59, "FetchSnapshot",          FetchSnapshotRequest,          (0, 1),  _NOBODY_YET),
    Api(60, "DescribeCluster",        DescribeClusterRequest,        (0, 2),  _BOTH),
    Api(62, "BrokerRegistration",     BrokerRegistrationRequest,     (0, 4),  _CONTROLLER),
    Api(63, "BrokerHeartbeat",        BrokerHeartbeatRequest,        (0, 1),  _CONTROLLER),
    Api(67, "AllocateProducerIds",    AllocateProducerIdsRequest,    (0, 0),  _CONTROLLER),
    Api(70, "ControllerRegistration", ControllerRegistrationRequest, (0, 0),  _NOBODY_YET),
    Api(74, "ListConfigResources",    ListConfigResourcesRequest,    (0, 1),  _BROKER),
    Api(80, "AddRaftVoter",           AddRaftVoterRequest,           (0, 1),  _NOBODY_YET),
    Api(81, "RemoveRaftVoter",        RemoveRaftVoterRequest,        (0, 0),  _NOBODY_YET),
    Api(82, "UpdateRaftVoter",        UpdateRaftVoterRequest,        (0, 0),  _NOBODY_YET),
)
# fmt: on

apis: dict[int, Api] = {api.key: api for api in _TABLE}
"""The rows of the table by key."""

requests: dict[int, type[Request]] = {api.key: api.request for api in _TABLE}
"""The requests that pykraft can read and write, served or not, by key; `request.response` is the answer's class."""


def advertised(listener: ListenerKind) -> list[tuple[int, int, int]]:
    """(key, lowest version, highest version) of the APIs that a listener serves, as ApiVersions tells them, by key."""
    return [(api.key, *api.advertised) for api in _TABLE if listener in api.listeners]


def served(listener: ListenerKind, key: int, version: int) -> bool:
    """Whether a listener answers this API in this version."""
    api = apis.get(key)
    return (
        api is not None and listener in api.listeners and api.request.versions[0] <= version <= api.request.versions[1]
    )
