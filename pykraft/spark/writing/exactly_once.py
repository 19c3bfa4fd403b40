"""Exactly once: each batch of a stream becomes one transaction, which also says that the batch was written.

Spark numbers the batches of a query, and keeps in its checkpoint which offsets of the source each of them reads. When a
query dies, Spark repeats the last batch under its number, with the same rows. It cannot know whether the sink had
written it: between "the sink has written" and "the checkpoint says so" there is always a moment in which a process can
die. So the sink itself must know, and what it knows must change together with what it writes.

Kafka has one place where a number changes together with records: a transaction can commit the offsets of a consumer
group (TxnOffsetCommit, KIP-98). That is meant for a program that reads one topic and writes another, but a coordinator
does not ask what the number counts. Here it counts batches:

    group               spark-sink-<query id>
    partition           __consumer_offsets-0, which every cluster with groups has and which no admin deletes
    committed offset    number of the last batch written + 1

We call it the *marker*. A batch is written by the driver, when all tasks have staged their rows (`staging`):

0. OffsetFetch of the marker. If it is beyond this batch, the batch was written: only another driver can have done that
   while this one lives, or this one has been started again. A driver that wakes up late stops here, and disturbs no
   other. A deposed leader can answer with an old marker, but with none that was never committed: so this step may
   decide that a batch was written, and never that it was not.
1. InitProducerId for the transactional id ``spark-sink-<query id>``. This fences a driver that ran the query before:
   a transaction that it left open is aborted, and it can commit no other. One that it had begun to commit is finished.
2. TxnOffsetCommit of the batch's number + 1, in a new transaction. A broker answers it when its followers have it: so
   it is the group's coordinator, and not one that was deposed and does not know it, which would tell an old marker.
3. OffsetFetch of the marker, from that broker. It tells what is below its high watermark, not what is pending. Its high
   watermark has passed the record of step 2, and every marker of an older driver is before that record: none of them
   can commit any more, and what one has committed is written there since the fencing. If another broker answers, steps
   2 and 3 begin again: the high watermark of a new leader may be older for a moment.
4. If the marker is the batch's number + 1, the batch was written: the transaction is aborted, what is staged is
   dropped, and Spark goes on.
5. Else: all records, EndTxn. A reader with ``isolation.level=read_committed`` sees all of the batch or nothing, and the
   marker with it.

Whatever dies in between, the next driver finds one of two states: marker and records, or neither.

*Why not one transaction for each task?* A batch would be visible in part, and a restart would find some of its
transactions committed. It would have to know which, and then repeat the other tasks with exactly the rows that they had
before. After a shuffle tasks do not have that: Spark promises the rows of a batch, not which task gets which. It would
also take a coordinator of our own for many transactions. Here the driver is the bottleneck instead: all records pass
through it, but encoded and compressed, and it does not look into them.

*What if the marker is not what it should be?* It is the batch's number in every ordinary start: that of the batch
before, + 1. Batch 0 has none before it. Otherwise nothing proves that the batch was not written before, and it is
refused, unless ``acceptDuplicates`` is true:

* There is no marker, and the batch is not batch 0. Coordinators forget offsets of a group without members
  ``offsets.retention.minutes`` after their commit (7 days), or the query has written without ``exactlyOnce`` until now.
  A query that runs and had nothing to write for this long goes on: a note in the staging directory says which start of
  the query wrote the batch before, and one start never repeats a batch.
* The marker is older: batches in between were not written by this sink.
* The marker is newer than this batch: the checkpoint was set back, or an older driver woke up. The rows of such a batch
  need not be those that were written under its number. ``acceptDuplicates`` does not help: it would take the marker
  back.

*What if the marker is right, and the rows are others?* A checkpoint that has lost the plan of exactly its last batch (a
backup, a power loss, a folder that was copied for a second query) lets Spark plan other rows under that number. So the
marker's metadata holds a digest of how many records went to each topic. A batch whose digest differs is refused.

*What if two drivers run the query at once?* Spark does not prevent it, but only one of them can add a batch to the
checkpoint's logs. An older driver that is behind ends at step 0. One that wakes up at the very batch that the newer one
is writing fences it at step 1, because a coordinator knows the last InitProducerId and no older or newer driver. Then
the older one writes the batch, the newer one stops with a sentence, and a restart finds the batch written. Any order of
their steps writes each batch once.

*Why only counts?* A batch that is repeated may have other bytes, and rightly so: a sum of doubles depends on the order
in which a shuffle brings its rows, `uuid()` and a clock in a function of the user's give other values each time, and
rows move between tasks. Checksums of rows or of record batches would stop such a query for good. What was written first
stays, as with Spark's file sink.

What remains: other rows of the same counts are taken for written. Batch 0 is written twice if the query dies between
its transaction and the checkpoint, and is restarted later than ``offsets.retention.minutes``.

Follows KIP-98, KIP-447 and, in the idea, Spark's own file sink with its log of batches. Spark's Kafka sink has none.
"""

