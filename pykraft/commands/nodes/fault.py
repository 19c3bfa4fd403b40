"""``fault``: do something to the requests of clients, at nodes that run as processes.

::

    server server.properties --faults FILE                   a node that looks into FILE for faults
    fault FILE --api Produce --drop answer --count 1         from now on: lose the answer to the next produce request
    fault FILE --api Fetch --topic flights --delay-ms 400    handle fetches of a topic later
    fault FILE --list                                        the faults, and which requests they have met
    fault FILE                                               the same
    fault FILE --clear                                       no faults any more

Several nodes may look into the same file; `--count` is for each of them. A node notices a change within a second.
`pykraft.broker.faults` explains what a fault may say; in a test, `Cluster.fault` does the same without a file.

The file is JSON: a list of faults, each with a number. A node writes what it has met into ``FILE.node-N``, a line for
each request. Apache Kafka has no such thing.
"""

import argparse
import json
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from pykraft.broker.faults import DROPS, Fault, make_fault
from pykraft.broker.node import Node
from pykraft.commands.common import CommandError, say

_CONDITIONS = ("api", "topic", "client_id", "error", "delay_ms", "drop", "count")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="that of 'server --faults FILE'")
    parser.add_argument("--list", action="store_true", help="show the faults, and what they have met")
    parser.add_argument("--clear", action="store_true", help="end all faults")
    parser.add_argument("--api", metavar="NAME", help="add one, for requests of this API: Produce, Fetch, ...")
    parser.add_argument("--topic", metavar="NAME", help="only requests about this topic")
    parser.add_argument("--client-id", metavar="ID", help="only requests of this client")
    parser.add_argument("--error", metavar="NAME", help="refuse them with this error: NOT_LEADER_OR_FOLLOWER, ...")
    parser.add_argument("--delay-ms", type=int, metavar="MS", help="handle them this much later")
    parser.add_argument("--drop", choices=DROPS, help="lose the request, or only its answer")
    parser.add_argument("--count", type=int, metavar="N", help="only the first N (default: all)")


def run(options: argparse.Namespace) -> int:
    """Add a fault, clear all, or show them."""
    said = {name: value for name in _CONDITIONS if (value := getattr(options, name)) is not None}
    if options.clear:
        if said:
            raise CommandError("--clear ends all faults: leave out the rest")
        _write(options.file, [])
    elif said:
        if "api" not in said:
            raise CommandError("--api NAME is missing: it says whose requests are meant")
        _made(said)
        known = read_faults(options.file)
        number = max((fault["number"] for fault in known), default=0) + 1
        _write(options.file, [*known, {"number": number, **said}])
        say(f"fault {number} is added")
    else:
        _show(options.file)
    return 0


def _made(said: dict[str, Any]) -> Fault:
    try:
        return make_fault(
            said["api"],
            said.get("topic"),
            said.get("client_id"),
            said.get("error"),
            said.get("delay_ms", 0),
            said.get("drop"),
            said.get("count"),
        )
    except ValueError as error:
        raise CommandError(str(error)) from None


def read_faults(file: Path) -> list[dict[str, Any]]:
    """The faults in a file; none if there is no file. CommandError if it is no such file."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        if not isinstance(found, list) or not all(isinstance(one["number"], int) and one["api"] for one in found):
            raise ValueError
    except FileNotFoundError:
        return []
    except (ValueError, TypeError, LookupError):
        raise CommandError(f"{file} holds no faults: it must be made by this command") from None
    return found


def _write(file: Path, faults: list[dict[str, Any]]) -> None:
    new = file.with_name(f"{file.name}.new")
    new.write_text(json.dumps(faults, indent=1) + "\n", encoding="utf-8")
    os.replace(new, file)


def _show(file: Path) -> None:
    met: dict[int, list[str]] = {}
    for path in sorted(file.parent.glob(f"{file.name}.node-*")):
        for line in path.read_text(encoding="utf-8").splitlines():
            entry = json.loads(line)
            topics = ", ".join(entry["topics"]) or "no topic"
            text = f"  node {entry['node']}: {entry['api']} {entry['version']} of {entry['client_id']!r} about {topics}"
            met.setdefault(entry["number"], []).append(text)
    for fault in read_faults(file):
        conditions = " ".join(f"{name}={fault[name]}" for name in _CONDITIONS if name in fault)
        found = met.get(fault["number"], [])
        say(f"fault {fault['number']}: {conditions}; has met {len(found)}")
        for line in found:
            say(line)


# --- at the node ------------------------------------------------------------------------------------------------------


class FaultFile:
    """Brings a node the faults of a file, as often as it is asked to look."""

    def __init__(self, file: Path, node_id: int, call: Callable[[Callable[[Node], None]], object]) -> None:
        """`call` lets a function be called with the node, in the node's own thread."""
        self._file = file
        self._node_id = node_id
        self._call = call
        self._seen: tuple[int, int] | None = None
        self._faults: dict[int, Fault] = {}
        self._told: dict[int, int] = {}
        self._path = file.with_name(f"{file.name}.node-{node_id}")
        with suppress(FileNotFoundError):
            self._path.unlink()

    def look(self) -> None:
        """Take what has changed in the file, and tell which requests were met. A file that cannot be read, or that
        says what makes no sense, changes nothing."""
        try:
            about = self._file.stat()
        except OSError:
            about = None
        stamp = None if about is None else (about.st_mtime_ns, about.st_ino)
        if stamp != self._seen:
            self._seen = stamp
            with suppress(CommandError, OSError):
                self._take(read_faults(self._file))
        self._tell()

    def _take(self, said: list[dict[str, Any]]) -> None:
        wanted = {one["number"]: one for one in said}
        for number in self._faults.keys() - wanted.keys():
            fault = self._faults.pop(number)
            self._call(lambda node, fault=fault: node.faults.remove(fault))  # type: ignore[misc]
        for number in wanted.keys() - self._faults.keys():
            fault = self._faults[number] = _made(wanted[number])
            self._call(lambda node, fault=fault: node.faults.add(fault))  # type: ignore[misc]

    def _tell(self) -> None:
        lines = list(self._new_lines())
        if lines:
            with suppress(OSError), self._path.open("a", encoding="utf-8") as file:
                file.writelines(lines)

    def _new_lines(self) -> Iterator[str]:
        for number, fault in self._faults.items():
            already = self._told.get(number, 0)
            for caught in fault.caught[already:]:
                entry = {
                    "number": number,
                    "node": caught.node_id,
                    "time_ms": caught.time_ms,
                    "client_id": caught.client_id,
                    "api": caught.api,
                    "version": caught.version,
                    "topics": sorted(caught.topics),
                }
                yield json.dumps(entry) + "\n"
                already += 1
            self._told[number] = already
