"""Bugs put into the checks of a produced batch on purpose: each must be seen by a test that the suite runs anyway.

The checks are a few long functions, for they are the inner loop of producing. So a bug is a piece of the source that is
replaced by another.
"""

from __future__ import annotations

import inspect
import itertools
import struct
import textwrap
from collections.abc import Callable
from typing import Any

import pytest

from pykraft.common.errors import KafkaError
from pykraft.records import overview
from pykraft.records.batch import RecordBatch
from pykraft.records.overview import RecordReader
from pykraft.storage import validator
from tests.harness.two_ways import SOURCE, as_python
from tests.unit.records import test_overview as going_over
from tests.unit.records import test_walk as walking_over
from tests.unit.storage import test_validator as validating


def every_row(test: Callable[..., None]) -> Callable[[], None]:
    """The test with each of the values that it is parametrized with, without those that need a fixture."""
    tables = []
    for mark in getattr(test, "pytestmark", []):
        names, rows = mark.args
        names = [names] if isinstance(names, str) else list(names)
        tables.append([dict(zip(names, row if len(names) > 1 else (row,), strict=True)) for row in rows])

    def run() -> None:
        for rows in itertools.product(*tables):
            test(**{name: value for row in rows for name, value in row.items()})

    return run


def rewritten(owner: Any, name: str, old: str, new: str) -> Callable[[pytest.MonkeyPatch], None]:
    """A function, or a method, with another piece of source in place of this one."""

    def plant(monkeypatch: pytest.MonkeyPatch) -> None:
        function = getattr(owner, name)
        source = textwrap.dedent(inspect.getsource(function))
        assert source.count(old) == 1, f"{name} has no such line, or several: {old}"
        scope: dict[str, Any] = {}
        exec(source.replace(old, new), function.__globals__, scope)
        monkeypatch.setattr(owner, name, scope[name])

    return plant


def walking(old: str, new: str) -> Callable[[pytest.MonkeyPatch], None]:
    """The walk over regular records with another piece of source in place of this one, as Python."""

    def plant(monkeypatch: pytest.MonkeyPatch) -> None:
        source = SOURCE.read_text()
        assert source.count(old) == 1, f"the walk has no such line, or several: {old}"
        monkeypatch.setattr(overview, "go_over", as_python(source.replace(old, new)).go_over)

    return plant


the_fields_fill_the_record = every_row(going_over.test_fields_that_do_not_fit_are_answered_as_apache_kafka_answers_them)
overviews_are_right = every_row(going_over.test_an_overview_tells_what_all_records_say_together)
hostile_batches_are_refused = every_row(validating.test_a_hostile_batch_is_answered_as_apache_kafka_answers_it)
the_largest_timestamp_is_repaired = every_row(validating.test_the_largest_timestamp_is_that_of_the_records)
records_are_packed_as_usual = every_row(validating.test_records_are_packed_again_as_kafkas_producer_writes_them)
numbers_are_checked = every_row(
    validating.test_records_that_are_numbered_wrongly_are_numbered_anew_when_they_are_packed
)


def torn_regular_records_are_seen() -> None:
    """A record that is not the last one, and looks regular."""
    for data in (
        going_over.record(value=b"\x04v") + going_over.record(offset=b"\x02"),
        going_over.record(headers=b"\x02\x01\x01") + going_over.record(offset=b"\x02"),
    ):
        assert going_over.verdict(data, 2, **going_over.PLAIN) is going_over.INVALID


def test_without_a_bug_torn_regular_records_are_seen() -> None:
    torn_regular_records_are_seen()


