"""Workloads that only some seeds have, each with topics, clients and laws of its own beside the usual ones."""

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, NamedTuple, Protocol

from pykraft.broker.broker import Broker
from pykraft.common.types import Node
from pykraft.metadata.image import MetadataImage
from pykraft.metadata.versions import TRANSACTION_VERSION
from pykraft.sim.laws.answer_laws import AnswerLaws
from pykraft.sim.laws.moving_log_laws import MovingLogLaws
from pykraft.sim.laws.setting_laws import CHANGING
from pykraft.sim.laws.storm_group_laws import StormClassicGroupLaws, StormConsumerGroupLaws, TopicNames
from pykraft.sim.laws.watcher import Watcher
from pykraft.sim.laws.work_laws import WorkLaws
from pykraft.sim.node_files import BROKER_PORT
from pykraft.sim.trouble.clients import CLASSIC, CONSUMER, GROUPS
from pykraft.sim.trouble.group_storms import StormKnobs
from pykraft.sim.trouble.knobs import Knobs
from pykraft.sim.trouble.moving_logs import MovingLogKnobs
from pykraft.sim.trouble.settings import SettingKnobs
from pykraft.sim.trouble.work import WorkKnobs
from pykraft.sim.workloads.burden_workload import BurdenWorkload
from pykraft.sim.workloads.directory_workload import DirectoryWorkload
from pykraft.sim.workloads.disk_workload import DiskWorkload
from pykraft.sim.workloads.moving_log_workload import MovingLogWorkload
from pykraft.sim.workloads.setting_workload import SettingWorkload, age
from pykraft.sim.workloads.storm_room import MembersHaveNames, StormRoom
from pykraft.sim.world.hosts import SimulatedNode
from pykraft.sim.world.scheduler import Scheduler


class Room(Protocol):
    """One such workload."""

    def clients(self) -> list[tuple[str, Any]]:
        """Each with its name."""

    def end(self) -> None:
        """The storm is over."""

    def pause(self) -> None:
        """Nothing more is written."""

    def missing(self, brokers: Sequence[tuple[int, Broker]]) -> str | None:
        """Why it has not settled; None if it has. `brokers` are those that are up, with their node ids."""

    def check(self, image: MetadataImage) -> None:
        """What was promised is so in the end, when each node has this image."""


class Site(NamedTuple):
    """The cluster that a room is in."""

    knobs: Knobs
    nodes: dict[int, SimulatedNode]
    scheduler: Scheduler
    watcher: Watcher
    levels: Mapping[str, int]
    servers: str
    time_ms: Callable[[], int]
    dice: Callable[[str], Random]


def make_rooms(site: Site) -> list[Room]:
    """Those of a seed."""
    rooms: list[Room] = []
    if (moving := site.knobs.moving) is not None:
        rooms.append(_moving_logs(site, moving))
    if (settings := site.knobs.settings) is not None:
        rooms.append(_settings(site, settings))
    if site.knobs.disks is not None:
        site.watcher.watch_disks(lambda: site.scheduler.now)
        rooms.append(DiskWorkload(site.knobs, site.knobs.disks, site.servers, site.watcher, site.dice))
    if (directories := site.knobs.directories) is not None:
        laws = site.watcher.watch_directories(lambda: site.scheduler.now)
        dice = site.dice("mover")
        rooms.append(DirectoryWorkload(directories, site.servers, site.watcher, laws, site.time_ms, dice))
    if (work := site.knobs.work) is not None:
        rooms.append(_burden(site, work))
    if (storms := site.knobs.storms) is not None:
        rooms.append(_storms(site, storms))
    return rooms


def _storms(site: Site, knobs: StormKnobs) -> Room:
    """With the laws of the groups, which the groups find by their ids."""
    watcher, drawn = site.watcher, site.knobs
    topics = TopicNames(watcher, site.nodes)
    watcher.more_looks.append(topics.look)
    has_ghosts = bool(drawn.ghost)
    consumer_laws = StormConsumerGroupLaws(GROUPS[CONSUMER][0], has_ghosts, topics.name_of)
    for laws in (consumer_laws, StormClassicGroupLaws(GROUPS[CLASSIC][0], has_ghosts)):
        if laws.group_id in knobs.ways:
            laws.topics = topics
            watcher.groups[laws.group_id] = laws
    for machine in site.nodes.values():
        machine.connection_class = MembersHaveNames
    settings = {name: str(value) for name, value in drawn.topic.items()}
    clients = settings, drawn.producers[0], drawn.consumers[0]
    about: Any = consumer_laws, site.servers, site.nodes, watcher, site.time_ms, site.dice
    return StormRoom(knobs, drawn.brokers, *clients, *about)


def _burden(site: Site, knobs: WorkKnobs) -> Room:
    watcher = site.watcher
    laws = WorkLaws(site.nodes, watcher.newest_image, knobs.is_quiet, watcher.progress)
    watcher.more_looks.append(laws.look)
    for machine in site.nodes.values():
        machine.cost_time(knobs.slowness)
        laws.watch(machine)
    brokers = [Node(number, f"node-{number}", BROKER_PORT) for number in range(1, site.knobs.brokers + 1)]
    return BurdenWorkload(knobs, brokers, watcher.newest_image, watcher.progress, site.dice)


def _moving_logs(site: Site, knobs: MovingLogKnobs) -> Room:
    level, skew_ms = site.levels[TRANSACTION_VERSION], 2 * site.knobs.clock_skew_ms
    site.watcher.moving = MovingLogLaws(site.nodes, skew_ms, lambda: site.scheduler.now, site.watcher.progress, level)
    brokers, consumers = site.knobs.brokers, site.knobs.consumers
    return MovingLogWorkload(knobs, brokers, consumers, site.servers, site.watcher, site.time_ms, site.dice)


def _settings(site: Site, knobs: SettingKnobs) -> Room:
    watcher, drawn = site.watcher, site.knobs
    watcher.watch_settings()
    answers = AnswerLaws(CHANGING, knobs.group_id, watcher.ends_of, watcher.progress)
    watcher.more_looks.append(answers.look)
    for machine in site.nodes.values():
        answers.watch(machine)
        if machine.node_id == knobs.old_broker:
            age(machine, knobs.old_lives)
    producer, consumer = drawn.producers[0], drawn.consumers[0]
    return SettingWorkload(knobs, drawn.brokers, producer, consumer, site.servers, watcher, site.time_ms, site.dice)
