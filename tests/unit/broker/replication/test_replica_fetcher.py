"""A follower, word by word: what it asks its leader, and what it does with each answer; and the leader that asks the
controller for another ISR."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pykraft.broker.replication.alter_partition import AlterPartitionManager
from pykraft.broker.replication.partition import IsrChange, Partition
from pykraft.broker.replication.replica_fetcher import ReplicaFetcher
from pykraft.broker.replication.replication_quotas import ReplicationQuota, ReplicationQuotas
from pykraft.broker.replication.topic_metrics import BrokerTopicMetrics
from pykraft.broker.settings.config import NODE_CONFIG
from pykraft.broker.settings.live_settings import LiveSettings
from pykraft.broker.startup.controller_channel import ControllerChannel
from pykraft.common.core import Failure, Poll, merge
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.metrics import Metrics
from pykraft.common.rooms import Room
from pykraft.common.settings.topic_config import FOLLOWER_REPLICATION_THROTTLED_REPLICAS, LOG_CONFIG
from pykraft.common.timer import Timer
from pykraft.common.trace import Silence, Tracer
from pykraft.common.types import Node, TopicIdPartition
from pykraft.metadata.image import EMPTY_IMAGE
from pykraft.protocol.messages.brokers import AlterPartitionRequest, AlterPartitionResponse
from pykraft.protocol.messages.data import FetchRequest, FetchResponse, ListOffsetsRequest, ListOffsetsResponse
from pykraft.records.batch import ATTRIBUTES_OFFSET, CRC_OFFSET, LARGEST_OFFSET, MAGIC_OFFSET
from pykraft.records.crc32c import crc32c
from pykraft.storage.answers import Isolation
from tests.harness.scripted import Script
from tests.harness.storage import DIRECTORY, PARTITION, TOPIC_ID, at, batch, bytes_of, contents, fill, open_log
from tests.unit.broker.replication.test_partition import append, fetched, image, partition, registration

LEADER = Node(2, "h", 9092)
BACKOFF_MS = 1000
REQUIRED = {
    "process.roles": "broker",
    "node.id": "1",
    "listeners": "A://h:1",
    "controller.listener.names": "C",
}


UNLIMITED = ReplicationQuotas(1, LiveSettings(1, {}, lambda: EMPTY_IMAGE), now=lambda: 0)


def storage_error(_: OSError) -> KafkaError:
    return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)


def following(
    filled: int = 0,
    epoch: int = 5,
    on_disk_failure: Callable[[OSError], KafkaError] = storage_error,
    on_all_deleted: Callable[[], None] = lambda: None,
    on_news: Callable[[Partition], None] = lambda _: None,
    quotas: ReplicationQuotas = UNLIMITED,
) -> tuple[Partition, ReplicaFetcher, Script]:
    """Broker 1 follows broker 2; its log holds so many batches of epoch 4."""
    log = open_log()
    fill(log, filled, leader_epoch=4, count=1)
    follower = Partition(1, TopicIdPartition(TOPIC_ID, *PARTITION), log, 1000, Tracer(1, Silence()))
    follower.update(registration(leader=2, epoch=epoch), image(), 0)
    fetcher = ReplicaFetcher(
        broker_id=1,
        broker_epoch=lambda: 101,
        leader_id=2,
        node=LEADER,
        values=NODE_CONFIG.resolve(REQUIRED),
        trace=Tracer(1, Silence()),
        on_news=on_news,
        topic_metrics=BrokerTopicMetrics(Metrics()),
        quotas=quotas,
        on_all_deleted=on_all_deleted,
        on_disk_failure=on_disk_failure,
        room=Room("replicas"),
    )
    fetcher.add(follower)
    return follower, fetcher, Script(fetcher)


def fetch_answer(**fields: Any) -> FetchResponse:
    topic = FetchResponse.Topic
    part = topic.Partition(partition_index=0, high_watermark=0).replace(**fields)
    return FetchResponse(responses=[topic(topic_id=TOPIC_ID, partitions=[part])])


def test_it_says_where_its_log_ends_and_in_which_epoch() -> None:
    follower, _, script = following(filled=3)
    (outbound,) = script.poll()
    assert outbound.destination == LEADER
    request = script.asked(FetchRequest)
    assert request.replica_state is not None
    assert (request.replica_state.replica_id, request.replica_state.replica_epoch) == (1, 101)
    asked = request.topics[0].partitions[0]
    assert (asked.fetch_offset, asked.last_fetched_epoch, asked.current_leader_epoch) == (3, 4, 5)
    assert script.poll(60_000) == [], "one fetch at a time"
    assert follower.log.log_end_offset == 3


def test_what_comes_is_appended_and_committed_as_far_as_the_leader_says() -> None:
    follower, _, script = following(filled=3)
    script.poll()
    script.answer(FetchRequest, fetch_answer(records=at(3, batch(2), 5).buffer, high_watermark=4))
    assert (follower.log.log_end_offset, follower.log.high_watermark, follower.log.latest_epoch) == (5, 4, 5)
    script.poll()
    assert script.asked(FetchRequest).topics[0].partitions[0].fetch_offset == 5


def test_a_consumer_that_waits_here_is_told_when_the_high_watermark_rises_also_without_a_record() -> None:
    news: list[Partition] = []
    follower, _, script = following(filled=3, on_news=news.append)
    for high_watermark, count in ((2, 1), (2, 1), (3, 2)):
        script.poll()
        script.answer(FetchRequest, fetch_answer(high_watermark=high_watermark))
        assert news == [follower] * count


class Exceeded(ReplicationQuotas):
    """All replicas of the topic are throttled on broker 1, and it may fetch nothing until it is slower."""

    def __init__(self) -> None:
        self.limit = 0
        super().__init__(1, LiveSettings(1, {}, lambda: EMPTY_IMAGE), now=lambda: 0)
        self.follower = ReplicationQuota(1, FOLLOWER_REPLICATION_THROTTLED_REPLICAS, lambda: self.limit, lambda: 0)
        self.follower.set_topic(
            PARTITION.topic, LOG_CONFIG.resolve({FOLLOWER_REPLICATION_THROTTLED_REPLICAS.name: "*"})
        )


def test_a_throttled_follower_that_lags_fetches_nothing_while_its_quota_is_exceeded() -> None:
    quotas = Exceeded()
    follower, _, script = following(filled=3, quotas=quotas)
    script.poll()
    fetched = at(3, batch(2), 5).buffer
    script.answer(FetchRequest, fetch_answer(records=fetched, high_watermark=9))
    assert follower.log.log_end_offset == 5 and quotas.follower.is_exceeded
    assert script.poll(1) == [] and script.deadline == script.now + BACKOFF_MS
    quotas.limit = len(fetched)
    assert len(script.poll()) == 1


def test_a_throttled_follower_that_is_in_sync_goes_on_fetching() -> None:
    quotas = Exceeded()
    _, _, script = following(filled=3, quotas=quotas)
    script.poll()
    script.answer(FetchRequest, fetch_answer(records=at(3, batch(2), 5).buffer, high_watermark=5))
    assert quotas.follower.is_exceeded and len(script.poll()) == 1


def test_what_the_leader_has_deleted_is_deleted_here_and_said_with_the_next_fetch() -> None:
    follower, _, script = following(filled=3)
    script.poll()
    script.answer(FetchRequest, fetch_answer(high_watermark=3, log_start_offset=2))
    assert follower.log.log_start_offset == 2
    script.poll()
    assert script.asked(FetchRequest).topics[0].partitions[0].log_start_offset == 2


def test_a_disk_that_fails_is_reported_and_nothing_is_taken_for_appended() -> None:
    failures: list[OSError] = []

    def on_disk_failure(error: OSError) -> KafkaError:
        failures.append(error)
        return storage_error(error)

    follower, _, script = following(filled=3, on_disk_failure=on_disk_failure)
    disk: Any = follower.log._filesystem
    script.poll()
    disk.fail_after(0, OSError(5, "it fails"))
    script.answer(FetchRequest, fetch_answer(records=at(3, batch(2), 5).buffer, high_watermark=5))
    assert len(failures) == 1 and follower.log.log_end_offset == 3


@pytest.mark.parametrize(
    ("leaders_end", "end"),
    [
        ((4, 2), 2),  # the leader's epoch 4 is shorter
        ((4, 9), 3),  # ours is
        ((3, 0), 0),  # it knows no epoch 4 at all
    ],
)
def test_a_log_that_parts_from_the_leaders_is_cut_to_where_they_agree(leaders_end: tuple[int, int], end: int) -> None:
    follower, _, script = following(filled=3)
    script.poll()
    epoch, offset = leaders_end
    diverging = FetchResponse.Topic.Partition.EpochEndOffset(epoch=epoch, end_offset=offset)
    script.answer(FetchRequest, fetch_answer(diverging_epoch=diverging))
    assert follower.log.log_end_offset == end
    assert len(script.poll()) == 1, "and it asks again at once"


def forged(data: bytes, base_offset: int = 3, last_offset_delta: int = 0) -> bytes:
    """Another place for a batch, with the right checksum."""
    body = data[ATTRIBUTES_OFFSET : ATTRIBUTES_OFFSET + 2] + last_offset_delta.to_bytes(4, signed=True)
    body += data[ATTRIBUTES_OFFSET + len(body) :]
    return base_offset.to_bytes(8) + data[8:CRC_OFFSET] + crc32c(body).to_bytes(4) + body


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: data[:-1] + bytes([data[-1] ^ 1]),  # the checksum
        lambda data: bytes(at(1, batch(), 5).buffer),  # an offset that is taken (a gap is none: logs are compacted)
        lambda data: forged(data, last_offset_delta=-1),
        lambda data: forged(data, last_offset_delta=-100),
        lambda data: forged(data, base_offset=LARGEST_OFFSET),
    ],
)
def test_what_cannot_be_appended_rests_and_is_asked_for_again(spoil: Callable[[bytes], bytes]) -> None:
    follower, _, script = following(filled=3)
    script.poll()
    script.answer(FetchRequest, fetch_answer(records=spoil(bytes(at(3, batch(), 5).buffer))))
    assert follower.log.log_end_offset == 3
    assert script.poll(BACKOFF_MS - 1) == []
    assert len(script.poll(1)) == 1


@pytest.mark.parametrize("failure", [Failure.DISCONNECTED, Failure.TIMED_OUT])
def test_a_leader_that_does_not_answer_is_left_alone_for_a_while(failure: Failure) -> None:
    _, _, script = following()
    script.poll()
    script.fail(FetchRequest, failure)
    assert script.poll(BACKOFF_MS - 1) == []
    assert len(script.poll(1)) == 1


def test_an_answer_to_a_question_of_an_older_epoch_is_dropped() -> None:
    follower, _, script = following()
    script.poll()
    follower.update(registration(leader=2, epoch=6, change=2), image(), 0)
    script.answer(FetchRequest, fetch_answer(records=at(0, batch(), 5).buffer, high_watermark=1))
    assert follower.log.log_end_offset == 0


def in_session(*answers: FetchResponse) -> FetchResponse:
    """The same partitions, answered in session 77."""
    return FetchResponse(session_id=77, responses=[topic for answer in answers for topic in answer.responses])


def named(script: Script) -> tuple[int, int, list[int], list[int]]:
    """(session id, epoch, offsets of the partitions named, partitions forgotten) of the fetch under way."""
    request = script.asked(FetchRequest)
    offsets = [part.fetch_offset for topic in request.topics for part in topic.partitions]
    forgotten = [number for topic in request.forgotten_topics_data for number in topic.partitions]
    return request.session_id, request.session_epoch, offsets, forgotten


def test_in_a_session_it_names_a_partition_whose_log_has_changed() -> None:
    follower, _, script = following(filled=3)
    script.poll()
    assert named(script) == (0, 0, [3], [])
    script.answer(FetchRequest, in_session(fetch_answer(high_watermark=3)))
    script.poll()
    assert named(script) == (77, 1, [], [])
    script.answer(FetchRequest, in_session())
    assert follower.log.high_watermark == 3
    script.poll()
    assert named(script) == (77, 2, [], [])
    script.answer(FetchRequest, in_session(fetch_answer(records=at(3, batch(), 5).buffer, high_watermark=3)))
    script.poll()
    assert named(script) == (77, 3, [4], [])


def test_a_partition_that_rests_is_forgotten_and_named_again() -> None:
    """The leader must not take it for one that has caught up."""
    _, fetcher, script = following(filled=3)
    other = Partition(1, TopicIdPartition(TOPIC_ID, PARTITION.topic, 1), open_log(), 1000, Tracer(1, Silence()))
    other.update(registration(leader=2, epoch=5), image(), 0)
    fetcher.add(other)
    script.poll()
    both = [fetch_answer(), fetch_answer(partition_index=1, error_code=ErrorCode.UNKNOWN_SERVER_ERROR)]
    script.answer(FetchRequest, in_session(*both))
    script.poll()
    assert named(script) == (77, 1, [], [1])
    script.answer(FetchRequest, in_session())
    script.poll(BACKOFF_MS)
    assert named(script) == (77, 2, [0], [])


@pytest.mark.parametrize(
    ("error", "session_id"),
    [(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0), (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 77)],
)
def test_a_leader_that_does_not_have_the_session_is_asked_for_everything_at_once(
    error: ErrorCode, session_id: int
) -> None:
    _, _, script = following(filled=3)
    script.poll()
    script.answer(FetchRequest, in_session(fetch_answer()))
    script.poll()
    script.answer(FetchRequest, FetchResponse(error_code=error, responses=[]))
    script.poll()
    assert named(script) == (session_id, 0, [3], [])
    script.answer(FetchRequest, FetchResponse(error_code=error, responses=[]))
    assert script.poll(BACKOFF_MS - 1) == [], "what names everything is refused for another reason"


def test_an_answer_that_was_dropped_is_given_again() -> None:
    """The leader would leave out the high watermark that it has told already."""
    follower, _, script = following(filled=3)
    script.poll()
    script.answer(FetchRequest, in_session(fetch_answer()))
    script.poll()
    follower.update(registration(leader=2, epoch=6, change=2), image(), 0)
    script.answer(FetchRequest, in_session(fetch_answer(high_watermark=3)))
    assert follower.log.high_watermark == 0
    script.poll()
    assert named(script) == (77, 0, [3], [])


def test_a_follower_that_is_behind_in_the_metadata_waits_for_them() -> None:
    follower, fetcher, script = following()
    script.poll()
    script.answer(FetchRequest, fetch_answer(error_code=ErrorCode.FENCED_LEADER_EPOCH))
    assert script.poll(600_000) == []
    fetcher.remove(follower)
    assert fetcher.is_idle
    fetcher.add(follower)
    assert len(script.poll()) == 1


def test_a_log_that_ends_before_the_leaders_begins_is_begun_anew_there() -> None:
    follower, _, script = following(filled=3)
    script.poll()
    script.answer(FetchRequest, fetch_answer(error_code=ErrorCode.OFFSET_OUT_OF_RANGE))
    script.poll()
    topic = ListOffsetsResponse.Topic
    part = topic.Partition(partition_index=0, offset=40, timestamp=-1)
    script.answer(ListOffsetsRequest, ListOffsetsResponse(topics=[topic(name="flights", partitions=[part])]))
    assert (follower.log.log_start_offset, follower.log.log_end_offset) == (40, 40)
    script.poll()
    assert script.asked(FetchRequest).topics[0].partitions[0].fetch_offset == 40


def test_a_log_without_records_that_ends_behind_the_leaders_is_begun_anew_there() -> None:
    """No record tells an epoch, so the leader cannot say where the logs part."""
    follower, _, script = following(filled=3)
    follower.log.truncate_fully(40)
    script.poll()
    assert script.asked(FetchRequest).topics[0].partitions[0].last_fetched_epoch == -1
    script.answer(FetchRequest, fetch_answer(error_code=ErrorCode.OFFSET_OUT_OF_RANGE))
    script.poll()
    script.answer(ListOffsetsRequest, begins_at(7))
    assert (follower.log.log_start_offset, follower.log.log_end_offset) == (7, 7)
    script.poll()
    assert script.asked(FetchRequest).topics[0].partitions[0].fetch_offset == 7


def begins_at(offset: int, error: ErrorCode = ErrorCode.NONE) -> ListOffsetsResponse:
    topic = ListOffsetsResponse.Topic
    part = topic.Partition(partition_index=0, offset=offset, timestamp=-1, error_code=error)
    return ListOffsetsResponse(topics=[topic(name="flights", partitions=[part])])


@pytest.mark.parametrize(
    "answer",
    [
        begins_at(3),
        begins_at(0),
        begins_at(40, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ListOffsetsResponse(topics=[]),
        Failure.DISCONNECTED,
    ],
)
def test_no_other_answer_lets_a_log_begin_anew(answer: Any) -> None:
    follower, _, script = following(filled=3)
    script.poll()
    script.answer(FetchRequest, fetch_answer(error_code=ErrorCode.OFFSET_OUT_OF_RANGE))
    script.poll()
    script.answer(ListOffsetsRequest, answer)
    assert (follower.log.log_start_offset, follower.log.log_end_offset) == (0, 3)


@pytest.mark.parametrize("offset", [0, -1, -5])
def test_nor_is_a_log_without_records_begun_where_no_log_begins(offset: int) -> None:
    follower, _, script = following(filled=0)
    script.poll()
    script.answer(FetchRequest, fetch_answer(error_code=ErrorCode.OFFSET_OUT_OF_RANGE))
    script.poll()
    script.answer(ListOffsetsRequest, begins_at(offset))
    assert (follower.log.log_start_offset, follower.log.log_end_offset, follower.log.truncations) == (0, 0, 0)


def test_nor_does_what_was_asked_in_an_older_epoch() -> None:
    follower, _, script = following(filled=3)
    script.poll()
    script.answer(FetchRequest, fetch_answer(error_code=ErrorCode.OFFSET_OUT_OF_RANGE))
    script.poll()
    follower.update(registration(leader=2, epoch=6, change=2), image(), 0)
    script.answer(ListOffsetsRequest, begins_at(40))
    assert (follower.log.log_start_offset, follower.log.log_end_offset) == (0, 3)


def test_nor_does_an_answer_that_comes_when_the_partition_is_not_followed_any_more() -> None:
    follower, fetcher, script = following(filled=3)
    script.poll()
    script.answer(FetchRequest, fetch_answer(error_code=ErrorCode.OFFSET_OUT_OF_RANGE))
    script.poll()
    fetcher.remove(follower)
    follower.log.abandon()
    script.answer(ListOffsetsRequest, begins_at(40))
    assert f"{0:020d}.log" in follower.log._filesystem.list(DIRECTORY)


def test_a_leader_that_does_not_say_where_the_logs_part_is_asked_again_later() -> None:
    follower, _, script = following(filled=3)
    script.poll()
    nowhere = FetchResponse.Topic.Partition.EpochEndOffset(epoch=4, end_offset=-5)
    script.answer(FetchRequest, fetch_answer(diverging_epoch=nowhere))
    assert follower.log.log_end_offset == 3
    assert script.poll(BACKOFF_MS - 1) == []
    assert len(script.poll(1)) == 1


def test_a_log_is_cut_where_it_is_damaged_if_that_comes_first() -> None:
    follower, _, script = following(filled=6)
    filesystem, path = follower.log._filesystem, f"{DIRECTORY}/{0:020d}.log"
    data = bytearray(filesystem.read(path))
    data[len(data) // 6 + MAGIC_OFFSET] ^= 1  # of the second of six batches
    filesystem.write(path, data)
    script.poll()
    diverging = FetchResponse.Topic.Partition.EpochEndOffset(epoch=4, end_offset=3)
    script.answer(FetchRequest, fetch_answer(diverging_epoch=diverging))
    assert follower.log.log_end_offset == 1
    assert len(script.poll()) == 1


@pytest.mark.parametrize(
    ("epoch", "end", "agreed"),
    [
        (4, 2, 2),  # the leader has less of it
        (4, 4, 3),  # the leader has more of it
        (6, 4, 4),
        (5, 2, 2),  # the leader has one more in between
        (5, 4, 3),
        (7, 4, 4),  # or one after all that is known here
        (3, 2, 0),  # or before
    ],
)
def test_a_log_of_two_epochs_is_cut_to_where_both_agree(epoch: int, end: int, agreed: int) -> None:
    follower, _, script = following(filled=3, epoch=7)
    for offset in (3, 4):
        follower.log.append_as_follower(at(offset, batch(), 6).buffer)
    script.poll()
    leaders = FetchResponse.Topic.Partition.EpochEndOffset(epoch=epoch, end_offset=end)
    script.answer(FetchRequest, fetch_answer(diverging_epoch=leaders))
    assert follower.log.log_end_offset == agreed


def test_a_follower_that_begins_anew_within_a_batch_begins_with_all_of_it() -> None:
    """The leader's log begins there since records were deleted from it, and a batch comes whole."""
    leader = open_log()
    for count in (2, 10, 1, 1):
        leader.append_as_leader(batch(count), 4)
    leader.update_high_watermark(leader.log_end_offset)
    leader.increase_log_start(6)
    follower, _, script = following(0)
    for _ in range(9):
        script.poll(2 * BACKOFF_MS)
        if script.has_asked(ListOffsetsRequest):
            script.answer(ListOffsetsRequest, begins_at(6))
        elif script.asked(FetchRequest).topics[0].partitions[0].fetch_offset < 6:
            script.answer(FetchRequest, fetch_answer(error_code=ErrorCode.OFFSET_OUT_OF_RANGE))
        else:
            data = bytes_of(leader.read(6, 1 << 20, Isolation.LOG_END, at_least_one=True).records)
            script.answer(FetchRequest, fetch_answer(records=data, high_watermark=14, log_start_offset=6))
            break
    assert (follower.log.log_start_offset, follower.log.log_end_offset) == (6, 14)
    assert contents(follower.log) == data


