"""The laws of disks and clocks that go wrong (`trouble.disks` says what is promised).

*Damage Is Found.* Bytes that rot on one disk stay there: no other replica appends a batch that fails its checksum, and
a start after a crash truncates the log at the first such batch that was not known to be synced. Consumers have a law of
their own. Both look at what Kafka looks at: a synced segment may rot unnoticed until it is read.

*A Failed Directory Is Offline.* A process that found its only log directory full does nothing more: it ends in the very
turn in which it learned of it.

*A Replaced Disk Is Not in Sync.* A broker that began again on another disk is in an ISR only with everything that is
committed, from its registration on: it was taken out, and came in when it had caught up.

*Clocks May Be Set.* What waits for a time waits by a clock that only goes on. The controller fences a broker that runs
only after its session has passed in silence; and deleted files go after their delay, not before it, nor much later.

Follows KIP-858, KIP-966, kafka.server.ReplicaManager and org.apache.kafka.controller.BrokerHeartbeatManager.
"""

from collections.abc import Callable, Iterator, Mapping

from pykraft.broker.broker import Broker
from pykraft.common.settings.topic_config import FILE_DELETE_DELAY_MS
from pykraft.common.types import TopicIdPartition
from pykraft.metadata.image import MetadataImage
from pykraft.records.batch import RecordBatch
from pykraft.sim.laws.invariants import CommittedLog, PartitionHistory, ReplicaLog, Violation, require
from pykraft.sim.world.hosts import SimulatedNode
from pykraft.sim.world.scheduler import US_PER_MS
from pykraft.storage.log import UnifiedLog

_REMEMBERED_MS = 2_000
"""A silence that long ago may still be why a broker is fenced: the record takes its time to be committed."""
_FOREVER = 1 << 60
_LATE_MS = 6_000
"""Deleted files may be there this much longer: the node looks for them once a second, or does nothing for a while."""


class ChecksummedLog(CommittedLog):
    """What is committed in a partition: each batch of each replica has its checksum."""

    def check_matching(self, replica: ReplicaLog, added: range) -> None:
        for index in added:
            batch = RecordBatch(memoryview(replica.data[index]))
            require(batch.is_valid, f"{replica.name} has appended {batch}, which fails its checksum")
        super().check_matching(replica, added)


class DiskLaws:
    """Looks at each node on which something has happened."""

    def __init__(
        self,
        nodes: Mapping[int, SimulatedNode],
        history_of: Callable[[TopicIdPartition], PartitionHistory],
        newest_image: Callable[[], MetadataImage | None],
        now: Callable[[], int],
    ) -> None:
        self._newest_image = newest_image
        self.others = OtherDisks(nodes, history_of, newest_image)
        self._sessions = Sessions(nodes, now)
        self._deleted = _DeletedFiles(now)
        for machine in nodes.values():
            machine.on_boot = _on_boot(machine)

    def look(self, machine: SimulatedNode) -> None:
        node = machine.node
        if node is None:
            return
        self._check_offline(machine)
        self._sessions.look(machine, self._newest_image())
        if node.broker is not None:
            self._deleted.look(machine, node.broker)
            self.others.look(machine.node_id, node.broker)

    def note_end(self, machine: SimulatedNode) -> None:
        """A life of this node is over."""
        self._deleted.forget(machine.node_id)

    @staticmethod
    def _check_offline(machine: SimulatedNode) -> None:
        require(
            not machine.filesystem.refusals,
            f"node {machine.node_id} goes on, though its only log directory was full at a write",
        )


class OtherDisks:
    """Brokers that have begun again on another disk."""

    def __init__(
        self,
        nodes: Mapping[int, SimulatedNode],
        history_of: Callable[[TopicIdPartition], PartitionHistory],
        newest_image: Callable[[], MetadataImage | None],
    ) -> None:
        self._nodes, self._history_of, self._newest_image = nodes, history_of, newest_image
        self.replaced: set[int] = set()
        """Their node ids."""

    def look(self, node_id: int, broker: Broker) -> None:
        if node_id in self.replaced:
            self._check_in_sync(node_id, broker)
        if self.replaced:
            self._check_joining(node_id, broker)

    def _check_in_sync(self, node_id: int, broker: Broker) -> None:
        image = self._newest_image()
        known = None if image is None else image.brokers.get(node_id)
        if image is None or known is None or known.epoch != broker.lifecycle.epoch:
            return  # it is not registered yet
        for place, partition in broker.replicas.partitions.items():
            decided = image.partition(partition.key.topic_id, place.partition)
            if decided is None or node_id not in decided.isr:
                continue
            history = self._history_of(partition.key)
            if not history.is_lost and partition.log.log_end_offset < history.log.end:
                raise Violation(
                    f"node {node_id} has another disk, where {place} ends at {partition.log.log_end_offset}; it is in "
                    f"the ISR {sorted(decided.isr)}, and {history.log.end} is committed"
                )

    def _check_joining(self, leader_id: int, leader: Broker) -> None:
        """What this leader asks the controller to take in."""
        for place, partition in leader.replicas.partitions.items():
            joining = partition.isr_state.wanted - partition.isr_state.isr if partition.is_leader else ()
            for node_id in self.replaced.intersection(joining):
                node = self._nodes[node_id].node
                held = None if node is None or node.broker is None else node.broker.replicas.partitions.get(place)
                end = None if held is None else held.log.log_end_offset
                require(
                    end is None or end >= partition.log.high_watermark,
                    f"node {leader_id} takes node {node_id} into the ISR of {place}, which ends at {end} on its other "
                    f"disk; {partition.log.high_watermark} is committed",
                )


