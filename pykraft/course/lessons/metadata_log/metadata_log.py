"""What notebook 14 looks at: the records of the metadata log, the image that they make, and what a start loads.

::

    entries = metadata_log(cluster)           every committed record in node 101's files, in order
    replayed(entries)                         the image that they make
    images(cluster)                           the image of each node, as of the same offset
    restart_and_count(cluster, 1)             kill node 1, start it, and count the records that it replays

All of it needs nodes that are threads of this process.
"""

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pykraft.client.administration.configs import ConfigResource, ConfigResourceType
from pykraft.common.core import Steps
from pykraft.common.types import OffsetAndEpoch
from pykraft.metadata.delta import MetadataDelta
from pykraft.metadata.image import EMPTY_IMAGE, NOWHERE, MetadataImage
from pykraft.metadata.loader import MetadataLoader
from pykraft.protocol.messages.records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    MetadataRecord,
    NoOpRecord,
    TopicRecord,
    decode_metadata_record,
)
from pykraft.raft.log.listener import CommittedBatch
from pykraft.raft.log.snapshot import snapshot_of
from pykraft.records.batch import RecordBatch, batches

if TYPE_CHECKING:
    from pykraft.cluster import Cluster

TOPIC = "__cluster_metadata"
_FRAMES = (BeginTransactionRecord, EndTransactionRecord, AbortTransactionRecord, NoOpRecord)
"""Records that say nothing about the cluster themselves."""
_PATIENCE_S, _LOOK_S = 30, 0.01


class Entry(NamedTuple):
    """One record of the metadata log."""

    offset: int
    record: MetadataRecord

    @property
    def name(self) -> str:
        return type(self.record).__name__.removesuffix("Record")

    def __repr__(self) -> str:
        return f"{self.offset}: {self.name}"


def metadata_log(cluster: "Cluster", node: int | None = None, start: int = 0) -> list[Entry]:
    """The committed metadata records from offset `start` on, read from a node's files (the first controller's, if none
    is named). Raft's own control records are left out."""
    node = cluster.controller_ids[0] if node is None else node
    end = cluster.describe().nodes[node].quorum.high_watermark
    folder = cluster.partition_directory(node, TOPIC, 0)
    found = (entry for path in sorted(folder.glob("*.log")) for entry in _entries(path))
    return [entry for entry in found if start <= entry.offset < end]


def _entries(path: Path) -> Iterator[Entry]:
    return entries_of(batches(memoryview(path.read_bytes())))


def entries_of(found: Iterable[RecordBatch]) -> Iterator[Entry]:
    """The metadata records of these batches."""
    for batch in found:
        for record in () if batch.is_control else batch.records():
            assert record.value is not None
            yield Entry(record.offset, decode_metadata_record(record.value)[0])


def since(cluster: "Cluster", entry: Entry | int) -> list[Entry]:
    """What was committed after this record, without the records that say nothing."""
    after = entry.offset + 1 if isinstance(entry, Entry) else entry
    return [each for each in metadata_log(cluster, start=after) if says_something(each)]


def says_something(entry: Entry) -> bool:
    """Whether a record is about the cluster: others frame a transaction, or move the log's end."""
    return not isinstance(entry.record, _FRAMES)


def replayed(entries: Iterable[Entry]) -> MetadataImage:
    """The image that these records make, one replayed after the other."""
    delta, last = MetadataDelta(EMPTY_IMAGE), -1
    for entry in entries:
        delta.replay(entry.record)
        last = entry.offset
    return replace(delta.apply(OffsetAndEpoch(last, -1)), provenance=NOWHERE)


def images(cluster: "Cluster") -> dict[int, MetadataImage]:
    """The image of each node, once all of them say the same; TimeoutError if they do not."""
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        found = {number: image_of(cluster, number) for number in cluster.alive}
        if all(image == found[cluster.alive[0]] for image in found.values()):
            return found
        if time.monotonic() > deadline:
            raise TimeoutError(f"the nodes' images differ after {_PATIENCE_S} s")
        time.sleep(_LOOK_S)


def image_of(cluster: "Cluster", node_id: int) -> MetadataImage:
    """What a node knows of the cluster now; without the offset, which moves on all the time."""
    return replace(_loader(cluster, node_id).image, provenance=NOWHERE)


