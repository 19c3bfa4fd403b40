"""Which lines of pykraft ran in a step: the step is run once more, under Python's tracing hook.

Only pykraft's own modules are followed, and of them not the simulator, which a cluster on real machines does not have.
Unless asked for, the plumbing is left out as well: frames, codecs, varints, timers. The codecs that are compiled at run
time have no file and are never shown.
"""

import inspect
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

_FOLDER = Path(__file__).resolve().parent.parent
_SIMULATOR = tuple(str(_FOLDER / name) for name in ("sim", "story", "viz", "simulation.py"))
_PLUMBING = tuple(str(_FOLDER / name) for name in ("common", "protocol", "transport", "records"))
MOST_CALLS = 400
MOST_LINES = 20_000


@dataclass
class Call:
    """One call of one function, and the lines of it that ran."""

    path: str
    """Relative to the folder that holds pykraft: ``pykraft/raft/client.py``."""
    function: str
    first_line: int
    depth: int
    """How many calls that are shown lead to this one."""
    lines: list[int] = field(default_factory=list)
    """In the order in which they ran; a loop repeats its lines."""

    @property
    def reference(self) -> str:
        """A source reference: ``pykraft/raft/client.py:145``."""
        return f"{self.path}:{self.first_line}"

    def __str__(self) -> str:
        return f"{'  ' * self.depth}{self.function}  {self.path}:{_ranges(self.lines or [self.first_line])}"


@dataclass(frozen=True)
class Ran:
    """The calls of a step, in their order."""

    calls: tuple[Call, ...]
    is_complete: bool
    """False, if there were more than are kept."""

    def __iter__(self) -> Iterator[Call]:
        return iter(self.calls)

    def __len__(self) -> int:
        return len(self.calls)

    def __str__(self) -> str:
        rest = () if self.is_complete else ("and more calls",)
        return "\n".join([*map(str, self.calls), *rest])

    __repr__ = __str__

    def source(self, most_lines: int = 60) -> str:
        """The text of the functions, each once; ``>`` marks the lines that ran."""
        ran: dict[tuple[str, int], set[int]] = {}
        names: dict[tuple[str, int], str] = {}
        for call in self.calls:
            ran.setdefault((call.path, call.first_line), set()).update(call.lines)
            names[call.path, call.first_line] = call.function
        shown: list[str] = []
        for (path, first), lines in ran.items():
            shown.append(f"{path}:{first}  {names[path, first]}")
            text = (_FOLDER.parent / path).read_text().splitlines()
            for number, line in enumerate(inspect.getblock([f"{line}\n" for line in text[first - 1 :]]), start=first):
                shown.append(f"{'>' if number in lines else ' '} {number:>4} {line.rstrip()}")
            if len(shown) >= most_lines:
                return "\n".join([*shown[:most_lines], "…"])
        return "\n".join(shown)


def watch(action: Callable[[], object], with_plumbing: bool = False) -> Ran:
    """Do this, and tell which lines of pykraft ran."""
    not_followed = _SIMULATOR if with_plumbing else _SIMULATOR + _PLUMBING
    calls: list[Call] = []
    open_calls: dict[FrameType, Call] = {}
    count = 0
    is_complete = True

    def on_call(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal is_complete
        code = frame.f_code
        if event != "call" or not _is_followed(code.co_filename, not_followed):
            return None
        if frame in open_calls:  # a generator goes on
            return on_line
        if len(calls) == MOST_CALLS:
            is_complete = False
            return None
        path = Path(code.co_filename).relative_to(_FOLDER.parent).as_posix()
        call = Call(path, code.co_qualname, code.co_firstlineno, _depth(frame, open_calls))
        calls.append(call)
        open_calls[frame] = call
        return on_line

    def on_line(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count, is_complete
        if event == "line":
            count += 1
            is_complete = is_complete and count <= MOST_LINES
            if count <= MOST_LINES:
                open_calls[frame].lines.append(frame.f_lineno)
        return on_line

    before = sys.gettrace()
    sys.settrace(on_call)
    try:
        action()
    finally:
        sys.settrace(before)
    return Ran(tuple(calls), is_complete)


def _is_followed(path: str, not_followed: tuple[str, ...]) -> bool:
    return path.startswith(str(_FOLDER)) and not path.startswith(not_followed)


def _depth(frame: FrameType, known: dict[FrameType, Call]) -> int:
    above = frame.f_back
    while above is not None:
        if above in known:
            return known[above].depth + 1
        above = above.f_back
    return 0


def _ranges(lines: list[int]) -> str:
    numbers = sorted(set(lines))
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)
