"""Where a node has a replica, and what of it the laws go by: while that is the same, there is nothing to compare."""

from typing import Any

from pykraft.broker.broker import Broker
from pykraft.broker.node import Node
from pykraft.broker.replication.partition import Partition
from pykraft.common.types import TopicIdPartition, TopicPartition


def state_of(partition: Partition) -> tuple[Any, ...]:
    """All of a replica that the laws go by."""
    log = partition.log
    return log, log.truncations, log.log_end_offset, log.high_watermark, partition.leader_epoch, partition.leader_id


def held(node: Node, topic_partition: TopicPartition) -> Partition | None:
    """The replica that a node has of a partition, whichever topic it is of."""
    return None if node.broker is None else node.broker.replicas.partitions.get(topic_partition)


def held_of(broker: Broker, key: TopicIdPartition) -> Partition | None:
    """The replica that a broker has of this very topic."""
    held = broker.replicas.partitions.get(key.topic_partition)
    return held if held is not None and held.key.topic_id == key.topic_id else None


def parse_partition(text: str) -> TopicPartition:
    """As a trace writes it: a topic's name, a hyphen, a number."""
    topic, _, partition = text.rpartition("-")
    return TopicPartition(topic, int(partition))