def test_so_does_one_that_has_only_what_the_leader_has_deleted() -> None:
    """It followed a leader whose records no other replica has. The new one deleted its first records, and does not know
    any more of the epoch that would tell where the logs part."""
    leader = open_log()
    for count in (2, 10, 1, 1):
        leader.append_as_leader(batch(count), 5)
    leader.update_high_watermark(leader.log_end_offset)
    leader.increase_log_start(6)
    follower, _, script = following(filled=6)
    script.poll()
    assert script.asked(FetchRequest).topics[0].partitions[0].fetch_offset == 6
    data = bytes_of(leader.read(6, 1 << 20, Isolation.LOG_END, at_least_one=True).records)
    script.answer(FetchRequest, fetch_answer(records=data, high_watermark=14, log_start_offset=6))
    assert (follower.log.log_start_offset, follower.log.log_end_offset) == (6, 14)
    assert contents(follower.log) == data


@pytest.mark.parametrize(("leader_start", "is_told"), [(2, False), (3, True)])
def test_that_all_records_were_deleted_is_written_down_at_once(leader_start: int, is_told: bool) -> None:
    """A crash brings back what was deleted, until the next checkpoint. That must not be what no other replica ever
    had."""
    told: list[str] = []
    follower, _, script = following(filled=3, on_all_deleted=lambda: told.append("now"))
    for base_offset in (3, 4):
        script.poll()
        data = at(base_offset, batch(), 5).buffer
        script.answer(FetchRequest, fetch_answer(records=data, high_watermark=4, log_start_offset=leader_start))
    assert (follower.log.log_start_offset, follower.log.log_end_offset) == (leader_start, 5)
    assert told == ["now"] * is_told


