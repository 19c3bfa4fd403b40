"""Trouble: what befalls a simulated cluster, when, and what may not befall it.

Every so often one of the seed's kinds of trouble is drawn. A process may end anywhere and come back any time later. The
network may do what it likes. A disk may fail, and takes its process with it.

Power is another matter. Kafka syncs its data only now and then: what a broker acknowledges is on several machines, in
the memory of each. So it promises nothing if as many of them lose power at once as ``min.insync.replicas`` says. Nor
does it if one that has lost power was the last member of an ISR, or becomes it while it is away, for then it is elected
with what is left. So a broker loses power only when another in-sync replica of each of its partitions is well, and
until it is out of those ISRs, or is back in them with everything, nothing else befalls the brokers.

With eligible leader replicas (KIP-966) the second gap is closed. So in histories with elections a broker may lose power
at any time, in the middle of any other trouble; only one at a time, until it is back in all its ISRs with everything.

A controller's log and its votes are synced before they count: a controller without a broker may lose power at any time,
also within a step, and so may all of them.
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from random import Random
from typing import Any, NamedTuple

from pykraft.controller.config import BROKER_SESSION_TIMEOUT_MS
from pykraft.metadata.image import MetadataImage
from pykraft.sim.laws.watcher import Watcher
from pykraft.sim.trouble.aimed import AimedFaults
from pykraft.sim.trouble.knobs import Knobs
from pykraft.sim.trouble.long_times import MOST_MS, SLEEPS_MS
from pykraft.sim.trouble.outages import Outages
from pykraft.sim.world.hosts import SimulatedNode
from pykraft.sim.world.network import Link, Network, Weather
from pykraft.sim.world.scheduler import US_PER_MS, Scheduler

_CALM_CHECK_US = 100 * US_PER_MS
_WITHIN_STEP = 0.6
"""Where logs move, a broker loses its power this often before a change of its disk, perhaps while it swaps segments."""
_IN_SWAP = 0.6
"""A node that cleans a log ends this often while it swaps segments, or removes some."""
_LONGEST_CALM_US = 20_000 * US_PER_MS


class Strike(NamedTuple):
    """A fault that came, and the dice as they were before it. They are the same again in a history from which others
    are left out; so each of its faults comes as it did, whatever was drawn in between."""

    now_ms: int
    kind: str
    """Nothing if none came: the cluster was calm, or it was left out."""
    dice: Any


class Faults:
    """Brings trouble until `end`."""

    def __init__(
        self,
        knobs: Knobs,
        nodes: dict[int, SimulatedNode],
        scheduler: Scheduler,
        network: Network,
        watcher: Watcher,
        random: Random,
        report: Callable[[str, dict[str, object]], None],
        whole: Callable[[], Sequence[Strike]] = tuple,
    ) -> None:
        """`whole` has the strikes of the whole history, where some of it is left out here."""
        self._whole = whole
        self.strikes: list[Strike] = []
        self._knobs = knobs
        self._nodes = nodes
        self._scheduler = scheduler
        self._network = network
        self._watcher = watcher
        self._random = random
        self._report = report
        self._outages = Outages(scheduler, network, report)
        self._is_over = False
        self._is_calm = False
        self._slept_ms = 0
        self._victim: SimulatedNode | None = None
        session_ms = int(knobs.properties.get(BROKER_SESSION_TIMEOUT_MS.name, BROKER_SESSION_TIMEOUT_MS.default))
        world = (scheduler, network, self._outages, random)
        self._aimed = AimedFaults(
            nodes, knobs.brokers, session_ms, *world, report, self.crash, watcher.progress, lambda: self._is_calm
        )

    def begin(self) -> None:
        def start() -> None:
            self._set_weather()
            self._plan_next()

        self._scheduler.after(self._knobs.storm_from_ms * US_PER_MS + 1, start)

    def end(self) -> None:
        """No more trouble: the network is whole, all nodes are started."""
        self._is_over = True
        self._make_calm()
        for machine in self._nodes.values():
            self._start_later(machine, 0)

    def _plan_next(self) -> None:
        pause_ms = self._random.expovariate(1 / self._knobs.fault_every_ms)
        self._scheduler.after(round(pause_ms * US_PER_MS) + 1, self._strike)

    def _strike(self) -> None:
        if self._is_over:
            return
        number, kind = len(self.strikes) + 1, ""
        if number <= len(self.before):
            self._random.setstate(self.before[number - 1].dice)
        dice = self._random.getstate()
        self._plan_next()
        if self._knobs.faults and not self._is_calm:
            kinds = sorted(self._knobs.faults)
            kind = self._random.choices(kinds, [self._knobs.faults[kind] for kind in kinds])[0]
        if self._is_left_out(number, kind):
            kind = ""
        self.strikes.append(Strike(self._scheduler.now, kind, dice))
        if kind:
            getattr(self, f"_{kind}")()

    @cached_property
    def before(self) -> Sequence[Strike]:
        """The strikes of the whole history, which is run when the first of them comes."""
        return self._whole()

    def _is_left_out(self, number: int, kind: str) -> bool:
        omitted = self._knobs.omitted
        was_calm = number <= len(self.before) and not self.before[number - 1].kind
        return was_calm or number in omitted.faults or kind in omitted.kinds

    # --- nodes --------------------------------------------------------------------------------------------------------

    @property
    def _up(self) -> list[SimulatedNode]:
        return [machine for machine in self._nodes.values() if machine.is_up and not machine.is_stopping]

    def _crash(self) -> None:
        if self._up:
            self.crash(self._random.choice(self._up))

    def _crash_controller(self) -> None:
        """The active controller, also one that has just been elected."""
        leaders = [m for m in self._up if m.node is not None and m.node.raft.replica.quorum.is_leader]
        if leaders:
            self.crash(self._random.choice(leaders))

    def _crash_leader(self) -> None:
        """A node that leads a partition."""
        leaders = [
            machine
            for machine in self._up
            if machine.node is not None
            and machine.node.broker is not None
            and any(partition.is_leader for partition in machine.node.broker.replicas.partitions.values())
        ]
        if leaders:
            self.crash(self._random.choice(leaders))

    def _crash_coordinator(self) -> None:
        """A node that coordinates groups, or transactions; one with work in flight, if there is one."""
        watcher = self._watcher
        busy = (
            watcher.transaction_coordinators.busy
            if watcher.transaction_version is not None
            else watcher.coordinators.busy
        )
        coordinators = [machine for machine in self._up if busy.get(machine.node_id)]
        waited_for = [machine for machine in coordinators if any(busy[machine.node_id].values())]
        if coordinators:
            self.crash(self._random.choice(waited_for or coordinators))

    def crash(self, machine: SimulatedNode) -> None:
        """The process ends, now; another begins later."""
        self._report("crash", {"node": machine.node_id})
        machine.crash()

    def _crash_within_step(self) -> None:
        """Before one of the next changes of its disk, perhaps in the middle of it. What the step has sent is on its
        way; with a controller's power goes what it has not synced by then."""
        if self._up:
            machine = self._random.choice(self._up)
            torn = self._random.choice((0, 0, 1, 30, 100))
            machine.filesystem.crash_after(self._random.randrange(20), torn)
            machine.power_will_fail = not machine.config.is_broker and self._random.random() < 0.5
            fields: dict[str, object] = {"node": machine.node_id, "torn": torn, "power": machine.power_will_fail}
            self._report("crash_within_step", fields)

    def _crash_cleaning(self) -> None:
        """A node whose cleaner is at work on a log, before one of the next changes of its disk; any node if there is
        none."""
        busy = [
            machine
            for machine in self._up
            if machine.node is not None
            and machine.node.broker is not None
            and any(cleaner.current is not None for cleaner in machine.node.broker.logs.cleaners)
        ]
        if self._up:
            machine = self._random.choice(busy or self._up)
            count, in_swap = self._random.randrange(12), self._random.random() < _IN_SWAP
            if in_swap:
                machine.filesystem.crash_in_swap = count
            else:
                machine.filesystem.crash_after(3 * count, self._random.choice((0, 0, 30)))
            self._report("crash_cleaning", {"node": machine.node_id, "count": count, "in_swap": in_swap})

    def _disk_error(self) -> None:
        if self._up:
            machine = self._random.choice(self._up)
            machine.disk_failed = True
            machine.filesystem.fail_after(self._random.randrange(20), OSError(5, "the disk fails"))
            self._report("disk_error", {"node": machine.node_id})

    def _stop(self) -> None:
        """In order, as for maintenance."""
        if self._up:
            machine = self._random.choice(self._up)
            self._report("stop", {"node": machine.node_id})
            machine.stop()

    def on_end(self, machine: SimulatedNode) -> None:
        """A life of a node is over; another will begin."""
        self._watcher.progress.crashes += 1
        self._report("ended", {"node": machine.node_id})
        self._start_later(machine)

    def _start_later(self, machine: SimulatedNode, delay_ms: int | None = None) -> None:
        delay = self._random.randint(*self._knobs.restart_ms) if delay_ms is None else delay_ms

        def start() -> None:
            if not machine.is_up and not machine.is_kept_down:
                self._report("start" if machine.life else "first_start", {"node": machine.node_id})
                machine.start()
                self._watcher.look(machine)

        self._scheduler.after(delay * US_PER_MS + 1, start)

    # --- the network --------------------------------------------------------------------------------------------------

    def _set_weather(self) -> None:
        knobs = self._knobs
        self._network.weather = Weather(
            straggler=knobs.straggler,
            breaks=knobs.breaks,
            ghost=knobs.ghost,
            late=0.0 if knobs.recreations is None else knobs.recreations.late,
            late_hosts=frozenset(self._names()),
            late_to_clients=knobs.late_to_clients,
        )

    def _names(self) -> list[str]:
        return [machine.name for machine in self._nodes.values()]

    def _for_a_while_us(self) -> int:
        return round(self._random.expovariate(1 / 800) * US_PER_MS) + 1

    def _partition(self) -> None:
        """Two groups of nodes that do not hear each other; clients reach both."""
        names = self._names()
        some = set(self._random.sample(names, self._random.randint(1, len(names) - 1)))
        self._cut([(a, b) for a in names for b in names if (a in some) != (b in some)])

    def _one_way_partition(self) -> None:
        """One node hears the others, or is heard by them, but not both."""
        names = self._names()
        one = self._random.choice(names)
        others = self._random.sample(names, self._random.randint(1, len(names)))
        links = [(one, other) for other in others if other != one]
        self._cut(links if self._random.random() < 0.5 else [(b, a) for a, b in links])

    def _cut_off_controller(self) -> None:
        """The active controller hears no other node, for so long that there is another one; clients still reach it.
        What it appends meanwhile is never committed."""
        leaders = [m.name for m in self._up if m.node is not None and m.node.raft.replica.quorum.is_leader]
        if leaders:
            one = self._random.choice(leaders)
            links = [(one, other) for other in self._names() if other != one]
            timeout_ms = self._knobs.properties["controller.quorum.fetch.timeout.ms"]
            duration_us = self._random.randint(2, 5) * timeout_ms * US_PER_MS
            self._outages.cut([*links, *((b, a) for a, b in links)], duration_us)

    def _cut(self, links: list[Link]) -> None:
        self._outages.cut(links, self._for_a_while_us())

    def _side_cut(self) -> None:
        self._aimed.side_cut()

    def _coordinator_cut(self) -> None:
        self._aimed.coordinator_cut()

    def _cascade(self) -> None:
        self._aimed.cascade()

    def _clog(self) -> None:
        """What one node sends another arrives late."""
        source, target = self._random.sample(self._names(), 2)
        until_us = self._scheduler.now_us + self._for_a_while_us()
        self._report("clog", {"source": source, "target": target, "until": until_us})
        self._network.clog(source, target, until_us)

    def _stall(self) -> None:
        """A node does nothing for a while, and does not notice."""
        if self._up:
            machine = self._random.choice(self._up)
            machine.stalled_until_us = self._scheduler.now_us + self._for_a_while_us()
            self._report("stall", {"node": machine.node_id, "until": machine.stalled_until_us})

    # --- time ---------------------------------------------------------------------------------------------------------

    def _sleep(self) -> None:
        """Every machine is suspended, the clients' as well: for minutes, or for days."""
        duration_ms = min(self._random.choice(SLEEPS_MS), MOST_MS - self._slept_ms)
        self._slept_ms += duration_ms
        self._watcher.progress.minutes_slept += duration_ms // 60_000
        self._report("sleep", {"for_ms": duration_ms})
        self._scheduler.skip(duration_ms * US_PER_MS)

    # --- power --------------------------------------------------------------------------------------------------------

    def _power_loss(self) -> None:
        controllers = [m for m in self._up if not m.config.is_broker]
        if controllers:
            for machine in self._random.sample(controllers, self._random.randint(1, len(controllers))):
                self._report("power_loss", {"node": machine.node_id})
                machine.lose_power(self._random)
            return
        if self._knobs.elections is not None and self._knobs.elections.keeps_elr:
            self._take_power_in_the_storm()
            return
        self._make_calm()
        self._await(self._one_may_lose_power, self._take_power)

    def _take_power_in_the_storm(self) -> None:
        """Of a broker that runs, unless another one has lost its power and is not back."""
        if self._watcher.lossy or not self._up:
            return
        victim = self._random.choice(self._up)
        self._report("power_loss", {"node": victim.node_id})
        self._watcher.lossy.add(victim.node_id)
        victim.lose_power(self._random)

        def look() -> None:
            if self._is_back(victim):
                self._watcher.lossy.discard(victim.node_id)
            else:
                self._scheduler.after(_CALM_CHECK_US, look)

        self._scheduler.after(_CALM_CHECK_US, look)

    def _is_back(self, machine: SimulatedNode) -> bool:
        """Whether the controller knows of this life of the broker, and has it in all its ISRs."""
        image = self._decided_image()
        if image is None or not _is_well(machine) or machine.node is None or machine.node.broker is None:
            return False
        known = image.brokers.get(machine.node_id)
        partitions = [partition for topic in image.topics.values() for partition in topic.partitions.values()]
        return (
            known is not None
            and known.epoch == machine.node.broker.lifecycle.epoch
            and all(machine.node_id in each.isr for each in partitions if machine.node_id in each.replicas)
        )

    def _make_calm(self) -> None:
        self._is_calm = True
        self._network.mend_all()
        self._network.weather = Weather()
        for machine in self._nodes.values():
            machine.stalled_until_us = 0
            machine.spare()

    def _await(self, condition: Callable[[], bool], then: Callable[[], None]) -> None:
        """Wait for a condition in the calm; give up after a long time."""
        give_up_us = self._scheduler.now_us + _LONGEST_CALM_US

        def check() -> None:
            if self._is_over:
                return
            if condition():
                then()
            elif self._scheduler.now_us < give_up_us:
                self._scheduler.after(_CALM_CHECK_US, check)
            else:
                self._resume()

        self._scheduler.after(_CALM_CHECK_US, check)

    def _resume(self) -> None:
        self._is_calm = False
        self._watcher.lossy.clear()
        self._victim = None
        self._set_weather()

    def _decided_image(self) -> MetadataImage | None:
        """What the controller has decided, if a decision that is not known to all is impossible."""
        for machine in self._up:
            node = machine.node
            if node is not None and node.raft.replica.quorum.is_leader and node.controller is not None:
                log = node.raft.replica.log
                leader = node.raft.replica.leader
                is_settled = leader is not None and leader.high_watermark == log.end_offset
                return node.loader.image if is_settled else None
        return None

    def _one_may_lose_power(self) -> bool:
        """Every replica is in sync, and every broker's session is alive."""
        image = self._decided_image()
        if image is None or any(not _is_well(machine) for machine in self._nodes.values()):
            return False
        partitions = [partition for topic in image.topics.values() for partition in topic.partitions.values()]
        if any(set(partition.isr) != set(partition.replicas) or partition.leader < 0 for partition in partitions):
            return False
        return all(not broker.fenced for broker in image.brokers.values()) and bool(image.brokers)

    def _take_power(self) -> None:
        self._victim = self._random.choice(list(self._nodes.values()))
        self._report("power_loss", {"node": self._victim.node_id})
        self._watcher.lossy.add(self._victim.node_id)
        if self._knobs.moving is not None and self._random.random() < _WITHIN_STEP:
            self._victim.power_will_fail = True
            self._victim.filesystem.crash_after(self._random.randrange(60), self._random.choice((0, 30)))
        else:
            self._victim.lose_power(self._random)
        victim = self._victim
        self._await(lambda: not victim.power_will_fail and self._one_may_lose_power(), self._resume)


def _is_well(machine: SimulatedNode) -> bool:
    node = machine.node
    return node is not None and not machine.is_stopping and (node.broker is None or node.broker.lifecycle.is_running)
