"""Bugs of one line, in rising difficulty: those of notebook 25, where a reader looks for them.

Each names the module, the function, the line as it should be and as it is planted. READING ON SPOILS THE GAME.

The other bugs replace methods by new ones. Here the text of the real function is taken, one line of it is changed, and
the function is compiled again, so that a reader sees the code that runs, as in a debugger. Names and sentences give
nothing away, since `--explain` and a history's line have them.
"""

from typing import NamedTuple

from pykraft.sim.bugs.planting import bug
from pykraft.sim.bugs.rewriting import Rewrite, function_text, place_of


class WrongLine(NamedTuple):
    """One line of the real code that is planted otherwise."""

    module: str
    function: str
    right: str
    wrong: str

    @property
    def rewrite(self) -> Rewrite:
        """The function with the wrong line in it. ValueError if the right line is not in it once, as code moves on."""
        text = function_text(self.module, self.function)
        if text.count(self.right) != 1:
            raise ValueError(f"{self.function} has the line {self.right!r} {text.count(self.right)} times, not once")
        return Rewrite(self.module, self.function, text.replace(self.right, self.wrong))

    @property
    def line(self) -> int:
        """Its number in the file."""
        first, _ = place_of(self.module, self.function)
        before, _, _ = function_text(self.module, self.function).partition(self.right)
        return first + before.count("\n")


WRONG_LINES = {
    "wrong_line_0": WrongLine(
        "pykraft.raft.leader_state",
        "LeaderState._update_high_watermark",
        "reached = offsets[len(offsets) // 2]",
        "reached = offsets[len(offsets) // 2 - 1]",
    ),
    "wrong_line_1": WrongLine(
        "pykraft.broker.replication.partition",
        "Partition.advance_high_watermark",
        "if follower.end_offset < reached and",
        "if follower.end_offset > reached and",
    ),
    "wrong_line_2": WrongLine(
        "pykraft.broker.replication.partition",
        "Partition.replicated_up_to",
        "if self.log.high_watermark < offset:",
        "if self.log.log_end_offset < offset:",
    ),
    "wrong_line_3": WrongLine(
        "pykraft.controller.partitions.replication_control",
        "ReplicationControl.plan_broker_gone",
        "image, broker_id, lambda partition: broker_id in partition.isr or partition.leader == broker_id",
        "image, broker_id, lambda partition: broker_id in partition.isr and partition.leader == broker_id",
    ),
    "wrong_line_4": WrongLine(
        "pykraft.coordinator.group.consumer_groups.reconciliation",
        "_still_owns",
        "return heard.owned is None or overlaps(heard.owned, partitions)",
        "return heard.owned is not None and overlaps(heard.owned, partitions)",
    ),
    "wrong_line_5": WrongLine(
        "pykraft.storage.producer_state",
        "ProducerStateManager.first_unstable_offset",
        "return min([*self._open_transactions.values(), *decided], default=None)",
        "return min(decided, default=None)",
    ),
    "wrong_line_6": WrongLine(
        "pykraft.raft.quorum_state",
        "QuorumState.give_vote",
        "self._become(replace(role, voted=candidate, election_deadline=deadline))",
        "self._become(replace(role, election_deadline=deadline))",
    ),
    "wrong_line_7": WrongLine(
        "pykraft.broker.replication.replica_fetcher",
        "ReplicaFetcher._truncate",
        "agreed = agreed_end(log, OffsetAndEpoch(leaders_end.end_offset, leaders_end.epoch))",
        "agreed = min(leaders_end.end_offset, log.high_watermark)",
    ),
    "wrong_line_8": WrongLine(
        "pykraft.raft.log.replicated_log",
        "ReplicatedLog.is_up_to_date",
        "return (candidate.epoch, candidate.offset) >= (self.last_epoch, self.end_offset)",
        "return candidate.epoch >= self.last_epoch",
    ),
    "wrong_line_9": WrongLine(
        "pykraft.controller.partitions.partition_change",
        "ElrRules.next_elr",
        "candidates = {*partition.eligible_leader_replicas, *partition.isr} - self.lost - set(isr)",
        "candidates = {*partition.eligible_leader_replicas, *partition.isr} - set(isr)",
    ),
    "wrong_line_10": WrongLine(
        "pykraft.broker.replication.fetching",
        "diverging_end",
        "return end if end.epoch < place.last_fetched_epoch or end.offset < place.offset else None",
        "return end if end.epoch < place.last_fetched_epoch else None",
    ),
}
"""In the order of the notebook; number 0 is mended there by all readers together."""


_ORDINALS = ["shown", "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"]


def _register(name: str, ordinal: str) -> None:
    def plant() -> None:
        WRONG_LINES[name].rewrite.apply()

    plant.__name__, plant.__doc__ = name, f"One line of a function is wrong: the {ordinal} bug of notebook 25."
    bug(plant)


for _name, _ordinal in zip(WRONG_LINES, _ORDINALS, strict=True):
    _register(_name, _ordinal)
