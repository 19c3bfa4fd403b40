"""True Answers: when a history has ended, the nodes are asked what they hold, and must answer what is there.

Most clients of a history write and read. Few ask. A broker that looks a timestamp up in the wrong segment loses no
record, so no other law sees it. So the nodes are asked at the end, when nothing changes any more: by requests to their
dispatcher, without a network, so that no history changes for that. Each answer is held against a plain reading of the
log, the image or the shard that it is about. The questions:

* *ListOffsets*: where a log begins and ends, for both isolation levels; the first record that is at least as young as a
  timestamp, and the youngest.
* *OffsetForLeaderEpoch*: where each epoch ends. A wrong answer makes consumers skip records, or read some twice.
* *DescribeProducers*, *DescribeTransactions*, *ListTransactions*: what an administrator looks for hanging transactions
  with.
* *Metadata*: leader, epoch, replicas and ISR of each partition.
* *DescribeConfigs*: the settings that were given to a topic.
* *FindCoordinator*: the node that has the group, or the transactional id.

While trouble lasts, one leader now and then is asked where a log ends: then transactions are open, and the two
isolation levels have two answers.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import GeneratorType
from typing import Any

from pykraft.broker.broker import Broker
from pykraft.broker.coordination.coordinators import GroupCoordinator
from pykraft.broker.coordination.transactions import TransactionCoordinator
from pykraft.broker.node import Node
from pykraft.broker.replication.partition import Partition
from pykraft.broker.requests.long_answers import Long
from pykraft.broker.turns.slices import ItemByItem
from pykraft.common.core import Promise, finish
from pykraft.common.errors import KafkaError
from pykraft.common.settings.topic_config import CLEANUP_POLICY
from pykraft.common.types import TopicPartition, by_topic
from pykraft.metadata.image import TOPIC_RESOURCE
from pykraft.protocol.listeners import ListenerKind
from pykraft.protocol.messages.cluster import FindCoordinatorRequest, MetadataRequest
from pykraft.protocol.messages.configs import DescribeConfigsRequest
from pykraft.protocol.messages.data import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    ListOffsetsRequest,
    OffsetForLeaderEpochRequest,
)
from pykraft.protocol.messages.transactions import (
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    ListTransactionsRequest,
)
from pykraft.protocol.schema import Request, Response
from pykraft.records.batch import RecordBatch, batches
from pykraft.sim.laws.foreign_names import is_foreign
from pykraft.sim.laws.invariants import require
from pykraft.sim.laws.replay_laws import COORDINATED
from pykraft.sim.world.hosts import SimulatedNode
from pykraft.storage.answers import Isolation
from pykraft.storage.log import UnifiedLog
from pykraft.transport.server_channel import RequestContext

PRINCIPAL = "User:ANONYMOUS"
"""It has all rights, also where there is an authorizer."""
_LISTENER, _ADDRESS = "PLAINTEXT", "127.0.0.1"
_LOOKS = 100
"""One look at a node in so many asks where a log ends."""
_TIMESTAMPS = 5
"""So many timestamps are looked up in a log, and those beside them."""
_READ_BYTES = 1 << 20
_NO_ANSWER = (-1, -1)
_COMMITTED = 1
"""The isolation level of a reader of committed data."""
_DYNAMIC_TOPIC = 1
"""The source of a setting that was given to a topic."""
GROUP, TRANSACTION = 0, 1

Places = Sequence[tuple[int, int]]
"""The offset and the timestamp of each record of a log."""


class QuestionLaws:
    """The questions of one run."""

    def __init__(self) -> None:
        self._looks = 0

    def look(self, machine: SimulatedNode) -> None:
        """Ask where a log ends, if it is time. Nothing is read for that, and nothing waits."""
        self._looks += 1
        node = machine.node
        if self._looks % _LOOKS or node is None or node.broker is None:
            return
        led = [each for each in node.broker.replicas.partitions.values() if each.is_leader]
        if led:
            _check_end(machine.node_id, led[self._looks // _LOOKS % len(led)], node, machine.scheduler.now)

    def check(self, machines: Mapping[int, SimulatedNode]) -> None:
        """Ask all nodes everything. They have settled."""
        homes = _homes((key, each.node.broker) for key, each in machines.items() if each.node and each.node.broker)
        for number, machine in enumerate(machines.values()):
            node = machine.node
            if node is not None and node.broker is not None:
                _check_logs(machine, node, node.broker, number)
                _check_metadata(machine, node)
                _check_settings(machine, node)
                _check_transactions(machine, node, node.broker)
                _check_coordinators(machine, node, homes)


def ask(node: Node, request: Request, now: int) -> Any:
    """What the node answers this request in its newest version: at once, without the slices of its time and its quotas,
    so that the node stays as it is."""
    context = RequestContext(
        "law", _LISTENER, ListenerKind.BROKER, PRINCIPAL, "law", _ADDRESS, request.api, request.versions[1], 0, 0
    )
    found = node.dispatcher.handler(ListenerKind.BROKER, type(request))(request, context, now)
    while not isinstance(found, Response):
        if isinstance(found, ItemByItem):
            found = found.gather([_finished(found.answer(item, now)) for item in found.items], now)
        elif isinstance(found, Promise):
            assert found.kept, f"{request} has to wait"
            found = found.value
        else:
            assert isinstance(found, Long), f"{request} is answered with {found}"
            found = found.response
    return found


def _finished(found: Any) -> Any:
    """What an item comes to, whose answer may be steps."""
    return finish(found) if isinstance(found, GeneratorType) else found


# --- logs -------------------------------------------------------------------------------------------------------------


def _list_offset(node: Node, place: TopicPartition, timestamp: int, isolation: int, now: int) -> tuple[int, int] | None:
    """(timestamp, offset); None if the node does not say now."""
    topic_type = ListOffsetsRequest.Topic
    asked = topic_type.Partition(partition_index=place.partition, timestamp=timestamp)
    request = ListOffsetsRequest(isolation_level=isolation, topics=[topic_type(name=place.topic, partitions=[asked])])
    answer = ask(node, request, now).topics[0].partitions[0]
    return None if answer.error_code else (answer.timestamp, answer.offset)


def _check_end(node_id: int, partition: Partition, node: Node, now: int) -> None:
    log, place = partition.log, partition.topic_partition
    if log.high_watermark < partition.leader_epoch_start:
        return  # it does not know yet how much is committed
    expected = {0: log.high_watermark, _COMMITTED: log.last_stable_offset}
    for isolation, end in expected.items():
        answered = _list_offset(node, place, LATEST_TIMESTAMP, isolation, now)
        require(
            answered is None or answered[1] == end,
            f"{place}: node {node_id} says that the log ends at {answered}, isolation level {isolation}; it is {end}",
        )


def _check_logs(machine: SimulatedNode, node: Node, broker: Broker, number: int) -> None:
    """Where the logs that the node leads begin and end; of one of them also where each timestamp and epoch is."""
    led = [each for _, each in sorted(broker.replicas.partitions.items()) if each.is_leader]
    now = machine.scheduler.now
    for partition in led:
        start = partition.log.log_start_offset
        answered = _list_offset(node, partition.topic_partition, EARLIEST_TIMESTAMP, 0, now)
        require(
            answered is None or answered[1] == start,
            f"{partition}: node {machine.node_id} says that the log begins at {answered}, and it does at {start}",
        )
        _check_end(machine.node_id, partition, node, now)
    _check_described(machine, node, led)
    plain = [each for each in led if _is_plain(each)]
    if plain:
        chosen = plain[number % len(plain)]
        found = list(_batches(chosen.log))
        _check_timestamps(machine, node, chosen, found)
        _check_epochs(machine, node, chosen, found)


def _is_plain(partition: Partition) -> bool:
    """Whether the log has all that was written, by clients that mean what they write."""
    topic = partition.key.topic
    return not (topic in COORDINATED or is_foreign(topic) or "compact" in partition.log.config[CLEANUP_POLICY])


def _batches(log: UnifiedLog) -> Iterator[RecordBatch]:
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        region = log.read(offset, _READ_BYTES, Isolation.LOG_END, at_least_one=True).records
        data = region if isinstance(region, bytes) else region.read(0, len(region))
        for batch in batches(memoryview(data)):
            yield batch
            offset = batch.next_offset


def _check_timestamps(machine: SimulatedNode, node: Node, partition: Partition, found: Iterable[RecordBatch]) -> None:
    log = partition.log
    end = min(log.high_watermark, log.last_stable_offset)
    places = [place for batch in found for place in batch.places() if log.log_start_offset <= place[0] < end]
    if not places or end < log.log_end_offset:
        return
    known = sorted({timestamp for _, timestamp in places})
    some = {known[0], known[-1], *known[:: max(1, len(known) // _TIMESTAMPS)]}
    for timestamp in sorted({each + more for each in some for more in (-1, 0, 1)}):
        if timestamp >= 0:
            expected = next(((each, offset) for offset, each in places if each >= timestamp), _NO_ANSWER)
            _check_lookup(machine, node, partition, timestamp, expected)
    youngest = next((each, offset) for offset, each in places if each == known[-1])
    _check_lookup(machine, node, partition, MAX_TIMESTAMP, youngest)


def _check_lookup(
    machine: SimulatedNode, node: Node, partition: Partition, timestamp: int, expected: tuple[int, int]
) -> None:
    answered = _list_offset(node, partition.topic_partition, timestamp, 0, machine.scheduler.now)
    require(
        answered in (None, expected),
        f"{partition}: node {machine.node_id} finds {answered} (timestamp, offset) for the timestamp {timestamp}; in "
        f"the log it is {expected}",
    )


def _check_epochs(machine: SimulatedNode, node: Node, partition: Partition, found: Sequence[RecordBatch]) -> None:
    """Where each epoch from that of the first record on ends: where the next one in the log begins."""
    starts: dict[int, int] = {}
    for batch in found:
        starts.setdefault(batch.partition_leader_epoch, batch.base_offset)
    if not starts:
        return
    known, end = sorted(starts), partition.log.log_end_offset
    asked = range(max(known[0], partition.leader_epoch - 20), partition.leader_epoch + 1)
    topic_type, place = OffsetForLeaderEpochRequest.Topic, partition.topic_partition
    for epoch in asked:
        part = topic_type.Partition(partition=place.partition, leader_epoch=epoch)
        request = OffsetForLeaderEpochRequest(topics=[topic_type(topic=place.topic, partitions=[part])])
        answer = ask(node, request, machine.scheduler.now).topics[0].partitions[0]
        following = bisect_right(known, epoch)
        expected = starts[known[following]] if following < len(known) else end
        require(
            answer.error_code or answer.end_offset == expected,
            f"{partition}: node {machine.node_id} says that epoch {epoch} ends at {answer.end_offset}; it does at "
            f"{expected}, and the epochs of the log begin at {starts}",
        )


def _check_described(machine: SimulatedNode, node: Node, led: Sequence[Partition]) -> None:
    topics = by_topic([each.topic_partition for each in led])
    topic_type = DescribeProducersRequest.Topic
    request = DescribeProducersRequest(
        topics=[topic_type(name=name, partition_indexes=numbers) for name, numbers in topics.items()]
    )
    logs = {each.topic_partition: each.log for each in led}
    for topic in ask(node, request, machine.scheduler.now).topics:
        for answer in topic.partitions:
            place = TopicPartition(topic.name, answer.partition_index)
            told = [
                (each.producer_id, each.producer_epoch, each.last_sequence, each.current_txn_start_offset)
                for each in answer.active_producers
            ]
            known = [
                (key, each.epoch, each.last_sequence, _or_none(each.transaction_first_offset))
                for key, each in sorted(logs[place].producer_state.producers.items())
            ]
            require(
                bool(answer.error_code) or told == known,
                f"{place}: node {machine.node_id} describes the producers {told} (id, epoch, sequence, first offset of "
                f"a transaction); its log has {known}",
            )


def _or_none(offset: int | None) -> int:
    return -1 if offset is None else offset


# --- metadata ---------------------------------------------------------------------------------------------------------


def _check_metadata(machine: SimulatedNode, node: Node) -> None:
    image = node.loader.image
    answer = ask(node, MetadataRequest(topics=None), machine.scheduler.now)
    told = {
        (topic.name, each.partition_index): (
            each.leader_id,
            each.leader_epoch,
            *map(tuple, (each.replica_nodes, each.isr_nodes)),
        )
        for topic in answer.topics
        for each in topic.partitions
        if not each.error_code
    }
    known = {
        (topic.name, number): (each.leader, each.leader_epoch, each.replicas, each.isr)
        for topic in image.topics.values()
        for number, each in topic.partitions.items()
    }
    wrong = {place: (told[place], known.get(place)) for place in told if told[place] != known.get(place)}
    names = {topic.name for topic in answer.topics}
    require(
        not wrong and names == set(image.topic_ids),
        f"node {machine.node_id} tells clients of the partitions (leader, epoch, replicas, ISR) {wrong} first what it "
        f"says, then what its metadata have; the topics are {sorted(names ^ set(image.topic_ids))} too many or too few",
    )


def _check_settings(machine: SimulatedNode, node: Node) -> None:
    image = node.loader.image
    given = {name: dict(found) for name in sorted(image.topic_ids) if (found := image.config_of(TOPIC_RESOURCE, name))}
    resource = DescribeConfigsRequest.Resource
    request = DescribeConfigsRequest(
        resources=[
            resource(resource_type=TOPIC_RESOURCE, resource_name=name, configuration_keys=None) for name in given
        ]
    )
    for result in ask(node, request, machine.scheduler.now).results if given else ():
        told = {each.name: each.value for each in result.configs if each.config_source == _DYNAMIC_TOPIC}
        require(
            bool(result.error_code) or told == given[result.resource_name],
            f"node {machine.node_id} says that topic {result.resource_name} was given {told}; its metadata have "
            f"{given[result.resource_name]}",
        )


# --- coordinators -----------------------------------------------------------------------------------------------------


def _homes(brokers: Iterable[tuple[int, Broker]]) -> dict[tuple[int, str], int]:
    """The node that has each group and each transactional id: (kind, name) -> node id. A stranger may have written one
    into a partition in which no client looks for it."""
    homes: dict[tuple[int, str], int] = {}
    for node_id, broker in brokers:
        groups, transactions = broker.groups, broker.transactions
        for number in groups.runtime.active_partitions():
            known: Iterable[str] = groups.runtime.active(number).groups
            homes.update({(GROUP, name): node_id for name in known if _belongs(name, groups, number)})
        for number in transactions.runtime.active_partitions():
            known = transactions.runtime.active(number).transactions
            homes.update({(TRANSACTION, name): node_id for name in known if _belongs(name, transactions, number)})
    return homes


def _belongs(name: str, coordinator: GroupCoordinator | TransactionCoordinator, partition: int) -> bool:
    try:
        return coordinator.partition_of(name) == partition
    except KafkaError:  # no request can ask for such a name
        return False


def _check_coordinators(machine: SimulatedNode, node: Node, homes: Mapping[tuple[int, str], int]) -> None:
    for kind in (GROUP, TRANSACTION):
        names = sorted(name for each, name in homes if each == kind)
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=names)
        for found in ask(node, request, machine.scheduler.now).coordinators if names else ():
            require(
                bool(found.error_code) or found.node_id == homes[kind, found.key],
                f"node {machine.node_id} says that node {found.node_id} coordinates {found.key}; node "
                f"{homes[kind, found.key]} does",
            )


def _check_transactions(machine: SimulatedNode, node: Node, broker: Broker) -> None:
    runtime, now = broker.transactions.runtime, machine.scheduler.now
    held = [
        (name, each, _belongs(name, broker.transactions, number))
        for number in runtime.active_partitions()
        for name, each in runtime.active(number).transactions.items()
    ]
    if not held or runtime.is_loading:
        return
    known = {
        name: (each.producer_id, each.producer_epoch, each.state.title, each.timeout_ms)
        for name, each, belongs in held
        if belongs
    }
    listed = ask(node, ListTransactionsRequest(state_filters=[], producer_id_filters=[]), now)
    told: Collection[str] = {each.transactional_id for each in listed.transaction_states}
    require(
        bool(listed.error_code) or told == {name for name, _, _ in held},
        f"node {machine.node_id} lists the transactional ids {sorted(told)}, and holds "
        f"{sorted(name for name, _, _ in held)}",
    )
    request = DescribeTransactionsRequest(transactional_ids=sorted(known))
    for each in ask(node, request, now).transaction_states:
        about = each.producer_id, each.producer_epoch, each.transaction_state, each.transaction_timeout_ms
        require(
            bool(each.error_code) or about == known[each.transactional_id],
            f"node {machine.node_id} describes {each.transactional_id} as {about} (producer id, epoch, state, timeout);"
            f" it is {known[each.transactional_id]}",
        )
