"""A replica leads only in a log directory that its broker has; brokers tell where replicas are, and what failed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from pykraft.broker.replication.directory_assignments import DirectoryAssignments
from pykraft.broker.startup.controller_channel import ControllerChannel
from pykraft.common.core import finish
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import LOST_DIRECTORY, UNASSIGNED_DIRECTORY, ZERO_UUID, Node, OffsetAndEpoch, Uuid
from pykraft.controller.features import NEW_CLUSTER
from pykraft.metadata.delta import MetadataDelta
from pykraft.metadata.image import EMPTY_IMAGE, MetadataImage
from pykraft.metadata.versions import ELR_VERSION
from pykraft.protocol.messages.brokers import AssignReplicasToDirsRequest
from pykraft.protocol.messages.records import PartitionChangeRecord
from pykraft.storage.upkeep.log_directories import LogDirectories
from tests.harness.asking import elect
from tests.harness.controllers import NOBODY, SESSION_MS, ControllerScript, new_topic
from tests.harness.quorum import directory_id

OLD, NEW, OTHER = directory_id(101), directory_id(111), directory_id(112)
ELSEWHERE = directory_id(102)
DOES_WITHOUT_ELR = {**NEW_CLUSTER, ELR_VERSION: 0}


def cluster(*replicas: int, levels: dict[str, int] = DOES_WITHOUT_ELR) -> ControllerScript:
    """Brokers 1 and 2, and a topic "t" on these of them, the first of which leads."""
    script = ControllerScript(levels=levels)
    script.bring_up(1, 2)
    script.create(new_topic("t", assignment={0: replicas}))
    return script


def assign(script: ControllerScript, directory: Uuid, topic: Uuid | None = None, number: int = 0) -> ErrorCode:
    """Broker 1 says that its replica of the partition is in this directory; what is answered about it."""
    kind = AssignReplicasToDirsRequest.Directory
    topic_id = script.image.topic_ids["t"] if topic is None else topic
    named = kind.Topic(topic_id=topic_id, partitions=[kind.Topic.Partition(partition_index=number)])
    request = AssignReplicasToDirsRequest(
        broker_id=1, broker_epoch=script.image.brokers[1].epoch, directories=[kind(id=directory, topics=[named])]
    )
    (answer,) = script.answered(script.controller.answer(request, script.now)).directories
    assert answer.id == directory and answer.topics[0].topic_id == topic_id
    return ErrorCode.of(answer.topics[0].partitions[0].error_code)


def lose_the_disk(script: ControllerScript, *directories: Uuid) -> None:
    """Broker 1 comes back with these directories, which are empty."""
    script.live(2, SESSION_MS)
    script.register(1, life=2, log_dirs=list(directories))
    script.heartbeat(1)
    assert script.image.is_active(1)


def state(script: ControllerScript) -> tuple[int, tuple[int, ...]]:
    partition = script.partition("t")
    return partition.leader, partition.isr


@pytest.mark.parametrize("levels", [DOES_WITHOUT_ELR, {**NEW_CLUSTER, ELR_VERSION: 1}], ids=["ISR", "ELR"])
def test_the_last_replica_in_sync_does_not_lead_from_a_disk_that_was_replaced(levels: dict[str, int]) -> None:
    script = cluster(1, 2, levels=levels)
    assert script.alter("t", [1]).error_code == ErrorCode.NONE
    lose_the_disk(script, NEW)
    assert script.partition("t").leader == NOBODY, "broker 2 has records that the new disk has not"
    script.answered(script.controller.answer(elect(1, ("t", [0])), script.now))
    assert state(script) == (2, (2,))


def test_a_replica_on_a_new_disk_is_no_preferred_leader_before_its_broker_has_told() -> None:
    script = cluster(1, 2)
    lose_the_disk(script, NEW)
    assert state(script) == (2, (2,))
    assert script.alter("t", [2, 1]).error_code == ErrorCode.NONE
    answer = script.answered(script.controller.answer(elect(0, ("t", [0])), script.now))
    (partition,) = answer.replica_election_results[0].partition_result
    assert partition.error_code == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    assert assign(script, NEW) is ErrorCode.NONE
    assert script.partition("t").directories == (NEW, ELSEWHERE)
    script.answered(script.controller.answer(elect(0, ("t", [0])), script.now))
    assert state(script) == (1, (2, 1))


def test_the_last_replica_in_sync_leads_as_soon_as_its_broker_has_told_where_it_is() -> None:
    script = cluster(1, 2)
    lose_the_disk(script, NEW)
    assert script.alter("t", [2, 1]).error_code == ErrorCode.NONE
    script.live(1, SESSION_MS)
    assert state(script) == (NOBODY, (1,)), "broker 2 is silent, and broker 1 is said to be on its old disk"
    assert assign(script, NEW) is ErrorCode.NONE
    assert state(script) == (1, (1,))


def test_what_is_in_a_directory_that_fails_goes_to_others_and_the_rest_stays() -> None:
    script = cluster(2)
    script.live(2, SESSION_MS)
    script.register(1, life=2, log_dirs=[NEW, OTHER])
    script.heartbeat(1)
    script.create(new_topic("u", assignment={0: [1, 2], 1: [1, 2]}))
    assert script.partition("u").directories == (UNASSIGNED_DIRECTORY, ELSEWHERE)
    u = script.image.topic_ids["u"]
    assert assign(script, NEW, u, 0) is assign(script, OTHER, u, 1) is ErrorCode.NONE
    script.heartbeat(1, offline_log_dirs=[NEW])
    assert [(p.leader, p.isr) for p in (script.partition("u", n) for n in (0, 1))] == [(2, (2,)), (1, (1, 2))]
    assert script.image.brokers[1].directories == (OTHER,)
    end = script.image.provenance.offset
    script.heartbeat(1, offline_log_dirs=[NEW])
    assert script.image.provenance.offset == end, "it is known"


@pytest.mark.parametrize("directory", [LOST_DIRECTORY, OTHER])
def test_a_replica_in_a_directory_that_its_broker_does_not_have_leaves_the_isr(directory: Uuid) -> None:
    script = cluster(1, 2)
    assert assign(script, directory) is ErrorCode.NONE
    assert state(script) == (2, (2,))
    assert script.partition("t").directories == (directory, ELSEWHERE)


def test_what_is_told_twice_changes_nothing() -> None:
    script = cluster(1, 2)
    end = script.image.provenance.offset
    assert assign(script, OLD) is ErrorCode.NONE
    assert script.image.provenance.offset == end


def test_what_cannot_be_assigned_has_its_error() -> None:
    script = cluster(2)
    assert assign(script, OLD) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert assign(script, OLD, number=7) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert assign(script, OLD, ZERO_UUID) is ErrorCode.UNKNOWN_TOPIC_ID
    stale = AssignReplicasToDirsRequest(broker_id=1, broker_epoch=0, directories=[])
    with pytest.raises(KafkaError) as refused:
        script.answered(script.controller.answer(stale, script.now))
    assert refused.value.code is ErrorCode.STALE_BROKER_EPOCH
    older = ControllerScript(levels={"metadata.version": 16})
    with pytest.raises(KafkaError) as refused:
        older.answered(older.controller.answer(stale, older.now))
    assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION


# --- the broker's side ------------------------------------------------------------------------------------------------


def told(*images: MetadataImage, before: MetadataImage = EMPTY_IMAGE) -> Sequence[int]:
    """The partitions of the only topic of which broker 1, whose directory is NEW, tells after these images."""
    channel = ControllerChannel("directory-assignments", lambda: Node(2, "controller", 9093), 1000)
    assignments = DirectoryAssignments(1, LogDirectories([], {"/data": NEW}, paths=["/data"]), lambda: 7, channel)
    for image in images:
        finish(assignments.apply(MetadataDelta.between(before, image), image))
        before = image
    assignments.poll(0)
    requests = [outbound.request for outbound in channel.poll(0).requests]
    return [p.partition_index for request in requests for p in request.directories[0].topics[0].partitions]


def test_a_broker_tells_of_what_is_in_sync_or_has_no_other_replica() -> None:
    script = cluster(2)
    script.create(new_topic("u", assignment={0: [1, 2], 1: [1, 2], 2: [1, 2]}), new_topic("alone", assignment={0: [1]}))
    lose_the_disk(script, NEW)
    image, u = script.image, script.image.topic_ids["u"]
    of_u = _only(image, u)
    assert told(of_u) == []
    caught_up = MetadataDelta(of_u)
    caught_up.replay(PartitionChangeRecord(topic_id=u, partition_id=1, isr=[2, 1]))
    assert told(caught_up.apply(OffsetAndEpoch(99, 1)), before=of_u) == [1]
    assert told(_only(image, image.topic_ids["alone"])) == [0]


@pytest.mark.parametrize(("isr", "expected"), [([1], [0]), ([2], [])], ids=["stays in sync", "leaves the ISR"])
def test_a_replica_that_has_caught_up_is_told_of_also_when_its_leader_is_gone(
    isr: list[int], expected: list[int]
) -> None:
    script = cluster(2)
    script.create(new_topic("u", assignment={0: [2, 1]}))
    lose_the_disk(script, NEW)
    u = script.image.topic_ids["u"]
    fresh = _only(script.image, u)
    caught_up = _changed(fresh, PartitionChangeRecord(topic_id=u, partition_id=0, isr=[2, 1]))
    alone = _changed(caught_up, PartitionChangeRecord(topic_id=u, partition_id=0, isr=isr, leader=NOBODY))
    assert told(caught_up, alone, before=fresh) == expected
    assert told(alone, before=fresh) == [], "a replica that begins as the last one in sync may be empty"


def _changed(image: MetadataImage, record: PartitionChangeRecord) -> MetadataImage:
    delta = MetadataDelta(image)
    delta.replay(record)
    return delta.apply(OffsetAndEpoch(image.provenance.offset + 1, 1))


def _only(image: MetadataImage, topic_id: Uuid) -> MetadataImage:
    return replace(image, topics={topic_id: image.topics[topic_id]})
