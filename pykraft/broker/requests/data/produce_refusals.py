"""What a produce does not append, and what its answer says of that.

A refusal costs one batch of the request, and the others are appended. The answer names the error, the sentence for it,
the records that are wrong (KIP-467), where the log begins, and the leader if it is another broker (KIP-951).

Follows kafka.server.{KafkaApis.handleProduceRequest,ReplicaManager.appendRecordsToLeader}.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pykraft.broker.replication.delayed import ProduceResult
from pykraft.broker.replication.replica_manager import ReplicaManager
from pykraft.broker.requests.data.partitions import NOT_LEADER, Asked, current_leader
from pykraft.common.errors import ErrorCode, InvalidRecordsError, KafkaError, RecordError
from pykraft.common.types import ZERO_UUID
from pykraft.protocol.messages.data import NodeEndpoint, ProduceResponse
from pykraft.records.batch import CODEC_MASK, RecordBatch
from pykraft.records.compression import Compression
from pykraft.storage.validator import UnpackBudget
from pykraft.transport.server_channel import RequestContext

FIRST_ZSTD_VERSION = 7
_BEFORE_THE_LOG = (
    *NOT_LEADER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.RECORD_LIST_TOO_LARGE,
    ErrorCode.CORRUPT_MESSAGE,
)
"""With these refusals of a batch the answer does not say where the log begins."""


@dataclass(slots=True)
class ProducedBatch(ProduceResult):
    """One partition's batch on its way through a produce: what the request brings, and what becomes of it. Without a
    batch it is refused."""

    asked: Asked = ("", ZERO_UUID, -1)
    batch: RecordBatch | None = None
    log_start_offset: int = -1
    """Of a log that refused the batch."""
    record_errors: Sequence[RecordError] = ()

    def refuse(self, refusal: KafkaError) -> None:
        """It is not appended, and this is why."""
        self.error, self.detail = refusal.code, refusal.detail


def check_codec(batch: RecordBatch) -> None:
    """KafkaError at a codec that versions before `FIRST_ZSTD_VERSION` do not know."""
    if batch.attributes & CODEC_MASK == Compression.ZSTD:
        raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs Produce version 7")


def not_appended(
    replicas: ReplicaManager, produced: ProducedBatch, budget: UnpackBudget, error: KafkaError
) -> ProducedBatch:
    """The log, or what is before it, has refused the batch."""
    topic_partition = produced.topic_partition
    assert produced.batch is not None, "without a batch it is refused before"
    replicas.topic_metrics.refused(topic_partition.topic, error.code, produced.batch.size)
    produced.refuse(error)
    if error.code is ErrorCode.UNKNOWN_TOPIC_ID and produced.asked[1] == ZERO_UUID:  # a client by names knows none
        produced.error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if isinstance(error, InvalidRecordsError):
        produced.record_errors = error.records[: budget.left_errors]
        budget.left_errors -= len(produced.record_errors)
    if error.code not in _BEFORE_THE_LOG:
        produced.log_start_offset = replicas.partition(topic_partition).log.log_start_offset
    return produced


def refused_answer(
    replicas: ReplicaManager, produced: ProducedBatch, context: RequestContext, leaders: dict[int, NodeEndpoint]
) -> ProduceResponse.Topic.Partition:
    """The answer about a batch that was not appended, or is not on enough replicas. The address of another leader is
    added to `leaders`."""
    assert produced.error is not None, "it is decided before it is answered"
    partition_type = ProduceResponse.Topic.Partition
    return partition_type(
        index=produced.topic_partition.partition,
        error_code=produced.error,
        error_message=produced.detail or None,
        record_errors=[
            partition_type.RecordError(batch_index=index, batch_index_error_message=message)
            for index, message in produced.record_errors
        ],
        log_start_offset=produced.log_start_offset,
        current_leader=current_leader(replicas, produced.error, produced.topic_partition, context, leaders),
    )
