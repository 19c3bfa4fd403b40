"""The tables of ``consumer-groups``: groups, offsets and lag, members, states, and what a reset or a deletion did.

A column is as wide as its longest cell, but no less than the tool's own minimum; the last one is not padded. A dash
means that a value is not known. Each description of a group has a remark: whether it has active members, is
rebalancing, or is gone.

Follows org.apache.kafka.tools.consumer.group.ConsumerGroupCommand and org.apache.kafka.tools.OffsetsUtils.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from pykraft.client.administration.group_offsets import CommittedOffsets, PartitionErrors
from pykraft.client.administration.groups import ConsumerGroupDescription, GroupListing, GroupState, MemberDescription
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import TopicPartition

ALL_PARTITIONS = -1
"""Stands for the partitions of a topic that does not exist."""
_MISSING = "-"
_NARROWEST = 15
_UNPADDED = 0
_OFFSETS = (
    *("GROUP", "TOPIC", "PARTITION", "LEADER-EPOCH", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"),
    *("CONSUMER-ID", "HOST", "CLIENT-ID"),
)
_MEMBERS = (
    *("GROUP", "CONSUMER-ID", "GROUP-INSTANCE-ID", "HOST", "CLIENT-ID", "#PARTITIONS"),
    *("CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT", "UPGRADED"),
)
_STATES = (
    *("GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH"),
    "#MEMBERS",
)

Row = Sequence[object]


class Complaint(str):
    """A sentence that is printed as an error."""


Described = tuple[str, str]
"""The remark on a group (a `Complaint`, or a sentence, or nothing) and its table."""


def _table(rows: Iterable[Row], widths: Sequence[int], columns: Sequence[int] | None = None, end: str = "") -> str:
    """The rows as lines, each after an end of line, with these columns only."""
    shown = range(len(widths)) if columns is None else columns
    return "".join("\n" + " ".join(str(row[c]).ljust(widths[c]) for c in shown) + end for row in rows)


def _widest(rows: Iterable[Row], column: int, at_least: int = _NARROWEST) -> int:
    return max([at_least, *(len(str(row[column])) for row in rows)])


def _known(value: object) -> object:
    return _MISSING if value is None else value


def _remark(group: ConsumerGroupDescription) -> str:
    """What is to be said of the group's state; KafkaError if it has none that the table is made for."""
    match group.state:
        case GroupState.STABLE:
            return ""
        case GroupState.EMPTY:
            return f"Consumer group '{group.group_id}' has no active members."
        case GroupState.DEAD:
            return Complaint(f"Consumer group '{group.group_id}' does not exist.")
        case GroupState.UNKNOWN | GroupState.NOT_READY:
            detail = f"Expected a valid consumer group state, but found '{group.state}'."
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, detail)
        case _:
            return f"Warning: Consumer group '{group.group_id}' is rebalancing."


# --- list -------------------------------------------------------------------------------------------------------------


def listing_table(groups: Sequence[GroupListing], shows_type: bool, shows_state: bool) -> str:
    """The groups with their types, their states, or both."""
    rows: list[Row] = [("GROUP", "TYPE", "STATE")]
    rows += [(group.group_id, group.group_type, group.state) for group in groups]
    widths = (_widest(rows, 0) + 10, 20, 20)
    columns = [column for column, is_shown in enumerate((True, shows_type, shows_state)) if is_shown]
    return _table(rows, widths, columns).removeprefix("\n")


# --- describe ---------------------------------------------------------------------------------------------------------


def offsets_tables(
    groups: Iterable[ConsumerGroupDescription],
    committed: Mapping[str, CommittedOffsets],
    ends: Mapping[TopicPartition, int],
    verbose: bool,
) -> Iterator[Described]:
    """For each group its partitions with offsets and lag: those of the members first, then those that no member reads.
    `ends` are the log end offsets, as far as they are known."""
    for group in groups:
        remark = _remark(group)
        rows = list(_offset_rows(group, committed[group.group_id], ends))
        if group.state is GroupState.DEAD or not rows:
            yield remark, ""
            continue
        widths = [_widest(rows, 0), _widest(rows, 1), 10, 15, 15, 15, 15, _widest(rows, 7), _widest(rows, 8), _UNPADDED]
        columns = [column for column, name in enumerate(_OFFSETS) if verbose or name != "LEADER-EPOCH"]
        yield remark, _table([_OFFSETS, *rows], widths, columns)


