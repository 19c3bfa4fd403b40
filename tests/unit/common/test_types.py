"""Kafka's nouns: ids, places in logs, endpoints."""

from __future__ import annotations

from random import Random

import pytest

from pykraft.common.types import (
    LOST_DIRECTORY,
    METADATA_TOPIC_ID,
    MIGRATING_DIRECTORY,
    UNASSIGNED_DIRECTORY,
    ZERO_UUID,
    Endpoint,
    Node,
    ReplicaKey,
    TopicIdPartition,
    TopicPartition,
    Uuid,
    by_topic,
)


@pytest.mark.parametrize(
    ("uuid", "text"),
    [
        (ZERO_UUID, "A" * 22),
        (METADATA_TOPIC_ID, "A" * 21 + "Q"),
        (LOST_DIRECTORY, "A" * 21 + "g"),
        (Uuid(b"\xff" * 16), "_" * 21 + "w"),
        (Uuid(b"\xfb" * 16), "-_v7" * 5 + "-w"),
    ],
)
def test_a_uuid_is_written_as_22_characters_and_read_back(uuid: Uuid, text: str) -> None:
    assert str(uuid) == text
    assert Uuid.parse(text) == uuid
    assert repr(uuid) == f"Uuid('{text}')"


def test_the_directory_marks_are_kafkas() -> None:
    marks = (MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY, LOST_DIRECTORY)
    assert [int.from_bytes(mark, "big") for mark in marks] == [0, 1, 2]


@pytest.mark.parametrize(
    "text", ["", "A", "A" * 21, "A" * 23, "é" * 22, "A" * 20 + "+/", "A" * 11 + " " + "A" * 11, "A" * 22 + "\n"]
)
def test_what_is_no_uuid_is_refused_in_one_sentence(text: str) -> None:
    with pytest.raises(ValueError, match="is no Uuid: 22 characters of URL-safe base64 are wanted"):
        Uuid.parse(text)


@pytest.mark.parametrize("size", [0, 15, 17])
def test_a_uuid_has_16_bytes(size: int) -> None:
    with pytest.raises(ValueError, match=f"a Uuid has 16 bytes, not {size}"):
        Uuid(bytes(size))


def test_a_random_uuid_is_never_reserved_and_never_begins_with_a_dash() -> None:
    class Dice(Random):
        """Says what Kafka rejects first: an id below 100, then one that prints with a leading dash."""

        def __init__(self) -> None:
            super().__init__(1)
            self.throws = [(99).to_bytes(16, "big"), b"\xfb" * 16, b"\x01" * 16]

        def randbytes(self, n: int) -> bytes:
            return self.throws.pop(0)

    assert Uuid.random(Dice()) == b"\x01" * 16
    assert Uuid.random(Random(1)) == Uuid.random(Random(1)) != Uuid.random(Random(2))


def test_partitions_are_named_and_sorted_as_their_folders_are_meant() -> None:
    partitions = [TopicPartition("b", 2), TopicPartition("b", 10), TopicPartition("a", 3)]
    assert [str(p) for p in sorted(partitions)] == ["a-3", "b-2", "b-10"]
    assert TopicIdPartition(ZERO_UUID, "a", 3).topic_partition == partitions[2]


def test_partitions_are_gathered_by_topic_in_the_order_in_which_they_come() -> None:
    places = [TopicPartition("t", 2), TopicPartition("u", 0), TopicPartition("t", 1)]
    assert list(by_topic(places).items()) == [("t", [2, 1]), ("u", [0])]


def test_replica_keys_differ_by_directory() -> None:
    assert ReplicaKey(1) == ReplicaKey(1, ZERO_UUID) != ReplicaKey(1, METADATA_TOPIC_ID)


@pytest.mark.parametrize(
    ("text", "endpoint"),
    [
        ("localhost:9092", Endpoint("localhost", 9092)),
        (" 127.0.0.1:0 ", Endpoint("127.0.0.1", 0)),
        ("[::1]:65535", Endpoint("::1", 65535)),
        (":9093", Endpoint("", 9093)),
    ],
)
def test_an_endpoint_is_read(text: str, endpoint: Endpoint) -> None:
    assert Endpoint.parse(text) == endpoint
    assert Endpoint.parse(str(endpoint)) == endpoint


@pytest.mark.parametrize("text", ["", "localhost", "localhost:", "localhost:65536", "localhost:-1", "localhost:9²"])
def test_what_is_no_endpoint_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no host:port"):
        Endpoint.parse(text)


def test_a_node_knows_its_endpoint() -> None:
    assert Node(1, "h", 9).endpoint == Endpoint("h", 9)
