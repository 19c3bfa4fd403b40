"""A compacted topic of a node that is a process, on a real file system, under keyed load from librdkafka.

The node rolls segments of 1 MB and compacts as soon as it can. Meanwhile it is killed with kill -9, and started again:
twice while the cleaner is writing a file, and twice while what it wrote waits to take the place of what it was made of,
before that was put aside and after it.

One consumer reads the beginning and stands still, while what it is to read next is compacted; then it reads on from
where it stood. Another one reads all from the start when everything is over. For both the law of compaction holds: the
last value of each key is seen, and a record that is still there is where it was.
"""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random
from types import TracebackType

import confluent_kafka
import pytest

from pykraft import Cluster
from pykraft.common.types import TopicPartition
from pykraft.runtime.process import NodeProcess
from pykraft.storage.disk.checkpoint import CLEANER_CHECKPOINT, read_offsets
from pykraft.storage.disk.filesystem import OsFileSystem
from tests.harness.waiting import wait_until
from tests.live.load import CONSUMER, PATIENCE_S, Load, Place, Row, read
from tests.live.planted_node import STANDS_STILL

pytestmark = pytest.mark.limit(300)

TOPIC = "latest"
KEY = TopicPartition(TOPIC, 0)
KEYS = 2000
VALUE_BYTES = 1000
SEGMENT_BYTES = 1 << 20
LOAD_S, LOAD_IN_A_SOAK_S = 12, 60
EARLY = 500
"""So many records are read before the consumer stands still."""
STANDS = ("it_stands_still_before_the_old_segments_go", "it_stands_still_after_the_old_segments_went")
"""Where the node that is killed in mid-swap waits for it, in turn."""
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


def number_of(row: Row) -> int:
    assert row.key is not None
    return int(row.key.split()[1])


