"""``leader-election``: elect leaders, as kafka-leader-election.sh does.

Which partitions, either options say, or a file::

    {"partitions": [{"topic": "flights", "partition": 0},
                    {"topic": "flights", "partition": 1}]}

A partition that has the right leader already is no failure; one without a broker that could lead is. Partitions are
printed in their order, and an error as the protocol has it.

Follows org.apache.kafka.tools.LeaderElectionCommand.
"""

import argparse
import json
from collections import Counter
from pathlib import Path
from typing import Any

from pykraft.admin import Admin
from pykraft.client.administration.elections import Elected, ElectionType
from pykraft.client.arguments import topic_partition
from pykraft.commands.common import CommandError, add_client_arguments, answers, client_settings, read_text, say
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import TopicPartition

TIMEOUT_MS = 30_000
_TYPES = [kind.name.lower() for kind in ElectionType]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_client_arguments(parser, also_config=["--admin.config"])
    parser.add_argument(
        "--election-type",
        required=True,
        type=str.lower,
        choices=_TYPES,
        help="preferred: the first replica of the assignment, if it is in sync; unclean: any replica that is alive, if "
        "there is no leader",
    )
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--topic", metavar="NAME", help="elect a leader of one of its partitions")
    which.add_argument("--path-to-json-file", type=Path, metavar="FILE", help="the partitions to elect leaders of")
    which.add_argument("--all-topic-partitions", action="store_true", help="elect leaders of all partitions")
    parser.add_argument("--partition", type=int, metavar="N", help="the partition of --topic")


def run(options: argparse.Namespace) -> int:
    """Print what became of each election."""
    partitions = _partitions(options)
    kind = ElectionType[options.election_type.upper()]
    times = {"default.api.timeout.ms": TIMEOUT_MS, "request.timeout.ms": TIMEOUT_MS // 2}
    with Admin(**times | client_settings(options)) as admin, answers(admin):
        elected = admin.elect_leaders(kind, partitions)
    failed = _print(kind, elected)
    if failed:
        raise CommandError(f"{failed} replica(s) could not be elected")
    return 0


def _print(kind: ElectionType, elected: Elected) -> int:
    """Print the results; returns how many elections failed."""
    done = [str(key) for key, error in sorted(elected.items()) if error is None]
    failed = {key: error for key, error in sorted(elected.items()) if error is not None}
    needless = [str(key) for key, error in failed.items() if error.code is ErrorCode.ELECTION_NOT_NEEDED]
    if done:
        say(f"Successfully completed leader election ({kind.name}) for partitions {', '.join(done)}")
    if needless:
        say(f"Valid replica already elected for partitions {', '.join(needless)}")
    for key, error in failed.items():
        if error.code is not ErrorCode.ELECTION_NOT_NEEDED:
            say(f"Error completing leader election ({kind.name}) for partition: {key}: {error}")
    return len(failed) - len(needless)


def _partitions(options: argparse.Namespace) -> list[TopicPartition] | None:
    """The partitions that are meant; None means all of them."""
    if options.topic is not None and options.partition is None:
        raise CommandError("--topic needs --partition, the number of the partition")
    if options.topic is None and options.partition is not None:
        raise CommandError("--partition is only allowed with --topic")
    if options.path_to_json_file is not None:
        return read_partitions(read_text(options.path_to_json_file))
    if options.topic is None:
        return None
    try:
        return [topic_partition((options.topic, options.partition))]
    except (ValueError, KafkaError) as error:
        raise CommandError(str(error)) from None


def read_partitions(text: str) -> list[TopicPartition]:
    """The partitions in such a file; CommandError says what is wrong with it."""
    try:
        entries = [_entry(entry) for entry in json.loads(text)["partitions"]]
    except (ValueError, TypeError, KeyError, RecursionError, KafkaError):
        raise CommandError(
            '--path-to-json-file must have {"partitions": [{"topic": NAME, "partition": N}, ...]}'
        ) from None
    twice = sorted(str(key) for key, count in Counter(entries).items() if count > 1)
    if twice:
        raise CommandError(f"--path-to-json-file has partitions more than once: {', '.join(twice)}")
    return entries


def _entry(entry: Any) -> TopicPartition:
    if type(entry["partition"]) is not int:
        raise ValueError
    return topic_partition((entry["topic"], entry["partition"]))
