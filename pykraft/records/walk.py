"""The walk over regular records: the innermost loop of producing, compiled where there is a compiler.

A record is *regular* if it is written as Kafka's clients write it: numbers in as few bytes as possible, no attributes,
the offset delta that is next, fields that fill the record; and if it has at most 63 headers. `go_over` goes from one
such record to the next, adds up what a leader asks of them (see `overview`), and stops before the first that is not
regular, or that does not end here.

These are a few dozen steps for each record, and nothing else: no object, no memory. Python takes a microsecond or two
for them, a processor some ten nanoseconds. So this module, and no other, is translated to C when pykraft is installed,
by mypyc, from these very lines: `i64` in an annotation is a number in a register. Where there is no compiler the same
lines run as Python, and nothing but the time differs. Nothing of the compiler's package is needed when it runs.

Numbers stay zigzag numbers (see `varint`) as long as possible: 1 is -1, the length of what is null; any other odd
number is no length.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mypy_extensions import i64

_NO_NUMBER: Final = -1
"""Instead of a number that takes more bytes than it needs, or more than it may. It is odd, so it is no length."""
_NOWHERE: Final = -1
"""Where no record ends."""


def go_over(data: bytes, position: i64, number: i64, count: i64) -> tuple[i64, i64, i64, i64, i64, i64]:
    """Go from record to record, from record `number` at `position` on, until there were `count`.

    Returns where the next record begins, its number; and of the records in between the smallest and the largest
    timestamp delta, how many have no key, and how many headers they have. Nothing is noted of a record before it is
    known to be regular."""
    smallest: i64 = 1 << 62
    largest: i64 = -(1 << 62)
    without_key: i64 = 0
    all_headers: i64 = 0
    known_stamp: i64 = -1
    try:
        while number < count:
            end, stamp, key, headers = _record(data, position, number)
            if end == _NOWHERE or end > len(data):
                break
            if stamp != known_stamp:
                known_stamp = stamp
                delta: i64 = (stamp >> 1) ^ -(stamp & 1)
                if delta < smallest:
                    smallest = delta
                if delta > largest:
                    largest = delta
            if key == 1:
                without_key += 1
            all_headers += headers
            position = end
            number += 1
    except IndexError:
        pass  # a field leaves the data
    return position, number, smallest, largest, without_key, all_headers


def _record(data: bytes, at: i64, number: i64) -> tuple[i64, i64, i64, i64]:
    """(where it ends, zigzag numbers of its timestamp delta and of its key's length, number of headers) of the record
    that begins at `at`; it ends _NOWHERE if it is not regular."""
    two: i64
    length: i64 = data[at]
    at += 1
    if length > 127:  # two bytes, as a rule
        two = length & 127 | data[at] << 7
        length, at = (two, at + 1) if 127 < two < 16384 else _rest(data, at, length, 5)
    end: i64 = at + (length >> 1)
    stamp: i64 = data[at + 1]
    if length & 1 or data[at]:  # attributes
        return _NOWHERE, 0, 0, 0
    at += 2
    if stamp > 127:
        stamp, at = _rest(data, at, stamp, 9)
    offset: i64 = data[at]
    at += 1
    if offset > 127:  # two bytes, as a rule
        two = offset & 127 | data[at] << 7
        offset, at = (two, at + 1) if 127 < two < 16384 else _rest(data, at, offset, 5)
    if offset != number << 1:
        return _NOWHERE, 0, 0, 0
    key: i64 = data[at]
    at += 1
    if key > 127:
        key, at = _rest(data, at, key, 5)
    if not key & 1:
        at += key >> 1
    elif key != 1:
        return _NOWHERE, 0, 0, 0
    value: i64 = data[at]
    at += 1
    if value > 127:  # two bytes, as a rule
        two = value & 127 | data[at] << 7
        value, at = (two, at + 1) if 127 < two < 16384 else _rest(data, at, value, 5)
    if not value & 1:
        at += value >> 1
    elif value != 1:
        return _NOWHERE, 0, 0, 0
    headers: i64 = data[at]
    at += 1
    if headers:
        if headers & 0x81:  # negative, or longer than a byte
            return _NOWHERE, 0, 0, 0
        headers >>= 1
        at = _after_headers(data, at, headers)
    if at != end or stamp < 0:
        return _NOWHERE, 0, 0, 0
    return end, stamp, key, headers


def _rest(data: bytes, at: i64, octet: i64, most_bytes: i64) -> tuple[i64, i64]:
    """(zigzag number, position after it) of a number whose first byte is `octet`, before `at`, and says that there are
    more. A number of five bytes has at most 32 bits."""
    value: i64 = octet & 127
    shift: i64 = 7
    while octet > 127:
        if shift == 7 * most_bytes:
            return _NO_NUMBER, at
        octet = data[at]
        at += 1
        value |= (octet & 127) << shift
        shift += 7
    if not octet or (most_bytes == 5 and value >> 32):
        return _NO_NUMBER, at
    return value, at


def _after_headers(data: bytes, at: i64, count: i64) -> i64:
    """Where these headers end, the first of which begins at `at`; _NOWHERE if one is not regular."""
    while count:
        key: i64 = data[at]
        at += 1
        if key > 127:
            key, at = _rest(data, at, key, 5)
        if key & 1:  # a header has a key
            return _NOWHERE
        at += key >> 1
        value: i64 = data[at]
        at += 1
        if value > 127:
            value, at = _rest(data, at, value, 5)
        if not value & 1:
            at += value >> 1
        elif value != 1:
            return _NOWHERE
        count -= 1
    return at
