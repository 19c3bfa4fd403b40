"""What is drawn for each seed: the shape of the cluster, its settings, its clients, and what befalls it.

Bugs live where sizes meet limits: a batch that does not fit into a fetch, a segment that ends within an election, a
timeout that is shorter than a delay. Settings that are always comfortable never get there. So every size and every
timeout is drawn from a range that no one would choose, and each seed has its own mixture of faults: some runs are
stormy throughout, some have only one kind of trouble, and some are calm, so that things get far enough to go wrong.

(FoundationDB calls the first BUGGIFY, and the second is known as swarm testing.)
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from random import Random

from pykraft.broker.settings.quota_config import QUOTA_WINDOW_NUM
from pykraft.common.settings.topic_config import UNCLEAN_LEADER_ELECTION_ENABLE
from pykraft.metadata.versions import ELR_VERSION, METADATA_VERSION, METADATA_VERSIONS, default_level
from pykraft.sim.trouble.clients import (
    CONSUMER,
    GroupKnobs,
    consumer_settings,
    draw_groups,
    group_faults,
    producer_settings,
)
from pykraft.sim.trouble.directories import DIRECTORY_SEEDS, DirectoryKnobs, draw_directories
from pykraft.sim.trouble.disks import DISK_SEEDS, DiskKnobs, draw_disks
from pykraft.sim.trouble.elections import (
    ElectionKnobs,
    draw_elections,
    election_fault_every_ms,
    election_faults,
    election_properties,
)
from pykraft.sim.trouble.foreigners import ForeignKnobs, draw_foreigners, foreign_changes
from pykraft.sim.trouble.group_storms import GROUP_STORM_SEEDS, StormKnobs, draw_group_storms
from pykraft.sim.trouble.limits import NO_LIMITS, QUOTA_SAMPLES, LimitKnobs, draw_limits
from pykraft.sim.trouble.long_times import LONG_TIME_SEEDS, draw_long_times
from pykraft.sim.trouble.moving_logs import MovingLogKnobs, draw_moving_logs, moving_changes
from pykraft.sim.trouble.omissions import NOTHING, Omissions
from pykraft.sim.trouble.one_sided import ONE_SIDED, ONE_SIDED_SEEDS, draw_one_sided
from pykraft.sim.trouble.recreations import (
    RecreationKnobs,
    draw_late_to_clients,
    draw_recreations,
    recreation_properties,
)
from pykraft.sim.trouble.security import SecurityKnobs, draw_security
from pykraft.sim.trouble.settings import SettingKnobs, draw_settings, setting_changes
from pykraft.sim.trouble.swarms import SWARM_SEEDS, draw_swarm
from pykraft.sim.trouble.transaction_members import TRANSACTION_MEMBER_SEEDS, draw_transaction_members
from pykraft.sim.trouble.voter_changes import VoterKnobs, draw_voters, trouble_of_voters
from pykraft.sim.trouble.wide_swarms import WIDE_SWARM_SEEDS, draw_wide_swarm
from pykraft.sim.trouble.work import WORK_SEEDS, WorkKnobs, draw_work

LINGER = "group.coordinator.append.linger.ms"
UNCLEAN = UNCLEAN_LEADER_ELECTION_ENABLE.name

FAULTS = (
    "crash",
    "crash_controller",
    "crash_leader",
    "crash_within_step",
    "disk_error",
    "power_loss",
    "stop",
    "partition",
    "one_way_partition",
    "clog",
    "stall",
)


TRANSACTION_SEEDS = range(100, 200)
"""Of each two hundred seeds these have a bank, and no other groups than that of its copiers."""


SLICE_SEEDS, SLICE_PERIOD = frozenset((*range(900, 1400), *range(1600, 1650))), 3200
"""Of each 3200 seeds these interrupt requests and find bursts of them, among them banks, elections, and groups."""


SNAPSHOT_SEEDS, SNAPSHOT_PERIOD = range(200, 300), 400
"""Of each four hundred seeds these write snapshots of the metadata all the time, and let the log's start go."""


