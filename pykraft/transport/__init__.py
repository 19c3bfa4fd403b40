"""One connection without its socket: bytes in, messages out, and the other way round. Pure, so it can be simulated."""
