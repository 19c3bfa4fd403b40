"""The records of the metadata log: what the controller decided, in the order in which it decided it (KIP-631).

The state of the whole cluster is these records replayed from the first to the last. Each is the value of one record,
whose key is null, in this frame::

    frame version   unsigned varint, always 1
    key             unsigned varint: which kind of record
    version         unsigned varint
    the record      as any flexible message

A record that changes something names only what changes: its other fields are tagged, and left out. Versions follow
`metadata.version`: the controller writes none that the oldest node of the cluster could not read.

The keys 6, 13 and 16 are not in use. Follows org.apache.kafka.metadata.MetadataRecordSerde and the records of
org.apache.kafka.common.metadata.
"""

from typing import ClassVar

from pykraft.common.errors import ProtocolError
from pykraft.common.settings.secrets import is_secret
from pykraft.protocol.primitives import decode_unsigned_varint, encode_unsigned_varint
from pykraft.protocol.schema import (
    Array,
    Message,
    Struct,
    boolean,
    field,
    float64,
    int8,
    int16,
    int32,
    int64,
    octets,
    string,
    uint16,
    uuid,
)

FRAME_VERSION = 1
NO_LEADER = -1
NO_LEADER_CHANGE = -2
NO_CHANGE = 0


class MetadataRecord(Message):
    """A record of the metadata log. `record_key` says on disk which kind it is."""

    record_key: ClassVar[int]

    def __init_subclass__(cls, key: int, versions: tuple[int, int] = (0, 0)) -> None:
        super().__init_subclass__(versions, flexible=0)
        assert key not in METADATA_RECORDS, f"two kinds of record have the key {key}"
        cls.record_key = key
        METADATA_RECORDS[key] = cls


METADATA_RECORDS: dict[int, type[MetadataRecord]] = {}
"""The kinds of record by key."""


def encode_metadata_record(record: MetadataRecord, version: int) -> bytes:
    """The value of this record in the metadata log."""
    frame = [encode_unsigned_varint(number) for number in (FRAME_VERSION, record.record_key, version)]
    return b"".join(frame + record.encode(version))


def decode_metadata_record(value: bytes | bytearray | memoryview) -> tuple[MetadataRecord, int]:
    """(record, version) of a value of the metadata log. ProtocolError on anything that cannot be understood in full:
    a node that skipped a decision of the controller would no longer have the cluster's state."""
    buffer = memoryview(value)
    try:
        frame_version, position = decode_unsigned_varint(buffer, 0)
        key, position = decode_unsigned_varint(buffer, position)
        version, position = decode_unsigned_varint(buffer, position)
    except IndexError:
        raise ProtocolError(f"a metadata record of {len(buffer)} bytes has no frame") from None
    if frame_version != FRAME_VERSION:
        raise ProtocolError(f"metadata records in frames of version {frame_version} are not known")
    if key not in METADATA_RECORDS:
        raise ProtocolError(f"metadata records with key {key} are not known")
    record, end = METADATA_RECORDS[key].decode_from(buffer, version, position)
    if end != len(buffer):
        raise ProtocolError(f"{len(buffer) - end} bytes are left after a {type(record).__name__}")
    return record, version


class Endpoint(Struct):
    """Where a node can be reached on its listener `name`. Security protocol 0 is PLAINTEXT."""

    name: string
    host: string
    port: uint16
    security_protocol: int16


class SupportedFeature(Struct):
    """The levels of a feature that a node can run with."""

    name: string
    min_supported_version: int16
    max_supported_version: int16


# --- brokers and controllers ------------------------------------------------------------------------------------------


class RegisterBrokerRecord(MetadataRecord, key=0, versions=(0, 4)):
    """A broker process has come; what was registered for its id is replaced. It is fenced until it has caught up."""

    broker_id: int32
    is_migrating_zk_broker: boolean = field(default=False, since=2)
    incarnation_id: uuid
    # The offset of this very record.
    broker_epoch: int64
    end_points: Array[Endpoint]
    features: Array[SupportedFeature]
    rack: string | None = field(default=None)
    fenced: boolean = field(default=True)
    in_controlled_shutdown: boolean = field(default=False, since=1)
    log_dirs: Array[uuid] = field(default=(), since=3, tag=0)
    # Those that take no new replicas (KIP-1066); null means none.
    cordoned_log_dirs: Array[uuid] | None = field(default=None, since=4, tag=1)