class Compacting:
    """One node with the topic. Whenever it is started again, it makes the mistake `bug`."""

    def __init__(self, folder: Path, bug: str | None = None) -> None:
        self.cluster = Cluster(1, mode="processes", directory=folder, properties=NODE)
        self.folder = self.cluster.partition_directory(1, *KEY)
        self._bug = bug
        self._kills_in_stands = 0
        with self.cluster.admin() as admin:
            admin.create_topic(TOPIC, 1, 1, CONFIG)

    @property
    def servers(self) -> str:
        return self.cluster.bootstrap_servers

    def names(self) -> list[str]:
        return os.listdir(self.folder)

    def has(self, ending: str) -> bool:
        return any(name.endswith(ending) for name in self.names())

    def start_again(self, stand: str | None = None) -> None:
        planted = ",".join(filter(None, (self._bug, stand)))
        with pytest.MonkeyPatch.context() as patch:
            if planted:
                patch.setattr(NodeProcess, "command", ("-m", "tests.live.planted_node", planted))
            self.cluster.restart(1, wait=stand is None)  # it may stand still before it has told that it is ready

    def kill_while_cleaning(self) -> None:
        """Look for a file that the cleaner is writing, and kill. It may have been faster; then look again."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if self.has(".log.cleaned"):
                self.cluster.kill(1)
                if self.has(".log.cleaned"):
                    return
                self.start_again()
            time.sleep(0.001)
        raise AssertionError("the cleaner was never seen at work")

    def kill_while_swapping(self) -> None:
        """The node was told to stand still there, and prints that it does: the names alone tell that it comes near."""
        wait_until(lambda: self.stands() > self._kills_in_stands, "the node stands still", 60)
        self._kills_in_stands += 1
        assert self.has(".log.swap"), "no cleaned segment waits to be swapped"
        self.cluster.kill(1)

    def stands(self) -> int:
        """How often the node has stood still."""
        return self.said().count(STANDS_STILL)

    def said(self) -> str:
        """All that the node has printed."""
        return (self.cluster.directory / "node-1.out").read_text()

    def end_of_sealed(self) -> int:
        """The offset with which the active segment begins."""
        return max(int(name.partition(".")[0]) for name in self.names() if name.endswith(".log"))

    def first_dirty_offset(self) -> int:
        path = self.cluster.node_directory(1) / CLEANER_CHECKPOINT
        return read_offsets(OsFileSystem(), str(path)).get(KEY, 0)

    def wait_until_clean(self, offset: int) -> None:
        wait_until(lambda: self.first_dirty_offset() >= offset, f"the log is clean up to {offset}")


class Reader:
    """A consumer that stands still for as long as it likes. Its place it keeps itself, nothing is committed."""

    def __init__(self, servers: str) -> None:
        # Whatever makes it lose its place is an error, and no new beginning somewhere else.
        self._consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": servers, **CONSUMER, "auto.offset.reset": "error"}
        )
        self._consumer.assign([confluent_kafka.TopicPartition(*KEY, 0)])
        self.position = 0
        self.rows: list[tuple[Place, Row]] = []

    def __enter__(self) -> Reader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._consumer.close()

    def read(self, count: int | None = None) -> None:
        """So many more records, or all up to the end of the log."""
        deadline = time.monotonic() + PATIENCE_S
        goal = sys.maxsize if count is None else len(self.rows) + count
        while len(self.rows) < goal:
            assert time.monotonic() < deadline, f"nothing came after {len(self.rows)} records"
            for message in self._consumer.consume(min(1000, goal - len(self.rows)), 0.1):
                deadline = time.monotonic() + PATIENCE_S
                if message.error() is not None:
                    assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF, message.error()
                    if count is None:
                        return
                    continue  # for now it was the end
                self.rows.append(((0, message.offset()), Row(0, message.key(), message.value())))
                self.position = message.offset() + 1

    def stand_still(self) -> None:
        self._consumer.pause([confluent_kafka.TopicPartition(*KEY)])

    def read_on(self) -> None:
        """To the end, from where it stood; what was fetched before that, and not read, is not used."""
        here = confluent_kafka.TopicPartition(*KEY, self.position)
        self._consumer.seek(here)
        self._consumer.resume([here])
        self.read()


def run(node: Compacting, reader: Reader, duration_s: float, seed: int) -> Load:
    """Load, with kills in it. The reader reads early, and stands still."""
    begun = time.monotonic()

    def wait_for(share: float) -> None:
        wait_until(lambda: time.monotonic() - begun > duration_s * share, "its time has come", duration_s)

    with Load(node.servers, TOPIC, keyed(seed)) as load:
        wait_until(lambda: len(load.acknowledged) >= 2 * EARLY, "the load runs")
        stand_before_a_common_key(reader, load)
        for number, stand in enumerate(STANDS, 1):
            wait_for(number / (len(STANDS) + 1))
            node.kill_while_cleaning()
            node.start_again(stand)
            node.kill_while_swapping()
            node.start_again()
        wait_for(1)
        wait_until(lambda: len(load.acknowledged) > 2 * KEYS, "most keys were written")
        wait_until(lambda: is_written_again(load, reader.position, node.end_of_sealed()), "its key came again", 60)
    return load


def stand_before_a_common_key(reader: Reader, load: Load) -> None:
    """Read early, up to a record whose key will come again before long."""
    reader.read(EARLY)
    known = dict(load.acknowledged)
    while number_of(known[0, reader.position]) > KEYS / 4:
        reader.read(1)
    reader.stand_still()


def is_written_again(load: Load, offset: int, end: int) -> bool:
    """Whether the key of the record at `offset` came again, before `end`."""
    known = list(load.acknowledged)
    key = next(row.key for (_, at), row in known if at == offset)
    return any(row.key == key and offset < at < end for (_, at), row in known)


def law(load: Load, seen: list[tuple[Place, Row]]) -> None:
    """What one reader sees, from the first offset to the last."""
    sent = load.places()
    places = [place for place, _ in seen]
    assert places == sorted(set(places)), "a record came twice, or too late"
    for place, row in seen:
        assert sent[place] == row, f"{row} is at {place}, where {sent[place]} was written"
    final, known = values(sorted(sent.items())), values(seen)
    assert len(final) > KEYS / 2
    wrong = [key for key in known.keys() | final.keys() if known.get(key) != final.get(key)]
    assert not wrong, f"{len(wrong)} keys are wrong, {wrong[:3]} among them"


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


def test_the_law_of_compaction_holds_though_the_cleaner_is_killed(tmp_path: Path, seed: int, is_long: bool) -> None:
    node = Compacting(tmp_path)
    with node.cluster, Reader(node.servers) as reader:
        load = run(node, reader, LOAD_IN_A_SOAK_S if is_long else LOAD_S, seed)
        node.wait_until_clean(node.end_of_sealed())
        now = read(node.servers, TOPIC, {0: 0})
        stood_at, before = reader.position, len(reader.rows)
        reader.read_on()
        law(load, now)
        law(load, reader.rows)
        assert len(now) < len(load.acknowledged) / 2, "not much was compacted"
        after = reader.rows[before:]
        assert EARLY <= before <= stood_at < after[0][0][1], "what it was to read next is still there"
        assert len(after) < (len(load.acknowledged) - stood_at) / 2, "not much was compacted beneath it"
        assert not node.has(".cleaned") and not node.has(".swap")
    said = node.said()
    assert "Traceback" not in said, said[said.index("Traceback") :][:3000]


BROKEN_LAWS = "keys are wrong|two records were told the same place"
"""The second one if so much is gone that the log begins again."""


@pytest.mark.parametrize(
    "bug",
    [
        "an_unfinished_cleaning_is_taken_for_whole",
        pytest.param("a_swap_is_taken_back", marks=pytest.mark.long),
    ],
)
def test_a_planted_bug_is_seen(bug: str, tmp_path: Path) -> None:
    """By the law, and not by a wait that is too long: the node must come back, and take everything."""
    node = Compacting(tmp_path, bug)
    with node.cluster, Reader(node.servers) as reader:
        load = run(node, reader, 2, seed=1)
        now = read(node.servers, TOPIC, {0: 0})
        with pytest.raises(AssertionError, match=BROKEN_LAWS):
            law(load, now)
