"""The state of a transactional id: every transition, every EndTxn in every state, and the record that keeps it."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import product

import pytest

from pykraft.common.errors import ErrorCode, KafkaError, ProtocolError
from pykraft.common.types import TopicPartition
from pykraft.coordinator.transaction import ending
from pykraft.coordinator.transaction.ending import Decision, decide
from pykraft.coordinator.transaction.state import (
    VALID_PREVIOUS_STATES,
    InvalidTransitionError,
    TransactionMetadata,
    TransactionState,
    metadata_of,
    record_of,
    tombstone,
)
from pykraft.protocol.messages.coordinators import (
    TRANSACTION_RECORDS,
    TransactionLogKey,
    TransactionLogValue,
    decode_coordinator_record,
    encode_coordinator_record,
)

S = TransactionState
LAST = (1 << 15) - 2
SOME = TransactionMetadata("x", producer_id=7, timeout_ms=60_000, last_update_ms=100, producer_epoch=3)
T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)

LEGAL = {
    (S.EMPTY, S.EMPTY),
    (S.COMPLETE_COMMIT, S.EMPTY),
    (S.COMPLETE_ABORT, S.EMPTY),
    (S.EMPTY, S.ONGOING),
    (S.ONGOING, S.ONGOING),
    (S.COMPLETE_COMMIT, S.ONGOING),
    (S.COMPLETE_ABORT, S.ONGOING),
    (S.ONGOING, S.PREPARE_COMMIT),
    (S.ONGOING, S.PREPARE_ABORT),
    (S.PREPARE_EPOCH_FENCE, S.PREPARE_ABORT),
    (S.EMPTY, S.PREPARE_ABORT),
    (S.COMPLETE_COMMIT, S.PREPARE_ABORT),
    (S.COMPLETE_ABORT, S.PREPARE_ABORT),
    (S.PREPARE_COMMIT, S.COMPLETE_COMMIT),
    (S.PREPARE_ABORT, S.COMPLETE_ABORT),
    (S.EMPTY, S.DEAD),
    (S.COMPLETE_COMMIT, S.DEAD),
    (S.COMPLETE_ABORT, S.DEAD),
    (S.ONGOING, S.PREPARE_EPOCH_FENCE),
}


@pytest.mark.parametrize(("old", "new"), list(product(S, S)), ids=lambda state: state.title)
def test_each_transition_is_legal_or_refused(old: S, new: S) -> None:
    metadata = replace(SOME, state=old)
    if (old, new) in LEGAL:
        assert metadata._to(new).state is new
    else:
        with pytest.raises(InvalidTransitionError, match=f"x is {old.title}, not to become {new.title}"):
            metadata._to(new)
    assert (old in VALID_PREVIOUS_STATES[new]) == ((old, new) in LEGAL)


# --- EndTxn -----------------------------------------------------------------------------------------------------------

WORDS = {
    "decide": Decision.DECIDE,
    "is decided": Decision.IS_DECIDED,
    "invalid": ErrorCode.INVALID_TXN_STATE,
    "fenced": ErrorCode.PRODUCER_FENCED,
}


def outcome(state: S, epoch: int, commit: bool, version: int) -> Decision | ErrorCode:
    try:
        return decide(replace(SOME, state=state), 7, epoch, commit, version)
    except KafkaError as error:
        return error.code


def rows(columns: int) -> dict[S, list[Decision | ErrorCode]]:
    """The table with so many columns, as the docstring of `ending` shows it."""
    found = {}
    for line in (ending.__doc__ or "").splitlines():
        name, *words = re.split(r"\s{2,}", line.strip())
        if name in S.__members__ and len(words) == columns:
            found[S[name]] = [WORDS[word] for word in words]
    return found


def test_an_end_without_epoch_bump_is_what_the_table_says() -> None:
    found = {state: [outcome(state, 3, True, 0), outcome(state, 3, False, 0)] for state in rows(2)}
    assert found == rows(2) and len(found) == 4
    for state, epoch, commit in product(found, (2, 4), (True, False)):
        assert outcome(state, epoch, commit, 0) == ErrorCode.PRODUCER_FENCED


def test_an_end_with_epoch_bump_is_what_the_table_says() -> None:
    columns = [(2, True), (3, True), (2, False), (3, False)]
    found = {state: [outcome(state, epoch, commit, 2) for epoch, commit in columns] for state in rows(4)}
    assert found == rows(4) and len(found) == 4
    for state, epoch, commit in product(found, (1, 4), (True, False)):
        assert outcome(state, epoch, commit, 2) == ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("state", [S.PREPARE_COMMIT, S.PREPARE_ABORT])
def test_while_markers_are_written_every_end_must_wait(state: S, version: int) -> None:
    for producer_id, epoch, commit in product((7, 8), (1, 2, 3, 4), (True, False)):
        with pytest.raises(KafkaError) as refused:
            decide(replace(SOME, state=state), producer_id, epoch, commit, version)
        assert refused.value.code == ErrorCode.CONCURRENT_TRANSACTIONS


@pytest.mark.parametrize("version", [0, 2])
def test_another_producers_end_is_refused_in_each_state(version: int) -> None:
    for state, commit in product(rows(2), (True, False)):
        with pytest.raises(KafkaError) as refused:
            decide(replace(SOME, state=state), 8, 3, commit, version)
        assert refused.value.code == ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_the_last_epoch_of_the_previous_producer_id_repeats_only_a_complete_end() -> None:
    found = {}
    for state in rows(4):
        metadata = replace(SOME, state=state, producer_id=8, previous_producer_id=7, producer_epoch=0)
        try:
            found[state] = decide(metadata, 7, LAST, True, 2)
        except KafkaError as error:
            found[state] = error.code
    fenced, invalid = ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_TXN_STATE
    assert found == {
        S.EMPTY: fenced,
        S.ONGOING: fenced,
        S.COMPLETE_COMMIT: Decision.IS_DECIDED,
        S.COMPLETE_ABORT: invalid,
    }


# --- what the transitions do ------------------------------------------------------------------------------------------


def test_a_transaction_begins_with_its_first_partition() -> None:
    first = SOME.add_partitions([T0], 200, 2)
    second = first.add_partitions([T1, T0], 300, 2)
    assert (second.start_ms, second.last_update_ms, second.partitions) == (200, 300, {T0, T1})
    again = second.prepare_end(True, 2, 400).complete(500).add_partitions([U0], 600, 0)
    assert (again.start_ms, again.partitions, again.client_transaction_version) == (600, {U0}, 0)


@pytest.mark.parametrize(("version", "epoch", "last"), [(0, 3, -1), (2, 4, 3)])
def test_an_end_raises_the_epoch_with_transaction_version_2(version: int, epoch: int, last: int) -> None:
    prepared = SOME.add_partitions([T0], 200, version).prepare_end(False, version, 400)
    assert (prepared.producer_epoch, prepared.last_producer_epoch, prepared.start_ms) == (epoch, last, 200)
    complete = prepared.complete(500)
    assert (complete.producer_epoch, complete.state, complete.partitions) == (epoch, S.COMPLETE_ABORT, frozenset())


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_fence_raises_the_epoch_once_whatever_the_transaction_version(version: int) -> None:
    fenced = SOME.add_partitions([T0], 200, 2).fence_and_abort(version, 300)
    assert (fenced.state, fenced.producer_epoch) == (S.PREPARE_ABORT, 4)
    assert fenced.client_transaction_version == (2 if version == 2 else 0)


def test_no_transaction_is_no_place_for_a_commit() -> None:
    with pytest.raises(InvalidTransitionError, match="x is Empty, not to become PrepareCommit"):
        SOME.prepare_end(True, 2, 300)


# --- the record -------------------------------------------------------------------------------------------------------


def encoded(metadata: TransactionMetadata, level: int) -> tuple[str, str]:
    key, value = encode_coordinator_record(record_of(metadata, level))
    assert value is not None
    return key.hex(), value.hex()


def test_the_record_of_an_empty_id_at_transaction_version_0() -> None:
    key, value = encoded(SOME, 0)
    assert key == "0000" + "0001" + "78"
    # version, producer id, epoch, timeout, state, no partitions, last update, no start
    assert value == "0000" + f"{7:016x}" + "0003" + f"{60_000:08x}" + "00" + "ffffffff" + f"{100:016x}" + "f" * 16


def test_the_record_of_an_open_transaction_at_transaction_version_2() -> None:
    _, value = encoded(SOME.add_partitions([U0, T1, T0], 200, 2), 2)
    partitions = "03" + "0274" + "03" + "00000000" + "00000001" + "00" + "0275" + "02" + "00000000" + "00"
    # two tags: 0, of eight bytes, the id before, and 2, of two bytes, the client's transaction version
    tags = "02" + "0008" + f"{7:016x}" + "0202" + "0002"
    times = f"{200:016x}" * 2
    assert value == "0001" + f"{7:016x}" + "0003" + f"{60_000:08x}" + "01" + partitions + times + tags


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("version", [0, 2])
def test_what_is_written_is_read_but_for_the_last_epoch(level: int, version: int) -> None:
    ongoing = SOME.add_partitions([T0, U0], 200, version)
    for metadata in (SOME, ongoing, ongoing.prepare_end(True, version, 300), ongoing.fence_and_abort(version, 300)):
        record = decode_coordinator_record(TRANSACTION_RECORDS, *encode_coordinator_record(record_of(metadata, level)))
        assert isinstance(record.key, TransactionLogKey) and isinstance(record.value, TransactionLogValue)
        known_version = metadata.client_transaction_version if level else 0
        known_id = metadata.previous_producer_id if level else -1
        assert metadata_of(record.key, record.value) == replace(
            metadata, last_producer_epoch=-1, previous_producer_id=known_id, client_transaction_version=known_version
        )


def test_the_ids_of_a_producer_whose_epochs_are_exhausted_are_written() -> None:
    prepared = replace(SOME, producer_epoch=LAST).add_partitions([T0], 200, 2).prepare_end(True, 2, 300, 9)
    assert (prepared.producer_epoch, prepared.producer_after) == (LAST + 1, (9, 0))
    assert encoded(prepared, 2)[1].endswith("03" + "0008" + f"{7:016x}" + "0108" + f"{9:016x}" + "0202" + "0002")
    complete = prepared.complete(400)
    assert (complete.producer_id, complete.producer_epoch, complete.previous_producer_id) == (9, 0, 7)
    assert encoded(complete, 2)[1].endswith("02" + "0008" + f"{7:016x}" + "0202" + "0002")


def test_a_forgotten_id_has_a_record_without_a_value() -> None:
    assert encode_coordinator_record(tombstone("x")) == (bytes.fromhex("0000000178"), None)


@pytest.mark.parametrize("status", [6, 7, 8, -1])
def test_a_record_in_a_state_that_is_never_written_is_refused(status: int) -> None:
    value = record_of(SOME, 2).value
    assert isinstance(value, TransactionLogValue)
    with pytest.raises(ProtocolError, match=f"x is in state {status}"):
        metadata_of(TransactionLogKey(transactional_id="x"), value.replace(transaction_status=status))
