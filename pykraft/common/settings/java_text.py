"""What Java sees in a text where Python sees something else.

A setting goes through Java's `Double.parseDouble` in Kafka, and a limit on a text counts what `String.length` counts.
Values that one side takes must be taken by the other.
"""

import re
from decimal import Decimal
from math import isfinite

_DOUBLE = re.compile(
    r"[+-]?(?P<number>0[xX](?=\.?[\da-fA-F])[\da-fA-F]*\.?[\da-fA-F]*[pP][+-]?\d+"
    r"|(?=\.?\d)\d*\.?\d*(?:[eE][+-]?\d+)?"
    r"|NaN|Infinity)(?P<width>[fFdD]?)",
    re.ASCII,
)


def java_length(text: str) -> int:
    """How many UTF-16 code units the text has: a character beyond 16 bits, such as an emoji, has two."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def parse_double(text: str) -> float:
    """A number as Double.parseDouble reads it: it may end in d or f, and be in hexadecimal. ValueError: it is none."""
    text = text.strip()
    found = _DOUBLE.fullmatch(text)
    if found is None or (found["width"] and found["number"] in ("NaN", "Infinity")):
        raise ValueError(text)
    number = text.removesuffix(found["width"])
    return float.fromhex(number) if "x" in number.lower() else float(number)


def format_double(value: float) -> str:
    """The number as Double.toString writes it: 0.5, 1.0E7, 1.0E-4."""
    if value == 0 or not isfinite(value) or 1e-3 <= abs(value) < 1e7:
        return {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}.get(str(value), str(value))
    digits, _, exponent = f"{Decimal(repr(value)).normalize():E}".partition("E")
    return f"{digits}{'' if '.' in digits else '.0'}E{int(exponent)}"
