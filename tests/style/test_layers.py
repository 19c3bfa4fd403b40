"""The house plan: which folder of pykraft may import which, and what no core may touch.

A core (a folder above the two edges) has no thread, no socket, no clock, no randomness and no file: time, chance and
disk are handed to it. That is what lets one and the same node run on a simulated network and on a real one, and it is
kept by looking at every import, also those inside functions and those for type checkers only.

A folder or top-level module that the table does not name is an error: a new one gets a row that says what it may know.
"""

from __future__ import annotations

import ast
import pathlib
import sys
from collections.abc import Iterable, Iterator
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

import pytest

from tests.harness.tree import ROOT
from tests.style.imports import PACKAGE, Import, imports
from tests.style.sources import nodes_of

CORES = {
    "common": "",
    "protocol": "common",
    "records": "common",
    "security": "common",
    "transport": "common protocol security",
    "storage": "common records",
    "raft": "common protocol records storage",
    "metadata": "common protocol records raft",
    "controller": "common protocol security raft metadata",
    "coordinator": "common protocol records",
    "broker": "common protocol records security transport storage raft metadata controller coordinator",
    "client": "common protocol records security transport",
}
EDGES = {
    "sim": " ".join(CORES),
    "network": "common protocol security transport",
    "runtime": " ".join(CORES) + " network",
}
FACADES = (
    *(
        "__init__",
        "__main__",
        "cli",
        "commands",
        "cluster",
        "cluster_arguments",
        "cluster_files",
        "cluster_internal_topics",
        "cluster_users",
        "cluster_view",
        "timeouts",
        "extras",
        "surroundings",
        "moved",
    ),
    *("producer", "consumer", "admin", "simulation", "story", "pytest_plugin", "errors"),
)
ON_TOP = ("spark", "viz", "course", "datasets")
EVERYTHING = {*CORES, *EDGES, *FACADES, *ON_TOP}

TABLE: dict[str, set[str]] = {
    **{layer: set(below.split()) for layer, below in {**CORES, **EDGES}.items()},
    **dict.fromkeys((*FACADES, *ON_TOP), EVERYTHING),
}

NOT_IN_A_CORE = {
    "a clock": "time datetime sched calendar",
    "randomness": "random secrets uuid",
    "a thread or a process": "threading _thread queue multiprocessing concurrent subprocess signal asyncio",
    "a socket": "socket selectors select ssl socketserver http urllib",
    "a file or the system": "os io pathlib shutil tempfile glob mmap fcntl sys platform importlib",
}
# Within the course: the lesson knows no single notebook, and nothing that a reader runs needs an author's tool.
COURSE = {
    "top": {"labs", "asking"},
    "asking": {"top"},
    "labs": {"top", "asking"},
    "rigs": {"top"},
    "lessons": {"top", "rigs"},
    "authoring": {"top", "labs", "asking"},
}
FORBIDDEN = {module: kind for kind, modules in NOT_IN_A_CORE.items() for module in modules.split()}
# A path that is only a name, a buffer that is no file, a holder of a value, the type of what is handed in.
HARMLESS = {("pathlib", "PurePosixPath"), ("io", "BytesIO"), ("concurrent.futures", "Future"), ("random", "Random")}
CALLS = {"open": "a core opens no file", "Random": "a core is handed its Random"}
# The disk's own file may use the system: it implements the port that all others are handed.
EXEMPT = {
    "storage/disk/filesystem.py": {"os", "fcntl"},
    "storage/disk/open_files.py": {
        "os",
        "resource",
        "threading",
    },  # descriptors are the process's, so its threads share them
}
# Everything else in cores and edges stands on the standard library alone.
WHEELS = {"records": {"crc32c", "lz4", "zstandard", "cramjam", "mypy_extensions"}, "coordinator": {"re2"}}
# Only type checkers look for this one.
WHEELS["client"] = {"typing_extensions"}


def violations(path: str, text: str) -> Iterator[str]:
    """What is wrong with the imports of one module; `path` is relative to pykraft/, as in `storage/log.py`."""
    parts = pathlib.PurePosixPath(path).with_suffix("").parts
    layer = parts[0]
    if layer not in TABLE:
        yield f"{path}: {layer} is not in the table of layers"
        return
    is_package = parts[-1] == "__init__"
    module = ".".join([PACKAGE, *(parts[:-1] if is_package else parts)])
    nodes = nodes_of(text)
    for found in imports(nodes, module, is_package):
        problem = problem_with(found, path, layer)
        if problem:
            yield f"{path}:{found.line}: {problem}"
    if layer in CORES and path not in EXEMPT:
        yield from (f"{path}:{line}: {problem}" for line, problem in wrong_calls(nodes))


