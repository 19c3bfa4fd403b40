"""Which of a log's batches a reader sees.

Not every batch is for readers. Control batches are the log's own. A reader of committed data is shown nothing of
aborted transactions either: with each fetch, the leader lists the producers that aborted, each with the first offset of
that transaction. From there on the producer's batches are left out until its abort marker.

Nor does every offset have a record: cleaning leaves gaps, also a whole batch that is only a header. So a reader counts
its way in batches, by the offset after the last one, and never in records.

A batch after the last stable offset does not come here: the leader sends none to a reader of committed data.

Follows org.apache.kafka.clients.consumer.internals.CompletedFetch.
"""

import heapq
from collections.abc import Iterable

from pykraft.records.batch import RecordBatch
from pykraft.records.markers import read_marker


class Visibility:
    """The rule for the batches of one fetch, in order. What the fetch lists of aborted transactions covers it in
    full."""

    def __init__(self, read_committed: bool, aborted: Iterable[tuple[int, int]] = ()) -> None:
        """`aborted` are the aborted transactions: (first offset, producer id) of each."""
        self._read_committed = read_committed
        self._aborted = list(aborted)
        heapq.heapify(self._aborted)
        self._aborting: set[int] = set()

    def shows(self, batch: RecordBatch) -> bool:
        """Whether the reader sees this batch, which comes after those that were asked about."""
        if not self._read_committed or not batch.has_producer_id:
            return not batch.is_control
        while self._aborted and self._aborted[0][0] <= batch.last_offset:
            self._aborting.add(heapq.heappop(self._aborted)[1])
        if batch.is_control:
            if batch.count and not read_marker(batch).committed:  # compaction may leave it empty
                self._aborting.discard(batch.producer_id)
            return False
        return not (batch.is_transactional and batch.producer_id in self._aborting)
