"""Which directories a node opens, by the feature levels that it finds in them. (Apache Kafka's own: tests/golden.)"""

from __future__ import annotations

import re

import pytest

from pykraft.broker.startup.levels import check_levels
from pykraft.common.errors import ConfigError
from pykraft.common.types import OffsetAndEpoch
from pykraft.controller.features import UnsupportedFeatureError, parse_levels
from pykraft.protocol.messages.control import ControlRecordType, KRaftVersionRecord, encode_control_record
from pykraft.protocol.messages.records import (
    ConfigRecord,
    FeatureLevelRecord,
    UserScramCredentialRecord,
    encode_metadata_record,
)
from pykraft.raft.log.snapshot import encode_snapshot, snapshot_name
from pykraft.raft.log.voters import NO_VOTERS
from pykraft.records.builder import RecordBatchBuilder
from pykraft.sim.world.disk import MemoryFileSystem
from pykraft.storage.disk.checkpoint import DamagedFileError
from tests.harness.lone_node import LoneNode

HOME = "/data"
LOG = f"{HOME}/__cluster_metadata-0"
SOON = b"\x01\x63\x07 a record of a kind that is to come"


def level(name: str, number: int) -> bytes:
    return encode_metadata_record(FeatureLevelRecord(name=name, feature_level=number), 0)


def kraft(number: int) -> bytes:
    builder = RecordBatchBuilder(0, leader_epoch=1, control=True)
    version = KRaftVersionRecord(kraft_version=number)
    builder.append(1, *encode_control_record(ControlRecordType.KRAFT_VERSION, version))
    return bytes(builder.build())


def batch(offset: int, *values: bytes) -> bytes:
    builder = RecordBatchBuilder(offset, leader_epoch=1)
    for value in values:
        builder.append(1, None, value)
    return bytes(builder.build())


def disk(**files: bytes) -> MemoryFileSystem:
    """A metadata directory with these files; names as `log`, `bootstrap`, `log_7`, `snapshot_7`."""
    filesystem = MemoryFileSystem()
    filesystem.make_directory(LOG)
    for name, content in files.items():
        kind, _, offset = name.partition("_")
        paths = {
            "log": f"{LOG}/{int(offset or 0):020d}.log",
            "snapshot": f"{LOG}/{snapshot_name(OffsetAndEpoch(int(offset or 0), 1))}",
            "bootstrap": f"{HOME}/bootstrap.checkpoint",
        }
        filesystem.write(paths[kind], content)
    return filesystem


def snapshot(*values: bytes) -> bytes:
    return encode_snapshot(NO_VOTERS, values, epoch=1, timestamp=1, last_timestamp=1)


def without_rafts_state(*values: bytes) -> bytes:
    return encode_snapshot(None, values, epoch=1, timestamp=1, last_timestamp=1)


OURS = level("metadata.version", 29)
SHARE = level("share.version", 3)


@pytest.mark.parametrize("name", ["snapshot_7", "bootstrap"])
@pytest.mark.parametrize("position", [8, 16, 22, 57, 70])
def test_a_damaged_snapshot_is_named(name: str, position: int) -> None:
    data = bytearray(snapshot(OURS))
    data[position] ^= 0x7F
    files = {name: bytes(data), **({} if name == "bootstrap" else {"log": kraft(1)})}
    with pytest.raises(DamagedFileError, match=r"\.checkpoint is damaged: "):
        check_levels(disk(**files), HOME)


@pytest.mark.parametrize("name", ["00000000000000000000 (copy).log", "0-old.log", "#x.log"])
def test_a_log_under_another_name_is_left_alone(name: str) -> None:
    filesystem = disk(log=kraft(1) + batch(1, OURS))
    filesystem.write(f"{LOG}/{name}", b"anything")
    check_levels(filesystem, HOME)


