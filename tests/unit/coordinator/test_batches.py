"""What a coordinator decides in one turn goes into its partition as one batch, or all of it fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from pykraft.broker.coordination.coordinators import GROUP_TOPIC, InternalLog
from pykraft.common.core import FOREVER, Promise
from pykraft.common.errors import ConfigError, ErrorCode, KafkaError
from pykraft.coordinator.result import CoordinatorResult
from pykraft.coordinator.shard_context import State
from pykraft.coordinator.shard_writer import ADAPTIVE
from pykraft.protocol.messages.configs import DescribeConfigsRequest, ResourceType
from pykraft.protocol.messages.offsets import OffsetCommitRequest
from tests.harness.lone_node import LoneNode
from tests.unit.coordinator.sums import (
    COMMIT,
    COMMIT_TIMEOUT_MS,
    PRODUCER,
    UNREPLAYABLE,
    Coordinator,
    P,
    add,
    code,
    look,
    record,
)

NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER


# --- one batch a turn -------------------------------------------------------------------------------------------------


def test_the_writes_of_a_turn_are_one_batch_and_each_is_planned_on_those_before() -> None:
    sums = Coordinator()
    answers = [sums.write(add(number)) for number in (1, 10, 100)]
    assert sums.shard.value == 111 and sums.log.sizes == []
    sums.turn()
    assert sums.log.sizes == [3]
    assert [answer.value for answer in answers] == [1, 11, 111]
    sums.write(add(1_000))
    sums.turn()
    assert sums.log.sizes == [3, 1], "the next turn has its own batch"


def test_no_write_is_answered_before_its_batch_is_in_the_log() -> None:
    sums = Coordinator()
    lengths: list[int] = []
    for number in (1, 2):
        sums.write(add(number)).then(lambda _: lengths.append(sums.log.end_offset(P)))
    assert lengths == []
    sums.turn()
    assert lengths == [2, 2]


def test_a_response_without_records_waits_for_the_batch_that_its_plan_has_seen() -> None:
    sums = Coordinator()
    assert sums.write(look).value == 0, "nothing was decided: it is answered at once"
    sums.write(add(5))
    seen = sums.write(look)
    assert not seen.kept
    sums.turn()
    assert seen.value == 5


def test_the_answers_of_a_batch_come_together_once_it_is_committed() -> None:
    sums = Coordinator()
    sums.log.committed = 0
    first = [sums.write(add(1)), sums.write(add(1))]
    sums.turn()
    second = sums.write(add(1))
    sums.turn()
    sums.committed(1)
    assert not first[0].kept, "half of a batch is not committed"
    sums.committed(2)
    assert [answer.value for answer in first] == [1, 2] and not second.kept
    sums.turn(COMMIT_TIMEOUT_MS)
    assert code(second) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert sums.shard.value == 3, "it may still be committed"


def test_readers_do_not_see_an_open_batch() -> None:
    sums = Coordinator()
    sums.write(add(4))
    assert sums.runtime.read(P, lambda committed, live: (committed.value, live.value), sums.now).value == (0, 4)
    sums.turn()
    assert sums.runtime.read(P, lambda committed, live: committed.value, sums.now).value == 4


def test_what_follows_from_an_answer_is_written_with_the_next_batch() -> None:
    sums = Coordinator()

    def on_end(error: KafkaError | None, now: int) -> CoordinatorResult[None]:
        return CoordinatorResult(None, [record(sums.shard.value + 100)])

    sums.write(lambda shard: CoordinatorResult(1, [record(1)], on_end=on_end))
    sums.write(add(1))
    sums.turn()
    assert sums.log.sizes == [2, 1] and sums.shard.value == 102


def test_soft_state_changes_with_the_replay_so_that_the_next_plan_sees_it() -> None:
    sums = Coordinator()
    called: list[int] = []
    sums.write(lambda shard: CoordinatorResult(None, [record(1)], after=called.append))
    assert called == [sums.now]


# --- how long a batch is open -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("linger_ms", "open_ms", "sizes"), [(0, 0, [1, 1]), (ADAPTIVE, 0, [2]), (5, 5, [2]), (25, 25, [2])]
)
def test_a_batch_is_open_for_the_linger_time(linger_ms: int, open_ms: int, sizes: list[int]) -> None:
    sums = Coordinator(linger_ms)
    answers = [sums.write(add(1)), sums.write(add(1))]
    if open_ms:
        assert sums.runtime.deadline(sums.now) == sums.now + open_ms
        sums.turn(open_ms - 1)
        assert sums.log.sizes == [] and not any(answer.kept for answer in answers)
        sums.turn(1)
    else:
        sums.turn()
    assert sums.log.sizes == sizes and [answer.value for answer in answers] == [1, 2]
    assert sums.runtime.deadline(sums.now) == FOREVER


def test_a_request_after_which_nothing_waits_is_appended_at_once() -> None:
    sums = Coordinator()
    sums.rooms.more_waits = lambda: False
    assert sums.write(add(1)).value == 1 and sums.log.sizes == [1]
    sums.rooms.more_waits = lambda: True
    sums.write(add(1))
    sums.rooms.more_waits = lambda: False
    last = sums.write(add(1))
    assert not last.kept, "it joins the batch that is open"
    sums.turn()
    assert sums.log.sizes == [1, 2] and last.value == 3


def test_a_batch_is_closed_when_the_next_records_do_not_fit() -> None:
    sums = Coordinator()
    sums.log.most = 400
    answers = [sums.write(add(1)) for _ in range(9)]
    sums.turn()
    assert sum(sums.log.sizes) == 9 and 1 < len(sums.log.sizes) < 9
    assert [answer.value for answer in answers] == list(range(1, 10))


def test_records_that_no_batch_takes_fail_alone_and_before_they_are_replayed() -> None:
    sums = Coordinator()
    sums.log.most = 400
    before = sums.write(add(1))
    refused = sums.write(lambda shard: CoordinatorResult(None, [record(9, text="x" * 1_000)]))
    assert code(refused) is ErrorCode.UNKNOWN_SERVER_ERROR
    after = sums.write(add(1))
    sums.turn()
    assert (before.value, after.value, sums.shard.value) == (1, 2, 2)
    assert sums.log.sizes == [1, 1] and not sums.faults


def test_records_that_need_not_be_together_go_into_several_batches() -> None:
    sums = Coordinator()
    sums.log.most = 100_000
    records = [record(number, text="x" * 1_000) for number in range(200)]
    sums.write(add(1))
    done = sums.write(lambda shard: CoordinatorResult("done", records, is_atomic=False))
    sums.turn()
    assert done.value == "done" and sum(sums.log.sizes) == 201 and len(sums.log.sizes) >= 3


# --- transactions -----------------------------------------------------------------------------------------------------


def test_records_of_a_transaction_are_a_batch_of_their_own_after_what_was_decided_before() -> None:
    sums = Coordinator()
    first = sums.write(add(1))
    pending = sums.write(lambda shard: CoordinatorResult(None, [record(50)]), PRODUCER)
    second = sums.write(add(1))
    sums.turn()
    assert sums.log.sizes == [1, 1, 1]
    assert [batch.is_transactional for batch in sums.log.batches(P)] == [False, True, False]
    assert (first.value, pending.value, second.value) == (1, None, 2)


def test_a_marker_comes_after_what_was_decided_before() -> None:
    sums = Coordinator()
    sums.write(lambda shard: CoordinatorResult(None, [record(50)]), PRODUCER)
    sums.write(add(1))
    ended = sums.runtime.end_transaction(P, COMMIT, 1_000, sums.now)
    assert (sums.shard.value, sums.shard.settled) == (1, 50)
    sums.turn()
    assert [batch.is_control for batch in sums.log.batches(P)] == [False, False, True]
    assert ended.kept and ended.value is None
    assert_reloads_as_it_was(sums)


# --- a batch that fails -----------------------------------------------------------------------------------------------


def assert_reloads_as_it_was(sums: Coordinator) -> None:
    """A shard that is loaded from the log holds what this one does."""
    before = vars(sums.shard)
    sums.runtime.resign(P)
    sums.runtime.lead(P, 2, sums.now)
    sums.turn()
    assert vars(sums.shard) == {**before, "is_unloaded": False}


def fail_by_turn(sums: Coordinator) -> Promise[Any]:
    answer = sums.write(look)
    sums.turn()
    return answer


def fail_by_transaction(sums: Coordinator) -> Promise[Any]:
    return sums.write(lambda shard: CoordinatorResult(None, [record(50)]), PRODUCER)


def fail_by_size(sums: Coordinator) -> Promise[Any]:
    large = [record(number, text="x" * 30_000) for number in range(36)]
    return sums.write(lambda shard: CoordinatorResult(None, large))


class Refusal(NamedTuple):
    error: Exception
    told: ErrorCode


@pytest.mark.parametrize("closed_by", [fail_by_turn, fail_by_transaction, fail_by_size])
@pytest.mark.parametrize(
    "refusal",
    [
        Refusal(KafkaError(NOT_LEADER, "moved"), ErrorCode.NOT_COORDINATOR),
        Refusal(KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, "few"), ErrorCode.COORDINATOR_NOT_AVAILABLE),
        Refusal(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "disk"), ErrorCode.NOT_COORDINATOR),
        Refusal(KafkaError(ErrorCode.MESSAGE_TOO_LARGE, "large"), ErrorCode.UNKNOWN_SERVER_ERROR),
        Refusal(RuntimeError("a bug"), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
    ids=lambda refusal: refusal.told.name + ("" if isinstance(refusal.error, KafkaError) else " of a bug"),
)
def test_all_writes_of_a_refused_batch_fail_and_the_shard_holds_what_its_log_says(
    closed_by: Callable[[Coordinator], Promise[Any]], refusal: Refusal
) -> None:
    sums = Coordinator()
    sums.write(add(1))
    sums.turn()
    lost_shard = sums.shard
    lost = [sums.write(add(10)), sums.write(look)]
    sums.log.refuses = refusal.error
    last = closed_by(sums)
    assert {code(answer) for answer in (*lost, last)} == {refusal.told}
    assert lost_shard.is_unloaded and lost_shard.value >= 11
    sums.log.refuses = None
    assert sums.runtime.states[State.LOADING] or sums.runtime.active_partitions() == [P]
    sums.turn()
    assert sums.shard is not lost_shard and sums.shard.value == 1 and sums.log.sizes == [1]
    after = sums.write(add(1))
    sums.turn()
    assert after.value == 2
    assert_reloads_as_it_was(sums)


def test_a_marker_is_refused_with_the_batch_before_it() -> None:
    sums = Coordinator()
    lost = sums.write(add(10))
    sums.log.refuses = KafkaError(NOT_LEADER, "moved")
    assert code(sums.runtime.end_transaction(P, COMMIT, 1_000, sums.now)) is NOT_LEADER
    assert code(lost) is ErrorCode.NOT_COORDINATOR


def test_a_record_that_cannot_be_replayed_fails_its_batch_and_none_of_it_is_written() -> None:
    sums = Coordinator()
    lost = sums.write(add(1))
    bad = sums.write(lambda shard: CoordinatorResult(None, [record(2), record(UNREPLAYABLE)]))
    assert code(lost) is code(bad) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert sums.faults == ["coordinator-replay"]
    sums.turn()
    assert sums.log.sizes == [] and sums.shard.value == 0


def test_what_waits_for_an_earlier_batch_hears_that_the_coordinator_moved() -> None:
    sums = Coordinator()
    sums.log.committed = 0
    waits = sums.write(add(1))
    sums.turn()
    sums.write(add(1))
    sums.log.refuses = KafkaError(NOT_LEADER, "moved")
    sums.turn()
    assert code(waits) is ErrorCode.NOT_COORDINATOR


def test_an_open_batch_is_lost_with_the_leadership() -> None:
    sums = Coordinator()
    answers = [sums.write(add(1)), sums.write(look)]
    assert sums.runtime.has_waiting(P)
    sums.runtime.resign(P)
    assert {code(answer) for answer in answers} == {ErrorCode.NOT_COORDINATOR}
    sums.turn()
    assert sums.log.sizes == [] and sums.runtime.deadline(sums.now) == FOREVER


def test_what_is_not_written_yet_follows_the_log_to_the_state_of_the_shard() -> None:
    sums = Coordinator(25)
    sums.write(add(1))
    sums.turn(25)
    sums.write(add(10))
    assert [change.record.value.offset for change in sums.runtime.unwritten(P) if change.record] == [11]  # type: ignore[union-attr]
    sums.turn(25)
    assert not sums.runtime.unwritten(P)


# --- a whole node -----------------------------------------------------------------------------------------------------


def commit_of(group_id: str, offset: int) -> OffsetCommitRequest:
    topic = OffsetCommitRequest.Topic
    part = topic.Partition(partition_index=0, committed_offset=offset)
    return OffsetCommitRequest(group_id=group_id, topics=[topic(name="t", partitions=[part])])


def sizes(lone: LoneNode) -> list[int]:
    """How many records each batch of the groups' partition has."""
    return [batch.count for batch in InternalLog(GROUP_TOPIC, lone.broker.replicas, lone.clock).batches(0)]


