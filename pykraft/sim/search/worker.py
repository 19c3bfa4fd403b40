"""The process that `workers` starts: a seed a line comes in, a line of JSON goes out."""

import gc
import json
import sys
from contextlib import nullcontext

from pykraft.sim.bugs.planting import plant
from pykraft.sim.bugs.rewriting import Rewrite
from pykraft.sim.cluster import SimulatedCluster
from pykraft.sim.report import Report, SimulationFailed
from pykraft.sim.search.coverage import Row, taken_rows

COVERAGE, STEPS, REWRITE = "coverage", "steps=", "rewrite="
"""Words after the bug's name: count rows; end each history after so many events; replace a function, as JSON."""
_SHOWN = 1_000
"""So many letters of what was found are handed on."""


def main() -> None:
    answers, sys.stdout = sys.stdout, sys.stderr  # nothing else may come between the answers
    if sys.argv[1]:
        plant(sys.argv[1])
    most_steps = 0
    for word in sys.argv[2:]:
        if word.startswith(STEPS):
            most_steps = int(word.removeprefix(STEPS))
        elif word.startswith(REWRITE):
            Rewrite(*json.loads(word.removeprefix(REWRITE))).apply()
    gc.set_threshold(50_000, 20, 20)  # a history keeps what it makes
    print("ready", file=answers, flush=True)
    with taken_rows() if COVERAGE in sys.argv[2:] else nullcontext(set[Row]()) as taken:
        known: set[Row] = set()
        for line in sys.stdin:
            found = outcome(int(line), most_steps)
            print(json.dumps({**found, "rows": sorted(taken - known)}), file=answers, flush=True)
            known |= taken


def outcome(seed: int, most_steps: int = 0) -> dict[str, object]:
    """The fields of an `Outcome`, without its rows. With `most_steps` a longer history is ended there."""
    try:
        report = _run(SimulatedCluster(seed), most_steps)
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


def _run(cluster: SimulatedCluster, most_steps: int) -> Report:
    if not most_steps:
        return cluster.run()
    cluster.begin()
    while not cluster.is_settled and cluster.scheduler.steps < most_steps:
        cluster.step()
    return cluster.report()


if __name__ == "__main__":
    main()
