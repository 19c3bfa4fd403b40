"""Brokers come, go silent, and leave: the plans for it.

A broker registers with a fresh incarnation id; the offset of its registration record becomes its broker epoch, which
tells the processes of one broker id apart. It begins fenced, and is unfenced when it has applied the metadata log up to
its own registration. A fenced broker leads nothing and is in no ISR of more than itself.

An administrator may unregister a broker that will not come back. If the broker is alive, other brokers lead what it
led, and its heartbeats are refused with STALE_BROKER_EPOCH; it does not register again until it is restarted. Replicas
stay assigned to a broker that is not registered.

A broker that stops in order writes its epoch beside its logs, and the next process hands it in when it registers. If it
is the epoch that the controller knows, no other process had the disk since, and nothing was lost (KIP-966).

A broker of Apache Kafka may have several log directories. Its heartbeats name those that have failed: what it has in
them leads no more and is in no ISR, and leads again only from a directory that the broker has (`directories`, KIP-858).

Heartbeats also name the directories that are cordoned, from ``metadata.version`` 30 on (KIP-1066). A broker that has no
other gets no replica that is placed from then on; what it has stays.

Follows org.apache.kafka.controller.ClusterControlManager.
"""

from collections.abc import Sequence

from pykraft.common.core import Steps
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import Uuid
from pykraft.controller.features import METADATA_VERSION, check_broker_features
from pykraft.controller.heartbeats import BrokerHeartbeats, BrokerState, state_of
from pykraft.controller.partitions.replication_control import ReplicationControl
from pykraft.controller.result import Result, VersionedRecord, gathered
from pykraft.metadata.image import BrokerRegistration, MetadataImage
from pykraft.metadata.versions import BASE, IV_3_7_2_DIRECTORIES, IV_4_3_0_CORDONED_DIRECTORIES
from pykraft.protocol.messages.admin import UnregisterBrokerRequest, UnregisterBrokerResponse
from pykraft.protocol.messages.brokers import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    SecuredEndpoint,
)
from pykraft.protocol.messages.records import (
    BrokerRegistrationChangeRecord,
    Endpoint,
    RegisterBrokerRecord,
    SupportedFeature,
    UnregisterBrokerRecord,
)
from pykraft.protocol.security_protocol import SecurityProtocol

REGISTER_BROKER_VERSION = 4
_MOST_REGISTERED = 1000
"""Listeners, log directories or features of one registration."""
_RESERVED_DIRECTORIES = 100
"""Ids with a meaning of their own, such as "no directory yet"."""


