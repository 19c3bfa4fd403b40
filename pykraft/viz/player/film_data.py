"""A history as the player's script draws it: plain data, which goes into a page or over a widget's channel.

What a scene shows is data. The script knows of hosts, lanes, messages, timers, states, marks and losses; it knows
nothing of Raft, groups or transactions::

    hosts      [[id, label, "node" | "client"]]
    lanes      [[id, label]]                                      one for each log (`lanes.py`)
    first      the offset at which the lanes begin
    messages   [[id, from, to, kind, name, is_response, summary, sent, [[ms, due]], end, fate]]
    states     [[host, ms, is alive, what it is, leads, [badges], [details]]]
    logs       [[lane, ms, start, end, high watermark, [[epoch, start]],
                 what it is, leads, is in sync, torn from, [[mark, offset]]]]
    segments   [[lane, ms, [[first offset, bytes, "active" | "closed" | "clean"]]]]     where a scene shows them
    gone       [[lane, first offset, end offset, ms, "deleted" | "merged"]]             segments that are no more
    cells      [[lane, first offset, end offset, kind, since, until]]
    rings      [[name, colour, [kinds of timers], key]]
    timers     [[host, kind, set, deadline, until]]
    cuts       [[from, to, since, until]]
    mutes      [[client, node, since, until]]                     the node reads nothing of it meanwhile
    marks      [[ms, kind, text, host]]
    losses     [[ms, acknowledged, surviving]]
    figures    [[ms, text, what is wrong]]                        in place of losses, where a scene tells of others
    scars      [[lane, first offset, end offset, ms, acknowledged records among them, what became of the others]]
    legend     [[mark, words]]

Times are virtual milliseconds; an end that is not known yet is null. A message's path says when it was due, and since
when that was so: null is "held back by a cut link". Its fate is ``arrives``, ``lost`` or ``under way``. A client has
states only where there is something to say of it.
"""

import re
from collections.abc import Iterator
from typing import Any

from pykraft.broker.describe import NodeView
from pykraft.cluster_view import ClusterView, MessageInFlight
from pykraft.common.trace import TraceEvent
from pykraft.sim.coordination import JOIN, MEMBER, REBALANCE, SYNC, Doing
from pykraft.sim.interventions import Duplicate, Host
from pykraft.sim.timers import ELECTION, FETCH, SESSION
from pykraft.story.losses import Acknowledgements
from pykraft.story.scenes import METADATA, PARTITIONS, QUOTA, SEGMENTS, VOTERS, Scene
from pykraft.story.story import Story
from pykraft.viz.player.figures import figures_at
from pykraft.viz.player.lanes import MARKS, CellBook, Lane, Value, lanes_at, leads_quorum, newest_leader
from pykraft.viz.player.mutes import MuteBook
from pykraft.viz.player.segments import SegmentBook

FORMAT = 2
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
RINGS: list[Row] = [
    ["election timer", "quorum", [FETCH, ELECTION], "f"],
    ["session", "produce", [SESSION], "s"],
    ["group session", "group", [MEMBER], "s"],
    ["rebalance timeout", "transaction", [REBALANCE, JOIN, SYNC], "t"],
]
"""The timers that are drawn, from the inside out."""
_SHOWN_MARKS = (
    "election",
    "truncation",
    "rebalance",
    "isr",
    "fault",
    "crash",
    "restart",
    "client",
    "transaction",
    "segment",
    "voters",
    "quota",
    "you",
    "law",
)
OWN_MARKS = ("segment", "voters", "quota")
"""The kinds of marks that a film has, and its story has not."""
_HIDDEN = ("admin", "maker-", "elector", "copy-reader")
"""Clients without a part in any scene."""
_BEFORE = 6
"""The lanes show this many records before the first one of the film."""
_DECISIONS = ("PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort")
_NUMBERED = re.compile(r"(?:classic|consumer)-(member)-(\d+)|(teller|copier)-\d+\.(\d+)")


def kind_of(message: MessageInFlight) -> str:
    """How the player draws it. A fetch of the metadata log is background: it never ends."""
    kind = KINDS.get(message.name, BACKGROUND)
    return BACKGROUND if kind == "fetch" and message.summary.startswith(_METADATA_LOG) else kind


