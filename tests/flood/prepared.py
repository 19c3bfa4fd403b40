"""The state that floods are tried on: thousands of partitions, groups with offsets, producers, batches that unpack.

The sizes are those of a large cluster on one node (`FULL`), or a tenth of them for a quick look (`SMALL`). Everything
is made by ordinary requests, and `State` has the names of it all: the first of each kind has the most behind it.

==================  ==================================================================================================
``large``           the topic with most partitions. The first 40 hold a batch of many records, compressed. Partition 0
                    also has hundreds of idempotent producers
``small-N``         topics of one partition
``group-N``         groups without members; ``group-0`` has offsets in hundreds of partitions, the others one
``classic``         a classic group with one member
``consumers``       a group of KIP-848, whose members subscribe to many topics
``transaction-N``   transactional ids; ``transaction-0`` is in a transaction with hundreds of partitions
==================  ==================================================================================================
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from pykraft import Cluster
from pykraft.protocol.messages.cluster import FindCoordinatorRequest, MetadataRequest
from pykraft.protocol.messages.data import ListOffsetsRequest, ProduceRequest
from pykraft.protocol.messages.groups import ConsumerGroupHeartbeatRequest, JoinGroupRequest, SyncGroupRequest
from pykraft.protocol.messages.offsets import OffsetCommitRequest
from pykraft.protocol.messages.records import RegisterBrokerRecord, decode_metadata_record
from pykraft.protocol.messages.transactions import AddPartitionsToTxnRequest, InitProducerIdRequest
from pykraft.protocol.schema import Request
from pykraft.records.batch import batches
from pykraft.records.compression import Compression
from pykraft.storage.disk.checkpoint import read_meta_properties
from pykraft.storage.disk.filesystem import OsFileSystem
from tests.flood.vocabulary import State
from tests.harness.asking import T0, batch, create, new_topic, produce
from tests.harness.connection import Connection
from tests.harness.waiting import wait_until

NODE = 1
LARGE, GROUP, CLASSIC, CONSUMERS, TRANSACTION = "large", "group-0", "classic", "consumers", "transaction-0"
SESSION_MS = 3_600_000
PROPERTIES: dict[str, object] = {
    "broker.session.timeout.ms": SESSION_MS,
    "group.consumer.session.timeout.ms": SESSION_MS,
    "group.consumer.max.session.timeout.ms": SESSION_MS,
    "group.consumer.max.size": 1000,
    "group.max.session.timeout.ms": SESSION_MS,
    "transaction.max.timeout.ms": SESSION_MS,
    "log.initial.task.delay.ms": SESSION_MS,
    "log.retention.ms": -1,
    "offsets.retention.check.interval.ms": SESSION_MS,
    "auto.create.topics.enable": "false",
}
"""Members and transactions last without being looked after, old records stay, and a node that a request holds up is
not fenced: what comes next meets the same state."""
HEAVY_PARTITIONS = 40
_AT_ONCE = 100
_PATIENCE_S = 300.0
_BY_NAME = {ProduceRequest: 9, OffsetCommitRequest: 9}


class Sizes(NamedTuple):
    """How much there is of everything."""

    large: int
    """Partitions of the largest topic."""
    topics: int
    """Of one partition."""
    groups: int
    offsets: int
    """Of ``group-0``."""
    producers: int
    records: int
    """In a batch."""
    members: int
    subscribed: int
    """Topics of each member."""
    transactions: int


FULL = Sizes(2000, 3000, 1000, 500, 300, 100_000, 20, 1000, 100)
SMALL = Sizes(500, 100, 50, 500, 300, 8_000, 3, 50, 10)


def small(number: int) -> str:
    return f"small-{number:04}"


class Preparation:
    """Makes the state on a node that has nothing yet."""

    def __init__(self, cluster: Cluster, sizes: Sizes) -> None:
        self._cluster = cluster
        self._sizes = sizes
        self.state = State()
        self._member = ""

    def make(self) -> State:
        with Connection(self._cluster.bootstrap_servers, patience_s=_PATIENCE_S) as connection:
            self._connection = connection
            self._make_topics()
            self._fill_partitions()
            self._commit_offsets()
            self._open_transactions()
            self._join_groups()
        self._name_all()
        return self.state

    def await_all(self) -> None:
        """Wait until a node that was started again serves everything."""
        with Connection(self._cluster.bootstrap_servers, patience_s=_PATIENCE_S) as connection:
            self._connection = connection
            wait_until(self._are_served, "all partitions are served again", _PATIENCE_S)
            self._await_coordinators()

    def _ask(self, request: Request, version: int | None = None) -> Any:
        return self._connection.ask(request, type(request).versions[1] if version is None else version)

    def _ask_all(self, requests: Sequence[Request], version: int) -> Iterator[Any]:
        """Ask all of these, `_AT_ONCE` under way."""
        for start in range(0, len(requests), _AT_ONCE):
            some = requests[start : start + _AT_ONCE]
            sent = [(request, self._connection.send(request, version)) for request in some]
            for request, correlation_id in sent:
                yield self._connection.receive(request, version, correlation_id)

    # --- topics and records -------------------------------------------------------------------------------------------

    def _make_topics(self) -> None:
        sizes = self._sizes
        settings = (("retention.ms", "-1"),)
        topics = [new_topic(LARGE, sizes.large, 1, configs=settings)]
        topics += [new_topic(small(number), 1, 1, configs=settings) for number in range(sizes.topics)]
        made = [self._ask(create(topics[0])), self._ask(create(*topics[1:]))]
        refused = [topic for answer in made for topic in answer.topics if topic.error_code]
        assert not refused, refused[:3]
        wait_until(self._are_served, "all partitions are served", _PATIENCE_S)

    def _are_served(self) -> bool:
        answer = self._ask(MetadataRequest(topics=None))
        if sum(p.leader_id == NODE for topic in answer.topics for p in topic.partitions) < self._count:
            return False
        self._ids = {topic.name: topic.topic_id for topic in answer.topics}
        topic_type = ListOffsetsRequest.Topic
        partition = topic_type.Partition
        asked = [topic_type(name=LARGE, partitions=[partition(partition_index=n, timestamp=-1) for n in self._large])]
        asked += [
            topic_type(name=small(n), partitions=[partition(partition_index=0, timestamp=-1)])
            for n in range(self._sizes.topics)
        ]
        offsets = self._ask(ListOffsetsRequest(topics=asked), 6)
        return not any(p.error_code for topic in offsets.topics for p in topic.partitions)

    @property
    def _large(self) -> range:
        return range(self._sizes.large)

    @property
    def _count(self) -> int:
        return self._sizes.large + self._sizes.topics

    def _fill_partitions(self) -> None:
        data = batch(self._sizes.records, codec=Compression.ZSTD, step_ms=10)
        requests: list[Request] = [produce(LARGE, (number, data)) for number in range(HEAVY_PARTITIONS)]
        ids = [self._ask(InitProducerIdRequest(transaction_timeout_ms=1000)).producer_id]
        ids += range(ids[0] + 1, ids[0] + self._sizes.producers)  # a coordinator gives them away in order
        requests += [produce(LARGE, (0, batch(1, producer=(each, 0, 0)))) for each in ids]
        for answer in self._ask_all(requests, _BY_NAME[ProduceRequest]):
            (partition,) = answer.responses[0].partition_responses
            assert not partition.error_code, partition
        self.state.batch = batch(1)
        self.state.time_ms = T0 + 10 * self._sizes.records * 3 // 4

    # --- groups and transactions --------------------------------------------------------------------------------------

    def _commit_offsets(self) -> None:
        self._await_coordinators()
        requests = [_commit(f"group-{number}", 1 if number else self._sizes.offsets) for number in self._groups]
        for answer in self._ask_all(requests, _BY_NAME[OffsetCommitRequest]):
            assert not self._refused(answer), "an offset is not committed"

    def _await_coordinators(self) -> None:
        last = self._sizes.transactions - 1
        for key_type, key in enumerate((GROUP, TRANSACTION)):  # this makes the coordinators' topics
            self._ask(FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key]))
        wait_until(lambda: not self._refused(self._ask(_commit(GROUP, 1), 9)), "the coordinator of groups is there")
        wait_until(lambda: not self._ask(_init(last)).error_code, "the coordinator of transactions is there")

    @property
    def _groups(self) -> range:
        return range(self._sizes.groups)

    @staticmethod
    def _refused(answer: Any) -> bool:
        return any(p.error_code for topic in answer.topics for p in topic.partitions)

    def _open_transactions(self) -> None:
        answers = list(self._ask_all([_init(number) for number in range(self._sizes.transactions)], 4))
        assert not any(answer.error_code for answer in answers), answers[:3]
        self.state.names["producer id"] = [answer.producer_id for answer in answers]
        topic = AddPartitionsToTxnRequest.Topic(name=LARGE, partitions=list(self._large)[: self._sizes.offsets])
        added = self._ask(
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=TRANSACTION,
                v3_and_below_producer_id=answers[0].producer_id,
                v3_and_below_producer_epoch=answers[0].producer_epoch,
                v3_and_below_topics=[topic],
            ),
            3,
        )
        codes = {p.partition_error_code for t in added.results_by_topic_v3_and_below for p in t.results_by_partition}
        assert codes == {0}, codes

    def _join_groups(self) -> None:
        protocol = JoinGroupRequest.Protocol(name="range", metadata=b"")
        join = JoinGroupRequest(
            group_id=CLASSIC,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=[protocol],
        )
        self._member = self._ask(join).member_id
        joined = self._ask(join.replace(member_id=self._member))
        self.state.generation = joined.generation_id
        named = {"group_id": CLASSIC, "generation_id": joined.generation_id, "member_id": self._member}
        self._ask(SyncGroupRequest(**named, protocol_type="consumer", protocol_name="range", assignments=[]))
        topics = [small(number) for number in range(self._sizes.subscribed)]
        for number in range(self._sizes.members):
            answer = self._ask(heartbeat(CONSUMERS, f"consumer-{number}", topics))
            assert not answer.error_code, answer

    # --- names --------------------------------------------------------------------------------------------------------

    def _name_all(self) -> None:
        directory = self._cluster.node_directory(NODE)
        meta = read_meta_properties(OsFileSystem(), str(directory))
        assert meta is not None
        topics = [LARGE, *(small(number) for number in range(self._sizes.topics))]
        self.state.cluster_id = self._cluster.cluster_id
        self.state.broker_epoch = self.broker_epoch()
        self.state.names |= {
            "topic": topics,
            "topic_id": [self._ids[name] for name in topics],
            "partition": self._large,
            "group": [f"group-{number}" for number in self._groups],
            "classic group": [CLASSIC],
            "consumer group": [CONSUMERS],
            "consumer member": ["consumer-0"],
            "member": [self._member],
            "transactional id": [f"transaction-{number}" for number in range(self._sizes.transactions)],
            "broker": [NODE],
            "broker name": [str(NODE)],
            "directory id": [meta.directory_id],
            "log directory": [str(directory)],
            "config": ["retention.ms", "segment.ms", "flush.ms", "delete.retention.ms", "segment.jitter.ms"],
            "feature": ["metadata.version", "group.version", "transaction.version"],
            "group state": ["Empty", "Stable", "Dead"],
            "group type": ["classic", "consumer"],
            "transaction state": ["Empty", "Ongoing", "CompleteCommit"],
            "resource type": [2, 4, 8, 16, 32],
        }

    def broker_epoch(self) -> int:
        """The offset of the broker's last registration in the metadata log."""
        epoch = -1
        for path in sorted(self._cluster.partition_directory(NODE, "__cluster_metadata", 0).glob("*.log")):
            for one in batches(memoryview(path.read_bytes())):
                if one.is_control:
                    continue
                for record in one.records():
                    value, _ = decode_metadata_record(bytes(record.value or b""))
                    if isinstance(value, RegisterBrokerRecord):
                        epoch = record.offset
        return epoch


def heartbeat(group: str, member: str, topics: Sequence[str], epoch: int = 0) -> ConsumerGroupHeartbeatRequest:
    """A member of a KIP-848 group joins, or subscribes to other topics."""
    return ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=member,
        member_epoch=epoch,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=list(topics),
        topic_partitions=[] if epoch == 0 else None,
    )


def _commit(group: str, partitions: int) -> OffsetCommitRequest:
    topic_type = OffsetCommitRequest.Topic
    offsets = [topic_type.Partition(partition_index=n, committed_offset=1) for n in range(partitions)]
    return OffsetCommitRequest(group_id=group, topics=[topic_type(name=LARGE, partitions=offsets)])


def _init(number: int) -> InitProducerIdRequest:
    return InitProducerIdRequest(transactional_id=f"transaction-{number}", transaction_timeout_ms=SESSION_MS)
