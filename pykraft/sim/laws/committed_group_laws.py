"""The laws of a group that reads the bank: its members see committed transfers, each when they may, and skip none.

A reader of committed data passes over offsets that it is not shown: markers, and records of transactions that were
aborted. So the group may have read on from offset 10 to 14 without 11, 12 and 13. The law looks at each offset that is
passed, by what the log has there:

* a marker may be passed, and a record of a transfer that is aborted;
* a record of a committed transfer may not;
* a producer may not know yet what became of its transfer, or may never hear it. Then the bank's reader is asked in the
  end: what it was shown may not have been passed.

All other laws of groups hold as they are. A commit counts by its place in the internal topic, which this group shares
with the copiers: their offsets are in transactions, and are not this group's.

Follows the guarantees of KIP-98 for consumers in groups.
"""

from collections.abc import Callable

from pykraft.broker.coordination.coordinators import GroupCoordinator, InternalLog
from pykraft.common.types import TopicPartition
from pykraft.protocol.messages.offsets import OffsetCommitRequest
from pykraft.records.batch import RecordBatch
from pykraft.records.record import Record
from pykraft.sim.laws.classic_group_laws import ClassicGroupLaws
from pykraft.sim.laws.consumer_group_laws import ConsumerGroupLaws
from pykraft.sim.laws.group_laws import GroupLaws, InternalHistory, LoggedGroupLaws, SentCommit, committed_offsets
from pykraft.sim.laws.invariants import PartitionHistory, Violation
from pykraft.sim.laws.transaction_laws import Ledger, Outcome, TransactionalHistory


class _CommittedReads(GroupLaws):
    """What is different for a group that is shown committed data only."""

    ledger: Callable[[], Ledger]
    """Of the bank."""
    history: Callable[[TopicPartition], PartitionHistory]
    """What was committed in a partition of the bank."""

    def read(self, key: TopicPartition, offset: int) -> None:
        self._pass_over(key, offset)
        super().read(key, offset)
        self.ledger().check_shown(key, self.history(key).values[offset] or b"")

    def send_commit(self, request: OffsetCommitRequest) -> list[SentCommit]:
        for key, offset in committed_offsets(request):
            self._pass_over(key, offset)
        return super().send_commit(request)

    def _pass_over(self, key: TopicPartition, offset: int) -> None:
        """The group goes on at this offset, and was not shown what is before it."""
        place, values = self.place(key), self.history(key).values
        for passed in range(place.read_up_to, min(offset, len(values))):
            value = values[passed] or b""
            outcome = self.ledger().outcome_of(value)
            if outcome is Outcome.COMMITTED:
                raise Violation(f"{key}: {self.group_id} goes on at {offset}, and has not read {value!r} at {passed}")
            if outcome is not None:
                self._passed.append((key, passed, value))
            place.read_up_to = passed + 1

    @property
    def _passed(self) -> list[tuple[TopicPartition, int, bytes]]:
        """Records of transfers that were not known to be committed when the group passed them."""
        found: list[tuple[TopicPartition, int, bytes]] = self.__dict__.setdefault("passed", [])
        return found

    def check_coordinator(self, coordinator: GroupCoordinator, log: InternalLog, now: int) -> None:
        super().check_coordinator(coordinator, log, now)
        self.check_passed()

    def check_passed(self) -> None:
        """In the end: the bank's reader has seen none of what the group has passed."""
        for key, offset, value in self._passed:
            if self.ledger().was_read(value):
                raise Violation(f"{key}: {self.group_id} has not read {value!r} at {offset}, and the bank's reader has")


class CommittedClassicGroupLaws(_CommittedReads, ClassicGroupLaws):
    """Those of a classic group."""


class CommittedConsumerGroupLaws(_CommittedReads, ConsumerGroupLaws):
    """Those of a consumer group (KIP-848)."""


class SharedInternalHistory(TransactionalHistory):
    """What was committed in a partition of ``__consumer_offsets`` that groups share with copiers."""

    def __init__(
        self, topic_partition: TopicPartition, transaction_version: int, groups: dict[str, LoggedGroupLaws]
    ) -> None:
        super().__init__(topic_partition, transaction_version)
        self._of_groups = InternalHistory(topic_partition, groups)
        self._is_of_transaction = False

    def observe(self, batch: RecordBatch) -> None:
        super().observe(batch)
        self._is_of_transaction = batch.is_transactional or batch.is_control

    def take(self, record: Record) -> None:
        super().take(record)
        if not self._is_of_transaction:
            self._of_groups.take(record)
