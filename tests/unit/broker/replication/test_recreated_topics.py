"""A topic is deleted and made again under its name while a request, an answer or a timer is about the old one: each of
them is matched by the id of the topic, and by the very log that it was about."""

from __future__ import annotations

from typing import Any

import pytest

from pykraft.broker.replication.delayed import DelayedDeleteRecords, DelayedProduce, DeleteResult, ProduceResult
from pykraft.broker.replication.fetching import FetchParams, FetchPlace
from pykraft.broker.replication.partition import Partition
from pykraft.common.core import Promise, finish
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import TopicPartition
from pykraft.metadata.delta import MetadataDelta
from pykraft.protocol.messages.data import FetchRequest, FetchResponse, ListOffsetsRequest
from pykraft.protocol.messages.offsets import OffsetCommitRequest
from pykraft.protocol.messages.records import RemoveTopicRecord
from pykraft.records.compression import Compression
from pykraft.storage.answers import Isolation
from pykraft.storage.validator import UnpackBudget
from tests.harness.asking import delete
from tests.harness.lone_node import LoneNode
from tests.harness.storage import at, batch, open_log
from tests.harness.transactional_node import GROUPS, T, TransactionalNode, produced_error
from tests.unit.broker.replication.test_partition import image, registration
from tests.unit.broker.replication.test_replica_fetcher import BACKOFF_MS, begins_at, fetch_answer, following
from tests.unit.broker.requests.data.test_transactional_produce import batch as transactional

PLACE = TopicPartition("t", 0)


def recreate(lone: LoneNode, name: str = "t", **settings: str) -> Any:
    """Delete the topic and make it again; the id of the new one."""
    lone.ask(delete(name))
    lone.run()
    return lone.create(name, **settings)


# --- what a follower fetches ------------------------------------------------------------------------------------------


def another_log(old: Partition) -> Partition:
    """The follower of a new topic of the same name, in the same leader epoch."""
    made = Partition(1, old.key, open_log(), 1000, old._trace)
    made.update(registration(leader=2, epoch=5), image(), 0)
    return made


def test_a_fetch_answer_about_a_log_that_was_made_again_is_dropped() -> None:
    old, fetcher, script = following()
    script.poll()
    new = another_log(old)
    fetcher.remove(old)
    fetcher.add(new)
    script.answer(FetchRequest, fetch_answer(records=at(0, batch(), 5).buffer, high_watermark=1))
    assert (old.log.log_end_offset, new.log.log_end_offset, new.log.high_watermark) == (0, 0, 0)
    script.poll()
    assert script.asked(FetchRequest).session_epoch == 0, "all is asked for again"


def test_a_truncation_that_was_meant_for_a_log_that_was_made_again_is_dropped() -> None:
    old, fetcher, script = following(filled=3)
    script.poll()
    new = another_log(old)
    new.append_as_follower(at(0, batch(2), 5).buffer, 2)
    fetcher.remove(old)
    fetcher.add(new)
    leaders_end = FetchResponse.Topic.Partition.EpochEndOffset(epoch=4, end_offset=1)
    script.answer(FetchRequest, fetch_answer(diverging_epoch=leaders_end))
    assert new.log.log_end_offset == 2


def test_a_fetch_answer_is_dropped_if_the_log_ends_elsewhere_by_now() -> None:
    """It was truncated meanwhile. A gap is allowed in a log, so nothing else would refuse the records."""
    follower, _, script = following(filled=3)
    script.poll()
    follower.log.truncate_to(1)
    script.answer(FetchRequest, fetch_answer(records=at(3, batch(), 5).buffer, high_watermark=4))
    assert (follower.log.log_end_offset, follower.log.high_watermark) == (1, 0)


def test_an_answer_where_the_leaders_log_begins_is_dropped_if_the_log_here_goes_on_by_now() -> None:
    follower, _, script = following()
    script.poll()
    script.answer(FetchRequest, fetch_answer(error_code=ErrorCode.OFFSET_OUT_OF_RANGE))
    script.poll(BACKOFF_MS)
    follower.log.truncate_fully(40)
    script.answer(ListOffsetsRequest, begins_at(7))
    assert follower.log.log_start_offset == 40


# --- what waits at a leader -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [12, 13])
def test_a_produce_that_waits_for_its_verification_is_not_appended_to_a_new_topic_of_that_name(version: int) -> None:
    node = TransactionalNode(group_replicas=(1,))
    answer = node.produce(transactional(), version=version)
    question = node.asked()
    recreate(node.lone)
    node.answer(question)
    assert produced_error(answer) is ErrorCode.UNKNOWN_TOPIC_ID
    assert node.log(T).log_end_offset == 0


