"""The first picture of notebook 08: any key, three hash functions, and a number of partitions.

It is computed at each move: murmur2 is the producer's own (`partitioner.py`), murmur3 that of the library mmh3, CRC-32
that of zlib. The squares are the routes flown from New York in 2013, which notebook 08 writes later.
"""

from collections.abc import Callable
from functools import lru_cache
from zlib import crc32

import mmh3

from pykraft.client.producing.partitioner import murmur2, partition_of_key
from pykraft.course.lessons.which_partition.keyed_topics import routes_flown
from pykraft.viz import Figure, hash_paths
from pykraft.viz.clients.key_chart import KeyPath

_NO_SIGN = 0x7FFFFFFF
HASHES: dict[str, Callable[[bytes], int]] = {
    "murmur2": lambda key: murmur2(key) & _NO_SIGN,
    "murmur3": lambda key: mmh3.hash(key, signed=False),
    "CRC-32": crc32,
}
"""The numbers of which the remainder is taken."""
MOST_LETTERS = 40


def draw_key(key: str, partitions: int) -> Figure:
    """Where three hash functions put a key, and which routes are elsewhere than with one partition fewer. ValueError if
    nothing or very much was typed."""
    if not 1 <= len(key) <= MOST_LETTERS:
        raise ValueError(f"type a key of 1 to {MOST_LETTERS} letters")
    paths = [KeyPath(name, make(key.encode()), partitions, ()) for name, make in HASHES.items()]
    routes = _routes()
    moved = [
        partitions > 1 and partition_of_key(route, partitions) != partition_of_key(route, partitions - 1)
        for route in routes
    ]
    places = ", ".join(f"{path.key} says {path.remainder}" for path in paths)
    moves = f"{sum(moved)} that were elsewhere with {_counted(partitions - 1)}"
    squares = f"{len(routes)} routes, by murmur2; filled: the {moves}"
    if partitions == 1:
        squares = f"{len(routes)} routes: all in the one partition"
    return hash_paths(
        paths, partitions, moved, title=f"{key} in a topic of {_counted(partitions)}: {places}", squares=squares
    )


@lru_cache(maxsize=1)
def _routes() -> tuple[bytes, ...]:
    return tuple(routes_flown())


def _counted(partitions: int) -> str:
    return "1 partition" if partitions == 1 else f"{partitions} partitions"
