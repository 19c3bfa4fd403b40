"""Log directories in every state in which `storage info` may find them, and what Apache Kafka's tool says of each.

    for name, lines in recorded().items():
        file = CASES[name].lay_out(home)

`python -m tests.harness.storage_info` asks Kafka's newest release, and writes the recorded answers again. In them HOME
is the folder that holds the directories.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tests.harness.apache_kafka import NEWEST
from tests.harness.kafka_tools import run_tool
from tests.harness.tree import ROOT

RECORDED = ROOT / "tests" / "unit" / "commands" / "nodes" / "storage_info_of_kafka.txt"
TOOL = "kafka.tools.StorageTool"
CLUSTER, OTHER_CLUSTER = "pykraftStorageTool4444", "pykraftStorageTool5555"
FIRST_ID, SECOND_ID = "firstDirectoryOfNode7A", "secondDirectoryNode7AA"
PROPERTIES = {
    "process.roles": "broker,controller",
    "node.id": "7",
    "listeners": "PLAINTEXT://127.0.0.1:29092,CONTROLLER://127.0.0.1:29093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "7@127.0.0.1:29093",
}
A_FILE = "a file"
"""In place of a directory."""
A_FOLDER = "a folder"
"""In place of a meta.properties."""


def meta(directory_id: str | None = FIRST_ID, **other: str | None) -> str:
    """A meta.properties; `other` values for its keys, with underscores for dots, or None for a key that it lacks."""
    values: dict[str, str | None] = {
        "version": "1",
        "cluster.id": CLUSTER,
        "node.id": "7",
        "directory.id": directory_id,
    }
    values |= {name.replace("_", "."): value for name, value in other.items()}
    return "".join(f"{name}={value}\n" for name, value in values.items() if value is not None)


FIRST, SECOND = meta(), meta(SECOND_ID)


class Case(NamedTuple):
    """What is in the place of each directory: the text of its meta.properties, None for a directory without one,
    `A_FILE` or `A_FOLDER`. Those that are not named are not there."""

    content: Mapping[str, str | None]
    log_dirs: str = "HOME/one,HOME/two"
    more: Mapping[str, str] = {}

    def lay_out(self, home: Path) -> str:
        """Make the directories, and the file that names them; its path."""
        for name, text in self.content.items():
            directory = home / name
            if text == A_FILE:
                directory.write_text("")
                continue
            directory.mkdir(parents=True)
            if text == A_FOLDER:
                (directory / "meta.properties").mkdir()
            elif text is not None:
                (directory / "meta.properties").write_text(text)
        file = home / "server.properties"
        values = {**PROPERTIES, "log.dirs": self.log_dirs, **self.more}
        file.write_text("".join(f"{key}={value}\n" for key, value in values.items()).replace("HOME", str(home)))
        return str(file)


METADATA_ELSEWHERE = {"metadata.log.dir": "HOME/metadata"}
CASES = {
    "one directory": Case({"one": FIRST}, "HOME/one"),
    "two directories": Case({"one": FIRST, "two": SECOND}),
    "three, one of them for the metadata": Case(
        {"one": FIRST, "two": SECOND, "metadata": meta("thirdDirectoryOfNode7A")}, more=METADATA_ELSEWHERE
    ),
    "named in another order, with slashes and spaces": Case({"one": FIRST, "two": SECOND}, "HOME/two/, HOME//one"),
    "none is formatted": Case({"one": None, "two": None}),
    "one of two is formatted": Case({"one": None, "two": SECOND}),
    "none is there": Case({}),
    "one of two is there": Case({"two": SECOND}),
    "one is a file": Case({"one": FIRST, "two": A_FILE}),
    "each has a problem": Case({"one": A_FILE, "two": None}, more=METADATA_ELSEWHERE),
    "of two clusters": Case({"one": FIRST, "two": meta(SECOND_ID, cluster_id=OTHER_CLUSTER)}),
    "of two nodes": Case({"one": FIRST, "two": meta(SECOND_ID, node_id="8")}),
    "of two clusters and nodes": Case({"one": FIRST, "two": meta(SECOND_ID, cluster_id=OTHER_CLUSTER, node_id="8")}),
    "three of which one is another cluster's and one another node's": Case(
        {"metadata": FIRST, "one": meta(SECOND_ID, cluster_id=OTHER_CLUSTER), "two": meta(SECOND_ID, node_id="8")},
        more=METADATA_ELSEWHERE,
    ),
    "another node's than the file's": Case({"one": meta(node_id="8")}, "HOME/one"),
    "with the same directory id": Case({"one": FIRST, "two": FIRST}),
    "without a directory id": Case({"one": meta(directory_id=None)}, "HOME/one"),
    "with a directory id that is none": Case({"one": meta("short")}, "HOME/one"),
    "with a directory id that is reserved": Case({"one": meta("AAAAAAAAAAAAAAAAAAAAAA")}, "HOME/one"),
    "without a cluster id": Case({"one": meta(cluster_id=None), "two": SECOND}),
    "without a node id": Case({"one": meta(node_id=None), "two": SECOND}),
    "with a node id that is no number": Case({"one": meta(node_id="seven"), "two": SECOND}),
    "with a node id below zero": Case({"one": meta(node_id="-1")}, "HOME/one"),
    "without a version": Case({"one": meta(version=None), "two": SECOND}),
    "with a version to come": Case({"one": meta(version="2"), "two": SECOND}),
    "with a version that is no number": Case({"one": meta(version="one"), "two": SECOND}),
    "with an empty file": Case({"one": "", "two": SECOND}),
    "with an unknown key": Case({"one": FIRST + "color=red\n"}, "HOME/one"),
    "with comments and spaces": Case({"one": "# comment\n\n" + FIRST.replace("=", " = ")}, "HOME/one"),
    "of ZooKeeper's time": Case({"one": meta(version="0", node_id=None, broker_id="7")}, "HOME/one"),
    "a broker's only": Case(
        {"one": FIRST},
        "HOME/one",
        {
            "process.roles": "broker",
            "listeners": "PLAINTEXT://127.0.0.1:29092",
            "controller.quorum.voters": "8@127.0.0.1:29093",
        },
    ),
}


def shown(text: str, home: Path) -> list[str]:
    """The lines that were printed, with HOME for the folder; without the last, empty one, and without the traceback by
    which Kafka's tool shows a damaged file first."""
    lines = text.replace(str(home), "HOME").splitlines()
    while lines and not lines[0].startswith("Found"):
        lines.pop(0)
    while lines and not lines[-1]:
        lines.pop()
    return lines


