"""``transactions``: look at transactions and their producers, and end those that hang, as kafka-transactions.sh does.

::

    transactions --bootstrap-server HOST:PORT list [--duration-filter MS] [--transactional-id-pattern REGEX]
    transactions --bootstrap-server HOST:PORT describe --transactional-id ID
    transactions --bootstrap-server HOST:PORT describe-producers --topic T --partition N [--broker-id N]
    transactions --bootstrap-server HOST:PORT find-hanging (--broker-id N | --topic T [--partition N])
    transactions --bootstrap-server HOST:PORT abort --topic T --partition N --start-offset N
    transactions --bootstrap-server HOST:PORT forceTerminateTransaction --transactionalId ID

A transaction *hangs* in a partition whose leader knows it as open, although its coordinator does not count the
partition as part of it: no marker will ever end it there, and readers of committed data wait for one. ``find-hanging``
looks only at those that are older than any transaction may be (``--max-transaction-timeout``, in minutes); ``abort``
writes the marker.

Tables are the tool's. Rows are sorted, which the tool leaves to its hash tables.

Follows org.apache.kafka.tools.TransactionsCommand.
"""

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from pykraft.admin import Admin
from pykraft.client.administration.transaction_admin import (
    AbortTransactionSpec,
    ProducerState,
    TransactionDescription,
    TransactionListing,
)
from pykraft.commands.as_json import add_json, say_json
from pykraft.commands.common import CommandError, add_client_arguments, answers, client_settings, say, table
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import TopicPartition
from pykraft.runtime.client_thread import time_of_day_ms

_BATCH = 500
"""How many partitions are asked about at once."""
_MINUTE_MS = 60_000
_LARGEST_INT32 = (1 << 31) - 1
_LISTED = ("TransactionalId", "Coordinator", "ProducerId", "TransactionState")
_DESCRIBED = (
    *("CoordinatorId", "TransactionalId", "ProducerId", "ProducerEpoch", "TransactionState", "TransactionTimeoutMs"),
    *("CurrentTransactionStartTimeMs", "TransactionDurationMs", "TopicPartitions"),
)
_PRODUCERS = (
    *("ProducerId", "ProducerEpoch", "LatestCoordinatorEpoch", "LastSequence", "LastTimestamp"),
    "CurrentTransactionStartOffset",
)
_HANGING = (
    *("Topic", "Partition", "ProducerId", "ProducerEpoch", "CoordinatorEpoch", "StartOffset", "LastTimestamp"),
    "Duration(min)",
)


class OpenTransaction(NamedTuple):
    """A transaction that a partition's leader knows as open."""

    topic_partition: TopicPartition
    producer: ProducerState


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_client_arguments(parser)
    verbs = parser.add_subparsers(required=True, dest="verb", metavar="VERB")
    listing = verbs.add_parser("list", help="list transactions")
    listing.add_argument("--duration-filter", type=int, metavar="MS", help="only those that are open for longer")
    listing.add_argument("--transactional-id-pattern", metavar="REGEX", help="only ids that fit the expression")
    describing = verbs.add_parser("describe", help="describe the state of a transactional id")
    describing.add_argument("--transactional-id", required=True, metavar="ID")
    producers = verbs.add_parser("describe-producers", help="describe the producers of a partition")
    producers.add_argument("--broker-id", type=int, metavar="N", help="ask this replica (default: the leader)")
    _add_partition(producers)
    hanging = verbs.add_parser("find-hanging", help="find transactions that hang")
    hanging.add_argument("--broker-id", type=int, metavar="N", help="only partitions with a replica on this broker")
    hanging.add_argument(
        "--max-transaction-timeout", type=int, default=15, metavar="MINUTES", help="only those that are older"
    )
    _add_partition(hanging, is_required=False)
    for verb in (listing, describing, producers, hanging):
        add_json(verb)
    aborting = verbs.add_parser("abort", help="abort a transaction that hangs")
    _add_partition(aborting)
    aborting.add_argument("--start-offset", type=int, metavar="N", help="where the transaction begins")
    aborting.add_argument("--producer-id", type=int, metavar="N", help="for brokers before 3.0, with the next two")
    aborting.add_argument("--producer-epoch", type=int, metavar="N")
    aborting.add_argument("--coordinator-epoch", type=int, metavar="N")
    forcing = verbs.add_parser("forceTerminateTransaction", help="abort the open transaction of a transactional id")
    forcing.add_argument("--transactionalId", required=True, dest="transactional_id", metavar="ID")


