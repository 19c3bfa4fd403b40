"""pykraft's own producer, consumer and administrator against both servers: they are clients of any Kafka."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pykraft import Admin, Consumer, ErrorCode, KafkaError, NewTopic, Producer, TopicPartition
from pykraft.client.administration.admin import TopicDescription
from pykraft.client.errors import NoOffsetError
from pykraft.consumer import ConsumerRecord
from tests.conformance.servers import Server
from tests.harness.asking import T0

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PATIENCE_S = 60.0


@pytest.fixture
def admin(server: Server) -> Iterator[Admin]:
    with Admin(bootstrap_servers=server.bootstrap_servers) as admin:
        yield admin


@pytest.fixture
def topic(admin: Admin, request: pytest.FixtureRequest) -> str:
    """Three partitions on three brokers, of the test's own name."""
    name = f"clients-{request.node.originalname.removeprefix('test_')}"[:200]
    assignments = {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]}
    admin.create_topics([NewTopic(name, replica_assignments=assignments, topic_configs={"min.insync.replicas": "2"})])
    described(admin, name)
    return name


def described(admin: Admin, *names: str) -> dict[str, TopicDescription]:
    """The topics, as soon as the broker that is asked knows them: the controller has made them, brokers learn of it a
    moment later, and each for itself."""
    found: dict[str, TopicDescription] = {}

    def are_led() -> bool:
        try:
            found.update(admin.describe_topics(names))
        except KafkaError as error:
            if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            return False
        return all(partition.leader >= 0 for topic in found.values() for partition in topic.partitions)

    wait_until(are_led)
    return found


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it took too long"


def producer(server: Server, **settings: Any) -> Producer:
    return Producer(bootstrap_servers=server.bootstrap_servers, **{"linger_ms": 0, **settings})


def consumer(server: Server, *topics: str, **settings: Any) -> Consumer:
    settings = {"auto_offset_reset": "earliest", **settings}
    return Consumer(*topics, bootstrap_servers=server.bootstrap_servers, **settings)


def take(reader: Consumer, count: int) -> list[ConsumerRecord]:
    """The next records, as many as there should be."""
    found: list[ConsumerRecord] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} records have come"
        for records in reader.poll(500).values():
            found += records
    return found


# --- records ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", CODECS)
def test_what_is_sent_comes_back(server: Server, admin: Admin, codec: str) -> None:
    topic = f"clients-codec-{codec}"
    admin.create_topic(topic, 1, 3)
    described(admin, topic)
    sent = [
        (b"key", b"value", [("one", b"1"), ("null", None), ("one", b"again")]),
        (None, b"no key", []),
        (b"no value", None, []),
        (None, None, [("only", b"a header")]),
        (b"", b"", []),
        ("größe".encode(), bytes(range(256)) * 40, []),
    ]
    with producer(server, compression_type=codec, linger_ms=50) as writer:
        futures = [
            writer.send(topic, value, key, headers, timestamp_ms=T0 + number)
            for number, (key, value, headers) in enumerate(sent)
        ]
        places = [future.result(30) for future in futures]
    assert [(place.topic, place.partition, place.offset) for place in places] == [(topic, 0, n) for n in range(6)]
    assert [place.timestamp for place in places] == [T0 + number for number in range(6)]
    with consumer(server, topic) as reader:
        found = take(reader, len(sent))
    assert [(record.key, record.value, list(record.headers)) for record in found] == sent
    assert [record.offset for record in found] == list(range(6))
    assert [(record.timestamp, record.timestamp_type) for record in found] == [(T0 + n, 0) for n in range(6)]


@pytest.mark.parametrize("settings", [{"acks": "0"}, {"acks": "1"}, {"acks": "all"}], ids=lambda s: s["acks"])
def test_acks_without_idempotence(server: Server, admin: Admin, settings: dict[str, str]) -> None:
    topic = f"clients-acks-{settings['acks']}"
    admin.create_topic(topic, 1, 3)
    described(admin, topic)
    with producer(server, enable_idempotence=False, **settings) as writer:
        places = [writer.send(topic, b"%d" % number).result(30) for number in range(20)]
    assert [place.offset for place in places] == ([-1] * 20 if settings["acks"] == "0" else list(range(20)))
    with consumer(server, topic) as reader:
        assert [record.value for record in take(reader, 20)] == [b"%d" % number for number in range(20)]