def test_a_batch_whose_check_pauses_is_not_appended_to_a_new_topic_of_that_name() -> None:
    lone = LoneNode()
    old = lone.create("t")
    large = batch(2, size=1 << 20, key=b"k", compression=Compression.ZSTD)
    replicas = lone.broker.replicas
    steps: Any = replicas.produce(PLACE, large, lone.now, needs_all=False, budget=UnpackBudget(), topic_id=old)
    next(steps)
    recreate(lone)
    with pytest.raises(KafkaError) as refused:
        finish(steps)
    assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_ID
    assert replicas.partitions[PLACE].log.log_end_offset == 0


def test_a_produce_is_not_acknowledged_by_the_high_watermark_of_a_new_topic_of_that_name() -> None:
    """It may begin to wait after the topic was deleted: its request pauses between its partitions."""
    lone = LoneNode()
    old = lone.create("t")
    info = lone.broker.replicas.partitions[PLACE].append_as_leader(batch(), lone.now)
    new = recreate(lone)
    replicas = lone.broker.replicas
    assert produced(lone.produce(new, batch(2).buffer)) is ErrorCode.NONE
    waits = ProduceResult(PLACE, None, info=info, topic_id=old)
    DelayedProduce(replicas, [waits]).is_decided()
    assert waits.error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    counts = ProduceResult(PLACE, None, info=info, topic_id=new)
    DelayedProduce(replicas, [counts]).is_decided()
    assert counts.error is ErrorCode.NONE


def produced(answer: Promise[Any]) -> ErrorCode:
    return ErrorCode.of(answer.value.response.responses[0].partition_responses[0].error_code)


def test_a_deletion_of_records_is_not_answered_by_a_new_topic_of_that_name() -> None:
    lone = LoneNode()
    old = lone.create("t")
    new = recreate(lone)
    for topic_id, error in ((old, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), (new, ErrorCode.NONE)):
        result = DeleteResult(PLACE, None, 0, 0, topic_id)
        DelayedDeleteRecords(lone.broker.replicas, [result]).is_decided()
        assert result.error is error


def test_a_fetch_by_the_old_id_reads_nothing_of_a_new_topic_of_that_name() -> None:
    lone = LoneNode()
    old = lone.create("t")
    new = recreate(lone)
    assert produced(lone.produce(new, batch(2).buffer)) is ErrorCode.NONE
    for topic_id, error in ((old, ErrorCode.INCONSISTENT_TOPIC_ID), (new, ErrorCode.NONE)):
        place = FetchPlace(PLACE, 0, 1 << 20, -1, -1, topic_id=topic_id)
        assert read(lone, place) == (error, error is ErrorCode.NONE)


def read(lone: LoneNode, place: FetchPlace) -> tuple[ErrorCode, bool]:
    """(the error, whether there were records)"""
    params = FetchParams(Isolation.HIGH_WATERMARK, 1 << 20)
    result = lone.broker.replicas.read(place, params, 1 << 20, at_least_one=True)
    return result.error, len(result.records) > 0


# --- what groups have committed ---------------------------------------------------------------------------------------


def test_offsets_of_a_topic_that_is_deleted_while_their_shard_loads_are_forgotten() -> None:
    node = TransactionalNode()
    groups, lone = node.lone.broker.groups, node.lone
    topic = OffsetCommitRequest.Topic
    part = topic.Partition(partition_index=0, committed_offset=7)
    lone.ask(OffsetCommitRequest(group_id="g", topics=[topic(name="t", partitions=[part])]), version=9)
    assert groups.runtime.active(0).offsets.of("g")[T].offset == 7
    groups.runtime.resign(0)
    groups.runtime.lead(0, groups._replicas.partitions[GROUPS].leader_epoch, lone.now)
    before = lone.node.loader.image
    delta = MetadataDelta(before)
    delta.replay(RemoveTopicRecord(topic_id=node.topic))
    image = delta.apply(before.provenance)
    assert groups.runtime.is_loading
    finish(groups.apply(delta, image, lone.now))
    lone.run(100)
    assert groups.runtime.active(0).offsets.of("g") == {}
    assert node.log(GROUPS).log_end_offset == 2, "a tombstone: the next coordinator finds nothing, either"
