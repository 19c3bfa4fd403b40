"""Whatever a person does to a cluster, in any order, its laws hold, and the branch can be played again."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import pytest

from pykraft.sim.interventions import Impossible
from pykraft.sim.trouble.knobs import draw
from pykraft.story.story import Story

DEEDS = 12
SHORT = (16, 20)
"""Seeds whose histories are over soon."""
OTHERS = tuple(pytest.param(seed, marks=pytest.mark.long) for seed in range(30) if seed not in SHORT)


def act(branch: Story, dice: Random) -> None:
    """Do something at random, if it can be done."""
    nodes = list(branch.view.nodes)
    kind = dice.choice(("kill", "restart", "cut", "heal", "deliver", "delay", "delay", "drop", "drop"))
    if kind in ("kill", "restart"):
        getattr(branch, kind)(dice.choice(nodes))
    elif kind in ("cut", "heal"):
        getattr(branch, kind)(*dice.sample(nodes, 2))
    else:
        while not branch.messages and branch.next() is not None:
            pass
        if branch.messages:
            message = dice.choice(branch.messages)
            more = (dice.choice((1, 20, 500)),) if kind == "delay" else ()
            getattr(branch, kind)(message, *more)


def undo(branch: Story) -> None:
    """Let the cluster recover."""
    for link in sorted(branch.view.cut_links, key=str):
        with suppress(Impossible):
            branch.heal(*link)
    for node_id in branch.view.nodes:
        with suppress(Impossible):
            branch.restart(node_id)


@pytest.mark.parametrize("seed", [*SHORT, *OTHERS])
def test_the_laws_hold_whatever_is_done_and_the_branch_plays_again(seed: int) -> None:
    dice = Random(f"deeds {seed}")
    story = Story.begin(seed, draw(seed), {})
    story.at(dice.randrange(200, 1_500))
    branch = story.fork()
    for _ in range(DEEDS):
        with suppress(Impossible):
            act(branch, dice)
        for _ in range(dice.choice((1, 5, 50, 200))):
            branch.next()
    undo(branch)
    branch.run()
    branch.at(branch.last_step)
    assert branch.failure is None
    assert len(branch.interventions) > DEEDS // 2
    again = Story.begin(seed, draw(seed), branch.interventions).run()
    again.at(again.last_step)
    assert (again.step, again.digest) == (branch.step, branch.digest)
