"""What Kafka's quorum wrote beside the metadata log: its state, its snapshots; and how its nodes were configured."""

from __future__ import annotations

import json
import pathlib

import pytest

from pykraft.broker.settings.config import read_node_config
from pykraft.common.settings.config import parse_properties
from pykraft.common.types import Endpoint, Uuid
from pykraft.metadata.loader import MetadataLoader
from pykraft.protocol.messages.records import decode_metadata_record
from pykraft.raft.election import ElectionState, QuorumStateFile
from pykraft.raft.log.history import read_snapshot
from pykraft.raft.log.replicated_log import ReplicatedLog, Verdict
from pykraft.raft.log.state_machine import CommitReader, ControlRecords
from pykraft.records.batch import batches
from pykraft.sim.world.disk import MemoryFileSystem
from pykraft.storage.disk.filesystem import OsFileSystem
from tests.golden.dumps import DATA, GOLDEN, LOG_START, NODE1
from tests.harness.lone_node import LoneNode
from tests.harness.quorum import FOLDER, open_metadata_log

SNAPSHOTS = sorted(GOLDEN.rglob("*.checkpoint"))
METADATA_FOLDERS = sorted(path.parent for path in GOLDEN.rglob("quorum-state"))
READ_ELSEWHERE = {
    "frames.jsonl": "each frame is read and written again in tests/protocol and tests/wire",
    "dump.txt": "by `dumps`",
    "session.log": "the story, for people",
}


def ids(value: object) -> str:
    return value.relative_to(GOLDEN).as_posix() if isinstance(value, pathlib.Path) else str(value)


@pytest.mark.parametrize("folder", METADATA_FOLDERS, ids=ids)
def test_the_quorums_state_is_written_as_kafka_writes_it(folder: pathlib.Path) -> None:
    content = (folder / "quorum-state").read_bytes()
    filesystem = MemoryFileSystem()
    filesystem.make_directory("/m")
    filesystem.write("/m/quorum-state", content)
    file = QuorumStateFile(filesystem, "/m")
    state = file.read()
    assert state.epoch > 0 and state.leader_id is not None
    file.write(ElectionState(0))
    file.write(state)
    assert filesystem.read("/m/quorum-state") == content


@pytest.mark.parametrize("path", SNAPSHOTS, ids=ids)
def test_every_snapshot_is_read_whole(path: pathlib.Path) -> None:
    snapshot = read_snapshot(OsFileSystem(), str(path))
    assert snapshot is not None
    is_first, is_bootstrap = path.name.startswith(f"{0:020d}-"), path.name == "bootstrap.checkpoint"
    assert bool(snapshot.voters.ids) != is_bootstrap
    values = [
        record.value or b""
        for batch in batches(memoryview(path.read_bytes()))
        if not batch.is_control
        for record in batch.records()
    ]
    read = [record for batch in snapshot.decoded() for record in batch.records]
    assert read == [decode_metadata_record(value)[0] for value in values]
    assert bool(read) != is_first


def test_the_first_voter_of_the_combined_node_is_the_node_itself() -> None:
    (path,) = (DATA / "__cluster_metadata-0").glob("*.checkpoint")
    snapshot = read_snapshot(OsFileSystem(), str(path))
    assert snapshot is not None
    (key,) = snapshot.voters.keys
    assert key.id == 1 and key.directory_id == Uuid.parse("R45kede2TAyQft8Y2ympmA")


def test_the_properties_of_a_node_of_kafkas_are_understood() -> None:
    config = read_node_config(parse_properties((GOLDEN / "kraft3" / "n1.properties").read_text()))
    assert config.is_broker and config.is_controller and config.node_id == 1
    assert config.bootstrap == tuple(Endpoint("localhost", port) for port in (42191, 42192, 42193))
    assert {listener.name for listener in config.listeners} == {"PLAINTEXT", "CONTROLLER"}


def test_the_frames_are_those_that_the_recorder_counted() -> None:
    counted = json.loads((GOLDEN / "kraft3" / "rec.json").read_text())
    lines = (GOLDEN / "kraft3" / "frames.jsonl").read_text().splitlines()
    kept = {f"{frame['key']} v{frame['version']}" for frame in map(json.loads, lines)}
    assert kept == set(counted["seen"]) and counted["bad"] == {}


def test_no_file_of_the_three_nodes_is_left_unread() -> None:
    here = {"n1.properties", "rec.json"}
    files = {path.name for path in (GOLDEN / "kraft3").iterdir() if path.is_file()}
    assert files == here | set(READ_ELSEWHERE)
    assert NODE1 in METADATA_FOLDERS


# --- a log whose first records are gone -------------------------------------------------------------------------------


def opened(disk: MemoryFileSystem) -> ReplicatedLog:
    """The golden log with a later start, opened as a node opens it."""
    disk.make_directory(FOLDER)
    for path in LOG_START.iterdir():
        disk.write(f"{FOLDER}/{path.name}", path.read_bytes())
    return open_metadata_log(disk)


def test_a_log_that_begins_later_is_opened_at_its_newest_snapshot_and_read_on_from_there() -> None:
    log, loader = opened(MemoryFileSystem()), MetadataLoader()
    assert (log.start_offset, log.newest_snapshot, log.end) == (195, (246, 1), (249, 1))
    reader = CommitReader(log, loader)
    reader.deliver(log.end_offset)
    names = {topic.name for topic in loader.image.topics.values()}
    assert names == {f"flights-{number}" for number in range(14)} - {"flights-3"}
    assert ControlRecords(log).voters.ids == [1]
    assert reader.next_offset == 249


@pytest.mark.parametrize(
    ("end", "verdict"),
    [
        ((0, 0), (Verdict.SNAPSHOT, (246, 1))),
        ((147, 1), (Verdict.SNAPSHOT, (246, 1))),
        ((195, 1), (Verdict.VALID, (195, 1))),
        ((210, 1), (Verdict.VALID, (210, 1))),
        ((249, 1), (Verdict.VALID, (249, 1))),
        ((250, 1), (Verdict.DIVERGING, (249, 1))),
        ((249, 2), (Verdict.DIVERGING, (249, 1))),
        ((249, 0), (Verdict.SNAPSHOT, (246, 1))),
    ],
)
def test_what_a_log_that_begins_later_says_of_other_replicas(
    end: tuple[int, int], verdict: tuple[Verdict, tuple[int, int]]
) -> None:
    assert opened(MemoryFileSystem()).validate(*end) == verdict


# --- the first records of a new cluster -------------------------------------------------------------------------------


NOT_OURS = {"share.version", "streams.version", "bob"}
"""What that cluster began with besides: features that pykraft lacks, and a user's credentials."""


@pytest.mark.parametrize(("file", "count"), [("bootstrap.checkpoint", 4), (f"__cluster_metadata-0/{0:020d}.log", 7)])
def test_a_new_cluster_begins_with_the_same_records_as_apache_kafkas(file: str, count: int) -> None:
    """Its feature levels, and in the log the min.insync.replicas of all brokers, in a transaction: byte for byte."""

    def first_records(data: bytes) -> list[bytes]:
        batch = next(each for each in batches(memoryview(data)) if not each.is_control)
        values = [record.value or b"" for record in batch.records()]
        return [value for value in values if getattr(decode_metadata_record(value)[0], "name", "") not in NOT_OURS]

    ours = first_records(LoneNode().filesystem.read(f"/data/{file}"))
    assert ours[:count] == first_records((DATA / file).read_bytes())
