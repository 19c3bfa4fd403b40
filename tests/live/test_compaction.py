"""A compacted topic of a node that is a process, on a real file system, under keyed load from librdkafka.

The node rolls segments of 1 MB and compacts as soon as it can. Twice it is killed with kill -9 while the cleaner is
writing a file, and started again. Meanwhile the law of compaction holds, for a reader from the start and for one who
stood still while what he was to read next was compacted: the last value of each key is seen, and a record that is still
there is where it was.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random

import pytest

from pykraft import Cluster
from pykraft.common.types import TopicPartition
from pykraft.runtime.process import NodeProcess
from pykraft.storage.checkpoint import CLEANER_CHECKPOINT, read_offsets
from pykraft.storage.filesystem import OsFileSystem
from tests.harness.waiting import wait_until
from tests.live.load import Load, Place, Row, read

pytestmark = pytest.mark.limit(300)

TOPIC = "latest"
KEY = TopicPartition(TOPIC, 0)
KEYS = 2000
VALUE_BYTES = 1000
SEGMENT_BYTES = 1 << 20
LOAD_S, LOAD_IN_A_SOAK_S = 12, 60
KILLS = 2
NODE = {"log.cleaner.backoff.ms": "50", "broker.session.timeout.ms": "300"}
CONFIG = {
    "cleanup.policy": "compact",
    "segment.bytes": str(SEGMENT_BYTES),
    "min.cleanable.dirty.ratio": "0.01",
    "file.delete.delay.ms": "1000",
}


def keyed(seed: int) -> Iterator[Row]:
    """Values for some keys, and now and then a tombstone."""
    random = Random(seed)
    for number in itertools.count():
        key = b"key %d" % min(random.randrange(KEYS), random.randrange(KEYS))
        yield Row(0, key, None if random.random() < 0.05 else b"%d".ljust(VALUE_BYTES) % number)


class Compacting:
    """One node with the topic."""

    def __init__(self, folder: Path) -> None:
        self.cluster = Cluster(1, mode="processes", directory=folder, properties=NODE)
        self.folder = self.cluster.partition_directory(1, *KEY)
        with self.cluster.admin() as admin:
            admin.create_topic(TOPIC, 1, 1, CONFIG)

    @property
    def servers(self) -> str:
        return self.cluster.bootstrap_servers

    def names(self) -> list[str]:
        return os.listdir(self.folder)

    def kill_while_cleaning(self) -> None:
        """Look for a file that the cleaner is writing, and kill. It may have been faster; then look again."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if any(name.endswith(".log.cleaned") for name in self.names()):
                self.cluster.kill(1)
                if any(name.endswith(".log.cleaned") for name in self.names()):
                    return
                self.cluster.restart(1)
            time.sleep(0.001)
        raise AssertionError("the cleaner was never seen at work")

    def first_dirty_offset(self) -> int:
        path = self.cluster.node_directory(1) / CLEANER_CHECKPOINT
        return read_offsets(OsFileSystem(), str(path)).get(KEY, 0)

    def wait_until_clean(self, offset: int) -> None:
        wait_until(lambda: self.first_dirty_offset() >= offset, f"the log is clean up to {offset}")


def run(node: Compacting, duration_s: float, seed: int) -> tuple[Load, list[tuple[Place, Row]]]:
    """Load, with two kills in it; and what a reader had read early, before it stood still."""
    begun = time.monotonic()
    with Load(node.servers, TOPIC, keyed(seed)) as load:
        wait_until(lambda: len(load.acknowledged) >= 1000, "the load runs")
        early = read(node.servers, TOPIC, {0: 0}, most=800)
        for number in range(1, KILLS + 1):
            wait_until(
                lambda n=number: time.monotonic() - begun > duration_s * n / (KILLS + 1),
                "its time has come",
                duration_s,
            )
            node.kill_while_cleaning()
            node.cluster.restart(1)
        wait_until(lambda: time.monotonic() - begun > duration_s, "the load is over", duration_s)
    return load, early


def law(load: Load, early: list[tuple[Place, Row]], now: list[tuple[Place, Row]]) -> None:
    """What two readers see: one from the start, one that goes on where `early` ended."""
    sent = load.places()
    for place, row in (*early, *now):
        assert sent[place] == row, f"{row} is at {place}, where {sent[place]} was written"
    final = values(sorted(sent.items()))
    assert len(final) > KEYS / 2
    assert values(now) == final, difference(values(now), final)
    stopped_at = early[-1][0]
    slow = [*early, *((place, row) for place, row in now if place > stopped_at)]
    assert values(slow) == final, difference(values(slow), final)


def values(rows: Iterable[tuple[Place, Row]]) -> dict[bytes, bytes]:
    """What a reader knows after these."""
    known: dict[bytes, bytes] = {}
    for _, row in rows:
        assert row.key is not None
        if row.value is None:
            known.pop(row.key, None)
        else:
            known[row.key] = row.value
    return known


def difference(known: dict[bytes, bytes], final: dict[bytes, bytes]) -> str:
    wrong = [key for key in known.keys() | final.keys() if known.get(key) != final.get(key)]
    return f"{len(wrong)} keys are wrong, {wrong[:3]} among them"


def test_the_law_of_compaction_holds_though_the_cleaner_is_killed(tmp_path: Path, seed: int, is_long: bool) -> None:
    node = Compacting(tmp_path)
    with node.cluster:
        load, early = run(node, LOAD_IN_A_SOAK_S if is_long else LOAD_S, seed)
        sealed = max(int(name.partition(".")[0]) for name in node.names() if name.endswith(".log"))
        node.wait_until_clean(sealed)
        now = read(node.servers, TOPIC, {0: 0})
        law(load, early, now)
        assert len(now) < len(load.acknowledged) / 2, "not much was compacted"
        assert not [name for name in node.names() if name.endswith((".cleaned", ".swap"))]
    said = (tmp_path / "node-1.out").read_text()
    assert "Traceback" not in said, said[said.index("Traceback") :][:3000]


def test_a_planted_bug_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        NodeProcess, "command", ("-m", "tests.live.planted_node", "an_unfinished_cleaning_is_taken_for_whole")
    )
    node = Compacting(tmp_path)
    with node.cluster:
        load, early = run(node, 3, seed=1)
        with pytest.raises(AssertionError):
            law(load, early, read(node.servers, TOPIC, {0: 0}))