def test_an_answer_about_a_partition_that_is_not_followed_any_more_is_dropped() -> None:
    follower, fetcher, script = following()
    script.poll()
    fetcher.remove(follower)
    script.answer(FetchRequest, fetch_answer(records=at(0, batch(), 5).buffer, high_watermark=1))
    assert follower.log.log_end_offset == 0


# --- the leader asks for another ISR ----------------------------------------------------------------------------------


class Asking:
    """A leader that wants replica 3 taken in, and the way to the controller."""

    def __init__(self) -> None:
        self.partition = partition(isr=(1, 2))
        append(self.partition)
        fetched(2, 1, self.partition)
        fetched(3, 1, self.partition)
        self.channel = ControllerChannel("alter-partition", lambda: Node(9, "c", 1), 1000)
        self.woken: list[Partition] = []
        self.timer = Timer()
        self.manager = AlterPartitionManager(1, lambda: 101, self.channel, self.woken.append, self.timer)
        proposal = self.partition.propose_expansion(3)
        assert proposal is not None
        self.proposal = proposal
        self.script = Script(self)
        self.manager.submit(proposal, self.script.now)
        self.script.poll()

    def poll(self, now: int) -> Poll:
        self.timer.expire(now)
        return merge([self.channel.poll(now), Poll(self.timer.deadline)])

    def answer(self, **fields: Any) -> None:
        topic = AlterPartitionResponse.Topic
        part = topic.Partition(
            partition_index=0, leader_id=1, leader_epoch=5, isr=[1, 2, 3], partition_epoch=2
        ).replace(**fields)
        response = AlterPartitionResponse(topics=[topic(topic_id=TOPIC_ID, partitions=[part])])
        self.script.answer(AlterPartitionRequest, response)


