"""Messages from a broker, or a controller, to the active controller.

A broker registers and gets a broker epoch; with its heartbeats it stays unfenced, and is let go when it shuts down
(KIP-631). The leader of a partition reports changes of the in-sync replicas (KIP-497). What a client asked of a broker,
but only the controller may do, is forwarded in an Envelope (KIP-590). Each request that names a broker epoch is refused
if it is not the latest one: its sender is a ghost of an earlier incarnation.
"""

from pykraft.protocol.listeners import CONTROLLER
from pykraft.protocol.schema import (
    Array,
    Message,
    Request,
    Response,
    Struct,
    boolean,
    field,
    int8,
    int16,
    int32,
    int64,
    octets,
    string,
    uint16,
    uuid,
)

NO_BROKER_EPOCH = -1
RECOVERED = 0
RECOVERING = 1


class SecuredEndpoint(Struct):
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


class AlterPartitionRequest(Request, api=56, versions=(2, 3), flexible=0, listeners=CONTROLLER):
    """The leader of these partitions wants their in-sync replicas changed. From version 3 on with the broker epochs
    that it saw in the fetches, so that a replica that restarted in between does not get in (KIP-903)."""

    class Topic(Struct):
        class Partition(Struct):
            class BrokerState(Struct):
                broker_id: int32 = field(default=-1, since=3)
                broker_epoch: int64 = field(default=NO_BROKER_EPOCH, since=3)

            partition_index: int32
            leader_epoch: int32
            new_isr: Array[int32] = field(default=(), until=2)
            new_isr_with_epochs: Array[BrokerState] = field(default=(), since=3)
            # RECOVERING after an unclean election, until the leader has checked its log.
            leader_recovery_state: int8 = field(default=RECOVERED)
            partition_epoch: int32

        topic_id: uuid
        partitions: Array[Partition]

    broker_id: int32
    broker_epoch: int64 = field(default=NO_BROKER_EPOCH)
    topics: Array[Topic]


class AlterPartitionResponse(Response, to=AlterPartitionRequest):
    """The partitions as the controller has them now."""

    class Topic(Struct):
        class Partition(Struct):
            partition_index: int32
            error_code: int16 = field(default=0)
            leader_id: int32 = field(default=-1)
            leader_epoch: int32 = field(default=-1)
            isr: Array[int32]
            leader_recovery_state: int8 = field(default=RECOVERED)
            partition_epoch: int32 = field(default=-1)

        topic_id: uuid
        partitions: Array[Partition]

    throttle_time_ms: int32 = field(default=0)
    error_code: int16 = field(default=0)
    topics: Array[Topic] = field(default=())


class DefaultPrincipalData(Message, versions=(0, 0), flexible=0):
    """The principal that sent a forwarded request. In an Envelope these bytes follow an int16 with their version."""

    type: string
    name: string
    token_authenticated: boolean = field(default=False)


class EnvelopeRequest(Request, api=58, versions=(0, 0), flexible=0, listeners=CONTROLLER):
    """A client's request, header included, that the receiver shall treat as if it came from that client (KIP-590)."""

    request_data: octets
    request_principal: octets | None
    client_host_address: octets


class EnvelopeResponse(Response, to=EnvelopeRequest):
    """The answer to the request inside, header included; the error code is of the forwarding alone."""

    response_data: octets | None = field(default=None)
    error_code: int16 = field(default=0)


class BrokerRegistrationRequest(Request, api=62, versions=(0, 4), flexible=0, listeners=CONTROLLER):
    """A broker process has started. Its incarnation id is new with each process; the epoch of the one before is known
    after a clean shutdown only (KIP-966)."""

    broker_id: int32
    cluster_id: string
    incarnation_id: uuid
    listeners: Array[SecuredEndpoint]
    features: Array[SupportedFeature]
    rack: string | None = field(default=None)
    is_migrating_zk_broker: boolean = field(default=False, since=1)
    log_dirs: Array[uuid] = field(default=(), since=2)
    previous_broker_epoch: int64 = field(default=NO_BROKER_EPOCH, since=3)


