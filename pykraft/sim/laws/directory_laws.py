"""The laws of brokers with several log directories (`trouble.directories` says what befalls them).

*A Failed Directory Takes Its Own.* A broker goes on while it has the metadata log's directory and another one: it does
not end, and is not fenced unless it was silent. What is in its other directories is served on, within a bound of time.

*Others Lead What Has Failed.* Within a bound of time the controller has heard of the directory: it is not among those
of the broker any more, and the broker leads nothing of what was there. Where another member of the ISR can lead, it
does. The bounds count only while nothing else keeps the cluster from it (`Quiet`).

*A Moved Replica Is Whole.* The copy of a log that moves is always a beginning of that log, also when the log was just
truncated. It takes the place of the log once it has everything; from then on there is one log, in one directory.

*Nothing of a Failed Directory.* What was in a directory that has failed is not served, until the broker has begun again
with it; nor is it made again in another directory, where it would begin empty.

*Directories Are Known.* In the end the metadata name the directories that each broker has, and the one in which each
replica is.

And a replica whose directory was replaced is in an ISR only with everything that is committed: `disk_laws.OtherDisks`.

Follows KIP-112, KIP-113 and KIP-858.
"""

from collections.abc import Callable, Mapping

from pykraft.broker.broker import Broker
from pykraft.broker.replication.partition import Partition
from pykraft.common.types import (
    LOST_DIRECTORY,
    MIGRATING_DIRECTORY,
    UNASSIGNED_DIRECTORY,
    TopicIdPartition,
    TopicPartition,
    Uuid,
)
from pykraft.metadata.image import MetadataImage, PartitionRegistration
from pykraft.sim.laws.disk_laws import OtherDisks, Sessions
from pykraft.sim.laws.invariants import PartitionHistory, ReplicaLog, Violation, require
from pykraft.sim.laws.progress import Progress
from pykraft.sim.world.disk import is_below
from pykraft.sim.world.hosts import SimulatedNode

BOUND_MS = 1_200
"""Of quiet time: by then a failed directory has no leader any more."""
_WITHOUT_PLACE = frozenset({UNASSIGNED_DIRECTORY, MIGRATING_DIRECTORY, LOST_DIRECTORY})


