"""``simulate [SEED]``: run simulated histories, and check the laws after every event. A broken law is exit code 1."""

import argparse
import sys
from random import Random

from pykraft.commands.common import CommandError, say, tell
from pykraft.simulation import Simulation, SimulationFailed


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("seed", type=int, nargs="?", help="the history's seed (default: one that is drawn)")
    parser.add_argument("--count", type=int, default=1, help="so many seeds from there on")
    parser.add_argument("--trace", type=int, default=0, metavar="N", help="print the last N things that happened")


def run(options: argparse.Namespace) -> int:
    """Run one history after the other, also after one that failed."""
    if options.count < 1 or options.trace < 0:
        raise CommandError("--count is at least 1, --trace at least 0")
    first = Random().randrange(1 << 32) if options.seed is None else options.seed
    failed = [seed for seed in range(first, first + options.count) if not _passes(seed, options.trace)]
    return 1 if failed else 0


def _passes(seed: int, events: int) -> bool:
    simulation = Simulation(seed)
    passes = True
    try:
        say(simulation.run())
    except SimulationFailed as failure:
        passes = False
        tell(failure)
    for event in simulation.trace[-events:] if events else ():
        say(event)
    sys.stdout.flush()  # the next run may take minutes
    return passes
