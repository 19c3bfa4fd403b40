"""One batch of a stream in one transaction, with its number as a group's offset: drivers die, wake up late, and meet.

There is no Spark here. `Query.stage` leaves what the tasks of a batch would, and an `ExactlyOnceCommit` is one driver's
try to write it, on a cluster of three nodes. A driver that dies leaves its transaction open, as after kill -9. The law
is what a reader with read_committed sees: each value once, and in each partition in order.

The planted bugs at the end show that the law is broken where the protocol is.
"""

from __future__ import annotations

import itertools
import pathlib
import threading
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from pykraft import Admin
from pykraft.client.consuming.commits import OffsetAndMetadata
from pykraft.common.errors import ConfigError, KafkaError
from pykraft.common.types import TopicPartition
from pykraft.records.builder import RecordBatchBuilder
from pykraft.records.compression import Compression
from pykraft.spark.writing.exactly_once import MARKER, ExactlyOnceCommit, sink_name
from pykraft.spark.writing.sink_options import WriteOptions, write_options
from pykraft.spark.writing.sink_producer import SinkProducer
from pykraft.spark.writing.staging import StagedBatch, StagedFile, batch_folder, staged
from tests.harness.moments import TODAY_MS
from tests.spark import corpus
from tests.spark.cluster_process import ClusterProcess

pytestmark = pytest.mark.limit(180)

TOPIC = "written"
PARTITIONS = 2
STEPS = ("is_known_to_be_written", "fence", "begin", "mark", "marker", "is_written", "send", "commit", "clean_up")
_scenarios = itertools.count()


class Died(BaseException):
    """The driver is gone."""


class Query:
    """A query that writes numbers to a topic of its own; `kind` is how a driver writes a batch."""

    def __init__(self, kafka: Any, directory: pathlib.Path, kind: type[ExactlyOnceCommit], **config: str) -> None:
        self.kafka = kafka
        self.kind = kind
        self.topic = f"{TOPIC}-{next(_scenarios)}"
        self.id = str(uuid.uuid4())
        self.run_id = "first"
        self.compression = Compression.NONE
        corpus.create(kafka.bootstrap_servers, self.topic, partitions=PARTITIONS, **config)
        self.options = self.said(directory)

    def said(self, directory: pathlib.Path, **said: str) -> WriteOptions:
        servers = {"kafka.bootstrap.servers": self.kafka.bootstrap_servers, "exactlyOnce": "true"}
        return write_options({**servers, "topic": self.topic, "stagingDirectory": str(directory), **said})

    def staged(self, batch_id: int) -> list[StagedBatch]:
        """What two tasks leave, one of them in a file; and the file of an attempt that has failed."""
        self.stage(batch_id, range(10), spills=True)
        return [self.stage(batch_id, range(6), spills=False), self.stage(batch_id, range(6, 10), spills=True)]

    def stage(self, batch_id: int, numbers: Sequence[int], spills: bool) -> StagedBatch:
        file = StagedFile(batch_folder(self.options.staging_directory, self.id, batch_id))
        if spills:
            file._spill()
        for partition in range(PARTITIONS):
            some = [number for number in numbers if number % PARTITIONS == partition]
            builder = RecordBatchBuilder(compression=self.compression)
            for number in some:
                builder.append(TODAY_MS, None, b"%d" % (100 * batch_id + number))
            if some:
                file.keep(TopicPartition(self.topic, partition), bytes(builder.build()))
        pieces = file.close()
        path = str(file.path or "")
        return StagedBatch(self.id, self.run_id, batch_id, "here", path, file.size, file.checksum, pieces)

    def driver(self, batch_id: int) -> ExactlyOnceCommit:
        return self.kind(self.options, self.staged(batch_id), batch_id)

    def write(self, *batch_ids: int) -> None:
        for batch_id in batch_ids:
            self.driver(batch_id).run()

    def die(self, batch_id: int, step: str) -> bool:
        """A driver dies just before this step. Whether it came to it."""

        def stop() -> None:
            raise Died

        try:
            before(forgetful(self.driver(batch_id)), step, stop).run()
        except Died:
            return True
        return False

    def seen(self) -> list[list[int]]:
        """What a reader of committed records sees in each partition."""
        rows = corpus.read(self.kafka.bootstrap_servers, self.topic, PARTITIONS, isolation_level="read_committed")
        return [[int(row.value or b"") for row in rows if row.partition == number] for number in range(PARTITIONS)]

    def assert_written_once(self, *batch_ids: int) -> None:
        numbers = [100 * batch_id + number for batch_id in batch_ids for number in range(10)]
        assert self.seen() == [numbers[0::2], numbers[1::2]]


