"""What Is Stale Is Refused: when a history has ended, each fence is tried.

A fence that is missing does harm only when something late comes: a commit of a member that was thrown out, a batch of a
producer that was replaced, an answer of a leader that leads no more. A history has few of those, so a fence can be
missing for a hundred of them. At the end of each there are groups, producers, transactions and partitions that have
come a long way, each with an epoch, a generation or a sequence number. The law makes the request that has one too few,
or one too many. It asks the part that has to refuse it for its plan: a plan changes nothing (`coordinator.result`), and
must be an error.

* *Groups.* An offset commit, also one of a transaction, with another epoch or generation than the member's, or of a
  member that there is not. Offsets of topics that members read are not deleted, and neither is a group with members.
* *Transactions.* To add partitions, to end or to verify, with an older epoch or another producer id; and to commit
  again what was aborted, or the reverse.
  Beside that *Time of a Transaction*: one that goes on gets no more time for that, and its id does not expire.
* *Producers.* A batch of an older epoch, one that leaves a gap, a new epoch that does not begin at 0. One that comes
  again is known as such. A marker of an older coordinator.
* *Partitions.* A request that believes in another leader epoch; a follower's fetch from a process that was replaced; a
  change of the ISR by another broker than the leader, of an older epoch, without the leader, with a process that was
  replaced or a broker that may not be in sync.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

from pykraft.broker.broker import Broker
from pykraft.broker.replication.partition import Partition
from pykraft.common.core import finish
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import TopicPartition
from pykraft.controller.cluster_control import ClusterControl
from pykraft.controller.partitions.replication_control import ReplicationControl
from pykraft.controller.producer_ids import allocate_producer_ids
from pykraft.coordinator.group.classic_groups.classic_group import ClassicGroup
from pykraft.coordinator.group.consumer_groups.consumer_group import ConsumerGroup
from pykraft.coordinator.group.shard import GroupShard
from pykraft.coordinator.transaction.ending import decide
from pykraft.coordinator.transaction.shard import Expected, TransactionShard
from pykraft.coordinator.transaction.state import (
    AT_REST,
    FIRST_WITH_EPOCH_BUMP,
    LARGEST_EPOCH,
    TransactionMetadata,
    TransactionState,
)
from pykraft.metadata.image import MetadataImage, PartitionRegistration
from pykraft.protocol.messages.brokers import AllocateProducerIdsRequest, AlterPartitionRequest
from pykraft.protocol.messages.offsets import OffsetCommitRequest, OffsetDeleteRequest
from pykraft.protocol.messages.records import ProducerIdsRecord
from pykraft.protocol.messages.transactions import TxnOffsetCommitRequest
from pykraft.records.batch import LARGEST_SEQUENCE, RecordBatch
from pykraft.records.builder import RecordBatchBuilder
from pykraft.records.markers import Marker, end_transaction_marker
from pykraft.sim.laws.foreign_names import is_foreign
from pykraft.sim.laws.invariants import require
from pykraft.sim.laws.replay_laws import COORDINATED
from pykraft.sim.world.hosts import SimulatedNode
from pykraft.storage.log import UnifiedLog
from pykraft.storage.producer_state import AppendOrigin, ProducerEntry

_COMMIT, _TRANSACTIONAL_COMMIT = 9, 5
"""The newest versions that name topics."""
_STRAY = "a-member-that-there-is-not"
_LARGEST_BATCH = 20
"""A batch of more records is not made again."""
_MOST = 8
"""So many producers of a log, partitions of a cluster and members of a group are tried."""
_NO_TOPIC = "no-such-topic"
Change = AlterPartitionRequest.Topic.Partition


def check_stale(machines: Mapping[int, SimulatedNode]) -> None:
    """Try all fences. The nodes have settled."""
    newest: MetadataImage | None = None
    for node_id, machine in machines.items():
        node = machine.node
        if node is None:
            continue
        if newest is None or node.loader.image.provenance.offset > newest.provenance.offset:
            newest = node.loader.image
        if node.broker is not None:
            _check_broker(f"node {node_id}", node.broker, machine.scheduler.now)
    assert newest is not None
    _check_isr_changes(newest)
    _check_brokers(newest)
    _check_block(newest)


def _check_broker(name: str, broker: Broker, now: int) -> None:
    for number in broker.groups.runtime.active_partitions():
        shard = broker.groups.runtime.active(number)
        for group_id, group in sorted(shard.groups.items()):
            if not is_foreign(group_id):
                _check_group(f"{name}, group {group_id}", shard, group_id, group)
    for number in broker.transactions.runtime.active_partitions():
        transactions = broker.transactions.runtime.active(number)
        for transactional_id, each in sorted(transactions.transactions.items()):
            if not is_foreign(transactional_id):
                _check_transaction(f"{name}, transactional id {transactional_id}", transactions, each, now)
    for place, partition in sorted(broker.replicas.partitions.items()):
        if partition.is_leader and not is_foreign(place.topic):
            _check_leader(f"{name}, {place}", partition, now)
            if place.topic not in COORDINATED:  # there a coordinator writes, and numbers no batch
                _check_repeated(f"{name}, {place}", partition.log)
            _check_markers(f"{name}, {place}", partition.log)


def _refuses(what: str, plan: Callable[..., Any], *arguments: Any) -> None:
    """The plan must be a KafkaError."""
    try:
        found = plan(*arguments)
    except KafkaError:
        return
    require(False, f"{what} is not refused: {found}")


# --- groups -----------------------------------------------------------------------------------------------------------


def _check_group(name: str, shard: GroupShard, group_id: str, group: Any) -> None:
    for member_id, epoch in _members_of(group)[:_MOST]:
        for stale in (epoch - 1, epoch + 1):
            if stale >= 0:
                _refuses_commit(f"{name}: member {member_id} has epoch {epoch}", shard, group_id, member_id, stale)
        _refuses_commit(f"{name} has no member {_STRAY}", shard, group_id, _STRAY, epoch)
    if group.is_empty:
        return
    deletion = shard.delete_groups([group_id])
    require(bool(deletion.response[0].error_code), f"{name} has members, and may be deleted: {deletion}")
    if read := _read_by(group):
        _check_no_deletion(name, shard, group_id, read)


def _read_by(group: Any) -> list[str]:
    """The topics that the members name, as far as that is known."""
    if isinstance(group, ConsumerGroup):
        return sorted(frozenset[str]().union(*(each.subscribed_topic_names for each in group.members.values())))
    return sorted(group.subscribed_topics or ()) if group.uses_consumer_protocol else []


def _members_of(group: Any) -> list[tuple[str, int]]:
    """The members that have joined, each with its epoch or generation."""
    if isinstance(group, ConsumerGroup):
        return [(key, each.member_epoch) for key, each in sorted(group.members.items()) if each.member_epoch > 0]
    return [(key, group.generation) for key in sorted(group.members)] if isinstance(group, ClassicGroup) else []


def _refuses_commit(name: str, shard: GroupShard, group_id: str, member_id: str, epoch: int) -> None:
    partition = OffsetCommitRequest.Topic.Partition(partition_index=0, committed_offset=0)
    request = OffsetCommitRequest(
        group_id=group_id,
        member_id=member_id,
        generation_id_or_member_epoch=epoch,
        topics=[OffsetCommitRequest.Topic(name=_NO_TOPIC, partitions=[partition])],
    )
    _refuses(f"{name}; its commit with epoch {epoch}", shard.commit, request, _COMMIT)
    in_transaction = TxnOffsetCommitRequest(
        transactional_id=_STRAY,
        group_id=group_id,
        producer_id=0,
        producer_epoch=0,
        member_id=member_id,
        generation_id_or_member_epoch=epoch,
        topics=[],
    )
    _refuses(
        f"{name}; its commit in a transaction with epoch {epoch}",
        shard.commit_transactional,
        in_transaction,
        _TRANSACTIONAL_COMMIT,
    )


def _check_no_deletion(name: str, shard: GroupShard, group_id: str, topics: Sequence[str]) -> None:
    topic_type = OffsetDeleteRequest.Topic
    parts = [topic_type(name=each, partitions=[topic_type.Partition(partition_index=0)]) for each in topics]
    deletion = shard.delete_offsets(OffsetDeleteRequest(group_id=group_id, topics=parts))
    codes = {part.error_code for topic in deletion.response.topics for part in topic.partitions}
    require(
        not deletion.records and codes == {ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC},
        f"{name} reads {topics}, and its offsets there may be deleted: {deletion}",
    )


# --- transactions -----------------------------------------------------------------------------------------------------


def _check_transaction(name: str, shard: TransactionShard, found: TransactionMetadata, now: int) -> None:
    key, producer_id, epoch = found.transactional_id, found.producer_id, found.producer_epoch
    version = found.client_transaction_version
    is_bumped = version >= FIRST_WITH_EPOCH_BUMP
    place = [TopicPartition(_NO_TOPIC, 0)]
    others = [Expected(producer_id + 1, epoch), Expected(producer_id, epoch + 1)]
    others += [Expected(producer_id, epoch - less) for less in (1, 2) if epoch >= less]
    for other in others:
        what = f"{name} has producer {producer_id}, epoch {epoch}"
        _refuses(f"{what}; to add {place} by {other}", shard.add_partitions, key, other, place, version)
        _refuses(f"{what}; to verify {place} by {other}", shard.verify_partitions, key, other, place)
        if other != Expected(producer_id, epoch - 1) or not is_bumped:
            for is_commit in (True, False):
                ending = f"{what}; to end by {other}, commit: {is_commit}"
                _refuses(ending, shard.end, key, other, is_commit, version, now)
    if not found.state.is_prepared:
        verdicts = shard.verify_partitions(key, Expected(producer_id, epoch), place).values() if epoch >= 0 else ()
        require(ErrorCode.NONE not in verdicts, f"{name} has not added {place}, and they pass as verified")
    _check_other_end(name, found)
    _check_times(name, shard, found, now)


def _check_other_end(name: str, found: TransactionMetadata) -> None:
    """What was committed is not aborted when the end is asked for again, nor the reverse; however it has ended here."""
    if found.state not in AT_REST:
        return
    for version, again in ((1, found.producer_epoch), (FIRST_WITH_EPOCH_BUMP, found.producer_epoch - 1)):
        for state in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT):
            is_commit = state is TransactionState.COMPLETE_ABORT
            if again >= 0:
                _refuses(
                    f"{name}: were it {state.title} in epoch {found.producer_epoch}, the other end, for which epoch "
                    f"{again} asks by the rules of transaction.version {version},",
                    decide,
                    replace(found, state=state),
                    found.producer_id,
                    again,
                    is_commit,
                    version,
                )


def _check_times(name: str, shard: TransactionShard, found: TransactionMetadata, now: int) -> None:
    """A transaction is as old as its first partition, and an id with a transaction does not expire, however old it is.
    Both are asked of a copy."""
    began = replace(found, state=TransactionState.ONGOING, start_ms=1, last_update_ms=1)
    after = began.add_partitions([TopicPartition(_NO_TOPIC, 0)], now, found.client_transaction_version)
    require(after.start_ms == 1, f"{name}: with one more partition its transaction begins at {after.start_ms} again")
    twin = copy(shard)
    for state in TransactionState:
        twin.transactions = {found.transactional_id: replace(began, state=state)}
        records = twin.expire().records
        require(
            bool(records) is (state in AT_REST),
            f"{name}: were it {state.title}, and unused for ever, {len(records)} records would let it expire",
        )


# --- producers --------------------------------------------------------------------------------------------------------


def _check_repeated(name: str, log: UnifiedLog) -> None:
    state = log.producer_state
    for producer_id, entry in sorted(state.producers.items())[:_MOST]:
        if entry.transaction_first_offset is not None or not entry.batches:
            continue
        what = f"{name} has of producer {producer_id} the epoch {entry.epoch} and the sequence {entry.last_sequence}"
        for epoch, sequence in _wrong_numbers(entry):
            batch = _batch(log, producer_id, epoch, sequence)
            _refuses(
                f"{what}; a batch with epoch {epoch} and sequence {sequence}",
                state.plan,
                [batch],
                AppendOrigin.CLIENT,
            )
        for known in entry.batches:
            if known.offset_delta < _LARGEST_BATCH:
                again = _batch(log, producer_id, entry.epoch, known.first_sequence, known.offset_delta + 1)
                found = state.duplicate_of(again)
                require(
                    found is not None and found.first_offset == known.first_offset,
                    f"{what}; the batch with sequence {known.first_sequence} comes again, and is taken for {found}",
                )


def _check_markers(name: str, log: UnifiedLog) -> None:
    """A coordinator that was replaced ends no transaction any more."""
    state = log.producer_state
    for producer_id, entry in sorted(state.producers.items())[:_MOST]:
        if entry.coordinator_epoch >= 0:
            earlier = Marker(False, entry.coordinator_epoch - 1)
            data = end_transaction_marker(producer_id, entry.epoch, earlier, entry.last_timestamp)
            batch = RecordBatch(memoryview(data))
            batch.assign(log.log_end_offset, 0)
            _refuses(
                f"{name} knows coordinator epoch {entry.coordinator_epoch} of producer {producer_id}; the {earlier}",
                state.plan,
                [batch],
                AppendOrigin.COORDINATOR,
            )


def _wrong_numbers(entry: ProducerEntry) -> Iterable[tuple[int, int]]:
    """Epochs and sequences that no batch may have now."""
    following = 0 if entry.last_sequence == LARGEST_SEQUENCE else entry.last_sequence + 1
    if entry.epoch > 0:
        yield entry.epoch - 1, 0
        yield entry.epoch - 1, following
    yield entry.epoch, (following + 1) & LARGEST_SEQUENCE
    if entry.epoch < LARGEST_EPOCH:
        yield entry.epoch + 1, 1


def _batch(log: UnifiedLog, producer_id: int, epoch: int, sequence: int, count: int = 1) -> RecordBatch:
    builder = RecordBatchBuilder(
        log.log_end_offset, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence
    )
    for _ in range(count):
        builder.append(0, b"", b"")
    return RecordBatch(memoryview(builder.build()))


# --- partitions -------------------------------------------------------------------------------------------------------


def _check_leader(name: str, partition: Partition, now: int) -> None:
    epoch = partition.leader_epoch
    for other in (epoch - 1, epoch + 1):
        if other >= 0:
            _refuses(
                f"{name} has leader epoch {epoch}; a request that believes in {other}",
                partition.check_leader,
                other,
            )
    for replica, follower in sorted(partition.followers.items()):
        if follower.broker_epoch > 0:
            earlier = follower.broker_epoch - 1
            _refuses(
                f"{name}: broker {replica} has epoch {follower.broker_epoch}; its fetch with {earlier}",
                partition.record_fetch,
                replica,
                follower.end_offset,
                earlier,
                now,
            )


def _check_isr_changes(image: MetadataImage) -> None:
    control = ReplicationControl(-1, {})
    named = [(topic, number) for _, topic in sorted(image.topics.items()) for number in sorted(topic.partitions)]
    for topic, number in named[:_MOST]:
        partition = topic.partitions[number]
        leader = partition.leader
        if not partition.has_leader or leader not in image.brokers:
            continue
        epochs = {each: image.brokers[each].epoch for each in partition.isr if each in image.brokers}
        others = sorted(image.brokers.keys() - partition.replicas)
        wanted = Change(
            partition_index=number, leader_epoch=partition.leader_epoch, partition_epoch=partition.partition_epoch
        )
        for what, sender, changed, isr, seen in _wrong_changes(image, partition, wanted, epochs, others):
            changed.new_isr_with_epochs = [
                Change.BrokerState(broker_id=each, broker_epoch=isr[each]) for each in sorted(isr)
            ]
            request = AlterPartitionRequest(
                broker_id=sender,
                topics=[AlterPartitionRequest.Topic(topic_id=topic.topic_id, partitions=[changed])],
            )
            result = finish(control.alter_partition(seen, request))
            answer = result.response.topics[0].partitions[0]
            require(
                bool(answer.error_code) and not result.records,
                f"{topic.name}-{number} is {partition}; a change of its ISR {what} is not refused: {result.records}",
            )


def _wrong_changes(
    image: MetadataImage,
    partition: PartitionRegistration,
    wanted: Change,
    epochs: Mapping[int, int],
    others: Sequence[int],
) -> Iterable[tuple[str, int, Change, dict[int, int], MetadataImage]]:
    """What is wrong, the sender, the change with its epochs, the ISR with those of the brokers, and the image."""
    leader, isr = partition.leader, dict(epochs)

    def change(leader_epoch: int = wanted.leader_epoch, partition_epoch: int = wanted.partition_epoch) -> Change:
        return Change(
            partition_index=wanted.partition_index, leader_epoch=leader_epoch, partition_epoch=partition_epoch
        )

    smallest = {leader: epochs[leader]} if leader in epochs else {}
    yield "with an older leader epoch", leader, change(leader_epoch=partition.leader_epoch - 1), smallest, image
    yield (
        "with an older partition epoch",
        leader,
        change(partition_epoch=partition.partition_epoch - 1),
        smallest,
        image,
    )
    yield "without the leader", leader, change(), {key: isr[key] for key in isr if key != leader}, image
    for each in [each for each in isr if each != leader][:1]:
        yield f"by broker {each}", each, change(), smallest, image
        yield f"with the process before of broker {each}", leader, change(), {**isr, each: isr[each] - 1}, image
        fenced = replace(image, brokers={**image.brokers, each: replace(image.brokers[each], fenced=True)})
        yield f"with broker {each}, which is fenced", leader, change(), isr, fenced
        stops = replace(image.brokers[each], in_controlled_shutdown=True)
        stopping = replace(image, brokers={**image.brokers, each: stops})
        yield f"with broker {each}, which is about to stop", leader, change(), isr, stopping
    for each in others[:1]:
        yield f"with broker {each}, no replica", leader, change(), {**isr, each: image.brokers[each].epoch}, image


def _check_brokers(image: MetadataImage) -> None:
    """A process that was replaced is refused."""
    for broker_id, broker in sorted(image.brokers.items()):
        for epoch in (broker.epoch - 1, broker.epoch + 1):
            _refuses(
                f"broker {broker_id} has epoch {broker.epoch}; a request with {epoch}",
                ClusterControl.checked,
                image,
                broker_id,
                epoch,
            )


def _check_block(image: MetadataImage) -> None:
    """No producer id is in two blocks."""
    broker_id = min(image.brokers)
    broker = image.brokers[broker_id]
    request = AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=broker.epoch)
    planned = allocate_producer_ids(image, request)
    block, (record, _) = planned.response, planned.records[0]
    assert isinstance(record, ProducerIdsRecord)
    require(
        image.next_producer_id <= block.producer_id_start
        and block.producer_id_start + block.producer_id_len <= record.next_producer_id,
        f"the producer ids from {image.next_producer_id} on are free; a block is {block}, and the next begins in it or "
        f"before it: {record}",
    )
