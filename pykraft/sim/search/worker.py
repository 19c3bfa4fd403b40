"""The process that `workers` starts: a seed a line comes in, a line of JSON goes out."""

import gc
import json
import sys
from contextlib import nullcontext

from pykraft.sim.bugs.planting import plant
from pykraft.sim.cluster import SimulatedCluster
from pykraft.sim.report import SimulationFailed
from pykraft.sim.search.coverage import Row, taken_rows

_SHOWN = 1_000
"""So many letters of what was found are handed on."""


def main() -> None:
    answers, sys.stdout = sys.stdout, sys.stderr  # nothing else may come between the answers
    if sys.argv[1]:
        plant(sys.argv[1])
    gc.set_threshold(50_000, 20, 20)  # a history keeps what it makes
    print("ready", file=answers, flush=True)
    with taken_rows() if "coverage" in sys.argv[2:] else nullcontext(set[Row]()) as taken:
        known: set[Row] = set()
        for line in sys.stdin:
            found = outcome(int(line))
            print(json.dumps({**found, "rows": sorted(taken - known)}), file=answers, flush=True)
            known |= taken


def outcome(seed: int) -> dict[str, object]:
    """The fields of an `Outcome`, without its rows."""
    try:
        report = SimulatedCluster(seed).run()
    except SimulationFailed as failure:
        said = str(failure).splitlines()[0][:_SHOWN]
        return {"seed": seed, "law": failure.law, "line": said, "step": failure.step}
    except Exception as error:  # what was changed may break the simulator itself
        return {
            "seed": seed,
            "law": "no law",
            "line": f"seed {seed}: {type(error).__name__}: {error}"[:_SHOWN],
            "step": 0,
        }
    return {"seed": seed, "law": "", "line": str(report), "step": report.steps}


if __name__ == "__main__":
    main()
