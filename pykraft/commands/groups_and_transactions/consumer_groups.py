"""``consumer-groups``: list, describe, reset and delete consumer groups and their offsets, as kafka-consumer-groups.sh
does.

Exactly one of ``--list``, ``--describe``, ``--reset-offsets``, ``--delete``, ``--delete-offsets`` says what is done.
``--group``, which may be repeated, or ``--all-groups`` says to which groups::

    consumer-groups --list [--state [STATE,...]] [--type [TYPE,...]]
    consumer-groups --describe --group G [--offsets | --members | --state] [--verbose]
    consumer-groups --reset-offsets --group G (--topic T[:0,1] | --all-topics) --to-earliest [--execute] [--export]
    consumer-groups --delete --group G
    consumer-groups --delete-offsets --group G --topic T[:0,1]

Tables and sentences are the tool's, on the same streams: results and ``Error: ...`` on standard output, remarks on
standard error. Three things differ. Groups and partitions are sorted, which the tool leaves to its hash tables. An
error of the protocol has its name and our words where the tool has a Java class and Java's words. And a command that
prints an error ends with exit code 1, where the tool ends with 0.

The tables are made in `group_tables`, the new offsets of a reset in `group_resets`.

Follows org.apache.kafka.tools.consumer.group.{ConsumerGroupCommand,ConsumerGroupCommandOptions}.
"""

import argparse
from collections.abc import Collection, Mapping

from pykraft.admin import Admin
from pykraft.client.administration.admin import UnknownTopicError
from pykraft.client.administration.group_offsets import CommittedOffsets, PartitionErrors
from pykraft.client.administration.groups import ConsumerGroupDescription, GroupState, GroupType
from pykraft.commands.as_json import add_json, plain, say_json
from pykraft.commands.common import CommandError, add_client_arguments, answers, client_settings, say, tell
from pykraft.commands.groups_and_transactions.group_resets import (
    RULES,
    GroupOffsets,
    Reset,
    add_reset_arguments,
    chosen_partitions,
    csv_of,
    parse_reset,
    partitions_with_leader,
    split_topics,
)
from pykraft.commands.groups_and_transactions.group_tables import (
    ALL_PARTITIONS,
    Complaint,
    deletion_table,
    listing_table,
    members_tables,
    offset_rows,
    offsets_tables,
    reset_table,
    states_tables,
)
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import TopicPartition
from pykraft.protocol.messages.data import LATEST_TIMESTAMP
from pykraft.runtime.client_thread import time_of_day_ms

