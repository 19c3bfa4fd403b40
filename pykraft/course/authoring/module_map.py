"""The map of the package: one line for each module, taken from the sentence that opens it.

A reader who wants to know how Kafka works should not begin at the top of a list of files. So the map has two parts. The
*spine* comes first, in the order in which one record meets it: it becomes bytes, reaches a broker, is appended, copied
to other brokers, and meanwhile a quorum and its controller decide which broker leads. Then all other modules follow,
room by room, in the order in which one reads them.

``python -m pykraft course map --write`` writes it into pykraft/README.md, and a test compares the two.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

from pykraft.course.places import ROOT

PACKAGE = ROOT / "pykraft"
MAP = PACKAGE / "README.md"
COMMAND = "python -m pykraft course map --write"

SPINE: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("A record becomes bytes", ("records/record.py", "records/batch.py", "records/builder.py")),
    (
        "The log that keeps them",
        (
            "storage/log.py",
            "storage/log_segment.py",
            "storage/index.py",
            "storage/validator.py",
            "storage/producer_state.py",
            "storage/leader_epoch_cache.py",
            "storage/upkeep/log_loader.py",
        ),
    ),
    (
        "One request, from a socket to its answer",
        (
            "runtime/threaded.py",
            "transport/frames.py",
            "transport/server_channel.py",
            "protocol/schema.py",
            "broker/node.py",
            "broker/requests/dispatch.py",
            "broker/requests/data/produce.py",
            "broker/requests/data/fetch.py",
            "broker/replication/purgatory.py",
            "broker/replication/delayed.py",
            "broker/turns/slices.py",
        ),
    ),
    (
        "Copies on other brokers",
        (
            "broker/replication/replica_manager.py",
            "broker/replication/partition.py",
            "broker/replication/follower_state.py",
            "broker/replication/fetching.py",
            "broker/replication/replica_fetcher.py",
            "broker/replication/alter_partition.py",
        ),
    ),
    (
        "The quorum that decides",
        (
            "raft/quorum_state.py",
            "raft/client.py",
            "raft/service.py",
            "raft/replica.py",
            "raft/leader_state.py",
            "raft/log/replicated_log.py",
        ),
    ),
    (
        "The controller, and what brokers learn of it",
        (
            "controller/controller.py",
            "controller/partitions/replication_control.py",
            "controller/partitions/partition_change.py",
            "controller/cluster_control.py",
            "controller/partitions/topics.py",
            "metadata/image.py",
            "metadata/delta.py",
            "metadata/loader.py",
        ),
    ),
)
"""The modules to read first, in this order, under the step that they belong to."""

ROOMS = (
    *("records", "protocol", "protocol/messages", "storage", "storage/upkeep", "storage/disk"),
    *("transport", "network", "runtime"),
    *("broker", "broker/turns", "broker/requests", "broker/requests/data", "broker/requests/coordinators"),
    *("broker/requests/cluster", "broker/replication", "broker/coordination", "broker/startup", "broker/settings"),
    *("raft", "raft/log", "metadata", "controller", "controller/partitions"),
    *("coordinator", "coordinator/group", "coordinator/group/consumer_groups", "coordinator/group/classic_groups"),
    *("coordinator/transaction", "client", "client/producing", "client/consuming", "client/administration"),
    *("common", "common/settings", "common/assignors"),
    *("sim", "sim/world", "sim/trouble", "sim/workloads", "sim/laws", "story"),
    *("", "commands", "commands/nodes", "commands/records", "commands/administration"),
    *("commands/groups_and_transactions", "commands/log_files", "commands/learning"),
    *("spark", "spark/reading", "spark/writing"),
    *("viz", "viz/drawing", "viz/boards", "viz/stories", "viz/logs", "viz/wire", "viz/clients", "viz/groups"),
    *("viz/measured", "course", "course/asking", "course/labs", "course/authoring", "course/rigs", "course/lessons"),
)
"""All rooms in the order in which one reads them. The folders of single lessons follow at the end."""

_HEAD = f"""# The modules of pykraft

One line for each module: the sentence that opens it. Each module begins with its theory, so open it and read on. This
page is made by `{COMMAND}`.

[ARCHITECTURE.md](ARCHITECTURE.md) explains in half an hour how the parts work together, and why they are built so.
"""


def opening(path: Path) -> str:
    """The first sentence of a module's docstring, on one line."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    paragraph = " ".join(text.split("\n\n")[0].split())
    first, dot, rest = paragraph.partition(". ")
    return first + dot.strip() if rest else paragraph


def module_map() -> str:
    """The whole page, in Markdown."""
    spine = [name for _, names in SPINE for name in names]
    lines = [_HEAD, "## The spine: read these first, in this order", ""]
    for title, names in SPINE:
        lines += [f"**{title}**", "", *(_line(PACKAGE / name) for name in names), ""]
    lines += ["## All the others", ""]
    for folder, paths in _folders():
        others = [path for path in paths if path.relative_to(PACKAGE).as_posix() not in spine]
        about = opening(folder / "__init__.py")
        title = folder.relative_to(ROOT).as_posix()
        lines += [f"**{title}/**: {about}", "", *map(_line, others), ""]
    return "\n".join(lines)


def _folders() -> Iterator[tuple[Path, list[Path]]]:
    """Each folder of the package with its modules, in reading order."""
    lessons = sorted(init.parent for init in PACKAGE.glob("course/lessons/*/__init__.py"))
    for folder in (*(PACKAGE / room for room in ROOMS), *lessons):
        yield folder, sorted(path for path in folder.glob("*.py") if path.name != "__init__.py")


def _line(path: Path) -> str:
    name = path.relative_to(PACKAGE).as_posix()
    return f"- [`{name}`]({name}) {opening(path)}"
