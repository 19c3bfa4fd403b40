"""No transaction is open in a log unless its coordinator knows of it, whatever is late, lost or repeated (KIP-890).

A producer, its coordinator and a leader's log play a random game. Messages between them arrive in any order: a batch
may be repeated, an answer of the coordinator may come after the abort of its transaction, a marker may come twice. Two
laws are looked at after each step. If the log has the transaction open, the coordinator has the partition in its
transaction, or the marker is still under way. And what was appended to a transaction stays open until the coordinator
ends it.
"""

from __future__ import annotations

from random import Random
from typing import NamedTuple

import pytest

from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.records.batch import RecordBatch
from pykraft.storage.producer_state import AppendOrigin
from pykraft.storage.verification_state import AppendCheck, Verification
from tests.harness.storage import marker, open_log, produced

PRODUCER = 7
GAMES = 150
STEPS = 60


class Late(NamedTuple):
    """A batch that waits for the coordinator; `is_allowed` is its answer, once it has one."""

    batch: RecordBatch
    verification: Verification
    is_allowed: bool | None = None


class Game:
    """One random run with one of the two protocols."""

    def __init__(self, seed: int, bumps_epoch: bool) -> None:
        self.random = Random(f"{seed} {bumps_epoch}")
        self.bumps_epoch = bumps_epoch
        self.log = open_log()
        self.epoch = self.sequence = 0
        self.has_partition = False
        """Whether the partition is in the transaction that the coordinator has open."""
        self.has_records = False
        """Whether that transaction has records in the log."""
        self.markers: list[RecordBatch] = []
        """Under way; the coordinator begins no other transaction until they have arrived."""
        self.old_markers: list[RecordBatch] = []
        self.sent: list[RecordBatch] = []
        self.late: list[Late] = []
        self.opened = 0

    def play(self) -> None:
        steps = [self.send, self.send, self.send_again, self.ask, self.ask, self.answer, self.answer]
        steps += [self.end, self.arrive, self.arrive_again, self.add_as_client]
        for _ in range(STEPS):
            self.random.choice(steps)()
            self.check()

    def check(self) -> None:
        self.log.update_high_watermark(self.log.log_end_offset)
        is_open = self.log.producer_state.first_unstable_offset is not None
        self.opened += is_open
        self.has_records &= self.has_partition
        assert is_open or not self.has_records, "a late marker has ended the next transaction"
        self.has_records = is_open and self.has_partition
        assert not is_open or self.has_partition or self.markers, "a hanging transaction"

    # --- the producer -------------------------------------------------------------------------------------------------

    def send(self) -> None:
        batch = produced(PRODUCER, self.sequence, epoch=self.epoch, transactional=True)
        self.sequence += 1
        self.sent = [*self.sent[-5:], batch]
        self.receive(batch)

    def send_again(self) -> None:
        if self.sent:
            self.receive(self.random.choice(self.sent))

    def add_as_client(self) -> None:
        if not self.bumps_epoch and not self.markers:
            self.has_partition = True

    # --- the leader ---------------------------------------------------------------------------------------------------

    def receive(self, sent: RecordBatch) -> None:
        batch = RecordBatch(memoryview(bytearray(sent.buffer)))
        try:
            verification = self.log.start_verification(
                PRODUCER, batch.base_sequence, batch.producer_epoch, self.bumps_epoch
            )
        except KafkaError as error:
            assert error.code is ErrorCode.INVALID_PRODUCER_EPOCH
            return
        if verification is None:
            self.append(batch, None)
        else:
            self.late.append(Late(batch, verification))

    def append(self, batch: RecordBatch, verification: Verification | None) -> None:
        try:
            self.log.append_as_leader(batch, 0, check=AppendCheck(verification, needs_verification=True))
        except KafkaError as error:
            assert error.code in (
                ErrorCode.INVALID_TXN_STATE,
                ErrorCode.INVALID_PRODUCER_EPOCH,
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            )

    def answer(self) -> None:
        """One of the coordinator's answers arrives, perhaps long after it was given."""
        answered = [each for each in self.late if each.is_allowed is not None]
        if answered:
            late = self.random.choice(answered)
            self.late.remove(late)
            if late.is_allowed:
                self.append(late.batch, late.verification)

    # --- the coordinator ----------------------------------------------------------------------------------------------

    def ask(self) -> None:
        """One of the questions arrives."""
        asked = [number for number, each in enumerate(self.late) if each.is_allowed is None]
        if not asked:
            return
        number = self.random.choice(asked)
        is_current = self.late[number].batch.producer_epoch == self.epoch and not self.markers
        if is_current and self.bumps_epoch:
            self.has_partition = True
        self.late[number] = self.late[number]._replace(is_allowed=is_current and self.has_partition)

    def end(self) -> None:
        if self.has_partition and not self.markers:
            self.has_partition = False
            if self.bumps_epoch:
                self.epoch, self.sequence = self.epoch + 1, 0
            self.markers.append(marker(PRODUCER, self.random.random() < 0.5, epoch=self.epoch))

    def arrive(self) -> None:
        while self.markers:
            self.write(self.markers.pop())

    def arrive_again(self) -> None:
        """A marker that was acknowledged long ago: only raised epochs tell that it is late."""
        if self.bumps_epoch and self.old_markers:
            self.write(self.random.choice(self.old_markers))

    def write(self, some: RecordBatch) -> None:
        self.old_markers.append(some)
        copy = RecordBatch(memoryview(bytearray(some.buffer)))
        check = AppendCheck(transaction_version=2 if self.bumps_epoch else 1)
        try:
            self.log.append_as_leader(copy, 0, AppendOrigin.COORDINATOR, check)
        except KafkaError as error:
            assert error.code is ErrorCode.INVALID_PRODUCER_EPOCH


@pytest.mark.parametrize("bumps_epoch", [False, True], ids=["same epoch", "raised epochs"])
def test_no_transaction_hangs(bumps_epoch: bool) -> None:
    games = [Game(seed, bumps_epoch) for seed in range(GAMES)]
    for game in games:
        game.play()
    assert sum(game.opened for game in games) > GAMES, "hardly a transaction was open"
    assert any(len(game.late) > 1 for game in games)
