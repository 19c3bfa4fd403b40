"""Messages of idempotent and transactional producers: InitProducerId.

A producer id with its epoch and the sequence numbers of its batches lets a leader tell a repeated batch from a new one
(KIP-98). A broker takes ids from a block that the controller allots it with AllocateProducerIds.
"""

from pykraft.protocol.listeners import BROKER
from pykraft.protocol.schema import Request, Response, field, int16, int32, int64, string

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1


class InitProducerIdRequest(Request, api=22, versions=(0, 5), flexible=2, listeners=BROKER):
    """Give me a producer id: a fresh one, or for a transactional id its own with a higher epoch, which fences whoever
    used it before. A producer that names its present id and epoch wants only the epoch raised (KIP-360)."""

    transactional_id: string | None = field(default=None)
    transaction_timeout_ms: int32
    producer_id: int64 = field(default=NO_PRODUCER_ID, since=3)
    producer_epoch: int16 = field(default=NO_PRODUCER_EPOCH, since=3)


class InitProducerIdResponse(Response, to=InitProducerIdRequest):
    """The producer id and epoch to write with."""

    throttle_time_ms: int32 = field(default=0)
    error_code: int16 = field(default=0)
    producer_id: int64 = field(default=NO_PRODUCER_ID)
    producer_epoch: int16 = field(default=NO_PRODUCER_EPOCH)
