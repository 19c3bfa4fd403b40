"""What was seen of a history, step by step: any step of it can be shown at once, without running anything.

After each step only the nodes on which something happened describe themselves again. All else is shared with the step
before, so a film of ten thousand steps is a few megabytes.
"""

from bisect import bisect_right
from collections.abc import Mapping
from typing import Generic, TypeVar

from pykraft.broker.describe import NodeView
from pykraft.cluster_view import ClusterView, MessageInFlight
from pykraft.common.trace import TraceEvent
from pykraft.common.types import TopicPartition
from pykraft.sim.cluster import SimulatedCluster
from pykraft.sim.coordination import Doing, committed, doings, group_timers
from pykraft.sim.timers import Timer, quorum_timers, sessions
from pykraft.sim.world.scheduler import US_PER_MS
from pykraft.story.marks import Mark, Rebalances, marks_of
from pykraft.story.views import Messages, cut_links, host

T = TypeVar("T")
_KEPT_VIEWS = 200


class Track(Generic[T]):
    """A value that changes now and then: what it was after each step."""

    def __init__(self) -> None:
        self._steps: list[int] = []
        self._values: list[T] = []

    def put(self, step: int, value: T) -> None:
        if not self._values or self._values[-1] != value:
            self._steps.append(step)
            self._values.append(value)

    def at(self, step: int) -> T:
        return self._values[bisect_right(self._steps, step) - 1]

    def until(self, step: int) -> "Track[T]":
        copy = Track[T]()
        count = bisect_right(self._steps, step)
        copy._steps, copy._values = self._steps[:count], self._values[:count]
        return copy


