"""Which rows of the transition tables a history takes: coverage of states.

A history that changes nothing breaks no law, either. So it is counted which transitions were seen of a node's role, a
broker's life, an ISR, a group and its members, a transaction, and a change of voters. Most tables are data of the nodes
and clients themselves; those of the ISR and of voters are rows of this module.

Nothing is counted unless you ask for it: then the functions that make a transition are wrapped, in this process.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from typing import Any

from pykraft.broker.replication.partition import IsrState, Partition
from pykraft.broker.startup import lifecycle
from pykraft.client.consuming import heartbeats, membership, subscription
from pykraft.coordinator.group.classic_groups import classic_group
from pykraft.coordinator.transaction.state import VALID_PREVIOUS_STATES, TransactionMetadata
from pykraft.raft import quorum_state, voter_changes
from pykraft.raft.log.state_machine import ControlRecords
from pykraft.sim.bugs.planting import put, put_back
from pykraft.sim.laws.voter_laws import VoterLaws

Row = tuple[str, str]
"""A table, and what of it."""


def _of(before: Enum, after: Enum) -> str:
    return f"{before.name} to {after.name}"


_ISR = tuple(
    f"{before} to {after}"
    for before, after in (
        ("COMMITTED", "EXPANDING"),
        ("COMMITTED", "SHRINKING"),
        ("EXPANDING", "COMMITTED, larger"),
        ("EXPANDING", "COMMITTED, as before"),
        ("EXPANDING", "COMMITTED, smaller"),
        ("SHRINKING", "COMMITTED, smaller"),
        ("SHRINKING", "COMMITTED, as before"),
        ("COMMITTED", "COMMITTED, by the metadata log"),
    )
)
_VOTERS = (
    "NONE to BEGUN",
    "NONE to REFUSED",
    "BEGUN to APPENDED",
    "APPENDED to COMMITTED, one voter more",
    "APPENDED to COMMITTED, one voter less",
    "APPENDED to COMMITTED, the leader leaves",
    "APPENDED to TRUNCATED",
)
TABLES: Mapping[str, frozenset[str]] = {
    "role": frozenset(_of(before, each) for before, after in quorum_state.TRANSITIONS.items() for each in after),
    "broker": frozenset(_of(before, each) for before, after in lifecycle.TRANSITIONS.items() for each in after),
    "ISR": frozenset(_ISR),
    "classic group": frozenset(_of(*each) for each in classic_group.TRANSITIONS),
    "classic member": frozenset(_of(*each) for each in membership.TRANSITIONS),
    "consumer group member": frozenset(_of(*each) for each in heartbeats.TRANSITIONS),
    "partition of a consumer": frozenset(_of(*each) for each in subscription.TRANSITIONS),
    "transaction": frozenset(_of(each, after) for after, before in VALID_PREVIOUS_STATES.items() for each in before),
    "voters": frozenset(_VOTERS),
}
"""The rows of each table."""


@contextmanager
def taken_rows() -> Iterator[set[Row]]:
    """What is taken from now on, by all histories of this process."""
    taken: set[Row] = set()
    with put_back():
        for table, owner, name, state_of in _MOVES:
            _watch(taken, table, owner, name, state_of)
        _watch_transactions(taken)
        _watch_isr(taken)
        _watch_voters(taken)
        yield taken


def _role(mover: Any) -> Enum:
    return mover.role.name  # type: ignore[no-any-return]


def _state(mover: Any) -> Enum:
    return mover.state  # type: ignore[no-any-return]


_MOVES: tuple[tuple[str, Any, str, Callable[[Any], Enum]], ...] = (
    ("role", quorum_state.QuorumState, "_become", _role),
    ("broker", lifecycle.BrokerLifecycle, "_become", _state),
    ("classic group", classic_group.ClassicGroup, "move", _state),
    ("classic member", membership.ClassicMembership, "_move", _state),
    ("consumer group member", heartbeats.ConsumerMembership, "_move", _state),
    ("partition of a consumer", subscription.PartitionState, "_move", _state),
)
"""Of each table: who moves, by which method, and what its state is."""


def _watch(taken: set[Row], table: str, owner: Any, name: str, state_of: Callable[[Any], Enum]) -> None:
    move = getattr(owner, name)

    def moved(self: Any, *arguments: Any) -> Any:
        before = state_of(self)
        result = move(self, *arguments)
        taken.add((table, _of(before, state_of(self))))
        return result

    put(owner, name, moved)


def _watch_transactions(taken: set[Row]) -> None:
    to = TransactionMetadata._to

    def moved(self: TransactionMetadata, *arguments: Any, **changes: Any) -> TransactionMetadata:
        after = to(self, *arguments, **changes)
        taken.add(("transaction", _of(self.state, after.state)))
        return after

    put(TransactionMetadata, "_to", moved)


def _watch_isr(taken: set[Row]) -> None:
    set_isr = Partition._set_isr

    def moved(self: Partition, state: IsrState) -> None:
        before = self.isr_state
        set_isr(self, state)
        how = ""
        if not state.is_in_flight:
            how = ", by the metadata log"
            if before.is_in_flight:
                more = len(state.isr) - len(before.isr)
                how = ", as before" if not more else ", larger" if more > 0 else ", smaller"
        taken.add(("ISR", _of(before.change, state.change) + how))

    put(Partition, "_set_isr", moved)


def _watch_voters(taken: set[Row]) -> None:
    def note(owner: Any, name: str, row: str, counts: Callable[[Any], bool] = lambda result: True) -> None:
        function = getattr(owner, name)

        def noted(*arguments: Any) -> Any:
            result = function(*arguments)
            if counts(result):
                taken.add(("voters", row))
            return result

        put(owner, name, noted)

    begun, refused, appended, more, less, left, truncated = _VOTERS
    note(voter_changes, "_begin", begun)
    note(voter_changes, "_append", appended)
    note(voter_changes, "_no", refused)
    note(voter_changes, "_obstacle", refused, lambda outcome: outcome is not None)
    check, truncate = VoterLaws.check, ControlRecords.truncate_to

    def checked(self: VoterLaws, *arguments: Any) -> None:
        check(self, *arguments)
        counts = ((more, self.added), (less, self.removed), (left, self.resigned))
        taken.update(("voters", row) for row, count in counts if count)

    def truncated_to(self: ControlRecords, end_offset: int) -> None:
        before = self.history.latest
        truncate(self, end_offset)
        if self.history.latest != before:
            taken.add(("voters", truncated))

    put(VoterLaws, "check", checked)
    put(ControlRecords, "truncate_to", truncated_to)


def summary(taken: set[Row], explained: Mapping[Row, str]) -> Iterator[str]:
    """A line for each table with its percentage, and one for all; then the rows that none has taken, and why."""
    for table, rows in TABLES.items():
        seen = {what for of, what in taken if of == table} & rows
        yield f"{table}: {100 * len(seen) / len(rows):.0f} % ({len(seen)} of {len(rows)} rows)"
    all_rows = {(table, what) for table, rows in TABLES.items() for what in rows}
    count = len(all_rows & taken)
    yield f"all tables: {100 * count / len(all_rows):.0f} % ({count} of {len(all_rows)} rows)"
    for row in sorted(all_rows - taken):
        yield f"not taken: {row[0]}, {row[1]}: {explained.get(row, 'no history of these has come to it')}"
