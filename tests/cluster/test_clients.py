"""The clients that people use, on a cluster that misbehaves, under users who do."""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import wait
from typing import Any

import pytest

from pykraft import Admin, Cluster, ConfigResource, Consumer, NewTopic, Producer, TopicPartition
from pykraft.producer import RecordFuture
from pykraft.runtime.client_thread import ClientClosedError
from tests.harness.waiting import wait_until

LIMIT_S = 30
RECORDS = 60


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(2) as running:
        yield running


@pytest.fixture
def topic(cluster: Cluster, request: pytest.FixtureRequest) -> str:
    """One partition, of the test's own name."""
    name = str(request.node.originalname.removeprefix("test_"))
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(name, replica_assignments={0: [1, 2]})])
    return name


@pytest.fixture
def numbers(cluster: Cluster, topic: str) -> TopicPartition:
    """A partition that holds 0, 1, 2, ... as values."""
    with producer(cluster) as writer:
        for number in range(RECORDS):
            writer.send(topic, b"%d" % number)
    return TopicPartition(topic, 0)


def producer(cluster: Cluster, **settings: Any) -> Producer:
    return Producer(bootstrap_servers=cluster.bootstrap_servers, **settings)


def consumer(cluster: Cluster, *topics: str, **settings: Any) -> Consumer:
    settings = {"auto_offset_reset": "earliest", "consumer_timeout_ms": 10_000, **settings}
    return Consumer(*topics, bootstrap_servers=cluster.bootstrap_servers, **settings)


# --- reading ----------------------------------------------------------------------------------------------------------


def test_a_loop_that_is_left_goes_on_where_it_was(cluster: Cluster, numbers: TopicPartition) -> None:
    with consumer(cluster, numbers.topic) as reader:
        first = [record.offset for record in itertools.islice(reader, 3)]
        assert reader.position(numbers) == 3
        second = [record.offset for record in itertools.islice(reader, 3)]
        third = [record.offset for record in itertools.chain.from_iterable(reader.poll(10_000).values())]
    assert first + second + third == list(range(6 + len(third)))
    assert third


def test_a_seek_or_a_pause_in_a_loop_holds_for_the_next_record(cluster: Cluster, numbers: TopicPartition) -> None:
    with consumer(cluster, numbers.topic) as reader:
        offsets = []
        for record in reader:
            offsets.append(record.offset)
            if record.offset == 2:
                reader.seek(numbers, 50)
            if record.offset == RECORDS - 1:
                break
        assert offsets == [0, 1, 2, *range(50, RECORDS)]
        reader.seek(numbers, 10)
        assert next(iter(reader)).offset == 10
        reader.pause(numbers)
        assert reader.poll(300) == {}
        reader.resume(numbers)
        assert next(iter(reader)).offset == 11


def test_a_record_that_cannot_be_read_loses_no_other(cluster: Cluster, topic: str) -> None:
    with producer(cluster) as writer:
        for value in (b"1", b"2", b"no JSON", b"4"):
            writer.send(topic, value)
    key = TopicPartition(topic, 0)
    with consumer(cluster, topic, value_deserializer=json.loads) as reader:
        assert [record.value for record in itertools.islice(reader, 2)] == [1, 2]
        for _ in range(2):
            with pytest.raises(json.JSONDecodeError) as error:
                next(iter(reader))
            assert error.value.__notes__ == [f"{key}, offset 2: seek behind it to go on without it"]
        reader.seek(key, 3)
        assert next(iter(reader)).value == 4


def test_who_waits_beside_a_paused_partition_sleeps(cluster: Cluster, numbers: TopicPartition) -> None:
    with consumer(cluster, numbers.topic) as reader:
        assert reader.poll(10_000, max_records=1)
        reader.pause(numbers)
        before = time.thread_time()
        assert reader.poll(1000) == {}
        assert time.thread_time() - before < 0.2


def test_a_consumer_without_a_position_may_begin_so_long_ago(cluster: Cluster, topic: str) -> None:
    now_ms = int(time.time() * 1000)
    with producer(cluster) as writer:
        for minutes in (120, 90, 30, 0):
            writer.send(topic, b"%d" % minutes, timestamp_ms=now_ms - minutes * 60_000)
    with consumer(cluster, topic, auto_offset_reset="by_duration:PT1H") as reader:
        assert [next(reader).value, next(reader).value] == [b"30", b"0"]


# --- sending ----------------------------------------------------------------------------------------------------------


def test_a_future_that_somebody_cancels_is_kept_all_the_same(cluster: Cluster, topic: str) -> None:
    with producer(cluster, linger_ms=100) as writer:
        future = writer.send(topic, b"1")
        assert not future.cancel()
        assert writer.send(topic, b"2").result(LIMIT_S).offset == 1
        assert future.result(LIMIT_S).offset == 0


