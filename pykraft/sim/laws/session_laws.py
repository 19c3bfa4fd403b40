"""The laws of sessions: what both ends of a fetch session know, and when a silent member of a group is gone.

*Of fetch sessions* (KIP-227): a follower says only what has changed, so its leader has to remember the rest. While the
follower's newest fetch is in the leader's hands, the leader's session has the partitions that this fetch is about, at
the same offsets. What is missing there is never fetched again. And what the leader takes for told, of a partition that
has no records for the follower, the follower knows: it has deleted what its leader has deleted.

*Of quiet partitions*: a session does not look at them, so their follower is in sync, has all there is, and knows that
all is committed. If something happened to one and did not make it loud, its follower would not hear of it.

*Of followers*: a leader refuses a fetch with OFFSET_OUT_OF_RANGE if the follower has no record, or none that the leader
has not deleted. To every other follower whose log is no prefix of its own it says where the two part.

*Of members*: each member of a group has a session on the group's coordinator, unless the coordinator owes it an answer.
A member without one would keep its partitions for ever, however long it is gone.

The first and the last are looked at now and then, the second whenever a follower is refused.

Follows org.apache.kafka.server.FetchSession and org.apache.kafka.coordinator.group.GroupMetadataManager.
"""

from collections.abc import Mapping

from pykraft.broker.broker import Broker
from pykraft.broker.replication.partition import Partition
from pykraft.broker.replication.replica_fetcher import ReplicaFetcher
from pykraft.broker.requests.data.fetch_sessions import CachedPartition
from pykraft.common.types import TopicPartition
from pykraft.coordinator.group.consumer_groups.consumer_group import ConsumerGroup
from pykraft.coordinator.group.shard import GroupShard
from pykraft.protocol.messages.data import next_session_epoch
from pykraft.sim.laws.invariants import require
from pykraft.storage.log import UnifiedLog


def check_sessions(brokers: Mapping[int, Broker]) -> None:
    """All fetch sessions between these brokers, and the sessions of all members of groups."""
    for node_id, broker in brokers.items():
        for leader_id, fetcher in broker.replicas.fetchers.items():
            if leader_id in brokers:
                _check_fetch_session(node_id, fetcher, leader_id, brokers[leader_id])
        _check_quiet(node_id, broker)
        for partition in broker.groups.runtime.active_partitions():
            _check_members(node_id, broker.groups.runtime.active(partition))


def _check_fetch_session(node_id: int, fetcher: ReplicaFetcher, leader_id: int, leader: Broker) -> None:
    reader = fetcher.session
    session = leader.fetch_sessions.session(reader.session_id)
    if session is None or not reader.is_incremental or session.epoch != next_session_epoch(reader.epoch):
        return  # the fetch is under way to the leader, or the session is over and the follower does not know yet
    held = {(id_, number): each.wanted.fetch_offset for (_, id_, number), each in session.partitions.items()}
    wrong = [
        str(key)
        for key, each in reader.partitions.items()
        if held.pop((each.topic_id, key.partition), None) != each.fetch_offset
    ]
    require(
        not wrong and not held,
        f"node {node_id} fetches from node {leader_id} in a session; the leader's lacks the offsets of {wrong} and "
        f"has {len(held)} partitions too many",
    )
    if session.is_waiting:  # so all answers before have come to the follower
        for key, followed in fetcher.followed.items():
            log, told = followed.partition.log, reader.partitions.get(key)
            cached = None if told is None else session.partitions.get((key.topic, told.topic_id, key.partition))
            if cached is not None and cached.high_watermark >= 0:
                _check_log_start(key, node_id, log, leader_id, cached)


def _check_log_start(
    key: TopicPartition, node_id: int, log: UnifiedLog, leader_id: int, cached: CachedPartition
) -> None:
    """A follower that fetches on has deleted what its leader takes for told that it has deleted."""
    require(
        log.log_start_offset >= min(cached.log_start_offset, log.high_watermark),
        f"{key} of node {node_id} begins at {log.log_start_offset}; its leader, node {leader_id}, begins at "
        f"{cached.log_start_offset}, and tells that no more, for it is no news",
    )


def _check_quiet(node_id: int, broker: Broker) -> None:
    """What the sessions of this broker do not look at, and what its own fetches do not."""
    led = {(each.key.topic_id, each.key.partition): each for each in broker.replicas.partitions.values()}
    for session in broker.fetch_sessions.sessions:
        for asked, cached in session.partitions.items():
            if asked in session.loud:
                continue
            partition = led.get(asked[1:])
            require(
                partition is not None and _has_no_news(partition, session.reader.replica_id, cached),
                f"{partition}: node {node_id} does not look at it in the fetches of node {session.reader.replica_id}, "
                f"which has asked for {cached.wanted.fetch_offset}",
            )
    for leader_id, fetcher in broker.replicas.fetchers.items():
        if fetcher.session.is_incremental:
            for key, followed in fetcher.followed.items():
                if key in fetcher.loud:
                    continue
                require(
                    fetcher.session.partitions[key] == fetcher.wanted(followed.partition),
                    f"{key}: node {node_id} does not tell node {leader_id} what is new of it",
                )


def _has_no_news(partition: Partition, replica: int, cached: CachedPartition) -> bool:
    log, asked = partition.log, cached.wanted
    return (
        partition.is_leader
        and replica in partition.isr_state.isr
        and asked.current_leader_epoch == partition.leader_epoch
        and asked.fetch_offset == log.log_end_offset == log.high_watermark == cached.high_watermark
        and log.log_start_offset == cached.log_start_offset
    )


def _check_members(node_id: int, shard: GroupShard) -> None:
    for group_id, group in shard.groups.items():
        for member_id, member in group.members.items():
            if isinstance(group, ConsumerGroup):
                has_session = shard.consumer.sessions.is_running(group_id, member_id)
            else:
                has_session = member.is_awaiting_answer or shard.classic.has_session(group_id, member_id)
            require(
                has_session,
                f"member {member_id} of {group_id} has no session on its coordinator node {node_id}, which will never "
                "remove it",
            )


def check_refused(key: TopicPartition, follower_id: int, follower: Broker, leaders: Mapping[int, Broker]) -> None:
    """A follower was answered OFFSET_OUT_OF_RANGE."""
    ours = follower.replicas.partitions[key]
    leader = leaders.get(ours.leader_id)
    theirs = None if leader is None else leader.replicas.partitions.get(key)
    if theirs is None or theirs.key != ours.key or not theirs.is_leader or theirs.leader_epoch != ours.leader_epoch:
        return
    end, start = ours.log.log_end_offset, theirs.log.log_start_offset
    require(
        ours.log.latest_epoch < 0 or end <= start,
        f"{key}: the log of node {follower_id} ends at {end} in epoch {ours.log.latest_epoch}, and its leader, node "
        f"{ours.leader_id}, begins at {start}: it refuses the fetch, and must say where the logs part",
    )
