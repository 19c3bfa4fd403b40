"""What a coordinator knows of topics, and the hash by which a group notices that its topics have changed.

A coordinator does not hold the cluster's metadata. It asks the port `Topics`, which the broker implements over its
metadata image.

Each group's record holds a hash of the topics that its members subscribe to (KIP-1101). The coordinator computes it
again after a metadata change: another hash, another group epoch, another assignment. The hash of one topic is XXH3 over
these bytes, numbers little-endian and text as UTF-16LE followed by an int32 that counts its 16-bit units::

    magic            int8     0
    topic id         2 int64  first and second half of the Uuid, each read big-endian and written little-endian
    name             text
    partitions       int32    how many
    per partition    int32    its number, and for each rack of its replicas, sorted: int32 length, text

The group's hash is XXH3 over the hashes of its topics (int64), sorted by topic name. Topics that do not exist are left
out. Without any topic the hash is 0. A record holds it as a signed number.

Follows org.apache.kafka.coordinator.group.Utils.computeTopicHash and computeGroupHash, and
org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage.
"""

import functools
import struct
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple, Protocol

from pykraft.common.types import Uuid
from pykraft.common.xxh3 import xxh3_64

_MAGIC = b"\0"
_INT32 = struct.Struct("<i")
_UINT64 = struct.Struct("<Q")

Assignment = Mapping[Uuid, frozenset[int]]
"""Partitions by topic. Never changed, and no topic without partitions."""


class TopicInfo(NamedTuple):
    """A topic as an assignor and the hash see it."""

    topic_id: Uuid
    name: str
    partitions: int
    racks: tuple[tuple[str, ...], ...] = ()
    """The racks of each partition's replicas; empty if no broker has a rack."""


class Topics(Protocol):
    """The topics of the cluster, as this broker's metadata have them."""

    @property
    def version(self) -> int:
        """The offset of the metadata log that this view has reached."""
        ...

    def named(self, name: str) -> TopicInfo | None: ...

    def by_id(self, topic_id: Uuid) -> TopicInfo | None: ...

    def names(self) -> Collection[str]: ...


def topic_ids(names: Iterable[str], topics: Topics) -> frozenset[Uuid]:
    """The ids of those topics that exist."""
    found = (topics.named(name) for name in names)
    return frozenset(topic.topic_id for topic in found if topic is not None)


def metadata_hash(names: Iterable[str], topics: Topics) -> int:
    """The hash of a group whose members subscribe to these topics: a signed number of 64 bits."""
    found = (topics.named(name) for name in sorted(set(names), key=_java_order))  # any order: no two keys are equal
    hashes = [_UINT64.pack(topic_hash(topic)) for topic in found if topic is not None]
    return _signed(xxh3_64(b"".join(hashes))) if hashes else 0


@functools.lru_cache(maxsize=1 << 15)
def topic_hash(topic: TopicInfo) -> int:
    """The hash of one topic: an unsigned number of 64 bits. The cache spares topics that have not changed."""
    parts = [_MAGIC, topic.topic_id[7::-1], topic.topic_id[:7:-1], _text(topic.name), _INT32.pack(topic.partitions)]
    for partition in range(topic.partitions):
        parts.append(_INT32.pack(partition))
        racks = topic.racks[partition] if partition < len(topic.racks) else ()
        for rack in sorted(racks, key=_java_order):
            parts += [_INT32.pack(len(_utf16(rack)) // 2), _text(rack)]
    return xxh3_64(b"".join(parts))


def _text(text: str) -> bytes:
    encoded = _utf16(text)
    return encoded + _INT32.pack(len(encoded) // 2)


def _utf16(text: str) -> bytes:
    return text.encode("utf-16-le")


def _java_order(text: str) -> bytes:
    """Java compares strings by their 16-bit units."""
    return text.encode("utf-16-be")


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value