def _loader(cluster: "Cluster", node_id: int) -> MetadataLoader:
    return cluster.call(node_id, lambda node: node.loader)


def counted(entries: Iterable[Entry]) -> dict[str, int]:
    """How many records there are of each type."""
    return dict(Counter(entry.name for entry in entries))


def rows_of(image: MetadataImage) -> dict[tuple[str, str], str]:
    """The image in words, a row for each thing in it, as `pykraft.viz.image_map` draws it."""
    rows = {("level", name): f"level {level}" for name, level in image.features.items()}
    rows |= {("controller", str(number)): "registered" for number in sorted(image.controllers)}
    for broker_id, broker in sorted(image.brokers.items()):
        rows["broker", str(broker_id)] = f"{'fenced' if broker.fenced else 'unfenced'}, epoch {broker.epoch}"
    for name, topic_id in sorted(image.topic_ids.items()):
        rows["topic", name] = f"id {topic_id}"
        for number, partition in sorted(image.topics[topic_id].partitions.items()):
            isr = ", ".join(map(str, partition.isr))
            leader = partition.leader if partition.has_leader else "none"
            rows["partition", f"{name}-{number}"] = f"leader {leader}, epoch {partition.leader_epoch}, ISR {isr}"
    for resource, settings in sorted(image.configs.items()):
        for name, value in sorted(settings.items()):
            rows["setting", _setting(resource.name, name)] = value
    if image.next_producer_id:
        rows["producer ids", "of the cluster"] = f"next {image.next_producer_id}"
    return rows


def thing_of(record: Any, names: Mapping[Any, str]) -> tuple[str, str] | None:
    """Which row of the image a record is about; `names` are the topics' by their ids. None if it is about none."""
    match type(record).__name__:
        case "FeatureLevelRecord":
            return "level", record.name
        case "RegisterControllerRecord":
            return "controller", str(record.controller_id)
        case "ProducerIdsRecord":
            return "producer ids", "of the cluster"
        case "RegisterBrokerRecord" | "BrokerRegistrationChangeRecord" | "UnregisterBrokerRecord":
            return "broker", str(record.broker_id)
        case "FenceBrokerRecord" | "UnfenceBrokerRecord":
            return "broker", str(record.id)
        case "TopicRecord" | "RemoveTopicRecord":
            return "topic", names[record.topic_id]
        case "PartitionRecord" | "PartitionChangeRecord":
            return "partition", f"{names[record.topic_id]}-{record.partition_id}"
        case "ConfigRecord":
            return "setting", _setting(record.resource_name, record.name)
    return None


def _setting(resource: str, name: str) -> str:
    """The name of a row; the resource without a name is all brokers."""
    return f"{resource or 'all brokers'} {name}"


def side_by_side(
    entries: Sequence[Entry], image: MetadataImage
) -> tuple[list[tuple[int, str, tuple[str, str] | None]], dict[tuple[str, str], str]]:
    """What `pykraft.viz.image_map` draws: each record as its offset, its type and the row of the image that it is
    about, and the image's rows in words."""
    names = {entry.record.topic_id: entry.record.name for entry in entries if isinstance(entry.record, TopicRecord)}
    names |= {topic_id: topic.name for topic_id, topic in image.topics.items()}
    return [(entry.offset, entry.name, thing_of(entry.record, names)) for entry in entries], rows_of(image)


# --- what a start loads -----------------------------------------------------------------------------------------------


class Loaded(NamedTuple):
    """What a node replayed until it had caught up."""

    snapshot: int
    """Records from a snapshot."""
    log: int
    """Records from the log."""
    start: int
    """The offset of the first record that it read from the log."""

    @property
    def total(self) -> int:
        return self.snapshot + self.log


def restart_and_count(cluster: "Cluster", node_id: int) -> Loaded:
    """Kill a node, start it again, and count what it replays until it knows all that was committed before. Its newest
    snapshot may end where the log does: it starts when more was committed."""
    cluster.kill(node_id)
    snapshot_end, _ = newest_snapshot(cluster, node_id)
    deadline = time.monotonic() + _PATIENCE_S
    while (end := _committed_end(cluster)) <= snapshot_end and time.monotonic() < deadline:
        time.sleep(_LOOK_S)
    with _counting(end) as counts:
        cluster.restart(node_id)
        loader = _loader(cluster, node_id)
        deadline = time.monotonic() + _PATIENCE_S
        while loader.image.provenance.offset < end - 1 and time.monotonic() < deadline:
            time.sleep(_LOOK_S)
    return Loaded(*counts[id(loader)])