@pytest.mark.parametrize(
    ("files", "complaint"),
    [
        ({"log": kraft(1) + batch(1, OURS, level("transaction.version", 3))}, "transaction.version at level 3;"),
        ({"log": kraft(1) + batch(1, level("metadata.version", 6))}, "metadata.version at level 6;"),
        ({"log": kraft(1) + batch(1, SOON) + batch(2, level("metadata.version", 34))}, "metadata.version at level 34;"),
        ({"log": kraft(2) + batch(1, OURS)}, "kraft.version at level 2;"),
        (
            {"log": kraft(1) + batch(1, OURS, level("of.tomorrow", 1), level("group.version", 2))},
            "group.version at level 2, of.tomorrow at level 1;",
        ),
        ({"bootstrap": snapshot(OURS, SHARE)}, "share.version at level 3;"),
        ({"snapshot_7": snapshot(OURS, SHARE)}, "share.version at level 3;"),
        ({"log_7": batch(7, OURS), "snapshot_7": snapshot(OURS, SHARE)}, "share.version at level 3;"),
        ({"log_7": batch(7, SHARE), "snapshot_7": snapshot(OURS)}, "share.version at level 3;"),
        ({"log": kraft(1) + batch(1, OURS), "snapshot_2": snapshot(OURS, SHARE)}, "share.version at level 3;"),
    ],
)
def test_a_level_that_is_lacking_is_told_by_name(files: dict[str, bytes], complaint: str) -> None:
    filesystem = disk(**files)
    with pytest.raises(UnsupportedFeatureError, match=re.escape(complaint)):
        check_levels(filesystem, HOME)
    assert filesystem.list(LOG) == disk(**files).list(LOG)


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"bootstrap": snapshot(OURS)},
        {"bootstrap": snapshot(OURS, level("share.version", 2), level("streams.version", 1))},
        {"log": kraft(1) + batch(1, OURS)},
        {"log": batch(0, OURS)},
        {"log_7": batch(7, OURS), "snapshot_7": without_rafts_state(OURS)},
        {"snapshot_7": without_rafts_state(OURS)},
        {"log": kraft(1) + batch(1, OURS), "bootstrap": snapshot(SHARE)},
        {"log": kraft(1) + batch(1, OURS, SHARE) + batch(3, level("share.version", 0))},
        {"log": kraft(1) + batch(1, level("metadata.version", 28)) + batch(2, OURS)},
        {"log": kraft(1) + batch(1, OURS) + batch(2, SHARE)[:-1]},
        {"log": kraft(1) + batch(1, SHARE) + batch(2, OURS), "snapshot_2": snapshot(OURS)},
        {"log": kraft(1) + batch(1, OURS), "snapshot_2": snapshot(OURS)},
        {"log_7": batch(7, OURS), "snapshot_7": snapshot(OURS)},
        {"log_5": batch(5, OURS) + batch(6, OURS), "snapshot_7": snapshot(OURS)},
        {"log": kraft(1) + batch(1, OURS), "snapshot_7": snapshot(OURS)},
        {"log": batch(0, OURS) + batch(1, level("share.version", 0)), "snapshot_1": snapshot(OURS, SHARE)},
    ],
)
def test_what_counts_is_what_was_written_last_and_whole(files: dict[str, bytes]) -> None:
    check_levels(disk(**files), HOME)


@pytest.mark.parametrize("older", [{}, {"snapshot": snapshot()}, {"snapshot_6": snapshot(OURS)}])
def test_a_log_that_begins_after_its_snapshots_lacks_what_was_before(older: dict[str, bytes]) -> None:
    filesystem = disk(log_7=batch(7, OURS), **older)
    before = everything(filesystem)
    with pytest.raises(DamagedFileError, match="begins at offset 7, and what was before it is in no snapshot"):
        check_levels(filesystem, HOME)
    assert everything(filesystem) == before


@pytest.mark.parametrize("transactions", [0, 1, 2])
def test_a_cluster_runs_at_the_levels_that_it_was_formatted_with(transactions: int) -> None:
    levels = parse_levels(
        [f"transaction.version={transactions}", "group.version=0", "eligible.leader.replicas.version=0"]
    )
    expected = {"metadata.version": 29} | ({"transaction.version": transactions} if transactions else {})
    first = LoneNode(levels=levels)
    assert first.node.loader.image.features == expected, "of level 0 there is no record"
    first.node.close()
    first.filesystem.remove(f"{HOME}/bootstrap.checkpoint")
    assert LoneNode(first.filesystem).node.loader.image.features == expected, "the metadata log has them by then"


