"""CRC-32C by a table, one look-up a byte."""

_POLYNOMIAL = 0x82F63B78


def _entry(octet):
    for _ in range(8):
        octet = (octet >> 1) ^ (_POLYNOMIAL if octet & 1 else 0)
    return octet


_TABLE = [_entry(octet) for octet in range(256)]


def crc32c(data, value=0):
    """The checksum of `data`; `value` is that of what came before it."""
    table = _TABLE
    value ^= 0xFFFFFFFF
    for octet in bytes(data):
        value = (value >> 8) ^ table[(value ^ octet) & 0xFF]
    return value ^ 0xFFFFFFFF
