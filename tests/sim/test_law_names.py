"""Every place that finds a violation belongs to a law with a name, and an error leads to it."""

from __future__ import annotations

import ast
import pathlib
from collections.abc import Iterator

from pykraft.sim.laws.invariants import CommittedLog, ReplicaLog, Violation
from pykraft.sim.laws.names import LAWS, OWN, SITES, law_of
from tests.harness.tree import ROOT

FINDS = ("require", "Violation")


def finders(path: pathlib.Path) -> Iterator[str]:
    """The qualified names of the functions in a file that find violations."""

    def walk(node: ast.AST, names: tuple[str, ...]) -> Iterator[str]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                yield from walk(child, (*names, child.name))
            elif isinstance(child, ast.Call) and isinstance(child.func, ast.Name) and child.func.id in FINDS:
                yield ".".join(names)
            else:
                yield from walk(child, names)

    return walk(ast.parse(path.read_text("utf-8")), ())


def test_each_place_that_finds_a_violation_has_a_law_and_each_law_a_place() -> None:
    found = {name for path in (ROOT / "pykraft/sim").rglob("*.py") for name in finders(path)} - {"require"}
    assert found == SITES.keys()
    assert set(SITES.values()) | {OWN} == LAWS.keys()


def found_by_log_matching() -> Violation:
    log, replica = CommittedLog("log"), ReplicaLog("replica")
    replica.ends, replica.epochs, replica.hashes = [1], [0], [b"one"]
    log.check_matching(replica, range(1))
    replica.hashes = [b"other"]
    try:
        log.check_matching(replica, range(1))
    except Violation as violation:
        return violation
    raise AssertionError("two logs differ, and no law is broken")


def test_the_law_of_an_error_is_that_of_the_innermost_place() -> None:
    violation = found_by_log_matching()
    assert law_of(violation) == "Log Matching"
    try:
        raise RuntimeError("a node ends") from violation
    except RuntimeError as wrapped:
        assert law_of(wrapped) == "Log Matching"
    assert law_of(AssertionError("a node's own")) == OWN
