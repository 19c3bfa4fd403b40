"""Scenario of notebook 01: four files that hold the latest state of each flight, and the pages that a change dirties.

A disk takes whole pages of 4,096 bytes. Between two syncs a page may change many times and is written once. So each
file here does its writes for real, in a folder of its own, and notes the pages that a hundred changes have touched::

    NaiveFile    one JSON object, rewritten as a whole
    Table        a slot of 32 bytes for each flight, overwritten in place
    Tree         SQLite, whose rows are in a B-tree; it reports its pages itself, in its write-ahead log
    Log          a line for each change, at the end

``changed(Table, 100_000)`` makes the file with that many flights, changes a hundred of them, and returns a `Written`.
Which flights change is drawn by chance; with `neighbours=True` they are a hundred that follow each other in the file.
`cost_of_a_change` does it for files of several sizes, `draw_pages` draws the pages as strips.

A crash in the middle of a change is a program of its own that dies after half of its bytes: `TornWrites`.
"""

import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import ClassVar

from pykraft.course.syllabus import SEED
from pykraft.viz import Figure, file_strips, hexdump
from pykraft.viz.logs.file_chart import Piece

PAGE = 4096
SLOT = 32
CHANGES = 100
"""Between two syncs."""
_KEYS = 2**63
_WAL_HEADER, _FRAME_HEADER = 32, 24
_KEY = {"strong": "page to be written", "plain": "page that stays as it is"}


@dataclass(frozen=True)
class Written:
    """What a sync after some changes writes: which of the file's pages."""

    pages: int
    """Of the whole file."""
    dirty: frozenset[int]
    changes: int

    @property
    def bytes_per_change(self) -> float:
        return len(self.dirty) * PAGE / self.changes


def changed(way: "type[_File]", flights: int, neighbours: bool = False, changes: int = CHANGES) -> Written:
    """Make the file with this many flights, sync it, change a hundred of them, or another number, and see what the next
    sync writes."""
    chance = Random(f"{SEED}/01/{way.__name__}/{flights}")
    keys = sorted(chance.randrange(_KEYS) for _ in range(flights))
    first = chance.randrange(max(1, flights - changes))
    asked = keys[first : first + changes] if neighbours else [chance.choice(keys) for _ in range(changes)]
    with TemporaryDirectory(prefix="flights-") as folder, closing(way(Path(folder), keys)) as file:
        for key in asked:
            file.change(key, "landed")
        return Written(file.pages, frozenset(file.dirty_pages()), changes)


def cost_of_a_change(flights: Iterable[int]) -> dict[str, list[tuple[int, float]]]:
    """By the kind of file, for each number of flights in it: the bytes that the disk must write for one change."""
    sizes, ways = list(flights), (NaiveFile, Table, Tree, Log)
    found = {way.__name__: [(size, changed(way, size).bytes_per_change) for size in sizes] for way in ways}
    found["Tree, neighbours"] = [(size, changed(Tree, size, neighbours=True).bytes_per_change) for size in sizes]
    return found


