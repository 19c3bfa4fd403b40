"""Which rows of the transition tables a history takes is counted without changing it, and told in percent."""

from __future__ import annotations

from itertools import islice

from pykraft.raft.quorum_state import QuorumState
from pykraft.sim.search.coverage import TABLES, Row, summary, taken_rows
from pykraft.sim.search.untaken import RARE, UNTAKEN
from pykraft.sim.trail import digest
from pykraft.simulation import Simulation
from tests.sim.digests import STEPS, table

SEED = 7
ALL = {(name, what) for name, rows in TABLES.items() for what in rows}


def test_the_rows_that_a_history_takes_are_seen_and_it_stays_the_same() -> None:
    become = QuorumState._become
    with taken_rows() as taken:
        lines = islice(Simulation(SEED).trail(), STEPS)
        assert table()[SEED] == f"{SEED} {STEPS} {digest(lines)}"
    assert QuorumState._become is become
    for row in (
        ("role", "CANDIDATE to LEADER"),
        ("broker", "STARTING to RUNNING"),
        ("ISR", "COMMITTED to COMMITTED, by the metadata log"),
        ("classic group", "PREPARING_REBALANCE to COMPLETING_REBALANCE"),
        ("classic member", "UNJOINED to PREPARING_REBALANCE"),
        ("partition of a consumer", "AWAITING_RESET to FETCHING"),
    ):
        assert row in taken, sorted(taken)
    assert taken <= ALL, "only rows of the tables are taken"


def test_percentages_are_told_by_table_and_what_is_not_taken_with_its_reason() -> None:
    gone: Row = ("broker", "NOT_RUNNING to STARTING")
    lines = list(summary(ALL - {gone, ("voters", "NONE to BEGUN")}, {gone: "it is the start"}))
    assert "role: 100 % (19 of 19 rows)" in lines
    assert "broker: 83 % (5 of 6 rows)" in lines
    assert f"all tables: {100 * (len(ALL) - 2) / len(ALL):.0f} % ({len(ALL) - 2} of {len(ALL)} rows)" in lines
    assert lines[-2:] == [
        "not taken: broker, NOT_RUNNING to STARTING: it is the start",
        "not taken: voters, NONE to BEGUN: no history of these has come to it",
    ]


def test_only_rows_of_the_tables_are_explained() -> None:
    assert UNTAKEN.keys() | RARE.keys() <= ALL and not UNTAKEN.keys() & RARE.keys()
    no_answers = {"LEAVING to FATAL", "LEAVING to FENCED", "PREPARE_LEAVING to FENCED", "UNSUBSCRIBED to FATAL"}
    no_answers |= {"UNSUBSCRIBED to PREPARE_LEAVING", "JOINING to FENCED", "JOINING to STABLE", "RECONCILING to STABLE"}
    no_answers.add("AWAITING_VALIDATION to AWAITING_VALIDATION")
    others = {what for table, what in UNTAKEN if not what.endswith(" to DEAD")}
    assert others == no_answers, "no code makes these moves"
