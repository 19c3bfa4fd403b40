"""The new offsets of ``consumer-groups --reset-offsets``: which partitions are meant, and where each one begins again.

Exactly one rule says where::

    --to-earliest --to-latest   the start, the end of the log
    --to-current                the committed offset; the end where there is none
    --to-offset N --shift-by N  that offset, so far from the committed one: no further than the log reaches
    --to-datetime --by-duration the first record at or after then, that long ago; the end where there is none
    --from-file                 what a file of ``--export`` says

A line of such a file is ``topic,partition,offset`` for a single ``--group``, and ``group,topic,partition,offset`` for
several. Text is quoted as the tool does it: where it has a character before ``-`` in ASCII or is longer than 24.

Follows org.apache.kafka.tools.OffsetsUtils and org.apache.kafka.tools.consumer.group.CsvUtils.
"""

import argparse
import csv
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from pykraft.admin import Admin
from pykraft.client.administration.admin import TopicDescription
from pykraft.client.arguments import LARGEST_INT64, topic_partition
from pykraft.commands.common import CommandError, read_text, say, tell
from pykraft.commands.groups_and_transactions.group_tables import Complaint
from pykraft.common.duration import parse_duration_ms
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import TopicPartition
from pykraft.protocol.messages.data import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP

GroupOffsets = dict[TopicPartition, int]
Report = Callable[[Complaint], None]
"""Prints an error, and remembers that there was one."""

_NO_OFFSET = -1
_NO_LEADER = -1
RULES = (
    "to_earliest",
    "to_latest",
    "to_current",
    "to_offset",
    "shift_by",
    "to_datetime",
    "by_duration",
    "from_file",
)
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}(Z|[+-]\d\d(:\d\d)?)?")
_SAFE_FROM = "-"
_LONGEST_UNQUOTED = 24


def add_reset_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--all-topics", action="store_true", help="--reset-offsets: all that the group has offsets for")
    rules = parser.add_mutually_exclusive_group()
    rules.add_argument("--to-earliest", action="store_true", default=None, help="to the start of the log")
    rules.add_argument("--to-latest", action="store_true", default=None, help="to the end of the log")
    rules.add_argument("--to-current", action="store_true", default=None, help="to the committed offset")
    rules.add_argument("--to-offset", type=int, metavar="N", help="to this offset")
    rules.add_argument("--shift-by", type=int, metavar="N", help="this many records on, or back")
    rules.add_argument("--to-datetime", metavar="YYYY-MM-DDThh:mm:ss.sss", help="to the first record since then (UTC)")
    rules.add_argument(
        "--by-duration", metavar="PnDTnHnMnS", help="to the first record of the last period of this length"
    )
    rules.add_argument("--from-file", type=Path, metavar="FILE", help="to what a file of --export says")
    execution = parser.add_mutually_exclusive_group()
    execution.add_argument("--dry-run", action="store_true", help="only print the new offsets (the default)")
    execution.add_argument("--execute", action="store_true", help="commit the new offsets")
    parser.add_argument("--export", action="store_true", help="print the new offsets as CSV")


@dataclass(frozen=True, kw_only=True)
class Reset:
    """Where the partitions begin again: one of the rules, its value read."""

    rule: str
    offset: int = 0
    """--to-offset, --shift-by"""
    timestamp_ms: int = 0
    """--to-datetime, --by-duration"""
    plan: Mapping[str, GroupOffsets] = field(default_factory=dict)
    """--from-file: offsets by group"""

    def new_offsets(
        self, admin: Admin, group: str, partitions: Collection[TopicPartition], report: Report
    ) -> GroupOffsets:
        """The new offset of each partition of the group (of those in the file, with --from-file). KafkaError names
        partitions that do not exist or have no leader."""
        if self.rule == "from_file":
            if group not in self.plan:
                report(Complaint(f"No reset plan for group {group} found"))
                return {}
            partitions = self.plan[group]
        _check_partitions(admin, partitions)
        match self.rule:
            case "to_earliest":
                return _log_offsets(admin, partitions, EARLIEST_TIMESTAMP)
            case "to_latest":
                return _log_offsets(admin, partitions, LATEST_TIMESTAMP)
            case "to_datetime" | "by_duration":
                return _offsets_since(admin, partitions, self.timestamp_ms)
            case "to_offset":
                return _within_logs(admin, dict.fromkeys(partitions, self.offset))
            case "from_file":
                return _within_logs(admin, self.plan[group])
        committed = {key: place.offset for key, place in admin.list_consumer_group_offsets(group).items() if place}
        others = [key for key in partitions if key not in committed]
        if self.rule == "shift_by":
            if others:
                raise CommandError(
                    f"Cannot shift offset for partition {others[0]} since there is no current committed offset"
                )
            return _within_logs(admin, {key: committed[key] + self.offset for key in partitions})
        current = {key: committed[key] for key in partitions if key in committed}
        return current | _log_offsets(admin, others, LATEST_TIMESTAMP)


