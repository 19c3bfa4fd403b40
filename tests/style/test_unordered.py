"""A simulated history is the same on every machine: what runs in one goes through no set in the order of its hashes."""

from __future__ import annotations

import ast

import pytest

from tests.harness.tree import ROOT, project_files
from tests.style.sources import nodes_of, tree_of
from tests.style.unordered import declared_sets, unordered

OUTSIDE = {"spark", "viz", "course", "commands", "network", "runtime"}
"""Packages of pykraft that run in no history: viewers, programs, and the real world, which the simulator replaces."""
RIGHT = """
for name in sorted({"a", "b"}): print(name)
count = len({1, 2}) + sum(x for x in {1, 2}) + max(map(abs, {1, 2}))
known: set[str] = set()
other = {*known, "c"}
for each in known: print(each)  # in any order: they are counted
for key in {"a": 1}.keys(): print(key)
dice = Random(f"nodes {seed}"), Random(7)
"""
WRONG = """
for name in {"a", "b"}: print(name)
found = [name for name in known.keys() - others]
first = next(iter(frozenset(names)))
text = ", ".join(self.topics)
most = max({1, 2}, key=weight)
def go(given: frozenset[int]): return [*given]
held = dict.fromkeys({1, 2}.difference(found))
one = {1}.pop()
order = hash("a")
names = sorted(found, key=id)
dice = Random(random.random())
dice = Random((1, 2))
pairs = list(map(str, {1, 2}))
"""


def test_what_runs_in_a_history_goes_through_no_set_in_the_order_of_its_hashes() -> None:
    paths = [path for path in project_files() if path.parts[0] == "pykraft" and path.suffix == ".py"]
    texts = {path: (ROOT / path).read_text(encoding="utf-8") for path in paths if path.parts[1] not in OUTSIDE}
    declared = declared_sets(map(nodes_of, texts.values()))
    problems = [
        problem for path, text in texts.items() for problem in unordered(str(path), text, tree_of(text), declared)
    ]
    assert not problems, "sort it, or say in a comment why it is right in any order:\n" + "\n".join(problems)


@pytest.mark.parametrize("line", RIGHT.strip().split("\n"))
def test_an_order_that_does_not_matter_is_no_problem(line: str) -> None:
    assert not _found(f"known: set[str] = set()\n{line}")


@pytest.mark.parametrize("line", WRONG.strip().split("\n"))
def test_an_order_of_hashes_is_found(line: str) -> None:
    assert len(_found(line)) == 1


def _found(text: str) -> list[str]:
    return list(unordered("m.py", text, tree_of(text), {"topics": True}))


def test_each_producer_of_the_simulator_compresses_without_a_library() -> None:
    encoders = [
        [argument.id for argument in node.args if isinstance(argument, ast.Name)][-1]
        for path in sorted((ROOT / "pykraft" / "sim").rglob("*.py"))
        for node in nodes_of(path.read_text(encoding="utf-8"))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "ProducerCore"
    ]
    assert encoders == ["encode"] * 4