def test_the_time_of_the_append_is_told(server: Server, admin: Admin) -> None:
    admin.create_topic("clients-append-time", 1, 1, {"message.timestamp.type": "LogAppendTime"})
    described(admin, "clients-append-time")
    before = time.time() * 1000
    with producer(server) as writer:
        place = writer.send("clients-append-time", b"v", timestamp_ms=T0).result(30)
    assert before - 60_000 < place.timestamp < before + 60_000
    with consumer(server, "clients-append-time") as reader:
        (record,) = take(reader, 1)
    assert (record.timestamp, record.timestamp_type) == (place.timestamp, 1)


def test_records_of_a_key_stay_in_order(server: Server, topic: str) -> None:
    with producer(server, batch_size=400) as writer:
        for number in range(3000):
            writer.send(topic, b"%d" % number, b"key %d" % (number % 20))
        writer.flush(30)
    with consumer(server, topic) as reader:
        found = take(reader, 3000)
    homes: dict[bytes, set[int]] = {}
    for record in found:
        homes.setdefault(record.key, set()).add(record.partition)
    assert len(homes) == 20
    assert all(len(partitions) == 1 for partitions in homes.values())
    for key in homes:
        numbers = [int(record.value) for record in found if record.key == key]
        assert numbers == sorted(numbers)
        assert len(set(numbers)) == 150


def test_keyless_records_go_everywhere(server: Server, topic: str) -> None:
    with producer(server, batch_size=200) as writer:
        partitions = {writer.send(topic, bytes(100)).result(30).partition for _ in range(60)}
    assert partitions == {0, 1, 2}


def test_a_partition_may_be_named(server: Server, topic: str) -> None:
    with producer(server) as writer:
        assert [writer.send(topic, b"v", partition=p).result(30).partition for p in (2, 0, 1)] == [2, 0, 1]
        with pytest.raises(ValueError, match="partitions 0 to 2, not 3"):
            writer.send(topic, b"v", partition=3)
        assert list(writer.partitions_for(topic)) == [0, 1, 2]


def test_too_large_records_are_refused(server: Server, admin: Admin) -> None:
    admin.create_topic("clients-large", 1, 1, {"max.message.bytes": 20_000})
    described(admin, "clients-large")
    with producer(server, max_request_size=100_000, linger_ms=100, batch_size=60_000) as writer:
        with pytest.raises(KafkaError) as error:
            writer.send("clients-large", bytes(200_000))
        assert error.value.code is ErrorCode.MESSAGE_TOO_LARGE
        refused = writer.send("clients-large", bytes(30_000))
        with pytest.raises(KafkaError) as error:
            refused.result(30)
        assert error.value.code is ErrorCode.MESSAGE_TOO_LARGE
        together = [writer.send("clients-large", b"%d" % number + bytes(9000)) for number in range(6)]
        writer.flush(30)
        assert [future.result().offset for future in together] == list(range(6))
    with consumer(server, "clients-large") as reader:
        assert [record.value[:1] for record in take(reader, 6)] == [b"%d" % number for number in range(6)]


def test_a_record_almost_as_large_as_the_limit(server: Server, topic: str) -> None:
    value = bytes(1_000_000)
    with producer(server) as writer:
        assert writer.send(topic, value, partition=0).result(30).offset == 0
    with consumer(server) as reader:
        reader.assign([TopicPartition(topic, 0)])
        assert take(reader, 1)[0].value == value


# --- reading ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def hundred(server: Server, topic: str) -> TopicPartition:
    """One partition with records 0 to 99, a second apart, in batches of ten."""
    with producer(server, linger_ms=100) as writer:
        for number in range(100):
            writer.send(topic, b"%d" % number, partition=1, timestamp_ms=T0 + 1000 * number)
            if number % 10 == 9:
                writer.flush(30)
    return TopicPartition(topic, 1)


def test_positions_are_sought_and_told(server: Server, hundred: TopicPartition) -> None:
    with consumer(server) as reader:
        reader.assign([hundred])
        assert reader.assignment() == {hundred}
        assert reader.beginning_offsets([hundred]) == {hundred: 0}
        assert reader.end_offsets([hundred]) == {hundred: 100}
        assert reader.position(hundred) == 0
        for offset in (37, 99, 0, 50):
            reader.seek(hundred, offset)
            assert reader.position(hundred) == offset
            (record,) = reader.poll(10_000, max_records=1)[hundred]
            assert (record.offset, record.value) == (offset, b"%d" % offset)
            assert reader.position(hundred) == offset + 1
        reader.seek_to_end(hundred)
        assert reader.position(hundred) == 100
        reader.seek_to_beginning()
        assert [record.offset for record in take(reader, 100)] == list(range(100))
        assert reader.highwater(hundred) == 100


