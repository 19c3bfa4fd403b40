"""An exception is planted at one place after the other: the node goes on, answers the next request, and its journal has
one traceback and one line for each exception."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from pykraft.broker.coordination.coordinators import GROUP_TOPIC, GroupCoordinator
from pykraft.broker.coordination.transactions import TransactionCoordinator
from pykraft.broker.replication.replica_manager import ReplicaManager
from pykraft.common.core import Promise
from pykraft.common.errors import ErrorCode
from pykraft.common.fault_handler import FatalFault
from pykraft.common.metrics import OWN
from pykraft.common.prometheus import exposition
from pykraft.controller.heartbeats import BrokerHeartbeats
from pykraft.coordinator.group.shard import GroupShard
from pykraft.metadata.delta import MetadataDelta
from pykraft.protocol.messages.groups import ListGroupsRequest
from pykraft.protocol.messages.offsets import OffsetCommitRequest, OffsetFetchRequest
from tests.harness.lone_node import LoneNode

UNKNOWN = ErrorCode.UNKNOWN_SERVER_ERROR
RAISED_AT_A_PLACE = 2


class PlantedError(Exception):
    """What no code expects."""


class Raising:
    """Takes a method's place: raises as often as it is to, and then does what the method does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, times: int = RAISED_AT_A_PLACE) -> None:
        self.left = times
        original = getattr(owner, name)

        def method(*arguments: Any, **named: Any) -> Any:
            if self.left:
                self.left -= 1
                raise PlantedError(name)
            return original(*arguments, **named)

        monkeypatch.setattr(owner, name, method)


@pytest.fixture
def lone() -> Iterator[LoneNode]:
    node = LoneNode(survives_faults=True)
    node.create(GROUP_TOPIC, cleanup_policy="compact")
    node.create("t")
    node.run(200)
    assert commit(node) == ErrorCode.NONE
    yield node


def commit(lone: LoneNode, group_id: str = "g") -> ErrorCode:
    topic = OffsetCommitRequest.Topic
    part = topic.Partition(partition_index=0, committed_offset=7)
    request = OffsetCommitRequest(
        group_id=group_id, generation_id_or_member_epoch=-1, topics=[topic(name="t", partitions=[part])]
    )
    code: ErrorCode = lone.ask(request, version=8).topics[0].partitions[0].error_code
    return code


def fetch(lone: LoneNode) -> ErrorCode | int:
    group = OffsetFetchRequest.Group
    asked = group(group_id="g", topics=[group.Topic(name="t", partition_indexes=[0])])
    found = lone.ask(OffsetFetchRequest(groups=[asked]), version=9).groups[0]
    return ErrorCode.of(found.error_code) if found.error_code else found.topics[0].partitions[0].committed_offset


def reload(lone: LoneNode) -> None:
    runtime = lone.broker.groups.runtime
    runtime.lead(0, runtime._contexts[0].epoch + 1, lone.now)
    lone.run(10)


def create_two(lone: LoneNode) -> None:
    lone.create("u")
    lone.create("v")


def raise_planted(*_: object) -> float:
    raise PlantedError("planted")


def timers(lone: LoneNode) -> None:
    for _ in range(RAISED_AT_A_PLACE):
        lone.node.timer.at(lone.now + 1, raise_planted)
    ran: list[int] = []
    lone.node.timer.at(lone.now + 1, ran.append)
    lone.run(10)
    assert ran, "a timer after them runs"


def gauges(lone: LoneNode) -> None:
    lone.node.metrics.gauge("Planted", "gauge", raise_planted)
    lone.node.metrics.series("Planted", "series", raise_planted)  # type: ignore[arg-type]
    text = exposition(lone.node.metrics)
    assert "planted" not in text.replace("gauge", "").lower().split("pykraft_faulthandler")[0]
    assert "kafka_server_replicamanager_leadercount" in text


def refused_commits(lone: LoneNode) -> None:
    assert [commit(lone) for _ in range(RAISED_AT_A_PLACE)] == [UNKNOWN] * RAISED_AT_A_PLACE


def refused_fetches(lone: LoneNode) -> None:
    assert [fetch(lone) for _ in range(RAISED_AT_A_PLACE)] == [UNKNOWN] * RAISED_AT_A_PLACE


def answers_of_a_shard(lone: LoneNode) -> None:
    runtime = lone.broker.groups.runtime
    for _ in range(RAISED_AT_A_PLACE):
        promise: Promise[Any] = Promise()
        promise.then(raise_planted)  # type: ignore[arg-type]
        runtime._writer.keep(promise, None)


def room_of_the_node(kind: str) -> Callable[[LoneNode], None]:
    """The poll of one of the node's rooms raises."""

    def trigger(lone: LoneNode) -> None:
        room = next(room for room in lone.node.rooms if room.fault == kind)
        original = room.poll
        left = [PlantedError()] * RAISED_AT_A_PLACE

        def poll(now: int) -> Any:
            if left:
                raise left.pop()
            return original(now)

        room.poll = poll
        room.stay_awake()
        lone.run(3000)
        assert not left, "nothing came upon it"

    return trigger


class Place(NamedTuple):
    """Where an exception is planted (a method, or the trigger plants it itself), and what comes upon it."""

    kind: str
    planted: tuple[Any, str] | None
    trigger: Callable[[LoneNode], object]
    faults: int = RAISED_AT_A_PLACE


def wait(duration_ms: int) -> Callable[[LoneNode], object]:
    return lambda lone: lone.run(duration_ms)


