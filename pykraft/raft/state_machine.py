"""What the records in the metadata log mean to Raft itself, and how they reach the listeners.

`ControlRecords` follows the log to its very end, since a voter set holds from when it is appended. `CommitReader`
follows it to the high watermark, and hands every batch to a listener once.

Follows org.apache.kafka.raft.internals.KRaftControlRecordStateMachine and KafkaRaftClient.ListenerContext.
"""

from pykraft.common.errors import CorruptRecordError, ProtocolError
from pykraft.common.types import LeaderAndEpoch
from pykraft.protocol.messages.control import ControlRecord, VotersRecord, decode_control_record
from pykraft.protocol.messages.records import decode_metadata_record
from pykraft.raft.listener import CommittedBatch, Listener
from pykraft.raft.replicated_log import ReplicatedLog
from pykraft.raft.voters import VoterSet, VoterSetHistory
from pykraft.records.batch import RecordBatch


class ControlRecords:
    """The voter sets in the log."""

    def __init__(self, log: ReplicatedLog, bootstrap: VoterSet) -> None:
        self._log = log
        self._offset = log.start_offset
        self.history = VoterSetHistory(bootstrap)

    @property
    def voters(self) -> VoterSet:
        """The set that holds now."""
        return self.history.latest

    def update(self) -> bool:
        """Read what was appended since; whether the voter set changed."""
        before = self.history.latest_offset
        while batches := self._log.batches_between(self._offset, self._log.end_offset):
            for batch in batches:
                if batch.is_control:
                    self._replay(batch)
                self._offset = batch.next_offset
        return self.history.latest_offset != before

    def _replay(self, batch: RecordBatch) -> None:
        for offset, message in _control_records(batch):
            if isinstance(message, VotersRecord):
                self.history.add(offset, VoterSet.from_record(message))

    def truncate_to(self, end_offset: int) -> None:
        self.history.truncate_to(end_offset)
        self._offset = min(self._offset, end_offset)


class CommitReader:
    """One listener, and how far it has read."""

    def __init__(self, listener: Listener) -> None:
        self.listener = listener
        self.next_offset = 0
        self._told: LeaderAndEpoch | None = None

    def deliver(self, log: ReplicatedLog, high_watermark: int) -> None:
        """Hand over what was decided since."""
        while batches := log.batches_between(self.next_offset, high_watermark):
            for batch in batches:
                self.next_offset = batch.next_offset
                self.listener.handle_commit(committed(batch))

    def tell_leader(self, leader: LeaderAndEpoch) -> None:
        """Tell of a new leader or epoch, once."""
        if leader != self._told:
            self._told = leader
            self.listener.handle_leader_change(leader)


def check_understood(batch: RecordBatch) -> None:
    """CorruptRecordError unless every record of the batch can be read: what is in the log has to be, at each start."""
    try:
        if batch.is_control:
            _control_records(batch)
        else:
            committed(batch)
    except ProtocolError as error:
        raise CorruptRecordError(f"{batch} holds what is no record of the metadata log: {error}") from error


def _control_records(batch: RecordBatch) -> list[tuple[int, ControlRecord]]:
    """(offset, record) of each."""
    return [
        (record.offset, decode_control_record(record.key or b"", record.value or b"")[1]) for record in batch.records()
    ]


def committed(batch: RecordBatch) -> CommittedBatch:
    """A batch of the metadata log with its records decoded."""
    records = []
    if not batch.is_control:
        records = [decode_metadata_record(record.value or b"")[0] for record in batch.records()]
    return CommittedBatch(
        batch.base_offset, batch.last_offset, batch.partition_leader_epoch, batch.max_timestamp, records
    )