def before(driver: ExactlyOnceCommit, step: str, act: Callable[[], object]) -> ExactlyOnceCommit:
    """The same driver, which does something else first when it comes to that step."""
    then = getattr(driver, step)

    def both(*arguments: Any) -> Any:
        act()
        return then(*arguments)

    setattr(driver, step, both)
    return driver


def forgetful(driver: ExactlyOnceCommit) -> ExactlyOnceCommit:
    """The same driver, whose connections end without an abort of its transaction."""
    make = driver.producer

    def producer() -> SinkProducer:
        made = make()
        made.close = lambda timeout=None: made._thread.close()  # type: ignore[method-assign]
        return made

    driver.producer = producer  # type: ignore[method-assign]
    return driver


@pytest.fixture
def query(kafka: ClusterProcess, tmp_path: pathlib.Path) -> Query:
    return Query(kafka, tmp_path, ExactlyOnceCommit)


# --- one driver after the other ---------------------------------------------------------------------------------------


def test_batches_are_written_in_order_and_leave_a_marker_and_no_file(query: Query, tmp_path: pathlib.Path) -> None:
    query.write(0, 1, 2)
    query.assert_written_once(0, 1, 2)
    with Admin(bootstrap_servers=query.kafka.bootstrap_servers) as admin:
        offsets = admin.list_consumer_group_offsets(f"spark-sink-{query.id}")
    assert {place: committed.offset for place, committed in offsets.items()} == {MARKER: 3}
    assert TopicPartition("__consumer_offsets", 0) == MARKER
    assert [path.name for path in (tmp_path / query.id).iterdir()] == ["written.json"]


@pytest.mark.parametrize("step", STEPS)
def test_a_batch_is_written_once_whenever_its_driver_dies(query: Query, step: str) -> None:
    query.write(0)
    assert query.die(1, step)
    query.die(1, step)
    query.write(1, 2)
    query.assert_written_once(0, 1, 2)


def test_other_rows_under_the_number_of_a_batch_that_is_written_are_refused(query: Query) -> None:
    """The checkpoint has lost its last plan, and Spark has planned a larger batch under its number."""
    query.write(0, 1)
    larger = [*query.staged(1), query.stage(1, range(10, 14), spills=False)]
    with pytest.raises(
        ConfigError, match=r"batch 1 of query .* is written already, with other rows: the checkpoint was"
    ):
        query.kind(query.options, larger, 1).run()
    query.write(1, 2)
    query.assert_written_once(0, 1, 2)


def test_a_batch_without_rows_moves_the_marker_too(query: Query) -> None:
    query.write(0)
    query.kind(query.options, [query.stage(1, [], spills=False)], 1).run()
    query.write(2)
    query.assert_written_once(0, 2)


def test_compressed_batches_go_through_the_driver_as_they_are(query: Query) -> None:
    query.compression = Compression.ZSTD
    query.write(0, 1)
    query.assert_written_once(0, 1)


# --- two drivers ------------------------------------------------------------------------------------------------------


def meet(query: Query, pause: str, resume: str) -> None:
    """An older driver pauses before a step. A new one begins; before its step `resume` the older one goes on, to its
    end. Whichever fails, a third driver does what Spark does after a restart. The older one does not wait long for the
    transaction of the new one, which waits for it; and the two have different directories, or one would clean up what
    the other has staged."""
    paused, go = threading.Event(), threading.Event()
    patient = query.options
    query.options = replace(patient, producer=patient.producer.with_values(default_api_timeout_ms=2000))

    def stop_for_a_while() -> None:
        paused.set()
        assert go.wait(30)

    old = before(query.driver(1), pause, stop_for_a_while)
    thread = threading.Thread(target=lambda: try_to(old.run))
    thread.start()
    assert paused.wait(30)

    def let_the_old_one_end() -> None:
        go.set()
        thread.join(60)

    query.options = replace(patient, staging_directory=patient.staging_directory + "-new")
    new = query.driver(1)
    if resume != "end":
        before(new, resume, let_the_old_one_end)
    try_to(new.run)
    let_the_old_one_end()
    assert not thread.is_alive()
    query.write(1)


def try_to(run: Callable[[], object]) -> None:
    """An error of Kafka, or a refusal, ends this driver only."""
    with suppress(KafkaError, ConfigError):
        run()


