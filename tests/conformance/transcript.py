"""What was said, as text: a line for each structure of an answer, so that two servers' answers can be compared line by
line.

What no two servers can agree on is replaced by what it stands for: ids by the order in which they come up, ports by the
node that listens there, the present time by a word. Error messages are left out; error codes stand by their names.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from pykraft.common.errors import ErrorCode
from pykraft.common.types import ZERO_UUID, Uuid
from pykraft.protocol.messages.admin import CreateTopicsResponse
from pykraft.protocol.schema import Response, Struct
from pykraft.records.batch import RecordBatch, batches

LEFT_OUT = frozenset({"error_message", "batch_index_error_message"})
IN_ORDER = frozenset({"aborted_transactions", "record_errors", "synonyms"})
IDENTITIES = (
    "name",
    "resource_type",
    "resource_name",
    "topic",
    "topic_name",
    "topic_id",
    "key",
    "api_key",
    "node_id",
    "broker_id",
    "replica_id",
    "index",
    "partition",
    "partition_index",
)
TOPIC_CONFIG = 1
"""The source of a topic's own settings. An answer to CreateTopics has some thirty more, always the same."""
A_WHILE_MS = 15 * 60_000


class Names:
    """Who is who in one conversation."""

    def __init__(self, ports: Mapping[int, int]) -> None:
        self._ports = ports
        self._ids: dict[tuple[str, Any], str] = {}

    def topic(self, topic_id: Uuid) -> str:
        return "none" if topic_id == ZERO_UUID else self._numbered("topic", topic_id)

    def producer(self, producer_id: int) -> str:
        return "none" if producer_id < 0 else self._numbered("producer", producer_id)

    def _numbered(self, kind: str, value: Any) -> str:
        known = sum(1 for other, _ in self._ids if other == kind)
        return self._ids.setdefault((kind, value), f"{kind} id {known + 1}")

    def port(self, port: int) -> str:
        return "none" if port < 0 else f"of node {self._ports[port]}"


def lines_of(response: Response, version: int, names: Names) -> list[str]:
    """The fields that this version of the response has."""
    return list(_structure(response, "", version, names))


def _structure(value: Struct, path: str, version: int, names: Names) -> Iterator[str]:
    """The structure's plain fields on one line, then what is nested in it."""
    present = [field.name for field in value.fields if field.present(version) and field.name not in LEFT_OUT]
    nested = [name for name in present if name == "records" or _is_nested(getattr(value, name))]
    plain = [f"{name}={_plain(getattr(value, name), name, names)}" for name in present if name not in nested]
    if plain:
        yield " ".join([path, *plain]).strip()
    for name in nested:
        part = getattr(value, name)
        where = f"{path}.{name}" if path else name
        if name == "records":
            yield from _records(part, where, names)
        elif isinstance(part, Struct):
            yield from _structure(part, where, version, names)
        else:
            in_order = part if name in IN_ORDER else sorted(part, key=lambda each: _identity(each, names))
            if name == "configs" and isinstance(value, CreateTopicsResponse.Topic):
                in_order = [each for each in in_order if each.config_source == TOPIC_CONFIG]
            for number, each in enumerate(in_order):
                yield from _structure(each, f"{where}[{number}]", version, names)


def _is_nested(value: Any) -> bool:
    return isinstance(value, Struct) or (isinstance(value, list | tuple) and any(isinstance(v, Struct) for v in value))


def _identity(value: Struct, names: Names) -> tuple[Any, ...]:
    """What tells one of a list from the others: Kafka's lists come in the order of a hash table."""
    ids = {"topic_id": names.topic, "voter_directory_id": str, "replica_directory_id": str}
    found = ((name, getattr(value, name, None)) for name in IDENTITIES)
    return tuple((part is None, 0 if part is None else ids.get(name, _same)(part)) for name, part in found)


def _same(value: Any) -> Any:
    return value


def _plain(value: Any, name: str, names: Names) -> str:
    match name:
        case "error_code":
            return ErrorCode.of(value).name
        case "topic_id":
            return names.topic(value)
        case "producer_id" | "previous_producer_id" | "next_producer_id":
            return names.producer(value)
        case "port":
            return names.port(value)
        case "cluster_id":
            return "the cluster's" if value else repr(value)
        case "controller_id" if value >= 0:
            return "a node"
        case "log_dir":
            return "a folder"
        case "total_bytes" | "usable_bytes" if value > 0:
            return "some"
        case "documentation" if value:
            return "a text"
        case "session_id" if value:
            return "a session"
        case "finalized_features_epoch" if value >= 0:
            return "an offset"
        case _ if isinstance(value, int) and abs(value - time.time() * 1000) < A_WHILE_MS:
            return "now"
        case _:
            return repr(list(value) if isinstance(value, tuple) else value)


def _records(value: Any, path: str, names: Names) -> Iterator[str]:
    if value is None or not len(value):
        yield f"{path}={None if value is None else 'nothing'}"
        return
    data = memoryview(value)
    for batch in batches(data):
        yield f"{path}: {_batch(batch, names)}"
        for record in batch.records():
            when = _plain(record.timestamp, "timestamp", names)
            yield f"{path}: {record.offset} at {when}: {record.key!r}, {record.value!r}, {list(record.headers)}"
    rest = len(data) - sum(batch.size for batch in batches(data))
    if rest:
        yield f"{path}: {rest} bytes of another batch"


def _batch(batch: RecordBatch, names: Names) -> str:
    words = [
        f"batch {batch.base_offset} to {batch.last_offset} in epoch {batch.partition_leader_epoch}",
        f"{batch.size} bytes",
        batch.compression.name.lower(),
        "log append time" if batch.uses_log_append_time else f"crc {batch.crc:08x}",
    ]
    if batch.has_producer_id:
        words.append(f"{names.producer(batch.producer_id)} epoch {batch.producer_epoch} from {batch.base_sequence}")
    return ", ".join(words)
