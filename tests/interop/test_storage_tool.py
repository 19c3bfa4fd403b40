"""Directories that kafka-storage formats and that `storage format` formats: each tool knows what the other has made."""

from __future__ import annotations

import contextlib
import pathlib
import re

import pytest

from pykraft.cli import main
from pykraft.storage.disk.checkpoint import read_meta_properties
from pykraft.storage.disk.filesystem import OsFileSystem
from tests.harness import apache_kafka
from tests.harness.apache_kafka import NEWEST, VERSION
from tests.harness.kafka_tools import run_tool

pytestmark = [pytest.mark.long, pytest.mark.limit(240)]

TOOL = "kafka.tools.StorageTool"
CLUSTER_ID = "pykraftStorageTool4444"
PROPERTIES = """process.roles=broker,controller
node.id=7
listeners=PLAINTEXT://127.0.0.1:29092,CONTROLLER://127.0.0.1:29093
controller.listener.names=CONTROLLER
controller.quorum.voters=7@127.0.0.1:29093
log.dirs={}
"""


def file_of(folder: pathlib.Path, name: str) -> str:
    """The properties of a node whose log directory has this name."""
    path = folder / f"{name}.properties"
    path.write_text(PROPERTIES.format(folder / name))
    return str(path)


def format_with_ours(file: str, *options: str) -> int:
    with contextlib.suppress(SystemExit):
        return main(["storage", "format", "-t", CLUSTER_ID, "-c", file, *options])
    return 2


@pytest.mark.parametrize("version", [VERSION, NEWEST])
def test_each_tool_knows_what_the_other_has_formatted(version: str, tmp_path: pathlib.Path) -> None:
    if reason := apache_kafka.available(version):
        pytest.skip(reason)
    ours, newer, theirs = (file_of(tmp_path, name) for name in ("ours", "newer", "theirs"))
    assert format_with_ours(ours) == 0
    assert format_with_ours(newer, "--release-version", "4.4") == 0
    info_of_ours, again, left, formatted, info_of_theirs, info_of_newer = run_tool(
        TOOL,
        [
            ["info", "-c", ours],
            ["format", "-t", CLUSTER_ID, "-c", ours],
            ["format", "-t", CLUSTER_ID, "-c", ours, "--ignore-formatted"],
            ["format", "-t", CLUSTER_ID, "-c", theirs],
            ["info", "-c", theirs],
            ["info", "-c", newer],
        ],
        version,
    )
    for info, name in ((info_of_ours, "ours"), (info_of_theirs, "theirs"), (info_of_newer, "newer")):
        found = read_meta_properties(OsFileSystem(), str(tmp_path / name))
        assert found is not None and (found.cluster_id, found.node_id) == (CLUSTER_ID, 7)
        assert f"Found log directory:\n  {tmp_path / name}\n" in info.out
        metadata = re.search(r"Found metadata: (.*)", info.out)
        assert metadata is not None, info
        assert {CLUSTER_ID, "7", str(found.directory_id)} <= set(re.split(r"[^\w-]+", metadata[1])), metadata[1]
        assert "problem" not in info.out
    assert "is already formatted" in again.out + again.complaints
    assert "already formatted" in left.out and "Exception" not in left.complaints
    assert f"Formatting metadata directory {tmp_path / 'theirs'}" in formatted.out
    assert format_with_ours(theirs) != 0, "it is formatted"
    assert format_with_ours(theirs, "--ignore-formatted") == 0
