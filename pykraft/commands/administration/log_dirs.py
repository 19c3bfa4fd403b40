"""``log-dirs``: print the replicas in the brokers' log directories, as kafka-log-dirs.sh does.

The result is one line of JSON, behind two lines for people: of each broker its directories, of each directory its
partitions, with the bytes of their .log files and how far their end is behind the high watermark.

Follows org.apache.kafka.tools.LogDirsCommand.
"""

import argparse
import json
from collections.abc import Collection, Mapping
from typing import Any

from pykraft.admin import Admin
from pykraft.client.administration.logs import LogDirDescription
from pykraft.commands.common import CommandError, add_client_arguments, answers, client_settings, say
from pykraft.common.errors import ErrorCode


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_client_arguments(parser)
    parser.add_argument("--describe", action="store_true", required=True, help="what there is to do")
    parser.add_argument("--topic-list", default="", metavar="TOPIC,...", help="only these topics (default: all)")
    parser.add_argument("--broker-list", default="", metavar="ID,...", help="only these brokers (default: all)")


def run(options: argparse.Namespace) -> int:
    """Print the directories."""
    topics = {topic for topic in options.topic_list.split(",") if topic}
    wanted = _brokers(options.broker_list)
    with Admin(**client_settings(options)) as admin, answers(admin):
        there = {broker.id for broker in admin.describe_cluster().brokers}
        if wanted - there:
            raise CommandError(
                f"--broker-list names brokers that are not there: {_listed(wanted - there)} (known: {_listed(there)})"
            )
        asked = wanted or there
        say("Querying brokers for log directories information")
        found = admin.describe_log_dirs(asked)
    say(f"Received log directory information from brokers {_listed(asked)}")
    brokers = [
        {
            "broker": broker,
            "logDirs": [_directory(path, described, topics) for path, described in found[broker].items()],
        }
        for broker in sorted(found)
    ]
    say(json.dumps({"brokers": brokers, "version": 1}, separators=(",", ":")))
    return 0


def _directory(path: str, described: LogDirDescription, topics: Collection[str]) -> Mapping[str, Any]:
    """The keys stand in the order in which Kafka's tool prints them."""
    return {
        "partitions": [
            {
                "partition": str(key),
                "size": replica.size,
                "offsetLag": replica.offset_lag,
                "isFuture": replica.is_future,
            }
            for key, replica in sorted(described.replicas.items())
            if not topics or key.topic in topics
        ],
        "error": None if described.error is ErrorCode.NONE else described.error.name,
        "logDir": path,
    }


def _brokers(text: str) -> set[int]:
    try:
        return {int(number) for number in text.split(",") if number}
    except ValueError:
        raise CommandError(f"--broker-list is {text}, but must be numbers with commas between them") from None


def _listed(brokers: Collection[int]) -> str:
    return ",".join(str(broker) for broker in sorted(brokers))
