"""What is in a piece on its way: the frame, whose it is, and a few words about it.

A request says in its header what it is. A response does not: it has only the correlation id of the request it answers,
so the network remembers for each connection what was asked. Nodes and clients send each frame by itself. The few
words name what Kafka's replication is about: the epoch, the offsets, whether a vote was granted. They
are picked from the message's fields by the fields' names, so they need no table of messages.
"""

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from pykraft.common.errors import ErrorCode, KafkaError, ProtocolError
from pykraft.common.types import METADATA_TOPIC, METADATA_TOPIC_ID, ZERO_UUID, Uuid
from pykraft.metadata.hiding import without_secrets_of_metadata
from pykraft.protocol.api import requests
from pykraft.protocol.field_tree import FrameTree, field_tree, read_tree
from pykraft.protocol.header import SIZE, RequestHeader, decode_response, request_header_version
from pykraft.protocol.hiding import without_secrets
from pykraft.protocol.messages.data import ProduceRequest
from pykraft.protocol.schema import Request, Struct
from pykraft.records.batch import batches
from pykraft.sim.world.network import InFlight

TopicName = Callable[[Uuid], str | None]
_UNREADABLE = (ProtocolError, KafkaError, struct.error, IndexError)
_MOST_WORDS = 4
UNKNOWN_TOPIC = "a topic"
"""In place of a topic's name, where only its id is known."""
_KEY_AND_VERSION = struct.Struct(">hh")
_CORRELATION = struct.Struct(">i")


@dataclass(frozen=True)
class Frame:
    """One request or response, encoded, between two hosts."""

    number: int
    """The piece that it travels in."""
    sender: str
    receiver: str
    kind: type[Request]
    version: int
    is_response: bool
    correlation_id: int
    sent_us: int
    data: memoryview

    @property
    def name(self) -> str:
        """Kafka's name of the API."""
        return self.kind.__name__.removesuffix("Request")

    @property
    def after_correlation_id(self) -> memoryview:
        """What two frames that say the same have in common."""
        return self.data[4:] if self.is_response else self.data[8:]

    def message(self) -> Struct:
        """The message, decoded. ProtocolError if that cannot be done."""
        if self.is_response:
            return decode_response(self.kind.response, self.version, self.data)[1]
        header_version = request_header_version(self.kind, self.version)
        _, position = RequestHeader.decode_from(self.data, header_version)
        return self.kind.decode(self.data, self.version, position)

    def summary(self, topic_name: TopicName = lambda _: None) -> str:
        """A few words, such as "t-0, epoch 3, from offset 17"; topics that go by their ids are named if possible."""
        try:
            return ", ".join(_words(self.message(), topic_name))
        except _UNREADABLE:
            return f"{len(self.data):,} bytes that cannot be read"

    def fields(self) -> FrameTree:
        """The frame's fields with their bytes; `pykraft.viz.explore` draws them."""
        return read_tree(self.data, self.kind, self.version, self.is_response)

    def tree(self) -> str:
        """The message's fields, one a line."""
        return field_tree(self.fields(), said_of_records)

    def __str__(self) -> str:
        what = "response" if self.is_response else "request"
        return f"{self.name} {what} from {self.sender} to {self.receiver}"


def read_frame(flight: InFlight) -> Frame | None:
    """The frame in a piece; None if it has none, or one that cannot be read."""
    data, end = flight.piece.data, flight.end
    if not data or len(data) < SIZE.size + 4:
        return None
    is_response = end.endpoint is not None
    asked = end.asked.get(data[4:8]) if is_response else data[4:8]
    if asked is None or len(asked) < 4:
        return None
    key, version = _KEY_AND_VERSION.unpack(asked)
    if key not in requests:
        return None
    (correlation_id,) = _CORRELATION.unpack_from(data, 4 if is_response else 8)
    frame = without_secrets(requests[key], version, is_response, memoryview(data)[SIZE.size :])
    if is_response and (bytes(METADATA_TOPIC_ID) in data or METADATA_TOPIC.encode() in data):
        frame = without_secrets_of_metadata(requests[key], version, frame)
    sender, receiver = flight.link
    number, sent_us = flight.piece.number, flight.piece.sent_us
    return Frame(number, sender, receiver, requests[key], version, is_response, correlation_id, sent_us, frame)


def said_of_records(records: memoryview) -> str:
    """How many bytes, and which offsets."""
    try:
        found = list(batches(records))
    except KafkaError:
        found = []
    if not found:
        return f"{len(records):,} bytes"
    first, last, count = found[0].base_offset, found[-1].last_offset, sum(batch.count for batch in found)
    return f"{len(records):,} bytes, {count} in {len(found)} batches, offsets {first} to {last}"


# --- a few words ------------------------------------------------------------------------------------------------------

