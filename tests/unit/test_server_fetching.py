"""Where a fetch parts from the leader's log: the two ways in which a reader's log can be no prefix of it."""

from __future__ import annotations

import pytest

from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import OffsetAndEpoch
from pykraft.server.fetching import FetchPlace, diverging_end
from pykraft.server.partition import Partition
from tests.harness.storage import PARTITION, batch
from tests.unit.test_server_partition import partition


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
