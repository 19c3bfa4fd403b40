"""A scenario: one record is followed from its producer to all of its copies, while its leader is cut off and killed.

::

    way = RecordWay(cluster, "flights", 1, value)
    way.cut_off(way.leader)
    way.send(producer, key, timestamp_ms)
    way.wait_for_copy()
    way.wait_for_new_leader()
    way.kill(way.leader)
    producer.flush()
    way.bring_back(way.leader)
    way.steps()      # what happened, in order: for pykraft.viz.clients.record_chart

Where the record is, its nodes' files say (`copies`). When it got there, their journals say: each node reports when it
appends, truncates, becomes leader, moves the high watermark. What a person or a client does, the caller notes (`note`).
The milliseconds are those of the cluster's clock, from the moment when the way begins.
"""

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pykraft.common.trace import TraceEvent
from pykraft.records.batch import HEADER, RecordBatch, batches
from pykraft.viz.clients.record_chart import COMMITTED, CUT_OFF, DOWN, TORN, UNCOMMITTED, UP, Copy, Way
from pykraft.viz.wire.hex_dump import Field

if TYPE_CHECKING:
    from pykraft.cluster import Cluster
    from pykraft.cluster_view import ClusterView
    from pykraft.consumer import Consumer

HEADER_FIELDS = (
    "base offset", "batch length", "leader epoch", "magic", "checksum", "attributes", "last offset delta",
    "base timestamp", "max timestamp", "producer id", "producer epoch", "base sequence", "count",
)  # fmt: skip
PRODUCER, READERS = "producer", "readers"
_ORDER = ("done", "truncate", "append", "copy", "leadership", "high_watermark", "isr", "heard")
"""What comes first of what happens in the same millisecond. (A node cuts its log before it copies what it lacks.)"""
_POLL_MS = 200
_PATIENCE_S = 30


class _Event(NamedTuple):
    """Something that happened, and what it changed: a name that `_changed` knows, and its value."""

    at_ms: float
    rank: int
    lane: str
    said: str
    source: str = ""
    change: str = ""
    value: Any = None


class Place(NamedTuple):
    """Where a copy of the record is in a log, and the epoch of the leader that appended it."""

    offset: int
    epoch: int


