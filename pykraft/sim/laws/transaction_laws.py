"""The laws of transactions, held against what clients do and what they are shown.

*The bank.* A transfer is one transaction: several amounts, in several partitions, whose sum is 0. The `Ledger` knows
what became of each transfer::

    OPEN ──> ASKED ──> COMMITTED      the producer heard that it is committed
      │        ├─────> UNKNOWN        the producer died, or was fenced, while it waited for that
      └────────┴─────> ABORTED        a commit was never asked for, or the producer heard that it is aborted

* A reader of committed data sees no part of a transfer that is OPEN or ABORTED, and each part once.
* Once storms end it has seen every part of each COMMITTED transfer, and of an UNKNOWN one all parts or none. So the
  bank's total is 0.

*The copy.* Copiers read the bank's records and write them to a second topic, in transactions that commit the offsets of
what they have read. So a partition of the copy holds the same values as that of the bank, in the same order, each once.

*Of epochs*: a COMMIT marker has the epoch of its transaction's records, and with transaction.version 2 the next one. An
ABORT marker has such an epoch or a higher one: it may fence its producer.

*Of producers*: two clients never have the same producer id and epoch. A producer that takes the place of another one
has a higher epoch, or another id, and so fences it.

*Of every log*: once storms end, no transaction is open, and the last stable offset is the end of the log. What a
replica knows of its producers is what its log says (`replay_laws`).

Follows the guarantees of KIP-98 and KIP-447.
"""

from enum import Enum

from pykraft.client.producing.numbering import ProducerIdAndEpoch
from pykraft.common.types import TopicPartition
from pykraft.records.batch import RecordBatch
from pykraft.records.markers import read_marker
from pykraft.records.record import Record
from pykraft.sim.laws.invariants import PartitionHistory, Violation, require

BANK = "bank"
COPY = "copy"
_FIRST_WITH_EPOCH_BUMP = 2
"""Of transaction.version."""


class Outcome(Enum):
    """What is known of a transfer."""

    OPEN = "open"
    ASKED = "asked to commit"
    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


