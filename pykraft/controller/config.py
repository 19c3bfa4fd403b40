"""The settings that only the controller reads, under Kafka's names: sessions of brokers, defaults of new topics.

Follows org.apache.kafka.server.config.{KRaftConfigs,ServerLogConfigs}.
"""

from typing import Any

from pykraft.common.settings.config import Key, boolean, integer

BROKER_SESSION_TIMEOUT_MS = integer(
    "broker.session.timeout.ms", 9000, "a broker that is silent this long is fenced", at_least=1
)
NUM_PARTITIONS = integer("num.partitions", 1, "partitions of a topic whose maker names no number", at_least=1)
DEFAULT_REPLICATION_FACTOR = integer(
    "default.replication.factor", 1, "replicas of a partition whose maker names no number", at_least=1, at_most=32767
)
DELETE_TOPIC_ENABLE = boolean("delete.topic.enable", True, "whether topics may be deleted")
METADATA_MAX_IDLE_INTERVAL_MS = integer(
    "metadata.max.idle.interval.ms",
    500,
    "the active controller writes a no-op record after this long without another one; 0 for never",
    at_least=0,
)
UNCLEAN_LEADER_ELECTION_INTERVAL_MS = integer(
    "unclean.leader.election.interval.ms",
    300_000,
    "how often the controller looks for partitions without a leader whose topic allows an unclean election",
    at_least=1,
    kind="long",
)
AUTO_LEADER_REBALANCE_ENABLE = boolean(
    "auto.leader.rebalance.enable",
    True,
    "whether the controller gives leaderships back to the first replicas of the assignments",
)
LEADER_IMBALANCE_CHECK_INTERVAL_SECONDS = integer(
    "leader.imbalance.check.interval.seconds",
    300,
    "how often the controller looks for partitions that are led by another than their first replica",
    at_least=1,
    kind="long",
)

CONTROLLER_KEYS: list[Key[Any]] = [
    BROKER_SESSION_TIMEOUT_MS,
    NUM_PARTITIONS,
    DEFAULT_REPLICATION_FACTOR,
    DELETE_TOPIC_ENABLE,
    METADATA_MAX_IDLE_INTERVAL_MS,
    UNCLEAN_LEADER_ELECTION_INTERVAL_MS,
    AUTO_LEADER_REBALANCE_ENABLE,
    LEADER_IMBALANCE_CHECK_INTERVAL_SECONDS,
]
