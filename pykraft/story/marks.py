"""Where something happened: the steps of a history that a reader wants to jump to.

Most marks come from the trace, in which nodes report each change of state that Kafka's theory has a name for. Faults
are called what Jepsen's glossary of reliability terms calls them: crash, pause, network partition, message delay.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pykraft.common.trace import TraceEvent
from pykraft.coordinator.group.classic_groups.classic_group import ClassicGroup
from pykraft.coordinator.group.consumer_groups.consumer_group import ConsumerGroup
from pykraft.sim.cluster import SIMULATOR, SimulatedCluster
from pykraft.sim.world import mishaps
from pykraft.sim.world.frames import Frame
from pykraft.sim.world.mishaps import Mishap

KINDS = ("election", "commit", "truncation", "rebalance", "isr", "fault", "crash", "restart", "client", "you", "law")
"""`law` is a law that was broken; `isr` is a change of in-sync replicas; `you` is what a person did."""

_HOST_PREFIX = "node-"
_OTHER_DISK = ("old_disk", "repair", "lost_folders", "replace_directory")
"""Where a process is ended so that an administrator can do this to its disk: that is no crash of its own."""
_MOMENTS = {
    "now": "",
    "append": " at its next append",
    "create": " when its next file is made",
    "read": " at its next read",
    "rename": " when a folder is renamed there",
    "sync": " at its next sync",
    "write": " at its next checkpoint",
}
_OUTCOMES = {
    "replaced": "it is empty, and has another id",
    "emptied": "it has its id, and no logs any more",
    "torn": "what was not synced there is lost",
}


@dataclass(frozen=True)
class Mark:
    """Something that happened in a step."""

    step: int
    kind: str
    text: str
    node: int | None = None

    def __str__(self) -> str:
        return f"step {self.step:,}: {self.text}"


def marks_of(step: int, events: Iterable[TraceEvent], quorum_leaders: Sequence[int]) -> Iterator[Mark]:
    """The marks that a step's events make. `quorum_leaders` are the nodes that lead the metadata quorum, or think so:
    only a leader commits, the others hear of it."""
    handled: set[object] = set()
    for event in events:
        if event.node == SIMULATOR and event.name in _OTHER_DISK:
            handled.add(event.fields["node"])
        if event.node == SIMULATOR and event.name == "ended" and event.fields["node"] in handled:
            continue
        for kind, text in _from_simulator(event) if event.node == SIMULATOR else _from_node(event, quorum_leaders):
            node = event.fields.get("node") if event.node == SIMULATOR else event.node
            yield Mark(step, kind, text, node if isinstance(node, int) else None)


def _from_node(event: TraceEvent, quorum_leaders: Sequence[int]) -> Iterator[tuple[str, str]]:
    fields, node = event.fields, event.node
    match event.name:
        case "role" if fields["role"] == "leader":
            yield "election", f"node {node} is elected active controller, epoch {fields['epoch']}"
        case "leadership" if fields["leader"] == node:
            yield "election", f"node {node} leads {fields['partition']}, epoch {fields['epoch']}"
        case "high_watermark":
            yield "commit", f"{fields['partition']} is committed up to offset {fields['offset']}"
        case "metadata_high_watermark" if node in quorum_leaders:
            yield "commit", f"the metadata log is committed up to offset {fields['offset']}"
        case "truncate" if fields["end"] < fields["before"]:
            lost = fields["before"] - fields["end"]
            yield "truncation", f"node {node} truncates {fields['partition']} to {fields['end']}: {_records(lost)} gone"
        case "metadata_truncate" if fields["end"] < fields["before"]:
            lost = fields["before"] - fields["end"]
            yield "truncation", f"node {node} truncates its metadata log to {fields['end']}: {_records(lost)} gone"
        case "truncate_fully":
            yield "truncation", f"node {node} starts {fields['partition']} again at offset {fields['end']}"
        case "isr":
            members = ", ".join(map(str, fields["isr"]))
            yield "isr", f"in-sync replicas of {fields['partition']}: {members}"


def _from_simulator(event: TraceEvent) -> Iterator[tuple[str, str]]:
    fields = event.fields
    match event.name:
        case "you":
            yield "you", f"you {fields['do']}"
        case "ended":
            yield "crash", f"crash: node {fields['node']} ends"
        case "first_start":
            yield "restart", f"node {fields['node']} starts"
        case "start":
            yield "restart", f"node {fields['node']} starts again"
        case "power_loss":
            yield "fault", f"power failure on node {fields['node']}: what was not synced may be lost"
        case "stop":
            yield "fault", f"node {fields['node']} is asked to shut down"
        case "crash_within_step":
            yield "fault", f"node {fields['node']} will crash in one of its next writes"
        case "disk_error":
            yield "fault", f"disk error: one of the next writes of node {fields['node']} fails"
        case (
            "old_disk"
            | "full_disk"
            | "bit_rot"
            | "repair"
            | "lost_folders"
            | "fail_directory"
            | "mend_directory"
            | "replace_directory"
        ):
            yield "fault", _of_disk(event)
        case "clock":
            direction = "forward" if fields["by_ms"] > 0 else "back"
            seconds = abs(fields["by_ms"]) / 1000
            yield "fault", f"clock skew: the clock of node {fields['node']} is set {direction} by {seconds:,g} s"
        case "cut" if fields["links"]:
            yield "fault", f"network partition: {_links(fields['links'])}"
        case "mend" if fields["links"]:
            yield "fault", f"the network partition heals: {_joined(_hosts(fields['links']))} reach each other again"
        case "clog":
            source, target = _named(fields["source"]), _named(fields["target"])
            yield "fault", f"message delay: what {source} sends to {target} arrives late"
        case "drop":
            yield "fault", f"message omission: {fields['message']} is lost"
        case "stall":
            yield "fault", f"pause: node {fields['node']} does nothing for a while"
        case "storm_ends":
            yield "fault", "the simulator brings no more faults: the cluster must recover now"
        case "member_begins" | "client_begins":
            yield "client", f"{_client(event)} starts"
        case "member_leaves" | "member_ends" | "client_ends":
            yield "client", f"{_client(event)} ends"
        case "member_crashes" | "client_crashes":
            yield "client", f"crash: {_client(event)} ends"
        case "member_naps" | "client_naps":
            yield "client", f"pause: {_client(event)} does nothing for a while"


def mark_of(step: int, mishap: Mishap, frame: Frame | None) -> Mark:
    """The mark of what befalls a message; `frame` is the message, if it can be read."""
    what = "message" if frame is None else f"{frame.name} {'response' if frame.is_response else 'request'}"
    message = f"one {what} from {_named(mishap.source)} to {_named(mishap.target)}"
    match mishap.kind:
        case mishaps.LATE:
            text = f"message delay: {message} is late by {mishap.us / 1_000:,g} ms"
        case mishaps.AGAIN:
            text = f"message duplication: {message} comes once more after {mishap.us / 1_000:,g} ms"
        case mishaps.RESET:
            text = f"message omission: {message} is lost with its connection"
        case _:
            text = f"message omission: {message} is lost, and its connection is silent from here on"
    return Mark(step, "fault", text)


def _of_disk(event: TraceEvent) -> str:
    """What befalls a disk, or a log directory."""
    fields = event.fields
    node = fields["node"]
    match event.name:
        case "old_disk" if fields["is_empty"]:
            return f"disk replaced: node {node} is to begin again on an empty disk"
        case "old_disk":
            return f"disk replaced: node {node} is to begin again on an older copy of its disk"
        case "full_disk":
            return f"disk full: node {node} has room for {fields['left']:,} more bytes"
        case "bit_rot":
            return f"disk corruption: bytes of {fields['file']} rot on node {node}"
        case "repair":
            return f"disk repaired: node {node} is to begin again without the folders in which bytes have rotted"
        case "lost_folders":
            return f"folders lost: node {node} is to begin again without its closed segments"
        case "fail_directory":
            return f"log directory fails: {fields['directory']} of node {node} breaks{_MOMENTS[fields['at']]}"
        case "mend_directory":
            return f"log directory works: {fields['directory']} of node {node} can be read again"
        case _:
            return f"log directory replaced: {fields['directory']} of node {node}; {_OUTCOMES[fields['outcome']]}"


def _records(count: int) -> str:
    return f"{count} record{' is' if count == 1 else 's are'}"


def _client(event: TraceEvent) -> str:
    return str(event.fields.get("member", event.fields.get("client")))


def _links(links: Sequence[tuple[str, str]]) -> str:
    named = [(_named(source), _named(target)) for source, target in links]
    both = {frozenset(link) for link in named if link[::-1] in named}
    said = [f"{' and '.join(sorted(pair))} are cut apart" for pair in sorted(both, key=sorted)]  # any order
    one_way: dict[str, list[str]] = {}
    for source, target in named:
        if frozenset((source, target)) not in both:
            one_way.setdefault(source, []).append(target)
    said += [f"nothing gets from {source} to {_joined(targets)}" for source, targets in one_way.items()]
    return ", ".join(said)


def _hosts(links: Sequence[tuple[str, str]]) -> list[str]:
    return sorted({_named(host) for link in links for host in link})


def _joined(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _named(host: str) -> str:
    number = host.removeprefix(_HOST_PREFIX)
    return f"node {number}" if number != host else host


class Rebalances:
    """Sees a group begin a generation, or a target assignment; nodes do not report that."""

    def __init__(self) -> None:
        self._begun: list[tuple[int, str, int]] = []
        self._newest: dict[str, int] = {}

    def until(self, step: int) -> "Rebalances":
        """What was seen up to this step."""
        copy = Rebalances()
        copy._begun = [begun for begun in self._begun if begun[0] <= step]
        copy._newest = {group_id: generation for _, group_id, generation in copy._begun}
        return copy

    def look(self, step: int, cluster: SimulatedCluster) -> Iterator[Mark]:
        """At the coordinators on which something happened."""
        for node_id in cluster.active:
            node = cluster.nodes[node_id].node
            if node is None or node.broker is None:
                continue
            runtime = node.broker.groups.runtime
            for number in runtime.active_partitions():
                for group_id, group in runtime.active(number).groups.items():
                    generation = _generation(group)
                    # A coordinator that has just loaded the group's log shows what is known already.
                    if generation > self._newest.get(group_id, 0):
                        self._newest[group_id] = generation
                        self._begun.append((step, group_id, generation))
                        yield Mark(step, "rebalance", f"{_begins(group_id, group, generation)}", node_id)


def _generation(group: ClassicGroup | ConsumerGroup) -> int:
    return group.generation if isinstance(group, ClassicGroup) else group.target_epoch


def _begins(group_id: str, group: ClassicGroup | ConsumerGroup, generation: int) -> str:
    count = len(group.members)
    members = f"{count} member{'s' * (count != 1)}"
    if isinstance(group, ClassicGroup):
        return f"group {group_id} rebalances: generation {generation}, {members}"
    return f"group {group_id} rebalances: assignment epoch {generation}, {members}"
