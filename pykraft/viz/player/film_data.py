"""A history as the player's script draws it: plain data, which goes into a page or over a widget's channel.

What a scene shows is data. The script knows of hosts, lanes, messages, timers, states, marks and losses; it knows
nothing of Raft, groups or transactions::

    hosts      [[id, label, "node" | "client"]]
    lanes      [[host, label]]                                    one for each replica
    messages   [[id, from, to, kind, name, is_response, summary, sent, [[ms, due]], end, fate]]
    states     [[host, ms, is_alive, role, epoch, badge, [details]]]
    logs       [[lane, ms, start, end, high watermark, [[epoch, start]], leads, is in sync]]
    timers     [[host, kind, set, deadline, until]]
    cuts       [[from, to, since, until]]
    marks      [[ms, kind, text, host]]
    losses     [[ms, acknowledged, surviving]]
    scars      [[lane, first offset, end offset, ms, acknowledged records among them]]

Times are virtual milliseconds; an end that is not known yet is null. A message's path says when it was due, and since
when that was so: null is "held back by a cut link". Its fate is ``arrives``, ``lost`` or ``under way``.
"""

from collections.abc import Iterator
from typing import Any

from pykraft.broker.describe import NodeView, PartitionView
from pykraft.cluster_view import ClusterView, MessageInFlight
from pykraft.common.trace import TraceEvent
from pykraft.common.types import TopicPartition
from pykraft.sim.interventions import Duplicate, Host
from pykraft.story.losses import Acknowledgements
from pykraft.story.story import Story

FORMAT = 1
Film = dict[str, Any]
Row = list[Any]
KINDS = {
    "Produce": "produce",
    "Fetch": "fetch",
    "Vote": "quorum",
    "BeginQuorumEpoch": "quorum",
    "EndQuorumEpoch": "quorum",
    "AlterPartition": "quorum",
    "OffsetForLeaderEpoch": "fetch",
    "JoinGroup": "group",
    "SyncGroup": "group",
    "Heartbeat": "group",
    "LeaveGroup": "group",
    "OffsetCommit": "group",
    "OffsetFetch": "group",
    "ConsumerGroupHeartbeat": "group",
    "AddPartitionsToTxn": "transaction",
    "AddOffsetsToTxn": "transaction",
    "TxnOffsetCommit": "transaction",
    "EndTxn": "transaction",
    "InitProducerId": "produce",
    "WriteTxnMarkers": "transaction",
}
"""What is not here is background: heartbeats of brokers, metadata, registrations."""
BACKGROUND = "background"
_METADATA_LOG = "metadata log"
_SHOWN_MARKS = ("election", "truncation", "rebalance", "isr", "fault", "crash", "restart", "you", "law")
_CLIENTS = ("producer-", "consumer-", "member-", "teller-", "copier-", "g-", "consumers-")


def kind_of(message: MessageInFlight) -> str:
    """How the player draws it. A fetch of the metadata log is background: it never ends."""
    kind = KINDS.get(message.name, BACKGROUND)
    return BACKGROUND if kind == "fetch" and message.summary.startswith(_METADATA_LOG) else kind


def film_of(story: Story, partition: TopicPartition, from_ms: float, to_ms: float) -> Film:
    """What happened to a cluster between two times."""
    maker = _FilmMaker(story, partition, from_ms)
    story.run_until(to_ms)
    last = story.step_at(to_ms)
    for step in range(last + 1):
        maker.look(step)
    return maker.film(min(to_ms, story.time_at(last)) if story.is_over else to_ms)


