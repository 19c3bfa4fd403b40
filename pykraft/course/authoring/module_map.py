"""The map of the package: one line for each module, taken from the sentence that opens it.

A reader who wants to know how Kafka works should not begin at the top of a list of files. So the map has three parts.
The *spine* comes first: what a produce, a consumer's fetch and a follower's fetch enter on their way through a node, in
that order. The *branches* are what other requests enter besides. Then all other modules follow, room by room, in the
order in which one reads them. Spine and branches are traced: not what we think is on the way, but what is.

``python -m pykraft course map --write`` writes it into pykraft/README.md, and a test compares the two.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from pykraft.course.places import ROOT

PACKAGE = ROOT / "pykraft"
MAP = PACKAGE / "README.md"
COMMAND = "python -m pykraft course map --write"


class Way(NamedTuple):
    """The modules that one request enters on its way, and no request before it, in the order in which it enters them;
    cut into chapters. `request` is its name in `tests.harness.request_paths`, which traces it: a test compares."""

    request: str
    chapters: tuple[tuple[str, tuple[str, ...]], ...]

    @property
    def modules(self) -> list[str]:
        return [name for _, names in self.chapters for name in names]


SPINE: tuple[Way, ...] = (
    Way(
        "produce",
        (
            (
                "A produce. From the socket to a handler",
                (
                    "transport/server_connection.py",
                    "transport/frames.py",
                    "transport/server_channel.py",
                    "protocol/header.py",
                    "protocol/schema.py",
                    "protocol/primitives.py",
                    "runtime/fused.py",
                    "broker/node.py",
                    "broker/requests/dispatch.py",
                    "broker/turns/slices.py",
                ),
            ),
            (
                "A batch is judged",
                (
                    "broker/requests/data/produce.py",
                    "broker/requests/data/partitions.py",
                    "storage/validator.py",
                    "records/batch.py",
                ),
            ),
            (
                "The leader appends it",
                (
                    "broker/replication/replica_manager.py",
                    "broker/replication/partition.py",
                    "records/overview.py",
                    "storage/log.py",
                    "storage/leader_epoch_cache.py",
                    "storage/log_segments.py",
                    "storage/append_rules.py",
                    "storage/log_segment.py",
                    "storage/file_records.py",
                    "storage/disk/filesystem.py",
                    "storage/producer_state.py",
                ),
            ),
            (
                "It counts, and the answer leaves",
                (
                    "common/trace.py",
                    "broker/replication/topic_metrics.py",
                    "broker/replication/purgatory.py",
                    "broker/replication/delayed.py",
                    "transport/request_metrics.py",
                ),
            ),
            (
                "The turn of the loop ends",
                (
                    "common/timer.py",
                    "common/rooms.py",
                ),
            ),
        ),
    ),
    Way(
        "fetch",
        (
            (
                "A consumer fetches",
                (
                    "broker/requests/data/fetch.py",
                    "broker/requests/data/fetch_sessions.py",
                    "protocol/messages/data.py",
                    "broker/replication/fetching.py",
                ),
            ),
        ),
    ),
    Way(
        "follower fetch",
        (
            (
                "A follower fetches",
                (
                    "broker/requests/authorizer.py",
                    "broker/replication/follower_state.py",
                    "broker/replication/replication_quotas.py",
                ),
            ),
        ),
    ),
)
"""The way of a record, to be read first: it is appended, read, and copied."""

BRANCHES: tuple[Way, ...] = (
    Way(
        "create topic",
        (
            (
                "A topic is created: forwarded, planned, committed, published",
                (
                    "broker/requests/forwarding.py",
                    "controller/result.py",
                    "common/time_slice.py",
                    "common/core.py",
                    "broker/startup/controller_channel.py",
                    "broker/broker.py",
                    "raft/client.py",
                    "raft/replica.py",
                    "raft/quorum_state.py",
                    "broker/requests/envelope.py",
                    "protocol/api.py",
                    "broker/apis.py",
                    "controller/controller.py",
                    "broker/requests/cluster/admin.py",
                    "common/errors.py",
                    "broker/requests/cluster/controller.py",
                    "controller/change_queue.py",
                    "controller/partitions/topics.py",
                    "metadata/settings.py",
                    "metadata/image.py",
                    "common/settings/config.py",
                    "common/settings/topic_config.py",
                    "common/settings/java_text.py",
                    "controller/partitions/placement.py",
                    "common/types.py",
                    "metadata/delta.py",
                    "metadata/versions.py",
                    "protocol/messages/records.py",
                    "raft/log/accumulator.py",
                    "records/builder.py",
                    "records/varint.py",
                    "records/record.py",
                    "controller/partitions/brokers_to_isrs.py",
                    "metadata/loader.py",
                    "controller/heartbeats.py",
                    "controller/periodic.py",
                    "raft/reading.py",
                    "raft/leader_state.py",
                    "records/compression.py",
                    "raft/log/replicated_log.py",
                    "raft/log/state_machine.py",
                    "raft/log/voters.py",
                    "raft/log/history.py",
                    "storage/disk/flushes.py",
                    "common/metrics.py",
                    "broker/settings/live_settings.py",
                    "storage/upkeep/log_directories.py",
                    "storage/upkeep/log_manager.py",
                    "broker/replication/directory_assignments.py",
                    "broker/coordination/coordinators.py",
                    "broker/coordination/group_topics.py",
                    "coordinator/runtime.py",
                    "coordinator/group/consumer_groups/consumer_heartbeat.py",
                    "coordinator/group/consumer_groups/pattern_refresh.py",
                    "broker/coordination/transactions.py",
                    "broker/coordination/transaction_markers.py",
                    "broker/requests/quota_managers.py",
                    "protocol/messages/admin.py",
                    "broker/requests/long_answers.py",
                    "metadata/snapshot_generator.py",
                    "raft/requests.py",
                    "controller/features.py",
                    "broker/startup/controller_registration.py",
                    "broker/startup/lifecycle.py",
                    "coordinator/replay_turn.py",
                ),
            ),
        ),
    ),
    Way(
        "join group",
        (
            (
                "A member joins a classic group",
                (
                    "broker/requests/coordinators/groups.py",
                    "coordinator/shard_writer.py",
                    "coordinator/shard_timer.py",
                    "coordinator/group/shard.py",
                    "coordinator/group/classic_groups/classic.py",
                    "coordinator/group/classic_groups/classic_group.py",
                    "coordinator/result.py",
                    "coordinator/group/consumer_protocol.py",
                ),
            ),
        ),
    ),
    Way(
        "consumer heartbeat",
        (
            (
                "A member of a consumer group (KIP-848) sends a heartbeat",
                (
                    "coordinator/group/consumer_groups/consumer_membership.py",
                    "coordinator/group/consumer_groups/consumer_group.py",
                    "coordinator/group/consumer_groups/consumer_group_member.py",
                    "coordinator/group/consumer_groups/consumer_sessions.py",
                    "coordinator/group/consumer_groups/target_computation.py",
                ),
            ),
        ),
    ),
    Way(
        "end transaction",
        (
            (
                "A transaction is committed",
                (
                    "broker/requests/coordinators/transactions.py",
                    "coordinator/transaction/shard.py",
                    "coordinator/transaction/ending.py",
                    "coordinator/transaction/state.py",
                    "protocol/messages/coordinators.py",
                    "coordinator/replay.py",
                    "broker/requests/data/markers.py",
                    "records/markers.py",
                ),
            ),
        ),
    ),
)
"""Where other requests leave the spine."""

ROOMS = (
    *("records", "protocol", "protocol/messages", "storage", "storage/upkeep", "storage/disk"),
    *("transport", "security", "network", "runtime"),
    *("broker", "broker/turns", "broker/requests", "broker/requests/data", "broker/requests/coordinators"),
    *("broker/requests/cluster", "broker/replication", "broker/coordination", "broker/startup", "broker/settings"),
    *("raft", "raft/log", "metadata", "controller", "controller/access", "controller/partitions"),
    *("coordinator", "coordinator/group", "coordinator/group/consumer_groups", "coordinator/group/classic_groups"),
    *("coordinator/transaction", "client", "client/producing", "client/consuming", "client/administration"),
    *("common", "common/settings", "common/quotas", "common/assignors"),
    *("sim", "sim/world", "sim/trouble", "sim/workloads", "sim/foreign", "sim/laws", "sim/bugs", "sim/search", "story"),
    *("", "commands", "commands/nodes", "commands/records", "commands/administration"),
    *("commands/groups_and_transactions", "commands/log_files", "commands/learning"),
    *("spark", "spark/reading", "spark/writing"),
    *("viz", "viz/drawing", "viz/boards", "viz/logs", "viz/wire", "viz/clients"),
    *(
        "viz/groups",
        "viz/player",
        "viz/measured",
        "course",
        "course/asking",
        "course/labs",
        "course/authoring",
        "course/rigs",
        "course/incidents",
        "course/lessons",
    ),
)
"""All rooms in the order in which one reads them. The folders of single lessons follow at the end."""

_HEAD = f"""# The modules of pykraft

