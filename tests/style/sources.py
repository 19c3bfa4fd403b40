"""Sources as trees. Several tests read all modules of pykraft: each text is parsed once, and walked through once.

Python's collector is off while a tree grows, and does not visit it later: a tree has no circles, and a million nodes
that stay would be visited again and again.
"""

from __future__ import annotations

import ast
import gc
from functools import cache


@cache
def tree_of(text: str) -> ast.Module:
    """The tree of a source. All tests share it, so none changes it."""
    gc.disable()
    try:
        return ast.parse(text)
    finally:
        gc.freeze()
        gc.enable()


@cache
def nodes_of(text: str) -> tuple[ast.AST, ...]:
    """All nodes of a source, in the order of `ast.walk`."""
    return tuple(ast.walk(tree_of(text)))