class UnregisterBrokerRecord(MetadataRecord, key=1):
    """A broker is gone for good: an administrator said so."""

    broker_id: int32
    broker_epoch: int64


class FenceBrokerRecord(MetadataRecord, key=7):
    """A broker was fenced. BrokerRegistrationChangeRecord has taken its place; old logs still hold it."""

    id: int32
    epoch: int64


class UnfenceBrokerRecord(MetadataRecord, key=8):
    """A broker was unfenced. BrokerRegistrationChangeRecord has taken its place; old logs still hold it."""

    id: int32
    epoch: int64


class BrokerRegistrationChangeRecord(MetadataRecord, key=17, versions=(0, 3)):
    """A broker was fenced or unfenced, began its controlled shutdown, or lost, cordoned or uncordoned a log
    directory."""

    broker_id: int32
    broker_epoch: int64
    # 1 fenced, -1 unfenced.
    fenced: int8 = field(default=NO_CHANGE, tag=0)
    # 1 in controlled shutdown.
    in_controlled_shutdown: int8 = field(default=NO_CHANGE, since=1, tag=1)
    # Those that are left; empty means no change.
    log_dirs: Array[uuid] = field(default=(), since=2, tag=2)
    # All that are cordoned now; null means no change.
    cordoned_log_dirs: Array[uuid] | None = field(default=None, since=3, tag=3)


class RegisterControllerRecord(MetadataRecord, key=27):
    """A controller process has come (KIP-919)."""

    controller_id: int32
    incarnation_id: uuid
    zk_migration_ready: boolean = field(default=False)
    end_points: Array[Endpoint]
    features: Array[SupportedFeature]


class UnregisterControllerRecord(MetadataRecord, key=29):
    """A controller is gone for good: an administrator said so (KIP-1312)."""

    controller_id: int32


# --- topics and partitions --------------------------------------------------------------------------------------------


class TopicRecord(MetadataRecord, key=2):
    """A topic was made; its PartitionRecords follow."""

    name: string
    topic_id: uuid


class RemoveTopicRecord(MetadataRecord, key=9):
    """A topic was deleted, with its partitions and its configuration."""

    topic_id: uuid


class PartitionRecord(MetadataRecord, key=3, versions=(0, 2)):
    """A partition in full. `directories` has one id for each replica (KIP-858); the eligible leader replicas and the
    last known ones are those that may lead when no replica is in sync (KIP-966)."""

    partition_id: int32 = field(default=-1)
    topic_id: uuid
    replicas: Array[int32]
    isr: Array[int32]
    removing_replicas: Array[int32]
    adding_replicas: Array[int32]
    leader: int32 = field(default=NO_LEADER)
    leader_recovery_state: int8 = field(default=0, tag=0)
    leader_epoch: int32 = field(default=-1)
    partition_epoch: int32 = field(default=-1)
    directories: Array[uuid] = field(default=(), since=1)
    eligible_leader_replicas: Array[int32] | None = field(default=None, since=2, tag=1)
    last_known_elr: Array[int32] | None = field(default=None, since=2, tag=2)


class PartitionChangeRecord(MetadataRecord, key=5, versions=(0, 2)):
    """What changed of a partition. Each such record adds one to the partition epoch; one that names a leader, be it the
    same one, adds one to the leader epoch."""

    partition_id: int32 = field(default=-1)
    topic_id: uuid
    isr: Array[int32] | None = field(default=None, tag=0)
    leader: int32 = field(default=NO_LEADER_CHANGE, tag=1)
    replicas: Array[int32] | None = field(default=None, tag=2)
    removing_replicas: Array[int32] | None = field(default=None, tag=3)
    adding_replicas: Array[int32] | None = field(default=None, tag=4)
    leader_recovery_state: int8 = field(default=-1, tag=5)
    directories: Array[uuid] | None = field(default=None, since=1, tag=8)
    eligible_leader_replicas: Array[int32] | None = field(default=None, since=2, tag=6)
    last_known_elr: Array[int32] | None = field(default=None, since=2, tag=7)


