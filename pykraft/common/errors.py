"""Kafka's error codes: one row a code, and the exception that carries one.

There are two kinds of error in pykraft. A `KafkaError` is an *answer*: it carries one of these codes, a handler may
raise it, and the peer reads it in the response. An `AssertionError` is a bug in pykraft: it stops the node, because a
node that goes on after an impossible state may lose what it promised to keep.

A row says the number on the wire, what it means, and how a client should take it: `RETRY` (the same request may work
later), `REFRESH` (it may work later, elsewhere: the client's metadata is stale), or nothing (it never will).

Follows org.apache.kafka.common.protocol.Errors and the exception classes behind it, as of Kafka 4.4.
"""

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple, Self

RETRY = "retry"
REFRESH = "refresh"
FAIL = "fail"


class ErrorCode(IntEnum):
    """An error code of the protocol, with its meaning in words (`text`) and the client's next move."""

    text: str
    advice: str

    def __new__(cls, code: int, text: str, advice: str = FAIL) -> Self:
        member = int.__new__(cls, code)
        member._value_ = code
        member.text = text
        member.advice = advice
        return member

    @classmethod
    def of(cls, code: int) -> "ErrorCode":
        """The row of a code off the wire; a code that a newer peer made up reads as UNKNOWN_SERVER_ERROR."""
        return _BY_CODE.get(code, cls.UNKNOWN_SERVER_ERROR)

    @property
    def retriable(self) -> bool:
        return self.advice != FAIL

    @property
    def refreshes_metadata(self) -> bool:
        return self.advice == REFRESH

    UNKNOWN_SERVER_ERROR = -1, "the server met an error that it has no code for"
    NONE = 0, "no error"
    OFFSET_OUT_OF_RANGE = 1, "the offset is before the start or after the end of the log"
    CORRUPT_MESSAGE = 2, "the records fail their checksum or cannot be read", RETRY
    UNKNOWN_TOPIC_OR_PARTITION = 3, "this server knows no such topic or partition", REFRESH
    INVALID_FETCH_SIZE = 4, "the fetch size is not allowed"
    LEADER_NOT_AVAILABLE = 5, "the partition has no leader at the moment", REFRESH
    NOT_LEADER_OR_FOLLOWER = 6, "this broker does not lead, or does not hold, the partition", REFRESH
    REQUEST_TIMED_OUT = 7, "the request was not done in time", RETRY
    BROKER_NOT_AVAILABLE = 8, "the broker is not available"
    REPLICA_NOT_AVAILABLE = 9, "the replica is not available", REFRESH
    MESSAGE_TOO_LARGE = 10, "a batch is larger than max.message.bytes allows"
    STALE_CONTROLLER_EPOCH = 11, "another controller took over"
    OFFSET_METADATA_TOO_LARGE = 12, "the metadata beside a committed offset is too long"
    NETWORK_EXCEPTION = 13, "the connection broke before the answer came", REFRESH
    COORDINATOR_LOAD_IN_PROGRESS = 14, "the coordinator is still reading its log", RETRY
    COORDINATOR_NOT_AVAILABLE = 15, "there is no coordinator at the moment", RETRY
    NOT_COORDINATOR = 16, "this broker is not the coordinator", RETRY
    INVALID_TOPIC_EXCEPTION = 17, "the topic's name is not allowed"
    RECORD_LIST_TOO_LARGE = 18, "the records are larger than a whole segment"
    NOT_ENOUGH_REPLICAS = 19, "fewer replicas are in sync than min.insync.replicas demands", RETRY
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20, "written, but to fewer in-sync replicas than demanded", RETRY
    INVALID_REQUIRED_ACKS = 21, "acks must be 0, 1 or -1 (all)"
    ILLEGAL_GENERATION = 22, "the group's generation has moved on"
    INCONSISTENT_GROUP_PROTOCOL = 23, "the member shares no protocol with its group"
    INVALID_GROUP_ID = 24, "the group id is not allowed"
    UNKNOWN_MEMBER_ID = 25, "the group has no such member"
    INVALID_SESSION_TIMEOUT = 26, "the session timeout is outside of the broker's limits"
    REBALANCE_IN_PROGRESS = 27, "the group is rebalancing: join again"
    INVALID_COMMIT_OFFSET_SIZE = 28, "the offsets are too large to commit"
    TOPIC_AUTHORIZATION_FAILED = 29, "not allowed on this topic"
    GROUP_AUTHORIZATION_FAILED = 30, "not allowed on this group"
    CLUSTER_AUTHORIZATION_FAILED = 31, "not allowed on this cluster"
    INVALID_TIMESTAMP = 32, "a record's timestamp is outside of the allowed range"
    UNSUPPORTED_SASL_MECHANISM = 33, "the server does not offer this SASL mechanism"
    ILLEGAL_SASL_STATE = 34, "this request does not belong here in the SASL exchange"
    UNSUPPORTED_VERSION = 35, "the server does not speak this version of the API"
    TOPIC_ALREADY_EXISTS = 36, "a topic of this name exists"
    INVALID_PARTITIONS = 37, "the number of partitions is not allowed"
    INVALID_REPLICATION_FACTOR = 38, "the replication factor is below 1 or above the number of usable brokers"
    INVALID_REPLICA_ASSIGNMENT = 39, "the assignment of replicas is not allowed"
    INVALID_CONFIG = 40, "a configuration value is not allowed"
    NOT_CONTROLLER = 41, "this node is not the active controller", RETRY
    INVALID_REQUEST = 42, "the request contradicts itself or the protocol"
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, "the log's message format cannot serve this request"
    POLICY_VIOLATION = 44, "the request breaks a policy of this cluster"
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, "a producer's sequence number is not the next one"
    DUPLICATE_SEQUENCE_NUMBER = 46, "a producer's sequence number was seen before"
    INVALID_PRODUCER_EPOCH = 47, "the producer's epoch is older than the one on record"
    INVALID_TXN_STATE = 48, "the transaction is in no state for this request"
    INVALID_PRODUCER_ID_MAPPING = 49, "the producer id does not belong to this transactional id"
    INVALID_TRANSACTION_TIMEOUT = 50, "the transaction timeout is above the broker's limit"
    CONCURRENT_TRANSACTIONS = 51, "the transaction before this one is not finished", RETRY
    TRANSACTION_COORDINATOR_FENCED = 52, "the sender of a marker coordinates this transaction no more"
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, "not allowed on this transactional id"
    SECURITY_DISABLED = 54, "this cluster has no security to configure"
    OPERATION_NOT_ATTEMPTED = 55, "not tried, because another part of the request failed"
    KAFKA_STORAGE_ERROR = 56, "the disk failed", REFRESH
    LOG_DIR_NOT_FOUND = 57, "the broker has no such log directory"
    SASL_AUTHENTICATION_FAILED = 58, "authentication failed"
    UNKNOWN_PRODUCER_ID = 59, "the broker remembers nothing of this producer"
    REASSIGNMENT_IN_PROGRESS = 60, "the partition is being reassigned"
    DELEGATION_TOKEN_AUTH_DISABLED = 61, "delegation tokens are switched off"
    DELEGATION_TOKEN_NOT_FOUND = 62, "no such delegation token"
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, "the token belongs to someone else"
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64, "delegation tokens are not given on this kind of connection"
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, "not allowed on this delegation token"
    DELEGATION_TOKEN_EXPIRED = 66, "the delegation token has expired"
    INVALID_PRINCIPAL_TYPE = 67, "no such kind of principal"
    NON_EMPTY_GROUP = 68, "the group still has members"
    GROUP_ID_NOT_FOUND = 69, "no such group"
    FETCH_SESSION_ID_NOT_FOUND = 70, "no such fetch session", RETRY
    INVALID_FETCH_SESSION_EPOCH = 71, "the fetch session's epoch is not the next one", RETRY
    LISTENER_NOT_FOUND = 72, "the partition's leader has no such listener", REFRESH
    TOPIC_DELETION_DISABLED = 73, "deleting topics is switched off"
    FENCED_LEADER_EPOCH = 74, "the leader epoch in the request is older than the broker's", REFRESH
    UNKNOWN_LEADER_EPOCH = 75, "the leader epoch in the request is newer than the broker's", REFRESH
    UNSUPPORTED_COMPRESSION_TYPE = 76, "the client cannot read the partition's compression"
    STALE_BROKER_EPOCH = 77, "the broker has registered again since"
    OFFSET_NOT_AVAILABLE = 78, "the new leader does not know yet how far its log is committed", RETRY
    MEMBER_ID_REQUIRED = 79, "join again with the member id in this answer"
    PREFERRED_LEADER_NOT_AVAILABLE = 80, "the preferred leader is not available", REFRESH
    GROUP_MAX_SIZE_REACHED = 81, "the group is full"
    FENCED_INSTANCE_ID = 82, "another member joined under the same group.instance.id"
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, "no replica that may lead is available", REFRESH
    ELECTION_NOT_NEEDED = 84, "the partition has the leader that it should have", REFRESH
    NO_REASSIGNMENT_IN_PROGRESS = 85, "the partition is not being reassigned"
    GROUP_SUBSCRIBED_TO_TOPIC = 86, "the group still reads this topic"
    INVALID_RECORD = 87, "a record breaks a rule of its batch or topic"
    UNSTABLE_OFFSET_COMMIT = 88, "a transaction that commits these offsets is still open", RETRY
    THROTTLING_QUOTA_EXCEEDED = 89, "the quota is used up for now", RETRY
    PRODUCER_FENCED = 90, "a newer producer uses this transactional id"
    RESOURCE_NOT_FOUND = 91, "no such resource"
    DUPLICATE_RESOURCE = 92, "the request names a resource twice"
    UNACCEPTABLE_CREDENTIAL = 93, "the credential does not meet the rules"
    INCONSISTENT_VOTER_SET = 94, "sender or receiver is not among the expected voters"
    INVALID_UPDATE_VERSION = 95, "the version of the update is not valid"
    FEATURE_UPDATE_FAILED = 96, "the features could not be updated"
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, "a forwarded request's principal cannot be read"
    SNAPSHOT_NOT_FOUND = 98, "no such snapshot"
    POSITION_OUT_OF_RANGE = 99, "the position is outside of the snapshot"
    UNKNOWN_TOPIC_ID = 100, "this server knows no topic of this id", REFRESH
    DUPLICATE_BROKER_REGISTRATION = 101, "another live broker uses this id"
    BROKER_ID_NOT_REGISTERED = 102, "no broker of this id is registered"
    INCONSISTENT_TOPIC_ID = 103, "the topic's id in the request is not the log's", REFRESH
    INCONSISTENT_CLUSTER_ID = 104, "the request is meant for another cluster"
    TRANSACTIONAL_ID_NOT_FOUND = 105, "no such transactional id"
    FETCH_SESSION_TOPIC_ID_ERROR = 106, "the fetch session mixes topic names and topic ids", RETRY
    INELIGIBLE_REPLICA = 107, "the new ISR names a replica that may not join it"
    NEW_LEADER_ELECTED = 108, "the ISR was changed, and with it the leader"
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, "the offset is in tiered storage"
    FENCED_MEMBER_EPOCH = 110, "the member's epoch is fenced: give up all partitions and join again"
    UNRELEASED_INSTANCE_ID = 111, "another member still uses this instance id"
    UNSUPPORTED_ASSIGNOR = 112, "the group does not know this assignor"
    STALE_MEMBER_EPOCH = 113, "the member's epoch is stale: heartbeat first"
    MISMATCHED_ENDPOINT_TYPE = 114, "the request went to the wrong kind of listener"
    UNSUPPORTED_ENDPOINT_TYPE = 115, "no such kind of endpoint"
    UNKNOWN_CONTROLLER_ID = 116, "no controller of this id"
    UNKNOWN_SUBSCRIPTION_ID = 117, "no such telemetry subscription"
    TELEMETRY_TOO_LARGE = 118, "too much telemetry in one request"
    INVALID_REGISTRATION = 119, "the controller does not accept this registration"
    TRANSACTION_ABORTABLE = 120, "the transaction must be aborted; the transactional id stays usable"
    INVALID_RECORD_STATE = 121, "the record is in no state for this acknowledgement"
    SHARE_SESSION_NOT_FOUND = 122, "no such share session", RETRY
    INVALID_SHARE_SESSION_EPOCH = 123, "the share session's epoch is not the next one", RETRY
    FENCED_STATE_EPOCH = 124, "the state epoch does not match"
    INVALID_VOTER_KEY = 125, "the voter key does not match this replica"
    DUPLICATE_VOTER = 126, "the replica is a voter already"
    VOTER_NOT_FOUND = 127, "the replica is not a voter"
    INVALID_REGULAR_EXPRESSION = 128, "the regular expression cannot be read"
    REBOOTSTRAP_REQUIRED = 129, "the client's metadata is too old: start from the bootstrap servers"
    STREAMS_INVALID_TOPOLOGY = 130, "the topology is not valid"
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, "the topology's epoch is not valid"
    STREAMS_TOPOLOGY_FENCED = 132, "the topology's epoch is outdated"
    SHARE_SESSION_LIMIT_REACHED = 133, "the broker keeps no more share sessions", RETRY
    GROUP_DELETION_FAILED = 134, "the group could not be deleted; its message says why"
    STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED = 135, "the broker could not take the description of the topology"
    CONTROLLER_ID_NOT_REGISTERED = 136, "no controller of this id is registered"