class _FilmMaker:
    """Looks at one step after the other, and keeps what changes."""

    def __init__(self, story: Story, partition: TopicPartition, from_ms: float) -> None:
        self._story = story
        self._partition = partition
        self._from_ms = from_ms
        self._heard = Acknowledgements(partition)
        self._messages: dict[int, Row] = {}
        self._flying: dict[int, Row] = {}
        self._states: dict[int, Row] = {}
        self._logs: dict[int, Row] = {}
        self._timers: dict[tuple[int, str], Row] = {}
        self._cuts: dict[tuple[Host, Host], Row] = {}
        self._lanes: list[int] = []
        self._rows: dict[str, list[Row]] = {name: [] for name in ("states", "logs", "timers", "cuts", "losses")}
        self._scars: list[Row] = []

    def look(self, step: int) -> None:
        story = self._story
        ms, view = story.time_at(step), story.view_at(step)
        self._heard.look(story, step)
        self._look_at_messages(step, ms)
        for node in view.nodes.values():
            self._note("states", self._states, node.node_id, ms, _state(view, node))
            replica = node.partition(self._partition.topic, self._partition.partition)
            if replica is not None:
                self._note("logs", self._logs, node.node_id, ms, _log(view, node, replica))
        self._look_at_timers(step, ms)
        self._look_at_cuts(view, ms)
        self._look_at_losses(view, ms)
        for event in story.trace_at(step):
            self._look_at_event(event, view, ms)

    def _note(self, name: str, known: dict[Any, Row], key: Any, ms: float, value: Row) -> None:
        """Keep a value, if it is another one than before."""
        if known.get(key) != value:
            known[key] = value
            self._rows[name].append([key, ms, *value])

    def _look_at_messages(self, step: int, ms: float) -> None:
        seen = {message.id: message for message in self._story.messages_at(step)}
        arrived = self._story.arrived_at(step)
        for number in [number for number in self._flying if number not in seen]:
            row = self._flying.pop(number)
            row[9] = ms
            row[10] = "arrives" if arrived is not None and arrived.number == number else "lost"
        for number, message in seen.items():
            due = None if message.due_ms == float("inf") else message.due_ms
            if number not in self._flying:
                self._flying[number] = self._messages[number] = _message(message, due)
            elif (path := self._flying[number][8])[-1][1] != due:
                path.append([ms, due])

    def _look_at_timers(self, step: int, ms: float) -> None:
        running = {(timer.node, timer.kind): timer.deadline_ms for timer in self._story.timers_at(step)}
        for key, row in list(self._timers.items()):
            if running.get(key) != row[3]:
                row[4] = ms
                del self._timers[key]
        for (node, kind), deadline in running.items():
            if (node, kind) not in self._timers:
                self._timers[node, kind] = row = [node, kind, ms, deadline, None]
                self._rows["timers"].append(row)

    def _look_at_cuts(self, view: ClusterView, ms: float) -> None:
        for link, row in list(self._cuts.items()):
            if link not in view.cut_links:
                row[3] = ms
                del self._cuts[link]
        for link in sorted(view.cut_links - self._cuts.keys(), key=str):
            self._cuts[link] = row = [*link, ms, None]
            self._rows["cuts"].append(row)

    def _look_at_losses(self, view: ClusterView, ms: float) -> None:
        tally = self._heard.tally(view)
        value = [tally.acknowledged, tally.surviving]
        losses = self._rows["losses"]
        if not losses or losses[-1][1:] != value:
            losses.append([ms, *value])

    def _look_at_event(self, event: TraceEvent, view: ClusterView, ms: float) -> None:
        """A truncation leaves a scar, with what was acknowledged and is in no other log."""
        fields = event.fields
        if event.name != "truncate" or fields.get("partition") != str(self._partition):
            return
        first, end = fields["end"], fields["before"]
        if first < end:
            self._scars.append([event.node, first, end, ms, self._heard.gone_between(view, first, end)])

    # --- the film -----------------------------------------------------------------------------------------------------

    def film(self, to_ms: float) -> Film:
        story = self._story
        nodes = list(story.view_at(0).nodes)
        messages = [row for row in self._messages.values() if self._is_shown(row)]
        messages += self._ghosts()
        clients = sorted({host for row in messages for host in row[1:3] if isinstance(host, str)})
        return {
            "format": FORMAT,
            "from": self._from_ms,
            "to": round(to_ms, 3),
            "partition": str(self._partition),
            "hosts": [*([n, f"node {n}", "node"] for n in nodes), *([c, c, "client"] for c in clients)],
            "lanes": [[n, f"node {n}"] for n in nodes if n in self._logs],
            "messages": messages,
            **{name: list(_since(rows, self._from_ms, name)) for name, rows in self._rows.items()},
            "marks": [
                [story.time_at(mark.step), mark.kind, mark.text, mark.node]
                for mark in story.marks
                if mark.kind in _SHOWN_MARKS and self._from_ms <= story.time_at(mark.step) <= to_ms
            ],
            "scars": self._scars,
            "failure": story.failure,
        }

    def _is_shown(self, row: Row) -> bool:
        ends = row[1:3]
        return (
            ends[0] != ends[1]
            and all(isinstance(host, int) or host.startswith(_CLIENTS) for host in ends)
            and (row[9] is None or row[9] >= self._from_ms)
        )

    def _ghosts(self) -> Iterator[Row]:
        """The duplicates that a reader has asked for: the simulator sends them past the connections."""
        for step, deed in self._story.interventions.items():
            known = self._messages.get(deed.message) if isinstance(deed, Duplicate) else None
            if known is not None and isinstance(deed, Duplicate) and step <= self._story.last_step:
                sent = self._story.time_at(step)
                due, summary = sent + deed.ms, f"once more: {known[6]}"
                yield [-deed.message, *known[1:5], False, summary, sent, [[sent, due]], due, "arrives"]


