"""``reassign-partitions``: move partitions to other brokers, as kafka-reassign-partitions.sh does.

::

    reassign-partitions --generate --topics-to-move-json-file FILE --broker-list ID,ID,...
    reassign-partitions --execute  --reassignment-json-file FILE [--additional] [--disallow-replication-factor-change]
    reassign-partitions --verify   --reassignment-json-file FILE [--preserve-throttles]
    reassign-partitions --cancel   --reassignment-json-file FILE [--preserve-throttles]
    reassign-partitions --list

``--generate`` changes nothing: it prints where the partitions of some topics are, and a proposal that places them on
these brokers. ``--execute`` begins reassignments and does not wait for them; what it prints first is the file to go
back with. While other reassignments are in progress it needs ``--additional``. ``--verify`` tells how far they are.

``--throttle N`` limits the copying to N bytes per second for each broker (`broker.replication.replication_quotas`). The
throttle is a setting of the brokers and topics, and stays until ``--verify`` finds no reassignment in progress, or
``--cancel`` ends them.

``--list`` and ``--cancel`` also ask the active controller itself (``--bootstrap-controller``).

The form of the files is in `reassignment_files`. Follows org.apache.kafka.tools.reassign.ReassignPartitionsCommand.
"""

import argparse
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pykraft.admin import Admin
from pykraft.client.administration.configs import ConfigChanges, ConfigResource, ConfigResourceType
from pykraft.client.administration.group_offsets import PartitionErrors
from pykraft.client.administration.logs import LogDirDescription
from pykraft.client.administration.reassignments import PartitionReassignment
from pykraft.commands.administration.reassignment_files import (
    Replica,
    Wanted,
    read_reassignment,
    read_topics,
    reassignment_text,
)
from pykraft.commands.as_json import add_json, check_json, say_json
from pykraft.commands.common import CommandError, add_client_arguments, answers, client_settings, read_text, say
from pykraft.common.errors import ErrorCode
from pykraft.common.types import Node, TopicPartition
from pykraft.controller.partitions.placement import UsableBroker, place
from pykraft.runtime.client_thread import client_random

_ACTIONS_OF = {
    "reassignment_json_file": ("execute", "verify", "cancel"),
    "topics_to_move_json_file": ("generate",),
    "broker_list": ("generate",),
    "disable_rack_aware": ("generate",),
    "additional": ("execute",),
    "disallow_replication_factor_change": ("execute",),
    "throttle": ("execute",),
    "replica_alter_log_dirs_throttle": ("execute",),
    "bootstrap_controller": ("list", "cancel"),
    "timeout": ("execute", "cancel"),
    "preserve_throttles": ("verify", "cancel"),
}
"""Options that not every action has."""
_NEEDED = ("reassignment_json_file", "topics_to_move_json_file", "broker_list")
_RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
_RATE_OF_DIRECTORIES = "replica.alter.log.dirs.io.max.bytes.per.second"
_BROKER_THROTTLES = (*_RATES, _RATE_OF_DIRECTORIES)
_LEADERS, _FOLLOWERS = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"
_TOPIC_THROTTLES = (_LEADERS, _FOLLOWERS)
_NO_THROTTLE = -1
_TIMEOUT_MS, _RETRY_S = 10_000, 0.1
_WARNING = (
    "Warning: You must run --verify periodically, until the reassignment completes, to ensure the throttle is removed."
)