class _File:
    """A file of flights."""

    name: ClassVar[str] = "flights"

    def __init__(self, folder: Path, keys: list[int]) -> None:
        self._path = folder / self.name
        self._place = {key: number for number, key in enumerate(keys)}
        self._touched: set[int] = set()
        self._file = open(self._path, "wb+", buffering=0)  # noqa: SIM115 (`close` closes it)
        self._make(keys)

    def _make(self, keys: list[int]) -> None:
        """Write the file for the first time."""
        self._file.write(b"".join(self._first(key) for key in keys))

    def _first(self, key: int) -> bytes:
        raise NotImplementedError

    def change(self, key: int, state: str) -> None:
        """Write a flight's new state."""
        raise NotImplementedError

    def _write(self, position: int, data: bytes) -> None:
        self._file.seek(position)
        self._file.write(data)
        self._touched |= set(range(position // PAGE, (position + len(data) - 1) // PAGE + 1))

    @property
    def pages(self) -> int:
        """Of the file, as it is now."""
        return -(-self._path.stat().st_size // PAGE)

    def dirty_pages(self) -> set[int]:
        """The pages that were written since the file was made."""
        return self._touched

    def close(self) -> None:
        self._file.close()


class NaiveFile(_File):
    """All states as one JSON object, rewritten as a whole. A program that saves after each change writes it a hundred
    times before the sync; the disk gets the last one."""

    def _make(self, keys: list[int]) -> None:
        self._states = dict.fromkeys(map(str, keys), "scheduled")
        self._file.write(json.dumps(self._states).encode())

    def change(self, key: int, state: str) -> None:
        self._states[str(key)] = state

    def dirty_pages(self) -> set[int]:
        self._write(0, json.dumps(self._states).encode())
        return super().dirty_pages()


class Table(_File):
    """A slot of fixed size for each flight: a change goes into its slot."""

    def _first(self, key: int) -> bytes:
        return b"scheduled".ljust(SLOT)

    def change(self, key: int, state: str) -> None:
        self._write(self._place[key] * SLOT, state.encode().ljust(SLOT))


class Log(_File):
    """A line for each change, at the end; nothing that is there is touched."""

    def _first(self, key: int) -> bytes:
        return b"%d scheduled\n" % key

    def change(self, key: int, state: str) -> None:
        self._write(self._path.stat().st_size, f"{key} {state}\n".encode())


class Tree(_File):
    """A row for each flight, in a B-tree by its number. SQLite appends each page that it changes to a log of its own
    before it touches the file; a frame there begins with the number of its page."""

    def _make(self, keys: list[int]) -> None:
        self._database = sqlite3.connect(self._path, isolation_level=None)
        self._database.executescript(
            f"pragma page_size={PAGE}; pragma journal_mode=wal; pragma wal_autocheckpoint=0; pragma synchronous=off;"
            "create table flights(number integer primary key, state text)"
        )
        self._database.execute("begin")
        rows = ((key, "scheduled".ljust(SLOT)) for key in keys)
        self._database.executemany("insert into flights values (?, ?)", rows)
        self._database.execute("commit")
        self._database.execute("pragma wal_checkpoint(truncate)").fetchall()
        self._database.execute("begin")

    def change(self, key: int, state: str) -> None:
        self._database.execute("update flights set state = ? where number = ?", (state.ljust(SLOT), key))

    def dirty_pages(self) -> set[int]:
        self._database.execute("commit")
        frames = self._path.with_name(f"{self.name}-wal").read_bytes()[_WAL_HEADER:]
        step = _FRAME_HEADER + PAGE
        return {int.from_bytes(frames[at : at + 4]) - 1 for at in range(0, len(frames), step)}

    def close(self) -> None:
        super().close()
        self._database.close()


def draw_pages(found: Mapping[str, Written], *, title: str, note: str = "") -> Figure:
    """The pages of each file, those dark that a sync has to write."""
    rows = {
        name: [Piece(PAGE, "strong" if page in one.dirty else "plain") for page in range(one.pages)]
        for name, one in found.items()
    }
    ends = {name: f"{len(one.dirty)} of {one.pages}" for name, one in found.items()}
    return file_strips(rows, title=title, note=note, key=_KEY, ends=ends)


def draw_changes(flights: int, changes: int) -> Figure:
    """The lever of notebook 01: what a sync writes after so many changes in files with this many flights."""
    found = {way.__name__: changed(way, flights, changes=changes) for way in (NaiveFile, Table, Tree, Log)}
    pages = {name: len(written.dirty) for name, written in found.items()}
    disk = f"table {pages['Table']}, tree {pages['Tree']}, log {pages['Log']}"
    title = f"Flights: {flights:,}, changes: {changes}. Pages for the disk: {disk}"
    return draw_pages(found, title=title)


_DIES = """
import os, sys
path, position, words = sys.argv[1], int(sys.argv[2]), sys.argv[3].encode()
file = open(path, "rb+", buffering=0)
file.seek(position)
file.write(words[: len(words) // 2])  # ... and that was its last step
os._exit(1)
"""


class TornWrites:
    """A table of three slots and a log of three lines, all saying `old`. One program dies while it writes `new` into
    slot 1, another while it appends it to the log."""

    def __init__(self, old: str, new: str) -> None:
        self._folder = TemporaryDirectory(prefix="torn-")
        self._written = len(new) // 2
        table, log = Path(self._folder.name, "table"), Path(self._folder.name, "log")
        table.write_bytes(old.encode().ljust(SLOT) * 3)
        log.write_text("".join(f"{number} {old}\n" for number in range(3)))
        for path, position, words in ((table, SLOT, new), (log, log.stat().st_size, f"1 {new}\n")):
            subprocess.run([sys.executable, "-c", _DIES, path, str(position), words], check=False)
        self.table, self.log = table.read_bytes(), log.read_bytes()

    def draw_table(self, *, title: str) -> Figure:
        """The table's bytes, framed what the program had written before it died."""
        slots = [(number * SLOT, (number + 1) * SLOT) for number in range(3)]
        fields = [
            (f"slot {number}", start, end, self.table[start:end].decode().strip())
            for number, (start, end) in enumerate(slots)
        ]
        note = "Framed: what the program had written before it died."
        return hexdump(self.table, fields, title=title, marked=range(SLOT, SLOT + self._written), note=note)

    def close(self) -> None:
        self._folder.cleanup()