class RecordWay:
    """One record of a partition, whatever becomes of it."""

    def __init__(self, cluster: "Cluster", topic: str, partition: int, value: bytes) -> None:
        self._cluster = cluster
        self._topic, self._partition, self._value = topic, partition, value
        self._notes: list[_Event] = []
        self.batches: dict[int, RecordBatch] = {}
        """By leader epoch: the batch of each copy that was ever found, oldest first."""
        self.heard: list[str] = []
        """What the producer has heard of the record, in words."""
        view = cluster.wait_until(self._is_whole, what="all replicas are in sync and alike")
        leader = view.leader(topic, partition)
        assert leader is not None, "a partition without a leader takes no record"
        self.leader = leader
        """The leader at the beginning."""
        self.others = [node for node in cluster.broker_ids if node != leader]
        servers = dict(zip(cluster.broker_ids, cluster.bootstrap_servers.split(","), strict=True))
        self.servers = ",".join(servers[node] for node in self.others)
        """The addresses of the other nodes: a client that asks the first leader later hears that it still leads."""
        self._started_ms = view.time_ms
        self._log_end = view.replicas(topic, partition)[leader].log_end_offset

    def _view(self) -> "ClusterView":
        return self._cluster.describe(tail_records=0)

    # --- what is done -------------------------------------------------------------------------------------------------

    def note(self, lane: str, said: str, *, order: str = "done", source: str = "", change: str = "",
             value: object = None) -> None:  # fmt: skip
        """Something was done now."""
        at_ms, rank = self._view().time_ms - self._started_ms, _ORDER.index(order)
        if self._notes and (at_ms, rank) < self._notes[-1][:2]:
            at_ms += 1  # in the same millisecond, and after it
        self._notes.append(_Event(at_ms, rank, lane, said, source, change, value))

    def send(self, producer: Any, key: bytes, timestamp_ms: int) -> None:
        """Hand the record to a producer of confluent_kafka, and listen for what it hears."""
        self.note(PRODUCER, "sends it")
        producer.produce(self._topic, self._value, key, timestamp=timestamp_ms, on_delivery=self._on_delivery)

    def cut_off(self, node: int) -> None:
        """Let nothing through between this node and the others; clients still reach it."""
        self.note(_name(node), "you cut it off from the other nodes", change=CUT_OFF)
        for other in set(self._cluster.broker_ids) - {node}:
            self._cluster.disconnect(node, other)

    def kill(self, node: int) -> None:
        """End it between two steps of its loop: it flushes nothing and says nothing."""
        self.note(_name(node), "you kill it", change=DOWN)
        self._cluster.kill(node)

    def bring_back(self, node: int) -> None:
        """Mend its links, start it on its old directory, and wait until all replicas are in sync."""
        self.note(_name(node), "you mend its links and start it again", change=UP)
        self._cluster.restart(node, wait=False)
        for other in set(self._cluster.broker_ids) - {node}:
            self._cluster.reconnect(node, other)
        self._cluster.wait_until(self._is_whole, what="all replicas are in sync and alike")

    def _is_whole(self, view: "ClusterView") -> bool:
        keys = [key for key in view.topic_partitions if key.topic == self._topic]
        return all(
            view.isr(*key) == set(self._cluster.broker_ids)
            and all(seen.high_watermark == seen.log_end_offset for seen in view.replicas(*key).values())
            for key in keys
        )

    def _on_delivery(self, error: object, message: Any) -> None:
        self.heard.append(f"error: {error}" if error else f"acknowledged at offset {message.offset():,}")
        self.note(PRODUCER, f"hears {self.heard[-1]}", order="heard", source=self._leader())

    def _leader(self) -> str:
        leader = self._view().leader(self._topic, self._partition)
        return "" if leader is None else _name(leader)

    # --- where it is --------------------------------------------------------------------------------------------------

    def copies(self) -> dict[int, list[Place]]:
        """The nodes that have the record in their files, and where each of them has it."""
        found: dict[int, list[Place]] = {}
        for node in self._cluster.broker_ids:
            for batch in self._batches_of(node):
                for record in batch.records():
                    if record.value == self._value:
                        found.setdefault(node, []).append(Place(record.offset, batch.partition_leader_epoch))
                        self.batches[batch.partition_leader_epoch] = batch
        return found

    @property
    def places(self) -> list[Place]:
        """Where a copy was ever found, the oldest epoch first."""
        return [Place(self._offset(epoch), epoch) for epoch in sorted(self.batches)]

    def _batches_of(self, node: int) -> Iterator[RecordBatch]:
        """Those that came since the way began, as far as they are written."""
        folder = self._cluster.partition_directory(node, self._topic, self._partition)
        data = b"".join(file.read_bytes() for file in sorted(folder.glob("*.log")))
        return (batch for batch in batches(memoryview(data)) if batch.last_offset >= self._log_end)

    def wait_for_copy(self) -> dict[int, list[Place]]:
        """Wait until a node has the record; the copies then."""
        self._cluster.wait_until(lambda _: bool(self.copies()), what="a node has the record")
        return self.copies()

    def wait_for_new_leader(self) -> "ClusterView":
        """Wait until the partition has another leader than in the beginning; the view then."""

        def has_another(view: "ClusterView") -> bool:
            return view.leader(self._topic, self._partition) in self.others

        return self._cluster.wait_until(has_another, what="another node leads")

    # --- who reads it -------------------------------------------------------------------------------------------------

    def read_with(self, consumer: "Consumer", name: str) -> tuple[int, int]:
        """Let a consumer read until the record comes; its partition and its offset. TimeoutError if it does not."""
        deadline = time.monotonic() + _PATIENCE_S
        while time.monotonic() < deadline:
            for key, records in consumer.poll(_POLL_MS).items():
                for record in records:
                    if record.value == self._value:
                        self.note(READERS, f"{name} reads it at offset {record.offset:,}")
                        return key.partition, record.offset
        raise TimeoutError(f"{name} did not find the record within {_PATIENCE_S} s")

    # --- what happened ------------------------------------------------------------------------------------------------

    @property
    def lanes(self) -> list[str]:
        """The columns: the producer, the first leader, the other nodes, who reads."""
        return [PRODUCER, *(_name(node) for node in (self.leader, *self.others)), READERS]

    def steps(self) -> list[Way]:
        """What happened to the record so far, in order, and where it was after each step."""
        self.copies()
        found = [*self._notes]
        for node in self._cluster.broker_ids:
            found += self._of_node(node)
        copies: dict[str, Copy] = {}
        states: dict[str, str] = {}
        newest_epoch = 0
        steps = []
        for event in _in_order(found):
            if event.change in (UP, CUT_OFF, DOWN):
                states = states | {event.lane: event.change}
            newest_epoch = event.value if event.change == "leader" else newest_epoch
            copies = _changed(copies, event, newest_epoch)
            steps.append(Way(event.at_ms, event.lane, event.said, event.source, copies, states))
        return steps

    def _journal(self, node: int) -> Iterator[tuple[float, TraceEvent]]:
        """What a node has reported of the partition since the way began."""
        for event in self._cluster.journal(node):
            at_ms = event.now - self._cluster.started_at_ms - self._started_ms
            if at_ms >= 0 and event.fields.get("partition") == f"{self._topic}-{self._partition}":
                yield at_ms, event

    def _of_node(self, node: int) -> Iterator[_Event]:
        """What a node's journal says of the record."""
        lane, leads = _name(node), node == self.leader
        places = self.places
        offsets = [place.offset for place in places]
        awaited = places if node == self.leader else places[-1:]
        others: list[_Event] = []
        has_told = has_returned = False
        for at_ms, event in self._journal(node):
            fields, rank = event.fields, _ORDER.index(event.name) if event.name in _ORDER else 0
            match event.name:
                case "leadership":
                    leads = fields["leader"] == node
                    if leads:
                        said = f"leads the partition, in epoch {fields['epoch']}"
                        yield _Event(at_ms, rank, lane, said, change="leader", value=fields["epoch"])
                case "append" if leads and places[:-1] and awaited == places[-1:] and fields["end"] <= offsets[-1]:
                    said = f"appends what another producer sends, up to offset {fields['end'] - 1:,}"
                    others = [_Event(at_ms, rank, lane, said)]
                case "append" if awaited and fields["end"] > awaited[0].offset:
                    yield from others
                    place, *awaited = awaited
                    said = f"{'appends' if leads else 'copies'} it at offset {place.offset:,}"
                    rank = _ORDER.index("append" if leads else "copy")
                    yield _Event(at_ms, rank, lane, said, PRODUCER if leads else self._leader(), "copy", place)
                case "truncate" if offsets and fields["end"] <= offsets[0] < fields["before"]:
                    said = f"truncates its log from offset {fields['end']:,} on"
                    yield _Event(at_ms, rank, lane, said, change="gone")
                case "high_watermark" if leads and not has_told and not awaited and fields["offset"] > offsets[-1]:
                    has_told = True
                    said = f"moves the high watermark past it, to {fields['offset']:,}: committed"
                    yield _Event(at_ms, rank, lane, said, change="commit")
                case "isr" if has_told and not has_returned and self.leader in fields["isr"]:
                    has_returned = True
                    yield _Event(at_ms, rank, lane, f"takes node {self.leader} back into the in-sync replicas")

    def _offset(self, epoch: int) -> int:
        return next(record.offset for record in self.batches[epoch].records() if record.value == self._value)


