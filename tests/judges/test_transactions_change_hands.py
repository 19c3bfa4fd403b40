"""An open transaction is finished when its coordinator becomes another implementation: Apache Kafka, then pykraft; and
the other way round.

A node is stopped in order while transactions are open, and the other one is started on its directories and its ports.
The producers go on: one commits, one aborts, and one begins its next transaction with offsets of a group. A producer
that has not come back is fenced by its successor, which aborts what it left.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import confluent_kafka
import pytest

from tests.harness import apache_kafka
from tests.harness.waiting import wait_until
from tests.interop.clients import Confluent
from tests.interop.test_transactions_of_others import PATIENCE_S, producer, values
from tests.judges.test_groups_change_hands import ours, theirs

pytestmark = pytest.mark.limit(300)

TOPIC = "orders"
GROUP = "readers"
SIDES = {"pykraft": ours, "kafka": theirs}
CHAINS: dict[str, tuple[str, str, str]] = {
    "kafka-pykraft-kafka": ("kafka", "pykraft", "kafka"),
    "pykraft-kafka-pykraft": ("pykraft", "kafka", "pykraft"),
}


@pytest.fixture(scope="module", autouse=True)
def needs_java() -> None:
    if reason := apache_kafka.available():
        pytest.skip(reason)


class Open:
    """Producers, each with a transaction that is open and has a record in each partition."""

    def __init__(self, servers: str, number: int) -> None:
        self.number = number
        self.producers: dict[str, confluent_kafka.Producer] = {}
        for name in ("committed", "aborted", "left"):
            made = self.producers[name] = producer(servers, f"{name}-{number}")
            made.begin_transaction()
            self.send(name)
        reader = confluent_kafka.Consumer({"bootstrap.servers": servers, "group.id": GROUP})
        places = [confluent_kafka.TopicPartition(TOPIC, 0, 10 + number)]
        self.producers["committed"].send_offsets_to_transaction(places, reader.consumer_group_metadata(), PATIENCE_S)
        reader.close()

    def send(self, name: str, more: str = "") -> None:
        for partition in range(3):
            self.producers[name].produce(TOPIC, f"{name} {self.number}{more} {partition}", partition=partition)
        assert self.producers[name].flush(PATIENCE_S) == 0

    def finish(self, servers: str) -> None:
        """Under the other coordinator."""
        assert committed(servers) == 9 + self.number, "the offset belongs to an open transaction"
        self.send("committed", "+")
        self.producers["committed"].commit_transaction(PATIENCE_S)
        self.producers["aborted"].abort_transaction(PATIENCE_S)
        producer(servers, f"left-{self.number}")  # its initialization aborts what the first one left
        with pytest.raises(confluent_kafka.KafkaException) as caught:
            self.producers["left"].commit_transaction(PATIENCE_S)
        assert caught.value.args[0].fatal()
        assert committed(servers) == 10 + self.number


def committed(servers: str) -> int:
    """What is committed, though an offset of an open transaction waits: a reader of committed data would wait too.

    A node that has just started answers NOT_COORDINATOR until it has the group's partition, and librdkafka passes that
    on: we ask again."""
    settings = {"bootstrap.servers": servers, "group.id": GROUP, "isolation.level": "read_uncommitted"}
    consumer = confluent_kafka.Consumer(settings)
    found: list[int] = []

    def is_answered() -> bool:
        try:
            (place,) = consumer.committed([confluent_kafka.TopicPartition(TOPIC, 0)], PATIENCE_S)
        except confluent_kafka.KafkaException as error:
            if error.args[0].code() != confluent_kafka.KafkaError.NOT_COORDINATOR:
                raise
            return False
        found.append(int(place.offset))
        return True

    try:
        wait_until(is_answered, "the group has a coordinator", PATIENCE_S)
        return found[0]
    finally:
        consumer.close()


def commit(servers: str, offset: int) -> None:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": servers, "group.id": GROUP})
    consumer.commit(offsets=[confluent_kafka.TopicPartition(TOPIC, 0, offset)], asynchronous=False)
    consumer.close()


@pytest.mark.parametrize("chain", CHAINS)
def test_open_transactions_are_finished_under_another_coordinator(chain: str, tmp_path: pathlib.Path) -> None:
    home = tmp_path / "home"
    before: Open | None = None
    expected: list[str] = []
    for number, side in enumerate(CHAINS[chain]):
        start: Callable[[pathlib.Path], object] = SIDES[side]
        with start(home) as servers:  # type: ignore[attr-defined]
            if before is None:
                Confluent().create(servers, TOPIC, 3, 1)
                commit(servers, 9)
            else:
                before.finish(servers)
                for more in ("", "+"):
                    expected += [f"committed {number - 1}{more} {partition}" for partition in range(3)]
            assert values(servers, TOPIC, "read_committed") == sorted(expected)
            if number < 2:
                before = Open(servers, number)
