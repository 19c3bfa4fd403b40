"""The broker's half of a node: replicas, their logs, the way to the controller, and what clients are answered.

Follows kafka.server.BrokerServer.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import Random

from pykraft.broker.coordination.coordinators import GroupCoordinator
from pykraft.broker.coordination.producer_ids import ProducerIds
from pykraft.broker.coordination.transaction_verification import AddPartitionsToTxnManager, TransactionVerification
from pykraft.broker.coordination.transactions import TransactionCoordinator
from pykraft.broker.node_metrics import tell_broker
from pykraft.broker.replication.directory_assignments import DirectoryAssignments
from pykraft.broker.replication.directory_moves import DirectoryMoves
from pykraft.broker.replication.replica_manager import ReplicaManager
from pykraft.broker.replication.replication_quotas import ReplicationQuotas
from pykraft.broker.requests.authorizer import Authorizer
from pykraft.broker.requests.coordinators import group_offsets, groups, transactions, txn_offsets
from pykraft.broker.requests.data import fetch, logs, markers, offsets, produce
from pykraft.broker.requests.data.fetch_sessions import FetchSessionCache
from pykraft.broker.requests.dispatch import Dispatcher
from pykraft.broker.requests.quota_managers import ClientQuotas
from pykraft.broker.settings import config as keys
from pykraft.broker.settings.config import NodeConfig
from pykraft.broker.settings.listener_config import Listener
from pykraft.broker.settings.live_settings import LiveSettings
from pykraft.broker.settings.stored_settings import stored_settings
from pykraft.broker.settings.topic_configs import TopicConfigs
from pykraft.broker.startup.controller_channel import ControllerChannel
from pykraft.broker.startup.lifecycle import NO_EPOCH, BrokerLifecycle
from pykraft.broker.turns.chores import Chores
from pykraft.common.background import Background
from pykraft.common.core import FOREVER, Clock, Steps, finish
from pykraft.common.fault_handler import FaultHandler
from pykraft.common.metrics import Metrics
from pykraft.common.rooms import Room, Rooms
from pykraft.common.settings.broker_config import (
    CORDONED_LOG_DIRS,
    DIRECTORY_MOVES_RATE,
    LOG_CLEANER_DEDUPE_BUFFER_SIZE,
    LOG_CLEANER_IO_BUFFER_LOAD_FACTOR,
    LOG_CLEANER_IO_MAX_BYTES_PER_SECOND,
    PRODUCER_ID_EXPIRATION_MS,
    TRANSACTION_PARTITION_VERIFICATION_ENABLE,
    is_cordoned,
)
from pykraft.common.time_slice import TimeSlice
from pykraft.common.timer import Timer
from pykraft.common.trace import Tracer
from pykraft.common.types import METADATA_TOPIC, UNASSIGNED_DIRECTORY, TopicIdPartition, Uuid
from pykraft.controller.config import BROKER_SESSION_TIMEOUT_MS
from pykraft.controller.features import SUPPORTED_FEATURES
from pykraft.metadata.delta import MetadataDelta
from pykraft.metadata.image import MetadataImage
from pykraft.metadata.loader import MetadataLoader
from pykraft.metadata.versions import IV_3_7_2_DIRECTORIES, IV_4_3_0_CORDONED_DIRECTORIES, METADATA_VERSION
from pykraft.protocol.api import ListenerKind
from pykraft.raft.client import RaftClient
from pykraft.storage.disk.filesystem import FileSystem
from pykraft.storage.log import UnifiedLog
from pykraft.storage.upkeep.log_cleaner import CleanerLimits
from pykraft.storage.upkeep.log_directories import LogDirectories
from pykraft.storage.upkeep.log_manager import LogManager


class Broker:
    """Stores and serves partitions."""

    def __init__(
        self,
        *,
        config: NodeConfig,
        cluster_id: str,
        directories: Mapping[str, Uuid],
        unreadable: Mapping[str, OSError],
        filesystem: FileSystem,
        raft: RaftClient,
        loader: MetadataLoader,
        timer: Timer,
        time_slice: TimeSlice,
        clock: Clock,
        random: Random,
        background: Background,
        metrics: Metrics,
        trace: Tracer,
        faults: FaultHandler,
        on_open: Callable[[], None],
    ) -> None:
        """`directories` are those of ``log.dirs`` that can be read, with their ids, and `unreadable` the others;
        `on_open()` hears that it stores and serves what the metadata say."""
        self._config = config
        self._on_open = on_open
        self._faults = faults
        self._apply_errors = metrics.meter("broker-metadata-metrics", "metadata-apply-error-count")
        self._filesystem = filesystem
        self._raft = raft
        self._loader = loader
        self._trace = trace
        self._clock = clock
        self._chores = Chores(timer, time_slice)
        self._opening = Room("opening")
        self.is_open = False
        """Whether it stores and serves what the metadata say."""
        self._channels = [
            ControllerChannel(name, lambda: raft.leader_node, config.values[keys.CONTROLLER_SOCKET_TIMEOUT_MS])
            for name in ("broker-lifecycle", "alter-partition", "forwarding", "directory-assignments")
        ]
        heartbeats, isr_changes, self.forwarding, assigning = self._channels
        self._stored: MetadataImage | None = stored_settings(raft.replica.log)
        """Settings for opening the logs."""
        self._topic_configs = TopicConfigs(config.node_id, config.properties, lambda: self._stored or loader.image)
        self._live = LiveSettings(config.node_id, config.properties, lambda: self._stored or loader.image)
        self.logs = self._open_logs(directories, unreadable, clock, background, random, timer, metrics)
        self.lifecycle = self._make_lifecycle(cluster_id, Uuid.random(random), heartbeats)
        self.replicas = self._make_replicas(timer, clock, metrics, isr_changes)
        self._directories = DirectoryAssignments(config.node_id, self.logs, lambda: self.lifecycle.epoch, assigning)
        self.moves = self._make_moves(background)
        self._follow_directories()
        self._add_partitions, self._verification = self._make_verification(timer, metrics)
        self.groups = self._make_groups(timer, clock, random, time_slice)
        slots = config.values[keys.MAX_INCREMENTAL_FETCH_SESSION_CACHE_SLOTS]
        self.fetch_sessions = FetchSessionCache(slots, random, metrics)
        self.producer_ids = ProducerIds(config.node_id, lambda: self.lifecycle.epoch, self.forwarding)
        self.transactions = self._make_transactions(timer, clock)
        tell_broker(metrics, self.replicas, self.groups, self.transactions)

    def _open_logs(
        self,
        directories: Mapping[str, Uuid],
        unreadable: Mapping[str, OSError],
        clock: Clock,
        background: Background,
        random: Random,
        timer: Timer,
        metrics: Metrics,
    ) -> LogDirectories:
        config, trace = self._config, self._trace
        there = [directory for directory in config.log_dirs if directory in directories]
        managers = [
            LogManager(
                filesystem=self._filesystem,
                directory=directory,
                config_for=self._topic_configs.config_of,
                clock=clock,
                background=background,
                random=random,
                producer_id_expiration_ms=self._live[PRODUCER_ID_EXPIRATION_MS],
                not_mine=frozenset({f"{METADATA_TOPIC}-0"}),
                cleaner_limits=_cleaner_limits(self._live, len(there)),
                after=lambda delay_ms, action: timer.at(trace.now + delay_ms, lambda _: action()),
            )
            for directory in there
        ]
        logs = LogDirectories(
            managers,
            directories,
            paths=config.log_dirs,
            metadata_directory=config.metadata_dir,
            failures=unreadable,
        )
        for directory, error in unreadable.items():
            trace("log_directory_failed", directory=directory, reason=str(error))
        logs.on_failure = lambda directory, error: trace("log_directory_failed", directory=directory, reason=str(error))
        logs.register_metrics(metrics)
        for manager in managers:
            manager.cleaner.on_uncleanable = lambda key, reason: trace("uncleanable", partition=str(key), reason=reason)
        logs.start()
        for manager in logs.online:
            for key, lost_bytes in manager.lost_bytes.items():
                trace("log_cut", partition=str(key), bytes=lost_bytes)
            if manager.unknown:
                trace("unknown_files", directory=manager.directory, names=manager.unknown)
        return logs

    def _make_moves(self, background: Background) -> DirectoryMoves:
        return DirectoryMoves(
            self._config.node_id,
            self.logs,
            self.replicas,
            background,
            self._trace,
            self._directories.on_placed,
            rate=lambda: self._live[DIRECTORY_MOVES_RATE],
        )

    def _follow_directories(self) -> None:
        """What the log directories hear from the metadata, and what a failure or a new log there leads to."""
        logs, node_id = self.logs, self._config.node_id

        def assigned(key: TopicIdPartition) -> Uuid:
            known = self.replicas.image.partition(key.topic_id, key.partition)
            return UNASSIGNED_DIRECTORY if known is None else known.directory_of(node_id)

        def on_failure(directory: str, error: OSError) -> None:
            self.replicas.offline.note(directory, error)
            self.lifecycle.note_failed_directory(self._trace.now)

        logs.assigned = assigned
        logs.is_cordoned = lambda directory: directory in (self._cordoned_paths() or ())
        logs.on_failure = on_failure
        self.replicas.on_placed = self._directories.on_placed
        self._faults.take_offline = logs.take_offline

    def _make_replicas(
        self, timer: Timer, clock: Clock, metrics: Metrics, isr_changes: ControllerChannel
    ) -> ReplicaManager:
        node_id, trace = self._config.node_id, self._trace
        return ReplicaManager(
            config=self._config,
            topic_configs=self._topic_configs,
            logs=self.logs,
            timer=timer,
            clock=clock,
            metrics=metrics,
            trace=trace,
            faults=self._faults,
            broker_epoch=lambda: self.lifecycle.epoch,
            isr_changes=isr_changes,
            quotas=ReplicationQuotas(node_id, self._live, now=lambda: trace.now),
            chores=self._chores,
        )

    def _make_verification(
        self, timer: Timer, metrics: Metrics
    ) -> tuple[AddPartitionsToTxnManager, TransactionVerification]:
        values = self._config.values
        manager = AddPartitionsToTxnManager(
            image=lambda: self.replicas.image,
            inter_broker_listener=self._config.inter_broker_listener,
            timeout_ms=values[keys.REQUEST_TIMEOUT_MS],
            metrics=metrics,
        )
        verification = TransactionVerification(
            values,
            self.replicas,
            manager,
            timer,
            now=lambda: self._trace.now,
            is_enabled=lambda: self._live[TRANSACTION_PARTITION_VERIFICATION_ENABLE],
        )
        return manager, verification

    def _make_groups(self, timer: Timer, clock: Clock, random: Random, time_slice: TimeSlice) -> GroupCoordinator:
        return GroupCoordinator(
            config=self._config.values,
            replicas=self.replicas,
            verification=self._verification,
            timer=timer,
            clock=clock,
            random=random,
            trace=self._trace,
            time_slice=time_slice,
            faults=self._faults,
        )

    def _make_transactions(self, timer: Timer, clock: Clock) -> TransactionCoordinator:
        return TransactionCoordinator(
            config=self._config.values,
            listener=self._config.inter_broker_listener,
            replicas=self.replicas,
            producer_ids=self.producer_ids,
            timer=timer,
            clock=clock,
            trace=self._trace,
            faults=self._faults,
        )

    def _make_lifecycle(self, cluster_id: str, incarnation_id: Uuid, heartbeats: ControllerChannel) -> BrokerLifecycle:
        return BrokerLifecycle(
            broker_id=self._config.node_id,
            cluster_id=cluster_id,
            incarnation_id=incarnation_id,
            rack=self._config.values[keys.BROKER_RACK] or None,
            directories=lambda: self.logs.online_ids,
            offline=lambda: self.logs.offline_ids,
            previous_broker_epoch=self.logs.previous_broker_epoch,
            features=SUPPORTED_FEATURES,
            heartbeat_interval_ms=self._config.values[keys.BROKER_HEARTBEAT_INTERVAL_MS],
            session_timeout_ms=self._config.values[BROKER_SESSION_TIMEOUT_MS],
            channel=heartbeats,
            metadata_offset=lambda: self._loader.published_offset,
            lacks_directories=lambda: _lacks_directories(self._loader.image, self._config.node_id, incarnation_id),
            trace=self._trace,
            cordoned=self._cordoned,
            on_epoch=lambda: self._opening.mark("epoch"),
        )

    def _cordoned(self) -> list[Uuid] | None:
        """The log directories that take no new replicas; None where the cluster's level knows nothing of that."""
        found = self._cordoned_paths()
        return None if found is None else [self.logs.ids[path] for path in found if path in self.logs.ids]

    def _cordoned_paths(self) -> list[str] | None:
        if self._loader.image.features.get(METADATA_VERSION, 0) < IV_4_3_0_CORDONED_DIRECTORIES:
            return None
        cordoned = self._live[CORDONED_LOG_DIRS]
        return [directory for directory in self._config.log_dirs if is_cordoned(cordoned, directory)]

    def add_to(self, dispatcher: Dispatcher, authorizer: Authorizer, quotas: ClientQuotas) -> None:
        """Let the dispatcher serve what needs the partitions and their logs."""
        broker, replicas = ListenerKind.BROKER, self.replicas
        dispatcher.serve(broker, produce.ProduceApis(replicas, authorizer, self._verification), produce.HANDLERS)
        fetch_apis = fetch.FetchApis(self._config, replicas, authorizer, self.fetch_sessions, quotas)
        dispatcher.serve(broker, fetch_apis, fetch.HANDLERS)
        dispatcher.serve(broker, offsets.OffsetApis(replicas, authorizer), offsets.HANDLERS)
        log_apis = logs.LogApis(replicas, self.logs, self.moves, self._filesystem, authorizer)
        dispatcher.serve(broker, log_apis, logs.HANDLERS)
        group_apis = groups.GroupApis(self.groups, lambda: self._loader.image, authorizer)
        dispatcher.serve(broker, group_apis, groups.HANDLERS)
        offset_apis = group_offsets.GroupOffsetApis(self.groups, lambda: self._loader.image, authorizer)
        dispatcher.serve(broker, offset_apis, group_offsets.HANDLERS)
        txn_offset_apis = txn_offsets.TxnOffsetApis(self.groups, lambda: self._loader.image, authorizer)
        dispatcher.serve(broker, txn_offset_apis, txn_offsets.HANDLERS)
        marker_apis = markers.MarkerApis(self._config.values, replicas, self.groups, authorizer, self._clock)
        dispatcher.serve(broker, marker_apis, markers.HANDLERS)
        transaction_apis = transactions.TransactionApis(
            self.transactions, self.producer_ids, lambda: self._loader.image, authorizer
        )
        dispatcher.serve(broker, transaction_apis, transactions.HANDLERS)

    def start(self, listeners: Sequence[Listener], now: int) -> None:
        """Register with these listeners."""
        for_clients = [listener for listener in listeners if listener.kind is ListenerKind.BROKER]
        self.lifecycle.start([(each.name, each.advertised, each.protocol) for each in for_clients], now)

    def _open(self, now: int) -> int:
        """Take up what the metadata say, once they say that this process is registered. Records before that are of
        another life: it may make this broker the leader of a log whose end it has lost."""
        image = self._loader.image
        is_known = self.lifecycle.epoch != NO_EPOCH and image.provenance.offset >= self.lifecycle.epoch
        if is_known and not self.is_open:
            self.is_open = True
            self._on_open()
            self._loader.publish_to(self._publish)
            self._stored = None
            self._topic_configs.forget()
            self.logs.recover_futures(partial(_place_of, image, self._config.node_id))
            for apply in self._appliers():
                steps = apply(MetadataDelta.of_everything(image), image, now)
                if steps is not None:
                    finish(steps)
            self.replicas.set_strays_aside()
            self.moves.resume()
            self.replicas.start(now)
        return FOREVER

    def _appliers(self) -> list[Callable[[MetadataDelta, MetadataImage, int], Steps[None] | None]]:
        """What lets this broker be as the metadata say: the replicas, and then what rests on them. What takes long
        comes as steps."""
        return [
            lambda *_: self._take_up_settings(),
            self.replicas.apply,
            lambda delta, image, _: self._directories.apply(delta, image),
            self.groups.apply,
            self.transactions.apply,
        ]

    def _take_up_settings(self) -> None:
        """What is not read when it is needed is handed on."""
        self.logs.set_producer_id_expiration(self._live[PRODUCER_ID_EXPIRATION_MS])
        for manager in self.logs.online:
            manager.cleaner.limits = _cleaner_limits(self._live, len(self.logs.online))

    def _publish(self, delta: MetadataDelta, image: MetadataImage) -> Steps[None]:
        """Take up a change. What fails in one place must not keep it from the others: the next change may mend it.
        (What fails when the broker takes up its first image ends the node.)"""
        fault = None
        for apply in self._appliers():
            try:
                yield from apply(delta, image, self._trace.now) or ()
            except Exception as error:
                fault = fault or error
                self._apply_errors.mark()
                self._faults.handle_fault("metadata-apply", error, offset=image.provenance.offset)
        if fault is not None:
            self._loader.has_failed = True

    def add_rooms(self, rooms: Rooms) -> None:
        """Heartbeats and fetches first: they may have something to say to the controller."""
        rooms.add(self._opening, self._open)
        rooms.add(self.lifecycle.room, self.lifecycle.poll, "lifecycle")
        rooms.add(self.replicas.room, self.replicas.poll, "replicas")
        rooms.add(self.groups.room, self.groups.poll, "groups")
        rooms.add(self._add_partitions.room, self._add_partitions.poll, "verification")
        rooms.add(self.moves.room, self.moves.poll, "moves")
        rooms.add(self._directories.room, self._directories.poll, "directories")
        rooms.add(self.transactions.room, self.transactions.poll, "transactions")
        for channel in self._channels:
            rooms.add(channel.room, channel.poll, "channel")
        self._raft.replica.on_transition += [partial(channel.room.mark, "leader") for channel in self._channels]
        for room in (self._opening, self.lifecycle.room):
            self._loader.watch(partial(room.mark, "metadata"))

    def close(self) -> None:
        """Close the logs in order."""
        self.logs.close(self.lifecycle.epoch)

    def abandon(self) -> None:
        """Close the files and write nothing, as a crash would."""
        self.logs.abandon()


def _place_of(image: MetadataImage, broker_id: int, log: UnifiedLog) -> Uuid | None:
    """In which directory the metadata place this replica."""
    known = None if log.topic_id is None else image.partition(log.topic_id, log.topic_partition.partition)
    return None if known is None else known.directory_of(broker_id)


def _lacks_directories(image: MetadataImage, broker_id: int, incarnation_id: Uuid) -> bool:
    """Whether this process has registered at a level that knows no directories, and the level does now."""
    known = image.brokers.get(broker_id)
    if known is None or known.incarnation_id != incarnation_id or known.directories:
        return False
    return image.features.get(METADATA_VERSION, 0) >= IV_3_7_2_DIRECTORIES


def _cleaner_limits(live: LiveSettings, cleaners: int) -> CleanerLimits:
    """What each of so many cleaners may use."""
    buffer_bytes = int(live[LOG_CLEANER_DEDUPE_BUFFER_SIZE] * live[LOG_CLEANER_IO_BUFFER_LOAD_FACTOR])
    return CleanerLimits(
        buffer_bytes=buffer_bytes // cleaners,
        io_bytes_per_second=live[LOG_CLEANER_IO_MAX_BYTES_PER_SECOND] / cleaners,
    )