def _name(node: int) -> str:
    return f"node {node}"


def _in_order(events: Sequence[_Event]) -> list[_Event]:
    """By their times. A leader reports its append after it, so a fast follower may have reported its copy before."""
    append, copy = _ORDER.index("append"), _ORDER.index("copy")
    appended: dict[object, float] = {}
    for event in events:
        if event.change == "copy" and event.rank == append:
            appended[event.value] = event.at_ms
    late = [
        event._replace(at_ms=max(event.at_ms, appended.get(event.value, 0))) if event.rank == copy else event
        for event in events
    ]
    return sorted(late, key=lambda event: (event.at_ms, event.rank))


def _changed(copies: dict[str, Copy], event: _Event, newest_epoch: int) -> dict[str, Copy]:
    """The copies after an event, when the partition has had leaders up to this epoch."""
    match event.change:
        case "copy" if event.value.epoch < newest_epoch:
            return copies | {event.lane: Copy(event.value.offset, TORN)}
        case "copy":
            is_late = any(copy.state == COMMITTED for copy in copies.values())
            return copies | {event.lane: Copy(event.value.offset, COMMITTED if is_late else UNCOMMITTED)}
        case "gone":
            return {lane: copy for lane, copy in copies.items() if lane != event.lane}
        case "leader":
            return {lane: copy._replace(state=TORN) for lane, copy in copies.items()}
        case "commit":
            return {
                lane: copy if copy.state == TORN else copy._replace(state=COMMITTED) for lane, copy in copies.items()
            }
    return copies


# --- its bytes, and its readers ---------------------------------------------------------------------------------------


def header_fields(batch: RecordBatch) -> list[Field]:
    """The fields of a batch's header, with their values."""
    found: list[Field] = []
    start = 0
    for name, code in zip(HEADER_FIELDS, HEADER.format[1:], strict=True):
        end = start + {"q": 8, "i": 4, "I": 4, "h": 2, "b": 1}[code]
        found.append(Field(name, start, end, f"{HEADER.unpack_from(batch.buffer)[len(found)]:,}"))
        start = end
    return found


def different_bytes(one: RecordBatch, other: RecordBatch) -> list[int]:
    """The positions at which two batches of the same size differ."""
    return [at for at, (a, b) in enumerate(zip(bytes(one.buffer), bytes(other.buffer), strict=True)) if a != b]


def different_fields(one: RecordBatch, other: RecordBatch) -> list[str]:
    """The names of the header's fields in which they differ; "records" if it is beyond the header."""
    names = {at: field.name for field in header_fields(one) for at in range(field.start, field.end)}
    return list(dict.fromkeys(names.get(at, "records") for at in different_bytes(one, other)))
