"""ElectLeaders: an administrator asks for elections (KIP-183, KIP-460).

A client sends it to any broker, which forwards it in an Envelope to the active controller. The answer comes when the
new leaders are committed in the metadata log; brokers may see them a moment later.
"""

from enum import IntEnum

from pykraft.common.errors import KafkaError
from pykraft.protocol.listeners import BOTH
from pykraft.protocol.schema import Array, Request, Response, Struct, field, int8, int16, int32, string


class ElectionType(IntEnum):
    """Which replica is to lead."""

    PREFERRED = 0
    """The first of the assignment, if it is in sync."""
    UNCLEAN = 1
    """Any that is alive, if the partition has no leader. It may lack records that were acknowledged."""


class ElectLeadersRequest(Request, api=43, versions=(0, 2), flexible=2, listeners=BOTH, forwardable=True):
    """Elect leaders of these partitions; null means of all."""

    class TopicPartitions(Struct):
        topic: string
        partitions: Array[int32]

    election_type: int8 = field(default=ElectionType.PREFERRED, since=1)
    topic_partitions: Array[TopicPartitions] | None
    timeout_ms: int32 = field(default=60_000)

    def refusal(self, error: KafkaError) -> "ElectLeadersResponse":
        """Each partition that is named gets the error, and from version 1 on the answer as a whole."""
        result_type = ElectLeadersResponse.ReplicaElectionResult
        code, message = error.code, error.detail or None
        return ElectLeadersResponse(
            error_code=code,
            replica_election_results=[
                result_type(
                    topic=topic.topic,
                    partition_result=[
                        result_type.PartitionResult(partition_id=number, error_code=code, error_message=message)
                        for number in topic.partitions
                    ],
                )
                for topic in self.topic_partitions or ()
            ],
        )


class ElectLeadersResponse(Response, to=ElectLeadersRequest):
    """What became of each election."""

    class ReplicaElectionResult(Struct):
        class PartitionResult(Struct):
            partition_id: int32
            error_code: int16 = field(default=0)
            error_message: string | None = field(default=None)

        topic: string
        partition_result: Array[PartitionResult]

    throttle_time_ms: int32 = field(default=0)
    error_code: int16 = field(default=0, since=1)
    replica_election_results: Array[ReplicaElectionResult]
