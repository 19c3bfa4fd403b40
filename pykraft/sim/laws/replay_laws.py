"""What a node keeps in memory of its logs is what a fresh replay of them gives.

From a partition's batches follow its *producers* (epochs, sequences, open transactions), its list of aborted
transactions and, in the topics of the coordinators, a *shard*. A node keeps all these up to date batch by batch. Two
events put that at risk: a truncation, after which the producers go back to a snapshot and on from there, and a start,
which trusts a snapshot, too. So the laws are:

* After each truncation, and when a log is first seen in a life of its node, the producers and the aborted transactions
  are those that a replay of the whole log gives. The same holds of every log at the end of a run.
* A node that truncates the log of a coordinator has no active shard of it. The shards of that partition on other nodes
  are what a replay of the logs there gives, and of what they have decided and not written yet. So a shard that is
  loaded again is the one that was there before. What readers of groups see is a replay up to the high watermark. The
  shards of groups are compared now and then besides.

A restored producer may know fewer of its last batches than the replay: a snapshot keeps only the last one. For that
batch's timestamp it has the producer's, which may be a marker's. The first unstable offset may be later than the
replay's, up to the first open transaction: a snapshot does not say which markers before it are above the high
watermark. Kafka has the same gaps. No reader sees wrong data, for the coordinator writes a marker that is lost again.

*Verifications* are not compared. No record holds them. A truncation keeps them: the batches that end a verification
come again.

Follows org.apache.kafka.storage.internals.log.ProducerStateManager (KIP-98), and the way coordinators load.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from pykraft.broker.coordination.coordinators import GROUP_TOPIC, GroupCoordinator, InternalLog
from pykraft.broker.coordination.transactions import TransactionCoordinator
from pykraft.common.core import Promise
from pykraft.common.timer import Timer
from pykraft.common.types import TopicPartition
from pykraft.coordinator.group.shard import GroupShard
from pykraft.coordinator.replay import replay
from pykraft.coordinator.shard_timer import ShardTimer
from pykraft.coordinator.transaction.config import TRANSACTION_TOPIC
from pykraft.coordinator.transaction.shard import TransactionShard
from pykraft.coordinator.transaction.state import TransactionMetadata, record_of
from pykraft.protocol.messages.coordinators import GROUP_RECORDS, TRANSACTION_RECORDS
from pykraft.protocol.messages.transactions import NO_PRODUCER_ID
from pykraft.records.batch import RecordBatch
from pykraft.sim.laws.foreign_names import is_foreign
from pykraft.sim.laws.invariants import require
from pykraft.sim.world.disk import MemoryFileSystem
from pykraft.sim.world.hosts import SimulatedNode
from pykraft.storage.log import UnifiedLog
from pykraft.storage.producer_state import ProducerEntry, ProducerStateManager
from pykraft.storage.transaction_index import AbortedTransaction

_NEVER = 1 << 62
"""No time and no offset comes so late."""
_LATEST_VERSION = 2
"""Of transaction.version: its records hold most."""
_LOOKS = 200
"""The shards of groups are compared once in so many looks at a node."""
COORDINATED = (GROUP_TOPIC, TRANSACTION_TOPIC)


# --- producers --------------------------------------------------------------------------------------------------------


def check_producers(name: str, log: UnifiedLog, found: Iterable[RecordBatch]) -> None:
    """What a replica knows of its producers is what its log says, which has these batches."""
    replayed = ProducerStateManager(MemoryFileSystem(), "", _NEVER)
    aborted = []
    for batch in found:
        for ended in replayed.replay(batch):
            if ended.aborted:
                left = [each.transaction_first_offset for each in replayed.producers.values()]
                stable = min((offset for offset in left if offset is not None), default=ended.last_offset + 1)
                aborted.append(AbortedTransaction(ended.producer_id, ended.first_offset, ended.last_offset, stable))
    replayed.on_high_watermark(log.high_watermark)
    state = log.producer_state
    known, expected = sorted(state.producers), sorted(replayed.producers)
    require(known == expected, f"{name} knows the producers {known}; its log has {expected}")
    for producer_id, entry in replayed.producers.items():
        _check_entry(f"{name}: producer {producer_id}", state.producers[producer_id], entry)
    listed = [each for segment in log.segments for each in segment.transaction_index.entries]
    require(listed == aborted, f"{name} lists the aborted transactions {listed}; its log has {aborted}")
    started = [each.transaction_first_offset for each in replayed.producers.values()]
    first_open = min((offset for offset in started if offset is not None), default=_NEVER)
    first_unstable = _or_never(replayed.first_unstable_offset)
    unstable = _or_never(state.first_unstable_offset)
    require(
        first_unstable <= unstable <= first_open,
        f"{name} is unstable from {unstable} on; its log from {first_unstable} on, and open from {first_open} on",
    )


def check_epochs(name: str, log: UnifiedLog, ends: Sequence[int], epochs: Sequence[int]) -> None:
    """A log that was truncated knows the epochs of the batches that it has left, where each begins, and no others.
    `ends` is where each batch ends, `epochs` its leader epoch. One that knows of an epoch which it has no record of
    any more tells its leader so, and is never told where the two logs part."""
    found = [(0, epochs[0])] if epochs else []
    found += [(ends[n - 1], epochs[n]) for n in range(1, len(epochs)) if epochs[n] != epochs[n - 1]]
    known = [(entry.start_offset, entry.epoch) for entry in log.epochs.entries]
    require(
        known == found,
        f"{name} was truncated to {log.log_end_offset}, and knows the epochs {known} (first offset, epoch); its log "
        f"has {found}",
    )


def _places(entry: ProducerEntry) -> list[tuple[int, int, int]]:
    return [(batch.last_sequence, batch.last_offset, batch.offset_delta) for batch in entry.batches]


def _or_never(offset: int | None) -> int:
    return _NEVER if offset is None else offset


def _check_entry(name: str, known: ProducerEntry, replayed: ProducerEntry) -> None:
    for what, ours, theirs in (
        ("epoch", known.epoch, replayed.epoch),
        ("last batches", _places(known), _places(replayed)[len(replayed.batches) - len(known.batches) :]),
        ("last sequence", known.last_sequence, replayed.last_sequence),
        ("coordinator epoch", known.coordinator_epoch, replayed.coordinator_epoch),
        ("last timestamp", known.last_timestamp, replayed.last_timestamp),
        ("open transaction", known.transaction_first_offset, replayed.transaction_first_offset),
    ):
        require(ours == theirs, f"{name} has {what} {ours}; its log says {theirs}")


# --- shards -----------------------------------------------------------------------------------------------------------


def check_shards(machines: Iterable[SimulatedNode], topic: str, number: int) -> None:
    """The shards of this partition, on whatever nodes, are what a replay of the logs there gives."""
    for machine in machines:
        coordinator = _coordinator(machine, topic)
        if coordinator is None or number not in coordinator.runtime.active_partitions():
            continue
        if not has_log(machine, TopicPartition(topic, number)):
            continue
        log = _log_of(machine, topic)
        check_shard(machine, topic, number, log.batches(number))
        if isinstance(coordinator, GroupCoordinator):
            _check_view(machine.name, coordinator, number, log)


def check_shard(machine: SimulatedNode, topic: str, number: int, found: Iterable[RecordBatch]) -> None:
    """The shard of this partition on this node, if there is one, is what a replay of these batches gives."""
    coordinator = _coordinator(machine, topic)
    if coordinator is None or number not in coordinator.runtime.active_partitions():
        return
    fresh = coordinator.make_shard(number, ShardTimer(Timer(), _refuse))
    for _ in replay(fresh, GROUP_RECORDS if topic == GROUP_TOPIC else TRANSACTION_RECORDS, found):
        """A shard is quiet while it is loaded."""
    for change in coordinator.runtime.unwritten(number):
        change.apply(fresh)
    known, expected = _kept(coordinator.runtime.active(number)), _kept(fresh)
    require(known == expected, f"the shard of {topic}-{number} on {machine.name} has {known}; its log {expected}")


def has_log(machine: SimulatedNode, place: TopicPartition) -> bool:
    """Whether the node can read this log. One whose directory has failed it cannot, and what it coordinates there it
    gives up when it hears of the next leader."""
    broker = None if machine.node is None else machine.node.broker
    if broker is None or not broker.logs.failures:
        return broker is not None
    partition = broker.replicas.partitions.get(place)
    return partition is not None and not partition.log.is_closed


def _log_of(machine: SimulatedNode, topic: str) -> InternalLog:
    assert machine.node is not None and machine.node.broker is not None
    return InternalLog(topic, machine.node.broker.replicas, machine)


class GroupShardChecks:
    """Compares the shards of groups now and then, at times that do not depend on what a node does."""

    def __init__(self) -> None:
        self._looks = 0

    def look(self, machine: SimulatedNode, active: Iterable[int]) -> None:
        """Compare these shards of a node, if it is time."""
        self._looks += 1
        if self._looks % _LOOKS == 0:
            for number in active:
                check_shards([machine], GROUP_TOPIC, number)


def _check_view(name: str, coordinator: GroupCoordinator, number: int, log: InternalLog) -> None:
    """What readers see is what a replay up to the high watermark gives."""
    view, high_watermark = coordinator.runtime.view(number), log.high_watermark(number)
    view.catch_up(high_watermark, in_turn=False)
    fresh = coordinator.make_shard(number, ShardTimer(Timer(), _refuse))
    committed = (batch for batch in log.batches(number) if batch.next_offset <= high_watermark)
    for _ in replay(fresh, GROUP_RECORDS, committed):
        """A shard is quiet while it is loaded."""
    known, expected = _kept(view.shard), _kept(fresh)
    require(known == expected, f"readers of {GROUP_TOPIC}-{number} on {name} see {known}; committed is {expected}")


def check_no_shard(machine: SimulatedNode, topic: str, number: int) -> None:
    """A node whose log was truncated follows another leader: it coordinates nothing there."""
    coordinator = _coordinator(machine, topic)
    require(
        coordinator is None or number not in coordinator.runtime.active_partitions(),
        f"{machine.name} has truncated {topic}-{number}, and has an active shard of it",
    )


def _coordinator(machine: SimulatedNode, topic: str) -> GroupCoordinator | TransactionCoordinator | None:
    broker = None if machine.node is None else machine.node.broker
    if broker is None:
        return None
    return broker.groups if topic == GROUP_TOPIC else broker.transactions


def _refuse(plan: object, now: int) -> Promise[Any]:
    raise AssertionError("a shard that is only compared writes")


def _of_transaction(metadata: TransactionMetadata) -> Any:
    """What records hold of it. Those of transaction.version 0 have no previous id, which says something only where it
    is another one than the present id."""
    has_moved = metadata.previous_producer_id != metadata.producer_id
    known = metadata if has_moved else replace(metadata, previous_producer_id=NO_PRODUCER_ID)
    return record_of(known, _LATEST_VERSION).value


def _kept(shard: Any) -> dict[str, Any]:
    """What a shard knows that records hold. Of a group those are also its members, but as its protocol has them."""
    if isinstance(shard, TransactionShard):
        known = sorted(shard.transactions.items())
        return {name: _of_transaction(each) for name, each in known if not is_foreign(name)}
    assert isinstance(shard, GroupShard)
    offsets = shard.offsets
    return {
        name: [
            (place, committed and committed[:3], offsets.is_unstable(name, place))
            for place in offsets.places_of(name)
            for committed in [offsets.of(name).get(place)]
        ]
        for name in offsets.groups()
        if not is_foreign(name)
    }