def _offset_rows(
    group: ConsumerGroupDescription, committed: CommittedOffsets, ends: Mapping[TopicPartition, int]
) -> Iterator[Row]:
    readers: list[tuple[tuple[object, ...], Collection[TopicPartition]]] = [
        ((member.member_id, member.host, member.client_id), member.assignment)
        for member in sorted(group.members, key=lambda member: -len(member.assignment))
    ]
    assigned = {key for _, partitions in readers for key in partitions}
    readers.append(((_MISSING,) * 3, [key for key in committed if key not in assigned]))
    for reader, partitions in readers:
        for key in sorted(partitions):
            place, end = committed.get(key), ends.get(key)
            offset = None if place is None else place.offset
            epoch = None if place is None or place.leader_epoch < 0 else place.leader_epoch
            lag = None if offset is None or end is None else end - offset
            numbers = [_known(value) for value in (epoch, offset, end, lag)]
            yield (group.group_id, key.topic, key.partition, *numbers, *reader)


def offset_rows(
    group: ConsumerGroupDescription, committed: CommittedOffsets, ends: Mapping[TopicPartition, int]
) -> Iterator[dict[str, object]]:
    """The rows of a group in the table of offsets, by the columns' names in lower case; what is not known is null."""
    names = [name.lower().replace("-", "_") for name in _OFFSETS]
    for row in _offset_rows(group, committed, ends):
        yield {name: None if cell == _MISSING else cell for name, cell in zip(names, row, strict=True)}


def members_tables(groups: Iterable[ConsumerGroupDescription], verbose: bool) -> Iterator[Described]:
    """For each group its members; with `verbose` what they have and what they are to have (KIP-848)."""
    for group in groups:
        rows = [_member_row(group, member) for member in group.members]
        at_least = (_NARROWEST, _NARROWEST, 17, _NARROWEST, _NARROWEST, 15, 15, 20, 15, 20)
        widths = [_widest(rows, column, least) for column, least in enumerate(at_least)] + [_UNPADDED]
        hidden = set() if any(member.group_instance_id for member in group.members) else {"GROUP-INSTANCE-ID"}
        if not {True, False} <= {member.is_upgraded for member in group.members}:
            hidden.add("UPGRADED")
        columns = [column for column, name in enumerate(_MEMBERS) if name not in hidden and (verbose or column < 6)]
        yield _remark(group), _table([_MEMBERS, *rows], widths, columns, end="" if verbose else " ")


def _member_row(group: ConsumerGroupDescription, member: MemberDescription) -> Row:
    return (
        group.group_id,
        member.member_id,
        member.group_instance_id or "",
        member.host,
        member.client_id,
        len(member.assignment),
        _known(member.member_epoch),
        _assignment(member.assignment),
        _known(group.target_assignment_epoch),
        _assignment(member.target_assignment or ()),
        _MISSING if member.is_upgraded is None else str(member.is_upgraded).lower(),
    )


def _assignment(partitions: Collection[TopicPartition]) -> str:
    """``flights:0,1;seats:0``"""
    topics: dict[str, list[str]] = {}
    for topic, number in sorted(partitions):
        topics.setdefault(topic, []).append(str(number))
    return ";".join(sorted(f"{topic}:{','.join(numbers)}" for topic, numbers in topics.items())) or _MISSING


def states_tables(groups: Iterable[ConsumerGroupDescription], verbose: bool) -> Iterator[Described]:
    """For each group its coordinator, assignor, state and number of members; with `verbose` its epochs (KIP-848)."""
    for group in groups:
        remark = _remark(group)
        if group.state is GroupState.DEAD:
            yield remark, ""
            continue
        row = (
            group.group_id,
            f"{group.coordinator.host}:{group.coordinator.port}  ({group.coordinator.id})",
            group.partition_assignor or _MISSING,
            group.state,
            _known(group.group_epoch),
            _known(group.target_assignment_epoch),
            len(group.members),
        )
        widths = (_widest([row], 0), _widest([row], 1, 25), 20, 20, 15, 25, _UNPADDED)
        yield remark, _table([_STATES, row], widths, None if verbose else (0, 1, 2, 3, 6))


# --- reset and delete -------------------------------------------------------------------------------------------------


def reset_table(offsets: Mapping[str, Mapping[TopicPartition, int]]) -> str:
    """The new offsets of each group."""
    rows: list[Row] = [
        (group, key.topic, key.partition, offset)
        for group, each in sorted(offsets.items())
        for key, offset in sorted(each.items())
    ]
    widths = (_widest([(group,) for group in offsets], 0), _widest(rows, 1), 10, _UNPADDED)
    heading: list[Row] = [("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET")] if offsets else []
    return _table([*heading, *rows], widths)


def deletion_table(found: PartitionErrors) -> str:
    """What became of each partition's offset."""
    rows: list[Row] = [("TOPIC", "PARTITION", "STATUS")]
    for key, error in sorted(found.items(), key=lambda item: f"{item[0].topic}{item[0].partition}"):
        number = _MISSING if key.partition == ALL_PARTITIONS else key.partition
        rows.append((key.topic, number, "Successful" if error is None else f"Error: {error}"))
    return _table(rows, (_widest(rows, 0), 10, 15))
