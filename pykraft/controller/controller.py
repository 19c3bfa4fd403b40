"""The quorum controller: one queue of changes to the cluster, decided by the active one, followed by the others.

Every controller of the quorum has this object. The one that leads the metadata log is *active*; it alone answers
requests. A change takes four steps::

    plan      (records, response) = f(image, request)      nothing has changed yet
    append    the records get their offsets in the metadata log
    replay    the active controller's image takes them in at once: the next plan sees them
    answer    when a majority has them on disk: the high watermark has passed the last one

So the active controller's image runs ahead of what is committed. Images are values: the controller's own one is apart
from that of its node's loader, which has what is *committed* and is what brokers publish from. When the controller
loses its leadership it goes back to the loader's image, and all that was promised in between is answered with
NOT_CONTROLLER. A standby controller has no other image than the loader's.

A new active controller aborts the metadata transaction that the one before has left open (KIP-868).

An answer that changes nothing may still rest on a change that is not decided. It waits for that, too.

A large change goes in `Steps`: it may pause while it is planned, and while its records are encoded and replayed. Those
that come meanwhile wait in the queue (`change_queue`). So the image that a plan is made from is the newest one until
its records are appended, and no plan need be checked again. (Raft may append a record of its own in between, which
changes no image. A plan that has relied on an offset is made again then.)

Follows org.apache.kafka.controller.QuorumController.
"""

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any, NamedTuple

from pykraft.common.core import FOREVER, Promise, Steps, finish
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.fault_handler import FatalFault
from pykraft.common.rooms import Room
from pykraft.common.settings.config import Config
from pykraft.common.time_slice import EndlessSlice, TimeSlice
from pykraft.common.trace import Tracer
from pykraft.common.types import LeaderAndEpoch, OffsetAndEpoch
from pykraft.controller import config as keys
from pykraft.controller.access.acls import AclControl
from pykraft.controller.access.client_quotas import alter_client_quotas
from pykraft.controller.access.scram import alter_scram_credentials
from pykraft.controller.change_queue import ChangeQueue
from pykraft.controller.cluster_control import ClusterControl
from pykraft.controller.configs import ConfigControl
from pykraft.controller.controller_control import register_controller, unregister_controller
from pykraft.controller.directories import DirectoryControl
from pykraft.controller.feature_control import FeatureControl, QuorumLevel
from pykraft.controller.features import NEW_CLUSTER, bootstrap_records, check_supported, level_records, levels_in
from pykraft.controller.heartbeats import BrokerHeartbeats
from pykraft.controller.partitions.elections import LeaderElections
from pykraft.controller.partitions.reassignment import ReassignmentControl
from pykraft.controller.partitions.replication_control import ReplicationControl
from pykraft.controller.partitions.topics import TopicControl
from pykraft.controller.periodic import PeriodicTasks
from pykraft.controller.producer_ids import allocate_producer_ids
from pykraft.controller.result import MAX_RECORDS_PER_REQUEST, Charge, Result, VersionedRecord, check_size
from pykraft.metadata.delta import MetadataDelta
from pykraft.metadata.image import MetadataImage
from pykraft.metadata.loader import MetadataLoader
from pykraft.metadata.versions import METADATA_VERSION, as_of_level
from pykraft.protocol.messages.acls import CreateAclsRequest, DeleteAclsRequest
from pykraft.protocol.messages.admin import (
    CreatePartitionsRequest,
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
    BrokerRegistrationRequest,
    ControllerRegistrationRequest,
)
from pykraft.protocol.messages.configs import AlterConfigsRequest, IncrementalAlterConfigsRequest
from pykraft.protocol.messages.elections import ElectLeadersRequest
from pykraft.protocol.messages.features import UpdateFeaturesRequest
from pykraft.protocol.messages.quotas import AlterClientQuotasRequest
from pykraft.protocol.messages.reassignments import (
    AlterPartitionReassignmentsRequest,
    ListPartitionReassignmentsRequest,
)
from pykraft.protocol.messages.records import (
    AbortTransactionRecord,
    BrokerRegistrationChangeRecord,
    NoOpRecord,
    encode_metadata_record,
)
from pykraft.protocol.messages.sasl import AlterUserScramCredentialsRequest
from pykraft.protocol.schema import Request
from pykraft.raft.client import RaftClient
from pykraft.raft.log.listener import CommittedBatch

NOT_ACTIVE = -1

Planned = Result[Any] | Steps[Result[Any]]
Plan = Callable[..., Planned]
"""(image, request) -> records and response, or the steps to them; KafkaError refuses the request."""


