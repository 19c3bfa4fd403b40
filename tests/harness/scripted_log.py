"""Partitions as a leader keeps them, in thirty lines: what is written once, in order, and what is refused (KIP-98).

It stands behind a scripted producer, so that a test can lose what it wants (a request, or only its answer) and then
look at what is in the log.
"""

from __future__ import annotations

from typing import NamedTuple

from pykraft.common.errors import ErrorCode
from pykraft.common.types import TopicPartition
from pykraft.protocol.messages.data import ProduceRequest, ProduceResponse
from pykraft.records.batch import RecordBatch

REMEMBERED = 5


class Written(NamedTuple):
    """A batch that is known again."""

    first_sequence: int
    last_sequence: int
    base_offset: int


class ScriptedLog:
    """All partitions of a small cluster."""

    def __init__(self) -> None:
        self.values: dict[TopicPartition, list[bytes]] = {}
        self._producers: dict[tuple[TopicPartition, int], list[Written]] = {}

    def carry_out(self, request: ProduceRequest) -> ProduceResponse:
        """Append what may be appended; the answer."""
        topic_type = ProduceResponse.Topic
        return ProduceResponse(
            responses=[
                topic_type(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partition_responses=[
                        self._append(TopicPartition(topic.name, partition.index), bytes(partition.records or b""))
                        for partition in topic.partition_data
                    ],
                )
                for topic in request.topic_data
            ]
        )

    def restart(self) -> None:
        """What a broker knows of producers after an orderly stop: the last batch of each (its snapshot has no more)."""
        for known in self._producers.values():
            del known[:-1]

    def _append(self, key: TopicPartition, data: bytes) -> ProduceResponse.Topic.Partition:
        batch = RecordBatch(memoryview(data))
        assert batch.is_valid
        log = self.values.setdefault(key, [])
        answer = ProduceResponse.Topic.Partition(index=key.partition, base_offset=len(log))
        if batch.has_producer_id:
            known = self._producers.setdefault((key, batch.producer_id), [])
            for written in known:
                if (batch.base_sequence, batch.last_sequence) == written[:2]:
                    answer.base_offset = written.base_offset
                    return answer
            if known and batch.base_sequence != known[-1].last_sequence + 1:
                answer.base_offset = -1
                answer.error_code = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
                return answer
            known.append(Written(batch.base_sequence, batch.last_sequence, len(log)))
            del known[:-REMEMBERED]
        log += [record.value or b"" for record in batch.records()]
        return answer


def refused(request: ProduceRequest, error: ErrorCode) -> ProduceResponse:
    """Every partition of the request gets this error."""
    topic_type = ProduceResponse.Topic
    return ProduceResponse(
        responses=[
            topic_type(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    topic_type.Partition(index=partition.index, error_code=error, base_offset=-1)
                    for partition in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )


def sequences(request: ProduceRequest) -> dict[int, tuple[int, int]]:
    """By partition (producer id, first sequence) of the request's batches."""
    found = {}
    for topic in request.topic_data:
        for partition in topic.partition_data:
            batch = RecordBatch(memoryview(bytes(partition.records or b"")))
            found[partition.index] = (batch.producer_id, batch.base_sequence)
    return found
