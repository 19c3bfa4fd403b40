"""An assert only looks: ``python -O`` leaves it out, and the code must do the same without it."""

from __future__ import annotations

import ast

from tests.harness.tree import ROOT
from tests.style.sources import nodes_of

CHANGES = {"add", "append", "clear", "close", "discard", "extend", "insert", "keep", "pop", "popitem", "popleft"}
CHANGES |= {"put", "remove", "send", "setdefault", "update", "write"}


def effects(source: str) -> list[str]:
    """The conditions of asserts that change something."""
    asserts = [node.test for node in nodes_of(source) if isinstance(node, ast.Assert)]
    return [
        ast.unparse(condition)
        for condition in asserts
        for node in ast.walk(condition)
        if isinstance(node, ast.NamedExpr)
        or (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGES)
    ]


def test_an_effect_is_seen() -> None:
    source = "assert queue.popleft() is waiting\nassert (found := find())\nassert len(queue) == 1"
    assert effects(source) == ["queue.popleft() is waiting", "(found := find())"]


def test_no_assert_of_the_product_changes_anything() -> None:
    files = sorted((ROOT / "pykraft").rglob("*.py"))
    assert files
    found = {str(file.relative_to(ROOT)): effects(file.read_text()) for file in files}
    assert {name: conditions for name, conditions in found.items() if conditions} == {}
