"""Nothing of zstd but its error: no history draws that codec."""


class ZstdError(Exception):
    """What pykraft catches."""
