"""Spark's exactly-once sink and a group coordinator that was cut off: it does not know that another one has taken over,
clients still reach it, and it tells an old marker."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import TypeVar

from pykraft import Cluster, Consumer, TopicPartition
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.coordinator.runtime import partition_for
from pykraft.records.builder import RecordBatchBuilder
from pykraft.spark.writing.exactly_once import ExactlyOnceCommit, sink_name
from pykraft.spark.writing.sink_options import write_options
from pykraft.spark.writing.sink_producer import SinkProducer
from pykraft.spark.writing.staging import StagedBatch, StagedFile, batch_folder
from tests.harness.moments import TODAY_MS

OFFSETS = "__consumer_offsets"
HEALS_AFTER_S = 2.0
STARTS_AGAIN_FOR_S = 60.0
T = TypeVar("T", bound=ExactlyOnceCommit)


class Moving(ExactlyOnceCommit):
    """The coordinator is killed after it has answered the mark, and before it is asked for the marker."""

    cluster: Cluster
    marks = 0

    def mark(self, producer: SinkProducer) -> None:
        self.marks += 1
        super().mark(producer)

    def marker(self, producer: SinkProducer) -> int | None:
        if self.marks == 1:
            leader = leader_of_group(self.cluster, self.name)
            self.cluster.kill(leader)
            leader_of_group(self.cluster, self.name, other_than=leader)
        return super().marker(producer)


def driver(
    servers: str,
    directory: Path,
    query_id: str,
    batch_id: int,
    kind: type[T] = ExactlyOnceCommit,  # type: ignore[assignment]
) -> T:
    """A driver that is about to write a batch of one record."""
    said = {"kafka.bootstrap.servers": servers, "exactlyOnce": "true", "topic": "t", "stagingDirectory": str(directory)}
    options = write_options(said)
    file = StagedFile(batch_folder(options.staging_directory, query_id, batch_id))
    builder = RecordBatchBuilder()
    builder.append(TODAY_MS, None, b"%d" % batch_id)
    file.keep(TopicPartition("t", 0), bytes(builder.build()))
    pieces = file.close()
    message = StagedBatch(query_id, "run", batch_id, "here", str(file.path or ""), file.size, file.checksum, pieces)
    return kind(options, [message], batch_id)


def leader_of_group(cluster: Cluster, name: str, other_than: int | None = None) -> int:
    numbers = [number for topic, number in cluster.describe().topic_partitions if topic == OFFSETS]
    place = partition_for(name, len(numbers))
    view = cluster.wait_until(
        lambda seen: seen.leader(OFFSETS, place) not in (None, other_than), what="it has a leader"
    )
    found = view.leader(OFFSETS, place)
    assert found is not None
    return found


def repeated(new_driver: Callable[[], ExactlyOnceCommit]) -> None:
    """Start a driver, and another one whenever it is fenced, as the query's user would. A deposed transaction
    coordinator fences a producer whose epoch is newer than those it knows, and so does Kafka's."""
    deadline = monotonic() + STARTS_AGAIN_FOR_S
    while True:
        try:
            return new_driver().run()
        except KafkaError as error:
            if error.code is not ErrorCode.PRODUCER_FENCED or monotonic() > deadline:
                raise


def test_a_batch_is_not_written_again_because_a_deposed_coordinator_tells_an_old_marker(tmp_path: Path) -> None:
    query_id = str(uuid.uuid4())
    with Cluster(3) as cluster:
        cluster.create_topic("t")
        driver(cluster.bootstrap_servers, tmp_path / "first", query_id, 0).run()
        name = sink_name(query_id)
        deposed = leader_of_group(cluster, name)
        others = [node for node in cluster.broker_ids if node != deposed]
        addresses = dict(zip(cluster.broker_ids, cluster.bootstrap_servers.split(","), strict=True))
        for node in others:
            cluster.disconnect(deposed, node)
        leader_of_group(cluster, name, other_than=deposed)
        driver(",".join(addresses[node] for node in others), tmp_path / "second", query_id, 1).run()
        heal = threading.Timer(HEALS_AFTER_S, lambda: [cluster.reconnect(deposed, node) for node in others])
        heal.start()
        # Spark repeats the batch: it does not know that it was written
        repeated(lambda: driver(addresses[deposed], tmp_path / "third", query_id, 1))
        heal.join()
        with Consumer(
            bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest", isolation_level="read_committed"
        ) as consumer:
            place = TopicPartition("t", 0)
            consumer.assign([place])
            values: list[bytes | None] = []
            while consumer.position(place) < consumer.end_offsets([place])[place]:
                values += [record.value for some in consumer.poll(500).values() for record in some]
        assert values == [b"0", b"1"]


def test_a_marker_that_another_coordinator_tells_is_asked_for_again_after_a_new_mark(tmp_path: Path) -> None:
    query_id = str(uuid.uuid4())
    with Cluster(3) as cluster:
        cluster.create_topic("t")
        driver(cluster.bootstrap_servers, tmp_path / "first", query_id, 0).run()
        again = driver(cluster.bootstrap_servers, tmp_path / "second", query_id, 1, Moving)
        again.cluster = cluster
        again.run()
        assert again.marks == 2
