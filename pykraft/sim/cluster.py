"""One simulated run: a whole cluster with its clients, from a seed.

A run has two parts. In the first the clients work while trouble of all kinds comes over the cluster, and after every
event the laws of `sim.laws.invariants` are checked. In the second the trouble ends, and the cluster must recover: more
records are acknowledged; then the producers pause, and soon every node is ready, every partition has a leader and a
full ISR, everything that was taken is acknowledged or has failed, and the consumers have read all there is. Safety
alone could be had by doing nothing.

Whatever happens follows from the seed. The same seed gives the same run, event by event, on any machine; so a failure
is reported as a seed and a step, and going back in time is running again.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from random import Random
from typing import Protocol

from pykraft.broker.broker import Broker
from pykraft.broker.coordination.coordinators import GROUP_TOPIC, InternalLog
from pykraft.broker.describe import NodeView, describe, never_started
from pykraft.broker.settings.config import read_node_config
from pykraft.broker.startup.lifecycle import LifecycleState
from pykraft.broker.startup.storage_format import format_directories
from pykraft.client.administration.admin import NewTopic
from pykraft.common.core import RequestManager
from pykraft.common.fault_handler import FatalFault
from pykraft.common.trace import TraceEvent
from pykraft.common.types import Uuid
from pykraft.controller.features import METADATA_VERSION, NEW_CLUSTER, TRANSACTION_VERSION
from pykraft.raft.log.voters import NO_VOTERS, VoterSet
from pykraft.sim.foreign.client import ForeignWorkload
from pykraft.sim.laws import sleep_laws
from pykraft.sim.laws.change_laws import check_supposed_changes
from pykraft.sim.laws.group_laws import GroupLaws
from pykraft.sim.laws.image_laws import check_images
from pykraft.sim.laws.invariants import PLAIN, Violation
from pykraft.sim.laws.level_laws import check_record_versions
from pykraft.sim.laws.plain_metadata import check_plainly
from pykraft.sim.laws.stale_laws import check_stale
from pykraft.sim.laws.supposed_brokers import check_supposed_brokers
from pykraft.sim.laws.supposed_groups import check_supposed_groups
from pykraft.sim.laws.supposed_logs import check_supposed_logs
from pykraft.sim.laws.supposed_metadata import check_supposed_metadata
from pykraft.sim.laws.transaction_laws import BANK, COPY, Ledger, Outcome
from pykraft.sim.laws.transactional_commit_laws import TransactionalCommitLaws
from pykraft.sim.laws.voter_laws import VoterLaws
from pykraft.sim.laws.watcher import Watcher
from pykraft.sim.node_files import BROKER_PORT, CONTROLLER_PORT, node_properties, voters_to_begin_with
from pykraft.sim.report import Report, SimulationFailed
from pykraft.sim.security import ClusterSecurity
from pykraft.sim.trouble.directory_faults import DirectoryFaults
from pykraft.sim.trouble.knobs import Knobs, TransactionKnobs, draw, leave_out
from pykraft.sim.trouble.omissions import NOTHING
from pykraft.sim.trouble.voter_changes import VoterKnobs
from pykraft.sim.trouble.whole_history import strikes_of
from pykraft.sim.trouble.wiped_disks import DiskWiper
from pykraft.sim.workloads import voter_workload
from pykraft.sim.workloads.admin_workload import Administrator
from pykraft.sim.workloads.election_workload import Elector
from pykraft.sim.workloads.group_making import make_group
from pykraft.sim.workloads.group_workload import GroupWorkload
from pykraft.sim.workloads.limits_workload import LimitsWorkload
from pykraft.sim.workloads.reassignment_workload import in_progress
from pykraft.sim.workloads.recreation_workload import RecreationWorkload
from pykraft.sim.workloads.rooms import Room, Site, make_rooms
from pykraft.sim.workloads.settling import (
    end_for_readers,
    missing_in_coordinators,
    missing_in_partitions,
    missing_in_transactions,
)
from pykraft.sim.workloads.transaction_storm import TransactionStorm
from pykraft.sim.workloads.workload import TOPIC, QuotaMaker, Reader, TopicMaker, Writer
from pykraft.sim.world.client_hosts import SimulatedClient
from pykraft.sim.world.hosts import EPOCH_MS, SimulatedNode
from pykraft.sim.world.network import Network
from pykraft.sim.world.scheduler import US_PER_MS, Scheduler
from pykraft.sim.world.slices import SeededBursts, SeededSlice
from pykraft.storage.log_tail import Tails

FIRST_CONTROLLER_ID = 101
_MOST_STORMY_STEPS = 8_000
"""A storm is over after this many events, however early: a busy cluster has had its chances by then."""
_SETTLE_CHECK_US = 100 * US_PER_MS
_SETTLE_LIMIT_US = 60_000 * US_PER_MS
SETTLE_LIMIT_OF_A_BANK_US = 30_000 * US_PER_MS
"""Without progress of its copiers, who may have much to copy. It is shorter because a bank keeps the nodes busy."""
_ACKNOWLEDGED_IN_CALM = 50
"""So many records must be acknowledged after the trouble has ended."""
_PAUSE_MS = 20
"""Between two attempts to make the topic, where there is also a group: its members keep the nodes busy meanwhile."""
SIMULATOR = -1
"""The node id under which the simulator itself reports."""


class Intervention(Protocol):
    """Something that is done to the cluster."""

    def check(self, cluster: "SimulatedCluster") -> None:
        """Impossible, if it cannot be done now."""

    def apply(self, cluster: "SimulatedCluster") -> None: ...


class SimulatedCluster:
    """The nodes and clients of one run."""

    def __init__(self, seed: int, knobs: Knobs | None = None) -> None:
        """`knobs` are the seed's own, unless others are given."""
        self.seed = seed
        whole = draw(seed) if knobs is None else knobs
        self.knobs: Knobs = leave_out(whole)
        self.scheduler = Scheduler()
        self._random = Random(f"run {seed}")
        self.network = Network(self.scheduler, *map(self._dice, ("network", "late", "late to clients")))
        if (messages := whole.omitted.messages) is not None:
            self.network.mishaps.bring_only(messages)
        self.trace: list[TraceEvent] = []
        self._digest = blake2b(digest_size=8)
        self.nodes: dict[int, SimulatedNode] = {}
        self._last_seen: dict[int, NodeView] = {}
        self._tails = Tails()
        self.active: list[int] = []
        """The nodes on which something happened in the last step."""
        self.interventions: dict[int, Intervention] = {}
        """What a person has done, by the step in which it was done."""
        self.watcher = Watcher(self.nodes)
        about = self.knobs.security, self.knobs.brokers, self.scheduler, self.network
        self.security = ClusterSecurity(*about, self._dice, self._report)
        self._make_nodes()
        self.faults = DirectoryFaults(
            self.knobs,
            self.nodes,
            self.scheduler,
            self.network,
            self.watcher,
            self._dice("faults"),
            self._report,
            tuple if whole.omitted == NOTHING else partial(strikes_of, SimulatedCluster, seed, whole),
        )
        self.faults.format_with(self._format, self._dice)
        self._writers: list[Writer] = []
        self._readers: list[Reader] = []
        self._maker: TopicMaker
        self._administrator: Administrator | None = None
        self._elector: Elector | None = None
        self._changers: list[voter_workload.VoterChanger | DiskWiper] = []
        self.groups: list[GroupWorkload] = []
        self.client_names: list[str] = []
        """Clients, groups and the bank: what `Omissions` may leave out."""
        self.bank: TransactionStorm | None = None
        self._recreation: RecreationWorkload | None = None
        self._rooms: list[Room] = []
        self._make_clients()
        if self.watcher.directories is not None:
            self.watcher.directories.quiet.is_quiet = self.faults.is_quiet
        world = self.watcher, self.scheduler, self.network, self._time_ms, self._dice
        self.strangers = ForeignWorkload(self.knobs, self.nodes, self.cluster_id, *world)
        self.is_storm_over = self.is_settled = False
        self._settle_by_us = self._copied = self._enough = 0

    def _dice(self, name: str) -> Random:
        return Random(f"{name} {self.seed}")

    # --- making -------------------------------------------------------------------------------------------------------

    def _make_nodes(self) -> None:
        brokers = list(range(1, self.knobs.brokers + 1))
        separate = [FIRST_CONTROLLER_ID + number for number in range(self.knobs.controllers)]
        controllers = separate or brokers
        self.cluster_id = cluster_id = str(Uuid.random(self._dice("cluster id")))
        for node_id in [*brokers, *separate]:
            config = read_node_config(node_properties(self.knobs, node_id, brokers, controllers))
            dice = self._dice(f"node {node_id}")
            machine = SimulatedNode(
                config,
                self.scheduler,
                self.network,
                dice,
                self._on_trace,
                self._before_end,
                dice.randint(-self.knobs.clock_skew_ms, self.knobs.clock_skew_ms),
                self.knobs.background_us,
                SeededSlice(self._dice(f"slices of node {node_id}"), self.knobs.slice_ends),
                SeededBursts(self._dice(f"bursts of node {node_id}"), self.knobs.busy_us),
            )
            if self.seed % sleep_laws.AUDIT_PERIOD == 0:
                machine.audit = sleep_laws.SleepAudit(self._dice(f"audit of node {node_id}")).check
            self.nodes[node_id] = machine
            self.security.equip(machine)
            self._format(machine, voters_to_begin_with(self.knobs, config, cluster_id, controllers), dice)
            self.scheduler.after(dice.randint(0, 200) * US_PER_MS, partial(self._start_first, machine))

    def _format(self, machine: SimulatedNode, voters: VoterSet | None = NO_VOTERS, dice: Random | None = None) -> None:
        about = machine.config, self.cluster_id, machine.filesystem, dice or self._dice(f"format {machine.life}")
        format_directories(*about, EPOCH_MS, voters, True, self._levels, self.security.first_records)
        machine.filesystem.sync_all()

    def _start_first(self, machine: SimulatedNode) -> None:
        if not machine.is_up and not machine.is_kept_down:
            machine.start()

    @property
    def _levels(self) -> Mapping[str, int]:
        """The features of the cluster."""
        knobs = self.knobs.transactions
        bank = {} if knobs is None else {TRANSACTION_VERSION: knobs.version}
        return {**NEW_CLUSTER, **bank, **self.knobs.features}

    def _make_clients(self) -> None:
        knobs = self.knobs
        servers = ",".join(f"node-{node_id}:{BROKER_PORT}" for node_id in range(1, knobs.brokers + 1))
        settings = {name: str(value) for name, value in knobs.topic.items()}
        topic = NewTopic(TOPIC, knobs.partitions, min(3, knobs.brokers), {}, settings)
        self._maker = TopicMaker(topic, servers, self._dice("admin"), _PAUSE_MS if knobs.groups else 0)
        self._add_client("admin", self._maker)
        if quota := knobs.producer_quota:
            self._add_client("maker-quota", QuotaMaker("producer-0", quota, servers, self._dice("quota")))
        if knobs.admin_every_ms:
            self._administrator = Administrator(
                servers,
                knobs.brokers,
                knobs.admin_every_ms,
                knobs.moves,
                knobs.level_changes,
                self._levels[METADATA_VERSION],
                self.watcher.newest_image,
                self._dice("administrator"),
            )
            self._add_client("administrator", self._administrator)
            if knobs.moves:
                self.watcher.watch_reassignments()
        if (orders := knobs.elections) is not None:
            self._elector = Elector(servers, orders.every_ms, orders.orders_unclean, self._dice("elector"))
            self._add_client("elector", self._elector)
        if knobs.voters is not None:
            self._make_changers(knobs.voters)
        if knobs.recreations is not None:
            self._recreation = RecreationWorkload(
                knobs.recreations, knobs.brokers, servers, self.watcher, self._time_ms, self.network, self._dice
            )
            for name, client in self._recreation.clients():
                self._add_client(name, client)
        self.limits = LimitsWorkload(knobs.limits, servers, self.nodes, self._dice)
        for name, client in self.limits.clients():
            self._add_client(name, client)
        self._rooms = make_rooms(
            Site(knobs, self.nodes, self.scheduler, self.watcher, self._levels, servers, self._time_ms, self._dice)
        )
        for name, client in (named for room in self._rooms for named in room.clients()):
            self._add_client(name, client)
        for number, producer in enumerate(knobs.producers):
            dice = self._dice(f"producer {number}")
            is_plain = knobs.has_plain_producer and number == 0
            writer = Writer(
                PLAIN.decode() if is_plain else f"p{number}",
                {**producer, "enable.idempotence": not is_plain},
                servers,
                knobs.records_per_s,
                knobs.partitions,
                self.watcher,
                self._time_ms,
                dice,
                knobs.keys,
            )
            self._writers.append(writer)
            self._add_client(f"producer-{number}", writer)
        self._make_readers(servers)
        self._make_groups(servers, topic)

    def _make_readers(self, servers: str) -> None:
        knobs = self.knobs
        for number, consumer in enumerate(knobs.consumers):
            reader = Reader(consumer, servers, knobs.partitions, self.watcher, self._dice(f"consumer {number}"))
            self._readers.append(reader)
            self._add_client(f"consumer-{number}", reader)

    def _make_groups(self, servers: str, topic: NewTopic) -> None:
        knobs = self.knobs
        left_out = knobs.omitted.clients
        world = self.scheduler, self.network, self.watcher, self._dice, self._report
        for group in knobs.groups:
            if group.group_id not in left_out:
                self.groups.append(make_group(group, knobs, servers, self._ledger, *world))
                self.client_names.append(group.group_id)
        if knobs.transactions is not None and BANK not in left_out:
            self._make_bank(knobs.transactions, topic, servers)
            self.client_names.append(BANK)

    def _ledger(self) -> Ledger:
        assert self.bank is not None
        return self.bank.ledger

    def _make_changers(self, knobs: VoterKnobs) -> None:
        laws = self.watcher.voters = VoterLaws()
        where = FIRST_CONTROLLER_ID, self.knobs.controllers, CONTROLLER_PORT
        for name, changer in voter_workload.changers(knobs, laws, *where, self._dice):
            self._changers.append(changer)
            self._add_client(name, changer)
        if knobs.wipe_every_ms and knobs.administrators == 1:
            about = knobs, self.nodes, laws, self.watcher, self.scheduler, self._dice("wiped disks")
            self._changers.append(DiskWiper(*about, self._format, self._report, lambda: changer.removals))

    def _make_bank(self, knobs: TransactionKnobs, topic: NewTopic, servers: str) -> None:
        self.watcher.transaction_version = knobs.version
        for name in (BANK, COPY):
            maker = TopicMaker(replace(topic, name=name), servers, self._dice(f"maker of {name}"), _PAUSE_MS)
            self._add_client(f"maker-{name}", maker)
        self.bank = TransactionStorm(
            knobs,
            self.knobs.partitions,
            servers,
            [f"node-{node_id}" for node_id in range(1, self.knobs.brokers + 1)],
            self.scheduler,
            self.network,
            self.watcher.progress,
            self._time_ms,
            self._dice("bank"),
            self._report,
            self.knobs.omitted.clients,
        )
        for name, reader in self.bank.readers():
            self._add_client(name, reader)
        if knobs.has_consumer_group:
            laws = TransactionalCommitLaws(self.watcher.progress)
            self.watcher.more_looks.append(laws.look)
            for machine in self.nodes.values():
                laws.watch(machine)

    def _add_client(self, name: str, core: RequestManager) -> None:
        if name in self.knobs.omitted.clients:
            return
        self.client_names.append(name)
        heeds = self.knobs.limits.quotas_ms is None
        client = SimulatedClient(name, core, self.scheduler, self.network, self._dice(name), heeds)
        self.scheduler.after(1, lambda: client.act(lambda: None))

    def _time_ms(self) -> int:
        return EPOCH_MS + self.scheduler.now

    @property
    def clients_that_began(self) -> tuple[str, ...]:
        """What `Omissions` may leave out of them: clients, groups and the bank, and then the hosts of these."""
        storms = (*self.groups, *(() if self.bank is None else (self.bank,)))
        return (*self.client_names, *(name for storm in storms for name in storm.begun))

    # --- watching -----------------------------------------------------------------------------------------------------

    def _on_trace(self, event: TraceEvent) -> None:
        self._remember(event)
        self.watcher.on_trace(event)

    def note(self, name: str, fields: dict[str, object]) -> None:
        """Put something into the trace that is not a node's own doing."""
        self._report(name, fields)

    def _report(self, name: str, fields: dict[str, object]) -> None:
        self._remember(TraceEvent(self.scheduler.now, SIMULATOR, name, fields))

    def _remember(self, event: TraceEvent) -> None:
        self.trace.append(event)
        self._digest.update(str(event).encode())

    def _before_end(self, machine: SimulatedNode) -> None:
        """A node ends, perhaps in the middle of a step, and comes back some time."""
        if machine.node is not None:
            self._last_seen[machine.node_id] = describe(machine.node, tail_of=self._tails)._replace(is_alive=False)
        self.watcher.look_for_the_last_time(machine)

    def describe(self, node_id: int) -> NodeView:
        """What a node knows now; of one that is down, what it knew last."""
        node = self.nodes[node_id].node
        if node is not None:
            return describe(node, tail_of=self._tails)
        return self._last_seen.get(node_id) or never_started(self.nodes[node_id].config)

    # --- running ------------------------------------------------------------------------------------------------------

    def run(self) -> Report:
        """The whole run. SimulationFailed if a law is broken."""
        self.begin()
        while not self.is_settled:
            self.step()
        return self.report()

    def begin(self) -> None:
        self.faults.begin()
        self.security.begin()
        self.strangers.begin()
        for group in self.groups:
            group.begin()
        if self.bank is not None:
            self.bank.begin()
        self.scheduler.at(self.knobs.storm_until_ms * US_PER_MS, self._end_storm)

    def step(self) -> None:
        """One event, and a look at what it has changed."""
        self._take_step(self.scheduler.run_next)

    def intervene(self, intervention: Intervention) -> None:
        """The next step is what a person does, at the time of the step before. Impossible: it cannot be done."""
        intervention.check(self)
        self._settle_by_us = self.scheduler.now_us + _SETTLE_LIMIT_US
        if self.is_settled:
            self.is_settled = False
            self.scheduler.after(_SETTLE_CHECK_US, self._check_settled)

        def act() -> None:
            self.scheduler.steps += 1
            self.interventions[self.scheduler.steps] = intervention
            self._report("you", {"do": str(intervention)})
            intervention.apply(self)

        self._take_step(act)

    def _take_step(self, act: Callable[[], object]) -> None:
        self.active = []
        self.scheduler.actor = ""
        self.network.last_delivered = None
        try:
            act()
            for machine in self.nodes.values():
                if machine.was_active or machine.has_ended:
                    self.active.append(machine.node_id)
                    if machine.was_active:
                        machine.was_active = False
                        self.watcher.look(machine)
                    if machine.has_ended:
                        machine.has_ended = False
                        self.faults.on_end(machine)
            if self.scheduler.steps == _MOST_STORMY_STEPS:
                self._end_storm()
        except (Exception, FatalFault) as error:
            raise SimulationFailed(self.seed, self.scheduler.steps, self.scheduler.now, error) from error

    def report(self) -> Report:
        progress = self.watcher.sum_up()
        progress.events = self.scheduler.steps
        if self.bank is not None:
            progress.committed = self.bank.ledger.count(Outcome.COMMITTED)
            progress.aborted = self.bank.ledger.count(Outcome.ABORTED)
        for knobs in self.knobs.groups:
            laws = self.watcher.groups.get(knobs.group_id)
            if isinstance(laws, GroupLaws):
                setattr(progress, f"{knobs.protocol}_rebalances", laws.rebalances)
        if self._recreation is not None:
            progress.groups_deleted = self._recreation.group_laws.deletions
        return Report(self.seed, progress, self.scheduler.steps, self.scheduler.now, self._digest.hexdigest())

    # --- settling -----------------------------------------------------------------------------------------------------

    def _end_storm(self) -> None:
        if self.is_storm_over:
            return
        self.is_storm_over = True
        self._report("storm_ends", {})
        self.faults.end()
        self.security.end_storm()
        self.strangers.end()
        for actor in (self._administrator, self._elector, *self._changers):
            if actor is not None:
                actor.is_active = False
        if self._recreation is not None:
            self._recreation.end()
        self.limits.end()
        for room in self._rooms:
            room.end()
        if self.bank is not None:
            self.bank.end()
        for group in self.groups:
            group.end()
            if group.loses_one_at_the_end:
                self._crash_with_coordinator(group)
        self._enough = self.watcher.progress.acknowledged + _ACKNOWLEDGED_IN_CALM
        self._settle_by_us = self.scheduler.now_us + _SETTLE_LIMIT_US
        self._check_settled()

    def _crash_with_coordinator(self, group: GroupWorkload) -> None:
        """The storm's last blow: a member and the node that coordinates its group, at once."""
        for node_id, broker in self._brokers():
            is_here = any(
                group.group_id in broker.groups.runtime.active(number).groups
                for number in broker.groups.runtime.active_partitions()
            )
            if is_here and not self.watcher.lossy:
                group.lose_one()
                self.faults.crash(self.nodes[node_id])
                return

    def _check_settled(self) -> None:
        if self.bank is not None and self.bank.ledger.copied > self._copied:
            self._copied = self.bank.ledger.copied
            self._settle_by_us = self.scheduler.now_us + SETTLE_LIMIT_OF_A_BANK_US
        self.watcher.check_sessions()
        missing = self._missing()
        if missing is None:
            self._check_end()
            self.is_settled = True
        elif self._is_held_down():
            self._settle_by_us = self.scheduler.now_us + _SETTLE_LIMIT_US
            self.scheduler.after(_SETTLE_CHECK_US, self._check_settled)
        elif self.scheduler.now_us > self._settle_by_us:
            raise Violation(f"the cluster does not settle: {missing}")
        else:
            self.scheduler.after(_SETTLE_CHECK_US, self._check_settled)

    def _is_held_down(self) -> bool:
        """Whether a person keeps the cluster from recovering."""
        return self.network.keeps_cut or any(machine.is_kept_down for machine in self.nodes.values())

    def _missing(self) -> str | None:
        """What is still wanting; None if the cluster has settled."""
        if self.watcher.progress.acknowledged < self._enough:
            return f"{self._enough - self.watcher.progress.acknowledged} records are not acknowledged yet"
        for writer in self._writers:
            writer.is_writing = False
        if self.bank is not None:
            self.bank.pause()
        if self._recreation is not None:
            self._recreation.pause()
        for room in self._rooms:
            room.pause()
        for node_id, machine in self.nodes.items():
            if machine.node is None:
                return f"node {node_id} is down"
            broker = machine.node.broker
            if broker is not None and broker.lifecycle.state is not LifecycleState.RUNNING:
                return f"broker {node_id} is {broker.lifecycle.state.value}"
        if not self._maker.is_done:
            return "the topic was not made"
        if self._administrator is not None and self._administrator.is_waiting:
            return "the administrator waits for an answer"
        if any(changer.is_waiting for changer in self._changers):
            return "an administrator of the voters waits for an answer"
        if self._recreation is not None and (why := self._recreation.missing) is not None:
            return why
        if (why := self.limits.missing or self.strangers.missing) is not None:
            return why
        images = [machine.node.loader.image for machine in self.nodes.values() if machine.node is not None]
        newest = max(image.provenance.offset for image in images)
        if min(image.provenance.offset for image in images) < newest - 1:
            return "not every node has read the metadata log"
        if (moving := in_progress(max(images, key=lambda image: image.provenance.offset))) is not None:
            return f"{moving} is still being reassigned"
        return missing_in_partitions(self.nodes, images) or self._missing_in_clients()

    def _missing_in_clients(self) -> str | None:
        brokers = self._brokers()
        if not all(writer.is_idle for writer in self._writers):
            return "a producer still waits for acknowledgements"
        for reader in self._readers:
            for key, position in reader.positions.items():
                if position < (end := end_for_readers(self.watcher, brokers, key)):
                    return f"a consumer has read {key} up to {position} of {end}"
        if self.bank is not None and (why := self.bank.missing() or missing_in_transactions(brokers)) is not None:
            return why
        if (why := next((why for room in self._rooms if (why := room.missing(brokers)) is not None), None)) is not None:
            return why
        return next((why for group in self.groups if (why := self._missing_in_group(group)) is not None), None)

    def _missing_in_group(self, group: GroupWorkload) -> str | None:
        return group.missing(group.places(self.knobs.partitions)) or missing_in_coordinators(self._brokers(), group)

    def _brokers(self) -> list[tuple[int, Broker]]:
        nodes = [(node_id, machine.node) for node_id, machine in self.nodes.items()]
        return [(node_id, node.broker) for node_id, node in nodes if node is not None and node.broker is not None]

    def _check_end(self) -> None:
        """The images are those that the metadata log alone gives, and the same for all nodes at the same offset. The
        laws that are too costly to check all the time hold."""
        changing = {METADATA_VERSION} if self._administrator is not None else set()  # that level has a law of its own
        image = check_images(self.nodes, self._levels, None if self.knobs.settings is not None else changing)
        if self._administrator is not None:
            self._administrator.check(image)
        if self._recreation is not None:
            self._recreation.recreator.check(image)
        for room in self._rooms:
            room.check(image)
        self.limits.check()
        self.strangers.check_end()
        check_record_versions(self.watcher.metadata.all_batches())
        self.watcher.check_replays()
        if self.bank is not None:
            self.bank.ledger.check_total()
        for laws in self.watcher.groups.values():
            for node_id, broker in self._brokers():
                internal = InternalLog(GROUP_TOPIC, broker.replicas, self.nodes[node_id])
                laws.check_coordinator(broker.groups, internal, self.scheduler.now)
        check_plainly(image, self.watcher.metadata.all_batches())
        self.watcher.questions.check(self.nodes)
        check_stale(self.nodes)
        check_supposed_changes(image)
        check_supposed_metadata(image)
        check_supposed_logs(self.nodes)
        check_supposed_brokers(self.nodes)
        check_supposed_groups(self.nodes)
