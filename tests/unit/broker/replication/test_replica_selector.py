"""Fetching from the nearest replica: where a leader sends a consumer, and what a follower gives it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pykraft.broker.settings.config import RACK_AWARE_SELECTOR
from pykraft.common.core import Promise
from pykraft.common.errors import ErrorCode
from pykraft.common.types import Uuid
from pykraft.protocol.messages.data import FetchRequest
from pykraft.records.batch import batches
from tests.harness.lone_node import LoneNode
from tests.harness.storage import batch

RACKS = {2: "b", 3: "b", 4: "c", 5: None, 6: "d", 7: "d"}
FENCED, LAGGING = 7, 6


def leader(selector: str = RACK_AWARE_SELECTOR, **settings: str) -> tuple[LoneNode, Uuid]:
    """Node 1 in rack a leads a topic that the other brokers follow. Broker 7 is fenced; broker 6 has left the ISR. The
    log has ten records, and begins at offset 2."""
    lone = LoneNode(
        broker_rack="a",
        replica_selector_class=selector,
        broker_session_timeout_ms="3600000",
        replica_lag_time_max_ms="1000",
        **settings,
    )
    for broker_id, rack in RACKS.items():
        lone.join(broker_id, rack)
    topic = lone.create(replicas=(1, *RACKS))
    lone.produce(topic, batch(10).buffer, acks=1)
    for _ in range(4):
        lone.run(300)
        for broker_id in (2, 3, 4, 5):
            lone.fetch(topic, 10, follower=broker_id)
    lone.run(1000)
    return lone, topic


def read(answered: Promise[Any]) -> Any:
    return answered.value.response.responses[0].partitions[0]


@pytest.fixture(scope="module")
def racks() -> tuple[LoneNode, Uuid]:
    lone, topic = leader()
    partition = next(iter(lone.broker.replicas.partitions.values()))
    assert partition.isr_state.isr == {1, 2, 3, 4, 5}
    return lone, topic


def preferred(lone: LoneNode, topic: Uuid, rack: str, offset: int = 0, **fields: Any) -> int:
    """The replica that a consumer in this rack is sent to; -1: it gets its records here."""
    part = read(lone.fetch(topic, offset, rack_id=rack, **fields))
    assert part.error_code == 0
    assert bool(len(part.records)) == (part.preferred_read_replica < 0 and offset < 10)
    assert (part.high_watermark, part.log_start_offset) == (10, 0)
    replica: int = part.preferred_read_replica
    return replica


@pytest.mark.parametrize(
    ("rack", "offset", "replica"),
    [
        ("a", 0, -1),  # the leader is there itself
        ("b", 0, 3),  # two that are equal: the larger id
        ("c", 0, 4),
        ("c", 10, 4),
        ("d", 0, -1),  # out of sync
        ("", 0, -1),
        ("e", 0, -1),
    ],
)
def test_a_consumer_is_sent_to_a_replica_in_its_rack(
    racks: tuple[LoneNode, Uuid], rack: str, offset: int, replica: int
) -> None:
    lone, topic = racks
    for broker_id in (2, 3, 4, 5):
        lone.fetch(topic, 10, follower=broker_id)
    assert preferred(lone, topic, rack, offset) == replica


def test_of_two_replicas_in_a_rack_the_one_with_the_longer_log_is_named(racks: tuple[LoneNode, Uuid]) -> None:
    lone, topic = racks
    lone.fetch(topic, 9, follower=3)
    assert preferred(lone, topic, "b") == 2
    assert preferred(lone, topic, "b", 10) == 2
    lone.fetch(topic, 10, follower=3)


def test_a_replica_is_named_only_if_it_has_the_offset(racks: tuple[LoneNode, Uuid]) -> None:
    lone, topic = racks
    lone.fetch(topic, 10, follower=4, log_start=5)
    assert (preferred(lone, topic, "c", 4), preferred(lone, topic, "c", 5)) == (-1, 4)
    lone.fetch(topic, 10, follower=4)
    assert read(lone.fetch(topic, 11, rack_id="c")).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_older_consumers_and_replicas_are_not_sent_elsewhere(racks: tuple[LoneNode, Uuid]) -> None:
    lone, topic = racks
    named = [FetchRequest.Topic(topic="t", partitions=[FetchRequest.Topic.Partition(partition=0, fetch_offset=0)])]
    for version, replica in ((10, -1), (11, 4)):
        request = FetchRequest(max_wait_ms=0, rack_id="c", topics=named)
        assert lone.ask(request, version=version).responses[0].partitions[0].preferred_read_replica == replica
    assert read(lone.fetch(topic, 0, follower=2, rack_id="c")).preferred_read_replica == -1
    assert read(lone.fetch(topic, 0, rack_id="c", leader_epoch=3)).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


def test_without_a_selector_nobody_is_sent_elsewhere() -> None:
    lone, topic = leader(selector="")
    assert preferred(lone, topic, "c") == -1


def test_a_fenced_replica_is_not_named() -> None:
    lone, topic = leader()
    assert preferred(lone, topic, "c") == 4
    image = lone.node.loader.image
    brokers = {**image.brokers, 4: replace(image.brokers[4], fenced=True)}
    lone.broker.replicas.image = replace(image, brokers=brokers)
    assert preferred(lone, topic, "c") == -1


def test_a_consumer_does_not_wait_to_be_sent_elsewhere_and_a_session_says_it_each_time(
    racks: tuple[LoneNode, Uuid],
) -> None:
    lone, topic = racks
    waits = {"max_wait_ms": 60_000, "min_bytes": 1000, "rack_id": "c"}
    begun = lone.fetch(topic, 10, session_epoch=0, **waits)
    assert read(begun).preferred_read_replica == 4
    session_id = begun.value.response.session_id  # type: ignore[union-attr]
    for epoch in (1, 2):
        again = lone.fetch(topic, 10, session_id=session_id, session_epoch=epoch, **waits)
        assert read(again).preferred_read_replica == 4


def test_a_follower_that_waits_is_told_the_high_watermark_at_once_if_consumers_may_read_from_it() -> None:
    for selector in (RACK_AWARE_SELECTOR, ""):
        lone, topic = leader(selector=selector)
        lone.produce(topic, batch(1).buffer, acks=1)
        for broker_id in (3, 4, 5):
            lone.fetch(topic, 11, follower=broker_id)
        waits = lone.fetch(topic, 11, follower=3, max_wait_ms=60_000)
        assert not waits.kept, "the high watermark is 10 still"
        lone.fetch(topic, 11, follower=2)
        assert waits.kept is bool(selector)
        if selector:
            assert (read(waits).high_watermark, len(read(waits).records)) == (11, 0)
            assert not lone.fetch(topic, 11, follower=3, max_wait_ms=60_000).kept, "it knows that"


def test_a_follower_gives_consumers_what_it_knows_to_be_committed() -> None:
    lone = LoneNode(broker_session_timeout_ms="3600000")
    lone.join(2)
    topic = lone.create(replicas=(2, 1))
    partition = next(iter(lone.broker.replicas.partitions.values()))
    assert not partition.is_leader
    for offset in range(3):
        partition.append_as_follower(memoryview(batch(base_offset=offset).buffer), 2)
    seen = read(lone.fetch(topic, 0))
    assert (seen.high_watermark, [each.base_offset for each in batches(seen.records)]) == (2, [0, 1])
    assert len(read(lone.fetch(topic, 2)).records) == 0, "it does not know that this is committed"
    assert read(lone.fetch(topic, 4)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert read(lone.fetch(topic, 0, leader_epoch=1)).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert read(lone.fetch(topic, 0, follower=2)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    named = [FetchRequest.Topic(topic="t", partitions=[FetchRequest.Topic.Partition(partition=0, fetch_offset=0)])]
    for version, error in ((10, ErrorCode.NOT_LEADER_OR_FOLLOWER), (11, ErrorCode.NONE)):
        answer = lone.ask(FetchRequest(max_wait_ms=0, topics=named), version=version)
        assert answer.responses[0].partitions[0].error_code == error
