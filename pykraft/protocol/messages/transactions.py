"""Messages of idempotent and transactional producers.

A producer id with its epoch and the sequence numbers of its batches lets a leader tell a repeated batch from a new one
(KIP-98). A broker takes ids from a block that the controller allots it with AllocateProducerIds.

A transaction writes to several partitions as one. Its coordinator knows which (AddPartitionsToTxn, AddOffsetsToTxn),
takes the decision (EndTxn), and has it written into each of them (WriteTxnMarkers). The offsets of a consumer group can
be part of it (TxnOffsetCommit). DescribeProducers, DescribeTransactions and ListTransactions show what is going on.

Follows Kafka's message definitions (clients/src/main/resources/common/message).
"""

from pykraft.common.errors import KafkaError
from pykraft.common.types import ZERO_UUID
from pykraft.protocol.listeners import BROKER
from pykraft.protocol.schema import (
    Array,
    Request,
    Response,
    Struct,
    boolean,
    field,
    int8,
    int16,
    int32,
    int64,
    string,
    uuid,
)

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1


class InitProducerIdRequest(Request, api=22, versions=(0, 5), flexible=2, listeners=BROKER):
    """Asks for a producer id: a fresh one, or for a transactional id its own with a higher epoch, which fences the
    producer that used it before. A producer that names its present id and epoch wants only the epoch raised
    (KIP-360)."""

    transactional_id: string | None = field(default=None)
    transaction_timeout_ms: int32
    producer_id: int64 = field(default=NO_PRODUCER_ID, since=3)
    producer_epoch: int16 = field(default=NO_PRODUCER_EPOCH, since=3)


class InitProducerIdResponse(Response, to=InitProducerIdRequest):
    """The producer id and epoch to write with."""

    throttle_time_ms: int32 = field(default=0)
    error_code: int16 = field(default=0)
    producer_id: int64 = field(default=NO_PRODUCER_ID)
    producer_epoch: int16 = field(default=NO_PRODUCER_EPOCH)


class AddPartitionsToTxnRequest(Request, api=24, versions=(0, 5), flexible=3, listeners=BROKER):
    """These partitions are part of the transaction. Until version 3 a producer sends it before it writes to them; from
    version 4 on a partition's leader asks for several producers at once, with `verify_only` if it merely wants to know
    whether the partition is part of the transaction already (KIP-890)."""

    class Topic(Struct):
        name: string
        partitions: Array[int32]

    class Transaction(Struct):
        class Topic(Struct):
            name: string
            partitions: Array[int32]

        transactional_id: string = field(since=4)
        producer_id: int64 = field(since=4)
        producer_epoch: int16 = field(since=4)
        verify_only: boolean = field(default=False, since=4)
        topics: Array[Topic] = field(since=4)

    transactions: Array[Transaction] = field(default=(), since=4)
    v3_and_below_transactional_id: string = field(default="", until=3)
    v3_and_below_producer_id: int64 = field(default=0, until=3)
    v3_and_below_producer_epoch: int16 = field(default=0, until=3)
    v3_and_below_topics: Array[Topic] = field(default=(), until=3)

    def refusal(self, error: KafkaError) -> "AddPartitionsToTxnResponse":
        """Until version 3 each partition gets the error; from version 4 on the response as a whole."""
        topic_type = AddPartitionsToTxnResponse.Topic
        return AddPartitionsToTxnResponse(
            error_code=error.code,
            results_by_topic_v3_and_below=[
                topic_type(
                    name=topic.name,
                    results_by_partition=[
                        topic_type.Partition(partition_index=index, partition_error_code=error.code)
                        for index in topic.partitions
                    ],
                )
                for topic in self.v3_and_below_topics
            ],
        )


class AddPartitionsToTxnResponse(Response, to=AddPartitionsToTxnRequest):
    """Whether each partition is part of its transaction now."""

    class Topic(Struct):
        class Partition(Struct):
            partition_index: int32
            partition_error_code: int16 = field(default=0)

        name: string
        results_by_partition: Array[Partition]

    class Transaction(Struct):
        class Topic(Struct):
            class Partition(Struct):
                partition_index: int32
                partition_error_code: int16 = field(default=0)

            name: string
            results_by_partition: Array[Partition]

        transactional_id: string = field(since=4)
        topic_results: Array[Topic] = field(since=4)

    throttle_time_ms: int32 = field(default=0)
    error_code: int16 = field(default=0, since=4)
    results_by_transaction: Array[Transaction] = field(default=(), since=4)
    results_by_topic_v3_and_below: Array[Topic] = field(default=(), until=3)


