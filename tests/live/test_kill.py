"""kill -9 of nodes that are processes, under load, on a real file system.

Three nodes, each broker and controller, replicate a topic with min.insync.replicas=2. While librdkafka writes, one node
after the other is killed, in turn the leader of a partition, the active controller, and any; now and then all three at
once. Each is started again on what it had, and is back in every ISR before the next one goes.

Afterwards every record that was acknowledged is at its acknowledged offset, once, and in order; and all replicas are
the same, byte for byte.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import pytest

from pykraft import Cluster
from pykraft.cluster_view import ClusterView
from pykraft.common.types import TopicPartition
from pykraft.records.batch import batches
from pykraft.runtime.process import NodeProcess
from pykraft.storage.disk.filesystem import OsFileSystem
from tests.harness import log_laws
from tests.harness.storage import loader, settings
from tests.harness.waiting import wait_until
from tests.live.load import Load, Row, read

pytestmark = pytest.mark.limit(300)

ONCE = ("leader", "controller", "anybody", "all")
"""Who is killed in a short run."""
KILLS = 20
"""In a long run: of each of these in turn."""
ROLES = ("leader", "controller", "anybody", *ONCE)
TOPIC, PARTITIONS = "kept", 3
SEGMENT_BYTES = 1 << 20
"""Kafka takes no smaller ones."""
CONFIG = {"min.insync.replicas": "2", "segment.bytes": str(SEGMENT_BYTES), "index.interval.bytes": "4096"}
VALUE_BYTES = 1000
LAWS = (
    log_laws.batches_are_whole_and_in_order,
    log_laws.marks_are_in_order,
    log_laws.offset_index_entries_are_batches,
    log_laws.time_index_entries_are_maxima,
    log_laws.epochs_are_those_of_the_batches,
    log_laws.producers_are_those_of_the_batches,
)


def numbered() -> Iterator[Row]:
    """To each partition the numbers from 0 on."""
    for number in itertools.count():
        for partition in range(PARTITIONS):
            yield Row(partition, b"%d" % partition, b"%d".ljust(VALUE_BYTES) % number)


class Killer:
    """Kills nodes, and brings them back."""

    def __init__(self, cluster: Cluster, load: Load, seed: int) -> None:
        self.cluster = cluster
        self.load = load
        self.random = Random(seed)

    def run(self, roles: Sequence[str]) -> None:
        for role in roles:
            view = self.wait_until_whole()
            self.let_pass(self.random.randint(1, 200))
            self.kill(self.victims(role, view))
        self.wait_until_whole()
        self.let_pass(2 * PARTITIONS * SEGMENT_BYTES // VALUE_BYTES - len(self.load.acknowledged))  # so all roll

    def wait_until_whole(self) -> ClusterView:
        nodes = [node for node in self.cluster._nodes.values() if isinstance(node, NodeProcess)]
        # It costs less to look into the nodes' output than to ask them.
        wait_until(lambda: all(node.is_ready or not node.is_running for node in nodes), "all nodes serve")
        return self.cluster.wait_until(is_whole, what="every replica is in sync")

    def victims(self, role: str, view: ClusterView) -> list[int]:
        anybody = self.random.choice(self.cluster.node_ids)
        match role:
            case "all":
                return self.random.sample(self.cluster.node_ids, 3)
            case "leader":
                return [view.leader(TOPIC, self.random.randrange(PARTITIONS)) or anybody]
            case "controller":
                return [view.active_controller or anybody]
            case _:
                return [anybody]

    def kill(self, victims: list[int]) -> None:
        for victim in victims:
            self.cluster.kill(victim)
        for victim in victims:
            self.cluster.restart(victim, wait=False)

    def let_pass(self, count: int) -> None:
        """So many more records are acknowledged."""
        goal = len(self.load.acknowledged) + count
        wait_until(lambda: len(self.load.acknowledged) >= goal or bool(self.load.refused), "records are acknowledged")


def is_whole(view: ClusterView) -> bool:
    """All nodes serve, every partition has its leader, and all its replicas are in sync."""
    partitions = range(PARTITIONS)
    return len(view.ready_brokers) == 3 and all(
        view.leader(TOPIC, number) is not None and len(view.isr(TOPIC, number)) == 3 for number in partitions
    )


def cluster_in(folder: Path) -> Cluster:
    cluster = Cluster(3, mode="processes", directory=folder)
    with cluster.admin() as admin:
        admin.create_topic(TOPIC, PARTITIONS, 3, CONFIG)
    return cluster


def test_what_was_acknowledged_survives_kill_9_of_any_node(tmp_path: Path, seed: int, is_long: bool) -> None:
    with cluster_in(tmp_path) as cluster:
        with Load(cluster.bootstrap_servers, TOPIC, numbered()) as load:
            killer = Killer(cluster, load, seed)
            killer.run([ROLES[number % len(ROLES)] for number in range(KILLS)] if is_long else ONCE)
        nothing_is_lost_doubled_or_out_of_order(cluster, load)
    replicas_are_equal(tmp_path)
    for node in (1, 2, 3):
        said = (tmp_path / f"node-{node}.out").read_text()
        assert "Traceback" not in said, said[said.index("Traceback") :][:3000]


def nothing_is_lost_doubled_or_out_of_order(cluster: Cluster, load: Load) -> None:
    acknowledged = load.places()
    assert len(acknowledged) == load.sent
    found = read(cluster.bootstrap_servers, TOPIC, dict.fromkeys(range(PARTITIONS), 0))
    for partition in range(PARTITIONS):
        numbers = [int(row.value or b"") for (number, _), row in found if number == partition]
        assert numbers == list(range(len(numbers))), f"partition {partition}: {irregular(numbers)}"
    assert dict(found) == acknowledged


def irregular(numbers: list[int]) -> str:
    at = next(place for place, number in enumerate(numbers) if place != number)
    return f"at offset {at} is {numbers[max(0, at - 3) : at + 3]}"


def replicas_are_equal(folder: Path) -> None:
    """The nodes have stopped: each log is as long as its high watermark."""
    for partition in range(PARTITIONS):
        key = TopicPartition(TOPIC, partition)
        contents = []
        for node in (1, 2, 3):
            home = folder / f"node-{node}" / str(key)
            files = sorted(home.glob("*.log"))
            contents.append(b"".join(file.read_bytes() for file in files))
            assert len(files) > 1, "the log has several segments"
            keeps_the_laws(home, key)
        assert all(batch.is_valid for batch in batches(memoryview(contents[0])))
        assert contents[0] == contents[1] == contents[2], f"the replicas of {key} differ"


def keeps_the_laws(home: Path, key: TopicPartition) -> None:
    log = loader(
        OsFileSystem(),
        settings(segment_bytes=SEGMENT_BYTES, index_interval_bytes=4096),
        directory=str(home),
        topic_partition=key,
        topic_id=None,
        clean=True,
    ).load()
    try:
        log.update_high_watermark(log.log_end_offset)
        for law in LAWS:
            law(log)
    finally:
        log.abandon()


# --- planted bugs -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bug", "roles", "broken_law"),
    [
        pytest.param(
            "only_what_was_synced_survives",
            ["all"],
            "two records were told the same place",
            id="only_what_was_synced_survives",
        ),
        pytest.param(
            "a_sequence_check_skipped_after_a_leader_change",
            ["leader"] * 6,
            r"partition \d: at offset \d+ is \[",
            marks=pytest.mark.long,
            id="a_sequence_check_skipped_after_a_leader_change",
        ),
    ],
)
def test_a_planted_bug_is_seen(
    bug: str, roles: list[str], broken_law: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is seen by this law, and not by a wait that is too long: the cluster must come back, and take everything."""
    monkeypatch.setattr(NodeProcess, "command", ("-m", "tests.live.planted_node", bug))
    with cluster_in(tmp_path) as cluster:
        with Load(cluster.bootstrap_servers, TOPIC, numbered()) as load:
            Killer(cluster, load, seed=1).run(roles)
        with pytest.raises(AssertionError, match=broken_law):
            nothing_is_lost_doubled_or_out_of_order(cluster, load)
