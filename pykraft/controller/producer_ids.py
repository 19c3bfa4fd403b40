"""Blocks of producer ids: a broker gets the next one, and the log says from where on ids are free.

Follows org.apache.kafka.controller.ProducerIdControlManager (KIP-730).
"""

from pykraft.controller.cluster_control import ClusterControl
from pykraft.controller.result import Result
from pykraft.metadata.image import MetadataImage
from pykraft.protocol.messages.brokers import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from pykraft.protocol.messages.records import ProducerIdsRecord

PRODUCER_ID_BLOCK = 1000


def allocate_producer_ids(
    image: MetadataImage, request: AllocateProducerIdsRequest
) -> Result[AllocateProducerIdsResponse]:
    """Plans the next block for this broker."""
    ClusterControl.checked(image, request.broker_id, request.broker_epoch)
    start = image.next_producer_id
    record = ProducerIdsRecord(
        broker_id=request.broker_id,
        broker_epoch=request.broker_epoch,
        next_producer_id=start + PRODUCER_ID_BLOCK,
    )
    return Result(
        [(record, 0)], AllocateProducerIdsResponse(producer_id_start=start, producer_id_len=PRODUCER_ID_BLOCK)
    )
