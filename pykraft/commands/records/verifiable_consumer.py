"""``verifiable-consumer``: read a topic as a member of a group, and say in lines of JSON what happens.

The lines are ``partitions_assigned``, ``partitions_revoked``, ``records_consumed`` (one for each poll),
``record_data`` (with ``--verbose``, one for each record) and ``offsets_committed`` (unless ``--enable-autocommit``). It
reads until it is interrupted, or ``--max-messages``, as kafka-verifiable-consumer.sh does.

Follows org.apache.kafka.tools.VerifiableConsumer.
"""

import argparse
import signal
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pykraft.commands.common import add_bootstrap_server, answers, bootstrap_server, pairs, read_text
from pykraft.commands.records.verifiable_producer import event
from pykraft.common.errors import KafkaError
from pykraft.common.settings.config import parse_properties
from pykraft.common.types import TopicPartition
from pykraft.consumer import Consumer, ConsumerRebalanceListener, ConsumerRecord

_POLL_MS = 1000
_USUAL_SESSION_MS = 30_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_bootstrap_server(parser)
    add("--topic", required=True, metavar="NAME", help="the topic to read")
    add("--group-id", required=True, metavar="GROUP", help="the group whose member it is")
    add("--group-protocol", default="classic", metavar="PROTOCOL", help="classic or consumer (classic)")
    add("--group-remote-assignor", metavar="NAME", help="with consumer: which of the coordinator's assignors")
    add("--group-instance-id", metavar="ID", help="be a static member of this name")
    add("--max-messages", type=int, default=-1, metavar="N", help="this many; -1: until it is interrupted (-1)")
    add("--session-timeout", type=int, default=_USUAL_SESSION_MS, metavar="MS", help="with classic (30000)")
    add("--close-timeout", type=int, default=-1, metavar="MS", help="to leave the group at the end (-1: the client's)")
    add("--verbose", action="store_true", help="a line for each record")
    add("--enable-autocommit", action="store_true", help="let the client commit by itself")
    add("--reset-policy", default="earliest", metavar="WORD", help="earliest, latest or none (earliest)")
    add("--assignment-strategy", default="range", metavar="NAME", help="with classic: the assignor (range)")
    add("--command-config", "--consumer.config", type=Path, metavar="FILE", help="a properties file for the consumer")
    add("--command-property", action="append", default=[], metavar="KEY=VALUE", help=argparse.SUPPRESS)


def run(options: argparse.Namespace) -> int:
    """Read until the last one, or until a signal."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with Consumer(**_settings(options)) as consumer, answers(consumer):
        event("startup_complete")
        consumer.subscribe([options.topic], listener=_Listener())
        with suppress(KeyboardInterrupt):
            _Reading(consumer, options).run()
        consumer.close(timeout_ms=None if options.close_timeout < 0 else options.close_timeout)
    event("shutdown_complete")
    return 0


def _settings(options: argparse.Namespace) -> dict[str, Any]:
    settings: dict[str, Any] = parse_properties(read_text(options.command_config)) if options.command_config else {}
    settings |= pairs("--command-property", options.command_property)
    settings |= {
        "bootstrap.servers": bootstrap_server(options),
        "group.id": options.group_id,
        "group.instance.id": options.group_instance_id,
        "enable.auto.commit": options.enable_autocommit,
        "auto.offset.reset": options.reset_policy,
        "group.protocol": options.group_protocol.lower(),
    }
    if options.group_protocol.lower() == "consumer":
        return settings | {"group.remote.assignor": options.group_remote_assignor}
    more = {"partition.assignment.strategy": options.assignment_strategy, "session.timeout.ms": options.session_timeout}
    return settings | more


class _Listener(ConsumerRebalanceListener):
    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        event("partitions_assigned", partitions=_named(assigned))

    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        event("partitions_revoked", partitions=_named(revoked))


def _named(partitions: Iterable[TopicPartition]) -> list[dict[str, Any]]:
    return [{"topic": topic, "partition": number} for topic, number in sorted(partitions)]


class _Reading:
    def __init__(self, consumer: Consumer, options: argparse.Namespace) -> None:
        self._consumer, self._options = consumer, options
        self._consumed = 0

    def run(self) -> None:
        most = self._options.max_messages
        while most < 0 or self._consumed < most:
            polled = self._consumer.poll(_POLL_MS)
            if not polled:
                continue
            offsets = self._tell(polled, None if most < 0 else most - self._consumed)
            if not self._options.enable_autocommit:
                self._commit(offsets)

    def _tell(
        self, polled: Mapping[TopicPartition, Sequence[ConsumerRecord]], left: int | None
    ) -> dict[TopicPartition, int]:
        """Say what came, up to the limit; how far that is."""
        offsets, summaries = {}, []
        for key, records in polled.items():
            some = records if left is None else records[: max(0, left)]
            if not some:
                break
            left = None if left is None else left - len(some)
            self._consumed += len(some)
            offsets[key] = some[-1].offset + 1
            place = {"topic": key.topic, "partition": key.partition}
            summary = {"count": len(some), "minOffset": some[0].offset, "maxOffset": some[-1].offset}
            summaries.append(place | summary)
            for record in some if self._options.verbose else ():
                texts = {"key": _text(record.key), "value": _text(record.value)}
                event("record_data", **texts, topic=record.topic, partition=record.partition, offset=record.offset)
        event("records_consumed", count=sum(map(len, polled.values())), partitions=summaries)
        return offsets

    def _commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        said = [{"topic": key.topic, "partition": key.partition, "offset": offset} for key, offset in offsets.items()]
        try:
            self._consumer.commit(offsets)
        except KafkaError as error:
            event("offsets_committed", offsets=said, error=str(error), success=False)
        else:
            event("offsets_committed", offsets=said, success=True)


def _text(content: bytes | None) -> str | None:
    return None if content is None else content.decode(errors="replace")