def film_of(story: Story, scene: Scene, from_ms: float, to_ms: float) -> Film:
    """What happened to a cluster between two times."""
    maker = _FilmMaker(story, scene, from_ms)
    story.run_until(to_ms)
    last = story.step_at(to_ms)
    for step in range(last + 1):
        maker.look(step)
    return maker.film(min(to_ms, story.time_at(last)) if story.is_over else to_ms)


class _FilmMaker:
    """Looks at one step after the other, and keeps what changes."""

    def __init__(self, story: Story, scene: Scene, from_ms: float) -> None:
        self._story = story
        self._scene = scene
        self._from_ms = from_ms
        self._heard = Acknowledgements(scene.topic_partition)
        self._cells = CellBook()
        self._segments = SegmentBook()
        self._mutes = MuteBook()
        self._voters: tuple[int, ...] = ()
        self._messages: dict[int, Row] = {}
        self._flying: dict[int, Row] = {}
        self._states: dict[Host, Row] = {}
        self._logs: dict[Lane, Row] = {}
        self._files: dict[Lane, Row] = {}
        self._timers: dict[tuple[Host, str], Row] = {}
        self._cuts: dict[tuple[Host, Host], Row] = {}
        self._decided: dict[str, str] = {}
        self._rows: dict[str, list[Row]] = {
            name: [] for name in ("states", "logs", "segments", "timers", "cuts", "losses", "figures")
        }
        self._marks: list[Row] = []
        self._seen: list[object] = []
        self._scars: list[Row] = []

    def look(self, step: int) -> None:
        story = self._story
        ms, view = story.time_at(step), story.view_at(step)
        self._heard.look(story, step)
        self._look_at_messages(step, ms)
        if self._scene.tells == QUOTA:
            self._mutes.look(story, story.messages_at(step))
        self._look_at_timers(step, ms)
        self._look_at_cuts(view, ms)
        if self._is_another(step, view):
            self._look_at_view(step, view, ms)
        for event in story.trace_at(step):
            self._look_at_event(event, view, ms)

    def _is_another(self, step: int, view: ClusterView) -> bool:
        """Whether anything that is drawn of the nodes may have changed: most steps change nothing of it. What is equal
        to what was before is the same object."""
        parts = (*view.nodes.values(), self._story.doings_at(step), view.cut_links)
        seen = [*map(id, parts), len(self._heard.heard), self._story.committed_at(step)]
        is_another, self._seen = seen != self._seen, seen
        return is_another

    def _look_at_view(self, step: int, view: ClusterView, ms: float) -> None:
        story = self._story
        self._look_at_lanes(step, view, ms)
        self._look_at_hosts(step, view, ms)
        self._look_at_losses(view, ms)
        figures = figures_at(view, self._scene, story.doings_at(step), story.committed_at(step))
        if figures is not None and (not self._rows["figures"] or self._rows["figures"][-1][1:] != figures):
            self._rows["figures"].append([ms, *figures])

    def _note(self, name: str, known: dict[Any, Row], key: Any, ms: float, value: Row) -> None:
        """Keep a value, if it is another one than before."""
        if known.get(key) != value:
            known[key] = value
            self._rows[name].append([key, ms, *value])

    def _look_at_lanes(self, step: int, view: ClusterView, ms: float) -> None:
        for lane, value in lanes_at(view, self._scene, self._story.committed_at(step)):
            self._look_for_power(lane, value, ms)
            self._note("logs", self._logs, lane, ms, list(value))
        self._cells.look(view, self._scene, ms)
        if self._scene.tells == SEGMENTS:
            for lane, segments in self._segments.look(view, self._scene, ms):
                self._note("segments", self._files, lane, ms, [segments])

    def _look_for_power(self, lane: Lane, value: Value, ms: float) -> None:
        """A log that is shorter when its node starts again was not all on the disk."""
        before = self._logs.get(lane)
        if before is not None and before[4].startswith("✕") and value.end < before[1]:
            self._scars.append([lane, value.end, before[1], ms, 0, "not on the disk when the power failed"])

    def _look_at_hosts(self, step: int, view: ClusterView, ms: float) -> None:
        doings = {doing.host: doing for doing in self._story.doings_at(step)}
        led = newest_leader(view, self._scene.topic, self._scene.partition)
        for node in view.nodes.values():
            self._note("states", self._states, node.node_id, ms, _state(view, node, self._scene, led, doings))
        for host, doing in doings.items():
            if isinstance(host, str):
                badges = ["paused"] if doing.is_paused else []
                self._note("states", self._states, host, ms, [True, doing.what, False, badges, []])
            for text in doing.what.split("; ") if isinstance(host, int) else ():
                self._look_at_decision(host, text, ms)
        for client in [host for host in self._states if isinstance(host, str) and host not in doings]:
            self._note("states", self._states, client, ms, [False, "gone", False, [], []])
        if self._scene.tells == VOTERS:
            self._look_at_voters(view, ms)

    def _look_at_voters(self, view: ClusterView, ms: float) -> None:
        """A leader that has other voters than before is a mark: they hold from when it has appended them."""
        for node in view.alive:
            voters = node.quorum.voters
            if leads_quorum(node) and voters != self._voters:
                if self._voters:
                    added, removed = set(voters) - set(self._voters), set(self._voters) - set(voters)
                    what = [*(f"{n} joins" for n in sorted(added)), *(f"{n} leaves" for n in sorted(removed))]
                    text = f"node {node.node_id} appends a new voter set: {', '.join(what)}"
                    self._marks.append([ms, "voters", text, node.node_id])
                self._voters = voters

    def _look_at_decision(self, node: int | str, text: str, ms: float) -> None:
        """What a transaction's coordinator has written is a mark. A group's state is none: a rebalance has its own."""
        name, _, state = text.partition(": ")
        if state in _DECISIONS and self._decided.get(name) != state:
            self._marks.append([ms, "transaction", f"node {node} writes {state} for {name}", node])
        self._decided[name] = state

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
        running = {(timer.host, timer.kind): timer.deadline_ms for timer in self._story.timers_at(step)}
        for key, row in list(self._timers.items()):
            if running.get(key) != row[3]:
                row[4] = ms
                del self._timers[key]
        for (host, kind), deadline in running.items():
            if (host, kind) not in self._timers:
                self._timers[host, kind] = row = [host, kind, ms, deadline, None]
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
        fields, scene = event.fields, self._scene
        is_metadata = event.name == "metadata_truncate" and scene.lanes == METADATA
        is_replica = event.name == "truncate" and fields.get("partition") == str(scene.topic_partition)
        if not is_metadata and not (is_replica and scene.lanes not in (METADATA, PARTITIONS)):
            return
        first, end = fields["end"], fields["before"]
        if first < end:
            gone = 0 if is_metadata else self._heard.gone_between(view, first, end)
            self._scars.append([event.node, first, end, ms, gone, "truncated, none acknowledged"])

    # --- the film -----------------------------------------------------------------------------------------------------

    def film(self, to_ms: float) -> Film:
        story, scene = self._story, self._scene
        nodes = list(story.view_at(0).nodes)
        messages = [row for row in self._messages.values() if self._is_shown(row)]
        messages += self._ghosts()
        if scene.tells == QUOTA:
            self._rows["figures"] = list(self._mutes.figures)
        clients = {host for row in messages for host in row[1:3] if isinstance(host, str)}
        clients |= {host for host in self._states if isinstance(host, str)}
        timers = list(_since(self._rows["timers"], self._from_ms, "timers"))
        marked = {mark[0] for row in self._rows["logs"] for mark in row[10]}
        return {
            "format": FORMAT,
            "from": self._from_ms,
            "to": round(to_ms, 3),
            "partition": scene.topic if scene.lanes == PARTITIONS else str(scene.topic_partition),
            "hosts": [*([n, f"node {n}", "node"] for n in nodes), *([c, _label(c), "client"] for c in sorted(clients))],
            "lanes": [
                [lane, f"node {lane}" if isinstance(lane, int) else lane] for lane in sorted(self._logs, key=str)
            ],
            "first": self._first(),
            "messages": messages,
            **{name: list(_since(rows, self._from_ms, name)) for name, rows in self._rows.items()},
            "cells": [row for row in self._cells.rows if row[5] is None or row[5] >= self._from_ms],
            "rings": [ring for ring in RINGS if any(row[1] in ring[2] for row in timers)],
            "marks": sorted([*self._marks_until(to_ms)], key=lambda mark: mark[0]),
            "scars": self._scars,
            "gone": self._segments.gone,
            "mutes": self._mutes.rows,
            "legend": [[mark, text] for mark, text in MARKS.items() if mark in marked],
            "failure": story.failure,
        }

    def _first(self) -> int:
        """Where the lanes begin: a scene that tells of losses or of segments shows the whole log."""
        if self._scene.shows_all or self._scene.tells == SEGMENTS:
            return 0
        then = {row[0]: row[3] for row in self._rows["logs"] if row[1] <= self._from_ms}
        return max(0, min(then.values(), default=0) - _BEFORE)

    def _marks_until(self, to_ms: float) -> Iterator[Row]:
        story = self._story
        told = ([story.time_at(mark.step), mark.kind, mark.text, mark.node] for mark in story.marks)
        for mark in (*told, *self._marks, *self._segments.marks, *self._mutes.marks):
            is_other = mark[1] == "isr" and f" {self._scene.topic}-" not in mark[2]
            if mark[1] in _SHOWN_MARKS and not is_other and self._from_ms <= mark[0] <= to_ms:
                yield mark

    def _is_shown(self, row: Row) -> bool:
        ends = row[1:3]
        return (
            ends[0] != ends[1]
            and not any(isinstance(host, str) and host.startswith(_HIDDEN) for host in ends)
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
    at = 0 if name in ("losses", "figures") else 1
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


def _state(view: ClusterView, node: NodeView, scene: Scene, led: int | None, doings: dict[Host, Doing]) -> Row:
    quorum = node.quorum
    said, leads = _part(view, node, scene, led)
    badges = ["★ active controller"] if node.is_alive and quorum.role == "leader" else []
    if node.is_alive and node.node_id in view.fenced_brokers:
        badges = ["fenced"]
    if node.is_alive and scene.tells == VOTERS:
        badges = ["voter" if node.node_id in quorum.voters else "observer"]
    elif node.is_alive and scene.lanes == METADATA:
        badges = [f"{badges[0]}, epoch {quorum.epoch}" if badges else f"epoch {max(0, quorum.epoch)}"]
    doing = doings.get(node.node_id)
    coordinated = doing.what.split("; ") if doing is not None else []
    granted = ", ".join(map(str, sorted(quorum.granted)))
    details = [
        f"quorum: {quorum.role} in epoch {quorum.epoch}",
        f"metadata log end {max(0, quorum.log_end_offset)}, high watermark {quorum.high_watermark}",
        f"votes from {granted}" if granted else f"voted for {quorum.voted_for or 'no node'}",
        f"goes by the voters {', '.join(map(str, quorum.voters)) or 'unknown'}",
        f"broker: {node.broker_state or 'none'}" if node.is_alive else "not running",
        *(f"coordinates {each}" for each in coordinated),
        *(f"leads {each.topic_partition}" for each in node.partitions if each.leader_id == node.node_id),
    ]
    return [node.is_alive, said, leads, [*badges, *coordinated[:1]], details]


def _part(view: ClusterView, node: NodeView, scene: Scene, led: int | None) -> tuple[str, bool]:
    """What a node is in this scene, and whether it leads."""
    role = node.quorum.role
    if not node.is_alive:
        return "✕ dead", False
    if scene.tells == VOTERS and (leads_quorum(node) or role == "observer"):
        return ("◆ leads", True) if leads_quorum(node) else ("○ fetches", False)
    if scene.lanes == METADATA:
        signs = {"leader": "◆ leads", "follower": "● follows", "prospective": "○ pre-vote"}
        return signs.get(role, f"○ {role}"), role == "leader"
    own = [
        each for each in node.partitions if each.leader_id == node.node_id and each.topic_partition.topic == scene.topic
    ]
    if scene.lanes == PARTITIONS:
        numbers = [each.topic_partition for each in own if view.leader(*each.topic_partition) == node.node_id]
        return "◆ leads" if numbers else "● follows", bool(numbers)
    leads = led == node.node_id
    has_led = any(each.topic_partition == scene.topic_partition for each in own)
    return "◆ leads" if leads else "◇ led" if has_led else "● follows", leads


def _label(client: str) -> str:
    """A client's name, as far as there is room for it."""
    if client.startswith("voter-changer"):
        return "admin"
    found = _NUMBERED.fullmatch(client)
    return " ".join(filter(None, found.groups())) if found else client


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
