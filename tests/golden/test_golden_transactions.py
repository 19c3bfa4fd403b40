"""Kafka's own __transaction_state: a shard that replays it knows the transaction, and would write the same records."""

from __future__ import annotations

import pytest

from pykraft.coordinator.transaction.state import TransactionMetadata, TransactionState, metadata_of, record_of
from pykraft.protocol.messages.coordinators import (
    TRANSACTION_RECORDS,
    TransactionLogKey,
    TransactionLogValue,
    decode_coordinator_record,
    encode_coordinator_record,
)
from pykraft.records.batch import batches
from pykraft.server.coordinators import partition_for
from tests.golden.dumps import DATA

LEVEL = 2
"""The transaction.version of that cluster."""


def records(partition: int) -> list[tuple[bytes, bytes]]:
    data = (DATA / f"__transaction_state-{partition}" / f"{0:020}.log").read_bytes()
    return [
        (record.key or b"", record.value or b"") for batch in batches(memoryview(data)) for record in batch.records()
    ]


ALL = records(0)


def read(key: bytes, value: bytes) -> TransactionMetadata:
    record = decode_coordinator_record(TRANSACTION_RECORDS, key, value)
    assert isinstance(record.key, TransactionLogKey) and isinstance(record.value, TransactionLogValue)
    return metadata_of(record.key, record.value)


def test_kafkas_transactions_took_the_known_way() -> None:
    found = [read(*record) for record in ALL]
    assert {metadata.transactional_id for metadata in found} == {"golden-tx"}
    assert partition_for("golden-tx", 2) == 0 and records(1) == []
    s = TransactionState
    committed = [s.ONGOING, s.PREPARE_COMMIT, s.COMPLETE_COMMIT]
    aborted = [s.ONGOING, s.PREPARE_ABORT, s.COMPLETE_ABORT]
    assert [metadata.state for metadata in found] == [s.EMPTY, *(committed + aborted) * 2]


@pytest.mark.parametrize("number", range(len(ALL)))
def test_each_record_of_kafkas_is_written_as_kafka_wrote_it(number: int) -> None:
    assert encode_coordinator_record(record_of(read(*ALL[number]), LEVEL)) == ALL[number]


def test_the_same_steps_come_to_the_same_records() -> None:
    found = [read(*record) for record in ALL]
    metadata = found[0]
    for kafkas in found[1:]:
        state, now_ms = kafkas.state, kafkas.last_update_ms
        if state is TransactionState.ONGOING:
            metadata = metadata.add_partitions(kafkas.partitions, now_ms, kafkas.client_transaction_version)
        elif state.is_prepared:
            is_commit = state is TransactionState.PREPARE_COMMIT
            metadata = metadata.prepare_end(is_commit, kafkas.client_transaction_version, now_ms)
        else:
            metadata = metadata.complete(now_ms)
        assert encode_coordinator_record(record_of(metadata, LEVEL)) == encode_coordinator_record(
            record_of(kafkas, LEVEL)
        )
