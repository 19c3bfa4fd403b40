"""A log directory that Apache Kafka wrote and closed, given to a node of pykraft: it is refused, with each feature and
level that the node lacks, and nothing in it is changed."""

from __future__ import annotations

import pathlib
import shutil

import pytest

from pykraft.cli import main
from pykraft.common.settings.config import format_properties
from tests.golden.dumps import DATA, NODE1
from tests.harness.untouched import everything

FEATURES = ("share.version", "streams.version")


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


@pytest.mark.parametrize("name", ["combined", "with a snapshot"])
def test_a_directory_of_kafkas_is_refused_and_left_as_it_is(
    name: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = directory_of(name, tmp_path)
    before = everything(directory)
    assert main(["server", str(tmp_path / "server.properties")]) == 1
    out, complaint = capsys.readouterr()
    lacking = ", ".join(f"{feature} at level 1" for feature in FEATURES)
    assert complaint == (
        f"pykraft: the cluster whose metadata are in {directory} runs {lacking}; this node supports "
        "eligible.leader.replicas.version 0 to 1, group.version 0 to 1, kraft.version 0 to 1, "
        "metadata.version 7 to 29, transaction.version 0 to 2, and no other feature above level 0: "
        "change them where it runs, with Apache Kafka's kafka-features.sh\n"
    )
    assert out == ""
    assert everything(directory) == before
