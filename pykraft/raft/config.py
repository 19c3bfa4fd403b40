"""The settings of the quorum, under Kafka's names: how long to wait for a leader, for votes, for answers.

Follows org.apache.kafka.raft.QuorumConfig.
"""

from typing import Any

from pykraft.common.settings.config import Key, boolean, integer

ELECTION_TIMEOUT_MS = integer(
    "controller.quorum.election.timeout.ms", 1000, "a candidate waits so long, and up to twice, for votes", at_least=0
)
FETCH_TIMEOUT_MS = integer(
    "controller.quorum.fetch.timeout.ms",
    2000,
    "a follower that hears nothing for this long starts an election",
    at_least=0,
)
ELECTION_BACKOFF_MAX_MS = integer(
    "controller.quorum.election.backoff.max.ms",
    1000,
    "after a resignation the least likely successor waits this long before it starts an election",
    at_least=0,
)
REQUEST_TIMEOUT_MS = integer(
    "controller.quorum.request.timeout.ms", 2000, "an answer of another controller is waited for so long", at_least=0
)
RETRY_BACKOFF_MS = integer(
    "controller.quorum.retry.backoff.ms", 20, "pause after a failed request to another controller", at_least=0
)
APPEND_LINGER_MS = integer(
    "controller.quorum.append.linger.ms", 25, "the leader gathers records so long before it writes them", at_least=0
)
AUTO_JOIN = boolean(
    "controller.quorum.auto.join.enable", False, "a controller that is no voter asks the leader to make it one"
)
FETCH_MAX_BYTES = integer(
    "internal.metadata.max.fetch.size.in.bytes", 8 << 20, "how much of the metadata log one fetch brings", at_least=1
)
MAX_BATCH_BYTES = integer(
    "internal.metadata.max.batch.size.in.bytes",
    8 << 20,
    "how large one batch of metadata records may be: what becomes true together is refused if it is larger",
    at_least=1000,
)

METADATA_MAX_RETENTION_BYTES = integer(
    "metadata.max.retention.bytes",
    100 << 20,
    "more than this of metadata log and snapshots is not kept, but the newest snapshot is; -1 for all",
    at_least=-1,
    kind="long",
)
METADATA_MAX_RETENTION_MS = integer(
    "metadata.max.retention.ms",
    7 * 24 * 3_600_000,
    "snapshots of the metadata older than this are not kept, but the newest is; -1 for all",
    at_least=-1,
    kind="long",
)

MAX_BYTES_BETWEEN_SNAPSHOTS = integer(
    "metadata.log.max.record.bytes.between.snapshots",
    20 << 20,
    "a snapshot of the metadata is written when so much was committed since the last one",
    at_least=1,
    kind="long",
)
MAX_SNAPSHOT_INTERVAL_MS = integer(
    "metadata.log.max.snapshot.interval.ms",
    3_600_000,
    "a snapshot of the metadata is written when the last one is so old; 0 for never",
    at_least=0,
    kind="long",
)

RAFT_KEYS: list[Key[Any]] = [
    ELECTION_TIMEOUT_MS,
    FETCH_TIMEOUT_MS,
    ELECTION_BACKOFF_MAX_MS,
    REQUEST_TIMEOUT_MS,
    RETRY_BACKOFF_MS,
    APPEND_LINGER_MS,
    AUTO_JOIN,
    FETCH_MAX_BYTES,
    MAX_BATCH_BYTES,
    METADATA_MAX_RETENTION_BYTES,
    METADATA_MAX_RETENTION_MS,
    MAX_BYTES_BETWEEN_SNAPSHOTS,
    MAX_SNAPSHOT_INTERVAL_MS,
]