class Film:
    """The steps of a history, from 0 (before its first event) on."""

    def __init__(self) -> None:
        self._cluster_id = ""
        self._times_us: list[int] = []
        self._nodes: dict[int, Track[NodeView]] = {}
        self._timers: dict[int, Track[tuple[Timer, ...]]] = {}
        self._sessions = Track[tuple[Timer, ...]]()
        self._doings = Track[tuple[Doing, ...]]()
        self._committed = Track[tuple[tuple[TopicPartition, int], ...]]()
        self._cuts = Track[frozenset[tuple[int | str, int | str]]]()
        self._messages: list[tuple[MessageInFlight, ...]] = []
        self._traces: list[tuple[TraceEvent, ...]] = []
        self._traced = 0
        self._sentences: list[str] = []
        self.delivered: list[int | None] = []
        """The message that arrived in each step."""
        self.marks: list[Mark] = []
        self.decoder = Messages()
        self._rebalances = Rebalances()
        self.failure: str | None = None
        """The law that was broken in the last step."""
        self.is_over = False
        """Whether the history ends with its last step."""
        self._views: dict[int, ClusterView] = {}

    # --- recording ----------------------------------------------------------------------------------------------------

    @property
    def last_step(self) -> int:
        return len(self._times_us) - 1

    def record(self, cluster: SimulatedCluster) -> None:
        """Keep what the cluster looks like after its last step."""
        step = len(self._times_us)
        assert step == cluster.scheduler.steps, f"step {cluster.scheduler.steps} is recorded as {step}"
        if not step:
            self._cluster_id = cluster.cluster_id
            self._nodes = {node_id: Track() for node_id in cluster.nodes}
            self._timers = {node_id: Track() for node_id in cluster.nodes}
        for node_id in cluster.active if step and self.failure is None else cluster.nodes:
            self._nodes[node_id].put(step, cluster.describe(node_id))
            self._timers[node_id].put(step, tuple(quorum_timers(cluster.nodes[node_id])))
        self._sessions.put(step, (*sessions(cluster.nodes), *group_timers(cluster)))
        self._doings.put(step, doings(cluster))
        self._committed.put(step, committed(cluster))
        self._times_us.append(cluster.scheduler.now_us)
        self._cuts.put(step, cut_links(cluster))
        self._messages.append(self.decoder.look(cluster))
        arrived = cluster.network.last_delivered
        self.delivered.append(None if arrived is None else arrived.piece.number)
        events = tuple(cluster.trace[self._traced :])
        self._traced = len(cluster.trace)
        self._traces.append(events)
        self._sentences.append(self._what(cluster, events))
        self._mark(step, cluster, events)
        self.is_over = cluster.is_settled

    def _mark(self, step: int, cluster: SimulatedCluster, events: tuple[TraceEvent, ...]) -> None:
        leaders = [node_id for node_id in cluster.active if self._nodes[node_id].at(step).quorum.role == "leader"]
        self.marks += marks_of(step, events, leaders)
        self.marks += self._rebalances.look(step, cluster)

    def break_law(self, cluster: SimulatedCluster, what: str) -> None:
        """The last step has broken a law: it is the last of this history."""
        self.failure = what
        self.record(cluster)
        self.marks.append(Mark(self.last_step, "law", what))
        self.is_over = True

    def until(self, step: int) -> "Film":
        """The same, up to this step: another history may go on from there."""
        film = Film()
        film._cluster_id = self._cluster_id
        film._times_us = self._times_us[: step + 1]
        film._nodes = {node_id: track.until(step) for node_id, track in self._nodes.items()}
        film._timers = {node_id: track.until(step) for node_id, track in self._timers.items()}
        film._sessions = self._sessions.until(step)
        film._doings = self._doings.until(step)
        film._committed = self._committed.until(step)
        film._cuts = self._cuts.until(step)
        film._messages = self._messages[: step + 1]
        film._traces = self._traces[: step + 1]
        film._traced = sum(map(len, film._traces))
        film._sentences = self._sentences[: step + 1]
        film.delivered = self.delivered[: step + 1]
        film.marks = [mark for mark in self.marks if mark.step <= step]
        newest = max((message.id for messages in film._messages for message in messages), default=0)
        film.decoder = self.decoder.copy(film._messages[-1], newest)
        film._rebalances = self._rebalances.until(step)
        return film

    # --- a step in words ----------------------------------------------------------------------------------------------

    def _what(self, cluster: SimulatedCluster, events: tuple[TraceEvent, ...]) -> str:
        if not cluster.scheduler.steps:
            return "before the first event"
        arrived = cluster.network.last_delivered
        deed = cluster.interventions.get(cluster.scheduler.steps)
        if deed is not None:
            return f"you {deed}"
        if arrived is not None:
            sender, receiver = (_named(host(name)) for name in arrived.link)
            known = self.decoder.message(arrived.piece.number)
            if known is not None:
                kind = "response" if known.is_response else "request"
                about = f": {known.summary}" if known.summary else ""
                return f"{receiver} receives the {known.name} {kind} of {sender}{about}"
            is_end = arrived.piece.data is None
            return (
                f"{receiver}: its connection {'with' if is_end else 'to'} {sender} is {'closed' if is_end else 'open'}"
            )
        mark = next(marks_of(0, events, ()), None)
        if mark is not None and not cluster.scheduler.actor:
            return mark.text
        actor = cluster.scheduler.actor
        return f"{_named(host(actor))} wakes up: one of its timers is due" if actor else "the simulator goes on"

    # --- showing ------------------------------------------------------------------------------------------------------

    def view(self, step: int) -> ClusterView:
        """The cluster right after a step."""
        if step not in self._views:
            if len(self._views) == _KEPT_VIEWS:
                self._views.pop(next(iter(self._views)))
            nodes: Mapping[int, NodeView] = {node_id: track.at(step) for node_id, track in self._nodes.items()}
            now, messages = self._times_us[step] // US_PER_MS, self._messages[step]
            self._views[step] = ClusterView(self._cluster_id, now, nodes, self._cuts.at(step), messages)
        return self._views[step]

    def time_us(self, step: int) -> int:
        return self._times_us[step]

    def step_at(self, time_us: int) -> int:
        """The last step that was over at this time."""
        return max(0, bisect_right(self._times_us, time_us) - 1)

    def timers(self, step: int) -> tuple[Timer, ...]:
        """The timers that run at a step."""
        own = (timer for track in self._timers.values() for timer in track.at(step))
        return (*own, *self._sessions.at(step))

    def doings(self, step: int) -> tuple[Doing, ...]:
        """What clients and coordinators do at a step."""
        return self._doings.at(step)

    def committed(self, step: int) -> dict[TopicPartition, int]:
        """How far a group has committed at a step."""
        return dict(self._committed.at(step))

    def messages(self, step: int) -> tuple[MessageInFlight, ...]:
        return self._messages[step]

    def trace(self, step: int) -> tuple[TraceEvent, ...]:
        """What was reported in a step."""
        return self._traces[step]

    def what(self, step: int) -> str:
        """A step in one sentence."""
        return self._sentences[step]


def _named(name: int | str) -> str:
    return f"node {name}" if isinstance(name, int) else name