@pytest.mark.parametrize(("linger_ms", "expected"), [("-1", [5]), ("0", [1] * 5), ("20", [5])])
def test_commits_of_one_turn_are_one_batch_and_are_answered_together(linger_ms: str, expected: list[int]) -> None:
    lone = LoneNode(group_coordinator_append_linger_ms=linger_ms)
    lone.create("t")
    lone.create(GROUP_TOPIC, cleanup_policy="compact")
    lone.run(100)
    answers = [lone.handle(commit_of(f"g{number}", number), version=9) for number in range(5)]
    assert all(answer.kept for answer in answers) is (linger_ms == "0")
    lone.run(20)
    assert sizes(lone) == expected
    for answer in answers:
        response: Any = answer.value.response
        assert response.topics[0].partitions[0].error_code is ErrorCode.NONE


def test_a_node_tells_how_long_its_coordinator_gathers_writes() -> None:
    name = "group.coordinator.append.linger.ms"
    resource = DescribeConfigsRequest.Resource
    asked = resource(resource_type=ResourceType.BROKER, resource_name="1", configuration_keys=[name])
    (answer,) = LoneNode().ask(DescribeConfigsRequest(resources=[asked])).results
    assert [(config.name, config.value, config.read_only) for config in answer.configs] == [(name, "-1", True)]


def test_a_linger_below_minus_one_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"group\.coordinator\.append\.linger\.ms"):
        LoneNode(group_coordinator_append_linger_ms="-2")
