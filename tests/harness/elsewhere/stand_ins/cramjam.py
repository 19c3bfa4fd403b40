"""Nothing of snappy but its error: no history draws that codec."""


class DecompressionError(Exception):
    """What pykraft catches."""