RACK_SEED, RACK_PERIOD = 8, 10
"""One seed of ten has racks: brokers send consumers to the nearest replica."""


WITHOUT_ELR = 0.25
"""How many of the seeds have a cluster that keeps no eligible leader replicas, as before KIP-966."""


REASSIGNMENT_SEEDS, REASSIGNMENT_PERIOD = range(800, 900), 1600
"""Of each sixteen hundred seeds these move partitions between brokers."""


@dataclass(frozen=True)
class TransactionKnobs:
    """The draw of a seed with transactions. Times are milliseconds."""

    version: int
    """The cluster's transaction.version."""
    tellers: int
    copiers: int
    producer: dict[str, object]
    """Settings of each transactional producer."""
    consumer: dict[str, object]
    """Of each reader of committed data."""
    group: dict[str, object]
    """Of each copier besides, as a member of their group."""
    event_every_ms: int
    restart_ms: tuple[int, int]
    crash_coordinator: float
    properties: dict[str, int]
    """Of each node."""

    @property
    def has_consumer_group(self) -> bool:
        """The copiers' group is one of KIP-848."""
        return self.group.get("group.protocol") == CONSUMER


@dataclass(frozen=True)
class Knobs:
    """One seed's draw. Times are milliseconds, `weather` are probabilities for each piece sent."""

    brokers: int
    controllers: int
    """Separate controllers; 0 for combined nodes."""
    partitions: int
    properties: dict[str, int]
    topic: dict[str, int | str]
    producers: tuple[dict[str, object], ...]
    has_plain_producer: bool
    """The first of them is not idempotent."""
    consumers: tuple[dict[str, object], ...]
    records_per_s: int
    faults: dict[str, float]
    """The kinds of trouble, and how likely each is compared to the others."""
    fault_every_ms: int
    restart_ms: tuple[int, int]
    straggler: float
    breaks: float
    ghost: float
    storm_from_ms: int
    storm_until_ms: int
    """From when until when all this goes on, unless too much has happened by then."""
    clock_skew_ms: int
    background_us: int
    slice_ends: float
    """How likely a slice of time is over, whenever a node asks."""
    busy_us: int
    """For how long a node may be busy when a request comes, so that it finds several; 0 for not at all."""
    admin_every_ms: int
    """How often a topic is made or deleted, a partition moved, or the level of the metadata changed; 0 for never."""
    moves: float
    """How often it is a partition that is moved."""
    level_changes: float
    """How often it is the level that is changed."""
    groups: tuple[GroupKnobs, ...]
    transactions: TransactionKnobs | None
    """None in most seeds, at most one of each protocol."""
    racks: tuple[str, ...] = ()
    """The rack of each broker, in the order of their ids. Then consumers are in one of them, too."""
    elections: ElectionKnobs | None = None
    recreations: RecreationKnobs | None = None
    voters: VoterKnobs | None = None
    """None where no voter comes or goes."""
    keys: int = 0
    """How many keys the producers' records have; 0 for records without a key, which no cleaner compacts."""
    producer_quota: int = 0
    """How many bytes a second the client with the id `producer-0` may send; 0 for any number."""
    security: SecurityKnobs | None = None
    moving: MovingLogKnobs | None = None
    settings: SettingKnobs | None = None
    swarm: tuple[str, ...] = ()
    """Of a swarm: the danger that it aims at, or its workload and its kinds of trouble."""
    foreign: ForeignKnobs | None = None
    disks: DiskKnobs | None = None
    directories: DirectoryKnobs | None = None
    """None where each broker has one log directory."""
    late_to_clients: float = 0.0
    """How often a broker's answer to a client is late by seconds."""
    features: Mapping[str, int] = field(default_factory=dict)
    """Levels of the cluster, where they are to be others than usual."""
    limits: LimitKnobs = NO_LIMITS
    work: WorkKnobs | None = None
    """None where a turn of a node takes no time."""
    storms: StormKnobs | None = None
    """None where groups keep their rights and their topics."""
    omitted: Omissions = NOTHING