class ClusterControl:
    """Plans registrations, heartbeats and fencing."""

    def __init__(self, cluster_id: str, replication: ReplicationControl, heartbeats: BrokerHeartbeats) -> None:
        self._cluster_id = cluster_id
        self._replication = replication
        self.heartbeats = heartbeats

    def register_broker(
        self, image: MetadataImage, request: BrokerRegistrationRequest, epoch: int, now: int
    ) -> Steps[Result[BrokerRegistrationResponse]]:
        """`epoch` is the offset that the registration's record will have. Records that must come before it are counted
        by the caller: they are in the result, and shift it."""
        if request.cluster_id != self._cluster_id:
            raise KafkaError(
                ErrorCode.INCONSISTENT_CLUSTER_ID, f"this is cluster {self._cluster_id}, not {request.cluster_id}"
            )
        known = image.brokers.get(request.broker_id)
        is_same_process = known is not None and known.incarnation_id == request.incarnation_id
        if known is not None and not is_same_process and self.heartbeats.has_valid_session(request.broker_id, now):
            raise KafkaError(
                ErrorCode.DUPLICATE_BROKER_REGISTRATION,
                f"broker {request.broker_id} is registered, and was heard from within its session",
            )
        _check_registration(image, request)
        records: list[VersionedRecord] = []
        registration = _registration(request)
        if known is not None and is_same_process:
            # It asks again, or its first question comes twice: it goes on as what it is.
            registration.broker_epoch = known.epoch
            registration.fenced = known.fenced
            registration.in_controlled_shutdown = known.in_controlled_shutdown
        else:
            # What the old process led, others lead: the new one may have lost what was not synced.
            is_clean = known is not None and known.epoch == request.previous_broker_epoch
            records = yield from gathered(self._replication.plan_broker_replaced(image, request.broker_id, is_clean))
            registration.broker_epoch = epoch + len(records)
        records.append((registration, REGISTER_BROKER_VERSION))
        return Result(
            records,
            BrokerRegistrationResponse(broker_epoch=registration.broker_epoch),
            after=lambda _: self.heartbeats.register(request.broker_id, now),
            first_offset=epoch,
        )

    def heartbeat(
        self, image: MetadataImage, request: BrokerHeartbeatRequest, now: int
    ) -> Steps[Result[BrokerHeartbeatResponse]]:
        """What becomes of a broker that was heard from."""
        broker = self.checked(image, request.broker_id, request.broker_epoch)
        leads = self._replication.index.leads_any(image, broker.broker_id)
        state = self.heartbeats.next_state(broker, request, leads, image.active_brokers)
        records: list[VersionedRecord] = []
        if state is not state_of(broker):
            records = yield from self._plan_state(image, broker, state)
        records = records or (yield from self._plan_directories_gone(image, broker, request.offline_log_dirs))
        records += _cordoned(image, broker, request.cordoned_log_dirs)
        self.heartbeats.touch(broker.broker_id, now, request.current_metadata_offset)
        response = BrokerHeartbeatResponse(
            is_caught_up=request.current_metadata_offset >= broker.epoch,
            is_fenced=state in (BrokerState.FENCED, BrokerState.SHUTDOWN_NOW),
            should_shut_down=state is BrokerState.SHUTDOWN_NOW,
        )
        is_leaving = broker.in_controlled_shutdown or state is BrokerState.CONTROLLED_SHUTDOWN
        return Result(
            records,
            response,
            after=(lambda offset: self.heartbeats.begin_shutdown(broker.broker_id, offset)) if is_leaving else None,
        )

    def unregister_broker(
        self, image: MetadataImage, request: UnregisterBrokerRequest
    ) -> Steps[Result[UnregisterBrokerResponse]]:
        """The broker leads nothing, is in no ISR of more than itself, and is not registered any more."""
        broker_id = request.broker_id
        broker = image.brokers.get(broker_id)
        if broker is None:
            raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"no broker {broker_id} is registered")
        records = yield from gathered(self._replication.plan_broker_gone(image, broker_id))
        records.append((UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=broker.epoch), 0))
        return Result(records, UnregisterBrokerResponse(), after=lambda _: self.heartbeats.forget(broker_id))

    def _plan_state(
        self, image: MetadataImage, broker: BrokerRegistration, state: BrokerState
    ) -> Steps[list[VersionedRecord]]:
        change = BrokerRegistrationChangeRecord(broker_id=broker.broker_id, broker_epoch=broker.epoch)
        match state:
            case BrokerState.UNFENCED:
                change.fenced = -1
                planned = self._replication.plan_broker_back(image, broker.broker_id)
                return [(change, 0), *(yield from gathered(planned))]
            case BrokerState.CONTROLLED_SHUTDOWN:
                change.in_controlled_shutdown = 1
                planned = self._replication.plan_broker_gone(image, broker.broker_id)
                return [(change, 1), *(yield from gathered(planned))]
            case _:
                return (yield from self.plan_fencing(image, broker.broker_id))

    def _plan_directories_gone(
        self, image: MetadataImage, broker: BrokerRegistration, offline: Sequence[Uuid]
    ) -> Steps[list[VersionedRecord]]:
        """Log directories of the broker have failed: what is in them goes to others. (A broker that has lost the last
        one stops.)"""
        gone = set(offline).intersection(broker.directories)
        left = [directory for directory in broker.directories if directory not in gone]
        if not gone or not left:
            return []
        change = BrokerRegistrationChangeRecord(broker_id=broker.broker_id, broker_epoch=broker.epoch, log_dirs=left)
        planned = self._replication.plan_directories_gone(image, broker.broker_id, gone)
        return [*(yield from gathered(planned)), (change, 2)]

    def plan_fencing(self, image: MetadataImage, broker_id: int) -> Steps[list[VersionedRecord]]:
        """The broker is fenced: its leaderships and ISR memberships go to others."""
        broker = image.brokers[broker_id]
        records = yield from gathered(self._replication.plan_broker_gone(image, broker_id))
        if not broker.fenced:
            change = BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=broker.epoch, fenced=1)
            records.append((change, 0))
        return records

    @staticmethod
    def checked(image: MetadataImage, broker_id: int, epoch: int) -> BrokerRegistration:
        """The registration, if the request comes from the process that holds it."""
        broker = image.brokers.get(broker_id)
        if broker is None:
            raise KafkaError(ErrorCode.STALE_BROKER_EPOCH, f"no broker {broker_id} is registered")
        if broker.epoch != epoch:
            raise KafkaError(ErrorCode.STALE_BROKER_EPOCH, f"broker {broker_id} has epoch {broker.epoch}, not {epoch}")
        return broker