SCRAM = UserScramCredentialRecord(name="u", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"l", iterations=4096)
SETTING = ConfigRecord(resource_type=4, resource_name="", name="message.max.bytes", value="7000")


@pytest.mark.parametrize("metadata", [7, 12, 13, 29])
def test_everything_that_a_directory_was_formatted_with_is_in_the_new_clusters_metadata(metadata: int) -> None:
    levels = [FeatureLevelRecord(name="metadata.version", feature_level=metadata)]
    node = LoneNode(bootstrap=[*levels, SETTING, SCRAM])
    image = node.node.loader.image
    assert image.features == {"metadata.version": metadata}
    assert image.config_of(4, "") == {"message.max.bytes": "7000"}
    assert list(image.scram_credentials.values()) == [SCRAM]
    node.node.close()
    assert LoneNode(node.filesystem).node.loader.image.config_of(4, "") == {"message.max.bytes": "7000"}, "once"


def test_a_directory_that_was_formatted_without_a_level_of_the_metadata_is_damaged() -> None:
    with pytest.raises(DamagedFileError, match=r"bootstrap.checkpoint is damaged: it has no level of metadata.version"):
        LoneNode(bootstrap=[SETTING])


@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        ("transaction.version", "must be a feature and its level, like transaction.version=2"),
        ("transaction.version=two", "must be a feature and its level"),
        ("transaction.version=-1", "must be a feature and its level"),
        ("transaction.version=3", "transaction.version must be 0 to 2"),
        ("metadata.version=6", "metadata.version must be 7 to 33"),
        ("eligible.leader.replicas.version=2", "eligible.leader.replicas.version must be 0 to 1"),
        (
            "share.version=1",
            "the features are eligible.leader.replicas.version, group.version, kraft.version, metadata.",
        ),
    ],
)
def test_a_level_that_no_cluster_can_have_is_refused(setting: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=f"--feature {setting}.*{complaint}"):
        parse_levels([setting])


def test_a_release_names_the_levels_of_a_new_cluster() -> None:
    assert parse_levels([], "3.6") == {"metadata.version": 14}
    assert parse_levels([], "4.0") == {"metadata.version": 25, "group.version": 1, "transaction.version": 2}
    assert parse_levels(["group.version=0"], "4.0") == {"metadata.version": 25, "transaction.version": 2}
    assert parse_levels(["metadata.version=22"]) == {"metadata.version": 22, "group.version": 1}
    assert parse_levels(["share.version=0", "streams.version=0"]) == parse_levels([]) == parse_levels([], "4.2")
    assert parse_levels([], "4.4") == {**parse_levels([]), "metadata.version": 33}
    with pytest.raises(ConfigError, match=r"--release-version 9.9 must be a release from 3.3-IV3 to 4.4-IV2"):
        parse_levels([], "9.9")
    with pytest.raises(ConfigError, match=r"--release-version names the level of metadata.version"):
        parse_levels(["metadata.version=29"], "4.0")


def test_what_a_node_wrote_it_opens() -> None:
    node = LoneNode()
    node.create("t")
    check_levels(node.filesystem, HOME)


def test_a_node_asks_before_it_changes_anything() -> None:
    node = LoneNode()
    node.node.close()
    filesystem = node.filesystem
    (log,) = [name for name in filesystem.list(LOG) if name.endswith(".log")]
    content = filesystem.read(f"{LOG}/{log}")
    filesystem.write(f"{LOG}/{log}", content + batch(10_000, level("group.version", 2)))
    before = everything(filesystem)
    with pytest.raises(UnsupportedFeatureError, match=r"group.version at level 2"):
        LoneNode(filesystem)
    assert everything(filesystem) == before


def everything(filesystem: MemoryFileSystem, folder: str = HOME) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for name in filesystem.list(folder):
        path = f"{folder}/{name}"
        try:
            found[path] = filesystem.read(path)
        except IsADirectoryError:
            found |= everything(filesystem, path)
    return found