def problem_with(found: Import, path: str, layer: str) -> str:
    if found.root == PACKAGE:
        target = found.layer if found.layer in EVERYTHING else "__init__"
        return "" if target == layer or target in TABLE[layer] else f"{layer} may not import {target}"
    if layer not in CORES and layer not in EDGES:
        return ""
    if found.root in sys.stdlib_module_names:
        harmless = (found.module, found.name) in HARMLESS or found.root in EXEMPT.get(path, ())
        if layer in CORES and found.root in FORBIDDEN and not harmless:
            return f"{found.root} is {FORBIDDEN[found.root]}: a core is handed such things"
        return ""
    return "" if found.root in WHEELS.get(layer, ()) else f"{layer} may not import the package {found.root}"


def wrong_calls(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CALLS:
            yield node.lineno, CALLS[node.func.id]


def modules() -> list[pathlib.Path]:
    return sorted((ROOT / PACKAGE).rglob("*.py"))


def test_every_import_goes_up_the_table() -> None:
    base = ROOT / PACKAGE
    found = [v for path in modules() for v in violations(path.relative_to(base).as_posix(), path.read_text())]
    assert not found, "\n".join(found)


def test_each_folder_of_the_course_imports_only_what_its_row_allows() -> None:
    base = ROOT / PACKAGE / "course"
    wrong = []
    for path in base.rglob("*.py"):
        own = course_folder(path.relative_to(base).parts)
        module = ".".join((PACKAGE, *path.relative_to(base.parent).with_suffix("").parts))
        for found in imports(nodes_of(path.read_text()), module, path.name == "__init__.py"):
            if (found.module + ".").startswith(f"{PACKAGE}.course."):
                target = course_folder((*found.module.split(".")[2:], found.name))
                wrong += [f"{module}:{found.line}: {target}"] if target not in {own, *COURSE[own]} else []
    assert not wrong, "\n".join(wrong)


def course_folder(parts: tuple[str, ...]) -> str:
    return parts[0] if parts[0] in COURSE else "top"


def packages() -> list[str]:
    """The packages that hold other packages or modules, by dotted name."""
    return sorted(".".join(path.parent.relative_to(ROOT).parts) for path in (ROOT / PACKAGE).rglob("__init__.py"))


def arrows() -> dict[str, set[str]]:
    """What each module imports of ours, wherever in its text, by dotted names; a package's own file is `x.__init__`."""
    names = {".".join(path.relative_to(ROOT).with_suffix("").parts) for path in modules()}
    found: dict[str, set[str]] = {}
    for path in modules():
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        own = name.removesuffix(".__init__")
        for one in imports(nodes_of(path.read_text()), own, path.name == "__init__.py"):
            places = (
                f"{one.module}.{one.name}",
                f"{one.module}.{one.name}.__init__",
                one.module,
                f"{one.module}.__init__",
            )
            found.setdefault(name, set()).update([place for place in places if place in names][:1])
    return found


def rooms_with_arrows(package: str, found: dict[str, set[str]]) -> dict[str, dict[str, str]]:
    """Of each room (a folder as a whole, or a module) in `package`: which others it imports, with an example."""

    def room(name: str) -> str | None:
        inside = name.removeprefix(f"{package}.")
        return inside.partition(".")[0] if inside != name else None

    rooms: dict[str, dict[str, str]] = {}
    for name, imported in found.items():
        for other in imported:
            one, two = room(name), room(other)
            if one and two and one != two:
                rooms.setdefault(one, {}).setdefault(two, f"{name} imports {other}")
    return rooms


def circle(rooms: dict[str, dict[str, str]]) -> list[str]:
    """The imports that lead in a circle through rooms, one for each step; none if there is no circle."""
    try:
        TopologicalSorter({room: others.keys() for room, others in rooms.items()}).prepare()
    except CycleError as error:
        steps = error.args[1]
        return [rooms[importer][imported] for imported, importer in pairwise(steps)]
    return []


@pytest.fixture(scope="module")
def all_arrows() -> dict[str, set[str]]:
    return arrows()


@pytest.mark.parametrize("package", packages())
def test_no_arrow_leads_back(package: str, all_arrows: dict[str, set[str]]) -> None:
    """The rooms and modules of a package stand in an order in which each imports only what stands before it."""
    assert circle(rooms_with_arrows(package, all_arrows)) == []


def test_a_circle_is_found() -> None:
    found = {
        "pykraft.broker.node": {"pykraft.broker.requests.dispatch"},
        "pykraft.broker.requests.dispatch": {"pykraft.broker.turns.slices", "pykraft.common.core"},
        "pykraft.broker.turns.slices": {"pykraft.common.core"},
    }
    assert circle(rooms_with_arrows("pykraft.broker", found)) == []
    found["pykraft.broker.turns.chores"] = {"pykraft.broker.requests.envelope"}
    assert sorted(circle(rooms_with_arrows("pykraft.broker", found))) == [
        "pykraft.broker.requests.dispatch imports pykraft.broker.turns.slices",
        "pykraft.broker.turns.chores imports pykraft.broker.requests.envelope",
    ]
    assert circle(rooms_with_arrows("pykraft", found)) == []


def test_the_table_has_no_circle() -> None:
    """Between cores and edges a layer may know only layers that stand before it."""
    order = [*CORES, "network", "runtime", "sim"]
    late = [(a, b) for a in order for b in TABLE[a] if order.index(b) >= order.index(a)]
    assert not late


@pytest.mark.parametrize(
    ("path", "text", "complaint"),
    [
        ("raft/client.py", "from pykraft.broker.node import Node", "raft may not import broker"),
        ("raft/client.py", "from pykraft import broker", "raft may not import broker"),
        ("raft/client.py", "import pykraft.broker.node", "raft may not import broker"),
        ("raft/client.py", "from ..broker import node", "raft may not import broker"),
        ("raft/__init__.py", "from ..broker import node", "raft may not import broker"),
        ("raft/client.py", "from .. import broker", "raft may not import broker"),
        ("raft/client.py", "from pykraft import Cluster", "raft may not import __init__"),
        ("raft/client.py", "import pykraft", "raft may not import __init__"),
        ("raft/client.py", "def f():\n    from pykraft.network import client", "raft may not import network"),
        ("runtime/loop.py", "from pykraft.sim.world import disk", "runtime may not import sim"),
        ("runtime/loop.py", "from pykraft.cluster import Cluster", "runtime may not import cluster"),
        ("client/producing/sender.py", "from pykraft.storage.log import Log", "client may not import storage"),
        ("network/selector.py", "from pykraft.records.batch import Batch", "network may not import records"),
        ("broker/node.py", "import time", "time is a clock"),
        ("broker/node.py", "from time import monotonic", "time is a clock"),
        ("broker/node.py", "import os.path", "os is a file or the system"),
        ("broker/node.py", "from pathlib import Path", "pathlib is a file"),
        ("broker/node.py", "from concurrent.futures import ThreadPoolExecutor", "concurrent is a thread"),
        ("broker/node.py", "from random import Random\nchance = Random(1)", "a core is handed its Random"),
        ("broker/node.py", "if TYPE_CHECKING:\n    import random", "random is randomness"),
        ("storage/log.py", "import os", "os is a file or the system"),
        ("storage/log.py", "data = open('x')", "a core opens no file"),
        ("storage/disk/filesystem.py", "import threading", "threading is a thread or a process"),
        ("broker/node.py", "import numpy as np", "broker may not import the package numpy"),
        ("protocol/header.py", "import crc32c", "protocol may not import the package crc32c"),
        ("gossip/member.py", "", "gossip is not in the table of layers"),
        ("helpers.py", "", "helpers is not in the table of layers"),
    ],
)
def test_a_wrong_import_is_seen(path: str, text: str, complaint: str) -> None:
    assert [v for v in violations(path, text) if complaint in v]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("raft/client.py", "from pykraft.raft.quorum_state import QuorumState"),
        ("raft/client.py", "from . import quorum_state"),
        ("raft/client.py", "from ..storage.log import Log"),
        ("raft/client.py", "from pathlib import PurePosixPath"),
        ("raft/client.py", "from random import Random\ndef f(chance: Random) -> None: ..."),
        ("records/crc32c.py", "import crc32c"),
        ("storage/disk/filesystem.py", "import os\ndef f(path): return open(path)"),
        ("sim/world/disk.py", "import random\nfrom pykraft.broker.node import Node"),
        ("network/selector.py", "import socket"),
        ("cluster.py", "from pykraft.runtime.threaded import NodeThread"),
        ("__init__.py", "from pykraft.cluster import Cluster"),
        ("spark/reading/decode.py", "import numpy\nfrom pykraft import Admin"),
        ("common/core.py", "from concurrent.futures import Future"),
    ],
)
def test_a_right_import_passes(path: str, text: str) -> None:
    assert not list(violations(path, text))
