"""CRC-32C, the checksum over a record batch (Castagnoli's polynomial, the one that processors have an instruction for).

`crc32c` comes from a compiled package: every produced byte passes through it, and pure Python runs a thousand times
slower. `crc32c_by_table` is the same function to be read: one table look-up a byte.

Follows org.apache.kafka.common.utils.Crc32C.
"""

from crc32c import crc32c as crc32c

POLYNOMIAL = 0x82F63B78  # x^32 + x^28 + x^27 + ... with the bits reversed


def _table_entry(octet: int) -> int:
    for _ in range(8):
        octet = (octet >> 1) ^ (POLYNOMIAL if octet & 1 else 0)
    return octet


_TABLE = [_table_entry(octet) for octet in range(256)]


def crc32c_by_table(data: bytes | memoryview, value: int = 0) -> int:
    """The checksum of `data`; `value` is that of what came before it."""
    value ^= 0xFFFFFFFF
    for octet in data:
        value = (value >> 8) ^ _TABLE[(value ^ octet) & 0xFF]
    return value ^ 0xFFFFFFFF
