"""``storage info``: what Apache Kafka's tool prints of log directories in many states, and its exit status."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from pykraft.broker.startup import storage_info
from pykraft.broker.startup.storage_info import Metadata
from pykraft.cli import main
from tests.harness.storage_info import (
    A_FOLDER,
    CASES,
    CLUSTER,
    FIRST,
    FIRST_ID,
    SECOND,
    SECOND_ID,
    Case,
    recorded,
    shown,
)

RECORDED = recorded()


def answered(name: str, home: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str]]:
    status = main(["storage", "info", "-c", CASES[name].lay_out(home)])
    return status, shown(capsys.readouterr().out, home)


def before_reason(lines: Iterable[str]) -> list[str]:
    """Of why a text is no Uuid, each has its own words."""
    return [line.partition(" as a Uuid: ")[0] for line in lines]


def test_each_case_was_recorded() -> None:
    assert RECORDED.keys() == CASES.keys()


@pytest.mark.parametrize("name", CASES)
def test_directories_are_described_as_kafka_describes_them(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, lines = answered(name, tmp_path, capsys)
    assert (status, before_reason(lines)) == (RECORDED[name][0], before_reason(RECORDED[name][1]))


def with_each_mismatch(own: Metadata, first: Metadata) -> list[str]:
    return [
        *MISMATCHES({**own, "node.id": 0}, {**first, "node.id": 0}),
        *MISMATCHES({**own, "cluster.id": ""}, {**first, "cluster.id": ""}),
    ]


def without_clusters(own: Metadata, first: Metadata) -> list[str]:
    return MISMATCHES({**own, "cluster.id": ""}, {**first, "cluster.id": ""})


def version_one_by_default(data: bytes) -> Metadata:
    return READ(data if b"version=" in data else data + b"version=1\n")


def needs_a_directory_id(data: bytes) -> Metadata:
    if b"directory.id" not in data:
        raise ValueError("directory.id was not found.")
    return READ(data)


def of_any_version(text: str) -> int:
    return int(text)


READ, MISMATCHES = storage_info.read_metadata, storage_info._mismatches
PLANTED: list[tuple[str, Callable[..., object], str]] = [
    ("_mismatches", with_each_mismatch, "of two clusters and nodes"),
    ("_mismatches", without_clusters, "of two clusters"),
    ("read_metadata", version_one_by_default, "without a version"),
    ("read_metadata", needs_a_directory_id, "without a directory id"),
    ("_version", of_any_version, "with a version to come"),
    ("_plain", lambda path: path, "named in another order, with slashes and spaces"),
    ("_node_of", lambda metadata: metadata.get("node.id", 7), "without a version"),
    ("_number", lambda text, refusal: text, "with a node id that is no number"),
]
"""The function, a mistake in its place, and a case that shows it."""


@pytest.mark.parametrize(("function", "mistake", "name"), PLANTED)
def test_a_planted_mistake_shows_in_its_case(
    function: str,
    mistake: Callable[..., object],
    name: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(storage_info, function, mistake)
    status, lines = answered(name, tmp_path, capsys)
    assert (status, before_reason(lines)) != (RECORDED[name][0], before_reason(RECORDED[name][1]))


def test_as_json_each_directory_has_its_metadata(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = Case({"one": FIRST, "two": SECOND, "metadata": None}, more={"metadata.log.dir": "HOME/metadata"})
    assert main(["storage", "info", "-c", case.lay_out(tmp_path), "--json"]) == 1
    first, second = (
        {"cluster.id": CLUSTER, "directory.id": each, "node.id": 7, "version": 1} for each in (FIRST_ID, SECOND_ID)
    )
    assert json.loads(capsys.readouterr().out.replace(str(tmp_path), "HOME")) == {
        "directories": {"HOME/metadata": None, "HOME/one": first, "HOME/two": second},
        "metadata": first,
        "problems": ["HOME/metadata is not formatted."],
    }


def test_a_file_that_cannot_be_read_is_a_problem(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Kafka's tool ends with a traceback here."""
    for text, reason in ((A_FOLDER, "Is a directory"), ("version=1\nnode.id=4294967296\n", "Unable to read node.id")):
        (home := tmp_path / text[:3]).mkdir()
        assert main(["storage", "info", "-c", Case({"one": text}, "HOME/one").lay_out(home)]) == 1
        assert f"  Error loading {home}/one/meta.properties: {reason}" in capsys.readouterr().out


def test_nothing_is_changed(tmp_path: Path) -> None:
    main(["storage", "info", "-c", CASES["each has a problem"].lay_out(tmp_path)])
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["one", "server.properties", "two"]