def draw(seed: int) -> Knobs:
    """The knobs of a seed."""
    for seeds, draw_other in _REDRAWN:
        if seed in seeds:
            knobs: Knobs = draw_other(seed, _draw_whole)
            return knobs
    return _draw_whole(seed)


_REDRAWN = (
    (SWARM_SEEDS, draw_swarm),
    (WIDE_SWARM_SEEDS, draw_wide_swarm),
    (LONG_TIME_SEEDS, draw_long_times),
    (DISK_SEEDS, draw_disks),
    (DIRECTORY_SEEDS, draw_directories),
    (TRANSACTION_MEMBER_SEEDS, draw_transaction_members),
    (ONE_SIDED_SEEDS, draw_one_sided),
    (WORK_SEEDS, draw_work),
    (GROUP_STORM_SEEDS, draw_group_storms),
)
"""Seeds that take the draw of another one, and change it."""


def _draw_whole(seed: int) -> Knobs:
    """Those of a seed that is no swarm."""
    knobs = _with_limits(_with_voters(_draw(seed), draw_voters(seed)), draw_limits(seed))
    knobs = _with_moving_logs(seed, knobs, draw_moving_logs(seed))
    if (settings := draw_settings(seed, knobs.elections is not None)) is not None:
        knobs = replace(knobs, **setting_changes(seed, knobs, settings))
    if (foreign := draw_foreigners(seed)) is not None:
        knobs = replace(knobs, **foreign_changes(knobs, foreign))
    knobs = replace(knobs, security=draw_security(seed))
    return _in_racks(knobs, Random(f"racks {seed}")) if seed % RACK_PERIOD == RACK_SEED else knobs


def _draw(seed: int) -> Knobs:
    """The knobs without racks."""
    random = Random(f"knobs {seed}")
    separate = random.random() < 0.3
    brokers = random.choice((2, 3, 3)) if separate else random.choice((3, 3, 3, 5))
    kinds = random.sample(FAULTS, random.randint(1, len(FAULTS)))
    is_calm = random.random() < 0.1
    transactions, elections, recreations = _transactions(seed, brokers), draw_elections(seed), draw_recreations(seed)
    groups = draw_groups(seed, brokers) if transactions is None and elections is None else ()
    return Knobs(
        brokers=brokers,
        controllers=random.choice((3, 3, 5)) if separate else 0,
        partitions=random.randint(1, 3),
        properties=_properties(random, _smallest_segment(transactions, recreations))
        | _fetch_sessions(Random(f"fetch sessions {seed}"))
        | _snapshots(seed)
        | election_properties(elections)
        | recreation_properties(seed, brokers, recreations)
        | ({LINGER: Random(f"append linger {seed}").choice((0, 1, 5, 50))} if seed % 16 in (14, 15) else {}),
        topic={
            "min.insync.replicas": 2,
            "internal.segment.bytes": random.choice((1_200, 5_000, 20_000, 1 << 20)),
            "index.interval.bytes": random.choice((0, 100, 4096)),
            **({UNCLEAN: "true"} if elections is not None and elections.allows_unclean else {}),
        },
        producers=tuple(producer_settings(random) for _ in range(random.randint(1, 3))),
        has_plain_producer=Random(f"plain {seed}").random() < 0.25,
        consumers=tuple(consumer_settings(random) for _ in range(random.randint(1, 2))),
        records_per_s=random.choice((20, 60, 100)),
        faults={}
        if is_calm
        else {kind: random.uniform(0.2, 1.0) for kind in kinds}
        | group_faults(groups)
        | _transaction_faults(transactions)
        | election_faults(seed, elections),
        fault_every_ms=election_fault_every_ms(random.choice((250, 500, 1000, 2000)), elections),
        restart_ms=random.choice(((0, 100), (50, 1500), (500, 4000))),
        straggler=random.choice((0.0, 0.001, 0.01, 0.05)),
        breaks=random.choice((0.0, 0.0, 0.001, 0.01)),
        ghost=random.choice((0.0, 0.0, 0.002, 0.02)),
        storm_from_ms=random.choice((0, 1_000, 1_000)),
        storm_until_ms=min(random.choice((3_000, 5_000, 7_000)), 3_000 if is_calm else 7_000),
        clock_skew_ms=random.choice((0, 10, 5_000)),
        background_us=random.choice((100, 5_000, 300_000)),
        slice_ends=Random(f"slices {seed}").choice((0.05, 0.5)) if seed % SLICE_PERIOD in SLICE_SEEDS else 0.0,
        busy_us=Random(f"busy {seed}").choice((500, 5_000)) if seed % SLICE_PERIOD in SLICE_SEEDS else 0,
        admin_every_ms=_admin_every_ms(seed),
        moves=Random(f"moves {seed}").choice((0.5, 0.9)) if _has_reassignments(seed) else 0.0,
        level_changes=0.25 if _has_snapshots(seed) else 0.0,
        groups=groups,
        transactions=transactions,
        elections=elections,
        recreations=recreations,
        late_to_clients=draw_late_to_clients(seed),
        features=_levels(seed, elections),
    )


