"""The digests of simulated histories, to compare one machine with another: digests.txt has those that each must give.

    python -m tests.sim.digests               print the table as it is here
    python -m tests.sim.digests --write       write it: the histories have changed, and are meant to have
    python -m tests.sim.digests 1:1500 2:0    print the digests of seed 1's first 1,500 steps, and of seed 2 as a whole

A line is SEED STEPS DIGEST: the digest of the trail (`pykraft.sim.trail`) of the seed's first steps. The table has a
history of each kind, and of each only the beginning: it is for every test run. A change of what nodes or clients do
changes it, as it changes the histories of all seeds. Another machine, another version of Python or of a library must
not change it.

This runs where there is nothing but Python's own library (see tests/harness/elsewhere).
"""

import pathlib
import sys
from collections.abc import Iterable
from itertools import islice

from pykraft.sim.trail import digest
from pykraft.simulation import Simulation

TABLE = pathlib.Path(__file__).with_name("digests.txt")
HEADER = "# SEED STEPS DIGEST, see tests/sim/digests.py; written by `python -m tests.sim.digests --write`\n"
STEPS = 1_600
"""By then each of these histories has records, of which some are read."""
KINDS = {
    7: "a group, and lz4",
    161: "a bank",
    830: "a group, and reassignments",
    1013: "a group, snapshots, and requests that are interrupted",
    3210: "topics and groups made again",
}


def line(seed: int, steps: int) -> str:
    """The digest of a seed's first steps, or of all if they are 0, as the table has it."""
    return f"{seed} {steps} {digest(islice(Simulation(seed).trail(), steps or None))}"


def table() -> dict[int, str]:
    """The lines as they are written down, by seed."""
    lines = TABLE.read_text(encoding="utf-8").splitlines()
    return {int(each.split()[0]): each for each in lines if not each.startswith("#")}


def main(given: Iterable[str]) -> None:
    wanted = [tuple(map(int, each.split(":"))) for each in given if ":" in each]
    lines = [line(seed, steps) for seed, steps in wanted or [(seed, STEPS) for seed in KINDS]]
    if "--write" in given:
        TABLE.write_text(HEADER + "".join(f"{each}\n" for each in lines), encoding="utf-8")
    sys.stdout.write("".join(f"{each}\n" for each in lines))


if __name__ == "__main__":
    main(sys.argv[1:])
