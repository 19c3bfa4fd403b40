"""How a follower looks through what its leader sends: records of the log, or a snapshot.

What is in the log has to be understood at each start, so every record is decoded before anything is appended. An answer
may have 8 MiB, and to decode a hundred thousand records takes a second. So a large answer is looked through in slices
of time. Meanwhile the leader is asked nothing more, and no other leader is wanted: this node has not come to what this
one sends next.

This is ours: KafkaRaftClient has a thread of its own, and nothing else waits for that.
"""

from collections.abc import Callable

from pykraft.common.core import Promise, Steps, finish
from pykraft.common.errors import CorruptRecordError, KafkaError
from pykraft.common.time_slice import TimeSlice, take_steps
from pykraft.raft.quorum_state import Follower
from pykraft.raft.replica import RaftReplica

_READ_AT_ONCE_BYTES = 1 << 16
"""An answer with more is looked through in slices: two thousand records take a hundredth of a second or two."""


class _Reading:
    """A large answer that is looked through."""

    __slots__ = ("is_begun", "is_useful", "steps")

    def __init__(self, steps: Steps[bool]) -> None:
        self.steps = steps
        self.is_begun = False
        self.is_useful: Promise[bool] = Promise()


class AnswerReader:
    """Looks through the answers to one replica's fetches, one after the other."""

    def __init__(self, replica: RaftReplica, time_slice: TimeSlice) -> None:
        self._replica = replica
        self._time_slice = time_slice
        self._reading: _Reading | None = None
        replica.on_transition.append(self._stop)

    @property
    def is_busy(self) -> bool:
        """Whether there is an answer that is not looked through."""
        return self._reading is not None

    def read_records(self, data: bytes | memoryview, high_watermark: int, now: int) -> bool | Promise[bool]:
        """Append what the leader sent, and take over its high watermark; whether the bytes could be used."""
        return self._read(data, len(data), lambda kept: self._append(kept, high_watermark), now)

    def read_piece(self, piece: bytes | memoryview, size: int, now: int) -> bool | Promise[bool]:
        """Take the next piece of a snapshot of that size; whether it could be used."""
        fetch = self._replica.snapshot_fetch
        is_last = fetch is not None and fetch.position + len(piece) >= size  # then all of it is looked through
        return self._read(piece, size if is_last else 0, lambda kept: self._replica.append_to_snapshot(kept, size), now)

    def _read(
        self, data: bytes | memoryview, size: int, steps: Callable[[memoryview], Steps[bool]], now: int
    ) -> bool | Promise[bool]:
        """The bytes of an answer are its connection's, which overwrites them with the next one. So if it takes long
        they are copied."""
        if size <= _READ_AT_ONCE_BYTES:
            is_useful = finish(steps(memoryview(data)))
            if is_useful:
                self._replica.quorum.record_fetch(now)
            return is_useful
        self._reading = _Reading(steps(memoryview(bytes(data))))
        self._replica.quorum.record_fetch(now)
        return self._reading.is_useful

    def go_on(self, now: int) -> None:
        """Look through a large answer for a slice."""
        reading, self._reading = self._reading, None  # also if it fails
        if reading is None:
            return
        self._time_slice.begin()
        try:
            is_done, is_useful = take_steps(reading.steps, now if reading.is_begun else None, self._time_slice, now)
        except Exception:
            reading.is_useful.keep(False)
            raise
        if isinstance(self._replica.quorum.role, Follower):
            self._replica.quorum.record_fetch(now)
        reading.is_begun = True
        if is_done:
            reading.is_useful.keep(is_useful)
        else:
            self._reading = reading

    def _stop(self) -> None:
        """The role has changed: the answer was for another one."""
        self._reading = None

    def _append(self, data: memoryview, high_watermark: int) -> Steps[bool]:
        try:
            yield from self._replica.check_fetched(data)
            self._replica.append_fetched(data)
        except (CorruptRecordError, KafkaError) as error:
            self._replica.trace("metadata_fetch_refused", reason=str(error))
            return False
        self._replica.advance_high_watermark(high_watermark)
        return True
