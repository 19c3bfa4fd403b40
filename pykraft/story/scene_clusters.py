"""The clusters of scenes: three nodes that are brokers and controllers, and clients that are made for one purpose."""

from collections.abc import Mapping
from dataclasses import replace

from pykraft.sim.trouble.clients import CLASSIC, GROUPS, GroupKnobs
from pykraft.sim.trouble.knobs import Knobs, TransactionKnobs, calm, draw
from pykraft.sim.trouble.voter_changes import VoterKnobs

_NEVER_MS = 600_000
PRODUCER: Mapping[str, object] = {
    "batch.size": 1,
    "linger.ms": 0,
    "compression.type": "none",
    "max.in.flight.requests.per.connection": 1,
    "request.timeout.ms": 600,
    "delivery.timeout.ms": 60_000,
    "retry.backoff.ms": 100,
    "metadata.max.age.ms": 300_000,
}
SAFE = {**PRODUCER, "metadata.max.age.ms": 800}
"""It waits for all in-sync replicas, and soon asks again who leads."""
_PROPERTIES = {
    "broker.session.timeout.ms": 1_000,
    "broker.heartbeat.interval.ms": 250,
    "controller.quorum.fetch.timeout.ms": 800,
    "controller.quorum.election.timeout.ms": 500,
    "controller.quorum.election.backoff.max.ms": 100,
    "controller.quorum.request.timeout.ms": 600,
    "controller.quorum.append.linger.ms": 0,
    "metadata.max.idle.interval.ms": 500,
    "replica.lag.time.max.ms": 1_500,
    "replica.fetch.wait.max.ms": 200,
    "replica.fetch.backoff.ms": 100,
    "replica.socket.timeout.ms": 1_000,
    "controller.socket.timeout.ms": 1_000,
}


_COORDINATION = {
    "offsets.topic.num.partitions": 1,
    "offsets.topic.replication.factor": 3,
    "offsets.commit.timeout.ms": 1_000,
    "group.min.session.timeout.ms": 100,
    "group.initial.rebalance.delay.ms": 300,
    "min.insync.replicas": 2,
}
_SESSION_MS, _HEARTBEAT_MS = 1_500, 300
_READER = {
    "auto.offset.reset": "earliest",
    "fetch.max.wait.ms": 300,
    "request.timeout.ms": 1_000,
    "retry.backoff.ms": 100,
    "metadata.max.age.ms": 1_000,
}


def three_nodes(seed: int, producers: tuple[Mapping[str, object], ...], has_plain_producer: bool = False) -> Knobs:
    """Three nodes that are brokers and controllers, one partition, no faults but the plan's."""
    own = draw(seed)
    drawn = calm(own)
    return replace(
        drawn,
        brokers=3,
        controllers=0,
        partitions=1,
        groups=(),
        transactions=None,
        elections=None,
        recreations=None,
        admin_every_ms=0,
        racks=(),
        features={},
        consumers=(),
        producers=tuple(dict(each) for each in producers),
        has_plain_producer=has_plain_producer,
        records_per_s=12,
        storm_from_ms=_NEVER_MS,
        storm_until_ms=_NEVER_MS,
        background_us=100,
        properties={**own.properties, **_PROPERTIES},
        topic={"min.insync.replicas": 2},
    )


def with_group(knobs: Knobs, protocol: str, members: int = 3) -> Knobs:
    """The same with a group: this many members read three partitions. They come and go only as a plan says.

    A member has 1,500 ms to be heard, and as long to poll."""
    settings = {
        **_READER,
        "group.protocol": protocol,
        "enable.auto.commit": True,
        "auto.commit.interval.ms": 400,
        "max.poll.interval.ms": 1_500,
        "default.api.timeout.ms": 2_000,
    }
    times: dict[str, int] = {}
    if protocol == CLASSIC:
        settings |= {"session.timeout.ms": _SESSION_MS, "heartbeat.interval.ms": _HEARTBEAT_MS}
        settings |= {"partition.assignment.strategy": "range"}
    else:
        times = {
            "group.consumer.session.timeout.ms": _SESSION_MS,
            "group.consumer.min.session.timeout.ms": 100,
            "group.consumer.heartbeat.interval.ms": _HEARTBEAT_MS,
            "group.consumer.min.heartbeat.interval.ms": 10,
        }
    group = GroupKnobs(
        protocol=protocol,
        group_id=GROUPS[protocol][0],
        members=members,
        static_members=0,
        settings=settings,
        commits="auto",
        event_every_ms=_NEVER_MS,
        restart_ms=(0, 0),
        replaced=0.0,
        crash_coordinator=0.0,
        properties=_COORDINATION | times,
        session_ms=_SESSION_MS,
        crashes_at_end=False,
    )
    properties = {**knobs.properties, **group.properties}
    return replace(knobs, partitions=3, groups=(group,), properties=properties)


def with_segments(knobs: Knobs, topic: Mapping[str, int | str], keys: int = 0) -> Knobs:
    """The same with segments of a few records, which retention deletes or the cleaner compacts, as `topic` says. With
    `keys` the records have keys."""
    small: dict[str, int | str] = {"internal.segment.bytes": 450, "file.delete.delay.ms": 100}
    small["min.cleanable.dirty.ratio"] = "0.01"
    looks = {"log.initial.task.delay.ms": 600, "log.retention.check.interval.ms": 600, "log.cleaner.backoff.ms": 1_000}
    properties = {**knobs.properties, **looks}
    return replace(knobs, topic={**knobs.topic, **small, **topic}, properties=properties, keys=keys, records_per_s=3)


def with_quota(knobs: Knobs, bytes_per_s: int) -> Knobs:
    """The same with a quota for the first producer; the second one sends as it likes."""
    producers = tuple({**each, "client.id": f"producer-{number}"} for number, each in enumerate(knobs.producers))
    properties = {**knobs.properties, "quota.window.num": 3}
    return replace(knobs, producers=producers, properties=properties, records_per_s=3, producer_quota=bytes_per_s)


def with_voters(knobs: Knobs, orders: tuple[tuple[int, str], ...]) -> Knobs:
    """Three controllers that are voters, one that is none, and a broker. An administrator adds and removes voters as
    these orders say."""
    voters = VoterKnobs(
        first=3,
        spare=1,
        administrators=1,
        every_ms=_NEVER_MS,
        again_ms=100,
        of_leader=1.0,
        joins=False,
        fault_every_ms=_NEVER_MS,
        orders=orders,
        patience_ms=2_000,
    )
    topic = {**knobs.topic, "min.insync.replicas": 1}
    return replace(knobs, brokers=1, controllers=voters.first + voters.spare, topic=topic, voters=voters)


def with_teller(knobs: Knobs) -> Knobs:
    """The same with a teller, which moves money within the topic `bank`, a transaction at a time, and a reader of
    committed records."""
    bank = TransactionKnobs(
        version=2,
        tellers=1,
        copiers=0,
        producer={**SAFE, "transaction.timeout.ms": 4_000},
        consumer=dict(_READER),
        group={},
        event_every_ms=_NEVER_MS,
        restart_ms=(0, 0),
        crash_coordinator=0.0,
        properties={
            **_COORDINATION,
            "transaction.state.log.num.partitions": 1,
            "transaction.state.log.replication.factor": 3,
            "transaction.state.log.min.isr": 2,
            "request.timeout.ms": 500,
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": 300,
        },
    )
    return replace(knobs, transactions=bank, properties={**knobs.properties, **bank.properties})