class Outcome(NamedTuple):
    """What becomes of a request: its response, or the error that refused it."""

    response: Any
    error: KafkaError | None


class _Waiting(NamedTuple):
    """An answer that waits until `offset` is decided."""

    offset: int
    promise: Promise[Outcome]
    outcome: Outcome


class QuorumController:
    """One controller of the quorum. It is a listener of its node's loader, which is one of the Raft client."""

    def __init__(
        self,
        *,
        node_id: int,
        cluster_id: str,
        raft: RaftClient,
        loader: MetadataLoader,
        config: Config,
        random: Random,
        trace: Tracer,
        properties: Mapping[str, str] | None = None,
        first_records: Sequence[VersionedRecord] = tuple(level_records(NEW_CLUSTER)),
        static_voters: Collection[int] = (),
        time_slice: TimeSlice | None = None,
    ) -> None:
        """`properties` is the node's file, which has defaults for settings of topics. A cluster whose metadata log is
        empty gets `first_records`. The `static_voters` are those of ``controller.quorum.voters``. `time_slice` says
        when a change has to pause: never, if it is not given."""
        self._node_id = node_id
        self._first_records = first_records
        self._properties = properties or {}
        self._raft = raft
        self._trace = trace
        self._idle_ms = config[keys.METADATA_MAX_IDLE_INTERVAL_MS]
        self.heartbeats = BrokerHeartbeats(config[keys.BROKER_SESSION_TIMEOUT_MS])
        self._replication = ReplicationControl(node_id, properties or {})
        self._elections = LeaderElections(self._replication)
        self._periodic = PeriodicTasks(self._elections.periodic_tasks(config))
        self._cluster = ClusterControl(cluster_id, self._replication, self.heartbeats)
        self._topics = TopicControl(config, random, node_id, properties or {})
        self._directories = DirectoryControl(self._replication)
        self._reassignments = ReassignmentControl(self._replication)
        self._configs = ConfigControl(node_id, properties or {})
        self._acls = AclControl(random)
        self._features = FeatureControl(
            node_id, static_voters, QuorumLevel(lambda: raft.kraft_version, self._upgrade_kraft), self._properties
        )
        self._plans = self._table_of_plans()
        self._loader = loader
        self._supported: MetadataImage | None = None
        """The last image whose features were found supported."""
        self._image: MetadataImage = loader.image
        """Of the active controller."""
        self._epoch = NOT_ACTIVE
        self._last_append = 0
        self._waiting: deque[_Waiting] = deque()
        failed = _refused(ErrorCode.UNKNOWN_SERVER_ERROR, "the controller has failed to plan it")
        self._changes = ChangeQueue(time_slice or EndlessSlice(), self._promise, failed)
        self.now = 0
        """The time of the last turn, or of the last request: a node sets it, for this room may sleep."""
        self.room = Room("controller")
        self._knows_sessions = False
        loader.add_listener(self)
        loader.watch(partial(self.room.mark, "metadata"))
        raft.replica.on_transition.append(partial(self.room.mark, "role"))

    # --- what holds now -----------------------------------------------------------------------------------------------

    @property
    def is_active(self) -> bool:
        return self._epoch != NOT_ACTIVE

    @property
    def _may_write(self) -> bool:
        """An active controller learns a little later that its node has resigned; by then it can write no more."""
        return self.is_active and self._raft.leads(self._epoch)

    @property
    def image(self) -> MetadataImage:
        """The newest image: on the active controller it may run ahead of what is committed."""
        return self._image if self.is_active else self._loader.image

    # --- Raft tells ---------------------------------------------------------------------------------------------------

    def handle_commit(self, batch: CommittedBatch) -> None:
        """What the active controller proposed itself it has replayed already; the loader's image has it now, too."""
        while self._waiting and self._waiting[0].offset <= batch.last_offset:
            waiting = self._waiting.popleft()
            waiting.promise.keep(waiting.outcome)

    def handle_load_snapshot(self, snapshot: OffsetAndEpoch, batches: Sequence[CommittedBatch]) -> None:
        assert not self.is_active, "the leader loads no snapshot"

    def handle_leader_change(self, leader: LeaderAndEpoch) -> None:
        """A leader hears of its leadership with the first commit of its epoch, for which the loader marks the room."""
        if self.is_active:
            self._step_down()
        if leader.leader_id == self._node_id:
            self._become_active(leader.epoch)

    def _become_active(self, epoch: int) -> None:
        self._epoch = epoch
        self._image = self._loader.image
        self._knows_sessions = False
        self._trace("controller", active=True, epoch=epoch)
        if self._loader.is_in_transaction:
            # The controller that began it cannot end it any more, and until then no image changes.
            finish(self._append([(AbortTransactionRecord(reason="Controller failover"), 0)]))
        if not self._image.features:
            finish(self._append(bootstrap_records(self._first_records, self._properties)))
        self.room.mark("request")
        self._changes.add(self._count_partitions(), self.now)

    def _count_partitions(self) -> Steps[Outcome]:
        """Know which partitions each broker has. Every change that a request asks for comes after it."""
        yield from self._replication.index.turn_to(self._image)
        return Outcome(None, None)

    def _step_down(self) -> None:
        """Another controller leads: what is not decided is not ours to promise."""
        self._trace("controller", active=False, epoch=self._epoch)
        self._epoch = NOT_ACTIVE
        waiting, self._waiting = self._waiting, deque()
        for promise in [each.promise for each in waiting] + self._changes.give_up():
            promise.keep(_refused(ErrorCode.NOT_CONTROLLER, "the leadership was lost before it was decided"))

    # --- one step -----------------------------------------------------------------------------------------------------

    def poll(self, now: int) -> int:
        """Fence brokers whose session is over, do what is due, and keep the log alive; returns when to be called again.

        UnsupportedFeatureError if the cluster runs, by now, what this controller cannot. The levels that it has run
        before do not matter."""
        if self._loader.image is not self._supported:  # a step comes thousands of times a second, an image seldom
            check_supported(self._loader.image)
            self._supported = self._loader.image
        self._set_time(now)
        if not self._may_write:
            return FOREVER
        if not self._changes.work(now):
            return now
        for broker_id in self.heartbeats.stale(self._unfenced(), now):
            self._trace("broker_session_expired", broker=broker_id)
            self._changes.add(self._make(partial(self._plan_fencing, broker_id)), now)
        next_task = self._periodic.run(lambda plan: self._changes.add(self._make(plan), now), now)
        if self._changes:
            return now
        deadline = min(self.heartbeats.next_expiry(self._unfenced()), next_task)
        if self._idle_ms:
            if now >= self._last_append + self._idle_ms:
                finish(self._append([(NoOpRecord(), 0)]))
            deadline = min(deadline, self._last_append + self._idle_ms)
        return deadline

    def _plan_fencing(self, broker_id: int, image: MetadataImage) -> Steps[Result[None]]:
        return Result((yield from self._cluster.plan_fencing(image, broker_id)), None)

    def _set_time(self, now: int) -> None:
        """Raft does not say when it made this node the controller: the sessions of the brokers begin with the first
        call after it, for the one before may be long past."""
        self.now = now
        if self.is_active and not self._knows_sessions:
            self._knows_sessions = True
            self.heartbeats.begin(self._unfenced(), now)
            self._periodic.begin(now)

    def _unfenced(self) -> list[int]:
        return [broker_id for broker_id, broker in sorted(self._image.brokers.items()) if not broker.fenced]

    # --- requests -----------------------------------------------------------------------------------------------------

    def answer(self, request: Request, now: int, charge: Charge | None = None) -> Promise[Outcome]:
        """What becomes of a request, once what it changes is committed. `charge` is for a client with a quota of
        changes to topics: no other request may have it."""
        make_plan = self._plans[type(request)]
        if charge is not None:
            make_plan = partial(make_plan, charge=charge)

        def plan(image: MetadataImage) -> Planned:
            check_size(request)
            return make_plan(image, request)

        return self._write(plan, now)

    def _table_of_plans(self) -> dict[type[Request], Plan]:
        """Which plan answers which request. Plans that need the time are called with the time of the request."""
        cluster = self._cluster
        return {
            BrokerRegistrationRequest: lambda image, request: cluster.register_broker(
                image, request, self._raft.next_append_offset, self.now
            ),
            BrokerHeartbeatRequest: lambda image, request: cluster.heartbeat(image, request, self.now),
            UnregisterBrokerRequest: cluster.unregister_broker,
            ControllerRegistrationRequest: register_controller,
            UnregisterControllerRequest: lambda image, request: unregister_controller(image, request, self._node_id),
            AlterPartitionRequest: self._alter_partition,
            AssignReplicasToDirsRequest: self._directories.assign_replicas,
            AllocateProducerIdsRequest: allocate_producer_ids,
            ElectLeadersRequest: self._elections.elect_leaders,
            CreateTopicsRequest: self._topics.create_topics,
            CreatePartitionsRequest: self._topics.create_partitions,
            DeleteTopicsRequest: self._topics.delete_topics,
            AlterPartitionReassignmentsRequest: self._reassignments.alter,
            ListPartitionReassignmentsRequest: self._reassignments.list_ongoing,
            IncrementalAlterConfigsRequest: self._configs.incremental_alter_configs,
            AlterConfigsRequest: self._configs.alter_configs,
            UpdateFeaturesRequest: self._features.update_features,
            CreateAclsRequest: self._acls.create_acls,
            DeleteAclsRequest: self._acls.delete_acls,
            AlterUserScramCredentialsRequest: alter_scram_credentials,
            AlterClientQuotasRequest: alter_client_quotas,
        }

    def _upgrade_kraft(self, level: int, validate_only: bool) -> None:
        """Whether ``kraft.version`` may be raised, or raise it."""
        self._raft.upgrade_kraft_version(self._epoch, level, validate_only)

    def _alter_partition(self, image: MetadataImage, request: AlterPartitionRequest) -> Planned:
        self._cluster.checked(image, request.broker_id, request.broker_epoch)
        return self._replication.alter_partition(image, request)

    # --- plan, append, replay, answer ---------------------------------------------------------------------------------

    def _write(self, plan: Callable[[MetadataImage], Planned], now: int) -> Promise[Outcome]:
        self._set_time(now)
        if not self._may_write:
            return Promise.of(_refused(ErrorCode.NOT_CONTROLLER, f"node {self._node_id} is not the active controller"))
        self.room.mark("request")
        return self._changes.add(self._make(plan), now)

    def _promise(self, outcome: Outcome, promise: Promise[Outcome]) -> None:
        """Keep the promise once all is decided that the outcome rests on. A refusal need not wait."""
        offset = self._image.provenance.offset
        if outcome.error is not None or offset <= self._loader.image.provenance.offset:
            promise.keep(outcome)
        else:
            self._waiting.append(_Waiting(offset, promise, outcome))

    def _make(self, plan: Callable[[MetadataImage], Planned]) -> Steps[Outcome]:
        """Plan a change, and append what it comes to."""
        try:
            is_appended = False
            while not is_appended:
                planned = plan(self._image)
                result = planned if isinstance(planned, Result) else (yield from planned)
                is_appended = yield from self._append(result.records, result.first_offset)
        except KafkaError as error:
            return Outcome(None, error)
        if result.after is not None:
            result.after(self._image.provenance.offset)
        return Outcome(result.response, None)

    def _append(self, records: Sequence[VersionedRecord], first_offset: int | None = None) -> Steps[bool]:
        """What a request asks for is never so much that it could become true by halves. A broker with very many
        partitions is fenced in several pieces, each with pauses: a hundred thousand take seconds, and this thread has
        the heartbeats and the quorum to serve meanwhile. Each piece is true by itself, and the broker's own record is
        the last. False if a piece would not get the offset that it must have: then neither it nor what follows has
        changed anything, and the rest is planned again."""
        for start in range(0, len(records), MAX_RECORDS_PER_REQUEST):
            piece = records[start : start + MAX_RECORDS_PER_REQUEST]
            if not (yield from self._append_together(piece, None if first_offset is None else first_offset + start)):
                return False
        return True

    def _append_together(self, records: Sequence[VersionedRecord], first_offset: int | None) -> Steps[bool]:
        """Give the records to the log, and let the newest image take them in. KafkaError(RECORD_LIST_TOO_LARGE) if they
        are too large for one batch: nothing has changed then. Each is written as the level of the metadata allows: the
        image has no level only where the records set the first one."""
        level = (self._image.features or levels_in(self._first_records))[METADATA_VERSION]
        delta, values, changes = MetadataDelta(self._image), list[bytes](), list[BrokerRegistrationChangeRecord]()
        for given in records:
            record, version = as_of_level(*given, level)
            values.append(encode_metadata_record(record, version))
            try:
                delta.replay(record)
            except Exception as error:
                raise FatalFault(f"the active controller cannot apply what it is to write: {record}") from error
            if isinstance(record, BrokerRegistrationChangeRecord):
                changes.append(record)
            yield
        write = yield from self._raft.encoded(self._epoch, values)
        yield from delta.settle()
        if first_offset not in (None, self._raft.next_append_offset):
            return False
        last_offset = self._raft.append(self._epoch, write, self.now)
        self._image = delta.apply(OffsetAndEpoch(last_offset, self._epoch))
        self._last_append = self.now
        for change in changes:
            self._trace("broker_change", broker=change.broker_id, fenced=change.fenced)
        yield from self._replication.index.follow(delta, self._image)
        return True


def _refused(code: ErrorCode, detail: str) -> Outcome:
    return Outcome(None, KafkaError(code, detail))
