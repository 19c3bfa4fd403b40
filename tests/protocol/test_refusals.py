"""A request that is refused as a whole says so in every version, where the clients of its API look for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import ZERO_UUID
from pykraft.protocol.api import apis
from pykraft.protocol.messages.admin import CreateTopicsRequest, DeleteTopicsRequest
from pykraft.protocol.messages.data import FetchRequest, ProduceRequest
from pykraft.protocol.messages.logs import DescribeLogDirsRequest
from pykraft.protocol.messages.quorum import DescribeQuorumRequest
from pykraft.protocol.schema import Request, Response, Struct
from tests.protocol.values import each_version, example

REFUSED = KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "why")


def error_codes(structure: Struct, version: int) -> Iterator[int]:
    """Every error code in a structure, its own and those of its parts."""
    for field in structure.fields:
        value = getattr(structure, field.name) if field.present(version) else None
        if field.name in ("error_code", "partition_error_code") and value is not None:
            yield value
        for part in value if isinstance(value, list | tuple) else [value]:
            if isinstance(part, Struct):
                yield from error_codes(part, version)


def received(request: Request, version: int) -> Response:
    """What the client reads when the request was refused."""
    refusal = request.refusal(REFUSED)
    assert refusal is not None
    return request.response.decode(refusal.to_bytes(version), version)


@each_version([api.request for api in apis.values()])
def test_a_refusal_has_the_error_code_and_no_other(message: type[Any], version: int) -> None:
    codes = set(error_codes(received(example(message, version), version), version))
    if message is DescribeLogDirsRequest and version < 3:
        assert not codes  # these versions have no place for it: the client sees an empty list, as from Kafka
    else:
        assert codes == {REFUSED.code}


def test_the_message_says_why_where_there_is_a_field_for_it() -> None:
    quorum: Any = received(example(DescribeQuorumRequest, 2), 2)
    assert quorum.error_message == "why"
    topics: Any = received(example(CreateTopicsRequest, 7), 7)
    assert [topic.error_message for topic in topics.topics] == ["why", "why"]


@pytest.mark.parametrize("version", [1, 6])
def test_each_topic_that_was_to_be_deleted_is_refused_by_what_named_it(version: int) -> None:
    request = example(DeleteTopicsRequest, version)
    response: Any = received(request, version)
    named = [(topic.name, topic.topic_id) for topic in request.topics] or [(n, ZERO_UUID) for n in request.topic_names]
    assert [(topic.name, topic.topic_id) for topic in response.responses] == named


def test_each_partition_of_a_produce_is_refused_and_without_acks_nothing_is_answered() -> None:
    request = example(ProduceRequest, 13)
    response: Any = received(request, 13)
    asked = [(topic.topic_id, part.index) for topic in request.topic_data for part in topic.partition_data]
    assert [(topic.topic_id, p.index) for topic in response.responses for p in topic.partition_responses] == asked
    assert request.replace(acks=0).refusal(REFUSED) is None


def test_a_refused_fetch_by_topic_ids_has_the_error_code_of_the_whole_alone() -> None:
    by_name: Any = received(example(FetchRequest, 12), 12)
    by_id: Any = received(example(FetchRequest, 13), 13)
    assert [len(topic.partitions) for topic in by_name.responses] == [2, 2]
    assert by_id.responses == []
    assert by_id.error_code == REFUSED.code
