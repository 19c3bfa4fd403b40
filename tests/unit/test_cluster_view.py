"""What follows from the views of several nodes: where a log is not the leader's, who is fenced, who voted for whom."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pykraft.broker.describe import EpochStart, NodeView, PartitionView
from tests.viz.views import node, replica, view

Epochs = tuple[tuple[int, int], ...]


def holding(leader: int, end: int, epochs: Epochs, epoch: int) -> PartitionView:
    starts = tuple(EpochStart(*entry) for entry in epochs)
    return replica("t", 0, leader, end, 0, epoch=epoch)._replace(epochs=starts)


# The leader's log: epoch 0 from 0, epoch 2 from 10, its end is 15.
TRUNCATED: list[tuple[str, int, Epochs, int | None]] = [
    ("a follower with the same log", 15, ((0, 0), (2, 10)), None),
    ("a follower that lags", 7, ((0, 0),), None),
    ("an old leader with three records of its own", 13, ((0, 0),), 10),
    ("an old leader with more records than the leader has", 40, ((0, 0),), 10),
    ("a leader of epoch 1 that no other node heard", 12, ((0, 0), (1, 8)), 8),
    ("a follower that heard more than the look at the leader saw", 18, ((0, 0), (2, 10)), None),
    ("an empty log", 0, (), None),
]


@pytest.mark.parametrize(("end", "epochs", "offset"), [row[1:] for row in TRUNCATED], ids=[row[0] for row in TRUNCATED])
def test_a_log_is_truncated_where_its_epoch_is_not_the_leaders(end: int, epochs: Epochs, offset: int | None) -> None:
    leader = node(2, holding(2, 15, ((0, 0), (2, 10)), epoch=2))
    seen = view(node(1, holding(1, end, epochs, epoch=0)), leader)
    assert seen.truncation_offset("t", 0, 1) == offset
    assert seen.truncation_offset("t", 0, 2) is None
    assert view(node(1, holding(1, end, epochs, epoch=0))).truncation_offset("t", 0, 3) is None


def test_without_a_leader_it_is_not_known_what_is_truncated() -> None:
    seen = view(node(1, holding(-1, 15, ((0, 0),), epoch=3)), node(2, holding(-1, 9, ((0, 0), (2, 8)), epoch=3)))
    assert {seen.truncation_offset("t", 0, n) for n in (1, 2)} == {None}


def with_vote(node_id: int, epoch: int, voted_for: int | None, granted: frozenset[int] = frozenset()) -> NodeView:
    each = node(node_id, epoch=epoch)
    return each._replace(quorum=each.quorum._replace(voted_for=voted_for, granted=granted))


def test_the_votes_are_those_of_the_highest_epoch() -> None:
    seen = view(with_vote(1, 4, 1), with_vote(2, 5, None, frozenset({2, 3})), with_vote(3, 5, 2))
    assert seen.votes == {2: 2, 3: 2}


def test_who_is_fenced_says_the_node_that_has_read_most() -> None:
    behind = node(1)._replace(metadata_offset=10, fenced_brokers=frozenset({2}))
    ahead = node(2)._replace(metadata_offset=12, fenced_brokers=frozenset({1}))
    assert view(behind, ahead).fenced_brokers == {1}
    assert view(behind, ahead._replace(is_alive=False)).fenced_brokers == {2}


def test_a_link_may_be_cut_in_one_direction() -> None:
    seen = replace(view(node(1), node(2), node(3)), cut_links=frozenset({(1, 2)}))
    assert seen.is_cut(1, 2) and seen.is_cut(2, 1) and not seen.is_cut(1, 3)