def _check_registration(image: MetadataImage, request: BrokerRegistrationRequest) -> None:
    """Whether a broker may be so."""
    if image.features.get(METADATA_VERSION, BASE.level) >= IV_3_7_2_DIRECTORIES:
        _check_directories(image, request)
    check_listeners("broker", request.broker_id, request.listeners)
    check_not_many("features", request.features)
    check_broker_features(image, request.features)


def check_listeners(role: str, node_id: int, listeners: Sequence[SecuredEndpoint]) -> None:
    """KafkaError unless a node of this id may be reached there. Nodes of Apache Kafka stop when they replay a
    registration with an unknown security protocol or, of a broker, with a listener that has no name."""
    if node_id < 0 or not listeners:
        raise _invalid(f"a {role} has an id of at least 0 and a listener")
    check_not_many("listeners", listeners)
    if not all(listener.name for listener in listeners):
        raise _invalid("a listener has no name")
    if not {listener.security_protocol for listener in listeners} <= set(SecurityProtocol):
        raise _invalid("a listener has an unknown security protocol")


def check_not_many(kind: str, named: Sequence[object]) -> None:
    """KafkaError if a registration names thousands of these. It is one record, and no reader of it pauses within."""
    if len(named) > _MOST_REGISTERED:
        raise _invalid(f"a registration names {len(named)} {kind}; {_MOST_REGISTERED} are allowed")


def _check_directories(image: MetadataImage, request: BrokerRegistrationRequest) -> None:
    """Whether these are directories, and this broker's. A copied disk has another broker's: if both registered, the
    one would be taken for what the other holds."""
    if not request.log_dirs:
        raise _invalid("a broker has a log directory")
    check_not_many("log directories", request.log_dirs)
    if len(set(request.log_dirs)) < len(request.log_dirs):
        raise _invalid("a broker names each of its log directories once")
    if any(int.from_bytes(directory, "big") < _RESERVED_DIRECTORIES for directory in request.log_dirs):
        raise _invalid(f"directory ids below {_RESERVED_DIRECTORIES} are reserved")
    for broker_id, broker in image.brokers.items():
        if broker_id != request.broker_id and not set(request.log_dirs).isdisjoint(broker.directories):
            raise _invalid(f"a log directory is that of broker {broker_id}: the disk may have been copied")


def _cordoned(
    image: MetadataImage, broker: BrokerRegistration, directories: Sequence[Uuid] | None
) -> list[VersionedRecord]:
    """The record that these log directories of the broker are cordoned, if others were; None: it does not say."""
    if directories is None or image.features.get(METADATA_VERSION, 0) < IV_4_3_0_CORDONED_DIRECTORIES:
        return []
    check_not_many("log directories", directories)
    if set(directories) == set(broker.cordoned_directories):
        return []
    change = BrokerRegistrationChangeRecord(
        broker_id=broker.broker_id, broker_epoch=broker.epoch, cordoned_log_dirs=directories
    )
    return [(change, 3)]


def _invalid(detail: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REGISTRATION, detail)


def _registration(request: BrokerRegistrationRequest) -> RegisterBrokerRecord:
    """A new process, fenced; its epoch is not known yet."""
    return RegisterBrokerRecord(
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        broker_epoch=-1,
        end_points=[
            Endpoint(name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol)
            for e in request.listeners
        ],
        features=[
            SupportedFeature(
                name=f.name,
                min_supported_version=f.min_supported_version,
                max_supported_version=f.max_supported_version,
            )
            for f in request.features
        ],
        rack=request.rack,
        fenced=True,
        log_dirs=request.log_dirs,
    )