def test_the_leader_says_what_it_believes_and_takes_over_what_is_agreed() -> None:
    asking = Asking()
    asked = asking.script.asked(AlterPartitionRequest).topics[0].partitions[0]
    assert (asked.leader_epoch, asked.partition_epoch) == (5, 1)
    assert [(s.broker_id, s.broker_epoch) for s in asked.new_isr_with_epochs] == [(1, -1), (2, 102), (3, 103)]
    asking.answer()
    assert (asking.partition.isr_state.isr, asking.partition.partition_epoch) == ({1, 2, 3}, 2)
    assert not asking.partition.isr_state.is_in_flight


@pytest.mark.parametrize(
    ("error", "is_asked_again", "is_in_flight"),
    [
        (ErrorCode.INELIGIBLE_REPLICA, False, False),  # nothing has changed
        (ErrorCode.OPERATION_NOT_ATTEMPTED, False, False),
        (ErrorCode.INVALID_UPDATE_VERSION, False, True),  # the metadata log will tell
        (ErrorCode.FENCED_LEADER_EPOCH, False, True),
        (ErrorCode.INVALID_REQUEST, False, True),
        (ErrorCode.UNKNOWN_SERVER_ERROR, True, True),
        (ErrorCode.REQUEST_TIMED_OUT, True, True),
    ],
)
def test_what_follows_a_refusal(error: ErrorCode, is_asked_again: bool, is_in_flight: bool) -> None:
    asking = Asking()
    asking.answer(error_code=error)
    asking.script.poll(100)
    assert asking.script.has_asked(AlterPartitionRequest) is is_asked_again
    assert asking.partition.isr_state.is_in_flight is is_in_flight
    assert asking.partition.isr_state.isr == {1, 2}
    maximal = {1, 2, 3} if is_in_flight else {1, 2}
    assert asking.partition.isr_state.maximal == maximal, "who may have been taken in is waited for"


