"""The transaction coordinator: what each request is answered in each state, and the records that it writes.

Each case has transactional ids of its own. Which node coordinates one is a matter of chance, so it is called the
coordinator. Before each question the case waits until the transaction before is complete: Kafka answers
CONCURRENT_TRANSACTIONS until then, for a time that no two runs have in common.
"""

from __future__ import annotations

import time
from typing import Any

from pykraft.common.errors import ErrorCode
from pykraft.coordinator.runtime import partition_for
from pykraft.protocol.messages.cluster import TRANSACTION_COORDINATOR, FindCoordinatorRequest
from pykraft.protocol.messages.coordinators import (
    TRANSACTION_RECORDS,
    CoordinatorRecord,
    TransactionLogKey,
    TransactionLogValue,
    decode_coordinator_record,
    encode_coordinator_record,
)
from pykraft.protocol.messages.data import FetchRequest
from pykraft.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    DescribeTransactionsRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    ListTransactionsRequest,
)
from pykraft.records.batch import batches
from pykraft.records.builder import RecordBatchBuilder
from tests.conformance.dialogue import Dialogue
from tests.conformance.servers import NODES
from tests.conformance.transcript import lines_of
from tests.harness.asking import produce, versions
from tests.harness.connection import Connection

TOPIC = "transactions-t"
STATE_TOPIC = "__transaction_state"
PARTITIONS = 3
TIMEOUT_MS = 60_000
LAST_EPOCH = (1 << 15) - 2


def coordinators(talk: Dialogue, *names: str) -> dict[str, int]:
    """The node that coordinates each of these transactional ids."""
    find = FindCoordinatorRequest(key_type=TRANSACTION_COORDINATOR, coordinator_keys=list(names))
    answer = talk.until(1, find, 4, lambda answer: not any(each.error_code for each in answer.coordinators))
    return {each.key: each.node_id for each in answer.coordinators}


