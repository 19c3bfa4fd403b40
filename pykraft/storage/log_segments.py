"""The segments of one log in the order of their offsets, and the search for the one that holds an offset.

A segment's base offset names its files, and the next segment's base offset is where it ends. So the segment that holds
an offset is the one with the largest base offset at or below it: a binary search over the base offsets, and no file is
opened. The base offsets are kept in a list of their own for that; this class keeps the two in step.

Follows org.apache.kafka.storage.internals.log.LogSegments.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from pykraft.storage.log_segment import LogSegment


class LogSegments:
    """Segments, oldest first."""

    def __init__(self, segments: Sequence[LogSegment]) -> None:
        self._segments = list(segments)
        self.base_offsets = [segment.base_offset for segment in segments]

    def __iter__(self) -> Iterator[LogSegment]:
        return iter(self._segments)

    def __len__(self) -> int:
        return len(self._segments)

    @property
    def active(self) -> LogSegment:
        """The last one, to which batches are appended."""
        return self._segments[-1]

    def floor(self, offset: int) -> int:
        """The number of the segment that would hold `offset`; the first one's for an offset before the log."""
        return max(0, bisect_right(self.base_offsets, offset) - 1)

    def since(self, offset: int) -> list[LogSegment]:
        """The segment that would hold `offset`, and all later ones."""
        return self._segments[self.floor(offset) :]

    def ranges(self, offset: int, end: int) -> Iterator[tuple[LogSegment, int]]:
        """The same segments, each with the offset where it ends: the next one's base offset, and `end` for the last."""
        first = self.floor(offset)
        return zip(self._segments[first:], [*self.base_offsets[first + 1 :], end], strict=True)

    def append(self, segment: LogSegment) -> None:
        self._segments.append(segment)
        self.base_offsets.append(segment.base_offset)

    def pop(self) -> LogSegment:
        """Take away the active segment."""
        self.base_offsets.pop()
        return self._segments.pop()

    def pop_oldest(self, count: int) -> list[LogSegment]:
        """Take away the first `count` segments."""
        oldest = self._segments[:count]
        del self._segments[:count], self.base_offsets[:count]
        return oldest

    def replace(self, replaced: Sequence[LogSegment], segment: LogSegment) -> None:
        """Put one segment into the place of these, which follow each other."""
        first = self._segments.index(replaced[0])
        self._segments[first : first + len(replaced)] = [segment]
        self.base_offsets[first : first + len(replaced)] = [segment.base_offset]