@pytest.mark.parametrize(
    "response",
    [
        AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH, topics=[]),
        AlterPartitionResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR, topics=[]),
        AlterPartitionResponse(topics=[]),
    ],
)
def test_a_refusal_as_a_whole_is_answered_after_a_pause(response: AlterPartitionResponse) -> None:
    """Also if another partition has something to ask meanwhile."""
    asking = Asking()
    for _ in range(3):
        asking.script.answer(AlterPartitionRequest, response)
        for waited_ms, is_asked in ((0, False), (49, False), (1, True)):
            asking.manager.submit(asking.proposal, asking.script.now + waited_ms)
            asking.script.poll(waited_ms)
            assert asking.script.has_asked(AlterPartitionRequest) is is_asked
    asking.answer()
    assert asking.partition.isr_state.isr == {1, 2, 3}
    assert asking.script.poll(1000) == []


def test_an_answer_that_never_came_is_asked_for_again_until_the_log_tells() -> None:
    asking = Asking()
    asking.script.poll(1000)
    asking.script.fail(AlterPartitionRequest, Failure.TIMED_OUT)
    asking.script.poll(100)
    assert asking.partition.isr_state.change is IsrChange.EXPANDING
    asking.script.poll(100)
    assert asking.script.has_asked(AlterPartitionRequest)
    asking.partition.update(registration(change=2), image(), 0)
    asking.answer(isr=[1, 2], partition_epoch=9)
    assert asking.partition.isr_state.isr == {1, 2, 3}, "the metadata log was faster"


