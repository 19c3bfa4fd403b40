"""The tables of ``transactions`` are, letter by letter, those that Kafka 4.2.1's kafka-transactions.sh has printed."""

from __future__ import annotations

import pytest

from pykraft.cli import main
from pykraft.client.administration.transaction_admin import (
    ProducerState,
    TransactionDescription,
    TransactionListing,
    TransactionState,
)
from pykraft.commands.groups_and_transactions.transactions import (
    OpenTransaction,
    description_table,
    hanging_table,
    listing_table,
    producers_table,
)
from pykraft.common.types import TopicPartition

OPEN = ProducerState(1, 1, 0, 1795575893397, 0, 2)
DONE = ProducerState(12, 3, -1, 1795575897556, None, None)
START_MS = 1795575893404

TABLES = {
    "list": (
        listing_table(
            [
                TransactionListing("cmd280038", 1, 1, TransactionState.ONGOING),
                TransactionListing("t679660322", 1, 0, TransactionState.COMPLETE_ABORT),
            ]
        ),
        """\
TransactionalId|Coordinator|ProducerId|TransactionState|
cmd280038      |1          |1         |Ongoing         |
t679660322     |1          |0         |CompleteAbort   |
""",
    ),
    "describe": (
        description_table(
            "cmd280038",
            TransactionDescription(
                1,
                TransactionState.ONGOING,
                1,
                1,
                60_000,
                START_MS,
                (TopicPartition("cmd280038", 1), TopicPartition("cmd280038", 0)),
            ),
            START_MS + 3755,
        ),
        "CoordinatorId|TransactionalId|ProducerId|ProducerEpoch|TransactionState|TransactionTimeoutMs|"
        "CurrentTransactionStartTimeMs|TransactionDurationMs|TopicPartitions        |\n"
        "1            |cmd280038      |1         |1            |Ongoing         |60000               |"
        "1795575893404                |3755                 |cmd280038-0,cmd280038-1|\n",
    ),
    "describe, nothing open": (
        description_table(
            "cmd280038", TransactionDescription(1, TransactionState.EMPTY, 1, 3, 30_000, None, ()), START_MS
        ),
        "CoordinatorId|TransactionalId|ProducerId|ProducerEpoch|TransactionState|TransactionTimeoutMs|"
        "CurrentTransactionStartTimeMs|TransactionDurationMs|TopicPartitions|\n"
        "1            |cmd280038      |1         |3            |Empty           |30000               |"
        "None                         |None                 |               |\n",
    ),
    "describe-producers": (
        producers_table([DONE, OPEN]),
        """\
ProducerId|ProducerEpoch|LatestCoordinatorEpoch|LastSequence|LastTimestamp|CurrentTransactionStartOffset|
1         |1            |0                     |0           |1795575893397|2                            |
12        |3            |-1                    |-1          |1795575897556|None                         |
""",
    ),
    "find-hanging": (
        hanging_table([OpenTransaction(TopicPartition("flights", 0), OPEN)], OPEN.last_timestamp + 179_999),
        """\
Topic  |Partition|ProducerId|ProducerEpoch|CoordinatorEpoch|StartOffset|LastTimestamp|Duration(min)|
flights|0        |1         |1            |0               |2          |1795575893397|2            |
""",
    ),
    "find-hanging, none": (
        hanging_table([], 0),
        "Topic|Partition|ProducerId|ProducerEpoch|CoordinatorEpoch|StartOffset|LastTimestamp|Duration(min)|\n",
    ),
}


@pytest.mark.parametrize("verb", TABLES)
def test_the_tables_are_kafkas(verb: str) -> None:
    ours, theirs = TABLES[verb]
    assert "".join(f"{line}\n" for line in ours) == theirs.replace("|", "\t")


MISTAKES = {
    "find-hanging": "find-hanging needs --topic or --broker-id, to limit the search",
    "find-hanging --partition 1 --broker-id 1": "--partition needs --topic",
    "abort --topic t --partition 0": (
        "which transaction to abort is said by --start-offset, or, for brokers before 3.0, by --producer-id, "
        "--producer-epoch and --coordinator-epoch together"
    ),
    "find-hanging --topic t --partition -1": "--partition is -1, but must be 0 to 2147483647",
    "describe-producers --topic t --partition 4000000000": "--partition is 4000000000, but must be 0 to 2147483647",
    "describe": "the following arguments are required: --transactional-id",
    "": "the following arguments are required: VERB",
}


@pytest.mark.parametrize("said", MISTAKES, ids=lambda said: said or "nothing")
def test_a_mistake_is_one_sentence(said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["transactions", "--bootstrap-server", "127.0.0.1:1", *said.split()]) == 1
    out, complaints = capsys.readouterr()
    assert out == ""
    assert complaints.startswith(f"pykraft: {MISTAKES[said]}")
    assert len(complaints.splitlines()) == 1