def _add_partition(parser: argparse.ArgumentParser, is_required: bool = True) -> None:
    parser.add_argument("--topic", required=is_required, metavar="TOPIC")
    parser.add_argument("--partition", type=int, required=is_required, metavar="N")


def run(options: argparse.Namespace) -> int:
    """Do what the verb says."""
    verb: Callable[[Admin, argparse.Namespace], None] = _VERBS[options.verb]
    _check(options)
    with Admin(**client_settings(options)) as admin, answers(admin):
        verb(admin, options)
    return 0


def _check(options: argparse.Namespace) -> None:
    partition = vars(options).get("partition")
    if partition is not None and not 0 <= partition <= _LARGEST_INT32:
        raise CommandError(f"--partition is {partition}, but must be 0 to {_LARGEST_INT32}")
    if options.verb == "find-hanging":
        if options.topic is None and options.broker_id is None:
            raise CommandError("find-hanging needs --topic or --broker-id, to limit the search")
        if options.partition is not None and options.topic is None:
            raise CommandError("--partition needs --topic")
    if options.verb == "abort" and options.start_offset is None:
        old = (options.producer_id, options.producer_epoch, options.coordinator_epoch)
        if None in old:
            raise CommandError(
                "which transaction to abort is said by --start-offset, or, for brokers before 3.0, by --producer-id, "
                "--producer-epoch and --coordinator-epoch together"
            )


