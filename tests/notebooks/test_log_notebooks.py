"""Notebooks 01 and 03 must turn red when the log they teach is broken."""

from __future__ import annotations

import pytest

from pykraft.course.execute import NotebookFailed
from tests.notebooks.sections import NOTEBOOK, run

A_RECOVERY_THAT_DOES_NOT_CUT = """
from pykraft.storage.log_segment import LogSegment

LogSegment.cut = lambda segment, size: None
"""

A_CHECKSUM_THAT_SKIPS_SOME_BYTES = """
from pykraft.records import batch

whole = {}  # by the checksum that stands in the batch: what it is without the bytes that are skipped

def is_valid(one):
    rest = bytes(one.buffer[batch.ATTRIBUTES_OFFSET + 2:])
    return whole.setdefault(one.crc, rest) == rest

batch.RecordBatch.is_valid = property(is_valid)
"""


def test_a_log_that_is_not_recovered_turns_notebook_01_red() -> None:
    with pytest.raises(NotebookFailed, match=r"has cut its log to where it was|CorruptRecordError"):
        run("4. ", path=NOTEBOOK.parent / "01_append_only_log.ipynb", before=A_RECOVERY_THAT_DOES_NOT_CUT)


def test_a_checksum_that_covers_too_little_turns_notebook_03_red() -> None:
    with pytest.raises(NotebookFailed, match=r"this does not hold: .*Every flipped bit is noticed"):
        run("3. ", path=NOTEBOOK.parent / "03_batches_and_compression.ipynb", before=A_CHECKSUM_THAT_SKIPS_SOME_BYTES)


A_CLEANER_THAT_KEEPS_THE_FIRST = """
from pykraft.storage.cleaner import OffsetMap

seen = set()

def pick(self, records, tombstones_stay):
    kept = []
    for record in records:
        if record.offset > self.latest_offset or record.key not in seen:
            kept.append(record)
        seen.add(record.key)
    return kept

OffsetMap.pick = pick
"""


def test_a_cleaner_that_keeps_the_first_record_of_a_key_turns_notebook_20_red() -> None:
    with pytest.raises(NotebookFailed, match=r"this does not hold: .*knows the last value of every key"):
        run("4. ", path=NOTEBOOK.parent / "20_retention_and_compaction.ipynb", before=A_CLEANER_THAT_KEEPS_THE_FIRST)


AN_INDEX_THAT_POINTS_BESIDE = """
from pykraft.storage.index import OffsetIndex

append = OffsetIndex.append

OffsetIndex.append = lambda index, offset, position: append(index, offset, position + 1)
"""


def test_an_index_that_points_beside_the_batch_turns_notebook_02_red() -> None:
    with pytest.raises(NotebookFailed):
        run("3. ", path=NOTEBOOK.parent / "02_segments_and_indexes.ipynb", before=AN_INDEX_THAT_POINTS_BESIDE)
