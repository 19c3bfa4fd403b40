"""A log directory that Apache Kafka wrote and closed, given to a node of pykraft. It has the levels of share and
streams groups, which the node keeps and does not serve. The node names a level that it does not know, and changes
nothing in the directory."""

from __future__ import annotations

import pathlib
import shutil

import pytest

from pykraft.broker.startup.levels import check_levels
from pykraft.cli import main
from pykraft.common.settings.config import format_properties
from pykraft.protocol.messages.records import FeatureLevelRecord
from pykraft.sim.world.disk import MemoryFileSystem
from pykraft.storage.disk.filesystem import OsFileSystem
from tests.golden.dumps import DATA, NODE1
from tests.harness.lone_node import LoneNode
from tests.harness.untouched import everything

FEATURES = ("share.version", "streams.version")


def copied(folder: pathlib.Path) -> MemoryFileSystem:
    """The golden directory as that of a lone node."""
    filesystem = MemoryFileSystem()
    filesystem.make_directory("/data")
    for path in sorted(folder.rglob("*")):
        if path.is_dir():
            filesystem.make_directory(f"/data/{path.relative_to(folder)}")
        else:
            filesystem.write(f"/data/{path.relative_to(folder)}", path.read_bytes())
    filesystem.sync_all()
    return filesystem


def directory_of(name: str, folder: pathlib.Path) -> pathlib.Path:
    """A copy of one of the golden directories, and beside it the properties of its node."""
    directory = folder / "data"
    if name == "combined":
        shutil.copytree(DATA, directory)
    else:
        shutil.copytree(NODE1, directory / "__cluster_metadata-0")
        shutil.copy(DATA / "meta.properties", directory)
    (folder / "server.properties").write_text(
        format_properties(
            {
                "process.roles": "broker,controller",
                "node.id": "1",
                "listeners": "PLAINTEXT://localhost:0,CONTROLLER://localhost:0",
                "controller.listener.names": "CONTROLLER",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
                "controller.quorum.bootstrap.servers": "localhost:9093",
                "log.dirs": str(directory),
            }
        )
    )
    return directory


SERVED = {
    "metadata.version": 29,
    "group.version": 1,
    "transaction.version": 2,
    "eligible.leader.replicas.version": 1,
}


@pytest.mark.parametrize("name", ["combined", "with a snapshot"])
def test_a_directory_as_kafka_formats_it_by_default_is_not_refused(name: str, tmp_path: pathlib.Path) -> None:
    directory = directory_of(name, tmp_path)
    before = everything(directory)
    check_levels(OsFileSystem(), str(directory))
    assert everything(directory) == before


def test_a_node_of_ours_goes_on_where_kafka_stopped_and_keeps_what_it_does_not_serve() -> None:
    node = LoneNode(copied(DATA))
    assert node.node.loader.image.features == SERVED | dict.fromkeys(FEATURES, 1)
    node.create("ours")
    assert node.broker.is_open and "ours" in node.node.loader.image.topic_ids
    records = [record for record, _ in node.node.loader.image.to_records()]
    levels = {record.name: record.feature_level for record in records if isinstance(record, FeatureLevelRecord)}
    assert levels == SERVED | dict.fromkeys(FEATURES, 1), "a snapshot has them"


def test_a_level_that_is_not_known_is_refused_and_the_directory_left_as_it_is(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pykraft.controller.features.KNOWN_FEATURES", {})
    directory = directory_of("combined", tmp_path)
    before = everything(directory)
    assert main(["server", str(tmp_path / "server.properties")]) == 1
    out, complaint = capsys.readouterr()
    lacking = ", ".join(f"{feature} at level 1" for feature in FEATURES)
    assert complaint == (
        f"pykraft: the cluster whose metadata are in {directory} runs {lacking}; this node supports "
        "eligible.leader.replicas.version 0 to 1, group.version 0 to 1, kraft.version 0 to 1, "
        "metadata.version 7 to 33, transaction.version 0 to 2, and no other feature above level 0: "
        "change them where it runs, with Apache Kafka's kafka-features.sh\n"
    )
    assert out == ""
    assert everything(directory) == before
