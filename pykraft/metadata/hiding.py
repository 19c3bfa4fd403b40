"""A response with records of the metadata log, for people to look at, without what is in them of passwords.

The log holds what proves a password: the keys of SCRAM credentials, and settings such as ``ssl.keystore.key``. Nodes
fetch it from each other, record by record or as a snapshot. In a frame that is shown, each of their bytes is an
asterisk, so that every other field keeps its place, and the batch has the checksum of what is shown. What cannot be
read, such as a piece from the middle of a snapshot, is asterisks altogether.

Requests are hidden in `protocol.hiding`. Follows org.apache.kafka.metadata.util.RecordRedactor for what is a secret.
"""

from collections.abc import Iterator
from typing import Any

from pykraft.common.errors import KafkaError, ProtocolError
from pykraft.common.settings.secrets import is_secret
from pykraft.common.types import METADATA_TOPIC, METADATA_TOPIC_ID
from pykraft.protocol.header import ResponseHeader, response_header_version
from pykraft.protocol.messages.data import FetchRequest
from pykraft.protocol.messages.quorum import FetchSnapshotRequest
from pykraft.protocol.messages.records import (
    ConfigRecord,
    MetadataRecord,
    UserScramCredentialRecord,
    decode_metadata_record,
)
from pykraft.protocol.schema import Request
from pykraft.records.batch import ATTRIBUTES_OFFSET, CRC_OFFSET, RecordBatch, batches
from pykraft.records.crc32c import crc32c

_HIDES = b"*"
_KINDS = (FetchRequest, FetchSnapshotRequest)


def without_secrets_of_metadata(kind: type[Request], version: int, frame: memoryview) -> memoryview:
    """A response of this kind as it may be shown."""
    if kind not in _KINDS:
        return frame
    try:
        _, position = ResponseHeader.decode_from(frame, response_header_version(kind.response, version))
        message: Any = kind.response.decode(frame, version, position)
    except ProtocolError:
        return memoryview(bytes(frame[:8]) + _HIDES * (len(frame) - 8))
    shown = _fetched(message) if kind is FetchRequest else _snapshot(message)
    return memoryview(bytes(frame[:position]) + shown.to_bytes(version))


def _fetched(message: Any) -> Any:
    responses = [
        topic.replace(partitions=[each.replace(records=_hidden(each.records)) for each in topic.partitions])
        if topic.topic == METADATA_TOPIC or topic.topic_id == METADATA_TOPIC_ID
        else topic
        for topic in message.responses
    ]
    return message.replace(responses=responses)


def _snapshot(message: Any) -> Any:
    def shown(each: Any) -> Any:
        data = each.unaligned_records
        return each.replace(unaligned_records=_HIDES * len(data or b"") if each.position else _hidden(data))

    return message.replace(
        topics=[topic.replace(partitions=[*map(shown, topic.partitions)]) for topic in message.topics]
    )


def _hidden(records: Any) -> Any:
    """Whole batches without secrets, and asterisks for the rest."""
    if not records:
        return records
    shown = b""
    try:
        for batch in batches(memoryview(records)):
            shown += _batch(batch)
    except (KafkaError, ProtocolError):
        pass
    return shown + _HIDES * (len(records) - len(shown))


def _batch(batch: RecordBatch) -> bytes:
    found = bytes(batch.buffer)
    if batch.is_control:
        return found
    shown = found
    for record in batch.records():
        if record.value is not None:
            for secret in _secrets(decode_metadata_record(record.value)[0]):
                shown = shown.replace(secret, _HIDES * len(secret))
    if shown == found:
        return found
    checksum = crc32c(memoryview(shown)[ATTRIBUTES_OFFSET:]).to_bytes(4, "big")
    return shown[:CRC_OFFSET] + checksum + shown[CRC_OFFSET + 4 :]


def _secrets(record: MetadataRecord) -> Iterator[bytes]:
    """What in a record proves a password, or is one."""
    if isinstance(record, UserScramCredentialRecord):
        yield from (bytes(each) for each in (record.stored_key, record.server_key, record.salt) if each)
    elif isinstance(record, ConfigRecord) and record.value and is_secret(record.name):
        yield record.value.encode()
