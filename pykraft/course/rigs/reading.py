"""Reading a topic to its end: what the notebooks on keys and on compaction look at.

`read_to_end` returns the records of some partitions, each list in order of offsets. It reads with a `Consumer` that
belongs to no group, up to the ends that the leaders name at the start. A compacted log may have no record at its last
offsets, so it is the consumer's position that ends the reading.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pykraft.common.types import TopicPartition
from pykraft.consumer import Consumer, ConsumerRecord

if TYPE_CHECKING:
    from pykraft.cluster import Cluster

_POLL_MS = 500


def read_to_end(
    cluster: "Cluster", topic: str, partitions: Sequence[int] = (0,), start: int = 0
) -> list[list[ConsumerRecord]]:
    """The records of each of these partitions from offset `start` on, or from where the log begins."""
    places = [TopicPartition(topic, number) for number in partitions]
    found: dict[TopicPartition, list[ConsumerRecord]] = {place: [] for place in places}
    with Consumer(bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign(places)
        for place in places:
            consumer.seek(place, start)
        ends = consumer.end_offsets(places)
        while any(consumer.position(place) < ends[place] for place in places):
            for place, records in consumer.poll(_POLL_MS).items():
                found[place] += records
    return list(found.values())
