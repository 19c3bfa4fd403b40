"""What a fetch gets: where it parts from the leader's log, the two ways in which a reader's log can be no prefix of it;
and what a follower gets that is held back."""

from __future__ import annotations

import pytest

from pykraft.broker.replication.fetching import FetchParams, FetchPlace, available_bytes, diverging_end, read_partition
from pykraft.broker.replication.partition import Partition
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import OffsetAndEpoch
from pykraft.storage.answers import Isolation
from tests.harness.storage import PARTITION, batch
from tests.unit.broker.replication.test_partition import partition


def place(offset: int, last_fetched_epoch: int) -> FetchPlace:
    """A reader whose log ends at `offset` with a record of that epoch."""
    return FetchPlace(PARTITION, offset, 1 << 20, current_leader_epoch=7, last_fetched_epoch=last_fetched_epoch)


@pytest.fixture
def led() -> Partition:
    """Offsets 0 to 4 are of leader epoch 2, offsets 5 to 9 of epoch 5, and the leader leads epoch 7 since offset 10."""
    led = partition(leader=2, epoch=2)
    for epoch in (2, 5):
        some = batch(5)
        some.assign(led.log.log_end_offset, epoch)
        led.log.append_as_follower(some.buffer, epoch)
    led.log.epochs.assign(7, 10)
    return led


@pytest.mark.parametrize(
    ("offset", "epoch", "end"),
    [
        (5, 2, None),
        (4, 2, None),
        (6, 2, OffsetAndEpoch(5, 2)),  # more of an epoch than the leader has
        (10, 5, None),
        (4, 3, OffsetAndEpoch(5, 2)),  # an epoch that the leader never had, below where the largest smaller one ends
        (5, 4, OffsetAndEpoch(5, 2)),
        (10, 6, OffsetAndEpoch(10, 5)),
        (10, 7, None),
        (11, 7, OffsetAndEpoch(10, 7)),
        (4, 1, OffsetAndEpoch(0, 1)),  # older than all that the leader knows: it ends where the first known one begins
        (12, -1, None),  # a consumer, which does not say
    ],
)
def test_a_reader_diverges_by_its_offset_or_by_its_epoch(
    led: Partition, offset: int, epoch: int, end: OffsetAndEpoch | None
) -> None:
    assert diverging_end(led, place(offset, epoch)) == end


def test_an_epoch_after_all_and_an_offset_before_all_are_out_of_range(led: Partition) -> None:
    led.log.update_high_watermark(8)
    led.log.increase_log_start(3)
    for offset, epoch in ((4, 8), (2, 2)):
        with pytest.raises(KafkaError) as refused:
            diverging_end(led, place(offset, epoch))
        assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize("is_held_back", [False, True])
def test_a_follower_that_is_held_back_gets_no_records_and_all_other_news(led: Partition, is_held_back: bool) -> None:
    params = FetchParams(Isolation.LOG_END, 1 << 20, 1, replica_id=2, holds_back=lambda *_: is_held_back)
    behind, diverging = place(5, 2), place(6, 2)
    assert bool(available_bytes(led, behind, params)) == (not is_held_back)
    result = read_partition(led, behind, params, 1 << 20, at_least_one=True)
    assert bool(len(result.records)) == (not is_held_back)
    assert result.high_watermark == led.log.high_watermark
    assert available_bytes(led, diverging, params) is None
    assert read_partition(led, diverging, params, 1 << 20, at_least_one=True).diverging == OffsetAndEpoch(5, 2)