def test_a_callback_that_waits_for_its_own_producer_is_told_so(cluster: Cluster, topic: str) -> None:
    told: list[object] = []

    def flush(_: object) -> None:
        try:
            writer.flush()
        except RuntimeError as error:
            told.append(str(error))

    with producer(cluster) as writer:
        futures = [writer.send(topic, b"%d" % number).add_callback(flush) for number in range(3)]
        wait(futures, LIMIT_S)
    assert told == ["a callback must not wait for its own client: it keeps the client from its work"] * 3


def test_a_callback_may_close_its_producer(cluster: Cluster, topic: str) -> None:
    writer = producer(cluster)
    told: list[str] = []

    def close(_: object) -> None:
        writer.close()
        told.append("closed")

    writer.send(topic, b"1").add_callback(close).result(LIMIT_S)
    wait_until(lambda: not writer._thread._thread.is_alive(), "the thread has ended")
    assert told == ["closed"]
    with pytest.raises(ClientClosedError):
        writer.send(topic, b"2")
    writer.close()


def test_who_is_closed_in_time_tells_each_record_what_became_of_it(cluster: Cluster, topic: str) -> None:
    writer = producer(cluster, linger_ms=0)
    writer.send(topic, b"written").result(LIMIT_S)
    cluster.disconnect(1, 2)
    try:
        with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
            assert len(admin.describe_topics([topic])[topic].partitions[0].isr) == 2, (
                "else the leader waits for no follower"
            )
        futures: list[RecordFuture] = [writer.send(topic, b"under way") for _ in range(3)]
        writer.close(0.2)
        for future in futures:
            assert future.done()
            if (error := future.exception()) is not None:
                assert isinstance(error, ClientClosedError)
    finally:
        cluster.reconnect(1, 2)


def test_who_waits_for_ever_is_told_of_the_end() -> None:
    told: list[BaseException] = []
    writer = Producer(bootstrap_servers="127.0.0.1:1", max_block_ms=(1 << 63) - 1)

    def send() -> None:
        try:
            writer.send("t", b"")
        except BaseException as error:
            told.append(error)

    sender = threading.Thread(target=send)
    sender.start()
    wait_until(lambda: "t" in writer._core.metadata._wanted, "the topic is asked for")
    writer.close()
    sender.join(LIMIT_S)
    assert [type(error) for error in told] == [ClientClosedError]


# --- as a user of kafka-python writes ---------------------------------------------------------------------------------


def test_a_program_for_kafka_python_runs_with_our_names_of_the_classes(cluster: Cluster) -> None:
    servers = cluster.bootstrap_servers
    with Admin(bootstrap_servers=servers, api_version=(2, 5)) as admin:  # type: ignore[call-arg]
        admin.create_topics(new_topics=[NewTopic("habits", 3, 1)], timeout_ms=LIMIT_S * 1000)  # type: ignore[call-arg]
        admin.alter_configs([ConfigResource("TOPIC", "habits", {"retention.ms": 60_000})])
        entry = admin.describe_configs([ConfigResource("TOPIC", "habits")])[ConfigResource("TOPIC", "habits")][
            "retention.ms"
        ]
        assert entry.value == "60000"
        with Producer(
            bootstrap_servers=servers,
            partitioner=lambda key, partitions, available: partitions[-1],
            value_serializer=lambda value: json.dumps(value).encode(),
        ) as writer:
            place = writer.send("habits", {"n": 1}, key=b"key").get(timeout=LIMIT_S)
            assert writer.bootstrap_connected()
        with consumer(cluster, "habits", group_id="habits", value_deserializer=json.loads) as reader:
            record = next(reader)
            reader.commit()
            assert reader.end_offsets([place.topic_partition], timeout_ms=LIMIT_S * 1000) == {("habits", 2): 1}
            assert ("habits", "consumer") in admin.list_consumer_groups()
        with pytest.raises(TypeError, match="a dict, not a list"):
            admin.describe_topics(["habits"])[0]  # type: ignore[index]
    assert (place.partition, record.partition, record.value) == (2, 2, {"n": 1})
    assert place.serialized_value_size == record.serialized_value_size == len(b'{"n": 1}')


def test_a_partitioner_that_chooses_no_partition_of_the_topic_is_told(cluster: Cluster, topic: str) -> None:
    with producer(cluster, partitioner=lambda key, partitions, available: 7) as writer:
        with pytest.raises(ValueError, match=f"the partitioner chose partition 7 of {topic}, which has 1"):
            writer.send(topic, b"1")
        assert writer.send(topic, b"2", partition=0).get(timeout=LIMIT_S).partition == 0
