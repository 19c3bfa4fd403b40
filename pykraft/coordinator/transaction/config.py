"""The settings of the transaction coordinator, under Kafka's names.

Those of the internal topic count when it is created. The others count for each request or each round.

Follows org.apache.kafka.coordinator.transaction.{TransactionLogConfig,TransactionStateManagerConfig}.
"""

from typing import Any

from pykraft.common.settings.config import Key, integer

# --- the internal topic -----------------------------------------------------------------------------------------------

TRANSACTION_TOPIC = "__transaction_state"
TRANSACTION_LOG_NUM_PARTITIONS = integer(
    "transaction.state.log.num.partitions", 50, "partitions of __transaction_state when it is created", at_least=1
)
TRANSACTION_LOG_REPLICATION_FACTOR = integer(
    "transaction.state.log.replication.factor", 3, "replicas of __transaction_state", at_least=1, kind="short"
)
TRANSACTION_LOG_MIN_ISR = integer(
    "transaction.state.log.min.isr", 2, "min.insync.replicas of __transaction_state when it is created", at_least=1
)
TRANSACTION_LOG_SEGMENT_BYTES = integer(
    "transaction.state.log.segment.bytes",
    100 << 20,
    "segment.bytes of __transaction_state when it is created",
    at_least=1,
)

# --- transactions -----------------------------------------------------------------------------------------------------

TRANSACTION_MAX_TIMEOUT_MS = integer(
    "transaction.max.timeout.ms", 900_000, "the longest timeout that a producer may ask for", at_least=1
)
TRANSACTIONAL_ID_EXPIRATION_MS = integer(
    "transactional.id.expiration.ms",
    604_800_000,
    "a transactional id without a transaction is forgotten after this long",
    at_least=1,
)
ABORT_TIMED_OUT_INTERVAL_MS = integer(
    "transaction.abort.timed.out.transaction.cleanup.interval.ms",
    10_000,
    "how often transactions that are open for too long are looked for",
    at_least=1,
)
REMOVE_EXPIRED_INTERVAL_MS = integer(
    "transaction.remove.expired.transaction.cleanup.interval.ms",
    3_600_000,
    "how often transactional ids that are unused for too long are looked for",
    at_least=1,
)

TRANSACTION_KEYS: list[Key[Any]] = [
    TRANSACTION_LOG_NUM_PARTITIONS,
    TRANSACTION_LOG_REPLICATION_FACTOR,
    TRANSACTION_LOG_MIN_ISR,
    TRANSACTION_LOG_SEGMENT_BYTES,
    TRANSACTION_MAX_TIMEOUT_MS,
    TRANSACTIONAL_ID_EXPIRATION_MS,
    ABORT_TIMED_OUT_INTERVAL_MS,
    REMOVE_EXPIRED_INTERVAL_MS,
]
