"""A reader's laws in the place of the simulator's: what a cluster shows of its partitions, event by event.

The laws of lab 25 are plugged into the watcher that looks at a simulated cluster after every event. They see one
partition at a time, as its live nodes know it: who leads, in which epoch, the ISR, every record, the high watermark. A
record's value is a hash of its batch, since equal is all that a law asks for.

What the watcher's own laws find is passed over, so that the history goes on and the reader's laws have their chance. A
client's law still ends it: that an acknowledged record is committed, for instance.
"""

from collections.abc import Iterator
from contextlib import nullcontext, suppress
from hashlib import blake2b
from typing import Any, NamedTuple

from pykraft.broker.replication.partition import Partition
from pykraft.common.trace import TraceEvent
from pykraft.common.types import TopicIdPartition
from pykraft.records.batch import batches
from pykraft.sim.bugs.planting import planted, put, put_back
from pykraft.sim.cluster import SimulatedCluster
from pykraft.sim.laws.invariants import Violation
from pykraft.sim.laws.watcher import Watcher
from pykraft.sim.report import SimulationFailed
from pykraft.sim.world.hosts import SimulatedNode
from pykraft.storage.answers import Isolation
from pykraft.storage.log import UnifiedLog

_KEPT = 12
"""So many of the last states of a partition are kept for the judge."""


class Watched(NamedTuple):
    """What a reader's laws said of one history."""

    step: int
    """The event after which they found something wrong; 0 if they found nothing."""
    words: str
    history: tuple[Any, ...]
    """The last states of the partition that broke the law; else of one of them."""


class _Log:
    """The records of one log, read as they come."""

    def __init__(self) -> None:
        self.records: list[tuple[int, str]] = []
        self._truncations = 0

    def follow(self, log: UnifiedLog) -> None:
        if log.truncations != self._truncations or log.log_end_offset < len(self.records):
            self._truncations = log.truncations
            self.records.clear()
        while len(self.records) < log.log_end_offset:
            region = log.read(len(self.records), 1 << 20, Isolation.LOG_END, at_least_one=True).records
            data = region if isinstance(region, bytes) else region.read(0, len(region))
            for batch in batches(memoryview(data)):
                digest = blake2b(bytes(batch.buffer), digest_size=6).hexdigest()
                count = batch.next_offset - len(self.records)
                self.records += [(batch.partition_leader_epoch, digest)] * count


class _Observer:
    """Looks at one cluster with a reader's laws."""

    def __init__(self, work: Any) -> None:
        self._work = work
        self._logs: dict[tuple[int, int, TopicIdPartition], _Log] = {}
        self._seen: dict[tuple[int, TopicIdPartition], tuple[object, ...]] = {}
        self._committed: dict[TopicIdPartition, tuple[tuple[int, int], Any]] = {}
        """The state in which the newest leader had committed most."""
        self.histories: dict[TopicIdPartition, list[Any]] = {}
        self.error: Exception | None = None
        """Of the reader's laws."""
        self.words = ""
        self.where: TopicIdPartition | None = None

    def look(self, nodes: dict[int, SimulatedNode], machine: SimulatedNode) -> None:
        """Show what has changed on a node to the laws."""
        for key, partition in _partitions(machine):
            log = partition.log
            now = (machine.life, log.truncations, log.log_end_offset, log.high_watermark, *_leadership(partition))
            if self._seen.get((machine.node_id, key)) != now and not log.log_start_offset and not self.words:
                self._seen[machine.node_id, key] = now
                try:
                    self._judge(key, self._state(nodes, key))
                except Exception as error:
                    self.error = error
                    raise

    def _state(self, nodes: dict[int, SimulatedNode], key: TopicIdPartition) -> Any:
        return tuple(
            self._replica(machine, key, partition)
            for machine in nodes.values()
            for other, partition in _partitions(machine)
            if other == key
        )

    def _replica(self, machine: SimulatedNode, key: TopicIdPartition, partition: Partition) -> Any:
        log = self._logs.setdefault((machine.node_id, machine.life, key), _Log())
        log.follow(partition.log)
        leads, epoch, isr = _leadership(partition)
        records = tuple(self._work.Record(*record) for record in log.records)
        return self._work.Replica(machine.node_id, leads, epoch, isr, records, partition.log.high_watermark)

    def _judge(self, key: TopicIdPartition, state: Any) -> None:
        work, known = self._work, self._committed.get(key)
        words = work.high_watermark(state) or work.log_matching(state)
        if not words and known is not None:
            words = work.committed_stays(known[1], state)
        kept = self.histories.setdefault(key, [] if known is None else [known[1]])
        kept.append(state)
        del kept[1 : max(1, len(kept) - _KEPT)]
        most = max(((each.epoch, each.high_watermark) for each in state if each.leads), default=(-1, 0))
        if known is None or most > known[0]:
            self._committed[key] = most, state
        if words:
            self.words, self.where = str(words), key


def watch(work: Any, seed: int, bug: str = "", most_steps: int = 5_000) -> Watched:
    """The history of a seed as the laws of `work` see it, under a bug or without one. An error of theirs is raised."""
    observer = _Observer(work)
    look, on_trace = Watcher.look, Watcher.on_trace

    def look_first(self: Watcher, machine: SimulatedNode) -> None:
        observer.look(self._nodes, machine)
        with suppress(Violation):
            look(self, machine)

    def pass_over(self: Watcher, event: TraceEvent) -> None:
        with suppress(Violation):
            on_trace(self, event)

    with planted(bug) if bug else nullcontext(), put_back():
        put(Watcher, "look", look_first)
        put(Watcher, "on_trace", pass_over)
        cluster = SimulatedCluster(seed)
        cluster.begin()
        try:
            while not cluster.is_settled and cluster.scheduler.steps < most_steps and not observer.words:
                cluster.step()
        except SimulationFailed:
            if observer.error is not None:
                raise observer.error from None
            for machine in cluster.nodes.values():
                observer.look(cluster.nodes, machine)
    histories = observer.histories
    shown = histories.get(observer.where) if observer.where else next(iter(histories.values()), [])
    return Watched(cluster.scheduler.steps if observer.words else 0, observer.words, tuple(shown or ()))


def _partitions(machine: SimulatedNode) -> Iterator[tuple[TopicIdPartition, Partition]]:
    if machine.node is not None and machine.node.broker is not None:
        for partition in machine.node.broker.replicas.partitions.values():
            yield partition.key, partition


def _leadership(partition: Partition) -> tuple[bool, int, frozenset[int]]:
    is_leader = partition.is_leader
    return is_leader, partition.leader_epoch, partition.isr_state.isr if is_leader else frozenset()