import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from random import Random

import pyarrow as pa
from pyspark import TaskContext

from pykraft.client.config import TRANSACTION_TIMEOUT_MS
from pykraft.client.consuming.commits import OffsetAndMetadata
from pykraft.client.errors import ClientTimeoutError, ProducerFencedError
from pykraft.common.errors import ConfigError, ErrorCode, KafkaError
from pykraft.common.types import TopicPartition
from pykraft.records.batch import RecordBatch
from pykraft.spark.writing.encode import RowEncoder
from pykraft.spark.writing.sink_options import WriteOptions
from pykraft.spark.writing.sink_producer import SinkProducer
from pykraft.spark.writing.sink_rows import RowReader
from pykraft.spark.writing.staging import (
    StagedBatch,
    StagedFile,
    batch_folder,
    discard,
    discard_up_to,
    staged,
)

MARKER = TopicPartition("__consumer_offsets", 0)
QUERY_ID = "sql.streaming.queryId"
BATCH_ID = "streaming.sql.batchId"
RUN_ID = "spark.jobGroup.id"
"""Local properties that Spark sets in the thread of a query, and that its tasks inherit."""
_NOTE = "written.json"
_CLOSE_S = 10.0
"""To abort a transaction. If it takes longer, the next driver does it."""
_ADVICE = re.compile(r"\. (Call|Close) ")
"""What an error of a producer tells the producer's user to do."""


def sink_name(query_id: str) -> str:
    """The transactional id, and the group, of a query."""
    return f"spark-sink-{query_id}"


def stage(options: WriteOptions, rows: RowReader, batches: Iterator[pa.RecordBatch]) -> StagedBatch:
    """In an executor: encode the rows of one task. A task without rows connects to nothing."""
    query_id, run_id, batch_id = _query()
    file = StagedFile(batch_folder(options.staging_directory, query_id, batch_id))
    producer: SinkProducer | None = None
    try:
        for batch in batches:
            if not batch.num_rows:
                continue
            if producer is None:  # it sends nothing: it knows the topics
                producer = SinkProducer(options.producer)
                encoder = RowEncoder(options.producer, rows, producer.partitions_for, Random())
            for place, encoded in encoder.encode(batch):
                file.keep(place, encoded)
        if producer is not None:
            for place, encoded in encoder.finish():
                file.keep(place, encoded)
        pieces = file.close()
    except BaseException:
        file.discard()
        raise
    finally:
        if producer is not None:
            producer.close(timeout=0)
    path = "" if file.path is None else str(file.path)
    return StagedBatch(query_id, run_id, batch_id, os.uname().nodename, path, file.size, file.checksum, pieces)