class DirectoryLaws:
    """Looks at each node on which something has happened."""

    def __init__(
        self,
        nodes: Mapping[int, SimulatedNode],
        history_of: Callable[[TopicIdPartition], PartitionHistory],
        newest_image: Callable[[], MetadataImage | None],
        seen: Callable[[int, TopicIdPartition], ReplicaLog | None],
        now: Callable[[], int],
        progress: Progress,
    ) -> None:
        """`seen` gives the log of a node's replica as it was seen last."""
        self._nodes, self._newest_image, self._seen, self._progress = nodes, newest_image, seen, progress
        self.others = OtherDisks(nodes, history_of, newest_image)
        self.quiet = Quiet(now)
        self._sessions = Fences(nodes, now)
        self._copies: dict[tuple[int, int, TopicPartition], ReplicaLog] = {}
        """By node, life and partition: what was seen of a copy that is on its way."""
        self._moving: dict[int, list[tuple[str, str]]] = {}
        """By node: the directories that replicas move from and to."""
        self._served: dict[int, tuple[int, set[TopicIdPartition]]] = {}
        """By node: its life, and which replicas it has served in it."""
        self._failed: dict[int, dict[str, int]] = {}
        """By node: the directories that this process does without, and since when, on the clock of `Quiet`."""

    def look(self, machine: SimulatedNode) -> None:
        node = machine.node
        if node is None:
            return
        self._sessions.look(machine, self._newest_image())
        broker, node_id = node.broker, machine.node_id
        if broker is None or not broker.is_open:
            return
        self.others.look(node_id, broker)
        self._check_places(machine, broker)
        if broker.moves.moves:
            self._check_copies(machine, broker)
        if broker.logs.failures:
            known = self._failed.setdefault(node_id, {})
            for directory in sorted(broker.logs.failures.keys() - known.keys()):
                known[directory] = self.quiet.ms
                self._progress.moves_cut += sum(directory in paths for paths in self._moving.get(node_id, ()))
            self._check_served(node_id, broker)
        self._moving[node_id] = [
            (move.target.directory, _directory_of(broker, place)) for place, move in broker.moves.moves.items()
        ]
        self.quiet.look(self._failed)
        self._check_leaders()

    # --- one failed directory -----------------------------------------------------------------------------------------

    def note_end(self, machine: SimulatedNode) -> None:
        """A life of this node is over."""
        self._failed.pop(machine.node_id, None)
        if machine.died_of_its_disk and machine.config.is_broker:
            config, failed = machine.config, machine.filesystem.failed_folders
            require(
                config.metadata_dir in failed or failed >= set(config.log_dirs),
                f"node {machine.node_id} has ended, and only {', '.join(sorted(failed))} of {config.log_dirs} has "
                f"failed; its metadata log is in {config.metadata_dir}",
            )

    def _check_places(self, machine: SimulatedNode, broker: Broker) -> None:
        """What is served is in a directory that works; where one does not, nothing of it was made elsewhere."""
        assert machine.node is not None
        logs, image, node_id = broker.logs, machine.node.loader.image, machine.node_id
        life, served = self._served.get(node_id, (-1, set()))
        if life != machine.life:
            served = set()
            self._served[node_id] = machine.life, served
        for place, partition in broker.replicas.partitions.items():
            path, is_new = partition.log.directory, partition.key not in served
            served.add(partition.key)
            if not logs.failures:
                continue
            if any(is_below(path, directory) for directory in logs.failures):
                if not broker.replicas.offline.is_due:
                    raise Violation(f"node {node_id} serves {place} from {path}, whose directory has failed")
                continue
            decided = image.partition(partition.key.topic_id, place.partition)
            known = UNASSIGNED_DIRECTORY if decided is None else decided.directory_of(node_id)
            is_new = is_new and partition.log.log_end_offset == 0
            if is_new and known not in _WITHOUT_PLACE and known not in logs.online_ids:
                raise Violation(
                    f"node {node_id} has made {place} in {path}, and the metadata place it in {known}, which is "
                    f"not online there: {', '.join(sorted(logs.failures))} has failed"
                )

    def _check_served(self, node_id: int, broker: Broker) -> None:
        """What the metadata place in the other directories is served."""
        image = self._newest_image()
        waited_ms = min(self.quiet.ms - since for since in self._failed[node_id].values())
        if image is None or waited_ms < BOUND_MS:
            return
        online = set(broker.logs.online_ids)
        for place, partition in _replicas_of(image, node_id):
            held = broker.replicas.partitions.get(place)
            if partition.directory_of(node_id) in online and (held is None or not _is_as(held, partition, node_id)):
                raise Violation(
                    f"node {node_id} does without {', '.join(sorted(broker.logs.failures))} for {waited_ms} ms, and "
                    f"does not serve {place}, which is in another directory"
                )

    def _check_leaders(self) -> None:
        """Nothing has failed for long and is still led from there."""
        image = self._newest_image()
        for node_id, failed in self._failed.items():
            node = self._nodes[node_id].node
            waited_ms = max((self.quiet.ms - since for since in failed.values()), default=0)
            if waited_ms < BOUND_MS or image is None or node is None or node.broker is None:
                continue
            logs = node.broker.logs
            gone = {logs.ids[path] for path, since in failed.items() if self.quiet.ms - since >= BOUND_MS} & set(
                logs.ids.values()
            )
            known = image.brokers.get(node_id)
            require(
                known is None or known.epoch != node.broker.lifecycle.epoch or gone.isdisjoint(known.directories),
                f"directories {sorted(map(str, gone))} of broker {node_id} have failed for {waited_ms} ms, and the "
                f"controller does not know: it has {sorted(map(str, known.directories)) if known else ()}",
            )
            for place, partition in _replicas_of(image, node_id):
                if partition.directory_of(node_id) in gone:
                    self._check_leader(image, node_id, place, partition, waited_ms)

    @staticmethod
    def _check_leader(
        image: MetadataImage, node_id: int, place: TopicPartition, partition: PartitionRegistration, waited_ms: int
    ) -> None:
        require(
            partition.leader != node_id,
            f"broker {node_id} leads {place}, whose directory there has failed for {waited_ms} ms",
        )
        able = [each for each in partition.isr if image.is_active(each) and image.is_online(each, partition)]
        require(
            partition.has_leader or not able,
            f"{place} has no leader for {waited_ms} ms since its directory on broker {node_id} failed, and {able} of "
            f"its ISR can lead",
        )

    # --- moves --------------------------------------------------------------------------------------------------------

    def _check_copies(self, machine: SimulatedNode, broker: Broker) -> None:
        """Each copy is a beginning of its log."""
        for place, move in broker.moves.moves.items():
            log = self._seen(machine.node_id, move.key)
            if place not in broker.replicas.partitions or log is None or move.future.is_closed:
                continue
            key = machine.node_id, machine.life, place
            copy = self._copies.get(key)
            if copy is None or copy.source is not move.future:
                copy = self._copies[key] = ReplicaLog(f"the copy of {log.name}")
            copy.follow(move.future)
            self._require_beginning(copy, log)

    def _require_beginning(self, copy: ReplicaLog, log: ReplicaLog) -> None:
        count = len(copy.hashes)
        require(
            count <= len(log.hashes) and (not count or copy.hashes[-1] == log.hashes[count - 1]),
            f"{copy.name}, which moves, ends at {copy.end} in epoch {copy.epochs[-1] if copy.epochs else 0}: that is "
            f"no beginning of the log, which ends at {log.end}",
        )

    def on_moved(self, machine: SimulatedNode, partition: Partition) -> None:
        """A copy has taken the place of its log."""
        assert machine.node is not None and machine.node.broker is not None
        self._progress.directory_moves += 1
        place, before = partition.topic_partition, self._seen(machine.node_id, partition.key)
        self._copies.pop((machine.node_id, machine.life, place), None)
        now = ReplicaLog(f"{place} of node {machine.node_id}, moved to {partition.log.directory},")
        now.follow(partition.log)
        if before is not None:
            count = len(before.hashes)
            require(
                len(now.hashes) >= count and now.hashes[:count] == before.hashes,
                f"{now.name} ends at {now.end}, and is not what it was before it moved, up to {before.end}",
            )
        disk, logs = machine.filesystem, machine.node.broker.logs
        paths = [each for each in logs.paths if each not in logs.failures and each not in disk.failed_folders]
        there = [path for path in paths if disk.exists(f"{path}/{place}")]
        require(len(there) < 2, f"node {machine.node_id} has moved {place}, and has a log of it in {there}")

    # --- in the end ---------------------------------------------------------------------------------------------------

    def missing(self, image: MetadataImage, brokers: Mapping[int, Broker]) -> str | None:
        """What the metadata say otherwise of directories than it is."""
        for node_id, broker in brokers.items():
            known = image.brokers[node_id].directories
            if sorted(known) != sorted(broker.logs.online_ids):
                return f"broker {node_id} has other directories than the controller knows: {sorted(map(str, known))}"
            if broker.moves.moves:
                place, move = next(iter(broker.moves.moves.items()))
                return f"the move of {place} of broker {node_id} to {move.target.directory} is {move.state.value}"
            for place, partition in broker.replicas.partitions.items():
                decided = image.partition(partition.key.topic_id, place.partition)
                named, held = decided and decided.directory_of(node_id), broker.logs.id_of(place)
                if named != held:
                    return f"broker {node_id} has {place} in {_path_of(broker, held)}, the metadata in {named}"
        return None

    def check_end(self, image: MetadataImage, brokers: Mapping[int, Broker]) -> None:
        """All is known."""
        if (why := self.missing(image, brokers)) is not None:
            raise Violation(why)


