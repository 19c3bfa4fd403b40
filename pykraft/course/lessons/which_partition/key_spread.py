"""How evenly a partitioner spreads keys: the sums of notebook 08, without a cluster.

A partitioner is a function ``(key, partitions) -> partition``. Keys have weights: how many records each has. With s as
the exponent of Zipf's law, the n-th of the keys has the weight 1/n**s.
"""

from collections.abc import Callable, Mapping

from pykraft.client.producing.partitioner import partition_of_key
from pykraft.viz import Figure, bars

Partitioner = Callable[[bytes, int], int]


def loads(choose: Partitioner, weights: Mapping[bytes, float], partitions: int) -> list[float]:
    """The weight that each partition gets."""
    found = [0.0] * partitions
    for key, weight in weights.items():
        found[choose(key, partitions)] += weight
    return found


def overload(loads: list[int] | list[float]) -> float:
    """The fullest partition, in means."""
    return max(loads) * len(loads) / sum(loads)


def zipf(keys: int, skew: float) -> dict[bytes, float]:
    """So many keys whose weights follow Zipf's law."""
    return {b"key-%d" % rank: rank**-skew for rank in range(1, keys + 1)}


def fullest_share(weights: Mapping[bytes, float], partitions: int) -> float:
    """Of all records, the per cent that are in the fullest partition, by murmur2."""
    found = loads(partition_of_key, weights, partitions)
    return 100 * max(found) / sum(found)


def hottest_share(weights: Mapping[bytes, float]) -> float:
    """Of all records, the per cent that belong to the hottest key."""
    return 100 * max(weights.values()) / sum(weights.values())


def draw_spread(partitions: int, skew: int) -> Figure:
    """How 500 keys fill the partitions; `skew` is ten times the exponent, as a slider gives it."""
    found = loads(partition_of_key, zipf(500, skew / 10), partitions)
    shares = [100 * load / sum(found) for load in found]
    return bars(
        {f"partition {number}": share for number, share in enumerate(shares)},
        unit="% of all records",
        title=f"{partitions} partitions, s = {skew / 10}: the fullest has {max(shares):.0f} % of all records",
        note="500 keys, spread by murmur2.",
    )