class Producer:
    """A transactional producer, its coordinator, and the id and epoch that it was given last."""

    def __init__(self, talk: Dialogue, name: str) -> None:
        self.talk = talk
        self.name = name
        self.id, self.epoch = -1, -1
        self.find("coordinator")

    def find(self, called: str) -> None:
        """Find the coordinator, and wait until it has loaded the partition."""
        self.node = coordinators(self.talk, self.name)[self.name]
        self.to = self.talk.to(self.node, f"{called} of {self.name}")
        describe = DescribeTransactionsRequest(transactional_ids=[self.name])
        ready = (0, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
        self.talk.until(self.node, describe, 0, lambda answer: answer.transaction_states[0].error_code in ready)

    def settle(self) -> None:
        """Wait until no transaction is about to end. Nothing of it is written down."""
        describe = DescribeTransactionsRequest(transactional_ids=[self.name])
        at_rest = {"Empty", "Ongoing", "CompleteCommit", "CompleteAbort", ""}
        self.talk.until(
            self.node, describe, 0, lambda answer: answer.transaction_states[0].transaction_state in at_rest
        )

    def begin(self) -> None:
        """Get a producer id and epoch, once there is a block of ids. Nothing of it is written down."""
        request = InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=TIMEOUT_MS)
        given = self.talk.until(self.node, request, 5, lambda answer: not answer.error_code)
        self.id, self.epoch = given.producer_id, given.producer_epoch

    def init(self, version: int = 5, says: str = "", **fields: Any) -> Any:
        request = InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=TIMEOUT_MS)
        answer = self.to.ask(request.replace(**fields), version, says)
        if not answer.error_code:
            self.id, self.epoch = answer.producer_id, answer.producer_epoch
        return answer

    def add(self, *topics: str, version: int = 3, says: str = "", **fields: Any) -> None:
        kind = AddPartitionsToTxnRequest.Topic
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[kind(name=name, partitions=[0]) for name in topics or (TOPIC,)],
        )
        self.to.ask(request.replace(**fields), version, says)

    def add_as_broker(self, *topics: str, version: int = 5, says: str = "", **fields: Any) -> None:
        kind = AddPartitionsToTxnRequest.Transaction
        transaction = kind(
            transactional_id=self.name,
            producer_id=self.id,
            producer_epoch=self.epoch,
            topics=[kind.Topic(name=name, partitions=[0]) for name in topics or (TOPIC,)],
        )
        request = AddPartitionsToTxnRequest(transactions=[transaction.replace(**fields)])
        self.to.ask(request, version, says)

    def add_offsets(self, version: int = 4, **fields: Any) -> None:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.name, producer_id=self.id, producer_epoch=self.epoch, group_id="transactions-group"
        )
        self.to.ask(request.replace(**fields), version)

    def end(self, commit: bool, version: int = 5, says: str = "", epoch: int | None = None, **fields: Any) -> Any:
        request = EndTxnRequest(
            transactional_id=self.name,
            producer_id=self.id,
            producer_epoch=self.epoch if epoch is None else epoch,
            committed=commit,
        )
        wish = "commit" if commit else "abort"
        answer = self.to.ask(request.replace(**fields), version, f"{wish} {says}".strip())
        if not answer.error_code:
            self.settle()
        return answer

    def describe(self) -> None:
        self.to.ask(DescribeTransactionsRequest(transactional_ids=[self.name]), 0)

    def records(self) -> None:
        """Write down what the coordinator has written. Bytes are shown with the times and the producer id as 0."""
        self.settle()
        topics = [
            FetchRequest.Topic(
                topic=STATE_TOPIC,
                partitions=[
                    FetchRequest.Topic.Partition(partition=number, fetch_offset=0, partition_max_bytes=1 << 20)
                    for number in range(PARTITIONS)
                ],
            )
        ]
        request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1 << 22, topics=topics)
        answer = self.talk.until(self.node, request, 11, lambda answer: True)
        for part in (part for topic in answer.responses for part in topic.partitions):
            for batch in batches(memoryview(part.records or b"")):
                for record in batch.records():
                    self._write(record.key or b"", record.value)

    def _write(self, key: bytes, value: bytes | None) -> None:
        record = decode_coordinator_record(TRANSACTION_RECORDS, key, value)
        assert isinstance(record.key, TransactionLogKey)
        if record.key.transactional_id != self.name or record.version is None:
            return
        kept = record.value
        assert isinstance(kept, TransactionLogValue)
        self.talk.write(*(f"  {line}" for line in lines_of(kept, record.version, self.talk.names)))  # type: ignore[arg-type]
        partitions = sorted(kept.transaction_partitions or (), key=lambda each: each.topic)
        same = kept.replace(
            producer_id=0,
            previous_producer_id=min(0, kept.previous_producer_id),
            next_producer_id=min(0, kept.next_producer_id),
            transaction_partitions=partitions if kept.transaction_partitions is not None else None,
            transaction_last_update_timestamp_ms=0,
            transaction_start_timestamp_ms=0,
        )
        self.talk.write(f"  version {record.version}: {same.to_bytes(record.version).hex()}")


def test_a_client_of_transaction_version_1(talk: Dialogue) -> None:
    talk.topic(TOPIC + "1", [[1], [2]])
    me = Producer(talk, "transactions-old")
    me.begin()
    me.describe()
    me.end(True, 4, "nothing")
    me.end(False, 4, "nothing")
    me.add(TOPIC + "1")
    me.add(TOPIC + "1", says="again")
    me.describe()
    me.end(True, 4)
    me.describe()
    me.end(True, 4, "again")
    me.end(False, 4, "what is committed")
    me.add_offsets()
    me.end(False, 4)
    me.end(False, 4, "again")
    me.end(True, 4, "what is aborted")
    me.init(4)
    me.describe()
    me.records()


def test_a_client_of_transaction_version_2(talk: Dialogue) -> None:
    talk.topic(TOPIC + "2", [[1], [2]])
    me = Producer(talk, "transactions-new")
    me.begin()
    me.end(True, says="nothing")
    me.add_as_broker(TOPIC + "2")
    me.add_as_broker(TOPIC + "2", says="to verify", verify_only=True)
    me.add_as_broker(TOPIC + "2", STATE_TOPIC, says="one to verify that is not in it", verify_only=True)
    me.describe()
    me.end(True)
    me.describe()
    me.end(True, says="again")
    me.end(False, says="again")
    me.end(True, says="nothing", epoch=me.epoch + 1)
    me.end(False, says="nothing", epoch=me.epoch + 1)
    me.end(False, says="nothing again", epoch=me.epoch + 1)
    me.end(True, says="nothing again", epoch=me.epoch + 1)
    me.end(False, says="of the future", epoch=me.epoch + 7)
    me.epoch += 2
    me.add_as_broker(TOPIC + "2", version=4)
    me.end(False)
    me.records()