PAUSES = ("fence", "mark", "marker", "send", "commit", "clean_up")
RESUMES = ("fence", "marker", "begin", "commit", "end")
USUAL = {
    ("fence", "commit"),
    ("marker", "commit"),
    ("send", "end"),
    ("mark", "marker"),
    ("commit", "fence"),
    ("commit", "end"),
}


@pytest.mark.parametrize(
    ("pause", "resume"),
    [
        pytest.param(*pair, marks=() if pair in USUAL else pytest.mark.long)
        for pair in itertools.product(PAUSES, RESUMES)
    ],
)
def test_a_driver_that_wakes_up_late_writes_nothing_twice(query: Query, pause: str, resume: str) -> None:
    query.write(0)
    meet(query, pause, resume)
    query.write(2)
    query.assert_written_once(0, 1, 2)


@pytest.mark.parametrize("late_batch", [0, 1])
def test_a_driver_that_is_behind_leaves_the_transaction_of_a_newer_one_alone(query: Query, late_batch: int) -> None:
    """It has staged its rows, and goes on in the middle of the newer one's batch 2."""
    query.write(0)
    usual = query.options
    query.options = replace(usual, staging_directory=usual.staging_directory + "-late")
    late = query.driver(late_batch)
    query.options = usual
    query.write(1)
    before(query.driver(2), "commit", lambda: try_to(late.run)).run()
    query.assert_written_once(0, 1, 2)


def test_the_older_driver_says_that_another_one_runs_the_query(query: Query) -> None:
    old = before(query.driver(0), "commit", lambda: query.write(0))
    with pytest.raises(KafkaError) as refused:
        old.run()
    assert str(refused.value) == (
        f"PRODUCER_FENCED: this driver stops at batch 0 of query {query.id}: another driver runs the query now, or"
        " writing took longer than kafka.transaction.timeout.ms, 60000 ms"
    )
    query.assert_written_once(0)


def test_an_older_driver_whose_batch_is_long_written_is_refused(query: Query) -> None:
    query.write(0, 1, 2)
    with pytest.raises(ConfigError) as refused:
        query.write(1)
    assert str(refused.value) == (
        f"batch 1 of query {query.id} comes too late: batch 2 is written already. The checkpoint was set back, or"
        " another driver runs this query"
    )
    query.options = replace(query.options, accept_duplicates=True)
    with pytest.raises(ConfigError, match="comes too late"):
        query.write(1)
    query.assert_written_once(0, 1, 2)


# --- a marker that is gone --------------------------------------------------------------------------------------------


def forget_marker(query: Query) -> None:
    """What a coordinator does after offsets.retention.minutes."""
    with Admin(bootstrap_servers=query.kafka.bootstrap_servers) as admin:
        admin.delete_consumer_group_offsets(sink_name(query.id), [MARKER])


def test_a_restart_without_a_marker_is_refused_until_duplicates_are_accepted(
    query: Query, tmp_path: pathlib.Path
) -> None:
    query.write(0, 1)
    forget_marker(query)
    query.run_id = "second"
    with pytest.raises(ConfigError) as refused:
        query.write(2)
    assert str(refused.value) == (
        f"batch 2 of query {query.id} may have been written before: group spark-sink-{query.id} has no committed offset"
        " any more (after offsets.retention.minutes it is forgotten), or the query has written without exactlyOnce"
        " until now. acceptDuplicates=true writes it all the same"
    )
    query.options = query.said(tmp_path, acceptDuplicates="true")
    query.write(2, 3)
    query.write(3)
    query.assert_written_once(0, 1, 2, 3)


def test_a_query_that_was_idle_for_long_goes_on_without_a_marker(query: Query) -> None:
    """Its start is the same, so it has not written the batch before."""
    query.write(0, 1)
    forget_marker(query)
    query.write(2)
    query.assert_written_once(0, 1, 2)


def test_a_query_that_wrote_without_exactly_once_for_a_while_is_refused(query: Query) -> None:
    query.write(0)
    with pytest.raises(ConfigError, match="may have been written before: the last one written exactly once is batch 0"):
        query.write(4)


# --- errors -----------------------------------------------------------------------------------------------------------


def test_a_driver_that_does_not_see_the_files_of_its_tasks_says_so(query: Query) -> None:
    messages = query.staged(0)
    pathlib.Path(messages[1].path).unlink()
    with pytest.raises(ConfigError) as refused:
        query.kind(query.options, messages, 0).run()
    assert f"cannot read {messages[1].path}, which a task on here wrote (No such file or directory): " in str(
        refused.value
    )
    assert str(refused.value).endswith("a directory that the driver and all executors share")
    query.write(0)
    query.assert_written_once(0)