def calm(knobs: Knobs) -> Knobs:
    """The same cluster and clients, without faults or interrupted requests; the network delivers all in good time."""
    return replace(
        knobs,
        faults={},
        straggler=0.0,
        breaks=0.0,
        ghost=0.0,
        clock_skew_ms=0,
        slice_ends=0.0,
        busy_us=0,
        late_to_clients=0.0,
    )


WEATHER = ("straggler", "breaks", "ghost", "late_to_clients", "clock_skew_ms", "slice_ends", "busy_us")
"""Trouble that is no single fault, by its knob."""
OF_MESSAGES = frozenset({"straggler", "breaks", "ghost", "late_to_clients"})
"""Of the weather: what befalls single messages."""
KINDS = (*FAULTS, "crash_coordinator", "cut_off_controller", *ONE_SIDED, *WEATHER)
"""What `omissions` may leave out as a kind."""


def leave_out(knobs: Knobs) -> Knobs:
    """The same draw without the weather that is left out, and with the storm as long as it shall be. The faults are
    drawn as before: which of them are left out is seen when they come."""
    weather = {name: type(getattr(knobs, name))() for name in WEATHER if name in knobs.omitted.kinds}
    until_ms = knobs.storm_until_ms if knobs.omitted.until_ms is None else knobs.omitted.until_ms
    return replace(knobs, storm_until_ms=min(until_ms, knobs.storm_until_ms), **weather)


def _with_voters(knobs: Knobs, voters: VoterKnobs | None) -> Knobs:
    """The same draw, with voters that come and go. Little else goes on, so that there is time for that."""
    if voters is None:
        return knobs
    return replace(
        knobs,
        brokers=2,
        controllers=voters.first + voters.spare,
        partitions=1,
        properties={
            **knobs.properties,
            "replica.fetch.max.bytes": 1 << 20,
            "replica.fetch.response.max.bytes": 10 << 20,
            **voters.properties,
        },
        producers=knobs.producers[:1],
        consumers=knobs.consumers[:1],
        records_per_s=60,
        faults=trouble_of_voters(knobs.faults),
        fault_every_ms=voters.fault_every_ms,
        storm_until_ms=min(knobs.storm_until_ms, 4_000),
        groups=(),
        features={},
        voters=voters,
    )


def _with_limits(knobs: Knobs, limits: LimitKnobs) -> Knobs:
    """The same draw, with quotas or rules of access that change."""
    if limits == NO_LIMITS:
        return knobs
    samples = {} if limits.quotas_ms is None else {QUOTA_WINDOW_NUM.name: QUOTA_SAMPLES}
    faults = {kind: weight for kind, weight in knobs.faults.items() if kind != "crash_coordinator"}
    return replace(knobs, properties={**knobs.properties, **samples}, faults=faults, groups=(), limits=limits)


