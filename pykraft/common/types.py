"""Kafka's nouns: the small values that every layer passes to the next.

All of them are immutable, ordered and hashable, so they can be keys, be sorted (a core never iterates an unsorted
set) and be compared by value, which is what the simulator's invariants do.

Follows org.apache.kafka.common.{Uuid,TopicPartition,TopicIdPartition,Node} and org.apache.kafka.raft.{OffsetAndEpoch,
ReplicaKey}.
"""

import base64
import re
from collections.abc import Iterable
from random import Random
from typing import NamedTuple, Self


class Uuid(bytes):
    """Sixteen bytes, written as 22 characters of URL-safe base64 without padding, as Kafka prints them.

    >>> str(Uuid.parse("AAAAAAAAAAAAAAAAAAAAAQ"))
    'AAAAAAAAAAAAAAAAAAAAAQ'
    """

    __slots__ = ()

    def __new__(cls, value: bytes) -> Self:
        if len(value) != 16:
            raise ValueError(f"a Uuid has 16 bytes, not {len(value)}")
        return super().__new__(cls, value)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the 22 characters; ValueError says what is wrong."""
        if not re.fullmatch("[A-Za-z0-9_-]{22}", text):
            raise ValueError(f"{text!r} is no Uuid: 22 characters of URL-safe base64 are wanted")
        return cls(base64.urlsafe_b64decode(text + "=="))

    @classmethod
    def random(cls, random: Random) -> Self:
        """A fresh id. Kafka keeps ids below 100 for itself and rejects a leading dash, which shells take for a flag."""
        while True:
            value = cls(random.randbytes(16))
            if int.from_bytes(value, "big") >= 100 and not str(value).startswith("-"):
                return value

    def __str__(self) -> str:
        return base64.urlsafe_b64encode(self).rstrip(b"=").decode()

    def __repr__(self) -> str:
        return f"Uuid({str(self)!r})"


ZERO_UUID = Uuid(bytes(16))
METADATA_TOPIC_ID = Uuid((1).to_bytes(16, "big"))
METADATA_TOPIC = "__cluster_metadata"

# Kafka's marks for a replica without a directory of its own (org.apache.kafka.common.DirectoryId): the record that made
# it has no directories; its broker has several and has not chosen yet; the directory is offline.
MIGRATING_DIRECTORY = ZERO_UUID
UNASSIGNED_DIRECTORY = Uuid((1).to_bytes(16, "big"))
LOST_DIRECTORY = Uuid((2).to_bytes(16, "big"))


class TopicPartition(NamedTuple):
    """One log of one topic, by name."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """The numbers of these partitions, by topic, in the order in which they come."""
    topics: dict[str, list[int]] = {}
    for topic, number in partitions:
        topics.setdefault(topic, []).append(number)
    return topics


class TopicIdPartition(NamedTuple):
    """One log of one incarnation of a topic: the id changes when a topic is deleted and made again."""

    topic_id: Uuid
    topic: str
    partition: int

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class OffsetAndEpoch(NamedTuple):
    """A place in a replicated log. Two logs that hold the same pair are equal up to there (log matching)."""

    offset: int
    epoch: int


class LeaderAndEpoch(NamedTuple):
    """The leader and its epoch; leader_id is -1 while there is none."""

    leader_id: int
    epoch: int


class ReplicaKey(NamedTuple):
    """A voter or observer of the quorum: node id plus the id of its metadata directory.

    The directory id tells a replica that came back on an empty disk from the one that had voted (KIP-853).
    """

    id: int
    directory_id: Uuid = ZERO_UUID

    def matches(self, replica: "ReplicaKey") -> bool:
        """Whether this key of a voter set, or of a vote, means that replica. Without a directory id, as at
        kraft.version 0, it means every replica with its id."""
        return self.id == replica.id and self.directory_id in (ZERO_UUID, replica.directory_id)


EVERYWHERE = ("", "0.0.0.0", "::")
"""Hosts by which a node listens on all addresses of its machine: other nodes and clients cannot connect to them."""

_HOST_AND_PORT = re.compile(r"\[?(?P<host>[0-9A-Za-z\-%._:]*)\]?:(?P<port>[0-9]{1,9})")


class Endpoint(NamedTuple):
    """Where a listener can be reached."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``host:port`` or ``[v6::address]:port``; ValueError says what is wrong."""
        found = _HOST_AND_PORT.fullmatch(text.strip())
        if found is None or int(found["port"]) > 65535:
            raise ValueError(f"{text!r} is no host:port")
        return cls(found["host"], int(found["port"]))


class Node(NamedTuple):
    """A node of the cluster as its peers and clients see it; id is -1 for a bootstrap address."""

    id: int
    host: str
    port: int
    rack: str | None = None

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(self.host, self.port)