class AddOffsetsToTxnRequest(Request, api=25, versions=(0, 4), flexible=3, listeners=BROKER):
    """The transaction will commit offsets of this group: the group's partition of ``__consumer_offsets`` is part of
    it."""

    transactional_id: string
    producer_id: int64
    producer_epoch: int16
    group_id: string


class AddOffsetsToTxnResponse(Response, to=AddOffsetsToTxnRequest):
    """Whether the group's partition is part of the transaction now."""

    throttle_time_ms: int32 = field(default=0)
    error_code: int16 = field(default=0)


class EndTxnRequest(Request, api=26, versions=(0, 5), flexible=3, listeners=BROKER):
    """Commit or abort. In version 5 the producer's epoch rises with each transaction, so that nothing which is late
    gets into the next one (KIP-890)."""

    transactional_id: string
    producer_id: int64
    producer_epoch: int16
    committed: boolean


class EndTxnResponse(Response, to=EndTxnRequest):
    """The transaction will end so, whatever happens. From version 5 on with the producer id and epoch for the next."""

    throttle_time_ms: int32 = field(default=0)
    error_code: int16 = field(default=0)
    producer_id: int64 = field(default=NO_PRODUCER_ID, since=5)
    producer_epoch: int16 = field(default=NO_PRODUCER_EPOCH, since=5)


class WriteTxnMarkersRequest(Request, api=27, versions=(1, 2), flexible=1, listeners=BROKER):
    """From a transaction coordinator to a partition's leader: append the marker that ends the transaction there."""

    class Marker(Struct):
        class Topic(Struct):
            name: string
            partition_indexes: Array[int32]

        producer_id: int64
        producer_epoch: int16
        transaction_result: boolean
        topics: Array[Topic]
        coordinator_epoch: int32
        transaction_version: int8 = field(default=0, since=2)

    markers: Array[Marker]

    def refusal(self, error: KafkaError) -> "WriteTxnMarkersResponse":
        """Each partition of each marker gets the error."""
        marker_type = WriteTxnMarkersResponse.Marker
        return WriteTxnMarkersResponse(
            markers=[
                marker_type(
                    producer_id=marker.producer_id,
                    topics=[
                        marker_type.Topic(
                            name=topic.name,
                            partitions=[
                                marker_type.Topic.Partition(partition_index=index, error_code=error.code)
                                for index in topic.partition_indexes
                            ],
                        )
                        for topic in marker.topics
                    ],
                )
                for marker in self.markers
            ]
        )


class WriteTxnMarkersResponse(Response, to=WriteTxnMarkersRequest):
    """Which markers are in their logs."""

    class Marker(Struct):
        class Topic(Struct):
            class Partition(Struct):
                partition_index: int32
                error_code: int16

            name: string
            partitions: Array[Partition]

        producer_id: int64
        topics: Array[Topic]

    markers: Array[Marker]


class TxnOffsetCommitRequest(Request, api=28, versions=(0, 6), flexible=3, listeners=BROKER):
    """Commit these offsets of a group when the transaction commits. From version 3 on the member of the group is named,
    so that a consumer which has lost its partitions is fenced (KIP-447); from version 5 on the group's coordinator adds
    its partition to the transaction itself (KIP-890); from version 6 on topics go by their ids, so that no offset is
    committed for a later topic of the same name."""

    class Topic(Struct):
        class Partition(Struct):
            partition_index: int32
            committed_offset: int64
            committed_leader_epoch: int32 = field(default=-1, since=2)
            committed_metadata: string | None

        name: string = field(default="", until=5)
        topic_id: uuid = field(default=ZERO_UUID, since=6)
        partitions: Array[Partition]

    transactional_id: string
    group_id: string
    producer_id: int64
    producer_epoch: int16
    generation_id_or_member_epoch: int32 = field(default=-1, since=3)
    member_id: string = field(default="", since=3)
    group_instance_id: string | None = field(default=None, since=3)
    topics: Array[Topic]

    def refusal(self, error: KafkaError) -> "TxnOffsetCommitResponse":
        """Each partition gets the error."""
        topic_type = TxnOffsetCommitResponse.Topic
        return TxnOffsetCommitResponse(
            topics=[
                topic_type(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partitions=[
                        topic_type.Partition(partition_index=partition.partition_index, error_code=error.code)
                        for partition in topic.partitions
                    ],
                )
                for topic in self.topics
            ]
        )


