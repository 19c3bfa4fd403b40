"""What pykraft/ARCHITECTURE.md says of the code, so that a test can compare the two.

* A *reference* is a link to a Python file. Its text is the file's own path, or a name that stands in the file:
  ``[`Partition.update`](broker/replication/partition.py)``.
* A *drawing* stands between two comments. That of the layers is made from the table of `test_layers`. In that of the
  calls each function names the one that stands below it, one step further to the right.

``python -m tests.style.architecture`` writes the drawing of the layers into the page.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from textwrap import fill
from typing import NamedTuple

from tests.harness.tree import ROOT
from tests.style.test_layers import CORES, EDGES, FACADES, ON_TOP

PAGE = ROOT / "pykraft" / "ARCHITECTURE.md"

_LINK = re.compile(r"\[([^\]]+)\]\(([^)\s]+)\)")
_CODE = re.compile(r"`([^`\n]+)`")
_QUALIFIED = re.compile(r"_?[A-Z]\w*\.\w+")
_CALL = re.compile(r"(?P<indent> *)(?P<through>\* )?(?P<name>[\w.]+) +(?P<path>[\w/]+\.py)")
_STEP = 2
"""Columns by which a call stands further to the right than its caller."""


class Call(NamedTuple):
    """A line of the drawing of calls. `is_direct` is False if the caller reaches it through a table or a port."""

    depth: int
    name: str
    path: str
    is_direct: bool


# --- references -------------------------------------------------------------------------------------------------------


def links(text: str) -> Iterator[tuple[str, str]]:
    """(text, target) of each link that leads to a file or to a heading, outside of drawings."""
    return ((label, target) for label, target in _LINK.findall(_without_blocks(text)) if "://" not in target)


def wrong_links(text: str, folder: Path = PAGE.parent) -> Iterator[str]:
    """What is wrong with the links of a page that stands in this folder."""
    slugs = set(headings(text))
    for label, target in links(text):
        if target.startswith("#"):
            if target[1:] not in slugs:
                yield f"there is no heading {target}"
            continue
        path = folder / target
        if not path.exists():
            yield f"{target} does not exist"
        elif path.suffix == ".py":
            problem = problem_with(label, path)
            if problem:
                yield f"[{label}]({target}): {problem}"


def problem_with(label: str, path: Path) -> str:
    """What is wrong with a link of this text to a Python file; empty if nothing is."""
    name = label.strip("`")
    if label != f"`{name}`":
        return "the text of a link to code is a name in backticks"
    if "/" in name:
        return "" if path.as_posix().endswith(f"/{name}") else "the text names another file"
    return "" if name in definitions(path) else f"there is no {name} in the file"


def unlinked(text: str) -> Iterator[str]:
    """Names like `Partition.update` that no link leads to: they could name what is gone."""
    prose = _LINK.sub("", _without_blocks(text))
    return (name for name in _CODE.findall(prose) if _QUALIFIED.fullmatch(name))


def headings(text: str) -> Iterator[str]:
    """The anchors of a page, as they are made from its headings."""
    for line in _without_blocks(text).splitlines():
        if line.startswith("#"):
            yield re.sub(r"[^\w -]", "", line.lstrip("# ").lower()).replace(" ", "-")


def _without_blocks(text: str) -> str:
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


@cache
def definitions(path: Path) -> dict[str, ast.AST]:
    """The classes, functions, methods and module-wide values of a file, by their names: `f`, `C`, `C.f`."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return dict(_defined(tree.body, ""))


def _defined(body: Iterable[ast.stmt], prefix: str) -> Iterator[tuple[str, ast.AST]]:
    for node in body:
        match node:
            case ast.ClassDef():
                yield prefix + node.name, node
                yield from _defined(node.body, f"{prefix}{node.name}.")
            case ast.FunctionDef():
                yield prefix + node.name, node
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)) if not prefix:
                yield name, node


# --- drawings ---------------------------------------------------------------------------------------------------------


def drawing(text: str, name: str) -> str:
    """What stands in the page as the drawing of this name."""
    found = re.search(rf"<!-- drawing: {name} -->\n(.*?)<!-- end of drawing -->", text, re.DOTALL)
    assert found, f"there is no drawing {name}"
    return found[1]


def layers() -> str:
    """The drawing of the layers."""
    every = set(CORES)
    lines = [_row(layer, below.split()) for layer, below in CORES.items()]
    lines += ["", "the two edges: they hand the cores time, chance, a network and a disk", ""]
    for layer, below in EDGES.items():
        known = below.split()
        others = [each for each in known if each not in every]
        lines.append(_row(layer, ["every core", *others] if every <= set(known) else known))
    names = [name for name in (*FACADES, *ON_TOP) if not name.startswith("__")]
    lines += ["", "what people call: these may import everything, and nothing above imports them", ""]
    lines.append(fill(", ".join(names), 100, initial_indent="  ", subsequent_indent="  "))
    return "\n".join(["```", *lines, "```", ""])


def _row(layer: str, below: list[str]) -> str:
    return f"  {layer:<12}<- {', '.join(below) or 'nothing'}"


def calls(text: str) -> list[Call]:
    """The lines of the drawing of calls."""
    found = []
    for line in drawing(text, "calls").splitlines():
        if line.startswith("```"):
            continue
        match = _CALL.fullmatch(line.rstrip())
        assert match, f"no call: {line!r}"
        depth = len(match["indent"]) // _STEP
        found.append(Call(depth, match["name"], match["path"], match["through"] is None))
    return found


def wrong_calls(found: Iterable[Call]) -> Iterator[str]:
    """What is wrong with a drawing of calls."""
    callers: list[Call] = []
    for call in found:
        path = PAGE.parent / call.path
        if not path.exists() or call.name not in definitions(path):
            yield f"there is no {call.name} in {call.path}"
            continue
        if call.depth > len(callers):
            yield f"{call.name} stands too far to the right"
            continue
        del callers[call.depth :]
        if callers and call.is_direct and call.name.rpartition(".")[2] not in _named(callers[-1]):
            yield f"{callers[-1].name} does not name {call.name}"
        callers.append(call)


def _named(call: Call) -> set[str]:
    """All names that a function speaks of."""
    nodes = list(ast.walk(definitions(PAGE.parent / call.path)[call.name]))
    return {each.attr for each in nodes if isinstance(each, ast.Attribute)} | {
        each.id for each in nodes if isinstance(each, ast.Name)
    }


def main() -> None:
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(text.replace(f"-->\n{drawing(text, 'layers')}<!--", f"-->\n{layers()}<!--", 1), encoding="utf-8")


if __name__ == "__main__":
    main()