# --- reading the options ----------------------------------------------------------------------------------------------


def parse_reset(options: argparse.Namespace, now_ms: int) -> Reset:
    """The rule that the options name; CommandError if there is none, or its value makes no sense."""
    rule = next((rule for rule in RULES if getattr(options, rule) is not None), None)
    if rule is None:
        names = ", ".join(f"--{rule.replace('_', '-')}" for rule in RULES)
        raise CommandError(f"--reset-offsets needs one of {names}")
    if rule != "from_file" and not options.all_topics and not options.topic:
        raise CommandError("One of the reset scopes should be defined: --all-topics, --topic.")
    split_topics(options.topic or ())
    match rule:
        case "to_offset" | "shift_by":
            offset: int = getattr(options, rule)
            if abs(offset) > LARGEST_INT64:
                raise CommandError(f"--{rule.replace('_', '-')} is {offset}, which is no offset")
            return Reset(rule=rule, offset=offset)
        case "to_datetime":
            return Reset(rule=rule, timestamp_ms=parse_moment(options.to_datetime))
        case "by_duration":
            return Reset(rule=rule, timestamp_ms=now_ms - parse_duration(options.by_duration))
        case "from_file":
            groups = options.group or []
            return Reset(
                rule=rule, plan=parse_plan(read_text(options.from_file), groups[0] if len(groups) == 1 else None)
            )
    return Reset(rule=rule)


def parse_moment(text: str) -> int:
    """Milliseconds since 1970 of a date and time, in UTC unless it says otherwise; CommandError if it is none."""
    if _MOMENT.fullmatch(text):
        try:
            moment = datetime.fromisoformat(text)
            return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
        except ValueError:
            pass
    raise CommandError(f"--to-datetime is {text}, but must be a time such as 2026-03-01T00:00:00.000")


def parse_duration(text: str) -> int:
    """Milliseconds of a duration as java.time.Duration reads it; CommandError if it is none."""
    try:
        return parse_duration_ms(text)
    except ValueError:
        raise CommandError(f"--by-duration is {text}, but must be a duration such as P7D or PT1H30M") from None


def split_topics(topics: Iterable[str]) -> tuple[list[TopicPartition], list[str]]:
    """The partitions that ``T:0,1`` names, and the topics that are meant as a whole; CommandError if a partition is no
    number."""
    partitions: list[TopicPartition] = []
    whole: list[str] = []
    for text in topics:
        topic, colon, numbers = text.partition(":")
        if not colon:
            whole.append(text)
            continue
        if not topic or not numbers or ":" in numbers:
            raise CommandError(f"Invalid topic arg '{text}', expected topic name and partitions")
        for number in numbers.split(","):
            if not re.fullmatch("[0-9]{1,9}", number):
                raise CommandError(f"Invalid partition '{number}' specified in topic arg '{text}'")
            partitions.append(TopicPartition(topic, int(number)))
    return partitions, whole


def chosen_partitions(
    admin: Admin, group: str, topics: Collection[str] | None, all_topics: bool
) -> list[TopicPartition]:
    """The partitions that are to be reset, without the file's."""
    if all_topics:
        return sorted(admin.list_consumer_group_offsets(group))
    partitions, whole = split_topics(topics or ())
    described = admin.describe_topics(whole) if whole else {}
    return partitions + [
        TopicPartition(topic.name, each.partition) for topic in described.values() for each in topic.partitions
    ]


