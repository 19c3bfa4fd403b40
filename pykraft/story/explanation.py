"""Tells in plain words how a history went: the cluster, the trouble, and the first wrong state if a law was broken.

The words for the trouble are those of the story's marks. What a law says is in `pykraft.sim.laws.names`.
"""

from collections import Counter
from collections.abc import Iterator

from pykraft.common.version import VERSION
from pykraft.sim.bugs.planting import bugs, planted_now
from pykraft.sim.cluster import SIMULATOR, SimulatedCluster
from pykraft.sim.laws.names import LAWS
from pykraft.sim.report import SimulationFailed
from pykraft.sim.trouble.knobs import Knobs
from pykraft.sim.workloads.workload import TOPIC
from pykraft.sim.world.frames import read_frame
from pykraft.sim.world.network import InFlight
from pykraft.story.history_names import history_name
from pykraft.story.marks import Mark, mark_of, marks_of

_TOLD = ("fault", "crash", "restart", "you")
_SHOWN = 12
"""This many of the last troubles are listed one by one."""
_REPORTED = 6


def explain(seed: int, knobs: Knobs) -> tuple[list[str], bool]:
    """The lines of the explanation, and whether all laws are kept. The history is run from its beginning, with the bugs
    that are planted."""
    cluster = SimulatedCluster(seed, knobs)
    cluster.begin()
    troubles: list[tuple[int, Mark]] = []
    failure: SimulationFailed | None = None
    last = traced = befallen = 0
    while failure is None and not cluster.is_settled:
        try:
            cluster.step()
        except SimulationFailed as error:
            failure = error
        events = [event for event in cluster.trace[traced:] if event.node == SIMULATOR]
        last, traced = traced, len(cluster.trace)
        marks = marks_of(cluster.scheduler.steps, events, ()) if events else ()
        troubles += [(cluster.scheduler.now, mark) for mark in marks if mark.kind in _TOLD]
        if knobs.omitted.messages is not None:
            troubles += [(cluster.scheduler.now, mark) for mark in _mishaps(cluster, befallen)]
            befallen = len(cluster.network.mishaps.came)
    found = [f"No law is broken. {cluster.report()}"] if failure is None else _failure(cluster, failure, last)
    name = history_name(seed, knobs)
    lines = [*_beginning(seed, knobs), *told(troubles), *found, f"The same history in one line: {name}"]
    return [*lines, f"To play it: python -m pykraft simulate {name} --story history.html"], failure is None


def _beginning(seed: int, knobs: Knobs) -> Iterator[str]:
    yield f"Seed {seed}, pykraft {VERSION}."
    for name in planted_now():
        yield f"Planted is {name}: {bugs()[name].sentence}"
    yield f"The cluster: {'; '.join(_cluster(knobs))}."
    left_out = ", ".join(knobs.omitted.words())
    if left_out:
        yield f"Left out: {left_out}."


def _cluster(knobs: Knobs) -> Iterator[str]:
    brokers = f"{knobs.brokers} brokers"
    yield f"{brokers}, {knobs.controllers} controllers" if knobs.controllers else f"{brokers}, controllers too"
    replicas = min(3, knobs.brokers)
    yield f"topic {TOPIC} with {_many(knobs.partitions, 'partition')} of {replicas} replicas, min.insync.replicas 2"
    yield f"{_many(len(knobs.producers), 'producer')}, {_many(len(knobs.consumers), 'consumer')}"
    for group in knobs.groups:
        yield f"a {group.protocol} group of {_many(group.members, 'member')}"
    if knobs.transactions is not None:
        tellers, copiers = knobs.transactions.tellers, knobs.transactions.copiers
        yield f"a bank: {_many(tellers, 'transactional producer')}, {_many(copiers, 'copier')}"
    others = {
        "elections that an administrator orders": knobs.elections is not None,
        "partitions that move": bool(knobs.moves),
        "topics that come and go": bool(knobs.admin_every_ms),
        "a topic and a group that are deleted and made again": knobs.recreations is not None,
        "voters that come and go": knobs.voters is not None,
        "quotas that change": knobs.limits.quotas_ms is not None,
        "rules of access that change": knobs.limits.rules_ms is not None,
        "brokers and consumers in racks": bool(knobs.racks),
        "disks and clocks that go wrong": knobs.disks is not None,
        "several log directories of a broker, which fail": knobs.directories is not None,
    }
    yield from (words for words, is_there in others.items() if is_there)


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def told(troubles: list[tuple[int, Mark]]) -> Iterator[str]:
    """The troubles with their times: the last ones one by one, those before them by their kinds."""
    if not troubles:
        yield "No fault came."
        return
    earlier, shown = troubles[:-_SHOWN], troubles[-_SHOWN:]
    counts = Counter(mark.text.split(":")[0] if mark.kind == "fault" else mark.kind for _, mark in earlier)
    if counts:
        yield f"What came first: {', '.join(f'{kind} ({count})' for kind, count in counts.most_common())}."
    yield "What came then:" if counts else "What came:"
    yield from (f"  {now:,} ms, step {mark.step:,}: {mark.text}" for now, mark in shown)


def _mishaps(cluster: SimulatedCluster, told_already: int) -> Iterator[Mark]:
    """What has befallen messages in this step."""
    mishaps = cluster.network.mishaps
    for place, mishap in enumerate(mishaps.came[told_already:], told_already):
        sent = mishaps.befell.get(place)
        frame = read_frame(sent) if isinstance(sent, InFlight) else None
        yield mark_of(cluster.scheduler.steps, mishap, frame)


def _failure(cluster: SimulatedCluster, failure: SimulationFailed, traced: int) -> Iterator[str]:
    clock, flight = cluster.scheduler, cluster.network.last_delivered
    yield f"The first wrong state is that after step {failure.step:,}, at {clock.now_us / 1000:,.3f} ms."
    frame = None if flight is None else read_frame(flight)
    if frame is not None:
        yield f"In this step arrives: {frame}."
    elif clock.actor:
        yield f"In this step {clock.actor} wakes up."
    reported = cluster.trace[traced:]
    if reported:
        yield "In this step is reported:"
        yield from (f"  {event}" for event in reported[-_REPORTED:])
    yield f"It breaks the law {failure.law}: {LAWS[failure.law]}."
    yield f"What was found: {failure.found}"