One line for each module: the sentence that opens it. Each module begins with its theory, so open it and read on. This
page is made by `{COMMAND}`.

[ARCHITECTURE.md](ARCHITECTURE.md) explains in half an hour how the parts work together, and why they are built so.
"""


_BEGINNING = re.compile(r'(?:#[^\n]*\n|\s)*"""(?:[^"\\]|\\.|"(?!""))*"""', re.DOTALL)
"""What a module has before its first statement. To parse all of it takes a hundred times as long."""


def opening(path: Path) -> str:
    """The first sentence of a module's docstring, on one line."""
    text = path.read_text(encoding="utf-8")
    begins = _BEGINNING.match(text)
    text = ast.get_docstring(ast.parse(begins[0] if begins else text)) or ""
    paragraph = " ".join(text.split("\n\n")[0].split())
    first, dot, rest = paragraph.partition(". ")
    return first + dot.strip() if rest else paragraph


def module_map() -> str:
    """The whole page, in Markdown."""
    ways = {name for way in (*SPINE, *BRANCHES) for name in way.modules}
    lines = [_HEAD]
    for heading, part in (
        ("The spine: read these first, in this order", SPINE),
        ("Branches: where other requests leave the spine", BRANCHES),
    ):
        lines += [f"## {heading}", ""]
        for title, names in (chapter for way in part for chapter in way.chapters):
            lines += [f"**{title}**", "", *(_line(PACKAGE / name) for name in names), ""]
    lines += ["## All the others", ""]
    for folder, paths in _folders():
        others = [path for path in paths if path.relative_to(PACKAGE).as_posix() not in ways]
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
