"""The walk over records does the same as C and as Python."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from pykraft.records import overview, walk
from pykraft.records.batch import HEADER_BYTES
from pykraft.records.builder import RecordBatchBuilder
from pykraft.records.varint import encode_varint
from pykraft.simulation import Simulation
from tests.harness.two_ways import as_python

PYTHON: Callable[..., tuple[int, ...]] = as_python().go_over
IS_COMPILED = not (walk.__file__ or "").endswith(".py")
compiled = pytest.mark.skipif(not IS_COMPILED, reason="this machine has no C compiler, or pykraft was not installed")

TEXTS = st.none() | st.binary(max_size=5) | st.sampled_from([b"x" * 63, b"x" * 64, b"x" * 8191, b"x" * 8192])
HEADERS = st.lists(st.tuples(st.text(max_size=2), st.none() | st.binary(max_size=70)), max_size=3)
DELTAS = st.integers(-(1 << 61), 1 << 61) | st.integers(-200, 200)
RECORDS = st.lists(st.tuples(DELTAS, TEXTS, TEXTS, HEADERS), min_size=1, max_size=4)
PATCHES = st.lists(st.tuples(st.integers(0, 60), st.sampled_from([0, 1, 2, 126, 127, 128, 129, 255])), max_size=3)
NUMBERS = st.integers(0, 70) | st.sampled_from([8191, 8192, 1 << 20, 1 << 30])


def test_it_is_compiled_where_a_compiler_was_found() -> None:
    """If it is not, the skipped tests say so: where tests must not be skipped, that is a failure."""
    assert IS_COMPILED or PYTHON(b"", 0, 0, 1) == walk.go_over(b"", 0, 0, 1)


@compiled
@given(RECORDS, PATCHES, st.integers(0, 3), st.integers(0, 9))
def test_damaged_batches_are_walked_over_alike(
    records: list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]],
    patches: list[tuple[int, int]],
    more: int,
    cut: int,
) -> None:
    builder = RecordBatchBuilder()
    for timestamp, key, value, headers in records:
        builder.append(timestamp, key, value, headers)
    data = bytearray(builder.build()[HEADER_BYTES:])
    for place, octet in patches:
        data[place % len(data)] = octet
    kept = bytes(data[: len(data) - cut])
    found = walk.go_over(kept, 0, 0, len(records) + more)
    event(f"{found[1]} regular records")
    assert found == PYTHON(kept, 0, 0, len(records) + more)


@compiled
@given(NUMBERS, st.binary(max_size=40))
def test_any_bytes_are_walked_over_alike_from_any_number_on(number: int, some: bytes) -> None:
    body = b"\0\0" + encode_varint(number) + some
    for data in (some, encode_varint(len(body)) + body, encode_varint(len(body) + 3) + body + b"\1\1\0"):
        assert walk.go_over(data, 0, number, number + 2) == PYTHON(data, 0, number, number + 2)


@pytest.mark.costly
@compiled
def test_a_history_is_the_same_both_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    traces = []
    for go_over in (walk.go_over, PYTHON):
        monkeypatch.setattr(overview, "go_over", go_over)
        simulation = Simulation(7)
        simulation.at(1500)
        traces.append(simulation.trace)
    assert traces[0] == traces[1]
    assert any(event.name == "high_watermark" and event.fields["partition"] == "t-0" for event in traces[0])


def test_a_number_that_is_too_long_ends_the_walk() -> None:
    """Each in turn: no number of a record takes more bytes than it needs, or has more than its bits."""
    good = [b"\0", b"\0", b"\0", b"\x02k", b"\x02v", b"\0"]  # attributes, timestamp, offset, key, value, headers
    for place in range(1, 6):
        for number in (b"\x80\x00", b"\x80\x80\x80\x80\x80\x00", b"\xff" * 10 + b"\0"):
            body = b"".join([*good[:place], number, *good[place + 1 :]])
            for go_over in (walk.go_over, PYTHON):
                assert go_over(encode_varint(len(body)) + body, 0, 0, 1)[:2] == (0, 0), (place, number)


def test_a_record_that_is_cut_ends_the_walk() -> None:
    builder = RecordBatchBuilder()
    builder.append(0, b"k", b"v", [("h", b"0123456789")])
    whole = bytes(builder.build()[HEADER_BYTES:])
    for size in range(len(whole)):
        for go_over in (overview.go_over, PYTHON):
            assert go_over(whole[:size], 0, 0, 1)[:2] == (0, 0), size
    assert walk.go_over(whole, 0, 0, 1)[:2] == (len(whole), 1)
