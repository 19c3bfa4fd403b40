"""The first picture of notebook 11: the gap between log end and high watermark, while followers are cut off.

At each move a producer sends records at a steady rate to a simulated partition with three replicas (`VirtualFailover`;
a message takes 5 ms on each link). After 500 ms one follower, or both, are cut off from the leader, and later the links
are mended. All nodes stay alive, and in touch with the controller.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import ClassVar

from pykraft.broker.replication.partition import Partition
from pykraft.course.lessons.acks.virtual_failover import VirtualFailover
from pykraft.course.rigs.replication import Moment
from pykraft.viz import Figure
from pykraft.viz.measured.gap_chart import State, gap_chart, widest

CUT_MS, UNTIL_MS = 500, 4_000
_PER_S = 25
_SETTLED_MS, _LEAST_MS = 500, 1_000.0
_QUICK = {"replica.fetch.wait.max.ms": 100}
"""A smaller `replica.lag.time.max.ms` is refused."""


class Watched(VirtualFailover):
    """The same scenario, and what the leader knows after each event."""

    PROPERTIES: ClassVar[Mapping[str, int]] = VirtualFailover.PROPERTIES
    states: list[State] | None = None
    _led: Partition | None = None
    """The leader's; no node ends here, so it stays the leader."""

    def be_watched(self) -> None:
        """From now on, with all replicas in sync."""
        self._pass(_SETTLED_MS)
        self.states = []

    def cut(self, followers: int, at_ms: float, for_ms: float) -> None:
        """Cut so many followers off from the leader, and mend the links later."""
        leader, others = self._leader().config.node_id, self._followers()[:followers]
        self._troubles += [(at_ms, partial(self._cut, leader, other)) for other in others]
        self._troubles.append((at_ms + for_ms, self._cluster.network.mend_all))

    def _look(self) -> None:
        if self.states is None:
            return
        led = self._led
        if led is None:
            led = self._led = next(partition for _, partition in self._replicas() if partition.is_leader)
        state = State(self._now_ms(), led.log.log_end_offset, led.log.high_watermark, tuple(sorted(led.isr_state.isr)))
        if not self.states or self.states[-1][1:] != state[1:]:
            self.states.append(state)


def draw_gap(
    lag_time_max_ms: int, acks: str, followers_cut_off: int, min_insync_replicas: int, cut_for_ms: int
) -> Figure:
    """Both marks over four seconds, and the ISR."""
    states = watched(lag_time_max_ms, acks, followers_cut_off, min_insync_replicas, cut_for_ms)
    most = widest(states)
    gap = most.log_end - most.high_watermark
    title = f"Up to {gap} records wait to be committed, the oldest of them for {longest_wait_ms(states):,.0f} ms"
    note = f"acks={acks}, up to {_PER_S} records a second; a link is cut after {CUT_MS} ms, for {cut_for_ms:,} ms."
    return gap_chart(states, until_ms=UNTIL_MS, title=title, note=note)


def watched(
    lag_time_max_ms: int, acks: str, followers_cut_off: int, min_insync_replicas: int, cut_for_ms: int
) -> list[State]:
    """The leader's marks and its ISR, whenever one of them has changed."""
    Watched.PROPERTIES = {**VirtualFailover.PROPERTIES, **_QUICK, "replica.lag.time.max.ms": lag_time_max_ms}
    configs = {"min.insync.replicas": str(min_insync_replicas)}
    run = Watched(linger_ms=0, topic_configs=configs, acks=acks, enable_idempotence=acks == "all")
    run.be_watched()
    run.cut(followers_cut_off, CUT_MS, cut_for_ms)
    run.send(UNTIL_MS * _PER_S // 1000, records_per_s=_PER_S)
    return [state for state in run.states or () if state.ms <= UNTIL_MS]


def longest_wait_ms(states: list[State]) -> float:
    """Of all records, the longest time between a record's place in the leader's log and its commit; of one that is not
    committed in the end, up to there."""
    longest, reached = 0.0, 0
    for number, state in enumerate(states):
        if state.log_end > reached:  # the record before the new log end is the last one; the first waits longest
            committed = (later.ms for later in states[number:] if later.high_watermark > reached)
            longest = max(longest, next(committed, float(UNTIL_MS)) - state.ms)
            reached = state.log_end
    return longest


def draw_history(history: Sequence[Moment], records: int, title: str) -> Figure:
    """The gap in the history of a story, up to the moment in which the log has so many records."""
    states = [State(each.ms, each.log_end, each.high_watermark, tuple(sorted(each.isr))) for each in history]
    shown = [state for state in states if state.log_end <= records]
    return gap_chart(shown, until_ms=max(shown[-1].ms, _LEAST_MS), title=title)
