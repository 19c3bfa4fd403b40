"""The judge's table: ``python -m tests.flood [--small] [--only WORD] [--sizes 1000,10000] [--out FILE]``.

A line for each flood, when it ends; at the end the laws that were broken. What takes seconds with few entries is not
tried with more, unless ``--all`` says so.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

from pykraft.protocol.api import ListenerKind
from tests.flood.generator import MOST
from tests.flood.judge import PATIENCE_S, TITLE, Bench, Row, bench
from tests.flood.order import floods
from tests.flood.prepared import FULL, SMALL
from tests.flood.scenes import SCENES
from tests.flood.vocabulary import LONG

TOO_SLOW_S = 3.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.flood", description="Floods of requests, and what they do.")
    parser.add_argument("--small", action="store_true", help="a tenth of the state")
    parser.add_argument("--only", default="", metavar="WORD", help="floods whose names have this in them")
    parser.add_argument("--sizes", default=f"1000,{MOST}", help="numbers of entries")
    parser.add_argument("--no-scenes", action="store_true", help="only what is made from the schemas")
    parser.add_argument("--scenes", action="store_true", help="only the scenes")
    parser.add_argument("--long", action="store_true", help="also long names, until the frame is full")
    parser.add_argument("--all", action="store_true", help="more entries also where few were slow")
    parser.add_argument("--patience", type=float, default=PATIENCE_S, metavar="S", help="wait so long for an answer")
    parser.add_argument("--out", type=Path, help="write the table here, too")
    options = parser.parse_args()
    out = None if options.out is None else options.out.open("w")

    def say(line: object) -> None:
        for file in (sys.stdout, out):
            if file is not None:
                file.write(f"{line}\n")
                file.flush()

    began = time.monotonic()
    with bench(SMALL if options.small else FULL) as one:
        one.patience_s = options.patience
        say(f"prepared in {time.monotonic() - began:.1f} s\n{TITLE}")
        rows = []
        if not options.no_scenes:
            for name, scene in SCENES.items():
                if options.only in name:
                    row = scene(one)._replace(name=f"scene: {name}")
                    rows.append(row)
                    say(row)
        if not options.scenes:
            sizes = [int(size) for size in options.sizes.split(",")]
            rows += _made(one, sizes, options, say)
    say("\nlaws broken, by the clock:")
    for row in sorted(rows, key=lambda row: -row.longest_wait_ms):
        if broken := row.broken(by_clock=True):
            say(f"  {row.name}: {'; '.join(broken)} (turn of {row.longest_turn_ms:.0f} ms CPU)")
    return 0


def _made(one: Bench, sizes: list[int], options: argparse.Namespace, say: Callable[[object], None]) -> list[Row]:
    rows = []
    slow: set[tuple[object, ...]] = set()
    for flood in floods(ListenerKind, sizes):
        if options.only not in str(flood) or (flood.kind == LONG and not options.long):
            continue
        key = (flood.target, flood.kind, flood.variant)
        if key in slow and not options.all:
            say(f"{'not tried':>68}  {flood}")
            continue
        row = one.flood(flood)
        if row.answered_s > TOO_SLOW_S or row.entries < flood.entries:
            slow.add(key)  # with more it would be slower, or the same
        rows.append(row)
        say(row)
    return rows


if __name__ == "__main__":
    sys.exit(main())
