"""Reads what a module imports, without running it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

PACKAGE = "pykraft"


@dataclass(frozen=True)
class Import:
    """One imported name. `module` is absolute: `pykraft.records.batch`, `os.path`; `name` what `from` takes of it."""

    line: int
    module: str
    name: str = ""

    @property
    def root(self) -> str:
        return self.module.partition(".")[0]

    @property
    def layer(self) -> str:
        """For an import of ours, the folder or top-level module in pykraft: `records` for `pykraft.records.batch`.

        `from pykraft import X` names a layer too if X is one; the caller knows which names are.
        """
        parts = self.module.split(".")
        return parts[1] if len(parts) > 1 else self.name


def imports(nodes: Iterable[ast.AST], module: str, is_package: bool) -> Iterator[Import]:
    """Each import among the nodes of a file; `module` is the dotted name of the file itself."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (Import(node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = absolute(node, module, is_package)
            yield from (Import(node.lineno, base, alias.name) for alias in node.names)


def absolute(node: ast.ImportFrom, module: str, is_package: bool) -> str:
    """The module that `from ... import` names, its leading dots resolved."""
    if not node.level:
        return node.module or ""
    parts = module.split(".")
    kept = parts[: len(parts) - node.level + is_package]
    return ".".join([*kept, *([node.module] if node.module else [])])
