"""Notebooks 01, 02, 03 and 20 must turn red when the log they teach is broken."""

from __future__ import annotations

import pytest

from pykraft.course.authoring.execute import NotebookFailed
from tests.notebooks.sections import NOTEBOOK, run

A_RECOVERY_THAT_DOES_NOT_CUT = """
from pykraft.storage.log_segment import LogSegment

LogSegment.truncate_file = lambda segment, size: None
"""

A_RECOVERY_THAT_TRUSTS_THE_LENGTH = """
from pykraft.records.batch import RecordBatch

RecordBatch.is_valid = property(lambda batch: True)
"""

A_LOG_THAT_MARKS_THE_LINE_BEFORE_AS_OLD = """
from pykraft.course.lessons.append_only_log.changes import Log, SLOT

append = Log.change

def change(log, key, state):
    log._write(log._place[key] * SLOT % log._path.stat().st_size, b"-")
    append(log, key, state)

Log.change = change
"""

A_CONSUMER_THAT_CHECKS_NOTHING = """
from pykraft.course.lessons.append_only_log import log_files

class Credulous(log_files.Consumer):
    def __init__(self, **settings):
        super().__init__(**settings, check_crcs=False)

log_files.Consumer = Credulous
"""

A_CHECKSUM_THAT_SKIPS_SOME_BYTES = """
from pykraft.records import batch

whole = {}  # by the checksum that stands in the batch: what it is without the bytes that are skipped

def is_valid(one):
    rest = bytes(one.buffer[batch.ATTRIBUTES_OFFSET + 2:])
    return whole.setdefault(one.crc, rest) == rest

batch.RecordBatch.is_valid = property(is_valid)
"""


PATH_01 = NOTEBOOK.parent / "01_append_only_log.ipynb"


@pytest.mark.parametrize(
    ("plant", "heading", "message"),
    [
        (A_RECOVERY_THAT_DOES_NOT_CUT, "4. ", "this does not hold: The log is again what it was|CorruptRecordError"),
        pytest.param(
            A_RECOVERY_THAT_TRUSTS_THE_LENGTH,
            "4. ",
            "this does not hold: The log is again what it was",
            marks=pytest.mark.long,
        ),
        pytest.param(
            A_LOG_THAT_MARKS_THE_LINE_BEFORE_AS_OLD,
            "2. ",
            "this does not hold: In a large file, an overwrite costs",
            marks=pytest.mark.long,
        ),
        pytest.param(
            A_CONSUMER_THAT_CHECKS_NOTHING,
            "Where this differs",
            "this does not hold: After an orderly stop",
            marks=pytest.mark.long,
        ),
    ],
    ids=["a recovery that does not cut", "one that trusts the length", "a log that looks back", "a credulous consumer"],
)
def test_what_is_broken_turns_notebook_01_red(plant: str, heading: str, message: str) -> None:
    with pytest.raises(NotebookFailed, match=message):
        run(heading, path=PATH_01, before=plant)


A_LEADER_THAT_WRITES_THE_TIME = """
from pykraft.records.batch import RecordBatch

assign = RecordBatch.assign

def stamped(batch, base_offset, leader_epoch):
    batch.stamp(0)
    assign(batch, base_offset, leader_epoch)

RecordBatch.assign = stamped
"""

A_LEADER_THAT_KEEPS_THE_CODEC = """
from pykraft.storage import validator

def unchanged(batch, found, codec, level):
    return batch
    yield

validator._packed_again = unchanged
"""
PATH_03 = NOTEBOOK.parent / "03_batches_and_compression.ipynb"


@pytest.mark.parametrize(
    ("plant", "heading", "claim"),
    [
        (A_CHECKSUM_THAT_SKIPS_SOME_BYTES, "3. ", "The checksum notices every flip"),
        pytest.param(A_LEADER_THAT_WRITES_THE_TIME, "4. ", "A leader writes an offset", marks=pytest.mark.long),
        pytest.param(
            A_LEADER_THAT_KEEPS_THE_CODEC, "Where this differs", "compression.type makes", marks=pytest.mark.long
        ),
    ],
    ids=["a checksum that skips some bytes", "a leader that writes the time", "a leader that keeps the codec"],
)
def test_what_is_broken_turns_notebook_03_red(plant: str, heading: str, claim: str) -> None:
    with pytest.raises(NotebookFailed, match=f"this does not hold: .*{claim}"):
        run(heading, path=PATH_03, before=plant)


AN_INDEX_THAT_POINTS_BESIDE = """
from pykraft.storage.index import OffsetIndex

append = OffsetIndex.append

OffsetIndex.append = lambda index, offset, position: append(index, offset, position + 1)
"""


A_SECOND_ENTRY_FOR_A_BATCH = """
from pykraft.storage.log_segment import LogSegment

index = LogSegment._index

def dense(segment, batch, position):
    index(segment, batch, position)
    if segment._index_interval_bytes < 100:
        segment.offset_index.append(batch.last_offset + 1, position)

LogSegment._index = dense
"""

AN_INDEX_THAT_IS_NOT_WRITTEN_AGAIN = """
from pykraft.storage.index import OffsetIndex

OffsetIndex.rewrite = lambda index: None
"""

A_LOOKUP_THAT_TRUSTS_THE_ORDER_OF_TIMES = """
from pykraft.storage.log_segment import LogSegment

def find_timestamp(segment, timestamp, start_offset):
    places = [place for at in segment.records.headers(0) for place in segment.records.batch_at(at.position).places()]
    answer = None
    for offset, found in reversed(places):
        if found < timestamp:
            break
        answer = found, offset
    yield
    return answer

LogSegment.find_timestamp = find_timestamp
"""
PATH_02 = NOTEBOOK.parent / "02_segments_and_indexes.ipynb"


@pytest.mark.long
@pytest.mark.parametrize(
    ("plant", "heading", "message"),
    [
        (AN_INDEX_THAT_POINTS_BESIDE, "3. ", r"cell \d+ failed: |Three reads of the log find"),
        pytest.param(
            AN_INDEX_THAT_IS_NOT_WRITTEN_AGAIN,
            "5. ",
            "this does not hold: .*The node makes both indexes again",
            marks=pytest.mark.long,
        ),
        pytest.param(
            A_SECOND_ENTRY_FOR_A_BATCH,
            "6. ",
            "this does not hold: .*no batch gets a second entry",
            marks=pytest.mark.long,
        ),
        pytest.param(
            A_LOOKUP_THAT_TRUSTS_THE_ORDER_OF_TIMES,
            "Where this differs",
            "this does not hold: For each later time of that day",
            marks=pytest.mark.long,
        ),
    ],
    ids=["points beside the batch", "is not written again", "a second entry", "trusts the order of times"],
)
def test_a_broken_index_turns_notebook_02_red(plant: str, heading: str, message: str) -> None:
    with pytest.raises(NotebookFailed, match=message):
        run(heading, path=PATH_02, before=plant)