class ClearElrRecord(MetadataRecord, key=28):
    """The eligible leader replicas of a topic, or with an empty name of all topics, are void: `min.insync.replicas`
    changed (KIP-966)."""

    topic_name: string


# --- configuration, features, quotas ----------------------------------------------------------------------------------


class ConfigRecord(MetadataRecord, key=4):
    """A setting of a topic (resource type 2), or of a broker (4; of all brokers if its name is empty). Null takes the
    setting away."""

    resource_type: int8
    resource_name: string
    name: string
    value: string | None

    def __repr__(self) -> str:
        value = "[hidden]" if self.value and is_secret(self.name) else repr(self.value)
        return f"ConfigRecord({self.resource_type}, {self.resource_name!r}, {self.name}={value})"


class FeatureLevelRecord(MetadataRecord, key=12):
    """The cluster runs this feature at this level from here on (KIP-584)."""

    name: string
    feature_level: int16


class ClientQuotaRecord(MetadataRecord, key=14):
    """A quota of a user, a client id or both; a null name is the default of its kind (KIP-546)."""

    class Entity(Struct):
        entity_type: string
        entity_name: string | None

    entity: Array[Entity]
    # Which quota, such as producer_byte_rate.
    key: string
    value: float64
    remove: boolean = field(default=False)


class ProducerIdsRecord(MetadataRecord, key=15):
    """A broker was given a block of producer ids: the next one begins at `next_producer_id` (KIP-730)."""

    broker_id: int32
    broker_epoch: int64 = field(default=-1)
    next_producer_id: int64


# --- security ---------------------------------------------------------------------------------------------------------


class UserScramCredentialRecord(MetadataRecord, key=11):
    """How a user proves who it is by SCRAM. Mechanism 1 is SCRAM-SHA-256, 2 is SCRAM-SHA-512 (KIP-554)."""

    name: string
    mechanism: int8
    salt: octets
    stored_key: octets
    server_key: octets
    iterations: int32

    def __repr__(self) -> str:
        return f"UserScramCredentialRecord({self.name!r}, {self.mechanism}, {self.iterations})"


class RemoveUserScramCredentialRecord(MetadataRecord, key=22):
    """A user's SCRAM credential is void."""

    name: string
    mechanism: int8


class AccessControlEntryRecord(MetadataRecord, key=18):
    """A rule: this principal from this host may, or must not, do this to these resources (KIP-801)."""

    id: uuid
    resource_type: int8
    resource_name: string
    pattern_type: int8
    principal: string
    host: string
    operation: int8
    permission_type: int8


class RemoveAccessControlEntryRecord(MetadataRecord, key=19):
    """A rule is void."""

    id: uuid


class DelegationTokenRecord(MetadataRecord, key=10):
    """A delegation token was made or renewed (KIP-48)."""

    owner: string
    requester: string
    renewers: Array[string]
    issue_timestamp: int64
    max_timestamp: int64
    expiration_timestamp: int64
    token_id: string


class RemoveDelegationTokenRecord(MetadataRecord, key=26):
    """A delegation token is void."""

    token_id: string


# --- the log itself ---------------------------------------------------------------------------------------------------


class NoOpRecord(MetadataRecord, key=20):
    """Nothing: written while nothing happens, so that brokers which are behind show (KIP-835)."""


class ZkMigrationStateRecord(MetadataRecord, key=21):
    """How far a migration from ZooKeeper had come (KIP-866)."""

    zk_migration_state: int8


class BeginTransactionRecord(MetadataRecord, key=23):
    """The records from here to EndTransactionRecord take effect together, though in several batches (KIP-868)."""

    name: string | None = field(default=None, tag=0)


class EndTransactionRecord(MetadataRecord, key=24):
    """The records since BeginTransactionRecord take effect."""


class AbortTransactionRecord(MetadataRecord, key=25):
    """The records since BeginTransactionRecord are void."""

    reason: string | None = field(default=None, tag=0)