# --- starts -----------------------------------------------------------------------------------------------------------


def _on_boot(machine: SimulatedNode) -> Callable[[], None]:
    def look() -> None:
        node, disk = machine.node, machine.filesystem
        broker = None if node is None or not disk.is_rotten else node.broker
        if broker is not None and broker.logs.previous_broker_epoch < 0:
            for log in broker.logs.logs.values():
                check_start(machine.node_id, log, disk.rotten)

    return look


def check_start(node_id: int, log: UnifiedLog, rotten: Callable[[str], tuple[int, ...]]) -> None:
    """After a crash nothing that is rotten is left in what was not known to be synced."""
    ends = [segment.base_offset for segment in log.segments[1:]]
    for segment, end in zip(log.segments, [*ends, _FOREVER], strict=True):
        if end > log.recovery_point:
            left = [position for position in rotten(segment.records.path) if position < segment.size]
            require(
                not left,
                f"{log.topic_partition} of node {node_id} has started after a crash with rotten bytes at {left} of "
                f"{segment.records.path}; its recovery point is {log.recovery_point}",
            )


# --- time -------------------------------------------------------------------------------------------------------------


class Sessions:
    """When the active controllers have heard of the brokers, and which of these are fenced."""

    def __init__(self, nodes: Mapping[int, SimulatedNode], now: Callable[[], int]) -> None:
        self._nodes, self._now = nodes, now
        self._heard: dict[tuple[int, int], int] = {}
        """By controller and broker: the last contact."""
        self._silent: dict[int, int] = {}
        """By broker: when a silence of a whole session was seen last."""
        self._image: MetadataImage | None = None

    def look(self, machine: SimulatedNode, image: MetadataImage | None) -> None:
        node = machine.node
        assert node is not None
        if node.controller is not None and node.raft.replica.quorum.is_leader:
            timeout_ms = node.controller.heartbeats.session_timeout_ms
            for broker_id, contact in node.controller.heartbeats.contacts.items():
                key = machine.node_id, broker_id
                before = self._heard.get(key)
                self._heard[key] = contact.last_contact
                if before is not None and contact.last_contact - before >= timeout_ms:
                    self._silent[broker_id] = self._now()
                if self._now() - contact.last_contact >= timeout_ms:
                    self._silent[broker_id] = self._now()
        if image is not None and image is not self._image:
            before_image, self._image = self._image, image
            if before_image is not None:
                self.check_fenced(before_image, image)

    def check_fenced(self, before: MetadataImage, image: MetadataImage) -> None:
        """No broker that runs is fenced unless its session was over, or it wanted to be."""
        for broker_id in self._fenced_early(before, image):
            raise Violation(f"broker {broker_id} is fenced, and was silent for a whole session at no time")

    def _fenced_early(self, before: MetadataImage, image: MetadataImage) -> Iterator[int]:
        for broker_id, known in image.brokers.items():
            was = before.brokers.get(broker_id)
            if was is None or was.epoch != known.epoch or was.fenced or not known.fenced or was.in_controlled_shutdown:
                continue
            node, is_stopping = self._nodes[broker_id].node, self._nodes[broker_id].is_stopping
            if node is None or node.broker is None or is_stopping or node.broker.lifecycle.epoch != known.epoch:
                continue
            silent_ms = self._silent.get(broker_id)
            if silent_ms is None or self._now() - silent_ms > _REMEMBERED_MS:
                yield broker_id


class _DeletedFiles:
    """When each file was deleted that is still there."""

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self._since: dict[tuple[int, str], tuple[int, int, int]] = {}
        """By node and path: when it was first seen, and how long it stays, at least and at most."""

    def forget(self, node_id: int) -> None:
        """The next process removes what is left at once."""
        self._since = {key: since for key, since in self._since.items() if key[0] != node_id}

    def look(self, machine: SimulatedNode, broker: Broker) -> None:
        doomed = [each for manager in broker.logs.online for each in manager.trash.doomed]
        if not doomed and not self._since:
            return
        left, now, node_id = {path for each in doomed for path in each.paths}, self._now(), machine.node_id
        for path in left:
            if (node_id, path) not in self._since:
                self._since[node_id, path] = (now, *_delays_of(broker, path))
        for key, (since, least_ms, most_ms) in list(self._since.items()):
            if key[0] != node_id:
                continue
            if key[1] not in left:
                self._since.pop(key)
                require(now - since >= least_ms, f"node {node_id} removes {key[1]} {now - since} ms after its deletion")
            else:
                was_stalled = machine.stalled_until_us // US_PER_MS + _LATE_MS > now
                is_late = now - since - most_ms > _LATE_MS and not was_stalled
                require(not is_late, f"node {node_id} keeps {key[1]}, which was deleted {now - since} ms ago")


def _delays_of(broker: Broker, path: str) -> tuple[int, int]:
    """How long what was deleted stays: by the settings of its log, or of one of them all, if the log is gone."""
    folder = path.split("/")[2]
    logs = {str(place): log for place, log in broker.logs.logs.items()}
    delays = [log.config[FILE_DELETE_DELAY_MS] for log in ([logs[folder]] if folder in logs else logs.values())]
    return min(delays, default=0), max(delays, default=_FOREVER)
