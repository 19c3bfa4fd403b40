"""Scenarios of notebook 08: keys for its topics, and which partition holds which key, as a consumer finds it.

::

    routes_flown()                    the routes that were flown from New York in 2013 -> their flights, busiest first
    topic = read_topic(cluster, "routes")
    topic.counts                      the records of each partition
    topic.places[b"JFK-LAX"]          the partitions that hold records of the key
    topic.divided                     the keys that are in more than one partition
    topic.paths(keys)                 their ways, as `pykraft.viz.key_paths` draws them
    topic.strips(b"JFK-LAX")          the partitions that hold the key, as `pykraft.viz.key_order` draws them
    topic.handled(b"JFK-LAX")         the key's numbers in the order in which workers handle them

The workers are those of a consumer group: one for each partition, and in each turn every worker handles its next
record. Within a partition that is the log's order. Between two partitions it is the order of their positions, so a
backlog in one of them makes its records late.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from pykraft.client.producing.partitioner import murmur2
from pykraft.consumer import ConsumerRecord
from pykraft.course.rigs.reading import read_to_end
from pykraft.datasets import flights_table
from pykraft.viz.clients.key_chart import KeyPath, Strip

if TYPE_CHECKING:
    from pykraft.cluster import Cluster

_NO_SIGN = 0x7FFFFFFF


def routes_flown() -> dict[bytes, int]:
    """The routes, such as b"JFK-LAX", and how often each was flown in 2013. The busiest comes first."""
    return dict(Counter(_routes(days=366)).most_common())


def first_week() -> list[tuple[bytes, int]]:
    """The route of each flight of the first week, in the order of departures, and its number on that route."""
    flown: Counter[bytes] = Counter()
    found = []
    for route in _routes(days=7):
        flown[route] += 1
        found.append((route, flown[route]))
    return found


def _routes(days: int) -> list[bytes]:
    """The route of each flight of the first so many days of January, or of the whole year."""
    flights = flights_table(["month", "day", "origin", "dest"])
    columns = (flights[name].to_pylist() for name in flights.column_names)
    return [
        f"{origin}-{dest}".encode()
        for month, day, origin, dest in zip(*columns, strict=True)
        if days > 31 or (month == 1 and day <= days)
    ]


@dataclass(frozen=True)
class KeyedTopic:
    """What a topic holds: the records of each partition, in order of offsets."""

    partitions: Sequence[Sequence[ConsumerRecord]]

    @property
    def counts(self) -> list[int]:
        return [len(records) for records in self.partitions]

    @cached_property
    def places(self) -> dict[bytes, list[int]]:
        """The partitions of each key."""
        found: dict[bytes, list[int]] = {}
        for number, records in enumerate(self.partitions):
            for key in {record.key for record in records if record.key is not None}:
                found.setdefault(key, []).append(number)
        return found

    @property
    def divided(self) -> list[bytes]:
        return [key for key, places in self.places.items() if len(places) > 1]

    def paths(self, keys: Sequence[bytes]) -> list[KeyPath]:
        count = len(self.partitions)
        return [KeyPath(key.decode(), murmur2(key) & _NO_SIGN, count, tuple(self.places[key])) for key in keys]

    def strips(self, key: bytes) -> dict[str, Strip]:
        """A record of the key is its number, which is its value; a record of another key is None."""
        return {
            f"partition {number}": [
                int(record.value or b"") if record.key == key else None for record in self.partitions[number]
            ]
            for number in self.places[key]
        }

    def handled(self, *keys: bytes) -> list[int]:
        """The numbers of the records of these keys, one worker for each partition, one record a turn."""
        turns = (
            (turn, number, record)
            for number, records in enumerate(self.partitions)
            for turn, record in enumerate(records)
            if record.key in keys
        )
        return [int(record.value or b"") for _, _, record in sorted(turns, key=lambda each: each[:2])]


def read_topic(cluster: "Cluster", topic: str) -> KeyedTopic:
    """Read all partitions of a topic to their ends."""
    with cluster.admin() as admin:
        count = len(admin.describe_topics([topic])[topic].partitions)
    return KeyedTopic(read_to_end(cluster, topic, range(count)))