# --- files ------------------------------------------------------------------------------------------------------------


def csv_of(offsets: Mapping[str, GroupOffsets], is_single_group: bool) -> str:
    """The offsets in lines, without the last one's end, but for an empty line after them, as the tool prints it."""
    return "".join(
        ",".join(([] if is_single_group else [_quoted(group)]) + [_quoted(key.topic), f"{key.partition},{offset}\n"])
        for group, each in sorted(offsets.items())
        for key, offset in sorted(each.items())
    )


def _quoted(text: str) -> str:
    if len(text) <= _LONGEST_UNQUOTED and all(letter >= _SAFE_FROM for letter in text):
        return text
    return '"' + text.replace('"', '""') + '"'


def parse_plan(text: str, group: str | None) -> dict[str, GroupOffsets]:
    """The offsets in such a file, by group; `group` is the only one that was named, if it is only one. CommandError
    says which line cannot be read."""
    plan: dict[str, GroupOffsets] = {}
    for number, row in enumerate(csv.reader(text.splitlines()), 1):
        if not row:
            continue
        row = [group, *row] if group is not None and len(row) == 3 else row
        try:
            name, topic, partition, offset = row
            if not 0 <= int(offset) <= LARGEST_INT64:
                raise ValueError
            plan.setdefault(name, {})[topic_partition((topic, int(partition)))] = int(offset)
        except (ValueError, KafkaError):
            columns = "topic,partition,offset" if group is not None else "group,topic,partition,offset"
            raise CommandError(f"--from-file: line {number} must have {columns}") from None
    return plan


# --- offsets ----------------------------------------------------------------------------------------------------------


def partitions_with_leader(topics: Iterable[TopicDescription]) -> list[TopicPartition]:
    return [
        TopicPartition(topic.name, each.partition)
        for topic in topics
        for each in topic.partitions
        if each.leader != _NO_LEADER
    ]


def _check_partitions(admin: Admin, partitions: Collection[TopicPartition]) -> None:
    """KafkaError if some do not exist or have no leader."""
    topics = admin.describe_topics(sorted({key.topic for key in partitions})) if partitions else {}
    existing = {TopicPartition(topic.name, each.partition) for topic in topics.values() for each in topic.partitions}
    led = set(partitions_with_leader(topics.values()))
    for known, error, what in (
        (existing, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "do not exist"),
        (led, ErrorCode.LEADER_NOT_AVAILABLE, "have no leader"),
    ):
        lacking = [str(key) for key in partitions if key not in known]
        if lacking:
            raise KafkaError(error, f'The partitions "{",".join(lacking)}" {what}')


def _log_offsets(admin: Admin, partitions: Iterable[TopicPartition], timestamp: int) -> GroupOffsets:
    found = admin.list_offsets(dict.fromkeys(partitions, timestamp))
    return {key: place.offset for key, place in found.items()}


def _offsets_since(admin: Admin, partitions: Collection[TopicPartition], timestamp_ms: int) -> GroupOffsets:
    # Times before 1970 would be taken for the start or the end of the log.
    found = _log_offsets(admin, partitions, max(0, timestamp_ms))
    without = [key for key in partitions if found[key] == _NO_OFFSET]
    for topic, partition in without:
        say(f"\nWarn: Partition {partition} from topic {topic} is empty. Falling back to latest known offset.")
    return found | _log_offsets(admin, without, LATEST_TIMESTAMP)


def _within_logs(admin: Admin, wanted: Mapping[TopicPartition, int]) -> GroupOffsets:
    """These offsets, no further than each log reaches."""
    starts = _log_offsets(admin, wanted, EARLIEST_TIMESTAMP)
    ends = _log_offsets(admin, wanted, LATEST_TIMESTAMP)
    found = {}
    for key, offset in wanted.items():
        found[key] = min(max(offset, starts[key]), ends[key])
        if found[key] != offset:
            bound = "higher than latest" if offset > ends[key] else "lower than earliest"
            tell(
                f"New offset ({offset}) is {bound} offset for topic partition {key}. Value will be set to {found[key]}"
            )
    return found
