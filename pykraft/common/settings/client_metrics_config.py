"""The settings of a subscription to clients' metrics (resource type CLIENT_METRICS, KIP-714).

A subscription says which metrics the clients that match push, and how often. pykraft has no subscriptions: their
settings are described, and a change of one is refused.

Follows org.apache.kafka.server.metrics.ClientMetricsConfigs.
"""

from pykraft.common.settings.config import ConfigDef, integer, names

CLIENT_METRICS_CONFIG = ConfigDef(
    [
        integer("interval.ms", 300_000, "how often a client pushes its metrics", at_least=100, at_most=3_600_000),
        names("match", (), "the clients that push: patterns of what a client says of itself"),
        names("metrics", (), "the metrics that are pushed: beginnings of their names"),
    ]
)
