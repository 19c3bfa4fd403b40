"""Lab 24: which offsets does the next batch of a stream read?"""

from typing import NamedTuple

Partition = tuple[str, int]
"""A topic and the number of a partition."""
Offsets = dict[Partition, int]


class Position(NamedTuple):
    """Up to where a query has read. Spark keeps it in the checkpoint."""

    topic_ids: dict[str, str]
    offsets: Offsets


class Look(NamedTuple):
    """What the brokers said at one moment: the topics, and where each log begins and ends."""

    topic_ids: dict[str, str]
    firsts: Offsets
    ends: Offsets


class DataLossError(Exception):
    """Records were lost before the query has read them."""


# --- task 24.1: a limit, shared fairly ---
def limited(limit: int | None, begins: Offsets, ends: Offsets) -> Offsets:
    """Ends that leave about `limit` records in all, for partitions that could be read from `begins` to
    `ends`."""
    sizes = {partition: ends[partition] - begins[partition] for partition in ends}
    total = sum(sizes.values())
    if limit is None or total <= limit:
        return dict(ends)
    shares = {partition: max(1, limit * size // total) if size else 0 for partition, size in sizes.items()}
    return {partition: begins[partition] + share for partition, share in shares.items()}


# --- end of task 24.1 ---


# --- task 24.2: where a batch begins, and what was lost ---
def begins(start: Position, look: Look) -> Offsets:
    """Where the next batch begins in each partition that there is now."""
    found = {}
    for partition, first in look.firsts.items():
        is_same = start.topic_ids.get(partition[0]) == look.topic_ids[partition[0]]
        offset = start.offsets.get(partition, first) if is_same else first
        found[partition] = min(max(offset, first), look.ends[partition])
    return found


def losses(start: Position, look: Look) -> dict[Partition, str]:
    """The partitions of which records were lost, and why: "gone", "recreated", "truncated" or
    "deleted"."""
    found = {}
    for partition, offset in start.offsets.items():
        if partition not in look.ends:
            found[partition] = "gone"
        elif start.topic_ids[partition[0]] != look.topic_ids[partition[0]]:
            found[partition] = "recreated"
        elif look.ends[partition] < offset:
            found[partition] = "truncated"
    for partition, first in look.firsts.items():
        if first > start.offsets.get(partition, 0):
            found.setdefault(partition, "deleted")
    return found


# --- end of task 24.2 ---


# --- task 24.3: one batch after the other ---
class StreamPlanner:
    """Plans the batches of one query. What must survive a crash is in the positions that it returns."""

    def __init__(self, limit: int | None = None, fail_on_data_loss: bool = True) -> None:
        """`limit` is about how many records a batch may have."""
        self.limit = limit
        self.fail_on_data_loss = fail_on_data_loss
        self.target = None

    def fix_target(self, look: Look) -> None:
        """The query ends where the topics end in this look."""
        self.target = look.ends

    def latest(self, start: Position, look: Look) -> Position:
        """Where the batch that begins at `start` ends; DataLossError if records were lost, and that is
        an error."""
        look = self.up_to_target(look)
        if self.fail_on_data_loss and losses(start, look):
            raise DataLossError(str(losses(start, look)))
        return Position(look.topic_ids, limited(self.limit, begins(start, look), look.ends))

    def up_to_target(self, look: Look) -> Look:
        """The look without what is beyond the target."""
        if self.target is None:
            return look
        ends = {one: min(end, self.target[one]) for one, end in look.ends.items() if one in self.target}
        return Look(look.topic_ids, {one: min(look.firsts[one], end) for one, end in ends.items()}, ends)

    def ranges(self, start: Position, end: Position, look: Look) -> dict[Partition, tuple[int, int]]:
        """What the batch between two positions reads: the first offset and the end of each partition
        that has any."""
        same = {topic for topic, topic_id in end.topic_ids.items() if look.topic_ids.get(topic) == topic_id}
        firsts = {one: look.firsts.get(one, 0) if one[0] in same else 0 for one in end.offsets}
        first = begins(start, Look(end.topic_ids, firsts, end.offsets))
        return {one: (first[one], last) for one, last in end.offsets.items() if first[one] < last}


# --- end of task 24.3 ---
