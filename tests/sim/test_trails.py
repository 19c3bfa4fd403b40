"""The same origin gives the same trail, whatever the hash seed and whichever libraries there are; and where two trails
differ, the first step that differs is named.

Other versions of Python and WebAssembly are compared in tests/judges/test_histories_elsewhere.py.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from itertools import islice

import pytest

import pykraft
from pykraft.cli import main
from pykraft.sim.interventions import Kill
from pykraft.sim.trail import first_difference
from pykraft.sim.trouble.clients import CLASSIC, CONSUMER
from pykraft.sim.trouble.knobs import draw
from pykraft.simulation import Simulation
from tests.harness.elsewhere import STAND_INS
from tests.harness.tree import ROOT
from tests.sim import digests

PLACES = {
    "0": ((ROOT,), [7, 1013]),
    "1": ((ROOT, STAND_INS), [161, 3210]),
    "random": ((ROOT,), list(digests.KINDS)),
}
"""By PYTHONHASHSEED: where Python looks for modules first (in one run not the real libraries), and the seeds."""
SEED = 2


@pytest.mark.parametrize("hash_seed", PLACES)
def test_histories_are_those_of_the_table_whatever_the_hash_seed_and_the_libraries(hash_seed: str) -> None:
    path, seeds = PLACES[hash_seed]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(map(str, path))}
    command = [sys.executable, "-m", "tests.sim.digests", *(f"{seed}:{digests.STEPS}" for seed in seeds)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    hint = "if histories are meant to have changed: python -m tests.sim.digests --write"
    assert done.stdout.splitlines() == [digests.table()[seed] for seed in seeds], hint


def test_the_table_has_a_history_of_each_kind() -> None:
    assert list(digests.table()) == list(digests.KINDS)
    knobs = {seed: draw(seed) for seed in digests.KINDS}
    assert {group.protocol for each in knobs.values() for group in each.groups} == {CLASSIC, CONSUMER}
    assert any(producer["compression.type"] == "lz4" for each in knobs.values() for producer in each.producers)
    for kind in ("transactions", "recreations", "moves", "slice_ends", "level_changes"):
        assert any(getattr(each, kind) for each in knobs.values()), kind


def test_the_first_difference_between_two_trails_is_the_step_in_which_a_node_was_killed() -> None:
    one, other = Simulation(SEED), Simulation(SEED)
    beginning = list(islice(one.trail(), 300))
    assert first_difference(beginning, islice(other.trail(), 300)) is None
    other.cluster.intervene(Kill(1))
    difference = first_difference(islice(one.trail(), 50), islice(other.trail(), 50))
    assert difference is not None
    here, there = difference
    assert here.startswith("step 301, ")
    assert "do=kill node 1" in there


def test_a_trail_that_ends_early_differs_where_it_ends() -> None:
    assert first_difference(["a", "b"], ["a"]) == ("b", "the end")


def test_the_origin_names_all_that_a_history_depends_on() -> None:
    run = Simulation(SEED, is_calm=True, features={"eligible.leader.replicas.version": 0})
    run.at(10)
    run.cluster.intervene(Kill(1))
    version = f"pykraft {pykraft.__version__}"
    assert run.origin == (f"{version} · seed 2 · calm · eligible.leader.replicas.version=0 · kill node 1 after step 10")
    assert Simulation(SEED).origin == f"{version} · seed 2"
    assert " · settings " in Simulation(SEED, draw(SEED + 1)).origin


def test_simulate_writes_a_trail_and_names_the_first_step_that_differs(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "trail.txt"
    command = ["simulate", "3201", "--calm"]
    assert main([*command, "--trail", str(file)]) == 0
    assert main([*command, "--compare", str(file)]) == 0
    assert "the same history" in capsys.readouterr().out
    first, *steps = file.read_text(encoding="utf-8").splitlines()
    assert first == Simulation(3201, is_calm=True).origin
    file.write_text("\n".join([first, *steps[:99], steps[99] + "!", *steps[100:]]), encoding="utf-8")
    assert main([*command, "--compare", str(file)]) == 1
    assert f"here:  {steps[99]}\n  there: {steps[99]}!" in capsys.readouterr().err
