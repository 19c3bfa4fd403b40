"""What the history of the metadata log means to Raft itself, and how it reaches the listeners.

`ControlRecords` follows the log to its very end, since a voter set holds from when it is appended. `CommitReader`
follows it to the high watermark: it reads and decodes each batch once, and hands it to its listener.

Follows org.apache.kafka.raft.internals.{KRaftControlRecordStateMachine,RecordsBatchReader} and
KafkaRaftClient.ListenerContext.
"""

from pykraft.common.types import LeaderAndEpoch
from pykraft.protocol.messages.control import VotersRecord
from pykraft.raft.history import BatchDecoder, HistoryReader, MetadataLog, Snapshot, committed, control_records
from pykraft.raft.listener import Listener
from pykraft.raft.replicated_log import ReplicatedLog
from pykraft.raft.voters import NO_VOTERS, VoterSet, VoterSetHistory


class ControlRecords:
    """The voter sets in the log and in its snapshot."""

    def __init__(self, log: ReplicatedLog) -> None:
        self._log = log
        self._reader = HistoryReader(log)
        self.history = VoterSetHistory(NO_VOTERS)
        self.update()

    @property
    def voters(self) -> VoterSet:
        """The set that holds now."""
        return self.history.latest

    def update(self) -> bool:
        """Read what was appended since; whether the voter set changed."""
        before = self.history.latest_offset
        for found in self._reader.read(self._log.end_offset):
            if isinstance(found, Snapshot):
                self.history = VoterSetHistory(found.voters, found.id.offset - 1)
                continue
            for batch in found:
                for offset, message in control_records(batch) if batch.is_control else ():
                    if isinstance(message, VotersRecord):
                        self.history.add(offset, VoterSet.from_record(message))
        return self.history.latest_offset != before

    def truncate_to(self, end_offset: int) -> None:
        self.history.truncate_to(end_offset)
        self._reader.truncate_to(end_offset)


class CommitReader:
    """One listener, and how far it has read. `decode` makes what it gets of a batch."""

    def __init__(self, log: MetadataLog, listener: Listener, decode: BatchDecoder = committed) -> None:
        self._reader = HistoryReader(log)
        self._listener = listener
        self._decode = decode
        self._told: LeaderAndEpoch | None = None

    @property
    def next_offset(self) -> int:
        """The offset after all that the listener has; -1 if it has nothing yet."""
        return self._reader.next_offset

    def deliver(self, high_watermark: int) -> None:
        """Hand over what was committed since."""
        for found in self._reader.read(high_watermark):
            if isinstance(found, Snapshot):
                self._listener.handle_load_snapshot(found.id, found.decoded(self._decode))
                continue
            for batch in found:
                self._listener.handle_commit(self._decode(batch))

    def tell_leader(self, leader: LeaderAndEpoch) -> None:
        """Tell of a new leader or epoch, once."""
        if leader != self._told:
            self._told = leader
            self._listener.handle_leader_change(leader)
