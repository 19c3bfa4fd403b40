"""A partition's file on one node, to look into, to damage, and to compare with what a consumer gets.

::

    log = LogFile(cluster, node, "alone")
    log.tear()             a batch at the end whose second half is zeros
    log.flip_bit(4)        one wrong bit in the middle of the fifth batch
    log.look()             its batches as pieces of a strip, damaged ones marked
    log.records()          the numbers that a consumer gets, read from offset 0
    log.refusal()          why it gets no further

`draw_logs` puts several looks below each other. What a look has lost since the one above it is drawn as gone.

Only a node that does not run is damaged, as a disk would do it. `tear` leaves what a loss of power leaves: file systems
write a file's new length and its new bytes at different times.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pykraft.common.errors import CorruptRecordError
from pykraft.common.types import TopicPartition
from pykraft.consumer import Consumer
from pykraft.records.batch import HEADER_BYTES, LENGTH_OFFSET, LOG_OVERHEAD, RecordBatch
from pykraft.viz import Figure, file_strips
from pykraft.viz.logs.file_chart import Piece

if TYPE_CHECKING:
    from pykraft.cluster import Cluster

_KEY = {"plain": "batch, by its first offset", "bad": "damaged", "gone": "truncated"}
_POLL_MS = 500


class LogFile:
    """The first segment of a topic's partition 0 on one node."""

    def __init__(self, cluster: "Cluster", node: int, topic: str) -> None:
        self._cluster, self._topic = cluster, topic
        self.path = cluster.partition_directory(node, topic, 0) / f"{0:020d}.log"

    def read(self) -> bytes:
        return self.path.read_bytes()

    def batches(self) -> list[tuple[int, RecordBatch | None]]:
        """Where each batch begins; None for bytes at the end that are no batch, or not a whole one."""
        data, position, found = self.read(), 0, list[tuple[int, RecordBatch | None]]()
        while position < len(data):
            size = LOG_OVERHEAD + int.from_bytes(data[position + LENGTH_OFFSET : position + LOG_OVERHEAD])
            if not HEADER_BYTES <= size <= len(data) - position:
                return [*found, (position, None)]
            found.append((position, RecordBatch(memoryview(data)[position : position + size])))
            position += size
        return found

    def tear(self) -> None:
        """Add a batch that begins well: the next offset, the right length, and then zeros."""
        known = [batch for _, batch in self.batches() if batch is not None]
        model = bytes(known[0].buffer)
        half = known[-1].next_offset.to_bytes(LENGTH_OFFSET) + model[LENGTH_OFFSET : len(model) // 2]
        self.path.write_bytes(self.read() + half.ljust(len(model), b"\0"))

    def flip_bit(self, number: int) -> None:
        """Flip one bit in the middle of a batch, which is in one of its records. A damaged batch stays as it is: to
        flip the bit twice would mend it."""
        position, batch = self.batches()[number]
        assert batch is not None
        if not batch.is_valid:
            return
        data = bytearray(self.read())
        data[position + batch.size // 2] ^= 1
        self.path.write_bytes(data)

    def look(self) -> list[Piece]:
        """Its batches as they are now."""
        found, size = self.batches(), len(self.read())
        return [
            Piece(batch.size, "plain" if batch.is_valid else "bad", f"{batch.base_offset}")
            if batch is not None
            else Piece(size - position, "bad")
            for position, batch in found
        ]

    def records(self) -> list[int]:
        """The keys of all records as a consumer gets them, as numbers. CorruptRecordError for a batch that fails its
        checksum."""
        partition, found = TopicPartition(self._topic, 0), list[int]()
        with Consumer(bootstrap_servers=self._cluster.bootstrap_servers) as consumer:
            consumer.assign([partition])
            consumer.seek_to_beginning()
            end = consumer.end_offsets([partition])[partition]
            while consumer.position(partition) < end:
                for records in consumer.poll(timeout_ms=_POLL_MS).values():
                    found += [int(record.key or b"") for record in records]
        return found

    def refusal(self) -> str:
        """What keeps a consumer from reading to the end; empty if it gets there."""
        try:
            self.records()
        except CorruptRecordError as error:
            return str(error)
        return ""


def draw_logs(looks: Mapping[str, Sequence[Piece]], *, title: str, note: str = "") -> Figure:
    """The looks, one below the other."""
    sizes = [sum(piece.size for piece in look) for look in looks.values()]
    rows = {
        name: [*look, *([Piece(lost, "gone")] if (lost := max(sizes[: number + 1]) - sizes[number]) else [])]
        for number, (name, look) in enumerate(looks.items())
    }
    used = {piece.look for row in rows.values() for piece in row}
    key = {look: meaning for look, meaning in _KEY.items() if look in used}
    ends = {name: f"{size:,} bytes" for name, size in zip(looks, sizes, strict=True)}
    return file_strips(rows, title=title, note=note, key=key, ends=ends)
