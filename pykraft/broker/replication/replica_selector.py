"""Which replica a consumer is sent to: fetching from the nearest replica (KIP-392).

A consumer fetches from the leader first, and says in which rack it is (``client.rack``). With
``replica.selector.class=org.apache.kafka.common.replica.RackAwareReplicaSelector`` the leader may answer without
records, and with a *preferred read replica*: a follower in that rack, from which the consumer fetches then. The leader
names only followers that are in sync and have the consumer's offset; of several in one rack, the one with the longest
log, and of equals the one that caught up last, and then the one with the larger id. A leader in the consumer's rack
serves it itself.

A follower serves records up to its own high watermark, which it has from the leader's answers and which may lag behind
the leader's. So what a consumer reads there is committed, but it may come later. A follower never sends a consumer
back. The consumer returns to the leader after an error, when another leader is elected, and every
``metadata.max.age.ms``.

Follows org.apache.kafka.common.replica.RackAwareReplicaSelector and kafka.server.ReplicaManager.
"""

from pykraft.broker.replication.fetching import NO_REPLICA, FetchPlace
from pykraft.broker.replication.partition import Partition
from pykraft.metadata.image import MetadataImage


def nearest_replica(partition: Partition, place: FetchPlace, image: MetadataImage, rack: str, listener: str) -> int:
    """The follower that a consumer in this rack is to fetch from; NO_REPLICA: from this broker. `listener` is the one
    that the consumer came by: it must reach the follower's."""
    if not rack or not partition.is_leader or _rack_of(image, partition.leader_id, listener) == rack:
        return NO_REPLICA
    candidates = [
        (follower.end_offset, follower.last_caught_up, broker_id)
        for broker_id, follower in partition.followers.items()
        if broker_id in partition.isr_state.isr
        and follower.log_start_offset <= place.offset <= follower.end_offset
        and _rack_of(image, broker_id, listener) == rack
    ]
    return max(candidates)[-1] if candidates else NO_REPLICA


def _rack_of(image: MetadataImage, broker_id: int, listener: str) -> str | None:
    """The broker's rack; None if it has none, or if a consumer cannot reach it."""
    broker = image.brokers.get(broker_id)
    return broker.rack if broker is not None and not broker.fenced and listener in broker.endpoints else None