_SAID: dict[str, str] = {
    "pre_vote": "pre-vote",
    "vote_granted": "granted",
    "current_leader_epoch": "epoch {}",
    "replica_epoch": "epoch {}",
    "leader_epoch": "epoch {}",
    "generation_id": "generation {}",
    "generation_id_or_member_epoch": "generation {}",
    "member_epoch": "member epoch {}",
    "fetch_offset": "from offset {}",
    "last_offset": "log end {}",
    "end_offset": "end offset {}",
    "records": "{}",
    "high_watermark": "high watermark {}",
    "base_offset": "at offset {}",
    "committed_offset": "offset {}",
    "offset": "offset {}",
    "timestamp": "timestamp {}",
    "acks": "acks {}",
    "isr": "ISR {}",
    "new_isr": "ISR {}",
    "current_metadata_offset": "metadata offset {}",
    "is_fenced": "fenced",
    "want_fence": "wants to be fenced",
    "broker_epoch": "broker epoch {}",
    "transactional_id": "{}",
    "group_id": "{}",
    "producer_id": "producer {}",
}
_RANK = {label: rank for rank, label in reversed(list(enumerate(_SAID.values())))}
_METADATA_LOG = f"{METADATA_TOPIC}-0"
_TOPIC_FIELDS = ("topic", "name", "topic_name", "topic_id")
_PARTITION_FIELDS = ("partition", "partition_index", "index")
_NOT_SAID = {"replica_epoch": -1, "high_watermark": (1 << 63) - 1}
"""Values that say no more than that there is none."""
_FETCHING_BROKER = "replica_state"
"""What is called an epoch in here counts the broker's registrations."""


def _words(message: Struct, topic_name: TopicName) -> list[str]:
    places = list(_places(message, topic_name))
    numbered = not isinstance(message, ProduceRequest)  # a producer does not know the offsets yet
    found: dict[str, str] = {}
    for name, value in _scalars(message):
        label = _SAID.get(name, name)
        if name == "error_code" and value:
            found.setdefault(name, ErrorCode.of(value).name)
        elif name in _SAID and label not in found and (text := _said(name, value, numbered)) is not None:
            found[label] = text
    ordered = sorted(found, key=lambda label: _RANK.get(label, -1))
    more = len(places) - 1
    words = [*places[:1], *(found[label] for label in ordered[:_MOST_WORDS])]
    return [*words, f"and {more} more partition{'s' * (more > 1)}"] if more > 0 else words


def _said(name: str, value: Any, numbered: bool) -> str | None:
    if isinstance(value, memoryview | bytes):
        return _said_of_batches(memoryview(value), numbered) if value else None
    if isinstance(value, bool):
        if name == "vote_granted":
            return "granted" if value else "refused"
        return _SAID[name] if value else None
    if value is None or value in ("", ()) or value == _NOT_SAID.get(name):
        return None
    if isinstance(value, int) and value < 0 and name not in ("acks", "timestamp"):
        return None
    if isinstance(value, list | tuple):
        return _SAID[name].format(" ".join(str(getattr(each, "broker_id", each)) for each in value))
    return _SAID[name].format(value)


def _said_of_batches(records: memoryview, numbered: bool) -> str:
    try:
        found = list(batches(records))
    except KafkaError:
        found = []
    if not found:
        return f"{len(records):,} bytes"
    count = sum(batch.count for batch in found)
    if not numbered:
        return f"{count} record{'s' * (count != 1)}"
    first, last = found[0].base_offset, found[-1].last_offset
    return f"offset {first}" if first == last else f"offsets {first} to {last}"


def _scalars(message: Struct) -> Iterator[tuple[str, Any]]:
    """All fields that hold no structures, the outer ones last: the partition's fields say most."""
    own = []
    for field in message.fields:
        value = getattr(message, field.name)
        if isinstance(value, Struct):
            if field.name != _FETCHING_BROKER:
                yield from _scalars(value)
        elif isinstance(value, list | tuple) and value and isinstance(value[0], Struct) and field.name not in _SAID:
            for each in value[:3]:
                yield from _scalars(each)
        else:
            own.append((field.name, value))
    yield from own


def _places(message: Struct, topic_name: TopicName) -> Iterator[str]:
    """The partitions that a message is about."""
    for field in message.fields:
        value = getattr(message, field.name)
        if not isinstance(value, list | tuple):
            continue
        for topic in value:
            if not isinstance(topic, Struct):
                continue
            name = _topic(topic, topic_name)
            for partitions in (getattr(topic, f.name) for f in topic.fields):
                if name and isinstance(partitions, list | tuple):
                    numbers = (_partition(each) for each in partitions)
                    found = (f"{name}-{number}" for number in numbers if number is not None)
                    yield from ("metadata log" if place == _METADATA_LOG else place for place in found)


def _topic(topic: Struct, topic_name: TopicName) -> str | None:
    for name in _TOPIC_FIELDS:
        value = getattr(topic, name, None)
        if isinstance(value, Uuid) and value != ZERO_UUID:
            return METADATA_TOPIC if value == METADATA_TOPIC_ID else topic_name(value) or UNKNOWN_TOPIC
        if isinstance(value, str) and value:
            return value
    return None


def _partition(entry: object) -> int | None:
    if isinstance(entry, int) and not isinstance(entry, bool):
        return entry
    found = next((getattr(entry, name) for name in _PARTITION_FIELDS if hasattr(entry, name)), None)
    return found if isinstance(found, int) else None
