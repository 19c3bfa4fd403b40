"""Which disks of controllers may be lost: a majority of the voters has to be left, whatever is under way."""

from __future__ import annotations

import pytest

from pykraft.common.types import ReplicaKey, Uuid
from pykraft.sim.laws.invariants import ReplicaLog
from pykraft.sim.laws.voter_laws import VoterLaws, _Read


def key(node: int, disk: int = 1) -> ReplicaKey:
    return ReplicaKey(node, Uuid(bytes([node] * 15 + [disk])))


def laws(*sets: tuple[int, ...], committed: int = -1) -> VoterLaws:
    """A log in which these voters follow each other, at offsets 0, 10 and so on."""
    found = VoterLaws()
    changes = [(10 * number, frozenset(map(key, nodes))) for number, nodes in enumerate(sets)]
    found._read[1] = _Read(ReplicaLog("a log"), 0, changes)
    found._committed = committed
    return found


@pytest.mark.parametrize(
    ("voters", "lost_before", "lost", "goes_on"),
    [
        ((1,), (), (1,), False),
        ((1, 2), (), (1,), False),
        ((1, 2, 3), (), (1,), True),
        ((1, 2, 3), (), (4,), True),
        ((1, 2, 3), (), (1, 2), False),
        ((1, 2, 3), (1,), (2,), False),
        ((1, 2, 3, 4, 5), (1,), (2,), True),
        ((1, 2, 3), (4, 5, 6), (7,), False),
    ],
)
def test_a_majority_of_the_voters_is_left(
    voters: tuple[int, ...], lost_before: tuple[int, ...], lost: tuple[int, ...], goes_on: bool
) -> None:
    found = laws(voters)
    for node in lost_before:
        found.forget_disk(key(node), 3)
    found._read[1] = laws(voters)._read[1]
    assert found.can_do_without(set(map(key, lost))) is goes_on


def test_a_change_that_is_not_committed_may_hold_and_may_not() -> None:
    assert not laws((1, 2, 3), (1, 2)).can_do_without({key(3), key(2)})
    assert not laws((1, 2, 3), (1, 2), committed=0).can_do_without({key(2)})
    assert laws((1, 2), (1, 2, 3), committed=10).can_do_without({key(2)})


def test_no_disk_is_lost_before_a_voter_is_known() -> None:
    assert not VoterLaws().can_do_without({key(1)})


def test_the_next_disk_of_a_node_is_another_voter() -> None:
    found = laws((1, 2, 3))
    found.forget_disk(key(3), 3)
    found._read[1] = laws((1, 2, 3))._read[1]
    assert found.can_do_without({key(3, disk=2)})
    assert not found.can_do_without({key(1)})
