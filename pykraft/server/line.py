"""Which requests of a connection may wait for the replicas together.

Kafka takes a request of a connection after it has answered the one before. For a Produce request with acks=all that
is one round trip to the replicas for each batch. Several batches may as well make the trip together (see
`transport.server_channel`), if their producer does not number them.

A producer that does (an idempotent one) is served as in Kafka. What it has not been answered may be in the log or not,
and it asks again under the same numbers. A broker that leads recognises the last five batches of each producer. But one
that was stopped in order and started again knows only the last one: more is not in the snapshot of its producers
(`storage.producer_state`). So of a connection no more than one batch should be of an unknown fate.
"""

import struct

from pykraft.protocol.messages.data import ProduceRequest
from pykraft.protocol.schema import Request
from pykraft.records.batch import HEADER_BYTES, NO_PRODUCER_ID

ALL_IN_SYNC = -1
"""acks=all."""
_PRODUCER_ID = struct.Struct(">q")
_PRODUCER_ID_OFFSET = 43


def may_wait_in_line(request: Request) -> bool:
    """Whether others of its kind may be taken before it is answered."""
    if not isinstance(request, ProduceRequest) or request.acks != ALL_IN_SYNC:
        return False
    return not any(_is_numbered(part.records) for topic in request.topic_data for part in topic.partition_data)


def _is_numbered(records: memoryview | bytes | None) -> bool:
    """Of a partition's one batch. What is too short to be one is refused, whoever sent it."""
    if records is None or len(records) < HEADER_BYTES:
        return False
    return bool(_PRODUCER_ID.unpack_from(records, _PRODUCER_ID_OFFSET)[0] != NO_PRODUCER_ID)