class TxnOffsetCommitResponse(Response, to=TxnOffsetCommitRequest):
    """What became of each offset."""

    class Topic(Struct):
        class Partition(Struct):
            partition_index: int32
            error_code: int16 = field(default=0)

        name: string = field(default="", until=5)
        topic_id: uuid = field(default=ZERO_UUID, since=6)
        partitions: Array[Partition]

    throttle_time_ms: int32 = field(default=0)
    topics: Array[Topic]


class DescribeProducersRequest(Request, api=61, versions=(0, 0), flexible=0, listeners=BROKER):
    """Which producers does the leader of each partition know (KIP-664)?"""

    class Topic(Struct):
        name: string
        partition_indexes: Array[int32]

    topics: Array[Topic]

    def refusal(self, error: KafkaError) -> "DescribeProducersResponse":
        """Each partition gets the error."""
        topic_type = DescribeProducersResponse.Topic
        return DescribeProducersResponse(
            topics=[
                topic_type(
                    name=topic.name,
                    partitions=[
                        topic_type.Partition(partition_index=index, error_code=error.code)
                        for index in topic.partition_indexes
                    ],
                )
                for topic in self.topics
            ]
        )


class DescribeProducersResponse(Response, to=DescribeProducersRequest):
    """The producers of each partition, and where the open transaction of each begins."""

    class Topic(Struct):
        class Partition(Struct):
            class Producer(Struct):
                producer_id: int64
                producer_epoch: int32
                last_sequence: int32 = field(default=-1)
                last_timestamp: int64 = field(default=-1)
                coordinator_epoch: int32
                current_txn_start_offset: int64 = field(default=-1)

            partition_index: int32
            error_code: int16 = field(default=0)
            error_message: string | None = field(default=None)
            active_producers: Array[Producer] = field(default=())

        name: string
        partitions: Array[Partition]

    throttle_time_ms: int32 = field(default=0)
    topics: Array[Topic]


class DescribeTransactionsRequest(Request, api=65, versions=(0, 0), flexible=0, listeners=BROKER):
    """How far have the transactions of these transactional ids come (KIP-664)?"""

    transactional_ids: Array[string]

    def refusal(self, error: KafkaError) -> "DescribeTransactionsResponse":
        """Each transactional id gets the error."""
        state_type = DescribeTransactionsResponse.TransactionState
        return DescribeTransactionsResponse(
            transaction_states=[
                state_type(transactional_id=each, error_code=error.code) for each in self.transactional_ids
            ]
        )


class DescribeTransactionsResponse(Response, to=DescribeTransactionsRequest):
    """The state of each transactional id, and the partitions of its transaction."""

    class TransactionState(Struct):
        class Topic(Struct):
            topic: string
            partitions: Array[int32]

        error_code: int16 = field(default=0)
        transactional_id: string
        transaction_state: string = field(default="")
        transaction_timeout_ms: int32 = field(default=0)
        transaction_start_time_ms: int64 = field(default=0)
        producer_id: int64 = field(default=0)
        producer_epoch: int16 = field(default=0)
        topics: Array[Topic] = field(default=())

    throttle_time_ms: int32 = field(default=0)
    transaction_states: Array[TransactionState]


class ListTransactionsRequest(Request, api=66, versions=(0, 2), flexible=0, listeners=BROKER):
    """Which transactional ids does this coordinator know (KIP-664)? Filters that are empty let all pass. From version 1
    on also by how long the transaction has been open (KIP-994), from version 2 on by a regular expression for the id
    (KIP-1152)."""

    state_filters: Array[string]
    producer_id_filters: Array[int64]
    duration_filter: int64 = field(default=-1, since=1)
    transactional_id_pattern: string | None = field(default=None, since=2)


class ListTransactionsResponse(Response, to=ListTransactionsRequest):
    """The transactional ids that pass, and the states that were asked for and do not exist."""

    class TransactionState(Struct):
        transactional_id: string
        producer_id: int64
        transaction_state: string

    throttle_time_ms: int32 = field(default=0)
    error_code: int16 = field(default=0)
    unknown_state_filters: Array[string] = field(default=())
    transaction_states: Array[TransactionState] = field(default=())