def _with_moving_logs(seed: int, knobs: Knobs, moving: MovingLogKnobs | None) -> Knobs:
    return knobs if moving is None else replace(knobs, **moving_changes(seed, knobs, moving))


def _in_racks(knobs: Knobs, random: Random) -> Knobs:
    """The same draw, with brokers and consumers in racks. A consumer returns to the leader early, or not at all."""
    racks = random.choice((("a", "b", "c", "d", "e"), ("a", "a", "b", "b", "a"), ("a", "b", "", "b", "a")))

    def placed(settings: dict[str, object]) -> dict[str, object]:
        ages = random.choice((200, 1_000, 300_000))
        return {**settings, "client.rack": random.choice("abc"), "metadata.max.age.ms": ages}

    transactions = knobs.transactions
    return replace(
        knobs,
        racks=racks[: knobs.brokers],
        consumers=tuple(map(placed, knobs.consumers)),
        groups=tuple(replace(group, settings=placed(group.settings)) for group in knobs.groups),
        transactions=None if transactions is None else replace(transactions, consumer=placed(transactions.consumer)),
    )


def _smallest_segment(transactions: TransactionKnobs | None, recreations: RecreationKnobs | None) -> int:
    """A segment of the metadata log must have room for the largest batch: a topic that is made, or the registrations of
    many nodes at once, or what an administrator asks for while a leader gathers records."""
    return 2_000 if transactions is None and recreations is None else 4_000


