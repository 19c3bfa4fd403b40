"""pykraft: a complete small Kafka in Python, made to be read.

What most people need is here by its short name; everything else is found under its module's name. The short names are
looked up when they are used, so that a Spark executor that only decodes record batches does not load a whole broker.

This folder has more than 15 modules: those that people call, and the parts of `cluster`.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from pykraft.common.version import VERSION

if TYPE_CHECKING:
    from pykraft.admin import Admin
    from pykraft.client.administration.admin import NewPartitions, NewTopic
    from pykraft.client.administration.configs import AlterConfigOp, ConfigResource, ConfigResourceType
    from pykraft.client.administration.elections import ElectionType
    from pykraft.client.administration.features import FeatureUpdate, UpgradeType
    from pykraft.client.administration.quotas import ClientQuotaEntity, ClientQuotaFilter
    from pykraft.client.administration.scram import (
        ScramMechanism,
        UserScramCredentialDeletion,
        UserScramCredentialUpsertion,
    )
    from pykraft.client.consuming.commits import ConsumerGroupMetadata, OffsetAndMetadata
    from pykraft.client.consuming.subscription import SubscriptionPattern
    from pykraft.client.errors import (
        AuthenticationError,
        ClientTimeoutError,
        CommitFailedError,
        FencedInstanceIdError,
        LogTruncationError,
        NoOffsetError,
        ProducerFencedError,
        RebalanceInProgressError,
        RetriableCommitFailedError,
        TransactionAbortableError,
        TransactionError,
        TransactionFatalError,
    )
    from pykraft.cluster import Cluster, ClusterError
    from pykraft.common.acl import AclBinding, AclBindingFilter
    from pykraft.common.errors import ConfigError, CorruptRecordError, ErrorCode, KafkaError
    from pykraft.common.types import TopicPartition
    from pykraft.consumer import Consumer, ConsumerRebalanceListener
    from pykraft.producer import Producer
    from pykraft.runtime.client_thread import ClientClosedError
    from pykraft.simulation import Simulation

__version__ = VERSION

_HOMES = {
    "AclBinding": "pykraft.common.acl",
    "AclBindingFilter": "pykraft.common.acl",
    "Admin": "pykraft.admin",
    "AlterConfigOp": "pykraft.client.administration.configs",
    "AuthenticationError": "pykraft.client.errors",
    "ClientClosedError": "pykraft.runtime.client_thread",
    "ClientQuotaEntity": "pykraft.client.administration.quotas",
    "ClientQuotaFilter": "pykraft.client.administration.quotas",
    "ClientTimeoutError": "pykraft.client.errors",
    "Cluster": "pykraft.cluster",
    "ClusterError": "pykraft.cluster",
    "CommitFailedError": "pykraft.client.errors",
    "ConfigError": "pykraft.common.errors",
    "ConfigResource": "pykraft.client.administration.configs",
    "ConfigResourceType": "pykraft.client.administration.configs",
    "Consumer": "pykraft.consumer",
    "ConsumerGroupMetadata": "pykraft.client.consuming.commits",
    "ConsumerRebalanceListener": "pykraft.consumer",
    "CorruptRecordError": "pykraft.common.errors",
    "ElectionType": "pykraft.client.administration.elections",
    "ErrorCode": "pykraft.common.errors",
    "FeatureUpdate": "pykraft.client.administration.features",
    "FencedInstanceIdError": "pykraft.client.errors",
    "KafkaError": "pykraft.common.errors",
    "LogTruncationError": "pykraft.client.errors",
    "NewPartitions": "pykraft.client.administration.admin",
    "NewTopic": "pykraft.client.administration.admin",
    "NoOffsetError": "pykraft.client.errors",
    "OffsetAndMetadata": "pykraft.client.consuming.commits",
    "Producer": "pykraft.producer",
    "ProducerFencedError": "pykraft.client.errors",
    "RebalanceInProgressError": "pykraft.client.errors",
    "RetriableCommitFailedError": "pykraft.client.errors",
    "ScramMechanism": "pykraft.client.administration.scram",
    "Simulation": "pykraft.simulation",
    "SubscriptionPattern": "pykraft.client.consuming.subscription",
    "TopicPartition": "pykraft.common.types",
    "TransactionAbortableError": "pykraft.client.errors",
    "TransactionError": "pykraft.client.errors",
    "TransactionFatalError": "pykraft.client.errors",
    "UpgradeType": "pykraft.client.administration.features",
    "UserScramCredentialDeletion": "pykraft.client.administration.scram",
    "UserScramCredentialUpsertion": "pykraft.client.administration.scram",
}

__all__ = [
    "AclBinding",
    "AclBindingFilter",
    "Admin",
    "AlterConfigOp",
    "AuthenticationError",
    "ClientClosedError",
    "ClientQuotaEntity",
    "ClientQuotaFilter",
    "ClientTimeoutError",
    "Cluster",
    "ClusterError",
    "CommitFailedError",
    "ConfigError",
    "ConfigResource",
    "ConfigResourceType",
    "Consumer",
    "ConsumerGroupMetadata",
    "ConsumerRebalanceListener",
    "CorruptRecordError",
    "ElectionType",
    "ErrorCode",
    "FeatureUpdate",
    "FencedInstanceIdError",
    "KafkaError",
    "LogTruncationError",
    "NewPartitions",
    "NewTopic",
    "NoOffsetError",
    "OffsetAndMetadata",
    "Producer",
    "ProducerFencedError",
    "RebalanceInProgressError",
    "RetriableCommitFailedError",
    "ScramMechanism",
    "Simulation",
    "SubscriptionPattern",
    "TopicPartition",
    "TransactionAbortableError",
    "TransactionError",
    "TransactionFatalError",
    "UpgradeType",
    "UserScramCredentialDeletion",
    "UserScramCredentialUpsertion",
]


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


def __getattr__(name: str) -> object:
    if name in (classes := import_module("pykraft.client.habits").CLASSES):
        raise ImportError(f"pykraft has no {name}: import {classes[name]}")
    if name not in _HOMES:
        raise AttributeError(f"module pykraft has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