def test_offsets_are_found_by_time(server: Server, hundred: TopicPartition) -> None:
    with consumer(server) as reader:
        reader.assign([hundred])
        empty = TopicPartition(hundred.topic, 0)
        for timestamp, offset in ((0, 0), (T0 + 1, 1), (T0 + 50_000, 50), (T0 + 98_001, 99)):
            found = reader.offsets_for_times({hundred: timestamp, empty: timestamp})
            assert found[empty] is None
            place = found[hundred]
            assert place is not None
            assert (place.offset, place.timestamp) == (offset, T0 + 1000 * offset)
        assert reader.offsets_for_times({hundred: T0 + 99_001}) == {hundred: None}


def test_pausing(server: Server, hundred: TopicPartition) -> None:
    with consumer(server) as reader:
        reader.assign([hundred])
        first = take(reader, 1)
        reader.pause(hundred)
        assert reader.paused() == {hundred}
        position = reader.position(hundred)
        assert reader.poll(300) == {}
        assert reader.position(hundred) == position
        reader.resume(hundred)
        rest = take(reader, 100 - len(first))
        assert [record.offset for record in (*first, *rest)] == list(range(100))


def test_a_reader_waits_for_news(server: Server, topic: str) -> None:
    with consumer(server, topic, auto_offset_reset="latest") as reader, producer(server) as writer:
        for partition in range(3):
            wait_until(
                lambda p=partition: reader.poll(10) is not None and TopicPartition(topic, p) in reader.assignment()
            )  # type: ignore[misc]
            assert reader.position(TopicPartition(topic, partition)) == 0
        written = threading.Event()

        def write() -> None:
            for number in range(10):
                writer.send(topic, b"%d" % number, partition=number % 3).result(30)
            written.set()

        thread = threading.Thread(target=write)
        thread.start()
        found = take(reader, 10)
        thread.join()
        assert written.is_set()
        assert sorted(int(record.value) for record in found) == list(range(10))


def test_a_loop_ends_when_nothing_comes(server: Server, hundred: TopicPartition) -> None:
    with consumer(server, hundred.topic, consumer_timeout_ms=1500, isolation_level="read_committed") as reader:
        assert [record.offset for record in reader] == list(range(100))


def test_an_offset_that_is_gone(server: Server, hundred: TopicPartition) -> None:
    with consumer(server, auto_offset_reset="none") as reader:
        reader.assign([hundred])
        with pytest.raises(NoOffsetError):
            reader.poll(10_000)
        reader.seek(hundred, 5000)
        with pytest.raises(NoOffsetError, match="5000"):
            wait_until(lambda: bool(reader.poll(500)))
        reader.seek(hundred, 42)
        assert take(reader, 1)[0].offset == 42
    with consumer(server, auto_offset_reset="earliest") as reader:
        reader.assign([hundred])
        reader.seek(hundred, 5000)
        assert take(reader, 1)[0].offset == 0


# --- administration ---------------------------------------------------------------------------------------------------


def test_topics_are_made_described_and_deleted(admin: Admin) -> None:
    made = admin.create_topics([NewTopic("clients-a", 2, 3), NewTopic("clients-b", replica_assignments={0: [2, 1]})])
    found = described(admin, "clients-a", "clients-b")
    assert {name: topic.topic_id for name, topic in found.items()} == made
    assert [len(p.replicas) for p in found["clients-a"].partitions] == [3, 3]
    (only,) = found["clients-b"].partitions
    assert (only.partition, only.leader, only.leader_epoch, only.replicas) == (0, 2, 0, (2, 1))
    wait_until(lambda: {"clients-a", "clients-b"} <= set(admin.list_topics()))
    admin.delete_topics(["clients-a", "clients-b"])
    wait_until(lambda: not {"clients-a", "clients-b"} & set(admin.list_topics()))


