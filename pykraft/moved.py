"""The modules that have moved, and the way to their new places for whatever names them.

``moved.tsv`` beside this file has a line for each module or package that moved: old dotted name, tab, new one. ::

    python -m pykraft.moved FOLDER ...

rewrites the files below these folders that name an old module, and prints which: Python, notebooks, patches, texts. It
knows a module in four forms.

- A dotted name, alone or before the name of something inside: ``pykraft.server.node.Node``, also within a string.
- An import of modules from their package: ``from pykraft.server import faults, slices``. Where the modules have parted,
  the import becomes one for each new package.
- A path: ``pykraft/server/node.py``, or in a text ``server/node.py``.
- The short form of texts, in backquotes: `server.node`.

No module has a name that another one had, so a second run changes nothing. Files that are not UTF-8 are left alone.
Relative imports are not looked at: pykraft has none. The old names stay in the table for one release.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

TABLE = Path(__file__).with_suffix(".tsv")
ENDINGS = frozenset(
    {"cfg", "html", "ini", "ipynb", "js", "json", "md", "patch", "py", "pyi", "rst", "sh", "toml", "txt", "yml"}
)
"""Of the files that are looked into, besides those without an ending."""
NOT_ENTERED = frozenset({".git", ".venv", "build", "node_modules", "__pycache__"})
EXAMPLES = "moved.py"
"""This file has old names as examples, and so have its tests."""

_IMPORT = re.compile(
    r"\bfrom\s+(?P<package>(?:pykraft|tests)(?:\.\w+)*)\s+import\s+"
    r"(?:\((?P<many>[^()]*?)\)|(?P<one>\w+(?:[ ]+as[ ]+\w+)?(?:,[ ]*\w+(?:[ ]+as[ ]+\w+)?)*))"
)
_DOTTED = re.compile(r"(?<![\w./-])(?:pykraft|tests)(?:\.\w+)+")
_PATH = re.compile(r"(?<![\w.-])(?P<root>pykraft/|tests/)(?P<rest>\w+(?:/\w+)*)(?P<ending>\.py\b)?")
_SHORT_PATH = re.compile(r"(?<![\w./-])(?P<rest>\w+(?:/\w+)+)\.py\b")
_SHORT = re.compile(r"(?<=`)(?P<rest>[a-z_0-9]+(?:\.\w+)+)(?=`)")


def moved() -> dict[str, str]:
    """The table: old dotted name to new one."""
    lines = TABLE.read_text(encoding="utf-8").splitlines()
    return dict(line.split("\t") for line in lines)


def rewritten(text: str, table: Mapping[str, str]) -> str:
    """`text` with the new names in place of the old ones."""

    def renamed(dotted: str) -> str:
        """The new form of a dotted name, which may go on behind the module's: the longest old name in it counts."""
        parts = dotted.split(".")
        for length in range(len(parts), 1, -1):
            if new := table.get(".".join(parts[:length])):
                return ".".join([new, *parts[length:]])
        return dotted

    def path(match: re.Match[str]) -> str:
        old = (match["root"] + match["rest"]).replace("/", ".")
        return renamed(old).replace(".", "/") + (match["ending"] or "")

    def short_path(match: re.Match[str]) -> str:
        return short(match["rest"].replace("/", ".")).replace(".", "/") + ".py"

    def short(rest: str) -> str:
        full = "pykraft." + rest
        return renamed(full).removeprefix("pykraft.") if _is_module(full, table) else rest

    text = _IMPORT.sub(lambda match: _import(match, table, renamed), text)
    text = _DOTTED.sub(lambda match: renamed(match[0]), text)
    text = _PATH.sub(path, text)
    text = _SHORT_PATH.sub(short_path, text)
    return _SHORT.sub(lambda match: short(match["rest"]), text)


def _is_module(dotted: str, table: Mapping[str, str]) -> bool:
    """Whether a name that may go on behind it begins with a module of the table: a package alone is too little to tell
    a module from a word of Kafka's, as in `server.properties`."""
    parts = dotted.split(".")
    return any(".".join(parts[:length]) in table for length in range(3, len(parts) + 1))


def _import(match: re.Match[str], table: Mapping[str, str], renamed: Callable[[str], str]) -> str:
    """An import of names from a package: each module that has moved is imported from its new package."""
    package, many = match["package"], match["many"]
    names = [name.strip() for name in re.split(r",", many if many is not None else match["one"]) if name.strip()]
    homes: dict[str, list[str]] = {}
    for name in names:
        old, _, own = name.partition(" as ")
        new = table.get(f"{package}.{old}")
        home, _, last = new.rpartition(".") if new else (package, "", old)
        own = own or (old if last != old else "")
        homes.setdefault(home, []).append(f"{last} as {own}" if own else last)
    if set(homes) <= {package}:
        return match[0].replace(package, renamed(package), 1)
    lines = [f"from {renamed(home)} import {', '.join(found)}" for home, found in homes.items()]
    before = match.string[match.string.rfind("\n", 0, match.start()) + 1 : match.start()]
    # Behind something on its line, such as the quote of a line in a notebook, the imports stay on that line.
    return "; ".join(lines) if before.strip() else f"\n{before}".join(lines)


def files(folder: Path) -> Iterator[Path]:
    """The files below a folder that may name a module."""
    for where, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in NOT_ENTERED)
        for name in sorted(names):
            ending = name.rpartition(".")[2] if "." in name else ""
            if (not ending or ending in ENDINGS) and not name.endswith(EXAMPLES):
                yield Path(where, name)


def outdated(folder: Path, table: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    """The files below `folder` that name an old module, each with its new text."""
    for path in files(folder):
        try:
            old = path.read_bytes().decode("utf-8")
        except (UnicodeDecodeError, OSError):
            continue
        new = rewritten(old, table)
        if new != old:
            yield path, new


def _say(line: object) -> None:
    print(line)  # noqa: T201 (this is a command's output, and nothing of pykraft is imported that may name old modules)


def main(arguments: Sequence[str]) -> int:
    folders = [Path(argument) for argument in arguments]
    wrong = [str(folder) for folder in folders if not folder.is_dir()]
    if wrong or not folders:
        _say(f"usage: python -m pykraft.moved FOLDER ...{''.join(f' ({name} is no folder)' for name in wrong)}")
        return 1
    table = moved()
    count = 0
    for folder in folders:
        for path, text in outdated(folder, table):
            path.write_bytes(text.encode("utf-8"))
            _say(path)
            count += 1
    _say(f"{count} files changed")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
