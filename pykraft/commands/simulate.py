"""``simulate [SEED]``: run simulated histories, and check the laws after every event. A broken law is exit code 1."""

import argparse
from random import Random

from pykraft.commands.common import say, tell
from pykraft.simulation import Simulation, SimulationFailed


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("seed", type=int, nargs="?", help="the history's seed (default: one that is drawn)")
    parser.add_argument("--count", type=int, default=1, help="so many seeds from there on")
    parser.add_argument("--trace", type=int, default=0, metavar="N", help="print the last N things that happened")


def run(options: argparse.Namespace) -> int:
    """Run one history after the other, also after one that failed."""
    first = Random().randrange(1 << 32) if options.seed is None else options.seed
    failed = 0
    for seed in range(first, first + options.count):
        failed += _run_one(seed, options.trace)
    return 1 if failed else 0


def _run_one(seed: int, events: int) -> bool:
    simulation = Simulation(seed)
    failed = False
    try:
        print(simulation.run(), flush=True)  # noqa: T201 (a run may take minutes: each result is shown at once)
    except SimulationFailed as failure:
        failed = True
        tell(failure)
    for event in simulation.trace[-events:] if events else ():
        say(event)
    return failed
