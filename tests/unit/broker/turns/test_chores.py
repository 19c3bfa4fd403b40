"""Chores of a node: taken on slice by slice, never twice at once, and begun again also after a failure."""

from __future__ import annotations

import pytest

from pykraft.broker.turns.chores import Chores
from pykraft.common.core import Steps, finish
from pykraft.common.timer import Timer
from tests.harness.lone_node import LoneNode
from tests.unit.broker.replication.test_many_partitions import create


class CountedSlice:
    """A slice that is over after a number of steps."""

    def __init__(self, steps: int) -> None:
        self._steps = self._left = steps

    def begin(self) -> None:
        self._left = self._steps

    def is_over(self) -> bool:
        self._left -= 1
        return self._left <= 0

    def is_long(self, steps: int) -> bool:
        return False


def test_a_chore_pauses_when_its_slice_is_over_and_goes_on_a_millisecond_later() -> None:
    timer, done = Timer(), list[int]()

    def chore(now: int) -> Steps[None]:
        for _ in range(5):
            done.append(now)
            now = yield

    Chores(timer, CountedSlice(2)).every(100, chore, 0)
    timer.expire(99)
    assert done == []
    for now in (100, 101, 102):
        timer.expire(now)
    assert done == [100, 100, 101, 101, 102], "each step is sent the time of its slice"
    timer.expire(201)
    assert len(done) == 5, "the pause counts from the end"
    timer.expire(202)
    assert len(done) == 7


def test_a_chore_that_is_a_plain_call_is_done_at_once() -> None:
    timer, done = Timer(), list[int]()
    Chores(timer, CountedSlice(1)).every(10, done.append, 0, first_after_ms=3)
    for now in (3, 12, 13):
        timer.expire(now)
    assert done == [3, 13]


def test_a_chore_that_fails_is_begun_again_after_its_pause() -> None:
    timer, begun = Timer(), list[int]()

    def chore(now: int) -> Steps[None]:
        begun.append(now)
        yield
        raise ValueError(now)

    Chores(timer, CountedSlice(1)).every(10, chore, 0)
    timer.expire(10)
    with pytest.raises(ValueError, match="10"):
        timer.expire(11)
    timer.expire(21)
    assert begun == [10, 21]


def test_no_chore_walks_over_all_partitions_in_one_step() -> None:
    node = LoneNode()
    create(node, "t", 60)
    node.run()
    replicas, logs = node.broker.replicas, node.broker.logs.online[0]
    for chore in (
        replicas._shrink_isrs(node.now),
        replicas._forget_producers(node.now),
        logs.compact(),
        logs.flush_old(),
    ):
        assert sum(1 for _ in chore) >= 60


def test_a_partition_that_goes_while_a_chore_pauses_does_not_disturb_it() -> None:
    node = LoneNode()
    create(node, "t", 3)
    node.run()
    replicas, logs = node.broker.replicas, node.broker.logs.online[0]
    chores = [replicas._shrink_isrs(node.now), replicas._forget_producers(node.now), logs.compact(), logs.flush_old()]
    chores.append(logs.checkpoint())
    for chore in chores:
        next(chore)
    finish(replicas._drop(list(replicas.partitions)))
    for chore in chores:
        list(chore)
    assert not logs._claims_too_much(list(logs.logs)) and not logs._high_watermarks.offsets