def _since(rows: list[Row], from_ms: float, name: str) -> Iterator[Row]:
    """What is so at the beginning of the film, and what changes in it."""
    if name in ("timers", "cuts"):
        end = {"timers": 4, "cuts": 3}[name]
        yield from (row for row in rows if row[end] is None or row[end] >= from_ms)
        return
    at = 0 if name == "losses" else 1
    last: dict[Any, Row] = {}
    for row in rows:
        if row[at] <= from_ms:
            last[row[0] if at else 0] = row
    yield from last.values()
    yield from (row for row in rows if row[at] > from_ms)


def _message(message: MessageInFlight, due: float | None) -> Row:
    ends = [message.sender, message.receiver]
    about = [kind_of(message), message.name, message.is_response, message.summary]
    return [message.id, *ends, *about, message.sent_ms, [[message.sent_ms, due]], None, "under way"]


def _state(view: ClusterView, node: NodeView) -> Row:
    quorum = node.quorum
    is_active = node.is_alive and quorum.role == "leader"
    badge = "active controller" if is_active else ""
    if node.is_alive and node.node_id in view.fenced_brokers:
        badge = "fenced"
    granted = ", ".join(map(str, sorted(quorum.granted)))
    details = [
        f"quorum: {quorum.role} in epoch {quorum.epoch}",
        f"metadata log end {max(0, quorum.log_end_offset)}, high watermark {quorum.high_watermark}",
        f"votes from {granted}" if granted else f"voted for {quorum.voted_for or 'no node'}",
        f"broker: {node.broker_state}" if node.is_alive else "not running",
    ]
    return [node.is_alive, quorum.role, quorum.epoch, badge, details]


def _log(view: ClusterView, node: NodeView, replica: PartitionView) -> Row:
    key = replica.topic_partition
    end = replica.log_end_offset
    epochs = [[entry.epoch, entry.start_offset] for entry in replica.epochs if entry.start_offset < end]
    in_sync = node.node_id in view.isr(key.topic, key.partition)
    leads = replica.leader_id == node.node_id
    marks = [max(0, replica.log_start_offset), max(0, replica.log_end_offset), max(0, replica.high_watermark)]
    return [*marks, epochs, leads, in_sync, replica.leader_epoch]


def first_difference(film: Film, other: Film, since_ms: float) -> Row | None:
    """The first mark after a fork that one of the two branches has and the other has not; None: all is the same."""
    found = [_first_alone(one, two, since_ms) for one, two in ((film, other), (other, film))]
    return min((mark for mark in found if mark is not None), default=None, key=lambda mark: mark[0])


def _first_alone(film: Film, other: Film, since_ms: float) -> Row | None:
    known = [mark[1:3] for mark in other["marks"] if mark[0] > since_ms]
    for mark in film["marks"]:
        if mark[0] <= since_ms or mark[1] == "you":
            continue
        if mark[1:3] not in known:
            return list(mark)
        known.remove(mark[1:3])
    return None
