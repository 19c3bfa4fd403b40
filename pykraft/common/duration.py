"""Durations as text: ``P2DT3H4M5.678S``, days to seconds of ISO 8601, as java.time.Duration reads them.

Each part may have a sign, and so may the whole. Years, months and weeks are not allowed: their length is no fixed
number of milliseconds. Used by ``auto.offset.reset=by_duration:...`` (KIP-1106) and ``--by-duration``.
"""

import re

_DURATION = re.compile(
    r"([-+]?)P(?=.)(?:([-+]?[0-9]{1,9})D)?"
    r"(?:T(?=.)(?:([-+]?[0-9]{1,9})H)?(?:([-+]?[0-9]{1,9})M)?(?:([-+]?[0-9]{1,9}(?:[.,][0-9]{0,9})?)S)?)?",
    re.IGNORECASE,
)
_UNITS_MS = (86_400_000, 3_600_000, 60_000, 1000)


def parse_duration_ms(text: str) -> int:
    """The milliseconds of a duration, whole ones; ValueError if the text is none."""
    found = _DURATION.fullmatch(text)
    if found is None:
        raise ValueError(f"{text} is no duration")
    sign, *numbers = found.groups()
    parts = zip(numbers, _UNITS_MS, strict=True)
    total = int(sum(float(number.replace(",", ".")) * unit_ms for number, unit_ms in parts if number))
    return -total if sign == "-" else total