_ACTIONS_OF = {
    "group": ("describe", "reset-offsets", "delete", "delete-offsets"),
    "all_groups": ("describe", "reset-offsets", "delete"),
    "topic": ("reset-offsets", "delete-offsets"),
    "all_topics": ("reset-offsets",),
    "json": ("list", "describe"),
    "members": ("describe",),
    "offsets": ("describe",),
    "verbose": ("describe",),
    "state": ("list", "describe"),
    "type": ("list",),
    "dry_run": ("reset-offsets",),
    "execute": ("reset-offsets",),
    "export": ("reset-offsets",),
    **dict.fromkeys(RULES, ("reset-offsets",)),
}
"""Options that not every action has."""
_STATES = [state for state in GroupState if state not in (GroupState.UNKNOWN, GroupState.NOT_READY)]
_TYPES = [GroupType.CLASSIC, GroupType.CONSUMER]
_DEFAULT_TIMEOUT_MS = 30_000
_WITHOUT_EXECUTE = (
    "WARN: No action will be performed as the --execute option is missing. In version 5.0, this command will require "
    "either --dry-run or --execute to be specified. You should add the --dry-run option explicitly if you are "
    "scripting this command and want to keep the current default behavior without prompting."
)
_OF_THE_GROUP = (
    ErrorCode.INVALID_GROUP_ID,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.NON_EMPTY_GROUP,
)
_OF_PARTITIONS = (
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_client_arguments(parser)
    parser.add_argument(
        "--timeout", type=int, default=_DEFAULT_TIMEOUT_MS, metavar="MS", help="how long to wait for each answer"
    )
    actions = parser.add_mutually_exclusive_group(required=True)
    for action, meaning in (
        ("list", "print the groups"),
        ("describe", "print offsets and lag, members or state"),
        ("reset-offsets", "move the offsets of groups without active members"),
        ("delete", "delete groups with their offsets"),
        ("delete-offsets", "delete a group's offsets in topics that it does not read"),
    ):
        actions.add_argument(f"--{action}", dest="action", action="store_const", const=action, help=meaning)
    parser.add_argument("--group", action="append", metavar="GROUP", help="a group; may be repeated")
    parser.add_argument("--all-groups", action="store_true", help="all groups of consumers")
    parser.add_argument("--topic", action="append", metavar="TOPIC[:N,...]", help="a topic, or some of its partitions")
    parser.add_argument("--members", action="store_true", help="--describe: the members")
    parser.add_argument("--offsets", action="store_true", help="--describe: offsets and lag (the default)")
    parser.add_argument(
        "--state",
        nargs="?",
        const="",
        metavar="STATE,...",
        help="--describe: the state; --list: the states, or only groups in these",
    )
    parser.add_argument("--verbose", action="store_true", help="--describe: more columns")
    parser.add_argument(
        "--type", nargs="?", const="", metavar="TYPE,...", help="--list: the types, or only groups of these"
    )
    add_json(parser, "--list, --describe: ")
    add_reset_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Do what was asked for; 1 if an error was printed."""
    _check(options)
    reset = parse_reset(options, time_of_day_ms()) if options.action == "reset-offsets" else None
    states, types = _states(options), _types(options)
    report = _Report()
    settings = client_settings(options) | {"default.api.timeout.ms": options.timeout}
    with Admin(**settings) as admin, answers(admin):
        try:
            if options.action == "list":
                _list(admin, options, states, types)
            elif options.action == "describe":
                _describe(admin, options, report)
            elif reset is not None:
                _reset(admin, options, reset, report)
            elif options.action == "delete":
                _delete(admin, options, report)
            else:
                _delete_offsets(admin, options.group[-1], options.topic, report)
        except KafkaError as error:
            report(Complaint(f"Executing consumer group command failed due to {error}"))
    return 1 if report.has_errors else 0


class _Report:
    """Prints errors, and remembers that there were some."""

    has_errors = False

    def __call__(self, complaint: Complaint) -> None:
        self.has_errors = True
        say(f"\nError: {complaint}")


def _check(options: argparse.Namespace) -> None:
    """CommandError if the options contradict each other."""
    action = options.action
    for name, actions in _ACTIONS_OF.items():
        if getattr(options, name) not in (None, False) and action not in actions:
            raise CommandError(f"--{name.replace('_', '-')} is for --{' and --'.join(actions)}, not for --{action}")
    if options.group and options.all_groups:
        raise CommandError("--group and --all-groups both say which groups are meant: leave one out")
    if action == "delete-offsets" and not (options.group and options.topic):
        raise CommandError("--delete-offsets needs --group and --topic")
    if action != "list" and not (options.group or options.all_groups):
        raise CommandError(f"--{action} needs --group or --all-groups")
    if action == "describe":
        if sum((options.members, options.offsets, options.state is not None)) > 1:
            raise CommandError("--describe takes at most one of --members, --offsets, --state")
        if options.state:
            raise CommandError("--describe does not take a value for --state")


def _states(options: argparse.Namespace) -> list[GroupState]:
    wanted = [GroupState.parse(text.strip()) for text in options.state.split(",")] if options.state else []
    if not set(wanted) <= set(_STATES):
        raise CommandError(f"Invalid state list '{options.state}'. Valid states are: {', '.join(_STATES)}")
    return wanted


def _types(options: argparse.Namespace) -> list[GroupType]:
    wanted = [GroupType.parse(text.strip()) for text in options.type.split(",")] if options.type else []
    if not set(wanted) <= set(_TYPES):
        raise CommandError(f"Invalid types list '{options.type}'. Valid types are: {', '.join(_TYPES)}")
    return wanted


def _groups(admin: Admin, options: argparse.Namespace) -> list[str]:
    """The groups that are meant."""
    if not options.all_groups:
        return list(dict.fromkeys(options.group))
    return [listing.group_id for listing in admin.list_groups() if listing.is_of_consumers]


# --- list and describe ------------------------------------------------------------------------------------------------


def _list(
    admin: Admin, options: argparse.Namespace, states: Collection[GroupState], types: Collection[GroupType]
) -> None:
    found = [listing for listing in admin.list_groups(states, types) if listing.is_of_consumers]
    shows_type, shows_state = options.type is not None, options.state is not None
    if options.json:
        say_json(groups=found)
    elif shows_type or shows_state:
        say(listing_table(found, shows_type, shows_state))
    else:
        for listing in found:
            say(listing.group_id)


def _describe(admin: Admin, options: argparse.Namespace, report: _Report) -> None:
    groups = dict(sorted(admin.describe_consumer_groups(_groups(admin, options)).items()))
    if options.json:
        _describe_in_json(admin, groups, with_offsets=not options.members and options.state is None)
        return
    if options.members:
        tables = members_tables(groups.values(), options.verbose)
    elif options.state is not None:
        tables = states_tables(groups.values(), options.verbose)
    else:
        committed, ends = _committed_and_ends(admin, groups)
        tables = offsets_tables(groups.values(), committed, ends, options.verbose)
    for remark, table in tables:
        if isinstance(remark, Complaint):
            report(remark)
        elif remark:
            tell(f"\n{remark}")
        if table:
            say(table)


def _committed_and_ends(
    admin: Admin, groups: Mapping[str, ConsumerGroupDescription]
) -> tuple[dict[str, CommittedOffsets], dict[TopicPartition, int]]:
    """What each group has committed, and where the logs end that it has committed in or reads."""
    committed = admin.list_consumer_groups_offsets(dict.fromkeys(groups))
    assigned = [key for group in groups.values() for member in group.members for key in member.assignment]
    return committed, _log_end_offsets(admin, {*assigned, *(key for each in committed.values() for key in each)})


def _describe_in_json(admin: Admin, groups: Mapping[str, ConsumerGroupDescription], with_offsets: bool) -> None:
    rows = {name: plain(group) for name, group in groups.items()}
    if with_offsets:
        committed, ends = _committed_and_ends(admin, groups)
        for name, row in rows.items():
            row["offsets"] = [plain(each) for each in offset_rows(groups[name], committed[name], ends)]
    say_json(groups=list(rows.values()))


def _log_end_offsets(admin: Admin, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
    """The end of each of these logs that has a leader."""
    topics = admin.describe_topics(sorted({key.topic for key in partitions})) if partitions else {}
    led = [key for key in partitions_with_leader(topics.values()) if key in partitions]
    return {key: place.offset for key, place in admin.list_offsets(dict.fromkeys(led, LATEST_TIMESTAMP)).items()}


# --- reset ------------------------------------------------------------------------------------------------------------


def _reset(admin: Admin, options: argparse.Namespace, reset: Reset, report: _Report) -> None:
    if not options.dry_run and not options.execute:
        tell(_WITHOUT_EXECUTE)
    groups = _groups(admin, options)
    found: dict[str, GroupOffsets] = {}
    for group, described in sorted(admin.try_describe_consumer_groups(groups).items()):
        if isinstance(described, KafkaError) and described.code is not ErrorCode.GROUP_ID_NOT_FOUND:
            raise described
        if not isinstance(described, KafkaError) and described.state not in (GroupState.EMPTY, GroupState.DEAD):
            report(
                Complaint(
                    f"Assignments can only be reset if the group '{group}' is inactive, but the current state is "
                    f"{described.state}."
                )
            )
            found[group] = {}
            continue
        partitions = chosen_partitions(admin, group, options.topic, options.all_topics)
        found[group] = reset.new_offsets(admin, group, partitions, report)
        if options.execute:
            admin.alter_consumer_group_offsets(group, found[group])
    say(csv_of(found, len(groups) == 1 and not options.all_groups) if options.export else reset_table(found))


# --- delete -----------------------------------------------------------------------------------------------------------


def _delete(admin: Admin, options: argparse.Namespace, report: _Report) -> None:
    found = admin.try_delete_consumer_groups(_groups(admin, options))
    failed = {group: error for group, error in sorted(found.items()) if error is not None}
    deleted = ", ".join(f"'{group}'" for group in sorted(found) if group not in failed)
    if not failed:
        say(f"Deletion of requested consumer groups ({deleted}) was successful.")
        return
    report(Complaint("Deletion of some consumer groups failed:"))
    for group, error in failed.items():
        say(f"* Group '{group}' could not be deleted due to: {error}")
    if deleted:
        say(f"\nThese consumer groups were deleted successfully: {deleted}")


def _delete_offsets(admin: Admin, group: str, topics: Collection[str], report: _Report) -> None:
    named, whole = split_topics(topics)
    found: PartitionErrors = {}
    for topic in whole:
        try:
            described = admin.describe_topics([topic])[topic]
        except UnknownTopicError as error:
            found[TopicPartition(topic, ALL_PARTITIONS)] = error
        else:
            named += [TopicPartition(topic, each.partition) for each in described.partitions]
    first_error: KafkaError | None = None
    try:
        answered = admin.try_delete_consumer_group_offsets(group, named)
        first_error = next((error for _, error in sorted(answered.items()) if error is not None), None)
        found |= answered
    except KafkaError as error:
        first_error = error
        found |= dict.fromkeys(named, error)
    if first_error is None:
        say(f"Request succeeded for deleting offsets from group {group}.")
    elif first_error.code in _OF_THE_GROUP:
        report(Complaint(str(first_error)))
    elif first_error.code in _OF_PARTITIONS:
        report(Complaint("Encountered some partition-level error, see the follow-up details."))
    else:
        report(Complaint(f"Encountered some unknown error: {first_error}"))
    report.has_errors |= any(found.values())
    say(deletion_table(found))