# --- what a fetch looks at --------------------------------------------------------------------------------------------


class Following:
    """Broker 1 follows some partitions of broker 2, all in one session, and knows all that there is."""

    def __init__(self, partitions: int, quotas: ReplicationQuotas = UNLIMITED) -> None:
        follower, self.fetcher, self.script = following(quotas=quotas)
        self.partitions = [follower, *map(self.replica, range(1, partitions))]
        for each in self.partitions[1:]:
            self.fetcher.add(each)
        self.ask()
        self.answer(**{f"p{number}": {} for number in range(partitions)})
        self.ask()
        self.answer()

    @staticmethod
    def replica(number: int, epoch: int = 5) -> Partition:
        log = open_log()
        fill(log, 1, leader_epoch=4, count=1)
        made = Partition(1, TopicIdPartition(TOPIC_ID, PARTITION[0], number), log, 1000, Tracer(1, Silence()))
        made.update(registration(leader=2, epoch=epoch), image(), 0)
        return made

    def ask(self, after_ms: int = 0) -> tuple[dict[int, int], list[int]]:
        """The offsets of the partitions that the next fetch names, and the partitions that it forgets."""
        self.script.poll(after_ms)
        request = self.script.asked(FetchRequest)
        said = {part.partition: part.fetch_offset for topic in request.topics for part in topic.partitions}
        return said, [number for topic in request.forgotten_topics_data for number in topic.partitions]

    def answer(self, error: ErrorCode = ErrorCode.NONE, **fields: dict[str, Any]) -> None:
        """Answer the fetch with these partitions, `p7` is number 7."""
        topic = FetchResponse.Topic
        parts = [
            topic.Partition(partition_index=int(name[1:])).replace(**{"high_watermark": 0, **each})
            for name, each in fields.items()
        ]
        answer = FetchResponse(
            error_code=error, session_id=77, responses=[topic(topic_id=TOPIC_ID, partitions=parts)] if parts else []
        )
        self.script.answer(FetchRequest, answer)

    @property
    def loud(self) -> list[int]:
        return sorted(key.partition for key in self.fetcher.loud)