def _properties(random: Random, smallest_segment: int) -> dict[str, int]:
    session = random.choice((300, 600, 1500))
    fetch_wait = random.choice((10, 100, 500))
    fetch_timeout = random.choice((200, 400, 1000))
    return {
        "broker.session.timeout.ms": session,
        "broker.heartbeat.interval.ms": max(20, session // random.choice((3, 6))),
        "controller.quorum.fetch.timeout.ms": fetch_timeout,
        "controller.quorum.election.timeout.ms": random.choice((100, 300)),
        "controller.quorum.election.backoff.max.ms": random.choice((50, 200)),
        "controller.quorum.request.timeout.ms": random.choice((100, 500)),
        "controller.quorum.append.linger.ms": random.choice((0, 5, 25)),
        "internal.metadata.max.fetch.size.in.bytes": random.choice((1, 200, 8 << 20)),
        "internal.metadata.max.batch.size.in.bytes": random.choice((2_000, 8 << 20)),
        # The records that make the groups' topic may come in one batch with others, and a segment must hold that.
        "internal.metadata.log.segment.bytes": random.choice((smallest_segment, 8_000, 1 << 20)),
        "metadata.max.idle.interval.ms": random.choice((100, 500)),
        "replica.lag.time.max.ms": fetch_wait + random.choice((200, 1000, 3000)),
        "replica.fetch.wait.max.ms": fetch_wait,
        "replica.fetch.backoff.ms": random.choice((10, 200)),
        "replica.fetch.max.bytes": random.choice((1, 500, 1 << 20)),
        "replica.fetch.response.max.bytes": random.choice((1, 2_000, 10 << 20)),
        "replica.socket.timeout.ms": fetch_wait + random.choice((200, 1000)),
        "replica.high.watermark.checkpoint.interval.ms": random.choice((100, 1000, 5000)),
        "controller.socket.timeout.ms": random.choice((200, 1000)),
    }


def _fetch_sessions(random: Random) -> dict[str, int]:
    return {"max.incremental.fetch.session.cache.slots": random.choice((0, 1, 2, 1000, 1000))}


def _has_snapshots(seed: int) -> bool:
    return seed % SNAPSHOT_PERIOD in SNAPSHOT_SEEDS


def _levels(seed: int, elections: ElectionKnobs | None) -> dict[str, int]:
    """One cluster of four keeps no eligible leader replicas. Where the level of the metadata changes during the
    history, the cluster may begin at an older one, with the levels of that release."""
    if _has_snapshots(seed):
        metadata_version = Random(f"level {seed}").choice(METADATA_VERSIONS).level
        return {METADATA_VERSION: metadata_version, ELR_VERSION: default_level(ELR_VERSION, metadata_version)}
    if elections is not None:
        return {ELR_VERSION: int(elections.keeps_elr)}
    return {ELR_VERSION: 0} if Random(f"eligible leader replicas {seed}").random() < WITHOUT_ELR else {}


def _has_reassignments(seed: int) -> bool:
    return seed % REASSIGNMENT_PERIOD in REASSIGNMENT_SEEDS


def _admin_every_ms(seed: int) -> int:
    random = Random(f"administrator {seed}")
    if _has_reassignments(seed):
        return random.choice((50, 200, 500))
    return random.choice((200, 500, 1000)) if _has_snapshots(seed) else 0


def _snapshots(seed: int) -> dict[str, int]:
    """A snapshot goes when the next one is written, so a replica must be able to copy it before that."""
    if not _has_snapshots(seed):
        return {}
    random = Random(f"snapshots {seed}")
    return {
        "metadata.log.max.record.bytes.between.snapshots": random.choice((500, 2_000, 8_000)),
        "metadata.max.retention.bytes": random.choice((0, 4_000, 16_000)),
        "internal.metadata.max.fetch.size.in.bytes": random.choice((500, 8 << 20)),
    }


def _transactions(seed: int, brokers: int) -> TransactionKnobs | None:
    if seed % 200 not in TRANSACTION_SEEDS:
        return None
    random = Random(f"transactions {seed}")
    session = random.choice((300, 600, 1500))
    heartbeat = session // random.choice((2, 3, 6))
    replicas = min(3, brokers)
    return TransactionKnobs(
        version=Random(f"transaction version {seed}").choice((0, 1, 2)),
        tellers=random.randint(1, 3),
        copiers=random.randint(1, 2),
        producer={
            **producer_settings(random),
            "transaction.timeout.ms": random.choice((300, 1_000, 4_000)),
            "delivery.timeout.ms": random.choice((2_500, 10_000)),
        },
        consumer=consumer_settings(random),
        group={
            "session.timeout.ms": session,
            "heartbeat.interval.ms": heartbeat,
            "max.poll.interval.ms": heartbeat + random.choice((400, 1000, 3000)),
            "max.poll.records": random.choice((1, 10, 500)),
            "default.api.timeout.ms": random.choice((500, 2000, 10_000)),
            "partition.assignment.strategy": random.choice(("range", "cooperative-sticky")),
        },
        event_every_ms=random.choice((300, 700, 1500)),
        restart_ms=random.choice(((0, 100), (50, 1000))),
        crash_coordinator=random.choice((0.2, 1.0, 3.0)),
        properties={
            "transaction.state.log.num.partitions": random.choice((1, 2)),
            "transaction.state.log.replication.factor": replicas,
            "transaction.state.log.min.isr": random.choice((1, 2)),
            "request.timeout.ms": _broker_timeout_ms(seed),
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": random.choice((50, 300)),
            "offsets.topic.num.partitions": random.choice((1, 2)),
            "offsets.topic.replication.factor": replicas,
            "offsets.commit.timeout.ms": random.choice((50, 500, 5000)),
            "group.min.session.timeout.ms": 100,
            "group.initial.rebalance.delay.ms": random.choice((0, 50, 500)),
            "min.insync.replicas": 2,
        },
    )


def _broker_timeout_ms(seed: int) -> int:
    """How long a broker waits for another one's answer about a transaction. Kafka's 30 s are as long as a bank may take
    to settle: one connection that has gone silent would hold up the verifications of all transactions until then."""
    return Random(f"broker's timeout {seed}").choice((500, 2_000))


def _transaction_faults(transactions: TransactionKnobs | None) -> dict[str, float]:
    return {} if transactions is None else {"crash_coordinator": transactions.crash_coordinator}
