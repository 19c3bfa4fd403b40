"""What a client's user meets besides the protocol's own errors: each with its partition, so that it can be handled.

Follows org.apache.kafka.clients.consumer.{NoOffsetForPartitionException,OffsetOutOfRangeException,
LogTruncationException,CommitFailedException,RetriableCommitFailedException} and
org.apache.kafka.common.errors.{TimeoutException,RebalanceInProgressException,FencedInstanceIdException,
TransactionAbortableException,ProducerFencedException}.
"""

from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import TopicPartition


class ClientTimeoutError(KafkaError):
    """The client gave up waiting; the message says for what, and what the last obstacle was."""

    def __init__(self, detail: str) -> None:
        super().__init__(ErrorCode.REQUEST_TIMED_OUT, detail)


class NoOffsetError(KafkaError):
    """There is no position to read from, and ``auto.offset.reset=none`` forbids to choose one."""

    def __init__(self, topic_partition: TopicPartition, offset: int | None = None) -> None:
        where = "no position is set" if offset is None else f"offset {offset} is not in the log (any more)"
        super().__init__(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{topic_partition}: {where}, and auto.offset.reset is none. Seek, or set auto.offset.reset",
        )
        self.topic_partition = topic_partition


class LogTruncationError(KafkaError):
    """Records that this consumer had read were cut off when another leader took over (KIP-320)."""

    def __init__(self, topic_partition: TopicPartition, offset: int, diverging_offset: int | None) -> None:
        """`diverging_offset` is where the two logs part, None if the new leader cannot say."""
        where = " at an unknown offset" if diverging_offset is None else f" to offset {diverging_offset}"
        super().__init__(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{topic_partition}: the log was truncated{where}, this consumer had read up to {offset}. Seek, or set "
            "auto.offset.reset",
        )
        self.topic_partition = topic_partition
        self.diverging_offset = diverging_offset


class CommitFailedError(KafkaError):
    """The group gave this consumer's partitions to other members; its offsets were not committed."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(
            code,
            "the offsets were not committed: this consumer is no member of the group's current generation, and others "
            "may read its partitions. Call poll() to join again; if polls come too late, increase max.poll.interval.ms "
            "or reduce max.poll.records",
        )


class AuthenticationError(KafkaError):
    """A node has not let this client in. The client tries again, so a later call may succeed."""

    def __init__(self, detail: str) -> None:
        super().__init__(ErrorCode.SASL_AUTHENTICATION_FAILED, detail)

    def __str__(self) -> str:
        return self.detail if " TLS: " in self.detail else super().__str__()  # no code is on the wire for TLS


class RebalanceInProgressError(KafkaError):
    """The offsets were not committed because the group is rebalancing; `poll()` completes the rebalance."""

    def __init__(self) -> None:
        super().__init__(
            ErrorCode.REBALANCE_IN_PROGRESS,
            "the offsets were not committed: the group is rebalancing. Call poll(), then commit again",
        )


class FencedInstanceIdError(KafkaError):
    """Another consumer took over this one's ``group.instance.id``."""

    def __init__(self, instance_id: str | None) -> None:
        super().__init__(
            ErrorCode.FENCED_INSTANCE_ID,
            f"another consumer joined with group.instance.id={instance_id}: close this one",
        )


class RetriableCommitFailedError(KafkaError):
    """An asynchronous commit failed with an error that may pass. It was not repeated: a later commit may have
    succeeded meanwhile, and a repetition would move the offsets back."""

    def __init__(self, error: KafkaError) -> None:
        super().__init__(error.code, f"the offsets were not committed: {error.detail or error.code.text}")


class TransactionError(KafkaError):
    """A step of a transaction failed. What the producer can still do depends on which of the two kinds it is."""


class TransactionAbortableError(TransactionError):
    """The transaction cannot be committed any more. Once it is aborted, the producer can begin another one."""

    def __init__(self, code: ErrorCode, what: str) -> None:
        super().__init__(code, f"{what}. Call abort_transaction(); then the producer can begin another transaction")


class TransactionFatalError(TransactionError):
    """The producer can do nothing any more. The coordinator aborts its transaction when that times out, or when another
    producer with the same transactional.id calls init_transactions()."""

    def __init__(self, code: ErrorCode, what: str) -> None:
        super().__init__(code, f"{what}. Close this producer")


class ProducerFencedError(TransactionFatalError):
    """Another producer took over the transactional.id, or the transaction was open for longer than its timeout."""

    def __init__(self, transactional_id: str) -> None:
        super().__init__(
            ErrorCode.PRODUCER_FENCED,
            f"another producer with transactional.id={transactional_id} has called init_transactions(), or the "
            "coordinator has aborted the transaction after transaction.timeout.ms",
        )
