"""The first picture of notebook 14: an offset of the metadata log, and the cluster as it is at that offset.

The log is that of a simulated cluster of three nodes, pykraft's own code on a virtual clock: it starts, a topic is
made, the leader of its partition is killed, and starts again. At each move the records up to the offset are replayed
into an image (`MetadataDelta`), as each node does it.
"""

from functools import lru_cache

from pykraft.course.lessons.elections.elections import Quorum
from pykraft.course.lessons.metadata_log.metadata_log import (
    Entry,
    entries_of,
    replayed,
    rows_of,
    says_something,
    side_by_side,
)
from pykraft.viz import Figure, image_map

SHOWN = 12
"""So many records are drawn."""
LEADER = 3
"""Of the partition `t-0`, until it is killed. With this seed it does not lead the quorum."""
_SEED, _IDLE_MS = 3, 60_000
_STARTED_MS, _AWAY_MS, _BACK_MS = 800, 1_500, 2_000


def draw_offset(offset: int) -> Figure:
    """The last records up to this offset, the image that all of them make, and what the last one has changed."""
    known = [entry for entry in metadata_records() if entry.offset <= offset]
    if not known:
        raise ValueError(f"offset {offset} is before the first metadata record: Raft's own control records are there")
    before, after = rows_of(replayed(known[:-1])), rows_of(replayed(known))
    changed = [row for row in (before | after) if before.get(row) != after.get(row)]
    last = known[-1]
    shown = [entry for entry in known if says_something(entry) or entry is last][-SHOWN:]
    records, _ = side_by_side(shown, replayed(known))
    title = f"Offset {last.offset}, {last.name}: {_change(before, changed) or 'changes nothing'}"
    was = [f"{kind} {name} before: {before[kind, name]}. " for kind, name in changed if (kind, name) in before]
    note = f"{''.join(was)}The image is all {len(known)} records up to here, replayed in order."
    return image_map(records, after, title=title, note=note, latest=True)


@lru_cache(maxsize=1)
def metadata_records() -> list[Entry]:
    """What the cluster's metadata log has in the end."""
    quorum = Quorum(_SEED, idle_ms=_IDLE_MS)
    leader = quorum.run_until_led()
    quorum.run_for(_STARTED_MS)
    quorum.kill(LEADER)
    quorum.run_for(_AWAY_MS)
    quorum.restart(LEADER)
    quorum.run_for(_BACK_MS)
    return list(entries_of(quorum.committed(leader)))


def last_offset() -> int:
    return metadata_records()[-1].offset


def _change(before: dict[tuple[str, str], str], changed: list[tuple[str, str]]) -> str:
    return "; ".join(f"{kind} {name} {'has changed' if (kind, name) in before else 'is new'}" for kind, name in changed)
