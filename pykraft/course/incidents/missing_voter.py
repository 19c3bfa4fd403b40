"""Incident 6: a quorum of controllers has one voter too few: a controller was replaced, and the new one is no voter.

READING ON SPOILS THE INCIDENT.

The voters are 101, 102 and 103. The machine of 103 is gone for good; 104 runs in its place, has the whole metadata log,
and is an observer: it was never added. So 101 and 102 are needed, both of them, and 102 restarts every 45 s: its memory
is bad. While it is down no controller is active: no partition gets a new leader, no broker may register. The brokers
run on machines that are taken away now and then, which costs nothing as long as a controller is active.

The second blow: when the voters are right, or long enough after they were changed, 102 does not boot any more.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import ClassVar

from pykraft.common.types import ReplicaKey
from pykraft.course.incidents.drawing import Card, Row
from pykraft.course.incidents.incident import Counter, Incident, Script, WrongCure
from pykraft.course.incidents.programs import Orderer
from pykraft.course.incidents.terminal import PropertiesFile, Verb
from pykraft.course.incidents.world import World
from pykraft.sim.node_files import CONTROLLER_PORT
from pykraft.storage.disk.checkpoint import META_PROPERTIES

TOPIC, PARTITIONS = "orders", 3
STEADY, FLAPPING, GONE, NEW = 101, 102, 103, 104
_ORDERS_PER_S, _USUAL = 6, 12
_PERIOD_MS, _DOWN_MS, _BROKER_AT_MS, _BROKER_DOWN_MS = 45_000, 22_000, 3_000, 9_000
_RIGHT_S, _CALM_S, _CHANGED_S, _MOST_LOST = 20, 60, 180, 120
_PRODUCER = {"acks": "all", "linger.ms": 400, "request.timeout.ms": 5_000, "delivery.timeout.ms": 15_000}
_PROPERTIES = {
    "broker.session.timeout.ms": 6_000,
    "broker.heartbeat.interval.ms": 1_000,
    "controller.quorum.retry.backoff.ms": 500,
}


class MissingVoter(Incident):
    NUMBER, TITLE = 6, "Orders hang every minute"
    TOPICS = (TOPIC,)
    LOSS = "the quorum is gone"
    PAGER = (
        "SEV 1 · checkout: every 45 s orders hang, and customers give up after 15 s. The brokers run on spot machines: "
        "one is taken away and comes back, which used to cost nothing. All three controllers (101, 102 and 104) have "
        "the newest metadata. Controller 102 restarts every 45 s (bad memory, the new board comes next week)."
    )
    CURE: ClassVar[Script] = (
        (5, "kafka-metadata-quorum describe --replication --human-readable"),
        (7, "kafka-metadata-quorum describe --status"),
        (9, "kafka-metadata-quorum --command-config controller-104.properties add-controller"),
        (
            11,
            "kafka-metadata-quorum remove-controller -i 103 -d U4h5tRIzYioP6_SHXxLduQ",
        ),
        (13, "kafka-metadata-quorum describe --status"),
    )
    WRONG = (
        WrongCure(
            "set up 102 again",
            ((5, "format-controller 102"),),
            "A voter is an id and a disk. On its new disk 102 is another replica, and no voter. Of the three voters "
            "two are gone now, and one alone elects nothing, ever.",
        ),
        WrongCure(
            "remove 102, which makes the trouble",
            (
                (
                    5,
                    "kafka-metadata-quorum remove-controller -i 102 -d XMAqRDZs6uo1X4P6d0n0vg",
                ),
            ),
            "The voters are 101 and 103 then, and 103 is gone. A majority of two is two: no record is committed any "
            "more, not even this removal.",
        ),
    )
    STORY = (
        "The machine of controller 103 had failed long ago, and 104 took its place: formatted, started, with the "
        "whole metadata log. But it was never added as a voter. The voters were still 101, 102 and 103, so a majority "
        "needed 101 and 102, both of them.",
        "Then 102 began to restart. While it was down no controller was active. A broker went in that time, and its "
        "partitions got no new leader: orders waited, and customers gave up after 15 s.",
        "The cure has two parts. `add-controller` makes 104 a voter, and `remove-controller` takes 103 out. Each alone "
        "is too little: of four voters with two gone, or of two with one gone, no majority is left. That came: 102 did "
        "not boot any more, and 101 and 104 went on.",
    )
    SHOWN_BY = (
        ("kafka-metadata-quorum describe --replication", "103 is a voter, and has never fetched; 104 is an observer"),
        ("kafka-metadata-quorum describe --status", "the ids of the directories, and which nodes are voters"),
        ("kafka-topics --describe --unavailable-partitions", "partitions without a leader, for as long as 102 is down"),
        ("kafka-metadata-quorum remove-controller --dry-run …", "what would be done"),
    )

    def build(self) -> World:
        world = World(self.seed, properties=_PROPERTIES, controllers=4)
        world.cluster.nodes[NEW].is_kept_down = True
        return world

    def prepare(self) -> None:
        world = self.world
        world.run_to(6_000)
        self.terminal.run(
            f"kafka-topics --create --topic {TOPIC} --replica-assignment 1:2:3,2:3:1,3:1:2 "
            "--config min.insync.replicas=2"
        )
        self._gone = {GONE: world.key_of(GONE)}
        self._known: dict[int, frozenset[ReplicaKey]] = {}
        self._first: frozenset[ReplicaKey] = frozenset()
        self.orders = Orderer(world, TOPIC, PARTITIONS, _ORDERS_PER_S, _PRODUCER)
        self._refused_before = self._doomed_at = 0
        self._is_doomed = self._is_broken = False
        self._refused_ms = self._changed_s = self._right_s = self._calm_s = 0
        self._turn = 0
        world.start("checkout", self.orders)
        world.run_to(world.now_ms + 8_000)
        world.crash(GONE)
        world.run_to(world.now_ms + 4_000)
        world.boot(NEW)
        world.run_to(world.now_ms + 10_000)
        self._look_at_voters()
        self._first = self.voters()
        self._begin_period()
        world.run_to(world.now_ms + _DOWN_MS + 5_000)

    # --- what befalls it ----------------------------------------------------------------------------------------------

    def _begin_period(self) -> None:
        world = self.world
        broker = world.brokers[self._turn % len(world.brokers)]
        self._turn += 1
        if not self._is_broken:
            world.crash(FLAPPING)
            world.after(_DOWN_MS, self._boot_flapping)
        world.after(_BROKER_AT_MS, partial(world.crash, broker))
        world.after(_BROKER_AT_MS + _BROKER_DOWN_MS, partial(world.boot, broker))
        world.after(_PERIOD_MS, self._begin_period)

    def _boot_flapping(self) -> None:
        if not self._is_broken:
            self.world.boot(FLAPPING)

    def _strike(self) -> None:
        self._is_broken = True
        self._gone[FLAPPING] = self.world.key_of(FLAPPING)
        self.world.crash(FLAPPING)
        self.report("controller 102 has stopped, and its machine does not boot any more")
        self._calm_s = 0

    # --- the voters ---------------------------------------------------------------------------------------------------

    def _look_at_voters(self) -> None:
        """By controller, the last voter set in its log; of one that is down, what it was."""
        for number in (STEADY, FLAPPING, NEW):
            node = self.world.cluster.nodes[number].node
            if node is not None:
                self._known[number] = frozenset(node.raft.replica.control_records.voters.keys)

    def voters(self) -> frozenset[ReplicaKey]:
        """Those of the controller that has the longest log, of those that run."""
        nodes = [self.world.cluster.nodes[number].node for number in (STEADY, FLAPPING, NEW)]
        running = [node for node in nodes if node is not None]
        longest = max(running, key=lambda node: node.raft.replica.log.end_offset)
        return self._known[longest.config.node_id]

    def _alive(self) -> set[ReplicaKey]:
        there = {self.world.key_of(number) for number in (STEADY, FLAPPING, NEW)}
        return there - set(self._gone.values())

    def _may_elect(self) -> bool:
        """Whether some controller could ever get the votes of a majority of the voters that it knows."""
        alive = self._alive()
        return any(
            self.world.key_of(number) in voters & alive and 2 * len(voters & alive) > len(voters)
            for number, voters in self._known.items()
        )

    # --- by hand ------------------------------------------------------------------------------------------------------

    def own_verbs(self) -> list[Verb]:
        def set_up(words: list[str]) -> str:
            if len(words) != 1 or words[0] not in map(str, (STEADY, FLAPPING, NEW)):
                raise ValueError(f"say which controller: {STEADY}, {FLAPPING}, {NEW}")
            node = int(words[0])
            if node == FLAPPING and self._is_broken:
                raise ValueError("the machine of 102 does not boot")
            was_up = self.world.is_up(node)
            self.world.crash(node)
            self.world.replace_disk(node)
            self._known[node] = frozenset()
            if was_up or node != FLAPPING:
                self.world.boot(node)
            return f"controller {node} has an empty disk, formatted for this cluster with --no-initial-controllers"

        return [Verb("format-controller N", "set up a controller again on an empty disk, with its id", set_up)]

    def files(self) -> Mapping[str, PropertiesFile]:
        return {f"controller-{number}.properties": partial(self._file, number) for number in (STEADY, FLAPPING, NEW)}

    def _file(self, number: int, folder: Path) -> str:
        machine = self.world.cluster.nodes[number]
        data = machine.filesystem.read(f"{machine.config.metadata_dir}/{META_PROPERTIES}")
        (folder / META_PROPERTIES).write_bytes(data)
        lines = {
            "process.roles": "controller",
            "node.id": number,
            "listeners": f"CONTROLLER://node-{number}:{CONTROLLER_PORT}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT",
            "controller.quorum.bootstrap.servers": self.world.controller_servers,
            "log.dirs": folder,
        }
        return "\n".join(f"{name}={value}" for name, value in lines.items())

    # --- the judge ----------------------------------------------------------------------------------------------------

    def second(self) -> None:
        self._look_at_voters()
        refused = self.orders.refused
        self._calm_s = self._calm_s + 1 if refused == self._refused_before else 0
        self._refused_before = refused
        if not self._is_doomed and not self._may_elect():
            self._is_doomed, self._doomed_at = True, refused
        voters = self.voters()
        self._changed_s += voters != self._first
        is_right = len(voters) >= 3 and 2 * len(voters & self._alive() - {self.world.key_of(FLAPPING)}) > len(voters)
        self._right_s = self._right_s + 1 if is_right else 0
        if not self._is_broken and (self._right_s >= _RIGHT_S or self._changed_s >= _CHANGED_S):
            self._strike()

    def missing(self) -> str | None:
        if not self._is_broken or self._calm_s < _CALM_S:
            return "a controller is missed, and customers give up"
        return None

    def is_lost(self) -> bool:
        return self._after_doom() >= _MOST_LOST

    # --- what is seen -------------------------------------------------------------------------------------------------

    def _after_doom(self) -> int:
        return self.orders.refused - self._doomed_at if self._is_doomed else 0

    def counters(self) -> tuple[Counter, ...]:
        orders = self.orders
        return (
            Counter("orders confirmed", orders.confirmed),
            Counter("orders waiting", orders.waiting, harm=True, usual=_USUAL),
            Counter("customers gave up", orders.refused, harm=True),
            Counter("gave up for want of a quorum", self._after_doom(), harm=True),
        )

    def cards(self) -> list[Card]:
        found = []
        nodes = self.world.cluster.nodes
        for number in (STEADY, FLAPPING, NEW):
            node = nodes[number].node
            if node is None:
                found.append(Card(f"{number}", "down", [], is_up=False))
                continue
            is_active = node.controller is not None and node.controller.is_active
            row = Row("metadata", 1.0, f"end {node.raft.replica.log.end_offset:,}")
            found.append(Card(f"{number}", "active" if is_active else "runs", [row]))
        for number in self.world.brokers:
            rows = []
            for each in range(PARTITIONS):
                replica = self.world.replicas(TOPIC, each).get(number)
                if replica is not None and replica.is_leader:
                    rows.append(Row(f"◆ {TOPIC}-{each}", 1.0, f"{replica.log.high_watermark:,}"))
            is_up = self.world.is_up(number)
            found.append(Card(f"broker {number}", "" if is_up else "down", rows, is_up))
        return found