class _Failing:
    """``with _Failing("to do this"):`` a KafkaError ends the command with this before its own words."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if isinstance(error, KafkaError):
            raise CommandError(f"Failed {self._what}: {error}") from None


# --- list, describe ---------------------------------------------------------------------------------------------------


def _list(admin: Admin, options: argparse.Namespace) -> None:
    duration_ms = options.duration_filter
    with _Failing("to list transactions"):
        found = admin.list_transactions(
            duration_ms=None if duration_ms is None or duration_ms < 0 else duration_ms,
            transactional_id_pattern=options.transactional_id_pattern,
        )
    if options.json:
        say_json(transactions=found)
    else:
        _print(listing_table(found))


def _describe(admin: Admin, options: argparse.Namespace) -> None:
    name = options.transactional_id
    with _Failing(f"to describe transaction state of transactional-id `{name}`"):
        found = admin.describe_transactions([name])[name]
    if options.json:
        say_json(transactional_id=name, **found._asdict())
    else:
        _print(description_table(name, found, time_of_day_ms()))


def _describe_producers(admin: Admin, options: argparse.Namespace) -> None:
    key = TopicPartition(options.topic, options.partition)
    where = "leader" if options.broker_id is None else f"broker {options.broker_id}"
    with _Failing(f"to describe producers for partition {key} on {where}"):
        found = admin.describe_producers([key], options.broker_id)[key]
    if options.json:
        say_json(producers=found)
    else:
        _print(producers_table(found))


# --- transactions that hang -------------------------------------------------------------------------------------------


def _find_hanging(admin: Admin, options: argparse.Namespace) -> None:
    candidates = list(_open_transactions(admin, options, _partitions(admin, options)))
    hanging = _without_owner(admin, candidates) if candidates else []
    if options.json:
        say_json(transactions=hanging)
    else:
        _print(hanging_table(hanging, time_of_day_ms()))


def _partitions(admin: Admin, options: argparse.Namespace) -> list[TopicPartition]:
    """Where to look."""
    if options.partition is not None:
        return [TopicPartition(options.topic, options.partition)]
    names = None if options.topic is None else [options.topic]
    with _Failing("to describe topics"):
        topics = admin.describe_topics(names)
    return [
        TopicPartition(name, partition.partition)
        for name, topic in sorted(topics.items())
        for partition in topic.partitions
        if options.broker_id is None or options.broker_id in partition.replicas
    ]


def _open_transactions(
    admin: Admin, options: argparse.Namespace, partitions: Sequence[TopicPartition]
) -> Iterator[OpenTransaction]:
    """Those that are open for longer than a transaction may be."""
    for start in range(0, len(partitions), _BATCH):
        batch = partitions[start : start + _BATCH]
        with _Failing(f"to describe producers for {len(batch)} partitions"):
            found = admin.describe_producers(batch, options.broker_id)
        oldest_ms = time_of_day_ms() - options.max_transaction_timeout * _MINUTE_MS
        for key, producers in found.items():
            for producer in producers:
                if producer.current_transaction_start_offset is not None and producer.last_timestamp < oldest_ms:
                    yield OpenTransaction(key, producer)


def _without_owner(admin: Admin, candidates: Iterable[OpenTransaction]) -> list[OpenTransaction]:
    """Those whose partition is no part of a transaction that a coordinator knows."""
    candidates = sorted(candidates)
    producer_ids = {each.producer.producer_id for each in candidates}
    with _Failing(f"to list transactions for {len(producer_ids)} producers"):
        listings = admin.list_transactions(producer_ids=sorted(producer_ids))
    names = {listing.producer_id: listing.transactional_id for listing in listings}
    with _Failing(f"to describe {len(names)} transactions"):
        owners = _known(admin.try_describe_transactions(sorted(names.values())))

    def is_owned(candidate: OpenTransaction) -> bool:
        owner = owners.get(names.get(candidate.producer.producer_id, ""))
        return owner is not None and candidate.topic_partition in owner.topic_partitions

    return [each for each in candidates if not is_owned(each)]


def _known(answers: Mapping[str, TransactionDescription | KafkaError]) -> dict[str, TransactionDescription]:
    """The descriptions, without the ids that are gone; another error is raised."""
    found = {}
    for name, answer in answers.items():
        if not isinstance(answer, KafkaError):
            found[name] = answer
        elif answer.code is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            raise answer
    return found


def _abort(admin: Admin, options: argparse.Namespace) -> None:
    key = TopicPartition(options.topic, options.partition)
    if options.start_offset is not None:
        spec = _spec_of(admin, key, options.start_offset)
    else:
        epoch = max(0, options.coordinator_epoch)  # no marker yet: 0 is not higher than any coordinator's epoch
        spec = AbortTransactionSpec(key, options.producer_id, options.producer_epoch, epoch)
    with _Failing(f"to abort transaction {spec}"):
        admin.abort_transaction(spec)


def _spec_of(admin: Admin, key: TopicPartition, start_offset: int) -> AbortTransactionSpec:
    """The transaction that begins there."""
    with _Failing(f"to validate producer state for partition {key}"):
        producers = admin.describe_producers([key])[key]
    for producer in producers:
        if producer.current_transaction_start_offset == start_offset:
            epoch = producer.coordinator_epoch or 0
            return AbortTransactionSpec(key, producer.producer_id, producer.producer_epoch, epoch)
    raise CommandError(f"Could not find any open transactions starting at offset {start_offset} on partition {key}")


def _force(admin: Admin, options: argparse.Namespace) -> None:
    name = options.transactional_id
    with _Failing(f"to force terminate transactionalId `{name}`"):
        admin.fence_producers([name])


# --- tables -----------------------------------------------------------------------------------------------------------


def listing_table(listings: Iterable[TransactionListing]) -> list[str]:
    """The transactional ids with their coordinators, producer ids and states."""
    return table(_LISTED, listings)


def description_table(name: str, found: TransactionDescription, now_ms: int) -> list[str]:
    """One transactional id, its transaction and the partitions that have no marker yet."""
    start_ms = found.transaction_start_time_ms
    row = (
        *(found.coordinator_id, name, found.producer_id, found.producer_epoch, found.state),
        *(found.transaction_timeout_ms, start_ms, None if start_ms is None else now_ms - start_ms),
        ",".join(map(str, sorted(found.topic_partitions))),
    )
    return table(_DESCRIBED, [row])


def producers_table(producers: Iterable[ProducerState]) -> list[str]:
    """The producers of a partition, by their ids."""
    rows = [
        (
            *(each.producer_id, each.producer_epoch, _or_minus_1(each.coordinator_epoch), each.last_sequence),
            *(each.last_timestamp, each.current_transaction_start_offset),
        )
        for each in sorted(producers, key=lambda each: each.producer_id)
    ]
    return table(_PRODUCERS, rows)


def hanging_table(hanging: Iterable[OpenTransaction], now_ms: int) -> list[str]:
    """Transactions that hang, and for how many minutes."""
    rows = [
        (
            *(each.topic_partition.topic, each.topic_partition.partition),
            *(each.producer.producer_id, each.producer.producer_epoch, _or_minus_1(each.producer.coordinator_epoch)),
            *(each.producer.current_transaction_start_offset, each.producer.last_timestamp),
            (now_ms - each.producer.last_timestamp) // _MINUTE_MS,
        )
        for each in hanging
    ]
    return table(_HANGING, rows)


def _or_minus_1(number: int | None) -> int:
    return -1 if number is None else number


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        say(line)


_VERBS: Mapping[str, Callable[[Admin, argparse.Namespace], None]] = {
    "list": _list,
    "describe": _describe,
    "describe-producers": _describe_producers,
    "find-hanging": _find_hanging,
    "abort": _abort,
    "forceTerminateTransaction": _force,
}