def asked(version: str) -> dict[str, tuple[int, list[str]]]:
    """The exit status and the lines of Kafka's tool in each case."""
    with tempfile.TemporaryDirectory() as folder:
        homes = {name: Path(folder) / str(number) for number, name in enumerate(CASES)}
        for home in homes.values():
            home.mkdir()
        calls = [["info", "-c", CASES[name].lay_out(home)] for name, home in homes.items()]
        told = run_tool(TOOL, calls, version)
    return {name: (said.status, shown(said.out, home)) for (name, home), said in zip(homes.items(), told, strict=True)}


def recorded() -> dict[str, tuple[int, list[str]]]:
    """What the newest release has answered."""
    found: dict[str, tuple[int, list[str]]] = {}
    for line in RECORDED.read_text().splitlines():
        if line.startswith("=== "):
            status, name = line.removeprefix("=== ").split(" ", 1)
            lines = found.setdefault(name, (int(status), []))[1]
        else:
            lines.append(line)
    return {name: (status, shown("\n".join(lines), ROOT)) for name, (status, lines) in found.items()}


def main() -> None:
    parts = [
        "".join(f"{line}\n" for line in (f"=== {status} {name}", *lines, ""))
        for name, (status, lines) in asked(NEWEST).items()
    ]
    RECORDED.write_text("".join(parts))


if __name__ == "__main__":
    main()