class BrokerRegistrationResponse(Response, to=BrokerRegistrationRequest):
    """The broker epoch: the offset of the registration's record in the metadata log."""

    throttle_time_ms: int32 = field(default=0)
    error_code: int16 = field(default=0)
    broker_epoch: int64 = field(default=NO_BROKER_EPOCH)


class BrokerHeartbeatRequest(Request, api=63, versions=(0, 2), flexible=0, listeners=CONTROLLER):
    """I am alive, and have applied the metadata log up to here; fence me, or let me go."""

    broker_id: int32
    broker_epoch: int64 = field(default=NO_BROKER_EPOCH)
    current_metadata_offset: int64
    want_fence: boolean
    want_shut_down: boolean
    offline_log_dirs: Array[uuid] = field(default=(), since=1, tag=0)
    # All that are cordoned now (KIP-1066); null while the broker does not say.
    cordoned_log_dirs: Array[uuid] | None = field(default=None, since=2, tag=1)


class BrokerHeartbeatResponse(Response, to=BrokerHeartbeatRequest):
    """What the controller thinks of the broker. It may shut down when it leads nothing any more."""

    throttle_time_ms: int32 = field(default=0)
    error_code: int16 = field(default=0)
    is_caught_up: boolean = field(default=False)
    is_fenced: boolean = field(default=True)
    should_shut_down: boolean = field(default=False)


class AllocateProducerIdsRequest(Request, api=67, versions=(0, 0), flexible=0, listeners=CONTROLLER):
    """A broker needs producer ids to give away (KIP-730)."""

    broker_id: int32
    broker_epoch: int64 = field(default=NO_BROKER_EPOCH)


class AllocateProducerIdsResponse(Response, to=AllocateProducerIdsRequest):
    """A block of producer ids that no other broker gets."""

    throttle_time_ms: int32 = field(default=0)
    error_code: int16 = field(default=0)
    producer_id_start: int64 = field(default=0)
    producer_id_len: int32 = field(default=0)


class ControllerRegistrationRequest(Request, api=70, versions=(0, 0), flexible=0, listeners=CONTROLLER):
    """A controller process has started: its endpoints and features, for the others and for tools (KIP-919)."""

    controller_id: int32
    incarnation_id: uuid
    zk_migration_ready: boolean = field(default=False)
    listeners: Array[SecuredEndpoint]
    features: Array[SupportedFeature]


class ControllerRegistrationResponse(Response, to=ControllerRegistrationRequest):
    """Whether the registration is committed."""

    throttle_time_ms: int32 = field(default=0)
    error_code: int16 = field(default=0)
    error_message: string | None = field(default=None)


class AssignReplicasToDirsRequest(Request, api=73, versions=(0, 0), flexible=0, listeners=CONTROLLER):
    """A broker tells in which of its log directories its replicas are (KIP-858). It sends what the metadata do not say,
    or say otherwise: replicas without a directory yet, replicas that were moved, and those of a disk that is gone."""

    class Directory(Struct):
        class Topic(Struct):
            class Partition(Struct):
                partition_index: int32

            topic_id: uuid
            partitions: Array[Partition]

        id: uuid
        topics: Array[Topic]

    broker_id: int32
    broker_epoch: int64 = field(default=NO_BROKER_EPOCH)
    directories: Array[Directory]


class AssignReplicasToDirsResponse(Response, to=AssignReplicasToDirsRequest):
    """What became of each replica."""

    class Directory(Struct):
        class Topic(Struct):
            class Partition(Struct):
                partition_index: int32
                error_code: int16 = field(default=0)

            topic_id: uuid
            partitions: Array[Partition]

        id: uuid
        topics: Array[Topic]

    throttle_time_ms: int32 = field(default=0)
    error_code: int16 = field(default=0)
    directories: Array[Directory] = field(default=())
