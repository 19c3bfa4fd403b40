"""The settings of the group coordinator, under Kafka's names.

Those of the internal topic count when it is created: how many partitions it has says where each group lives, so Kafka
does not change that later either. The others count for each request.

Follows org.apache.kafka.coordinator.group.GroupCoordinatorConfig.
"""

from typing import Any

from pykraft.common.config import Key, integer

# --- the internal topic -----------------------------------------------------------------------------------------------

OFFSETS_TOPIC_NUM_PARTITIONS = integer(
    "offsets.topic.num.partitions", 50, "partitions of __consumer_offsets when it is created", at_least=1
)
OFFSETS_TOPIC_REPLICATION_FACTOR = integer(
    "offsets.topic.replication.factor", 3, "replicas of the topic of committed offsets", at_least=1, kind="short"
)
OFFSETS_TOPIC_SEGMENT_BYTES = integer(
    "offsets.topic.segment.bytes", 100 << 20, "segment.bytes of __consumer_offsets when it is created", at_least=1
)
OFFSETS_COMMIT_TIMEOUT_MS = integer(
    "offsets.commit.timeout.ms", 5000, "a commit that is not replicated after this long fails", at_least=1
)

# --- committed offsets ------------------------------------------------------------------------------------------------

OFFSET_METADATA_MAX_BYTES = integer(
    "offset.metadata.max.bytes", 4096, "the longest text that a client may commit with an offset"
)
OFFSETS_RETENTION_MINUTES = integer(
    "offsets.retention.minutes", 10_080, "offsets of a group without members are kept this long", at_least=1
)
OFFSETS_RETENTION_CHECK_INTERVAL_MS = integer(
    "offsets.retention.check.interval.ms", 600_000, "how often old offsets are looked for", at_least=1, kind="long"
)

# --- classic groups ---------------------------------------------------------------------------------------------------

GROUP_MIN_SESSION_TIMEOUT_MS = integer(
    "group.min.session.timeout.ms", 6000, "the shortest session that a classic member may ask for"
)
GROUP_MAX_SESSION_TIMEOUT_MS = integer(
    "group.max.session.timeout.ms", 1_800_000, "the longest session that a classic member may ask for"
)
GROUP_INITIAL_REBALANCE_DELAY_MS = integer(
    "group.initial.rebalance.delay.ms", 3000, "an empty classic group waits this long for more members to join"
)
GROUP_MAX_SIZE = integer("group.max.size", (1 << 31) - 1, "the most members of a classic group", at_least=1)

GROUP_KEYS: list[Key[Any]] = [
    OFFSETS_TOPIC_NUM_PARTITIONS,
    OFFSETS_TOPIC_REPLICATION_FACTOR,
    OFFSETS_TOPIC_SEGMENT_BYTES,
    OFFSETS_COMMIT_TIMEOUT_MS,
    OFFSET_METADATA_MAX_BYTES,
    OFFSETS_RETENTION_MINUTES,
    OFFSETS_RETENTION_CHECK_INTERVAL_MS,
    GROUP_MIN_SESSION_TIMEOUT_MS,
    GROUP_MAX_SESSION_TIMEOUT_MS,
    GROUP_INITIAL_REBALANCE_DELAY_MS,
    GROUP_MAX_SIZE,
]
