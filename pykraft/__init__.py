"""pykraft: a complete small Kafka in Python, made to be read.

What most people need is here by its short name; everything else is found under its module's name. The short names are
looked up when they are used, so that a Spark executor that only decodes record batches does not load a whole broker.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pykraft.admin import Admin
    from pykraft.client.admin import NewTopic
    from pykraft.client.configs import AlterConfigOp, ConfigResource, ConfigResourceType
    from pykraft.cluster import Cluster, ClusterError
    from pykraft.common.errors import ConfigError, ErrorCode, KafkaError
    from pykraft.common.types import TopicPartition
    from pykraft.consumer import Consumer
    from pykraft.producer import Producer
    from pykraft.simulation import Simulation

_HOMES = {
    "Admin": "pykraft.admin",
    "AlterConfigOp": "pykraft.client.configs",
    "Cluster": "pykraft.cluster",
    "ClusterError": "pykraft.cluster",
    "ConfigError": "pykraft.common.errors",
    "ConfigResource": "pykraft.client.configs",
    "ConfigResourceType": "pykraft.client.configs",
    "Consumer": "pykraft.consumer",
    "ErrorCode": "pykraft.common.errors",
    "KafkaError": "pykraft.common.errors",
    "NewTopic": "pykraft.client.admin",
    "Producer": "pykraft.producer",
    "Simulation": "pykraft.simulation",
    "TopicPartition": "pykraft.common.types",
}

__all__ = [
    "Admin",
    "AlterConfigOp",
    "Cluster",
    "ClusterError",
    "ConfigError",
    "ConfigResource",
    "ConfigResourceType",
    "Consumer",
    "ErrorCode",
    "KafkaError",
    "NewTopic",
    "Producer",
    "Simulation",
    "TopicPartition",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module pykraft has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
