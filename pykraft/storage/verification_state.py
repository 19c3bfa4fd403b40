"""Which transactional producers a partition's leader is asking the transaction coordinator about (KIP-890).

The first batch of a transaction in a partition must not be appended unless the coordinator knows that the partition is
part of the transaction: it would never send the marker that ends it, and the last stable offset would hang. So the
leader starts a *verification*, asks the coordinator, and appends only if the answer is yes.

An answer may come late. Meanwhile the transaction may have been aborted, its marker written, and the next transaction
begun, which knows nothing of this partition. The `Verification` is therefore a guard: the append must present the very
object that is on record for its producer. Each append of a transactional batch, data or marker, takes it off the
record, so a batch that was verified before the marker is refused after it. A later batch of the same transaction needs
no guard: the log has the transaction open.

While a verification is on record it also remembers the lowest sequence number that wants to be appended. If the answer
for that batch is an error that the producer retries, a higher one must not be appended before it: of a producer that
the log does not know, it would accept any.

This is soft state of a leader: no record holds it, a crash forgets it, and the producer asks again.

Follows org.apache.kafka.storage.internals.log.{VerificationGuard,VerificationStateEntry}.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from pykraft.records.batch import RecordBatch


@dataclass(eq=False, slots=True)
class Verification:
    """One verification that was started; equal to no other one."""

    started_ms: int
    lowest_sequence: int
    epoch: int
    bumps_epoch: bool
    """The producer's epoch rises with each transaction (transaction.version 2)."""

    def note(self, sequence: int, epoch: int) -> None:
        """Another batch of the producer wants to be verified. A new epoch begins with sequences of its own."""
        if epoch > self.epoch:
            self.epoch, self.lowest_sequence = epoch, sequence
        elif epoch == self.epoch:
            self.lowest_sequence = min(self.lowest_sequence, sequence)


class AppendCheck(NamedTuple):
    """What a leader's append has to prove beside its producer's epoch and sequence."""

    verification: Verification | None = None
    needs_verification: bool = False
    """Whether a transactional batch without an open transaction must present its verification."""
    transaction_version: int = 0
    """Of the producer whose transaction a marker ends."""


NO_CHECK = AppendCheck()


class Verifications:
    """The verifications of one log, by producer id."""

    def __init__(self) -> None:
        self.by_producer: dict[int, Verification] = {}

    def start(self, producer_id: int, sequence: int, epoch: int, bumps_epoch: bool, now_ms: int) -> Verification:
        """The producer's verification: the one on record, or a new one."""
        known = self.by_producer.get(producer_id)
        if known is None:
            known = Verification(now_ms, sequence, epoch, bumps_epoch)
            self.by_producer[producer_id] = known
        known.note(sequence, epoch)
        return known

    def of(self, producer_id: int) -> Verification | None:
        """The producer's verification on record."""
        return self.by_producer.get(producer_id)

    def on_append(self, batches: Iterable[RecordBatch]) -> None:
        """These batches are in the log. The verifications of their producers have served, or came too late.

        One is kept: with transaction.version 2 a marker already carries the epoch of the next transaction, whose first
        batch may be waiting for its answer."""
        for batch in batches:
            known = self.by_producer.get(batch.producer_id)
            if known is None or not batch.is_transactional:
                continue
            is_of_next = known.bumps_epoch and batch.is_control and batch.producer_epoch == known.epoch
            if not is_of_next:
                del self.by_producer[batch.producer_id]

    def clear(self) -> None:
        """Forget all of them: the log begins again elsewhere, and the batches in between, which might end them, do not
        come. (Kafka keeps them.)"""
        self.by_producer.clear()

    def remove_expired(self, now_ms: int, expiration_ms: int) -> None:
        """Forget those that no append came for."""
        self.by_producer = {
            producer_id: known
            for producer_id, known in self.by_producer.items()
            if now_ms - known.started_ms < expiration_ms
        }
