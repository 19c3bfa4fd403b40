"""Transactions on a whole node in virtual time: what each request is answered in each state, and when markers go out.

A test is a dialogue of producers with their coordinator; the test plays the leaders that write the markers.
"""

from __future__ import annotations

from pykraft.common.errors import ErrorCode
from tests.harness.transactions import Transactions

NONE, FENCED = ErrorCode.NONE, ErrorCode.PRODUCER_FENCED
CONCURRENT, INVALID = ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.INVALID_TXN_STATE
UNKNOWN_ID = ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_a_transaction_is_committed_once_every_marker_is_acknowledged() -> None:
    t = Transactions()
    producer_id, epoch = t.producer()
    assert (producer_id, epoch, t.state()) == (0, 0, "Empty")
    assert t.add_as_broker((0, 0), "t", "u") == {"t": NONE, "u": NONE}
    assert t.state() == "Ongoing"
    assert t.ended((0, 0)) == (NONE, (0, 1))
    assert t.state() == "PrepareCommit"
    assert t.marked(u=ErrorCode.NOT_LEADER_OR_FOLLOWER) == [((0, 1), True, ["t", "u"])]
    assert t.state() == "PrepareCommit"
    t.run(100)
    assert t.marked() == [((0, 1), True, ["u"])]
    assert t.state() == "CompleteCommit"
    assert [record.value.transaction_status for record in t.records()] == [0, 1, 2, 4]