def test_a_file_that_is_not_whole_is_refused(query: Query) -> None:
    messages = query.staged(0)
    with pathlib.Path(messages[1].path).open("ab") as file:
        file.write(b"more")
    with pytest.raises(KafkaError, match=r"batch 0 of query .* was not written: .* bytes, but a task has written"):
        query.kind(query.options, messages, 0).run()
    assert query.seen() == [[], []]


def test_a_record_that_the_topic_refuses_is_one_sentence(kafka: ClusterProcess, tmp_path: pathlib.Path) -> None:
    query = Query(kafka, tmp_path, ExactlyOnceCommit, max_message_bytes="64")
    with pytest.raises(KafkaError) as refused:
        query.write(0)
    assert f"MESSAGE_TOO_LARGE: batch 0 of query {query.id} was not written: " in str(refused.value)
    assert "Call" not in str(refused.value) and "Close" not in str(refused.value)
    assert query.seen() == [[], []]


# --- planted bugs -----------------------------------------------------------------------------------------------------


class MarkerOutside(ExactlyOnceCommit):
    """Commits the marker after the transaction."""

    def mark(self, producer: SinkProducer) -> None:
        pass

    def clean_up(self) -> None:
        servers = self._options.producer.as_dict()["bootstrap.servers"]
        with Admin(bootstrap_servers=servers) as admin:
            admin.alter_consumer_group_offsets(self.name, {MARKER: self.batch_id + 1})
        super().clean_up()


class OneTooLow(ExactlyOnceCommit):
    """Marks a batch as the next one."""

    def is_written(self, marker: int | None) -> bool:
        return marker == self.batch_id + 1

    def mark(self, producer: SinkProducer) -> None:
        producer.send_offsets_to_transaction({MARKER: OffsetAndMetadata(self.batch_id)}, self.name)


class OneTooHigh(ExactlyOnceCommit):
    """Takes a batch for written when the one before it is."""

    def is_written(self, marker: int | None) -> bool:
        return marker is not None and marker >= self.batch_id


class StagedTwice(ExactlyOnceCommit):
    """Writes what a task has staged in each of its two attempts."""

    def send(self, producer: SinkProducer) -> None:
        for message in (*self._messages, self._messages[1]):
            for place, batch in staged(message):
                producer.send_encoded(place, batch)


class NoFencing(ExactlyOnceCommit):
    """Has another transactional id in each driver."""

    def producer(self) -> SinkProducer:
        return SinkProducer(self._options.producer.with_values(transactional_id=str(uuid.uuid4())))


class FencesTooLate(ExactlyOnceCommit):
    """Asks for the marker first."""

    def fence(self, producer: SinkProducer) -> None:
        self._early = producer.committed_offset(self.name, MARKER)
        self.fence_now(producer)

    def fence_now(self, producer: SinkProducer) -> None:
        super().fence(producer)

    def marker(self, producer: SinkProducer) -> int | None:
        return self._early


def restart_before_and_after_the_commit(query: Query) -> None:
    query.write(0)
    for batch_id, step in enumerate(("commit", "clean_up"), start=1):
        query.die(batch_id, step)
        query.write(batch_id)
    query.assert_written_once(0, 1, 2)


def meet_an_older_driver(query: Query) -> None:
    query.write(0)
    meet(query, "send", "end")
    query.assert_written_once(0, 1)


def meet_between_marker_and_fence(query: Query) -> None:
    query.write(0)
    meet(query, "mark", "fence_now" if hasattr(query.kind, "fence_now") else "fence")
    query.assert_written_once(0, 1)


BUGS = [
    (MarkerOutside, restart_before_and_after_the_commit),
    (OneTooLow, restart_before_and_after_the_commit),
    (OneTooHigh, restart_before_and_after_the_commit),
    (StagedTwice, restart_before_and_after_the_commit),
    (NoFencing, meet_an_older_driver),
    (FencesTooLate, meet_between_marker_and_fence),
]


@pytest.mark.parametrize(("kind", "story"), BUGS, ids=[kind.__name__ for kind, _ in BUGS])
def test_a_planted_bug_breaks_the_law(
    kafka: ClusterProcess, tmp_path: pathlib.Path, kind: type[ExactlyOnceCommit], story: Callable[[Query], None]
) -> None:
    with pytest.raises(AssertionError):
        story(Query(kafka, tmp_path, kind))


@pytest.mark.parametrize("story", dict.fromkeys(story for _, story in BUGS))
def test_the_law_holds_without_them(query: Query, story: Callable[[Query], None]) -> None:
    story(query)