class Fences(Sessions):
    """The same for brokers that do without a directory: that is no silence."""

    def check_fenced(self, before: MetadataImage, image: MetadataImage) -> None:
        for broker_id in self._fenced_early(before, image):
            raise Violation(f"broker {broker_id} is fenced, and runs: it was silent for a whole session at no time")


class Quiet:
    """A clock that goes on only while nothing but a broken disk is wrong, and some disk is."""

    def __init__(self, now: Callable[[], int]) -> None:
        self.is_quiet: Callable[[], bool] = lambda: False
        """Whether it goes on now, if a disk has broken."""
        self._now = now
        self._looked_at = 0
        self._was_quiet = False
        self.ms = 0

    def look(self, failed: Mapping[int, Mapping[str, int]]) -> None:
        now = self._now()
        if now == self._looked_at:
            return
        is_quiet = any(failed.values()) and self.is_quiet()
        if is_quiet and self._was_quiet:
            self.ms += now - self._looked_at
        self._was_quiet, self._looked_at = is_quiet, now


def _replicas_of(image: MetadataImage, node_id: int) -> list[tuple[TopicPartition, PartitionRegistration]]:
    """Those that this broker should have."""
    return [
        (TopicPartition(topic.name, number), partition)
        for topic in image.topics.values()
        for number, partition in topic.partitions.items()
        if node_id in partition.replicas
    ]


def _is_as(held: Partition, decided: PartitionRegistration, node_id: int) -> bool:
    """Whether the replica leads if it should."""
    return decided.leader != node_id or (held.is_leader and held.leader_epoch == decided.leader_epoch)


def _directory_of(broker: Broker, place: TopicPartition) -> str:
    partition = broker.replicas.partitions.get(place)
    return "" if partition is None else partition.log.directory.rpartition("/")[0]


def _path_of(broker: Broker, directory: Uuid | None) -> str:
    return next((path for path, known in broker.logs.ids.items() if known == directory), "no directory")
