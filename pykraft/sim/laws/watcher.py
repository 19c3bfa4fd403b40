"""Looks at a simulated cluster after every event, and holds what it sees against the laws.

Only what an event may have changed is looked at: the node that it happened on. What was checked once is not checked
again; a node that starts again, and a log that was truncated, are read from the beginning, and must have what they had
of what is committed.

Besides, the watcher counts what a run has brought about (elections, truncations, ISR changes, acknowledged records): a
run in which nothing happens proves nothing.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pykraft.broker.broker import Broker
from pykraft.broker.coordination.coordinators import GROUP_TOPIC
from pykraft.broker.node import Node
from pykraft.broker.replication.partition import Partition
from pykraft.common.errors import ErrorCode
from pykraft.common.trace import TraceEvent
from pykraft.common.types import METADATA_TOPIC, OffsetAndEpoch, ReplicaKey, TopicIdPartition, TopicPartition, Uuid
from pykraft.coordinator.transaction.config import TRANSACTION_TOPIC
from pykraft.metadata.image import MetadataImage, PartitionRegistration
from pykraft.raft.quorum_state import Candidate, Leader, Role
from pykraft.sim.laws.committed_group_laws import SharedInternalHistory
from pykraft.sim.laws.directory_laws import DirectoryLaws
from pykraft.sim.laws.disk_laws import ChecksummedLog, DiskLaws
from pykraft.sim.laws.election_laws import ElectionLaws, check_elr
from pykraft.sim.laws.foreign_laws import foreign_history
from pykraft.sim.laws.group_laws import InternalHistory, LoggedGroupLaws
from pykraft.sim.laws.held_laws import HeldLaws
from pykraft.sim.laws.held_replicas import held, held_of, parse_partition, state_of
from pykraft.sim.laws.invariants import (
    RECREATED,
    CommittedLog,
    Election,
    IncarnationHistory,
    PartitionHistory,
    ReplicaLog,
    Violation,
    check_high_watermark,
    check_image,
    check_isr,
    require,
)
from pykraft.sim.laws.lost_coordinators import Coordinators, TransactionCoordinators
from pykraft.sim.laws.majority_law import MajorityLaw, durable_end
from pykraft.sim.laws.moving_log import MovingReplicaLog
from pykraft.sim.laws.moving_log_laws import COMPACTED, SHORTENED, MovingLogLaws, check_begun_again
from pykraft.sim.laws.progress import Progress
from pykraft.sim.laws.question_laws import QuestionLaws
from pykraft.sim.laws.reassignment_laws import ReassignmentLaws
from pykraft.sim.laws.replay_laws import (
    COORDINATED,
    GroupShardChecks,
    check_epochs,
    check_no_shard,
    check_producers,
    check_shards,
)
from pykraft.sim.laws.session_laws import check_refused, check_sessions
from pykraft.sim.laws.setting_laws import SettingLaws
from pykraft.sim.laws.snapshot_laws import SnapshotLaws
from pykraft.sim.laws.transaction_laws import BANK, COPY, TransactionalHistory
from pykraft.sim.laws.voter_laws import VoterLaws
from pykraft.sim.world.hosts import SimulatedNode
from pykraft.storage.log import UnifiedLog


@dataclass
class _Seen:
    """What is known of one life of one node; also when it is over, until the next begins."""

    life: int
    metadata: ReplicaLog
    partitions: dict[TopicIdPartition, ReplicaLog] = field(default_factory=dict)
    quiet: dict[Partition, tuple[Any, ...]] = field(default_factory=dict)
    """How each replica was when it was looked at: as long as it is so (`_state`), there is nothing new to see."""
    kept: dict[TopicIdPartition, int] = field(default_factory=dict)
    """Of each partition: so many committed batches the life before had, and this one must have."""
    image: MetadataImage | None = None
    role: Role | None = None
    durable_end: int = 0
    """When it is over: up to here the metadata log was on the disk, synced."""


class Watcher:
    """Checks the laws as a run goes on."""

    def __init__(self, nodes: dict[int, SimulatedNode]) -> None:
        self._nodes = nodes
        self._seen: dict[int, _Seen] = {}
        self.progress = Progress()
        self.metadata = CommittedLog(METADATA_TOPIC)
        self.majority = MajorityLaw(nodes, self._seen, self.metadata)
        self.snapshots = SnapshotLaws(self.metadata)
        self.reassignments: ReassignmentLaws | None = None
        """None where no partition is moved."""
        self.voters: VoterLaws | None = None
        """None where no voter comes or goes."""
        self.moving: MovingLogLaws | None = None
        """None where no log is shortened or compacted."""
        self.settings: SettingLaws | None = None
        """None where no settings change."""
        self.disks: DiskLaws | None = None
        """None where no disk or clock goes wrong."""
        self.directories: DirectoryLaws | None = None
        """None where each broker has one log directory."""
        self.more_looks: list[Callable[[SimulatedNode], None]] = []
        """Laws that look at each node on which something has happened."""
        self._is_ending = False
        """The node that is looked at has ended in the middle of a step, perhaps."""
        self.partitions: dict[TopicIdPartition, PartitionHistory] = {}
        self._deleted: set[Uuid] = set()
        """The ids of topics that were deleted."""
        self._election = Election()
        self._newest_image: MetadataImage | None = None
        self.lossy: set[int] = set()
        """Nodes that have lost power, and are not in sync again."""
        self.elections = ElectionLaws(self.history_of, self.lossy)
        self.groups: dict[str, LoggedGroupLaws] = {}
        """The laws of each group, by its id."""
        self.questions, self._held = QuestionLaws(), HeldLaws()
        self.coordinators = Coordinators(self.progress)
        self._group_shards = GroupShardChecks()
        self.transaction_coordinators = TransactionCoordinators(self.progress)
        self.transaction_version: int | None = None
        """The level at which a bank runs. Its group is the copiers', for which there are other laws. None: no bank."""
        self.has_strangers = False

    def history(self, topic_partition: TopicPartition) -> PartitionHistory:
        """Of the topic that has this name now. Of one that is not there yet it is empty."""
        topic = None if self._newest_image is None else self._newest_image.topic_named(topic_partition.topic)
        if topic is None:
            return PartitionHistory(topic_partition)
        return self.history_of(TopicIdPartition(topic.topic_id, *topic_partition))

    def history_of(self, key: TopicIdPartition) -> PartitionHistory:
        """Each topic that had a name has a history of its own."""
        history = self.partitions.get(key)
        if history is None:
            history = self.partitions[key] = self._new_history(key)
            if self.disks is not None and type(history.log) is CommittedLog:
                history.log = ChecksummedLog(history.name)
            history.is_lost = history.is_deleted = key.topic_id in self._deleted
        return history

    def _new_history(self, key: TopicIdPartition) -> PartitionHistory:
        topic, version = key.topic, self.transaction_version
        if self.has_strangers and (found := foreign_history(key, self.groups, version is not None)) is not None:
            return found
        if self.moving is not None and (
            topic in (SHORTENED, COMPACTED) or (topic, version) == (TRANSACTION_TOPIC, None)
        ):
            return TransactionalHistory(key.topic_partition, self.moving.transaction_version)
        if version is not None and topic == GROUP_TOPIC and self.groups:
            return SharedInternalHistory(key.topic_partition, version, self.groups)
        if version is not None and topic in (BANK, COPY, TRANSACTION_TOPIC, GROUP_TOPIC):
            return TransactionalHistory(key.topic_partition, version)
        if topic == GROUP_TOPIC:
            return InternalHistory(key.topic_partition, self.groups)
        if topic == RECREATED:
            return IncarnationHistory(key)
        return PartitionHistory(key.topic_partition)

    def topic_name(self, topic_id: Uuid) -> str:
        """The name of a topic that a node knows."""
        assert self._newest_image is not None
        return self._newest_image.topics[topic_id].name

    def newest_image(self) -> MetadataImage | None:
        """The newest image that a node has published."""
        return self._newest_image

    def watch_settings(self) -> None:
        """From now on settings may change."""
        self.settings = SettingLaws(self._nodes, self._election.leaders)
        self.more_looks.append(self.settings.look)

    def watch_disks(self, now: Callable[[], int]) -> None:
        """From now on disks and clocks may go wrong."""
        self.disks = DiskLaws(self._nodes, self.history_of, self.newest_image, now)
        self.more_looks.append(self.disks.look)

    def watch_directories(self, now: Callable[[], int]) -> DirectoryLaws:
        """From now on log directories may fail, and replicas may move between them."""

        def seen(node_id: int, key: TopicIdPartition) -> ReplicaLog | None:
            known = self._seen.get(node_id)
            return None if known is None else known.partitions.get(key)

        about = self._nodes, self.history_of, self.newest_image, seen, now, self.progress
        self.directories = DirectoryLaws(*about)
        self.more_looks.append(self.directories.look)
        return self.directories

    def watch_reassignments(self) -> None:
        """From now on partitions may be moved."""
        self.reassignments = ReassignmentLaws(self._lacking, self._forget_replica)

    def sum_up(self) -> Progress:
        """The progress, with what the laws have counted."""
        progress, elections = self.progress, self.elections
        progress.preferred_elections, progress.unclean_elections = elections.preferred, elections.unclean
        progress.last_known_elections, progress.elr_elections = elections.last_known, elections.eligible
        if (moves := self.reassignments) is not None:
            progress.reassignments_completed = moves.completed
            progress.reassignments_cancelled = moves.cancelled
        if (voters := self.voters) is not None:
            voters.count_into(progress)
        return progress

    # --- events that a node reports -----------------------------------------------------------------------------------

    def on_trace(self, event: TraceEvent) -> None:
        """Something happened in the middle of a step that is over, or undone, at its end."""
        machine = self._nodes[event.node]
        if machine.node is None:
            return
        fields = event.fields
        match event.name:
            case "role":
                leads = fields["role"] == "leader"
                self._election.observe(event.node, fields["epoch"], leads)
                if leads:
                    self.progress.elections += 1
                    seen = self._known(machine)
                    self._follow_metadata(machine.node, seen)
                    self.metadata.check_leader(seen.metadata, fields["epoch"])
                    if self.voters is not None:
                        self.voters.check_elected(machine.node, seen.metadata)
            case "metadata_truncate":
                self.progress.truncations += fields["end"] < fields["before"]
            case "metadata_snapshot_written":
                self.progress.snapshots_written += 1
                self._check_snapshot(machine, OffsetAndEpoch(fields["offset"], fields["epoch"]))
            case "metadata_snapshot_loaded":
                self.progress.snapshots_loaded += 1
                self._check_snapshot(machine, OffsetAndEpoch(fields["offset"], fields["epoch"]), is_copied=True)
            case "metadata_log_start":
                self.progress.log_starts_moved += 1
            case "truncate_fully":
                self.progress.logs_begun_again += 1
                partition = held(machine.node, parse_partition(fields["partition"]))
                if partition is not None:
                    check_begun_again(event.node, partition, fields["end"])
            case "truncate":
                self.progress.truncations += fields["end"] < fields["before"]
                self._on_truncation(machine, machine.node, parse_partition(fields["partition"]))
            case "fetch_refused":
                if fields["error"] == ErrorCode.OFFSET_OUT_OF_RANGE.name and machine.node.broker is not None:
                    check_refused(
                        parse_partition(fields["partition"]), event.node, machine.node.broker, self._brokers()
                    )
            case "directory_moved" if self.directories is not None:
                partition = held(machine.node, parse_partition(fields["partition"]))
                if partition is not None:
                    self.directories.on_moved(machine, partition)
            case "isr":
                self.progress.isr_changes += 1
                self.elections.note(event.node, machine.node.loader.image)
                partition = held(machine.node, parse_partition(fields["partition"]))
                if partition is not None and not self.history_of(partition.key).is_lost:
                    check_isr(event.node, fields, self.ends_of(partition.key))
            case "coordinator":
                is_unreplayable = str(fields["state"]).startswith("failed: the record")
                require(not is_unreplayable, f"node {event.node} cannot load what coordinators wrote: {fields}")
                if self.moving is not None and fields["state"] == "active":
                    self._on_loaded(machine, TopicPartition(fields["topic"], fields["partition"]))
            case "leadership":
                if fields["leader"] == event.node:
                    self._on_leadership(machine, machine.node, parse_partition(fields["partition"]), fields["epoch"])

    def _check_snapshot(self, machine: SimulatedNode, snapshot: OffsetAndEpoch, is_copied: bool = False) -> None:
        """A node has written this one, or copied it."""
        assert machine.node is not None
        (self.snapshots.check_copied if is_copied else self.snapshots.check)(machine.node, snapshot)
        if self.voters is not None:
            self.voters.check_snapshot(machine.node, snapshot, self.metadata)

    def _on_truncation(self, machine: SimulatedNode, node: Node, topic_partition: TopicPartition) -> None:
        """Look at once, before anything is appended again."""
        assert node.broker is not None
        self.elections.note(machine.node_id, node.loader.image)
        partition = node.broker.replicas.partitions[topic_partition]
        if self.history_of(partition.key).is_deleted:
            return
        self._follow(machine, self._known(machine), partition)
        if topic_partition.topic in COORDINATED:
            check_no_shard(machine, *topic_partition)
            check_shards(self._nodes.values(), *topic_partition)

    def _on_loaded(self, machine: SimulatedNode, place: TopicPartition) -> None:
        """A coordinator has read its log, which may be compacted: it knows what everything that was written says."""
        assert machine.node is not None and self.moving is not None
        partition = held(machine.node, place)
        if partition is not None:
            replica = self._follow(machine, self._known(machine), partition)
            self.moving.check_loaded(machine, place, replica.batches)

    def _on_leadership(self, machine: SimulatedNode, node: Node, topic_partition: TopicPartition, epoch: int) -> None:
        assert node.broker is not None
        self.elections.note(machine.node_id, node.loader.image)
        partition = held(node, topic_partition)
        if partition is not None and not self.history_of(partition.key).is_deleted:
            replica = self._follow(machine, self._known(machine), partition)
            history = self.history_of(partition.key)
            if not history.is_lost:
                history.log.check_leader(replica, epoch)

    # --- after each event ---------------------------------------------------------------------------------------------

    def look(self, machine: SimulatedNode) -> None:
        """Look at one node."""
        node = machine.node
        if node is None:
            return
        seen = self._known(machine)
        self._look_at_quorum(machine, node, seen)
        if node.loader.image is not seen.image:
            seen.image = node.loader.image
            check_image(machine.node_id, seen.image)
            self.elections.note(machine.node_id, seen.image)
            self.snapshots.check_image(machine.node_id, seen.image)
            if self._newest_image is None or seen.image.provenance.offset > self._newest_image.provenance.offset:
                self._note_deleted(seen.image)
                self._newest_image = seen.image
                if self.moving is not None:
                    self.moving.note_image(seen.image)
                if seen.image.keeps_elr:
                    check_elr(seen.image, self.partitions, self._safe_log)
        if node.broker is not None:
            quiet = seen.quiet
            for partition in node.broker.replicas.partitions.values():
                state = state_of(partition)
                if quiet.get(partition) != state:
                    self._look_at_partition(machine, seen, partition)
                    if self.moving is None and not self._is_ending:  # laws of moving logs go by more than this
                        quiet[partition] = state
            if self.reassignments is not None:
                for key in [each for each in seen.partitions if held_of(node.broker, each) is None]:
                    if self._has_left(machine, key):
                        self._forget_replica(key, machine.node_id)
            if self.groups:
                active = node.broker.groups.runtime.active_partitions()
                self.coordinators.look(machine.node_id, node.broker.groups.runtime, active)
                self._group_shards.look(machine, active)
            if self.transaction_version is not None:
                self.transaction_coordinators.look(machine.node_id, node.broker.transactions.runtime)
        if not self._is_ending:
            self._held.look(machine)
            self.questions.look(machine)
            for look in self.more_looks:
                look(machine)

    def _note_deleted(self, image: MetadataImage) -> None:
        """A newer image: what is in it no more was deleted."""
        known = set() if self._newest_image is None else self._newest_image.topics.keys() - image.topics.keys()
        if known:
            self._deleted |= known
            self.progress.topics_deleted += len(known)
            for key, history in self.partitions.items():
                if key.topic_id in known:
                    history.is_lost = history.is_deleted = True

    def check_sessions(self) -> None:
        """Both ends of a session know the same."""
        check_sessions(self._brokers())

    def _brokers(self) -> dict[int, Broker]:
        """Those that are up."""
        nodes = {node_id: machine.node for node_id, machine in self._nodes.items()}
        return {key: node.broker for key, node in nodes.items() if node is not None and node.broker is not None}

    def check_replays(self) -> None:
        """What every node keeps in memory of its logs is what they say."""
        for machine in self._nodes.values():
            assert machine.node is not None
            if machine.node.broker is not None:
                for partition in machine.node.broker.replicas.partitions.values():
                    replica = self._follow(machine, self._known(machine), partition)
                    self._check_producers(machine, partition, replica)
                    if self.moving is not None:
                        self.moving.check_replica(machine, partition, replica)
        if self.moving is not None:
            self.moving.check_end(self._brokers())
        for key in self.partitions:
            if key.topic in COORDINATED:
                check_shards(self._nodes.values(), *key.topic_partition)

    def look_for_the_last_time(self, machine: SimulatedNode) -> None:
        """Look at a node whose life ends now."""
        self._is_ending = True
        self.look(machine)
        self._is_ending = False
        if machine.node is not None:
            self._known(machine).durable_end = durable_end(machine)
            self.coordinators.look_for_the_last_time(machine.node_id)
            self.transaction_coordinators.look_for_the_last_time(machine.node_id)

    def forget_disk(self, machine: SimulatedNode, key: ReplicaKey | None = None) -> None:
        """The disk is gone, and another one in its place: the node need not have again what it had. A controller's has
        this key."""
        seen = self._seen.pop(machine.node_id, None)
        epoch = self._election.forget(machine.node_id)
        if self.disks is not None:
            self.disks.others.replaced.add(machine.node_id)
        if self.voters is not None and key is not None:
            self.voters.forget_disk(key, epoch)
            self.progress.disks_wiped += 1
        if seen is not None and key is not None:
            self.majority.lost[key] = seen

    def _look_at_quorum(self, machine: SimulatedNode, node: Node, seen: _Seen) -> None:
        raft = node.raft.replica
        if raft.quorum.role is not seen.role:
            seen.role = raft.quorum.role
            if isinstance(seen.role, Candidate | Leader):
                granted = seen.role.granted if self.voters is None else self.voters.disks_of(node, seen.role.granted)
                self._election.observe_votes(seen.role.epoch, machine.node_id, granted)
        self._follow_metadata(node, seen)
        if self.voters is not None and not self._is_ending:
            self.voters.check(node, seen.metadata)
        high_watermark, before = raft.log.high_watermark, seen.metadata.high_watermark
        if high_watermark != before:
            require(high_watermark > before, f"{seen.metadata.name}: the high watermark goes back to {high_watermark}")
            seen.metadata.high_watermark = high_watermark
            self.majority.check_leader(node, seen.metadata, high_watermark)
            if decided := self.metadata.commit(seen.metadata, high_watermark, raft.epoch):
                self.majority.check(node)
                if self.voters is not None:
                    self.voters.note_committed(node, seen.metadata)
                if self.reassignments is not None:
                    self.reassignments.commit(decided)
                if self.settings is not None:
                    self.settings.commit(decided)

    def _look_at_partition(self, machine: SimulatedNode, seen: _Seen, partition: Partition) -> None:
        key = partition.key
        history = self.history_of(key)
        if history.is_deleted:
            return
        replica = self._follow(machine, seen, partition)
        high_watermark, before = partition.log.high_watermark, replica.high_watermark
        led_before, replica.led_epoch = replica.led_epoch, partition.leader_epoch if partition.is_leader else None
        if high_watermark == before:
            if isinstance(replica, MovingReplicaLog) and self.moving is not None:
                self.moving.look(machine, partition, history, replica)
            return
        replica.high_watermark = high_watermark
        if high_watermark < before and led_before is not None and led_before == replica.led_epoch:
            raise Violation(f"{replica.name}: its leader's high watermark goes back from {before} to {high_watermark}")
        history.commit(replica, high_watermark, partition.leader_epoch)
        if isinstance(replica, MovingReplicaLog) and self.moving is not None:
            self.moving.look(machine, partition, history, replica)
        if partition.is_leader and not history.is_lost:
            check_high_watermark(machine.node_id, partition, self._decided(key), self.ends_of(key))
            if key.topic == GROUP_TOPIC and self.groups and not partition.log.is_closed:
                self._look_at_readers(machine, key.partition, high_watermark)

    def _look_at_readers(self, machine: SimulatedNode, number: int, high_watermark: int) -> None:
        """What this node tells the readers of groups is committed."""
        assert machine.node is not None and machine.node.broker is not None
        runtime = machine.node.broker.groups.runtime
        if number in runtime.active_partitions():
            view = runtime.view(number)
            view.catch_up(high_watermark, in_turn=False)
            for laws in self.groups.values():
                laws.check_readers(machine.name, view.shard)

    def _decided(self, key: TopicIdPartition) -> PartitionRegistration | None:
        return None if self._newest_image is None else self._newest_image.partition(key.topic_id, key.partition)

    # --- logs ---------------------------------------------------------------------------------------------------------

    def _known(self, machine: SimulatedNode) -> _Seen:
        """What is known of this life; of one that has just begun, what it must have of the one before."""
        before = self._seen.get(machine.node_id)
        if before is not None and before.life == machine.life:
            return before
        seen = self._seen[machine.node_id] = _Seen(
            machine.life, ReplicaLog(f"{METADATA_TOPIC} of node {machine.node_id}")
        )
        if before is not None and machine.node is not None:
            count = self.metadata.shared(before.metadata)
            if machine.lost_power:
                machine.lost_power = False
                count = min(count, bisect_right(self.metadata.ends, before.durable_end))
            self._follow_metadata(machine.node, seen)
            self.metadata.check_kept(seen.metadata, count)
            if machine.node_id not in self.lossy:
                logs = before.partitions.items()
                seen.kept = {**before.kept, **{key: self.history_of(key).log.shared(log) for key, log in logs}}
        return seen

    def _follow_metadata(self, node: Node, seen: _Seen) -> None:
        self._follow_log(seen.metadata, node.raft.replica.log.unified, self.metadata)

    def _follow(self, machine: SimulatedNode, seen: _Seen, partition: Partition) -> ReplicaLog:
        key = partition.key
        history = self.history_of(key)
        committed = history.log
        replica = seen.partitions.get(key)
        if replica is not None and replica.source is not partition.log and self._has_left(machine, key):
            replica = None
        if replica is None:
            kind = MovingReplicaLog if self.moving is not None and self.moving.covers(key.topic) else ReplicaLog
            replica = seen.partitions[key] = kind(f"{key.topic_partition} of node {machine.node_id}")
            self._follow_log(replica, partition.log, committed, history.is_lost)
            kept = seen.kept.pop(key, 0)
            if not history.is_lost:
                committed.check_kept(replica, kept)
            self._check_producers(machine, partition, replica)
        else:
            was_truncated = partition.log.truncations != replica.truncations
            self._follow_log(replica, partition.log, committed, history.is_lost)
            if was_truncated:
                self._check_producers(machine, partition, replica)
                if self.moving is None and not partition.is_leader and not self._is_ending:
                    check_epochs(replica.name, partition.log, replica.ends, replica.epochs)
        return replica

    def _check_producers(self, machine: SimulatedNode, partition: Partition, replica: ReplicaLog) -> None:
        if self._is_ending:
            return  # in the middle of a step, perhaps: what is in memory may be half done, and is lost
        if self.moving is not None:
            self.moving.check_producers(machine, partition.log, replica)
        else:
            check_producers(replica.name, partition.log, replica.batches)

    def _has_left(self, machine: SimulatedNode, key: TopicIdPartition) -> bool:
        return self.reassignments is not None and self.reassignments.has_left(key, machine.node_id)

    def _forget_replica(self, key: TopicIdPartition, node_id: int) -> None:
        """The node gives up its replica. It need not have again what it has now."""
        seen = self._seen.get(node_id)
        if seen is not None:
            seen.partitions.pop(key, None)
            seen.kept.pop(key, None)
            seen.quiet.clear()

    @staticmethod
    def _follow_log(replica: ReplicaLog, log: UnifiedLog, committed: CommittedLog, is_lost: bool = False) -> None:
        if log.truncations != replica.truncations:
            if not log.segments:
                return  # the node ends in the middle of the truncation
            before = committed.shared(replica)
            committed.check_matching(replica, replica.follow(log, committed))
            if not is_lost:
                committed.check_kept(replica, before)
        elif log.log_end_offset != replica.end:
            committed.check_matching(replica, replica.follow(log, committed))

    def _safe_log(self, node_id: int, key: TopicIdPartition) -> ReplicaLog | None:
        """The log of a broker as it was seen last, unless the broker has lost power and not registered since."""
        seen, machine = self._seen.get(node_id), self._nodes[node_id]
        if seen is None:
            return None
        if node_id in self.lossy:
            broker = None if machine.node is None else machine.node.broker
            known = None if self._newest_image is None else self._newest_image.brokers.get(node_id)
            if broker is None or known is None or known.epoch != broker.lifecycle.epoch:
                return None
        return seen.partitions.get(key)

    def ends_of(self, key: TopicIdPartition) -> dict[int, int]:
        """Where the replicas end, of those whose disk has lost nothing. One whose process has ended, or has not opened
        its logs yet, has what it had."""
        ends = {}
        for node_id, machine in self._nodes.items():
            seen = self._seen.get(node_id)
            if seen is None or node_id in self.lossy:
                continue
            broker = None if machine.node is None else machine.node.broker
            partition = None if broker is None else held_of(broker, key)
            if partition is not None:
                ends[node_id] = partition.log.log_end_offset
            elif machine.node is None and key in seen.partitions:
                ends[node_id] = seen.partitions[key].end
        return ends

    def _lacking(self, key: TopicIdPartition, replicas: Sequence[int]) -> list[int]:
        """Those of these replicas that lack something of what is committed, for another reason than a loss of power."""
        history, ends = self.history_of(key), self.ends_of(key)
        committed = history.log
        if history.is_lost:
            return []

        def lacks(node_id: int) -> bool:
            if node_id in ends:
                return ends[node_id] < committed.end
            seen = self._seen.get(node_id)
            kept = 0 if seen is None else seen.kept.get(key, 0)  # it is starting, and opens its logs soon
            return kept < len(committed.ends)

        return [replica for replica in replicas if replica not in self.lossy and lacks(replica)]
