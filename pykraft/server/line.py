"""Which requests of a connection may wait for the replicas together.

Kafka takes a request of a connection after it has answered the one before. For a Produce request with acks=all that
is one round trip to the replicas for each batch. Several batches may as well make the trip together (see
`transport.server_channel`), if their producer does not number them.

A producer that does (an idempotent one) is served as in Kafka. What it has not been answered may be in the log or not,
and it asks again under the same numbers. A broker that leads recognises the last five batches of each producer. But one
that was stopped in order and started again knows only the last one: more is not in the snapshot of its producers
(`storage.producer_state`). So of a connection no more than one batch should be of an unknown fate.
"""

from pykraft.protocol.messages.data import ProduceRequest
from pykraft.protocol.schema import Request
from pykraft.records.batch import HEADER_BYTES, RecordBatch

ALL_REPLICAS = -1
"""acks=all."""


def may_wait_in_line(request: Request) -> bool:
    """Whether others of its kind may be taken before it is answered."""
    if not isinstance(request, ProduceRequest) or request.acks != ALL_REPLICAS:
        return False
    return not any(_is_numbered(part.records) for topic in request.topic_data for part in topic.partition_data)


def _is_numbered(records: memoryview | None) -> bool:
    """Of a partition's one batch. What is too short to be one is refused, whoever sent it."""
    return records is not None and len(records) >= HEADER_BYTES and RecordBatch(records).has_producer_id