class Transfer:
    """One transaction of the bank."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.outcome = Outcome.OPEN
        self.parts: list[bytes] = []

    def abandon(self) -> None:
        """Its producer does not come back: what was not asked for can never be committed."""
        if self.outcome in (Outcome.OPEN, Outcome.ASKED):
            self.outcome = Outcome.ABORTED if self.outcome is Outcome.OPEN else Outcome.UNKNOWN


class Ledger:
    """All transfers, and what readers of committed data have seen of them."""

    def __init__(self) -> None:
        self.transfers: list[Transfer] = []
        self._of_value: dict[bytes, Transfer] = {}
        self._seen: dict[bytes, TopicPartition] = {}
        self.bank: dict[int, list[bytes]] = {}
        """By partition: the values that the bank's reader has seen."""
        self.copy: dict[int, list[bytes]] = {}
        self._producers: dict[ProducerIdAndEpoch, str] = {}
        """Which client has had this identity."""

    # --- what producers do --------------------------------------------------------------------------------------------

    def begin(self, writer: str) -> Transfer:
        transfer = Transfer(f"{writer} {len(self.transfers)}")
        self.transfers.append(transfer)
        return transfer

    def write(self, transfer: Transfer, amount: int) -> bytes:
        """The value of the next part of a transfer."""
        value = f"{transfer.name} {len(transfer.parts)} {amount:+}".encode()
        transfer.parts.append(value)
        self._of_value[value] = transfer
        return value

    def note_identity(self, client: str, identity: ProducerIdAndEpoch) -> None:
        """The coordinator has given the client a producer id and epoch."""
        other = self._producers.setdefault(identity, client)
        require(
            other == client,
            f"{client} has producer id {identity.producer_id} and epoch {identity.epoch}, as {other} had before, which "
            "is not fenced",
        )

    @property
    def copied(self) -> int:
        """How many records the copy's reader has seen."""
        return sum(map(len, self.copy.values()))

    def count(self, outcome: Outcome) -> int:
        return sum(transfer.outcome is outcome for transfer in self.transfers)

    # --- what readers see ---------------------------------------------------------------------------------------------

    def read(self, place: TopicPartition, value: bytes) -> None:
        """The bank's reader was shown this."""
        self.check_shown(place, value)
        other = self._seen.setdefault(value, place)
        if other is not place:
            raise Violation(f"{value!r} is in {other} and again in {place}")
        self.bank.setdefault(place.partition, []).append(value)
        self._compare(place.partition, len(self.bank[place.partition]) - 1)

    def check_shown(self, place: TopicPartition, value: bytes) -> None:
        """Any reader of committed data was shown this."""
        transfer = self._of_value.get(value)
        if transfer is None:
            raise Violation(f"{place}: a reader sees {value!r}, which was never written")
        if transfer.outcome in (Outcome.OPEN, Outcome.ABORTED):
            raise Violation(f"{place}: a reader is shown {value!r}, and its transfer is {transfer.outcome.value}")

    def outcome_of(self, value: bytes) -> Outcome | None:
        """What is known of the transfer with this part; None if no transfer has it."""
        transfer = self._of_value.get(value)
        return None if transfer is None else transfer.outcome

    def was_read(self, value: bytes) -> bool:
        """Whether the bank's reader has seen this part."""
        return value in self._seen

    def read_copy(self, place: TopicPartition, value: bytes) -> None:
        """The copy's reader was shown this."""
        self.copy.setdefault(place.partition, []).append(value)
        self._compare(place.partition, len(self.copy[place.partition]) - 1)

    def _compare(self, partition: int, index: int) -> None:
        """Exactly once, in order: what both readers have seen at this place is the same."""
        bank, copy = self.bank.get(partition, []), self.copy.get(partition, [])
        if index < min(len(bank), len(copy)) and bank[index] != copy[index]:
            raise Violation(f"partition {partition}: the copy's record {index} is {copy[index]!r}, not {bank[index]!r}")

    # --- once storms have ended ---------------------------------------------------------------------------------------

    def missing(self) -> str | None:
        """Why the readers have not seen everything yet; None if they have."""
        return self.unread() or self._uncopied()

    def unread(self) -> str | None:
        """Why the bank's reader has not."""
        for transfer in self.transfers:
            seen = sum(part in self._seen for part in transfer.parts)
            is_whole = seen == len(transfer.parts)
            if transfer.outcome is Outcome.COMMITTED and not is_whole:
                return f"of {transfer.name}, which is committed, {seen} of {len(transfer.parts)} parts were read"
            if transfer.outcome is Outcome.UNKNOWN and not (is_whole or seen == 0):
                return f"of {transfer.name}, whose end is unknown, {seen} of {len(transfer.parts)} parts were read"
        return None

    def _uncopied(self) -> str | None:
        for partition, values in self.bank.items():
            copied = len(self.copy.get(partition, []))
            if copied < len(values):
                return f"of {len(values)} records of partition {partition} {copied} were read in the copy"
        return None

    def check_total(self) -> None:
        """Nothing was gained or lost."""
        total = sum(int(value.rpartition(b" ")[2]) for values in self.bank.values() for value in values)
        require(total == 0, f"the bank's total is {total}")


# --- logs -----------------------------------------------------------------------------------------------------------


class TransactionalHistory(PartitionHistory):
    """What was committed in a partition with transactions. The copy of what was aborted may come again, and markers
    resemble each other."""

    def __init__(self, topic_partition: TopicPartition, transaction_version: int) -> None:
        super().__init__(topic_partition)
        self._bump = 1 if transaction_version >= _FIRST_WITH_EPOCH_BUMP else 0
        self._open: dict[int, int] = {}
        """By producer id: the epoch in which its transaction began."""

    def take(self, record: Record) -> None:
        self.values.append(record.value)

    def observe(self, batch: RecordBatch) -> None:
        """Coordinators do not number their batches."""
        if not self.name.startswith("__"):
            super().observe(batch)
        if batch.is_control:
            self._check_marker(batch)
        elif batch.is_transactional:
            epoch = self._open.setdefault(batch.producer_id, batch.producer_epoch)
            require(
                epoch == batch.producer_epoch,
                f"{self.name}: producer {batch.producer_id} began a transaction in epoch {epoch} and goes on in "
                f"{batch.producer_epoch}",
            )

    def _check_marker(self, batch: RecordBatch) -> None:
        """The marker's epoch fits the transaction that it ends, if there is one here."""
        began = self._open.pop(batch.producer_id, None)
        if began is None:
            return
        earliest, is_commit = began + self._bump, read_marker(batch).committed
        require(
            batch.producer_epoch == earliest or (batch.producer_epoch > earliest and not is_commit),
            f"{self.name}: producer {batch.producer_id} began a transaction in epoch {began}, and a "
            f"{'COMMIT' if is_commit else 'ABORT'} marker ends it in {batch.producer_epoch}",
        )
