"""A copy between two topics stays exactly once while nodes are killed: records and offsets commit as one."""

from __future__ import annotations

import threading
from random import Random

import pytest

from pykraft import (
    Cluster,
    Consumer,
    Producer,
    TopicPartition,
    TransactionAbortableError,
    TransactionFatalError,
)
from tests.harness.asking import PATIENT
from tests.harness.waiting import wait_until

pytestmark = [pytest.mark.long, pytest.mark.limit(240)]

RECORDS = 6000
KILLS = 6
PARTITIONS = [TopicPartition("out", 0), TopicPartition("out", 1)]
PROPERTIES = {"transaction.state.log.num.partitions": "3", "offsets.topic.num.partitions": "3"}


class Copier(threading.Thread):
    """Copies ``in`` to ``out`` until it is stopped, and aborts a transaction now and then."""

    def __init__(self, servers: str, seed: int) -> None:
        super().__init__(daemon=True)
        self._servers = servers
        self._random = Random(seed)
        self.is_stopped = False
        self.failure: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            while not self.is_stopped:
                self._copy_until_fenced()
        except BaseException as failure:
            self.failure = failure

    def _copy_until_fenced(self) -> None:
        with (
            Consumer(
                bootstrap_servers=self._servers,
                group_id="copiers",
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                max_poll_records=20,
            ) as consumer,
            Producer(bootstrap_servers=self._servers, transactional_id="copier") as producer,
        ):
            consumer.subscribe(["in"])
            try:
                producer.init_transactions()
                while not self.is_stopped:
                    self._copy_some(consumer, producer)
            except TransactionFatalError:
                return  # and begin again, with a new producer

    def _copy_some(self, consumer: Consumer, producer: Producer) -> None:
        found = consumer.poll(timeout_ms=200)
        if not found:
            return
        producer.begin_transaction()
        try:
            for records in found.values():
                for record in records:
                    producer.send("out", record.value, partition=record.partition)
            offsets = {key: records[-1].offset + 1 for key, records in found.items()}
            producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
            if self._random.random() > 0.05:
                producer.commit_transaction()
                return
        except TransactionAbortableError:
            pass
        producer.abort_transaction()
        for key in consumer.assignment():
            committed = consumer.committed(key)
            consumer.seek(key, committed if isinstance(committed, int) else 0)


def test_a_copy_stays_exactly_once_while_nodes_are_killed() -> None:
    random = Random(1)
    with Cluster(nodes=3, properties=PATIENT | PROPERTIES) as cluster:
        servers = cluster.bootstrap_servers
        with cluster.admin() as admin:
            for topic in ("in", "out"):
                admin.create_topic(topic, 2, 3, {"min.insync.replicas": 2})
        with Producer(bootstrap_servers=servers) as producer:
            for number in range(RECORDS):
                producer.send("in", b"%d" % number, partition=number % 2)
        copier = Copier(servers, 2)
        seen: dict[TopicPartition, list[bytes]] = {key: [] for key in PARTITIONS}
        with Consumer(bootstrap_servers=servers, isolation_level="read_committed") as reader:
            reader.assign(PARTITIONS)
            reader.seek_to_beginning(*PARTITIONS)

            def has_read(count: int) -> bool:
                for key, records in reader.poll(timeout_ms=100).items():
                    seen[key].extend(record.value for record in records)
                assert copier.failure is None
                return sum(map(len, seen.values())) >= count

            for kill in range(1, KILLS + 1):
                node = random.choice([1, 2, 3])
                cluster.kill(node)
                wait_until(lambda kill=kill: has_read(kill * RECORDS // 20), f"it goes on without node {node}", 60)
                cluster.restart(node)
            wait_until(lambda: has_read(RECORDS), "all is copied", 60)
            copier.is_stopped = True
            copier.join(60)
            has_read(0)
        for key, values in seen.items():
            assert values == [b"%d" % number for number in range(key.partition, RECORDS, 2)]
