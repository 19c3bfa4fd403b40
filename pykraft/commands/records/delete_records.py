"""``delete-records``: delete the records before given offsets, as kafka-delete-records.sh does.

A file names the offsets; -1 means the high watermark::

    {"partitions": [{"topic": "flights", "partition": 0, "offset": 1200},
                    {"topic": "flights", "partition": 1, "offset": -1}],
     "version": 1}

Printed is where each log begins now, on all its replicas that live, or why its records are not deleted.

Follows org.apache.kafka.tools.DeleteRecordsCommand.
"""

import argparse
import json
from collections import Counter
from pathlib import Path
from typing import Any

from pykraft.admin import Admin
from pykraft.client.arguments import LARGEST_INT64, topic_partition
from pykraft.commands.common import CommandError, add_client_arguments, answers, client_settings, read_text, say
from pykraft.common.errors import KafkaError
from pykraft.common.types import TopicPartition

VERSION = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_client_arguments(parser)
    parser.add_argument("--offset-json-file", type=Path, required=True, metavar="FILE", help="offsets by partition")


def run(options: argparse.Namespace) -> int:
    """Print the low watermark of each partition."""
    offsets = read_offsets(read_text(options.offset_json_file))
    with Admin(**client_settings(options)) as admin, answers(admin):
        say("Executing records delete operation")
        found = admin.try_delete_records(offsets)
    say("Records delete operation completed:")
    for key, answer in sorted(found.items()):
        is_error = isinstance(answer, KafkaError)
        say(f"partition: {key}\t{f'error: {answer}' if is_error else f'low_watermark: {answer}'}")
    return 0


def read_offsets(text: str) -> dict[TopicPartition, int]:
    """The offsets in such a file; CommandError says what is wrong with it."""
    try:
        content = json.loads(text)
        version = content.get("version", VERSION)
        if version != VERSION:
            raise CommandError(f"--offset-json-file has version {version}, but must have version {VERSION}")
        entries = [_entry(entry) for entry in content["partitions"]]
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError, KafkaError):
        raise CommandError(
            '--offset-json-file must have {"partitions": [{"topic": NAME, "partition": N, "offset": N}, ...], '
            '"version": 1}'
        ) from None
    twice = sorted(str(key) for key, count in Counter(key for key, _ in entries).items() if count > 1)
    if twice:
        raise CommandError(f"--offset-json-file has partitions more than once: {', '.join(twice)}")
    return dict(entries)


def _entry(entry: Any) -> tuple[TopicPartition, int]:
    topic, partition, offset = entry["topic"], entry["partition"], entry["offset"]
    if type(partition) is not int or type(offset) is not int or not -1 <= offset <= LARGEST_INT64:
        raise ValueError
    return topic_partition((topic, partition)), offset
