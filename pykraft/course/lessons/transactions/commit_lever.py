"""The first picture of notebook 19: one transaction, message by message.

At each move of `history` a cluster of three nodes with a teller lives on a simulated clock, with pykraft's own code.
The first transaction that ends is drawn: what the teller, the coordinator and the leaders say to each other, and what
the coordinator writes into its log. `row` is how far it has come: beside the picture is what readers could see then.
"""

from functools import lru_cache
from typing import NamedTuple

from pykraft.sim.laws.transaction_laws import BANK
from pykraft.story.plans import nothing
from pykraft.story.scene_clusters import three_nodes, with_teller
from pykraft.story.story import Story
from pykraft.viz import Figure
from pykraft.viz.clients.sequence_chart import Host, Row, sequence

MOST_ROWS = 24
_UNTIL_MS = 7_500
_ID = "teller-0"
_APIS = frozenset({"Produce", "AddPartitionsToTxn", "EndTxn", "WriteTxnMarkers"})
_SECOND_PHASE = ("EndTxn answer", "WriteTxnMarkers")
_COMPLETE = ("CompleteCommit", "CompleteAbort")


class Transaction(NamedTuple):
    """One transaction of a history."""

    story: Story
    coordinator: int
    rows: list[Row]
    partitions: list[int]
    """Those of the bank that it writes to."""


def draw_transaction(history: int, row: int) -> Figure:
    """The transaction, up to this row. ValueError if the history has none that ends."""
    found = first_transaction(history)
    shown = min(row, len(found.rows))
    now_ms = found.rows[shown - 1].ms
    states = [each.label for each in found.rows[:shown] if each.receiver is None]
    state = states[-1] if states else "nothing yet"
    seen = ", ".join(_offsets_of(found, partition, now_ms) for partition in found.partitions)
    title = f"Row {shown} of {len(found.rows)}: the coordinator has written {state}"
    return sequence(_hosts(found), found.rows, shown=shown, title=title, note=f"The leaders now: {seen}")


@lru_cache(maxsize=1)  # `row` moves within one history
def first_transaction(history: int) -> Transaction:
    """The first that the teller begins and ends. ValueError if there is none."""
    story = Story.begin(history, with_teller(three_nodes(history, ())), {}, nothing).run_until(_UNTIL_MS)
    written = _states(story)
    begun = next((number for number, state in enumerate(written) if state.label == "Ongoing"), None)
    own = written[begun:] if begun is not None else []
    ended = next((number for number, state in enumerate(own) if state.label in _COMPLETE), 0)
    if not ended:
        raise ValueError(f"no transaction of history {history} ends in {_UNTIL_MS:,} ms: choose another history")
    own = own[: ended + 1]
    decided_ms = next(state.ms for state in own if state.label.startswith("Prepare"))
    messages = _messages(story)
    asked = [each for each in messages if each.label.startswith("Produce: ") and each.ms < own[0].ms]
    start_ms = asked[-1].ms if asked else own[0].ms
    first = [each for each in messages if start_ms <= each.ms < decided_ms]
    # The teller begins its next transaction while the markers of this one are under way: those messages are left out.
    second = [each for each in messages if decided_ms <= each.ms <= own[-1].ms and each.label.startswith(_SECOND_PHASE)]
    rows = sorted([*first, *second, *own], key=lambda each: each.ms)
    partitions = {int(each.label.split(f"{BANK}-")[1].split(",")[0]) for each in rows if f": {BANK}-" in each.label}
    coordinator = own[0].sender
    assert isinstance(coordinator, int)
    return Transaction(story, coordinator, rows[:MOST_ROWS], sorted(partitions))


def _states(story: Story) -> list[Row]:
    """What the coordinator has written for the teller, when it changed."""
    found: list[Row] = []
    for step in range(story.last_step + 1):
        for doing in story.doings_at(step):
            name, _, state = doing.what.partition(": ")
            if name == _ID and state and (not found or found[-1].label != state):
                found.append(Row(story.time_at(step), doing.host, None, state))
    return found


def _messages(story: Story) -> list[Row]:
    """The messages of transactions between different hosts."""
    seen: dict[int, Row] = {}
    for step in range(story.last_step + 1):
        for each in story.messages_at(step):
            if each.name in _APIS and each.id not in seen and each.sender != each.receiver:
                asked = f"{each.name}: {each.summary.removesuffix(', acks -1')}"
                label = f"{each.name} answer" if each.is_response else asked
                seen[each.id] = Row(each.sent_ms, each.sender, each.receiver, label)
    return list(seen.values())


def _hosts(found: Transaction) -> dict[Host, str]:
    """The hosts that have a part in it: the teller, the coordinator, and the leaders."""
    there = {host for row in found.rows for host in (row.sender, row.receiver) if host is not None}
    names: dict[Host, str] = {host: "teller" for host in there if isinstance(host, str)}
    names[found.coordinator] = f"node {found.coordinator}\ncoordinator"
    for host in sorted(host for host in there if isinstance(host, int) and host != found.coordinator):
        names[host] = f"node {host}\nleader"
    return names


def _offsets_of(found: Transaction, partition: int, now_ms: float) -> str:
    view = found.story.at(found.story.step_at(now_ms))
    leader = view.leader(BANK, partition)
    replica = view.replicas(BANK, partition).get(leader) if leader is not None else None
    if replica is None:
        return f"{BANK}-{partition} has no leader"
    return f"{BANK}-{partition} ends at {replica.log_end_offset}"