@pytest.mark.costly
def test_a_poll_looks_at_none_of_a_thousand_idle_partitions() -> None:
    many = Following(1000)
    assert len(many.fetcher.followed) == 1000 and not many.loud
    assert many.ask() == ({}, [])
    many.answer(p7={"records": at(1, batch(), 5).buffer})
    assert many.loud == [7]
    assert many.ask() == ({7: 2}, [])
    many.answer(p7={"high_watermark": 2})
    assert many.ask() == ({}, []) and not many.loud


def moved_log_start(few: Following) -> None:
    few.partitions[1].log.update_high_watermark(1)
    few.partitions[1].log.increase_log_start(1)
    few.fetcher.look_at(few.partitions[1])


def moved(few: Following) -> None:
    few.fetcher.remove(few.partitions[1])


def moved_and_back(few: Following) -> None:
    few.fetcher.remove(few.partitions[1])
    few.fetcher.add(few.replica(1))


def in_another_epoch(few: Following) -> None:
    few.fetcher.remove(few.partitions[1])
    few.partitions[1].update(registration(leader=2, epoch=6, change=2), image(), 0)
    few.fetcher.add(few.partitions[1])


ALL = {0: 0, 1: 1, 2: 1}
BEHIND = {"diverging_epoch": FetchResponse.Topic.Partition.EpochEndOffset(epoch=4, end_offset=0)}


