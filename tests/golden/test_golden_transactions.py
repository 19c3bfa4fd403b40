"""Kafka's own __transaction_state: a shard that replays it knows the transaction, and would write the same records."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest

from pykraft.broker.coordination.coordinators import partition_for
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.settings.config import ConfigDef
from pykraft.common.timer import Timer
from pykraft.controller.features import NEW_CLUSTER, level_records, levels_in
from pykraft.coordinator.runtime import CoordinatorRuntime
from pykraft.coordinator.transaction.config import TRANSACTION_KEYS
from pykraft.coordinator.transaction.shard import Ending, Expected, TransactionShard
from pykraft.coordinator.transaction.state import TransactionMetadata, TransactionState, metadata_of, record_of
from pykraft.protocol.messages.coordinators import (
    TRANSACTION_RECORDS,
    TransactionLogKey,
    TransactionLogValue,
    decode_coordinator_record,
    encode_coordinator_record,
)
from pykraft.records.batch import RecordBatch, batches
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
        # Kafka 4.2 does not write the id before, 4.4 does, as we do.
        assert metadata.previous_producer_id == metadata.producer_id
        of_4_2 = replace(metadata, previous_producer_id=kafkas.previous_producer_id)
        assert encode_coordinator_record(record_of(of_4_2, LEVEL)) == encode_coordinator_record(
            record_of(kafkas, LEVEL)
        )


# --- the log as a whole -----------------------------------------------------------------------------------------------


class KafkasLog:
    """Kafka's partition 0, which has all its records committed and takes no more."""

    def append(self, partition: int, records: object, now: int) -> int:
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def batches(self, partition: int) -> Iterator[RecordBatch]:
        return batches(memoryview((DATA / "__transaction_state-0" / f"{0:020}.log").read_bytes()))

    def end_offset(self, partition: int) -> int:
        return len(ALL)

    high_watermark = end_offset


class NoMarkers:
    """Nothing is to be sent."""

    def send(self, ending: Ending) -> None:
        raise AssertionError(f"{ending} was complete")

    def unmarked(self, transactional_id: str) -> None:
        return None

    def stop(self) -> None:
        pass


def test_a_coordinator_that_loads_kafkas_log_goes_on_where_kafka_was() -> None:
    runtime = CoordinatorRuntime(
        name="__transaction_state",
        types=TRANSACTION_RECORDS,
        log=KafkasLog(),
        make_shard=lambda partition, timer: TransactionShard(
            timer=timer,
            config=ConfigDef(TRANSACTION_KEYS).resolve({}),
            markers=NoMarkers(),
            transaction_version=lambda: LEVEL,
            take_producer_id=lambda now: 1000,
            time_ms=lambda: 0,
        ),
        timer=Timer(),
        trace=lambda *_, **__: None,
        commit_timeout_ms=1000,
    )
    runtime.lead(0, 0, 0)
    runtime.poll(0)
    state = runtime.active(0).describe("golden-tx")
    assert (state.transaction_state, state.producer_id, state.producer_epoch) == ("CompleteAbort", 5, 0)
    assert runtime.active(0).end("golden-tx", Expected(5, 0), False, 0, 0).records == ()  # it is aborted already


def test_a_new_cluster_has_its_levels_in_the_order_in_which_kafka_writes_them() -> None:
    dump = (DATA.parent / "dump-cluster-metadata.txt").read_text()
    kafkas = list(dict.fromkeys(re.findall(r'"FEATURE_LEVEL_RECORD".*?"name":"([^"]+)","featureLevel":(\d+)', dump)))
    ours = [(name, str(level)) for name, level in levels_in(level_records(NEW_CLUSTER)).items()]
    assert [each for each in kafkas if each in ours] == ours
    assert ("transaction.version", "2") in ours
