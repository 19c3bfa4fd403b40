"""The real code of a function or class, to be shown in a notebook: never a copy that could differ from what runs.

It is shown with the module's file, not with line numbers, which change with every edit above; a test compares what is
committed in a notebook with the current code (`current`). A page renders it as highlighted code.
"""

import ast
import inspect
import textwrap
from pathlib import Path
from types import CodeType, FrameType, FunctionType, MethodType, ModuleType, TracebackType

import pykraft
from pykraft.surroundings import Shown

MAX_LINES = 60
ROOT = Path(pykraft.__file__).resolve().parent.parent
Showable = ModuleType | type | MethodType | FunctionType | TracebackType | FrameType | CodeType


def shown_source(thing: object, docstring: bool = True) -> Shown:
    """The code of `thing`, with or without its docstring. ValueError if it is too long to be read in a notebook."""
    text = source_text(thing, docstring)
    place = _place(thing)
    lines = text.count("\n") + 1
    if lines > MAX_LINES:
        raise ValueError(f"{place} has {lines} lines: show one of its functions, or leave out its docstring")
    return Shown(f"# {place}\n{text}", markdown=f"`{place}`\n\n```python\n{text}\n```")


def source_text(thing: object, docstring: bool = True) -> str:
    """The lines of a function, method, property or class, without the indentation they have in their file."""
    text = textwrap.dedent(inspect.getsource(_function(thing))).rstrip()
    return text if docstring else _without_docstring(text)


def _function(thing: object) -> Showable:
    """What the code belongs to: a property's is its getter's."""
    found = thing.fget if isinstance(thing, property) else inspect.unwrap(thing) if callable(thing) else thing
    if not isinstance(found, Showable):
        raise TypeError(f"a {type(thing).__name__} has no code to show: name a function, a method or a class")
    return found


def _place(thing: object) -> str:
    """File and name, such as ``pykraft/client/producing/partitioner.py: murmur2``."""
    found = _function(thing)
    path = Path(inspect.getsourcefile(found) or "").resolve()
    shown = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name
    return f"{shown}: {getattr(found, '__qualname__', getattr(found, '__name__', ''))}"


def _without_docstring(text: str) -> str:
    (node,) = ast.parse(text).body
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) or not ast.get_docstring(node):
        return text
    first = node.body[0]
    lines = text.splitlines()
    kept = lines[: first.lineno - 1] + lines[first.end_lineno :]
    if len(node.body) == 1:
        kept.append("    ...")
    return "\n".join(kept)