def test_refusals_say_why(admin: Admin) -> None:
    admin.create_topic("clients-refused", 1, 1)
    described(admin, "clients-refused")
    for topic, code in (
        (NewTopic("clients-refused", 1, 1), ErrorCode.TOPIC_ALREADY_EXISTS),
        (NewTopic("a/b", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic("clients-c", 0, 1), ErrorCode.INVALID_PARTITIONS),
        (NewTopic("clients-c", 1, 4), ErrorCode.INVALID_REPLICATION_FACTOR),
        (NewTopic("clients-c", replica_assignments={0: [9]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("clients-c", 1, 1, topic_configs={"no.such": "1"}), ErrorCode.INVALID_CONFIG),
    ):
        with pytest.raises(KafkaError) as error:
            admin.create_topics([topic])
        assert error.value.code is code
    for ask in (lambda: admin.delete_topics(["clients-nowhere"]), lambda: admin.describe_topics(["clients-nowhere"])):
        with pytest.raises(KafkaError) as error:
            ask()
        assert error.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    admin.create_topics([NewTopic("clients-validated", 1, 1)], validate_only=True)
    assert "clients-validated" not in admin.list_topics()


def test_the_cluster_is_described(server: Server, admin: Admin) -> None:
    cluster = admin.describe_cluster()
    addresses = {f"{broker.host}:{broker.port}" for broker in cluster.brokers}
    assert addresses == set(server.bootstrap_servers.split(","))
    assert cluster.controller_id in {broker.id for broker in cluster.brokers}
    quorum = admin.describe_quorum()
    assert sorted(voter.replica_id for voter in quorum.voters) == [1, 2, 3]
    assert quorum.leader_id in (1, 2, 3)
    assert quorum.leader_epoch >= 1
    ends = [voter.log_end_offset for voter in quorum.voters]
    assert max(ends) >= quorum.high_watermark > 0


def test_offsets_are_listed(admin: Admin, hundred: TopicPartition) -> None:
    for timestamp, offset in ((-1, 100), (-2, 0), (-3, 99), (T0 + 5000, 5)):
        assert admin.list_offsets({hundred: timestamp})[hundred].offset == offset


def test_a_topic_is_made_on_the_way(server: Server, admin: Admin) -> None:
    with producer(server) as writer:
        assert writer.send("clients-on-the-way", b"v").result(30).offset == 0
    assert "clients-on-the-way" in admin.list_topics()


def test_a_topic_that_is_made_again_is_another(server: Server, admin: Admin) -> None:
    topic = "clients-again"
    admin.create_topic(topic, 1, 3)
    described(admin, topic)
    with producer(server) as writer, consumer(server, topic) as reader:
        for number in range(5):
            writer.send(topic, b"old %d" % number).result(30)
        take(reader, 5)
        admin.delete_topics([topic])
        wait_until(lambda: topic not in admin.list_topics())
        try:
            admin.create_topic(topic, 1, 3)
        except KafkaError as error:  # the reader still asks for it, and a broker that is asked makes it
            assert error.code is ErrorCode.TOPIC_ALREADY_EXISTS
        described(admin, topic)
        for number in range(5):
            writer.send(topic, b"new %d" % number).result(60)
    with consumer(server, topic) as reader:
        assert [record.value for record in take(reader, 5)] == [b"new %d" % number for number in range(5)]


# --- a leader dies ----------------------------------------------------------------------------------------------------


def test_nothing_is_lost_doubled_or_disordered_when_a_leader_dies(server: Server, admin: Admin, topic: str) -> None:
    acknowledged: dict[int, list[tuple[int, int]]] = {0: [], 1: [], 2: []}
    victim = described(admin, topic)[topic].partitions[0].leader
    total = 6000
    halfway, ended = threading.Event(), threading.Event()

    def write() -> None:
        with producer(server, linger_ms=2, batch_size=2000, request_timeout_ms=3000) as writer:
            futures = []
            for number in range(total):
                futures.append((number, writer.send(topic, b"%d" % number, partition=number % 3)))
                if number == total // 4:
                    writer.flush(30)
                    halfway.set()
                if number % 50 == 0:
                    ended.wait(0.005)  # so that the stream is still under way when the node dies
            for number, future in futures:
                place = future.result(PATIENCE_S)
                acknowledged[place.partition].append((place.offset, number))

    thread = threading.Thread(target=write)
    thread.start()
    try:
        assert halfway.wait(PATIENCE_S)
        server.kill(victim)
    finally:
        thread.join(PATIENCE_S)
        server.restart(victim)
    assert not thread.is_alive()
    with consumer(server, topic) as reader:
        found = take(reader, total)
    for partition, sent in acknowledged.items():
        records = [(record.offset, int(record.value)) for record in found if record.partition == partition]
        assert records == sent, "what is read is not what was acknowledged, in its order"
        assert [number for _, number in records] == list(range(partition, total, 3))