PLACES = {
    "a timer": Place("timer", None, timers),
    "a gauge": Place("gauge", None, gauges),
    "a group's plan": Place("coordinator-plan", (GroupShard, "commit"), refused_commits),
    "a group's read": Place("coordinator-read", (GroupShard, "fetch"), refused_fetches),
    "the answer of a shard": Place("coordinator-answer", None, answers_of_a_shard),
    "the end of a shard": Place(
        "coordinator-unload", (GroupShard, "on_unloaded"), lambda lone: [reload(lone), reload(lone)]
    ),
    "the broker's lifecycle": Place("lifecycle", None, room_of_the_node("lifecycle")),
    "the broker's replicas": Place("replicas", None, room_of_the_node("replicas")),
    "the group coordinator": Place("groups", None, room_of_the_node("groups")),
    "the transaction coordinator": Place("transactions", None, room_of_the_node("transactions")),
    "the directories' assignments": Place("directories", None, room_of_the_node("directories")),
    "the controller": Place("controller", (BrokerHeartbeats, "stale"), wait(3000)),
    "the controller's registration": Place("registration", None, room_of_the_node("registration")),
    "the replicas' metadata": Place("metadata-apply", (ReplicaManager, "apply"), create_two),
    "the groups' metadata": Place("metadata-apply", (GroupCoordinator, "apply"), create_two),
    "the transactions' metadata": Place("metadata-apply", (TransactionCoordinator, "apply"), create_two),
}


def faults(lone: LoneNode) -> list[dict[str, Any]]:
    return [event.fields for event in lone.journal.events if event.name == "fault"]


@pytest.mark.costly
@pytest.mark.survives_faults
@pytest.mark.parametrize("name", PLACES)
def test_a_node_survives_an_exception_and_tells_it(name: str, lone: LoneNode, monkeypatch: pytest.MonkeyPatch) -> None:
    place = PLACES[name]
    if place.planted is not None:
        planted = Raising(monkeypatch, *place.planted)
        place.trigger(lone)
        assert not planted.left, "nothing came upon it"
    else:
        place.trigger(lone)
    assert commit(lone) == ErrorCode.NONE and fetch(lone) == 7
    assert lone.ask(ListGroupsRequest()).error_code == ErrorCode.NONE
    told = faults(lone)
    assert [fault["kind"] for fault in told] == [place.kind] * place.faults
    assert [fault["count"] for fault in told] == list(range(1, place.faults + 1))
    assert "PlantedError" in told[0]["traceback"] and not any("traceback" in fault for fault in told[1:])
    assert lone.node.metrics.value("FaultHandler", "FaultCount", OWN) == place.faults


@pytest.mark.survives_faults
@pytest.mark.parametrize(
    ("is_gathered", "groups"),
    [pytest.param(True, ["g", "i"], id="before its append"), pytest.param(False, ["g", "h", "i"], id="after it")],
)
def test_a_node_survives_a_replay_that_fails(
    is_gathered: bool, groups: list[str], lone: LoneNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write after which no request waits is appended first, so the log has it."""
    lone.node.rooms.more_waits = lambda: is_gathered
    original, left = GroupShard.replay, [1]

    def replay(self: GroupShard, record: Any, producer_id: int) -> None:
        is_new = getattr(record.key, "group", "g") in ("h", "i")
        if left[0] and is_new:
            left[0] -= 1
            raise PlantedError
        original(self, record, producer_id)

    monkeypatch.setattr(GroupShard, "replay", replay)
    assert commit(lone, "h") == UNKNOWN
    assert len(faults(lone)) == 1
    assert commit(lone, "i") == ErrorCode.NONE
    assert sorted(lone.broker.groups.runtime.active(0).groups) == groups


@pytest.mark.survives_faults
@pytest.mark.parametrize("method", ["replay", "on_loaded"])
def test_a_shard_whose_load_fails_is_loaded_by_the_next_leader(
    method: str, lone: LoneNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    Raising(monkeypatch, GroupShard, method, times=1)
    reload(lone)
    assert commit(lone) == ErrorCode.NOT_COORDINATOR and fetch(lone) == ErrorCode.NOT_COORDINATOR
    assert len(faults(lone)) == 1 and faults(lone)[0]["partition"] == 0
    reload(lone)
    assert commit(lone) == ErrorCode.NONE and fetch(lone) == 7


@pytest.mark.survives_faults
def test_a_metadata_record_that_a_controller_cannot_apply_stops_the_node(
    lone: LoneNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    Raising(monkeypatch, MetadataDelta, "replay")
    with pytest.raises(FatalFault, match="cannot apply"):
        lone.create("u")


@pytest.mark.survives_faults
def test_the_first_image_that_a_broker_cannot_apply_stops_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    Raising(monkeypatch, GroupCoordinator, "apply", times=1)
    with pytest.raises(PlantedError):
        LoneNode(survives_faults=True)


@pytest.mark.survives_faults
def test_after_a_change_that_it_cannot_apply_a_broker_counts_it_and_writes_no_snapshot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lone = LoneNode(survives_faults=True, metadata_log_max_record_bytes_between_snapshots="200")
    lone.create("a")
    lone.create("b")
    snapshots = lone.node.raft.replica.log.snapshots
    before = snapshots.newest_id()
    assert before is not None
    Raising(monkeypatch, ReplicaManager, "apply", times=1)
    for name in ("c", "d", "e"):
        lone.create(name)
    assert lone.node.metrics.value("broker-metadata-metrics", "metadata-apply-error-count") == 1
    assert snapshots.newest_id() == before


@pytest.mark.survives_faults
def test_a_task_that_is_done_from_time_to_time_is_done_again_after_it_has_failed(
    lone: LoneNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted = Raising(monkeypatch, type(lone.broker.logs), "checkpoint")
    lone.run(30_000)
    assert not planted.left and [fault["kind"] for fault in faults(lone)] == ["timer"] * RAISED_AT_A_PLACE