def test_the_newer_producer_fences_the_older_one(talk: Dialogue) -> None:
    talk.topic(TOPIC + "3")
    me = Producer(talk, "transactions-fenced")
    me.begin()
    me.add_as_broker(TOPIC + "3")
    me.init(says="while a transaction is open")
    me.settle()
    me.describe()
    for version in (0, 1, 2, 3):
        me.add(TOPIC + "3", version=version)
    for version in versions(AddOffsetsToTxnRequest):
        me.add_offsets(version)
    for version in versions(EndTxnRequest):
        me.end(True, version)
    me.add_as_broker(TOPIC + "3")
    me.add_as_broker(TOPIC + "3", says="to verify", verify_only=True)
    me.init()
    me.describe()
    me.records()


def test_a_producer_that_goes_on_after_an_error(talk: Dialogue) -> None:
    me = Producer(talk, "transactions-going-on")
    me.begin()
    first = {"producer_id": me.id, "producer_epoch": me.epoch}
    me.init(says="with its epoch", **first)
    me.init(says="again", **first)
    me.init(says="with its new epoch", producer_id=me.id, producer_epoch=me.epoch)
    for version in (3, 4, 5):
        me.init(version, says="with an old epoch", **first)
    me.init(says="anew")
    me.init(says="with the epoch before that", producer_id=me.id, producer_epoch=me.epoch - 1)
    me.init(says="with another id", producer_id=me.id + 1000, producer_epoch=0)
    me.init(3, says="with another id", producer_id=me.id + 1000, producer_epoch=0)
    me.init(says="with an id and no epoch", producer_id=me.id)
    me.records()
    stranger = Producer(talk, "transactions-stranger")
    stranger.init(says="a new transactional id with some id", producer_id=me.id, producer_epoch=5)


def test_what_a_transactional_id_must_be(talk: Dialogue) -> None:
    me = Producer(talk, "transactions-checked")
    for timeout_ms in (0, -1, 900_001):
        me.init(says=f"timeout {timeout_ms}", transaction_timeout_ms=timeout_ms)
    nameless = {"transactional_id": ""}
    me.init(says="no name", **nameless)
    me.add_offsets(**nameless)
    me.end(True, **nameless)
    me.add(says="no name", v3_and_below_transactional_id="")
    me.describe()
    me.id, me.epoch = 0, 0
    talk.topic(TOPIC)
    me.add()
    me.add_as_broker(says="to verify", verify_only=True)
    me.add_offsets()
    me.end(True)
    me.end(False, 4)
    me.begin()
    me.add(says="another id", v3_and_below_producer_id=me.id + 1000)
    me.add(TOPIC, "transactions-nowhere", says="a topic that is not there")
    me.add(TOPIC, STATE_TOPIC, says="the brokers' own topic")
    me.add_as_broker(TOPIC, "transactions-nowhere", says="a topic that is not there")
    me.end(True, producer_id=me.id + 1000)
    me.describe()


def test_a_broker_that_is_not_the_coordinator(talk: Dialogue) -> None:
    me = Producer(talk, "transactions-elsewhere")
    me.begin()
    talk.topic(TOPIC + "4")
    me.to = talk.to(next(node for node in NODES if node != me.node), "another broker")
    me.init()
    me.add(TOPIC + "4")
    me.add_as_broker(TOPIC + "4")
    me.add_as_broker(TOPIC + "4", verify_only=True)
    me.add_offsets()
    me.end(True)
    me.describe()


