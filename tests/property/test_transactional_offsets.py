"""What a group coordinator holds of transactional offsets is what their log says, whatever comes in which order.

A node is played with: plain commits, commits in the transactions of three producers, ends of these, deletions of
offsets and of the group, compactions of the log, which forget old tombstones and markers. The law is looked at after
each step: a shard that is loaded again holds the same, committed and pending. And what is committed is what a model
says that keeps a list of all commits.
"""

from __future__ import annotations

from random import Random
from typing import Any

from pykraft.common.core import finish
from pykraft.common.errors import ErrorCode
from pykraft.common.types import TopicPartition
from pykraft.coordinator.result import TransactionEnd
from pykraft.protocol.messages.groups import DeleteGroupsRequest
from pykraft.protocol.messages.offsets import OffsetCommitRequest, OffsetDeleteRequest
from pykraft.protocol.messages.transactions import TxnOffsetCommitRequest
from tests.harness.transactional_node import GROUPS, NONE, TransactionalNode

PLACE = TopicPartition("t", 0)
PRODUCERS = (7, 8, 9)
GAMES = 10
STEPS = 60
GROUP = "g"


class Game:
    """One random run."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.node = TransactionalNode(log_cleaner_enable="true")
        self.log = self.node.log(GROUPS)
        self.log.config = self.log.config.with_values(min_cleanable_dirty_ratio=0.0, delete_retention_ms=0)
        self.epochs = dict.fromkeys(PRODUCERS, 0)
        self.offset = 0
        self.committed: tuple[int, int] | None = None
        """The number of the commit that counts, and its offset."""
        self.pending: dict[int, tuple[int, int]] = {}
        self.compactions = 0

    def play(self) -> None:
        steps = [self.commit, *[self.commit_in_transaction] * 4, *[self.end] * 3, self.delete, self.compact]
        steps.append(self.delete_group)
        for _ in range(STEPS):
            self.offset += 1
            self.random.choice(steps)()
            self.check()

    @property
    def runtime(self) -> Any:
        return self.node.lone.broker.groups.runtime

    def check(self) -> None:
        live = state(self.runtime.active(0))
        assert live[0] == (None if self.committed is None else self.committed[1])
        assert live[1] == {producer: offset for producer, (_, offset) in self.pending.items()}
        self.runtime.resign(0)
        self.runtime.lead(0, self.offset, self.node.lone.now)
        self.node.lone.run(1)
        assert state(self.runtime.active(0)) == live

    def commit(self) -> None:
        topic = OffsetCommitRequest.Topic
        part = topic.Partition(partition_index=0, committed_offset=self.offset)
        request = OffsetCommitRequest(group_id=GROUP, topics=[topic(name="t", partitions=[part])])
        assert self.node.lone.ask(request, version=9).topics[0].partitions[0].error_code == NONE
        self.committed = self.offset, self.offset

    def commit_in_transaction(self) -> None:
        producer_id = self.random.choice(PRODUCERS)
        topic = TxnOffsetCommitRequest.Topic
        part = topic.Partition(partition_index=0, committed_offset=self.offset, committed_metadata=None)
        request = TxnOffsetCommitRequest(
            transactional_id=f"x{producer_id}",
            group_id=GROUP,
            producer_id=producer_id,
            producer_epoch=self.epochs[producer_id],
            topics=[topic(name="t", partitions=[part])],
        )
        promise = self.node.lone.handle(request, version=5)
        self.node.lone.run(1)
        if not promise.kept:
            self.node.answer(self.node.asked())
            self.node.lone.run(1)
        response: Any = promise.value.response
        assert response.topics[0].partitions[0].error_code == NONE
        self.pending[producer_id] = self.offset, self.offset

    def end(self) -> None:
        producer_id = self.random.choice(PRODUCERS)
        is_commit = self.random.random() < 0.6
        self.epochs[producer_id] += 1
        end = TransactionEnd(producer_id, self.epochs[producer_id], is_commit, 0, 2)
        assert self.node.lone.broker.groups.end_transaction(0, end, 30_000, self.node.lone.now).value is None
        mine = self.pending.pop(producer_id, None)
        if is_commit and mine is not None and (self.committed is None or self.committed[0] < mine[0]):
            self.committed = mine

    def delete(self) -> None:
        topic = OffsetDeleteRequest.Topic
        part = topic.Partition(partition_index=0)
        self.node.lone.ask(OffsetDeleteRequest(group_id=GROUP, topics=[topic(name="t", partitions=[part])]))
        self.forget()

    def delete_group(self) -> None:
        result = self.node.lone.ask(DeleteGroupsRequest(groups_names=[GROUP])).results[0]
        assert result.error_code in (NONE, ErrorCode.GROUP_ID_NOT_FOUND)
        if result.error_code == NONE:
            self.forget()

    def forget(self) -> None:
        self.committed = None
        self.pending = {}

    def compact(self) -> None:
        self.node.lone.clock.now_ms += 1000
        before = self.log.size
        self.log.roll(self.log.log_end_offset)
        finish(self.node.lone.broker.logs.compact())
        self.compactions += self.log.size < before


def state(shard: Any) -> tuple[int | None, dict[int, int]]:
    """The committed offset, and the pending one of each producer."""
    offsets = shard.offsets
    committed = offsets.of(GROUP).get(PLACE)
    pending = {
        producer: groups[GROUP][PLACE].offset for producer, groups in offsets._pending.items() if GROUP in groups
    }
    assert offsets.is_unstable(GROUP, PLACE) is offsets.has_pending(GROUP) is bool(pending)
    return None if committed is None else committed.offset, pending


def test_a_coordinator_holds_what_its_log_says() -> None:
    games = [Game(seed) for seed in range(GAMES)]
    for game in games:
        game.play()
    assert sum(game.compactions for game in games) > GAMES, "hardly anything was compacted"