BUGS = {
    # regular records
    "the fields of a regular record need not fill it": (
        walking("at != end or stamp < 0", "stamp < 0"),
        the_fields_fill_the_record,
    ),
    "a regular record may leave its batch": (
        walking(" or end > len(data)", ""),
        walking_over.test_a_record_that_is_cut_ends_the_walk,
    ),
    "the offset deltas of regular records are believed": (
        walking("if offset != number << 1:", "if False:"),
        overviews_are_right,
    ),
    "a record with attributes is regular": (
        walking("if length & 1 or data[at]:", "if length & 1:"),
        records_are_packed_as_usual,
    ),
    "two bytes of an offset delta are taken for three": (
        walking("(two, at + 1) if 127 < two < 16384 else _rest(data, at, offset, 5)", "(two, at + 1)"),
        overviews_are_right,
    ),
    "a key of a negative length is none": (
        walking("elif key != 1:", "elif False:"),
        overviews_are_right,
    ),
    "headers of regular records are not looked at": (
        walking("at = _after_headers(data, at, headers)", "at = end"),
        the_fields_fill_the_record,
    ),
    "a header of a regular record needs no key": (
        walking("if key & 1:  # a header has a key", "if False:"),
        torn_regular_records_are_seen,
    ),
    "a number in more bytes than it takes is regular": (
        walking("if not octet or", "if"),
        overviews_are_right,
    ),
    "the timestamps of regular records are not noted": (
        walking("if stamp != known_stamp:", "if known_stamp < 0:"),
        the_largest_timestamp_is_repaired,
    ),
    "regular records without a key are not counted": (
        walking("without_key += 1", "pass"),
        overviews_are_right,
    ),
    # all others
    "a record's length may be any": (
        rewritten(RecordReader, "read", "self._is_strict and size != length", "False"),
        the_fields_fill_the_record,
    ),
    "a value may leave its record": (
        rewritten(RecordReader, "read", "self._pass(self._number())  # the value", "self._number()"),
        the_fields_fill_the_record,
    ),
    "the number of headers is not checked": (
        rewritten(RecordReader, "_pass_headers", "if count < 0", "if False"),
        the_fields_fill_the_record,
    ),
    "a header needs no key": (
        rewritten(RecordReader, "_pass_headers", "if key_length < 0", "if False"),
        the_fields_fill_the_record,
    ),
    "headers are not bounded": (
        rewritten(RecordReader, "_pass_headers", "if self._is_stream and", "if False and"),
        lambda: with_monkeypatch(going_over.test_a_stream_of_too_many_headers_is_refused, per_record=1000),
    ),
    "bytes may follow the last record": (
        rewritten(RecordReader, "check_end", "if left > 0", "if False"),
        the_fields_fill_the_record,
    ),
    "the last record may go beyond the batch": (
        rewritten(RecordReader, "check_end", "if left < 0", "if False"),
        the_fields_fill_the_record,
    ),
    # what is made of it
    "lengths are never compared with the fields": (
        rewritten(validator, "validation", "is_strict = is_packed_again or not is_compressed", "is_strict = 0"),
        validating.test_the_length_of_a_record_is_not_compared_with_its_fields_where_kafka_does_not,
    ),
    "a record of a compressed batch may be of any length": (
        rewritten(RecordReader, "_record_length", "length > self._longest_bytes", "False"),
        validating.test_a_long_record_of_a_compressed_batch_is_refused_with_its_batch,
    ),
    "the header's largest timestamp is believed": (
        rewritten(validator, "validation", "batch.set_max_timestamp(max_timestamp)", "pass"),
        the_largest_timestamp_is_repaired,
    ),
    "the largest timestamp may be below that of none": (
        rewritten(
            validator,
            "validation",
            "max(NO_TIMESTAMP, batch.base_timestamp + found.largest_delta)",
            "batch.base_timestamp + found.largest_delta",
        ),
        every_row(validating.test_the_largest_timestamp_is_not_below_that_of_none),
    ),
    "the offset deltas of compressed records are believed": (
        rewritten(validator, "validation", "elif is_compressed and not found.is_numbered", "elif False"),
        numbers_are_checked,
    ),
    "no record is too old": (
        rewritten(validator, "_may_be_wrong", "smallest < now_ms - rules.before_max_ms or ", ""),
        every_row(validating.test_timestamps_are_held_to_the_topics_limits),
    ),
    "a sum that leaves 64 bits is a timestamp": (
        rewritten(
            validator,
            "_may_be_wrong",
            "min(now_ms + rules.after_max_ms, _LARGEST_TIMESTAMP)",
            "now_ms + rules.after_max_ms",
        ),
        validating.test_a_sum_that_leaves_64_bits_is_not_the_largest_timestamp,
    ),
    "an age does not wrap": (
        rewritten(validator, "_is_far", "wrapped(now_ms - timestamp)", "now_ms - timestamp"),
        every_row(validating.test_no_timestamp_is_too_far_where_there_are_no_limits),
    ),
    "a record without a key is compacted": (
        rewritten(validator, "_may_be_wrong", "rules.wants_keys and found.without_key", "False"),
        every_row(validating.test_records_without_a_key_are_named_where_the_topic_is_compacted),
    ),
    "records are packed as they were written": (
        rewritten(validator, "_packed_again", "found.is_regular", "True"),
        records_are_packed_as_usual,
    ),
    "records are packed from the batch's base timestamp": (
        rewritten(validator, "_packed_again", "and first_timestamp == batch.base_timestamp", ""),
        validating.test_records_are_packed_again_from_the_timestamp_of_the_first,
    ),
    "negative timestamps are packed again": (
        rewritten(validator, "_encoded", "if timestamp < NO_TIMESTAMP", "if False"),
        every_row(validating.test_negative_timestamps_are_not_packed_again),
    ),
    "attributes that mean nothing stay": (
        rewritten(RecordBatch, "_set_timestamp", "attributes & _ALL_ATTRIBUTES", "attributes"),
        every_row(validating.test_attributes_that_mean_nothing_go_where_the_header_is_changed),
    ),
}


def with_monkeypatch(test: Callable[..., None], **values: Any) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        test(monkeypatch=monkeypatch, **values)


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, check_of_the_suite = BUGS[name]
    plant(monkeypatch)
    with pytest.raises((AssertionError, KafkaError, struct.error, pytest.fail.Exception)):
        check_of_the_suite()