def test_transactions_are_listed(talk: Dialogue) -> None:
    talk.topic(TOPIC + "5")
    me = Producer(talk, "transactions-listed-a")
    me.begin()
    me.add_as_broker(TOPIC + "5")
    for version in versions(ListTransactionsRequest):
        request = ListTransactionsRequest(state_filters=["Ongoing", "ongoing"], producer_id_filters=[me.id])
        me.to.ask(request, version)
        me.to.ask(request.replace(producer_id_filters=[me.id + 1000]), version, "another producer")
        me.to.ask(request.replace(state_filters=["Empty", "Dead", "PrepareEpochFence"]), version, "other states")
    open_for = request.replace(duration_filter=TIMEOUT_MS)
    me.to.ask(open_for, 1, "open for longer")
    me.to.ask(open_for.replace(duration_filter=0), 1, "open for longer than 0 ms")
    for pattern in ("transactions-l.*-a", "listed", "", "(", "(?=a)", r"(a)\1"):
        me.to.ask(request.replace(transactional_id_pattern=pattern), 2, f"pattern {pattern!r}")
    me.end(False)


def test_a_transaction_that_lasts_too_long(talk: Dialogue) -> None:
    talk.topic(TOPIC + "6")
    me = Producer(talk, "transactions-late")
    me.begin()
    me.init(says="with a short timeout", transaction_timeout_ms=300)
    me.add_as_broker(TOPIC + "6")
    describe = DescribeTransactionsRequest(transactional_ids=[me.name])
    aborted = "CompleteAbort"
    talk.until(me.node, describe, 0, lambda answer: answer.transaction_states[0].transaction_state == aborted)
    me.describe()
    me.add_as_broker(TOPIC + "6")
    me.end(True)
    me.end(False)
    me.end(True, 4)
    me.init(says="with its epoch", producer_id=me.id, producer_epoch=me.epoch)
    me.init(says="anew")
    me.records()


def test_the_last_epoch_of_a_producer_id(talk: Dialogue) -> None:
    """A record that says so is put into the log, and another node becomes the coordinator, which reads it."""
    talk.topic(TOPIC + "7", [[1, 2]])
    Producer(talk, "transactions-last").begin()
    names = [f"transactions-last-{number}" for number in range(64)]
    found = coordinators(talk, *names)
    me = Producer(talk, next(name for name in names if found[name] == 3))
    me.begin()
    age(talk, me, LAST_EPOCH - 1)
    talk.server.kill(3)
    try:
        find = FindCoordinatorRequest(key_type=TRANSACTION_COORDINATOR, coordinator_keys=[me.name])
        talk.until(1, find, 4, lambda answer: answer.coordinators[0].node_id in (1, 2))
        me.find("next coordinator")
        anyone = InitProducerIdRequest(transaction_timeout_ms=TIMEOUT_MS)
        talk.until(me.node, anyone, 5, lambda answer: not answer.error_code)  # it has a block of producer ids
        me.describe()
        me.init()
        me.add_as_broker(TOPIC + "7")
        old = me.id
        answer = me.end(True)
        me.describe()
        me.end(True, says="again")
        me.end(False, says="again")
        me.init(says="with the id and epoch before", producer_id=old, producer_epoch=LAST_EPOCH)
        me.end(False, says="nothing", producer_id=answer.producer_id, epoch=1)
        me.describe()
    finally:
        talk.server.restart(3)
        talk.lines = [line.replace(me.name, "this id") for line in talk.lines]


def age(talk: Dialogue, producer: Producer, epoch: int) -> None:
    """Write that the producer has this epoch. Its coordinator learns of it when it reads the log."""
    key, value = encode_coordinator_record(
        CoordinatorRecord(
            0,
            TransactionLogKey(transactional_id=producer.name),
            1,
            TransactionLogValue(
                producer_id=producer.id,
                producer_epoch=epoch,
                transaction_timeout_ms=TIMEOUT_MS,
                transaction_status=0,
                transaction_partitions=None,
                transaction_last_update_timestamp_ms=int(time.time() * 1000),
                transaction_start_timestamp_ms=-1,
            ),
        )
    )
    builder = RecordBatchBuilder()
    builder.append(int(time.time() * 1000), key, value)
    records = (partition_for(producer.name, PARTITIONS), memoryview(bytearray(builder.build())))
    request = produce(STATE_TOPIC, records, acks=-1)  # type: ignore[arg-type]
    with Connection(talk.server.address(producer.node)) as connection:
        connection.send_bytes(connection.frame(request, 9, 1, "__admin_client"))
        answer: Any = connection.receive(request, 9, 1)
    assert not answer.responses[0].partition_responses[0].error_code, answer
