"""A follower whose disk has rotted keeps what is committed: it may be the next leader."""

from __future__ import annotations

import pytest

from pykraft.protocol.messages.data import FetchRequest, FetchResponse
from pykraft.records.batch import MAGIC_OFFSET
from tests.harness.storage import at, batch
from tests.unit.broker.replication.test_replica_fetcher import fetch_answer, following


def damage_batch(log: object, number: int) -> None:
    """The header of this batch of the first segment cannot be read any more."""
    records = log.segments[0].records  # type: ignore[attr-defined]
    position = [at.position for at in records.headers()][number]
    records._file._inode.data[position + MAGIC_OFFSET] = 0x7F


def truncate_to_five(high_watermark: int, damaged: int) -> int:
    """Where the log of six batches ends after its leader has said that the logs part at 5."""
    follower, _, script = following(filled=6)
    follower.log.update_high_watermark(high_watermark)
    damage_batch(follower.log, damaged)
    script.poll()
    diverging = FetchResponse.Topic.Partition.EpochEndOffset(epoch=4, end_offset=5)
    script.answer(FetchRequest, fetch_answer(diverging_epoch=diverging))
    return follower.log.log_end_offset


@pytest.mark.parametrize("damaged", [0, 2, 3])
def test_a_truncation_does_not_take_what_is_committed_and_whole_after_a_damaged_batch(damaged: int) -> None:
    assert truncate_to_five(high_watermark=4, damaged=damaged) == 6, "it stays as it is, and falls out of the ISR"


def test_a_truncation_above_the_high_watermark_ends_at_a_damaged_batch() -> None:
    assert truncate_to_five(high_watermark=4, damaged=4) == 4


def test_a_truncation_of_what_is_whole_is_done() -> None:
    assert truncate_to_five(high_watermark=4, damaged=5) == 5


def test_what_compaction_has_left_out_is_no_damage() -> None:
    follower, _, script = following()
    for base_offset in (0, 8, 9):
        follower.log.append_as_follower(at(base_offset, batch(1), 4).buffer)
    follower.log.update_high_watermark(8)
    script.poll()
    diverging = FetchResponse.Topic.Partition.EpochEndOffset(epoch=4, end_offset=8)
    script.answer(FetchRequest, fetch_answer(diverging_epoch=diverging))
    assert follower.log.log_end_offset == 1
