"""The commands of the scripts: all of them are in the manual, and a line that is none says so."""

from __future__ import annotations

import pytest

from tests.datadriven import cluster, vocabulary, voters
from tests.datadriven.cluster import Cluster
from tests.datadriven.dialogue import Dialogue
from tests.datadriven.vocabulary import ScriptError, World
from tests.datadriven.voters import Voters

MANUAL = "\n".join(module.__doc__ or "" for module in (vocabulary, voters, cluster))


@pytest.mark.parametrize("world", [Voters, Cluster])
def test_each_command_is_in_the_manual(world: type[World]) -> None:
    patterns = [getattr(world, name).pattern.pattern for name in dir(world) if hasattr(getattr(world, name), "pattern")]
    words = {pattern.split(" ")[0] for pattern in patterns}
    assert len(words) > 10
    assert not {word for word in words if word not in MANUAL}


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        (["elect 1"], "a script begins with voters or static-voters or cluster, not with elect"),
        (["voters 1 2 3", "elect 1"], "no command reads 'elect 1'"),
        (["voters 1 2 3", "deliver 1 -> 2 Vote"], "no Vote from 1 to 2 is held"),
        (["voters 1 2 3", "produce 1 1 record"], "no command reads"),
    ],
)
def test_a_line_that_cannot_be_said_is_an_error(lines: list[str], problem: str) -> None:
    dialogue = Dialogue()
    with pytest.raises(ScriptError, match=problem):
        for line in lines:
            dialogue.run(line)


def test_a_sender_whose_message_is_held_waits_until_its_own_timeout_and_the_message_may_still_arrive() -> None:
    dialogue = Dialogue()
    for line in ("cluster controllers=9 brokers=1,2 controller.socket.timeout.ms=5000", "topic t replicas=1,2"):
        dialogue.run(line)
    for line in ("hold 1 -> 9 AlterPartition", "hold 2 -> 1 Fetch", "produce 1 1 record", "produce 1 1 record"):
        dialogue.run(line)
    proposal = "1 -> 9  AlterPartition: t-0 leader epoch 0, partition epoch 0, ISR 1"
    spoken = dialogue.run("wait 14 s")
    assert [line for line in spoken if "AlterPartition" in line] == [
        f"{proposal}  (held)",
        "1  waits no longer for an answer to its AlterPartition from 9",
        f"{proposal}  (held)",
    ]
    late = dialogue.run("deliver 1 -> 9 AlterPartition")
    assert late[:2] == [proposal, "9 -> 1  AlterPartition: partition epoch 1, ISR 1"]
    assert dialogue.run("deliver 1 -> 9 AlterPartition")[1] == "9 -> 1  AlterPartition: INVALID_UPDATE_VERSION"