def _query() -> tuple[str, str, int]:
    """The query that this task belongs to, its start, and the number of the batch."""
    context = TaskContext.get()
    names = (QUERY_ID, RUN_ID, BATCH_ID)
    query_id, run_id, batch_id = (context.getLocalProperty(name) if context else None for name in names)
    if not query_id or not batch_id:
        raise ConfigError(
            f"exactlyOnce needs to know the query and the batch, and this Spark does not tell a task ({QUERY_ID},"
            f" {BATCH_ID}): leave the option out"
        )
    return query_id, run_id or "", int(batch_id)


class ExactlyOnceCommit:
    """In the driver: one batch of a query, written unless it was before. The steps are methods of their own: what is
    between any two of them may be the end of this process."""

    def __init__(self, options: WriteOptions, messages: Sequence[StagedBatch], batch_id: int) -> None:
        """`messages` are those of the batch's tasks, in the order of the tasks."""
        self._options = options
        self._messages = messages
        self.batch_id = batch_id
        self.query_id = messages[0].query_id if messages else ""
        self._run_id = messages[0].run_id if messages else ""
        self.name = sink_name(self.query_id)
        self._written_rows: str | None = None

    def run(self) -> None:
        """KafkaError or ConfigError if the batch was not written, or it is not known whether it was."""
        if any((message.query_id, message.batch_id) != (self.query_id, self.batch_id) for message in self._messages):
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"batch {self.batch_id}: Spark hands over rows of another")
        if not self._messages:
            return  # Spark runs one task at least: there is nothing to write, and Spark does not say for which query
        producer = self.producer()
        try:
            if not self.is_known_to_be_written(producer):
                self._write(producer)
        except KafkaError as error:
            producer.close(timeout=_CLOSE_S)
            raise self._in_words(error) from None
        except BaseException:
            producer.close(timeout=_CLOSE_S)
            raise
        producer.close()
        self.clean_up()

    def _write(self, producer: SinkProducer) -> None:
        """Fence, then write the batch unless the marker that is read after that shows it to be written."""
        self.fence(producer)
        self.begin(producer)
        if self.is_written(self.last_marker(producer)):
            producer.abort_transaction()
        else:
            self.send(producer)
            self.commit(producer)

    def producer(self) -> SinkProducer:
        return SinkProducer(self._options.producer.with_values(transactional_id=self.name))

    def is_known_to_be_written(self, producer: SinkProducer) -> bool:
        """Whether a marker beyond this batch is committed. Asked before this driver fences another one, and no proof of
        the contrary. ConfigError if the driver comes too late."""
        marker = self._committed(producer)
        return marker is not None and marker > self.batch_id and self.is_written(marker)

    def fence(self, producer: SinkProducer) -> None:
        """Let no older driver commit anything from now on."""
        producer.init_transactions()

    def last_marker(self, producer: SinkProducer) -> int | None:
        """Mark the batch, and ask for the marker before that, until one coordinator has answered both."""
        while True:
            self.mark(producer)
            coordinator = producer.coordinator_of(self.name)
            marker = self.marker(producer)
            if producer.coordinator_of(self.name) == coordinator:
                return marker

    def marker(self, producer: SinkProducer) -> int | None:
        """The number of the last batch written + 1; None if nothing is known."""
        return self._committed(producer)

    def _committed(self, producer: SinkProducer) -> int | None:
        committed = producer.committed(self.name, MARKER)
        self._written_rows = None if committed is None else committed.metadata
        return None if committed is None else committed.offset

    def is_written(self, marker: int | None) -> bool:
        """Whether this batch is in the topics. ConfigError if that is not certain, and duplicates are not accepted."""
        if marker == self.batch_id + 1:
            if self._written_rows and self._written_rows != self.rows():
                raise ConfigError(
                    f"batch {self.batch_id} of query {self.query_id} is written already, with other rows: the"
                    " checkpoint was set back or copied, or the query does not give the same rows again"
                )
            return True
        if marker is not None and marker > self.batch_id:
            raise ConfigError(self._doubt(marker))
        is_next = marker == self.batch_id or (marker is None and self.batch_id == 0)
        if is_next or self._options.accept_duplicates or (marker is None and self._has_run_before()):
            return False
        raise ConfigError(f"{self._doubt(marker)}. acceptDuplicates=true writes it all the same")

    def rows(self) -> str:
        """What the marker says of the batch besides its number: a digest of how many records go to each topic."""
        counts: Counter[str] = Counter()
        for message in self._messages:
            for place, batch in staged(message):
                counts[place.topic] += RecordBatch(memoryview(batch)).count
        return blake2b(json.dumps(sorted(counts.items())).encode(), digest_size=16).hexdigest()

    def begin(self, producer: SinkProducer) -> None:
        producer.begin_transaction()

    def send(self, producer: SinkProducer) -> None:
        """Queue all records, in the order of the tasks."""
        for message in self._messages:
            for place, batch in staged(message):
                producer.send_encoded(place, batch)

    def mark(self, producer: SinkProducer) -> None:
        """Let the marker change with the transaction."""
        marker = OffsetAndMetadata(self.batch_id + 1, self.rows())
        producer.send_offsets_to_transaction({MARKER: marker}, self.name)

    def commit(self, producer: SinkProducer) -> None:
        producer.commit_transaction()

    def clean_up(self) -> None:
        """Note the driver that has written the batch, and remove what was staged."""
        directory = self._options.staging_directory
        with suppress(OSError):  # without the note a query that was idle for days is refused
            note = Path(directory) / self.query_id / _NOTE
            note.parent.mkdir(parents=True, exist_ok=True)
            new = note.with_suffix(".new")
            new.write_text(json.dumps({"runId": self._run_id, "batchId": self.batch_id}))
            new.replace(note)
        discard(self._messages)
        discard_up_to(directory, self.query_id, self.batch_id)

    def _has_run_before(self) -> bool:
        """Whether the present start of the query has written the batch before this one."""
        with suppress(OSError, ValueError):
            note = json.loads((Path(self._options.staging_directory) / self.query_id / _NOTE).read_text())
            return bool(self._run_id) and note == {"runId": self._run_id, "batchId": self.batch_id - 1}
        return False

    def _doubt(self, marker: int | None) -> str:
        batch, group = f"batch {self.batch_id} of query {self.query_id}", self.name
        if marker is None:
            return (
                f"{batch} may have been written before: group {group} has no committed offset any more (after"
                " offsets.retention.minutes it is forgotten), or the query has written without exactlyOnce until now"
            )
        if marker < self.batch_id:
            return (
                f"{batch} may have been written before: the last one written exactly once is batch {marker - 1}, and"
                " the query has gone on without exactlyOnce, or on another cluster"
            )
        return (
            f"{batch} comes too late: batch {marker - 1} is written already. The checkpoint was set back, or another"
            " driver runs this query"
        )

    def _in_words(self, error: KafkaError) -> KafkaError:
        """What went wrong, for someone who has a query and no producer."""
        batch = f"batch {self.batch_id} of query {self.query_id}"
        why = _ADVICE.split(error.detail or error.code.text)[0]
        # A leader tells an old epoch, a coordinator that the producer is fenced: it depends on which hears it first.
        if isinstance(error, ProducerFencedError) or error.code is ErrorCode.INVALID_PRODUCER_EPOCH:
            limit_ms = self._options.producer[TRANSACTION_TIMEOUT_MS]
            return KafkaError(
                ErrorCode.PRODUCER_FENCED,
                f"this driver stops at {batch}: another driver runs the query now, or writing took longer than"
                f" kafka.transaction.timeout.ms, {limit_ms} ms",
            )
        if isinstance(error, ClientTimeoutError):
            return KafkaError(error.code, f"{batch} is not known to be written: {why}. Start the query again: it asks")
        return KafkaError(error.code, f"{batch} was not written: {why}")
