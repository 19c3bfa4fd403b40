"""Decodes lz4 frames."""

_HEADER_BYTES = 7
_STORED = 1 << 31
_MANY = 15
_MIN_MATCH = 4


class LZ4FrameDecompressor:
    """Decodes one frame, given as a whole."""

    eof = False
    needs_input = True

    def decompress(self, data, max_length=-1):
        """What the frame holds."""
        data = bytes(data)
        position = _HEADER_BYTES
        found = bytearray()
        while size := int.from_bytes(data[position : position + 4], "little"):
            block = data[position + 4 : position + 4 + size % _STORED]
            position += 4 + len(block)
            found += block if size & _STORED else _decoded(block)
        self.eof = True
        return bytes(found)


def _decoded(block):
    found = bytearray()
    position = 0
    while True:
        token = block[position]
        count, position = _length(block, position + 1, token >> 4)
        found += block[position : position + count]
        position += count
        if position >= len(block):
            return found
        offset = int.from_bytes(block[position : position + 2], "little")
        count, position = _length(block, position + 2, token & _MANY)
        for _ in range(count + _MIN_MATCH):
            found.append(found[-offset])


def _length(block, position, count):
    """A length that begins in the token, and where what follows it begins."""
    more = 255 if count == _MANY else 0
    while more == 255:
        more = block[position]
        position += 1
        count += more
    return count, position
