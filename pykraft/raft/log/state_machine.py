"""What the history of the metadata log means to Raft itself, and how it reaches the listeners.

`ControlRecords` follows the log to its very end, since a voter set and the level of ``kraft.version`` hold from when
they are appended. `CommitReader`
follows it to the high watermark: it reads and decodes each batch once, and hands it to its listener.

Follows org.apache.kafka.raft.internals.{KRaftControlRecordStateMachine,RecordsBatchReader} and
KafkaRaftClient.ListenerContext.
"""

from pykraft.common.core import Steps, finish
from pykraft.common.time_slice import TimeSlice, take_steps
from pykraft.common.types import LeaderAndEpoch
from pykraft.protocol.messages.control import KRaftVersionRecord, VotersRecord
from pykraft.raft.log.history import (
    BatchDecoder,
    HistoryReader,
    MetadataLog,
    Snapshot,
    committed,
    committed_in_steps,
    control_records,
)
from pykraft.raft.log.listener import Listener
from pykraft.raft.log.replicated_log import ReplicatedLog
from pykraft.raft.log.voters import (
    NO_VOTERS,
    STATIC_OFFSET,
    STATIC_VOTERS,
    KRaftVersionHistory,
    VoterSet,
    VoterSetHistory,
)


class ControlRecords:
    """The levels of ``kraft.version`` and the voter sets in the log and in its snapshot."""

    def __init__(self, log: ReplicatedLog, static_voters: VoterSet = NO_VOTERS) -> None:
        """`static_voters` hold while no voters are in the log."""
        self._log = log
        self._static_voters = static_voters
        self._reader = HistoryReader(log)
        self.history = VoterSetHistory(static_voters, STATIC_OFFSET)
        self._versions = KRaftVersionHistory(STATIC_VOTERS, STATIC_OFFSET)
        self.update()

    @property
    def voters(self) -> VoterSet:
        """The set that holds now."""
        return self.history.latest

    @property
    def kraft_version(self) -> int:
        """The level of ``kraft.version`` that holds now."""
        return self._versions.latest

    def voters_in_log(self, end_offset: int) -> VoterSet | None:
        """The voters that a log has which ends there, for a snapshot; None at level 0."""
        return None if self._versions.before(end_offset) == STATIC_VOTERS else self.history.before(end_offset)

    def update(self) -> bool:
        """Read what was appended since; whether the voter set changed."""
        before = self.history.latest_offset
        for found in self._reader.read(self._log.end_offset):
            if isinstance(found, Snapshot):
                self._begin_with(found)
                continue
            for batch in found:
                for offset, message in control_records(batch) if batch.is_control else ():
                    if isinstance(message, VotersRecord):
                        self.history.add(offset, VoterSet.from_record(message))
                    elif isinstance(message, KRaftVersionRecord):
                        self._versions.add(offset, message.kraft_version)
        return self.history.latest_offset != before

    def _begin_with(self, snapshot: Snapshot) -> None:
        last_offset = snapshot.id.offset - 1
        if snapshot.kraft_version == STATIC_VOTERS:
            self.history = VoterSetHistory(self._static_voters, STATIC_OFFSET)
        else:
            self.history = VoterSetHistory(snapshot.voters, last_offset)
        self._versions = KRaftVersionHistory(snapshot.kraft_version, last_offset)

    def begin_again(self) -> None:
        """The log is empty, and begins after a snapshot. What was read of it before holds no more: not what was never
        committed, however far it reached."""
        self._reader.truncate_to(-1)
        self.update()

    def truncate_to(self, end_offset: int) -> None:
        self.history.truncate_to(end_offset)
        self._versions.truncate_to(end_offset)
        self._reader.truncate_to(end_offset)


class CommitReader:
    """One listener, and how far it has read. `decode` makes what it gets of a batch."""

    def __init__(self, log: MetadataLog, listener: Listener, decode: BatchDecoder | None = None) -> None:
        """Without `decode` the records of a batch are decoded."""
        self._reader = HistoryReader(log)
        self._listener = listener
        self._decode = decode
        self._told: LeaderAndEpoch | None = None
        self._delivering: Steps[None] | None = None
        """What is being handed over."""

    @property
    def next_offset(self) -> int:
        """The offset after all that the listener has; -1 if it has nothing yet. What it is being handed counts as
        had."""
        return self._reader.next_offset

    def deliver(self, high_watermark: int) -> None:
        """Hand over what was committed since."""
        finish(self._deliver(high_watermark))

    def deliver_some(self, high_watermark: int, time_slice: TimeSlice, now: int) -> bool:
        """The same, for a slice; whether all is handed over."""
        is_begun = self._delivering is not None
        if not is_begun and self._reader.has_read(high_watermark):
            return True
        is_done = self._go_on(self._delivering or self._deliver(high_watermark), is_begun, time_slice, now)
        if is_begun and is_done:  # more may be committed since that was begun
            return self._go_on(self._deliver(high_watermark), False, time_slice, now)
        return is_done

    def _go_on(self, steps: Steps[None], is_begun: bool, time_slice: TimeSlice, now: int) -> bool:
        self._delivering = None  # also if it fails: what comes after it is handed over
        is_done, _ = take_steps(steps, now if is_begun else None, time_slice, now)
        if not is_done:
            self._delivering = steps
        return is_done

    def _deliver(self, high_watermark: int) -> Steps[None]:
        for found in self._reader.read(high_watermark):
            if isinstance(found, Snapshot):
                batches = yield from found.decoded_in_steps(self._decode or committed)
                yield from self._listener.handle_load_snapshot(found.id, batches) or ()
                continue
            for batch in found:
                if self._decode is None:
                    decoded = yield from committed_in_steps(batch)
                else:
                    decoded = self._decode(batch)
                yield from self._listener.handle_commit(decoded) or ()

    def tell_leader(self, leader: LeaderAndEpoch) -> None:
        """Tell of a new leader or epoch, once."""
        if leader != self._told:
            self._told = leader
            self._listener.handle_leader_change(leader)
