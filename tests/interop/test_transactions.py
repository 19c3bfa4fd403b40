"""Our clients' transactions, with both protocols of Apache Kafka and with pykraft: what a reader sees, and what fails.

The tables of ``transactions`` are compared with those of Kafka's own tool, which is called in one JVM.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import pytest

from pykraft import (
    Admin,
    Cluster,
    Consumer,
    ErrorCode,
    KafkaError,
    OffsetAndMetadata,
    Producer,
    ProducerFencedError,
    TopicPartition,
    TransactionAbortableError,
    TransactionError,
    TransactionFatalError,
)
from pykraft.cli import main
from pykraft.client.administration.transaction_admin import TransactionState
from pykraft.protocol.messages.data import ProduceRequest
from pykraft.records.builder import RecordBatchBuilder
from tests.harness import apache_kafka
from tests.harness.apache_kafka import QUICK_START, ApacheKafka
from tests.harness.connection import Connection
from tests.harness.kafka_tools import run_tool
from tests.harness.waiting import wait_until

pytestmark = pytest.mark.limit(120)

TOOL = "org.apache.kafka.tools.TransactionsCommand"
PROPERTIES = {
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
    "group.initial.rebalance.delay.ms": "0",
}
UNVERIFIED = {"transaction.partition.verification.enable": "false"}
"""So that a batch of the older protocol can open a transaction that hangs."""


class Server(NamedTuple):
    name: str
    bootstrap: str


def apache(version: int, properties: Mapping[str, str]) -> Callable[[], ApacheKafka]:
    options = ("--feature", f"transaction.version={version}")
    return lambda: ApacheKafka(properties=properties, java_options=QUICK_START, format_options=options)


SERVERS: Mapping[str, Callable[[], Cluster | ApacheKafka]] = {
    "apache v2": apache(2, PROPERTIES | UNVERIFIED),
    "apache v0": apache(0, PROPERTIES),
    "pykraft": lambda: Cluster(nodes=1, properties=PROPERTIES),
}
_numbers = itertools.count(1)


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=() if name == "pykraft" else pytest.mark.long) for name in SERVERS],
)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    if request.param != "pykraft" and (reason := apache_kafka.available()):
        pytest.skip(reason)
    with SERVERS[request.param]() as started:
        yield Server(request.param, started.bootstrap_servers)


@pytest.fixture
def admin(server: Server) -> Iterator[Admin]:
    with Admin(bootstrap_servers=server.bootstrap) as admin:
        yield admin


@pytest.fixture
def topic(admin: Admin) -> str:
    """A new topic with two partitions."""
    name = f"topic-{next(_numbers)}"
    admin.create_topic(name, 2, 1)
    return name


class Producers:
    """Makes transactional producers, and closes them."""

    def __init__(self, bootstrap: str, stack: contextlib.ExitStack) -> None:
        self._bootstrap = bootstrap
        self._stack = stack

    def __call__(self, transactional_id: str = "", **settings: Any) -> Producer:
        """A producer that is ready for a transaction."""
        transactional_id = transactional_id or f"id-{next(_numbers)}"
        producer = Producer(bootstrap_servers=self._bootstrap, transactional_id=transactional_id, **settings)
        self._stack.enter_context(producer)
        producer.init_transactions()
        return producer


@pytest.fixture
def producers(server: Server) -> Iterator[Producers]:
    with contextlib.ExitStack() as stack:
        yield Producers(server.bootstrap, stack)


def values(server: Server, topic: str, isolation: str = "read_committed", partition: int = 0) -> list[bytes]:
    """What a reader sees of a partition, up to the end that it sees."""
    with Consumer(bootstrap_servers=server.bootstrap, isolation_level=isolation) as consumer:
        key = TopicPartition(topic, partition)
        consumer.assign([key])
        consumer.seek_to_beginning(key)
        end = consumer.end_offsets([key])[key]
        found: list[bytes] = []

        def is_read() -> bool:
            for records in consumer.poll(timeout_ms=100).values():
                found.extend(record.value for record in records)
            return consumer.position(key) >= end

        wait_until(is_read, f"{key} is read up to {end}")
        return found


# --- what a reader sees -----------------------------------------------------------------------------------------------


def test_what_is_committed_is_seen_and_what_is_aborted_is_not(server: Server, topic: str, producers: Producers) -> None:
    producer = producers()
    for number, is_committed in enumerate([True, False, True, False, False, True]):
        producer.begin_transaction()
        for partition in (0, 1):
            producer.send(topic, b"%d" % number, partition=partition)
        if is_committed:
            producer.commit_transaction()
        else:
            producer.flush()
            producer.abort_transaction()
    for partition in (0, 1):
        assert values(server, topic, partition=partition) == [b"0", b"2", b"5"]
        assert values(server, topic, "read_uncommitted", partition) == [b"%d" % number for number in range(6)]


def test_a_reader_of_committed_data_waits_before_an_open_transaction(
    server: Server, topic: str, producers: Producers
) -> None:
    producer = producers()
    producer.begin_transaction()
    producer.send(topic, b"open", partition=0)
    producer.flush()
    with Producer(bootstrap_servers=server.bootstrap) as other:
        other.send(topic, b"plain", partition=0).result(20)
    assert values(server, topic) == []
    assert values(server, topic, "read_uncommitted") == [b"open", b"plain"]
    producer.commit_transaction()
    wait_until(lambda: values(server, topic) == [b"open", b"plain"], "the marker is written")


def test_records_that_were_not_sent_before_the_abort_have_failed(topic: str, producers: Producers) -> None:
    producer = producers(linger_ms=60_000)
    producer.begin_transaction()
    future = producer.send(topic, b"x", partition=0)
    producer.abort_transaction()
    assert isinstance(future.exception(20), TransactionError)


def test_a_producer_that_is_closed_aborts_its_transaction(server: Server, topic: str, producers: Producers) -> None:
    producer = producers()
    producer.begin_transaction()
    producer.send(topic, b"x", partition=0)
    producer.flush()
    producer.close()
    key = TopicPartition(topic, 0)
    with Consumer(bootstrap_servers=server.bootstrap, isolation_level="read_committed") as consumer:
        wait_until(lambda: consumer.end_offsets([key])[key] == 2, "record and marker are before the end")
    assert values(server, topic) == []


# --- errors -----------------------------------------------------------------------------------------------------------


def test_a_zombie_is_fenced_and_its_transaction_aborted(server: Server, topic: str, producers: Producers) -> None:
    zombie = producers("fenced-id")
    zombie.begin_transaction()
    zombie.send(topic, b"zombie", partition=0)
    zombie.flush()
    successor = producers("fenced-id")
    successor.begin_transaction()
    successor.send(topic, b"successor", partition=0)
    successor.commit_transaction()
    with pytest.raises(ProducerFencedError):
        zombie.commit_transaction()
    with pytest.raises(ProducerFencedError):
        zombie.abort_transaction()
    with pytest.raises(ProducerFencedError):
        zombie.send(topic, b"late", partition=0)
    assert values(server, topic) == [b"successor"]


def test_a_transaction_that_is_open_for_too_long_is_aborted(topic: str, server: Server, producers: Producers) -> None:
    producer = producers(transaction_timeout_ms=300)
    producer.begin_transaction()
    producer.send(topic, b"slow", partition=0)
    producer.flush()
    key = TopicPartition(topic, 0)
    with Consumer(bootstrap_servers=server.bootstrap, isolation_level="read_committed") as consumer:
        wait_until(lambda: consumer.end_offsets([key])[key] == 2, "the coordinator has aborted the transaction")
    with pytest.raises(TransactionFatalError):
        producer.commit_transaction()
    assert values(server, topic) == []


def test_after_an_abortable_error_the_producer_goes_on(
    server: Server, admin: Admin, topic: str, producers: Producers
) -> None:
    small = f"{topic}-small"
    admin.create_topic(small, 1, 1, {"max.message.bytes": 200})
    producer = producers()
    for number in range(3):
        producer.begin_transaction()
        producer.send(topic, b"lost %d" % number, partition=0)
        future = producer.send(small, bytes(1000))
        with pytest.raises(TransactionAbortableError, match="MESSAGE_TOO_LARGE"):
            producer.commit_transaction()
        assert isinstance(future.exception(20), TransactionAbortableError)
        producer.abort_transaction()
        producer.begin_transaction()
        producer.send(topic, b"kept %d" % number, partition=0)
        producer.commit_transaction()
    assert values(server, topic) == [b"kept 0", b"kept 1", b"kept 2"]


# --- offsets ----------------------------------------------------------------------------------------------------------

PROTOCOLS = pytest.mark.parametrize("protocol", ["classic", "consumer"])


@PROTOCOLS
def test_offsets_are_committed_with_the_transaction_or_not_at_all(
    server: Server, topic: str, producers: Producers, protocol: str
) -> None:
    key = TopicPartition(topic, 0)
    group = f"group-{next(_numbers)}"
    producer = producers()
    with Consumer(
        bootstrap_servers=server.bootstrap,
        group_id=group,
        group_protocol=protocol,
        enable_auto_commit=False,
        isolation_level="read_committed",
    ) as consumer:
        consumer.subscribe([topic])
        wait_until(lambda: consumer.poll(timeout_ms=50) is not None and key in consumer.assignment(), "it has joined")
        producer.begin_transaction()
        producer.send_offsets_to_transaction({key: 5}, consumer.group_metadata())
        producer.abort_transaction()
        assert consumer.committed(key) is None
        producer.begin_transaction()
        producer.send_offsets_to_transaction({key: OffsetAndMetadata(7, "seven")}, consumer.group_metadata())
        producer.commit_transaction()
        assert consumer.committed(key) == 7
        stale = consumer.group_metadata()._replace(member_id="nobody")
        producer.begin_transaction()
        with pytest.raises(TransactionAbortableError, match="UNKNOWN_MEMBER_ID"):
            producer.send_offsets_to_transaction({key: 9}, stale)
        producer.abort_transaction()
        assert consumer.committed(key) == 7


def test_a_copy_between_topics_is_exactly_once(server: Server, admin: Admin, topic: str, producers: Producers) -> None:
    copy, group = f"{topic}-copy", f"group-{next(_numbers)}"
    admin.create_topic(copy, 1, 1)
    sent = [b"%d" % number for number in range(100)]
    with Producer(bootstrap_servers=server.bootstrap) as producer:
        for value in sent:
            producer.send(topic, value, partition=0)
    key = TopicPartition(topic, 0)
    for attempt in itertools.count():
        with Consumer(
            bootstrap_servers=server.bootstrap,
            group_id=group,
            enable_auto_commit=False,
            max_poll_records=15,
            auto_offset_reset="earliest",
        ) as consumer:
            consumer.assign([key])
            producer = producers("copier")
            if _copy(consumer, producer, key, copy, aborts=attempt < 3):
                break
    assert values(server, copy) == sent


def _copy(consumer: Consumer, producer: Producer, key: TopicPartition, copy: str, aborts: bool) -> bool:
    """Copy some transactions, and leave off in the middle of one if it `aborts`; whether all is copied."""
    for number in itertools.count(1):
        records = consumer.poll(timeout_ms=500).get(key, [])
        if not records:
            if consumer.position(key) >= consumer.end_offsets([key])[key]:
                return True
            continue
        producer.begin_transaction()
        for record in records:
            producer.send(copy, record.value)
        producer.send_offsets_to_transaction({key: records[-1].offset + 1}, consumer.group_metadata())
        if aborts and number == 2:
            producer.flush()
            return False
        producer.commit_transaction()
    raise AssertionError


# --- administration ---------------------------------------------------------------------------------------------------


def test_an_administrator_sees_transactions_and_producers(
    server: Server, admin: Admin, topic: str, producers: Producers
) -> None:
    name = f"seen-{next(_numbers)}"
    producer = producers(name)
    producer.begin_transaction()
    producer.send(topic, b"x", partition=1)
    producer.flush()
    key = TopicPartition(topic, 1)
    (listing,) = admin.list_transactions(transactional_id_pattern=f"{name}")
    assert (listing.transactional_id, listing.state) == (name, TransactionState.ONGOING)
    assert listing in admin.list_transactions(states=["Ongoing"], producer_ids=[listing.producer_id])
    assert listing not in admin.list_transactions(states=["CompleteCommit"])
    assert listing not in admin.list_transactions(duration_ms=3_600_000)
    described = admin.describe_transactions([name])[name]
    assert described.topic_partitions == (key,)
    assert described.producer_id == listing.producer_id
    assert (described.transaction_timeout_ms, described.state) == (60_000, TransactionState.ONGOING)
    (state,) = admin.describe_producers([key])[key]
    assert state.producer_id == listing.producer_id
    assert state.current_transaction_start_offset == 0
    with pytest.raises(KafkaError) as error:
        admin.describe_transactions(["no such id"])
    assert error.value.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


def test_an_administrator_fences_producers(admin: Admin, topic: str, producers: Producers) -> None:
    names = [f"fence-{next(_numbers)}" for _ in range(3)]
    fenced = [producers(name) for name in names]
    for producer in fenced:
        producer.begin_transaction()
        producer.send(topic, b"x", partition=0)
        producer.flush()
    found = admin.fence_producers(names)
    assert sorted(found) == sorted(names)
    for producer in fenced:
        with pytest.raises(ProducerFencedError):
            producer.commit_transaction()


def hang(server: Server, topic: str) -> None:
    """Write a transactional batch that no coordinator knows of, with a time long ago."""
    builder = RecordBatchBuilder(producer_id=7777, producer_epoch=3, base_sequence=0, transactional=True)
    builder.append(1_000_000_000_000, None, b"hanging")
    topic_type = ProduceRequest.Topic
    part = topic_type.Partition(index=0, records=builder.build())
    request = ProduceRequest(
        transactional_id="gone", acks=-1, timeout_ms=5000, topic_data=[topic_type(name=topic, partition_data=[part])]
    )
    with Connection(server.bootstrap) as connection:
        answer = connection.ask(request, 11)
    assert answer.responses[0].partition_responses[0].error_code == 0


def command(server: Server, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[str], str]:
    """Exit code, lines and complaints of our command."""
    capsys.readouterr()
    code = main(["transactions", "--bootstrap-server", server.bootstrap, *arguments])
    out, complaints = capsys.readouterr()
    return code, out.splitlines(), complaints


@pytest.mark.long
def test_the_tables_are_those_of_kafkas_tool(
    server: Server, topic: str, producers: Producers, capsys: pytest.CaptureFixture[str]
) -> None:
    if reason := apache_kafka.available():
        pytest.skip(reason)
    name = f"shown-{next(_numbers)}"
    producer = producers(name)
    producer.begin_transaction()
    producer.send(topic, b"x", partition=0)
    producer.commit_transaction()
    producer.begin_transaction()
    producer.send(topic, b"x", partition=0)
    producer.flush()
    calls = [
        ["list"],
        ["list", "--transactional-id-pattern", "shown-.*"],
        ["describe", "--transactional-id", name],
        ["describe-producers", "--topic", topic, "--partition", "0"],
        ["describe-producers", "--topic", topic, "--partition", "1", "--broker-id", "1"],
        ["find-hanging", "--topic", topic],
    ]
    if server.name == "apache v2":
        hang(server, topic)
    theirs = run_tool(TOOL, [["--bootstrap-server", server.bootstrap, *call] for call in calls])
    for call, told in zip(calls, theirs, strict=True):
        code, lines, complaints = command(server, capsys, *call)
        assert (code, complaints) == (0, "")
        expected = [line for line in told.out.splitlines() if line]
        assert [without_durations(line) for line in lines] == [
            without_durations(line) for line in sorted_rows(expected)
        ]


def sorted_rows(lines: list[str]) -> list[str]:
    """The tool leaves the order of rows to its hash tables."""
    return [lines[0], *sorted(lines[1:])]


def without_durations(line: str) -> list[str]:
    """The cells but for the duration in ms, which no two calls have in common."""
    cells = line.split("\t")
    return cells if len(cells) < 9 else [cell for number, cell in enumerate(cells) if number != 7]


@pytest.mark.parametrize("server", [pytest.param("apache v2", marks=pytest.mark.long)], indirect=True)
def test_a_transaction_that_hangs_is_found_and_aborted(
    server: Server, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    hang(server, topic)
    assert values(server, topic) == []
    _, lines, _ = command(server, capsys, "find-hanging", "--broker-id", "1")
    cells = [cell.strip() for cell in lines[-1].split("\t")]
    assert cells[:7] == [topic, "0", "7777", "3", "-1", "0", "1000000000000"]
    place = ("--topic", topic, "--partition", "0")
    code, _, complaints = command(server, capsys, "abort", *place, "--start-offset", "5")
    assert code == 1
    assert complaints == f"pykraft: Could not find any open transactions starting at offset 5 on partition {topic}-0\n"
    assert command(server, capsys, "abort", *place, "--start-offset", "0") == (0, [], "")
    assert len(command(server, capsys, "find-hanging", "--topic", topic)[1]) == 1
    key = TopicPartition(topic, 0)
    with Consumer(bootstrap_servers=server.bootstrap, isolation_level="read_committed") as consumer:
        assert consumer.end_offsets([key])[key] == 2
