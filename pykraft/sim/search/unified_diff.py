"""Applies a unified diff: what ``diff -u`` and ``git diff`` write, for machines that have neither.

A hunk is applied where its old lines are: at the line that it names, or else at the nearest place with the same lines.
Nothing is guessed. A hunk whose lines are nowhere in the file is refused, with the first line that differs.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_NO_FILE = "/dev/null"
_CANNOT = ("rename from ", "copy from ", "Binary files ", "GIT binary patch")
_NO_NEWLINE = "\\"


class PatchRefused(ValueError):  # noqa: N818 (it tells what is the case)
    """A patch cannot be applied; the text is one sentence that says which hunk, and where."""


@dataclass(frozen=True)
class Hunk:
    """A few lines, as they are and as they shall be. No line has its line end."""

    number: int
    """Within its file, from 1."""
    start: int
    """The line of the old file with which it begins, from 1; 0 in a file that is new."""
    old: tuple[str, ...]
    new: tuple[str, ...]
    ends_open: bool | None
    """Whether the new file's last line is without a line end; None where the hunk does not say."""


@dataclass(frozen=True)
class FilePatch:
    """The hunks of one file."""

    path: str
    hunks: tuple[Hunk, ...]
    is_new: bool = False
    is_deleted: bool = False


def parse(text: str) -> list[FilePatch]:
    """The files of a diff. PatchRefused: it has none, or is damaged."""
    lines = text.removesuffix("\n").split("\n")
    found, at = [], 0
    while at < len(lines):
        if lines[at].startswith(_CANNOT):
            raise PatchRefused(f"line {at + 1} is {lines[at]!r}: only changed lines can be applied, no other changes")
        if lines[at].startswith("--- ") and at + 1 < len(lines) and lines[at + 1].startswith("+++ "):
            old, new = _path(lines[at]), _path(lines[at + 1])
            hunks, at = _hunks(lines, at + 2, new if new != _NO_FILE else old)
            path = _without_prefix(new if new != _NO_FILE else old)
            found.append(FilePatch(path, hunks, old == _NO_FILE, new == _NO_FILE))
        else:
            at += 1
    if not found:
        raise PatchRefused("there is no unified diff: one begins with the lines '--- a/FILE' and '+++ b/FILE'")
    return found


def _path(header: str) -> str:
    return header[4:].split("\t")[0].strip().strip('"')


def _without_prefix(path: str) -> str:
    return path[2:] if path.startswith(("a/", "b/")) else path


def _hunks(lines: list[str], at: int, path: str) -> tuple[tuple[Hunk, ...], int]:
    """The hunks that begin here, and the line after them."""
    found: list[Hunk] = []
    while at < len(lines) and (header := _HUNK.match(lines[at])) is not None:
        hunk, at = _hunk(lines, at + 1, header, len(found) + 1, path)
        found.append(hunk)
    if not found:
        raise PatchRefused(f"line {at + 1} begins no hunk of {path}: one begins with '@@ -LINE,COUNT +LINE,COUNT @@'")
    return tuple(found), at


def _hunk(lines: list[str], at: int, header: re.Match[str], number: int, path: str) -> tuple[Hunk, int]:
    old_count, new_count = (int(header[group] or 1) for group in (2, 4))
    old: list[str] = []
    new: list[str] = []
    ends_open: bool | None = None
    while len(old) < old_count or len(new) < new_count or (lines[at : at + 1] and lines[at].startswith(_NO_NEWLINE)):
        line = lines[at] if at < len(lines) else None
        kind = " " if line == "" else (line or "?")[0]
        if line is None or kind not in " +-\\":
            raise PatchRefused(
                f"hunk {number} of {path} ends at line {at + 1} of the patch: its header announces {old_count} old "
                f"and {new_count} new lines, and there are {len(old)} and {len(new)}"
            )
        if kind == _NO_NEWLINE:
            ends_open = lines[at - 1][:1] != "-"
        if kind in " -":
            old.append(line[1:])
        if kind in " +":
            new.append(line[1:])
        at += 1
    return Hunk(number, int(header[1]), tuple(old), tuple(new), ends_open), at


def apply(patch: FilePatch, text: str) -> str:
    """The file's new text. PatchRefused: a hunk does not fit."""
    is_open = text != "" and not text.endswith("\n")
    lines = text.split("\n")
    if not is_open:
        lines.pop()
    moved, after = 0, 0
    for hunk in patch.hunks:
        begin = (hunk.start - 1 if hunk.old else hunk.start) + moved
        place = next((at for at in _places(begin, after, len(lines)) if _fits(hunk, lines, at)), None)
        if place is None:
            raise PatchRefused(_why_not(patch.path, hunk, lines, max(begin, 0)))
        lines[place : place + len(hunk.old)] = hunk.new
        moved += place - begin + len(hunk.new) - len(hunk.old)
        after = place + len(hunk.new)
        is_open = is_open if hunk.ends_open is None else hunk.ends_open
    return "\n".join(lines) + ("" if is_open or not lines else "\n")


def _places(begin: int, first: int, last: int) -> Iterator[int]:
    """The line where a hunk shall begin, then those around it, the nearest first."""
    for distance in range(last + 1):
        for at in dict.fromkeys((begin - distance, begin + distance)):
            if first <= at <= last:
                yield at


def _fits(hunk: Hunk, lines: list[str], at: int) -> bool:
    return tuple(lines[at : at + len(hunk.old)]) == hunk.old


def _why_not(path: str, hunk: Hunk, lines: list[str], begin: int) -> str:
    for number, expected in enumerate(hunk.old, begin):
        has = repr(lines[number]) if number < len(lines) else "its end"
        if number >= len(lines) or lines[number] != expected:
            return (
                f"hunk {hunk.number} does not apply to {path}: the patch expects {expected!r} at line {number + 1}, "
                f"and the file has {has}"
            )
    return f"hunk {hunk.number} does not apply to {path}: an earlier hunk has changed its lines"


def apply_all(patches: list[FilePatch], files: Mapping[str, str]) -> dict[str, str | None]:
    """The new text of each file, None for one that is deleted. `files` has the old texts by path."""
    found: dict[str, str | None] = {}
    for patch in patches:
        text = found.get(patch.path, files.get(patch.path))
        if patch.is_new:
            if text is not None:
                raise PatchRefused(f"the patch makes {patch.path} as a new file, and it is there")
            found[patch.path] = apply(patch, "")
        elif text is None:
            raise PatchRefused(f"the patch changes {patch.path}, and there is no such file")
        else:
            found[patch.path] = None if patch.is_deleted else apply(patch, text)
    return found
