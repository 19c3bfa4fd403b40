"""The answer to a request that is refused as a whole, where a client looks for an error at each partition.

Many requests name partitions in one way, a list of topics with `name` and `partitions`, each with its
`partition_index`, and their answers name them in the same way. `each_partition` serves these. Produce, Fetch and
OffsetForLeaderEpoch have names of their own.

Follows the methods getErrorResponse of the requests in org.apache.kafka.common.requests.
"""

from collections.abc import Iterable
from typing import Any

from pykraft.common.errors import KafkaError


def each_partition(topic_type: Any, topics: Iterable[Any], error: KafkaError) -> list[Any]:
    """A `topic_type` (the answer's Topic) for each topic asked about, with the error at each of its partitions."""
    return [
        topic_type(
            name=topic.name,
            partitions=[
                topic_type.Partition(partition_index=partition.partition_index, error_code=error.code)
                for partition in topic.partitions
            ],
        )
        for topic in topics
    ]