@pytest.mark.parametrize(
    ("event", "answer", "asked", "forgotten"),
    [
        pytest.param(None, {}, {}, [], id="nothing has happened"),
        pytest.param(None, {"p1": {"records": at(1, batch(2), 5).buffer}}, {1: 3}, [], id="records have come"),
        pytest.param(None, {"p1": BEHIND}, {1: 0}, [], id="the log was truncated"),
        pytest.param(None, {"p1": {"high_watermark": 1}}, {}, [], id="what it has is committed"),
        pytest.param(None, {"p1": {"error_code": ErrorCode.UNKNOWN_SERVER_ERROR}}, {}, [1], id="an error: it rests"),
        pytest.param(None, {"p1": {"error_code": ErrorCode.FENCED_LEADER_EPOCH}}, {}, [1], id="a fenced leader epoch"),
        pytest.param(moved_log_start, {}, {1: 1}, [], id="the log begins later"),
        pytest.param(moved, {}, {}, [1], id="it is not followed any more"),
        pytest.param(moved_and_back, {}, {}, [], id="it is followed again: as before"),
        pytest.param(in_another_epoch, {}, {1: 1}, [], id="it is followed in another leader epoch"),
        pytest.param(None, {"error": ErrorCode.FETCH_SESSION_ID_NOT_FOUND}, ALL, [], id="the session is gone"),
        pytest.param(None, {"error": ErrorCode.INVALID_FETCH_SESSION_EPOCH}, ALL, [], id="the session has gone on"),
    ],
)
def test_a_fetch_says_what_has_changed_since_the_last_one(
    event: Callable[[Following], None] | None, answer: dict[str, Any], asked: dict[int, int], forgotten: list[int]
) -> None:
    few = Following(3)
    few.ask()
    if event is not None:
        event(few)
    few.answer(**answer)
    assert few.ask() == (asked, forgotten)


def test_a_partition_that_has_rested_is_asked_for_again_though_nothing_else_has_changed() -> None:
    few = Following(3)
    few.ask()
    few.answer(p1={"error_code": ErrorCode.UNKNOWN_SERVER_ERROR})
    assert few.ask() == ({}, [1])
    few.answer()
    assert few.ask(BACKOFF_MS - 1) == ({}, [])
    few.answer()
    assert few.ask(1) == ({1: 1}, [])


def test_a_log_that_begins_later_while_the_fetch_is_under_way_is_said_with_the_next_one() -> None:
    few = Following(3)
    few.ask()
    moved_log_start(few)
    few.answer(p0={})
    assert few.ask() == ({1: 1}, [])


def test_a_partition_that_lags_is_looked_at_again_for_the_throttle_may_hold_it_off() -> None:
    few = Following(3)
    few.ask()
    few.answer(p1={"high_watermark": 9})
    assert few.ask() == ({}, []) and few.loud == [1]
    few.answer()
    assert few.loud == [1]