def _committed_end(cluster: "Cluster") -> int:
    return max(cluster.describe().nodes[number].quorum.high_watermark for number in cluster.alive)


@contextmanager
def _counting(end: int) -> Iterator[dict[int, list[int]]]:
    """Count the records before `end` that each loader hears of: from snapshots, from the log, and where the log's
    began."""
    counts: dict[int, list[int]] = {}
    commit, load = MetadataLoader.handle_commit, MetadataLoader.handle_load_snapshot

    def of(loader: MetadataLoader) -> list[int]:
        return counts.setdefault(id(loader), [0, 0, -1])

    def handle_commit(self: MetadataLoader, batch: CommittedBatch) -> Steps[None]:
        count = of(self)
        if batch.last_offset < end:
            count[1] += len(batch.records)
            count[2] = batch.base_offset if count[2] < 0 else count[2]
        return commit(self, batch)

    def handle_load_snapshot(
        self: MetadataLoader, snapshot: OffsetAndEpoch, batches: Sequence[CommittedBatch]
    ) -> Steps[None]:
        of(self)[0] += sum(len(batch.records) for batch in batches)
        return load(self, snapshot, batches)

    MetadataLoader.handle_commit = handle_commit  # type: ignore[method-assign]
    MetadataLoader.handle_load_snapshot = handle_load_snapshot  # type: ignore[method-assign]
    try:
        yield counts
    finally:
        MetadataLoader.handle_commit = commit  # type: ignore[method-assign]
        MetadataLoader.handle_load_snapshot = load  # type: ignore[method-assign]


def newest_snapshot(cluster: "Cluster", node_id: int) -> tuple[int, list[Entry]]:
    """The offset at which a node's newest snapshot ends, and the metadata records in it; 0 and none without one."""
    folder = cluster.partition_directory(node_id, TOPIC, 0)
    found = {known.offset: path for path in folder.glob("*.checkpoint") if (known := snapshot_of(path.name))}
    end = max(found, default=0)
    return end, list(_entries(found[end])) if found else []


def wait_for_snapshot(cluster: "Cluster", node_id: int, after: int = 0) -> int:
    """Wait until a node has a snapshot that ends after this offset; where it ends."""
    deadline = time.monotonic() + _PATIENCE_S
    while (end := newest_snapshot(cluster, node_id)[0]) <= after:
        if time.monotonic() > deadline:
            raise TimeoutError(f"node {node_id} has written no snapshot after {_PATIENCE_S} s")
        time.sleep(_LOOK_S)
    return end


def death_of(cluster: "Cluster", node_id: int) -> list[Entry]:
    """Kill a broker, and wait until every node that runs knows that it is fenced; what was written meanwhile. One that
    is dead already is started first."""
    if node_id not in cluster.alive:
        return_of(cluster, node_id)
    before = metadata_log(cluster)[-1]
    cluster.kill(node_id)
    cluster.wait_until(lambda view: all(node_id in node.fenced_brokers for node in view.alive))
    return since(cluster, before)


def return_of(cluster: "Cluster", node_id: int) -> list[Entry]:
    """Start a dead broker again, and wait until it is in every ISR; what was written meanwhile. One that runs is killed
    first."""
    if node_id in cluster.alive:
        death_of(cluster, node_id)
    before = metadata_log(cluster)[-1]
    cluster.restart(node_id)
    cluster.wait_until(
        lambda view: all(
            node_id in view.isr(key.topic, key.partition)
            for key in view.topic_partitions
            if node_id in view.replicas(key.topic, key.partition)
        )
    )
    images(cluster)
    return since(cluster, before)


def change_a_setting(cluster: "Cluster", topic: str, times: int) -> None:
    """Change a topic's retention.ms this often, each time to another value."""
    resource = ConfigResource(ConfigResourceType.TOPIC, topic)
    with cluster.admin() as admin:
        for number in range(times):
            admin.incremental_alter_configs({resource: {"retention.ms": str(3_600_000 + number)}})