Directories = Mapping[int, Mapping[str, LogDirDescription]]
"""The log directories of brokers, by path."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_client_arguments(parser, also_controllers=())
    actions = parser.add_mutually_exclusive_group(required=True)
    for action, says in (
        (_generate, "print where partitions are, and where they might go"),
        (_execute, "begin the reassignments of a file"),
        (_verify, "print how far the reassignments of a file are"),
        (_cancel, "cancel the reassignments of a file"),
        (_list, "print the reassignments that are in progress"),
    ):
        name = action.__name__.strip("_")
        actions.add_argument(f"--{name}", dest="action", action="store_const", const=action, help=says)
    add_json(parser, "--list: ")
    parser.add_argument("--reassignment-json-file", type=Path, metavar="FILE", help="the replicas of each partition")
    parser.add_argument("--topics-to-move-json-file", type=Path, metavar="FILE", help="--generate: which topics")
    parser.add_argument("--broker-list", metavar="ID,...", help="--generate: the brokers that they might go to")
    parser.add_argument("--disable-rack-aware", action="store_true", help="--generate: racks are of no meaning")
    parser.add_argument("--additional", action="store_true", help="--execute: also while others are in progress")
    parser.add_argument(
        "--disallow-replication-factor-change", action="store_true", help="--execute: refuse more or fewer replicas"
    )
    parser.add_argument("--preserve-throttles", action="store_true", help="leave the settings of throttles as they are")
    parser.add_argument("--timeout", type=int, metavar="MS", help="--execute: how long to wait for new replicas")
    parser.add_argument("--throttle", type=int, metavar="N", help="--execute: bytes per second between brokers")
    parser.add_argument(
        "--replica-alter-log-dirs-throttle",
        type=int,
        metavar="N",
        help="--execute: bytes per second between the log directories of a broker",
    )


def run(options: argparse.Namespace) -> int:
    """Do what was asked for."""
    action = options.action.__name__.strip("_")
    check_json(options, action == "list", "--list")
    for name, actions in _ACTIONS_OF.items():
        option = f"--{name.replace('_', '-')}"
        is_given = getattr(options, name) not in (None, False)
        if is_given and action not in actions:
            raise CommandError(f"{option} is for --{' and --'.join(actions)}, not for --{action}")
        if not is_given and action in actions and name in _NEEDED:
            raise CommandError(f"--{action} needs {option}")
    wanted: Any = None
    if action == "generate":
        wanted = read_topics(read_text(options.topics_to_move_json_file)), _broker_ids(options.broker_list)
    elif action != "list":
        wanted = read_reassignment(read_text(options.reassignment_json_file))
    with Admin(**client_settings(options)) as admin, answers(admin):
        options.action(admin, options, wanted)
    return 0


def _broker_ids(text: str) -> list[int]:
    try:
        found = [int(part) for part in text.split(",")]
    except ValueError:
        raise CommandError(f"--broker-list {text} is no list of broker ids, as in 1,2,3") from None
    if len(set(found)) < len(found):
        raise CommandError(f"--broker-list {text} names a broker twice")
    return found


# --- list and generate ------------------------------------------------------------------------------------------------


def _list(admin: Admin, options: argparse.Namespace, _: None) -> None:
    found = admin.list_partition_reassignments()
    if options.json:
        say_json(reassignments=dict(sorted(found.items())))
        return
    say("Current partition reassignments:" if found else "No partition reassignments found.")
    for key, ongoing in sorted(found.items()):
        adding = f" adding: {_ids(ongoing.adding_replicas)}." if ongoing.adding_replicas else ""
        removing = f" removing: {_ids(ongoing.removing_replicas)}." if ongoing.removing_replicas else ""
        say(f"{key}: replicas: {_ids(ongoing.replicas)}.{adding}{removing}")


def _generate(admin: Admin, options: argparse.Namespace, wanted: tuple[list[str], list[int]]) -> None:
    topics, broker_ids = wanted
    described = admin.describe_topics(topics)
    nodes = admin.describe_cluster().brokers
    now = {
        TopicPartition(topic, partition.partition): list(partition.replicas)
        for topic in topics
        for partition in described[topic].partitions
    }
    brokers = _usable([node for node in nodes if node.id in broker_ids], options.disable_rack_aware)
    random = client_random()
    proposed: dict[TopicPartition, list[int]] = {}
    for topic in topics:
        partitions = described[topic].partitions
        placed = place(brokers, len(partitions), len(partitions[0].replicas), random)
        for partition, replicas in zip(partitions, placed, strict=True):
            proposed[TopicPartition(topic, partition.partition)] = list(replicas)
    say("Current partition replica assignment")
    say(reassignment_text(now, _places(_directories(admin, nodes, now), now)))
    say("")
    say("Proposed partition reassignment configuration")
    say(reassignment_text(proposed, {}))


def _usable(nodes: Collection[Node], disable_rack_aware: bool) -> list[UsableBroker]:
    """The brokers of the list that are there. CommandError if only some of them have a rack."""
    racks = [None if disable_rack_aware else node.rack for node in nodes]
    if any(racks) and not all(racks):
        raise CommandError("not all of these brokers have a rack: with --disable-rack-aware racks are of no meaning")
    return [UsableBroker(node.id, rack or "", False) for node, rack in zip(nodes, racks, strict=True)]


# --- execute ----------------------------------------------------------------------------------------------------------


def _execute(admin: Admin, options: argparse.Namespace, wanted: Wanted) -> None:
    ongoing = admin.list_partition_reassignments()
    if ongoing and not options.additional:
        raise CommandError(
            "other partitions are being reassigned: --additional begins these as well, or takes the place of theirs"
        )
    nodes = admin.describe_cluster().brokers
    unknown = {broker for brokers in wanted.replicas.values() for broker in brokers} - {node.id for node in nodes}
    if unknown:
        raise CommandError(f"--reassignment-json-file names brokers that are not there: {_ids(sorted(unknown))}")
    now = _replicas_now(admin, wanted.replicas)
    directories = _directories(admin, nodes, now, *(replica.broker for replica in wanted.directories))
    _check_directories(wanted.directories, directories)
    say("Current partition replica assignment\n")
    say(reassignment_text(now, _places(directories, now)))
    say("\nSave this to use as the --reassignment-json-file option during rollback")
    _throttle(admin, options, wanted, now, ongoing)
    allow = not options.disallow_replication_factor_change
    _raise_errors("partitions are not reassigned", admin.try_alter_partition_reassignments(wanted.replicas, allow))
    say(f"Successfully started partition reassignment{_s(wanted.replicas)} for {_names(wanted.replicas)}")
    for (broker, key), directory in _move_directories(admin, wanted.directories, options.timeout):
        say(f"Successfully started moving log directory to {directory} for replica {key} with broker {broker} ")


def _throttle(
    admin: Admin,
    options: argparse.Namespace,
    wanted: Wanted,
    now: Mapping[TopicPartition, Sequence[int]],
    ongoing: Mapping[TopicPartition, PartitionReassignment],
) -> None:
    """Slow down what is about to move, and what moves already."""
    rate, rate_of_directories = (
        _NO_THROTTLE if given is None else given
        for given in (options.throttle, options.replica_alter_log_dirs_throttle)
    )
    if rate < 0 and rate_of_directories < 0:
        return
    say(_WARNING)
    if rate >= 0:
        moves = moves_of(wanted.replicas, now, ongoing)
        topics = {
            ConfigResource(ConfigResourceType.TOPIC, topic): throttles
            for topic, throttles in throttled_replicas(moves).items()
        }
        admin.incremental_alter_configs(topics)
        brokers = {broker for move in moves.values() for broker in (*move.sources, *move.destinations)}
        admin.incremental_alter_configs(_rates_of(brokers, _RATES, rate))
        say(f"The inter-broker throttle limit was set to {rate} B/s")
    if rate_of_directories >= 0:
        brokers = {replica.broker for replica in wanted.directories}
        admin.incremental_alter_configs(_rates_of(brokers, [_RATE_OF_DIRECTORIES], rate_of_directories))
        say(f"The replica-alter-dir throttle limit was set to {rate_of_directories} B/s")


def _rates_of(brokers: Iterable[int], names: Iterable[str], rate: int) -> dict[ConfigResource, ConfigChanges]:
    return {
        ConfigResource(ConfigResourceType.BROKER, str(broker)): dict.fromkeys(names, str(rate))
        for broker in sorted(brokers)
    }


class Move(NamedTuple):
    """From which brokers a partition is copied, and to which."""

    sources: frozenset[int]
    destinations: frozenset[int]


def moves_of(
    wanted: Mapping[TopicPartition, Sequence[int]],
    now: Mapping[TopicPartition, Sequence[int]],
    ongoing: Mapping[TopicPartition, PartitionReassignment],
) -> dict[TopicPartition, Move]:
    """What moves when these reassignments have begun; those in progress go on, or are replaced."""
    moves = {
        key: Move(frozenset(each.replicas) - frozenset(each.adding_replicas), frozenset(each.adding_replicas))
        for key, each in ongoing.items()
    }
    for key, target in wanted.items():
        sources = moves[key].sources if key in moves else frozenset(now[key])
        moves[key] = Move(sources, frozenset(target) - sources)
    return moves


def throttled_replicas(moves: Mapping[TopicPartition, Move]) -> dict[str, dict[str, str]]:
    """The settings of each topic that name the leaders and the followers to slow down."""
    found: dict[str, dict[str, set[str]]] = {}
    for key, move in moves.items():
        lists = found.setdefault(key.topic, {_LEADERS: set(), _FOLLOWERS: set()})
        lists[_LEADERS].update(f"{key.partition}:{broker}" for broker in move.sources)
        lists[_FOLLOWERS].update(f"{key.partition}:{broker}" for broker in move.destinations)
    return {topic: {name: ",".join(sorted(each)) for name, each in lists.items()} for topic, lists in found.items()}


def _replicas_now(admin: Admin, keys: Collection[TopicPartition]) -> dict[TopicPartition, list[int]]:
    """Where these partitions are. CommandError if one is not there."""
    described = admin.describe_topics(sorted({key.topic for key in keys}))
    found = {
        TopicPartition(name, partition.partition): list(partition.replicas)
        for name, topic in described.items()
        for partition in topic.partitions
    }
    missing = sorted(key for key in keys if key not in found)
    if missing:
        raise CommandError(f"--reassignment-json-file names partitions that are not there: {_names(missing)}")
    return {key: found[key] for key in keys}


def _check_directories(wanted: Mapping[Replica, str], directories: Directories) -> None:
    """Each broker must have the directory that its replica is sent to."""
    for (broker, key), directory in sorted(wanted.items()):
        there = sorted(directories[broker])
        if directory not in there:
            raise CommandError(
                f"log_dirs sends {key} to {directory} on broker {broker}, which has {', '.join(there)}: name one of"
                ' these, or write "any"'
            )


def _move_directories(
    admin: Admin, wanted: Mapping[Replica, str], timeout_ms: int | None
) -> Iterator[tuple[Replica, str]]:
    """Let the moves between directories begin; each that has. A replica that the reassignment has not made yet is asked
    for again."""
    left, deadline_s = dict(wanted), time.monotonic() + (_TIMEOUT_MS if timeout_ms is None else timeout_ms) / 1000
    while left:
        answers = admin.try_alter_replica_log_dirs({(key, broker): path for (broker, key), path in left.items()})
        for (key, broker), error in sorted(answers.items()):
            replica = Replica(broker, key)
            if error is ErrorCode.NONE:
                yield replica, left.pop(replica)
            elif error is not ErrorCode.REPLICA_NOT_AVAILABLE:
                raise CommandError(f"{key} on broker {broker} is not moved to {left[replica]}: {error.name}")
        if left and time.monotonic() > deadline_s:
            raise CommandError(f"no replica to move has come in time: {_names(sorted({key for _, key in left}))}")
        if left:
            time.sleep(_RETRY_S)


# --- verify and cancel ------------------------------------------------------------------------------------------------


def _verify(admin: Admin, options: argparse.Namespace, wanted: Wanted) -> None:
    ongoing = admin.list_partition_reassignments()
    topics = sorted({key.topic for key in wanted.replicas if key not in ongoing})
    there = admin.describe_topics()
    now = {
        TopicPartition(topic, partition.partition): list(partition.replicas)
        for topic in topics
        if topic in there
        for partition in there[topic].partitions
    }
    say("Status of partition reassignment:")
    for key, target in sorted(wanted.replicas.items()):
        if key in ongoing:
            say(f"Reassignment of partition {key} is still in progress.")
        elif now.get(key) == target:
            say(f"Reassignment of partition {key} is completed.")
        else:
            say(
                f"There is no active reassignment of partition {key}, but replica set is {_ids(now.get(key, []))}"
                f" rather than {_ids(target)}."
            )
    nodes = admin.describe_cluster().brokers
    moves = _moves(wanted, _directories(admin, nodes, {}, *(replica.broker for replica in wanted.directories)))
    say("\n".join(line for _, line, _ in moves))
    if not ongoing and not options.preserve_throttles and not any(is_moving for _, _, is_moving in moves):
        _clear_throttles(admin, nodes, wanted)


def _moves(wanted: Wanted, directories: Directories) -> list[tuple[Replica, str, bool]]:
    """For each replica that has a directory to be in: where it is, in words, and whether it is on its way."""
    found = []
    for replica, target in sorted(wanted.directories.items()):
        broker, key = replica
        there = {
            described.replicas[key].is_future: path
            for path, described in directories.get(broker, {}).items()
            if key in described.replicas
        }
        current, future = there.get(False), there.get(True)
        if current is None:
            line = (
                f"Partition {key} is not found in any live log dir on broker {broker}. There is likely an offline log"
            )
            line += " directory on the broker."
        elif future is not None and future != target:
            line = f"Partition {key} on broker {broker} is being moved to log dir {future} instead of {target}."
        elif future is not None:
            line = f"Reassignment of replica {key}-{broker} is still in progress."
        elif current == target:
            line = f"Reassignment of replica {key}-{broker} completed successfully."
        else:
            line = f"Partition {key} on broker {broker} is not being moved from log dir {current} to {target}."
        found.append((replica, line, future is not None))
    return found


def _cancel(admin: Admin, options: argparse.Namespace, wanted: Wanted) -> None:
    ongoing = admin.list_partition_reassignments(wanted.replicas)
    if ongoing:
        errors = admin.try_alter_partition_reassignments(dict.fromkeys(ongoing))
        _raise_errors("reassignments are not cancelled", errors)
        say(f"Successfully cancelled partition reassignment{_s(ongoing)} for: {_names(ongoing)}")
    else:
        say("None of the specified partition reassignments are active.")
    say("None of the specified partition moves are active.")
    if not options.preserve_throttles:
        _clear_throttles(admin, admin.describe_cluster().brokers, wanted)


def _clear_throttles(admin: Admin, nodes: Iterable[Node], wanted: Wanted) -> None:
    brokers = sorted({node.id for node in nodes}.union(*wanted.replicas.values()))
    topics = sorted({key.topic for key in wanted.replicas})
    say(f"Clearing broker-level throttles on broker{_s(brokers)} {_ids(brokers)}")
    changes: dict[ConfigResource, ConfigChanges] = {
        ConfigResource(ConfigResourceType.BROKER, str(broker)): dict.fromkeys(_BROKER_THROTTLES) for broker in brokers
    }
    admin.incremental_alter_configs(changes)
    say(f"Clearing topic-level throttles on topic{_s(topics)} {','.join(topics)}")
    admin.incremental_alter_configs(
        {ConfigResource(ConfigResourceType.TOPIC, topic): dict.fromkeys(_TOPIC_THROTTLES) for topic in topics}
    )


# --- in common --------------------------------------------------------------------------------------------------------


def _directories(
    admin: Admin, nodes: Iterable[Node], replicas: Mapping[TopicPartition, Iterable[int]], *others: int
) -> Directories:
    """The log directories of the brokers that hold these replicas, and of some others, as far as they live."""
    asked = {node.id for node in nodes} & {*others, *(broker for brokers in replicas.values() for broker in brokers)}
    return admin.describe_log_dirs(sorted(asked))


def _places(directories: Directories, replicas: Mapping[TopicPartition, Iterable[int]]) -> dict[Replica, str]:
    """The directory of each of these replicas, where it is known."""
    return {
        Replica(broker, key): path
        for broker, described in directories.items()
        for path, directory in described.items()
        for key, replica in directory.replicas.items()
        if key in replicas and not replica.is_future
    }


def _raise_errors(what: str, errors: PartitionErrors) -> None:
    reasons = [f"{key}: {error}" for key, error in sorted(errors.items(), key=lambda item: item[0]) if error]
    if reasons:
        raise CommandError(f"{what}: {'; '.join(reasons)}")


def _names(keys: Iterable[TopicPartition]) -> str:
    return ",".join(map(str, sorted(keys)))


def _ids(brokers: Iterable[int]) -> str:
    return ",".join(map(str, brokers))


def _s(things: Collection[Any]) -> str:
    return "" if len(things) == 1 else "s"
