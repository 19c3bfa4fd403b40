"""Lab 11 in a live cluster: your rules decide what a leader commits, whom it waits for, and what producers hear.

librdkafka sends records with acks=all. Then the leader is cut off from one follower, which is still in sync as far as
the controller knows: an acknowledgement must wait until it has left the ISR. It comes back, both followers are cut off,
and the leader alone must refuse.
"""

import time

from confluent_kafka import Producer

from pykraft import Cluster
from pykraft.broker.replication.follower_state import FollowerState
from pykraft.broker.replication.partition import Partition
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.course.labs.plug import Outcome, plugged
from pykraft.viz import board

TOPIC = "orders"
COUNT, LIMIT_S = 20, 30
REFUSED = "NOT_ENOUGH_REPLICAS"


def run(work):
    """Send records to a leader that asks `work`; it agrees if each acknowledged record was on all in-sync replicas."""
    with Cluster(nodes=3, controllers=1) as cluster, plugged(places(work), verdicts=(KafkaError,)) as plugs:
        cluster.create_topic(TOPIC, configs={"min.insync.replicas": "2"})
        sender = Sender(cluster)
        for _ in range(COUNT):
            sender.send()
        leader = cluster.describe().leader(TOPIC, 0)
        first, second = sorted(cluster.describe().isr(TOPIC, 0) - {leader})
        cluster.disconnect(leader, first)
        sender.send()
        figure = board(cluster, topics=[TOPIC], title=f"{sender.early} records were acknowledged too early")
        cluster.reconnect(leader, first)
        returned = wait(cluster, {leader, first, second})
        cluster.disconnect(leader, first)
        cluster.disconnect(leader, second)
        sender.begin()  # a record that the followers lack: without one they would not fall behind
        shrunk = wait(cluster, {leader})
        alone = sender.send()
    lines = (
        f"{sender.acknowledged} records were acknowledged; {sender.early} of them before every in-sync replica had it.",
        f"The follower that was cut off {'came' if returned else 'did not come'} back into the ISR.",
        f"The ISR {'shrank' if shrunk else 'did not shrink'} to the leader, and acks=all was answered with {alone}.",
    )
    facts = {"acknowledged": sender.acknowledged, "early": sender.early, "returned": returned, "alone": alone}
    compared = {
        "acknowledged": (sender.acknowledged, COUNT + 1),
        "acknowledged too early": (sender.early, 0),
        "the follower came back": (returned, True),
        "the ISR shrank": (shrunk, True),
        "the leader alone answered": (alone, REFUSED),
    }
    return Outcome(compared, lines, tuple(plugs.values()), figure, facts)


class Sender:
    """librdkafka, one record at a time; after each acknowledgement it looks who has the record."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.acknowledged = self.early = 0
        settings = {"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "retries": 0, "log_level": 0}
        self.producer = Producer({**settings, "delivery.timeout.ms": 8_000, "request.timeout.ms": 6_000})

    def begin(self):
        """Send a record; the list has its error and message as soon as librdkafka has heard of it."""
        heard = []
        self.producer.produce(TOPIC, b"an order", on_delivery=lambda error, message: heard.append((error, message)))
        self.producer.poll(0)
        return heard

    def send(self):
        """Send a record and wait; "acknowledged", or the name of the error."""
        heard, deadline = self.begin(), time.monotonic() + LIMIT_S
        while not heard and time.monotonic() < deadline:
            self.producer.poll(0.1)
        if not heard:
            return "nothing"
        error, message = heard[0]
        if error is not None:
            return error.name().lstrip("_")
        view = self.cluster.describe()
        replicas = view.replicas(TOPIC, 0)
        self.acknowledged += 1
        self.early += any(replicas[broker].log_end_offset <= message.offset() for broker in view.isr(TOPIC, 0))
        return "acknowledged"


def wait(cluster, isr):
    """Whether the ISR becomes this."""
    try:
        cluster.wait_until(lambda view: view.isr(TOPIC, 0) == isr, what=f"the ISR is {isr}", timeout_s=10)
    except TimeoutError:
        return False
    return True


def places(work):
    """Your rules in the place of a partition's own."""
    record_fetch, expansion = FollowerState.record_fetch, Partition.propose_expansion

    def advance(partition, now):
        state, log = partition.isr_state, partition.log
        ends = {broker: follower.end_offset for broker, follower in partition.followers.items()}
        ends[partition.leader_id] = log.log_end_offset
        outside = [follower for broker, follower in partition.followers.items() if broker not in state.isr]
        joining = {each.broker_id for each in outside if partition._must_wait_for(each, log.log_end_offset, now)}
        reached = work.high_watermark(log.high_watermark, ends, state.isr, joining, partition.min_insync_replicas)
        return log.update_high_watermark(reached)

    def fetched(follower, offset, log_start, leader_end, broker_epoch, now):
        known = follower.last_caught_up
        before = work.Fetch(follower.end_offset, follower.last_fetch_end_offset, follower.last_fetch)
        record_fetch(follower, offset, log_start, leader_end, broker_epoch, now)
        has_fetched = before.offset >= 0
        follower._last_caught_up = work.caught_up_at(
            known, work.Fetch(offset, leader_end, now), before if has_fetched else None
        )

    def is_caught_up(follower, leader_end, now, max_lag_ms):
        leader, broker = -1, follower.broker_id
        ends = {leader: leader_end, broker: follower.end_offset}
        return not work.lagging({leader, broker}, ends, {broker: follower.last_caught_up}, leader, now, max_lag_ms)

    def expand(partition, replica):
        follower = partition.followers.get(replica)
        if follower is None:
            return None
        arrived = work.may_return(follower.end_offset, partition.log.high_watermark, partition.leader_epoch_start)
        return expansion(partition, replica) if arrived else None

    def check(partition, needs_all):
        partition.check_leader()
        in_sync, wanted = len(partition.isr_state.isr), partition.min_insync_replicas
        if not work.may_append(-1 if needs_all else 1, in_sync, wanted):
            raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, f"{in_sync} replicas are in sync, {wanted} are demanded")

    def replicated(partition, offset):
        if not partition.is_leader:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        in_sync, wanted = len(partition.isr_state.isr), partition.min_insync_replicas
        heard = work.verdict(-1, offset, partition.log.high_watermark, in_sync, wanted)
        errors = {"acknowledge": ErrorCode.NONE, "too few": ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND}
        return errors.get(heard)

    ours = "pykraft.broker.replication.partition.Partition"
    return {
        f"{ours}.advance_high_watermark": advance,
        "pykraft.broker.replication.follower_state.FollowerState.record_fetch": fetched,
        "pykraft.broker.replication.follower_state.FollowerState.is_caught_up": is_caught_up,
        f"{ours}.propose_expansion": expand,
        f"{ours}.check_may_append": check,
        f"{ours}.replicated_up_to": replicated,
    }
