"""``metadata-quorum add-controller`` and ``remove-controller``: what they say without a cluster, as in Kafka."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from pykraft.cli import main
from pykraft.common.settings.config import format_properties
from pykraft.storage.disk.checkpoint import read_meta_properties
from pykraft.storage.disk.filesystem import OsFileSystem

NOWHERE = "127.0.0.1:1"
CLUSTER_ID = "quorumOfTheCommands000"
DIRECTORY_ID = "AAAAAAAAAAAAAAAAAAAAZA"
SETTINGS = {
    "process.roles": "controller",
    "node.id": "7",
    "listeners": "CONTROLLER://127.0.0.1:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.bootstrap.servers": NOWHERE,
}


def run(*arguments: str, options: Sequence[str] = ()) -> int:
    return main(["metadata-quorum", "--bootstrap-controller", NOWHERE, *options, *arguments])


def written(folder: Path, **changes: str) -> str:
    file = folder / "server.properties"
    values = {**SETTINGS, "log.dirs": str(folder / "data"), **{k.replace("_", "."): v for k, v in changes.items()}}
    file.write_text(format_properties(values))
    return str(file)


def test_a_dry_run_says_which_controller_it_would_add(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path)
    assert main(["storage", "format", "-t", CLUSTER_ID, "-c", file, "--no-initial-controllers"]) == 0
    capsys.readouterr()
    assert run("add-controller", "--dry-run", options=("--command-config", file)) == 0
    found = read_meta_properties(OsFileSystem(), str(tmp_path / "data"))
    assert found is not None
    assert capsys.readouterr().out == (
        f"DRY RUN of adding controller 7 with directory id {found.directory_id} and endpoints: "
        "CONTROLLER://127.0.0.1:9093\n"
    )


def test_a_dry_run_says_which_controller_it_would_remove(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("remove-controller", "-i", "7", "-d", DIRECTORY_ID, "--dry-run") == 0
    assert capsys.readouterr().out == f"DRY RUN of removing KRaft controller 7 with directory id {DIRECTORY_ID}\n"


def test_a_dry_run_says_which_controller_it_would_unregister_then(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("remove-controller", "-i", "7", "-d", DIRECTORY_ID, "--unregister", "--dry-run") == 0
    assert capsys.readouterr().out.splitlines()[1:] == ["DRY RUN of unregistering KRaft controller 7"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("add-controller",), "add-controller needs --command-config with the properties file"),
        (("remove-controller", "-i", "-1", "-d", DIRECTORY_ID), "--controller-id is -1, but must be 0 or more"),
        (("remove-controller", "-i", "7", "-d", "none"), "--controller-directory-id "),
    ],
)
def test_a_mistake_is_one_sentence(
    arguments: tuple[str, ...], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*arguments) == 1
    assert sentence in capsys.readouterr().err


@pytest.mark.costly
@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({}, "data is not formatted: run storage format --no-initial-controllers on this machine first"),
        ({"process_roles": "broker", "listeners": "PLAINTEXT://127.0.0.1:9092"}, "is of no controller"),
    ],
)
def test_only_a_controller_with_a_formatted_directory_can_be_added(
    changes: dict[str, str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("add-controller", options=("--command-config", written(tmp_path, **changes))) == 1
    assert sentence in capsys.readouterr().err
