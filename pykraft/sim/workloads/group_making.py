"""Makes the group of a seed, with the laws that it is held against.

Where there is a bank, the group reads the bank, and only what is committed there. Else it reads the topic that every
history has.
"""

from collections.abc import Callable
from random import Random

from pykraft.sim.laws.classic_group_laws import ClassicGroupLaws
from pykraft.sim.laws.committed_group_laws import CommittedClassicGroupLaws, CommittedConsumerGroupLaws
from pykraft.sim.laws.consumer_group_laws import ConsumerGroupLaws
from pykraft.sim.laws.group_laws import GroupLaws
from pykraft.sim.laws.storm_group_laws import StormClassicGroupLaws, StormConsumerGroupLaws
from pykraft.sim.laws.transaction_laws import BANK, Ledger
from pykraft.sim.laws.watcher import Watcher
from pykraft.sim.trouble.clients import CLASSIC, GroupKnobs
from pykraft.sim.trouble.knobs import Knobs
from pykraft.sim.workloads.group_workload import GroupWorkload
from pykraft.sim.workloads.storm_groups import STAYING, StormGroup
from pykraft.sim.workloads.workload import TOPIC
from pykraft.sim.world.network import Network
from pykraft.sim.world.scheduler import Scheduler


def make_group(
    knobs: GroupKnobs,
    drawn: Knobs,
    servers: str,
    ledger: Callable[[], Ledger],
    scheduler: Scheduler,
    network: Network,
    watcher: Watcher,
    dice: Callable[[str], Random],
    report: Callable[[str, dict[str, object]], None],
) -> GroupWorkload:
    """`drawn` is the draw of the seed, and `ledger` gives that of the bank, if there is one."""
    has_ghosts, reads_bank = bool(drawn.ghost), drawn.transactions is not None
    laws: GroupLaws
    brokers = [f"node-{node_id}" for node_id in range(1, drawn.brokers + 1)]
    random = dice("group" if knobs.protocol == CLASSIC else "consumer group")
    known, left_out = watcher.groups.get(knobs.group_id), drawn.omitted.clients
    if drawn.storms is not None and isinstance(known, StormClassicGroupLaws | StormConsumerGroupLaws):
        topics = drawn.storms, watcher.newest_image, known.topics
        storm = knobs, STAYING, servers, brokers, scheduler, network, watcher, known, random, report
        return StormGroup(*topics, *storm, left_out)
    if knobs.protocol == CLASSIC:
        laws = (CommittedClassicGroupLaws if reads_bank else ClassicGroupLaws)(knobs.group_id, has_ghosts)
    else:
        make = CommittedConsumerGroupLaws if reads_bank else ConsumerGroupLaws
        laws = make(knobs.group_id, has_ghosts, watcher.topic_name)
    if isinstance(laws, CommittedClassicGroupLaws | CommittedConsumerGroupLaws):
        laws.ledger, laws.history = ledger, watcher.history
    watcher.groups[knobs.group_id] = laws
    topic = BANK if reads_bank else TOPIC
    about = knobs, topic, servers, brokers, scheduler, network, watcher, laws, random, report
    return GroupWorkload(*about, left_out)
