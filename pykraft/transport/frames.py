"""Cutting a stream of bytes into frames.

A frame is an int32 size and that many bytes. A `FrameReader` lends its buffer to the reader of the socket, and gives
the frames out as views into it, so that a record batch goes from the kernel to this buffer and from here to the log,
and is nowhere copied in between. A frame is valid until the next one is taken, or more bytes are received.

A peer can claim any size. One above the limit closes the connection before anything is allocated. A megabyte is
believed; from there up to the limit the buffer grows with what has really come, not with what is claimed. Above a lower
limit the owner of the reader is asked, by the frame's first four bytes, whether such a frame may be that large.

A peer that sends faster than it is read fills the buffer. Then the next one is larger, so that many small frames come
with one system call, and are handled in one turn of the loop.

Follows org.apache.kafka.common.network.NetworkReceive.
"""

from collections.abc import Callable

from pykraft.common.errors import ProtocolError
from pykraft.protocol.header import SIZE

_INITIAL_BYTES = 16 * 1024
_AHEAD_BYTES = 128 * 1024
"""So much a buffer grows for frames that are not asked for yet."""
_HEAD_BYTES = 4
_TRUSTED_BYTES = 1 << 20
"""A claimed size up to this is allocated at once."""


class FrameReader:
    """The receiving half of a connection."""

    __slots__ = ("_asked_above", "_buffer", "_max_frame_bytes", "_may_be_large", "_unasked_bytes", "end", "start")

    def __init__(
        self,
        max_frame_bytes: int,
        unasked_bytes: int | None = None,
        may_be_large: Callable[[bytes], bool] | None = None,
    ) -> None:
        """`may_be_large` says of a frame's first four bytes whether it may have more than `unasked_bytes`."""
        self._asked_above = unasked_bytes
        self.limit(max_frame_bytes)
        self._may_be_large = may_be_large
        self._buffer = bytearray(_INITIAL_BYTES)
        self.start = 0  # of what has not been given out yet
        self.end = 0  # of what was received

    def limit(self, max_frame_bytes: int) -> None:
        """From now on a frame may have this many bytes."""
        asked_above = self._asked_above
        self._max_frame_bytes = max_frame_bytes
        self._unasked_bytes = max_frame_bytes if asked_above is None else min(max_frame_bytes, asked_above)

    def space(self) -> memoryview:
        """Where the next bytes of the stream belong; never empty. ProtocolError if the frame that they are of has an
        impossible size."""
        wanted = self._wanted()
        if self.end == len(self._buffer) < _AHEAD_BYTES:
            # It was filled: there is more where that came from.
            wanted = max(wanted, min(2 * len(self._buffer), _AHEAD_BYTES))
        if self.start == self.end:
            if self.end < _TRUSTED_BYTES < len(self._buffer):
                self._buffer = bytearray(_INITIAL_BYTES)  # the large frames are over
            self.start = self.end = 0
        if self.start + wanted > len(self._buffer) or self.end == len(self._buffer):
            self._make_room(wanted)
        return memoryview(self._buffer)[self.end :]

    def received(self, count: int) -> None:
        """So many bytes were put into `space`."""
        self.end += count

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        """Take bytes that lie elsewhere."""
        first = 0 if self.start == self.end else self.end
        end = first + len(data)
        if end < len(self._buffer) <= _TRUSTED_BYTES:  # there is room
            self._buffer[first:end] = data
            self.start, self.end = self.start if first else 0, end
            return
        view = memoryview(data)
        while view:
            space = self.space()
            count = min(len(space), len(view))
            space[:count] = view[:count]
            self.received(count)
            view = view[count:]

    def next_frame(self) -> memoryview | None:
        """The next whole frame, without its size; None until it is there. ProtocolError at an impossible size."""
        first = self.start + SIZE.size
        if self.end < first:
            return None
        size: int = SIZE.unpack_from(self._buffer, self.start)[0]
        if not 0 < size <= self._unasked_bytes:
            self._check(size)
        if self.end < first + size:
            return None
        self.start = first + size
        return memoryview(self._buffer)[first : self.start]

    def _check(self, size: int) -> None:
        """ProtocolError at a size that no frame may have, or not this one."""
        if not 0 < size <= self._max_frame_bytes:
            raise ProtocolError(f"a frame claims {size} bytes; 1 to {self._max_frame_bytes} are allowed")
        first = self.start + SIZE.size
        is_known = self._may_be_large is not None and self.end - first >= _HEAD_BYTES
        if is_known and not self._may_be_large(bytes(self._buffer[first : first + _HEAD_BYTES])):  # type: ignore[misc]
            raise ProtocolError(f"a frame of its kind claims {size} bytes; {self._unasked_bytes} are allowed")

    def _wanted(self) -> int:
        """How much of the buffer the frame that is being received should have."""
        have = self.end - self.start
        if have < SIZE.size:
            return SIZE.size
        size: int = SIZE.unpack_from(self._buffer, self.start)[0]
        if not 0 < size <= self._unasked_bytes:
            self._check(size)
        return SIZE.size + (size if size <= _TRUSTED_BYTES else min(size, max(_TRUSTED_BYTES, 2 * have)))

    def _make_room(self, wanted: int) -> None:
        """Move what is left to the front; of a larger buffer if it does not fit, of a small one if it has become
        small."""
        rest = self._buffer[self.start : self.end]
        room = max(_INITIAL_BYTES, wanted, 2 * len(rest))
        if room > len(self._buffer) or room <= _TRUSTED_BYTES < len(self._buffer):
            self._buffer = bytearray(room)
        self._buffer[: len(rest)] = rest
        self.start, self.end = 0, len(rest)