_BY_CODE = {member.value: member for member in ErrorCode}


LONGEST_DETAIL = 4000
"""Characters. What was wrong may quote what a peer has sent, and the texts of an answer have at most 32 kB."""


class KafkaError(Exception):
    """An answer with an error code. `detail` says what was wrong with this very request."""

    def __init__(self, code: ErrorCode, detail: str = "") -> None:
        detail = detail[:LONGEST_DETAIL]
        super().__init__(code, detail)
        self.code = code
        self.detail = detail

    def __str__(self) -> str:
        return f"{self.code.name}: {self.detail or self.code.text}"

    @property
    def retriable(self) -> bool:
        return self.code.retriable


class ProtocolError(Exception):
    """A peer sent bytes that cannot be read as what they should be: the connection is closed."""


class CorruptRecordError(KafkaError):
    """Record data that cannot be read: a wrong checksum, an impossible length, a torn tail."""

    def __init__(self, detail: str) -> None:
        super().__init__(ErrorCode.CORRUPT_MESSAGE, detail)


class RecordError(NamedTuple):
    """What is wrong with one record of a batch: its number in the batch, and a sentence."""

    batch_index: int
    message: str


class InvalidRecordsError(KafkaError):
    """A batch is refused because of some of its records."""

    def __init__(self, code: ErrorCode, detail: str, records: Sequence[RecordError]) -> None:
        super().__init__(code, detail)
        self.records = tuple(records)


class ConfigError(ValueError):
    """A configuration value that is not allowed; the message names key, value and what is allowed."""
