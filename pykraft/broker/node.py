"""A node: a broker, a controller, or both, without a thread or a socket of its own.

A node is built from its properties and its directories alone. Its runner (a thread with sockets, a process, the
simulator) binds its listeners, hands it the requests that come in, polls it, and sends what it asks to be sent::

    node = Node(...)                     reads the directories, recovers the logs
    node.start(now)                      once its listeners are bound
    answer = node.handle(request, now)   for each request: the answer, or a promise that brings it later
    poll = node.poll(now)                after each step, and by poll.deadline at the latest
    node.begin_shutdown(now)             ... until node.is_shut_down
    node.close()                         or node.abandon(), as a crash would

One thread at a time may call it, and it never waits: that is why no code below here needs a lock.

Follows kafka.server.{KafkaRaftServer,SharedServer,ControllerServer}.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from random import Random

from pykraft.broker.apis import add_apis
from pykraft.broker.broker import Broker
from pykraft.broker.faults import Faults
from pykraft.broker.node_metrics import tell_controller, tell_quorum
from pykraft.broker.requests.authentication import authentications
from pykraft.broker.requests.authorizer import Authorizer
from pykraft.broker.requests.dispatch import Dispatcher
from pykraft.broker.requests.quota_managers import ClientQuotas
from pykraft.broker.requests.quotas import Quotas
from pykraft.broker.requests.standard_authorizer import configured_authorizer
from pykraft.broker.settings import config as keys
from pykraft.broker.settings.config import NodeConfig
from pykraft.broker.settings.listener_config import Listener
from pykraft.broker.startup.controller_channel import ControllerChannel
from pykraft.broker.startup.controller_registration import ControllerRegistration
from pykraft.broker.startup.early_requests import EarlyRequests
from pykraft.broker.startup.levels import check_levels, first_records
from pykraft.broker.startup.lifecycle import LifecycleState
from pykraft.broker.startup.storage_format import check_formatted, metadata_log_directory
from pykraft.common.background import Background
from pykraft.common.core import FOREVER, Clock, Poll, Promise
from pykraft.common.errors import ConfigError
from pykraft.common.fault_handler import RETRY_AFTER_FAULT_MS, FatalFault, FaultHandler
from pykraft.common.metrics import Metrics
from pykraft.common.rooms import Room, Rooms
from pykraft.common.settings.config import Config
from pykraft.common.settings.topic_config import LOG_CONFIG
from pykraft.common.time_slice import ClockSlice, TimeSlice
from pykraft.common.timer import Timer
from pykraft.common.trace import Tracer, TraceSink
from pykraft.common.types import METADATA_TOPIC, METADATA_TOPIC_ID, Endpoint, ReplicaKey, TopicPartition, Uuid
from pykraft.common.types import Node as Address
from pykraft.controller.controller import QuorumController
from pykraft.controller.features import SUPPORTED_FEATURES, UnsupportedFeatureError
from pykraft.metadata.loader import MetadataLoader
from pykraft.metadata.snapshot_generator import SnapshotGenerator
from pykraft.protocol.listeners import ListenerKind
from pykraft.protocol.security_protocol import SecurityProtocol
from pykraft.raft.client import RaftClient
from pykraft.raft.election import QuorumStateFile
from pykraft.raft.log.history import SnapshotFolder
from pykraft.raft.log.replicated_log import ReplicatedLog
from pykraft.raft.log.state_machine import ControlRecords
from pykraft.raft.log.voters import STATIC_VOTERS, VoterSet
from pykraft.raft.replica import RaftReplica
from pykraft.storage.disk.filesystem import FileSystem, Lock
from pykraft.storage.disk.flushes import flush_times
from pykraft.storage.upkeep.log_loader import LogLoader
from pykraft.storage.upkeep.log_manager import LogDirectoryFailedError, lock_directory
from pykraft.transport.server_channel import InboundRequest
from pykraft.transport.server_connection import Answer

SHUTDOWN_TIMEOUT_MS = 10_000


class Node:
    """Everything that one `server.properties` describes."""

    def __init__(
        self,
        *,
        config: NodeConfig,
        filesystem: FileSystem,
        clock: Clock,
        random: Random,
        background: Background,
        trace_sink: TraceSink,
        metrics: Metrics | None = None,
        authorizer: Authorizer | None = None,
        quotas: Quotas | None = None,
        time_slice: TimeSlice | None = None,
        fault_handler: Callable[[Tracer, Metrics], FaultHandler] = FaultHandler,
        nonces: Random | None = None,
    ) -> None:
        """Open the directories and recover what a crash may have left.

        ConfigError if they are not formatted; UnsupportedFeatureError if their cluster runs a feature at a level that
        this node does not have (then nothing in them was changed); DirectoryInUseError if another node has them;
        LogDirectoryFailedError if they cannot be read or written.

        `quotas` replace those of the metadata; `nonces` draws what nothing may foresee; `clock` ends slices by default.
        """
        self.config, self._nonces = config, nonces or random
        self._filesystem, self._clock, self._random, self._background = filesystem, clock, random, background
        self.metrics = metrics or Metrics()
        self._trace = Tracer(config.node_id, trace_sink)
        self.fault_handler = fault_handler(self._trace, self.metrics)
        self.timer = Timer()
        self._locks: list[Lock] = []
        time_slice = time_slice or ClockSlice(clock)
        self.dispatcher = Dispatcher(quotas, clock, lambda: self._trace.now, time_slice, self.fault_handler)
        self.loader = MetadataLoader()
        self._survive_faults()
        self.client_quotas = self._make_quotas(quotas is None)
        self.controller: QuorumController | None = None
        self._registration: ControllerRegistration | None = None
        self.broker: Broker | None = None
        try:
            self._open()
        except OSError as error:
            self._unlock()
            raise self.disk_failure(error) from error
        except BaseException:
            self._unlock()
            raise
        parts = self.config, self.cluster_id, self.raft, self.loader, self.broker, self.controller, self.client_quotas
        self.authorizer = authorizer or configured_authorizer(config.values, self.loader, self._has_rules)
        add_apis(self.dispatcher, self.authorizer, *parts)
        self.faults = Faults(
            config.node_id,
            self.timer,
            topic_name=lambda topic_id: getattr(self.loader.image.topics.get(topic_id), "name", None),
            session_topics=lambda session: set() if self.broker is None else self.broker.fetch_sessions.topics(session),
            handle=self.dispatcher.handle,
        )
        self._early = self._make_early_requests()
        self._shutdown_deadline: int | None = None
        self._add_rooms()

    def _make_early_requests(self) -> EarlyRequests:
        late = frozenset() if self.authorizer.allows_all else self.config.late_listeners
        return EarlyRequests(self.handle, lambda: not self.broker or self.broker.is_open, late, self._has_rules)

    def note_refused_login(self, endpoint: Endpoint, reason: str) -> None:
        """Another node has not let this one in."""
        self._trace("login_refused", address=str(endpoint), reason=reason)

    def note_stores(self, reason: str | None) -> None:
        """The certificates of its listeners were read again, or `reason` says why they could not be."""
        if reason is None:
            self._trace("certificates_reloaded")
        else:
            self._trace("certificates_not_reloaded", reason=reason)

    def _survive_faults(self) -> None:
        """What a timer or a gauge raises is no reason to stop, and not every metadata record that cannot be loaded."""
        self.timer.on_error = partial(self.fault_handler.handle_fault, "timer")
        self.metrics.on_error = partial(self.fault_handler.handle_fault, "gauge")
        self.loader.on_load_fault = self._on_load_fault
        self._load_errors = self.metrics.meter("broker-metadata-metrics", "metadata-load-error-count")

    def _open(self) -> None:
        unreadable: dict[str, OSError] = {}
        directories = check_formatted(self.config, self._filesystem, unreadable)
        check_levels(self._filesystem, self.config.metadata_dir)
        for directory in directories:
            self._locks.append(lock_directory(self._filesystem, directory))
        self.cluster_id = directories[self.config.metadata_dir].cluster_id
        self.authentications = authentications(self.config, lambda: self.loader.image, self.cluster_id, self._nonces)
        self.replica_key = ReplicaKey(self.config.node_id, directories[self.config.metadata_dir].directory_id)
        self.raft = self._open_quorum()
        self.raft.replica.timer.on_error = partial(self.fault_handler.handle_fault, "raft-timer")
        if self.config.is_controller:
            self.controller = self._make_controller()
        tell_quorum(self.metrics, self.raft)
        if self.controller is not None:
            tell_controller(self.metrics, self.controller, self.raft)
        self.loader.add_listener(
            SnapshotGenerator(
                self.loader,
                self.raft.replica,
                self.config.values,
                self._background,
                self._clock,
                now=lambda: self._trace.now,
            )
        )
        self._first_high_watermark = self.raft.high_watermark
        self._metadata_reader = self.raft.register(self.loader)
        if self.config.is_broker:
            ids = {path: directories[path].directory_id for path in self.config.log_dirs if path in directories}
            self.broker = self._make_broker(ids, unreadable)
        if self.config.is_controller:
            self._registration = self._make_registration()

    def _open_quorum(self) -> RaftClient:
        config = self.config
        directory = metadata_log_directory(config)
        snapshots = SnapshotFolder(self._filesystem, directory)
        loader = LogLoader(
            filesystem=self._filesystem,
            directory=directory,
            config=_metadata_log_config(config.values),
            clock=self._clock,
            background=self._background,
            topic_partition=TopicPartition(METADATA_TOPIC, 0),
            topic_id=METADATA_TOPIC_ID,
            clean=False,  # everything hangs on it: what is after its newest snapshot is always read through
            snapshot=snapshots.newest_id(),
        )
        log = loader.load()
        log.flushes.times = flush_times(self.metrics)
        if loader.lost_bytes:
            self._trace("log_cut", partition=str(log.topic_partition), bytes=loader.lost_bytes)
        replicated = ReplicatedLog(log, snapshots)
        control_records = ControlRecords(replicated, VoterSet.static(config.voters, config.controller_listener))
        is_static = replicated.end_offset > 0 and control_records.kraft_version == STATIC_VOTERS
        if is_static and config.is_controller and not config.voters:
            replicated.abandon()
            raise ConfigError(
                f"the quorum whose log is in {directory} is at kraft.version 0, where the voters are not in the log: "
                "controller.quorum.voters must name them, as it did when the directory was written"
            )
        own = {listener.advertised for listener in config.listeners}
        replica = RaftReplica(
            cluster_id=self.cluster_id,
            local=self.replica_key,
            listener_name=config.controller_listener,
            local_endpoint=self._controller_address,
            log=replicated,
            control_records=control_records,
            quorum_file=QuorumStateFile(self._filesystem, directory),
            bootstrap=[
                Address(-2 - number, endpoint.host, endpoint.port)
                for number, endpoint in enumerate(config.bootstrap)
                if endpoint not in own
            ],
            config=config.values,
            random=self._random,
            clock=self._clock,
            trace=self._trace,
            can_become_voter=config.is_controller,
        )
        return RaftClient(replica, self.dispatcher.time_slice)

    def _make_controller(self) -> QuorumController:
        return QuorumController(
            node_id=self.config.node_id,
            cluster_id=self.cluster_id,
            raft=self.raft,
            loader=self.loader,
            config=self.config.values,
            properties=self.config.properties,
            first_records=first_records(self._filesystem, self.config.metadata_dir),
            static_voters=[voter.id for voter in self.config.voters],
            random=self._random,
            trace=self._trace,
            time_slice=self.dispatcher.time_slice,
        )

    def _make_registration(self) -> ControllerRegistration:
        timeout_ms = self.config.values[keys.CONTROLLER_SOCKET_TIMEOUT_MS]
        return ControllerRegistration(
            controller_id=self.config.node_id,
            incarnation_id=Uuid.random(self._random),
            features=SUPPORTED_FEATURES,
            endpoints=self._controller_endpoints,
            image=lambda: self.loader.image,
            channel=ControllerChannel("controller-registration", lambda: self.raft.leader_node, timeout_ms),
            trace=self._trace,
        )

    def _controller_endpoints(self) -> dict[str, tuple[Endpoint, SecurityProtocol]]:
        return {
            listener.name: (listener.advertised, listener.protocol)
            for listener in self.config.listeners
            if listener.kind is ListenerKind.CONTROLLER
        }

    def _make_quotas(self, is_charged: bool) -> ClientQuotas:
        """The quotas of the metadata, which count while there are any."""
        quotas = ClientQuotas(
            self.config.values, self.metrics, lambda: self.loader.image.client_quotas, lambda: self._trace.now
        )
        if is_charged:
            quotas.on_change.append(lambda: self.dispatcher.charge_to(quotas if quotas.is_active else None))
        self.loader.add_listener(quotas)
        return quotas

    def _make_broker(self, directories: Mapping[str, Uuid], unreadable: Mapping[str, OSError]) -> Broker:
        """`directories` are those with partitions, and their ids."""
        return Broker(
            config=self.config,
            cluster_id=self.cluster_id,
            directories=directories,
            unreadable=unreadable,
            filesystem=self._filesystem,
            raft=self.raft,
            loader=self.loader,
            timer=self.timer,
            time_slice=self.dispatcher.time_slice,
            clock=self._clock,
            random=self._random,
            background=self._background,
            metrics=self.metrics,
            trace=self._trace,
            faults=self.fault_handler,
            on_open=lambda: self._early.room.mark("open"),
        )

    def _controller_address(self) -> Address:
        endpoint, _ = self._controller_endpoints()[self.config.controller_listener]
        return Address(self.config.node_id, endpoint.host, endpoint.port)

    @property
    def ports(self) -> tuple[object, ...]:
        """What is not the node's own, and was handed in."""
        return self._filesystem, self._clock, self._background, self._trace.sink

    # --- running ------------------------------------------------------------------------------------------------------

    def bind(self, ports: dict[str, int]) -> None:
        """The listeners are open on these ports, by name: where a port was left to the system, the node advertises the
        one that it chose."""
        listeners = tuple(_bound(listener, ports[listener.name]) for listener in self.config.listeners)
        self.config = replace(self.config, listeners=listeners)

    def start(self, now: int) -> None:
        """Join the quorum, and as a broker register. The listeners must be open."""
        self._trace.now = now
        try:
            self.raft.start(now)
        except OSError as error:
            raise self.disk_failure(error) from error
        if self.broker is not None:
            self.broker.start(self.config.listeners, now)

    def handle(self, inbound: InboundRequest, now: int) -> Answer | Promise[Answer]:
        """Answer a request; it waits if its listener does not serve yet (`startup.early_requests`)."""
        self._trace.now = now
        if not self._early.are_over and self._early.must_wait(inbound.context):
            return self._early.add(inbound)
        try:
            return (self.faults if self.faults.planted else self.dispatcher).handle(inbound, now)
        except OSError as error:
            raise self.disk_failure(error) from error

    def poll(self, now: int) -> Poll:
        """Do what is due; returns what to send, and when to call again. LogDirectoryFailedError if a disk has failed:
        the node can only be abandoned then."""
        try:
            if self.broker is not None and self.broker.logs.failure is not None:
                raise self.broker.logs.failure
            self._trace.now = now
            self.dispatcher.time_slice.begin()  # of what the timers and answers below let go on
            self.timer.expire(now)
            deadline, requests = self.rooms.turn(now)
            if self.controller is not None:
                self.controller.now = now
            if self.broker is not None and self.broker.logs.failure is not None:
                return Poll(now, requests)
            return Poll(min(deadline, self.timer.deadline), requests)
        except OSError as error:
            raise self.disk_failure(error) from error

    def _add_rooms(self) -> None:
        """In the order in which they are visited. What the broker's part has to say to the controller goes out in the
        same turn: the channels come after it."""
        self.rooms = Rooms(self._on_room_fault)
        self._metrics_room, self._stopping = Room("metrics"), Room("shutdown")
        add = self.rooms.add
        add(self._metrics_room, self._tick)
        add(self.raft.room, self.raft.poll)
        if self.controller is not None:
            add(self.controller.room, self.controller.poll, "controller")
        if self._registration is not None:
            add(self._registration.room, self._registration.poll, "registration")
            self.loader.watch(partial(self._registration.room.mark, "metadata"))
            self.raft.replica.on_transition.append(partial(self._registration.room.mark, "leader"))
        if self.broker is not None:
            self.broker.add_rooms(self.rooms)
        for room, poll in (
            (self._early.room, self._early.poll),
            (self.dispatcher.slices.room, self.dispatcher.slices.poll),
            (self._stopping, self._continue_shutdown),
        ):
            add(room, poll)

    def _tick(self, now: int) -> int:
        self.metrics.tick(now)
        self._metrics_room.look_in_at(self.metrics.tick_at)
        return FOREVER

    def _has_rules(self) -> bool:
        """Whether the image has what was committed when this node first heard of that in this life."""
        high_watermark = self.raft.high_watermark
        return self._first_high_watermark < high_watermark <= self._metadata_reader.next_offset

    def _on_room_fault(self, kind: str, error: Exception) -> int:
        """What a room's poll has raised costs this room a pause, and the others nothing; but a level of a feature that
        this node does not have ends it."""
        if isinstance(error, UnsupportedFeatureError):
            raise error
        self.fault_handler.handle_fault(kind, error)
        return RETRY_AFTER_FAULT_MS

    def _on_load_fault(self, error: Exception, offset: int, record: str) -> None:
        """A metadata record, or what becomes of it, cannot be taken in. A controller would answer from a wrong image,
        and a broker that has none yet would not know what it stores: these stop. Another broker goes on without it."""
        self._load_errors.mark()
        self.fault_handler.handle_fault("metadata-load", error, offset=offset, record=record)
        if self.config.is_controller or self.broker is None or not self.broker.is_open:
            raise FatalFault(f"node {self.config.node_id} cannot load the metadata at offset {offset}") from error

    def disk_failure(self, error: OSError) -> LogDirectoryFailedError:
        """Why the node stops. Kafka goes on while another log directory is left, and without the metadata log never."""
        if isinstance(error, LogDirectoryFailedError):
            return error
        config, path = self.config, str(error.filename or "")
        is_metadata = path.startswith((f"{metadata_log_directory(config)}/", f"{config.metadata_dir}/bootstrap"))
        holding = [each for each in config.log_dirs if path == each or path.startswith(each.rstrip("/") + "/")]
        directory = config.metadata_dir if is_metadata else max(holding, key=len, default=config.log_dir)
        consequence = "it was the only one" if len(config.log_dirs) == 1 else "no other one is left"
        if is_metadata or (len(config.log_dirs) > 1 and directory == config.metadata_dir):
            consequence = "nothing goes without the metadata log"
        reason = f"{error.strerror or error}{f': {path}' if path else ''}"
        return LogDirectoryFailedError(f"the log directory {directory} has failed ({reason}), and {consequence}")

    # --- stopping -----------------------------------------------------------------------------------------------------

    def begin_shutdown(self, now: int, hand_over: bool = True) -> None:
        """Hand over what this node leads; or do not, and be shut down at once: others will have to notice."""
        self._stopping.stay_awake()
        if not hand_over:
            self._shutdown_deadline = now
        elif self._shutdown_deadline is None:
            self._shutdown_deadline = now + SHUTDOWN_TIMEOUT_MS
            self.timer.at(self._shutdown_deadline, lambda _: None)
            if self.broker is not None:
                self.broker.lifecycle.begin_shutdown(now)

    def _continue_shutdown(self, now: int) -> int:
        if self._shutdown_deadline is not None and self._broker_is_done(now):
            self.raft.begin_shutdown(now)
        return FOREVER

    def _broker_is_done(self, now: int) -> bool:
        if self.broker is None or (self._shutdown_deadline is not None and now >= self._shutdown_deadline):
            return True
        return self.broker.lifecycle.state is LifecycleState.SHUTTING_DOWN

    def is_shut_down(self, now: int) -> bool:
        """Whether it may be closed: nothing is led here any more, or it took too long."""
        if self._shutdown_deadline is None:
            return False
        return now >= self._shutdown_deadline or (self._broker_is_done(now) and self.raft.is_shut_down)

    def close(self) -> None:
        """Close all files in order."""
        if self.broker is not None:
            self.broker.close()
        self.raft.replica.log.close()
        self._unlock()

    def abandon(self) -> None:
        """Close the files and write nothing, as a crash would."""
        if self.broker is not None:
            self.broker.abandon()
        self.raft.replica.log.abandon()
        self._unlock()

    def _unlock(self) -> None:
        for lock in self._locks:
            lock.release()


def _metadata_log_config(values: Config) -> Config:
    settings = {
        "segment.bytes": str(values[keys.METADATA_LOG_SEGMENT_BYTES]),
        "segment.ms": str(values[keys.METADATA_LOG_SEGMENT_MS]),
        "internal.segment.bytes": str(values[keys.INTERNAL_METADATA_LOG_SEGMENT_BYTES]),
    }
    return LOG_CONFIG.resolve(settings)


def _bound(listener: Listener, port: int) -> Listener:
    advertised = listener.advertised
    return replace(
        listener,
        bind=Endpoint(listener.bind.host, port),
        advertised=advertised if advertised.port else Endpoint(advertised.host, port),
    )
